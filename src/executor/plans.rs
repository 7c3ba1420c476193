//! The layers in which a plan is found: [`Structures`], [`Structure`], [`Plan`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Options;
use super::state::{PlanKind, PlanState, StructureState};
use crate::eval::Inputs;
use crate::signature::{BySignature, INDEXED, Signature, Signed, for_each_integer, size_name};
use crate::{
    Arg, Compile, Dim, Error, ErrorKind, Graph, GraphModule, Program, Result, Symbol, Tensor, TensorType,
    Type, TypeTree, Value,
};

/// The sizes of all tensors among the arguments, and the integers that may be symbols, in order.
pub(super) type Sizes = SmallVec<[i64; 16]>;

/// The arguments of a graph.
pub(super) struct Arguments {
    names: Vec<Arc<str>>,
    /// The types that the graph declares.
    types: Vec<Option<TypeTree>>,
    /// The symbols of those that are integers.
    integers: Vec<Option<Symbol>>,
    /// Which are integers.
    open: Vec<bool>,
}

impl Arguments {
    pub(super) fn of(graph: &Graph) -> Arguments {
        let nodes = graph.placeholders().into_iter().filter_map(|id| graph.node(id).ok());
        let (names, types): (Vec<Arc<str>>, Vec<Option<TypeTree>>) =
            nodes.map(|node| (Arc::from(node.name()), node.ty().cloned())).unzip();
        let integer = |(name, ty): (&Arc<str>, &Option<TypeTree>)| {
            let any = || Symbol::new(&**name).ranged(i64::MIN, None);
            match ty {
                Some(Arg::Dim(size)) => Some(size.as_symbol().cloned().unwrap_or_else(any)),
                Some(Arg::Leaf(Type::Int)) => Some(any()),
                _ => None,
            }
        };
        let integers: Vec<Option<Symbol>> = names.iter().zip(&types).map(integer).collect();
        Arguments { names, types, open: integers.iter().map(Option::is_some).collect(), integers }
    }

    /// Returns the sizes of a call; `None` if a tensor has no value.
    pub(super) fn sizes(&self, inputs: &[Value]) -> Option<Sizes> {
        let mut sizes = Sizes::new();
        let mut is_complete = true;
        for (input, is_open) in inputs.iter().zip(&self.open) {
            if *is_open {
                for_each_integer(input, &mut |n| sizes.push(n));
            }
            input.for_each_leaf(&mut |tensor: &Tensor| match tensor.shared_array() {
                Some(array) => sizes.extend(array.shape().iter().map(|size| *size as i64)),
                None => is_complete = false,
            });
        }
        is_complete.then_some(sizes)
    }

    /// Says which of its sizes a number of a call is.
    fn place(&self, inputs: &[Value], at: usize) -> String {
        let mut seen = 0;
        for ((input, name), is_open) in inputs.iter().zip(&self.names).zip(&self.open) {
            let mut integers = 0;
            if *is_open {
                for_each_integer(input, &mut |_| integers += 1);
            }
            seen += integers;
            if at < seen {
                return format!("input {name}");
            }
            for tensor in input.leaves() {
                let rank = tensor.shared_array().map_or(0, |array| array.rank());
                if at < seen + rank {
                    return format!("input {name}: size of axis {}", at - seen);
                }
                seen += rank;
            }
        }
        "a size".to_owned()
    }
}

/// All plans, by the structure of the arguments.
#[derive(Default)]
pub(super) struct Structures(BySignature<Structure>);

impl Structures {
    pub(super) fn find(&self, inputs: &[Value], arguments: &Arguments) -> Option<&Arc<Structure>> {
        self.0.find(Inputs::Values(inputs), &arguments.open)
    }

    /// Says why there is no plan for these arguments.
    pub(super) fn reason(&self, inputs: &[Value], sizes: &[i64], arguments: &Arguments) -> String {
        if let Some(structure) = self.find(inputs, arguments) {
            return structure.reason(inputs, sizes, arguments);
        }
        match self.0.last() {
            Some(last) => last.signature.difference(inputs, &arguments.names),
            None => "first call".to_owned(),
        }
    }

    /// Returns the structures with a new or changed one, and how many plans had to go.
    pub(super) fn with(&self, structure: Structure, most_plans: usize) -> (Structures, u64) {
        let mut list = self.0.list().to_vec();
        let structure = Arc::new(structure);
        match list.iter().position(|other| Arc::ptr_eq(&other.identity, &structure.identity)) {
            Some(at) => list[at] = structure,
            None => list.push(structure),
        }
        let mut evicted = 0;
        while list.iter().map(|structure| structure.plans.len()).sum::<usize>() > most_plans {
            let each = list.iter().enumerate().flat_map(|(at, structure)| {
                let used = |plan: &Arc<Plan>| plan.used.load(Ordering::Relaxed);
                structure.plans.iter().enumerate().map(move |(i, plan)| (used(plan), at, i))
            });
            let Some((_, at, i)) = each.min() else { break };
            let mut rest = Structure::clone(&list[at]);
            rest.plans.remove(i);
            rest.index();
            if rest.plans.is_empty() {
                list.remove(at);
            } else {
                list[at] = Arc::new(rest);
            }
            evicted += 1;
        }
        (Structures(BySignature::new(list)), evicted)
    }

    pub(super) fn state(&self) -> Vec<StructureState> {
        let each = self.0.list().iter().map(|structure| StructureState {
            arguments: structure.signature.to_string(),
            plans: structure.plans.iter().map(|plan| plan.state()).collect(),
        });
        each.collect()
    }
}

/// The plans for arguments of one structure.
#[derive(Clone)]
pub(super) struct Structure {
    signature: Signature,
    /// Tells it from others, also after it has changed.
    identity: Arc<()>,
    plans: Vec<Arc<Plan>>,
    /// The static plans by their sizes, once there are many.
    by_sizes: FxHashMap<Sizes, usize>,
    /// The plan that was used last.
    last: Arc<AtomicUsize>,
    /// The sizes for which plans were made, the first ones and the last ones.
    seen: Vec<Sizes>,
    /// So many plans were made.
    pub(super) made: usize,
}

impl Signed for Structure {
    fn signature(&self) -> &Signature {
        &self.signature
    }
}

impl Structure {
    const MOST_SEEN: usize = 16;

    pub(super) fn new(inputs: &[Value], arguments: &Arguments) -> Structure {
        Structure {
            signature: Signature::of(inputs, &arguments.open),
            identity: Arc::new(()),
            plans: Vec::new(),
            by_sizes: FxHashMap::default(),
            last: Arc::default(),
            seen: Vec::new(),
            made: 0,
        }
    }

    /// Returns the plan for these sizes, the one that was used last first.
    pub(super) fn find(&self, sizes: &[i64]) -> Option<&Arc<Plan>> {
        let last = self.plans.get(self.last.load(Ordering::Relaxed));
        if let Some(last) = last.filter(|plan| plan.fits(sizes)) {
            return Some(last);
        }
        let others = |at: &usize| self.by_sizes.is_empty() || self.plans[*at].kind != PlanKind::Static;
        let found = self.by_sizes.get(sizes).copied();
        let found =
            found.or_else(|| (0..self.plans.len()).filter(others).find(|at| self.plans[*at].fits(sizes)))?;
        self.last.store(found, Ordering::Relaxed);
        Some(&self.plans[found])
    }

    fn index(&mut self) {
        self.by_sizes.clear();
        if self.plans.len() < INDEXED {
            return;
        }
        let known = |size: &Size| match size {
            Size::Is(n) => *n,
            Size::Symbol(_) => -1,
        };
        for (at, plan) in self.plans.iter().enumerate().filter(|(_, plan)| plan.kind == PlanKind::Static) {
            self.by_sizes.insert(plan.sizes.iter().map(known).collect(), at);
        }
    }

    /// Says why no plan has these sizes.
    fn reason(&self, inputs: &[Value], sizes: &[i64], arguments: &Arguments) -> String {
        let last = self.plans.get(self.last.load(Ordering::Relaxed)).or_else(|| self.plans.last());
        let Some(plan) = last else { return "the plan was dropped".to_owned() };
        let place = |at: usize| arguments.place(inputs, at);
        let mut values: SmallVec<[Option<i64>; 16]> = SmallVec::new();
        for (at, (size, got)) in plan.sizes.iter().zip(sizes).enumerate() {
            match *size {
                Size::Is(n) if n != *got => return format!("{} is {got}, planned for {n}", place(at)),
                Size::Is(_) => {}
                Size::Symbol(symbol) => {
                    let symbol = symbol as usize;
                    values.resize(values.len().max(symbol + 1), None);
                    match values[symbol] {
                        Some(n) if n != *got => {
                            return format!("{} is {got}, {n} by the other sizes", place(at));
                        }
                        _ => values[symbol] = Some(*got),
                    }
                }
            }
        }
        "the plan was dropped".to_owned()
    }

    /// Returns the structure with a plan for these sizes: of this kind, or of the next one that the rules of all
    /// operations allow. Fails if the arguments do not fit the module.
    pub(super) fn with_plan(
        mut self,
        module: &GraphModule,
        arguments: &Arguments,
        (inputs, sizes): (&[Value], &[i64]),
        (kind, reason): (PlanKind, String),
        options: &Options,
        call: u64,
    ) -> Result<(Structure, Arc<Plan>)> {
        let started = Instant::now();
        if self.seen.len() >= Structure::MOST_SEEN {
            self.seen.remove(1);
        }
        self.seen.push(Sizes::from_slice(sizes));
        let tries = match kind {
            PlanKind::Static => &[PlanKind::Static][..],
            PlanKind::Dynamic => &[PlanKind::Dynamic, PlanKind::Static],
            PlanKind::Open | PlanKind::General => &[PlanKind::Open, PlanKind::Dynamic, PlanKind::General],
        };
        let mut note = None;
        for (at, kind) in tries.iter().enumerate() {
            let pattern = self.pattern(*kind, sizes);
            // A pattern that a plan has been made of already, which did not fit, says nothing new.
            if *kind == PlanKind::Dynamic && pattern.symbols == 0 && tries.len() > at + 1 {
                continue;
            }
            let (types, shown) = types_of(inputs, arguments, &pattern, *kind);
            let program = module.specialize(&types).and_then(|module| module.into_program(options.engine));
            let program = match program {
                Ok(program) => program,
                Err(error) if at + 1 < tries.len() => {
                    note.get_or_insert_with(|| format!("no {kind} plan: {}", error.message()));
                    continue;
                }
                Err(error) => return Err(error),
            };
            if options.is_strict {
                check_strict(&program, inputs)?;
            }
            if *kind == PlanKind::General {
                let why = "the types are those that the module declares";
                note = Some(note.map_or_else(|| why.to_owned(), |note| format!("{why}; {note}")));
            }
            let plan = Arc::new(Plan {
                kind: *kind,
                sizes: pattern.sizes,
                inputs: shown,
                program,
                reason,
                note,
                time: started.elapsed(),
                hits: AtomicU64::new(0),
                used: AtomicU64::new(call),
            });
            // What the new plan serves as well, no other needs to.
            if matches!(kind, PlanKind::Open | PlanKind::General) {
                self.plans.retain(|other| other.kind == PlanKind::Static);
            }
            self.made += 1;
            self.plans.push(plan.clone());
            self.index();
            self.last.store(self.plans.len() - 1, Ordering::Relaxed);
            return Ok((self, plan));
        }
        Err(Error::new(ErrorKind::Graph, "no plan can be made"))
    }

    /// Returns which sizes are symbols in a plan of this kind.
    fn pattern(&self, kind: PlanKind, sizes: &[i64]) -> Pattern {
        let mut classes: Vec<Vec<i64>> = Vec::new();
        let mut pattern = Pattern { sizes: SmallVec::new(), symbols: 0 };
        for at in 0..sizes.len() {
            let values: Vec<i64> = self.seen.iter().map(|seen| seen[at]).collect();
            let varied = values.iter().any(|value| *value != values[0]);
            let is_symbol = match kind {
                PlanKind::Static => false,
                PlanKind::Dynamic | PlanKind::Open => varied,
                PlanKind::General => true,
            };
            if !is_symbol {
                pattern.sizes.push(Size::Is(sizes[at]));
                continue;
            }
            let known = match kind {
                PlanKind::Dynamic => classes.iter().position(|other| *other == values),
                _ => None,
            };
            let class = known.unwrap_or_else(|| {
                classes.push(values);
                classes.len() - 1
            });
            pattern.sizes.push(Size::Symbol(class as u32));
        }
        pattern.symbols = classes.len();
        pattern
    }
}

/// What a size must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Is(i64),
    Symbol(u32),
}

struct Pattern {
    sizes: SmallVec<[Size; 16]>,
    symbols: usize,
}

/// Returns a symbol of a plan, which has this name and range at first, or another name if that is taken.
fn named(symbols: &mut [Option<Symbol>], at: u32, first: &Symbol) -> Symbol {
    if let Some(known) = &symbols[at as usize] {
        return known.clone();
    }
    let mut symbol = first.clone();
    while symbols.iter().flatten().any(|other| other.name() == symbol.name()) {
        symbol = Symbol::new(format!("{}_", symbol.name())).ranged(symbol.min(), symbol.max());
    }
    symbols[at as usize] = Some(symbol.clone());
    symbol
}

/// Returns the types of the placeholders, and how they are shown.
fn types_of(
    inputs: &[Value],
    arguments: &Arguments,
    pattern: &Pattern,
    kind: PlanKind,
) -> (Vec<TypeTree>, Vec<String>) {
    let mut symbols: Vec<Option<Symbol>> = vec![None; pattern.symbols];
    let mut sizes = pattern.sizes.iter();
    let mut types = Vec::with_capacity(inputs.len());
    let mut shown = Vec::with_capacity(inputs.len());
    let declared = arguments.names.iter().zip(&arguments.types).zip(&arguments.integers);
    for (input, ((name, declared), integer)) in inputs.iter().zip(declared) {
        let declared = declared.as_ref().and_then(TypeTree::tensor);
        if let (Arg::Int(n), Some(symbol)) = (input, integer) {
            let ty = match sizes.next() {
                Some(Size::Symbol(at)) => TypeTree::Dim(Dim::symbol(named(&mut symbols, *at, symbol))),
                _ => TypeTree::Int(*n),
            };
            shown.push(format!("{name}: {ty}"));
            types.push(if kind == PlanKind::General { TypeTree::Leaf(Type::Any) } else { ty });
            continue;
        }
        let mut part = 0;
        let ty: TypeTree = input.map(&mut |tensor: &Tensor| {
            let Some(array) = tensor.shared_array() else { return Type::Any };
            let shape = (0..array.rank()).map(|axis| match sizes.next() {
                Some(Size::Symbol(at)) => {
                    let declared = declared.and_then(|ty| ty.shape.get(axis)?.as_symbol().cloned());
                    let symbol = declared.unwrap_or_else(|| match part {
                        0 => Symbol::new(size_name(name, axis)),
                        part => Symbol::new(size_name(&format!("{name}_{part}"), axis)),
                    });
                    Dim::symbol(named(&mut symbols, *at, &symbol))
                }
                Some(Size::Is(n)) => Dim::new(*n),
                None => Dim::new(array.shape()[axis] as i64),
            });
            let ty = TensorType { dtype: array.dtype(), shape: shape.collect() };
            part += 1;
            Type::Tensor(ty)
        });
        shown.push(format!("{name}: {ty}"));
        types.push(if kind == PlanKind::General { TypeTree::Leaf(Type::Any) } else { ty });
    }
    (types, shown)
}

/// Fails if an operation of the plan for these arguments has no kernel.
fn check_strict(program: &Program, inputs: &[Value]) -> Result<()> {
    let Some(compiled) = program.fused() else {
        return Err(Error::new(ErrorKind::Graph, "strict fusion: the engine eager has no kernels")
            .help("choose the engine fused or native"));
    };
    let tree = compiled.graph_module().graph().inputs().iter().all(|input| input.tree.leaf().is_some());
    if tree {
        compiled.prepare(inputs)?;
    }
    let left: Vec<String> = compiled
        .evaluated()
        .into_iter()
        .map(|(node, what)| match program.graph_module().graph().find(&node) {
            Some(node) => {
                match program.graph_module().graph().node(node).ok().and_then(|n| n.meta().source.clone()) {
                    Some(at) => format!("{what} at {at}"),
                    None => what,
                }
            }
            None => what,
        })
        .collect();
    if left.is_empty() {
        return Ok(());
    }
    let count = left.len();
    let plural = if count == 1 { "" } else { "s" };
    Err(Error::new(
        ErrorKind::Graph,
        format!("strict fusion: {count} operation{plural} without a kernel: {}", left.join(", ")),
    )
    .help("write them with operations that have kernels, or turn strict fusion off"))
}

/// A program for some sizes.
pub(super) struct Plan {
    kind: PlanKind,
    sizes: SmallVec<[Size; 16]>,
    inputs: Vec<String>,
    pub(super) program: Program,
    reason: String,
    note: Option<String>,
    time: Duration,
    pub(super) hits: AtomicU64,
    pub(super) used: AtomicU64,
}

impl Plan {
    fn fits(&self, sizes: &[i64]) -> bool {
        let mut values: SmallVec<[i64; 16]> = SmallVec::new();
        self.sizes.len() == sizes.len()
            && self.sizes.iter().zip(sizes).all(|(size, got)| match *size {
                Size::Is(n) => n == *got,
                Size::Symbol(symbol) => match values.get(symbol as usize) {
                    Some(known) => known == got,
                    // Symbols are numbered by first use.
                    None => {
                        values.push(*got);
                        true
                    }
                },
            })
    }

    fn state(&self) -> PlanState {
        PlanState {
            kind: self.kind,
            inputs: self.inputs.clone(),
            reason: self.reason.clone(),
            note: self.note.clone(),
            hits: self.hits.load(Ordering::Relaxed),
            time: self.time,
        }
    }
}
