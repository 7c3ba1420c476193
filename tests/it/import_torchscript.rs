//! TorchScript methods as graphs.

use std::path::{Path, PathBuf};

use fx::import::{Lowered, TorchScript, torchscript};
use fx::script::AtenOperators;
use fx::torchscript::load::Session;
use fx::torchscript::value::Value as Item;
use fx::{Array, Compile, Engine, GraphModule, Tensor, Value};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn module(lowered: fx::Result<Lowered>) -> GraphModule {
    lowered.unwrap().into_module().unwrap()
}

/// Returns numbers between -1 and 1.
fn numbers(shape: &[usize], seed: usize) -> Tensor {
    let n = shape.iter().product::<usize>();
    Tensor::from_vec((0..n).map(|i| (((i * 37 + seed * 11) % 201) as f32 - 100.0) / 100.0).collect(), shape)
}

fn array(tensor: &Tensor) -> Array {
    tensor.array().unwrap().clone()
}

fn has_regions(gm: &GraphModule) -> bool {
    gm.graph().nodes().any(|(_, node)| node.op().is_some_and(|op| matches!(op.name, "cond" | "while_loop")))
}

/// silero_vad as its authors ship it: the step of its network is one graph for all batch sizes.
#[test]
fn a_method_of_an_inner_module_is_a_graph() {
    let path = data("shipped/silero_vad.pt");
    let step = TorchScript::new(&path).method("_model.forward");
    let gm = module(step.input("x", "f32[n, 576]").input("state", "f32[2, n, 128]").load());
    assert!(!has_regions(&gm));
    let compiled = gm.compile(Engine::Fused).unwrap();
    for n in [1, 2] {
        let mut session =
            Session::new(torchscript(&path).unwrap(), &AtenOperators::new(fx::registry())).unwrap();
        let mut context = fx::zeros([n, 64]);
        let mut state = Value::from(&fx::zeros([2, n, 128]));
        for window in 0..3 {
            let x = numbers(&[n, 512], window);
            let given = vec![Item::tensor(array(&x)).unwrap(), Item::Int(16000)];
            let expected = session.call("forward", given, Vec::new()).unwrap();
            let all = fx::cat([&context, &x], 1);
            let result = compiled.call_values(&[Value::from(&all), state]).unwrap();
            let [out, next] = result.items().unwrap() else { panic!("two results: {result}") };
            let got = array(out.leaf().unwrap());
            got.all_close(&expected.to_tensor().unwrap().array().unwrap(), 1e-4, 1e-6).unwrap();
            state = next.clone();
            context = fx::narrow(&x, 1, 448, 64);
        }
    }
}

#[test]
fn names_of_inner_modules_and_methods_are_suggested() {
    let path = data("shipped/silero_vad.pt");
    let wrong = |method: &str| TorchScript::new(&path).method(method).load().unwrap_err().to_string();
    let text = wrong("_modle.forward");
    assert!(text.contains("there is no \"_modle\"") && text.contains("_model"), "{text}");
    let text = wrong("_model.forwad");
    assert!(text.contains("no method \"_model.forwad\"") && text.contains("forward"), "{text}");
}

#[test]
fn tests_of_sizes_are_decided_by_types_with_names() {
    let gm = module(
        TorchScript::new(data("torchscript/fr_convbn.pt"))
            .input("x", "f32[n, 3, h, w]")
            .constant("wide", true)
            .load(),
    );
    assert!(!has_regions(&gm), "{}", gm.graph());
    let x = numbers(&[2, 3, 9, 8], 1);
    let args = [Value::from(&x), Value::Bool(true)];
    let expected = gm.call_values(&args).unwrap();
    let got = gm.compile(Engine::Fused).unwrap().call_values(&args).unwrap();
    array(got.leaf().unwrap()).all_close(&array(expected.leaf().unwrap()), 1e-5, 1e-5).unwrap();
}

/// A number that is taken out of data and is the size of a tensor is none below zero, so that bounds of it vanish.
#[test]
fn numbers_out_of_data_that_are_sizes_are_not_negative() {
    let text = "
def sizes(x: Tensor, count: Tensor) -> Tensor:
    n = int(count)
    slots = torch.zeros([n, 3])
    for i in range(n):
        slots[i] += x[i]
    return slots[:n] * 2

def after(x: Tensor, count: Tensor) -> Tensor:
    n = int(count)
    rounds = max(n, 0)
    slots = torch.full([rounds, 3], 1.0)
    more = x[:1].expand(n, 3)
    return torch.cat([slots, more], 1)

def steps(x: Tensor, count: Tensor) -> Tensor:
    n = int(count)
    return torch.cat([torch.arange(n) + torch.ones([max(0, n)]), torch.arange(1, 2 * n + 1) + torch.ones([2 * n])])

def up(x: Tensor, count: Tensor) -> Tensor:
    return torch.arange(max(0, int(count))) * 2

def best(x: Tensor, count: Tensor) -> Tensor:
    n = min(int(count), x.size(0))
    found, at = x[:, 0].topk(n)
    return found + torch.ones([max(0, n)])

def branch(x: Tensor, count: Tensor) -> Tensor:
    n = int(count)
    if bool(x.sum() > 0):
        y = torch.zeros([n, 3])
    else:
        y = torch.zeros([-n, 3])
    return torch.cat([y, torch.ones([max(0, n), 3])])
";
    let mut script = fx::script(text).unwrap();
    let x = numbers(&[5, 3], 2);
    let (mut types, mut refusals) = (String::new(), Vec::new());
    for name in ["sizes", "after", "steps", "up", "best", "branch"] {
        let inputs = script.lower(name).unwrap().input("x", "f32[m, 3]").input("count", "i64[]");
        let gm = module(inputs.load());
        types += &format!("{name}: {}\n", gm.graph().to_text().lines().next().unwrap());
        let programs: Vec<_> =
            Engine::available().into_iter().map(|engine| gm.compile(engine).unwrap()).collect();
        for count in [3i64, 0, -2] {
            let count = Tensor::from_vec(vec![count], &[]);
            let given = [&x, &count].map(|x| Item::tensor(array(x)).unwrap()).to_vec();
            let expected = script.call_values(name, given, Vec::new());
            for program in &programs {
                let got = program.call_values(&[Value::from(&x), Value::from(&count)]);
                match (&expected, got) {
                    (Ok(expected), Ok(got)) => {
                        let expected = expected.to_tensor().unwrap().array().unwrap();
                        array(got.leaf().unwrap()).all_close(&expected, 1e-6, 1e-6).unwrap();
                    }
                    (Err(_), Err(error)) => refusals.push(error.message().to_owned()),
                    (expected, got) => panic!("{name}: {:?}, {got:?}", expected.is_ok()),
                }
            }
        }
    }
    expect_test::expect![[r#"
        sizes: graph main(%x: f32[m, 3], %count: i64[]) -> f32[d1, 3] {
        after: graph main(%x: f32[m, 3], %count: i64[]) -> f32[d1, 6] {
        steps: graph main(%x: f32[m, 3], %count: i64[]) -> f32[3*d1] {
        up: graph main<d1: ..>(%x: f32[m, 3], %count: i64[]) -> i64[max(0, d1)] {
        best: graph main(%x: f32[m, 3], %count: i64[]) -> f32[min(d1, m)] {
        branch: graph main<d1: ..>(%x: f32[m, 3], %count: i64[]) -> f32[joined0 + max(0, d1), 3] {
    "#]]
    .assert_eq(&types);
    // It is found where the number is taken, or where sizes are computed from it.
    refusals.sort();
    refusals.dedup();
    expect_test::expect![[r#"
        d1 is -2, outside of its range 0..
        expected sizes of at least 0, got [-3, 3]"#]]
    .assert_eq(&refusals.join("\n"));
}

fn shown(item: &Item) -> String {
    match item {
        Item::List(list) => {
            list.read(|items| format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")))
        }
        Item::Int(x) => x.to_string(),
        Item::Bool(x) => x.to_string(),
        other => format!("{other:?}"),
    }
}

/// `tolist` gives numbers on the machine, and in graphs where the length is known; the annotation must fit.
#[test]
fn elements_of_tensors_are_numbers_in_lists() {
    let text = "
def total(x: Tensor) -> int:
    rows : List[List[int]] = x.tolist()
    n = 0
    for row in rows:
        for item in row:
            n = n * 2 + item
    return n

def parts(x: Tensor) -> List[int]:
    sizes : List[int] = x.sum(1).tolist()
    found : List[int] = []
    for part in torch.arange(sizes[0] + sizes[1]).split(sizes):
        found.append(int(part.sum()))
    return found

def only(x: Tensor) -> float:
    found : float = (x.sum() / 2).tolist()
    return found

def flags(x: Tensor) -> List[bool]:
    found : List[bool] = (x[0] > 1).tolist()
    return found

def floats(x: Tensor) -> List[List[float]]:
    found : List[List[float]] = x.tolist()
    return found

def flat(x: Tensor) -> List[int]:
    found : List[int] = x.tolist()
    return found
";
    let mut script = fx::script(text).unwrap();
    let x = Tensor::from_vec(vec![1i64, 2, 3, 4], &[2, 2]);
    let none = Tensor::from_vec(Vec::<i64>::new(), &[2, 0]);
    let mut results = String::new();
    for name in ["total", "parts", "only", "flags", "floats", "flat"] {
        for x in [&x, &none] {
            let item = Item::tensor(array(x)).unwrap();
            let expected = script.call_values(name, vec![item], Vec::new());
            let shape = array(x).shape().to_vec();
            let lowered = script.lower(name).unwrap().input("x", format!("i64{shape:?}")).load();
            let got = lowered
                .and_then(Lowered::into_module)
                .and_then(|gm| gm.compile(Engine::Fused)?.call_values(&[Value::from(x)]));
            let expected = expected.map_or_else(|error| error.message().to_owned(), |value| shown(&value));
            let got = got.map_or_else(|error| error.message().to_owned(), |value| value.to_string());
            results += &format!("{name} {shape:?}: {expected}\n    graph: {got}\n");
        }
    }
    expect_test::expect![[r#"
        total [2, 2]: 26
            graph: 26
        total [2, 0]: 0
            graph: 0
        parts [2, 2]: [3, 42]
            graph: [3, 42]
        parts [2, 0]: [0, 0]
            graph: [0, 0]
        only [2, 2]: Float(5.0)
            graph: 5.
        only [2, 0]: Float(0.0)
            graph: 0.
        flags [2, 2]: [false, true]
            graph: [false, true]
        flags [2, 0]: []
            graph: []
        floats [2, 2]: tolist() of a tensor of i64 gives no lists of float
            graph: tolist() of i64[2, 2] gives no lists of float of depth 2
        floats [2, 0]: tolist() of a tensor of i64 gives no lists of float
            graph: tolist() of i64[2, 0] gives no lists of float of depth 2
        flat [2, 2]: tolist() of a tensor of rank 2 gives no list of depth 1
            graph: tolist() of i64[2, 2] gives no lists of int of depth 1
        flat [2, 0]: tolist() of a tensor of rank 2 gives no list of depth 1
            graph: tolist() of i64[2, 0] gives no lists of int of depth 1
    "#]]
    .assert_eq(&results);
}

/// A branch whose only effect is in a branch within it is kept: it draws random numbers.
#[test]
fn effects_of_branches_within_branches_are_kept() {
    let text = "
def main(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if bool(a):
        if bool(b):
            torch.rand([3])
    return x + torch.rand([2])
";
    let script = fx::script(text).unwrap();
    let lowered =
        script.lower("main").unwrap().input("x", "f32[2]").input("a", "bool[]").input("b", "bool[]");
    let gm = module(lowered.load());
    let (x, yes, no) = (numbers(&[2], 1), Tensor::new(true), Tensor::new(false));
    let seeded = |f: &dyn Fn() -> Tensor| fx::with_generator(&fx::Generator::seeded(3), f);
    let [first, second] = [0, 3].map(|drawn| {
        seeded(&|| {
            let _ = fx::rand([drawn]);
            &x + fx::rand([2])
        })
    });
    for engine in [Engine::Eager, Engine::Fused] {
        let compiled = gm.compile(engine).unwrap();
        for (a, b, expected) in [(&yes, &yes, &second), (&yes, &no, &first), (&no, &yes, &first)] {
            let result = seeded(&|| compiled.call(&[x.clone(), a.clone(), b.clone()]).unwrap());
            result.all_close(expected, 0.0, 0.0).unwrap();
        }
    }
}
