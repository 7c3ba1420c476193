//! Tests of surgery at sizes where a quadratic step would show, and of transactions in which another graph takes
//! the place of the edited one.

use fx_core::__test::journal_weight;
use fx_core::NodeId;
use fx_core::Result;
use fx_core::graph::*;
use fx_core::{Arg, OpCode, bail};
use fx_core::{ErrorKind, ops};
use proptest::prelude::*;

/// A graph of `n` nodes that one list uses, each at `repeats` places.
fn wide(n: usize, repeats: usize) -> (Graph, NodeId, Vec<NodeId>, NodeId) {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let parts: Vec<NodeId> = (0..n).map(|_| graph.call_function(ops::neg::OP, [x.into()]).unwrap()).collect();
    let places: Vec<Arg> = parts.iter().flat_map(|id| std::iter::repeat_n(Arg::Leaf(*id), repeats)).collect();
    let list = graph.call_function(ops::add::OP, [Arg::list(places), Arg::Int(1)]).unwrap();
    graph.set_output(list).unwrap();
    (graph, x, parts, list)
}

fn assert_sound(graph: &Graph) {
    use fx_core::ViolationKind::{Name, Order, Signature, Structure};
    let broken = graph.lint().into_iter().find(|it| matches!(it.kind, Name | Order | Signature | Structure));
    assert_eq!(broken, None);
}

#[test]
fn uses_in_one_list_are_replaced_with_linear_time_and_memory() {
    const N: usize = 100_000;
    for merges in [true, false] {
        let (mut graph, x, parts, list) = wide(N, 2);
        let before = graph.clone();
        let edit = |graph: &mut Graph| -> Result<()> {
            for id in &parts {
                if merges {
                    graph.replace_all_uses(*id, x)?;
                } else {
                    let new = graph.inserting_before(*id, |graph| graph.get_attr("w"))??;
                    graph.replace_all_uses(*id, new)?;
                }
                graph.erase(*id)?;
            }
            Ok(())
        };
        let failed: Result<()> = graph.transaction(|graph| {
            edit(graph)?;
            assert!(journal_weight(graph) <= 12 * N, "{}", journal_weight(graph));
            bail!(Check, "on purpose")
        });
        assert!(failed.is_err() && graph == before);
        assert_sound(&graph);
        edit(&mut graph).unwrap();
        assert_sound(&graph);
        assert_eq!(graph.node(list).unwrap().inputs().len(), if merges { 1 } else { N });
        assert_eq!(graph.find_nodes(OpCode::GetAttr, Some("w")).len(), if merges { 0 } else { N });
    }
}

#[test]
fn literals_take_the_place_of_uses_in_one_list() {
    const N: usize = 100_000;
    let (mut graph, _, parts, list) = wide(N, 1);
    for (i, id) in parts.iter().enumerate() {
        graph.replace_all_uses(*id, Arg::Int(i as i64)).unwrap();
    }
    assert_sound(&graph);
    assert_eq!(graph.node(list).unwrap().inputs().len(), 0);
    assert_eq!(graph.node(list).unwrap().args()[0], Arg::ints(0..N as i64));
    assert_eq!(graph.eliminate_dead_code(|_| false), N);
}

#[test]
fn users_of_what_a_list_uses_are_erased_in_linear_time() {
    const N: usize = 100_000;
    let (mut graph, _, parts, list) = wide(N, 1);
    let dead: Vec<NodeId> = graph
        .inserting_before(list, |graph| {
            parts.iter().map(|id| graph.call_function(ops::neg::OP, [(*id).into()]).unwrap()).collect()
        })
        .unwrap();
    for id in dead {
        graph.erase(id).unwrap();
    }
    assert_sound(&graph);
}

#[test]
fn readers_of_one_attribute_are_merged_in_linear_time() {
    const N: usize = 100_000;
    let mut graph = Graph::new("main");
    let reads: Vec<NodeId> = (0..N).map(|_| graph.get_attr("w").unwrap()).collect();
    for id in &reads[1..] {
        graph.erase(*id).unwrap();
    }
    assert_eq!(graph.find_nodes(OpCode::GetAttr, Some("w")), [reads[0]]);
}

#[test]
fn facts_and_arguments_are_kept_once_in_the_journal() {
    let mut graph = Graph::new("main");
    let failed: Result<()> = graph.transaction(|graph| {
        for i in 0..2_000 {
            graph.placeholder(&format!("x{i}"))?;
        }
        let x = graph.placeholders()[0];
        for i in 0..2_000 {
            graph.meta_mut(x)?.add_tag(format!("tag{i}"));
        }
        assert!(journal_weight(graph) <= 3 * 2_000 + 1, "{}", journal_weight(graph));
        // An edit that fails inside keeps what was before it.
        let inner: Result<()> = graph.transaction(|graph| {
            graph.meta_mut(x)?.add_tag("inner");
            bail!(Check, "on purpose")
        });
        assert!(inner.is_err());
        assert_eq!(graph.node(x)?.meta().tags().len(), 2_000);
        bail!(Check, "on purpose")
    });
    assert!(failed.is_err());
    assert!(graph.inputs().is_empty() && graph.is_empty());
    assert_sound(&graph);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Exchanging inputs in place gives the arguments and edges that writing all arguments anew gives, and failed
    /// transactions around it change nothing.
    #[test]
    fn inputs_are_exchanged_as_if_written_anew(
        (n, repeats) in (1usize..40, 1usize..3),
        script in proptest::collection::vec((0usize..60, 0usize..80, any::<bool>(), any::<bool>()), 1..60),
    ) {
        let (mut graph, x, parts, list) = wide(n, repeats);
        let news: Vec<NodeId> = graph
            .inserting_before(list, |graph| (0..20).map(|_| graph.get_attr("w").unwrap()).collect())
            .unwrap();
        let mut all = parts.clone();
        all.extend(news);
        all.push(x);
        for (old, new, fails, nested) in script {
            let old = all[old % all.len()];
            let new = match new {
                0..60 => Arg::Leaf(all[new % all.len()]),
                60..70 => Arg::Int(new as i64),
                _ => Arg::list([Arg::Leaf(x), Arg::Leaf(all[new % all.len()])]),
            };
            let mut expected = graph.clone();
            let replace = |arg: &Arg| arg.try_flat_map(&mut |id| {
                Ok(if *id == old { new.clone() } else { Arg::Leaf(*id) })
            });
            let args: Vec<Arg> =
                graph.node(list).unwrap().args().iter().map(|arg| replace(arg).unwrap()).collect();
            if expected.set_args(list, args).is_err() {
                continue;
            }
            let before = graph.clone();
            let result: Result<()> = graph.transaction(|graph| {
                let made = graph.inserting_before(list, |graph| graph.get_attr("v"))??;
                if nested {
                    graph.transaction(|graph| graph.replace_input(list, old, new.clone()))?;
                } else {
                    graph.replace_input(list, old, new.clone())?;
                }
                assert_sound(graph);
                if fails {
                    graph.replace_input(list, x, made)?;
                    bail!(Check, "on purpose")
                }
                graph.erase(made)
            });
            prop_assert_eq!(result.is_err(), fails);
            let expected = if fails { before } else { expected };
            prop_assert!(graph == expected);
            assert_sound(&graph);
        }
    }
}

/// A graph that differs from those of [`wide`] in its signature.
fn other() -> Graph {
    let mut graph = Graph::new("other");
    let a = graph.placeholder("a").unwrap();
    let b = graph.placeholder("b").unwrap();
    let sum = graph.call_function(ops::add::OP, [a.into(), b.into()]).unwrap();
    graph.set_output(sum).unwrap();
    graph
}

#[test]
fn another_graph_in_place_is_kept_or_undone_by_transactions() {
    type Place = fn(&mut Graph);
    let places: [Place; 4] = [
        |graph| *graph = other(),
        |graph| drop(std::mem::replace(graph, other())),
        |graph| {
            let mut other = other();
            std::mem::swap(graph, &mut other);
            other.placeholder("late").unwrap();
        },
        |graph| {
            let taken = std::mem::take(graph);
            *graph = other();
            drop(taken);
        },
    ];
    for place in places {
        let (original, x, ..) = wide(3, 1);
        let edit = |graph: &mut Graph| -> Result<()> {
            graph.placeholder("y")?;
            graph.call_function(ops::neg::OP, [x.into()])?;
            place(graph);
            graph.placeholder("c")?;
            graph.get_attr("w")?;
            assert_sound(graph);
            Ok(())
        };
        let failing = |graph: &mut Graph| -> Result<()> {
            edit(graph)?;
            bail!(Check, "on purpose")
        };
        let mut graph = original.clone();
        graph.transaction(edit).unwrap();
        assert_eq!(graph.inputs().len(), 3);
        assert_sound(&graph);

        let mut graph = original.clone();
        assert_eq!(graph.transaction(failing).unwrap_err().kind(), ErrorKind::Check);
        assert!(graph == original && graph.cursor() == original.cursor());
        assert_sound(&graph);

        // Inside of another transaction, before and after other edits.
        for (inner_fails, outer_fails) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut graph = original.clone();
            let result: Result<()> = graph.transaction(|graph| {
                graph.get_attr("first")?;
                let result =
                    graph.transaction(|graph| if inner_fails { failing(graph) } else { edit(graph) });
                assert_eq!(result.is_err(), inner_fails);
                graph.get_attr("last")?;
                if outer_fails { bail!(Check, "on purpose") } else { Ok(()) }
            });
            assert_eq!(result.is_err(), outer_fails);
            assert_sound(&graph);
            if outer_fails {
                assert!(graph == original);
            } else {
                assert_eq!(graph.inputs().len(), if inner_fails { 1 } else { 3 });
                assert_eq!(graph.find_nodes(OpCode::GetAttr, Some("first")).is_empty(), !inner_fails);
            }
            let again: Result<()> = graph.transaction(|graph| {
                graph.get_attr("again")?;
                bail!(Check, "on purpose")
            });
            assert!(again.is_err() && graph.find_nodes(OpCode::GetAttr, Some("again")).is_empty());
        }

        let mut graph = original.clone();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = graph.transaction(|graph| -> Result<()> {
                edit(graph)?;
                std::panic::panic_any("on purpose")
            });
        }));
        assert!(panicked.is_err() && graph == original);
    }
}

#[test]
fn a_graph_that_is_moved_out_of_its_transaction_is_an_error() {
    let (original, ..) = wide(3, 1);
    let mut graph = original.clone();
    let mut outside = other();
    let result: Result<()> = graph.transaction(|graph| {
        graph.get_attr("w")?;
        std::mem::swap(graph, &mut outside);
        bail!(Check, "on purpose")
    });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Graph);
    assert_eq!((graph.inputs().len(), outside.inputs().len()), (2, 1));
    for graph in [&mut graph, &mut outside] {
        assert_sound(graph);
        let before = graph.clone();
        let failed: Result<()> = graph.transaction(|graph| {
            graph.get_attr("v")?;
            bail!(Check, "on purpose")
        });
        assert!(failed.is_err() && *graph == before);
    }
    // Two graphs change places, each in a transaction of its own.
    let result: Result<()> = graph.transaction(|graph| {
        outside.transaction(|outside| {
            std::mem::swap(graph, outside);
            bail!(Check, "on purpose")
        })
    });
    assert!(result.is_err());
    assert_sound(&graph);
    assert_sound(&outside);
}
