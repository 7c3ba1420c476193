//! Splitting, partitioning, stages and minimising: whatever is split gives the same bits, effects included.

use fx::nn::{BatchNorm1d, Linear, ReLU};
use fx::prelude::*;
use fx::splitting::partition::{Partitioner, declines_inputs, dtypes, names};
use fx::splitting::pipeline::{Balance, Pipeline};
use fx::splitting::{Cycles, PartSize, Split, Splitter, split_by_size, split_by_tags, split_module};
use fx::testing::Rng;
use fx::{Arg, Generator, GraphModule, OpCode, Value, with_generator};

/// A module with everything that a split must keep: shared and tied parameters, modules that are called
/// twice, one that updates its statistics, a counter, random numbers, checks, tuples, and sizes that depend
/// on data.
#[derive(Module)]
struct Net {
    shared: Linear,
    once: Linear,
    relu: ReLU,
    norm: BatchNorm1d,
    tied: Parameter,
    own: Parameter,
    steps: Buffer,
    offset: Buffer,
    #[module(skip)]
    program: Program,
}

/// The random program: it is data, and no part of the model.
#[derive(Clone)]
struct Program {
    seed: u64,
    size: usize,
}

impl Net {
    /// Makes a model with the same weights each time, whatever other tests draw at the same time.
    fn new(seed: u64, size: usize) -> Self {
        with_generator(&Generator::seeded(7), || Net::drawn(seed, size))
    }

    fn drawn(seed: u64, size: usize) -> Self {
        let mut norm = BatchNorm1d::new(4);
        norm.training = true;
        Net {
            shared: Linear::new(4, 4),
            once: Linear::new(4, 4),
            relu: ReLU,
            norm,
            tied: Parameter::new(fx::randn([4])),
            own: Parameter::new(fx::randn([4])),
            steps: Buffer::new(Tensor::new(0f32)),
            offset: Buffer::new(fx::randn([4])),
            program: Program { seed, size },
        }
    }
}

#[fx::forward]
impl Net {
    fn forward(&self, x: &Tensor, pair: (Tensor, Tensor)) -> (Tensor, Vec<Tensor>) {
        let mut rng = Rng::new(self.program.seed);
        let (mut pool, mut used) = (vec![x.clone(), pair.0, pair.1], [false; 4]);
        for _ in 0..self.program.size {
            let x = rng.pick(&pool[pool.len().saturating_sub(5)..]);
            let y = rng.pick(&pool);
            let z = match rng.below(20) {
                0 => self.shared.call(&x),
                1 if !used[0] => {
                    used[0] = true;
                    self.once.call(&x)
                }
                2 => self.relu.call(&x),
                3 if !used[1] => {
                    used[1] = true;
                    self.norm.call(&x)
                }
                4 => &x * &self.tied,
                5 => &x + &self.own,
                6 => &x + self.steps.get(),
                7 if !used[2] => {
                    used[2] = true;
                    let next = self.steps.get() + x.sum((), false);
                    drop(self.steps.set(&next));
                    &y - next
                }
                8 => &x - self.offset.get(),
                9 => &x + fx::rand([4]),
                10 => fx::dropout(&x, 0.5, true),
                11 => {
                    let parts = x.split(2, 1);
                    fx::cat([&parts[1], &parts[0]], 1)
                }
                12 => {
                    let (values, places) = x.sort(-1, false);
                    values + places
                }
                13 => x.reshape((x.dim(0) * 2, 2)).reshape((-1, 4)),
                14 => {
                    let rows = y.sum([1], false).gt(0.0);
                    let some = x.i(&rows);
                    &x + (&some * 1.5).sum([0], true) + fx::arange(0, some.dim(0), 1).sum((), false)
                }
                15 => fx::check(x.sum((), false).eq(x.sum((), false)), "a sum is itself")
                    .leaves()
                    .first()
                    .map_or(x.clone(), |ok| &x + *ok),
                16 => fx::cond(x.sum((), false).gt(0.0), |x: Tensor| &x * 2.0, |x: Tensor| -x, x.clone()),
                17 => &x * fx::arange(0, x.dim(0), 1).unsqueeze(-1),
                18 => &x - y.tanh(),
                _ => &x + &y,
            };
            pool.push(z);
        }
        let last = pool.len() - 1;
        (pool[last].clone(), vec![rng.pick(&pool), x.clone()])
    }
}

fn net(seed: u64, size: usize) -> Option<GraphModule> {
    let spec = "f32[rows, 4]";
    fx::trace(&Net::new(seed, size)).input("x", spec).input("pair", (spec, spec)).build().ok()
}

fn net_inputs(rows: usize) -> Vec<Value> {
    with_generator(&Generator::seeded(rows as u64), || {
        let tensor = || Arg::Leaf(fx::randn([rows, 4]));
        vec![tensor(), Arg::tuple([tensor(), tensor()])]
    })
}

/// Calls a copy twice; returns both results and the buffers after them.
fn run(gm: &GraphModule, inputs: &[Value]) -> fx::Result<(Vec<Value>, Vec<Tensor>)> {
    let gm = gm.clone();
    let results: fx::Result<Vec<Value>> =
        with_generator(&Generator::seeded(1), || (0..2).map(|_| gm.call_values(inputs)).collect());
    let mut buffers: Vec<(String, Tensor)> =
        fx::module::collect_buffers(&gm).into_iter().map(|(path, buffer)| (path, buffer.get())).collect();
    for (path, _) in &mut buffers {
        *path = path.rsplit('.').next().unwrap_or_default().to_owned();
    }
    buffers.sort_by(|a, b| a.0.cmp(&b.0));
    Ok((results?, buffers.into_iter().map(|(_, tensor)| tensor).collect()))
}

#[track_caller]
fn assert_same(before: &GraphModule, after: &GraphModule, inputs: &[Value], what: &str) {
    let same = |a: &[Tensor], b: &[Tensor]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.bits_eq(b));
    let leaves = |values: &[Value]| -> Vec<Tensor> {
        values.iter().flat_map(|value| value.leaves().into_iter().cloned().collect::<Vec<_>>()).collect()
    };
    match (run(before, inputs), run(after, inputs)) {
        (Ok((a, buffers_a)), Ok((b, buffers_b))) => {
            assert!(a.iter().zip(&b).all(|(a, b)| a.eq_by(b, &|_, _| true)), "{what}: structure");
            assert!(same(&leaves(&a), &leaves(&b)), "{what}: {a:?} is not {b:?}");
            assert!(same(&buffers_a, &buffers_b), "{what}: buffers");
        }
        (Err(a), Err(b)) => assert_eq!(a.kind(), b.kind(), "{what}: {a} is not {b}"),
        (a, b) => panic!("{what}: {a:?} is not {b:?}"),
    }
}

#[track_caller]
fn assert_split(gm: &GraphModule, split: Split, inputs: &[Value], what: &str) {
    assert_eq!(split.module.lint(), [], "{what}:\n{}", split.module.graph());
    for i in 0..split.parts.len() {
        let part = split.part(i).unwrap();
        assert_eq!(part.lint(), [], "{what}, part {i}:\n{}", part.graph());
    }
    assert_same(gm, &split.module, inputs, &format!("{what}:\n{}\nis\n{}", gm.graph(), split.module.graph()));
    let back = split.inline().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(back.lint(), [], "{what}, inlined:\n{}", back.graph());
    assert!(back.graph().find_nodes(OpCode::CallModule, None).iter().all(|id| {
        let node = back.graph().node(*id).unwrap();
        !node.target().to_string().starts_with("submod")
    }));
    assert_same(gm, &back, inputs, &format!("{what}, inlined:\n{}", back.graph()));
}

#[test]
fn random_programs_split_anyhow_give_the_same_bits() {
    let (mut programs, mut parts) = (0, 0);
    for seed in 0..250u64 {
        let Some(gm) = net(seed, 3 + (seed % 25) as usize) else { continue };
        programs += 1;
        let inputs = net_inputs(2 + (seed % 3) as usize);
        let mut rng = Rng::new(seed);
        let n_keys = 1 + rng.below(5);
        let anyhow = Splitter::default()
            .cycles(Cycles::Merge)
            .split(&gm, |_| (!rng.one_in(6)).then(|| rng.below(n_keys)));
        match anyhow {
            Ok(split) => {
                parts += split.parts.len();
                assert_split(&gm, split, &inputs, &format!("seed {seed}, anyhow"));
            }
            // A module with statistics in a part and outside of it cannot be in both.
            Err(error) => assert!(error.message().contains("updates its buffers"), "seed {seed}: {error}"),
        }
        let n = 1 + rng.below(6);
        let sized =
            split_by_size(&gm, PartSize::Nodes(n)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        parts += sized.parts.len();
        assert_split(&gm, sized, &inputs, &format!("seed {seed}, {n} nodes a part"));
    }
    assert!(programs > 200 && parts > 800, "{programs} programs, {parts} parts");
}

#[test]
fn partitions_and_stages_of_random_programs_give_the_same_bits() {
    let (mut partitions, mut stages) = (0, 0);
    for seed in 0..200u64 {
        let Some(gm) = net(seed, 5 + (seed % 30) as usize) else { continue };
        let inputs = net_inputs(3);
        let mut rng = Rng::new(seed);
        let taken: Vec<bool> = (0..gm.graph().len()).map(|_| !rng.one_in(4)).collect();
        let ids = gm.graph().ids();
        let support =
            |_: &GraphModule, at: fx::NodeRef<'_>| taken[ids.iter().position(|id| *id == at.id).unwrap()];
        for partitioner in [Partitioner::default(), Partitioner::default().connected().min_size(1)] {
            match partitioner.partition(&gm, &support) {
                Ok(split) => {
                    partitions += split.parts.len();
                    assert_split(&gm, split, &inputs, &format!("seed {seed}, partitions"));
                }
                Err(error) => {
                    assert!(error.message().contains("updates its buffers"), "seed {seed}: {error}")
                }
            }
        }
        let n = 1 + rng.below(4);
        let sizes = [("rows".to_owned(), 3)].into();
        match Pipeline::new(n).balance(Balance::Nodes).sizes(sizes).cut(&gm) {
            Ok(cut) => {
                stages += cut.split.parts.len();
                assert_split(&gm, cut.split, &inputs, &format!("seed {seed}, stages"));
            }
            Err(error) => {
                let message = error.message();
                let expected =
                    message.contains("expected from 1 to") || message.contains("no size is called");
                assert!(expected, "seed {seed}: {error}");
            }
        }
    }
    assert!(partitions > 300 && stages > 200, "{partitions} partitions, {stages} stages");
}

fn parse(text: &str) -> GraphModule {
    GraphModule::new("main", fx::parse(text).unwrap())
}

const DIAMOND: &str = "graph main(%x: f32[n, 2]) -> f32[n, 2] {
  %a: f32[n, 2] = relu(%x)
  %b: f32[n, 2] = exp(%a)
  %c: f32[n, 2] = relu(%b)
  %d: f32[n, 2] = add(%a, %c)
  return %d
}
";

#[test]
fn parts_that_need_each_other_are_refused_with_their_nodes_or_merged() {
    let gm = parse(DIAMOND);
    let key = |at: fx::NodeRef<'_>| if at.node.name() == "b" { "slow" } else { "fast" };
    let error = split_module(&gm, key).unwrap_err();
    assert_eq!(
        error.message(),
        "the parts need each other: %a of fast is used by %b of slow, %b of slow is used by %c of fast"
    );
    let merged = Splitter::default().cycles(Cycles::Merge).split(&gm, key).unwrap();
    assert_eq!(merged.parts.len(), 1);
    // The order of effects alone can tie parts together, too.
    let gm = parse(
        "graph main(%x: f32[2]) {\n  %a = rand([2])\n  %b = rand([2])\n  %c = rand([2])\n  return (%a, %b, %c)\n}\n",
    );
    let error = split_module(&gm, |at| at.node.name() == "b").unwrap_err();
    assert_eq!(
        error.message(),
        "the parts need each other: %a of false must run before %b of true, %b of true must run before %c of false"
    );
}

#[test]
fn the_outer_graph_reads_as_it_should() {
    let split = split_module(&parse(DIAMOND), |at| if at.node.name() < "c" { 0 } else { 1 }).unwrap();
    let expected = "graph main(%x: f32[n, 2]) -> f32[n, 2] {
  %submod_0: (f32[n, 2], f32[n, 2]) = self.submod_0(%x)
  %a: f32[n, 2] = getitem(%submod_0, 0)
  %b: f32[n, 2] = getitem(%submod_0, 1)
  %submod_1: f32[n, 2] = self.submod_1(%b, %a)
  return %submod_1
}
";
    assert_eq!(split.module.graph().to_string(), expected);
    assert_eq!(
        split.part(1).unwrap().graph().to_string(),
        "graph main(%b: f32[n, 2], %a: f32[n, 2]) -> f32[n, 2] {
  %c: f32[n, 2] = relu(%b)
  %d: f32[n, 2] = add(%a, %c)
  return %d
}
"
    );
}

#[test]
fn tags_make_parts_and_untagged_nodes_are_named() {
    let mut gm = parse(DIAMOND);
    let ids = gm.graph().ids();
    for id in &ids[1..3] {
        gm.graph_mut().meta_mut(*id).unwrap().add_tag("left");
    }
    let error = split_by_tags(&gm, &["left", "right"]).unwrap_err();
    assert_eq!(error.message(), "%c and 1 more has none of the tags left, right");
    for id in &ids[3..5] {
        gm.graph_mut().meta_mut(*id).unwrap().add_tag("right");
    }
    let split = split_by_tags(&gm, &["left", "right"]).unwrap();
    let paths: Vec<&str> = split.parts.iter().map(|part| &*part.path).collect();
    assert_eq!(paths, ["submod_left", "submod_right"]);
}

#[test]
fn attributes_move_to_their_only_reader_and_shared_ones_stay_one() {
    #[derive(Module)]
    struct Tied {
        embedding: Parameter,
        own: Parameter,
    }
    #[fx::forward]
    impl Tied {
        fn forward(&self, x: &Tensor) -> Tensor {
            (x.matmul(&self.embedding) * &self.own).relu().matmul(self.embedding.transpose(0, 1))
        }
    }
    let tied = Tied { embedding: Parameter::new(fx::randn([4, 3])), own: Parameter::new(fx::randn([3])) };
    let gm = fx::trace(&tied).input("x", "f32[n, 4]").build().unwrap();
    let mut after = false;
    let mut split = split_module(&gm, |at| {
        after |= at.node.name() == "relu";
        usize::from(after)
    })
    .unwrap();
    let paths: Vec<String> =
        fx::module::collect_parameters(&split.module).into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["embedding", "submod_0.own"]);
    // 48 bytes, then 12, then the 48 again: no two fit into 20.
    assert_eq!(split_by_size(&gm, PartSize::ParameterBytes(20)).unwrap().parts.len(), 3);
    // A new value for the shared one changes both ends.
    let new = fx::randn([4, 3]);
    split.module.set_attribute("embedding", fx::Attribute::Parameter(Parameter::new(new.clone()))).unwrap();
    let changed = Tied { embedding: Parameter::new(new), own: tied.own.clone() };
    let x = fx::randn([2, 4]);
    assert!(split.module.call(std::slice::from_ref(&x)).unwrap().bits_eq(&changed.forward(&x)));
}

#[test]
fn a_failed_call_leaves_all_buffers_as_they_were() {
    #[derive(Module)]
    struct Counter {
        steps: Buffer,
    }
    #[fx::forward]
    impl Counter {
        fn forward(&self, x: &Tensor) -> Tensor {
            let next = self.steps.get() + 1.0;
            drop(self.steps.set(&next));
            drop(fx::check(x.sum((), false).gt(0.0), "not positive"));
            x * next
        }
    }
    let model = Counter { steps: Buffer::new(Tensor::new(0f32)) };
    let gm = fx::trace(&model).input("x", "f32[2]").build().unwrap();
    let split = split_by_size(&gm, PartSize::Nodes(1)).unwrap().module;
    let call = |x: [f32; 2]| split.call(&[Tensor::new(x)]);
    assert!(call([-1.0, -1.0]).is_err());
    assert_eq!(call([1.0, 1.0]).unwrap().to_vec::<f32>().unwrap(), [1.0, 1.0]);
    assert_eq!(call([1.0, 1.0]).unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
}

#[test]
fn supports_combine_and_the_fewest_partitions_are_found() {
    let gm = parse(
        "graph main(%x: f32[2], %k: i64[2]) {
  %a: f32[2] = relu(%x)
  %b: i64[2] = relu(%k)
  %u: f32[2] = exp(%a)
  %c: f32[2] = relu(%u)
  %d: f32[2] = neg(%c)
  %e: f32[2] = neg(%x)
  return (%b, %d, %e)
}
",
    );
    let names_of = |proposal: &fx::splitting::partition::Proposal| -> Vec<Vec<String>> {
        let name = |id: &fx::NodeId| gm.graph().node(*id).unwrap().name().to_owned();
        proposal.partitions.iter().map(|partition| partition.nodes.iter().map(name).collect()).collect()
    };
    use fx::splitting::partition::OperatorSupport;
    let both = names(["relu", "neg"]).and(dtypes([DType::F32]));
    let proposal = Partitioner::default().min_size(1).propose(&gm, &both);
    assert_eq!(names_of(&proposal), [vec!["a", "e"], vec!["c", "d"]]);
    let connected = Partitioner::default().connected().propose(&gm, &both);
    assert_eq!(names_of(&connected), [vec!["c", "d"]]);
    assert_eq!(
        connected.to_string(),
        "2 of 6 nodes in 1 partitions\n  0: 2 nodes, 2 compute\ntoo small: 2 nodes in 2 places\n\
         not supported: exp x 1, relu x 1\n"
    );
    let keep = Partitioner::default().connected().keep(["relu"]).propose(&gm, &both);
    assert_eq!(names_of(&keep), [vec!["a"], vec!["c", "d"]]);
    let declined = names(["relu"]).and(declines_inputs([DType::I64])).or(names(["exp"]));
    let all = Partitioner::default().min_size(1).propose(&gm, &declined);
    assert_eq!(names_of(&all), [["a", "u", "c"]]);
}

#[test]
fn stages_are_balanced_and_cut_where_few_bytes_cross() {
    // The middle is narrow, and lies a little off the balance.
    let text = "graph main(%x: f32[64, 64]) {
  %a: f32[64, 64] = relu(%x)
  %b: f32[64, 64] = exp(%a)
  %c: f32[64] = sum(%b, dim=[1])
  %d: f32[64, 64] = mul(%b, 2)
  %e: f32[64] = sum(%d, dim=[1])
  %f: f32[64] = add(%c, %e)
  %g: f32[64, 64] = expand(%f, [64, 64])
  %h: f32[64, 64] = relu(%g)
  %i: f32[64, 64] = exp(%h)
  %j: f32[64, 64] = neg(%i)
  return %j
}
";
    let gm = parse(text);
    let cut = Pipeline::new(2).slack(0.5).cut(&gm).unwrap();
    assert_eq!(cut.crossing, [256.0]);
    assert_eq!(cut.split.parts[1].nodes.first().map(|name| &**name), Some("g"));
    let tight = Pipeline::new(2).slack(0.0).cut(&gm).unwrap();
    let worst = |costs: &[f64]| costs.iter().copied().fold(0.0, f64::max);
    assert!(worst(&tight.costs) <= worst(&cut.costs) && tight.crossing[0] >= cut.crossing[0]);
    let error = Pipeline::new(99).cut(&gm).unwrap_err();
    assert!(error.message().contains("expected from 1 to 10 stages"), "{error}");
}

#[test]
fn a_wrong_runner_is_narrowed_to_the_node_and_written_down() {
    let gm = net_without_effects();
    // A runner whose `tanh` is a little off, unless its operand is a sum of two others.
    let wrong = |gm: &GraphModule, inputs: &[Value]| {
        let mut eval = gm.eval();
        for (_, node) in gm.graph().nodes() {
            if node.op().is_some_and(|op| op.name == "tanh") {
                eval = eval.replace(node.name(), |_, value| {
                    let tensor: Tensor = value.try_into()?;
                    Ok((tensor * 1.01).into())
                });
            }
        }
        eval.run(inputs).map(|run| run.output)
    };
    let inputs = vec![Value::from(with_generator(&Generator::seeded(3), || fx::randn([3, 4])))];
    let culprit = fx::splitting::minimize::minimize(&gm, &inputs, &wrong).unwrap().unwrap();
    assert_eq!(culprit.nodes, ["tanh"]);
    assert_eq!(
        culprit.module.graph().to_string(),
        "graph main(%linear: f32[3, 4]) -> f32[3, 4] {\n  %tanh: f32[3, 4] = %linear.tanh()\n  return %tanh\n}\n"
    );
    assert!(culprit.runs < 20, "{}", culprit.runs);
    let right = |gm: &GraphModule, inputs: &[Value]| gm.call_values(inputs);
    assert!(fx::splitting::minimize::minimize(&gm, &inputs, &right).unwrap().is_none());
}

#[test]
fn what_differs_only_together_is_cut_out_together_and_runs_again_from_its_files() {
    let gm = net_without_effects();
    // Only a product of a `relu` is wrong, as a faulty fusion would be.
    let wrong = |gm: &GraphModule, inputs: &[Value]| {
        let value = gm.call_values(inputs)?;
        let name = |id: fx::NodeId| gm.graph().node(id).ok().and_then(|node| node.op()).map(|op| op.name);
        let fused = gm.graph().nodes().any(|(id, node)| {
            name(id) == Some("mul") && node.inputs().any(|input| name(input) == Some("relu"))
        });
        if fused { value.try_flat_map(&mut |tensor| Ok(Arg::Leaf(tensor + 1.0))) } else { Ok(value) }
    };
    let inputs = vec![Value::from(with_generator(&Generator::seeded(3), || fx::randn([3, 4])))];
    let culprit = fx::splitting::minimize::minimize(&gm, &inputs, &wrong).unwrap().unwrap();
    assert_eq!(culprit.nodes, ["relu", "mul"]);
    let dir = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("culprit");
    std::fs::create_dir_all(&dir).unwrap();
    let files = fx::reproduce::write(&culprit, &dir.join("fused")).unwrap();
    assert_eq!(files.len(), 3, "{files:?}");
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_fx"))
        .args(["run".as_ref(), files[0].as_os_str(), "--io".as_ref(), files[1].as_os_str()])
        .args(["--weights".as_ref(), files[2].as_os_str()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && text.starts_with("set 0: agrees"), "{text} {ran:?}");
}

fn net_without_effects() -> GraphModule {
    #[derive(Module)]
    struct Plain {
        fc: Linear,
        scale: Parameter,
    }
    #[fx::forward]
    impl Plain {
        fn forward(&self, x: &Tensor) -> Tensor {
            let h = fx::linear(x + x, self.fc.weight.tensor(), ()).tanh();
            let y = (&h + x.dim(0)).relu() * &self.scale;
            (y - 1.0).exp().sum([1], false)
        }
    }
    let model = with_generator(&Generator::seeded(5), || Plain {
        fc: Linear::new(4, 4),
        scale: Parameter::new(fx::randn([4])),
    });
    fx::trace(&model).input("x", "f32[n, 4]").build().unwrap()
}
