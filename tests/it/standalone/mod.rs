//! Stand-alone crates: they build without network and without another crate, and return what was recorded.
//!
//! The ordinary run builds small ones. `FX_CRATES=DIR cargo test --test it -- standalone --nocapture` writes,
//! builds and runs a crate for every program of the folder, `NAME.pt2` with `NAME.io.safetensors`, and for
//! the models of the examples.

mod archives;
mod draws;
mod loops;
mod random;
mod rows;
mod sizes;

use std::path::{Path, PathBuf};
use std::process::Command;

use fx::prelude::*;
use fx::standalone::Package;
use fx::{CrateOptions, Graph, GraphModule, InputSpec, Value};
use proc_macro2::{TokenStream, TokenTree};

use crate::models::zoo;
use zoo::digits_cnn::DigitsCnn;
use zoo::efficientnet_lite0::EfficientNetLite0;
use zoo::glassllm::{GlassLlm, LAYERS, no_past};
use zoo::minilm::MiniLm;
use zoo::silero_vad::SileroVad;

/// Makes an empty folder for one test.
pub(super) fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standalone").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Runs cargo on a crate that was written, as on a machine without network, with warnings as errors.
///
/// Each crate has a target folder of its own: cargo builds one program at a time in a folder, and the crates have
/// no dependency that they could share.
pub(crate) fn cargo(dir: &Path, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(args)
        .arg("--offline")
        .current_dir(dir)
        .env("CARGO_TARGET_DIR", dir.join("target"))
        .envs(["CARGO_PROFILE_DEV_DEBUG", "CARGO_INCREMENTAL"].map(|name| (name, "0")))
        .env("RUSTFLAGS", "-D warnings")
        .env("CARGO_TERM_COLOR", "never")
        .output()
        .unwrap();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}:\n{out}\n{errors}", dir.display());
    out.into_owned()
}

/// Crates that are compiled as modules of one program, which runs the test of each.
struct Crates {
    folder: PathBuf,
    program: String,
    n: usize,
}

impl Crates {
    fn new(folder: &Path) -> Crates {
        Crates { folder: folder.to_owned(), program: String::new(), n: 0 }
    }

    fn len(&self) -> usize {
        self.n
    }

    /// Adds a crate, whose name is that of its module.
    fn add(&mut self, package: &Package) {
        let name = package.name().replace('-', "_");
        let folder = self.folder.join(&name);
        package.write(&folder).unwrap();
        let single = folder.join("single.rs");
        std::fs::write(&single, package.single_file()).unwrap();
        let test = std::fs::read_to_string(folder.join("tests/recorded.rs")).unwrap();
        let test = test
            .replace(
                "concat!(env!(\"CARGO_MANIFEST_DIR\")",
                &format!("concat!({:?}", folder.display().to_string()),
            )
            .replace(&format!("use {name}::"), "use super::")
            .replace(&format!("{name}::"), "super::")
            .replacen("//!", "//", 1);
        self.program +=
            &format!("mod {name} {{\n    include!({single:?});\n    mod test {{\n{test}    }}\n}}\n");
        self.n += 1;
    }

    /// Compiles the program and runs the tests.
    fn run(self) {
        let source = self.folder.join("crates.rs");
        std::fs::write(&source, self.program).unwrap();
        crate::rustc::run_alone(&source, &["--test"]);
    }
}

/// Writes a crate, and builds and runs its test.
pub(crate) fn reproduces(gm: &GraphModule, name: &str, options: CrateOptions) -> PathBuf {
    let dir = folder(name);
    gm.to_package(&options.name(name)).unwrap().write(&dir).unwrap();
    assert!(cargo(&dir, &["test"]).contains("recorded_outputs ... ok"), "{name}");
    dir
}

fn digits() -> (GraphModule, Tensor) {
    let dir = zoo::data("digits");
    let model = DigitsCnn::load(&Weights::open(dir.join("model.safetensors")).unwrap()).unwrap();
    let images = Weights::open(dir.join("io.safetensors")).unwrap().require("images").unwrap();
    let gm = fx::trace(&model).input("image", "f32[batch, 1, 8, 8]").build().unwrap();
    (gm, images.to(DType::F32).unsqueeze(1) / 16)
}

#[test]
fn digits_cnn_as_a_crate() {
    let (gm, images) = digits();
    let set = |n: i64| [Value::from(&images.narrow(0, 3, n))];
    // Batches of several sizes, from one crate.
    let options = CrateOptions::new().record(&set(2)).record(&set(5)).record(&set(1));
    let dir = reproduces(&gm, "digits_cnn", options.clone());
    let shown = cargo(&dir, &["run", "--profile", "test"]);
    assert!(shown.contains("0 output: [2, 10]") && shown.contains("1 output: [5, 10]"), "{shown}");
    assert!(
        std::fs::read_to_string(dir.join("README.md"))
            .unwrap()
            .contains("| `image` | `f32[batch, 1, 8, 8]` |")
    );

    let files = |options: &CrateOptions| {
        let package = gm.to_package(options).unwrap();
        package.files().map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(files(&options), files(&options), "it is written twice in the same way");
    let error = std::fs::write(dir.join("Cargo.toml"), "[package]\n").map(|()| gm.to_crate(&dir));
    assert!(error.unwrap().unwrap_err().to_string().contains("was not written by fx"));
}

#[test]
fn digits_cnn_without_std() {
    let (gm, images) = digits();
    let options = CrateOptions::new().baked().record(&[Value::from(&images.narrow(0, 7, 1))]);
    let dir = reproduces(&gm, "digits_cnn_baked", options);
    let library = std::fs::read_to_string(dir.join("src/lib.rs")).unwrap();
    assert!(library.contains("#![no_std]\n#![forbid(unsafe_code)]"), "{library}");
    let targets = Command::new("rustup").args(["target", "list", "--installed"]).output();
    let targets =
        targets.map_or(String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
    for target in targets.lines().filter(|target| target.starts_with("wasm32") || target.starts_with("thumb"))
    {
        cargo(&dir, &["build", "--lib", "--target", target]);
    }
}

fx::pointwise! {
    /// Operations of a user.
    pub trait Own; pub static OWN;

    /// `x * x + 1`.
    square_plus_one(x) -> Float { real: x * x + 1.0 }
}

#[test]
fn operations_of_users_and_state() {
    #[derive(fx::Module)]
    struct Count {
        seen: fx::Buffer,
    }
    #[fx::forward]
    impl Count {
        fn forward(&self, x: &Tensor) -> Result<(Tensor, Tensor)> {
            let total = self.seen.get() + x;
            self.seen.set(&total)?;
            Ok((x.square_plus_one(), total))
        }
    }
    let model = Count { seen: fx::Buffer::new(Tensor::new([1.0f32, 2.0, 3.0])) };
    let gm = fx::trace(&model).input("x", "f32[3]").build().unwrap();
    let args = [Value::from(&Tensor::new([0.5f32, 1.0, -2.0]))];
    let dir = reproduces(&gm, "users_and_state", CrateOptions::new().record(&args));
    let readme = std::fs::read_to_string(dir.join("README.md")).unwrap();
    assert!(readme.contains("a call changes `seen`, which the next call reads"), "{readme}");
    std::fs::write(
        dir.join("tests/state.rs"),
        "use users_and_state::{Model, Tensor};\n#[test]\nfn state_is_kept() {\n    \
         let mut model = Model::load(\"model.safetensors\").unwrap();\n    let x = [1.0, 1.0, 1.0];\n    \
         model.forward(Tensor::new([3], &x)).unwrap();\n    let result = model.forward(Tensor::new([3], &x)).unwrap();\n    \
         assert_eq!(result.output_1.data, [3.0, 4.0, 5.0]);\n    \
         let error = model.forward(Tensor::new([2], &x[..2])).unwrap_err();\n    \
         assert_eq!(error.to_string(), \"the input x has size 2 along axis 0, expected 3\");\n    \
         let error = model.forward(Tensor::new([3], &x[..2])).unwrap_err();\n    \
         assert_eq!(error.to_string(), \"the input x has 2 elements, expected 3\");\n}\n",
    )
    .unwrap();
    cargo(&dir, &["test", "--test", "state"]);
}

#[test]
fn a_branch_and_look_ups() {
    let text = "graph main(%x: f32[4], %at: i64[3]) {
        %sum = sum(%x)
        %positive = gt(%sum, 0)
        %y = cond(%positive, @then, @otherwise, [%x])
        %taken = index_select(%y, 0, %at)
        return {\"all\": %y, \"taken\": %taken}
      }
      graph then(%x: f32[4]) { %y = exp(%x)  return %y }
      graph otherwise(%x: f32[4]) { %y = neg(%x)  %z = cumsum(%y, 0)  return %z }";
    let text = text
        .replace("  return", "\n return")
        .replace("{ %y", "{\n %y")
        .replace("  %z", "\n %z")
        .replace("return %y }", "return %y\n}")
        .replace("return %z }", "return %z\n}");
    let mut gm = GraphModule::new("branch", fx::parse(&text).unwrap());
    fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
    let set = |x: [f32; 4]| [Value::from(&Tensor::new(x)), Value::from(&Tensor::new([3i64, 0, 1]))];
    let options =
        CrateOptions::new().record(&set([1.0, -0.5, 2.0, 0.0])).record(&set([-1.0, -0.5, 0.3, 0.0]));
    let dir = reproduces(&gm, "branch", options);
    std::fs::write(
        dir.join("tests/position.rs"),
        "use branch::{Model, Tensor};\n#[test]\nfn a_position_that_does_not_exist() {\n    \
         let mut model = Model::load(\"model.safetensors\").unwrap();\n    \
         let error = model.forward(Tensor::new([4], &[1.0; 4]), Tensor::new([3], &[0, 4, 0])).unwrap_err();\n    \
         assert_eq!(error.to_string(), \"there is nothing at position 4\");\n}\n",
    )
    .unwrap();
    cargo(&dir, &["test", "--test", "position"]);
}

#[test]
fn a_loop_that_data_ends() {
    let gm = fx::trace(|x: &Tensor| {
        fx::while_loop(|x: &Tensor| x.sum((), false).lt(100), |x: Tensor| (&x + 1) * 2, x.clone())
    });
    let gm = gm.input("x", "f32[3]").build().unwrap();
    let set = |x: [f32; 3]| [Value::from(&Tensor::new(x))];
    let options = CrateOptions::new().record(&set([1.0, 0.0, 2.0])).record(&set([50.0, 51.0, 0.0]));
    reproduces(&gm, "while_loop", options);
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let gm = fx::trace(|x: &Tensor| {
        let (top, _) = x.topk(3, -1, true, true);
        (top, x.narrow(1, 1, 2).sum((), false), x.select(0, -1))
    });
    let gm = gm.input("x", "f32[n, m]").build().unwrap();
    let dir = folder("sizes");
    gm.to_package(&CrateOptions::new().name("sizes")).unwrap().write(&dir).unwrap();
    let test = r#"
        use sizes::{Error, Model, Tensor};

        #[test]
        fn small_ones() {
            let mut model = Model::load(concat!(env!("CARGO_MANIFEST_DIR"), "/model.safetensors")).unwrap();
            let mut call = |n: usize, m: usize| {
                let data = vec![1.0; n.saturating_mul(m).min(100)];
                let result = model.forward(Tensor::new([n, m], &data));
                result.map(|outputs| outputs.output_1.data[0]).map_err(|error| error.to_string())
            };
            assert_eq!(call(2, 3), Ok(4.0));
            assert_eq!(call(1, 3), Ok(2.0));
            let why = "these sizes do not fit the program: ";
            assert_eq!(call(2, 2), Err(format!("{why}m - 3 is negative")));
            assert_eq!(call(0, 5), Err(format!("{why}n - 1 is negative")));
            assert!(call(usize::MAX, 0).unwrap_err().contains("along axis 0"));
            assert!(matches!(model.forward(Tensor::new([9, 9], &[])), Err(Error::Length { .. })));
        }
    "#;
    std::fs::write(dir.join("tests/sizes.rs"), test).unwrap();
    assert!(cargo(&dir, &["test"]).contains("small_ones ... ok"));
}

#[test]
fn names_and_sizes_that_need_care() {
    // A keyword as the name, the name of a static as that of a weight, and the size (2n - 3) / 3 + 1.
    let text = "graph main(%x: f32[b, 2, n]) {\n %twice = cat([%x, %x], 2)\n %pooled = max_pool1d(%twice, 3)\n \
                %data = self.data\n %y = sub(%pooled, %data)\n %most = amax(%y, 0)\n return (%y, %most)\n}";
    let mut gm = GraphModule::new("match", Graph::new("main"));
    let data = fx::Parameter::new(Tensor::new([[1.0f32], [2.0]]));
    gm.set_attribute("data", fx::Attribute::Parameter(data)).unwrap();
    gm.set_graph(fx::parse(text).unwrap());
    fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
    let set = |b: usize, n: usize| {
        let x = (0..b * 2 * n).map(|i| (i * 37 % 11) as f32).collect();
        [Value::from(&Tensor::from_vec(x, &[b, 2, n]))]
    };
    let options = CrateOptions::new();
    let recorded = (2..7).fold(options.clone(), |options, n| options.record(&set(n - 1, n)));
    let dir = folder("match");
    gm.to_package(&recorded).unwrap().write(&dir).unwrap();
    assert!(std::fs::read_to_string(dir.join("Cargo.toml")).unwrap().contains("name = \"model-match\""));
    let sizes = "use model_match::{Model, Tensor};\n#[test]\nfn nothing_to_compare() {\n    \
                 let mut model = Model::load(\"model.safetensors\").unwrap();\n    \
                 let error = model.forward(Tensor::new([0, 2, 5], &[])).unwrap_err();\n    \
                 assert_eq!(error.to_string(), \"these sizes do not fit the program: b - 1 is negative\");\n    \
                 let error = model.forward(Tensor::new([1, 2, 1], &[1.0; 2])).unwrap_err();\n    \
                 assert_eq!(error.to_string(), \"these sizes do not fit the program: (2*n)//3 - 1 is negative\");\n}\n";
    std::fs::write(dir.join("tests/sizes.rs"), sizes).unwrap();
    cargo(&dir, &["test"]);
    let baked = folder("match_baked");
    gm.to_package(&options.fixed().baked().record(&set(2, 4))).unwrap().write(&baked).unwrap();
    assert!(cargo(&baked, &["test"]).contains("recorded_outputs ... ok"));
}

#[test]
fn sizes_without_bound_are_errors() {
    for body in ["relu(%x)", "sort(%x, -1)", "flip(%x, [0])", "roll(%x, [1], [0])", "tile(%x, [9, 9, 9])"] {
        let text = format!("graph main(%x: f32[1000000, 1000000, 1000]) {{\n %y = {body}\n return %y\n}}");
        let mut gm = GraphModule::new("large", fx::parse(&text).unwrap());
        let result = fx::pass::SHAPE_PROP.apply(&mut gm).and_then(|_| gm.to_package(&CrateOptions::new()));
        assert!(result.is_err(), "{body}");
    }
}

#[test]
fn a_name_that_no_crate_can_have_is_an_error() {
    let gm = fx::trace(|x: &Tensor| x * 2).input("x", "f32[2]").build().unwrap();
    let package = |name: &str| gm.to_package(&CrateOptions::new().name(name));
    for name in ["twice", "_twice", "Twice-2_b"] {
        assert_eq!(package(name).unwrap().name(), name);
    }
    let refused = |name: &str| {
        let error = package(name).unwrap_err();
        format!("{}\n  help: {}\n", error.message(), error.advice().unwrap_or_default())
    };
    let long = "x".repeat(65);
    let names = ["", "my model", "größe", "2fast", "-x", "_-", "match", "Self", "proc-macro", &long];
    expect_test::expect![[r#"
        "" cannot be the name of a crate: it is empty
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "x"
        "my model" cannot be the name of a crate: it has other characters than letters, digits, `-` and `_`
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "my-model"
        "größe" cannot be the name of a crate: it has other characters than letters, digits, `-` and `_`
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "gr-e"
        "2fast" cannot be the name of a crate: it does not begin with a letter or `_`
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "model-2fast"
        "-x" cannot be the name of a crate: it does not begin with a letter or `_`
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "x"
        "_-" cannot be the name of a crate: it has neither a letter nor a digit
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "x"
        "match" cannot be the name of a crate: it is a keyword of Rust
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "model-match"
        "Self" cannot be the name of a crate: it is a keyword of Rust
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "model-self"
        "proc-macro" cannot be the name of a crate: it is that of a crate of Rust
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "model-proc-macro"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" cannot be the name of a crate: it is too long
          help: a name has up to 64 letters, digits, `-` and `_`, begins with a letter or `_`, and is no keyword, such as "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    "#]].assert_eq(&names.map(refused).concat());
    let named = |text: &str| gm.to_package(&CrateOptions::new().named_after(text)).unwrap().name().to_owned();
    assert_eq!(
        ["my model", "2fast", "match", ""].map(named),
        ["my-model", "model-2fast", "model-match", "x"]
    );
}

#[test]
fn a_function_of_the_user_takes_the_place_of_an_operation() {
    let gm = fx::trace(|x: &Tensor| fx::linalg_det(x).exp()).input("x", "f32[2, 2]").build().unwrap();
    let args = [Value::from(&Tensor::new([[1.0f32, 2.0], [0.5, 3.0]]))];
    let options =
        CrateOptions::new().name("own").record(&args).operation(fx::linalg_det::OP, "crate::own::det");
    let dir = folder("own");
    gm.to_package(&options).unwrap().write(&dir).unwrap();
    let own = "pub fn det((x, [_, n]): (&[f32], [usize; 2]), out: &mut [f32]) {\n    out[0] = x[0] * x[n + 1] - x[1] * x[n];\n}\n";
    std::fs::write(dir.join("src/own.rs"), own).unwrap();
    let library = std::fs::read_to_string(dir.join("src/lib.rs")).unwrap();
    std::fs::write(dir.join("src/lib.rs"), library.replace("mod error;", "mod error;\nmod own;")).unwrap();
    assert!(cargo(&dir, &["test"]).contains("recorded_outputs ... ok"));
}

#[test]
fn an_operation_with_code_of_the_user_is_not_decomposed() {
    let f = |x: &Tensor, y: &Tensor| fx::kl_div(x, y) + fx::soft_margin_loss(x, y);
    let gm = fx::trace(f).input("x", "f32[4]").input("y", "f32[4]").build().unwrap();
    let options = CrateOptions::new().name("own_loss").operation(fx::kl_div::OP, "crate::own::divergence");
    let package = gm.to_package(&options).unwrap();
    let (_, model) = package.files().find(|(path, _)| *path == "src/model.rs").unwrap();
    let model = String::from_utf8_lossy(model);
    assert!(model.contains("crate::own::divergence("), "{model}");
    assert!(!model.contains("soft_margin_loss("), "the other one is composed: {model}");
}

#[test]
fn all_that_cannot_be_written_is_named() {
    let step = |x: &Tensor| -> (Tensor, Tensor) {
        let (counts, _) = fx::histogram(x, 5);
        (counts, fx::call!(fx::cumulative_trapezoid(x.relu())))
    };
    let gm = fx::trace(step).input("x", "f32[3, 3]").build().unwrap();
    let dir = folder("refused");
    let error = gm.to_crate(dir.join("crate")).unwrap_err().to_string();
    assert!(error.contains("2 of the nodes cannot be written"), "{error}");
    assert!(
        error.contains("= histogram: ")
            && error.contains("= cumulative_trapezoid: ")
            && error.contains("standalone/mod.rs:"),
        "{error}"
    );
    assert!(!dir.join("crate").exists());
}

/// Names that would do harm if they were code.
pub(crate) const HOSTILE: [&str; 7] = [
    "\"; std::process::exit(1); //",
    "x\nstd::process::exit(1);\n",
    "*/ std::process::exit(1) /*",
    "\"#\"## ; std::process::exit(1)",
    "fn",
    "\u{202e}\u{2028}\u{feff}\\{}{{}}'\"\0\r",
    "self",
];

/// Asserts that a file has a path without harm, and no identifier of [`HOSTILE`] if it is Rust.
pub(crate) fn assert_inert(path: &str, bytes: &[u8]) {
    fn idents(tokens: TokenStream, found: &mut Vec<String>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => idents(group.stream(), found),
                TokenTree::Ident(ident) => found.push(ident.to_string()),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    assert!(path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b)), "{path}");
    if path.ends_with(".rs") {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.lines().all(|line| line.len() < 25_000), "{path}");
        let mut found = Vec::new();
        idents(text.parse().unwrap(), &mut found);
        assert!(!found.iter().any(|ident| ident == "process" || ident == "exit"), "{path}");
    }
}

#[test]
fn names_are_no_code() {
    let mut graph = Graph::new("main");
    let mut last = graph.placeholder("x").unwrap();
    let mut gm = GraphModule::new(&HOSTILE.concat(), Graph::new("main"));
    let long = "y".repeat(10_000);
    let mut results = Vec::new();
    for (i, text) in HOSTILE.iter().copied().chain([long.as_str()]).enumerate() {
        let path = if i < HOSTILE.len() { format!("part.{i}") } else { long.clone() };
        let parameter = fx::Parameter::new(Tensor::new([1.0f32, 2.0]));
        gm.set_attribute(&path, fx::Attribute::Parameter(parameter)).unwrap();
        let weight = graph.get_attr(&path).unwrap();
        last = graph.call_function(fx::sub::OP, [fx::Arg::Leaf(last), fx::Arg::Leaf(weight)]).unwrap();
        let meta = graph.meta_mut(last).unwrap();
        meta.source = Some(fx::SourceLoc::new(text, i as u32, 1));
        meta.add_provenance(fx::Provenance { pass: text.into(), from: vec![text.into()] });
        results.push((text.to_owned(), fx::Arg::Leaf(last)));
    }
    graph.set_output(fx::Arg::dict(results)).unwrap();
    gm.set_graph(graph);
    gm.propagate_types(&["f32[2]".parse::<fx::TensorType>().unwrap().into()]).unwrap();
    let args = [Value::from(&Tensor::new([0.5f32, 1.5]))];
    let options = CrateOptions::new().record(&args);
    let package = gm.to_package(&options).unwrap();
    package.files().for_each(|(path, bytes)| assert_inert(path, bytes));
    let dir = folder("hostile");
    package.write(&dir).unwrap();
    assert!(cargo(&dir, &["test"]).contains("recorded_outputs ... ok"));
}

#[test]
fn a_build_script_includes_the_code() {
    let dir = folder("included");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/build_script/model.pt2");
    fx::build::emit_to(program, &CrateOptions::new(), &dir).unwrap();
    let main = "mod model {\n    include!(\"model.rs\");\n}\nuse model::{Model, Tensor, safetensors::File};\n\
                const WEIGHTS: &[u8] = include_bytes!(\"model.safetensors\");\nfn main() {\n    \
                let mut model = Model::from_file(&File::from_bytes(WEIGHTS.to_vec()).unwrap()).unwrap();\n    \
                let result = model.forward(Tensor::new([2, 20], &[0.5; 40])).unwrap();\n    \
                assert!((result.data.iter().sum::<f32>() - 2.0).abs() < 1e-5);\n    println!(\"{:?}\", result.shape);\n}\n";
    std::fs::create_dir_all(dir.join("src")).unwrap();
    for file in ["model.rs", "model.safetensors"] {
        std::fs::rename(dir.join(file), dir.join("src").join(file)).unwrap();
    }
    std::fs::write(dir.join("src/main.rs"), main).unwrap();
    let manifest = "[package]\nname = \"included\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n";
    std::fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    assert_eq!(cargo(&dir, &["run"]).trim(), "[2, 5]");
}

#[test]
fn the_command_line_writes_a_crate() {
    let dir = folder("cli");
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_fx")).arg("codegen").args(args).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zoo");
    let [program, io] =
        ["chain.pt2", "chain.io.safetensors"].map(|name| zoo.join(name).display().to_string());
    let out = dir.join("crate").display().to_string();
    assert_eq!(run(&[&program, "-o", &out, "--name", "my-chain", "--io", &io]), (Some(0), String::new()));
    assert!(std::fs::read_to_string(dir.join("crate/Cargo.toml")).unwrap().contains("name = \"my-chain\""));
    assert!(cargo(&dir.join("crate"), &["test"]).contains("recorded_outputs ... ok"));
    let (code, reason) = run(&["no such file", "-o", &out]);
    assert!(code == Some(2) && reason.contains("no such file"), "{reason}");
}

/// Returns the models of the examples, with arguments; those that do not come with the repository are in
/// `FX_MODELS`.
fn models() -> Vec<(&'static str, GraphModule, Vec<Value>)> {
    let open = |dir: PathBuf| {
        [dir.join("model.safetensors"), dir.join("io.safetensors")].map(|file| Weights::open(file).unwrap())
    };
    let [weights, io] = open(zoo::data("silero_vad"));
    let state: InputSpec = ("f32[batch, 128]", "f32[batch, 128]").into();
    let silero = SileroVad::load(&weights).unwrap();
    let silero = fx::trace(&silero).input("window", "f32[batch, 576]").input("state", state).build().unwrap();
    let zeros = Tensor::from_vec(vec![0f32; 128], &[1, 128]);
    let window = Value::from(&io.require("windows").unwrap().narrow(0, 20, 1));
    let mut models = vec![("silero_vad", silero, vec![window, (zeros.clone(), zeros).to_value()])];

    let [weights, io] = open(zoo::data("glassllm"));
    let cache = ("f32[1, 2, past, 32]", "f32[1, 2, past, 32]");
    let glassllm = GlassLlm::load(&weights).unwrap();
    let past = InputSpec::from(vec![cache; LAYERS]);
    let glassllm =
        fx::trace(&glassllm).input("tokens", "i64[1, length]").input("past", past).build().unwrap();
    let passage = Value::from(&io.require("passage_ids").unwrap());
    models.push(("glassllm", glassllm, vec![passage, no_past().to_value()]));

    let large = |name: &str| {
        let dir = Path::new(&std::env::var_os("FX_MODELS")?).join(name);
        dir.join("model.safetensors").is_file().then(|| open(dir))
    };
    if let Some([weights, io]) = large("efficientnet_lite0") {
        let model = EfficientNetLite0::load(&weights).unwrap();
        let gm = fx::trace(&model).input("image", "f32[batch, 3, 224, 224]").build().unwrap();
        models.push((
            "efficientnet_lite0",
            gm,
            vec![Value::from(&io.require("input").unwrap().narrow(0, 0, 1))],
        ));
    }
    if let Some([weights, io]) = large("minilm") {
        let model = MiniLm::load(&weights).unwrap();
        let names = ["input_ids", "attention_mask", "token_type_ids"];
        let spec = |name| (name, InputSpec::from("i64[batch, length]"));
        let trace = names
            .map(spec)
            .into_iter()
            .fold(fx::trace(&model), |trace, (name, spec)| trace.input(name, spec));
        let args = names.map(|name| Value::from(&io.require(name).unwrap()));
        models.push(("minilm", trace.build().unwrap(), args.to_vec()));
    }
    models
}

#[test]
#[allow(clippy::print_stdout, reason = "whoever asks for the long run reads it")]
fn every_program_as_a_crate() {
    let Some(dir) = std::env::var_os("FX_CRATES").map(PathBuf::from) else {
        crate::skipped(
            "no folder of programs was compiled as crates",
            "set FX_CRATES to one, such as tests/data/zoo",
        );
        return;
    };
    let mut programs = models();
    let files = fx::check::files(&dir).unwrap();
    let mut failed = Vec::new();
    let mut attempt = |name: &str, run: &mut dyn FnMut()| {
        let started = std::time::Instant::now();
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
            Ok(()) => println!("{name}  passed  {:.1} s", started.elapsed().as_secs_f64()),
            Err(_) => failed.push(name.to_owned()),
        }
    };
    for (name, gm, args) in &mut programs {
        attempt(name, &mut || _ = reproduces(gm, name, CrateOptions::new().record(args)));
    }
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        attempt(&name, &mut || {
            let gm = fx::import::pt2(&file).unwrap();
            let io = Weights::open(file.with_extension("io.safetensors")).unwrap();
            let options = CrateOptions::new().io(&gm, &io).unwrap();
            reproduces(&gm, &name, options);
        });
    }
    assert!(failed.is_empty(), "{failed:?}");
}
