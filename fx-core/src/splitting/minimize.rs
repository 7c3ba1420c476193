//! Minimising: the smallest part of a program on which two runners disagree.
//!
//! First the values of all nodes are recorded. Then the shortest beginning of the program on which the
//! runners differ is found by bisection; its last node is where the difference shows. From there a stretch is
//! grown backwards, fed with recorded values, until it differs on its own, and nodes are taken out of it, in
//! ever smaller pieces, as long as it still differs. The rest cannot lose one more node.

use std::cell::RefCell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{build, plan};
use crate::graph::NodeMap;
use crate::rng::{Generator, with_generator};
use crate::{
    Arg, Attribute, Dim, Graph, GraphModule, NodeId, OpCode, Result, Symbol, Target, Tensor, Type, TypeTree,
    Value, bail, err, fresh,
};

/// Something that runs a module.
pub type Runner<'a> = dyn Fn(&GraphModule, &[Value]) -> Result<Value> + 'a;

/// How a program is minimised; see [`minimize`] for the usual way.
pub struct Minimizer<'a> {
    reference: Option<&'a Runner<'a>>,
    rtol: f64,
    atol: f64,
    most_runs: usize,
}

/// The smallest part of a program on which two runners differ.
#[derive(Debug)]
pub struct Culprit {
    /// The part, as a program of its own: outside values are inputs, sizes are numbers.
    pub module: GraphModule,
    /// The inputs.
    pub inputs: Vec<Value>,
    /// The names of its nodes in the whole program, in order.
    pub nodes: Vec<String>,
    /// What the reference returns.
    pub expected: Value,
    /// What the other runner returns, or its error.
    pub got: Result<Value>,
    /// How the two differ.
    pub mismatch: String,
    /// How often the runners were run.
    pub runs: usize,
}

impl Default for Minimizer<'_> {
    fn default() -> Self {
        Minimizer { reference: None, rtol: 1e-4, atol: 1e-5, most_runs: 10_000 }
    }
}

/// Finds the smallest part of a program on which `suspect` differs from the interpreter; `None` if it agrees
/// on the whole. Fails if the reference fails on the whole program.
pub fn minimize(gm: &GraphModule, inputs: &[Value], suspect: &Runner<'_>) -> Result<Option<Culprit>> {
    Minimizer::default().run(gm, inputs, suspect)
}

impl<'a> Minimizer<'a> {
    /// Compares with this runner instead of the interpreter. Recorded values are the interpreter's all the same.
    pub fn reference(mut self, reference: &'a Runner<'a>) -> Self {
        self.reference = Some(reference);
        self
    }

    /// Sets how far floats may be off: relative to the expected one, and to the greatest magnitude of its tensor.
    pub fn tolerance(mut self, rtol: f64, atol: f64) -> Self {
        (self.rtol, self.atol) = (rtol, atol);
        self
    }

    /// Stops after this many runs with the smallest part so far.
    pub fn most_runs(mut self, runs: usize) -> Self {
        self.most_runs = runs;
        self
    }

    /// Finds the smallest part on which the runners differ; `None` if they agree on the whole program. Fails
    /// if the reference fails on the whole program; an error of the suspect is a difference.
    pub fn run(&self, gm: &GraphModule, inputs: &[Value], suspect: &Runner<'_>) -> Result<Option<Culprit>> {
        let expected = self.expected(gm, inputs)?;
        if self.difference(&expected, &seeded(|| suspect(&gm.clone(), inputs))).is_none() {
            return Ok(None);
        }
        let recorded = record(gm, inputs)?;
        let nodes: Vec<NodeId> = gm
            .graph()
            .nodes()
            .filter(|(_, node)| plan::is_call(node) && !plan::stores(node))
            .map(|(id, _)| id)
            .collect();
        let mut search = Search { of: self, gm, recorded, suspect, runs: 2 };
        let Some(first) = search.first(&nodes)? else {
            let got = seeded(|| suspect(&gm.clone(), inputs));
            let mismatch = self.difference(&expected, &got).unwrap_or_default();
            let names =
                nodes.iter().map(|id| Ok(gm.graph().node(*id)?.name().to_owned())).collect::<Result<_>>()?;
            let (module, inputs) = (gm.clone(), inputs.to_vec());
            return Ok(Some(Culprit {
                module,
                inputs,
                nodes: names,
                expected,
                got,
                mismatch,
                runs: search.runs,
            }));
        };
        let grown = search.grow(&nodes[..=first])?;
        let least = search.reduce(grown)?;
        search.culprit(&least).map(Some)
    }

    fn expected(&self, gm: &GraphModule, inputs: &[Value]) -> Result<Value> {
        let copy = gm.clone();
        seeded(|| match self.reference {
            Some(reference) => reference(&copy, inputs),
            None => copy.evaluate(inputs),
        })
    }

    /// Says how a result differs from the expected one, if it does.
    fn difference(&self, expected: &Value, got: &Result<Value>) -> Option<String> {
        let got = match got {
            Ok(got) => got,
            Err(error) => return Some(format!("it fails: {}", error.message())),
        };
        let (a, b) = (expected.leaves(), got.leaves());
        let shape = |value: &Value| value.map(&mut |_| "tensor").to_string();
        if a.len() != b.len() || !expected.eq_by(got, &|_, _| true) {
            return Some(format!("expected the structure {}, got {}", shape(expected), shape(got)));
        }
        a.into_iter().zip(b).enumerate().find_map(|(i, (a, b))| {
            let problem = self.tensor_difference(a, b).err()?;
            Some(format!("tensor {i} of the result: {}", problem.message()))
        })
    }

    fn tensor_difference(&self, expected: &Tensor, got: &Tensor) -> Result<()> {
        if expected.bits_eq(got) {
            return Ok(());
        }
        let (array, other) = (expected.array()?, got.array()?);
        if array.dtype() != other.dtype() || array.shape() != other.shape() {
            bail!(Check, "expected {}, got {}", array.describe(), other.describe());
        }
        let is_float = array.dtype().is_float();
        let magnitude =
            array.iter_scalars().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        let (rtol, atol) = if is_float { (self.rtol, self.atol * magnitude) } else { (0.0, 0.0) };
        got.all_close(expected, rtol, atol)
    }
}

/// Runs with random numbers from a generator of its own.
fn seeded<T>(run: impl FnOnce() -> T) -> T {
    with_generator(&Generator::seeded(0), run)
}

/// Returns the value of every node.
fn record(gm: &GraphModule, inputs: &[Value]) -> Result<FxHashMap<NodeId, Value>> {
    let copy = gm.clone();
    let values: RefCell<FxHashMap<NodeId, Value>> = RefCell::default();
    let mut eval = copy.eval();
    for (id, node) in gm.graph().nodes() {
        if node.opcode() != OpCode::Output {
            let values = &values;
            eval = eval.replace(node.name(), move |_, value| {
                values.borrow_mut().insert(id, value.clone());
                Ok(value)
            });
        }
    }
    seeded(|| eval.run(inputs))?;
    Ok(values.into_inner())
}

struct Search<'a, 'b> {
    of: &'a Minimizer<'b>,
    gm: &'a GraphModule,
    recorded: FxHashMap<NodeId, Value>,
    suspect: &'a Runner<'a>,
    runs: usize,
}

impl Search<'_, '_> {
    /// Returns whether the runners differ on some nodes, fed with recorded values. What the reference cannot
    /// run does not count.
    fn differs(&mut self, nodes: &[NodeId]) -> Result<bool> {
        let (module, inputs) = cut(self.gm, nodes, &self.recorded)?;
        self.runs += 2;
        let Ok(expected) = self.of.expected(&module, &inputs) else { return Ok(false) };
        let got = seeded(|| (self.suspect)(&module.clone(), &inputs));
        Ok(self.of.difference(&expected, &got).is_some())
    }

    fn may_go_on(&self) -> bool {
        self.runs < self.of.most_runs
    }

    /// Returns the position of the node at which the difference shows: the runners differ up to it, and not
    /// before.
    fn first(&mut self, nodes: &[NodeId]) -> Result<Option<usize>> {
        if !self.differs(nodes)? {
            return Ok(None);
        }
        let (mut equal, mut differs) = (0, nodes.len());
        while differs - equal > 1 {
            let middle = equal + (differs - equal) / 2;
            match self.differs(&nodes[..middle])? {
                true => differs = middle,
                false => equal = middle,
            }
        }
        Ok(Some(differs - 1))
    }

    /// Returns a stretch that ends at the last of the nodes and differs on its own.
    fn grow(&mut self, nodes: &[NodeId]) -> Result<Vec<NodeId>> {
        let mut length = 1;
        while length < nodes.len() && self.may_go_on() {
            let stretch = self.needed(&nodes[nodes.len() - length..]);
            if self.differs(&stretch)? {
                return Ok(stretch);
            }
            length *= 2;
        }
        let all = self.needed(nodes);
        // What shows at another value than the last one's is kept whole.
        if self.differs(&all)? { Ok(all) } else { Ok(nodes.to_vec()) }
    }

    /// Drops the nodes on which the last one does not depend.
    fn needed(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut needed: FxHashSet<NodeId> = nodes.last().copied().into_iter().collect();
        for id in nodes.iter().rev() {
            if needed.contains(id)
                && let Ok(node) = self.gm.graph().node(*id)
            {
                needed.extend(node.inputs());
            }
        }
        nodes.iter().copied().filter(|id| needed.contains(id)).collect()
    }

    /// Takes pieces out, as long as what is left differs.
    fn reduce(&mut self, mut nodes: Vec<NodeId>) -> Result<Vec<NodeId>> {
        let mut piece = nodes.len() / 2;
        while piece > 0 && nodes.len() > 1 {
            let (mut at, mut any) = (0, false);
            while at < nodes.len() && nodes.len() > 1 && self.may_go_on() {
                let end = (at + piece).min(nodes.len());
                let rest: Vec<NodeId> = nodes[..at].iter().chain(&nodes[end..]).copied().collect();
                if !rest.is_empty() && self.differs(&rest)? {
                    nodes = rest;
                    any = true;
                } else {
                    at = end;
                }
            }
            if piece > 1 {
                piece /= 2;
            } else if !any || !self.may_go_on() {
                break;
            }
        }
        Ok(nodes)
    }

    fn culprit(&mut self, nodes: &[NodeId]) -> Result<Culprit> {
        let (module, inputs) = cut(self.gm, nodes, &self.recorded)?;
        let expected = self.of.expected(&module, &inputs)?;
        let got = seeded(|| (self.suspect)(&module.clone(), &inputs));
        let mismatch = self.of.difference(&expected, &got);
        let mismatch =
            mismatch.ok_or_else(|| err!(Check, "the runners differ on one run and agree on another"))?;
        let names = nodes.iter().map(|id| Ok(self.gm.graph().node(*id)?.name().to_owned()));
        let nodes = names.collect::<Result<_>>()?;
        Ok(Culprit { module, inputs, nodes, expected, got, mismatch, runs: self.runs + 2 })
    }
}

/// Returns the type of a value.
fn type_of(value: &Value) -> TypeTree {
    let mapped = value.try_rewrite(&mut |arg| {
        Ok(match arg {
            Arg::Leaf(tensor) => Some(tensor.ty().map_or(Arg::Leaf(Type::Any), TypeTree::from)),
            Arg::Int(_) => Some(Arg::Leaf(Type::Int)),
            Arg::Float(_) => Some(Arg::Leaf(Type::Float)),
            Arg::Bool(_) => Some(Arg::Leaf(Type::Bool)),
            _ => None,
        })
    });
    mapped.unwrap_or(Arg::Leaf(Type::Any))
}

/// Makes a program of some nodes. Outside values become inputs with their recorded values; attributes stay
/// attributes. Values that other nodes use, or no node, are returned. Fails if a value was not recorded.
pub fn cut(
    gm: &GraphModule,
    nodes: &[NodeId],
    recorded: &FxHashMap<NodeId, Value>,
) -> Result<(GraphModule, Vec<Value>)> {
    let old = gm.graph();
    let inside: FxHashSet<NodeId> = nodes.iter().copied().collect();
    let sizes = sizes(old, recorded);
    let (mut graph, mut map) = (Graph::new("main"), NodeMap::default());
    let (mut inputs, mut attributes, mut modules) = (Vec::new(), Vec::new(), Vec::new());
    for id in nodes {
        let node = old.node(*id)?;
        if let Target::CallModule(path) = node.target() {
            modules.push(path.clone());
        }
        for input in node.inputs() {
            let from = old.node(input)?;
            if inside.contains(&input) || map.contains_key(&input) {
                continue;
            }
            if from.opcode() == OpCode::GetAttr {
                continue;
            }
            let Some(value) = recorded.get(&input) else {
                bail!(Graph, "%{} was not recorded", from.name());
            };
            let tree = build::input_for(&mut graph, from.name(), Some(&type_of(value)))?;
            map.insert(input, tree);
            inputs.push(value.clone());
        }
    }
    for id in nodes {
        let node = old.node(*id)?;
        for input in node.inputs() {
            if let (Target::GetAttr(path), false) = (old.node(input)?.target(), map.contains_key(&input)) {
                graph.copy_node(old, input, &mut map)?;
                attributes.push(path.clone());
            }
        }
        let translate = |arg: &Arg| {
            arg.try_rewrite(&mut |arg| match arg {
                Arg::Leaf(id) => match map.get(id) {
                    Some(arg) => Ok(Some(arg.clone())),
                    None => bail!(Graph, "%{} was not made", old.node(*id)?.name()),
                },
                Arg::Dim(dim) => Ok(Some(Arg::dim(dim.substitute(&|symbol| sizes.get(symbol).cloned())))),
                _ => Ok(None),
            })
        };
        let args = node.args().iter().map(translate).collect::<Result<Vec<_>>>()?;
        let kwargs = node.kwargs().iter().map(|(key, arg)| Ok((key.clone(), translate(arg)?)));
        let kwargs = kwargs.collect::<Result<Vec<_>>>()?;
        let new = graph.create(node.target().clone(), args, kwargs, Some(node.name()))?;
        let meta = graph.meta_mut(new)?;
        *meta = node.meta().clone();
        meta.ty = node.ty().map(|ty| fresh::substitute(ty, &|symbol| sizes.get(symbol).cloned()).into());
        map.insert(*id, Arg::Leaf(new));
    }
    let mut outputs = Vec::new();
    for id in nodes {
        let users = old.users(*id)?;
        if users.is_empty() || users.iter().any(|user| !inside.contains(user)) {
            outputs.push(map[id].clone());
        }
    }
    graph.set_output(if outputs.len() == 1 { outputs.remove(0) } else { Arg::tuple(outputs) })?;
    let mut module = GraphModule::new(gm.name(), graph);
    for path in attributes {
        let attribute = gm.attribute(&path)?.clone();
        module.set_attribute(&path, attribute)?;
    }
    for path in modules {
        let Some(child) = gm.shared_child(&path) else {
            bail!(Unresolved, "there is no sub-module {path:?}")
        };
        module.add_shared_submodule(&path, child)?;
    }
    Ok((module, inputs))
}

/// Returns the numbers of the symbolic sizes in a run.
fn sizes(graph: &Graph, recorded: &FxHashMap<NodeId, Value>) -> FxHashMap<Symbol, Dim> {
    let mut bindings = crate::eval::Bindings::default();
    let mut symbols: Vec<Symbol> = Vec::new();
    for (id, node) in graph.nodes() {
        if let (Some(ty), Some(value)) = (node.ty(), recorded.get(&id)) {
            let _ = bindings.bind(ty, value);
            fresh::for_each_dim(ty, &mut |dim| dim.collect_symbols(&mut symbols));
        }
    }
    symbols.into_iter().filter_map(|symbol| Some((symbol.clone(), bindings.get(&symbol)?))).collect()
}

/// The attributes of a culprit, by path, as a file of weights holds them.
impl Culprit {
    /// Returns the tensors that the part reads.
    pub fn weights(&self) -> Vec<(String, Tensor)> {
        self.module
            .attributes()
            .filter(|(_, attribute)| !matches!(attribute, Attribute::State(_)))
            .map(|(path, attribute): (&str, &Attribute)| (path.to_owned(), attribute.tensor()))
            .collect()
    }
}

/// Says what differs, and on which nodes.
impl std::fmt::Display for Culprit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<String> = self.nodes.iter().map(|name| format!("%{name}")).collect();
        writeln!(f, "{} ({} runs): {}", names.join(", "), self.runs, self.mismatch)?;
        f.write_str(&self.module.graph().to_text())
    }
}
