//! Laws of graphs: random edit scripts against a naive model, and sizes at which recursion or a quadratic
//! step would show.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use expect_test::expect;
use fx_core::NodeId;
use fx_core::Result;
use fx_core::graph::*;
use fx_core::{Arg, OpCode, Target, err};
use fx_core::{DType, Dim, ErrorKind, MAX_DEPTH, Symbol, TensorType, TypeTree, ops};
use proptest::prelude::*;

/// One edit; numbers choose among what there is.
#[derive(Debug, Clone)]
enum Edit {
    Create { args: [usize; 2], nested: bool },
    Placeholder(u8),
    Erase(usize),
    Rename(usize, u8),
    RenameAll(usize),
    MoveBefore(usize, usize),
    MoveAfter(usize, usize),
    SetArgs(usize, [usize; 2]),
    SetOutput(usize),
    ReplaceAllUses(usize, usize),
    InsertingBefore(usize, Vec<Edit>),
    InsertingAfter(usize, Vec<Edit>),
    Transaction(Vec<Edit>, bool),
    CopyNode(usize),
    Inline(usize),
    Stale(usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let n = || 0usize..64;
    let leaf = prop_oneof![
        6 => (n(), n(), any::<bool>()).prop_map(|(a, b, nested)| Edit::Create { args: [a, b], nested }),
        1 => (0u8..4).prop_map(Edit::Placeholder),
        3 => n().prop_map(Edit::Erase),
        2 => (n(), 0u8..6).prop_map(|(i, name)| Edit::Rename(i, name)),
        1 => (1usize..4).prop_map(Edit::RenameAll),
        2 => (n(), n()).prop_map(|(a, b)| Edit::MoveBefore(a, b)),
        2 => (n(), n()).prop_map(|(a, b)| Edit::MoveAfter(a, b)),
        3 => (n(), n(), n()).prop_map(|(i, a, b)| Edit::SetArgs(i, [a, b])),
        1 => n().prop_map(Edit::SetOutput),
        2 => (n(), n()).prop_map(|(a, b)| Edit::ReplaceAllUses(a, b)),
        1 => n().prop_map(Edit::CopyNode),
        1 => n().prop_map(Edit::Inline),
        1 => n().prop_map(Edit::Stale),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        let several = || proptest::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            (n(), several()).prop_map(|(i, edits)| Edit::InsertingBefore(i, edits)),
            (n(), several()).prop_map(|(i, edits)| Edit::InsertingAfter(i, edits)),
            (several(), any::<bool>()).prop_map(|(edits, fails)| Edit::Transaction(edits, fails)),
        ]
    })
}

/// A node of the model, in program order.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    id: NodeId,
    name: String,
    opcode: OpCode,
    args: Vec<NodeId>,
}

#[derive(Debug, Clone, PartialEq)]
struct Model {
    rows: Vec<Row>,
    cursor: NodeId,
}

impl Model {
    fn at(&self, id: NodeId) -> usize {
        self.rows.iter().position(|row| row.id == id).expect("the model has every node")
    }

    fn pick(&self, n: usize) -> NodeId {
        self.rows[n % self.rows.len()].id
    }

    fn opcode(&self, id: NodeId) -> OpCode {
        self.rows[self.at(id)].opcode
    }

    fn users(&self, id: NodeId) -> Vec<NodeId> {
        self.rows.iter().filter(|row| row.args.contains(&id)).map(|row| row.id).collect()
    }

    /// Whether these nodes may be used by something at this position.
    fn can_use(&self, args: &[NodeId], position: usize) -> bool {
        args.iter().all(|&arg| self.at(arg) < position && self.opcode(arg) != OpCode::Output)
    }

    fn insert(&mut self, graph: &Graph, id: NodeId, args: Vec<NodeId>) {
        let node = graph.node(id).unwrap();
        let at = match node.opcode() {
            OpCode::Placeholder => {
                self.rows.iter().take_while(|row| row.opcode == OpCode::Placeholder).count()
            }
            _ => self.at(self.cursor),
        };
        self.rows.insert(at, Row { id, name: node.name().into(), opcode: node.opcode(), args });
    }

    fn remove(&mut self, id: NodeId) -> Row {
        let at = self.at(id);
        if self.cursor == id {
            self.cursor = self.rows[at + 1].id;
        }
        self.rows.remove(at)
    }

    /// Checks the graph against the model in every respect.
    fn check(&self, graph: &Graph) {
        assert_eq!(graph.lint(), []);
        assert_eq!(graph.len(), self.rows.len());
        assert_eq!(graph.cursor(), self.cursor);
        for ((id, node), row) in graph.nodes().zip(&self.rows) {
            assert_eq!((id, node.name(), node.opcode()), (row.id, &*row.name, row.opcode));
            let mut distinct = Vec::new();
            row.args.iter().for_each(|arg| {
                if !distinct.contains(arg) {
                    distinct.push(*arg)
                }
            });
            assert_eq!(node.inputs().collect::<Vec<_>>(), distinct);
            assert_eq!(graph.users(id).unwrap(), self.users(id));
            assert_eq!(graph.find(node.name()), Some(id));
        }
        let backwards: Vec<NodeId> = graph.nodes().rev().map(|(id, _)| id).collect();
        assert!(backwards.iter().rev().eq(self.rows.iter().map(|row| &row.id)));
    }
}

struct Script {
    graph: Graph,
    model: Model,
    erased: Vec<NodeId>,
    foreign: Graph,
}

const NAMES: [&str; 6] = ["add", "x", "add_1", "for", "layers.0", "weird name"];

fn args_of(args: &[NodeId], nested: bool) -> Vec<Arg> {
    let leaves = args.iter().map(|&id| Arg::Leaf(id));
    if nested { vec![Arg::list(leaves.collect::<Vec<_>>()), Arg::Int(0)] } else { leaves.collect() }
}

/// Runs one edit; the model says beforehand whether it must succeed.
fn run(graph: &mut Graph, model: &mut Model, erased: &mut Vec<NodeId>, foreign: &Graph, edit: &Edit) {
    let before = graph.clone();
    let must_fail = |ok: bool, result: Result<()>, graph: &Graph| {
        assert_eq!(ok, result.is_ok(), "{edit:?}: {result:?}");
        if !ok {
            assert!(*graph == before, "{edit:?} failed but changed the graph");
        }
        ok
    };
    match edit {
        Edit::Create { args, nested } => {
            let args: Vec<NodeId> = args.iter().map(|&i| model.pick(i)).collect();
            let ok = model.can_use(&args, model.at(model.cursor));
            // `getitem` of a list takes any nesting.
            let op = if *nested { ops::getitem::OP } else { ops::add::OP };
            let created = graph.call_function(op, args_of(&args, *nested));
            if must_fail(ok, created.clone().map(drop), graph) {
                model.insert(graph, created.unwrap(), args);
            }
        }
        Edit::Placeholder(name) => {
            let name = format!("arg{name}");
            let ok = !graph.inputs().iter().any(|input| *input.name == *name);
            let created = graph.placeholder(&name);
            if must_fail(ok, created.clone().map(drop), graph) {
                model.insert(graph, created.unwrap(), Vec::new());
            }
        }
        Edit::Erase(i) => {
            let id = model.pick(*i);
            let ok = model.users(id).is_empty() && model.opcode(id) != OpCode::Output;
            if must_fail(ok, graph.erase(id), graph) {
                model.remove(id);
                erased.push(id);
            }
        }
        Edit::Rename(i, name) => {
            let id = model.pick(*i);
            let name = graph.rename(id, NAMES[*name as usize]).unwrap();
            let at = model.at(id);
            model.rows[at].name = name.to_string();
        }
        Edit::RenameAll(step) => {
            let before: Vec<String> = model.rows.iter().map(|row| row.name.clone()).collect();
            let mut i = 0;
            let changed = graph.rename_all(&mut |node| {
                i += 1;
                let is_kept = node.opcode() == OpCode::Placeholder || i % step == 1;
                (!is_kept).then(|| NAMES[i % NAMES.len()].into())
            });
            for row in &mut model.rows {
                row.name = graph.node(row.id).unwrap().name().to_owned();
            }
            assert_eq!(changed, model.rows.iter().zip(&before).any(|(row, before)| row.name != *before));
        }
        Edit::MoveBefore(i, j) | Edit::MoveAfter(i, j) => {
            let (id, other) = (model.pick(*i), model.pick(*j));
            let is_after = matches!(edit, Edit::MoveAfter(..));
            let next =
                if is_after { model.rows.get(model.at(other) + 1).map(|row| row.id) } else { Some(other) };
            let fixed = |id: NodeId| matches!(model.opcode(id), OpCode::Placeholder | OpCode::Output);
            let ok = id == other
                || next.is_some_and(|next| {
                    if id == next {
                        return true;
                    }
                    let target = model.at(next);
                    let row = &model.rows[model.at(id)];
                    !fixed(id)
                        && model.opcode(next) != OpCode::Placeholder
                        && row.args.iter().all(|&arg| model.at(arg) < target)
                        && model.users(id).iter().all(|&user| model.at(user) >= target)
                });
            let result = if is_after { graph.move_after(id, other) } else { graph.move_before(id, other) };
            if must_fail(ok, result, graph) && id != other && next != Some(id) {
                let row = model.remove(id);
                let at = model.at(next.unwrap());
                model.rows.insert(at, row);
            }
        }
        Edit::SetArgs(i, args) => {
            let id = model.pick(*i);
            let args: Vec<NodeId> = args.iter().map(|&i| model.pick(i)).collect();
            let is_call = model.opcode(id) == OpCode::CallFunction;
            let nested = is_call && graph.node(id).unwrap().op() == Some(ops::getitem::OP);
            let ok = is_call && model.can_use(&args, model.at(id));
            if must_fail(ok, graph.set_args(id, args_of(&args, nested)), graph) {
                let at = model.at(id);
                model.rows[at].args = args;
            }
        }
        Edit::SetOutput(i) => {
            let id = model.pick(*i);
            let ok = model.opcode(id) != OpCode::Output;
            if must_fail(ok, graph.set_output(id), graph) {
                model.rows.last_mut().unwrap().args = vec![id];
            }
        }
        Edit::ReplaceAllUses(i, j) => {
            let (old, new) = (model.pick(*i), model.pick(*j));
            let users: Vec<NodeId> = model.users(old).into_iter().filter(|&user| user != new).collect();
            let ok = users.iter().all(|&user| model.at(new) < model.at(user)) || users.is_empty();
            let result = graph.replace_all_uses(old, new);
            if must_fail(ok, result.clone().map(drop), graph) {
                assert_eq!(result.unwrap(), users);
                for row in model.rows.iter_mut().filter(|row| users.contains(&row.id)) {
                    row.args.iter_mut().filter(|arg| **arg == old).for_each(|arg| *arg = new);
                }
            }
        }
        Edit::InsertingBefore(i, edits) | Edit::InsertingAfter(i, edits) => {
            let id = model.pick(*i);
            let is_after = matches!(edit, Edit::InsertingAfter(..));
            let first_call = model.rows.iter().position(|row| row.opcode != OpCode::Placeholder).unwrap();
            let place = match is_after {
                true => model.rows.get((model.at(id) + 1).max(first_call)).map(|row| row.id),
                false => Some(id).filter(|&id| model.opcode(id) != OpCode::Placeholder),
            };
            let old = model.cursor;
            let ok = place.is_some();
            let mut inner = |graph: &mut Graph| {
                model.cursor = place.unwrap();
                edits.iter().for_each(|edit| run(graph, model, erased, foreign, edit));
            };
            let result = if is_after {
                graph.inserting_after(id, &mut inner)
            } else {
                graph.inserting_before(id, &mut inner)
            };
            assert_eq!(ok, result.is_ok());
            if ok {
                let still_there = model.rows.iter().any(|row| row.id == old);
                model.cursor = if still_there { old } else { graph.output_node() };
            }
        }
        Edit::Transaction(edits, fails) => {
            let (saved_model, saved_erased) = (model.clone(), erased.clone());
            let result = graph.transaction(|graph| {
                edits.iter().for_each(|edit| run(graph, model, erased, foreign, edit));
                if *fails { Err(err!(Check, "on purpose")) } else { Ok(()) }
            });
            assert_eq!(result.is_err(), *fails);
            if *fails {
                let made: Vec<NodeId> = model.rows.iter().map(|row| row.id).collect();
                (*model, *erased) = (saved_model, saved_erased);
                erased.extend(made.into_iter().filter(|&id| !model.rows.iter().any(|row| row.id == id)));
                assert!(*graph == before, "a failed transaction left changes");
                let (mut a, mut b) = (graph.clone(), before);
                for name in NAMES.iter().chain(&["getitem"]) {
                    let make = |graph: &mut Graph| {
                        let id = graph
                            .create(Target::CallFunction(ops::neg::OP), [Arg::Int(0)], [], Some(name))
                            .unwrap();
                        graph.node(id).unwrap().name().to_owned()
                    };
                    assert_eq!(make(&mut a), make(&mut b), "names differ after a failed transaction");
                }
            }
        }
        Edit::CopyNode(i) => {
            let id = model.pick(*i);
            let row = model.rows[model.at(id)].clone();
            let mut map: NodeMap = row.args.iter().map(|&arg| (arg, Arg::Leaf(arg))).collect();
            let ok = match row.opcode {
                OpCode::Output => false,
                OpCode::Placeholder => !graph.inputs().iter().any(|input| *input.name == *row.name),
                _ => model.can_use(&row.args, model.at(model.cursor)),
            };
            let copy = graph.copy_node(&before, id, &mut map);
            if must_fail(ok, copy.clone().map(drop), graph) {
                model.insert(graph, copy.unwrap(), row.args);
            }
        }
        Edit::Inline(i) => {
            let argument = model.pick(*i);
            let mut map: NodeMap =
                before.placeholders().into_iter().map(|id| (id, Arg::Leaf(argument))).collect();
            let n = map.len();
            let uses_argument = model.rows.iter().any(|row| {
                row.opcode == OpCode::CallFunction
                    && row.args.iter().any(|&arg| model.opcode(arg) == OpCode::Placeholder)
            });
            let ok = !uses_argument || model.can_use(&[argument], model.at(model.cursor));
            let copied = graph.copy_graph(&before, &mut map);
            if must_fail(ok, copied.clone().map(drop), graph) {
                let copied = copied.unwrap();
                let rows: Vec<Row> =
                    model.rows.iter().filter(|row| row.opcode == OpCode::CallFunction).cloned().collect();
                assert_eq!(copied.nodes.len(), rows.len());
                for (row, new) in rows.iter().zip(copied.nodes) {
                    let args = row.args.iter().map(|arg| *map[arg].leaf().unwrap()).collect();
                    model.insert(graph, new, args);
                }
            } else {
                assert_eq!(map.len(), n, "a failed copy left entries in the map");
            }
        }
        Edit::Stale(i) => {
            let others = foreign.ids();
            let id = match erased.len() + others.len() {
                0 => return,
                n if i % n < erased.len() => erased[i % n],
                n => others[i % n - erased.len()],
            };
            let live = model.pick(*i);
            let stale =
                |result: Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Stale, "{id:?}");
            stale(graph.node(id).map(drop));
            stale(graph.erase(id));
            stale(graph.rename(id, "y").map(drop));
            stale(graph.move_before(id, live));
            stale(graph.move_before(live, id));
            stale(graph.set_args(id, []));
            stale(graph.set_output(id));
            stale(graph.replace_all_uses(id, live).map(drop));
            stale(graph.replace_all_uses(live, id).map(drop));
            stale(graph.inserting_before(id, |_| ()));
            stale(graph.inserting_after(id, |_| ()));
            stale(graph.meta_mut(id).map(drop));
            stale(graph.users(id).map(drop));
            stale(graph.call_function(ops::neg::OP, [id.into()]).map(drop));
            assert!(*graph == before);
        }
    }
    model.check(graph);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn edits_agree_with_a_naive_model(edits in proptest::collection::vec(edit(), 1..40), others in proptest::collection::vec(edit(), 0..8)) {
        let mut graph = Graph::new("main");
        let x = graph.placeholder("x").unwrap();
        graph.set_output(x).unwrap();
        let rows = graph.nodes().map(|(id, node)| Row {
            id, name: node.name().into(), opcode: node.opcode(), args: node.inputs().collect(),
        }).collect();
        let model = Model { rows, cursor: graph.cursor() };
        let mut foreign = Graph::new("foreign");
        foreign.placeholder("x").unwrap();
        let mut script = Script { graph, model, erased: Vec::new(), foreign };
        for edit in &edits {
            run(&mut script.graph, &mut script.model, &mut script.erased, &script.foreign, edit);
        }
        // A clone goes its own way: neither sees the other's edits, nor takes the other's new handles.
        let mut clone = script.graph.clone();
        let (mut clone_model, mut clone_erased) = (script.model.clone(), script.erased.clone());
        for edit in &others {
            run(&mut clone, &mut clone_model, &mut clone_erased, &script.foreign, edit);
            script.model.check(&script.graph);
        }
        for edit in edits.iter().take(4) {
            run(&mut script.graph, &mut script.model, &mut script.erased, &script.foreign, edit);
            clone_model.check(&clone);
        }
        let common: HashSet<NodeId> = script.model.rows.iter().map(|row| row.id).collect();
        for row in &clone_model.rows {
            prop_assert_eq!(script.graph.contains(row.id), common.contains(&row.id));
        }
        let compacted = script.graph.compacted().unwrap();
        prop_assert_eq!(compacted.lint(), []);
        prop_assert_eq!(compacted.len(), script.graph.len());
    }
}

#[test]
fn handles_of_a_clone_are_foreign() {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let mut clone = graph.clone();
    let a = graph.call_function(ops::neg::OP, [x.into()]).unwrap();
    let b = clone.call_function(ops::add::OP, [x.into(), x.into()]).unwrap();
    assert_ne!(a, b);
    assert_eq!(graph.node(b).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(clone.node(a).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(clone.node(x).unwrap().name(), "x");
}

#[test]
fn long_chains_are_fast_and_need_no_stack() {
    const N: usize = 200_000;
    let started = Instant::now();
    let run = move || {
        let mut graph = Graph::new("main");
        let mut last = graph.placeholder("x").unwrap();
        for _ in 0..N {
            last = graph.call_function(ops::neg::OP, [last.into()]).unwrap();
        }
        let clone = graph.clone();
        assert!(clone == graph);
        drop(clone);
        assert_eq!(graph.eliminate_dead_code(|_| false), N);
        assert_eq!(graph.len(), 2);
        let failed: Result<()> = graph.transaction(|graph| {
            let mut last = graph.placeholders()[0];
            for _ in 0..N {
                last = graph.call_function(ops::neg::OP, [last.into()])?;
            }
            Err(err!(Check, "on purpose"))
        });
        assert!(failed.is_err());
        assert_eq!(graph.len(), 2);
    };
    std::thread::Builder::new().stack_size(128 << 10).spawn(run).unwrap().join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn nesting_is_bounded() {
    let run = || {
        let mut graph = Graph::new("main");
        let x = graph.placeholder("x").unwrap();
        let limit = |result: Result<NodeId>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Limit);
        for make in [
            |arg| Arg::list([arg]),
            |arg| Arg::tuple([arg, Arg::None]),
            |arg| Arg::dict([("key", arg)]),
            |arg| Arg::slice(arg, Arg::None, Arg::None),
        ] {
            let mut arg = Arg::Leaf(x);
            for _ in 0..100_000 {
                arg = make(arg);
            }
            limit(graph.call_function(ops::neg::OP, [arg]));
        }
        // Also where the variant is made directly.
        let mut inner = Graph::new("inner");
        for depth in 0..100_000 {
            let mut outer = Graph::new("inner");
            match outer.call_function(ops::neg::OP, [Arg::Graph(Arc::new(inner))]) {
                Ok(_) => inner = outer,
                Err(error) => {
                    assert_eq!((error.kind(), depth), (ErrorKind::Limit, MAX_DEPTH));
                    break;
                }
            }
            inner.lint();
            assert!(depth < MAX_DEPTH);
        }
        // A replacement that would nest too deeply is refused, and nothing changes.
        let mut deep = Arg::Leaf(x);
        for _ in 0..MAX_DEPTH {
            deep = Arg::list([deep]);
        }
        let user = graph.call_function(ops::neg::OP, [deep.clone()]).unwrap();
        let before = graph.clone();
        assert_eq!(graph.replace_input(user, x, Arg::list([])).unwrap_err().kind(), ErrorKind::Limit);
        assert!(graph == before);
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn errors_name_nodes() {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let a = graph.call_function(ops::neg::OP, [x.into()]).unwrap();
    let users: Vec<NodeId> =
        (0..7).map(|_| graph.call_function(ops::add::OP, [a.into(), a.into()]).unwrap()).collect();
    let cycle = graph.set_args(a, [users[0].into()]).unwrap_err();
    let itself = graph.set_args(a, [a.into()]).unwrap_err();
    let erase = graph.erase(a).unwrap_err();
    let twice = graph
        .set_kwargs(users[0], [("alpha".into(), Arg::Int(1)), ("alpha".into(), Arg::Int(2))])
        .unwrap_err();
    let moved = graph.move_before(users[0], a).unwrap_err();
    let replaced = graph.replace_all_uses(a, users[3]).unwrap_err();
    let all = [cycle, itself, erase, twice, moved, replaced].map(|error| error.message().to_owned());
    expect_test::expect![[r#"
        %neg would use %add, which comes after it
        %neg would use itself
        cannot erase %neg: it is used by %add, %add_1, %add_2, %add_3, %add_4 and 2 more
        keyword argument "alpha" is given twice
        %add cannot be moved: its input %neg would come after it
        %add_3 cannot replace %neg: the user %add comes before it"#]]
    .assert_eq(&all.join("\n"));
}

#[test]
fn nodes_are_double_ended() {
    let mut graph = Graph::new("main");
    let mut last = graph.placeholder("x").unwrap();
    for _ in 0..3 {
        last = graph.call_function(ops::neg::OP, [last.into()]).unwrap();
    }
    let mut nodes = graph.nodes();
    let mut name = |from_front: bool| {
        if from_front { nodes.next() } else { nodes.next_back() }.map(|(_, n)| n.name().to_owned())
    };
    let names = [true, false, false, true, true, true, false].map(&mut name);
    let expected = ["x", "output", "neg_2", "neg", "neg_1"].map(|name| Some(name.to_owned()));
    assert_eq!(names[..5], expected);
    assert_eq!(names[5..], [None, None]);
    assert_eq!(graph.nodes().len(), 5);
}

#[test]
fn sub_graphs_that_double_at_every_level_are_refused_in_time() {
    let mut inner = Graph::new("leaf");
    let x = inner.placeholder("x").unwrap();
    inner.set_output(x).unwrap();
    let mut inner = Arc::new(inner);
    for level in 0.. {
        let mut graph = Graph::new("level");
        let x = graph.placeholder("x").unwrap();
        let args = [x.into(), inner.clone().into(), inner.clone().into(), Arg::list([x.into()])];
        match graph.call_function(fx_core::ops::cond::OP, args) {
            Ok(node) => graph.set_output(node).unwrap(),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Limit);
                assert!((15..30).contains(&level), "{level} levels");
                break;
            }
        }
        inner = Arc::new(graph);
    }
}

#[test]
fn a_graph_for_operands_has_their_sizes_and_names_of_its_own() {
    let text = "graph body(%i: int, %x: f32[s + 1], %n: i64[]) -> f32[s + 1] {
      %size: <u0> = item(%n)
      %y: f32[s + 1] = mul(%x, <s + u0>)
      %z: f32[s + 1] = add(%y, %i)
      return %z
    }";
    let graph = Graph::parse(text, &fx_core::Registry::core()).unwrap();
    let symbol = |name: &str| Dim::symbol(Symbol::new(name).ranged(0, None));
    let tensor =
        |dtype, shape: Vec<Dim>| TypeTree::from(TensorType { dtype, shape: shape.into_iter().collect() });
    let types =
        [Arg::dim(symbol("round")), tensor(DType::F32, vec![symbol("m")]), tensor(DType::I64, vec![])];
    let taken = ["m", "round", "u0", "u1"].map(Symbol::new);
    let made = graph.for_operands(&types, &taken).unwrap();
    expect![[r#"
        graph body(%i: <round>, %x: f32[m], %n: i64[]) -> f32[m] {
          %size: <u2> = item(%n)
          %y: f32[m] = mul(%x, <m + u2 - 1>)
          %z: f32[m] = add(%y, %i)
          return %z
        }
    "#]]
    .assert_eq(&made.to_string());
    let error = graph.for_operands(&types[..2], &taken).unwrap_err();
    assert!(error.message().contains("takes 3 operands, got 2"), "{error}");
}
