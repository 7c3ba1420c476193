//! `#[derive(Module)]` and `#[derive(Tree)]`: what the derived code does.

use std::collections::BTreeMap;

use fx::module::load::{FromWeights, WeightSource};
use fx::module::{Named, NamedModule, collect_buffers, collect_modules, collect_parameters};
use fx::{Arg, Buffer, Module as _, Parameter, Result, Scalar, Tensor, Tree as _, Value};
use fx_macros::{Module, Tree};

fn tensor(x: f64) -> Tensor {
    Tensor::from_scalar(Scalar::Float(x))
}

fn parameter(x: f64) -> Parameter {
    Parameter::new(tensor(x))
}

#[derive(Module)]
#[module(repr = "Linear::describe")]
struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
}

impl Linear {
    fn new() -> Self {
        Linear { weight: parameter(1.0), bias: Some(parameter(2.0)) }
    }
    fn describe(&self) -> String {
        format!("bias={}", self.bias.is_some())
    }
}

#[derive(Module)]
#[module(leaf, impure)]
struct Norm {
    #[module(rename = "running.mean")]
    mean: Buffer,
    #[module(skip)]
    eps: f64,
    #[module(training)]
    training: bool,
    r#type: Parameter,
}

impl Norm {
    fn new() -> Self {
        Norm { mean: Buffer::new(tensor(0.5)), eps: 0.1, training: true, r#type: parameter(3.0) }
    }
}

#[derive(Module)]
struct Pair<A, B>(A, #[module(rename = "second")] B);

#[derive(Module)]
enum Activation<M> {
    Plain,
    Gated {
        gate: M,
        #[module(training)]
        on: bool,
    },
    Both(Linear, Vec<M>),
}

#[derive(Module)]
struct Identity;

#[derive(Module)]
enum Never {}

#[derive(Module)]
struct Repeat<const N: usize, T = Linear> {
    layers: [T; N],
    next: Vec<Repeat<N, T>>,
    #[module(skip)]
    marker: std::marker::PhantomData<fn(T)>,
}

fn names<T: ?Sized>(members: Vec<(String, &T)>) -> String {
    members.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}

#[test]
fn members_are_named_by_field_position_and_rename() {
    let pair = Pair(Norm::new(), Linear::new());
    let parameters: Vec<Named<'_, Parameter>> = collect_parameters(&pair);
    assert_eq!(names(parameters), "0.type second.weight second.bias");
    assert_eq!(names(collect_buffers(&pair)), "0.running.mean");
    let modules: Vec<NamedModule<'_>> = collect_modules(&pair);
    assert_eq!(
        modules.iter().map(|(_, module)| module.type_name()).collect::<Vec<_>>(),
        ["Pair", "Norm", "Linear"]
    );
}

#[test]
fn an_enum_is_its_active_variant() {
    let plain = Activation::<Linear>::Plain;
    assert_eq!(names(collect_parameters(&plain)), "");
    let both = Activation::Both(Linear::new(), vec![Identity, Identity]);
    assert_eq!(names(collect_modules(&both)), " 0 1.0 1.1");
    let mut gated = Activation::Gated { gate: Linear::new(), on: false };
    gated.set_training(true);
    assert!(matches!(gated.clone(), Activation::Gated { on: true, .. }));
    assert_eq!(names(collect_parameters(&gated)), "gate.weight gate.bias");
}

#[test]
fn options_of_the_type() {
    let mut norm = Norm::new();
    assert!(norm.is_leaf() && !norm.is_pure());
    assert!(!Linear::new().is_leaf() && Linear::new().is_pure());
    norm.set_training(false);
    assert!(!norm.training);
    assert_eq!(Linear::new().extra_repr(), "bias=true");
    assert!(norm.as_any().downcast_ref::<Norm>().is_some());
    assert_eq!(
        Pair(Linear::new(), Identity).to_string(),
        "Pair()  2 parameters\n  (0): Linear(bias=true)  2 parameters\n  (second): Identity()"
    );
}

#[test]
fn a_clone_owns_its_buffers_and_keeps_plain_data() {
    let norm = Norm::new();
    let copy = norm.clone();
    norm.mean.store(tensor(9.0));
    assert_eq!(copy.mean.get().item::<f32>().unwrap(), 0.5);
    assert!(copy.training && copy.eps == 0.1);
    let layers = Repeat::<2> {
        layers: [Linear::new(), Linear::new()],
        next: vec![],
        marker: std::marker::PhantomData,
    };
    let twice = Repeat { next: vec![layers.clone()], ..layers };
    assert_eq!(collect_parameters(&twice.clone()).len(), 8);
    assert!(std::mem::size_of::<Never>() == 0);
}

/// Weights that exist under every one of the given names.
struct Names(BTreeMap<&'static str, f64>);

impl WeightSource for Names {
    fn get(&self, path: &str) -> Result<Option<Tensor>> {
        Ok(self.0.get(path).map(|x| tensor(*x)))
    }
    fn children(&self, prefix: &str) -> Vec<String> {
        let prefix = format!("{prefix}.");
        let rest = self.0.keys().filter_map(|name| name.strip_prefix(&prefix));
        let mut names: Vec<String> =
            rest.filter_map(|name| name.split('.').next()).map(str::to_owned).collect();
        names.dedup();
        names
    }
    fn require(&self, path: &str) -> Result<Tensor> {
        self.get(path)?.ok_or_else(|| fx::err!(Load, "no weight {path}"))
    }
}

#[test]
fn weights_make_a_struct_by_the_names_of_its_members() {
    let names = [("0.running.mean", 1.0), ("0.type", 2.0), ("second.weight", 3.0)];
    let pair = Pair::<Norm, Linear>::from_weights(&Names(names.into()), "").unwrap();
    assert!(pair.1.bias.is_none() && !pair.0.training && pair.0.eps == 0.0);
    let deeper = Names([("a.0.weight", 1.0), ("a.second.weight", 1.0), ("a.second.bias", 1.0)].into());
    let pair = Pair::<Linear, Linear>::from_weights(&deeper, "a").unwrap();
    assert!(pair.0.bias.is_none() && pair.1.bias.is_some());
    let error = Linear::from_weights(&deeper, "b").map(|_| ()).unwrap_err();
    assert_eq!(error.message(), "no weight b.weight");
}

/// It compiles although weights cannot make it; only loading it would not.
#[derive(Module)]
#[module(no_load)]
struct Convolution {
    weight: Parameter,
    #[module(skip)]
    stride: usize,
}

#[derive(Module)]
struct Vision {
    convolution: Convolution,
}

#[test]
fn a_part_that_weights_cannot_make_does_not_stop_the_whole() {
    let vision = Vision { convolution: Convolution { weight: parameter(1.0), stride: 2 } };
    assert_eq!(names(collect_parameters(&vision)), "convolution.weight");
    assert_eq!(vision.clone().convolution.stride, 2);
}

#[derive(Tree, Debug)]
struct Output<T> {
    logits: T,
    r#type: i64,
}

#[derive(Tree, Debug)]
struct Wrapper(Output<Tensor>, bool);

#[derive(Tree, Debug)]
struct Nothing;

#[derive(Tree, Debug)]
#[tree(crate = ::fx)]
struct Braces {}

#[test]
fn a_struct_is_a_dictionary_and_a_tuple_struct_a_tuple() {
    let value = Wrapper(Output { logits: tensor(1.0), r#type: 7 }, true).to_value();
    let Arg::Tuple(items) = &value else { panic!("not a tuple") };
    let Arg::Dict(entries) = &items[0] else { panic!("not a dictionary") };
    assert_eq!(entries.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["logits", "type"]);
    let back = Wrapper::from_value(&value).unwrap();
    assert!(back.1 && back.0.r#type == 7 && back.0.logits.array().is_ok());

    let message = |value: &Value| Wrapper::from_value(value).unwrap_err().message().to_owned();
    assert_eq!(message(&Arg::tuple([Arg::Int(1)])), "expected Wrapper with 2 fields, got 1");
    assert_eq!(message(&Arg::Int(1)), "expected Wrapper with 2 fields, got an integer");
    let partial = Arg::dict([("logits", Arg::Leaf(tensor(1.0)))]);
    assert!(message(&Arg::tuple([partial, Arg::Bool(true)])).contains("\"type\""));
}

#[test]
fn structures_failures_and_empty_structs() {
    let structure = Output::<(Tensor, Tensor)>::structure();
    assert!(structure.is_err(), "an i64 is not known before tracing");
    let Ok(Arg::Dict(entries)) = Output2::structure() else { panic!("not a dictionary") };
    assert_eq!(entries.len(), 2);
    let error = fx::err!(Shape, "wrong");
    let failed = Output2::failed(&error);
    assert!(failed.a.array().is_err_and(|e| e.same(&error)) && failed.b.0.array().is_err());
    assert!(
        Nothing::from_value(&Nothing.to_value()).is_ok() && Braces::from_value(&Braces {}.to_value()).is_ok()
    );
    assert!(Nothing::from_value(&Arg::Int(1)).is_err());
}

#[derive(Tree)]
struct Output2 {
    a: Tensor,
    b: (Tensor,),
}
