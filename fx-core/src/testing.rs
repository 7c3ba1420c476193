//! Random graphs for tests, from a seed: the same seed gives the same graph on every machine.
//!
//! [`random_graph`] gives graphs that are valid and run; [`random_text_graph`] adds everything that the text
//! format can hold, whether or not it makes sense to run it.

use std::sync::Arc;

use crate::{
    Arg, DType, Dim, Graph, Kwargs, Literal, ModuleFrame, NodeId, Op, Provenance, Registry, SourceLoc,
    Symbol, Target, TensorType, Type, TypeTree,
};

/// A small generator of random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts at a seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of the items.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())].clone()
    }
}

fn op(name: &str) -> Op {
    Registry::core().get(name).expect("the generator uses operations of the core")
}

/// Returns a valid graph of about `size` nodes over operations of the core, with the types of all nodes. Its
/// inputs are tensors of type `f32[batch, 4]`, `f32[4]` and `i64[batch, 4]` in structures; it may contain
/// `cond` with sub-graphs.
pub fn random_graph(seed: u64, size: usize) -> Graph {
    let mut rng = Rng::new(seed);
    let batch = Dim::symbol(Symbol::with_range("batch", 1, Some(64)));
    let types = [
        TensorType { dtype: DType::F32, shape: [batch.clone(), Dim::new(4)].into_iter().collect() },
        TensorType { dtype: DType::F32, shape: [Dim::new(4)].into_iter().collect() },
        TensorType { dtype: DType::I64, shape: [batch, Dim::new(4)].into_iter().collect() },
    ];
    let mut graph = Graph::new("main");
    let structures: [(&str, Arg<()>); 4] = [
        ("x", Arg::Leaf(())),
        ("pair", Arg::tuple([Arg::Leaf(()), Arg::Leaf(())])),
        ("opts", Arg::dict([("a", Arg::Leaf(())), ("flag", Arg::Bool(true))])),
        ("train", Arg::Bool(false)),
    ];
    for (name, structure) in structures.iter().take(1 + rng.below(structures.len())) {
        let tree = graph.structured_input(name, structure).expect("the names differ");
        for id in tree.leaves() {
            set_type(&mut graph, *id, rng.pick(&types).into());
        }
    }
    add_random_nodes(&mut graph, &mut rng, size, 2);
    graph
}

fn set_type(graph: &mut Graph, id: NodeId, ty: TypeTree) {
    graph.meta_mut(id).expect("the node is live").ty = Some(Arc::new(ty));
}

fn type_of(graph: &Graph, id: NodeId) -> TypeTree {
    graph.node(id).expect("the node is live").ty().expect("every node has a type").clone()
}

/// Adds nodes and an output; every node that exists must have a type.
fn add_random_nodes(graph: &mut Graph, rng: &mut Rng, size: usize, nesting: usize) {
    const BINARY: &[&str] = &["add", "sub", "mul", "minimum", "maximum"];
    let mut pool = graph.placeholders();
    while graph.len() < size + 1 && !pool.is_empty() {
        let x = rng.pick(&pool[pool.len().saturating_sub(12)..]);
        let (target, args) = match rng.below(12) {
            0 if nesting > 0 => match random_cond(graph, rng, &pool, nesting) {
                Some(cond) => cond,
                None => continue,
            },
            1 => (Target::CallMethod(op("neg")), vec![x.into()]),
            2 => (Target::CallFunction(op("add")), vec![x.into(), Arg::Int(rng.below(9) as i64 - 4)]),
            3 => (
                Target::CallFunction(op("mul")),
                vec![x.into(), Arg::Float(rng.below(17) as f64 / 4.0 - 2.0)],
            ),
            _ => {
                let op = op(rng.pick(BINARY));
                let y = Arg::Leaf(rng.pick(&pool));
                let target = if rng.one_in(3) { Target::CallMethod(op) } else { Target::CallFunction(op) };
                (target, vec![x.into(), y])
            }
        };
        let row = target.op().expect("a call has an operation");
        let types = args.iter().map(|arg| arg.try_flat_map(&mut |id| Ok(type_of(graph, *id))));
        let types: Vec<TypeTree> = types.collect::<Result<_, _>>().expect("the types are not too deep");
        let bound = row.bind::<Type>(&types, &[] as &[(&str, TypeTree)]);
        let Ok(Some(ty)) = bound.and_then(|bound| row.infer(&bound)) else { continue };
        if ty.tensor().is_none_or(|ty| ty.rank() == 0) {
            continue;
        }
        let id = graph.create(target, args, [], None).expect("the arguments come before");
        set_type(graph, id, ty);
        pool.push(id);
    }
    let result = |rng: &mut Rng| Arg::Leaf(rng.pick(&pool));
    let output = match (pool.is_empty(), rng.below(4)) {
        (true, _) => Arg::None,
        (_, 0) => Arg::tuple([result(rng), Arg::list([result(rng)])]),
        (_, 1) if nesting == 2 => Arg::dict([("y", result(rng)), ("k", Arg::None)]),
        _ => pool.last().map_or(Arg::None, |id| Arg::Leaf(*id)),
    };
    graph.set_output(output).expect("the output comes last");
}

fn random_cond(graph: &Graph, rng: &mut Rng, pool: &[NodeId], nesting: usize) -> Option<(Target, Vec<Arg>)> {
    let x = rng.pick(pool);
    let ty = type_of(graph, x);
    let branch = |name: &str, rng: &mut Rng| {
        let mut inner = Graph::new(name);
        let arg = inner.placeholder("arg0").expect("the only argument");
        set_type(&mut inner, arg, ty.clone());
        let n = 2 + rng.below(4);
        add_random_nodes(&mut inner, rng, n, nesting - 1);
        let shaped =
            inner.ids().into_iter().rev().find(|id| inner.node(*id).is_ok_and(|node| node.ty() == Some(&ty)));
        inner.set_output(shaped.unwrap_or(arg)).expect("the output comes last");
        Arc::new(inner)
    };
    let then = branch("then", rng);
    let name = rng.pick(&["otherwise", "then"]);
    let otherwise = if rng.one_in(4) { then.clone() } else { branch(name, rng) };
    let args = vec![Arg::Bool(rng.one_in(2)), then.into(), otherwise.into(), Arg::list([Arg::Leaf(x)])];
    Some((Target::CallFunction(op("cond")), args))
}

/// Returns a graph of about `size` nodes with module calls, attributes, all kinds of literals, names that
/// need quotes, and metadata of every kind. It need not be runnable.
pub fn random_text_graph(seed: u64, size: usize) -> Graph {
    let mut rng = Rng::new(seed ^ 0xf0f0);
    let mut graph = random_graph(seed, size);
    let registry: Vec<Op> = Registry::core().iter().collect();
    if rng.one_in(3) {
        graph.set_name(rng.pick(&["main", "then", "forward_1"])).expect("the names are identifiers");
    }
    if rng.one_in(2) {
        let tree =
            Arg::list([Arg::Leaf(()), literal(&mut rng, 2), Arg::dict([(text(&mut rng), Arg::Leaf(()))])]);
        let name = text(&mut rng) + "y";
        graph.structured_input(&name, &tree).expect("the name is new");
    }
    let mut shared: Option<Arc<Graph>> = None;
    for _ in 0..size / 2 + 1 {
        let pool: Vec<NodeId> = graph.ids().into_iter().filter(|id| *id != graph.output_node()).collect();
        let mut args: Vec<Arg> = (0..rng.below(4)).map(|_| any_arg(&mut rng, &pool, 3)).collect();
        if rng.one_in(6) {
            let inner = shared.get_or_insert_with(|| Arc::new(random_graph(seed.wrapping_add(1), 3)));
            args.push(Arg::list([Arg::Graph(inner.clone())]));
        }
        let mut kwargs = Kwargs::new();
        for key in ["dim", "self", "true", "a b", "\u{e9}\n\"", "f32"] {
            if rng.one_in(8) {
                kwargs.push((Arc::from(key), any_arg(&mut rng, &pool, 2)));
            }
        }
        let target = match rng.below(4) {
            0 => Target::GetAttr(path(&mut rng)),
            1 => Target::CallModule(path(&mut rng)),
            2 => Target::CallFunction(rng.pick(&registry)),
            _ => Target::CallMethod(rng.pick(&registry)),
        };
        match target {
            Target::GetAttr(_) => {
                args.clear();
                kwargs.clear();
            }
            Target::CallMethod(_) if args.is_empty() => args.push(any_arg(&mut rng, &pool, 1)),
            _ => {}
        }
        let hint = ["output", "x", "_9", "long_name_0001"][rng.below(4)];
        let hint = if rng.one_in(2) { Some(hint) } else { None };
        graph.create(target, args, kwargs, hint).expect("the arguments come before");
    }
    if rng.one_in(3) {
        graph.rename(graph.output_node(), "result").expect("the output is live");
    }
    for id in graph.ids() {
        random_meta(&mut graph, &mut rng, id);
    }
    graph
}

fn path(rng: &mut Rng) -> Arc<str> {
    Arc::from(rng.pick(&["fc1", "layers.0.conv", "0.1.2", "a b", "", "a..b", "\"q\\", "self", "x\u{2028}y"]))
}

fn text(rng: &mut Rng) -> String {
    const PARTS: &[&str] =
        &["a", "\n", "\"", "\\", "\u{1f600}", "//", "}", "#{", "\u{0}", "\u{202e}", " ", "%x", "graph g"];
    (0..rng.below(4)).map(|_| rng.pick(PARTS)).collect()
}

/// Returns a literal of any kind, nested at most `depth` deep.
pub fn literal<L>(rng: &mut Rng, depth: usize) -> Arg<L> {
    const FLOATS: &[u64] = &[
        0x8000_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0xfff8_0000_0000_0001,
        0x7ff0_0000_0000_0001,
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
        1,
        0x3ff0_0000_0000_0000,
        0x7fef_ffff_ffff_ffff,
        0x4341_c379_37e0_8000,
    ];
    let n = rng.below(3);
    match rng.below(if depth == 0 { 10 } else { 14 }) {
        0 => Arg::None,
        1 => Arg::Ellipsis,
        2 => Arg::Bool(rng.one_in(2)),
        3 => Arg::Int(rng.pick(&[0, -1, i64::MIN, i64::MAX, 42])),
        4 => Arg::Int(rng.bits() as i64),
        5 => Arg::Float(f64::from_bits(rng.pick(FLOATS))),
        6 => Arg::Float(f64::from_bits(rng.bits())),
        7 => Arg::str(text(rng)),
        8 => Arg::DType(rng.pick(DType::ALL)),
        9 => Arg::dim(dim(rng)),
        10 => Arg::slice(literal(rng, depth - 1), literal(rng, depth - 1), literal(rng, depth - 1)),
        11 => Arg::tuple((0..n).map(|_| literal(rng, depth - 1)).collect::<Vec<_>>()),
        12 => Arg::list((0..n).map(|_| literal(rng, depth - 1)).collect::<Vec<_>>()),
        _ => Arg::dict(
            (0..n).map(|i| (format!("{i}{}", text(rng)), literal(rng, depth - 1))).collect::<Vec<_>>(),
        ),
    }
}

fn dim(rng: &mut Rng) -> Dim {
    let n = Dim::symbol(Symbol::with_range("n", 2, None));
    let m = Dim::symbol(Symbol::with_range("m", i64::MIN, Some(9)));
    let item = Dim::symbol(Symbol::of_node("item", Symbol::UNKNOWN_OWNER));
    let batch = Dim::symbol(Symbol::with_range("batch", 1, Some(64)));
    let two = Dim::new(2);
    match rng.below(7) {
        0 => n,
        1 => &(&n * &two) + &batch,
        2 => (&n - &m).floor_div(&Dim::new(3)),
        3 => item.max(&m),
        4 => &item.modulo(&Dim::new(8)) * &n,
        5 => Dim::new(5),
        _ => batch.min(&n),
    }
}

fn any_arg(rng: &mut Rng, pool: &[NodeId], depth: usize) -> Arg {
    match rng.below(4) {
        0 => literal(rng, depth),
        1 if depth > 0 => Arg::list([any_arg(rng, pool, depth - 1), literal(rng, 0)]),
        2 if depth > 0 => Arg::slice(any_arg(rng, pool, depth - 1), Arg::None, literal(rng, 0)),
        _ if pool.is_empty() => Arg::None,
        _ => Arg::Leaf(rng.pick(pool)),
    }
}

fn random_type(rng: &mut Rng, depth: usize) -> TypeTree {
    match rng.below(8) {
        0 => Arg::Leaf(rng.pick(&[Type::Int, Type::Float, Type::Bool, Type::Str, Type::Any])),
        1 if depth > 0 && rng.one_in(3) => random_type(rng, depth - 1).optional(),
        1 if depth > 0 && rng.one_in(2) => random_type(rng, depth - 1).list_of(),
        1 if depth > 0 => Arg::tuple([random_type(rng, depth - 1)]),
        2 if depth > 0 => Arg::dict([("k", random_type(rng, depth - 1)), ("l", random_type(rng, depth - 1))]),
        3 => literal(rng, 1),
        _ => {
            let shape = (0..rng.below(4)).map(|_| dim(rng).max(&Dim::new(0))).collect();
            TypeTree::from(TensorType { dtype: rng.pick(DType::ALL), shape })
        }
    }
}

fn source(rng: &mut Rng) -> SourceLoc {
    let file = format!("{}.rs", text(rng));
    SourceLoc::new(
        if rng.one_in(2) { "C:\\a:1.rs" } else { &*file },
        rng.bits() as u32,
        rng.below(100) as u32,
    )
}

fn random_meta(graph: &mut Graph, rng: &mut Rng, id: NodeId) {
    let frames = (0..rng.below(3)).map(|i| ModuleFrame {
        path: Arc::from(text(rng)),
        type_name: Arc::from("Linear"),
        call: i as u32,
        source: if rng.one_in(2) { Some(source(rng)) } else { None },
    });
    let frames: Arc<[ModuleFrame]> = frames.collect::<Vec<_>>().into();
    let meta = graph.meta_mut(id).expect("the node is live");
    if rng.one_in(3) {
        meta.ty = Some(Arc::new(random_type(rng, 2)));
    }
    if rng.one_in(2) {
        meta.source = Some(source(rng));
    }
    if rng.one_in(3) {
        meta.stack = Some(frames);
    }
    if rng.one_in(4) {
        meta.add_tag(text(rng));
        meta.add_tag("hot");
    }
    if rng.one_in(4) {
        let from = (0..rng.below(3)).map(|i| Arc::from(format!("n{i}"))).collect();
        meta.add_provenance(Provenance { pass: Arc::from(text(rng)), from });
    }
    if rng.one_in(4) {
        let value: Literal = literal(rng, 3);
        meta.set_ext(text(rng), Some(value));
    }
}
