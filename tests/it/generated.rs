//! Readable code is what was blessed, compiles (the blessed files are modules of this binary), runs the same
//! numbers, and traces back to the same graph.
//!
//! Bless with `UPDATE_EXPECT=1`, read what changed, and run again: the files are compiled then.

#![allow(unreachable_pub, reason = "generated code does not know who uses it")]

use std::path::Path;
use std::process::Command;

use expect_test::expect_file;
use fx::prelude::*;
use fx::readable::Options;
use fx::{Arg, Forward, Graph, GraphModule, InputSpec, Members, SourceLoc, Value, graph_diff};

#[rustfmt::skip]
#[path = "../generated/blocks.rs"]
mod blocks;
#[rustfmt::skip]
#[path = "../generated/children.rs"]
mod children;
#[rustfmt::skip]
#[path = "../generated/control.rs"]
mod control;
#[rustfmt::skip]
#[path = "../generated/counted.rs"]
mod counted;
#[rustfmt::skip]
#[path = "../generated/forks.rs"]
mod forks;
#[rustfmt::skip]
#[path = "../generated/hostile.rs"]
mod hostile;
#[rustfmt::skip]
#[path = "../generated/integers.rs"]
mod integers;
#[rustfmt::skip]
#[path = "../generated/literals.rs"]
mod literals;
#[rustfmt::skip]
#[path = "../generated/mlp.rs"]
mod mlp;
#[rustfmt::skip]
#[path = "../generated/state.rs"]
mod state;
#[rustfmt::skip]
#[path = "../generated/structures.rs"]
mod structures;
#[rustfmt::skip]
#[path = "../generated/updates.rs"]
mod updates;

/// Says where the rows of this file are for generated code.
fn options() -> Options {
    Options::new().crate_path("it", "crate")
}

/// Compares the code of a graph module with the blessed file, and results of its module with those of the graph.
fn check<M: Forward>(
    gm: &GraphModule,
    file: &str,
    make: impl Fn(&Members<'_>) -> fx::Result<M>,
    args: &[Value],
) -> M {
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    let code = gm.code_with(&options()).unwrap();
    expect_file![format!("../generated/{file}.rs")].assert_eq(code.text());

    let model = make(&gm.members()).unwrap();
    let graph_module = gm.clone();
    for _ in 0..2 {
        let (expected, got) = (graph_module.call_values(args).unwrap(), model.forward_values(args).unwrap());
        assert!(got.eq_by(&expected, &|a: &Tensor, b: &Tensor| a.bits_eq(b)), "{got} is not {expected}");
    }
    let mut trace = fx::trace(&model);
    for input in gm.graph().inputs() {
        let ty =
            |id: &fx::NodeId| Ok(gm.graph().node(*id)?.ty().cloned().unwrap_or(Arg::Leaf(fx::Type::Any)));
        trace = trace.input(&input.name, InputSpec::from(input.tree.try_flat_map(&mut |id| ty(id)).unwrap()));
    }
    let diff = graph_diff(&graph_module, &trace.build().unwrap()).unwrap();
    assert!(diff.is_same(), "{diff}");
    model
}

fn values(args: impl IntoIterator<Item = Tensor>) -> Vec<Value> {
    args.into_iter().map(Value::from).collect()
}

/// A fixed tensor with values around zero.
fn ramp(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 37 % 64) as f32 - 31.0) / 32.0).collect(), shape)
}

fn number<T: fx::Element>(x: T) -> Tensor {
    Tensor::from_vec(vec![x], &[])
}

#[derive(Module)]
struct Mlp {
    fc1: nn::Linear,
    fc2: nn::Linear,
    scale: Parameter,
}

#[fx::forward]
impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.fc1.call(x).relu();
        fx::softmax(self.fc2.call(&h), -1) * &self.scale
    }
}

#[test]
fn a_small_model() {
    fx::manual_seed(1);
    let scale = Tensor::new([2.0f32]).into();
    let model = Mlp { fc1: nn::Linear::new(6, 4), fc2: nn::Linear::new(4, 3), scale };
    let gm = fx::trace(&model).input("x", "f32[batch, 6]").without_sources().build().unwrap();
    check(&gm, "mlp", mlp::Mlp::new, &values([ramp(&[5, 6])]));
    // Without types, too.
    let untyped = fx::symbolic_trace(&model).unwrap();
    let again = fx::symbolic_trace(&mlp::Mlp::new(&untyped.members()).unwrap()).unwrap();
    assert!(graph_diff(&untyped, &again).unwrap().is_same());
}

#[derive(Module)]
struct Block {
    norm: nn::LayerNorm,
    query: nn::Linear,
    key: nn::Linear,
    shift: Tensor,
}

#[fx::forward]
impl Block {
    fn forward(&self, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
        let h = self.norm.call(x) + &self.shift;
        let (q, k) = (self.query.call(&h), self.key.call(y));
        let (batch, length) = (x.dim(0), x.dim(1));
        let heads = |t: Tensor| t.reshape((&batch, &length, 2, -1)).transpose(1, 2);
        let (best, _) = heads(q).max_dim(-1, false);
        (
            x + best.sum([1], false).unsqueeze(-1),
            heads(k).reshape((&batch * &length, -1)).reshape((batch, length, 4)),
        )
    }
}

#[derive(Module)]
struct Stack {
    blocks: Vec<Block>,
}

#[fx::forward]
impl Stack {
    fn forward(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let (mut x, mut y) = (x.clone(), y.clone());
        for block in &self.blocks {
            (x, y) = block.call(&x, &y);
        }
        x - y
    }
}

#[test]
fn repeated_blocks_are_written_once() {
    fx::manual_seed(2);
    let block = |i: u8| Block {
        norm: nn::LayerNorm::new(4),
        query: nn::Linear::new(4, 4),
        key: nn::Linear::new(4, 4),
        shift: Tensor::new([f32::from(i)]),
    };
    let model = Stack { blocks: (0..3).map(block).collect() };
    let spec = "f32[batch, length, 4]";
    let gm = fx::trace(&model).input("x", spec).input("y", spec).build().unwrap();
    check(&gm, "blocks", blocks::Stack::new, &values([ramp(&[2, 3, 4]), ramp(&[2, 3, 4]) * 3]));
    let text = gm.code().unwrap().to_string();
    assert_eq!(text.matches("pub struct Block").count(), 1);

    // Each line of the block runs a node of each call.
    let code = gm.code().unwrap();
    let line = text.lines().position(|line| line.contains(".max_dim(")).unwrap() as u32 + 1;
    let names: Vec<&str> = code.nodes(line).iter().map(|node| &*node.name).collect();
    assert_eq!(names, ["max_dim", "max_dim_1", "max_dim_2"]);
    assert!(code.nodes(line)[0].source.as_ref().unwrap().file().ends_with("generated.rs"));
    let error = fx::err!(Shape, "too small").at(SourceLoc::new("src/model.rs", line, 9));
    let explained = code.explain(error, "model.rs");
    assert!(explained.context().unwrap().contains("%max_dim or one of 2 like it"), "{explained}");
}

fx::pointwise! {
    /// Operations of this file.
    pub trait Own; pub static OWN;

    /// `x / (1 + |x|)`, times a factor.
    softer(x; factor: fx::op::Default::Float(2.0)) -> Float { real: factor * x / (1.0 + math::abs(x)) }
}

mod math {
    pub(super) use fx::math::*;
}

#[fx::wrap]
fn halves(x: &Tensor) -> (Tensor, Tensor) {
    let n = x.dim(0).known().unwrap_or(2) / 2;
    (x.narrow(0, 0, n), x.narrow(0, n, n))
}

#[test]
fn literals_and_own_operations() {
    let function = |x: &Tensor| {
        let y = (x + 1) * -0.5 - f64::from_bits(0x3ff0_0000_0000_0001);
        let y = y.clamp(f64::NEG_INFINITY, 3.4e38).nan_to_num(-0.0, (), ()) / std::f64::consts::LN_2;
        let y = 2.0 / (y.exp() + 1e-5) + softer(&y, 0.25) + y.softer(2.0);
        let z: Tensor = fx::call!(fx::full_like(&y, f64::NAN));
        let ids: Tensor = fx::call!(fx::arange(4, dtype = DType::I64));
        let big = ids * 5_000_000_000i64 % 7;
        let (low, high) = halves(&y);
        let picked =
            y.i(fx::s![1..;2, 0]).to(DType::F64) + fx::cat([&low, &high], 0).i((.., 1)).sum((), false);
        (z.isnan(), big, -picked, !(y.gt(0) & y.lt(1)))
    };
    let gm = fx::trace(function).input("x", "f32[4, 3]").without_sources().build().unwrap();
    check(&gm, "literals", literals::Main::new, &values([ramp(&[4, 3])]));
}

#[test]
fn expressions_of_sizes() {
    let text = "graph main(%x: f32[n, 4]) {
        %y = narrow(%x, 0, 0, <min(2, n)>)
        %z = narrow(%x, 0, 0, <max(n//2, 1)>)
        %u = narrow(%x, 0, 0, <min(9223372036854775807, n)>)
        %v = narrow(%x, 0, 0, <min(2*n - 4, n)>)
        return (%y, %z, %u, %v)
    }";
    let mut gm = GraphModule::new("sizes", fx::parse(text).unwrap());
    fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
    check(&gm, "sizes", sizes::Sizes::new, &values([ramp(&[3, 4])]));
}

#[test]
fn integers_are_sizes() {
    let gm = fx::trace(|x: &Tensor, at: Dim, pair: (Dim, Tensor)| {
        let rows = x.narrow(0, at.clone(), &pair.0 + 1);
        (rows * &pair.1, x.select(0, at), fx::zeros([pair.0, Dim::new(2)]))
    })
    .input("x", "f32[n, 4]")
    .input("y", fx::Symbol::new("at"))
    .input("z", (fx::Symbol::new("k"), "f32[4]"))
    .build()
    .unwrap();
    let pair = Arg::tuple([Arg::Int(1), Arg::Leaf(ramp(&[4]))]);
    check(&gm, "integers", integers::Main::new, &[Arg::Leaf(ramp(&[5, 4])), Arg::Int(3), pair]);
    // A number out of data is one, too.
    let text = "graph main(%x: f32[n], %i: i64[]) {
        %k: <rows> = num_int(%i)
        %y = narrow(%x, 0, 0, <rows>)
        return %y
    }";
    let mut gm = GraphModule::new("OfData", fx::parse(text).unwrap());
    fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
    let code = gm.code().unwrap().text().to_owned();
    assert!(code.contains("let rows = Dim::try_from(k.clone())?;"), "{code}");
    assert!(code.contains("narrow(x, 0, 0, rows.clone())"), "{code}");
}

#[test]
fn what_is_printed_stays_a_tensor_without_types() {
    let text = "graph main(%x: f32[3]) {
        %p = print(%x, \"x\")
        %set = set_buffer(\"state\", %p)
        return %x
    }";
    let mut gm = GraphModule::new("M", Graph::new("main"));
    gm.set_attribute("state", fx::Attribute::Buffer(fx::Buffer::new(Tensor::new([0f32; 3])))).unwrap();
    gm.set_graph(fx::parse(text).unwrap());
    let code = gm.code().unwrap().text().to_owned();
    assert!(code.contains("let p: Tensor = fx::call!(fx::print(x, label = \"x\"));"), "{code}");
    assert!(code.contains("self.state.set(&p)"), "{code}");
}

#[test]
fn an_update_is_not_seen_in_the_same_call() {
    let text = "graph main(%x: f32[3]) {
        %old = self.state
        %sum = add(%old, %x)
        %set = set_buffer(\"state\", %sum)
        %still = self.state
        %other_set = set_buffer(\"other\", %x)
        %inside = self.other
        %y = mul(%inside, %still)
        return (%old, %still, %y)
    }";
    let mut gm = GraphModule::new("Reads", Graph::new("main"));
    for path in ["state", "other"] {
        let buffer = fx::Buffer::new(Tensor::new([1f32, 2.0, 3.0]));
        gm.set_attribute(path, fx::Attribute::Buffer(buffer)).unwrap();
    }
    let mut graph = fx::parse(text).unwrap();
    // A read and what is computed of it in a function of another module.
    for name in ["inside", "y"] {
        let id = graph.find(name).unwrap();
        let frame = fx::ModuleFrame { path: "part".into(), type_name: "Part".into(), call: 0, source: None };
        graph.meta_mut(id).unwrap().stack = Some([frame].into());
    }
    gm.set_graph(graph);
    fx::pass::SHAPE_PROP.apply(&mut gm).unwrap();
    check(&gm, "reads", reads::Reads::new, &values([ramp(&[3])]));
}

#[derive(Clone, Debug, Tree)]
struct Pair {
    mean: Tensor,
    parts: [Tensor; 2],
}

#[test]
fn structured_arguments_and_results() {
    let function = |x: (Tensor, [Tensor; 2]), last: Pair| {
        let chunks: Vec<Tensor> = x.0.split(2, 0);
        let mean = fx::cat(&chunks, 0).mean((), false) + &last.mean;
        let parts = [&chunks[0] + &x.1[1], x.1[0].clone()];
        (Pair { mean, parts }, last.parts[1].clone(), 3, None::<Tensor>)
    };
    let two = InputSpec::list(["f32[2, 3]", "f32[2, 3]"]);
    let pair = InputSpec::dict([("mean", InputSpec::from("f32[]")), ("parts", two.clone())]);
    let gm = fx::trace(function)
        .input("x", (InputSpec::from("f32[4, 3]"), two))
        .input("y", pair)
        .without_sources()
        .build()
        .unwrap();
    let parts = || [ramp(&[2, 3]), ramp(&[2, 3]) + 1];
    let args =
        [(ramp(&[4, 3]), parts()).to_value(), Pair { mean: number(1.5f32), parts: parts() }.to_value()];
    check(&gm, "structures", structures::Main::new, &args);
}

#[test]
fn control_flow() {
    let function = |x: &Tensor, n: &Tensor| {
        let scale = x.abs().sum((), false);
        let chunks: Vec<Tensor> = x.split(2, 0);
        let y = fx::cond(x.sum((), false).gt(0), |x: Tensor| x.relu() / &scale, |x: Tensor| x - 1, x.clone());
        // The closure has a `split` of its own beside the one that it captures.
        let step = |(i, y): (Tensor, Tensor)| {
            let parts: Vec<Tensor> = y.split(1, 0);
            (i + 1, &y * 2 + &parts[2] * &chunks[1] + &scale)
        };
        fx::while_loop(|(i, _): &(Tensor, Tensor)| i.lt(n), step, (n.zeros_like(), y))
    };
    let gm = fx::trace(function).input("x", "f32[3]").input("y", "i64[]").without_sources().build().unwrap();
    check(&gm, "control", control::Main::new, &values([ramp(&[3]), number(3i64)]));
}

#[test]
fn forks_are_closures() {
    let function = |x: &Tensor, y: &Tensor| {
        let both = fx::fork_with(
            |(x, y): (Tensor, Tensor)| {
                let inner = fx::fork_with(|x: Tensor| x.exp(), x.clone());
                (x * &y + 1, inner.wait())
            },
            (x.clone(), y.relu()),
        );
        let one = fx::fork(|| fx::ones([3]));
        let z = x.sin();
        let (a, b) = both.wait();
        a * z + b + one.wait()
    };
    let gm = fx::trace(function).input("x", "f32[3]").input("y", "f32[3]").without_sources().build().unwrap();
    check(&gm, "forks", forks::Main::new, &values([ramp(&[3]), ramp(&[3])]));
}

#[test]
fn counted_loops() {
    let function = |x: &Tensor, n: &Tensor| {
        let scale = x.abs().sum((), false);
        let y = fx::for_loop(3, |i, y: Tensor| y * (i + 1) + &scale, x.clone());
        // The number of rounds is an operand, and the number of the round is not used.
        let (y, seen) =
            fx::for_loop(n, |_, (y, seen): (Tensor, Tensor)| (y.sin() + x, seen + 1), (y, n.zeros_like()));
        let none: Tensor = fx::for_loop(n, |i, total: Tensor| total + i, n.zeros_like());
        (y, seen, none)
    };
    let gm = fx::trace(function).input("x", "f32[3]").input("y", "i64[]").without_sources().build().unwrap();
    for rounds in [0i64, 1, 5] {
        check(&gm, "counted", counted::Main::new, &values([ramp(&[3]), number(rounds)]));
    }
}

#[derive(Module)]
struct Counter {
    seen: Buffer,
    limit: Tensor,
    norm: nn::BatchNorm1d,
}

#[fx::forward]
impl Counter {
    fn forward(&self, x: &Tensor) -> fx::Result<Tensor> {
        let before = self.seen.get();
        self.seen.set(&(&before + x.sum((), false)).minimum(&self.limit))?;
        let y = self.norm.call(x) + before;
        fx::check(y.isfinite().all((), false), "all is finite");
        Ok(y)
    }
}

#[test]
fn state_and_effects() {
    let seen = Buffer::new(number(0.0f32));
    let model = Counter { seen, limit: number(50.0f32), norm: nn::BatchNorm1d::new(3) };
    let gm = fx::trace(&model).input("x", "f32[4, 3]").leaf(|_, _| false).without_sources().build().unwrap();
    let made = check(&gm, "state", state::Counter::new, &values([ramp(&[4, 3]) * 9]));
    // The updates of two calls, in the copy of the buffer that the module has.
    assert!(made.seen.get().to_vec::<f32>().unwrap()[0] != 0.0);

    // The same module, from a file of weights.
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated_counter.safetensors");
    fx::program::save_weights(&gm, &file).unwrap();
    let weights = Weights::open(&file).unwrap();
    let loaded = state::Counter::new(&Members::of_weights(&weights)).unwrap();
    let x = ramp(&[4, 3]);
    let expected = gm.call(std::slice::from_ref(&x)).unwrap();
    assert!(loaded.forward(&x).unwrap().bits_eq(&expected));
    let error = mlp::Mlp::new(&Members::of_weights(&weights)).map(|_| ()).unwrap_err();
    assert!(error.message().contains("no module \"fc1\""), "{error}");
}

#[derive(Module)]
struct Running {
    total: Buffer,
}

#[fx::forward]
impl Running {
    fn forward(&self, x: &Tensor) -> fx::Result<Tensor> {
        let total = self.total.get() + x;
        self.total.set(&total)?;
        Ok(total)
    }
}

#[derive(Module)]
struct Updates {
    first: Running,
    last: Running,
}

#[fx::forward]
impl Updates {
    fn forward(&self, x: &Tensor) -> fx::Result<Tensor> {
        self.last.call(&(self.first.call(x)? * 2))
    }
}

#[test]
fn an_update_that_fails_is_the_error_of_all_modules_around_it() {
    let running = || Running { total: Buffer::new(Tensor::new([1f32, 2.0])) };
    let model = Updates { first: running(), last: running() };
    let gm = fx::trace(&model).input("x", "f32[2]").leaf(|_, _| false).without_sources().build().unwrap();
    let made = check(&gm, "updates", updates::Updates::new, &values([ramp(&[2])]));
    let error = made.forward(&ramp(&[3])).unwrap_err();
    assert!(error.message().contains("cannot broadcast"), "{error}");

    // The same of a sub-module that is a graph module.
    let text = "graph main(%x: f32[2]) {\n %y: f32[2] = self.first(%x)\n return {\"y\": %y, \"x\": %x}\n}";
    let mut outer = GraphModule::new("Outer", fx::parse(text).unwrap());
    let inner = fx::trace(&model.first).input("x", "f32[2]").without_sources().build().unwrap();
    outer.add_submodule("first", inner).unwrap();
    let code = outer.code().unwrap();
    for line in [
        "    pub fn forward(&self, x: &Tensor) -> Result<OuterOutput> {",
        "        let y = self.first.call(x)?;",
        "        Ok(OuterOutput { y, x: x.clone() })",
        "        self.total.set(&add)?;",
    ] {
        assert!(code.text().lines().any(|found| found == line), "{line} in {code}");
    }
}

#[test]
fn sub_modules_that_are_graphs_and_others() {
    fx::manual_seed(3);
    let inner = fx::trace(|x: &Tensor, y: &Tensor| (x * y, x - y))
        .input("x", "f32[2]")
        .input("y", "f32[2]")
        .without_sources()
        .build()
        .unwrap();
    let text = "graph main(%x: f32[2]) -> f32[1, 2] {
  %both: (f32[2], f32[2]) = self.inner(%x, %x)
  %first: f32[2] = getitem(%both, 0)
  %again: (f32[2], f32[2]) = self.other(%first, %x)
  %second: f32[2] = getitem(%again, 1)
  %mix: f32[1, 2] = self.mix(%second)
  return %mix
}";
    let mut gm = GraphModule::new("children", fx::parse(text).unwrap());
    gm.add_submodule("inner", inner.clone()).unwrap();
    gm.add_submodule("other", inner).unwrap();
    gm.add_submodule("mix", Mix).unwrap();
    let model = check(&gm, "children", children::Children::new, &values([ramp(&[2])]));
    assert_eq!(fx::module::collect_modules(&model).len(), 4);
}

#[derive(Module)]
#[module(leaf)]
struct Mix;

#[fx::forward]
impl Mix {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.unsqueeze(0) * 2
    }
}

/// What somebody writes who wants code of theirs to run where somebody else's model is compiled.
const HOSTILE: [&str; 6] = [
    "\"; std::process::exit(1); //",
    "x\nstd::process::exit(1);\n",
    "*/ std::process::exit(1) /*",
    "\"# ; std::process::exit(1)",
    "fn\u{202e}\u{2028}\u{feff}\\",
    "{}{{}}'\\\"\u{0}\r",
];

#[test]
fn whatever_a_graph_says_stays_inert() {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let mut last = x;
    for (i, text) in HOSTILE.iter().enumerate() {
        let args = [Arg::Leaf(last), Arg::str(*text)];
        let print = graph.call_function(fx::print::OP, args).unwrap();
        let meta = graph.meta_mut(print).unwrap();
        meta.source = Some(SourceLoc::new(*text, i as u32, 1));
        meta.add_provenance(fx::Provenance { pass: (*text).into(), from: vec![(*text).into()] });
        let relu = graph.call_function(fx::relu::OP, [Arg::Leaf(last)]).unwrap();
        let frame = fx::ModuleFrame {
            path: format!("part.{i}").into(),
            type_name: (*text).into(),
            call: 0,
            source: None,
        };
        graph.meta_mut(relu).unwrap().stack = Some([frame].into());
        last = relu;
    }
    graph.set_output(Arg::Leaf(last)).unwrap();
    let gm = GraphModule::new(&HOSTILE.concat(), graph);
    let make = hostile::StdProcessExit1XStdProcessExit1StdProces::new;
    let (_, printed) = fx::ops::with_printed(|| check(&gm, "hostile", make, &values([ramp(&[2])])));
    assert_eq!(printed.len(), 4 * HOSTILE.len());
    let name = "x".repeat(10_000);
    let code = GraphModule::new(&name, fx::parse("graph main(%x) { return %x }").unwrap()).code().unwrap();
    assert!(code.text().lines().all(|line| line.len() < 300));
}

#[test]
#[allow(clippy::print_stderr, reason = "whoever runs the test should know what it left out")]
fn code_is_formatted_as_rustfmt_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/generated");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let files: Vec<_> = files.iter().filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
    assert!(files.len() >= 8);
    match Command::new("rustfmt").arg("--check").args(&files).current_dir(&folder).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => eprintln!("LEFT OUT: the format of generated code, for there is no rustfmt: {error}"),
    }
}

#[test]
fn hooks_change_the_code() {
    let gm = fx::trace(|x: &Tensor| x.relu().gelu()).input("x", "f32[2]").build().unwrap();
    let options = Options::new()
        .operation(fx::relu::OP, |args| format!("my::relu({})", args[0]))
        .transform(|lines| lines.into_iter().map(|line| line.replace("Main", "Mine")).collect());
    let code = gm.code_with(&options).unwrap();
    assert!(code.text().contains("let relu: Tensor = my::relu(x);"), "{code}");
    assert!(code.text().contains("pub struct Mine {}"), "{code}");
}

#[test]
fn what_has_no_code_says_so() {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    static ROW: fx::OpDef = fx::OpDef {
        name: "nowhere",
        params: &[fx::Param { name: "x", kind: fx::Kind::Tensor, default: None, keyword_only: false }],
        ..fx::OpDef::BASE
    };
    let y = graph.call_function(fx::Op::new(&ROW), [Arg::Leaf(x)]).unwrap();
    graph.set_output(Arg::Leaf(y)).unwrap();
    let error = GraphModule::new("m", graph).code().unwrap_err();
    assert_eq!(error.message(), "the operation nowhere has no Rust function");
}

#[rustfmt::skip]
#[path = "../generated/sizes.rs"]
mod sizes;
#[rustfmt::skip]
#[path = "../generated/reads.rs"]
mod reads;
