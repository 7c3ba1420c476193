//! Passes on graphs as text.

use expect_test::{Expect, expect};
use fx_core::ops::{self, Arithmetic as _};
use fx_core::pass::*;
use fx_core::testing::{Rng, random_graph};
use fx_core::{Arg, Graph, GraphModule, Result, bail};
use fx_core::{Attribute, OpCode, Parameter, Registry, Target, Tensor, trace};

fn parse(text: &str) -> GraphModule {
    GraphModule::new("M", Graph::parse(text, &Registry::core()).unwrap())
}

fn check(passes: &str, text: &str, expected: Expect) {
    let mut gm = parse(text);
    Passes::parse(passes, PASSES).unwrap().compare_runs(2, 7).run(&mut gm).unwrap();
    expected.assert_eq(&gm.graph().to_string());
}

fn doubled() -> GraphModule {
    let w = Parameter::new(Tensor::new([1.0f32, 2.0]));
    let tensor = w.tensor().clone();
    let mut gm = trace(move |x: &Tensor| x * (&tensor * 1.0)).input("x", "f32[n, 2]").build().unwrap();
    let graph = gm.graph_mut();
    let path = "w";
    let first = graph.find_nodes(OpCode::CallFunction, None)[0];
    let w_node = graph.inserting_before(first, |graph| graph.get_attr(path)).unwrap().unwrap();
    let two = graph
        .inserting_before(first, |graph| graph.call_function(ops::mul::OP, [w_node.into(), Arg::Int(2)]))
        .unwrap()
        .unwrap();
    graph.set_arg(first, 1, two).unwrap();
    gm.set_attribute(path, Attribute::Parameter(w)).unwrap();
    gm.graph_mut().eliminate_dead_code(|_| true);
    gm.delete_unused();
    (SHAPE_PROP.apply(&mut gm)).unwrap();
    gm
}

#[test]
fn folded_constants_follow_their_parameters() {
    let mut gm = doubled();
    let x = Tensor::new([[1.0f32, 1.0]]);
    Passes::new().add(CONST_FOLD).compare_runs(2, 1).run(&mut gm).unwrap();
    expect![[r#"
        graph main(%x: f32[n, 2]) -> f32[n, 2] {
          %_folded_mul_1: f32[2] = self._folded_mul_1
          %mul: f32[n, 2] = mul(%x, %_folded_mul_1)
          return %mul
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    gm.set_attribute("w", Attribute::Parameter(Parameter::new(Tensor::new([5.0f32, 6.0])))).unwrap();
    assert_eq!(gm.call(std::slice::from_ref(&x)).unwrap().to_vec::<f32>().unwrap(), [10.0, 12.0]);
    gm.delete_unused();
    assert_eq!(gm.attributes().len(), 2);
    let wrong = Parameter::new(Tensor::new([true]));
    gm.set_attribute("w", Attribute::Parameter(wrong)).unwrap();
    assert_eq!(gm.call(std::slice::from_ref(&x)).unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
    let mut frozen = doubled();
    Passes::parse("const_fold(freeze=true)", PASSES).unwrap().run(&mut frozen).unwrap();
    assert_eq!(frozen.attributes().len(), 1, "the parameter is gone");
    assert_eq!(frozen.call(&[x]).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
}

#[test]
fn cse_merges_by_meaning_and_keeps_effects() {
    check(
        "cse",
        r#"graph main(%x: f32[2], %y: f32[2]) -> any {
           %a = add(%x, %y)
           %b = %y.add(y=%x, alpha=1)
           %c = add(%y, %x, alpha=2)
           %d = add(%x, %y, alpha=2)
           %e = mul(%a, 1)
           %f = mul(%b, 1.0)
           %g = mul(1, %b)
           %h = mul(%a, 0.0)
           %i = mul(%a, -0.0)
           return (%c, %d, %e, %f, %g, %h, %i)
         }"#,
        expect![[r#"
            graph main(%x: f32[2], %y: f32[2]) {
              %a = add(%x, %y)
              %c = add(%y, %x, alpha=2)
              %d = add(%x, %y, alpha=2)
              %e = mul(%a, 1)
              %f = mul(%a, 1.0)
              %h = mul(%a, 0.0)
              %i = mul(%a, -0.0)
              return (%c, %d, %e, %f, %e, %h, %i)
            }
        "#]],
    );
    let mut gm = parse(
        r#"graph main(%x) {
           %a = print(%x, label="a")
           %b = print(%x, label="a")
           %c = check(%a)
           %d = check(%a)
           return %b
         }"#,
    );
    assert_eq!(CSE.apply(&mut gm).unwrap() + DEAD_CODE.apply(&mut gm).unwrap(), 0);
}

#[test]
fn dead_code_goes_also_in_sub_graphs() {
    check(
        "dead_code",
        "graph main(%p: bool[], %x: f32[2]) {
           %u = neg(%x)
           %r = cond(%p, @then, @otherwise, [%x])
           %v = neg(%r)
           return %r
         }
         graph then(%a: f32[2]) {
           %n = neg(%a)
           %m = mul(%a, 2.0)
           return %a
         }
         graph otherwise(%a: f32[2]) {
           %n = neg(%a)
           return %n
         }",
        expect![[r#"
            graph main(%p: bool[], %x: f32[2]) {
              %r = cond(%p, @then, @otherwise, [%x])
              return %r
            }

            graph then(%a: f32[2]) -> f32[2] {
              return %a
            }

            graph otherwise(%a: f32[2]) {
              %n = neg(%a)
              return %n
            }
        "#]],
    );
}

#[test]
fn normalized_calls_have_one_spelling() {
    check(
        "normalize",
        "graph main(%x: f32[2]) {
           %a = %x.add(alpha=1, y=3)
           %b = mul(2, %a)
           %c = getitem(%b, index=0)
           return %c
         }",
        expect![[r#"
            graph main(%x: f32[2]) {
              %a = add(%x, 3)
              %b = mul(%a, 2)
              %c = getitem(%b, 0)
              return %c
            }
        "#]],
    );
}

#[test]
fn known_sizes_become_literals() {
    check(
        "shape_prop, simplify_sizes",
        "graph main(%x: f32[n, 3]) {
           %a = size(%x, 0)
           %b = size(%x, dim=-1)
           %c = mul(%x, %b)
           %d = mul(%c, %a)
           return %d
         }",
        expect![[r#"
            graph main(%x: f32[n, 3]) -> f32[n, 3] {
              %c: f32[n, 3] = mul(%x, 3)
              %d: f32[n, 3] = mul(%c, <n>)
              return %d
            }
        "#]],
    );
}

#[test]
fn canonical_graphs_have_equal_text() {
    let mut kept = 0;
    for seed in 0..200 {
        let graph = random_graph(seed, 30);
        let mut a = GraphModule::new("M", graph.clone());
        let mut b = GraphModule::new("M", shuffled(graph, seed));
        assert!(b.lint().is_empty(), "{:?}", b.lint());
        kept += usize::from(a.graph() != b.graph());
        for gm in [&mut a, &mut b] {
            Passes::new().add(CANONICALIZE).compare_runs(1, seed).run(gm).unwrap();
            let first = gm.graph().to_string();
            CANONICALIZE.apply(gm).unwrap();
            assert_eq!(first, gm.graph().to_string(), "seed {seed}: canonical is not a fixed point");
        }
        assert_eq!(a.graph().to_string(), b.graph().to_string(), "seed {seed}");
    }
    assert!(kept > 150);
}

/// Renames, reorders and respells a graph, and swaps operands.
fn shuffled(mut graph: Graph, seed: u64) -> Graph {
    let mut rng = Rng::new(seed);
    for id in graph.ids() {
        let node = graph.node(id).unwrap();
        if node.opcode() == OpCode::Placeholder {
            continue;
        }
        if let (Some(op), true) = (node.op(), rng.one_in(2)) {
            let mut bound = op.bind(node.args(), node.kwargs()).unwrap();
            if op.can_swap(&bound) {
                bound.swap(0, 1);
            }
            let is_method = matches!(node.target(), Target::CallMethod(_));
            let first_is_node = matches!(bound.first(), Some(Arg::Leaf(_)));
            if !is_method || first_is_node {
                graph.set_args(id, bound).unwrap();
                graph.set_kwargs(id, []).unwrap();
            }
        }
        graph.rename(id, &format!("n{}", rng.below(1000))).unwrap();
        for _ in 0..3 {
            if let Some(next) = graph.next(id).unwrap().and_then(|next| graph.next(next).unwrap())
                && rng.one_in(2)
            {
                let _ = graph.move_before(id, next);
            }
        }
    }
    graph
}

#[test]
fn every_pass_keeps_the_bits_of_random_graphs() {
    let text = "normalize, shape_prop, simplify_sizes, const_fold, cse, dead_code, hoist, sink, canonicalize";
    let passes = Passes::parse(text, PASSES).unwrap().compare_runs(2, 3);
    let mut erased = 0;
    for seed in 0..300 {
        let mut gm = GraphModule::new("M", random_graph(seed, 40));
        let report = passes.run(&mut gm).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        erased += report.passes.iter().map(|pass| pass.erased).sum::<usize>();
    }
    assert!(erased > 500, "{erased}");
}

#[test]
fn sinking_and_hoisting_move_attributes_only_as_far_as_they_may() {
    let text = "graph main(%x: f32[2]) {
           %w = self.w
           %a = neg(%x)
           %v = self.v
           %b = add(%a, %v)
           %c = add(%b, %w)
           return %c
         }";
    let mut gm = parse(text);
    for path in ["w", "v"] {
        gm.set_attribute(path, Attribute::Constant(Tensor::new([1.0f32, 2.0]))).unwrap();
    }
    Passes::new().add(SINK).compare_runs(1, 1).run(&mut gm).unwrap();
    expect![[r#"
        graph main(%x: f32[2]) {
          %a = neg(%x)
          %v = self.v
          %b = add(%a, %v)
          %w = self.w
          %c = add(%b, %w)
          return %c
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    assert_eq!(SINK.apply(&mut gm).unwrap(), 0);
    Passes::new().add(HOIST).compare_runs(1, 1).run(&mut gm).unwrap();
    expect![[r#"
        graph main(%x: f32[2]) {
          %v = self.v
          %w = self.w
          %a = neg(%x)
          %b = add(%a, %v)
          %c = add(%b, %w)
          return %c
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    assert_eq!(HOIST.apply(&mut gm).unwrap(), 0);
}

#[test]
fn graph_modules_are_inlined() {
    let inner = trace(|x: &Tensor| -(x * 2)).input("x", "f32[n]").build().unwrap();
    let mut gm = parse(
        "graph main(%x: f32[n]) {
           %a = self.inner(%x)
           %b = self.inner(%a)
           return %b
         }",
    );
    gm.add_submodule("inner", inner).unwrap();
    Passes::new().add(INLINE).compare_runs(1, 1).run(&mut gm).unwrap();
    expect![[r#"
        graph main(%x: f32[n]) -> f32[n] {
          %mul: f32[n] = mul(%x, 2)
          %neg: f32[n] = neg(%mul)
          %mul_1: f32[n] = mul(%neg, 2)
          %neg_1: f32[n] = neg(%mul_1)
          return %neg_1
        }
    "#]]
    .assert_eq(&gm.graph().to_string());
    assert_eq!(gm.children().len(), 0);
}

/// A pass that is wrong at one of its changes: it turns the third subtraction around.
fn wrong(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let graph = gm.graph_mut();
    let mut n = 0;
    for id in graph.find_nodes(OpCode::CallFunction, Some("sub")) {
        let mut args = graph.node(id)?.args().to_vec();
        if !cx.allow(|| format!("look at %{}", graph.node(id).map_or("?", |node| node.name()))) {
            return Ok(());
        }
        n += 1;
        if n == 3 {
            args.swap(0, 1);
        }
        graph.set_args(id, args)?;
    }
    Ok(())
}

#[test]
fn a_pass_in_place_is_checked_but_not_undone() {
    let traced = || {
        let gm = trace(|x: &Tensor, y: &Tensor| (0..8).fold(x.clone(), |z, _| z - y));
        gm.input("x", "f32[n]").input("y", "f32[n]").build().unwrap()
    };
    let (mut gm, mut other) = (traced(), traced());
    let passes = Passes::new().add(CSE).with("wrong", wrong).compare_runs(1, 1);
    let error = passes.clone().in_place().run(&mut gm).unwrap_err();
    assert!(
        error.message().contains("the pass wrong broke the graph: the result differs"),
        "it does not say by which change: {error}"
    );
    let advice = error.advice().unwrap();
    assert!(advice.starts_with("the pass changed") && advice.contains("sub(%y, %sub_1)"), "{error}");
    assert!(passes.run(&mut other).is_err());
    assert_ne!(gm.graph(), other.graph(), "what is not done in place is undone");
}

#[test]
fn the_guilty_change_is_found_and_undone() {
    let mut gm = trace(|x: &Tensor, y: &Tensor| (0..8).fold(x.clone(), |z, _| z - y))
        .input("x", "f32[n]")
        .input("y", "f32[n]")
        .build()
        .unwrap();
    let before = gm.graph().clone();
    let error = Passes::new().add(CSE).with("wrong", wrong).compare_runs(1, 1).run(&mut gm).unwrap_err();
    assert!(
        error
            .message()
            .contains("the pass wrong broke the graph, by change 3 of 8, look at %sub_2: the result differs"),
        "{error}"
    );
    assert!(error.advice().unwrap().contains("+  %sub_2: f32[n] = sub(%y, %sub_1)"), "{error}");
    assert_eq!(*gm.graph(), before);
    let retypes = |gm: &mut GraphModule, _: &mut Context| {
        fx_core::replace_pattern(gm, |x: &Tensor, y: &Tensor| x - y, |x: &Tensor, y: &Tensor| ops::gt(x, y))
            .map(drop)
    };
    let error = Passes::new().with("retypes", retypes).run(&mut gm).unwrap_err();
    assert!(
        error.message().contains(
            "by an edit for which it did not ask `cx.allow`: the type of the result was f32[n], it is bool[n] now"
        ),
        "{error}"
    );
    assert_eq!(*gm.graph(), before);
    let fails = |_: &mut GraphModule, _: &mut Context| bail!(Argument, "no");
    let error = Passes::new().with("fails", fails).run(&mut gm).unwrap_err();
    assert_eq!(error.message(), "the pass fails failed: no");
}

#[test]
fn pipelines_are_read_and_wrong_ones_explained() {
    let names = |text: &str| Passes::parse(text, PASSES).map(|passes| passes.names().join(" "));
    assert_eq!(names("").unwrap(), "");
    assert_eq!(
        names(" normalize , repeat( cse,dead_code ),const_fold(max_mb=1, freeze=true)").unwrap(),
        "normalize cse dead_code const_fold"
    );
    let message = |text: &str| Passes::parse(text, PASSES).err().unwrap().message().to_owned();
    assert_eq!(message("normalise"), "there is no pass \"normalise\"");
    assert_eq!(message("cse,"), "expected the name of a pass, got the end at column 5 of the pipeline");
    assert_eq!(message("cse(max=1)"), "the pass cse has no option \"max\"");
    assert_eq!(message("const_fold(freeze=1)"), "the option freeze of const_fold is a bool, got an integer");
    assert_eq!(message("repeat(cse"), "expected `)`, got the end at column 11 of the pipeline");
    assert_eq!(message("cse dead_code"), "expected a comma or the end, got `d` at column 5 of the pipeline");
    let mut gm = parse("graph main(%x) {\n return %x\n}");
    let error = Passes::parse("const_fold, shape_prop", PASSES).unwrap().run(&mut gm).unwrap_err();
    assert_eq!(error.message(), "the pass shape_prop must come before const_fold");
    let error = Passes::new().add(CSE).add(DEAD_CODE).before("dead_code", "cse").run(&mut gm).unwrap_err();
    assert_eq!(error.message(), "the pass dead_code must come before cse");
}

#[test]
fn repeated_passes_come_to_an_end_or_say_that_they_do_not() {
    let mut gm = trace(|x: &Tensor| -(-(x + 1))).input("x", "f32[n]").build().unwrap();
    let passes = Passes::parse("repeat(cse, dead_code)", PASSES).unwrap();
    assert!(!passes.run(&mut gm).unwrap().changed());
    let flip = |gm: &mut GraphModule, _: &mut Context| {
        fx_core::replace_pattern(gm, |x: &Tensor| -x, |x: &Tensor| x.neg()).map(drop)
    };
    let error = Passes::new().repeat(Passes::new().with("flip", flip)).run(&mut gm).unwrap_err();
    assert!(error.message().contains("still change the graph"), "{error}");
}

#[test]
fn differences_are_shortest_edits() {
    expect![[r#"
         a
         b
        -c
        +C
         d
         e
        ...
         g
         h
        +i
    "#]]
    .assert_eq(&text_diff("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nC\nd\ne\nf\ng\nh\ni\n"));
    assert_eq!(text_diff("x\ny\n", "x\ny\n"), "");
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let text =
            |rng: &mut Rng| (0..rng.below(30)).map(|_| format!("{}\n", rng.below(5))).collect::<String>();
        let (a, b) = (text(&mut rng), text(&mut rng));
        let edits = fx_core::__test::edits(&a.lines().collect::<Vec<_>>(), &b.lines().collect::<Vec<_>>());
        let side = |other: char| {
            edits
                .iter()
                .filter(|(sign, _)| *sign != other)
                .map(|(_, line)| format!("{line}\n"))
                .collect::<String>()
        };
        assert_eq!((side('+'), side('-')), (a, b), "seed {seed}");
    }
}

#[test]
fn outlined_nodes_compute_the_same_and_are_inlined_again() {
    let (mut outlined, mut refused) = (0, 0);
    for seed in 0..400 {
        let before = GraphModule::new("M", random_graph(seed, 25));
        let mut rng = Rng::new(seed);
        let ids: Vec<_> =
            before.graph().nodes().filter(|(_, node)| node.op().is_some()).map(|(id, _)| id).collect();
        if ids.is_empty() {
            continue;
        }
        let (start, len) = (rng.below(ids.len()), 1 + rng.below(6));
        let scattered = rng.one_in(2);
        let chosen: Vec<_> =
            ids[start..].iter().copied().filter(|_| !scattered || rng.one_in(2)).take(len).collect();
        let chosen_names: Vec<String> =
            chosen.iter().map(|id| before.graph().node(*id).unwrap().name().to_owned()).collect();
        let mut gm = before.clone();
        let ids: Vec<_> = chosen_names.iter().map(|name| gm.graph().find(name).unwrap()).collect();
        let text = gm.graph().to_string();
        match outline(&mut gm, &ids, "part") {
            Ok(_) => outlined += 1,
            Err(_) => {
                refused += 1;
                assert_eq!(gm.graph().to_string(), text);
                continue;
            }
        }
        assert!(gm.lint().is_empty(), "seed {seed}: {:?}", gm.lint());
        let inputs = sample_inputs(&before, seed).unwrap();
        let (a, b) = (before.call_values(&inputs).unwrap(), gm.call_values(&inputs).unwrap());
        assert!(a.eq_by(&b, &|a, b| a.bits_eq(b)), "seed {seed}");
        INLINE.apply(&mut gm).unwrap();
        let c = gm.call_values(&inputs).unwrap();
        assert!(a.eq_by(&c, &|a, b| a.bits_eq(b)), "seed {seed}");
    }
    assert!(outlined > 150 && refused > 10, "{outlined} {refused}");
}
