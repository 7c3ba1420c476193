//! Building a random program call by call: each call is also computed at once, so whatever is kept is known
//! to run, and later calls can be chosen by the values that they will get.
//!
//! A call that the shape rule or the kernel refuses is taken back and leaves no trace but the random numbers
//! it used.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use crate::opcheck::{Sample, guarded, samples};
use crate::ops::with_printed;
use crate::testing::Rng;
use crate::{
    Arg, Array, Attribute, Buffer, DType, Dim, Generator, Graph, GraphModule, Kind, ModuleFrame, NodeId, Op,
    Parameter, Registry, Result, Scalar, Shape, Stored, Symbol, Target, Tensor, TensorType, Type, TypeTree,
    Value, with_generator,
};

/// The most elements of a tensor.
const MOST_ELEMENTS: usize = 2048;
/// The greatest magnitude of floats in programs without infinities.
const GREATEST: f64 = 1e4;
/// The greatest magnitude of 16-bit floats in programs without infinities.
const GREATEST_HALF: f64 = 500.0;

/// Returns the built-in operations.
pub(super) fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(crate::registry)
}

/// Returns the built-in operation of this name.
pub(super) fn op(name: &str) -> Op {
    registry().get(name).unwrap_or_else(|| panic!("the generator uses the operation {name}, which there is"))
}

/// Operations with arguments that they take.
pub(super) fn vocabulary() -> &'static [(Op, Vec<Sample>)] {
    static VOCABULARY: OnceLock<Vec<(Op, Vec<Sample>)>> = OnceLock::new();
    VOCABULARY.get_or_init(|| {
        let is_plain = |op: &Op| {
            let runs_graphs = op.params.iter().any(|param| param.kind == Kind::Graph);
            // The operands of a gufunc have dtypes and sizes of its signature, which other nodes seldom give.
            !runs_graphs && !op.effects.host && !op.effects.state && op.gufunc.is_none()
        };
        let known = registry().iter().filter(is_plain);
        known.filter_map(|op| Some((op, samples(op).ok().filter(|found| !found.is_empty())?))).collect()
    })
}

/// A program that is being made.
pub(super) struct Builder {
    pub(super) rng: Rng,
    pub(super) gm: GraphModule,
    /// What each node gives for the first inputs.
    pub(super) values: HashMap<NodeId, Value>,
    /// The nodes that are tensors.
    pub(super) pool: Vec<NodeId>,
    /// The first inputs.
    pub(super) inputs: Vec<Value>,
    /// What is wrong with an operation: it panicked, or its shape rule says something else than its kernel.
    pub(super) problem: Option<String>,
    /// Whether it is a closed sub-graph, which reads no attributes.
    pub(super) is_closed: bool,
    /// Whether infinities and large numbers may occur.
    pub(super) is_wild: bool,
    /// How deep regions and modules may be nested below.
    pub(super) nesting: usize,
    /// The nodes in the order in which they were made.
    log: Vec<NodeId>,
    generator: Generator,
    sizes: Vec<(Symbol, i64)>,
    n_names: usize,
}

impl Builder {
    pub(super) fn new(name: &str, seed: u64, nesting: usize) -> Builder {
        Builder {
            rng: Rng::new(seed),
            gm: GraphModule::new("Fuzz", Graph::new(name)),
            values: HashMap::new(),
            pool: Vec::new(),
            inputs: Vec::new(),
            problem: None,
            is_closed: false,
            is_wild: false,
            nesting,
            log: Vec::new(),
            generator: Generator::seeded(seed),
            sizes: Vec::new(),
            n_names: 0,
        }
    }

    /// Makes the builder of a part of this program with placeholders for these nodes.
    pub(super) fn part(&mut self, name: &str, operands: &[NodeId], is_closed: bool) -> Option<Builder> {
        let mut part = Builder::new(name, self.rng.bits(), self.nesting.checked_sub(1)?);
        (part.is_closed, part.is_wild, part.sizes) = (is_closed, self.is_wild, self.sizes.clone());
        self.give(&mut part, operands)?;
        Some(part)
    }

    /// Gives a sub-graph an argument for each operand.
    pub(super) fn give(&self, part: &mut Builder, operands: &[NodeId]) -> Option<()> {
        for (i, id) in operands.iter().enumerate() {
            let (ty, value) = (self.ty(*id)?.clone(), self.values.get(id)?.clone());
            part.input(&format!("a{i}"), ty, value);
        }
        Some(())
    }

    /// Adds an argument of this type, which is this value in the first run.
    pub(super) fn input(&mut self, name: &str, ty: TypeTree, value: Value) -> NodeId {
        let id = self.gm.graph_mut().placeholder(name).expect("the names of arguments differ");
        self.inputs.push(value.clone());
        self.keep(id, ty, value);
        id
    }

    /// Adds an argument with two tensors in it.
    pub(super) fn pair(&mut self, name: &str, ty: &TypeTree, values: [Value; 2]) {
        let (a, b) = (Arg::Leaf(()), Arg::Leaf(()));
        let structure = if self.rng.one_in(2) { Arg::tuple([a, b]) } else { Arg::dict([("a", a), ("b", b)]) };
        let tree = self.gm.graph_mut().structured_input(name, &structure).expect("the names differ");
        let mut next = values.iter();
        let value = tree.try_flat_map(&mut |_| Ok(next.next().cloned().unwrap_or(Arg::None)));
        self.inputs.push(value.unwrap_or(Arg::None));
        for (id, value) in tree.leaves().into_iter().zip(values) {
            self.keep(*id, ty.clone(), value);
        }
    }

    fn keep(&mut self, id: NodeId, ty: TypeTree, value: Value) {
        if matches!(value, Arg::Leaf(_)) {
            self.pool.push(id);
        }
        let meta = self.gm.graph_mut().meta_mut(id).expect("the node is live");
        meta.ty = Some(Arc::new(ty));
        self.values.insert(id, value);
        self.log.push(id);
    }

    pub(super) fn ty(&self, id: NodeId) -> Option<&TypeTree> {
        self.gm.graph().node(id).ok()?.ty()
    }

    pub(super) fn tensor_type(&self, id: NodeId) -> Option<&TensorType> {
        self.ty(id)?.tensor()
    }

    /// Returns the tensor that a node is in the first run.
    pub(super) fn tensor(&self, id: NodeId) -> Option<&Array> {
        self.values.get(&id)?.leaf()?.array().ok()
    }

    /// Returns one of the latest tensors, or of all.
    pub(super) fn pick(&mut self) -> Option<NodeId> {
        let n = self.pool.len();
        let latest = if self.rng.one_in(4) { 0 } else { n.saturating_sub(6) };
        (n > 0).then(|| {
            let i = latest + self.rng.below(n - latest);
            self.pool[i]
        })
    }

    /// Returns a tensor for which a condition holds.
    pub(super) fn pick_where(&mut self, holds: impl Fn(&Self, NodeId) -> bool) -> Option<NodeId> {
        let fitting: Vec<NodeId> = self.pool.iter().copied().filter(|id| holds(self, *id)).collect();
        (!fitting.is_empty()).then(|| self.rng.pick(&fitting))
    }

    /// Returns a symbolic size, a new one or one that there is.
    pub(super) fn symbol(&mut self) -> Dim {
        if self.sizes.len() < 2 && (self.sizes.is_empty() || self.rng.one_in(3)) {
            let size = self.rng.pick(&[1, 2, 3, 4, 5]);
            self.sizes.push((Symbol::new(["n", "m"][self.sizes.len()]), size));
        }
        let (symbol, _) = self.rng.pick(&self.sizes);
        Dim::symbol(symbol)
    }

    /// Returns a size: 1 and 2 mostly, primes, and now and then 0.
    pub(super) fn size(&mut self) -> Dim {
        if self.rng.one_in(24) {
            return Dim::new(0);
        }
        let size = self.rng.pick(&[1i64, 2, 2, 3, 3, 4, 4, 5, 7]);
        Dim::new(size)
    }

    /// Returns the number that a size is in the first run.
    pub(super) fn known(&self, dim: &Dim) -> Option<i64> {
        let size = |symbol: &Symbol| self.sizes.iter().find(|(other, _)| other == symbol);
        dim.eval(&|symbol| size(symbol).map(|(_, size)| *size)).ok()
    }

    /// Returns whether a size among arguments has a value where this part runs: a type in it tells that of
    /// each symbol.
    fn is_told(&self, dim: &Dim) -> bool {
        let told = |ty: &TypeTree, symbol: &Symbol| {
            let types = ty.leaves().into_iter().filter_map(|leaf| leaf.tensor());
            types.flat_map(|ty| ty.shape.iter()).any(|dim| {
                self.known(dim).and_then(|size| dim.solve(size)).is_some_and(|(other, _)| other == *symbol)
            })
        };
        let types = self.gm.graph().nodes().filter_map(|(_, node)| node.ty());
        dim.symbols().iter().all(|symbol| types.clone().any(|ty| told(ty, symbol)))
    }

    fn known_shape(&self, shape: &Shape) -> Option<Vec<usize>> {
        shape.iter().map(|dim| usize::try_from(self.known(dim)?).ok()).collect()
    }

    /// Makes a tensor of a type.
    pub(super) fn fresh(&mut self, ty: &TensorType) -> Option<Tensor> {
        let shape = self.known_shape(&ty.shape)?;
        let is_wild = self.is_wild;
        random_tensor(&mut self.rng, ty.dtype, &shape, is_wild).ok()
    }

    /// Brings a tensor into the program: as an attribute, or as an argument.
    pub(super) fn outside(&mut self, value: Tensor) -> Option<NodeId> {
        if self.is_closed {
            return None;
        }
        let ty = TypeTree::from(value.ty().ok()?);
        self.n_names += 1;
        if self.rng.one_in(5) {
            return Some(self.input(&format!("in{}", self.n_names), ty, Arg::Leaf(value)));
        }
        let prefix = self.rng.pick(&["w", "layers.0.weight", "bias", "0.running_mean"]);
        let path = format!("{prefix}{}", self.n_names);
        let attribute = match self.rng.below(5) {
            0 => Attribute::Buffer(Buffer::new(value.clone())),
            1 => Attribute::Constant(value.clone()),
            _ => Attribute::Parameter(Parameter::new(value.clone())),
        };
        self.gm.set_attribute(&path, attribute).ok()?;
        self.read(&path)
    }

    /// Reads an attribute.
    pub(super) fn read(&mut self, path: &str) -> Option<NodeId> {
        let value = self.gm.attr(path).ok()?;
        let id = self.gm.graph_mut().get_attr(path).ok()?;
        self.keep(id, value.ty().ok()?.into(), Arg::Leaf(value));
        Some(id)
    }

    /// Returns a name that was not used before.
    pub(super) fn name(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    /// Marks a place to go back to.
    pub(super) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Returns the nodes that were made since.
    pub(super) fn since(&self, mark: usize) -> &[NodeId] {
        &self.log[mark..]
    }

    /// Takes back what was made since.
    pub(super) fn back_to(&mut self, mark: usize) {
        for id in self.log.split_off(mark).into_iter().rev() {
            let is_call =
                self.gm.graph().node(id).is_ok_and(|node| node.opcode() != crate::OpCode::Placeholder);
            if is_call && self.gm.graph_mut().erase(id).is_ok() {
                self.values.remove(&id);
                self.pool.retain(|other| *other != id);
            }
        }
    }

    /// Says that the nodes since were recorded in one call of a module.
    pub(super) fn frame(&mut self, mark: usize, path: &str) {
        let frame =
            ModuleFrame { path: Arc::from(path), type_name: Arc::from("Block"), call: 0, source: None };
        let stack: Arc<[ModuleFrame]> = Arc::from([frame]);
        for &id in &self.log[mark..] {
            let node = self.gm.graph().node(id);
            if node.is_ok_and(|node| node.opcode() == crate::OpCode::Placeholder) {
                continue;
            }
            if let Ok(meta) = self.gm.graph_mut().meta_mut(id) {
                meta.stack = Some(stack.clone());
            }
        }
    }

    /// Calls an operation by name with arguments by position.
    pub(super) fn apply(&mut self, name: &str, args: impl IntoIterator<Item = Arg>) -> Option<NodeId> {
        let op = op(name);
        let args: Vec<Arg> = args.into_iter().collect();
        let bound = op.bind(&args, &[] as &[(&str, Arg)]).ok()?;
        self.call(op, bound)
    }

    /// Calls an operation with arguments in schema order, spelled in any way; `None` if it does not fit.
    pub(super) fn call(&mut self, op: Op, bound: Vec<Arg>) -> Option<NodeId> {
        let values = bound.iter().map(|arg| self.value_of(arg)).collect::<Option<Vec<Value>>>()?;
        let mut is_told = true;
        bound.iter().for_each(|arg| {
            arg.walk(&mut |arg| is_told &= !matches!(arg, Arg::Dim(dim) if !self.is_told(dim)))
        });
        if !is_told {
            return None;
        }
        let (args, kwargs) = self.spell(op, &bound);
        let is_method = op.method && matches!(args.first(), Some(Arg::Leaf(_))) && self.rng.one_in(3);
        let target = if is_method { Target::CallMethod(op) } else { Target::CallFunction(op) };
        let id = self.gm.graph_mut().create(target, args, kwargs, None).ok()?;
        let eval = |generator: &Generator| {
            let run = || with_generator(generator, || (op.eval)(&values));
            match op == crate::ops::set_buffer::OP {
                true => Ok(Arg::None),
                false => with_printed(|| guarded(run)).0,
            }
        };
        self.settle(id, op.name, eval)
    }

    /// Calls a sub-module; `None` if it does not fit.
    pub(super) fn call_module(&mut self, path: &str, args: Vec<Arg>) -> Option<NodeId> {
        let values = args.iter().map(|arg| self.value_of(arg)).collect::<Option<Vec<Value>>>()?;
        let id = self.gm.graph_mut().call_module(path, args).ok()?;
        // A copy, since the call may update buffers.
        let copy = self.gm.clone();
        let run = || copy.child(path)?.forward_values(&values);
        let eval = |generator: &Generator| with_printed(|| guarded(|| with_generator(generator, run))).0;
        self.settle(id, path, eval)
    }

    /// Finds type and value of a new call, and keeps it if it has both.
    fn settle(
        &mut self,
        id: NodeId,
        what: &str,
        eval: impl FnOnce(&Generator) -> Result<Value>,
    ) -> Option<NodeId> {
        let made = self.type_of_new(id).filter(|ty| self.is_small(ty)).and_then(|ty| {
            let value = eval(&self.generator);
            if let Err(error) = &value
                && error.message().contains("panicked: ")
            {
                self.problem.get_or_insert_with(|| format!("{what}: {}", error.message()));
            }
            let value = value.ok().filter(|value| value.error().is_none())?;
            if value.leaves().iter().any(|tensor| !self.is_tame(tensor)) {
                return None;
            }
            if !self.agrees(&ty, &value) {
                let line = self.gm.graph().format_node(id).unwrap_or_default();
                self.problem.get_or_insert_with(|| {
                    format!("{what}: the shape rule says {ty}, the kernel gives {value}, at {line}")
                });
            }
            Some((ty, value))
        });
        let Some((ty, value)) = made else {
            let _ = self.gm.graph_mut().erase(id);
            return None;
        };
        let leaves = match &ty {
            Arg::Tuple(items) | Arg::List(items) => items.len(),
            _ => 0,
        };
        self.keep(id, ty, value);
        for i in 0..leaves.min(4) {
            self.apply("getitem", [Arg::Leaf(id), Arg::Int(i as i64)]);
        }
        Some(id)
    }

    fn type_of_new(&mut self, id: NodeId) -> Option<TypeTree> {
        match self.gm.infer_node(id) {
            Err(_) => None,
            Ok(Some(ty)) => Some(ty),
            // A size that depends on data needs a name that is free in the whole graph.
            Ok(None) => {
                let any = vec![Arg::Leaf(Type::Any); self.gm.graph().placeholders().len()];
                let found = self.gm.infer(&any).ok()?;
                let (_, ty) = found.into_iter().find(|(other, _)| *other == id)?;
                ty.is_complete().then_some(ty)
            }
        }
    }

    fn is_small(&self, ty: &TypeTree) -> bool {
        ty.leaves().into_iter().filter_map(Type::tensor).all(|ty| {
            let numel = ty.shape.iter().try_fold(1i64, |n, dim| n.checked_mul(self.known(dim).unwrap_or(4)));
            numel.is_some_and(|n| n <= MOST_ELEMENTS as i64)
        })
    }

    fn is_tame(&self, tensor: &Tensor) -> bool {
        let Ok(array) = tensor.array() else { return false };
        if array.numel() > MOST_ELEMENTS {
            return false;
        }
        if self.is_wild || !array.dtype().is_float() {
            return true;
        }
        let is_half = matches!(array.dtype(), DType::F16 | DType::BF16);
        let greatest = if is_half { GREATEST_HALF } else { GREATEST };
        array.iter_scalars().all(|x| x.to_f64().abs() <= greatest)
    }

    /// Returns whether a value is of a type, as far as sizes are known.
    fn agrees(&self, ty: &TypeTree, value: &Value) -> bool {
        match (ty, value) {
            (Arg::Leaf(Type::Tensor(ty)), Arg::Leaf(tensor)) => tensor.array().is_ok_and(|array| {
                let same = |(dim, size): (&Dim, &usize)| self.known(dim).is_none_or(|n| n == *size as i64);
                array.dtype() == ty.dtype
                    && array.rank() == ty.rank()
                    && ty.shape.iter().zip(array.shape()).all(same)
            }),
            (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| self.agrees(a, b))
            }
            _ => true,
        }
    }

    /// Returns what an argument is in the first run.
    fn value_of(&self, arg: &Arg) -> Option<Value> {
        let value = arg.try_rewrite(&mut |arg| {
            Ok(match arg {
                Arg::Leaf(id) => Some(self.values.get(id).cloned().unwrap_or(Arg::None)),
                Arg::Dim(dim) => Some(self.known(dim).map_or(Arg::None, Arg::Int)),
                _ => None,
            })
        });
        value.ok()
    }

    /// Writes a call by position, by name, with or without what is the default.
    fn spell(&mut self, op: Op, bound: &[Arg]) -> crate::op::Spelled<NodeId> {
        let (args, kwargs) = op.spell(bound);
        if !self.rng.one_in(4) {
            return (args, kwargs);
        }
        let n_positional = op.params.iter().filter(|param| !param.keyword_only).count();
        let n = args.len().max(self.rng.below(n_positional + 1)).min(bound.len());
        let mut kwargs = Vec::new();
        for (param, arg) in op.params.iter().zip(bound).skip(n) {
            let is_default = param.default.is_some_and(|default| default.is(arg));
            if !is_default || self.rng.one_in(3) {
                kwargs.push((Arc::from(param.name), arg.clone()));
            }
        }
        (bound[..n].to_vec(), kwargs)
    }
}

/// Makes a tensor with random elements: floats up to 2, now and then zeros of both signs, in wild programs
/// infinities and NaNs too; integers up to 2, which are indices of most things.
pub(super) fn random_tensor(rng: &mut Rng, dtype: DType, shape: &[usize], is_wild: bool) -> Result<Tensor> {
    const WILD: &[f64] = &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-40, 3e38, -1e20, 65504.0];
    let n: usize = shape.iter().product();
    let special = rng.one_in(4);
    let array = crate::array::dispatch_dtype!(dtype, T => {
        let data: Vec<T> = (0..n).map(|_| {
            let bits = rng.bits();
            let x = (bits >> 11) as f64 / (1u64 << 53) as f64;
            T::from_scalar(match dtype {
                DType::Bool => Scalar::Bool(bits & 1 == 1),
                dtype if dtype.is_float() => Scalar::Float(match bits & 31 {
                    0 if special => 0.0,
                    1 if special => -0.0,
                    2 | 3 if is_wild && special => WILD[(bits >> 8) as usize % WILD.len()],
                    _ => 4.0 * x - 2.0,
                }),
                _ => Scalar::Int((bits % 3) as i64),
            })
        }).collect();
        Array::from_vec(data, shape)?
    });
    Ok(Tensor::from(array))
}
