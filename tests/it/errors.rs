//! The messages of mistakes: what went wrong, in which operation, at which line, and what to do.
//!
//! `errors.txt` holds them all; bless with `UPDATE_EXPECT=1` and read what changed.

use std::fmt::Write as _;

use expect_test::expect_file;
use fx::prelude::*;
use fx::{Arg, Attribute, Graph, GraphModule, InputSpec, Value, call, s, symbolic_trace, trace};

fn error_of<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("this mistake was accepted"),
        Err(error) => error,
    }
}

fn tensor_error(tensor: Tensor) -> Error {
    error_of(tensor.ok())
}

fn f32s(shape: &[usize]) -> Tensor {
    fx::Array::zeros(DType::F32, shape).into()
}

fn i64s(data: &[i64]) -> Tensor {
    Tensor::new(data)
}

fn spec(f: impl Fn(&Tensor) -> Tensor, spec: &str) -> Error {
    error_of(trace(f).input("x", spec).build())
}

/// A program whose second node has lost an argument.
fn unsound() -> GraphModule {
    let mut gm = trace(|x: &Tensor| x.exp().relu()).input("x", "f32[2, 2]").build().unwrap();
    let relu = gm.graph().find("relu").unwrap();
    gm.graph_mut().set_op(relu, fx::matmul::OP).unwrap();
    gm
}

/// The same program, whose first node has a type of another dtype, too.
fn unsound_twice() -> GraphModule {
    let mut gm = unsound();
    let exp = gm.graph().find("exp").unwrap();
    let wrong: fx::TypeTree = fx::TensorType::new(DType::F64, [2, 2]).into();
    gm.graph_mut().meta_mut(exp).unwrap().ty = Some(wrong.into());
    gm
}

/// Reads a file of these bytes. The error names it without its folder.
fn of_file(name: &str, bytes: &[u8], read: impl Fn(&std::path::Path) -> Result<()>) -> Error {
    let path = std::env::temp_dir().join(format!("{name}_{}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let error = error_of(read(&path));
    std::fs::remove_file(&path).unwrap();
    let text = error.message().replace(&path.display().to_string(), name);
    let named = Error::new(error.kind(), text);
    match error.advice() {
        Some(advice) => named.help(advice),
        None => named,
    }
}

fn line(graph: &mut Graph) -> (fx::NodeId, fx::NodeId) {
    let x = graph.placeholder("x").unwrap();
    let y = graph.call_function(fx::neg::OP, [x.into()]).unwrap();
    graph.set_output(y).unwrap();
    (x, y)
}

fn other_graph_node() -> fx::NodeId {
    line(&mut Graph::new("other")).1
}

macro_rules! mistakes {
    ($($label:literal => $error:expr;)*) => {
        [$(($label, (|| -> Error { $error }) as fn() -> Error)),*]
    };
}

#[test]
fn every_mistake_says_what_where_why_and_what_to_do() {
    let mistakes = mistakes! {
        // Shapes.
        "broadcast" => tensor_error(f32s(&[4, 2]) + f32s(&[3]));
        "broadcast of sizes that may differ" => spec(|x| x + x.transpose(0, 1), "f32[n, m]");
        "matmul" => tensor_error(f32s(&[2, 3]).matmul(f32s(&[4, 5])));
        "matmul of a number" => tensor_error(f32s(&[]).matmul(f32s(&[4, 5])));
        "reshape" => tensor_error(f32s(&[2, 3]).reshape([4, -1]));
        "reshape to two unknown sizes" => tensor_error(f32s(&[2, 3]).reshape([-1, -1]));
        "cat" => tensor_error(fx::cat([f32s(&[2, 3]), f32s(&[2, 4])], 0));
        "cat of nothing" => tensor_error(fx::cat(Vec::<Tensor>::new(), 0));
        "stack" => tensor_error(fx::stack([f32s(&[2, 3]), f32s(&[2, 4])], 0));
        "linear" => tensor_error(fx::linear(f32s(&[2, 3]), f32s(&[5, 4]), ()));
        "conv2d channels" => tensor_error(fx::conv2d(f32s(&[1, 3, 8, 8]), f32s(&[4, 2, 3, 3]), (), 1, 0));
        "conv2d kernel larger than the image" => tensor_error(fx::conv2d(f32s(&[1, 3, 2, 2]), f32s(&[4, 3, 3, 3]), (), 1, 0));
        "expand" => tensor_error(f32s(&[2, 3]).expand([2, 4]));
        "layer_norm" => tensor_error(f32s(&[2, 3]).layer_norm([4], (), (), 1e-5));
        "a size of 2^62" => tensor_error(fx::zeros([1i64 << 62]));
        // Dtypes.
        "item of another type" => error_of(f32s(&[1]).item::<i64>());
        "to_vec of another type" => error_of(i64s(&[1]).to_vec::<f32>());
        "item of several" => error_of(f32s(&[2]).item::<f32>());
        "bits of floats" => tensor_error(f32s(&[2]) & 1);
        "minus on bools" => tensor_error(Tensor::new([true]) - Tensor::new([false]));
        "mean of integers" => tensor_error(i64s(&[1, 2]).mean((), false));
        "softmax of integers" => tensor_error(i64s(&[1, 2]).softmax(0));
        "embedding with float indices" => tensor_error(fx::embedding(f32s(&[2]), f32s(&[10, 4])));
        "integer division by zero" => tensor_error(i64s(&[1, 2]) % 0);
        // Axes and indices.
        "dim" => error_of(f32s(&[2, 3]).dim(5).error().cloned().map_or(Ok(()), Err));
        "sum over a missing axis" => tensor_error(f32s(&[2, 3]).sum(2, false));
        "sum over an axis twice" => tensor_error(f32s(&[2, 3]).sum([0, -2], false));
        "permute" => tensor_error(f32s(&[2, 3]).permute([0, 0]));
        "softmax over a missing axis" => tensor_error(f32s(&[2, 3]).softmax(-3));
        "index out of range" => tensor_error(f32s(&[2, 3]).i(s![5]));
        "too many indices" => tensor_error(f32s(&[2, 3]).i(s![0, 0, 0]));
        "two ellipses" => tensor_error(f32s(&[2, 3]).i(s![.., 0, ..]));
        "a mask of another shape" => tensor_error(f32s(&[2, 3]).i(s![&Tensor::new([true, false, true])]));
        "an index tensor out of range" => tensor_error(f32s(&[2, 3]).i(s![&i64s(&[0, 2])]));
        "gather of another rank" => tensor_error(f32s(&[2, 3]).gather(0, i64s(&[0])));
        // Arguments.
        "an unknown keyword" => tensor_error(call!(fx::sum(&f32s(&[2]), keep_dim = true)));
        "a missing argument" => tensor_error(call!(fx::matmul(&f32s(&[2]))));
        "an argument twice" => tensor_error(call!(fx::sum(&f32s(&[2]), 0, dim = 0)));
        "too many arguments" => tensor_error(call!(fx::neg(&f32s(&[2]), 1)));
        "an argument of another kind" => tensor_error(call!(fx::sum(&f32s(&[2]), "first")));
        "an unknown dtype" => error_of("f33".parse::<DType>());
        "a bad input spec" => error_of(trace(|x: &Tensor| x.clone()).input("x", "f32[n, 3").build());
        // What cannot be captured.
        "a condition on a symbol" => error_of(symbolic_trace(|x: &Tensor| -> Result<Tensor> { if x.to_bool()? { Ok(x + 1) } else { Ok(x - 1) } }));
        "item of a symbol" => error_of(symbolic_trace(|x: &Tensor| -> Result<Tensor> { Ok(x * x.item::<f32>()?) }));
        "to_vec of a symbol" => error_of(symbolic_trace(|x: &Tensor| -> Result<Tensor> { x.to_vec::<f32>()?; Ok(x.clone()) }));
        "iteration over a symbol" => error_of(symbolic_trace(|x: &Tensor| -> Result<Tensor> { Ok(x.iter()?.fold(Tensor::new(0.0f32), |a, b| a + b)) }));
        "iteration over a symbolic size" => error_of(trace(|x: &Tensor| -> Result<Tensor> { Ok(x.iter()?.fold(Tensor::new(0.0f32), |a, b| a + b)) }).input("x", "f32[n]").build());
        "parts of an axis of unknown size" => spec(|x| { let rows: Vec<Tensor> = x.unbind(0); rows.iter().fold(fx::zeros([2]), |sum, row| sum + row) }, "f32[n, 2]");
        "a value that is read, and an error that is ignored" => spec(|x| if x.max().item::<f32>().is_ok_and(|max| max > 0.0) { x.relu() } else { x.abs() }, "f32[n]");
        "parts of an axis that is not there" => { let parts: Vec<Tensor> = f32s(&[2, 2]).unbind(7); tensor_error(parts[0].exp()) };
        "the shape of a symbol without specs" => error_of(symbolic_trace(|x: &Tensor| -> Result<Tensor> { let n = x.shape()?.len(); Ok(x + n) }));
        "symbols of two traces" => error_of(symbolic_trace(|x: &Tensor| -> Result<Tensor> { symbolic_trace(|y: &Tensor| x + y)?; Ok(x.clone()) }));
        "a symbol after its trace" => {
            let kept = std::cell::RefCell::new(None);
            symbolic_trace(|x: &Tensor| { *kept.borrow_mut() = Some(x.clone()); x + 1 }).unwrap();
            let late = kept.borrow().clone().unwrap();
            tensor_error(late + 1)
        };
        "an unknown argument name" => error_of(trace(|x: &Tensor| x + 1).input("y", "f32[3]").build());
        "a list of unknown length" => error_of(symbolic_trace(|xs: Vec<Tensor>| fx::cat(xs, 0)));
        "a spec of another structure" => error_of(trace(|x: (Tensor, Tensor)| x.0 + x.1).input("x", "f32[3]").build());
        "a constant that is a tensor" => error_of(trace(|x: &Tensor| x + 1).constant("x", f32s(&[1])).build());
        "branches that differ" => spec(|x| fx::cond(x.sum((), false), |x: Tensor| x, |x: Tensor| x.sum(0, false), x.clone()), "f32[2, 3]");
        "a loop that changes a shape" => spec(|x| fx::while_loop(|x: &Tensor| x.sum((), false), |x: Tensor| x.unsqueeze(0), x.clone()), "f32[2]");
        "several mistakes at once" => error_of(trace(|x: &Tensor| (x + f32s(&[7]), x.matmul(x))).input("x", "f32[2, 3]").build());
        // Graphs.
        "erasing a used node" => { let mut g = Graph::new("g"); let (x, _) = line(&mut g); error_of(g.erase(x)) };
        "an erased node" => { let mut g = Graph::new("g"); let (_, y) = line(&mut g); g.set_output(Arg::None).unwrap(); g.erase(y).unwrap(); error_of(g.rename(y, "z")) };
        "a node of another graph" => { let mut g = Graph::new("g"); error_of(g.call_function(fx::neg::OP, [other_graph_node().into()])) };
        "use before definition" => { let mut g = Graph::new("g"); let (x, y) = line(&mut g); error_of(g.replace_all_uses(x, y).and_then(|_| g.move_before(y, x))) };
        "a missing node" => { let mut g = Graph::new("g"); line(&mut g); error_of(g.find_or_err("negg")) };
        "a missing attribute" => { let mut g = Graph::new("g"); let w = g.get_attr("fc.weight").unwrap(); g.set_output(w).unwrap(); error_of(GraphModule::new("M", g).call(&[])) };
        "removing an attribute that is read" => { let mut g = Graph::new("g"); let w = g.get_attr("w").unwrap(); g.set_output(w).unwrap(); let mut gm = GraphModule::new("M", g); gm.set_attribute("w", Attribute::Constant(f32s(&[1]))).unwrap(); error_of(gm.remove_attribute("w")) };
        // Calls.
        "too few arguments of a graph" => error_of(symbolic_trace(|x: &Tensor, y: &Tensor| x + y).unwrap().call(&[f32s(&[1])]));
        "an argument of another structure" => error_of(trace(|x: Vec<Tensor>| fx::cat(x, 0)).input("x", InputSpec::list(["f32[2]", "f32[3]"])).build().unwrap().run::<_, Tensor>((vec![f32s(&[2])],)));
        "an argument of another shape" => error_of(trace(|x: &Tensor| x + 1).input("x", "f32[batch, 3]").build().unwrap().call(&[f32s(&[2, 4])]));
        "an argument of another dtype" => error_of(trace(|x: &Tensor| x + 1).input("x", "f32[batch]").build().unwrap().call(&[i64s(&[2, 4])]));
        "two sizes of one symbol" => error_of(trace(|x: &Tensor| x + 1).input("x", "f32[n, n]").build().unwrap().call(&[f32s(&[2, 4])]));
        "a size outside of its range" => error_of(trace(|x: &Tensor| x + 1).input("x", "f32[n]").dim("n", 1, Some(8)).build().unwrap().call(&[f32s(&[9])]));
        "an error while running, with the user's line" => error_of(symbolic_trace(|x: &Tensor| (x * 2).matmul(x)).unwrap().call(&[f32s(&[2, 3])]));
        "a failed check" => error_of(symbolic_trace(|x: &Tensor| { let _: Value = fx::check(x.gt(0), "x must be positive"); x + 1 }).unwrap().call(&[Tensor::new([1.0f32, -1.0])]));
        "another value than the constant" => error_of(trace(|x: Tensor, n: i64| x * n).constant("y", 3).build().unwrap().run::<_, Tensor>((f32s(&[1]), 4i64)));
        // Programs that are not sound.
        "saving a program that is not sound" => error_of(fx::save(&unsound(), std::env::temp_dir().join("fx_unsound.fx")));
        "code of a program that is not sound" => error_of(unsound().code().map(|_| ()));
        "a pass on a program that is not sound" => error_of(fx::Passes::parse("normalize", &fx::pass::all()).unwrap().run(&mut unsound()).map(|_| ()));
        "a pass on a program that has two faults" => error_of(fx::Passes::parse("normalize", &fx::pass::all()).unwrap().run(&mut unsound_twice()).map(|_| ()));
        // Files of another kind.
        "a module that is safetensors" => of_file("fx_not_a_module", &[&16u64.to_le_bytes()[..], br#"{"__metadata__":{}}"#].concat(), |path| fx::load(path).map(|_| ()));
        "weights that are a zip archive" => of_file("fx_not_weights", b"PK\x03\x04 and so on", |path| fx::weights::Weights::open(path).map(|_| ()));
        // Text.
        "an operation that does not exist" => error_of(Graph::parse("graph main(%x) {\n  %y = sofmax(%x, -1)\n  return %y\n}\n", &fx::registry()));
        // Control flow.
        "a predicate of several elements" => tensor_error(fx::cond(f32s(&[2]), |x: Tensor| x, |x: Tensor| -x, f32s(&[1])));
        "a test of several elements" => tensor_error(fx::while_loop(|x: &Tensor| x.gt(0.0), |x: Tensor| x - 1, f32s(&[2])));
        "a test of several elements in a graph" => error_of(symbolic_trace(|x: &Tensor| fx::while_loop(|x: &Tensor| x.gt(0.0), |x: Tensor| x - 1, x.clone())).unwrap().call(&[f32s(&[2])]));
    };
    let mut text = String::new();
    for (label, mistake) in mistakes {
        writeln!(text, "## {label}\n{}\n", mistake()).unwrap();
    }
    expect_file!["errors.txt"].assert_eq(&text);
}
