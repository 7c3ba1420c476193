//! Programs that use fx, compiled by rustc against the library that these tests use. No package is built anew.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// Returns a command that compiles a program of this edition in which the crate `fx` is known.
pub(crate) fn rustc() -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let library = &*LIBRARY;
    let dependencies = library.parent().expect("a library is in a folder").join("deps");
    let search = |folder: &Path| format!("dependency={}", folder.display());
    command
        .args(["--edition=2024", "--color=never", "--diagnostic-width=140"])
        .arg("--extern")
        .arg(format!("fx={}", library.display()))
        .args(["-L", &search(&dependencies)])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

/// Compiles a program that needs nothing but `std` beside its source, and runs it.
pub(crate) fn run_alone(source: &Path, args: &[&str]) {
    let binary = source.with_extension("");
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition=2024", "--cap-lints=allow"]).args(args).arg(source).arg("-o").arg(&binary);
    for command in [&mut compiler, &mut Command::new(&binary)] {
        let output = command.output().expect("a program runs");
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(output.status.success(), "{}: {}", source.display(), text.concat());
    }
}

/// The features of the root package with which these tests were compiled.
const FEATURES: [(&str, bool); 4] = [
    ("cli", cfg!(feature = "cli")),
    ("linalg", cfg!(feature = "linalg")),
    ("fft", cfg!(feature = "fft")),
    ("import", cfg!(feature = "import")),
];

/// The library `fx`. Cargo knows its name, and has just built it for these tests.
static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
    let test = std::env::current_exe().expect("a test knows its path");
    let [profile_folder, target] =
        [2, 3].map(|level| test.ancestors().nth(level).expect("cargo writes tests to target/<profile>/deps"));
    let profile = match profile_folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let features: Vec<_> = FEATURES.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    let output = Command::new(env!("CARGO"))
        .args(["build", "--lib", "--package", "tensor-fx", "--offline", "--message-format=json"])
        .args(["--profile", profile, "--no-default-features", "--features", &features.join(",")])
        .arg("--target-dir")
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let messages = String::from_utf8(output.stdout).expect("cargo prints UTF-8");
    messages
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("cargo prints JSON"))
        .filter(|message| message["target"]["name"] == "fx")
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| file.extension().is_some_and(|extension| extension == "rlib"))
        .expect("cargo names the library")
});
