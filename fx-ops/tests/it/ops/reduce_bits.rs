//! The bits of reductions, against the tree that `fold` describes, written without lanes of vectors or threads.

use fx_core::array::{Stored, dispatch_dtype};
use fx_core::{Arg, Array, DType, Element, Scalar, Value};

use crate::testing::{call1, tensor};

/// The elements of a leaf of a row, and the rows of a leaf of columns.
const BLOCK: usize = 2048;
const ROWS: usize = 128;

/// A way to join elements, and what to begin with.
struct Join<A> {
    init: A,
    join: fn(A, A) -> A,
}

fn sum<A: Element + std::ops::Add<Output = A>>() -> Join<A> {
    Join { init: A::default(), join: |a, b| a + b }
}

impl<A: Copy> Join<A> {
    /// Joins a leaf in 16, 32 or 64 lanes; the rest of a short leaf in parts, each half as long as the one before.
    fn leaf(&self, row: &[A]) -> A {
        let n_lanes = match row.len() {
            0..64 => 16,
            64..512 => 32,
            _ => 64,
        };
        let mut lanes = vec![self.init; n_lanes];
        let (mut rest, mut part) = (row, n_lanes);
        while !rest.is_empty() {
            while part > rest.len() {
                part = if n_lanes == 64 { rest.len() } else { part / 2 };
            }
            let (these, others) = rest.split_at(part);
            for (lane, &x) in lanes.iter_mut().zip(these) {
                *lane = (self.join)(*lane, x);
            }
            rest = others;
        }
        while lanes.len() > 1 {
            let other = lanes.split_off(lanes.len() / 2);
            lanes.iter_mut().zip(other).for_each(|(a, b)| *a = (self.join)(*a, b));
        }
        lanes[0]
    }

    fn row(&self, row: &[A]) -> A {
        if row.len() <= BLOCK {
            return self.leaf(row);
        }
        let (left, right) = row.split_at((row.len() / 2).next_multiple_of(BLOCK));
        (self.join)(self.row(left), self.row(right))
    }

    fn columns(&self, rows: &[&[A]], width: usize) -> Vec<A> {
        let (mut out, others) = if rows.len() <= ROWS {
            (vec![self.init; width], rows.iter().map(|row| row.to_vec()).collect())
        } else {
            let (left, right) = rows.split_at((rows.len() / 2).next_multiple_of(ROWS));
            (self.columns(left, width), vec![self.columns(right, width)])
        };
        for other in others {
            out.iter_mut().zip(other).for_each(|(a, b)| *a = (self.join)(*a, b));
        }
        out
    }

    /// Joins neighbouring axes one group after the other, the last first.
    fn axes(&self, x: &[A], shape: &[usize], mask: &[bool]) -> Vec<A> {
        let mut groups: Vec<(usize, bool)> = Vec::new();
        for (&size, &reduced) in shape.iter().zip(mask).filter(|(size, _)| **size != 1) {
            match groups.last_mut() {
                Some(last) if last.1 == reduced => last.0 *= size,
                _ => groups.push((size, reduced)),
            }
        }
        let mut x = x.to_vec();
        let mut at = groups.iter().rposition(|group| group.1);
        if at.is_none() {
            return x.iter().map(|&x| self.row(&[x])).collect();
        }
        while let Some(i) = at {
            let inner: usize = groups[i + 1..].iter().map(|group| group.0).product();
            let outer: usize = groups[..i].iter().map(|group| group.0).product();
            let n = groups.remove(i).0;
            x = (0..outer)
                .flat_map(|block| {
                    let block = &x[block * n * inner..][..n * inner];
                    match inner {
                        1 => vec![self.row(block)],
                        _ => self.columns(&block.chunks(inner.max(1)).collect::<Vec<_>>(), inner),
                    }
                })
                .collect();
            at = groups.iter().rposition(|group| group.1);
        }
        x
    }
}

/// An array and its reduced axes, the elements as they are read, and their axes.
struct Case {
    x: Array,
    mask: Vec<bool>,
    dense: Array,
    shape: Vec<usize>,
    dense_mask: Vec<bool>,
}

impl Case {
    fn new(x: Array, mask: &[bool]) -> Case {
        let order = |reduced: bool| (0..x.rank()).filter(move |&axis| mask[axis] == reduced);
        let size = |reduced: bool| order(reduced).map(|axis| x.shape()[axis]).product::<usize>();
        // What is not contiguous or empty is made rows first.
        let (dense, shape, dense_mask) = if x.is_contiguous() && !x.is_empty() {
            (x.clone(), x.shape().to_vec(), mask.to_vec())
        } else {
            let axes: Vec<usize> = order(false).chain(order(true)).collect();
            let dense = x.permute(&axes).unwrap().contiguous().unwrap();
            (dense, vec![size(false), size(true)], vec![false, true])
        };
        Case { mask: mask.to_vec(), dense, shape, dense_mask, x }
    }

    /// Returns the elements as rows of the reduced axes.
    fn rows(&self) -> Vec<Vec<f64>> {
        let rows = |reduced| (0..self.x.rank()).filter(move |&axis| self.mask[axis] == reduced);
        let axes: Vec<usize> = rows(false).chain(rows(true)).collect();
        let n: usize = rows(true).map(|axis| self.x.shape()[axis]).product();
        let data = self.x.permute(&axes).unwrap().cast(DType::F64).to_vec::<f64>().unwrap();
        data.chunks(n.max(1)).map(<[f64]>::to_vec).collect()
    }

    fn call(&self, name: &str, before: &[Value]) -> Array {
        let axes = Arg::ints(self.mask.iter().zip(0..).filter(|(on, _)| **on).map(|(_, axis)| axis));
        let mut args = vec![tensor(self.x.clone())];
        args.extend_from_slice(before);
        args.push(axes);
        call1(name, &args).unwrap()
    }

    /// Compares a row of the registry with joined elements after `map`.
    fn check<T: Element, A: Element>(
        &self,
        (name, before): (&str, &[Value]),
        join: &Join<A>,
        map: impl Fn(T) -> A,
        finish: impl Fn(A) -> A,
    ) {
        let data = self.dense.cast(T::DTYPE).to_vec::<T>().unwrap();
        let mapped: Vec<A> = data.into_iter().map(map).collect();
        let expected: Vec<A> =
            join.axes(&mapped, &self.shape, &self.dense_mask).into_iter().map(finish).collect();
        let got = self.call(name, before);
        let expected = Array::from_vec(expected, got.shape()).unwrap().cast(got.dtype());
        assert!(
            got.bits_eq(&expected),
            "{name}{before:?} {} {:?}: expected {expected:?}, got {got:?}",
            self.x.describe(),
            self.mask
        );
    }
}

/// Makes numbers of which sums are rounded; of floats some are NaN if `nan`.
fn array(dtype: DType, shape: &[usize], nan: bool) -> Array {
    let n: usize = shape.iter().product();
    let mut state = n as u64 + 1;
    let data = (0..n).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
        match dtype {
            _ if nan && (state >> 20).is_multiple_of(7) => f64::NAN,
            DType::Bool => f64::from(unit < 0.7),
            DType::U8 => (unit * 256.0).floor(),
            DType::I8 => (unit * 256.0 - 128.0).floor(),
            DType::I32 | DType::I64 => (unit * 5000.0 - 2500.0).floor(),
            _ => unit * 4.0 - 2.1,
        }
    });
    Array::from_vec(data.collect::<Vec<f64>>(), shape).unwrap().cast(dtype)
}

const DTYPES: [DType; 9] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

/// Calls `f` with arrays of all shapes and masks that lead to different loops.
fn for_each_case(dtype: DType, nan: bool, f: impl Fn(&Case)) {
    let vectors =
        [0, 1, 7, 15, 16, 29, 63, 64, 95, 127, 500, 511, 512, 513, 1000, 2047, 2048, 2049, 5000, 70_001];
    for n in vectors {
        f(&Case::new(array(dtype, &[n], nan), &[true]));
    }
    for shape in
        [[3, 0], [1, 9], [9, 1], [700, 10], [7, 100], [40, 333], [5, 600], [2, 3000], [130, 3], [300, 70]]
    {
        f(&Case::new(array(dtype, &shape, nan), &[false, true]));
        f(&Case::new(array(dtype, &shape, nan), &[true, false]));
        f(&Case::new(array(dtype, &shape, nan).permute(&[1, 0]).unwrap(), &[false, true]));
        f(&Case::new(array(dtype, &shape, nan).permute(&[1, 0]).unwrap(), &[true, false]));
    }
    f(&Case::new(array(dtype, &[1000, 1101], nan), &[true, false]));
    f(&Case::new(array(dtype, &[40, 300, 17], nan), &[false, true, false]));
    let four = array(dtype, &[4, 5, 3, 7], nan);
    let long = array(dtype, &[3, 260, 2, 90], nan);
    for bits in 1..16 {
        let mask = [bits & 1 > 0, bits & 2 > 0, bits & 4 > 0, bits & 8 > 0];
        f(&Case::new(four.clone(), &mask));
        f(&Case::new(four.permute(&[2, 0, 3, 1]).unwrap(), &mask));
        f(&Case::new(long.clone(), &mask));
    }
}

#[test]
fn sums_and_products_have_the_bits_of_the_tree() {
    for dtype in DTYPES {
        for_each_case(dtype, false, |case| match dtype {
            DType::F64 => {
                case.check::<f64, f64>(("sum", &[]), &sum(), |x| x, |x| x);
                case.check::<f64, f64>(("prod", &[]), &Join { init: 1.0, join: |a, b| a * b }, |x| x, |x| x);
            }
            DType::F16 | DType::BF16 | DType::F32 => {
                case.check::<f32, f32>(("sum", &[]), &sum(), |x| x, |x| x);
                case.check::<f32, f32>(("prod", &[]), &Join { init: 1.0, join: |a, b| a * b }, |x| x, |x| x);
            }
            _ => {
                case.check::<i64, i64>(("sum", &[]), &sum(), |x| x, |x| x);
                let product = Join { init: 1, join: i64::wrapping_mul };
                case.check::<i64, i64>(("prod", &[]), &product, |x| x, |x| x);
            }
        });
    }
}

#[test]
fn sums_without_nan_have_the_bits_of_the_tree() {
    for_each_case(DType::F32, true, |case| {
        case.check::<f32, f32>(("nansum", &[]), &sum(), |x| if x.is_nan() { 0.0 } else { x }, |x| x);
    });
    for_each_case(DType::F64, true, |case| {
        case.check::<f64, f64>(("nansum", &[]), &sum(), |x| if x.is_nan() { 0.0 } else { x }, |x| x);
    });
    for_each_case(DType::I32, false, |case| {
        case.check::<i64, i64>(("nansum", &[]), &sum(), |x| x, |x| x);
    });
}

#[test]
fn norms_have_the_bits_of_the_tree() {
    for dtype in [DType::F32, DType::F64] {
        for_each_case(dtype, false, |case| {
            let order = |order: f64| [Arg::Float(order)];
            case.check::<f64, f64>(("linalg_vector_norm", &order(1.0)), &sum(), f64::abs, |x| x);
            case.check::<f64, f64>(("linalg_vector_norm", &order(2.0)), &sum(), |x| x * x, f64::sqrt);
            let finish = |x: f64| x.powf(1.0 / 2.5);
            case.check::<f64, f64>(
                ("linalg_vector_norm", &order(2.5)),
                &sum(),
                |x| x.abs().powf(2.5),
                finish,
            );
            let differs = |x: f64| f64::from(u8::from(x != 0.0));
            case.check::<f64, f64>(("linalg_vector_norm", &order(0.0)), &sum(), differs, |x| x);
            if case.x.is_empty() {
                return;
            }
            let (greatest, least) = (
                Join { init: 0.0, join: |a: f64, b| if b > a { b } else { a } },
                Join { init: f64::INFINITY, join: |a: f64, b| if b < a { b } else { a } },
            );
            case.check::<f64, f64>(("linalg_vector_norm", &order(f64::INFINITY)), &greatest, f64::abs, |x| x);
            case.check::<f64, f64>(
                ("linalg_vector_norm", &order(f64::NEG_INFINITY)),
                &least,
                f64::abs,
                |x| x,
            );
        });
    }
}

#[test]
fn variances_have_the_bits_of_the_tree() {
    for dtype in [DType::BF16, DType::F32, DType::F64] {
        for_each_case(dtype, false, |case| {
            let sum = sum::<f64>();
            let variances: Vec<f64> = case
                .rows()
                .iter()
                .map(|row| {
                    let center = sum.row(row) / row.len() as f64;
                    let squares: Vec<f64> = row.iter().map(|x| (x - center) * (x - center)).collect();
                    sum.row(&squares) / (row.len() as f64 - 1.0).max(0.0)
                })
                .collect();
            let got = case.call("var", &[]);
            if case.x.is_empty() {
                return;
            }
            let expected = Array::from_vec(variances, got.shape()).unwrap();
            let expected = if dtype == DType::BF16 { expected.cast(DType::F32) } else { expected };
            let expected = expected.cast(dtype);
            assert!(
                got.iter_scalars()
                    .zip(expected.iter_scalars())
                    .all(|(a, b)| a == b || is_nan(a) && is_nan(b)),
                "{} {:?}: expected {expected:?}, got {got:?}",
                case.x.describe(),
                case.mask
            );
        });
    }
}

fn is_nan(x: Scalar) -> bool {
    x.to_f64().is_nan()
}

#[test]
fn counts_and_truth_are_exact() {
    for dtype in DTYPES {
        for_each_case(dtype, false, |case| {
            let differs = |x: f64| i64::from(x != 0.0);
            case.check::<f64, i64>(("count_nonzero", &[]), &sum(), differs, |x| x);
            case.check::<bool, bool>(("any", &[]), &Join { init: false, join: |a, b| a | b }, |x| x, |x| x);
            case.check::<bool, bool>(("all", &[]), &Join { init: true, join: |a, b| a & b }, |x| x, |x| x);
        });
    }
}

#[test]
fn extremes_are_exact_and_nan_wins() {
    for dtype in DTYPES {
        for nan in [false, true] {
            if nan && !dtype.is_float() {
                continue;
            }
            for_each_case(dtype, nan, |case| {
                if case.x.is_empty() {
                    return;
                }
                dispatch_dtype!(dtype, T => {
                    let best = |row: Vec<f64>, max: bool| -> T {
                        let stays = |a: f64, b: f64| a.is_nan() || if max { a >= b } else { a <= b };
                        let best = row.into_iter().reduce(|a, b| if stays(a, b) { a } else { b });
                        T::from_scalar(best.unwrap().into())
                    };
                    for (name, max) in [("amax", true), ("amin", false)] {
                        let got = case.call(name, &[]);
                        let expected: Vec<T> = case.rows().into_iter().map(|row| best(row, max)).collect();
                        let expected = Array::from_vec(expected, got.shape()).unwrap();
                        assert!(
                            got.bits_eq(&expected),
                            "{name} {} {:?}: expected {expected:?}, got {got:?}",
                            case.x.describe(),
                            case.mask
                        );
                    }
                });
            });
        }
    }
}
