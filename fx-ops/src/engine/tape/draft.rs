//! What a tape is made of: the pointwise and row operations of a graph, for operands of any sizes.

use std::ops::Range;

use fx_core::op::kind::OperandType;
use fx_core::pointwise::{Compute, PointwiseDef};
use fx_core::rowwise::RowCall;
use fx_core::{Arg, Class, DType, Graph, NodeId, OpCode, Result, Scalar, Stored, TensorType, TypeTree, bail};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Map;
use crate::engine::operand::{Layout, OperandId, ValueId};
use crate::engine::record::{Shape, Size};
use crate::fusible::{Reduction, column_reduction, map_dtype, row_call, select_of};
use crate::ops::view::to;

/// A closed graph of pointwise operations and operations on rows, of which a tape is made for operands of any
/// sizes.
///
/// Values are numbered: first those that are there, then what nodes give, in order.
pub(crate) struct Draft {
    /// The operands, and what else is there already.
    pub(super) outside: Vec<OperandId>,
    pub(super) nodes: Vec<Node>,
    pub(super) returned: SmallVec<[u32; 2]>,
    pub(super) stores: SmallVec<[ValueId; 2]>,
    /// The value of which the tape changes parts, and how many of its last axes in memory make a row.
    pub(super) anchor: Option<(u32, usize)>,
    /// How results lie.
    pub(super) layout: Layout,
    /// How many of the last axes make a row.
    pub(super) n_axes: usize,
    /// The axes before the last ones that results are reduced over, and the sizes of what is reduced.
    pub(super) reduced: Option<(Range<usize>, Shape)>,
}

/// An operation of a draft.
pub(super) struct Node {
    pub(super) work: Work,
    pub(super) inputs: SmallVec<[Input; 4]>,
    pub(super) dtype: DType,
    pub(super) shape: Shape,
}

pub(super) enum Work {
    /// The first input is in rows, the others are the same for all.
    Row(RowCall),
    /// The input is reduced over axes before the last ones, which is not for the tape.
    Columns(Reduction),
    /// The input is converted to the dtype of the result.
    Convert,
    /// Computed in a dtype, to which inputs are converted.
    Map(&'static PointwiseDef, Map, DType),
    Select,
}

/// What a node takes.
#[derive(Clone, Copy)]
pub(super) enum Input {
    Value(u32),
    /// Bits, and the bytes of an element.
    Number(u64, usize),
    /// A size as a number.
    Size(Size, DType),
}

impl Draft {
    /// Drafts all nodes of a graph; `stores` are the values for what it returns, in order. `shape` tells the
    /// sizes of a node's value.
    ///
    /// The nodes in `outside`, placeholders first, are not computed but found there. With an `anchor`, which
    /// is one of them, the tape changes parts of its value, and its domain is that of the anchor, of which
    /// this many of the last axes in memory make a row. Results lie as the layout says. A graph that is no
    /// tape gives `None`.
    pub(crate) fn new(
        graph: &Graph,
        types: &FxHashMap<NodeId, TypeTree>,
        shape_of: &mut dyn FnMut(NodeId) -> Option<Shape>,
        outside: &[(NodeId, OperandId)],
        anchor: Option<(NodeId, usize)>,
        stores: &[ValueId],
        layout: Layout,
    ) -> Result<Option<Draft>> {
        let ty = |id: NodeId| types.get(&id).and_then(TypeTree::tensor);
        let mut numbers: FxHashMap<NodeId, u32> = FxHashMap::default();
        for (i, (id, _)) in outside.iter().enumerate() {
            numbers.insert(*id, i as u32);
        }
        let (mut nodes, mut n_axes) = (Vec::new(), 0);
        let mut reduced: Option<(Range<usize>, Shape)> = None;
        let mut are_reduced: FxHashSet<NodeId> = FxHashSet::default();
        for (id, node) in graph.nodes() {
            if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) || numbers.contains_key(&id) {
                continue;
            }
            let (Some(op), Some(out), Some(shape)) = (node.op(), ty(id), shape_of(id)) else {
                return Ok(None);
            };
            let bound = op.bind(node.args(), node.kwargs())?;
            let number_of = |arg: &Arg| numbers.get(arg.leaf()?).copied();
            let is_outside = |number: u32| (number as usize) < outside.len();
            // What is reduced over such axes is complete only after the tape.
            if node.inputs().any(|input| are_reduced.contains(&input)) {
                return Ok(None);
            }
            let first = bound.first().and_then(Arg::leaf).copied();
            let node = match first.and_then(ty) {
                Some(x) if let Some((kind, axes)) = column_reduction(op, &bound, x) => {
                    let of = first.and_then(&mut *shape_of);
                    let (Some(of), Some(number)) = (of, bound.first().and_then(number_of)) else {
                        return Ok(None);
                    };
                    if reduced.as_ref().is_some_and(|(others, _)| *others != axes) {
                        return Ok(None);
                    }
                    reduced = Some((axes, of));
                    are_reduced.insert(id);
                    let inputs = SmallVec::from_iter([Input::Value(number)]);
                    Node { work: Work::Columns(kind), inputs, dtype: out.dtype, shape }
                }
                Some(x) if let Some((call, n)) = row_call(op, &bound, x) => {
                    if n_axes != 0 && n_axes != n {
                        return Ok(None);
                    }
                    n_axes = n;
                    let tensors = bound.iter().filter(|arg| matches!(arg, Arg::Leaf(_)));
                    let input = |(i, arg): (usize, &Arg)| {
                        let number = number_of(arg)?;
                        let fits = ty(*arg.leaf()?)?.dtype == x.dtype && (i == 0 || is_outside(number));
                        fits.then_some(Input::Value(number))
                    };
                    let inputs = tensors.enumerate().map(input).collect::<Option<_>>();
                    let Some(inputs) = inputs else { return Ok(None) };
                    Node { work: Work::Row(call), inputs, dtype: out.dtype, shape }
                }
                _ => match Node::pointwise(op, &bound, &ty, &number_of, out, shape) {
                    Some(node) => node,
                    None => return Ok(None),
                },
            };
            numbers.insert(id, (outside.len() + nodes.len()) as u32);
            nodes.push(node);
        }
        let returned: Vec<Arg> = match graph.output() {
            Arg::Tuple(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        if returned.len() != stores.len() {
            bail!(Graph, "a kernel with {} results was given {} places", returned.len(), stores.len());
        }
        let returned = returned.iter().map(|arg| numbers.get(arg.leaf()?).copied()).collect::<Option<_>>();
        let anchor = anchor.map(|(id, axes)| Some((*numbers.get(&id)?, axes)));
        let (Some(returned), false) = (returned, matches!(anchor, Some(None))) else { return Ok(None) };
        let outside = outside.iter().map(|(_, operand)| *operand).collect();
        let (stores, anchor) = (stores.iter().copied().collect(), anchor.flatten());
        if reduced.is_some() && (n_axes > 0 || anchor.is_some() || layout != Layout::RowMajor) {
            return Ok(None);
        }
        Ok(Some(Draft { outside, nodes, returned, stores, anchor, layout, n_axes, reduced }))
    }

    /// Returns the axes before the last ones that results are reduced over, with the sizes of what is reduced.
    pub(crate) fn reduced(&self) -> Option<&(Range<usize>, Shape)> {
        self.reduced.as_ref()
    }

    /// Returns the results that are reduced so: their places among all, and how.
    pub(crate) fn reductions(&self) -> impl Iterator<Item = (usize, Reduction, DType)> {
        self.returned.iter().enumerate().filter_map(|(i, number)| {
            let node = &self.nodes[(*number as usize).checked_sub(self.outside.len())?];
            match node.work {
                Work::Columns(kind) => Some((i, kind, node.dtype)),
                _ => None,
            }
        })
    }

    /// Returns whether an instruction is not defined for some integers, which a size might be.
    pub(crate) fn is_checked(&self) -> bool {
        let is_checked = |node: &Node| matches!(node.work, Work::Map(def, _, dtype) if def.check.is_some() && dtype.is_int());
        self.nodes.iter().any(is_checked)
    }

    /// Notes that these operands of the only node are sizes, not the numbers that they are now; returns
    /// whether they can be.
    pub(crate) fn take_sizes(&mut self, sizes: &[(usize, Size)]) -> bool {
        let [node] = &mut self.nodes[..] else { return sizes.is_empty() };
        sizes.iter().all(|(i, size)| match (&node.work, node.inputs.get_mut(*i)) {
            (Work::Map(def, _, dtype), Some(input)) if def.takes_any_number(*dtype) => {
                *input = Input::Size(*size, *dtype);
                true
            }
            _ => false,
        })
    }
}

impl Node {
    /// Drafts a pointwise operation or a choice; `None` if it can be no instruction.
    fn pointwise<'a>(
        op: fx_core::Op,
        bound: &[Arg],
        ty: &dyn Fn(NodeId) -> Option<&'a TensorType>,
        number_of: &dyn Fn(&Arg) -> Option<u32>,
        out: &TensorType,
        shape: Shape,
    ) -> Option<Node> {
        let number = |x: Scalar, dtype: DType| Input::Number(bits_of(x, dtype), dtype.size());
        if let Some(args) = select_of(op, bound) {
            let input = |(i, arg): (usize, &Arg)| match arg {
                Arg::Leaf(_) => number_of(arg).map(Input::Value),
                arg => Some(number(arg.scalar()?, if i == 0 { DType::Bool } else { out.dtype })),
            };
            let inputs = args.into_iter().enumerate().map(input).collect::<Option<_>>()?;
            return Some(Node { work: Work::Select, inputs, dtype: out.dtype, shape });
        }
        if let (true, [x, _]) = (op == to::OP, bound) {
            let inputs = SmallVec::from_iter([Input::Value(number_of(x)?)]);
            return Some(Node { work: Work::Convert, inputs, dtype: out.dtype, shape });
        }
        let Class::Pointwise(def) = op.class else { return None };
        let (operands, params) = bound.split_at_checked(def.operands.len())?;
        let mut given: SmallVec<[OperandType<'_>; 4]> = SmallVec::new();
        for arg in operands {
            match arg {
                Arg::None => {}
                Arg::Leaf(id) => given.push(OperandType::Tensor(ty(*id)?)),
                arg => given.push(OperandType::Scalar(arg.scalar()?.category())),
            }
        }
        let dtype = map_dtype(def, bound, &given)?;
        let (def, operands) = match operands.split_last() {
            Some((last, others)) => match def.instead(last.scalar(), dtype) {
                Some(def) => (def, others),
                None => (def, operands),
            },
            None => (def, operands),
        };
        let input = |(i, arg): (usize, &Arg)| match arg {
            Arg::Leaf(_) => number_of(arg).map(Input::Value),
            Arg::None => Some(number(def.number(i, def.absent_value(i, dtype)?, dtype).ok()?, dtype)),
            arg => Some(number(def.number(i, arg.scalar()?, dtype).ok()?, dtype)),
        };
        let inputs = operands.iter().enumerate().map(input).collect::<Option<_>>()?;
        let param = |(i, arg): (usize, &Arg)| def.parameter(i, arg.scalar()?, dtype).ok();
        let params = params.iter().enumerate().map(param).collect::<Option<Vec<Scalar>>>()?;
        let map = map_of(def, dtype, &params)?;
        Some(Node { work: Work::Map(def, map, dtype), inputs, dtype: out.dtype, shape })
    }
}

/// Returns the bits of a number as an element.
pub(crate) fn bits_of(x: Scalar, dtype: DType) -> u64 {
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
