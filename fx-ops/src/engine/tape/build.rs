//! Makes a tape of the pointwise and row operations of a graph.

use fx_core::op::kind::OperandType;
use fx_core::pointwise::{Compute, PointwiseDef, Rule, result_dtype_of_types};
use fx_core::{Arg, Class, DType, Graph, NodeId, OpCode, Result, Scalar, Stored, TensorType, TypeTree, bail};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::pass::{Part, Pass, join};
use super::{Action, Extent, Instruction, Load, Map, RowKind, Spot, Store, Tape, converter};
use crate::engine::operand::{Layout, Operand, ValueId};

/// The bytes of registers that a unit may have in the first cache.
const CACHE: usize = 32 << 10;

/// The most and the fewest elements of a unit that is no row.
const UNIT: std::ops::RangeInclusive<usize> = 256..=4096;

/// The elements that short rows have together in a unit,
const ROWS: usize = 1024;
/// if they are only read,
const ROWS_READ: usize = 1 << 13;
/// and if there is only one instruction.
const ROWS_ALONE: usize = 1 << 15;

/// Runs of operands shorter than this are gathered.
const SHORTEST_RUN: usize = 64;

/// The longest row that is kept in registers.
pub(crate) const LONGEST_ROW: usize = 1 << 16;

/// Returns the operation on rows that a call is, and over how many of the last axes of its first operand, which is of type `x`.
pub(crate) fn row_kind(op: fx_core::Op, bound: &[Arg], x: &TensorType) -> Option<(RowKind, usize)> {
    if !matches!(x.dtype, DType::F32 | DType::F64) || x.rank() == 0 {
        return None;
    }
    let rank = x.rank();
    let same_dtype =
        |arg: &Arg| matches!(arg, Arg::None) || matches!(arg, Arg::DType(dtype) if *dtype == x.dtype);
    let is_last = |arg: &Arg| matches!(arg, Arg::Int(axis) if *axis == -1 || *axis == rank as i64 - 1);
    let float = |arg: &Arg| match arg {
        Arg::Float(x) => Some(*x),
        Arg::Int(x) => Some(*x as f64),
        _ => None,
    };
    match (op.name, bound) {
        ("softmax", [_, dim, dtype])
            if op == crate::norm::softmax::OP && is_last(dim) && same_dtype(dtype) =>
        {
            Some((RowKind::Softmax, 1))
        }
        ("log_softmax", [_, dim, dtype])
            if op == crate::norm::log_softmax::OP && is_last(dim) && same_dtype(dtype) =>
        {
            Some((RowKind::LogSoftmax, 1))
        }
        ("layer_norm", [_, shape, weight, bias, eps]) if op == crate::norm::layer_norm::OP => {
            let n = shape.items().map_or(1, <[Arg]>::len);
            let [weight, bias] = [weight, bias].map(|arg| !matches!(arg, Arg::None));
            (n > 0).then_some((RowKind::LayerNorm { eps: float(eps)?, weight, bias }, n))
        }
        ("rms_norm", [_, shape, weight, eps]) if op == crate::norm::rms_norm::OP => {
            let n = shape.items().map_or(1, <[Arg]>::len);
            let default = if x.dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
            let eps = if matches!(eps, Arg::None) { default } else { float(eps)? };
            (n > 0).then_some((RowKind::RmsNorm { eps, weight: !matches!(weight, Arg::None) }, n))
        }
        (name, [_, dim, _, rest @ ..])
            if matches!(op.class, Class::Reduce) && rest.iter().all(same_dtype) =>
        {
            let kind = match name {
                "sum" if op == crate::reduce::sum::OP => RowKind::Sum,
                "mean" if op == crate::reduce::mean::OP => RowKind::Mean,
                "amax" if op == crate::reduce::amax::OP => RowKind::Amax,
                "amin" if op == crate::reduce::amin::OP => RowKind::Amin,
                _ => return None,
            };
            let axis = |arg: &Arg| match arg {
                Arg::Int(axis) => fx_core::ops::axis(*axis, rank).ok(),
                _ => None,
            };
            let mut axes: Vec<usize> = match dim {
                Arg::None => (0..rank).collect(),
                Arg::Int(_) => vec![axis(dim)?],
                _ => dim.items()?.iter().map(axis).collect::<Option<_>>()?,
            };
            axes.sort_unstable();
            axes.dedup();
            let n = axes.len();
            (n > 0 && axes.into_iter().eq(rank - n..rank)).then_some((kind, n))
        }
        _ => None,
    }
}

/// Returns mask and choices of a call that chooses between two operands element by element, in this order.
pub(crate) fn select_of(op: fx_core::Op, bound: &[Arg]) -> Option<[&Arg; 3]> {
    match bound {
        [mask, yes, no] if op == crate::view::where_::OP => Some([mask, yes, no]),
        [no, mask, yes @ (Arg::Float(_) | Arg::Int(_))] if op == crate::view::masked_fill::OP => {
            Some([mask, yes, no])
        }
        _ => None,
    }
}

/// Returns whether a choice can be an instruction, from the types of the operands and of the result.
pub(crate) fn is_select(args: [&Arg; 3], ty: impl Fn(&Arg) -> Option<TensorType>, out: &TensorType) -> bool {
    let is_half = |dtype: DType| matches!(dtype, DType::F16 | DType::BF16);
    let is_fine = |arg: &Arg| match arg {
        Arg::Leaf(_) => ty(arg).is_some_and(|ty| !is_half(ty.dtype)),
        // A number is one that the dtype can hold.
        Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) => out.dtype.is_float(),
        _ => false,
    };
    !is_half(out.dtype) && args.into_iter().all(is_fine)
}

/// Returns whether an operation of this dtype of result and these types of operands can be an instruction, with the dtype in which it is
/// computed.
pub(crate) fn map_dtype(def: &PointwiseDef, operands: &[OperandType<'_>]) -> Option<DType> {
    let is_half = |dtype: DType| matches!(dtype, DType::F16 | DType::BF16);
    let any_half = operands.iter().any(|x| matches!(x, OperandType::Tensor(ty) if is_half(ty.dtype)));
    let all_numbers = operands.iter().all(|x| matches!(x, OperandType::Scalar(_)));
    if any_half || all_numbers {
        return None;
    }
    let dtype = def.compute_dtype(result_dtype_of_types(operands)).ok()?;
    (!is_half(dtype) && (def.check.is_none() || dtype.is_float())).then_some(dtype)
}

/// What a value of the group is: its elements are those of the domain, or one for each row.
#[derive(Clone)]
struct Found {
    /// A virtual register, or a load.
    what: What,
    ty: TensorType,
    per_row: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum What {
    Virtual(u32),
    Outside(u32),
}

/// A register before it has a place.
struct Register {
    per_row: bool,
    size: usize,
}

struct Builder<'a> {
    operands: &'a [Operand],
    domain: Vec<usize>,
    /// The order in which the axes of the domain are walked.
    layout: Layout,
    numel: usize,
    row: usize,
    has_rows: bool,
    /// How many of the last axes make a row.
    n_axes: usize,
    registers: Vec<Register>,
    /// Instructions on virtual registers (`Spot::Register` is their number).
    instructions: Vec<Instruction>,
    loads: Vec<Load>,
    load_keys: FxHashMap<(u32, Extent, Vec<usize>), u16>,
    numbers: Vec<(u64, usize)>,
    converted: FxHashMap<(What, DType, bool), u32>,
    repeated: FxHashMap<u32, u32>,
}

fn sizes(ty: &TensorType) -> Option<SmallVec<[usize; 4]>> {
    ty.shape.known()
}

/// Makes a tape of all nodes of a graph whose placeholders are the operands; `stores` are the values for what it returns, in order.
///
/// The nodes in `given` are not computed but found there. With an `anchor`, which is one of them, the tape changes parts of its value, and
/// its domain is that of the anchor, of which this many of the last axes in memory make a row. Results lie as the layout says. A graph that
/// is no tape gives `None`.
pub(crate) fn build(
    graph: &Graph,
    types: &FxHashMap<NodeId, TypeTree>,
    operands: &[Operand],
    given: &[(NodeId, Operand)],
    anchor: Option<(NodeId, usize)>,
    stores: &[ValueId],
    layout: Layout,
) -> Result<Option<Tape>> {
    let ty = |id: NodeId| types.get(&id).and_then(TypeTree::tensor).cloned();
    // The domain is that of the largest result, or of what is reduced.
    let mut domain: Option<TensorType> = None;
    let mut n_axes = 0;
    let mut consider = |ty: Option<TensorType>| -> Option<()> {
        let ty = ty?;
        let numel = |ty: &TensorType| sizes(ty).map(|sizes| (sizes.iter().product::<usize>(), sizes.len()));
        let new = numel(&ty)?;
        if domain.as_ref().and_then(numel).is_none_or(|old| new > old) {
            domain = Some(ty);
        }
        Some(())
    };
    for (id, node) in graph.nodes() {
        let is_given = given.iter().any(|(given, _)| *given == id);
        if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) || is_given {
            continue;
        }
        let Some(op) = node.op() else { return Ok(None) };
        let bound = op.bind(node.args(), node.kwargs())?;
        if let Some(x) = bound.first().and_then(Arg::leaf).copied().and_then(ty)
            && let Some((_, n)) = row_kind(op, &bound, &x)
        {
            if n_axes != 0 && n_axes != n {
                return Ok(None);
            }
            n_axes = n;
            if consider(Some(x)).is_none() {
                return Ok(None);
            }
        }
        if consider(ty(id)).is_none() {
            return Ok(None);
        }
    }
    let Some(domain) = domain.as_ref().and_then(sizes) else { return Ok(None) };
    let domain = domain.to_vec();
    if let Some((anchor, _)) = anchor
        && ty(anchor).as_ref().and_then(sizes).as_deref() != Some(&domain)
    {
        return Ok(None);
    }
    let numel: usize = domain.iter().product();
    if domain.len() < n_axes {
        return Ok(None);
    }
    let row: usize = domain[domain.len() - n_axes..].iter().product();
    if n_axes > 0 && (row == 0 || row > LONGEST_ROW || layout != Layout::RowMajor) {
        return Ok(None);
    }
    let mut builder = Builder {
        operands,
        numel,
        row: if n_axes > 0 { row } else { numel },
        has_rows: n_axes > 0,
        n_axes,
        domain,
        layout,
        registers: Vec::new(),
        instructions: Vec::new(),
        loads: Vec::new(),
        load_keys: FxHashMap::default(),
        numbers: Vec::new(),
        converted: FxHashMap::default(),
        repeated: FxHashMap::default(),
    };
    let mut all: Vec<Operand> = operands.to_vec();
    let mut found: FxHashMap<NodeId, Found> = FxHashMap::default();
    for (i, id) in graph.placeholders().into_iter().enumerate() {
        let Some(ty) = ty(id) else { continue };
        found.insert(id, Found { what: What::Outside(i as u32), ty, per_row: false });
    }
    for (id, operand) in given {
        let Some(ty) = ty(*id) else { return Ok(None) };
        found.insert(*id, Found { what: What::Outside(all.len() as u32), ty, per_row: false });
        all.push(operand.clone());
    }
    builder.operands = &all;
    for (id, node) in graph.nodes() {
        if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) || found.contains_key(&id) {
            continue;
        }
        let (Some(op), Some(ty)) = (node.op(), ty(id)) else { return Ok(None) };
        let bound = op.bind(node.args(), node.kwargs())?;
        let Some(value) = builder.node(op, &bound, &found, ty)? else { return Ok(None) };
        found.insert(id, value);
    }
    let returned: Vec<Arg> = match graph.output() {
        Arg::Tuple(items) => items.to_vec(),
        one => vec![one.clone()],
    };
    if returned.len() != stores.len() {
        bail!(Graph, "a kernel with {} results was given {} places", returned.len(), stores.len());
    }
    let mut results = Vec::new();
    for arg in &returned {
        let Some(value) = arg.leaf().and_then(|id| found.get(id)) else { return Ok(None) };
        if layout != Layout::RowMajor && sizes(&value.ty).as_deref() != Some(&builder.domain) {
            return Ok(None);
        }
        results.push(value.clone());
    }
    builder.finish(&results, stores, anchor.map(|(_, axes)| axes))
}

impl Builder<'_> {
    fn register(&mut self, per_row: bool, size: usize) -> u32 {
        self.registers.push(Register { per_row, size });
        self.registers.len() as u32 - 1
    }

    fn number(&mut self, bits: u64, size: usize) -> Spot {
        let at = self.numbers.iter().position(|number| *number == (bits, size)).unwrap_or_else(|| {
            self.numbers.push((bits, size));
            self.numbers.len() - 1
        });
        Spot::Number(at as u16)
    }

    /// Returns the shape of a value that has one element for each row, if `shape` is that.
    fn is_per_row(&self, shape: &[usize]) -> bool {
        self.has_rows && self.row != 1 && shape.iter().product::<usize>() * self.row == self.numel
    }

    fn node(
        &mut self,
        op: fx_core::Op,
        bound: &[Arg],
        found: &FxHashMap<NodeId, Found>,
        ty: TensorType,
    ) -> Result<Option<Found>> {
        let Some(shape) = sizes(&ty) else { return Ok(None) };
        if let Some(x) = bound.first().and_then(Arg::leaf).and_then(|id| found.get(id))
            && let Some((kind, _)) = row_kind(op, bound, &x.ty)
        {
            if sizes(&x.ty).as_deref() != Some(&self.domain) {
                return Ok(None);
            }
            let mut inputs = SmallVec::new();
            let tensors = bound.iter().filter_map(Arg::leaf).filter_map(|id| found.get(id));
            for (i, operand) in tensors.enumerate() {
                if operand.ty.dtype != x.ty.dtype {
                    return Ok(None);
                }
                let spot = match (i, operand.what) {
                    (0, _) => self.full(operand)?,
                    // Weight and bias are the same for all rows.
                    (_, What::Outside(at)) => {
                        let shape = self.domain[self.domain.len() - self.n_axes..].to_vec();
                        Some(self.load(at, Extent::Once, &shape)?)
                    }
                    _ => None,
                };
                let Some(spot) = spot else { return Ok(None) };
                inputs.push(spot);
            }
            let size = ty.dtype.size();
            let per_row = kind.reduces();
            let out = self.register(per_row, size);
            self.push(Action::Row(kind, x.ty.dtype), inputs, out, false, [x.ty.dtype, ty.dtype]);
            return Ok(Some(Found { what: What::Virtual(out), ty, per_row }));
        }
        let select = select_of(op, bound);
        let def = match op.class {
            Class::Pointwise(def) => Some(def),
            _ if select.is_some() => None,
            _ => return Ok(None),
        };
        let per_row = match () {
            () if shape[..] == self.domain[..] => false,
            () if self.is_per_row(&shape) => true,
            () => return Ok(None),
        };
        if let Some([mask, yes, no]) = select {
            return self.select([mask, yes, no], found, ty, per_row, &shape);
        }
        let Some(def) = def else { return Ok(None) };
        let n = def.operands.len();
        let mut given: SmallVec<[OperandType<'_>; 4]> = SmallVec::new();
        for arg in &bound[..n] {
            match arg {
                Arg::None => {}
                Arg::Leaf(id) => match found.get(id) {
                    Some(value) => given.push(OperandType::Tensor(&value.ty)),
                    None => return Ok(None),
                },
                arg => match arg.scalar() {
                    Some(x) => given.push(OperandType::Scalar(x.category())),
                    None => return Ok(None),
                },
            }
        }
        let Some(dtype) = map_dtype(def, &given) else { return Ok(None) };
        let mut inputs = SmallVec::new();
        for (i, arg) in bound[..n].iter().enumerate() {
            let number = |x: Scalar| (bits_of(x, dtype), dtype.size());
            let spot = match arg {
                Arg::Leaf(id) => match self.operand(&found[id], dtype, per_row, &shape)? {
                    Some(spot) => spot,
                    None => return Ok(None),
                },
                Arg::None => match def.absent_value(i, dtype) {
                    Some(x) => {
                        let (bits, size) = number(x);
                        self.number(bits, size)
                    }
                    None => return Ok(None),
                },
                arg => match arg.scalar() {
                    Some(x) => {
                        let (bits, size) = number(x);
                        self.number(bits, size)
                    }
                    None => return Ok(None),
                },
            };
            inputs.push(spot);
        }
        let params: Result<Vec<Scalar>> = bound[n..]
            .iter()
            .map(|arg| match arg.scalar() {
                Some(x) => Ok(x),
                None => bail!(Graph, "a parameter is not a number"),
            })
            .collect();
        let Ok(params) = params else { return Ok(None) };
        let Some(map) = map_of(def, dtype, &params) else { return Ok(None) };
        let result = if def.rule == Rule::Bool { DType::Bool } else { dtype };
        let out = self.register(per_row, result.size());
        self.push(Action::Map(map), inputs, out, per_row, [dtype, result]);
        if let Some(instruction) = self.instructions.last_mut() {
            instruction.def = Some(def);
        }
        Ok(Some(Found { what: What::Virtual(out), ty, per_row }))
    }

    /// Makes an instruction that chooses between two operands.
    fn select(
        &mut self,
        args: [&Arg; 3],
        found: &FxHashMap<NodeId, Found>,
        ty: TensorType,
        per_row: bool,
        shape: &[usize],
    ) -> Result<Option<Found>> {
        let mut inputs = SmallVec::new();
        for (i, arg) in args.into_iter().enumerate() {
            let dtype = if i == 0 { DType::Bool } else { ty.dtype };
            let spot = match (arg, arg.scalar()) {
                (Arg::Leaf(id), _) => match found.get(id) {
                    Some(value) => self.operand(value, dtype, per_row, shape)?,
                    None => None,
                },
                (_, Some(x)) => Some(self.number(bits_of(x, dtype), dtype.size())),
                _ => None,
            };
            let Some(spot) = spot else { return Ok(None) };
            inputs.push(spot);
        }
        let size = ty.dtype.size();
        let out = self.register(per_row, size);
        self.push(Action::Select(size), inputs, out, per_row, [ty.dtype; 2]);
        Ok(Some(Found { what: What::Virtual(out), ty, per_row }))
    }

    fn push(
        &mut self,
        action: Action,
        inputs: SmallVec<[Spot; 4]>,
        out: u32,
        per_row: bool,
        dtypes: [DType; 2],
    ) {
        let output = Spot::Register(out);
        self.instructions.push(Instruction { action, inputs, output, per_row, dtypes, def: None });
    }

    /// Returns where an operand is, converted to `dtype` and broadcast to the result's shape.
    fn operand(
        &mut self,
        value: &Found,
        dtype: DType,
        per_row: bool,
        shape: &[usize],
    ) -> Result<Option<Spot>> {
        let spot = match (value.what, per_row) {
            (What::Outside(i), true) => self.load(i, Extent::PerRow, shape)?,
            (What::Outside(i), false) => self.load(i, Extent::Full, shape)?,
            (What::Virtual(register), true) if value.per_row => Spot::Register(register),
            (What::Virtual(_), true) => return Ok(None),
            (What::Virtual(_), false) => match self.full(value)? {
                Some(spot) => spot,
                None => return Ok(None),
            },
        };
        if value.ty.dtype == dtype {
            return Ok(Some(spot));
        }
        let key = match spot {
            Spot::Register(i) => What::Virtual(i),
            Spot::Load(i) => What::Outside(u32::from(i)),
            _ => return Ok(None),
        };
        if let Some(&register) = self.converted.get(&(key, dtype, per_row)) {
            return Ok(Some(Spot::Register(register)));
        }
        let Some(convert) = converter(value.ty.dtype, dtype) else { return Ok(None) };
        let out = self.register(per_row, dtype.size());
        let dtypes = [value.ty.dtype, dtype];
        self.push(Action::Convert(convert), SmallVec::from_iter([spot]), out, per_row, dtypes);
        self.converted.insert((key, dtype, per_row), out);
        Ok(Some(Spot::Register(out)))
    }

    /// Returns where an operand of the whole domain is; one with an element for each row is repeated.
    fn full(&mut self, value: &Found) -> Result<Option<Spot>> {
        let register = match value.what {
            What::Outside(i) => return self.load(i, Extent::Full, &self.domain.clone()).map(Some),
            What::Virtual(register) if !value.per_row => return Ok(Some(Spot::Register(register))),
            What::Virtual(register) => register,
        };
        // Its axes must be those of the domain, with the reduced ones of size one.
        let Some(shape) = sizes(&value.ty) else { return Ok(None) };
        let kept = self.domain.len() - self.n_axes;
        if shape.len() != self.domain.len() || shape[..kept] != self.domain[..kept] {
            return Ok(None);
        }
        if let Some(&full) = self.repeated.get(&register) {
            return Ok(Some(Spot::Register(full)));
        }
        let size = self.registers[register as usize].size;
        let out = self.register(false, size);
        let inputs = SmallVec::from_iter([Spot::Register(register)]);
        self.push(Action::Repeat(size), inputs, out, false, [value.ty.dtype; 2]);
        self.repeated.insert(register, out);
        Ok(Some(Spot::Register(out)))
    }

    fn load(&mut self, i: u32, extent: Extent, shape: &[usize]) -> Result<Spot> {
        let key = (i, extent, if extent == Extent::PerRow { shape.to_vec() } else { Vec::new() });
        if let Some(&at) = self.load_keys.get(&key) {
            return Ok(Spot::Load(at));
        }
        let operand = &self.operands[i as usize];
        let layout = if extent == Extent::Full { self.layout } else { Layout::RowMajor };
        let mut load = Load::new(operand, operand.walk_in(shape, layout)?);
        load.extent = extent;
        // The register is a virtual one until places are given out.
        load.register = self.register(extent == Extent::PerRow, load.size);
        self.loads.push(load);
        let at = self.loads.len() as u16 - 1;
        self.load_keys.insert(key, at);
        Ok(Spot::Load(at))
    }

    /// Gives out places: results are written where they belong, other registers are shared by values that are not alive together.
    fn finish(mut self, results: &[Found], stores: &[ValueId], part: Option<usize>) -> Result<Option<Tape>> {
        let mut places: FxHashMap<u32, Spot> = FxHashMap::default();
        let mut list = Vec::new();
        for (i, (result, &value)) in results.iter().zip(stores).enumerate() {
            let spot = Spot::Store(i as u16);
            let size = result.ty.dtype.size();
            list.push(Store { value, size, per_row: result.per_row });
            match result.what {
                What::Virtual(register) if !places.contains_key(&register) => {
                    places.insert(register, spot);
                }
                // A value that is returned twice, or not computed here, is copied.
                what => {
                    let input = match what {
                        What::Virtual(register) => Spot::Register(register),
                        What::Outside(i) if self.operands[i as usize].value == value => continue,
                        What::Outside(i) => {
                            let shape = sizes(&result.ty).map(|sizes| sizes.to_vec()).unwrap_or_default();
                            if shape != self.domain {
                                return Ok(None);
                            }
                            self.load(i, Extent::Full, &shape)?
                        }
                    };
                    self.instructions.push(Instruction {
                        action: Action::Copy(size),
                        inputs: SmallVec::from_iter([input]),
                        output: spot,
                        per_row: result.per_row,
                        dtypes: [result.ty.dtype; 2],
                        def: None,
                    });
                }
            }
        }
        // The length of a unit: a row, or as much as the registers allow, in step with the runs of the operands.
        let widest = self.registers.iter().map(|register| register.size).max().unwrap_or(8);
        let (mut row, mut turns) = (self.row, false);
        if !self.has_rows {
            let run = |load: &Load| if load.walk.shape.len() <= 1 { self.numel } else { load.walk.run() };
            let shortest = self.loads.iter().map(run).min().unwrap_or(self.numel);
            let is_turned = |load: &Load| load.extent == Extent::Full && load.walk.is_turned();
            turns = part.is_none() && self.loads.iter().any(|load| is_turned(load) && run(load) == shortest);
            if let Some(axes) = part {
                row = self.layout.arrange(&self.domain)[self.domain.len() - axes..].iter().product();
            } else if turns || shortest >= SHORTEST_RUN {
                row = shortest;
            }
        }
        let row = row.max(1);
        let parts = join(&mut self.instructions, |register| places.contains_key(&register));
        let (registers, n_full) = self.assign(&parts, &mut places);
        // Several rows, if they are short.
        let is_short = |instruction: &Instruction| match instruction.action {
            Action::Row(kind, _) => kind.reduces(),
            _ => instruction.per_row,
        };
        let most = match &self.instructions[..] {
            [_] => ROWS_ALONE,
            all if all.iter().all(is_short) => ROWS_READ,
            _ => ROWS,
        };
        let mut unit = (most / row).max(1) * row;
        if !self.has_rows {
            let most = (CACHE / widest / (n_full + 1)).clamp(*UNIT.start(), *UNIT.end());
            unit = row.div_ceil(row.div_ceil(most)).next_multiple_of(16).min(row);
            if (part.is_some() || turns) && unit == row {
                unit *= (most / row).max(1);
            }
        }
        let bytes = |n: usize, size: usize| (n * size).next_multiple_of(64);
        let mut offsets = Vec::with_capacity(registers.len());
        let mut scratch = 0;
        for (per_row, size) in &registers {
            offsets.push(scratch as u32);
            scratch += bytes(if *per_row { unit.div_ceil(row) } else { unit }, *size);
        }
        let place = |spot: Spot| match spot {
            Spot::Register(i) => match places.get(&i) {
                Some(&Spot::Register(slot)) => Spot::Register(offsets[slot as usize]),
                Some(other) => *other,
                None => Spot::Register(0),
            },
            other => other,
        };
        for load in &mut self.loads {
            if let Spot::Register(at) = place(Spot::Register(load.register)) {
                load.register = at;
            }
        }
        for instruction in &mut self.instructions {
            instruction.inputs.iter_mut().for_each(|spot| *spot = place(*spot));
            instruction.output = place(instruction.output);
        }
        let repeat = |&(bits, size): &(u64, usize)| -> Vec<u64> {
            let word = match size {
                1 => (bits & 0xff) * 0x0101_0101_0101_0101,
                2 => (bits & 0xffff) * 0x0001_0001_0001_0001,
                4 => (bits & 0xffff_ffff) * 0x0000_0001_0000_0001,
                _ => bits,
            };
            vec![word; (unit * size).div_ceil(8).max(1)]
        };
        for load in &mut self.loads {
            load.find_grid(row);
            // The product before an epilogue is where its result goes.
            load.overwritten = list.iter().any(|store| store.value == load.value).then_some(load.value);
        }
        let numbers = self.numbers.iter().map(repeat).collect();
        let domain = (self.numel, row, unit);
        let passes = parts.iter().map(|part| Pass::new(part, &self.instructions)).collect();
        let mut tape = Tape::new(domain, (self.loads, list), numbers, (self.instructions, passes), scratch);
        if turns {
            tape.read_panels();
        }
        Ok(Some(tape))
    }

    /// Gives a slot to every register that has no place yet; returns the slots and how many are for whole units and written.
    fn assign(&self, parts: &[Part], places: &mut FxHashMap<u32, Spot>) -> (Vec<(bool, usize)>, usize) {
        let n = self.instructions.len();
        let is_load = |i: usize| self.loads.iter().any(|load| load.register as usize == i);
        let mut last = vec![0usize; self.registers.len()];
        let mut first = vec![usize::MAX; self.registers.len()];
        // What runs as one happens at one time.
        let timed = parts.iter().enumerate().flat_map(|(time, part)| {
            self.instructions[part.instructions.clone()].iter().map(move |instruction| (time, instruction))
        });
        for (i, instruction) in timed {
            for spot in &instruction.inputs {
                match spot {
                    Spot::Register(register) => last[*register as usize] = i,
                    // Operands from outside are gathered before the first instruction.
                    Spot::Load(at) => {
                        let register = self.loads[*at as usize].register as usize;
                        first[register] = 0;
                        last[register] = i;
                    }
                    _ => {}
                }
            }
            if let Spot::Register(register) = instruction.output {
                first[register as usize] = first[register as usize].min(i);
            }
        }
        // What is written and read by one pass has a slot for those alone who run the instructions otherwise.
        let is_inner = |i: usize| first[i] == last[i] && !is_load(i);
        let mut slots: Vec<(bool, usize)> = Vec::new();
        let mut are_inner: Vec<bool> = Vec::new();
        // When each slot is free again.
        let mut busy: Vec<usize> = Vec::new();
        let mut order: Vec<usize> = (0..self.registers.len()).filter(|&i| first[i] <= n).collect();
        order.sort_by_key(|&i| (first[i], !is_load(i)));
        for i in order {
            if places.contains_key(&(i as u32)) {
                continue;
            }
            let register = &self.registers[i];
            // Loads are all there at once, before the first instruction.
            let begins = if is_load(i) { 0 } else { first[i] + 1 };
            let free = (0..slots.len()).find(|&slot| {
                slots[slot] == (register.per_row, register.size)
                    && are_inner[slot] == is_inner(i)
                    && busy[slot] < begins
                    && begins > 0
            });
            let slot = free.unwrap_or_else(|| {
                slots.push((register.per_row, register.size));
                are_inner.push(is_inner(i));
                busy.push(0);
                slots.len() - 1
            });
            busy[slot] = last[i].max(first[i]) + 1;
            places.insert(i as u32, Spot::Register(slot as u32));
        }
        let n_full = slots.iter().zip(&are_inner).filter(|((per_row, _), inner)| !per_row && !*inner).count();
        (slots, n_full)
    }
}

/// Returns the bits of a number as an element.
fn bits_of(x: Scalar, dtype: DType) -> u64 {
    fx_core::array::dispatch_dtype!(dtype, T => {
        let bits = T::from_scalar(x).bits();
        match dtype.size() {
            8 => bits,
            size => bits & ((1 << (8 * size)) - 1),
        }
    })
}

fn map_of(def: &PointwiseDef, dtype: DType, params: &[Scalar]) -> Option<Map> {
    macro_rules! map {
        ($variant:ident, $ty:ty) => {
            Map::$variant(
                <$ty as Compute>::block(&def.kernels)?,
                params.iter().map(|&x| <$ty as Stored>::from_scalar(x)).collect(),
            )
        };
    }
    Some(match dtype {
        DType::Bool => map!(Bool, bool),
        DType::U8 => map!(U8, u8),
        DType::I8 => map!(I8, i8),
        DType::I32 => map!(I32, i32),
        DType::I64 => map!(I64, i64),
        DType::F32 => map!(F32, f32),
        DType::F64 => map!(F64, f64),
        DType::F16 | DType::BF16 => return None,
    })
}
