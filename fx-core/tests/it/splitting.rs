//! Splits of random graphs over the operations of the core: no cycle, valid parts, the same bits.

use fx_core::analysis::{BitSet, Flow};
use fx_core::interp::NodeRef;
use fx_core::splitting::partition::Partitioner;
use fx_core::splitting::pipeline::{Balance, Pipeline};
use fx_core::splitting::{Cycles, PartSize, Split, Splitter, split_by_size};
use fx_core::testing::{Rng, random_graph};
use fx_core::{GraphModule, Value};

fn modules(count: u64) -> impl Iterator<Item = (u64, GraphModule, Vec<Value>)> {
    (0..count).filter_map(|seed| {
        let gm = GraphModule::new("random", random_graph(seed, 4 + (seed % 40) as usize));
        let inputs = fx_core::pass::sample_inputs(&gm, seed).ok()?;
        gm.call_values(&inputs).is_ok().then_some((seed, gm, inputs))
    })
}

#[track_caller]
fn assert_same(gm: &GraphModule, split: Split, inputs: &[Value], what: &str) {
    let text = format!("{what}:\n{}\nis\n{}", gm.graph(), split.module.graph());
    let same = |a: &Value, b: &Value| a.eq_by(b, &|a, b| a.bits_eq(b));
    assert_eq!(split.module.lint(), [], "{text}");
    (0..split.parts.len()).for_each(|i| assert_eq!(split.part(i).unwrap().lint(), [], "{text}"));
    let expected = gm.call_values(inputs).unwrap();
    let got = split.module.call_values(inputs).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert!(same(&expected, &got), "{text}");
    let back = split.inline().unwrap();
    assert_eq!(back.lint(), [], "{text}\n{}", back.graph());
    assert!(same(&expected, &back.call_values(inputs).unwrap()), "{text}\n{}", back.graph());
}

#[test]
fn any_parts_give_the_same_bits() {
    let mut parts = 0;
    for (seed, gm, inputs) in modules(300) {
        let mut rng = Rng::new(seed);
        let n = 1 + rng.below(5);
        let splitter = Splitter::default().cycles(Cycles::Merge);
        let split = splitter.split(&gm, |_| (!rng.one_in(5)).then(|| rng.below(n))).unwrap();
        parts += split.parts.len();
        assert_same(&gm, split, &inputs, &format!("seed {seed}, any parts"));
        let sized = split_by_size(&gm, PartSize::Nodes(n)).unwrap();
        assert_same(&gm, sized, &inputs, &format!("seed {seed}, {n} nodes a part"));
    }
    assert!(parts > 300, "{parts}");
}

#[test]
fn partitions_have_no_cycle_and_are_the_fewest() {
    let mut partitions = 0;
    for (seed, gm, inputs) in modules(300) {
        let (mut rng, flow) = (Rng::new(seed), Flow::new(gm.graph()));
        let taken: Vec<bool> = (0..flow.len()).map(|_| !rng.one_in(3)).collect();
        let support = |_: &GraphModule, at: NodeRef<'_>| taken[flow.position(at.id).unwrap()];
        for partitioner in
            [Partitioner::default().min_size(1), Partitioner::default().min_size(1).connected()]
        {
            let proposal = partitioner.propose(&gm, &support);
            partitions += proposal.partitions.len();
            let sets: Vec<BitSet> = proposal
                .partitions
                .iter()
                .map(|partition| {
                    BitSet::of(flow.len(), partition.nodes.iter().map(|id| flow.position(*id).unwrap()))
                })
                .collect();
            assert!(sets.iter().all(|set| flow.is_convex(set)), "seed {seed}\n{}", gm.graph());
            assert_same(&gm, partitioner.fuse(&gm, &proposal).unwrap(), &inputs, &format!("seed {seed}"));
        }
        // No two partitions of the whole proposal could be one.
        let all = Partitioner::default().min_size(1).propose(&gm, &support).partitions;
        for (i, a) in all.iter().enumerate() {
            for b in &all[..i] {
                let both = a.nodes.iter().chain(&b.nodes).map(|id| flow.position(*id).unwrap());
                assert!(
                    !flow.is_convex(&BitSet::of(flow.len(), both)),
                    "seed {seed}: {a:?} {b:?}\n{}",
                    gm.graph()
                );
            }
        }
    }
    assert!(partitions > 400, "{partitions}");
}

#[test]
fn stages_cover_the_program_in_order() {
    for (seed, gm, inputs) in modules(100) {
        let n = 1 + (seed % 4) as usize;
        let Ok(cut) = Pipeline::new(n).balance(Balance::Nodes).cut(&gm) else { continue };
        assert_eq!((cut.costs.len(), cut.crossing.len()), (n, n - 1));
        assert_same(&gm, cut.split, &inputs, &format!("seed {seed}, {n} stages"));
    }
}
