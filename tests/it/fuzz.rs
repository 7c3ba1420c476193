//! Passes and rules on random programs of the whole vocabulary; `fx fuzz --count 100000` is the long run.

use fx::fuzz::{Case, Config, Own, run};
use fx::{Arg, Graph, OpCode, Passes};

fn config(seed: u64, count: usize) -> Config {
    Config { seed, count, ..Config::default() }
}

#[test]
fn passes_and_rules_keep_what_random_programs_do() {
    let summary = run(&config(0, 300), &|_| {}).unwrap();
    assert!(summary.failures.is_empty(), "{summary}");
    let fired = summary.rules.values().filter(|n| **n > 0).count();
    let changed = summary.passes.values().filter(|n| **n > 0).count();
    assert!(fired > 60 && changed >= summary.passes.len() - 2, "{fired} rules, {changed} passes\n{summary}");
    assert!(summary.operations.len() > 300 && summary.with.values().all(|n| *n > 20), "{summary}");
    assert!(summary.comparisons > 10 * summary.skipped, "{summary}");
}

/// Programs in which passes went wrong once.
#[test]
fn programs_that_found_faults_pass() {
    for seed in [
        100_008, 104_597, 105_072, 207_313, 209_311, 228_509, 231_574, 233_523, 243_930, 247_631, 273_666,
        283_762, 291_034, 479_641, 481_321, 600_323, 18_395, 27_473, 36_329, 54_818, 69_787, 84_356, 95_048,
        98_188, 714,
    ] {
        let summary = run(&config(seed, 1), &|_| {}).unwrap();
        assert!(summary.failures.is_empty(), "{summary}");
    }
}

#[test]
fn findings_do_not_depend_on_threads() {
    let text = |threads| run(&Config { threads, ..config(7, 24) }, &|_| {}).unwrap().to_string();
    assert_eq!(text(1), text(5));
    let text = |seed| Case::new(seed).gm.graph().to_text();
    assert_eq!(text(3), text(3));
    assert_ne!(text(3), text(4));
}

#[test]
fn a_wrong_pass_is_found_and_the_program_shrunk() {
    let wrong = |gm: &mut fx::GraphModule, cx: &mut fx::Context| {
        for id in gm.graph().find_nodes(OpCode::CallFunction, Some("sub")) {
            let graph = gm.graph_mut();
            let [a @ Arg::Leaf(_), b @ Arg::Leaf(_)] = graph.node(id)?.args() else { continue };
            let (a, b) = (a.clone(), b.clone());
            if a != b && cx.allow(|| "exchange".into()) {
                graph.set_args(id, [b, a])?;
            }
        }
        Ok(())
    };
    let own = Own { name: "wrong".into(), passes: Passes::new().with("wrong", wrong), exact: true };
    let config = Config {
        passes: Vec::new(),
        rules: false,
        engines: Vec::new(),
        compiled: false,
        own: vec![own],
        ..config(100, 200)
    };
    let summary = run(&config, &|_| {}).unwrap();
    let [failure] = &summary.failures[..] else { panic!("{summary}") };
    let graph = Graph::parse(&failure.text, &fx::registry()).unwrap();
    // The difference, and at the most one call that makes it one of two values; inputs stay, for they are the
    // signature.
    let is_call = |op| matches!(op, OpCode::CallFunction | OpCode::CallMethod | OpCode::CallModule);
    let computed = graph.nodes().filter(|(_, node)| is_call(node.opcode())).count();
    assert!(computed <= 2 && failure.text.contains("sub(") && !failure.inputs.is_empty(), "{failure:?}");
}

/// Rules of types that random programs do not ask for name these operations.
#[test]
fn operations_of_steps_exist() {
    let registry = fx::registry();
    for name in
        ["conv1d", "conv2d", "conv_transpose1d", "linear", "batch_norm", "arange", "full", "dropout", "size"]
    {
        assert!(registry.find(name).is_ok(), "{name}");
    }
}
