//! Operations of a user with schemas of their own.
//!
//! This binary is a process of its own, since they are in the registry of the whole process.

use std::slice::from_ref;
use std::sync::LazyLock;

use fx::export::ToTorchScript as _;
use fx::library::{Library, Operator, library};
use fx::prelude::*;
use fx::{Compile, DType, Dim, Effects, Engine, Graph, GraphModule, Result, Tensor, TensorType, opcheck};

/// Takes a kernel that reads elements, and repeats each.
fn repeat(x: &Tensor, k: i64) -> Result<Tensor> {
    if k < 0 {
        return Err(fx::err!(Argument, "k is {k}, which is negative"));
    }
    if x.rank()? != 1 {
        return Err(fx::err!(Shape, "expected one axis, got {}", x.rank()?));
    }
    let k = k as usize;
    let elements = x.to_vec::<f32>()?;
    let all: Vec<f32> = elements.iter().flat_map(|x| std::iter::repeat_n(*x, k)).collect();
    Ok(Tensor::new(all))
}

/// With a shape rule over symbols.
static REPEAT: LazyLock<Operator> = LazyLock::new(|| {
    library("lab::repeat(Tensor x, int k=2) -> Tensor", repeat)
        .shape(|x: TensorType, k: Dim| {
            let [n] = &x.shape[..] else { return Err(fx::err!(Shape, "expected one axis, got {x}")) };
            if x.dtype != DType::F32 {
                return Err(fx::err!(DType, "expected f32, got {}", x.dtype));
            }
            Ok(TensorType::new(x.dtype, [n.clone() * k]))
        })
        .doc("Repeats each element of a row.")
        .register()
        .unwrap()
});

/// Written with fx's operations, so it needs no rule.
static SPREAD: LazyLock<Operator> = LazyLock::new(|| {
    library(
        "lab::spread(Tensor x, Tensor? weight=None, *, float[]? shifts=None, str mode=\"mean\") -> (Tensor, Tensor)",
        |x: &Tensor, weight: Option<Tensor>, shifts: Option<Vec<f64>>, mode: String| -> Result<(Tensor, Tensor)> {
            let x = weight.map_or_else(|| x.clone(), |weight| x * weight);
            let shift: f64 = shifts.into_iter().flatten().sum();
            let center = match &*mode {
                "mean" => x.mean(-1, true),
                "max" => x.amax(-1, true),
                other => return Err(fx::err!(Argument, "there is no mode {other:?}")),
            };
            Ok((&x - &center + shift, center))
        },
    )
    .doc("The distances from the center of each row, and the centers.")
    .register()
    .unwrap()
});

/// Reads elements, and has no rule.
static UNIQUE: LazyLock<Operator> = LazyLock::new(|| {
    library("lab::first_n(Tensor x) -> Tensor", |x: &Tensor| -> Result<Tensor> {
        let n = x.to_vec::<f32>()?.iter().filter(|x| **x > 0.0).count() as i64;
        Ok(x.narrow(0, 0, n))
    })
    .register()
    .unwrap()
});

#[test]
fn rows_of_libraries_pass_opcheck() {
    for operator in [*REPEAT, *SPREAD] {
        let report = opcheck::check(operator.op()).unwrap();
        report.ok().unwrap();
        assert!(report.runs > 10, "{report}");
    }
}

#[test]
fn an_operator_is_called_from_rust_traced_and_compiled() -> Result<()> {
    let x = Tensor::new([1.0f32, 2.0]);
    let y: Tensor = REPEAT.call((&x,));
    assert_eq!(y.to_vec::<f32>()?, [1.0, 1.0, 2.0, 2.0]);
    let gm = fx::trace(|x: &Tensor| -> Tensor { REPEAT.call::<Tensor>((&x.relu(), 3)) + 1.0 })
        .input("x", "f32[n]")
        .build()?;
    expect_test::expect![[r#"
        graph main(%x: f32[n]) -> f32[3*n] {
          %relu: f32[n] = %x.relu()
          %lab_repeat: f32[3*n] = lab_repeat(%relu, k=3)
          %add: f32[3*n] = add(%lab_repeat, 1.0)
          return %add
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    for engine in Engine::ALL {
        let y = gm.compile(*engine)?.call(from_ref(&x))?;
        assert_eq!(y.to_vec::<f32>()?, [2.0, 2.0, 2.0, 3.0, 3.0, 3.0], "{engine:?}");
    }
    let f = fx::compile(|x: &Tensor| -> Tensor { REPEAT.call::<Tensor>((x,)) * 2.0 });
    for _ in 0..2 {
        assert_eq!(f.call(from_ref(&x))?.to_vec::<f32>()?, [2.0, 2.0, 4.0, 4.0]);
    }
    assert_eq!(f.counters().compiled, 1);
    Ok(())
}

#[test]
fn a_kernel_of_operations_tells_its_type() -> Result<()> {
    let gm = fx::trace(|x: &Tensor| -> Tensor {
        let (distances, center): (Tensor, Tensor) = SPREAD.call((x,));
        distances * center
    })
    .input("x", "f32[n, 5]")
    .build()?;
    let text = gm.graph().to_string();
    assert!(text.contains("(f32[n, 5], f32[n, 1]) = lab_spread(%x)"), "{text}");
    let x = fx::arange(0.0, 10.0, 1.0).reshape([2, 5]);
    let fused = gm.compile(Engine::Fused)?.call(from_ref(&x))?;
    fused.all_close(&gm.call(&[x])?, 0.0, 0.0)
}

#[test]
fn a_kernel_that_reads_has_a_type_when_it_has_run() -> Result<()> {
    let gm = fx::trace(|x: &Tensor| -> Tensor { UNIQUE.call::<Tensor>((x,)) * 2.0 })
        .input("x", "f32[n]")
        .build()?;
    assert!(gm.graph().to_string().contains("%lab_first_n = lab_first_n(%x)"), "{}", gm.graph());
    for engine in Engine::ALL {
        let y = gm.compile(*engine)?.call(&[Tensor::new([3.0f32, 1.0, -1.0])])?;
        assert_eq!(y.to_vec::<f32>()?, [6.0, 2.0], "{engine:?}");
    }
    Ok(())
}

#[test]
fn programs_call_operators_of_libraries() -> Result<()> {
    LazyLock::force(&REPEAT);
    LazyLock::force(&SPREAD);
    let mut f = fx::script(
        "def f(x, n: int):\n    y = torch.ops.lab.repeat(x, k=n)\n    d, c = torch.ops.lab.spread(y, mode=\"max\", shifts=[0.5, 0.5])\n    return d, torch.ops.lab.repeat(c)\n",
    )?;
    let (d, c): (Tensor, Tensor) = f.call("f", (Tensor::new([1.0f32, 4.0]), 2))?.to()?;
    assert_eq!(d.to_vec::<f32>()?, [-2.0, -2.0, 1.0, 1.0]);
    assert_eq!(c.to_vec::<f32>()?, [4.0, 4.0]);
    let error =
        fx::script("def f(x):\n    return torch.ops.lab.repeat(x, size=2)\n").map(|_| ()).unwrap_err();
    expect_test::expect![[r#"
        no overload of 'lab::repeat' takes (Tensor, size=int)
                return torch.ops.lab.repeat(x, size=2)
                       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
           at <script>:2:12
          help: the overloads are
                lab::repeat(Tensor x, int k): there is no parameter 'size'"#]]
    .assert_eq(&error.to_string());
    let error = fx::script("def f(x):\n    return torch.ops.lab.repaet(x)\n").map(|_| ()).unwrap_err();
    expect_test::expect![[r#"
        there is no operator 'lab::repaet'
                return torch.ops.lab.repaet(x)
                       ^^^^^^^^^^^^^^^^^^^^^^^
           at <script>:2:12
          help: did you mean "lab::repeat"?"#]]
    .assert_eq(&error.to_string());
    Ok(())
}

#[test]
fn text_and_archives_keep_operators_of_libraries() -> Result<()> {
    let gm = fx::trace(|x: &Tensor| -> Tensor {
        let y: Tensor = REPEAT.call((x, 2));
        let (distances, _): (Tensor, Tensor) = SPREAD.call((&y,));
        distances
    })
    .input("x", "f32[n]")
    .build()?;
    let text = gm.graph().to_text();
    assert_eq!(Graph::parse(&text, &fx::registry())?.to_text(), text);
    assert_eq!(fx::parse(&text)?.to_text(), text);
    let x = Tensor::new([1.0f32, 2.0]);
    let expected = gm.call(from_ref(&x))?;
    let scratch = std::env::temp_dir().join(format!("fx-library-{}", std::process::id()));
    let path = scratch.with_extension("fx");
    fx::save(&gm, &path)?;
    let loaded: GraphModule = fx::load(&path)?;
    loaded.call(from_ref(&x))?.all_close(&expected, 0.0, 0.0)?;
    let path = scratch.with_extension("pt");
    gm.to_torchscript(&path)?;
    let again = fx::import::TorchScript::new(&path).input("x", "f32[n]").load()?.into_module()?;
    again.call(from_ref(&x))?.all_close(&expected, 0.0, 0.0)?;
    ["fx", "pt"].iter().for_each(|ending| std::fs::remove_file(scratch.with_extension(ending)).unwrap());
    Ok(())
}

fn refusal<K, M>(library: Library<K, M>) -> String
where
    K: fx::trace::Traceable<M> + Send + Sync + 'static,
    M: 'static,
{
    let error = library.register().unwrap_err();
    let at = error.source_loc().expect("the place of the definition").to_string();
    assert!(at.contains("tests/library.rs"), "{at}");
    error.to_string().replace(&at, "HERE") + "\n"
}

#[test]
fn definitions_that_cannot_be_are_refused_with_their_line() {
    LazyLock::force(&REPEAT);
    let same = |x: &Tensor| x.clone();
    let mut all = String::new();
    for schema in [
        "lab::repeat(Tensor x) -> Tensor",
        "lab::a(tensor x) -> Tensor",
        "lab::a(Tensor x -> Tensor",
        "lab::a(Tensor x) Tensor",
        "a(Tensor x) -> Tensor",
        "aten::a(Tensor x) -> Tensor",
        "linalg::inv(Tensor x) -> Tensor",
        "lab::a(Tensor(a!) x) -> Tensor",
        "lab::a(Tensor x, int k) -> Tensor",
        "lab::a(Device x) -> Tensor",
        "lab::a(Tensor x) -> str",
        "lab::a(float[] x=[0.5]) -> Tensor",
        "",
    ] {
        all += &refusal(library(schema, same));
    }
    all += &refusal(library(&format!("lab::{}", "(".repeat(100_000)), same));
    expect_test::expect![[r#"
        there is an operator lab::repeat already  at HERE
          help: define it once, such as in a `LazyLock`, or give it another name
        lab::a: there is no type "tensor"  at HERE
          help: the types are Tensor, int, float, bool, str, Scalar, ScalarType, and with `?` and `[]` optional ones and lists
        the schema "lab::a(Tensor x -> Tensor" cannot be read from column 16 on, at " -> Tensor"  at HERE
          help: a schema is written like "mylib::scale(Tensor x, float k=2.0) -> Tensor"
        the schema "lab::a(Tensor x) Tensor" cannot be read from column 17 on, at " Tensor"  at HERE
          help: a schema is written like "mylib::scale(Tensor x, float k=2.0) -> Tensor"
        the schema "a(Tensor x) -> Tensor" cannot be read from column 2 on, at "(Tensor x) -> Tensor"  at HERE
          help: a schema is written like "mylib::scale(Tensor x, float k=2.0) -> Tensor"
        the namespace "aten" is PyTorch's own  at HERE
          help: write the name of your library: mylib::a
        there is an operator linalg::inv already  at HERE
          help: define it once, such as in a `LazyLock`, or give it another name
        lab::a writes to its argument "x"  at HERE
          help: return the new value, and let the caller use that
        the schema of lab::a has 2 parameters, the kernel 1  at HERE
        the parameter "x" has the type Device, which kernels do not take  at HERE
          help: the types are Tensor, int, float, bool, str, Scalar, ScalarType, and with `?` and `[]` optional ones and lists
        a result has the type str, which kernels do not return  at HERE
          help: results are Tensor, Tensor[], int, float or bool
        the default of "x" is a list of other things than integers  at HERE
          help: make the parameter optional: `float[]? xs=None`
        the schema "" cannot be read from column 1 on, at the end  at HERE
          help: a schema is written like "mylib::scale(Tensor x, float k=2.0) -> Tensor"
        the schema "lab::(((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((" cannot be read from column 4097 on, at "(((((((((((((((((((((((("  at HERE
          help: a schema is written like "mylib::scale(Tensor x, float k=2.0) -> Tensor"
    "#]].assert_eq(&all);
}

#[test]
fn a_kernel_that_breaks_its_schema_is_an_error_of_the_call() {
    let operator = library("lab::liar(Tensor x) -> (Tensor, Tensor)", |x: &Tensor| x.clone())
        .shape(|x: TensorType| Ok((x.clone(), x)))
        .effects(Effects::HOST)
        .register()
        .unwrap();
    let (x, _): (Tensor, Tensor) = operator.call((&fx::ones([2]),));
    let message = x.error().unwrap().message().to_owned();
    assert_eq!(message, "the kernel of lab::liar returns a tensor, its schema says (Tensor, Tensor)");
    let operator = library("lab::count(Tensor x) -> int", |x: &Tensor| x.clone()).register().unwrap();
    let message = operator.call::<Tensor>((&fx::ones([2]),)).error().unwrap().message().to_owned();
    assert_eq!(message, "the kernel of lab::count returns a tensor, its schema says (int)");
    let y: Tensor = REPEAT.call((&fx::ones([2]), -1));
    assert_eq!(y.error().unwrap().message(), "k is -1, which is negative");
    let y: Tensor = REPEAT.call((&fx::ones([2]), 1, 2));
    assert_eq!(y.error().unwrap().message(), "lab_repeat takes at most 2 positional arguments, got 3");
}
