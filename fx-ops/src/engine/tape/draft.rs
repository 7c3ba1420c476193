//! What a tape is made of: the pointwise and row operations of a graph, for operands of any sizes.

use std::ops::Range;

use fx_core::loops::{self, Work};
use fx_core::pointwise::{Check, Compute, PointwiseCall};
use fx_core::{Arg, Class, DType, Graph, NodeId, OpCode, Result, Scalar, Stored, TensorType, TypeTree, bail};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::Map;
use crate::engine::operand::{Layout, OperandId, ValueId};
use crate::engine::record::{Shape, Size};
use crate::fusible::{Reduction, column_reduction, map_call, row_call, select_of};
use crate::ops::view::to;

/// A step whose numbers are bits in the dtypes in which they are taken.
type Step = loops::Step<u64>;
pub(super) type Operand = loops::Operand<u64>;

/// A closed graph of pointwise operations and operations on rows, of which a tape is made for operands of any
/// sizes.
pub(crate) struct Draft {
    /// The operands, and what else is there already: the loads of the steps.
    pub(super) outside: Vec<OperandId>,
    pub(super) nodes: Vec<Node>,
    pub(super) returned: SmallVec<[Operand; 2]>,
    pub(super) stores: SmallVec<[ValueId; 2]>,
    /// The operand of which the tape changes parts, and how many of its last axes in memory make a row.
    pub(super) anchor: Option<(Operand, usize)>,
    /// The sizes that steps compute with.
    pub(super) sizes: SmallVec<[Size; 2]>,
    /// How results lie.
    pub(super) layout: Layout,
    /// How many of the last axes make a row.
    pub(super) n_axes: usize,
    /// The axes before the last ones that results are reduced over, and the sizes of what is reduced.
    pub(super) reduced: Option<(Range<usize>, Shape)>,
}

/// An operation of a draft: one of the whole domain, or of what has an element for each row.
pub(super) struct Node {
    pub(super) step: Step,
    pub(super) kernel: Kernel,
    pub(super) shape: Shape,
}

/// The kernel of a step.
pub(super) enum Kernel {
    /// It follows from the step and the sizes.
    Implied,
    Map(Map),
    /// The operand is reduced over axes before the last ones, which is not for the tape.
    Columns(Reduction),
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
        let mut places: FxHashMap<NodeId, Operand> = FxHashMap::default();
        for (i, (id, _)) in outside.iter().enumerate() {
            places.insert(*id, Operand::Load(i as u32));
        }
        let (mut nodes, mut n_axes) = (Vec::new(), 0);
        let mut reduced: Option<(Range<usize>, Shape)> = None;
        let mut are_reduced: FxHashSet<NodeId> = FxHashSet::default();
        for (id, node) in graph.nodes() {
            if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) || places.contains_key(&id) {
                continue;
            }
            let (Some(op), Some(out), Some(shape)) = (node.op(), ty(id), shape_of(id)) else {
                return Ok(None);
            };
            let bound = op.bind(node.args(), node.kwargs())?;
            let place_of = |arg: &Arg| places.get(arg.leaf()?).copied();
            // What is reduced over such axes is complete only after the tape.
            if node.inputs().any(|input| are_reduced.contains(&input)) {
                return Ok(None);
            }
            let first = bound.first().and_then(Arg::leaf).copied();
            let node = match first.and_then(ty) {
                Some(x) if let Some((kind, axes)) = column_reduction(op, &bound, x) => {
                    let of = first.and_then(&mut *shape_of);
                    let (Some(of), Some(operand)) = (of, bound.first().and_then(place_of)) else {
                        return Ok(None);
                    };
                    if reduced.as_ref().is_some_and(|(others, _)| *others != axes) {
                        return Ok(None);
                    }
                    reduced = Some((axes, of));
                    are_reduced.insert(id);
                    let step = Step::new(Work::Host, [operand], [x.dtype, out.dtype]);
                    Node { step, kernel: Kernel::Columns(kind), shape }
                }
                Some(x) if let Some((call, n)) = row_call(op, &bound, x) => {
                    if n_axes != 0 && n_axes != n {
                        return Ok(None);
                    }
                    n_axes = n;
                    let tensors = bound.iter().filter(|arg| matches!(arg, Arg::Leaf(_)));
                    let operand = |(i, arg): (usize, &Arg)| {
                        let place = place_of(arg)?;
                        let is_outside = matches!(place, Operand::Load(_));
                        let fits = ty(*arg.leaf()?)?.dtype == x.dtype && (i == 0 || is_outside);
                        fits.then_some(place)
                    };
                    let operands = tensors.enumerate().map(operand).collect::<Option<Vec<_>>>();
                    let Some(operands) = operands else { return Ok(None) };
                    let step = Step::new(Work::Row(call), operands, [x.dtype, out.dtype]);
                    Node { step, kernel: Kernel::Implied, shape }
                }
                _ => match pointwise(op, &bound, ty, &place_of, out) {
                    Some((step, kernel)) => Node { step, kernel, shape },
                    None => return Ok(None),
                },
            };
            places.insert(id, Operand::Step(nodes.len() as u32));
            nodes.push(node);
        }
        let returned: Vec<Arg> = match graph.output() {
            Arg::Tuple(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        if returned.len() != stores.len() {
            bail!(Graph, "a kernel with {} results was given {} places", returned.len(), stores.len());
        }
        let returned = returned.iter().map(|arg| places.get(arg.leaf()?).copied()).collect::<Option<_>>();
        let anchor = anchor.map(|(id, axes)| Some((*places.get(&id)?, axes)));
        let (Some(returned), false) = (returned, matches!(anchor, Some(None))) else { return Ok(None) };
        let outside = outside.iter().map(|(_, operand)| *operand).collect();
        let (stores, anchor) = (stores.iter().copied().collect(), anchor.flatten());
        if reduced.is_some() && (n_axes > 0 || anchor.is_some() || layout != Layout::RowMajor) {
            return Ok(None);
        }
        let sizes = SmallVec::new();
        Ok(Some(Draft { outside, nodes, returned, stores, anchor, sizes, layout, n_axes, reduced }))
    }

    /// Returns the index of a value among those that are there first and those of the steps behind them.
    pub(super) fn index(&self, operand: Operand) -> Option<usize> {
        match operand {
            Operand::Load(i) => Some(i as usize),
            Operand::Step(i) => Some(self.outside.len() + i as usize),
            Operand::Number(_) | Operand::Size(_) => None,
        }
    }

    /// Returns the axes before the last ones that results are reduced over, with the sizes of what is reduced.
    pub(crate) fn reduced(&self) -> Option<&(Range<usize>, Shape)> {
        self.reduced.as_ref()
    }

    /// Returns the results that are reduced so: their places among all, and how.
    pub(crate) fn reductions(&self) -> impl Iterator<Item = (usize, Reduction, DType)> {
        self.returned.iter().enumerate().filter_map(|(i, operand)| match operand {
            Operand::Step(at) => match &self.nodes[*at as usize] {
                Node { kernel: Kernel::Columns(kind), step, .. } => Some((i, *kind, step.dtype)),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns whether an instruction is not defined for some integers, which a size might be.
    pub(crate) fn is_checked(&self) -> bool {
        let is_checked = |step: &Step| match step.work {
            Work::Map(def) => def.check.is_some_and(Check::is_of_elements) && step.from.is_int(),
            _ => false,
        };
        self.nodes.iter().any(|node| is_checked(&node.step))
    }

    /// Notes that these operands of the only node are sizes, not the numbers that they are now; returns
    /// whether they can be.
    pub(crate) fn take_sizes(&mut self, sizes: &[(usize, Size)]) -> bool {
        let [Node { step, .. }] = &mut self.nodes[..] else { return sizes.is_empty() };
        sizes.iter().all(|(i, size)| match (step.work, step.operands.get_mut(*i)) {
            (Work::Map(def), Some(operand)) if def.takes_any_number(step.from) => {
                *operand = Operand::Size(self.sizes.len() as u32);
                self.sizes.push(*size);
                true
            }
            _ => false,
        })
    }
}

/// Makes a step of a pointwise operation or a choice; `None` if it can be none.
fn pointwise<'a>(
    op: fx_core::Op,
    bound: &[Arg],
    ty: impl Fn(NodeId) -> Option<&'a TensorType>,
    place_of: &dyn Fn(&Arg) -> Option<Operand>,
    out: &TensorType,
) -> Option<(Step, Kernel)> {
    if let Some(args) = select_of(op, bound) {
        let operand = |(i, arg): (usize, &Arg)| match arg {
            Arg::Leaf(_) => place_of(arg),
            arg => {
                Some(Operand::Number(bits_of(arg.scalar()?, if i == 0 { DType::Bool } else { out.dtype })))
            }
        };
        let operands = args.into_iter().enumerate().map(operand).collect::<Option<Vec<_>>>()?;
        return Some((Step::new(Work::Select, operands, [out.dtype; 2]), Kernel::Implied));
    }
    if let (true, [x, _]) = (op == to::OP, bound) {
        let from = ty(*x.leaf()?)?.dtype;
        return Some((Step::new(Work::Convert, [place_of(x)?], [from, out.dtype]), Kernel::Implied));
    }
    let Class::Pointwise(def) = op.class else { return None };
    let call = map_call(def, bound, ty).ok()?;
    let map = map_of(&call)?;
    Some((Step::of_call(&call, |i| place_of(&bound[i]), bits_of)?, Kernel::Map(map)))
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

fn map_of(call: &PointwiseCall) -> Option<Map> {
    macro_rules! map {
        ($variant:ident, $ty:ty) => {
            Map::$variant(
                <$ty as Compute>::block(&call.def.kernels)?,
                call.params.iter().map(|&x| <$ty as Stored>::from_scalar(x)).collect(),
            )
        };
    }
    Some(match call.dtype {
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
