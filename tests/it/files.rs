//! Text files: a command, a graph, and the expected output, exact and blessed (`UPDATE_EXPECT=1`).
//!
//! ```text
//! //! run                                   or: print, lint, pass: PIPELINE, rule: NAME
//! graph main(%x: f32[2]) { … }
//! //! =>
//! main(f32[2] 1 2) == f32[2] 2 4            for run; arguments are separated by `;`
//! ```
//! `print` parses and prints, and parses and prints that again; `lint` gives one line a violation; `run`
//! calls the graph, the graph printed and parsed, the graph traced again, and the graph with types
//! propagated, which must agree bit for bit. `pass` runs a pipeline, `rule` applies a rule until it no longer
//! matches; both compare runs on inputs made from the types, and attributes that a graph reads get values
//! made from theirs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fx::prelude::*;
use fx::{Arg, Array, Graph, GraphModule, Scalar, Stored, TensorType, Value};

const SEPARATOR: &str = "//! =>\n";

fn files(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fx").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ext| ext == "fx"));
    files.sort();
    assert!(!files.is_empty(), "no files in {}", dir.display());
    files
}

/// Checks every file of a folder, or blesses it; `run` gets what stands after the command, the source and
/// what is expected.
fn check(folder: &str, run: impl Fn(&str, &str, &str) -> String) {
    let mut failures = String::new();
    for path in files(folder) {
        let text = std::fs::read_to_string(&path).unwrap();
        let (input, expected) = text.split_once(SEPARATOR).unwrap_or((&text, ""));
        let (command, source) = input.split_once('\n').unwrap();
        let rest =
            command.strip_prefix(&format!("//! {folder}")).unwrap_or_else(|| panic!("{}", path.display()));
        let got = run(rest.trim_start_matches(':').trim(), source, expected);
        if got != expected {
            if std::env::var_os("UPDATE_EXPECT").is_some() {
                std::fs::write(&path, format!("{input}{SEPARATOR}{got}")).unwrap();
            } else {
                writeln!(failures, "{}:\n--- expected\n{expected}--- got\n{got}", path.display()).unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "\n{failures}\nread it, then bless with UPDATE_EXPECT=1");
}

fn parse(source: &str) -> Result<Graph> {
    Graph::parse(source, &fx::registry())
}

#[test]
fn print() {
    check("print", |_, source, _| match parse(source) {
        Ok(graph) => {
            let text = graph.to_text();
            assert_eq!(parse(&text).unwrap(), graph);
            text
        }
        Err(error) => format!("{error}\n"),
    });
}

#[test]
fn lint() {
    check("lint", |_, source, _| match parse(source) {
        Ok(graph) => {
            GraphModule::new("M", graph).lint().iter().map(|violation| format!("{violation}\n")).collect()
        }
        Err(error) => format!("{error}\n"),
    });
}

#[test]
fn run() {
    check("run", |_, source, expected| {
        let graph = parse(source).unwrap_or_else(|error| panic!("{error}\n{source}"));
        let gm = GraphModule::new("M", graph.clone());
        let parsed = GraphModule::new("M", parse(&graph.to_text()).unwrap());
        let traced = fx::symbolic_trace(&gm);
        let mut typed = gm.clone();
        let any: Vec<fx::TypeTree> = graph.placeholders().iter().map(|_| Arg::Leaf(fx::Type::Any)).collect();
        typed.propagate_types(&any).unwrap();
        let mut out = String::new();
        for line in expected.lines() {
            let call = line.split(" == ").next().unwrap();
            let args: Vec<Value> = arguments(call);
            let show = |result: Result<Value>| match result {
                Ok(value) => show(&value),
                Err(error) => format!("error: {}", error.message()),
            };
            let result = show(gm.call_values(&args));
            assert_eq!(result, show(parsed.call_values(&args)), "parsed: {call}");
            assert_eq!(result, show(typed.call_values(&args)), "typed: {call}");
            // Traced again without specs, it takes tensors of any shape.
            let are_tensors = args.iter().all(|arg| matches!(arg, Arg::Leaf(_)));
            if let (Ok(traced), true) = (&traced, are_tensors && !result.starts_with("error")) {
                assert_eq!(result, show(traced.call_values(&args)), "traced again: {call}");
            }
            writeln!(out, "{call} == {result}").unwrap();
        }
        out
    });
}

/// Reads a graph and gives its attributes values made from the types of the nodes that read them; those
/// called `running_..` are buffers, variances are positive.
fn module(source: &str) -> GraphModule {
    let graph = parse(source).unwrap_or_else(|error| panic!("{error}\n{source}"));
    let mut gm = GraphModule::new("M", graph);
    for (seed, id) in gm.graph().find_nodes(fx::OpCode::GetAttr, None).into_iter().enumerate() {
        let node = gm.graph().node(id).unwrap();
        let path = node.target().path().unwrap().clone();
        let ty = node.ty().unwrap_or_else(|| panic!("{path} has no type")).clone();
        let mut inputs = Graph::new("inputs");
        let input = inputs.placeholder("x").unwrap();
        inputs.meta_mut(input).unwrap().ty = Some(std::sync::Arc::new(ty));
        let inputs = GraphModule::new("inputs", inputs);
        let Arg::Leaf(mut value) = fx::pass::sample_inputs(&inputs, 1000 + seed as u64).unwrap().remove(0)
        else {
            panic!()
        };
        if path.ends_with("var") {
            value = value.square() + 0.5;
        }
        let attribute = match path.rsplit('.').next().unwrap() {
            name if name.starts_with("running") => fx::Attribute::Buffer(Buffer::new(value)),
            name if name.starts_with("constant") => fx::Attribute::Constant(value),
            _ => fx::Attribute::Parameter(Parameter::new(value)),
        };
        gm.set_attribute(&path, attribute).unwrap();
    }
    gm
}

/// Runs a pipeline on a graph, and compares five runs.
fn passed(passes: &fx::Passes, source: &str) -> String {
    let mut gm = module(source);
    match passes.clone().compare_runs(5, 11).run(&mut gm) {
        Ok(report) => {
            assert!(report.passes.iter().all(|pass| pass.n_runs == 5), "{report}");
            format!("{}", gm.graph())
        }
        Err(error) => format!("error: {error}\n"),
    }
}

#[test]
fn pass() {
    check("pass", |pipeline, source, _| {
        passed(&fx::Passes::parse(pipeline, &fx::pass::all()).unwrap(), source)
    });
}

#[test]
fn rule() {
    check("rule", |name, source, _| {
        let has = |table: &[fx::rewrite::RuleDef]| table.iter().any(|rule| rule.name == name);
        let pass = match (has(fx::rules::ALGEBRA), has(fx::rules::STABLE)) {
            (true, _) => "simplify",
            (_, true) => "stabilize",
            _ => "recognize",
        };
        let text = format!("shape_prop, {pass}(rule={name}), dead_code");
        passed(&fx::Passes::parse(&text, &fx::pass::all()).unwrap(), source)
    });
}

/// Every rule has a file of its name in which it is applied, and every pass one that names it.
#[test]
fn every_rule_and_pass_has_a_file() {
    let stem = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let rules: Vec<String> = files("rule").iter().map(stem).collect();
    let missing: Vec<&str> = fx::rules::all()
        .map(|rule| rule.name)
        .filter(|name| !rules.iter().any(|file| file == name))
        .collect();
    assert!(missing.is_empty(), "rules without a file in tests/fx/rule: {missing:?}");
    let commands: Vec<String> =
        files("pass").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let first = |text: &String| text.lines().next().unwrap().to_owned();
    let commands: String = commands.iter().map(first).collect();
    let missing: Vec<&str> =
        fx::pass::all().iter().map(|pass| pass.name).filter(|name| !commands.contains(name)).collect();
    assert!(missing.is_empty(), "passes without a file in tests/fx/pass: {missing:?}");
}

/// Reads `main(f32[2] 1 2; i64[] 3)`.
fn arguments(call: &str) -> Vec<Value> {
    let inner = call
        .strip_prefix("main(")
        .and_then(|rest| rest.strip_suffix(')'))
        .unwrap_or_else(|| panic!("{call:?}"));
    let argument = |text: &str| {
        let tensor = text.find(']').and_then(|end| {
            let (ty, numbers) = text.split_at(end + 1);
            Some((ty.parse::<TensorType>().ok()?, numbers))
        });
        let Some((ty, numbers)) = tensor else {
            let literal = parse(&format!("graph main() {{\n  return {text}\n}}\n")).unwrap();
            return literal.output().try_flat_map(&mut |_| panic!("{text:?} is no value")).unwrap();
        };
        let numbers: Vec<f64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let shape = ty.shape.known().unwrap();
        let array = fx::array::dispatch_dtype!(ty.dtype, T => {
            Array::from_vec(numbers.iter().map(|&x| T::from_scalar(Scalar::Float(x))).collect::<Vec<T>>(), &shape).unwrap()
        });
        Arg::Leaf(Tensor::from(array))
    };
    inner.split(';').map(str::trim).filter(|text| !text.is_empty()).map(argument).collect()
}

fn show(value: &Value) -> String {
    match value {
        Arg::Leaf(tensor) => {
            let array = tensor.array().unwrap();
            let mut text = array.describe();
            for x in array.iter_scalars() {
                match x {
                    Scalar::Bool(x) => write!(text, " {}", u8::from(x)),
                    Scalar::Int(x) => write!(text, " {x}"),
                    Scalar::Float(x) => write!(text, " {x}"),
                }
                .unwrap();
            }
            text
        }
        Arg::Tuple(items) | Arg::List(items) => {
            let items: Vec<String> = items.iter().map(show).collect();
            format!("({})", items.join("; "))
        }
        Arg::Dict(entries) => {
            let items: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key}: {}", show(value))).collect();
            format!("{{{}}}", items.join("; "))
        }
        other => format!("{other}"),
    }
}
