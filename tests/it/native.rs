//! The native engine: the bits of the fused one, one compilation for all sizes, and a cache that others
//! cannot write to.
//!
//! 10,000 random programs take a while, so their number is asked for: `FX_NATIVE=10000 cargo test --test
//! it -- native --nocapture`.

#![allow(clippy::print_stdout, reason = "a long test says how far it is")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fx::fuzz::Case;
use fx::prelude::*;
use fx::{
    Arg, Array, Class, Engine, Generator, Graph, GraphModule, Native, Op, Program, Scalar, Stored, Value,
    check, with_generator,
};

use crate::rows::FLOATS;

fx::pointwise! {
    /// A table of a crate that is neither fx-core nor fx-ops.
    pub trait Own; pub static OWN;

    /// Twice the hyperbolic tangent: a body that stands alone.
    twice_tanh(x; factor: fx::op::Default::Float(2.0)) -> Float { real: math::tanh(x) * factor }
    /// A body that calls a function of this file, which generated code does not have.
    halved(x) -> Same { real: half_of(x) }
}
use fx::math;

fn half_of<T: math::Real>(x: T) -> T {
    x * T::from_f64(0.5)
}

/// An empty folder for one test.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native").join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
    dir
}

/// An engine whose cache stays, so that tests are faster the next time.
fn native() -> Native {
    Native::new().with_cache(Path::new(env!("CARGO_TARGET_TMPDIR")).join("native-cache"))
}

/// The bits of elements; every NaN is the same, since the processor may choose its sign.
fn bits(tensor: &Tensor) -> Vec<u64> {
    let array = tensor.array().unwrap();
    let of = |x: Scalar| match x {
        Scalar::Float(x) if x.is_nan() => u64::MAX,
        Scalar::Float(x) => x.to_bits(),
        x => x.to_i64() as u64,
    };
    array.iter_scalars().map(of).collect()
}

/// Compares a native program with the fused one; what fails in one fails in the other.
fn same(what: &str, gm: &GraphModule, program: &Program, args: &[Value]) {
    let run = |f: &dyn Fn() -> fx::Result<Value>| {
        let (value, printed) = fx::ops::with_printed(|| with_generator(&Generator::seeded(5), f));
        value.map(|value| (check::tensors(&value), printed.len()))
    };
    let fused = gm.compile(Engine::Fused).and_then(|fused| run(&|| fused.call_values(args)));
    let got = run(&|| program.call_values(args));
    match (fused, got) {
        (Ok((expected, n_printed)), Ok((got, also_printed))) => {
            assert_eq!((got.len(), also_printed), (expected.len(), n_printed), "{what}");
            for (got, expected) in got.iter().zip(&expected) {
                assert_eq!(got.ty().unwrap(), expected.ty().unwrap(), "{what}");
                assert_eq!(bits(got), bits(expected), "{what}\n{}", gm.graph());
            }
        }
        (Err(expected), Err(got)) => assert_eq!(got.message(), expected.message(), "{what}"),
        (Ok(_), Err(error)) => panic!("{what}: only the native engine fails: {error}\n{}", gm.graph()),
        (Err(error), Ok(_)) => panic!("{what}: only the fused engine fails: {error}"),
    }
}

/// Compiles programs together, each for some arguments, and compares each with the fused engine.
fn all_same(programs: &[(String, GraphModule, Vec<Value>)], native: &Native) {
    let list: Vec<(&GraphModule, &[Value])> = programs.iter().map(|(_, gm, args)| (gm, &args[..])).collect();
    let compiled = Program::native_all(&list, native).unwrap();
    let libraries = native.made().loaded;
    for ((name, gm, args), program) in programs.iter().zip(compiled) {
        match program {
            Ok(program) => {
                same(name, gm, &program, args);
                assert_eq!(
                    native.made().loaded,
                    libraries,
                    "{name} was compiled together with the others:\n{}",
                    gm.graph()
                );
            }
            Err(error) => {
                let fused = gm.compile(Engine::Fused).err().map(|error| error.message().to_owned());
                assert_eq!(fused.as_deref(), Some(error.message()), "{name}");
            }
        }
    }
}

/// Elements that tell implementations apart, in the dtype, more than fit into a vector.
fn samples(dtype: DType, n: usize, shift: usize) -> Tensor {
    const INTS: [i64; 11] = [0, 1, -1, 5, -9, 100, -128, 127, 255, i64::MAX, i64::MIN];
    let at = |i: usize| match dtype {
        dtype if dtype.is_float() => Scalar::Float(FLOATS[(i + shift * 5) % FLOATS.len()]),
        DType::Bool => Scalar::Bool((i + shift).is_multiple_of(3)),
        _ => Scalar::Int(INTS[(i * 3 + shift) % INTS.len()]),
    };
    fx::array::dispatch_dtype!(dtype, T => {
        let data: Vec<T> = (0..n).map(|i| T::from_scalar(at(i))).collect();
        Tensor::from(Array::from_vec(data, &[n]).unwrap())
    })
}

/// A graph that calls an operation twice, on what it is given and on what comes out, so that one loop
/// computes both.
fn calls(op: Op, n_operands: usize) -> GraphModule {
    let mut graph = Graph::new("main");
    let inputs: Vec<Arg> =
        (0..n_operands).map(|i| Arg::Leaf(graph.placeholder(&format!("x{i}")).unwrap())).collect();
    let first = graph.call_function(op, inputs.clone()).unwrap();
    let mut again = inputs;
    again[0] = Arg::Leaf(first);
    let second = graph.call_function(op, again).unwrap();
    graph.set_output(Arg::tuple([Arg::Leaf(first), Arg::Leaf(second)])).unwrap();
    GraphModule::new("M", graph)
}

#[test]
fn every_pointwise_operation_has_the_bits_of_the_fused_engine() {
    let dtypes = [DType::Bool, DType::U8, DType::I8, DType::I32, DType::I64, DType::F32, DType::F64];
    let mut programs = Vec::new();
    for op in fx::registry().iter().chain(OWN.iter().copied()) {
        let Class::Pointwise(def) = op.class else { continue };
        for dtype in dtypes.into_iter().filter(|dtype| def.source(*dtype).is_some()) {
            let n = def.operands.len();
            let args = (0..n).map(|i| Value::from(&samples(dtype, 18 * 11, i))).collect();
            programs.push((format!("{} of {dtype}", op.name), calls(op, n), args));
        }
    }
    assert!(programs.len() > 300, "{} programs", programs.len());
    all_same(&programs, &native());
}

/// Random programs, each on both of its inputs.
fn random(seeds: std::ops::Range<u64>) -> Vec<(String, GraphModule, Vec<Value>)> {
    let both = |seed: u64| {
        let Case { gm, inputs, .. } = Case::new(seed);
        inputs
            .into_iter()
            .enumerate()
            .map(move |(set, args)| (format!("program {seed}, inputs {set}"), gm.clone(), args))
    };
    seeds.flat_map(both).collect()
}

#[test]
fn random_programs_have_the_bits_of_the_fused_engine() {
    let count = std::env::var("FX_NATIVE").ok().and_then(|count| count.parse::<u64>().ok());
    let Some(count) = count else { return all_same(&random(0..120), &native()) };
    const BATCH: u64 = 500;
    for first in (0..count).step_by(BATCH as usize) {
        // A cache of many thousand libraries serves nobody.
        let dir = folder("random");
        let native = Native::new().with_cache(&dir);
        all_same(&random(first..(first + BATCH).min(count)), &native);
        println!("{} programs: {:?}", (first + BATCH).min(count), native.made());
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn imported_programs_have_the_bits_of_the_fused_engine() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zoo");
    let mut programs = Vec::new();
    for file in check::files(&dir).unwrap() {
        let io = fx::weights::Weights::open(file.with_extension("io.safetensors")).unwrap();
        let gm = fx::import::pt2(&file).unwrap();
        let args = check::inputs(&gm, &io, 0).unwrap();
        programs.push((file.file_stem().unwrap().to_string_lossy().into_owned(), gm, args));
    }
    assert!(programs.len() > 25);
    all_same(&programs, &native());
}

/// Rows, broadcasting and reductions of symbolic sizes.
fn rows() -> GraphModule {
    fx::trace(|x: &Tensor, bias: &Tensor| {
        let y = (x + bias).silu();
        let scaled = y.softmax(-1) * 3.5 - &y;
        let mean = scaled.mean(-1, true);
        (&scaled - &mean).tanh() + x * 0.25
    })
    .input("x", "f32[n, m]")
    .input("y", "f32[m]")
    .build()
    .unwrap()
}

#[test]
fn one_compilation_serves_all_sizes() {
    let native = Native::new().with_cache(folder("sizes"));
    let gm = rows();
    let program = Program::native(&gm, &native).unwrap();
    assert_eq!(native.made().compiled, 1, "it is compiled before it is called");
    for (n, m) in [(3, 64), (2, 5), (1000, 7), (33, 130), (5, 4000), (70, 1500)] {
        let x =
            samples(DType::F32, n * m, n).nan_to_num(0.5, 2.0, -2.0).reshape((n as i64, m as i64)) * 1e-20;
        let bias = samples(DType::F32, m, 3).nan_to_num(0.5, 2.0, -2.0) * 1e-20;
        same(&format!("[{n}, {m}]"), &gm, &program, &[Value::from(&x), Value::from(&bias)]);
    }
    assert_eq!(native.made().compiled, 1);
}

#[test]
fn what_follows_a_product_runs_on_several_short_rows() {
    let gm = fx::trace(|x: &Tensor, w: &Tensor, bias: &Tensor| (x.matmul(w) + bias).silu() * 0.3 - bias)
        .input("x", "f32[n, 24]")
        .input("y", "f32[24, 8]")
        .input("z", "f32[8]")
        .build()
        .unwrap();
    let small = |n: usize, shift| samples(DType::F32, n, shift).nan_to_num(0.5, 2.0, -2.0).clamp(-3.0, 3.0);
    let program = Program::native(&gm, &native()).unwrap();
    for n in [1, 37, 1000] {
        let args = [small(n * 24, 1).reshape((n as i64, 24)), small(24 * 8, 2).reshape((24, 8)), small(8, 3)];
        same(&format!("{n} rows"), &gm, &program, &args.each_ref().map(Value::from));
    }
}

#[test]
fn a_users_own_operations_are_compiled_if_their_text_stands_alone() {
    let dir = folder("own");
    let native = Native::new().with_cache(&dir);
    let gm = fx::trace(|x: &Tensor| ((x + 1.0).twice_tanh(0.75) * 2.0).halved() - x)
        .input("x", "f32[1000]")
        .build()
        .unwrap();
    let program = Program::native(&gm, &native).unwrap();
    same("own", &gm, &program, &[Value::from(&samples(DType::F32, 1000, 0))]);
    let text = recipe(&dir);
    assert!(text.contains("math::tanh(x) * factor") && !text.contains("half_of"), "{text}");
    assert!(text.contains("c.host("), "the engine does the other one");
}

/// The text of the only library in a cache.
fn recipe(dir: &Path) -> String {
    let [entry] = &entries(dir)[..] else { panic!("expected one library in {}", dir.display()) };
    std::fs::read_to_string(entry.join("recipe.rs")).unwrap()
}

/// The folders of libraries in a cache.
fn entries(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

fn small() -> GraphModule {
    fx::trace(|x: &Tensor| (x * 2.0).tanh() + 1.0).input("x", "f32[100]").build().unwrap()
}

fn check_small(program: &Program) {
    same("small", &small(), program, &[Value::from(&samples(DType::F32, 100, 0))]);
}

#[test]
fn names_and_texts_of_a_graph_do_not_reach_the_source() {
    let evil = "\"; std::process::exit(1); // */ }";
    let dir = folder("names");
    let mut gm = GraphModule::new(evil, Graph::new(evil));
    let text = format!("{evil}\n{evil}");
    let graph = gm.graph_mut();
    let x = graph.placeholder("exit_1").unwrap();
    let y = graph.call_function(fx::relu::OP, [Arg::Leaf(x)]).unwrap();
    let z = graph.call_function(fx::exp::OP, [Arg::Leaf(y)]).unwrap();
    graph.set_output(Arg::dict([(text.as_str(), Arg::Leaf(z))])).unwrap();
    let program = Program::native(&gm, &Native::new().with_cache(&dir)).unwrap();
    same("names", &gm, &program, &[Value::from(&samples(DType::F32, 40, 0))]);
    let text = recipe(&dir);
    assert!(text.contains("math::exp") && !text.contains("exit"), "{text}");
}

#[test]
fn a_second_start_loads_what_the_first_compiled() {
    let dir = folder("hit");
    let start = || {
        let native = Native::new().with_cache(&dir);
        check_small(&Program::native(&small(), &native).unwrap());
        let made = native.made();
        (made.compiled, made.loaded)
    };
    assert_eq!(start(), (1, 1));
    assert_eq!(start(), (0, 1));
    // What is damaged is compiled again.
    let [entry] = &entries(&dir)[..] else { panic!("one entry") };
    let library = entry.join("library");
    let whole = std::fs::read(&library).unwrap();
    std::fs::remove_file(&library).unwrap();
    std::fs::write(&library, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(start(), (1, 1), "a truncated library");
    let mut changed = std::fs::read(&library).unwrap();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::remove_file(&library).unwrap();
    std::fs::write(&library, changed).unwrap();
    assert_eq!(start(), (1, 1), "a changed library");
    std::fs::write(entry.join("recipe.rs"), "something else").unwrap();
    assert_eq!(start(), (1, 1), "the library of another text");
    std::fs::remove_file(entry.join("checksum")).unwrap();
    assert_eq!(start(), (1, 1), "a library without a checksum");
    assert_eq!(start(), (0, 1));
    assert_eq!(entries(&dir).len(), 1, "nothing is left behind");
}

#[cfg(unix)]
#[test]
fn what_others_can_write_is_not_loaded() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder("foreign");
    let start = || Program::native(&small(), &Native::new().with_cache(&dir)).map(|_| ());
    start().unwrap();
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    let [entry] = &entries(&dir)[..] else { panic!("one entry") };
    for path in [&dir, entry, &entry.join("library"), &entry.join("recipe.rs")] {
        let before = std::fs::metadata(path).unwrap().permissions().mode();
        mode(path, before | 0o022);
        let error = start().unwrap_err().to_string();
        assert!(error.contains("other users can write to it") && error.contains("FX_CACHE_DIR"), "{error}");
        mode(path, before);
    }
    start().unwrap();
}

const CHAIN: &str = "tests/data/zoo/chain.pt2";
const CHAIN_IO: &str = "tests/data/zoo/chain.io.safetensors";

fn run(engine: &str, cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fx"));
    command
        .args(["run", CHAIN, "--io", CHAIN_IO, "--engine", engine])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("FX_CACHE_DIR", cache);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn processes_share_a_cache() {
    let dir = folder("processes");
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = run("native", &dir);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for child in children {
        let Output { status, stderr, .. } = child.wait_with_output().unwrap();
        assert!(status.success(), "{}", text(&stderr));
    }
    assert_eq!(entries(&dir).len(), 1, "one library, and nothing else");
}

#[test]
fn without_a_compiler_the_native_engine_says_so_and_the_best_one_is_fused() {
    let dir = folder("no_compiler");
    let without = |engine: &str| {
        run(engine, &dir)
            .env("RUSTC", "/nonexistent/rustc")
            .env("PATH", "")
            .env("HOME", &dir)
            .output()
            .unwrap()
    };
    let Output { status, stderr, .. } = without("native");
    let said = text(&stderr);
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("there is no Rust compiler: /nonexistent/rustc is no program"), "{said}");
    assert!(said.contains("set RUSTC") && said.contains("Engine::Best"), "{said}");
    let Output { status, stderr, .. } = without("best");
    let said = text(&stderr);
    assert!(status.success() && said.contains("note: nothing runs on the native engine"), "{said}");

    let native = Native::new().with_cache(&dir).with_rustc("/nonexistent/rustc");
    assert!(Program::native(&small(), &native).is_err());
    let program = Program::best(&small(), &native).unwrap();
    assert_eq!(program.engine(), Engine::Fused);
    assert!(program.fallback().unwrap().to_string().contains("no Rust compiler"));
    check_small(&program);

    let program = Program::best(&small(), &self::native()).unwrap();
    assert_eq!(program.engine(), Engine::Native);
    assert!(program.fallback().is_none());
    check_small(&program);
}

#[test]
fn a_compiler_that_fails_is_reported() {
    let native = Native::new().with_cache(folder("failing")).with_rustc("false");
    let error = Program::native(&small(), &native).unwrap_err().to_string();
    assert!(error.contains("does not run"), "{error}");
}
