//! The tuned kernels of row-wise operations against their bodies as they are written.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use fx_core::math::Real;
use fx_core::rowwise::{Compute, RowCall};
use fx_core::{Arg, DType, Registry, TensorType};
use proptest::prelude::*;

/// Compares tuned kernels with bodies as they are written, row by row. Terms of sums may cancel, so that their
/// errors are measured by the magnitudes of the terms.
fn agree<T: Real + Compute>(call: RowCall, x: &[T], width: usize, others: &[&[T]], rtol: f64) {
    let each = if call.reduces() { 1 } else { width };
    let n = x.len() / width * each;
    let terms = match call.def.name {
        "sum" => 1.0,
        "mean" => 1.0 / width as f64,
        _ => 0.0,
    };
    let (mut tuned, mut portable) = (vec![T::ZERO; n], vec![T::ZERO; n]);
    call.run(x, width, others, &mut tuned);
    call.run_portable(x, width, others, &mut portable);
    for (row, (got, want)) in tuned.chunks(each).zip(portable.chunks(each)).enumerate() {
        let finite =
            |x: &[T]| -> Vec<f64> { x.iter().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).collect() };
        let magnitude = terms * finite(&x[row * width..][..width]).iter().sum::<f64>();
        let scale = finite(want).into_iter().fold(magnitude, f64::max);
        for (got, want) in got.iter().zip(want).map(|(got, want)| (got.to_f64(), want.to_f64())) {
            let is_near = got == want || got.is_nan() && want.is_nan() || (got - want).abs() <= rtol * scale;
            assert!(
                is_near,
                "{} of {:?}: {got}, as written {want}",
                call.def.name,
                &x[row * width..][..width]
            );
        }
    }
}

/// The tuned row-wise operations with their arguments; each tensor after the first has the size of a row.
fn calls() -> Vec<(&'static str, Vec<Arg<()>>)> {
    let leaf = || Arg::Leaf(());
    let none = || Arg::None;
    let last = || Arg::Int(-1);
    let axes = || Arg::ints([-1]);
    let row = || Arg::ints([1]);
    let normalize = |p| ("normalize", vec![leaf(), Arg::Float(p), last(), Arg::Float(1e-12)]);
    vec![
        ("softmax", vec![leaf(), last(), none()]),
        ("log_softmax", vec![leaf(), last(), none()]),
        ("softmin", vec![leaf(), last(), none()]),
        ("layer_norm", vec![leaf(), row(), none(), none(), Arg::Float(1e-5)]),
        ("layer_norm", vec![leaf(), row(), leaf(), none(), Arg::Float(1e-5)]),
        ("layer_norm", vec![leaf(), row(), leaf(), leaf(), Arg::Float(1e-5)]),
        ("rms_norm", vec![leaf(), row(), none(), Arg::Float(1e-6)]),
        ("rms_norm", vec![leaf(), row(), leaf(), Arg::Float(1e-6)]),
        normalize(2.0),
        normalize(1.0),
        normalize(0.0),
        normalize(f64::INFINITY),
        normalize(f64::NEG_INFINITY),
        normalize(2.5),
        ("sum", vec![leaf(), axes(), Arg::Bool(false), none()]),
        ("mean", vec![leaf(), axes(), Arg::Bool(false), none()]),
        ("amax", vec![leaf(), axes(), Arg::Bool(false)]),
        ("amin", vec![leaf(), axes(), Arg::Bool(false)]),
        ("logsumexp", vec![leaf(), axes(), Arg::Bool(false)]),
        ("linalg_vector_norm", vec![leaf(), Arg::Int(2), axes(), Arg::Bool(false), none()]),
        ("var", vec![leaf(), axes(), Arg::Int(1), Arg::Bool(false), none()]),
        ("std", vec![leaf(), axes(), Arg::Int(0), Arg::Bool(false), none()]),
    ]
}

/// Returns the row-wise call of a row and how many operands it has after the first.
fn row_call(name: &str, args: &[Arg<()>], x: &TensorType) -> (RowCall, usize) {
    static REGISTRY: LazyLock<Registry> = LazyLock::new(fx_ops::registry);
    let rule = REGISTRY.get(name).and_then(|op| op.rows).unwrap_or_else(|| panic!("{name} has no rows"));
    let call = rule(args, x).unwrap_or_else(|| panic!("{name}: {args:?} is no call of rows")).call;
    let others = args[1..].iter().filter(|arg| matches!(arg, Arg::Leaf(()))).count();
    (call, others)
}

#[test]
fn every_tuned_kernel_is_compared() {
    let x = TensorType::new(DType::F32, [1usize, 1].as_slice());
    let defs = calls().into_iter().map(|(name, args)| row_call(name, &args, &x).0.def);
    let compared: BTreeSet<&str> = defs.filter(|def| def.portable.is_some()).map(|def| def.name).collect();
    assert_eq!(compared.len(), 13, "{compared:?}");
    for op in fx_ops::tables().flatten().filter(|op| op.rows.is_some()) {
        assert!(calls().iter().any(|(name, _)| *name == op.name), "{} is compared", op.name);
    }
}

/// The elements of a row of this seed, one of 97 of which is `special`.
fn elements(seed: u64, n: usize, special: f64) -> Vec<f64> {
    let number = |i: usize| {
        let bits = (seed ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
        if bits.is_multiple_of(97) { special } else { bits as f64 / (1u64 << 53) as f64 * 6.0 - 3.0 }
    };
    (0..n).map(number).collect()
}

#[test]
fn sums_whose_terms_cancel_agree() {
    let x: Vec<f32> = elements(15004995946375607048, 600, 0.5).iter().map(|&x| x as f32).collect();
    let ty = TensorType::new(DType::F32, [1usize, 600].as_slice());
    for (name, args) in calls().into_iter().filter(|(name, _)| ["sum", "mean"].contains(name)) {
        agree(row_call(name, &args, &ty).0, &x, 600, &[], 4e-6);
    }
}

proptest! {
    #[test]
    fn tuned_kernels_are_their_bodies(
        n_rows in 1usize..20, width in prop::sample::select(vec![1usize, 2, 7, 16, 63, 64, 131, 600, 1500]),
        seed in any::<u64>(), special in prop::sample::select(vec![0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30]),
    ) {
        let x = elements(seed, n_rows * width, special);
        let weights: Vec<f64> = (0..2 * width).map(|i| f64::sin(i as f64)).collect();
        let [x32, weights32] = [&x, &weights].map(|data| data.iter().map(|&x| x as f32).collect::<Vec<f32>>());
        for (name, mut args) in calls() {
            // Norms name the size of a row.
            args.iter_mut().filter(|arg| **arg == Arg::ints([1])).for_each(|arg| *arg = Arg::ints([width as i64]));
            let ty = TensorType::new(DType::F32, [n_rows, width].as_slice());
            let (call, n) = row_call(name, &args, &ty);
            let others: Vec<&[f64]> = weights.chunks(width).take(n).collect();
            agree(call, &x, width, &others, 1e-12);
            let others: Vec<&[f32]> = weights32.chunks(width).take(n).collect();
            agree(call, &x32, width, &others, 4e-6);
        }
    }
}
