//! Random numbers.

use fx_core::rng::{Generator, default_generator, with_generator};
use fx_core::{Arg, Array, DType, Value};

use crate::testing::{call, call1, tensor};

fn drawn(threads: usize, name: &str, args: &[Value]) -> Array {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    with_generator(&Generator::seeded(5), || {
        // The pool's threads have no generator of their own: rows must fetch it here.
        let generator = default_generator();
        pool.install(|| with_generator(&generator, || call1(name, args).unwrap()))
    })
}

#[test]
fn a_seed_gives_the_same_numbers_for_any_number_of_threads() {
    let x = tensor(Array::full(DType::F32, &[300, 401], fx_core::Scalar::Float(0.25)).unwrap());
    let size = Arg::ints([300, 401]);
    let calls: [(&str, Vec<Value>); 6] = [
        ("rand", vec![size.clone()]),
        ("randn", vec![size.clone()]),
        ("randint", vec![Arg::Int(-3), Arg::Int(9), size]),
        ("randperm", vec![Arg::Int(1000)]),
        ("bernoulli", vec![x.clone()]),
        ("dropout", vec![x, Arg::Float(0.3)]),
    ];
    for (name, args) in calls {
        assert!(drawn(1, name, &args).bits_eq(&drawn(4, name, &args)), "{name}");
    }
}

#[test]
fn distributions_have_their_means() {
    let mean = |x: &Array| x.iter_scalars().map(fx_core::Scalar::to_f64).sum::<f64>() / x.numel() as f64;
    let size = Arg::ints([20_000]);
    assert!((mean(&drawn(2, "rand", std::slice::from_ref(&size))) - 0.5).abs() < 0.02);
    assert!(mean(&drawn(2, "randn", std::slice::from_ref(&size))).abs() < 0.05);
    let x = tensor(Array::full(DType::F32, &[20_000], fx_core::Scalar::Int(1)).unwrap());
    assert!((mean(&drawn(2, "dropout", &[x.clone(), Arg::Float(0.25)])) - 1.0).abs() < 0.02);
    assert!((mean(&drawn(2, "dropout", &[x, Arg::Float(0.25), Arg::Bool(false)])) - 1.0).abs() == 0.0);
    let half = call("rand", &[size], &[("dtype", Arg::DType(DType::BF16))]).unwrap();
    assert!(half.leaf().unwrap().array().unwrap().iter_scalars().all(|x| (0.0..1.0).contains(&x.to_f64())));
}
