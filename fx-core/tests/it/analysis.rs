//! The analyses against their definitions, on random graphs.

use fx_core::analysis::{BitSet, Dominators, Flow, Liveness, Reach};
use fx_core::testing::random_graph;
use fx_core::{Graph, NodeId};

/// Returns whether a path leads from one of `starts` to `goal` without the node `without`.
fn path(flow: &Flow, starts: &[usize], goal: usize, without: usize) -> bool {
    let mut seen = BitSet::new(flow.len());
    let mut stack: Vec<usize> = starts.iter().copied().filter(|start| *start != without).collect();
    while let Some(i) = stack.pop() {
        if seen.insert(i) {
            stack.extend(flow.users(i).iter().map(|user| *user as usize).filter(|user| *user != without));
        }
    }
    seen.contains(goal)
}

fn graphs() -> impl Iterator<Item = Graph> {
    (0..60).map(|seed| random_graph(seed, 3 + seed as usize % 25))
}

#[test]
fn dominators_are_on_every_path() {
    for graph in graphs() {
        let flow = Flow::new(&graph);
        let (before, after) = (Dominators::new(&flow), Dominators::post(&flow));
        let sources: Vec<usize> = (0..flow.len()).filter(|i| flow.inputs(*i).is_empty()).collect();
        for a in 0..flow.len() {
            for b in 0..flow.len() {
                let dominates =
                    a == b || path(&flow, &sources, b, usize::MAX) && !path(&flow, &sources, b, a);
                assert_eq!(before.dominates(flow.id(a), flow.id(b)), dominates, "{graph}\n{a} {b}");
                let ends = (0..flow.len()).filter(|i| flow.users(*i).is_empty());
                let gets_out = ends.clone().any(|end| end != a && path(&flow, &[b], end, a));
                let dominates = a == b || !gets_out;
                assert_eq!(after.dominates(flow.id(a), flow.id(b)), dominates, "{graph}\npost {a} {b}");
            }
            let chain = before.chain(flow.id(a));
            assert!(chain.iter().all(|id| before.dominates(*id, flow.id(a))));
            assert_eq!(chain.first().copied(), before.immediate(flow.id(a)));
        }
    }
}

#[test]
fn reachability_convexity_and_liveness_are_what_they_say() {
    for graph in graphs() {
        let flow = Flow::new(&graph);
        let n = flow.len();
        let sources: Vec<usize> = (0..n).step_by(2).collect();
        let reach = Reach::from(&flow, &sources);
        for (bit, source) in sources.iter().enumerate() {
            let below = flow.descendants(&BitSet::of(n, [*source]));
            for i in 0..n {
                assert_eq!(reach.reaches(bit, i), path(&flow, &[*source], i, usize::MAX));
                assert_eq!(below.contains(i), reach.reaches(bit, i));
                assert_eq!(flow.ancestors(&BitSet::of(n, [i])).contains(*source), reach.reaches(bit, i));
                // Two nodes are convex if nothing lies between them.
                let (low, high) = (i.min(*source), i.max(*source));
                let after = |a: usize, b: usize| a != b && path(&flow, &[a], b, usize::MAX);
                let between = (0..n).any(|j| after(low, j) && after(j, high));
                assert_eq!(flow.is_convex(&BitSet::of(n, [low, high])), !between);
            }
        }
        let live = Liveness::new(&graph);
        for (at, (id, node)) in graph.nodes().enumerate() {
            let users = graph.users(id).unwrap();
            assert_eq!(live.last_use(id), Some(users.last().copied().unwrap_or(id)));
            let expected: Vec<NodeId> = flow.ids()[..at]
                .iter()
                .copied()
                .filter(|value| {
                    graph.users(*value).unwrap().iter().any(|user| flow.position(*user) >= Some(at))
                })
                .collect();
            assert_eq!(live.live_before(id), expected, "{graph}\n%{}", node.name());
            let sums = live.live_sums(|_| 1.0);
            assert_eq!(sums[at], expected.len() as f64);
        }
    }
}

#[test]
fn sets_count_and_list_their_numbers() {
    let set = BitSet::of(200, [3, 64, 65, 199, 3]);
    assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 65, 199]);
    assert_eq!((set.len(), set.is_empty(), set.contains(4), set.contains(500)), (4, false, false, false));
}
