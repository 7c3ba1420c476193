//! What only a comparison of several recordings or results shows.

use std::sync::atomic::{AtomicUsize, Ordering};

use fx::trace::is_tracing;

use super::*;

const SOURCE: &str = include_str!("comparisons.rs");

/// Counts calls; the checks with the same arguments make the first five.
struct Calls(AtomicUsize);

impl Calls {
    fn new() -> Self {
        Calls(AtomicUsize::new(0))
    }

    fn is_late(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) >= 5
    }
}

#[test]
fn graphs_that_differ_without_a_read_are_found() -> Result<()> {
    let calls = Calls::new();
    let operation = JitTrace::new(
        |x: &Tensor| {
            let x = x + 1.0;
            // another operation: relu
            if !calls.is_late() { x.relu() } else { x.abs() }
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&operation, Kind::GraphDiffers, SOURCE, "another operation");

    let calls = Calls::new();
    let literal = JitTrace::new(
        |x: &Tensor| {
            let scale = if calls.is_late() { 2.0 } else { 3.0 };
            // another number: x * scale
            x * scale
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&literal, Kind::GraphDiffers, SOURCE, "another number");

    let calls = Calls::new();
    let added = JitTrace::new(
        |x: &Tensor| {
            let mut y = x.tanh();
            if calls.is_late() {
                // one more: exp
                y = y.exp();
            }
            (y, x.relu())
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&added, Kind::GraphDiffers, SOURCE, "one more");
    Ok(())
}

#[test]
fn results_that_differ_are_found() -> Result<()> {
    let other = JitTrace::new(
        // while tracing only: relu
        |x: &Tensor| if is_tracing() { x.relu() } else { x.abs() },
        (matrix(),),
    )
    .inspect()?;
    finds(&other, Kind::ResultDiffers, SOURCE, "while tracing only");

    let scaled = JitTrace::new(
        |x: &Tensor| {
            let scale = if is_tracing() { 1.0 } else { 1.001 };
            // a little off: x * scale
            (x.relu(), x * scale)
        },
        (matrix(),),
    )
    .inspect()?;
    finds(&scaled, Kind::ResultDiffers, SOURCE, "a little off");
    let found = scaled.report.of(Kind::ResultDiffers).next().expect("it is found");
    let Finding::ResultDiffers { output, abs, .. } = &found.finding else { panic!("{found}") };
    assert_eq!(*output, 1);
    assert!(abs.is_some_and(|abs| (0.005..0.007).contains(&abs)), "{found}");

    let shaped = JitTrace::new(
        // another shape: sum
        |x: &Tensor| if is_tracing() { x.sum(0, true) } else { x.sum(0, false) },
        (matrix(),),
    )
    .inspect()?;
    finds(&shaped, Kind::ResultDiffers, SOURCE, "another shape");

    let tolerant = JitTrace::new(|x: &Tensor| x * if is_tracing() { 1.0 } else { 1.001 }, (matrix(),))
        .tolerance(0.01, 0.0)
        .build()?;
    finds_no(&tolerant, Kind::ResultDiffers);
    Ok(())
}

#[test]
fn fixed_dtypes_are_found_if_asked_for() -> Result<()> {
    let converted = JitTrace::new(
        |x: &Tensor| {
            let x = x * 2.0;
            // dtype converted: to
            x.to(DType::F32).relu()
        },
        (matrix(),),
    )
    .check_dtype(DType::F64)
    .inspect()?;
    finds(&converted, Kind::DTypeFixed, SOURCE, "dtype converted");

    let branching = JitTrace::new(
        |x: &Tensor| -> Result<Tensor> {
            let is_single = x.dtype()? == DType::F32;
            // dtype compared: x.exp
            Ok(if is_single { x.exp() } else { x.abs() })
        },
        (matrix(),),
    )
    .check_dtype(DType::F64)
    .inspect()?;
    assert_eq!(branching.report.of(Kind::DTypeFixed).count(), 1, "{}", branching.report);

    let linear = nn::Linear::new(3, 2);
    let refused = JitTrace::new(
        // dtype refused: call
        |x: &Tensor| linear.call(x),
        (matrix(),),
    )
    .check_dtype(DType::F64)
    .inspect()?;
    assert_eq!(refused.report.of(Kind::DTypeFixed).count(), 1, "{}", refused.report);

    let free =
        JitTrace::new(|x: &Tensor| x.softmax(-1) * 2.0, (matrix(),)).check_dtype(DType::F64).build()?;
    finds_no(&free, Kind::DTypeFixed);
    Ok(())
}
