//! Reads of values by Rust code.

use fx::rng::Generator;

use super::*;

const SOURCE: &str = include_str!("reads.rs");

#[test]
fn sizes_that_become_numbers_are_found() -> Result<()> {
    let known = JitTrace::new(
        |x: &Tensor| {
            // size by known: known
            let n = x.dim(0).known().unwrap_or(1);
            x.reshape((n * 3,))
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&known, Kind::FrozenSize, SOURCE, "size by known");
    let found = known.report.of(Kind::FrozenSize).next().expect("it is found");
    assert_eq!(
        found.finding,
        Finding::FrozenSize { size: "x0".into(), axes: vec![("x".into(), 0)], value: 4, comparison: None }
    );

    let shape = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            // size by shape: known
            let sizes = x.shape()?.known().unwrap_or_default();
            Ok(x * sizes[0] as f64)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&shape, Kind::FrozenSize, SOURCE, "size by shape");

    let computed = JitTrace::new(
        |x: &Tensor| {
            let half = x.dim(0) / 2;
            // size by arithmetic: known
            let n = half.known().unwrap_or(1);
            x * n
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&computed, Kind::FrozenSize, SOURCE, "size by arithmetic");
    Ok(())
}

#[test]
fn comparisons_of_sizes_are_found() -> Result<()> {
    let greater = JitTrace::new(
        // size greater: x.dim(0)
        |x: &Tensor| if x.dim(0) > 3 { x.relu() } else { x.abs() },
        (matrix(),),
    )
    .inspect()?;
    finds(&greater, Kind::FrozenSize, SOURCE, "size greater");

    let equal = JitTrace::new(
        // size equal: x.dim(0)
        |x: &Tensor, y: &Tensor| if x.dim(0) == y.dim(0) { x.exp() } else { x.abs() },
        (matrix(), Tensor::new([1.0f32; 4])),
    )
    .inspect()?;
    finds(&equal, Kind::FrozenSize, SOURCE, "size equal");

    let numel = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            // size of all: x.numel()?
            Ok(if x.numel()? <= 12 { x.tanh() } else { x.abs() })
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&numel, Kind::FrozenSize, SOURCE, "size of all");
    Ok(())
}

#[test]
fn sizes_in_arithmetic_stay_symbolic() -> Result<()> {
    let traced = jit_trace(|x: &Tensor| x.reshape((x.dim(0) * x.dim(1),)) / x.dim(0), (matrix(),))?;
    assert!(traced.report.is_clean(), "{}", traced.report);
    let taller = Tensor::new([[1.0f32, 2.0, 3.0, 4.0]; 2]);
    assert_eq!(traced.call(&[taller])?.to_vec::<f32>()?, [0.5, 1.0, 1.5, 2.0, 0.5, 1.0, 1.5, 2.0]);
    Ok(())
}

#[test]
fn numbers_that_are_read_are_found() -> Result<()> {
    let item = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            // number by item: item
            let scale = x.max().item::<f32>()?;
            Ok(x / scale)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&item, Kind::FrozenNumber, SOURCE, "number by item");
    let found = item.report.of(Kind::FrozenNumber).next().expect("it is found");
    let Finding::FrozenNumber { seen, other, .. } = &found.finding else { panic!("{found}") };
    assert_eq!(seen, "6.");
    assert!(other.is_some(), "{found}");

    let elements = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            // number by to_vec: to_vec
            let total: f32 = x.to_vec::<f32>()?.iter().sum();
            Ok(x - total)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&elements, Kind::FrozenNumber, SOURCE, "number by to_vec");

    let index = JitTrace::new(
        |x: &Tensor, at: &Tensor| -> Result<Tensor> {
            // number by index: item
            let at = at.item::<i64>()?;
            Ok(x.select(0, at))
        },
        (matrix(), Tensor::new(2i64)),
    )
    .inspect()?;
    finds(&index, Kind::FrozenNumber, SOURCE, "number by index");

    let array = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            // number by array: to_array
            let first = x.to_array::<f32>()?[[0, 0]];
            Ok(x * first)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&array, Kind::FrozenNumber, SOURCE, "number by array");
    Ok(())
}

#[test]
fn branches_on_data_are_found() -> Result<()> {
    let sign = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            // branch by sign: to_bool
            Ok(if x.sum((), false).gt(0.0).to_bool()? { x * 2 } else { x - 1 })
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&sign, Kind::DataBranch, SOURCE, "branch by sign");

    let converged = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            let mut x = x.clone();
            // branch by convergence: to_bool
            while x.abs().max().gt(1.0).to_bool()? {
                x *= 0.5;
            }
            Ok(x)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&converged, Kind::DataBranch, SOURCE, "branch by convergence");

    let flag = JitTrace::new(
        |x: &Tensor, flag: &Tensor| -> Result<Tensor> {
            // branch by flag: to_bool
            match flag.to_bool()? {
                true => Ok(x.relu()),
                false => Ok(x.abs()),
            }
        },
        (matrix(), Tensor::new(true)),
    )
    .inspect()?;
    finds(&flag, Kind::DataBranch, SOURCE, "branch by flag");
    assert!(flag.report.ok().unwrap_err().to_string().contains("fx::cond"));
    Ok(())
}

#[test]
fn loops_over_an_axis_are_found() -> Result<()> {
    let rows = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            let mut sum = x.new_zeros(3);
            // loop over rows: iter
            for row in x.iter()? {
                sum = sum * 0.5 + row;
            }
            Ok(sum)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&rows, Kind::UnrolledLoop, SOURCE, "loop over rows");
    let found = rows.report.of(Kind::UnrolledLoop).next().expect("it is found");
    let Finding::UnrolledLoop { axis, n, .. } = &found.finding else { panic!("{found}") };
    assert_eq!((axis.clone(), *n), (Some(("x".to_owned(), 0)), 4));
    // The graph holds for four rows, and says so.
    let error = rows.call(&[Tensor::new([[1.0f32, 2.0, 3.0]; 2])]).unwrap_err();
    assert!(error.message().contains("expected f32[4, 3], got f32[2, 3]"), "{error}");

    let parts = JitTrace::new(
        |x: &Tensor| {
            let mut sum = x.new_zeros(3);
            // loop over parts: unbind
            for row in x.unbind(0) {
                sum = (sum + row).tanh();
            }
            sum
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&parts, Kind::UnrolledLoop, SOURCE, "loop over parts");

    let counted = JitTrace::new(
        |x: &Tensor| {
            let mut y = x.select(0, 0);
            for i in 1..x.dim(0).known().unwrap_or(1) {
                // loop by number: select
                y = x.select(0, i) - y;
            }
            y
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&counted, Kind::UnrolledLoop, SOURCE, "loop by number");
    Ok(())
}

#[test]
fn random_numbers_that_are_drawn_in_rust_are_found() -> Result<()> {
    let scalar = JitTrace::new(
        |x: &Tensor| {
            let p = fx::rng::default_generator().uniform_f32();
            // random scalar: x * p
            x * p
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&scalar, Kind::FrozenRandom, SOURCE, "random scalar");

    let tensor = JitTrace::new(
        |x: &Tensor| {
            let noise = fx::trace::without_tracing(|| fx::randn(3));
            // random tensor: x + noise
            x + noise
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&tensor, Kind::FrozenRandom, SOURCE, "random tensor");

    let read = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            // random read: item
            let p = fx::rand(()).item::<f32>()?;
            Ok(x * p)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&read, Kind::FrozenRandom, SOURCE, "random read");
    finds_no(&read, Kind::FrozenNumber);

    // A generator of its own that is seeded the same each time gives a constant; nodes draw on each call.
    let constant = jit_trace(|x: &Tensor| x * Generator::seeded(3).uniform_f32(), (matrix(),))?;
    finds_no(&constant, Kind::FrozenRandom);
    let drawn = jit_trace(|x: &Tensor| x + x.rand_like(), (matrix(),))?;
    assert!(drawn.report.is_clean(), "{}", drawn.report);
    Ok(())
}
