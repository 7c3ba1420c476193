//! Indexing, against a loop over the result.

#![allow(clippy::reversed_empty_ranges, reason = "negative bounds count from the end")]

use fx_core::ops::*;
use fx_core::{Arg, Array, DType, Dim, Symbol, Tensor, TensorType, TypeTree, Value, s, trace};
use proptest::prelude::*;

/// One entry of a random index of one axis.
#[derive(Debug, Clone)]
enum Part {
    At(i64),
    Slice(Option<i64>, Option<i64>, Option<i64>),
    NewAxis,
    Flag(bool),
    Positions(Vec<i64>),
    /// The same positions as a column, to broadcast.
    Column(Vec<i64>),
    Mask(Vec<bool>),
}

fn part(size: usize) -> impl Strategy<Value = Part> {
    let n = size as i64;
    let bound = || proptest::option::of(-n - 2..=n + 2);
    let at = prop_oneof![3 => -n..n.max(1), 1 => -n - 1..=n];
    prop_oneof![
        2 => at.clone().prop_map(Part::At),
        4 => (bound(), bound(), proptest::option::of(1i64..4)).prop_map(|(a, b, c)| Part::Slice(a, b, c)),
        1 => Just(Part::NewAxis),
        1 => any::<bool>().prop_map(Part::Flag),
        3 => proptest::collection::vec(-n..n.max(1), 2).prop_map(Part::Positions),
        1 => proptest::collection::vec(-n..n.max(1), 0..4).prop_map(Part::Column),
        1 => proptest::collection::vec(any::<bool>(), size).prop_map(Part::Mask),
    ]
}

fn case() -> impl Strategy<Value = (Vec<usize>, Vec<Part>)> {
    proptest::collection::vec(0usize..5, 1..4)
        .prop_flat_map(|shape| (Just(shape.clone()), shape.into_iter().map(part).collect::<Vec<_>>()))
}

fn to_value(part: &Part) -> Value {
    match part {
        Part::At(i) => Arg::Int(*i),
        Part::Slice(a, b, c) => {
            let bound = |x: &Option<i64>| x.map_or(Arg::None, Arg::Int);
            Arg::slice(bound(a), bound(b), bound(c))
        }
        Part::NewAxis => Arg::None,
        Part::Flag(x) => Arg::Bool(*x),
        Part::Positions(x) => Arg::ints(x.iter().copied()),
        Part::Column(x) => Arg::Leaf(Tensor::from_vec(x.clone(), &[x.len(), 1])),
        Part::Mask(x) => Arg::Leaf(Array::from(x.clone()).into()),
    }
}

/// Indexes by looping over the output, one element at a time; `None` where PyTorch raises.
fn reference(shape: &[usize], parts: &[Part]) -> Option<(Vec<usize>, Vec<i64>)> {
    enum Source {
        Fixed(usize),
        /// start, step, axis of the basic dims
        Range(usize, usize, usize),
        /// positions, shape of the index
        Advanced(Vec<usize>, Vec<usize>),
    }
    let wrap = |i: i64, n: usize| {
        let at = if i < 0 { i + n as i64 } else { i };
        (at >= 0 && at < n as i64).then_some(at as usize)
    };
    let (mut sources, mut dims, mut places) = (Vec::new(), Vec::new(), Vec::new());
    let mut axis = 0;
    for part in parts {
        let n = shape.get(axis).copied();
        match part {
            Part::At(i) => sources.push((Some(axis), Source::Fixed(wrap(*i, n?)?))),
            Part::Slice(a, b, step) => {
                let cut =
                    |x: i64| (if x < 0 { x + n? as i64 } else { x }.clamp(0, n? as i64) as usize).into();
                let (start, step) = (a.map_or(Some(0), cut)?, step.unwrap_or(1) as usize);
                let stop: usize = b.map_or(n, cut)?;
                sources.push((Some(axis), Source::Range(start, step, dims.len())));
                dims.push(Some((start..stop).step_by(step).count()));
            }
            Part::NewAxis => {
                dims.push(Some(1));
                continue;
            }
            Part::Flag(x) => {
                places.push(dims.len());
                dims.push(None);
                sources.push((None, Source::Advanced(vec![0; (*x).into()], vec![(*x).into()])));
                continue;
            }
            Part::Positions(x) | Part::Column(x) => {
                let positions = x.iter().map(|&i| wrap(i, n?)).collect::<Option<Vec<_>>>()?;
                let index = if matches!(part, Part::Column(_)) { vec![x.len(), 1] } else { vec![x.len()] };
                places.push(dims.len());
                dims.push(None);
                sources.push((Some(axis), Source::Advanced(positions, index)));
            }
            Part::Mask(x) => {
                if x.len() != n? {
                    return None;
                }
                let positions: Vec<usize> = (0..x.len()).filter(|&i| x[i]).collect();
                places.push(dims.len());
                dims.push(None);
                let n = positions.len();
                sources.push((Some(axis), Source::Advanced(positions, vec![n])));
            }
        }
        axis += 1;
    }
    let indices: Vec<&Vec<usize>> = sources
        .iter()
        .filter_map(|(_, s)| if let Source::Advanced(_, shape) = s { Some(shape) } else { None })
        .collect();
    let wide = fx_core::pointwise::broadcast_shapes(indices.iter().map(|shape| &shape[..])).ok()?.to_vec();
    let is_adjacent = places.windows(2).all(|w| w[1] == w[0] + 1);
    let first = if is_adjacent { places.first().copied().unwrap_or(0) } else { 0 };
    // Where each basic dim is in the output.
    let basic: Vec<usize> = (0..dims.len()).filter(|&d| dims[d].is_some()).collect();
    let n_before = if is_adjacent { basic.iter().filter(|&&d| d < first).count() } else { 0 };
    let mut out: Vec<usize> = basic.iter().map(|&d| dims[d].unwrap()).collect();
    out.splice(n_before..n_before, wide.iter().copied());
    let place_of = |d: usize| {
        let k = basic.iter().position(|&other| other == d).unwrap();
        if k < n_before { k } else { k + wide.len() }
    };
    let numel: usize = out.iter().product();
    let mut data = Vec::new();
    for flat in 0..numel {
        let mut rest = flat;
        let mut index = vec![0; out.len()];
        for d in (0..out.len()).rev() {
            index[d] = rest % out[d];
            rest /= out[d];
        }
        let mut at = vec![0; shape.len()];
        for (axis, source) in &sources {
            let position = match source {
                Source::Fixed(i) => *i,
                Source::Range(start, step, d) => start + step * index[place_of(*d)],
                Source::Advanced(positions, shape) => {
                    let own = &index[n_before + wide.len() - shape.len()..n_before + wide.len()];
                    let flat =
                        own.iter().zip(shape).fold(0, |at, (&i, &n)| at * n + if n == 1 { 0 } else { i });
                    positions[flat]
                }
            };
            if let Some(axis) = axis {
                at[*axis] = position;
            }
        }
        data.push(at.iter().zip(shape).fold(0, |flat, (i, n)| flat * n + i) as i64);
    }
    Some((out, data))
}

fn ramp(shape: &[usize]) -> Array {
    Array::from_vec((0..shape.iter().product::<usize>() as i64).collect(), shape).unwrap()
}

/// The type of an index value, as tracing with symbols would know it.
fn type_of(value: &Value) -> TypeTree {
    value.try_flat_map(&mut |x: &Tensor| Ok(TensorType::new(x.dtype()?, x.array()?.shape()).into())).unwrap()
}

proptest! {
    #[test]
    fn agrees_with_a_loop_over_the_output((shape, parts) in case()) {
        let x = ramp(&shape);
        // New axes and flags leave axes over; as many whole axes as needed follow.
        let index = Arg::tuple(parts.iter().map(to_value));
        let n_used = parts.iter().filter(|p| !matches!(p, Part::NewAxis | Part::Flag(_))).count();
        let mut padded = parts.clone();
        padded.extend((n_used..shape.len()).map(|_| Part::Slice(None, None, None)));
        let got = index_array(&x, &index);
        match reference(&shape, &padded) {
            None => prop_assert!(got.is_err(), "{index} {shape:?} should fail"),
            Some((expected_shape, expected)) => {
                let got = got.unwrap();
                prop_assert_eq!(got.shape(), &expected_shape[..], "{}", index);
                prop_assert_eq!(got.to_vec::<i64>().unwrap(), expected, "{}", index);
                let is_basic = parts.iter().all(|p| matches!(p, Part::At(_) | Part::Slice(..) | Part::NewAxis));
                prop_assert_eq!(got.shares_storage(&x), is_basic);
            }
        }
    }

    #[test]
    fn types_are_exact((shape, parts) in case()) {
        let index = Arg::tuple(parts.iter().map(to_value));
        let Ok(got) = index_array(&ramp(&shape), &index) else { return Ok(()) };
        let known = TensorType::new(DType::I64, &shape[..]);
        let symbolic = TensorType {
            dtype: DType::I64,
            shape: (0..shape.len()).map(|k| Dim::symbol(Symbol::new(format!("n{k}")))).collect(),
        };
        for ty in [known, symbolic] {
            let result = index_type(&ty, &type_of(&index)).unwrap();
            let result = result.tensor().unwrap();
            prop_assert_eq!(result.rank(), got.rank(), "{}[{}] = {}", ty, index, result);
            for (dim, &size) in result.shape.iter().zip(got.shape()) {
                if dim.symbols().iter().any(Symbol::is_fresh) {
                    continue;
                }
                let value = dim.eval(&|symbol| Some(shape[symbol.name()[1..].parse::<usize>().unwrap()] as i64));
                prop_assert_eq!(value.unwrap(), size as i64, "{}[{}] = {}", ty, index, result);
            }
        }
    }

    #[test]
    fn symbolic_bounds_are_exact(n in 0i64..6, a in -7i64..7, b in -7i64..7, free in any::<bool>()) {
        // Bounds as symbols: of any sign, or of a known one.
        let symbol = |name: &str, value: i64| {
            let (min, max) = match (free, value < 0) {
                (true, _) => (i64::MIN, None),
                (false, true) => (i64::MIN, Some(-1)),
                (false, false) => (0, None),
            };
            Dim::symbol(Symbol::with_range(name, min, max))
        };
        let ty: TensorType = "f32[n]".parse().unwrap();
        let index = Arg::slice(Arg::Dim(symbol("a", a)), Arg::Dim(symbol("b", b)), Arg::None);
        let result = index_type(&ty, &index).unwrap();
        let size = result.tensor().unwrap().shape[0].eval(&|symbol| Some(match symbol.name() { "n" => n, "a" => a, _ => b }));
        let x = ramp(&[n as usize]);
        let got = index_array(&x, &Arg::slice(Arg::Int(a), Arg::Int(b), Arg::None)).unwrap();
        prop_assert_eq!(size.unwrap(), got.shape()[0] as i64, "{}", result);
    }
}

#[test]
fn slices_of_symbolic_axes_are_canonical() {
    let size = |range: Value| {
        let ty: TensorType = "f32[n]".parse().unwrap();
        index_type(&ty, &type_of(&range)).unwrap().tensor().unwrap().shape[0].to_string()
    };
    let least_one = |range: Value| {
        let n = Dim::symbol(Symbol::with_range("n", 1, None));
        let ty = TensorType { dtype: DType::F32, shape: [n].into_iter().collect() };
        index_type(&ty, &type_of(&range)).unwrap().tensor().unwrap().shape[0].to_string()
    };
    let k = || Dim::symbol(Symbol::new("k"));
    let all: Vec<String> = vec![
        size((0..).into_index()),
        size((1..).into_index()),
        least_one((1..).into_index()),
        size((..3).into_index()),
        size((..k()).into_index()),
        size((..-1).into_index()),
        size((-2..).into_index()),
        size((1..-1).into_index()),
        size((-3..-1).into_index()),
        size(with_step(.., 2)),
        size((1..=3).into_index()),
        size((..=-1).into_index()),
    ];
    let expected = [
        "n",
        "max(0, n - 1)",
        "n - 1",
        "min(3, n)",
        "min(k, n)",
        "max(0, n - 1)",
        "min(2, n)",
        "max(0, n - 2)",
        "min(2, max(0, n - 1))",
        "(n + 1)//2",
        "max(0, min(4, n) - 1)",
        "n",
    ];
    assert_eq!(all, expected);
}

#[test]
fn placement_is_that_of_pytorch() {
    let x = Tensor::from(ramp(&[2, 3, 4, 5]));
    let shape = |y: Tensor| y.array().unwrap().shape().to_vec();
    // An integer is a selection, not an advanced index: the others stay adjacent.
    assert_eq!(shape(x.i((0, .., [0, 1]))), [3, 4, 2]);
    assert_eq!(shape(x.i(([0, 1], 0, [0, 1]))), [2, 5]);
    assert_eq!(shape(x.i(([0, 1], .., [0, 1]))), [2, 3, 4]);
    assert_eq!(shape(x.i(([0, 1], None, [0, 1]))), [2, 1, 4, 5]);
    assert_eq!(shape(x.i((true, 0))), [1, 3, 4, 5]);
    assert_eq!(shape(x.i((.., false))), [2, 3, 4, 5, 0]);
    let zero_d = Tensor::new(1i64);
    assert_eq!(shape(x.i((&zero_d, .., [0, 1]))), [3, 4, 2]);
    let mask = x.i((.., 0)).array().unwrap().cast(DType::Bool);
    assert_eq!(shape(x.i(Tensor::from(mask))), [23, 5]);
}

#[test]
fn macro_takes_every_form() {
    let x = Tensor::from(ramp(&[6, 7, 8]));
    let n = Dim::new(2);
    let mask = Tensor::new([true, false, true, false, true, false]);
    let shape = |y: Tensor| y.ok().unwrap().array().unwrap().shape().to_vec();
    assert_eq!(shape(x.i(s![..])), [6, 7, 8]);
    assert_eq!(shape(x.i(s![.., 0])), [6, 7]);
    assert_eq!(shape(x.i(s![1..;2, 1..5, None, ..=3])), [3, 4, 1, 4]);
    assert_eq!(shape(x.i(s![&mask, [0, 2, 3], -1])), [3]);
    assert_eq!(shape(x.i(s![..;3, ..n.clone(), &n,])), [2, 2]);
    assert_eq!(shape(x.i(s![[[0, 1], [2, 3]]])), [2, 2, 7, 8]);
    assert_eq!(shape(x.i(3)), [7, 8]);
    assert_eq!(shape(x.i(0..2)), [2, 7, 8]);
    assert_eq!(x.i((1, -1, 2)).item::<i64>().unwrap(), 56 + 6 * 8 + 2);
    assert_eq!(shape(x.i(&mask)), [3, 7, 8]);
}

#[test]
fn errors_say_what_and_where() {
    let x = Tensor::from(ramp(&[2, 3]));
    let text = |y: Tensor| {
        let error = y.ok().unwrap_err();
        assert!(error.source_loc().unwrap().file().ends_with("it/ops_index.rs"));
        format!("{:?}: {}; {}", error.kind(), error.message(), error.advice().unwrap_or(""))
    };
    let u8s = Tensor::new([1u8, 0]);
    let all = [
        text(x.i(2)),
        text(x.i((.., [0, -4]))),
        text(x.i((0, 0, 0))),
        text(x.i((.., .., 0))),
        text(x.i(s![..;-1])),
        text(x.i(&u8s)),
        text(x.i(Tensor::new([true, false, true]))),
        text(x.i(([0, 1], [0, 1, 2]))),
        text(x.i(Tensor::new([1.0f32]))),
        text(x.i(s![Value::Float(1.0)])),
        text(x.i(s![Value::list([Arg::ints([1]), Arg::Int(2)])])),
        text(x.i(i64::MIN)),
    ];
    expect_test::expect![[r#"
        Index: index 2 is out of range for axis 0 of size 2; 
        Index: index -4 is out of range for axis 1 of size 3; 
        Index: an index of 3 axes is too long for a tensor of rank 2; leave some entries out
        Index: an index has more than one `..`; write `0..` for one whole axis
        Index: the step of a slice is at least 1, got -1; reverse an axis with `flip`
        Index: a tensor of u8 cannot be an index; convert it: `.to(DType::Bool)` for a mask, `.to(DType::I64)` for positions
        Index: a mask of size 3 does not fit axis 0 of size 2; a mask has exactly the shape of the axes that it indexes
        Index: the indices [2] and [3] do not broadcast together; sizes must be equal or 1, aligned at the last axis; add axes with `unsqueeze`
        Index: a tensor of f32 cannot be an index; convert it with `.to(DType::I64)`
        Index: a tensor cannot be indexed with a float; 
        Index: a list in an index mixes lists and numbers; 
        Index: index -9223372036854775808 is out of range for axis 0 of size 2; "#]].assert_eq(&all.join("\n"));
}

#[test]
fn extreme_bounds_do_not_overflow() {
    let x = Tensor::from(ramp(&[4]));
    let n = |y: Tensor| y.array().unwrap().shape()[0];
    assert_eq!(n(x.i(i64::MIN..i64::MAX)), 4);
    assert_eq!(n(x.i(s![1..;i64::MAX])), 1);
    for range in [(i64::MIN..i64::MAX).into_index(), s![1..;i64::MAX]] {
        let ty: TensorType = "f32[n]".parse().unwrap();
        let _ = index_type(&ty, &type_of(&range));
    }
}

#[test]
fn sizes_that_depend_on_data_are_deterministic_symbols() {
    let traced = || {
        trace(|x: &Tensor, m: &Tensor| {
            let y = x.i(m);
            let z = x.i((.., 0)).i(m);
            let rows = y.dim(0) * 2;
            (&y + 1.0, z, y.i((.., 1..)) + rows)
        })
        .input("x", "f32[n, 3]")
        .input("y", "bool[n]")
        .build()
        .unwrap()
    };
    let gm = traced();
    let types: Vec<String> = gm
        .graph()
        .nodes()
        .map(|(_, node)| format!("{}: {}", node.name(), node.ty().map_or("?".into(), |ty| ty.to_string())))
        .collect();
    expect_test::expect![[r#"
        x: f32[n, 3]
        y: bool[n]
        getitem: f32[u0, 3]
        getitem_1: f32[n]
        getitem_2: f32[u1]
        add: f32[u0, 3]
        getitem_3: f32[u0, 2]
        size: <u0>
        mul: int
        add_1: f32[u0, 2]
        output: ?"#]]
    .assert_eq(&types.join("\n"));
    assert!(*traced().graph() == *gm.graph());
    // Running binds the symbols; inferring again keeps them.
    let x = Tensor::new([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]);
    let m = Tensor::new([true, false, true]);
    let (_, _, last): (Tensor, Tensor, Tensor) = gm.run((x, m)).unwrap();
    assert_eq!(last.to_vec::<f32>().unwrap(), [6.0, 7.0, 12.0, 13.0]);
    let inputs: Vec<TypeTree> =
        ["f32[n, 3]", "bool[n]"].map(|ty| ty.parse::<TensorType>().unwrap().into()).to_vec();
    let inferred = gm.infer(&inputs).unwrap();
    for (id, ty) in inferred {
        if let Some(recorded) = gm.graph().node(id).unwrap().ty() {
            assert_eq!(*recorded, ty);
        }
    }
}

#[test]
fn data_dependent_sizes_reach_sub_graphs() {
    let gm = trace(|x: &Tensor, m: &Tensor| {
        let y = x.i(m);
        let p = m.i(0);
        fx_core::ops::cond(&p, |y: Tensor| &y + y.dim(0), |y: Tensor| &y * 2.0, y)
    })
    .input("x", "f32[n]")
    .input("y", "bool[n]")
    .build()
    .unwrap();
    let x = Tensor::new([1.0f32, 2.0, 3.0]);
    let y = gm.call(&[x, Tensor::new([true, false, true])]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [3.0, 5.0]);
}
