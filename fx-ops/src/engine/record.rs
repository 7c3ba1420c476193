//! [`Record`]: how the sizes, operands and kernels of a plan were made, so that they are made again for other
//! sizes.
//!
//! While a graph is planned, each size and each window on a value is noted as expressions of symbols, and
//! each kernel as the function of sizes that made it. Binding the plan to other sizes evaluates the
//! expressions and calls the functions again, in order and without a look at the graph. What was decided in
//! between is as right for other sizes if they are equal to each other and to the numbers of the program in
//! the same places, and if operands lie alike; where that is not so, the graph is planned anew.

use fx_core::array::{Sizes, Strides, checked_numel, span};
use fx_core::window::Window;
use fx_core::{Arg, DType, Dim, Graph, OpCode, Result, Symbol, Type, TypeTree, bail};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::kernel::Kernel;
use super::operand::{Layout, NO_ID, Operand, OperandId, ValueId};
use super::plan_cache::Key;
use super::step::{Info, Source};

/// A size of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Known(usize),
    /// The expression of this number.
    Of(u32),
}

/// The sizes of a tensor.
pub(crate) type Shape = SmallVec<[Size; 4]>;

/// The sizes in arguments that are expressions, and their numbers.
pub(crate) type Holes = SmallVec<[(Dim, u32); 2]>;

/// Makes something of the numbers of a plan; `None` if that cannot be for these.
pub(crate) type Make<T> = Box<dyn Fn(&Instance) -> Result<Option<T>> + Send + Sync>;

/// A window on a value, with its sizes, distances and first element as they are known.
#[derive(Clone, Debug)]
pub(crate) struct SizedWindow {
    pub(crate) shape: Shape,
    strides: Shape,
    offset: Size,
}

/// The numbers of a plan.
#[derive(Default)]
pub(crate) struct Instance {
    /// Of the expressions.
    dims: Vec<i64>,
    pub(crate) values: Vec<Info>,
    pub(crate) operands: Vec<Operand>,
}

/// What was made.
pub(crate) enum Made {
    /// A value of these sizes.
    Value(Shape),
    /// A value of one axis.
    Line(Make<usize>),
    /// A window on a value, which lies so.
    Operand(ValueId, DType, SizedWindow, LayoutFacts),
    Kernel(Make<Box<dyn Kernel>>),
    /// The arguments of an evaluation.
    Args(Vec<Arg<Source>>, Holes),
}

/// How an operand lies, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayoutFacts {
    layout: Option<Layout>,
    is_contiguous: bool,
    has_channels_last: bool,
}

/// What a placeholder tells.
enum PlaceholderSizes {
    Tensor(DType, SmallVec<[Axis; 4]>),
    Int(Axis),
    Nothing,
}

#[derive(Clone, Copy)]
enum Axis {
    Known(i64),
    Symbol(u32),
    /// An expression, which is checked.
    Of(u32),
}

/// How a plan was made.
pub(crate) struct Record {
    told: Vec<PlaceholderSizes>,
    symbols: Vec<Symbol>,
    /// Their values in the plan that was recorded.
    values: Vec<Option<i64>>,
    dims: Vec<Dim>,
    /// Which expressions are sizes, and not only distances in memory.
    are_sizes: Vec<bool>,
    numbers: FxHashMap<Dim, u32>,
    /// The expressions that must not be negative.
    requires: Vec<u32>,
    /// The sizes that are numbers.
    known: Vec<i64>,
    made: Vec<Made>,
    /// Which sizes are equal.
    pattern: Vec<u32>,
    /// The bytes of all values of the plan that was recorded.
    bytes: usize,
    /// Whether all was recorded.
    is_complete: bool,
}

/// How many times more or fewer bytes the values of a plan may have than those of the one that it is bound
/// from: what runs side by side is chosen by how long it takes.
const SCALE: usize = 4;

/// What a bound plan has new.
pub(crate) struct NewInstance {
    pub(crate) instance: Instance,
    /// By the numbers of what was made.
    pub(crate) kernels: Vec<Option<Box<dyn Kernel>>>,
    pub(crate) args: Vec<Option<Vec<Arg<Source>>>>,
}

impl Instance {
    pub(crate) fn operand(&self, id: OperandId) -> Result<&Operand> {
        match self.operands.get(id as usize) {
            Some(operand) => Ok(operand),
            None => bail!(Graph, "an operand of a kernel is not one of the plan"),
        }
    }

    /// Returns a size that may be negative.
    pub(crate) fn number(&self, size: Size) -> i64 {
        match size {
            Size::Known(n) => n as i64,
            Size::Of(number) => self.dims[number as usize],
        }
    }

    pub(crate) fn size(&self, size: Size) -> Result<usize> {
        match size {
            Size::Known(n) => Ok(n),
            Size::Of(number) => match usize::try_from(self.dims[number as usize]) {
                Ok(n) => Ok(n),
                Err(_) => bail!(Shape, "a size is {}", self.dims[number as usize]),
            },
        }
    }

    pub(crate) fn sizes(&self, shape: &[Size]) -> Result<Sizes> {
        shape.iter().map(|size| self.size(*size)).collect()
    }

    /// Returns a window on a value as an operand; `None` if it reaches past the value. Kernels read where operands
    /// lie, and rules of views are users' code.
    pub(crate) fn window(&self, value: ValueId, dtype: DType, window: &SizedWindow) -> Option<Operand> {
        let shape = self.sizes(&window.shape).ok()?;
        let strides = window.strides.iter().map(|stride| isize::try_from(self.size(*stride).ok()?).ok());
        let strides: Strides = strides.collect::<Option<_>>()?;
        // A window without elements begins nowhere.
        let offset = if shape.contains(&0) { 0 } else { self.size(window.offset).ok()? };
        let end = span(&shape, &strides)?.checked_add(offset)?;
        let is_inside = shape.len() == strides.len() && end <= self.values.get(value as usize)?.numel;
        is_inside.then_some(Operand { value, dtype, shape, strides, offset, id: NO_ID })
    }

    /// Returns arguments with numbers in the place of expressions.
    pub(crate) fn fill<T: Clone>(&self, args: &[Arg<T>], holes: &Holes) -> Result<Vec<Arg<T>>> {
        if holes.is_empty() {
            return Ok(args.to_vec());
        }
        let number = |dim: &Dim| {
            let hole = holes.iter().find(|(other, _)| other == dim);
            hole.map(|(_, number)| Arg::Int(self.dims[*number as usize]))
        };
        let fill = |arg: &Arg<T>| {
            arg.try_rewrite(&mut |arg| match arg {
                Arg::Leaf(leaf) => Ok(Some(Arg::Leaf(leaf.clone()))),
                Arg::Dim(dim) => Ok(number(dim)),
                _ => Ok(None),
            })
        };
        args.iter().map(fill).collect()
    }
}

impl SizedWindow {
    /// A window on elements from the first on.
    pub(crate) fn known(shape: Shape, strides: Shape) -> SizedWindow {
        SizedWindow { shape, strides, offset: Size::Known(0) }
    }

    /// Returns a window whose numbers a function knows; it is told of each expression whether that is a size.
    pub(crate) fn of(
        window: &Window,
        size: &mut dyn FnMut(&Dim, bool) -> Option<Size>,
    ) -> Option<SizedWindow> {
        Some(SizedWindow {
            shape: window.shape.iter().map(|dim| size(dim, true)).collect::<Option<_>>()?,
            strides: window.strides.iter().map(|dim| size(dim, false)).collect::<Option<_>>()?,
            offset: size(&window.offset, false)?,
        })
    }
}

impl LayoutFacts {
    pub(crate) fn of(operand: &Operand) -> LayoutFacts {
        let (layout, is_contiguous) = (operand.layout(), operand.is_contiguous());
        let has_channels_last = match layout {
            Some(layout) => layout == Layout::ChannelsLast,
            None => operand.has_channels_last(),
        };
        LayoutFacts { layout, is_contiguous, has_channels_last }
    }
}

impl Record {
    /// Begins a record for inputs of these sizes; `None` if the graph has no symbols, or if these inputs do
    /// not tell them.
    pub(crate) fn new(graph: &Graph, key: &[Key], instance: &mut Instance) -> Option<Record> {
        let mut record = Record {
            told: Vec::new(),
            symbols: Vec::new(),
            values: Vec::new(),
            dims: Vec::new(),
            are_sizes: Vec::new(),
            numbers: FxHashMap::default(),
            requires: Vec::new(),
            known: vec![0, 1],
            made: Vec::new(),
            pattern: Vec::new(),
            bytes: 0,
            is_complete: true,
        };
        let types: Vec<&TypeTree> =
            graph.placeholders().into_iter().map(|id| graph.node(id).ok()?.ty()).collect::<Option<_>>()?;
        // Symbols that stand alone are told first.
        for (ty, key) in types.iter().zip(key) {
            let mut tell = |dim: &Dim, value: i64| {
                if let Some(symbol) = dim.as_symbol() {
                    let at = record.symbol(symbol);
                    record.values[at as usize].get_or_insert(value);
                }
            };
            match (ty, key) {
                (Arg::Leaf(Type::Tensor(ty)), Key::Tensor(_, sizes)) => {
                    ty.shape.iter().zip(sizes).for_each(|(dim, &size)| tell(dim, size as i64));
                }
                (Arg::Dim(dim), Key::Int(n)) => tell(dim, *n),
                _ => {}
            }
        }
        if record.symbols.is_empty() {
            return None;
        }
        for (ty, key) in types.iter().zip(key) {
            let told = match (ty, key) {
                (Arg::Leaf(Type::Tensor(ty)), Key::Tensor(..)) => {
                    let axes =
                        ty.shape.iter().map(|dim| record.axis(dim, instance)).collect::<Option<_>>()?;
                    PlaceholderSizes::Tensor(ty.dtype, axes)
                }
                (Arg::Dim(dim), Key::Int(_)) => PlaceholderSizes::Int(record.axis(dim, instance)?),
                (Arg::Leaf(_) | Arg::Int(_), _) => return None,
                (_, Key::Other) => PlaceholderSizes::Nothing,
                _ => return None,
            };
            record.told.push(told);
        }
        Some(record)
    }

    fn symbol(&mut self, symbol: &Symbol) -> u32 {
        let at = self.symbols.iter().position(|other| other.name() == symbol.name());
        at.unwrap_or_else(|| {
            self.symbols.push(symbol.clone());
            self.values.push(None);
            self.symbols.len() - 1
        }) as u32
    }

    fn axis(&mut self, dim: &Dim, instance: &mut Instance) -> Option<Axis> {
        Some(match (dim.known(), dim.as_symbol()) {
            (Some(n), _) => Axis::Known(n),
            (_, Some(symbol)) => {
                self.number(dim, instance)?;
                Axis::Symbol(self.symbol(symbol))
            }
            _ => Axis::Of(self.number(dim, instance)?),
        })
    }

    /// Returns the number of a size; `None` if it has no value.
    fn number(&mut self, dim: &Dim, instance: &mut Instance) -> Option<u32> {
        let number = self.expression(dim, instance)?;
        self.are_sizes[number as usize] = true;
        Some(number)
    }

    /// Returns the number of an expression; `None` if it has no value.
    fn expression(&mut self, dim: &Dim, instance: &mut Instance) -> Option<u32> {
        if let Some(&number) = self.numbers.get(dim) {
            return Some(number);
        }
        let value = dim.eval(&|symbol| self.value(symbol)).ok()?;
        let number = self.dims.len() as u32;
        self.dims.push(dim.clone());
        self.are_sizes.push(false);
        instance.dims.push(value);
        self.numbers.insert(dim.clone(), number);
        Some(number)
    }

    /// Returns whether all was recorded so far.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns an expression as a size, or as a distance in memory; `None` if it has no value.
    pub(crate) fn size(&mut self, dim: &Dim, is_size: bool, instance: &mut Instance) -> Option<Size> {
        let number = if is_size { self.number(dim, instance) } else { self.expression(dim, instance) };
        number.map(Size::Of)
    }

    /// Notes that an expression must not be negative, if it is not; returns whether it is not.
    pub(crate) fn require(&mut self, dim: &Dim, instance: &mut Instance) -> bool {
        let Some(number) = self.expression(dim, instance) else { return false };
        let holds = instance.dims[number as usize] >= 0;
        if holds {
            self.requires.push(number);
        }
        holds
    }

    /// Returns a window of a plan as expressions, on the memory of this number.
    pub(crate) fn expressions(&self, base: usize, window: &SizedWindow) -> Window {
        let dims = |sizes: &[Size]| sizes.iter().map(|size| self.dim(*size)).collect();
        let (shape, strides) = (dims(&window.shape), dims(&window.strides));
        Window { base, shape, strides, offset: self.dim(window.offset) }
    }

    /// Returns whether the inputs tell the value of a symbol.
    pub(crate) fn tells(&self, symbol: &Symbol) -> bool {
        self.value(symbol).is_some()
    }

    fn value(&self, symbol: &Symbol) -> Option<i64> {
        let at = self.symbols.iter().position(|other| other.name() == symbol.name())?;
        self.values[at]
    }

    /// Notes that something is not known for other sizes.
    pub(crate) fn give_up(&mut self) {
        self.is_complete = false;
    }

    /// Returns the sizes of a tensor of this type, which are these numbers in the plan that is recorded.
    pub(crate) fn shape(&mut self, ty: Option<&TypeTree>, sizes: &[usize], instance: &mut Instance) -> Shape {
        let dims = ty.and_then(TypeTree::tensor).map(|ty| &ty.shape).filter(|dims| dims.len() == sizes.len());
        let Some(dims) = dims else {
            self.give_up();
            return sizes.iter().map(|&n| Size::Known(n)).collect();
        };
        let mut shape = Shape::new();
        for (dim, &n) in dims.iter().zip(sizes) {
            shape.push(match dim.known() {
                Some(_) => Size::Known(n),
                None => match self.number(dim, instance) {
                    Some(number) if instance.dims[number as usize] == n as i64 => Size::Of(number),
                    _ => {
                        self.give_up();
                        Size::Known(n)
                    }
                },
            });
        }
        shape
    }

    /// Returns sizes as expressions.
    pub(crate) fn dims(&self, shape: &[Size]) -> fx_core::Shape {
        shape.iter().map(|size| self.dim(*size)).collect()
    }

    /// Returns a size as an expression.
    pub(crate) fn dim(&self, size: Size) -> Dim {
        match size {
            Size::Known(n) => Dim::from(n),
            Size::Of(number) => self.dims[number as usize].clone(),
        }
    }

    /// Numbers the sizes in arguments that are expressions.
    pub(crate) fn holes<T>(&mut self, args: &[Arg<T>], instance: &mut Instance) -> Holes {
        let mut found = Vec::new();
        let mut note = |arg: &Arg<T>| {
            if let Arg::Dim(dim) = arg {
                found.push(dim.clone());
            }
        };
        args.iter().for_each(|arg| arg.walk(&mut note));
        let mut holes = Holes::new();
        for dim in found {
            match self.number(&dim, instance) {
                Some(_) if holes.iter().any(|(other, _)| *other == dim) => {}
                Some(number) => holes.push((dim, number)),
                None => self.give_up(),
            }
        }
        holes
    }

    /// Returns how much was made.
    pub(crate) fn len(&self) -> usize {
        self.made.len()
    }

    /// Forgets what was made, but for the first things.
    pub(crate) fn truncate(&mut self, made: usize) {
        self.made.truncate(made);
    }

    pub(crate) fn note(&mut self, made: Made) -> u32 {
        self.made.push(made);
        self.made.len() as u32 - 1
    }

    /// Completes the record of a plan with these numbers, of a graph; `None` if it cannot be bound to other sizes.
    pub(crate) fn complete(mut self, graph: &Graph, instance: &mut Instance) -> Option<Record> {
        for (_, node) in graph.nodes().filter(|(_, node)| node.opcode() != OpCode::Output) {
            // Sizes that depend on data have no number.
            node.ty()?.for_each_leaf(&mut |ty| {
                let Type::Tensor(ty) = ty else { return };
                for dim in ty.shape.iter() {
                    match dim.known() {
                        Some(n) => self.known.push(n),
                        None => _ = self.number(dim, instance),
                    }
                }
            });
        }
        self.known.sort_unstable();
        self.known.dedup();
        self.pattern = self.pattern_of(&instance.dims);
        self.bytes = bytes(&instance.values);
        self.is_complete.then_some(self)
    }

    /// Returns for each size the first number or size that has the same value.
    fn pattern_of(&self, dims: &[i64]) -> Vec<u32> {
        let sizes = || dims.iter().zip(&self.are_sizes).filter(|(_, is_size)| **is_size).map(|(dim, _)| dim);
        let first = |(i, value): (usize, &i64)| match self.known.binary_search(value) {
            Ok(at) => at as u32,
            Err(_) => {
                let same = sizes().take(i).position(|other| other == value).unwrap_or(i);
                (self.known.len() + same) as u32
            }
        };
        sizes().enumerate().map(first).collect()
    }

    /// Returns the values of the expressions for inputs of these sizes; `None` if the plan is not for such.
    fn evaluate(&self, key: &[Key]) -> Option<Vec<i64>> {
        let mut values = vec![None; self.symbols.len()];
        let mut unchecked: SmallVec<[(u32, i64); 4]> = SmallVec::new();
        let mut tell = |axis: Axis, value: i64| match axis {
            Axis::Known(n) => n == value,
            Axis::Symbol(at) => {
                let symbol = &self.symbols[at as usize];
                let is_in_range = symbol.min() <= value && symbol.max().is_none_or(|max| value <= max);
                is_in_range && *values[at as usize].get_or_insert(value) == value
            }
            Axis::Of(number) => {
                unchecked.push((number, value));
                true
            }
        };
        if key.len() != self.told.len() {
            return None;
        }
        for (told, key) in self.told.iter().zip(key) {
            let fits = match (told, key) {
                (PlaceholderSizes::Tensor(dtype, axes), Key::Tensor(given, sizes)) => {
                    dtype == given
                        && axes.len() == sizes.len()
                        && axes.iter().zip(sizes).all(|(axis, &size)| tell(*axis, size as i64))
                }
                (PlaceholderSizes::Int(axis), Key::Int(n)) => tell(*axis, *n),
                (PlaceholderSizes::Nothing, Key::Other) => true,
                _ => false,
            };
            if !fits {
                return None;
            }
        }
        let value = |symbol: &Symbol| {
            let at = self.symbols.iter().position(|other| other.name() == symbol.name())?;
            values[at]
        };
        let dims: Vec<i64> = self.dims.iter().map(|dim| dim.eval(&value).ok()).collect::<Option<_>>()?;
        if self.requires.iter().any(|number| dims[*number as usize] < 0) {
            return None;
        }
        let is_right = |(number, value): &(u32, i64)| dims[*number as usize] == *value;
        (unchecked.iter().all(is_right) && self.pattern_of(&dims) == self.pattern).then_some(dims)
    }

    /// Makes all for inputs of other sizes; `values` are those of the plan. `None` if they differ in what
    /// decisions depend on.
    pub(crate) fn bind(&self, key: &[Key], values: &[Info]) -> Result<Option<NewInstance>> {
        let Some(dims) = self.evaluate(key) else { return Ok(None) };
        let mut instance = Instance { dims, ..Instance::default() };
        let n = self.made.len();
        let mut kernels = Vec::with_capacity(n);
        let mut args = Vec::with_capacity(n);
        for made in &self.made {
            let (mut kernel, mut filled) = (None, None);
            match made {
                Made::Value(_) | Made::Line(_) => {
                    let shape: Sizes = match made {
                        Made::Line(make) => match make(&instance)? {
                            Some(len) => [len].into_iter().collect(),
                            None => return Ok(None),
                        },
                        Made::Value(shape) => instance.sizes(shape)?,
                        _ => Sizes::new(),
                    };
                    let Info { home, dtype, .. } = &values[instance.values.len()];
                    let numel = checked_numel(&shape)?;
                    instance.values.push(Info { home: home.clone(), dtype: *dtype, shape, numel });
                }
                Made::Operand(value, dtype, window, lies) => {
                    let operand = instance.window(*value, *dtype, window);
                    let Some(operand) = operand.filter(|operand| LayoutFacts::of(operand) == *lies) else {
                        return Ok(None);
                    };
                    let id = instance.operands.len() as OperandId;
                    instance.operands.push(Operand { id, ..operand });
                }
                Made::Kernel(make) => match make(&instance)? {
                    Some(made) => kernel = Some(made),
                    None => return Ok(None),
                },
                Made::Args(args, holes) => filled = Some(instance.fill(args, holes)?),
            }
            kernels.push(kernel);
            args.push(filled);
        }
        let (before, now) = (self.bytes.max(1), bytes(&instance.values).max(1));
        let is_alike = now <= before.saturating_mul(SCALE) && before <= now.saturating_mul(SCALE);
        Ok(is_alike.then_some(NewInstance { instance, kernels, args }))
    }
}

/// Returns the bytes of all values that are no constants.
fn bytes(values: &[Info]) -> usize {
    let own = values.iter().filter(|info| !matches!(info.home, super::step::Home::Constant(_)));
    own.map(|info| info.numel * info.dtype.size()).fold(0, usize::saturating_add)
}
