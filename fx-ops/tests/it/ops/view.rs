//! Views against naive indexing, and what their rules say of symbolic sizes.

use fx_core::array::{Sizes, StridedIndex, row_major};
use fx_core::{Arg, Array, Result, TensorType, TypeTree, Value};
use proptest::prelude::*;

use crate::testing::{call, call1, tensor};

/// Returns numbers from 0 in a shape; transposed in memory, so that strides matter.
fn numbers(shape: &[usize]) -> Array {
    let n: usize = shape.iter().product();
    let reversed: Vec<usize> = shape.iter().rev().copied().collect();
    let axes: Vec<usize> = (0..shape.len()).rev().collect();
    Array::from_vec((0..n as i64).collect(), &reversed).unwrap().permute(&axes).unwrap()
}

/// Builds the expected array: element by element from `x`, by the index of the result.
fn naive(x: &Array, shape: &[usize], source: impl Fn(&[usize]) -> Option<Sizes>) -> Array {
    let mut walk = StridedIndex::new(shape, [(&row_major(shape)[..], 0)]);
    let mut out = Vec::new();
    loop {
        let index = Sizes::from_slice(walk.index());
        if walk.next().is_none() {
            break;
        }
        out.push(source(&index).map_or(0, |at| x.get(&at).expect("a valid index").to_i64()));
    }
    Array::from_vec(out, shape).unwrap()
}

fn same(got: Result<Array>, expected: Array) {
    let got = got.unwrap();
    assert!(got.bits_eq(&expected), "expected\n{expected}, got\n{got}");
}

fn ints(xs: &[i64]) -> Value {
    Arg::ints(xs.iter().copied())
}

fn shapes() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..5, 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn slices_are_those_of_python(shape in shapes(), axis in 0usize..4, start in -7i64..7, end in -7i64..7, step in 1i64..4) {
        let (axis, x) = (axis % shape.len(), numbers(&shape));
        let n = shape[axis] as i64;
        let clamp = |at: i64| (if at < 0 { at + n } else { at }).clamp(0, n);
        let taken: Vec<usize> = (clamp(start)..clamp(end)).step_by(step as usize).map(|i| i as usize).collect();
        let mut out = shape.clone();
        out[axis] = taken.len();
        let expected = naive(&x, &out, |index| {
            let mut at = Sizes::from_slice(index);
            at[axis] = taken[at[axis]];
            Some(at)
        });
        let dim = Arg::Int(axis as i64 - shape.len() as i64);
        same(call1("slice", &[tensor(x), dim, Arg::Int(start), Arg::Int(end), Arg::Int(step)]), expected);
    }

    #[test]
    fn rolls_flips_and_tiles_move_elements(shape in shapes(), axis in 0usize..4, shift in -9i64..9, times in 0usize..3) {
        let (axis, x) = (axis % shape.len(), numbers(&shape));
        let n = shape[axis];
        let along = |f: &dyn Fn(usize) -> usize, out: &[usize]| naive(&x, out, |index| {
            let mut at = Sizes::from_slice(index);
            at[axis] = f(at[axis]);
            Some(at)
        });
        let rolled = along(&|i| (i as i64 - shift).rem_euclid(n as i64) as usize, &shape);
        same(call1("roll", &[tensor(x.clone()), Arg::Int(shift), Arg::Int(axis as i64)]), rolled);
        same(call1("flip", &[tensor(x.clone()), ints(&[axis as i64])]), along(&|i| n - 1 - i, &shape));
        let mut wide = shape.clone();
        wide[axis] *= times;
        let mut repeats = vec![1; shape.len()];
        repeats[axis] = times as i64;
        same(call1("repeat", &[tensor(x.clone()), ints(&repeats)]), along(&|i| i % n, &wide));
        let interleaved = along(&|i| i / times.max(1), &wide);
        same(call1("repeat_interleave", &[tensor(x.clone()), Arg::Int(times as i64), Arg::Int(axis as i64)]), interleaved);
    }

    #[test]
    fn parts_join_again(shape in shapes(), axis in 0usize..4, size in 1i64..4) {
        let (axis, x) = (axis % shape.len(), numbers(&shape));
        let dim = Arg::Int(axis as i64);
        for name in ["split", "chunk"] {
            let parts = call(name, &[tensor(x.clone()), Arg::Int(size), dim.clone()], &[]).unwrap();
            same(call1("cat", &[parts, dim.clone()]), x.clone());
        }
        let rows = call("unbind", &[tensor(x.clone()), dim.clone()], &[]).unwrap();
        if shape[axis] > 0 {
            same(call1("stack", &[rows, dim]), x);
        }
    }

    #[test]
    fn gathers_and_scatters_follow_the_index(shape in shapes(), axis in 0usize..4, seed in 0usize..100) {
        let (axis, x) = (axis % shape.len(), numbers(&shape));
        let n = shape[axis];
        prop_assume!(n > 0);
        let index = naive(&x, &shape, |at| Some(Sizes::from_slice(at)));
        let picked: Vec<i64> = index.to_vec::<i64>().unwrap().iter().map(|&i| (i * 7 + seed as i64) % n as i64).collect();
        let index = Array::from_vec(picked, &shape).unwrap();
        let expected = naive(&x, &shape, |at| {
            let mut from = Sizes::from_slice(at);
            from[axis] = index.get(at).unwrap().to_i64() as usize;
            Some(from)
        });
        let dim = Arg::Int(axis as i64);
        let gathered = call1("gather", &[tensor(x.clone()), dim.clone(), tensor(index.clone())]).unwrap();
        assert!(gathered.bits_eq(&expected));
        // Writing back what was read from there changes nothing.
        same(call1("scatter", &[tensor(x.clone()), dim.clone(), tensor(index), tensor(gathered)]), x.contiguous().unwrap());
        let order: Vec<i64> = (0..n as i64).rev().collect();
        let selected = call1("index_select", &[tensor(x.clone()), dim, tensor(order)]);
        same(selected, x.flip(&[axis]).unwrap());
    }

    #[test]
    fn triangles_and_diagonals_agree(rows in 0usize..5, columns in 0usize..5, batch in 1usize..3, k in -6i64..6) {
        let shape = [batch, rows, columns];
        let x = numbers(&shape);
        let part = |keep: &dyn Fn(i64) -> bool| naive(&x, &shape, |at| keep(at[2] as i64 - at[1] as i64).then(|| Sizes::from_slice(at)));
        same(call1("tril", &[tensor(x.clone()), Arg::Int(k)]), part(&|d| d <= k));
        same(call1("triu", &[tensor(x.clone()), Arg::Int(k)]), part(&|d| d >= k));
        let (down, right) = ((-k).max(0) as usize, k.max(0) as usize);
        let n = rows.saturating_sub(down).min(columns.saturating_sub(right));
        let diagonal = naive(&x, &[batch, n], |at| Some(Sizes::from_slice(&[at[0], at[1] + down, at[1] + right])));
        same(call1("diagonal", &[tensor(x), Arg::Int(k), Arg::Int(1), Arg::Int(2)]), diagonal);
    }

    #[test]
    fn shapes_come_back(shape in shapes(), first in 0usize..4, second in 0usize..4) {
        let x = numbers(&shape);
        let (a, b) = (first % shape.len(), second % shape.len());
        let there = call1("transpose", &[tensor(x.clone()), Arg::Int(a as i64), Arg::Int(b as i64)]).unwrap();
        same(call1("swapaxes", &[tensor(there), Arg::Int(b as i64), Arg::Int(a as i64)]), x.clone());
        let flat = call1("flatten", &[tensor(x.clone())]).unwrap();
        let sizes: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
        same(call1("unflatten", &[tensor(flat), Arg::Int(0), ints(&sizes)]), x.clone());
        let moved = call1("movedim", &[tensor(x.clone()), ints(&[a as i64]), ints(&[b as i64])]).unwrap();
        same(call1("movedim", &[tensor(moved), ints(&[b as i64]), ints(&[a as i64])]), x.clone());
        let wide = call1("unsqueeze", &[tensor(x.clone()), Arg::Int(a as i64)]).unwrap();
        same(call1("squeeze", &[tensor(wide), Arg::Int(a as i64)]), x);
    }
}

/// Applies a rule to types as text.
fn inferred(name: &str, x: &str, args: &[TypeTree]) -> String {
    let registry = fx_ops::registry();
    let op = registry.get(name).unwrap();
    let x: TypeTree = x.parse::<TensorType>().unwrap().into();
    let all: Vec<TypeTree> = [x].into_iter().chain(args.iter().cloned()).collect();
    match op.bind(&all, &[] as &[(&str, TypeTree)]).and_then(|bound| op.infer(&bound)) {
        Ok(Some(ty)) => ty.to_string(),
        Ok(None) => "unknown".to_owned(),
        Err(error) => format!("error: {}", error.message()),
    }
}

fn sizes(text: &str) -> TypeTree {
    Arg::list(text.split(' ').map(|size| Arg::dim(size.parse::<fx_core::Dim>().unwrap())))
}

#[test]
fn rules_compute_with_symbols() {
    let n = |n: i64| TypeTree::Int(n);
    let check = |name: &str, x: &str, args: &[TypeTree], expected: &str| {
        assert_eq!(inferred(name, x, args), expected)
    };
    check("reshape", "f32[b, s, 768]", &[sizes("b s -1 64")], "f32[b, s, 12, 64]");
    check("reshape", "f32[b, s, 768]", &[sizes("-1 768")], "f32[b*s, 768]");
    check("reshape", "f32[b, 3]", &[sizes("b 4")], "f32[b, 4]");
    check("reshape", "f32[2, 3]", &[sizes("4 -1")], "error: cannot arrange 6 elements as [4, -1]");
    let ambiguous = "error: cannot arrange 0 elements as [0, -1]: -1 is ambiguous beside a size of 0";
    check("reshape", "f32[0, 3]", &[sizes("0 -1")], ambiguous);
    check("flatten", "f32[b, 3, h, 2]", &[n(1)], "f32[b, 6*h]");
    check("slice", "f32[n]", &[n(0), n(0), n(-1)], "f32[max(0, n - 1)]");
    check("chunk", "f32[b, 3*h]", &[n(3), n(1)], "[f32[b, h], f32[b, h], f32[b, h]]");
    check("chunk", "f32[n]", &[n(3)], "unknown");
    check("squeeze", "f32[1, n]", &[n(0)], "f32[n]");
    check("squeeze", "f32[1, n]", &[], "unknown");
    check("narrow", "f32[n]", &[n(0), n(2), n(5)], "f32[5]");
    check(
        "narrow",
        "f32[3]",
        &[n(0), n(2), n(5)],
        "error: 5 positions from 2 are out of range for axis 0 of f32[3]",
    );
    check("expand", "f32[n, 1]", &[sizes("2 -1 7")], "f32[2, n, 7]");
    check("unfold", "f32[n]", &[n(0), n(3), n(2)], "f32[(n + 1)//2 - 1, 3]");
}

#[test]
fn positions_out_of_range_are_errors() {
    let message = |result: Result<Array>| result.unwrap_err().message().to_owned();
    let x = || tensor([1.0f32, 2.0]);
    let gather = call1("gather", &[x(), Arg::Int(0), tensor([2i64])]);
    assert_eq!(message(gather), "position 2 is out of range for an axis of size 2");
    assert_eq!(
        message(call1("select", &[x(), Arg::Int(0), Arg::Int(-3)])),
        "index -3 is out of range for axis 0 of f32[2]"
    );
    let huge = call1("narrow", &[x(), Arg::Int(0), Arg::Int(i64::MAX), Arg::Int(1)]);
    assert!(huge.is_err());
    assert!(call("split_with_sizes", &[x(), ints(&[i64::MAX, i64::MAX, 4])], &[]).is_err());
    assert!(call("unbind", &[tensor(Array::scalar(0u8).broadcast_to(&[1 << 40]).unwrap())], &[]).is_err());
}

#[test]
fn where_and_masked_fill_promote_as_pytorch() {
    let mask = || tensor([true, false]);
    let chosen = call1("where", &[mask(), tensor([1i64, 2]), Arg::Float(0.5)]).unwrap();
    assert!(chosen.bits_eq(&[1.0f32, 0.5].into()));
    let filled = call1("masked_fill", &[tensor([[1i64], [2]]), mask(), Arg::Int(9)]).unwrap();
    assert!(filled.bits_eq(&[[9i64, 1], [9, 2]].into()));
    let half = Array::from([1.0f32, 2.0]).cast(fx_core::DType::F16);
    let masked = call1("masked_fill", &[tensor(half), mask(), Arg::Float(f64::NEG_INFINITY)]).unwrap();
    assert_eq!(masked.cast(fx_core::DType::F32).to_vec::<f32>().unwrap(), [f32::NEG_INFINITY, 2.0]);
}

#[test]
fn positions_may_be_a_window_on_a_longer_storage() {
    let all = Array::from([1i64, 0, 9, 9]);
    let window = || tensor(all.slice_axis(0, 0, 2, 1).unwrap());
    let gathered = call1("gather", &[tensor([5.0f32, 6.0]), Arg::Int(0), window()]).unwrap();
    assert!(gathered.bits_eq(&[6.0f32, 5.0].into()));
    let added = call1("scatter_add", &[tensor([5i64, 6]), Arg::Int(0), window(), window()]).unwrap();
    assert!(added.bits_eq(&[5i64, 7].into()));
}
