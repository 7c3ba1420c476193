//! Laws of the kernels: naive references, equal bits for any number of threads, and shape rules that agree
//! with kernels.

use fx_core::{
    Arg, Array, DType, Dim, Error, Op, Shape, Symbol, Tensor, TensorType, Type, TypeTree, Value, call,
};
use fx_ops::ops::attention::scaled_dot_product_attention;
use fx_ops::ops::conv::{self, Convolution};
use fx_ops::ops::embedding;
use fx_ops::ops::linalg::{Linalg, addmm, linear, matmul};
use fx_ops::ops::loss::{self, cross_entropy};
use fx_ops::ops::normalization::{self, Normalization, layer_norm, softmax};
use fx_ops::ops::pad::{self, Padding};
use fx_ops::ops::pointwise::{self, Activation, Elementary};
use fx_ops::ops::pool::{self, Pooling};
use fx_ops::ops::recurrent::{gru, gru_cell, lstm, lstm_cell};
use proptest::prelude::*;

/// Makes numbers between -2 and 2 that look random.
fn numbers(seed: u64, shape: &[usize]) -> Tensor {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 22) as f32 - 2.0
    };
    Tensor::from_vec((0..shape.iter().product::<usize>()).map(next).collect(), shape)
}

fn array(x: &Tensor) -> Array {
    x.array().unwrap().clone()
}

fn transposed(x: &Tensor) -> Tensor {
    let x = array(x);
    x.transpose(x.rank() - 2, x.rank() - 1).unwrap().into()
}

fn close(got: &Tensor, expected: &Tensor) {
    got.all_close(expected, 1e-4, 1e-5).unwrap();
}

/// The matrix product by its definition, in `f64`.
fn naive_matmul(a: &Tensor, b: &Tensor) -> Tensor {
    let (a, b) = (array(a), array(b));
    let [m, k] = a.shape() else { panic!() };
    let n = b.shape()[1];
    let at = |x: &Array, i: usize, j: usize| x.get(&[i, j]).unwrap().to_f64();
    let out =
        (0..m * n).map(|at_| (0..*k).map(|p| at(&a, at_ / n, p) * at(&b, p, at_ % n)).sum::<f64>() as f32);
    Tensor::from_vec(out.collect(), &[*m, n])
}

fn item(x: &Tensor, i: usize) -> Tensor {
    array(x).select(0, i).unwrap().into()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn products_agree_with_their_definition(
        seed in 0u64..1000, b in 1usize..4, m in 1usize..9, k in 0usize..20, n in 1usize..9, turn in 0..4,
    ) {
        let x = if turn & 1 == 0 { numbers(seed, &[b, m, k]) } else { transposed(&numbers(seed, &[b, k, m])) };
        let y = if turn & 2 == 0 { numbers(seed + 1, &[k, n]) } else { transposed(&numbers(seed + 1, &[n, k])) };
        let (got, bias) = (x.matmul(&y), numbers(seed + 2, &[n]));
        let with_bias = linear(&x, transposed(&y), &bias);
        for i in 0..b {
            let expected = naive_matmul(&item(&x, i), &y);
            close(&item(&got, i), &expected);
            close(&item(&with_bias, i), &(&expected + &bias));
            close(&call!(addmm(&bias, &item(&x, i), &y, beta = 2, alpha = 0.5)), &(&bias * 2.0 + expected * 0.5));
        }
        // A batch on the other side, and integers.
        let wide = matmul(numbers(seed, &[m, k]), numbers(seed + 1, &[b, k, n]));
        prop_assert_eq!(wide.shape().unwrap().known().unwrap().to_vec(), vec![b, m, n]);
        let ints = |x: &Tensor| Tensor::from(array(x).cast(DType::I32));
        let (i, j) = (ints(&numbers(seed, &[m, k])), ints(&y));
        close(&Tensor::from(array(&i.matmul(&j)).cast(DType::F32)), &naive_matmul(&i, &j));
    }

    #[test]
    fn attention_is_softmax_between_products(seed in 0u64..1000, l in 1usize..80, s in 1usize..9, group in 1usize..3, kind in 0..3) {
        let (heads, e) = (2, 5);
        let (q, k, v) = (
            numbers(seed, &[heads * group, l, e]), numbers(seed + 1, &[heads, s, e]), numbers(seed + 2, &[heads, s, 3]),
        );
        let seen: Vec<bool> = match kind {
            0 => (0..l * s).map(|i| i % s <= i / s).collect(),
            1 => (0..l * s).map(|i| !(i + seed as usize).is_multiple_of(3)).collect(),
            _ => vec![true; l * s],
        };
        let mask = Tensor::from_vec(seen.clone(), &[l, s]);
        let got: Tensor = match kind {
            0 => call!(scaled_dot_product_attention(&q, &k, &v, is_causal = true, enable_gqa = true)),
            1 => call!(scaled_dot_product_attention(&q, &k, &v, &mask, enable_gqa = true)),
            _ => call!(scaled_dot_product_attention(&q, &k, &v, enable_gqa = true)),
        };
        for head in 0..heads * group {
            let scores = naive_matmul(&item(&q, head), &transposed(&item(&k, head / group))) / (e as f32).sqrt();
            let scores = scores.to_vec::<f32>().unwrap();
            let scores = scores.into_iter().zip(&seen).map(|(x, &seen)| if seen { x } else { f32::NEG_INFINITY }).collect();
            let weights = Tensor::from_vec::<f32>(scores, &[l, s]).softmax(-1).nan_to_num((), (), ());
            close(&item(&got, head), &naive_matmul(&weights, &item(&v, head / group)));
        }
    }

    #[test]
    fn sequences_are_steps(seed in 0u64..1000, t in 0usize..4, n in 1usize..3, i in 1usize..4, d in 1usize..4, both in any::<bool>()) {
        let dirs = if both { 2 } else { 1 };
        for gates in [3, 4] {
            let (mut params, mut at) = (Vec::new(), seed);
            for layer in 0..2 {
                for _ in 0..dirs {
                    let input = if layer == 0 { i } else { dirs * d };
                    for shape in [vec![gates * d, input], vec![gates * d, d], vec![gates * d], vec![gates * d]] {
                        at += 1;
                        params.push(numbers(at, &shape));
                    }
                }
            }
            let x = numbers(seed, &[t, n, i]);
            let (h0, c0) = (numbers(seed + 50, &[2 * dirs, n, d]), numbers(seed + 51, &[2 * dirs, n, d]));
            let mut inputs: Vec<Tensor> = (0..t).map(|k| item(&x, k)).collect();
            let mut last = Vec::new();
            for layer in 0..2 {
                let mut outs = vec![Vec::new(); t];
                for dir in 0..dirs {
                    let at = layer * dirs + dir;
                    let (mut h, mut c) = (item(&h0, at), item(&c0, at));
                    let [w, u, b, e] = &params[at * 4..at * 4 + 4] else { panic!() };
                    for k in 0..t {
                        let k = if dir == 1 { t - 1 - k } else { k };
                        if gates == 4 {
                            (h, c) = lstm_cell(&inputs[k], &h, &c, w, u, b, e);
                        } else {
                            h = gru_cell(&inputs[k], &h, w, u, b, e);
                        }
                        outs[k].push(h.clone());
                    }
                    last.push(h);
                }
                inputs = outs.iter().map(|parts| {
                    let rows = (0..n).flat_map(|row| parts.iter().flat_map(move |x| item(x, row).to_vec::<f32>().unwrap()));
                    Tensor::from_vec(rows.collect(), &[n, dirs * d])
                }).collect();
            }
            let (out, h) = if gates == 4 {
                let (out, h, _): (Tensor, Tensor, Tensor) =
                    call!(lstm(&x, &h0, &c0, &params, num_layers = 2, bidirectional = both));
                (out, h)
            } else {
                call!(gru(&x, &h0, &params, num_layers = 2, bidirectional = both))
            };
            (0..t).for_each(|k| close(&item(&out, k), &inputs[k]));
            last.iter().enumerate().for_each(|(k, x)| close(&item(&h, k), x));
        }
    }

    #[test]
    fn softmax_is_the_same_along_any_axis(seed in 0u64..1000, m in 1usize..70, n in 1usize..70) {
        let x = numbers(seed, &[m, n]);
        let rows = x.softmax(-1);
        for row in rows.to_vec::<f32>().unwrap().chunks(n) {
            prop_assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
        close(&transposed(&transposed(&x).softmax(0)), &rows);
        close(&x.log_softmax(1), &rows.log());
    }
}

#[test]
fn special_values_are_those_of_pytorch() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let x = Tensor::from_vec(vec![-inf, -2.5, -0.0, 0.0, 0.5, inf, nan], &[7]);
    let check = |got: Tensor, expected: [f32; 7]| {
        let got: Vec<f32> = got.to_vec().unwrap();
        for (got, expected) in got.iter().zip(expected) {
            assert!(*got == expected || got.is_nan() && expected.is_nan(), "got {got}, expected {expected}");
        }
    };
    check(x.relu(), [0.0, 0.0, 0.0, 0.0, 0.5, inf, nan]);
    check(x.sign(), [-1.0, -1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    check(x.clamp(-1.0, ()), [-1.0, -1.0, 0.0, 0.0, 0.5, inf, nan]);
    check(x.clamp((), 0.25), [-inf, -2.5, 0.0, 0.0, 0.25, 0.25, nan]);
    check(x.nan_to_num(7.0, (), -1.0), [-1.0, -2.5, 0.0, 0.0, 0.5, f32::MAX, 7.0]);
    check(x.round(0), [-inf, -2.0, 0.0, 0.0, 0.0, inf, nan]);
    check(x.hardtanh(-1.0, 1.0), [-1.0, -1.0, 0.0, 0.0, 0.5, 1.0, nan]);
    check(x.heaviside(3.0), [0.0, 0.0, 3.0, 3.0, 1.0, 1.0, 0.0]);
    check(x.fmax(0.0), [0.0, 0.0, 0.0, 0.0, 0.5, inf, 0.0]);
    check(x.hypot(inf), [inf; 7]);
    assert!(x.relu().to_vec::<f32>().unwrap()[2].is_sign_negative());
    let ints = Tensor::new(vec![-3i64, 0, 2]);
    assert_eq!(ints.pow(3).to_vec::<i64>().unwrap(), [-27, 0, 8]);
    assert_eq!(ints.clamp(0.5, ()).dtype().unwrap(), DType::F32);
    assert_eq!(ints.clamp((), 1).to_vec::<i64>().unwrap(), [-3, 0, 1]);
    assert_eq!(ints.exp().dtype().unwrap(), DType::F32);
    assert_eq!(ints.trunc_divide(2).to_vec::<i64>().unwrap(), [-1, 0, 1]);
    assert!(ints.pow(-1).error().unwrap().message().contains("negative integer powers"));
    assert!(ints.fmod(0).error().unwrap().message().contains("division by zero"));
    let half = Tensor::from(array(&x).cast(DType::F16));
    assert_eq!(half.nan_to_num((), (), ()).to_vec::<half::f16>().unwrap()[5], half::f16::MAX);
    assert_eq!(pointwise::gelu(&half).dtype().unwrap(), DType::F16);
}

#[test]
fn windows_have_exact_values() {
    let x = Tensor::from_vec((0..6).map(|x| x as f32).collect(), &[1, 1, 6]);
    let w = Tensor::from_vec(vec![1.0f32, 10.0], &[1, 1, 2]);
    assert_eq!(x.conv1d(&w, (), 1, "same").to_vec::<f32>().unwrap(), [10.0, 21.0, 32.0, 43.0, 54.0, 5.0]);
    assert_eq!(x.conv1d(&w, (), 2, "valid").to_vec::<f32>().unwrap(), [10.0, 32.0, 54.0]);
    assert_eq!(x.conv1d(&w, (), 2, 1).to_vec::<f32>().unwrap(), [0.0, 21.0, 43.0, 5.0]);
    let back = x.conv1d(&w, (), 2, 0).conv_transpose1d(&w, (), 2, 0);
    assert_eq!(back.to_vec::<f32>().unwrap(), [10.0, 100.0, 32.0, 320.0, 54.0, 540.0]);
    assert_eq!(x.max_pool1d(3, 2, 1).to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0]);
    assert_eq!(x.avg_pool1d(4, (), 0).to_vec::<f32>().unwrap(), [1.5]);
    assert_eq!(x.adaptive_avg_pool1d(4).to_vec::<f32>().unwrap(), [0.5, 1.5, 3.5, 4.5]);
    let (most, at) = x.max_pool1d_with_indices(2, (), 0);
    assert_eq!(
        (most.to_vec::<f32>().unwrap(), at.to_vec::<i64>().unwrap()),
        (vec![1.0, 3.0, 5.0], vec![1, 3, 5])
    );
    let padded = |mode: &str| x.pad([2, -3], mode, ()).to_vec::<f32>().unwrap();
    assert_eq!(padded("constant"), [0.0, 0.0, 0.0, 1.0, 2.0]);
    assert_eq!(padded("reflect"), [2.0, 1.0, 0.0, 1.0, 2.0]);
    assert_eq!(padded("replicate"), [0.0, 0.0, 0.0, 1.0, 2.0]);
    assert_eq!(padded("circular"), [1.0, 2.0, 0.0, 1.0, 2.0]);
    assert!(x.conv1d(numbers(0, &[1, 1, 9]), (), 1, 0).error().is_some());
    assert!(x.pad([6, 0], "reflect", ()).error().is_some());
}

#[test]
fn losses_have_exact_values() {
    let x = Tensor::from_vec(vec![0.0f32, 0.0, 0.0, 3.0f32.ln()], &[2, 2]);
    let target = Tensor::new(vec![0i64, 1]);
    let each: Tensor = call!(cross_entropy(&x, &target, reduction = "none"));
    close(&each, &Tensor::new(vec![2.0f32.ln(), (4.0f32 / 3.0).ln()]));
    let one: Tensor = call!(cross_entropy(&x, &target, ignore_index = 1));
    close(&one, &Tensor::new(2.0f32.ln()));
    close(&x.layer_norm([2], (), (), 0.0), &Tensor::from_vec(vec![f32::NAN, f32::NAN, -1.0, 1.0], &[2, 2]));
    let rows = embedding::embedding(&target, &x);
    assert!(rows.bits_eq(&x));
    assert!(embedding::embedding(Tensor::new(vec![2i64]), &x).error().unwrap().message().contains("0..2"));
}

/// Returns the operation's result on one thread and on four.
fn on_threads(f: impl Fn() -> Tensor + Sync) -> [Tensor; 2] {
    [1, 4].map(|n| rayon::ThreadPoolBuilder::new().num_threads(n).build().unwrap().install(&f))
}

#[test]
fn bits_do_not_depend_on_threads() {
    let (x, w) = (numbers(1, &[2, 8, 40, 40]), numbers(2, &[12, 8, 3, 3]));
    let rows = numbers(3, &[300, 257]);
    let q = numbers(4, &[4, 200, 32]);
    let cases: [&(dyn Fn() -> Tensor + Sync); 6] = [
        &|| x.conv2d(&w, (), 1, 1),
        &|| softmax(&rows, -1),
        &|| layer_norm(&rows, [257], (), (), 1e-5),
        &|| rows.matmul(transposed(&rows)),
        &|| q.matmul(transposed(&q)),
        &|| scaled_dot_product_attention(&q, &q, &q, (), 0.0, true),
    ];
    for case in cases {
        let [one, four] = on_threads(case);
        assert!(one.bits_eq(&four));
    }
}

/// Checks that the rule gives the type of the result, also with every size from 2 on as a symbol.
fn check_rule(op: Op, args: &[Value]) {
    let args = op.bind(args, &[] as &[(&str, Value)]).unwrap();
    let concrete = |x: &Value| x.try_flat_map(&mut |x: &Tensor| Ok::<_, Error>(x.ty()?.into())).unwrap();
    let types: Vec<TypeTree> = args.iter().map(concrete).collect();
    let got = concrete(&(op.eval)(&args).unwrap_or_else(|error| panic!("{}: {error}", op.name)));
    assert_eq!(op.infer(&types).unwrap().as_ref(), Some(&got), "{}", op.name);
    let map = |tree: &TypeTree, f: &dyn Fn(&Dim) -> Dim| {
        tree.map(&mut |leaf: &Type| match leaf {
            Type::Tensor(ty) => {
                Type::Tensor(TensorType::new(ty.dtype, ty.shape.iter().map(f).collect::<Shape>()))
            }
            other => other.clone(),
        })
    };
    let symbol = |dim: &Dim| match dim.known() {
        Some(n @ 2..) => Dim::symbol(Symbol::with_range(format!("s{n}"), 1, None)),
        _ => dim.clone(),
    };
    let symbolic: Vec<TypeTree> = types.iter().map(|ty| map(ty, &symbol)).collect();
    let inferred =
        op.infer(&symbolic).unwrap_or_else(|error| panic!("{}: {error}", op.name)).expect("all is known");
    let value = |dim: &Dim| Dim::new(dim.eval(&|symbol| symbol.name()[1..].parse().ok()).unwrap());
    assert_eq!(map(&inferred, &value), got, "{}: {inferred}", op.name);
}

#[test]
fn rules_agree_with_kernels_on_symbols() {
    let t = |shape: &[usize]| Value::from(numbers(7, shape));
    let ints = |x: &[i64]| Value::ints(x.iter().copied());
    let classes = Value::from(Tensor::new(vec![1i64, 0, 2]));
    check_rule(matmul::OP, &[t(&[2, 1, 3, 4]), t(&[5, 4, 6])]);
    check_rule(linear::OP, &[t(&[2, 3, 4]), t(&[5, 4]), t(&[5])]);
    check_rule(conv::conv2d::OP, &[t(&[2, 6, 9, 8]), t(&[4, 6, 3, 3]), t(&[4]), ints(&[2]), ints(&[1])]);
    check_rule(
        conv::conv_transpose2d::OP,
        &[t(&[2, 6, 9, 8]), t(&[6, 4, 3, 3]), t(&[4]), ints(&[2]), ints(&[1])],
    );
    check_rule(pool::max_pool2d::OP, &[t(&[6, 9, 8]), ints(&[3, 2]), ints(&[2]), ints(&[1])]);
    check_rule(pool::max_pool2d_with_indices::OP, &[t(&[2, 6, 9, 8]), ints(&[3])]);
    check_rule(pool::avg_pool2d::OP, &[t(&[2, 6, 9, 8]), ints(&[3])]);
    check_rule(pool::adaptive_avg_pool2d::OP, &[t(&[2, 6, 9, 8]), Value::list([Arg::None, Arg::Int(3)])]);
    check_rule(pad::pad::OP, &[t(&[2, 6, 9, 8]), ints(&[1, 2, -1, 3]), Arg::str("replicate")]);
    check_rule(normalization::softmax::OP, &[t(&[4, 5]), Arg::Int(-1)]);
    check_rule(normalization::layer_norm::OP, &[t(&[4, 5]), ints(&[5]), t(&[5]), t(&[5])]);
    check_rule(normalization::group_norm::OP, &[t(&[2, 6, 4]), Arg::Int(3), t(&[6])]);
    check_rule(normalization::batch_norm::OP, &[t(&[2, 6, 4]), t(&[6]), t(&[6])]);
    check_rule(embedding::embedding::OP, &[classes.clone(), t(&[4, 5])]);
    check_rule(loss::cross_entropy::OP, &[t(&[3, 5]), classes]);
    check_rule(scaled_dot_product_attention::OP, &[t(&[2, 3, 4, 8]), t(&[2, 3, 6, 8]), t(&[2, 3, 6, 5])]);
    let params = [t(&[20, 3]), t(&[20, 5]), t(&[20]), t(&[20])];
    check_rule(lstm_cell::OP, &[&[t(&[2, 3]), t(&[2, 5]), t(&[2, 5])][..], &params].concat());
    check_rule(lstm::OP, &[t(&[7, 2, 3]), t(&[1, 2, 5]), t(&[1, 2, 5]), Value::list(params)]);
}
