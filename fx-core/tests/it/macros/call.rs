//! `#[forward]` and `#[wrap]`: calls, and calls by value.

use fx::{Arg, Class, Effects, ErrorKind, Forward, Kind, OpDef, Result, Scalar, Tensor, Tree as _, Value};
use fx_macros::{Module, Tree, forward, wrap};

fn tensor(x: f64) -> Tensor {
    Tensor::from_scalar(Scalar::Float(x))
}

fn leaf(x: f64) -> Value {
    Arg::Leaf(tensor(x))
}

#[derive(Tree, Clone)]
struct State {
    hidden: Vec<Tensor>,
    steps: i64,
}

#[derive(Module)]
struct Everything;

#[forward]
#[allow(clippy::too_many_arguments)]
impl Everything {
    /// Takes one of each.
    fn forward(
        &self,
        x: &Tensor,
        mut owned: Tensor,
        mask: Option<&Tensor>,
        all: &[Tensor],
        mode: &str,
        hint: Option<&str>,
        axes: Option<&[i64]>,
        r#type: Option<f64>,
        state: State,
        scale: f64,
    ) -> Result<(Tensor, Vec<String>)> {
        if scale < 0.0 {
            return Err(fx::err!(Check, "negative scale"));
        }
        owned = if mask.is_some() { owned.clone() } else { x.clone() };
        let seen = format!(
            "{} {mode} {hint:?} {axes:?} {:?} {} {}",
            all.len(),
            r#type,
            state.hidden.len(),
            state.steps
        );
        Ok((owned, vec![seen]))
    }

    fn helper(&self) -> usize {
        self.inputs().len()
    }
}

fn state() -> State {
    State { hidden: vec![tensor(1.0); 3], steps: 4 }
}

#[test]
fn call_is_forward_with_the_same_arguments() {
    let (x, mask) = (tensor(1.0), tensor(2.0));
    let all = [x.clone(), mask.clone()];
    let module = Everything;
    let args = |scale| {
        module.call(&x, tensor(5.0), Some(&mask), &all, "mean", None, Some(&[1, 2]), None, state(), scale)
    };
    let (_, seen) = args(1.0).unwrap();
    assert_eq!(seen, ["2 mean None Some([1, 2]) None 3 4"]);
    assert_eq!(args(-1.0).unwrap_err().message(), "negative scale");
    assert_eq!(module.helper(), 10);
}

#[test]
fn a_graph_calls_by_value() {
    let inputs = Everything.inputs();
    let names: Vec<_> = inputs.iter().map(|input| &*input.name).collect();
    assert_eq!(names, ["x", "owned", "mask", "all", "mode", "hint", "axes", "type", "state", "scale"]);
    assert!(inputs[0].structure.is_ok() && inputs[2].structure.is_err());
    assert!(Everything.output().is_err(), "the length of the Vec is open");

    let mut args = vec![
        leaf(1.0),
        leaf(2.0),
        Arg::None,
        Arg::list([leaf(1.0)]),
        Arg::str("sum"),
        Arg::str("fast"),
        Arg::ints([3]),
        Arg::Float(0.5),
        state().to_value(),
        Arg::Float(1.0),
    ];
    let result = Everything.forward_values(&args).unwrap();
    let (_, seen) = <(Tensor, Vec<String>)>::from_value(&result).unwrap();
    assert_eq!(seen, ["1 sum Some(\"fast\") Some([3]) Some(0.5) 3 4"]);

    let error = Everything.forward_values(&args[1..]).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Argument, "forward takes 10 arguments, got 9"));
    args[9] = Arg::Float(-1.0);
    assert_eq!(Everything.forward_values(&args).unwrap_err().message(), "negative scale");
    args[4] = Arg::Int(1);
    let error = Everything.forward_values(&args).unwrap_err();
    assert_eq!(error.message(), "argument \"mode\": expected a string, got an integer");
    let carried = fx::err!(Shape, "earlier");
    args[4] = Arg::Failed(carried.clone());
    assert!(Everything.forward_values(&args).unwrap_err().same(&carried));
}

#[derive(Module)]
struct Twice<M> {
    inner: M,
}

#[forward(crate = fx_core)]
impl<M: Forward> Twice<M> {
    pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
        let inner: &dyn Forward = &self.inner;
        inner.call(&inner.call(x))
    }
}

#[derive(Module)]
struct Same;

#[forward]
impl Same {
    fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}

#[derive(Module)]
struct Silent;

#[forward]
impl Silent {
    fn forward(&self) {}
}

#[test]
fn generic_modules_and_modules_of_nothing() {
    let twice = Twice { inner: Twice { inner: Same } };
    assert!(twice.call(&tensor(1.0)).array().is_ok());
    let boxed: Box<dyn Forward> = Box::new(twice);
    assert_eq!(boxed.clone().as_module().type_name(), "Twice");
    assert!(matches!(boxed.output(), Ok(Arg::Leaf(()))));
    Silent.call();
    assert!(<()>::from_value(&Silent.forward_values(&[]).unwrap()).is_ok());
}

/// Scales by `k`.
///
///     indented
#[wrap]
#[must_use]
fn scale(x: &Tensor, mut k: f64, xs: Vec<Tensor>, pads: &[i64], flag: bool, mode: &str) -> Tensor {
    k += 1.0;
    if k > 10.0 { Tensor::failed(fx::err!(Check, "{mode} {flag} {} {pads:?}", xs.len())) } else { x.clone() }
}

#[wrap(name = "draw", effects = random, crate = ::fx_core)]
fn sample(n: usize, mask: Option<&Tensor>, seed: Option<i64>) -> Result<Tensor> {
    if mask.is_some() { Err(fx::err!(Check, "{n} {seed:?}")) } else { Ok(tensor(1.0)) }
}

fn kinds(def: &OpDef) -> Vec<(&str, Kind)> {
    def.params.iter().map(|param| (param.name, param.kind)).collect()
}

#[test]
fn a_wrapped_function_has_a_row() {
    let def = &*scale::OP;
    assert_eq!(def.name, "scale");
    assert_eq!(def.doc, "Scales by `k`.\n\n    indented");
    assert!(matches!(def.class, Class::Composite) && def.effects == Effects::PURE);
    let expected = [
        ("x", Kind::Tensor),
        ("k", Kind::Float),
        ("xs", Kind::Tensors),
        ("pads", Kind::Ints),
        ("flag", Kind::Bool),
        ("mode", Kind::Str),
    ];
    assert_eq!(kinds(def), expected);
    assert_eq!((sample::OP.name, sample::OP.effects), ("draw", Effects::RANDOM));
    assert_eq!(kinds(&sample::OP), [("n", Kind::Int), ("mask", Kind::OptTensor), ("seed", Kind::OptInt)]);
}

#[test]
fn a_wrapped_function_runs_its_body() {
    let x = tensor(1.0);
    assert!(scale(&x, 1.0, vec![], &[], false, "a").array().is_ok());
    let error = scale(&x, 10.0, vec![x.clone()], &[1, 2], true, "b").array().map(|_| ()).unwrap_err();
    assert_eq!(error.message(), "b true 1 [1, 2]");
    assert!(sample(1, None, None).is_ok());
    assert_eq!(sample(2, Some(&x), Some(3)).unwrap_err().message(), "2 Some(3)");
    let error = (sample::OP.eval)(&[Arg::Int(-1), Arg::None, Arg::None]).map(|_| ()).unwrap_err();
    assert_eq!(error.message(), "argument \"n\": expected a size, got an integer");
}

#[test]
fn a_wrapped_function_may_stand_inside_another() {
    #[wrap]
    fn local(x: &Tensor) -> Tensor {
        helper(x)
    }
    fn helper(x: &Tensor) -> Tensor {
        x.clone()
    }
    assert!(local(&tensor(1.0)).array().is_ok());
    assert_eq!(local::OP.doc, "");
}
