//! The house style, as far as a machine can check it: STYLE.md marks these rules with †.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The most lines of a file.
const LINES: usize = 800;
/// The most columns of a comment; rustfmt breaks code, but not comments.
const COLUMNS: usize = 115;
/// The most lines of the README.
const README: usize = 180;
/// Folders of text that fx did not write as source, or that a test compares byte for byte.
const SKIPPED: [&str; 6] = ["target", ".git", "tests/data", "tests/generated", "tests/ui", "examples/data"];

struct File {
    path: String,
    text: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files of the repository with this ending, by path.
fn files(ending: &str) -> Vec<File> {
    fn walk(dir: &Path, ending: &str, out: &mut Vec<File>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            let name = path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
            if SKIPPED.contains(&name.as_str()) || name.ends_with("/target") {
                continue;
            }
            if path.is_dir() {
                walk(&path, ending, out);
            } else if name.ends_with(ending) {
                out.push(File { text: std::fs::read_to_string(&path).unwrap(), path: name });
            }
        }
    }
    let mut out = Vec::new();
    walk(root(), ending, &mut out);
    out.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!out.is_empty());
    out
}

#[track_caller]
fn none(findings: Vec<String>, rule: &str) {
    assert!(findings.is_empty(), "{rule}:\n{}\n", findings.join("\n"));
}

/// Returns whether a file holds text of the crates that fx writes, which have the headings of rustdoc.
fn is_text_of_crates(path: &str) -> bool {
    ["kernels/", "runtime", "package/"].iter().any(|part| path.contains(&format!("standalone/{part}")))
}

/// Returns the text after `//`, `///` or `//!`, if the line is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.strip_prefix(['/', '!']).unwrap_or(text))
}

#[test]
fn crates_without_a_test_build_have_no_tests_inside() {
    let mut findings = Vec::new();
    for manifest in files("Cargo.toml") {
        let Some((_, lib)) = manifest.text.split_once("[lib]") else { continue };
        if lib.split("\n[").next().is_some_and(|lib| lib.contains("test = false")) {
            let src = manifest.path.replace("Cargo.toml", "src/");
            let has_tests = |file: &File| file.path.starts_with(&src) && file.text.contains("#[cfg(test)]");
            findings.extend(files(".rs").into_iter().filter(has_tests).map(|file| file.path));
        }
    }
    none(findings, "nothing would run these tests; they belong into `tests/it` of the crate");
}

#[test]
fn comments_are_not_too_wide() {
    let mut findings = Vec::new();
    for file in files(".rs").into_iter().filter(|file| !is_text_of_crates(&file.path)) {
        let mut in_code = false;
        for (i, line) in file.text.lines().enumerate() {
            let Some(text) = comment(line) else {
                in_code = false;
                continue;
            };
            if text.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            let width = line.chars().count();
            let is_table = text.trim_start().starts_with('|');
            if !in_code && !is_table && width > COLUMNS {
                findings.push(format!("{}:{}: {width} columns", file.path, i + 1));
            }
        }
    }
    none(findings, &format!("a comment has at most {COLUMNS} columns"));
}

#[test]
fn files_are_not_too_long() {
    let long = |file: &File| file.text.lines().count() > LINES;
    let findings = files(".rs").into_iter().filter(long).map(|file| file.path);
    none(findings.collect(), &format!("a file has at most {LINES} lines: find its second concept"));
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(readme <= README, "README.md has {readme} lines, more than {README}: `docs/` explains");
}

#[test]
fn folders_are_modules_in_one_style() {
    let files = files(".rs");
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut findings = Vec::new();
    for path in &paths {
        let folder = format!("{}/", path.strip_suffix(".rs").unwrap());
        let mut children = paths.range(folder.as_str()..).take_while(|child| child.starts_with(&folder));
        if children.any(|child| !child[folder.len()..].starts_with("tests")) {
            findings.push(format!("{path} is {folder}mod.rs"));
        }
    }
    none(findings, "a folder with children other than tests has a mod.rs");
}

/// Returns the text between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn paths_of_the_map_exist() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let is_path = |word: &&str| {
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        plain
            && (word.contains('/') && !word.starts_with("..")
                || word.ends_with(".rs")
                || word.ends_with(".md"))
    };
    let mut findings = Vec::new();
    for (i, line) in text.lines().enumerate() {
        // After a folder of this line, the files in it go by their names.
        let mut folder = root().to_owned();
        for path in quoted(line).filter(is_path) {
            let full = root().join(path);
            if full.is_dir() {
                folder = full;
            } else if !full.exists() && !folder.join(path).exists() {
                findings.push(format!("ARCHITECTURE.md:{}: {path}", i + 1));
            }
        }
    }
    none(
        findings,
        "a path in ARCHITECTURE.md begins at the root, or at a folder before it in its line, and exists",
    );
}

#[test]
fn links_of_documents_exist() {
    let mut findings = Vec::new();
    for file in files(".md") {
        let folder = Path::new(&file.path).parent().unwrap();
        for (i, line) in file.text.lines().enumerate() {
            for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = link.split('#').next().unwrap();
                if !link.contains("://") && !target.is_empty() && !root().join(folder).join(target).exists() {
                    findings.push(format!("{}:{}: {link}", file.path, i + 1));
                }
            }
        }
    }
    none(findings, "a link leads to a file");
}

#[test]
fn allowed_lints_have_reasons() {
    let mut findings = Vec::new();
    for file in files(".rs") {
        for attribute in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
            for (at, _) in file.text.match_indices(attribute) {
                let line = file.text[..at].lines().count();
                let end = file.text[at..].find(")]").map_or(file.text.len(), |end| at + end);
                let is_code = file.text[..at].lines().last().is_none_or(|start| start.trim().is_empty());
                if is_code && !is_text_of_crates(&file.path) && !file.text[at..end].contains("reason = ") {
                    findings.push(format!("{}:{line}: {attribute}", file.path));
                }
            }
        }
    }
    none(findings, "an allowed lint has a reason");
}

/// A public function, as far as its lines show.
struct Function {
    name: String,
    line: usize,
    docs: String,
    /// From the name to the body.
    signature: String,
}

/// Returns the functions that begin with `pub fn`, without those of tests and those whose name a macro makes.
fn public_functions(text: &str) -> Vec<Function> {
    let mut functions = Vec::new();
    let mut docs = String::new();
    let mut is_hidden = false;
    let mut lines = text.lines().enumerate();
    while let Some((i, line)) = lines.next() {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            docs.push_str(text);
            continue;
        }
        if line.starts_with("#[") {
            is_hidden |= line.starts_with("#[doc(hidden)]");
            if line == "#[cfg(test)]" && lines.clone().next().is_some_and(|(_, next)| next.ends_with('{')) {
                break;
            }
            continue;
        }
        let head = ["const ", "unsafe ", "async "].iter().fold(line, |line, word| {
            if line.starts_with(&format!("pub {word}fn ")) { &line[word.len()..] } else { line }
        });
        if let Some(at) = head.find("fn ").filter(|_| line.starts_with("pub ") && line.contains("fn ")) {
            let mut signature = head[at + 3..].to_owned();
            let is_pub_fn = ["pub fn ", "pub const fn ", "pub unsafe fn ", "pub async fn "];
            while !signature.ends_with(['{', ';', '}']) {
                let Some((_, next)) = lines.next() else { break };
                signature.push(' ');
                signature.push_str(next.trim());
            }
            let name: String = signature.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if is_pub_fn.iter().any(|start| line.starts_with(start)) && !is_hidden && !name.is_empty() {
                functions.push(Function { name, line: i + 1, docs: std::mem::take(&mut docs), signature });
            }
        }
        docs.clear();
        is_hidden = false;
    }
    functions
}

/// Returns whether a signature ends in `-> Result<..>`, of any crate.
fn returns_result(signature: &str) -> bool {
    let mut depth = 0;
    let mut result = "";
    for (i, c) in signature.char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '-' if depth == 0 && signature[i..].starts_with("->") => result = signature[i + 2..].trim(),
            _ => {}
        }
    }
    let path = result.split('<').next().unwrap_or_default();
    path.rsplit("::").next().is_some_and(|name| name.trim_end_matches([' ', '{']) == "Result")
}

#[test]
fn functions_that_may_fail_say_when() {
    let mut findings = Vec::new();
    for file in files(".rs") {
        let is_source = file.path.starts_with("src/") || file.path.contains("/src/");
        let is_public = !file.path.contains("/tests") && !file.path.starts_with("src/bin/");
        if !is_source || !is_public || is_text_of_crates(&file.path) || file.path.starts_with("examples/") {
            continue;
        }
        for function in public_functions(&file.text) {
            let says_when =
                function.docs.split_whitespace().any(|word| word.trim_end_matches(',') == "Fails");
            if returns_result(&function.signature) && !says_when {
                findings.push(format!("{}:{}: {}", file.path, function.line, function.name));
            }
        }
    }
    none(
        findings,
        "the docs of a public function that returns a Result have a sentence that begins with \"Fails\"",
    );
}

#[test]
fn signatures_are_read() {
    let source = "/// Reads.\n/// Fails never.\npub fn a<T>(\n    x: impl Fn(u8) -> Result<u8>,\n) -> fx::Result<T> {\n}\n\
                  pub fn b(x: impl Fn() -> Result<u8>) -> u8 {\n#[doc(hidden)]\npub fn c() -> Result<u8> {\npub(crate) fn d() -> Result<u8> {\n";
    let read: Vec<(String, bool, bool)> = public_functions(source)
        .into_iter()
        .map(|it| (it.name, returns_result(&it.signature), it.docs.contains("Fails")))
        .collect();
    assert_eq!(read, [("a".into(), true, true), ("b".into(), false, false)]);
}
