//! Levels, specs, structures of arguments, the report, and errors of the caller.

use std::collections::BTreeMap;

use super::*;

#[test]
fn what_is_allowed_is_fixed_in_the_signature() -> Result<()> {
    let halves = |x: &Tensor| {
        let n = x.dim(0).known().unwrap_or(2) / 2;
        x.narrow(0, 0, n)
    };
    assert!(jit_trace(halves, (matrix(),)).is_err());
    let traced = JitTrace::new(halves, (matrix(),)).allow(Kind::FrozenSize).build()?;
    assert!(traced.graph().to_string().contains("%x: f32[4, x1]"), "{}", traced.graph());
    let error = traced.call(&[Tensor::new([[1.0f32]; 6])]).unwrap_err();
    assert!(error.message().contains("expected f32[4, x1], got f32[6, 1]"), "{error}");
    let warned = JitTrace::new(halves, (matrix(),)).warn(Kind::FrozenSize).build()?;
    assert!(!warned.report.is_clean());
    Ok(())
}

#[test]
fn a_warning_can_be_denied() {
    let error = JitTrace::new(|x: &Tensor, _: &Tensor| x.relu(), (matrix(), vector()))
        .deny(Kind::UnusedInput)
        .build();
    let error = error.unwrap_err();
    assert!(error.message().contains("UnusedInput: the argument y is not used"), "{error}");
    assert!(error.source_loc().is_some_and(|at| at.file().ends_with("options.rs")), "{error}");
}

#[test]
fn sizes_that_operations_need_are_unified() -> Result<()> {
    let weight = Tensor::new([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let traced = jit_trace(
        |x: &Tensor, y: &Tensor| x.matmul(&weight) + y,
        (matrix(), Tensor::new([[1.0f32, 2.0]; 4])),
    )?;
    let text = traced.graph().to_string();
    assert!(text.contains("%x: f32[x0, 3], %y: f32[x0, 2]"), "{text}");
    let size = &traced.report.sizes[1];
    assert_eq!((&*size.argument, size.axis, size.value, size.size.known()), ("x", 1, 3, Some(3)));
    assert_eq!(size.by.as_ref().map(|place| &*place.what), Some("matmul"));
    Ok(())
}

#[test]
fn sizes_can_be_expressions_of_others() -> Result<()> {
    let traced = jit_trace(
        |x: &Tensor, y: &Tensor| fx::cat([x, x], 0) + y,
        (Tensor::new([1.0f32, 2.0]), Tensor::new([1.0f32, 2.0, 3.0, 4.0])),
    )?;
    assert!(traced.graph().to_string().contains("%y: f32[2*x0]"), "{}", traced.graph());
    Ok(())
}

#[test]
fn specs_name_sizes_and_ranges_bound_them() -> Result<()> {
    let traced = JitTrace::new(|x: &Tensor| x.relu(), (matrix(),))
        .input("x", "f32[batch, 3]")
        .dim("batch", 1, Some(64))
        .build()?;
    assert!(traced.graph().to_string().contains("f32[batch, 3]"), "{}", traced.graph());
    assert!(traced.call(&[Tensor::new([[1.0f32, 2.0, 3.0]; 65])]).is_err());
    Ok(())
}

#[test]
fn arguments_may_be_structures() -> Result<()> {
    let pair = jit_trace(|(a, b): (Tensor, Tensor), c: Tensor| a * b + c, ((matrix(), matrix()), vector()))?;
    assert!(pair.report.is_clean(), "{}", pair.report);
    let map: BTreeMap<String, Tensor> = [("a".to_owned(), matrix()), ("b".to_owned(), vector())].into();
    let of_map = jit_trace(|m: BTreeMap<String, Tensor>| &m["a"] + &m["b"], (map.clone(),))?;
    let result: Tensor = of_map.run((map,))?;
    result.all_close(&(matrix() + vector()), 0.0, 0.0)?;
    let absent = jit_trace(
        |x: Tensor, mask: Option<Tensor>| match mask {
            Some(mask) => x * mask,
            None => x.relu(),
        },
        (matrix(), None::<Tensor>),
    )?;
    let result: Tensor = absent.run((matrix(), None::<Tensor>))?;
    result.all_close(&matrix().relu(), 0.0, 0.0)?;
    let scaled = jit_trace(|x: Tensor, scale: f64| x * scale, (matrix(), 2.0))?;
    let error = scaled.run::<_, Tensor>((matrix(), 3.0)).unwrap_err();
    assert!(error.message().contains("specialised to 2.0"), "{error}");
    Ok(())
}

#[test]
fn given_inputs_are_checked() -> Result<()> {
    let traced = JitTrace::new(|x: &Tensor| x.relu(), (matrix(),))
        .check_inputs((Tensor::new([[1.0f32, -1.0]; 9]),))
        .check_inputs((Tensor::new([1i64]),))
        .build()?;
    let given: Vec<_> =
        traced.report.checks.iter().filter(|check| matches!(check.input, Variation::Given(_))).collect();
    assert!(matches!(given[0].outcome, Outcome::Same), "{}", traced.report);
    assert!(matches!(given[1].outcome, Outcome::GraphRefuses(_)), "{}", traced.report);
    Ok(())
}

#[test]
fn the_report_is_a_table() -> Result<()> {
    let traced =
        JitTrace::new(|x: &Tensor, _: &Tensor| x.matmul(x), (Tensor::new([[1.0f32; 2]; 2]), vector()))
            .inspect()?;
    let text = traced.report.to_string();
    let text = text.replace(traced.report.diagnostics[0].at.file(), "FILE");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "main: 4 nodes, 0 denied, 1 warnings, 0 notes");
    assert_eq!(lines[1], "sizes");
    assert_eq!(lines[2], "  x.0  2  x0");
    assert!(lines[3].starts_with("  x.1  2  x0  by matmul at "), "{}", lines[3]);
    assert!(text.contains("  the same arguments: the same"), "{text}");
    assert!(text.contains("  x0 = 3 in place of 2: the same"), "{text}");
    assert!(text.contains("  warn  UnusedInput      FILE:"), "{text}");
    Ok(())
}

#[test]
fn mistakes_of_the_caller_are_errors_with_advice() {
    let one = jit_trace(|x: &Tensor, y: &Tensor| x + y, (matrix(),)).unwrap_err();
    assert_eq!(one.message(), "the function takes 2 arguments, got 1 examples");
    assert!(one.source_loc().is_some_and(|at| at.file().ends_with("options.rs")));
    let name = JitTrace::new(|x: &Tensor| x.relu(), (matrix(),)).input("y", "f32[n]").build().unwrap_err();
    assert_eq!(name.message(), "the traced function has no argument \"y\"");
    let dtype =
        JitTrace::new(|x: &Tensor| x.relu(), (matrix(),)).input("x", "i64[n, 3]").build().unwrap_err();
    assert!(dtype.message().contains("its spec is i64[n, 3], its example f32[4, 3]"), "{dtype}");
    let text = JitTrace::new(|x: &Tensor| x.relu(), (matrix(),)).input("x", "f32[").build().unwrap_err();
    assert!(text.message().starts_with("argument \"x\": missing ]"), "{text}");
    let range = JitTrace::new(|x: &Tensor| x.relu(), (matrix(),)).dim("batch", 1, None).build().unwrap_err();
    assert_eq!(range.message(), "no input has the symbol \"batch\"");
    let failing = jit_trace(|x: &Tensor| x.matmul(vector() * 0.0 + x), (matrix(),)).unwrap_err();
    assert!(failing.source_loc().is_some_and(|at| at.file().ends_with("options.rs")), "{failing}");
}
