//! Every layer has PyTorch's names, and gives the same bits eagerly, as a leaf of a graph, and traced through.

use fx_core::module::{Named, collect_buffers, collect_parameters};
use fx_core::rng::{Generator, with_generator};
use fx_core::trace::{symbolic_trace, trace};
use fx_core::{Arg, Array, Forward, InputSpec, Module, Parameter, Tensor, Type, Value};
use fx_ops::nn::*;

fn made<M>(make: impl FnOnce() -> M) -> M {
    with_generator(&Generator::seeded(7), make)
}

fn random(shape: &[usize]) -> Tensor {
    let mut data = vec![0f32; shape.iter().product()];
    Generator::seeded(11).fill_normal_f32(&mut data);
    Tensor::from_vec(data, shape)
}

fn names(module: &dyn Module) -> String {
    let parameters: Vec<Named<'_, Parameter>> = collect_parameters(module);
    let names = parameters.into_iter().map(|(name, parameter)| {
        let shape = parameter.array().map(|array| array.shape().to_vec());
        format!("{name}{:?}", shape.expect("the layer is possible"))
    });
    names.chain(collect_buffers(module).into_iter().map(|(name, _)| name)).collect::<Vec<_>>().join(" ")
}

#[test]
fn names_and_layouts_are_those_of_pytorch() {
    let check = |module: &dyn Module, expected: &str| assert_eq!(names(module), expected);
    check(&Linear::new(3, 2), "weight[2, 3] bias[2]");
    check(&Linear::without_bias(3, 2), "weight[2, 3]");
    check(&Conv1d::new(4, 6, 3), "weight[6, 4, 3] bias[6]");
    check(&Conv2d::new(4, 6, [3, 5]).groups(2), "weight[6, 2, 3, 5] bias[6]");
    check(&Conv2d::depthwise(4, 3).bias(false), "weight[4, 1, 3, 3]");
    check(&Conv3d::new(1, 2, 3), "weight[2, 1, 3, 3, 3] bias[2]");
    check(&ConvTranspose1d::new(4, 6, 3).groups(2), "weight[4, 3, 3] bias[6]");
    check(&ConvTranspose2d::new(4, 6, (2, 3)), "weight[4, 6, 2, 3] bias[6]");
    let norm = "weight[3] bias[3] running_mean running_var num_batches_tracked";
    check(&BatchNorm1d::new(3), norm);
    check(&BatchNorm2d::new(3), norm);
    check(&BatchNorm2d::new(3).without_affine().without_running_stats(), "");
    check(&LayerNorm::new([2, 3]), "weight[2, 3] bias[2, 3]");
    check(&LayerNorm::new(3).without_affine(), "");
    check(&GroupNorm::new(2, 4), "weight[4] bias[4]");
    check(&RMSNorm::new(3), "weight[3]");
    check(&Embedding::new(5, 3), "weight[5, 3]");
    check(
        &MultiheadAttention::new(4, 2),
        "in_proj_weight[12, 4] in_proj_bias[12] out_proj.weight[4, 4] out_proj.bias[4]",
    );
    check(&LSTMCell::new(3, 2), "weight_ih[8, 3] weight_hh[8, 2] bias_ih[8] bias_hh[8]");
    check(&GRUCell::new(3, 2), "weight_ih[6, 3] weight_hh[6, 2] bias_ih[6] bias_hh[6]");
    check(
        &LSTM::new(3, 2).num_layers(2),
        "weight_ih_l0[8, 3] weight_hh_l0[8, 2] bias_ih_l0[8] bias_hh_l0[8] \
         weight_ih_l1[8, 2] weight_hh_l1[8, 2] bias_ih_l1[8] bias_hh_l1[8]",
    );
    check(
        &GRU::new(3, 2).bidirectional(true),
        "weight_ih_l0[6, 3] weight_hh_l0[6, 2] bias_ih_l0[6] bias_hh_l0[6] \
         weight_ih_l0_reverse[6, 3] weight_hh_l0_reverse[6, 2] bias_ih_l0_reverse[6] bias_hh_l0_reverse[6]",
    );
    check(
        &Sequential::new().push(Linear::without_bias(3, 2)).push(ReLU).push(Linear::without_bias(2, 1)),
        "0.weight[2, 3] 2.weight[1, 2]",
    );
}

fn tensors(value: &Value) -> Vec<&Tensor> {
    if let Some(error) = value.error() {
        panic!("{error}");
    }
    value.leaves()
}

/// Checks that eager, a graph with known shapes, one without, and one with the layer as a leaf agree; returns
/// the result.
fn agree<M: Forward + Clone>(module: M, args: &[Value]) -> Vec<Tensor> {
    let eager = module.forward_values(args).unwrap_or_else(|error| panic!("{}: {error}", module.type_name()));
    let mut builder = trace(&module);
    for (input, arg) in module.inputs().iter().zip(args) {
        builder = match arg {
            Arg::None => builder.constant(&input.name, Arg::None),
            _ => builder.input(
                &input.name,
                InputSpec::from(arg.map(&mut |tensor| Type::Tensor(tensor.ty().expect("a concrete tensor")))),
            ),
        };
    }
    let graph = builder.build().unwrap_or_else(|error| panic!("{}: {error}", module.type_name()));
    let traced = graph.call_values(args).unwrap_or_else(|error| panic!("{}: {error}", module.type_name()));
    let (eager, traced) = (tensors(&eager), tensors(&traced));
    assert_eq!(eager.len(), traced.len());
    for (eager, traced) in eager.iter().zip(&traced) {
        assert!(eager.bits_eq(traced), "{}: {eager} differs from {traced}", module.type_name());
    }
    if let [Arg::Leaf(x)] = args {
        let leaf = Sequential::new().push(module.clone());
        let graph = symbolic_trace(&leaf).expect("a leaf is not looked into");
        assert_eq!(graph.graph().len(), 3, "one node between input and output");
        assert!(graph.call(std::slice::from_ref(x)).expect("the layer runs").bits_eq(eager[0]));
    }
    eager.into_iter().cloned().collect()
}

#[test]
fn layers_of_one_tensor_agree_and_have_the_right_shape() {
    fn check<M: Forward + Clone>(make: impl FnOnce() -> M, input: &[usize], output: &[usize]) {
        let module = made(make);
        let out = agree(module.clone(), &[random(input).into()]);
        assert_eq!(out[0].array().expect("a value").shape(), output, "{}", module.type_name());
    }
    check(|| Linear::new(3, 2), &[5, 4, 3], &[5, 4, 2]);
    check(|| Conv1d::new(4, 6, 3).padding(1).stride(2), &[2, 4, 8], &[2, 6, 4]);
    check(|| Conv2d::new(4, 6, 3).dilation(2).groups(2).bias(false), &[2, 4, 8, 9], &[2, 6, 4, 5]);
    check(|| Conv2d::depthwise(4, (3, 1)), &[1, 4, 5, 5], &[1, 4, 3, 5]);
    check(|| Conv3d::new(1, 2, 2), &[1, 1, 3, 4, 5], &[1, 2, 2, 3, 4]);
    check(|| ConvTranspose1d::new(4, 6, 3).stride(2).output_padding(1), &[2, 4, 5], &[2, 6, 12]);
    check(|| ConvTranspose2d::new(4, 6, 2).stride(2).groups(2), &[2, 4, 3, 4], &[2, 6, 6, 8]);
    check(|| BatchNorm1d::new(3), &[4, 3], &[4, 3]);
    check(|| BatchNorm2d::new(3), &[4, 3, 2, 2], &[4, 3, 2, 2]);
    check(|| BatchNorm2d::new(3).without_running_stats(), &[4, 3, 2, 2], &[4, 3, 2, 2]);
    check(|| LayerNorm::new([2, 3]), &[4, 2, 3], &[4, 2, 3]);
    check(|| GroupNorm::new(2, 4), &[3, 4, 5], &[3, 4, 5]);
    check(|| RMSNorm::new(3).eps(1e-6), &[4, 3], &[4, 3]);
    check(|| RMSNorm::new(3), &[4, 3], &[4, 3]);
    check(|| Dropout::new(0.5), &[4, 3], &[4, 3]);
    check(|| ReLU, &[3], &[3]);
    check(|| ReLU6, &[3], &[3]);
    check(GELU::default, &[3], &[3]);
    check(GELU::tanh, &[3], &[3]);
    check(|| SiLU, &[3], &[3]);
    check(|| Sigmoid, &[3], &[3]);
    check(|| Tanh, &[3], &[3]);
    check(|| Hardswish, &[3], &[3]);
    check(LeakyReLU::default, &[3], &[3]);
    check(|| Softmax::new(-1), &[2, 3], &[2, 3]);
    check(|| MaxPool1d::new(2), &[1, 2, 7], &[1, 2, 3]);
    check(|| MaxPool2d::new(3).stride(2).padding(1).ceil_mode(true), &[1, 2, 8, 8], &[1, 2, 5, 5]);
    check(|| AvgPool1d::new(2).padding(1).count_include_pad(false), &[1, 2, 6], &[1, 2, 4]);
    check(|| AvgPool2d::new((2, 3)), &[1, 2, 6, 6], &[1, 2, 3, 2]);
    check(|| AdaptiveAvgPool1d::new(3), &[1, 2, 7], &[1, 2, 3]);
    check(|| AdaptiveAvgPool2d::new(1), &[1, 2, 7, 5], &[1, 2, 1, 1]);
    check(Flatten::default, &[2, 3, 4], &[2, 12]);
    check(|| Identity, &[2, 3], &[2, 3]);
}

#[test]
fn embedding_looks_rows_up() {
    let table = made(|| Embedding::padded(4, 2, 1));
    let indices = Tensor::from_vec(vec![1i64, 3], &[2]);
    let out = agree(table.clone(), &[indices.into()]).remove(0).to_vec::<f32>().expect("a value");
    let weight = table.weight.to_vec::<f32>().expect("a value");
    assert_eq!(out, [0.0, 0.0, weight[6], weight[7]]);
    assert!(Embedding::padded(4, 2, 4).weight.error().is_some());
}

#[test]
fn attention_agrees_with_its_weights_and_hides_masked_keys() {
    let layer = made(|| MultiheadAttention::new(6, 2).batch_first(true));
    let (query, key) = (random(&[2, 3, 6]), random(&[2, 4, 6]));
    let hidden =
        Tensor::new(Array::from_vec(vec![false, true, false, true], &[1, 4]).expect("four elements"));
    let args: [Value; 4] = [(&query).into(), (&key).into(), (&key).into(), (&hidden).into()];
    let out = agree(layer.clone(), &args).remove(0);
    let (again, weights) = layer.with_weights(&query, &key, &key, Some(&hidden));
    again.all_close(&out, 1e-5, 1e-6).expect("both ways give one result");
    for row in weights.to_vec::<f32>().expect("a value").chunks(4) {
        assert!(row[1] == 0.0 && row[3] == 0.0 && (row[0] + row[2] - 1.0).abs() < 1e-6, "{row:?}");
    }
    let swap = |x: &Tensor| fx_ops::ops::view::transpose(x, 0, 1);
    let other = layer.batch_first(false);
    let plain =
        agree(other, &[swap(&query).into(), swap(&key).into(), swap(&key).into(), hidden.into()]).remove(0);
    swap(&plain).all_close(&out, 1e-6, 1e-6).expect("the order of axes does not matter");
}

#[test]
fn recurrent_layers_repeat_their_cells() {
    let x = random(&[4, 2, 3]);
    let lstm = made(|| LSTM::new(3, 5));
    let out = agree(lstm.clone(), &[(&x).into(), Arg::None]);
    let parameter = |name: &str| {
        let found = collect_parameters(&lstm).into_iter().find(|(other, _)| other == name);
        found.expect("the layer has it").1.clone()
    };
    let cell = LSTMCell {
        weight_ih: parameter("weight_ih_l0"),
        weight_hh: parameter("weight_hh_l0"),
        bias_ih: Some(parameter("bias_ih_l0")),
        bias_hh: Some(parameter("bias_hh_l0")),
    };
    let mut state: Option<(Tensor, Tensor)> = None;
    for (step, expected) in x.iter().expect("four steps").zip(out[0].iter().expect("four steps")) {
        let next = cell.forward(&step, state.as_ref());
        next.0.all_close(&expected, 1e-5, 1e-6).expect("the layer repeats the cell");
        state = Some(next);
    }

    let wide = made(|| GRU::new(3, 5).num_layers(2).bidirectional(true).batch_first(true));
    let out = agree(wide, &[random(&[2, 4, 3]).into(), Arg::None]);
    let shapes: Vec<&[usize]> = out.iter().map(|x| x.array().expect("a value").shape()).collect();
    assert_eq!(shapes, [&[2, 4, 10][..], &[4, 2, 5]]);
    let cell = made(|| GRUCell::new(3, 5));
    let (x, h) = (random(&[2, 3]), random(&[2, 5]));
    agree(cell.clone(), &[(&x).into(), Arg::None]);
    agree(cell, &[x.into(), h.into()]);
}

#[test]
fn a_batch_norm_tracks_statistics_in_training_eagerly_and_traced() {
    let x = Tensor::from_vec(vec![1f32, 10.0, 3.0, 30.0], &[2, 2]);
    let mut norm = BatchNorm1d::new(2);
    norm.training = true;
    let leaf = symbolic_trace(&Sequential::new().push(norm.clone())).expect("it traces");
    let through = trace(&norm).input("x", &x).build().expect("it traces");
    let eager = norm.forward(&x);
    eager.all_close(&Tensor::from_vec(vec![-1f32, -1.0, 1.0, 1.0], &[2, 2]), 1e-4, 0.0).expect("normalised");
    for graph in [&leaf, &through] {
        assert!(graph.call(std::slice::from_ref(&x)).expect("it runs").bits_eq(&eager));
    }
    let state = |module: &dyn Module, name: &str| {
        let found = collect_buffers(module).into_iter().find(|(path, _)| path.ends_with(name));
        found.expect("the module has it").1.get()
    };
    let var = state(&norm, "running_var").to_vec::<f32>().expect("a value");
    assert_eq!(var, [0.9 + 0.1 * 2.0, 0.9 + 0.1 * 200.0]);
    assert_eq!(state(&norm, "num_batches_tracked").item::<i64>().expect("a value"), 1);
    for graph in [&leaf, &through] {
        for name in ["running_mean", "running_var", "num_batches_tracked"] {
            assert!(state(graph, name).bits_eq(&state(&norm, name)), "{name}");
        }
    }
}

#[test]
fn initial_values_follow_the_seed() {
    let bits = |linear: &Linear| linear.weight.to_vec::<f32>().expect("a value");
    let (a, b) = (made(|| Linear::new(100, 50)), made(|| Linear::new(100, 50)));
    assert_eq!(bits(&a), bits(&b));
    let (min, max) = bits(&a).iter().fold((0f32, 0f32), |(min, max), &x| (min.min(x), max.max(x)));
    assert!((-0.1..-0.099).contains(&min) && (0.099..0.1).contains(&max), "{min} {max}");
}

#[test]
fn a_layer_of_impossible_sizes_says_so_when_called() {
    let error = Conv2d::new(4, 6, 3).groups(4).forward(&random(&[1, 4, 8, 8])).ok().unwrap_err();
    assert_eq!(error.message(), "4 groups do not divide 6 channels");
    assert!(Linear::new(usize::MAX, 2).forward(&random(&[1, 2])).error().is_some());
    assert!(MultiheadAttention::new(6, 4).in_proj_weight.error().is_some());
}

#[test]
fn layers_print_their_settings() {
    let model = Sequential::new()
        .push(Conv2d::new(1, 8, 3).stride(2).padding(1))
        .push(BatchNorm2d::new(8))
        .push(ReLU)
        .push(Flatten::default())
        .push(Linear::without_bias(8, 2));
    let expected = "Sequential()  112 parameters
  (0): Conv2d(1, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1))  80 parameters
  (1): BatchNorm2d(8, eps=1e-5, momentum=0.1, affine=true, track_running_stats=true)  16 parameters
  (2): ReLU()
  (3): Flatten(start_dim=1, end_dim=-1)
  (4): Linear(in_features=8, out_features=2, bias=false)  16 parameters";
    assert_eq!(model.to_string(), expected);
}

#[derive(fx_macros::Module)]
struct Outer {
    layer: Linear,
}

#[fx_macros::forward]
impl Outer {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.layer.call(x)
    }
}

#[test]
fn an_error_in_a_layer_has_the_line_of_its_call() {
    fn check(name: &str, error: &fx_core::Error) {
        let place = error.source_loc().expect(name);
        assert!(place.file().ends_with("it/nn.rs"), "{name}: {error}");
    }
    macro_rules! layers {
        ($($layer:expr, $shape:expr;)*) => {$(
            let (name, layer) = (stringify!($layer), made(|| $layer));
            let x = random(&$shape);
            check(name, &layer.call(&x).ok().expect_err(name));
            let ty = x.ty().unwrap().to_string();
            check(name, &trace(|x: &Tensor| layer.call(x)).input("x", &*ty).build().expect_err(name));
        )*};
    }
    layers! {
        Linear::new(4, 2), [3];
        Conv2d::new(3, 2, 3), [1, 4, 8, 8];
        ConvTranspose2d::new(3, 2, 3), [1, 4, 8, 8];
        BatchNorm2d::new(3), [1, 4, 2, 2];
        LayerNorm::new(4), [3];
        RMSNorm::new(4), [3];
        GroupNorm::new(2, 4), [1, 6, 2];
        MaxPool2d::new(2), [3];
        AdaptiveAvgPool2d::new(2), [3];
        Embedding::new(5, 3), [3];
        Softmax::new(3), [3];
        PixelShuffle::new(2), [1, 3, 2, 2];
    }
    let sequence = Sequential::new().push(ReLU).push(made(|| Linear::new(4, 2)));
    check("a sequence", &sequence.call(&random(&[3])).ok().unwrap_err());
    let outer = Outer { layer: made(|| Linear::new(4, 2)) };
    check("a leaf", &trace(&outer).input("x", "f32[n, 3]").build().unwrap_err());
    check("a leaf that a graph calls", &symbolic_trace(&outer).unwrap().call(&[random(&[3])]).unwrap_err());
}
