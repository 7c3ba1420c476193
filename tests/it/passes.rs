//! Passes on modules, on models, and on random programs made of the whole vocabulary.

use fx::nn::{BatchNorm1d, BatchNorm2d, Conv2d, Dropout, Identity, Linear, ReLU};
use fx::pass::{
    CONST_FOLD, CONVERT_DTYPE, DEAD_CODE, FOLD_BATCH_NORM, INLINE_LEAVES, MERGE_LINEARS, REMOVE_IDENTITIES,
    SHAPE_PROP,
};
use fx::prelude::*;
use fx::testing::Rng;
use fx::{GraphModule, OpCode, Passes};

/// A network in which two convolutions can take up a batch norm, and one is shared with a place where it must stay.
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

fn net() -> Net {
    fx::manual_seed(3);
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

/// Applies an operation of the vocabulary to values, or none if it does not fit.
fn random_step(rng: &mut Rng, pool: &[Tensor]) -> Tensor {
    let x = rng.pick(&pool[pool.len().saturating_sub(6)..]);
    let y = rng.pick(pool);
    let rank = x.rank().unwrap_or(1) as i64;
    let axis = rng.below(rank.max(1) as usize) as i64;
    match rng.below(40) {
        0 => -&x,
        1 => &x * 1.0,
        2 => &x + 0,
        3 => &x + 3,
        4 => &x - -&y,
        5 => x.relu(),
        6 => x.abs(),
        7 => x.transpose(axis, -1),
        8 => x.transpose(0, rank - 1),
        9 => x.unsqueeze(axis),
        10 => x.squeeze([axis]),
        11 => x.reshape([-1]),
        12 => x.reshape([-1, 2]),
        13 => x.flip([axis]),
        14 => x.clone(),
        15 => fx::contiguous(&x),
        16 => x.to(rng.pick(&[DType::F32, DType::F64, DType::F16])),
        17 => x.sigmoid(),
        18 => &x * x.sigmoid(),
        19 => x.pow(2),
        20 => x.softmax(axis),
        21 => x.softmax(axis).log(),
        22 => &x - x.mean(axis, true),
        23 => {
            let c = &x - x.mean(-1, true);
            let v = c.square().mean(-1, true) + 1e-5;
            c * v.rsqrt()
        }
        24 => &x * ((x.square().mean(-1, true) + 1e-6).rsqrt()),
        25 => (&x * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0,
        26 => &x * 0.5 * ((&x / std::f64::consts::SQRT_2).erf() + 1.0),
        27 => x.exp() / x.exp().sum(axis, true),
        28 => &x * &y,
        29 => x.maximum(&x),
        30 => &x * 2.0 * 0.25,
        31 => x.permute((0..rank).rev().collect::<Vec<_>>()),
        32 => x.matmul(y.transpose(-1, -2)),
        33 => fx::where_(x.gt(0.0), &x, &x * 0.1),
        34 => fx::dropout(&x, 0.5, rng.one_in(3)),
        35 => x.eq(&y).logical_not(),
        36 => fx::cat([&x], 0),
        37 => x.expand(vec![-1i64; rank.max(0) as usize]),
        38 => (&x / 1.0).tanh(),
        _ => &x + &y,
    }
}

/// Returns a program of about `size` operations, made by tracing, so that every type fits.
fn random_program(seed: u64, size: usize) -> Option<GraphModule> {
    let program = move |x: &Tensor, y: &Tensor| {
        let mut rng = Rng::new(seed);
        let mut pool = vec![x.clone(), y.clone()];
        for _ in 0..size {
            let z = random_step(&mut rng, &pool);
            // What does not fit is not used; it must not be recorded either, so the whole program is made anew without it.
            if z.error().is_some() {
                return (z.clone(), z);
            }
            pool.push(z);
        }
        (pool[pool.len() - 1].clone(), rng.pick(&pool))
    };
    fx::trace(program).input("x", "f32[n, 4, 2]").input("y", "f32[4, 2]").build().ok()
}

#[test]
fn the_default_passes_keep_the_results_of_random_programs() {
    let text = format!("{}, canonicalize", fx::pass::DEFAULT);
    let passes = Passes::parse(&text, &fx::pass::all()).unwrap().compare_runs(2, 9).tolerance(2e-3);
    let (mut programs, mut erased, mut runs) = (0, 0, 0);
    for seed in 0..600 {
        let Some(mut gm) = random_program(seed, 3 + (seed % 12) as usize) else { continue };
        programs += 1;
        let before = gm.graph().to_string();
        let report = passes.run(&mut gm).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{before}"));
        erased += report.passes.iter().map(|pass| pass.erased).sum::<usize>();
        runs += report.passes[0].n_runs;
    }
    assert!(
        programs > 100 && erased > 200 && runs > 150,
        "{programs} programs, {erased} nodes erased, {runs} runs"
    );
}
