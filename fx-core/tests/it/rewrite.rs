//! Patterns, rules and replacements.

use std::sync::Arc;

use expect_test::{Expect, expect};
use fx_core::Result;
use fx_core::ops::{self, Comparison as _};
use fx_core::rewrite::*;
use fx_core::trace::Traceable;
use fx_core::{Arg, GraphModule, err};
use fx_core::{Array, Attribute, DType, Graph, Registry, Tensor, Value, rules, symbolic_trace, trace};

fn parse(text: &str) -> GraphModule {
    GraphModule::new("M", Graph::parse(text, &Registry::core()).unwrap())
}

fn print(x: &Tensor, label: &str) -> Tensor {
    fx_core::trace::apply_as(ops::print::OP, false, [x.into(), Arg::str(label)])
}

fn add_times(x: &Tensor, y: impl fx_core::ToArg<fx_core::op::kind::Any>, alpha: i64) -> Tensor {
    fx_core::call!(ops::add(x, y, alpha = alpha))
}

fn check<P, R>(text: &str, pattern: impl Traceable<P>, replacement: impl Traceable<R>, expected: Expect) {
    let mut gm = parse(text);
    replace_pattern(&mut gm, pattern, replacement).unwrap();
    assert!(gm.lint().is_empty(), "{:?}\n{}", gm.lint(), gm.graph());
    expected.assert_eq(&gm.graph().to_string());
}

#[test]
fn spelling_does_not_matter() {
    check(
        "graph main(%x) {
           %a = add(%x, 1, alpha=2)
           %b = %a.add(y=1, alpha=2)
           %c = add(y=1, x=%b, alpha=2)
           %d = add(%c, 1)
           %e = add(%d, 1, alpha=2.0)
           return %e
         }",
        |x: &Tensor| add_times(x, 1, 2),
        |x: &Tensor| -x,
        expect![[r#"
            graph main(%x) {
              %neg = neg(%x)
              %neg_1 = neg(%neg)
              %neg_2 = neg(%neg_1)
              %d = add(%neg_2, 1)
              %e = add(%d, 1, alpha=2.0)
              return %e
            }
        "#]],
    );
}

#[test]
fn operands_of_commutative_operations_match_in_either_order() {
    check(
        "graph main(%x, %y) {
           %n = neg(%x)
           %a = mul(%n, %y)
           %m = neg(%y)
           %b = mul(%a, %m)
           %s = sub(%b, %m)
           return %s
         }",
        |x: &Tensor, y: &Tensor| -x * y,
        |x: &Tensor, y: &Tensor| x - y,
        expect![[r#"
            graph main(%x, %y) {
              %sub = sub(%x, %y)
              %m = neg(%y)
              %b = mul(%sub, %m)
              %s = sub(%b, %m)
              return %s
            }
        "#]],
    );
}

#[test]
fn a_factor_of_add_keeps_its_operand() {
    check(
        "graph main(%x, %y) {
           %n = neg(%x)
           %a = add(%y, %n, alpha=2)
           return %a
         }",
        |x: &Tensor, y: &Tensor| add_times(&-x, y, 2),
        |x: &Tensor, _y: &Tensor| x.clone(),
        expect![[r#"
            graph main(%x, %y) {
              %n = neg(%x)
              %a = add(%y, %n, alpha=2)
              return %a
            }
        "#]],
    );
}

#[test]
fn literals_match_by_type_and_bits() {
    check(
        "graph main(%x) {
           %a = mul(%x, 1)
           %b = mul(%a, 1.0)
           %c = mul(%b, true)
           %d = mul(%c, -0.0)
           return %d
         }",
        |x: &Tensor| x * 1.0,
        |x: &Tensor| x.clone(),
        expect![[r#"
            graph main(%x) {
              %a = mul(%x, 1)
              %c = mul(%a, true)
              %d = mul(%c, -0.0)
              return %d
            }
        "#]],
    );
}

#[test]
fn the_same_argument_binds_the_same_value() {
    check(
        "graph main(%x, %y) {
           %a = mul(%x, %y)
           %b = mul(%a, %a)
           return %b
         }",
        |x: &Tensor| x * x,
        |x: &Tensor| -x,
        expect![[r#"
            graph main(%x, %y) {
              %a = mul(%x, %y)
              %neg = neg(%a)
              return %neg
            }
        "#]],
    );
}

#[test]
fn inner_values_with_other_users_do_not_match() {
    check(
        "graph main(%x) {
           %n = neg(%x)
           %a = neg(%n)
           return (%a, %n)
         }",
        |x: &Tensor| -(-x),
        |x: &Tensor| x.clone(),
        expect![[r#"
            graph main(%x) {
              %n = neg(%x)
              %a = neg(%n)
              return (%a, %n)
            }
        "#]],
    );
}

#[test]
fn chained_matches_see_new_producers_and_new_nodes_are_not_matched() {
    check(
        "graph main(%x) {
           %a = neg(%x)
           %b = neg(%a)
           %c = neg(%b)
           return %c
         }",
        |x: &Tensor| -x,
        |x: &Tensor| -(x + 1),
        expect![[r#"
            graph main(%x) {
              %add = add(%x, 1)
              %neg = neg(%add)
              %add_1 = add(%neg, 1)
              %neg_1 = neg(%add_1)
              %add_2 = add(%neg_1, 1)
              %neg_2 = neg(%add_2)
              return %neg_2
            }
        "#]],
    );
}

#[test]
fn several_outputs_are_replaced_and_needed_values_move_up() {
    check(
        "graph main(%x, %y) {
           %s = neg(%x)
           %u = add(%s, 1)
           %z = mul(%y, 2)
           %c = sub(%x, %z)
           return (%u, %c)
         }",
        |x: &Tensor, z: &Tensor| (-x, x - z),
        |x: &Tensor, z: &Tensor| {
            let shared = ops::maximum(x, z);
            (&shared + 3, &shared + 4)
        },
        expect![[r#"
            graph main(%x, %y) {
              %z = mul(%y, 2)
              %maximum = maximum(%x, %z)
              %add = add(%maximum, 3)
              %u = add(%add, 1)
              %add_1 = add(%maximum, 4)
              return (%u, %add_1)
            }
        "#]],
    );
}

#[test]
fn outputs_that_need_each_other_are_left() {
    let text = "graph main(%x) {
           %s = neg(%x)
           %z = mul(%s, 2)
           %c = sub(%x, %z)
           return (%s, %c)
         }";
    let mut gm = parse(text);
    let before = gm.graph().clone();
    let done = replace_pattern(
        &mut gm,
        |x: &Tensor, z: &Tensor| (-x, x - z),
        |x: &Tensor, z: &Tensor| {
            let shared = ops::maximum(x, z);
            (&shared + 3, &shared + 4)
        },
    );
    assert!(done.unwrap().is_empty());
    assert_eq!(*gm.graph(), before);
}

#[test]
fn an_absent_output_means_no_match() {
    let mut gm = parse("graph main(%x) {\n %s = neg(%x)\n return %s\n}");
    let done = replace_pattern(&mut gm, |x: &Tensor| (-x, x + 1), |x: &Tensor| (x.clone(), x.clone()));
    assert!(done.unwrap().is_empty());
}

#[test]
fn replacements_may_be_arguments_and_literals() {
    check(
        "graph main(%x) {
           %a = sub(%x, %x)
           %b = add(%a, 1)
           return (%b, %a)
         }",
        |x: &Tensor| x - x,
        |_x: Tensor| 0.5f64,
        expect![[r#"
            graph main(%x) {
              %b = add(0.5, 1)
              return (%b, 0.5)
            }
        "#]],
    );
}

#[test]
fn sub_graphs_are_rewritten_and_stay_shared() {
    check(
        "graph main(%p, %x) {
           %r = cond(%p, @then, @then, [%x])
           %n = neg(%r)
           %m = neg(%n)
           return %m
         }
         graph then(%a) {
           %n = neg(%a)
           %m = neg(%n)
           return %m
         }",
        |x: &Tensor| -(-x),
        |x: &Tensor| x.clone(),
        expect![[r#"
            graph main(%p, %x) {
              %r = cond(%p, @then, @then, [%x])
              return %r
            }

            graph then(%a) {
              return %a
            }
        "#]],
    );
}

#[test]
fn effects_are_not_crossed() {
    let effects = |x: &Tensor| print(&print(x, "a"), "b");
    check(
        r#"graph main(%x) {
           %a = print(%x, label="a")
           %o = print(%x, label="other")
           %b = print(%a, label="b")
           return %b
         }"#,
        effects,
        |x: &Tensor| print(x, "ab"),
        expect![[r#"
            graph main(%x) {
              %a = print(%x, label="a")
              %o = print(%x, label="other")
              %b = print(%a, label="b")
              return %b
            }
        "#]],
    );
    check(
        r#"graph main(%x) {
           %o = print(%x, label="other")
           %a = print(%x, label="a")
           %n = neg(%x)
           %b = print(%a, label="b")
           return (%b, %n)
         }"#,
        effects,
        |x: &Tensor| print(x, "ab"),
        expect![[r#"
            graph main(%x) {
              %o = print(%x, label="other")
              %n = neg(%x)
              %print = print(%x, label="ab")
              return (%print, %n)
            }
        "#]],
    );
}

#[test]
fn wildcards_alternatives_and_captures() {
    let pattern = Pattern::new(|x: &Tensor| {
        let scaled = any_of([x * number("c"), x / number("c")]);
        ops::maximum(capture(&scaled, "scaled"), exactly(0.0))
    })
    .unwrap();
    let rule = Rule::of_pattern("max0", pattern, |x: &Tensor| -x + number("c"))
        .unwrap()
        .when("the factor is above 2", |found| found.number("c").is_some_and(|c| c > 2.0));
    let mut gm = parse(
        "graph main(%x) {
           %a = mul(3, %x)
           %b = maximum(%a, 0)
           %c = div(%b, 4.5)
           %d = maximum(0.0, %c)
           %e = mul(%d, 1.0)
           %f = maximum(%e, 0.0)
           return %f
         }",
    );
    let matches = find_matches(&gm, &rule);
    assert_eq!(matches.len(), 2);
    assert!(matches[0].names["c"] == Arg::Int(3));
    let done = replace(&mut gm, &rule).unwrap();
    assert_eq!(done[1].matched.iter().map(|name| &**name).collect::<Vec<_>>(), ["c", "d"]);
    expect![[r#"
        graph main(%x) {
          %neg = neg(%x)
          %add = add(%neg, 3)
          %neg_1 = neg(%add)
          %add_1 = add(%neg_1, 4.5)
          %e = mul(%add_1, 1.0)
          %f = maximum(%e, 0.0)
          return %f
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    let node = gm.find("f").unwrap();
    expect!["max0 does not match %f = maximum(%e, 0.0): expected the factor is above 2 for the match, found that it does not hold  in %f = maximum(%e, 0.0)"]
        .assert_eq(&rule.explain(&gm, node).unwrap().to_string());
    let node = gm.find("e").unwrap();
    expect!["max0 does not match %e = mul(%add_1, 1.0): expected a call of maximum for %maximum, found %e = mul(%add_1, 1.0)"]
        .assert_eq(&rule.explain(&gm, node).unwrap().to_string());
}

#[test]
fn explanations_name_the_deepest_mismatch() {
    let rule =
        Rule::new("r", |x: &Tensor, y: &Tensor| (x + y) * -(x - y), |x: &Tensor, _: &Tensor| x.clone())
            .unwrap();
    let gm = parse(
        "graph main(%x, %y, %z) {
           %a = add(%x, %y)
           %b = sub(%x, %z)
           %c = neg(%b)
           %d = mul(%c, %a)
           return %d
         }",
    );
    let node = gm.find("d").unwrap();
    expect!["r does not match %d = mul(%c, %a): expected the same value as before, %y for %y, found %z  in %b = sub(%x, %z)"]
        .assert_eq(&rule.explain(&gm, node).unwrap().to_string());
}

#[test]
fn free_arguments_and_built_replacements() {
    let pattern = Pattern::new(|x: &Tensor| capture(add_times(x, 1, 1), "a"))
        .unwrap()
        .free("a", "alpha")
        .unwrap()
        .free("a", "y")
        .unwrap();
    let rule = Rule::build("fold", pattern, |found| {
        let (Some(y), Some(alpha)) = (found.number("a.y"), found.number("a.alpha")) else { return Ok(None) };
        symbolic_trace(move |x: &Tensor| x - (-y * alpha)).map(Some)
    });
    let mut gm = parse(
        "graph main(%x) {
           %a = add(%x, 2, alpha=3)
           %b = add(%a, %x, alpha=3)
           return %b
         }",
    );
    replace(&mut gm, &rule).unwrap();
    expect![[r#"
        graph main(%x) {
          %sub = sub(%x, -6.0)
          %b = add(%sub, %x, alpha=3)
          return %b
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    let pattern = Pattern::new(|x: &Tensor| -x).unwrap();
    let fails = Rule::build("fails", pattern, |_| Err(err!(Argument, "no")));
    let mut gm = parse("graph main(%x) {\n %a = neg(%x)\n return %a\n}");
    assert!(replace(&mut gm, &fails).unwrap_err().message().contains("no"));
}

#[test]
fn how_near_a_number_is_follows_the_dtype() {
    let value = 0.044715;
    let rule = Rule::new("near", |x: &Tensor| x * near(value), |x: &Tensor| -x).unwrap();
    let replaced = |dtype: &str, x: &str, constant: Option<Tensor>| {
        let read = if constant.is_some() { "%w = self.w" } else { "" };
        let ty = if dtype.is_empty() { String::new() } else { format!(": {dtype}[2]") };
        let mut gm =
            parse(&format!("graph main(%x{ty}) {{\n {read}\n %y{ty} = mul(%x, {x})\n return %y\n}}"));
        if let Some(constant) = constant {
            gm.set_attribute("w", Attribute::Constant(constant)).unwrap();
        }
        replace(&mut gm, &rule).unwrap().len() == 1
    };
    let (more, less) = ("0.0447150000001", "0.04472");
    for (dtype, accepts) in [("f64", false), ("f32", true), ("f16", true), ("bf16", true), ("", false)] {
        assert!(replaced(dtype, "0.044715", None));
        assert_eq!(replaced(dtype, more, None), accepts, "{dtype}");
        assert!(!replaced(dtype, less, None), "{dtype}");
        let constant = |dtype: DType| Some(Tensor::from(Array::scalar(value).cast(dtype)));
        for own in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let unit = dtype.parse().ok().and_then(DType::epsilon).unwrap_or(f64::EPSILON);
            assert_eq!(replaced(dtype, "%w", constant(own)), own.epsilon() <= Some(unit), "{dtype} {own}");
        }
    }
}

#[test]
fn an_error_in_a_callback_undoes_everything() {
    let pattern = Pattern::new(|x: &Tensor| capture(&(x + integer("n")), "sum")).unwrap();
    let rule = Rule::build("fails_at_three", pattern, |found| match found.int("n") {
        Some(3) => Err(err!(Argument, "three")),
        _ => {
            let w = Tensor::new([1.0f32]);
            symbolic_trace(move |x: &Tensor| x * &w).map(Some)
        }
    });
    let mut gm =
        parse("graph main(%x) {\n %a = add(%x, 1)\n %b = add(%a, 2)\n %c = add(%b, 3)\n return %c\n}");
    let before = gm.graph().clone();
    assert!(replace(&mut gm, &rule).is_err());
    assert!(Rules::new([rule]).run(&mut gm).is_err());
    assert_eq!(*gm.graph(), before);
    assert_eq!(gm.attributes().len(), 0);
}

#[test]
fn captured_tensors_match_constants_and_come_along() {
    let w = Tensor::new([2.0f32, 3.0]);
    let other = Tensor::new([2.0f32, 4.0]);
    let (v, same) = (w.clone(), Tensor::new([2.0f32, 3.0]));
    let mut gm = symbolic_trace(move |x: &Tensor| (x * &v) - (x * &other)).unwrap();
    let new = Tensor::new([5.0f32]);
    let done = replace_pattern(&mut gm, move |x: &Tensor| x * &same, move |x: &Tensor| x + &new).unwrap();
    assert_eq!(done.len(), 1);
    assert!(gm.lint().is_empty());
    let y = gm.call(&[Tensor::new([1.0f32, 1.0])]).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [4.0, 2.0]);
    let any = Rule::new("any", |x: &Tensor| x * attr("w"), |x: &Tensor| x.clone()).unwrap();
    let big =
        any.when("a four", |found| found.constant("w").is_some_and(|w| w.to_vec::<f32>().unwrap()[1] == 4.0));
    assert_eq!(replace(&mut gm, &big).unwrap().len(), 1);
}

#[test]
fn types_that_change_are_propagated_and_rules_keep_them() {
    let gm = || trace(|x: &Tensor| (-x).gt(0)).input("x", "f32[n]").build().unwrap();
    let mut a = gm();
    replace_pattern(&mut a, |x: &Tensor| x.gt(0), |x: &Tensor| x * 2).unwrap();
    expect![[r#"
        graph main(%x: f32[n]) -> f32[n] {
          %neg: f32[n] = neg(%x)
          %mul: f32[n] = mul(%neg, 2)
          return %mul
        }
    "#]]
    .assert_eq(&a.graph().to_string());
    let mut b = gm();
    let rule = Rule::new("r", |x: &Tensor| x.gt(0), |x: &Tensor| x * 2).unwrap();
    assert!(replace(&mut b, &rule).unwrap().is_empty());
    assert_eq!(b.graph(), gm().graph());
}

#[test]
fn provenance_is_united() {
    let mut gm = symbolic_trace(|x: &Tensor| -(-x)).unwrap();
    let ids = gm.graph().ids();
    gm.graph_mut().meta_mut(ids[1]).unwrap().add_tag("hot");
    let source = gm.graph().node(ids[2]).unwrap().meta().source.clone();
    let done = replace_pattern(&mut gm, |x: &Tensor| -(-x), |x: &Tensor| x + 1).unwrap();
    let meta = gm.graph().node(done[0].created[0]).unwrap().meta().clone();
    assert_eq!(meta.tags(), [Arc::from("hot")]);
    assert_eq!(meta.source, source);
    let from: Vec<&str> = meta.provenance()[0].from.iter().map(|name| &**name).collect();
    assert_eq!((&*meta.provenance()[0].pass, from), ("replace_pattern", vec!["neg", "neg_1"]));
}

#[test]
fn wrong_patterns_say_what_is_wrong() {
    let message = |result: Result<Rule>| result.unwrap_err().message().to_owned();
    let identity = Rule::new("r", |x: &Tensor| x.clone(), |x: &Tensor| x.clone());
    assert_eq!(message(identity), "the pattern returns its own argument x");
    let dead = Rule::new(
        "r",
        |x: &Tensor| {
            let _ = -x;
            x + 1
        },
        |x: &Tensor| x.clone(),
    );
    assert_eq!(message(dead), "the pattern computes %neg and does not return it");
    let arity = Rule::new("r", |x: &Tensor| -x, |x: &Tensor, _: &Tensor| x.clone());
    assert_eq!(message(arity), "the pattern takes 1 arguments, the replacement 2");
    let outputs = Rule::new("r", |x: &Tensor| -x, |x: &Tensor| (x.clone(), x.clone()));
    assert_eq!(message(outputs), "the pattern returns tensor, the replacement (tensor, tensor)");
    let unused = Rule::new("r", |x: &Tensor, _y: &Tensor| -x, |x: &Tensor, y: &Tensor| x + y);
    assert_eq!(message(unused), "the replacement uses the argument y, which the pattern does not use");
    let unrelated =
        Rule::new("r", |x: &Tensor, y: &Tensor| (-x, -y), |x: &Tensor, y: &Tensor| (x.clone(), y.clone()));
    assert_eq!(message(unrelated), "the outputs %neg and %neg_1 of the pattern have nothing in common");
    let hole = Rule::new("r", |x: &Tensor| -x, |x: &Tensor| x * number("c"));
    assert!(message(hole).contains("as a literal, which the pattern does not have"));
    let one_way =
        Rule::new("r", |x: &Tensor, y: &Tensor| any_of([-x, x + y]), |x: &Tensor, y: &Tensor| x + y);
    assert!(message(one_way).contains("the argument y"));
    let unused_is_fine = Rule::new("r", |x: &Tensor, _y: &Tensor| -x, |x: &Tensor, _y: &Tensor| x.clone());
    assert!(unused_is_fine.is_ok());
}

#[test]
fn a_replacement_that_fits_no_match_is_an_error() {
    let mut gm = trace(|x: &Tensor| -x).input("x", "f32[n, 4]").build().unwrap();
    let before = gm.graph().to_string();
    let error = replace_pattern(&mut gm, |x: &Tensor| -x, |x: &Tensor| x.i((0, 0, 0))).unwrap_err();
    let message = "the pattern matches, but the replacement does not fit: \
                   an index of 3 axes is too long for a tensor of rank 2";
    assert_eq!(error.message(), message);
    assert!(error.source_loc().unwrap().file().ends_with("it/rewrite.rs"));
    assert_eq!(gm.graph().to_string(), before);
    assert!(replace_pattern(&mut gm, |x: &Tensor| x + 1, |x: &Tensor| x + 2).unwrap().is_empty());
}

rules! {
    static PAIR;

    /// There.
    there: |x: &Tensor| x + 1 => |x: &Tensor| x - (-1);
    /// And back.
    back: |x: &Tensor| x - (-1) => |x: &Tensor| x + 1;
}

rules! {
    static FOLDS;

    /// Twice negated.
    neg_neg: |x: &Tensor| -(-x) => |x: &Tensor| x.clone();
    /// Sums of numbers.
    add_add: |x: &Tensor| (x + integer("a")) + integer("b"), build |found| {
        let (Some(a), Some(b)) = (found.int("a"), found.int("b")) else { return Ok(None) };
        let Some(sum) = a.checked_add(b) else { return Ok(None) };
        symbolic_trace(move |x: &Tensor| x + sum).map(Some)
    };
    /// Adding nothing.
    add_zero: |x: &Tensor| x + exactly(0.0) => |x: &Tensor| x.clone(), when "x is of integers" |found| !found.is_float("x");
}

#[test]
fn rules_come_to_a_fixed_point() {
    let mut gm = trace(|x: &Tensor| {
        let mut y = x.clone();
        for i in 0..50 {
            y = -(-(y + i));
        }
        y - 1225
    })
    .input("x", "i64[n]")
    .build()
    .unwrap();
    let report = Rules::of_table(FOLDS).unwrap().run(&mut gm).unwrap();
    expect![[r#"
        graph main(%x: i64[n]) -> i64[n] {
          %add_73: i64[n] = add(%x, 1225)
          %sub: i64[n] = sub(%add_73, 1225)
          return %sub
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    assert_eq!(report.applied(), 99);
    assert_eq!(report.rules[0].applied, 50);
}

#[test]
fn rules_without_end_are_found() {
    let mut gm = trace(|x: &Tensor| x + 1).input("x", "i64[n]").build().unwrap();
    let before = gm.graph().clone();
    let error = Rules::of_table(PAIR).unwrap().run(&mut gm).unwrap_err();
    assert!(
        error.message().ends_with("replacements; the last ones were back, there")
            || error.message().ends_with("the last ones were there, back"),
        "{error}"
    );
    assert_eq!(*gm.graph(), before);
    let grow = Rule::new("grow", |x: &Tensor| -x, |x: &Tensor| -(-(-x))).unwrap();
    let mut gm = symbolic_trace(|x: &Tensor| -x).unwrap();
    let error = Rules::new([grow]).run(&mut gm).unwrap_err();
    assert!(error.message().contains("let the graph grow beyond"), "{error}");
}

#[test]
fn a_limit_stops_at_any_rewrite() {
    let trace = || trace(|x: &Tensor| -(-(-(-(-(-x)))))).input("x", "f32[n]").build().unwrap();
    let rules = Rules::of_table(FOLDS).unwrap();
    for limit in 0..5 {
        let mut gm = trace();
        let mut rewrites = Rewrites::limited(limit);
        let report = rules.run_counted(&mut gm, &mut rewrites).unwrap();
        assert_eq!(report.applied(), limit.min(3));
        assert_eq!(gm.graph().len(), 8 - 2 * limit.min(3));
    }
}

#[test]
fn long_patterns_are_matched_without_recursion() {
    fn chain(x: &Tensor) -> Tensor {
        (0..5000).fold(x.clone(), |y, _| (-y) * 2)
    }
    let run = move || {
        let rule = Rule::new("chain", chain, |x: &Tensor| x.clone()).unwrap();
        let mut gm = symbolic_trace(|x: &Tensor| chain(&chain(x)) + 1).unwrap();
        assert_eq!(replace(&mut gm, &rule).unwrap().len(), 2);
        assert_eq!(gm.graph().len(), 3);
    };
    std::thread::Builder::new().stack_size(256 * 1024).spawn(run).unwrap().join().unwrap();
}

/// Replacing operations by themselves keeps the bits of every random graph.
#[test]
fn identical_replacements_keep_the_bits() {
    let rules = [
        Rule::new("a", |x: &Tensor, y: &Tensor| x - y, |x: &Tensor, y: &Tensor| x - y).unwrap(),
        Rule::new("b", |x: &Tensor| -x, |x: &Tensor| -x).unwrap(),
        Rule::new(
            "c",
            |x: &Tensor, y: &Tensor| ops::maximum(x + y, y),
            |x: &Tensor, y: &Tensor| ops::maximum(y, y + x),
        )
        .unwrap(),
        Rule::new("d", |x: &Tensor, y: &Tensor| (x * y, x + y), |x: &Tensor, y: &Tensor| (x * y, x + y))
            .unwrap(),
    ];
    let mut replaced = 0;
    for seed in 0..300 {
        let graph = fx_core::testing::random_graph(seed, 40);
        let before = GraphModule::new("M", graph);
        let mut after = before.clone();
        for rule in &rules {
            replaced += replace(&mut after, rule).unwrap().len();
            assert!(after.lint().is_empty(), "seed {seed}: {:?}\n{}", after.lint(), after.graph());
        }
        let args = arguments(&before, seed);
        let (a, b) = (before.call_values(&args), after.call_values(&args));
        let same = match (&a, &b) {
            (Ok(a), Ok(b)) => a.eq_by(b, &|a, b| a.bits_eq(b)),
            (Err(_), Err(_)) => true,
            _ => false,
        };
        assert!(same, "seed {seed}: {a:?} {b:?}\n{}\n{}", before.graph(), after.graph());
    }
    assert!(replaced > 500, "{replaced}");
}

/// Values for the arguments of a random graph: three rows of small numbers.
fn arguments(gm: &GraphModule, seed: u64) -> Vec<Value> {
    let mut rng = fx_core::testing::Rng::new(seed);
    let graph = gm.graph();
    let value = |tree: &Arg, rng: &mut fx_core::testing::Rng| {
        tree.try_flat_map(&mut |id| {
            let ty = graph.node(*id)?.ty().and_then(fx_core::TypeTree::tensor).cloned().unwrap();
            let sizes: Vec<usize> = ty.shape.iter().map(|dim| dim.known().unwrap_or(3) as usize).collect();
            let n = sizes.iter().product();
            let array = fx_core::array::dispatch_dtype!(ty.dtype, T => {
                let data = (0..n).map(|_| <T as fx_core::Stored>::from_scalar(fx_core::Scalar::Int(rng.below(7) as i64 - 3))).collect::<Vec<T>>();
                fx_core::Array::from_vec(data, &sizes)?
            });
            Ok(Arg::Leaf(Tensor::new(array)))
        })
        .unwrap()
    };
    graph.inputs().iter().map(|input| value(&input.tree, &mut rng)).collect()
}
