//! Weights in and out of files and modules.

use std::path::PathBuf;

use expect_test::{Expect, expect};
use fx::{Array, Buffer, DType, Element, Parameter, Result, Tensor};
use fx_macros::Module;
use fx_ops::weights::{Load, LoadOptions, ModuleExt, Weights, save};
use proptest::prelude::*;

fn ones(shape: &[usize]) -> Tensor {
    Array::full(DType::F32, shape, fx::Scalar::Float(1.0)).into()
}

#[derive(Module)]
struct Linear {
    weight: Parameter,
    bias: Option<Parameter>,
}

#[derive(Module)]
struct Model {
    fc: Linear,
    steps: Buffer,
    #[module(skip)]
    name: String,
    #[module(training)]
    training: bool,
}

fn model() -> Model {
    let fc = Linear { weight: ones(&[2, 3]).into(), bias: Some(ones(&[2]).into()) };
    Model { fc, steps: Buffer::new(Tensor::new(7i64)), name: String::new(), training: true }
}

/// A file in a folder of its own, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("fx-weights-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn values<T: Element>(tensor: &Tensor) -> Vec<T> {
    tensor.to_vec().unwrap()
}

fn check<T>(result: Result<T>, expected: Expect) {
    expected.assert_eq(&result.map(drop).unwrap_err().to_string());
}

fn weights(tensors: &[(&str, Tensor)]) -> Weights {
    Weights::from_map(tensors.iter().cloned()).unwrap()
}

#[test]
fn a_real_file_is_mapped() {
    let weights = Weights::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/data/digits")).unwrap();
    assert_eq!(weights.len(), 16);
    assert_eq!(weights.children(""), ["bn1", "bn2", "conv1", "conv2", "fc"]);
    assert_eq!(weights.pp("fc").names().collect::<Vec<_>>(), ["bias", "weight"]);
    assert_eq!(weights.describe("fc.weight").unwrap(), "f32[10, 512]");
    assert_eq!(values::<i64>(&weights.pp("bn1").require("num_batches_tracked").unwrap()).len(), 1);
    let total: usize =
        weights.names().map(|name| weights.require(name).unwrap().array().unwrap().numel()).sum();
    assert_eq!(total, 10026 + 2 + 2 * 16 + 2 * 32);
}

#[test]
fn a_module_is_saved_and_loaded() {
    let scratch = Scratch::new("module");
    let path = scratch.path("model.safetensors");
    let mut saved = model();
    saved.fc.weight.set(Tensor::new([[1f32, -0.0, f32::NAN], [4.0, 5.0, 6.0]]));
    saved.save(&path).unwrap();
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1, "nothing temporary stays");

    let weights = Weights::open(&path).unwrap();
    let loaded = Model::load(&weights).unwrap();
    let (a, b) = (saved.state_dict(), loaded.state_dict());
    assert_eq!(
        a.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["fc.weight", "fc.bias", "steps"]
    );
    assert!(a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && a.1.bits_eq(&b.1)));

    let mut other = model();
    other.load_state_dict(&weights).unwrap();
    assert!(other.fc.weight.bits_eq(&saved.fc.weight));
}

/// Two paths of one module whose buffer holds `value`.
fn shared(value: f32) -> fx::GraphModule {
    let mut child = fx::GraphModule::new("Child", fx::Graph::new("main"));
    child.set_attribute("state", fx::Attribute::Buffer(Buffer::new(Tensor::new(value)))).unwrap();
    let mut gm = fx::GraphModule::new("Shared", fx::Graph::new("main"));
    let child = std::sync::Arc::new(child);
    gm.add_shared_submodule("a", child.clone()).unwrap();
    gm.add_shared_submodule("b", child).unwrap();
    gm
}

#[test]
fn paths_that_share_a_module_share_it_after_loading() {
    let scratch = Scratch::new("shared");
    let path = scratch.path("a.safetensors");
    shared(5.0).save(&path).unwrap();
    let both = Weights::open(&path).unwrap();
    assert_eq!(both.names().collect::<Vec<_>>(), ["a.state", "b.state"]);
    for weights in
        [both, weights(&[("a.state", Tensor::new(5f32))]), weights(&[("b.state", Tensor::new(5f32))])]
    {
        let mut loaded = shared(0.0);
        loaded.load_state_dict(&weights).unwrap();
        let state = loaded.state_dict();
        assert!(state.iter().all(|(_, tensor)| values::<f32>(tensor) == [5.0]));
        let buffers = fx::module::collect_buffers(&loaded);
        assert_eq!(buffers[0].1.address(), buffers[1].1.address());
    }
}

#[test]
fn different_values_for_one_buffer_are_an_error() {
    let both = weights(&[("a.state", Tensor::new(5f32)), ("b.state", Tensor::new(6f32))]);
    let mut model = shared(0.0);
    check(
        model.load_state_dict(&both),
        expect![[r#"
            the weights do not fit the module: 1 in conflict
              conflict: b.state is a.state in the module, and has another value in the weights
              help: give each such name the same value, or load the first with `load_state_dict_lax`"#]],
    );
    assert!(model.state_dict().iter().all(|(_, tensor)| values::<f32>(tensor) == [0.0]));
}

#[test]
fn the_safetensors_crate_reads_what_is_saved() {
    let scratch = Scratch::new("crate");
    let path = scratch.path("a.safetensors");
    let tensors =
        [("b\"\u{e4}", Tensor::new([1u8, 2, 3])), ("a", Tensor::new([[1f64], [2.0]])), ("e", ones(&[0, 3]))];
    save(&path, &tensors, &[("format", "pt"), ("by", "fx")]).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.tensor("b\"\u{e4}").unwrap().data(), [1, 2, 3]);
    assert_eq!(theirs.tensor("a").unwrap().shape(), [2, 1]);
    assert_eq!(theirs.tensor("e").unwrap().shape(), [0, 3]);

    let mut reversed = tensors.clone();
    reversed.reverse();
    save(&path, &reversed, &[("by", "fx"), ("format", "pt")]).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "the order in which they are given does not matter");
}

#[test]
fn nothing_is_written_if_saving_fails() {
    let scratch = Scratch::new("fails");
    let path = scratch.path("a.safetensors");
    let failed = Tensor::failed(fx::err!(Shape, "no shape"));
    check(save(&path, &[("a", failed)], &[]), expect![[r#""a": no shape"#]]);
    check(
        save(&path, &[("a", ones(&[1])), ("a", ones(&[1]))], &[]),
        expect![[r#"there are two tensors called "a""#]],
    );
    check(
        save(&path, &[("__metadata__", ones(&[1]))], &[]),
        expect![[r#"no tensor can be called "__metadata__": the file format needs the name"#]],
    );
    std::fs::create_dir(&path).unwrap();
    assert!(save(&path, &[("a", ones(&[1]))], &[]).is_err());
    assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1, "only the folder in the way");
}

#[test]
fn everything_that_does_not_fit_is_reported_and_nothing_changes() {
    let weights = weights(&[
        ("fc.wieght", ones(&[2, 3])),
        ("fc.bias", Tensor::new([5f32, 5.0, 5.0])),
        ("steps", Tensor::new(1f32)),
        ("head", ones(&[1])),
    ]);
    let mut model = model();
    check(
        model.load_state_dict(&weights),
        expect![[r#"
        the weights do not fit the module: 1 missing, 2 unexpected, 1 of another shape, 1 of another dtype
          missing: fc.weight (did you mean "fc.wieght"?)
          unexpected: fc.wieght
          unexpected: head
          shape: fc.bias: expected f32[2], got f32[3]
          dtype: steps: expected i64[], got f32[]
          help: rename the weights with `rename`, select a part with `pp`, or load what fits with `load_state_dict_lax`"#]],
    );
    assert_eq!(values::<f32>(model.fc.bias.as_ref().unwrap()), [1.0, 1.0]);

    let report = model.load_state_dict_lax(&weights).unwrap();
    assert_eq!((report.loaded.len(), report.missing.len(), report.unexpected.len()), (0, 1, 2));
    assert_eq!((report.mis_shaped.len(), report.mis_typed.len()), (1, 1));
}

#[test]
fn what_fits_is_loaded_laxly() {
    let mut model = model();
    let report = model.load_state_dict_lax(&weights(&[("fc.bias", Tensor::new([5f32, 6.0]))])).unwrap();
    assert_eq!(values::<f32>(model.fc.bias.as_ref().unwrap()), [5.0, 6.0]);
    expect![[r#"
        the weights do not fit the module: 2 missing
          missing: fc.weight
          missing: steps"#]]
    .assert_eq(&report.to_string());
}

#[test]
fn dtypes_are_converted_if_asked() {
    let weights = weights(&[
        ("fc.weight", ones(&[2, 3])),
        ("fc.bias", Tensor::new([1.5f64, 2.0])),
        ("steps", Tensor::new(3i32)),
    ]);
    let mut model = model();
    check(
        model.load_state_dict(&weights),
        expect![[r#"
            the weights do not fit the module: 2 of another dtype
              dtype: fc.bias: expected f32[2], got f64[2]
              dtype: steps: expected i64[], got i32[]
              help: convert them: `load_state_dict_with(&weights, LoadOptions { convert_dtypes: true, ..Default::default() })`"#]],
    );
    let options = LoadOptions { convert_dtypes: true, ..LoadOptions::default() };
    let report = model.load_state_dict_with(&weights, options).unwrap();
    expect!["all 3 tensors fit the module"].assert_eq(&report.to_string());
    assert_eq!(values::<f32>(model.fc.bias.as_ref().unwrap()), [1.5, 2.0]);
    assert_eq!(values::<i64>(&model.steps.get()), [3]);
}

#[derive(Module)]
struct Tied {
    embed: Parameter,
    norm: Parameter,
    head: Parameter,
}

fn tied() -> Tied {
    let shared = ones(&[2]);
    Tied { embed: shared.clone().into(), norm: ones(&[2]).into(), head: shared.into() }
}

fn is_tied(model: &Tied) -> bool {
    std::ptr::eq(model.embed.array().unwrap(), model.head.array().unwrap())
}

#[test]
fn tied_parameters_take_the_value_of_any_of_their_names() {
    let two = Tensor::new([2f32, 2.0]);
    for name in ["embed", "head"] {
        let mut model = tied();
        let report = model.load_state_dict_with(
            &weights(&[(name, two.clone()), ("norm", two.clone())]),
            LoadOptions::default(),
        );
        assert_eq!(report.unwrap().tied.len(), 1);
        assert!(is_tied(&model) && model.embed.bits_eq(&two));
    }
    check(
        tied().load_state_dict(&weights(&[("norm", two)])),
        expect![[r#"
        the weights do not fit the module: 2 missing
          missing: embed
          missing: head
          help: load what fits with `load_state_dict_lax`"#]],
    );
}

#[test]
fn tied_parameters_stay_tied_if_stored_twice_with_the_same_value() {
    let load = |embed: f32, head: f32| {
        let tensor = |x: f32| Tensor::new([x, x]);
        let mut model = tied();
        model
            .load_state_dict(&weights(&[
                ("embed", tensor(embed)),
                ("head", tensor(head)),
                ("norm", tensor(0.0)),
            ]))
            .unwrap();
        model
    };
    assert!(is_tied(&load(1.0, 1.0)));
    let model = load(1.0, 2.0);
    assert_eq!((values(&model.embed), values(&model.head)), (vec![1f32, 1.0], vec![2f32, 2.0]));
    assert_eq!((tied().parameters_count(), tied().state_dict().len()), (4, 3));
}

#[test]
fn buffers_that_are_not_persistent_are_not_saved() {
    #[derive(Module)]
    struct Cached {
        kept: Buffer,
        cache: Buffer,
    }
    let mut model = Cached { kept: Buffer::new(ones(&[1])), cache: Buffer::transient(ones(&[1])) };
    assert_eq!(model.state_dict().len(), 1);
    assert_eq!(model.named_buffers().len(), 2);
    let both = weights(&[("kept", ones(&[1])), ("cache", ones(&[1]))]);
    assert_eq!(model.load_state_dict_lax(&both).unwrap().unexpected, ["cache"]);
}

#[test]
fn training_is_switched_in_every_module() {
    #[derive(Module)]
    struct Stack {
        models: Vec<Model>,
    }
    let mut stack = Stack { models: vec![model(), model()] };
    stack.eval();
    assert!(stack.models.iter().all(|model| !model.training && model.name.is_empty()));
    stack.train();
    assert!(stack.models.iter().all(|model| model.training));
    let mut boxed: Box<dyn fx::Module> = Box::new(stack);
    (*boxed).eval();
    assert_eq!(boxed.named_modules().len(), 5);
}

#[test]
fn names_can_be_changed_and_narrowed() {
    let weights = weights(&[
        ("net.0.w", ones(&[1])),
        ("net.10.w", ones(&[2])),
        ("net.2.w", ones(&[3])),
        ("netto", ones(&[4])),
    ]);
    assert_eq!(weights.children("net"), ["0", "2", "10"]);
    assert_eq!(weights.pp("net").pp(10).names().collect::<Vec<_>>(), ["w"]);
    assert_eq!(weights.pp("net").children(""), ["0", "2", "10"]);
    assert_eq!(weights.pp("net.2").pp("").children("w"), [""; 0]);
    assert_eq!(Parameter::load(&weights.pp("net.2.w")).unwrap().array().unwrap().shape(), [3]);
    assert!(!weights.pp("net").contains("to"));
    let renamed = weights.pp("net").rename(|name| format!("layers.{name}")).unwrap();
    assert_eq!(renamed.names().collect::<Vec<_>>(), ["layers.0.w", "layers.10.w", "layers.2.w"]);
    check(weights.rename(|_| "x".to_owned()), expect![[r#"there are two tensors called "x""#]]);
    check(
        weights.pp("net").require("10.v"),
        expect![[r#"
        there is no "net.10.v" in the given tensors
          help: did you mean "net.10.w" or "net.0.w" or "net.2.w"?"#]],
    );
    assert_eq!((weights.len(), weights.pp("none").is_empty()), (4, true));
}

#[test]
fn shards_are_read_through_their_index() {
    let scratch = Scratch::new("shards");
    save(scratch.path("1.safetensors"), &[("a", ones(&[1]))], &[]).unwrap();
    save(scratch.path("2.safetensors"), &[("b", ones(&[2]))], &[]).unwrap();
    let index = scratch.path("model.safetensors.index.json");
    let open = |map: &str| {
        std::fs::write(&index, format!(r#"{{"metadata":{{"total_size":12}},"weight_map":{map}}}"#)).unwrap();
        Weights::open(&scratch.0).map_err(|error| error.message().replace(scratch.0.to_str().unwrap(), "DIR"))
    };
    let weights = open(r#"{"a":"1.safetensors","b":"2.safetensors"}"#).unwrap();
    assert_eq!(weights.require("b").unwrap().array().unwrap().shape(), [2]);
    let refused = [
        r#"{"a":"2.safetensors","b":"2.safetensors"}"#,
        r#"{"a":"../1.safetensors"}"#,
        r#"{"a":"/etc/passwd"}"#,
        r#"{"a":".."}"#,
        r#"[]"#,
    ];
    expect![[r#"
        DIR/model.safetensors.index.json: there is no "a" in the shard "2.safetensors"
        DIR/model.safetensors.index.json: the shard "../1.safetensors" is not the name of a file beside the index
        DIR/model.safetensors.index.json: the shard "/etc/passwd" is not the name of a file beside the index
        DIR/model.safetensors.index.json: the shard ".." is not the name of a file beside the index
        DIR/model.safetensors.index.json is not an index of weights: invalid type: sequence, expected a map at line 1 column 43"#]].assert_eq(&refused.map(|map| open(map).unwrap_err()).join("\n"));
    assert!(
        open(r#"{"a":"missing.safetensors"}"#)
            .unwrap_err()
            .starts_with("cannot open DIR/missing.safetensors")
    );
}

#[test]
fn what_is_no_file_is_refused() {
    let scratch = Scratch::new("none");
    assert_eq!(Weights::open(scratch.path("none")).unwrap_err().kind(), fx::ErrorKind::Io);
    assert_eq!(Weights::open(&scratch.0).unwrap_err().kind(), fx::ErrorKind::Load);
    assert_eq!(Weights::open("/dev/zero").unwrap_err().kind(), fx::ErrorKind::Io);
    std::fs::write(scratch.path("empty"), b"").unwrap();
    assert_eq!(Weights::open(scratch.path("empty")).unwrap_err().kind(), fx::ErrorKind::Load);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_is_saved_is_what_is_read(
        tensors in prop::collection::btree_map("[a-z]{0,3}(\\.[a-z0-9]{1,3}){0,2}", (0..9usize, prop::collection::vec(0..4usize, 0..4), any::<u64>()), 0..6),
    ) {
        let scratch = Scratch::new("law");
        let tensors: Vec<(String, Tensor)> = tensors.into_iter().map(|(name, (dtype, shape, seed))| {
            let data = (0..shape.iter().product::<usize>() as u64).map(|i| f64::from((seed.wrapping_mul(i + 1) >> 40) as u32)).collect();
            let array = Array::from_vec::<f64>(data, &shape).unwrap().cast(DType::ALL[dtype]);
            (name, array.into())
        }).collect();
        let path = scratch.path("a.safetensors");
        save(&path, &tensors, &[]).unwrap();
        let weights = Weights::open(&path).unwrap();
        prop_assert_eq!(weights.len(), tensors.len());
        for (name, tensor) in &tensors {
            prop_assert!(weights.require(name).unwrap().bits_eq(tensor));
        }
    }
}

#[test]
fn a_module_is_converted_to_another_float_dtype() {
    #[derive(Module)]
    struct Tied {
        inner: Model,
        head: Parameter,
        mean: Buffer,
    }
    let inner = model();
    let head = inner.fc.weight.clone();
    let mut tied = Tied { inner, head, mean: Buffer::new(ones(&[2])) };
    tied.to_dtype(DType::F64).unwrap();
    assert_eq!(tied.parameters_count(), 8);
    let types: Vec<String> =
        tied.state_dict().iter().map(|(name, tensor)| format!("{name} {}", tensor.ty().unwrap())).collect();
    let expected = [
        "inner.fc.weight f64[2, 3]",
        "inner.fc.bias f64[2]",
        "inner.steps i64[]",
        "head f64[2, 3]",
        "mean f64[2]",
    ];
    assert_eq!(types, expected);
}

#[test]
fn a_module_is_not_converted_to_integers_nor_a_graph_at_all() {
    check(
        model().to_dtype(DType::I64),
        expect![[r#"
            expected a float dtype, got i64
              help: one of f32, f64, f16, bf16"#]],
    );
    let mut gm = fx::trace(|x: &Tensor| -x).build().unwrap();
    check(
        gm.to_dtype(DType::F64),
        expect![[r#"
            a graph keeps the types of its trace
              help: convert the module before you trace it"#]],
    );
}

#[test]
fn a_long_list_of_misfits_is_cut() {
    let layers = (0..12).map(|_| fx_ops::nn::Linear::new(2, 2));
    let mut module = layers.fold(fx_ops::nn::Sequential::new(), fx_ops::nn::Sequential::push);
    let none: [(&str, Tensor); 0] = [];
    let error = module.load_state_dict(&Weights::from_map(none).unwrap()).unwrap_err();
    let lines: Vec<&str> = error.message().lines().collect();
    assert_eq!((lines.len(), lines[16]), (17, "  and 9 more like it"), "{error}");
    assert!(lines[0].ends_with("24 missing") && lines[1] == "  missing: 0.weight", "{error}");
}
