//! The command line: output, exit codes, and errors that name the file and the reason.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fx(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fx"))
        .args(args)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Runs a command that does what it should, and returns what it wrote; a pipe gets no progress bar.
#[track_caller]
fn ok(args: &[&str]) -> String {
    let output = fx(args);
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(0), ""), "{args:?}");
    text(&output.stdout)
}

/// Runs a command that cannot do what it should, and returns the reason.
#[track_caller]
fn refused(args: &[&str]) -> String {
    let output = fx(args);
    let reason = text(&output.stderr);
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(2), ""), "{args:?}: {reason}");
    assert!(reason.starts_with("error: ") && !reason.contains("panicked"), "{args:?}: {reason}");
    assert!(!reason.contains("src/"), "a line of fx says nothing to a user: {args:?}: {reason}");
    reason
}

#[test]
fn errors_of_data_name_the_file_and_the_tensor() {
    let dir = folder("data");
    let program = dir.join("two.fx");
    let source = "graph main(%x: f32[n, 3], %y: f32[n]) {\n  %a = relu(%x)\n  %s = sum(%a, dim=1)\n  %z = add(%s, %y)\n  return %z\n}\n";
    std::fs::write(&program, source).unwrap();
    let f32s = |shape: &[usize]| fx::Tensor::from_vec(vec![0.5f32; shape.iter().product()], shape);
    let ints = fx::Tensor::new([1i64, 2]);
    type Case<'a> = (&'a str, &'a [(&'a str, fx::Tensor)], &'a str);
    let cases: [Case<'_>; 7] = [
        ("missing", &[("0.in0", f32s(&[2, 3]))], "there is no \"0.in1\" in IO"),
        (
            "size",
            &[("0.in0", f32s(&[2, 4])), ("0.in1", f32s(&[2]))],
            "expected f32[n, 3] for %x, got f32[2, 4]  in IO, 0.in0",
        ),
        (
            "rank",
            &[("0.in0", f32s(&[2, 3])), ("0.in1", f32s(&[2, 1]))],
            "expected f32[n] for %y, got f32[2, 1]  in IO, 0.in1",
        ),
        (
            "dtype",
            &[("0.in0", f32s(&[2, 3])), ("0.in1", ints)],
            "expected f32[n] for %y, got i64[2]  in IO, 0.in1",
        ),
        ("symbol", &[("0.in0", f32s(&[2, 3])), ("0.in1", f32s(&[5]))], "in IO, input set 0"),
        ("more", &[("0.in0", f32s(&[2, 3])), ("0.in1", f32s(&[2])), ("0.in2", f32s(&[2]))], "in IO, 0.in2"),
        ("empty", &[("in0", f32s(&[2, 3]))], "there is no input set in IO"),
    ];
    for (name, tensors, expected) in cases {
        let io = dir.join(format!("{name}.safetensors"));
        fx::weights::save(&io, tensors, &[]).unwrap();
        let (program, io) = (program.to_str().unwrap(), io.to_str().unwrap());
        for engine in ["eager", "interpreted", "fused"] {
            let reason = refused(&["run", program, "--io", io, "--engine", engine]);
            assert!(reason.contains(&expected.replace("IO", io)), "{engine}, {name}: {reason}");
        }
    }
    let (io, out) = (dir.join("size.safetensors"), dir.join("out"));
    let (program, io, out) = (program.to_str().unwrap(), io.to_str().unwrap(), out.to_str().unwrap());
    for args in [&["bench", program, "--io", io][..], &["bisect", program, "--io", io]] {
        assert!(refused(args).contains(&format!("in {io}, 0.in0")), "{args:?}");
    }
    assert!(refused(&["codegen", program, "--io", io, "-o", out]).contains(&format!("in {io}, 0.in0")));
    let io = dir.join("symbol.safetensors");
    assert!(refused(&["bench", program, "--io", io.to_str().unwrap()]).contains("symbol.safetensors"));

    // A result that is not the expected one, and its set.
    let io = dir.join("other.safetensors");
    let set = [("0.in0", f32s(&[2, 3])), ("0.in1", f32s(&[2])), ("0.out0", f32s(&[2]))];
    fx::weights::save(&io, &set, &[]).unwrap();
    let output = fx(&["run", program, "--io", io.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let place = format!("in {}, 0.out0", io.display());
    assert!(text(&output.stdout).contains(&place), "{}", text(&output.stdout));
}

#[track_caller]
fn json(text: &str) -> Vec<serde_json::Value> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Array(items)) => items,
        other => panic!("expected an array, got {other:?}"),
    }
}

/// Makes an empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

const TEXT: &str = "graph main(%x: f32[2, 3]) {\n  %y = relu(%x)\n  %z = sum(%y, dim=1)\n  return %z\n}\n";
const CHAIN: &str = "tests/data/zoo/chain.pt2";
const CHAIN_IO: &str = "tests/data/zoo/chain.io.safetensors";

#[test]
fn a_page_shows_a_program_and_passes() {
    let dir = folder("view");
    let (file, page) = (dir.join("small.fx"), dir.join("page.html"));
    std::fs::write(&file, TEXT).unwrap();
    let (file, page) = (file.to_str().unwrap(), page.to_str().unwrap());
    assert_eq!(ok(&["view", file, "-o", page]), "");
    let plain = std::fs::read_to_string(page).unwrap();
    assert!(plain.contains("<title>small · fx</title>") && plain.contains("\"steps\":[]"));
    assert_eq!(ok(&["view", file, "--passes", "normalize, shape_prop", "--out", page]), "");
    assert!(std::fs::read_to_string(page).unwrap().contains("shape_prop"));
    assert_eq!(ok(&["view", CHAIN, "-o", page, "--passes", "default"]), "");
    assert!(refused(&["view", file, "-o", page, "--passes", "normalise"]).contains("normalize"));
    assert!(refused(&["view", file, "-o", dir.join("no/page.html").to_str().unwrap()]).contains("page.html"));
}

#[test]
fn programs_are_shown_in_every_form() {
    let dir = folder("show");
    let path = dir.join("small.fx");
    std::fs::write(&path, TEXT).unwrap();
    let file = path.to_str().unwrap();
    let printed = ok(&["print", file]);
    assert!(printed.starts_with("graph main(%x: f32[2, 3]) {"), "{printed}");
    assert!(fx::Graph::parse(&printed, &fx::registry()).is_ok());
    assert!(ok(&["print", file, "--style", "torch"]).contains("call_function"));
    assert_eq!(ok(&["lint", file]), "");
    assert_eq!(json(&ok(&["lint", file, "--json"])), Vec::<serde_json::Value>::new());
    assert!(ok(&["dot", file]).starts_with("digraph"));
    assert!(ok(&["dot", file, "--svg"]).contains("<svg"));
    let table = ok(&["table", file]);
    assert!(table.contains("relu") && table.lines().count() >= 4, "{table}");
    let nodes = json(&ok(&["table", file, "--json"]));
    let names: Vec<&str> = nodes.iter().map(|node| node["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["x", "y", "z", "output"]);
    for command in ["print", "table", "lint", "dot"] {
        let shown = ok(&[command, CHAIN]);
        assert_eq!(shown.is_empty(), command == "lint", "{command}: {shown}");
    }
}

#[test]
fn programs_are_written_as_rust() {
    let dir = folder("codegen");
    let (code, weights) = (dir.join("model.rs"), dir.join("model.safetensors"));
    let (code, weights) = (code.to_str().unwrap(), weights.to_str().unwrap());
    let shown = ok(&["codegen", "--readable", CHAIN]);
    assert!(shown.contains("use fx::prelude::*;") && shown.contains("pub struct Model"), "{shown}");
    assert_eq!(ok(&["codegen", "--readable", CHAIN, "-o", code, "--save-weights", weights]), "");
    assert_eq!(std::fs::read_to_string(code).unwrap(), shown);
    assert!(fx::weights::Weights::open(weights).is_ok());
    assert!(refused(&["codegen", "--readable", "no such file"]).contains("no such file"));
    assert_eq!(fx(&["codegen", CHAIN]).status.code(), Some(2));
    let (krate, model) = (dir.join("crate"), dir.join("my model.fx"));
    let (krate, model) = (krate.to_str().unwrap(), model.to_str().unwrap());
    let told = refused(&["codegen", CHAIN, "--name", "my model", "-o", krate]);
    assert!(
        told.contains("\"my model\" cannot be the name of a crate") && told.contains("letters"),
        "{told}"
    );
    std::fs::copy(CHAIN, model).unwrap();
    assert_eq!(ok(&["codegen", model, "-o", krate]), "");
    let manifest = std::fs::read_to_string(dir.join("crate/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"my-model\""), "{manifest}");
}

#[test]
fn programs_run_on_inputs_of_a_file() {
    let shown = ok(&["run", CHAIN, "--io", CHAIN_IO]);
    assert!(shown.starts_with("set 0: agrees"), "{shown}");
    let sets = json(&ok(&["run", CHAIN, "--io", CHAIN_IO, "--json"]));
    assert!(sets.iter().all(|set| set["problem"].is_null() && set["error"].is_number()), "{sets:?}");

    // A program without inputs needs no file of them.
    let dir = folder("without_inputs");
    let path = dir.join("net.fx").to_str().unwrap().to_owned();
    std::fs::write(&path, "graph main() {\n  %a = arange(5)\n  %b = mul(%a, 2)\n  return %b\n}\n").unwrap();
    assert!(ok(&["run", &path]).contains("[0, 2, 4, 6, 8]"), "{}", ok(&["run", &path]));
    assert!(ok(&["run", &path, "--engine", "fused"]).contains("[0, 2, 4, 6, 8]"));
    let reason = refused(&["run", CHAIN]);
    assert!(reason.contains("the program takes %") && reason.contains("--io FILE"), "{reason}");

    // Other inputs than the program takes, and another engine than there is.
    let other = refused(&["run", CHAIN, "--io", "tests/data/zoo/missing.safetensors"]);
    assert!(other.contains("missing.safetensors"), "{other}");
    let engine = refused(&["run", CHAIN, "--io", CHAIN_IO, "--engine", "warp"]);
    assert!(engine.contains("\"warp\"") && engine.contains("the engines are"), "{engine}");
}

#[test]
fn text_runs_with_weights_and_outputs_are_saved() {
    use fx::weights::Weights;

    let dir = folder("weights");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let program = "graph main(%x: f32[2, 3]) {\n  %w: f32[3] = self.layer.scale\n  %n: f32[] = self.steps\n  \
        %y = mul(%x, %w)\n  %m = add(%n, 1)\n  %s = set_buffer(\"steps\", %m)\n  return (%y, [%m])\n}\n";
    std::fs::write(dir.join("net.fx"), program).unwrap();
    let save = |name: &str, tensors: &[(&str, fx::Tensor)]| {
        fx::weights::save(path(name), tensors, &[]).unwrap();
    };
    save(
        "w.safetensors",
        &[("layer.scale", fx::Tensor::new([1f32, 2.0, 3.0])), ("steps", fx::Tensor::new(4f32))],
    );
    save(
        "io.safetensors",
        &[("0.in0", fx::Tensor::new([[1f32; 3]; 2])), ("1.in0", fx::Tensor::new([[2f32; 3]; 2]))],
    );
    let (net, weights, io, out) =
        (path("net.fx"), path("w.safetensors"), path("io.safetensors"), path("out.safetensors"));
    let command = ["run", &net, "--weights", &weights, "--io", &io, "--save", &out];
    let shown = ok(&command);
    assert!(shown.contains("set 0") && shown.contains("set 1"), "{shown}");
    let saved = Weights::open(&out).unwrap();
    let data = |name: &str| saved.require(name).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(data("1.out0"), [2.0, 4.0, 6.0, 2.0, 4.0, 6.0]);
    // Each set starts from the buffers as they were.
    assert_eq!((data("0.out1"), data("1.out1")), (vec![5.0], vec![5.0]));
    assert!(!saved.contains("0.out2"));
    // What was saved is what another run is compared with.
    let both: Vec<(&str, fx::Tensor)> =
        ["0.out0", "0.out1"].map(|name| (name, saved.require(name).unwrap())).to_vec();
    save("both.safetensors", &[&both[..], &[("0.in0", fx::Tensor::new([[1f32; 3]; 2]))]].concat());
    assert!(
        ok(&["run", &net, "--weights", &weights, "--io", &path("both.safetensors")])
            .starts_with("set 0: agrees")
    );

    // Weights that are missing, of no use, or not where they should be.
    let reason = refused(&["run", &net, "--weights", &io, "--io", &io]);
    assert!(reason.contains("layer.scale"), "{reason}");
    assert!(!fx(&["run", &net, "--io", &io]).status.success());
    let reason = refused(&["run", CHAIN, "--weights", &weights, "--io", CHAIN_IO]);
    assert!(reason.contains("brings its own weights"), "{reason}");
    let reason = refused(&[
        "run",
        &net,
        "--weights",
        &weights,
        "--io",
        &io,
        "--save",
        &path("no/such/folder.safetensors"),
    ]);
    assert!(reason.contains("folder.safetensors"), "{reason}");
}

#[test]
fn a_wrong_output_fails_the_run_and_the_check() {
    let dir = folder("wrong");
    std::fs::copy(CHAIN, dir.join("chain.pt2")).unwrap();
    let io = dir.join("chain.io.safetensors");
    let mut bytes = std::fs::read(CHAIN_IO).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 0x40;
    std::fs::write(&io, &bytes).unwrap();
    let output = fx(&["run", CHAIN, "--io", io.to_str().unwrap()]);
    let checked = fx(&["check", dir.to_str().unwrap()]);
    for output in [&output, &checked] {
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stderr.is_empty(), "{output:?}");
    }
    assert!(text(&checked.stdout).trim_end().ends_with("0 passed, 1 failed"), "{checked:?}");
    let programs = json(&text(&fx(&["check", dir.to_str().unwrap(), "--json"]).stdout));
    assert_eq!(programs[0]["passed"], false);
}

#[test]
fn folders_of_programs_and_of_cases_are_checked() {
    let shown = ok(&["check", "tests/data/zoo"]);
    assert!(shown.trim_end().ends_with(", 0 failed"), "{shown}");
    let programs = json(&ok(&["check", "tests/data/zoo", "--json"]));
    assert!(programs.iter().all(|program| program["passed"] == true));

    // A folder of programs has no cases, an empty one nothing.
    let empty = folder("empty");
    for command in ["check", "conformance"] {
        let reason = refused(&[command, empty.to_str().unwrap()]);
        assert!(reason.contains(empty.to_str().unwrap()), "{reason}");
        let reason = refused(&[command, "tests/data/nowhere"]);
        assert!(reason.contains("tests/data/nowhere"), "{reason}");
    }
    let broken = folder("cases");
    std::fs::write(broken.join("relu.json"), "{").unwrap();
    std::fs::write(
        broken.join("relu.safetensors"),
        2u64.to_le_bytes().iter().chain(b"{}").copied().collect::<Vec<u8>>(),
    )
    .unwrap();
    let output = fx(&["conformance", broken.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stdout).trim_end().ends_with("0 passed, 1 failed"), "{output:?}");
}

#[test]
fn operations_are_listed_described_and_checked() {
    assert!(ok(&["ops"]).lines().any(|line| line == "matmul(x: tensor, other: tensor)"));
    assert!(ok(&["ops", "relu"]).starts_with("relu(x: operand)\n\n"));
    assert!(refused(&["ops", "rellu"]).contains("relu"));
    assert!(ok(&["ops", "relu", "--check"]).ends_with("1 passed, 0 failed\n"));
}

#[test]
fn broken_files_are_errors_that_name_them() {
    let dir = folder("broken");
    let archive = std::fs::read(CHAIN).unwrap();
    let contents: [(&str, &[u8]); 6] = [
        ("empty.fx", b""),
        ("garbage.fx", b"\xff\xfe\x00\x01 not a graph"),
        ("unfinished.fx", b"graph main(%x) {\n  %y = relu(%x\n"),
        ("unknown.fx", b"graph main(%x) {\n  %y = rellu(%x)\n  return %y\n}\n"),
        ("cut.pt2", &archive[..archive.len() / 2]),
        ("zip.pt2", b"PK\x03\x04 and nothing else"),
    ];
    for (name, bytes) in contents {
        let path = dir.join(name);
        std::fs::write(&path, bytes).unwrap();
        for command in ["print", "table", "lint", "dot"] {
            let reason = refused(&[command, path.to_str().unwrap()]);
            assert!(reason.contains(name), "{command}: {reason}");
        }
    }
    for path in [dir.to_str().unwrap(), "tests/data/nowhere.pt2"] {
        let reason = refused(&["print", path]);
        assert!(reason.contains(path), "{reason}");
    }
    let unknown = fx(&["prant", CHAIN]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("print"), "{unknown:?}");
}

const DOUBLE: &str = "graph main(%x: f32[n, 3]) -> f32[n, 3] {\n  %s: f32[n, 3] = sigmoid(%x)\n  %y: f32[n, 3] = mul(%s, %x)\n  %a: f32[n, 3] = neg(%y)\n  %b: f32[n, 3] = neg(%a)\n  return %b\n}\n";

#[test]
fn programs_are_changed_by_passes() {
    let dir = folder("pass");
    let path = dir.join("double.fx");
    std::fs::write(&path, DOUBLE).unwrap();
    let file = path.to_str().unwrap();
    let printed = ok(&["pass", "simplify,recognize", file, "--compare", "2"]);
    assert!(
        printed.starts_with("graph main(%x: f32[n, 3]) -> f32[n, 3] {\n  %silu: f32[n, 3] = silu(%x)"),
        "{printed}"
    );
    assert!(!printed.contains("neg("), "{printed}");
    let report = ok(&["pass", "default", file, "--report", "--compare", "2"]);
    assert!(
        report.contains("recognize") && report.contains("2 runs agree") && report.contains("silu x 1"),
        "{report}"
    );
    let diff = ok(&["pass", "recognize", file, "--diff"]);
    assert!(diff.contains("-  %s: f32[n, 3] = sigmoid(%x)\n") && diff.contains("+  %silu"), "{diff}");
    assert!(ok(&["pass", "list"]).contains("fold_batch_norm"));
    assert!(refused(&["pass", "simplfy", file]).contains("there is no pass \"simplfy\""));
    assert!(refused(&["pass", "cse(", file]).contains("expected the name of an option"));
    assert!(refused(&["pass", "cse"]).contains("no program is given"));
}

#[test]
fn programs_are_measured_and_fusion_is_explained() {
    let dir = folder("fusion");
    let path = dir.join("chain.fx");
    let text = "graph main(%x: f32[4, 8]) {\n  %a = exp(%x)\n  %b = softmax(%a, -1)\n  %t = transpose(%b, 0, 1)\n  \
                %c = tanh(%t)\n  %d = sum(%c, 0)\n  return %d\n}\n";
    std::fs::write(&path, text).unwrap();
    let file = path.to_str().unwrap();
    let expected = "kernels of several operations: 1, of 2 operations in all\n  %a %b\nedges between kernels: 3\n  \
                    %b -> %t: %t: it is a view\n  %t -> %c: %t: it is a view\n  %c -> %d: %d: it reduces so few columns that a kernel of its own is faster\n";
    let shown = ok(&["explain", "--fusion", file]);
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("steps, ") && shown.contains("  %d: evaluate sum"), "{shown}");
    let shown = ok(&["bench", file, "--samples", "1"]);
    assert!(shown.starts_with("eager ") && shown.contains("\nfused "), "{shown}");
    let as_crate = ok(&["bench", file, "--samples", "1", "--engine", "eager", "--crate"]);
    let line = as_crate.lines().last().unwrap();
    assert!(line.starts_with("crate ") && line.contains("a call, least "), "{as_crate}");
    assert!(ok(&["bench", file, "--samples", "1", "--profile"]).contains("%d: evaluate sum"));
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("profile.json");
    let trace = trace.to_str().unwrap();
    assert!(
        ok(&["bench", file, "--profile", "--chrome-trace", trace, "--engine", "eager"]).contains("%d: sum")
    );
    let events: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(trace).unwrap()).unwrap();
    assert!(events["traceEvents"].as_array().unwrap().iter().any(|event| event["name"] == "d"));
    assert!(refused(&["bench"]).contains("no program is given"));
    let unknown = fx(&["bench", file, "--engine", "none"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no engine \"none\""));

    // The worker of a driver: it answers line by line.
    let mut worker = Command::new(env!("CARGO_BIN_EXE_fx"))
        .args(["bench", "--worker"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut worker.stdin.take().unwrap(), b"load x /nowhere\ntime 1 1 1\nquit\n")
        .unwrap();
    let answers = String::from_utf8(worker.wait_with_output().unwrap().stdout).unwrap();
    assert!(answers.starts_with("no ") && answers.contains("\nno program is loaded\n"), "{answers}");
}

#[test]
fn rules_explain_where_they_match() {
    let dir = folder("explain");
    let path = dir.join("double.fx");
    std::fs::write(&path, DOUBLE).unwrap();
    let file = path.to_str().unwrap();
    let text = ok(&["explain", "neg_neg", file]);
    let expected = "neg_neg does not match %a: f32[n, 3] = neg(%y): expected a call of neg for %neg, found %y: f32[n, 3] = mul(%s, %x)  \
                    in %a: f32[n, 3] = neg(%y)\nneg_neg matches %b: f32[n, 3] = neg(%a)\n";
    assert_eq!(text, expected);
    assert!(ok(&["explain", "silu", file, "--node", "y"]).starts_with("silu matches %y"));
    let nowhere = fx(&["explain", "t_t", file]);
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(ok(&["explain", "list"]).contains("layer_norm_bias"));
    assert!(refused(&["explain", "neg_neg"]).contains("no program is given"));
    assert!(refused(&["explain", "neg", file]).contains("there is no rule \"neg\""));
}

#[test]
fn programs_are_compared_by_what_they_compute() {
    let dir = folder("diff");
    let write = |name: &str, text: &str| {
        std::fs::write(dir.join(name), text).unwrap();
        dir.join(name).to_str().unwrap().to_owned()
    };
    let a = write("a.fx", TEXT);
    let b = write("b.fx", &TEXT.replace("relu(%x)", "%x.relu()").replace("%y", "%other"));
    assert_eq!(ok(&["diff", &a, &b]), "the same: 4 nodes\n");
    let c = write("c.fx", &TEXT.replace("dim=1", "dim=0"));
    let output = fx(&["diff", &a, &c]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("1 changed, 0 removed, 0 added"), "{}", text(&output.stdout));
    assert!(refused(&["diff", &a, "missing.fx"]).contains("missing.fx"));
}

#[test]
fn passes_that_keep_results_are_not_guilty() {
    let dir = folder("bisect");
    let path = dir.join("small.fx");
    std::fs::write(&path, TEXT).unwrap();
    let file = path.to_str().unwrap();
    assert_eq!(ok(&["bisect", file, "--passes", "normalize, cse"]), "no pass changes the results\n");
    assert_eq!(ok(&["bisect", CHAIN, "--io", CHAIN_IO]), "no pass changes the results\n");
}

#[test]
fn random_programs_run_from_the_command_line() {
    let dir = folder("fuzz");
    let out = dir.to_str().unwrap();
    let shown = ok(&["fuzz", "--count", "5", "--passes", "normalize, cse, dead_code", "--out", out]);
    assert!(shown.starts_with("5 programs") && shown.ends_with("0 failures\n"), "{shown}");
    let shown = ok(&["fuzz", "--count", "3", "--rules", "--json", "--out", out]);
    let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((json["programs"].as_u64(), json["failures"].as_array().map(Vec::len)), (Some(3), Some(0)));
}

#[test]
fn programs_are_exported_and_torchscript_is_dumped() {
    let folder = folder("export");
    let [script, saved] = ["m.pt", "m.fx"].map(|name| folder.join(name).display().to_string());
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/zoo/mlp.pt2");
    ok(&["export", program, "--torchscript", &script, "--saved", &saved]);
    assert!(ok(&["dump", &script]).contains("torch.linear("));
    assert_eq!(ok(&["print", &saved]), ok(&["print", program]));
    assert!(refused(&["export", program]).contains("no format is given"));
    let reason = refused(&["print", &script]);
    assert!(reason.contains("nothing is said of the argument") && reason.contains("--input"), "{reason}");
    let graph = ok(&["print", &script, "--input", "input=f32[n, 20]"]);
    assert!(graph.contains("%input: f32[n, 20]") && graph.contains("linear("), "{graph}");
    let bad = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/torchscript/bad_global.pt");
    assert!(refused(&["dump", bad]).contains("os.system"));
}

#[test]
fn torchscript_is_checked_and_printed() {
    let folder = folder("script");
    let path = folder.join("f.py").display().to_string();
    std::fs::write(&path, "def f(x, n: int):\n    return x+n  # a comment\n").unwrap();
    assert_eq!(ok(&["script", &path]), "def f(x,\n    n: int):\n  return x + n\n");
    assert!(ok(&["script", &path, "--ir"]).contains("aten::add"));
    let shown = ok(&["script", &path, "--run", "f(torch.ones([2]), 3)"]);
    assert_eq!(shown, " 4\n 4\n[ CPUFloatType{2} ]\n");
    assert!(refused(&["script", &path, "--run", "f(1, 2)"]).contains("at <expression>:1:1"));
    std::fs::write(&path, "def f(x):\n    return x +\n").unwrap();
    assert!(refused(&["script", &path]).contains("f.py:2:"));
}

#[test]
fn torchscript_runs_as_a_graph_or_in_the_virtual_machine() {
    let data = |name: &str| format!("{}/tests/data/torchscript/{name}", env!("CARGO_MANIFEST_DIR"));
    let (mlp, io) = (data("tr_mlp.pt"), data("tr_mlp.io.safetensors"));
    let shown = ok(&["run", &mlp, "--io", &io]);
    assert_eq!(shown.matches("agrees").count(), 2, "{shown}");
    assert!(ok(&["summary", &mlp, "--example", &io]).contains("Linear"));
    assert_eq!(ok(&["run", &mlp, "--dry"]), "fx has all operators of the program\n");
    let state = data("sc_state.pt");
    let shown = ok(&["run", &state, "--call", "(self.forward(torch.ones([2, 3])), self.stats()[3])[1]"]);
    assert_eq!(shown, "[2]\n");
    let reason = refused(&["run", &state, "--call", "self.forward(1)"]);
    assert!(reason.contains("expected Tensor, got int"), "{reason}");
    assert!(refused(&["run", CHAIN, "--call", "1"]).contains("is no program of TorchScript"));
}

#[test]
fn passes_log_what_they_change_and_stop_at_a_limit() {
    let dir = folder("limit");
    let file = dir.join("twice.fx");
    let text = "graph main(%x: f32[2]) {\n  %a = add(%x, 1.0)\n  %b = add(%x, 1.0)\n  %c = add(%x, 1.0)\n  \
                %y = mul(%a, %b)\n  %z = mul(%y, %c)\n  return %z\n}\n";
    std::fs::write(&file, text).unwrap();
    let run = |variables: &[(&str, &str)]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fx"))
            .args(["pass", "cse", file.to_str().unwrap()])
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (_, printed, log) = run(&[("FX_LOG", "passes")]);
    assert_eq!(printed.matches("add(").count(), 1, "{printed}");
    assert!(log.starts_with("[passes] cse: 2 changes, 5 nodes of 7, "), "{log}");
    let (_, _, log) = run(&[("FX_LOG", "passes>>")]);
    assert!(log.contains("%b") && log.contains("\n  -") && log.contains("\n  +"), "{log}");

    let (_, printed, log) = run(&[("FX_OPT_LIMIT", "cse=1")]);
    assert_eq!(printed.matches("add(").count(), 2, "{printed}");
    assert!(log.starts_with("[limit] cse: FX_OPT_LIMIT allows no more; the last change was: "), "{log}");
    let (_, printed, _) = run(&[("FX_OPT_LIMIT", "cse=0,fuse=1")]);
    assert_eq!(printed.matches("add(").count(), 3, "{printed}");
    for (value, why) in [("cse", "\"cse\" is no pass with a number"), ("csse=1", "there is no pass \"csse\"")]
    {
        let (code, _, error) = run(&[("FX_OPT_LIMIT", value)]);
        assert_eq!(code, Some(2));
        assert!(error.contains(why), "{error}");
    }
}
