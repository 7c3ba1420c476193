//! Generalised universal functions of a user, [`fx::gufunc!`]: the eager kernel, plans, native code and crates
//! agree.

use fx::prelude::*;
use fx::standalone::CrateOptions;
use fx::{Engine, ErrorKind, Value, check, opcheck};

use crate::standalone::reproduces;

fx::gufunc! {
    /// Operations on blocks of a crate that is neither fx-core nor fx-ops.
    pub trait Own; pub static OWN;

    /// `(x @ weight.T) * scale + bias`, for a weight of 8 bits with a scale for each of its rows.
    #[split = n]
    linear_int8(x: T[k], weight: i8[n, k], scale: T[n], bias: Option T[n]; factor: 1.0) -> (out: T[n]) {
        for (i, out) in out.iter_mut().enumerate() {
            let mut sum: T = 0.0;
            for (w, x) in weight[i * k..][..k].iter().zip(x) {
                sum += *w as T * *x;
            }
            *out = sum * scale[i] * factor;
            if let Some(bias) = bias {
                *out += bias[i];
            }
        }
    }

    /// The distances between all rows of two matrices.
    #[split = n]
    distances(x: T[n, d], y: T[m, d]) -> (out: T[n, m]) {
        for i in 0..n {
            for j in 0..m {
                let squares = row::sum_of_pairs(&x[i * d..][..d], &y[j * d..][..d], |x, y| (x - y) * (x - y));
                out[i * m + j] = math::sqrt(squares);
            }
        }
    }

    /// The sum of squares of three numbers, as often as a triple stands in a row.
    squares(x: T[3]) -> (out: T[]) {
        out[0] = row::sum_squares(x);
    }

    /// The greatest element of a row, its position, and whether each element is it.
    greatest(x: T[n]) -> (value: T[], index: i64[], is_greatest: bool[n]) {
        value[0] = T::NEG_INFINITY;
        for (i, x) in x.iter().enumerate() {
            if *x > value[0] {
                value[0] = *x;
                index[0] = i as i64;
            }
        }
        // Results are zeros at first.
        for (is_greatest, x) in is_greatest.iter_mut().zip(x) {
            if *x == value[0] {
                *is_greatest = true;
            }
        }
    }

    /// The means of pairs of neighbours, and of what is left.
    halved(x: T[n]) -> (out: T[(n + 1) / 2]) {
        for (out, pair) in out.iter_mut().zip(x.chunks(2)) {
            *out = pair.iter().sum::<T>() / pair.len() as T;
        }
    }

    /// How often each of `n` bytes occurs, at positions that the second operand counts.
    occurrences(x: u8[n], counted: i32[m]) -> (out: i64[m]) {
        for (out, counted) in out.iter_mut().zip(counted) {
            *out = x.iter().filter(|x| **x as i32 == *counted).count() as i64;
        }
    }

    /// A body that calls a function of this file, which crates do not have.
    doubled(x: T[n]) -> (out: T[n]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = twice(*x as f64) as T;
        }
    }
}

fn twice(x: f64) -> f64 {
    2.0 * x
}

fn ramp(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    let data: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 64) as f32 / 16.0 - 2.0).collect();
    Tensor::new(data).reshape(shape.iter().map(|&n| n as i64).collect::<Vec<_>>())
}

fn bytes(shape: &[usize]) -> Tensor {
    (ramp(shape) * 30.0).to(DType::I8)
}

/// A model of all of them, with pointwise neighbours before and after.
fn block(x: &Tensor, weight: &Tensor, scale: &Tensor, y: &Tensor) -> (Tensor, Tensor, Tensor) {
    let h = (x * 0.5).tanh().linear_int8(weight, scale, scale, 1.0).gelu() + 1.0;
    let far = h.distances(y).exp() - 2.0;
    let (value, index, is_greatest) = (h.halved() * 3.0).greatest();
    (far, value.relu() + index, is_greatest)
}

/// Checks that two values have the same types and bits.
fn are_equal(got: &Value, expected: &Value) {
    for (got, expected) in check::tensors(got).iter().zip(check::tensors(expected)) {
        assert_eq!(got.ty().unwrap(), expected.ty().unwrap());
        assert!(got.array().unwrap().bits_eq(expected.array().unwrap()), "{got:?} {expected:?}");
    }
}

#[test]
fn the_definition_is_the_eager_kernel() {
    let x = Tensor::new([[1.0f32, 2.0], [0.0, -1.0]]);
    let weight = Tensor::new([[1i8, 0], [3, -2], [0, 5]]);
    let scale = Tensor::new([1.0f32, 0.5, 2.0]);
    let y = x.linear_int8(&weight, &scale, None::<&Tensor>, 1.0);
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, -0.5, 20.0, 0.0, 1.0, -10.0]);
    let y = x.linear_int8(&weight, &scale, &scale, 2.0);
    assert_eq!(y.to_vec::<f32>().unwrap(), [3.0, -0.5, 42.0, 1.0, 2.5, -18.0]);
    let (value, index, is_greatest) = x.greatest();
    assert_eq!(value.to_vec::<f32>().unwrap(), [2.0, 0.0]);
    assert_eq!(index.to_vec::<i64>().unwrap(), [1, 0]);
    assert_eq!(is_greatest.to_vec::<bool>().unwrap(), [false, true, true, false]);
    assert_eq!(Tensor::new([1.0f64, 2.0, 6.0]).halved().to_vec::<f64>().unwrap(), [1.5, 6.0]);
    let counted = Tensor::new([0i32, 7, 300]);
    let bytes = Tensor::new([[0u8, 7, 7], [0, 0, 0]]);
    assert_eq!(bytes.occurrences(&counted).to_vec::<i64>().unwrap(), [1, 2, 0, 3, 0, 0]);
    for op in OWN {
        opcheck::check(*op).unwrap().ok().unwrap();
    }
}

#[test]
fn loop_axes_broadcast_and_threads_change_nothing() {
    let (x, y) = (ramp(&[5, 1, 7, 3]), ramp(&[4, 6, 3]));
    let got = x.distances(&y);
    assert_eq!(got.ty().unwrap().to_string(), "f32[5, 4, 7, 6]");
    for (i, j) in [(0, 0), (4, 3), (2, 1)] {
        let one = x.select(0, i).select(0, 0).distances(y.select(0, j));
        assert!(got.select(0, i).select(0, j).contiguous().array().unwrap().bits_eq(one.array().unwrap()));
    }
    // Blocks that are no rows in memory, and those of operands that are repeated.
    let turned = ramp(&[3, 7, 5]).permute([2, 1, 0]);
    let dense = turned.contiguous();
    are_equal(&Value::from(&turned.distances(&dense)), &Value::from(&dense.distances(&dense)));
    let many = ramp(&[3000, 24]);
    let all = many.greatest();
    let one = fx::with_threads(1, || many.greatest());
    are_equal(&Value::from(&all.0), &Value::from(&one.0));
    are_equal(&Value::from(&all.2), &Value::from(&one.2));
    // One block, and a few large ones, which are cut.
    for shape in [&[1, 150][..], &[3, 1, 400]] {
        let (x, weight, scale) = (ramp(shape), bytes(&[1501, *shape.last().unwrap()]), ramp(&[1501]));
        let all = x.linear_int8(&weight, &scale, &scale, 0.5);
        let one = fx::with_threads(1, || x.linear_int8(&weight, &scale, &scale, 0.5));
        are_equal(&Value::from(&all), &Value::from(&one));
        let column =
            |i| x.linear_int8(weight.narrow(0, i, 1), scale.narrow(0, i, 1), scale.narrow(0, i, 1), 0.5);
        for i in [0, 700, 1500] {
            let at = all.narrow(-1, i, 1).contiguous();
            assert!(at.array().unwrap().bits_eq(column(i).array().unwrap()), "{shape:?} {i}");
        }
    }
    for shape in [[0, 4], [4, 0], [0, 0]] {
        let (value, _, is_greatest) = ramp(&shape).greatest();
        assert_eq!((value.array().unwrap().numel(), is_greatest.array().unwrap().numel()), (shape[0], 0));
    }
}

#[test]
fn it_is_a_step_of_plans_with_what_follows() {
    let specs = ["f32[b, k]", "i8[n, k]", "f32[n]", "f32[m, n]"];
    let traced = |specs: [&str; 4]| {
        let [x, weight, scale, y] = specs;
        fx::trace(block).input("x", x).input("y", weight).input("z", scale).input("x3", y).build().unwrap()
    };
    let gm = traced(specs);
    let programs = [gm.compile(Engine::Fused).unwrap(), gm.compile(Engine::Native).unwrap()];
    let known = traced(["f32[64, 9]", "i8[20, 9]", "f32[20]", "f32[5, 20]"]);
    let plan = known.compile(Engine::Fused).unwrap().fused().unwrap().describe();
    expect_test::expect![[r#"
        6 steps, 8448 bytes of memory (at least 8448), 2176 bytes of arrays
          %fused: 2 steps over 576 elements, 576 at a time
          %fused_1: linear_int8 of 64 blocks, then 2 steps
          %fused_3: halved of 64 blocks, then 1 steps
          %greatest: greatest of 64 blocks
          %fused_2: distances of 1 blocks, then 2 steps
          %fused_4: 3 steps in 2 passes over 64 elements, 64 at a time
    "#]]
    .assert_eq(&plan);
    for (b, k, n, m) in [
        (2, 3, 5, 1),
        (64, 9, 20, 5),
        (1, 1, 1, 1),
        (0, 3, 4, 2),
        (3, 0, 5, 2),
        (700, 33, 17, 4),
        (1, 200, 1501, 2),
        (5, 500, 1500, 1),
    ] {
        let args = [ramp(&[b, k]), bytes(&[n, k]), ramp(&[n]), ramp(&[m, n])].map(|x| Value::from(&x));
        let expected = gm.call_values(&args).unwrap();
        for program in &programs {
            are_equal(&program.call_values(&args).unwrap(), &expected);
        }
        let one = fx::with_threads(1, || programs[0].call_values(&args)).unwrap();
        are_equal(&one, &expected);
    }
}

#[test]
fn it_is_written_into_crates() {
    let specs = ["f32[b, 12]", "i8[10, 12]", "f32[10]", "f32[m, 10]"];
    let [x, weight, scale, y] = specs;
    let gm =
        fx::trace(block).input("x", x).input("y", weight).input("z", scale).input("x3", y).build().unwrap();
    let set = |b: usize, m: usize| {
        [ramp(&[b, 12]), bytes(&[10, 12]), ramp(&[10]), ramp(&[m, 10])].map(|x| Value::from(&x))
    };
    let options = CrateOptions::new().record(&set(3, 2)).record(&set(900, 7)).record(&set(0, 1));
    let dir = reproduces(&gm, "gufunc", options);
    let text = std::fs::read_to_string(dir.join("src/kernels/blocks.rs")).unwrap();
    expect_test::expect_file!["standalone/gufunc.txt"].assert_eq(&text);

    // One large block is cut for threads.
    let large = |x: &Tensor, weight: &Tensor, scale: &Tensor| x.linear_int8(weight, scale, scale, 1.0);
    let gm = fx::trace(large).input("x", "f32[n, 1000]").input("y", "i8[3001, 1000]").input("z", "f32[3001]");
    let set = |n: usize| [ramp(&[n, 1000]), bytes(&[3001, 1000]), ramp(&[3001])].map(|x| Value::from(&x));
    let options = CrateOptions::new().record(&set(1)).record(&set(2));
    reproduces(&gm.build().unwrap(), "gufunc_large", options);

    // Halves are computed as f32; loop axes broadcast; the core of an operand is copied where it has gaps.
    let others = |x: &Tensor, y: &Tensor| {
        let far = x.permute([0, 2, 1]).distances(y);
        (far.halved().squares(), y.greatest().1)
    };
    let gm = fx::trace(others).input("x", "f16[2, 3, 6]").input("y", "f16[5, 3]").build().unwrap();
    let args = [ramp(&[2, 3, 6]), ramp(&[5, 3])].map(|x| Value::from(&x.to(DType::F16)));
    reproduces(&gm, "gufunc_halves", CrateOptions::new().record(&args));

    let alone = fx::trace(|x: &Tensor| x.doubled()).input("x", "f32[4]").build().unwrap();
    let error = alone.to_package(&CrateOptions::new().name("doubled")).unwrap_err();
    assert!(error.message().contains("its body names `twice`"), "{error}");
}

#[test]
fn wrong_operands_are_errors_that_name_them() {
    let (x, weight, scale) = (ramp(&[2, 3]), bytes(&[4, 3]), ramp(&[4]));
    let fails = |y: Tensor| {
        let error = y.array().unwrap_err();
        assert!(error.source_loc().is_some_and(|at| at.file().ends_with("gufunc.rs")), "{error:?}");
        (error.kind(), error.message().to_owned())
    };
    let none = None::<&Tensor>;
    let (shape, dtype) = (ErrorKind::Shape, ErrorKind::DType);
    for (y, kind, message) in [
        (
            x.linear_int8(bytes(&[4, 5]), &scale, none, 1.0),
            shape,
            "expected weight of [.., n, k], where k is 3 as x says, got i8[4, 5]",
        ),
        (x.linear_int8(&x, &scale, none, 1.0), dtype, "expected weight of i8, got f32[2, 3]"),
        (
            x.linear_int8(&weight, scale.to(DType::F64), none, 1.0),
            dtype,
            "expected scale of f32, the dtype of x, got f64[4]",
        ),
        (weight.linear_int8(&weight, &scale, none, 1.0), dtype, "expected x of floats, got i8[4, 3]"),
        (scale.distances(&x), shape, "expected x of [.., n, d], got f32[4]"),
        (scale.squares(), shape, "expected x of [.., 3], got f32[4]"),
        (
            ramp(&[2, 4, 3]).distances(ramp(&[5, 4, 3])),
            shape,
            "cannot broadcast [2] with [5], before the core axes of x [.., n, d], y [.., m, d]",
        ),
    ] {
        assert_eq!(fails(y), (kind, message.to_owned()));
    }
}
