//! Passes on modules; `fuzz.rs` runs them on random programs.

use fx::nn::{BatchNorm1d, BatchNorm2d, Conv2d, Dropout, Identity, Linear, ReLU};
use fx::pass::{
    CONST_FOLD, CONVERT_DTYPE, DEAD_CODE, FOLD_BATCH_NORM, INLINE_LEAVES, MERGE_LINEARS, REMOVE_IDENTITIES,
    SHAPE_PROP,
};
use fx::prelude::*;
use fx::{GraphModule, OpCode, Passes};

/// A network in which two convolutions can take up a batch norm, and one is shared with a place where it must
/// stay.
#[derive(Module)]
struct Net {
    stem: Conv2d,
    stem_norm: BatchNorm2d,
    shared: Conv2d,
    shared_norm: BatchNorm2d,
    drop: Dropout,
    nothing: Identity,
    relu: ReLU,
    fc: Linear,
    fc_norm: BatchNorm1d,
}

#[fx::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.relu.call(&self.stem_norm.call(&self.stem.call(x)));
        let y = self.shared_norm.call(&self.shared.call(&x)) + self.nothing.call(&self.shared.call(&x));
        let y = self.drop.call(&y).mean([2, 3], false);
        self.fc_norm.call(&self.fc.call(&y))
    }
}

/// A model with the same weights each time, whatever other tests draw at the same time.
fn net() -> Net {
    fx::with_generator(&fx::Generator::seeded(3), new_net)
}

fn new_net() -> Net {
    let norm = |n| {
        let norm = BatchNorm2d::new(n);
        norm.running_mean.as_ref().unwrap().set(&fx::randn([n])).unwrap();
        norm.running_var.as_ref().unwrap().set(&(fx::rand([n]) + 0.5)).unwrap();
        norm
    };
    Net {
        stem: Conv2d::new(3, 4, 3).bias(false),
        stem_norm: norm(4),
        shared: Conv2d::new(4, 4, 3).padding(1),
        shared_norm: norm(4),
        drop: Dropout::new(0.5),
        nothing: Identity,
        relu: ReLU,
        fc: Linear::new(4, 2),
        fc_norm: BatchNorm1d::new(2),
    }
}

fn count(gm: &GraphModule, name: &str) -> usize {
    gm.graph().nodes().filter(|(_, node)| node.op().is_some_and(|op| op.name == name)).count()
}

#[test]
fn batch_norms_are_folded_and_shared_modules_stay_right() {
    let model = net();
    let x = fx::randn([2, 3, 8, 8]);
    let expected = model.forward(&x);
    let mut gm = fx::trace(&model).input("x", "f32[n, 3, 8, 8]").build().unwrap();
    let passes = Passes::new().add(REMOVE_IDENTITIES).add(FOLD_BATCH_NORM).add(DEAD_CODE).compare_runs(3, 5);
    passes.run(&mut gm).unwrap();
    assert_eq!(count(&gm, "batch_norm"), 0);
    assert!(gm.graph().find_nodes(OpCode::CallModule, Some("stem_norm")).is_empty());
    gm.call(std::slice::from_ref(&x)).unwrap().all_close(&expected, 1e-4, 1e-4).unwrap();
    // The model itself is untouched, and new weights find their way into what was folded.
    assert!(model.forward(&x).bits_eq(&expected));
    let double = |gm: &mut GraphModule, path: &str| {
        let old = gm.attr(path).unwrap();
        gm.set_attribute(path, fx::Attribute::Parameter(Parameter::new(old * 2))).unwrap();
    };
    double(&mut gm, "shared.weight");
    let mut changed = net();
    changed.shared.weight.set(changed.shared.weight.tensor() * 2);
    gm.call(std::slice::from_ref(&x)).unwrap().all_close(&changed.forward(&x), 1e-4, 1e-4).unwrap();
}

#[test]
fn frozen_weights_are_multiplied_to_the_same_bits() {
    let text = |dtype: &str| {
        format!(
            "graph main(%x: {dtype}[n, 4, 5, 6]) {{
                %mean: {dtype}[4] = self.mean
                %var: {dtype}[4] = self.var
                %scale: {dtype}[4] = self.scale
                %w: {dtype}[4, 4, 3, 3] = self.w
                %a = conv2d(%x, %w, padding=1)
                %b = batch_norm(%a, %mean, %var, %scale)
                %c = conv2d(%b, %w, padding=1)
                %d = batch_norm(%c, %mean, %var)
                %u: {dtype}[4, 4, 2, 3] = self.u
                %e = conv_transpose2d(%d, %u)
                %f = batch_norm(%e, %mean, %var, %scale, %mean)
                %g: {dtype}[4, 2, 1, 1] = self.g
                %h = conv2d(%f, %g, groups=2)
                %i = batch_norm(%h, %mean, %var)
                %sum = sum(%i, [2, 3])
                %l: {dtype}[4, 4] = self.l
                %j = linear(%sum, %l, %scale)
                %k = batch_norm(%j, %mean, %var)
                return %k
            }}"
        )
    };
    let half = crate::engine::program(&text("bf16"));
    let mut unfolded = half.clone();
    Passes::new().add(SHAPE_PROP).add(FOLD_BATCH_NORM).run(&mut unfolded).unwrap();
    assert_eq!(count(&unfolded, "batch_norm"), count(&half, "batch_norm"), "halves round between both");
    for dtype in ["f32", "f64"] {
        let mut gm = crate::engine::program(&text(dtype));
        let var = gm.attr("var").unwrap().abs() + 0.5;
        gm.set_attribute("var", fx::Attribute::Parameter(Parameter::new(var))).unwrap();
        let x = fx::with_generator(&fx::Generator::seeded(1), || fx::randn([3, 4, 5, 6]));
        let x = x.to(gm.attr("w").unwrap().dtype().unwrap());
        let expected = gm.call(std::slice::from_ref(&x)).unwrap();
        let folded = |freeze: bool| {
            let mut gm = gm.clone();
            let fold = Passes::new().add(SHAPE_PROP).add_with(FOLD_BATCH_NORM, [("freeze", freeze)]).unwrap();
            fold.add(DEAD_CODE).run(&mut gm).unwrap();
            assert_eq!(count(&gm, "batch_norm"), 0);
            assert!(gm.lint().is_empty());
            (gm.call(std::slice::from_ref(&x)).unwrap(), gm)
        };
        let [(plain, _), (frozen, gm)] = [false, true].map(folded);
        assert!(plain.bits_eq(&frozen), "{dtype}");
        assert!(gm.attribute("w").is_err(), "nobody reads it any more");
        if dtype != "bf16" {
            frozen.all_close(&expected, 1e-3, 1e-3).unwrap();
        }
    }
}

#[test]
fn batch_norms_in_training_stay() {
    let mut model = net();
    model.stem_norm.training = true;
    let mut gm = fx::trace(&model).input("x", "f32[n, 3, 8, 8]").build().unwrap();
    Passes::new().add(FOLD_BATCH_NORM).compare_runs(2, 5).run(&mut gm).unwrap();
    assert_eq!(gm.graph().find_nodes(OpCode::CallModule, Some("stem_norm")).len(), 1);
    // A leaf that is inlined keeps its updates, and what is updated is not folded.
    Passes::new()
        .add(INLINE_LEAVES)
        .add(FOLD_BATCH_NORM)
        .add(CONST_FOLD)
        .compare_runs(2, 5)
        .run(&mut gm)
        .unwrap();
    assert_eq!(count(&gm, "batch_norm"), 1);
    assert_eq!(count(&gm, "set_buffer"), 3);
}

#[test]
fn queries_keys_and_values_become_one_map() {
    #[derive(Module)]
    struct Heads {
        q: Linear,
        k: Linear,
        v: Linear,
    }
    #[fx::forward]
    impl Heads {
        fn forward(&self, x: &Tensor) -> Tensor {
            let (q, k, v) = (self.q.call(x), self.k.call(x), self.v.call(x));
            fx::softmax(q.matmul(k.transpose(1, 2)), -1).matmul(v)
        }
    }
    let heads = Heads { q: Linear::new(8, 4), k: Linear::new(8, 4), v: Linear::new(8, 6) };
    let mut gm = fx::trace(&heads).input("x", "f32[n, 5, 8]").build().unwrap();
    let passes =
        Passes::new().add(INLINE_LEAVES).add(SHAPE_PROP).add(MERGE_LINEARS).add(DEAD_CODE).compare_runs(3, 1);
    passes.run(&mut gm).unwrap();
    assert_eq!((count(&gm, "linear"), count(&gm, "narrow")), (1, 3));
}

#[test]
fn half_precision_is_within_its_rounding() {
    let model = net();
    let mut gm = fx::trace(&model).input("x", "f32[n, 3, 8, 8]").build().unwrap();
    Passes::new()
        .add(INLINE_LEAVES)
        .add(SHAPE_PROP)
        .add_with(CONVERT_DTYPE, [("dtype", "bf16")])
        .unwrap()
        .compare_runs(2, 1)
        .tolerance(0.05)
        .run(&mut gm)
        .unwrap();
    assert!(count(&gm, "to") > 0);
    let wrong = Passes::new().add_with(CONVERT_DTYPE, [("dtype", "i64")]).unwrap().run(&mut gm).unwrap_err();
    assert!(wrong.message().contains("expected a float dtype, got i64"), "{wrong}");
}

/// What a sub-module computes from its own weights has known sizes at its call, and sizes out of data where
/// it is inlined.
#[test]
fn sizes_of_weights_in_sub_modules_stay_true_when_inlined() {
    let parse = |text: &str| GraphModule::new("M", fx::Graph::parse(text, &fx::registry()).unwrap());
    let mut child = parse(
        "graph main(%x: f32[2]) {
           %w: f32[3] = self.w
           %rows: i64[u0, 1] = nonzero(%w)
           %y: f32[2] = neg(%x)
           return (%y, %rows)
         }",
    );
    let w = fx::Attribute::Parameter(Parameter::new(Tensor::new([1.0f32, 0.0, 2.0])));
    child.set_attribute("w", w).unwrap();
    let mut gm = parse(
        "graph main(%x: f32[2]) {
           %block: (f32[2], i64[2, 1]) = self.block(%x)
           %rows: i64[2, 1] = getitem(%block, 1)
           return %rows
         }",
    );
    gm.add_submodule("block", child).unwrap();
    for name in ["inline, dead_code", "functionalize(parameters=false), dead_code"] {
        let mut gm = gm.clone();
        Passes::parse(name, &fx::pass::all()).unwrap().run(&mut gm).unwrap();
        let text = gm.graph().to_string();
        assert!(text.contains("i64[u0, 1] = nonzero") && !text.contains("i64[2, 1]"), "{name}: {text}");
        assert!(gm.lint().is_empty(), "{name}: {text}");
    }
}

#[test]
fn names_in_canonical_form_do_not_depend_on_those_before() {
    let canonical = |text: &str| {
        let mut gm = GraphModule::new("M", fx::Graph::parse(text, &fx::registry()).unwrap());
        let passes = Passes::parse("canonicalize", &fx::pass::all()).unwrap();
        assert_eq!(passes.run(&mut gm).unwrap().passes[0].changed(), text.contains("%b"), "{text}");
        gm.graph().to_string()
    };
    let text = "graph main(%mul_1, %y) {
       %b = add(%mul_1, %y)
       %mul = mul(%b, %y)
       %a = mul(%mul, %y)
       return %a
     }";
    let once = canonical(text);
    assert!(once.contains("%mul_2 = mul(%mul, %y)"), "{once}");
    assert_eq!(canonical(&once), once);
}

/// A window of 16 elements needs as many, and `s + 70` of them at a step of 3 follow from two axes.
#[test]
fn generated_inputs_are_as_large_as_the_program_needs() {
    let text = "graph main(%x: f32[1, 1, n], %y: f32[1, 2, s], %z: f32[1, 2, m]) {
        %a = avg_pool1d(%x, 16, 1)
        %joined = cat([%y, %z], 2)
        %b = avg_pool1d(%joined, 70, 3)
        return [%a, %b]
    }";
    let gm = GraphModule::new("Net", fx::parse(text).unwrap());
    for seed in 0..20 {
        let inputs = fx::pass::sample_inputs(&gm, seed).unwrap();
        let results = fx::check::tensors(&gm.call_values(&inputs).unwrap());
        assert!(results.iter().all(|result| result.array().unwrap().numel() > 0), "{seed}: {results:?}");
        let most = inputs.iter().map(|input| input.leaf().unwrap().array().unwrap().numel()).max();
        assert!(most.unwrap() < 200, "{seed}: {most:?}");
    }
}
