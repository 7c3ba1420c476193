//! Kernels of single nodes and of groups.

use std::sync::Arc;

use fx_core::gufunc::GufuncCall;
use fx_core::math::Real;
use fx_core::{
    Arg, Array, Class, DType, Graph, GraphModule, NodeId, Op, OpCode, Result, TensorType, TypeTree, bail, ops,
};
use rustc_hash::FxHashMap;

use super::{Lowered, Lowering, known, type_of};
use crate::engine::column_reduction::{ColumnKernel, ReducedStore, columns_of};
use crate::engine::convolution::{ChannelsLastKernel, ConvKernel};
use crate::engine::epilogue::Epilogue;
use crate::engine::kernel::Kernel;
use crate::engine::operand::{Layout, Operand, OperandId, ValueId};
use crate::engine::product::{Matrices, ProductKernel, matrices};
use crate::engine::record::{Instance, Shape, Size};
use crate::engine::step::Home;
use crate::engine::tape::EpilogueTape;
use crate::engine::tape::draft::Draft;
use crate::fusible::{self, is_anchor, spec_of};
use crate::kernel::conv::{ChannelsLast, ConvSpec, Prepared};
use crate::kernel::gemm::GemmElement;
use crate::ops::linalg::{addmm, linear, mm};

impl Lowering<'_> {
    /// Returns whether a call alone could be a kernel.
    pub(super) fn may_be_kernel(&self, op: Op, bound: &[Arg], id: NodeId) -> bool {
        let Ok(node) = self.gm.graph().node(id) else { return false };
        let Some(ty) = node.ty().and_then(TypeTree::tensor) else { return false };
        let all_tensors = bound
            .iter()
            .flat_map(|arg| arg.leaves())
            .all(|id| matches!(self.env.get(id), Some(Lowered::Tensor(_))));
        all_tensors
            && (matches!(op.class, Class::Pointwise(_))
                || op == crate::ops::view::to::OP
                || fusible::select_of(op, bound)
                    .is_some_and(|args| fusible::is_select(args, |arg| self.tensor_type(arg), ty))
                || is_anchor(op, bound, |arg| self.tensor_type(arg), ty)
                || bound.first().and_then(|arg| self.tensor_type(arg)).is_some_and(|x| {
                    fusible::row_call(op, bound, &x).is_some() || fusible::has_columns(op, bound, &x)
                }))
    }

    /// Makes a kernel of one node.
    pub(super) fn single(&mut self, id: NodeId) -> Result<Option<Operand>> {
        let graph = self.gm.graph();
        let node = graph.node(id)?;
        let mut body = Graph::new("single");
        let mut map = fx_core::graph::NodeMap::default();
        let mut operands = Vec::new();
        for input in node.inputs() {
            let Some(Lowered::Tensor(operand)) = self.env.get(&input) else { return Ok(None) };
            map.insert(input, Arg::Leaf(body.placeholder(graph.node(input)?.name())?));
            operands.push(operand.clone());
        }
        let new = body.copy_node(graph, id, &mut map)?;
        body.set_output(Arg::Leaf(new))?;
        let sizes = match node.op() {
            Some(op) if matches!(op.class, Class::Pointwise(_)) => self.sizes_in(op, id)?,
            // Operations on rows take the sizes of the rows.
            Some(op)
                if op == crate::ops::normalization::layer_norm::OP
                    || op == crate::ops::normalization::rms_norm::OP =>
            {
                Vec::new()
            }
            _ => {
                self.refuse_symbols(id);
                Vec::new()
            }
        };
        Ok(self.group_with(&body, &operands, &sizes, id)?.and_then(|mut results| results.pop()))
    }

    /// Makes a kernel of a closed graph; `None` if there is none for it.
    pub(super) fn group(
        &mut self,
        body: &Graph,
        operands: &[Operand],
        id: NodeId,
    ) -> Result<Option<Vec<Operand>>> {
        self.group_with(body, operands, &[], id)
    }

    /// As [`group`](Self::group); these arguments of its only node are sizes.
    fn group_with(
        &mut self,
        body: &Graph,
        operands: &[Operand],
        sizes: &[(usize, Size)],
        id: NodeId,
    ) -> Result<Option<Vec<Operand>>> {
        let mark = self.mark();
        let results = self.kernel_of(body, operands, sizes, id)?;
        if results.is_none() {
            self.rewind(&mark);
        }
        Ok(results)
    }

    /// Returns which operands of a pointwise operation are sizes that are symbols.
    fn sizes_in(&mut self, op: Op, id: NodeId) -> Result<Vec<(usize, Size)>> {
        let node = self.symbolic.graph().node(id)?;
        let Some(record) = &mut self.record else { return Ok(Vec::new()) };
        let bound = op.bind(node.args(), node.kwargs())?;
        let holes = record.holes(&bound, &mut self.instance);
        let size = |(i, arg): (usize, &Arg)| match arg {
            Arg::Dim(dim) => Some((i, Size::Of(holes.iter().find(|(other, _)| other == dim)?.1))),
            _ => None,
        };
        Ok(bound.iter().enumerate().filter_map(size).collect())
    }

    /// Gives the record up if arguments of a node are sizes that are symbols, which its kernel takes as numbers.
    pub(super) fn refuse_symbols(&mut self, id: NodeId) {
        let Some(record) = &mut self.record else { return };
        let has_symbols = |arg: &Arg| {
            let mut found = false;
            arg.walk(&mut |arg| found |= matches!(arg, Arg::Dim(_)));
            found
        };
        if self.symbolic.graph().node(id).is_ok_and(|node| node.all_args().any(has_symbols)) {
            record.give_up();
        }
    }

    fn kernel_of(
        &mut self,
        body: &Graph,
        operands: &[Operand],
        sizes: &[(usize, Size)],
        id: NodeId,
    ) -> Result<Option<Vec<Operand>>> {
        let mut body = body.clone();
        let types: Vec<TypeTree> = operands.iter().map(|operand| type_of(operand).into()).collect();
        let mut found = infer_in(&mut body, &types)?;
        let anchor = find_anchor(&body, &found)?;
        let mut product = None;
        if let Some(anchor) = anchor {
            if unbias(&mut body, anchor)? {
                found = infer_in(&mut body, &types)?;
            }
            let node = body.node(anchor)?;
            let placeholders = body.placeholders();
            let place = |id: NodeId| placeholders.iter().position(|other| *other == id);
            if node.inputs().any(|id| place(id).is_none()) {
                return Ok(None);
            }
            // The tensors of the call in schema order; one may be both.
            let Some(op) = node.op() else { return Ok(None) };
            let bound = op.bind(node.args(), node.kwargs())?;
            let tensors: Vec<Operand> = bound
                .iter()
                .filter_map(Arg::leaf)
                .filter_map(|id| place(*id))
                .map(|i| operands[i].clone())
                .collect();
            let Some(kind) = self.anchor(op, &bound, &tensors)? else { return Ok(None) };
            product = Some((anchor, kind));
        }
        let symbolic = self.symbolic_types(&mut body, operands)?;
        let views = self.views_in(&body, (&found, &symbolic), operands)?;
        let (mut epilogue, mut done) = (Epilogue::default(), Vec::new());
        let layout = match &product {
            Some((_, kind)) => kind.layout(),
            None => common_layout(&body, &found, operands),
        };
        if let Some((anchor, kind)) = &mut product
            && self.has_tile_epilogue(kind)
        {
            let placeholders = body.placeholders();
            let operand = |id: NodeId| match placeholders.iter().position(|other| *other == id) {
                Some(i) => operands.get(i).cloned(),
                None => views.iter().find(|(view, _)| *view == id).map(|(_, view)| view.clone()),
            };
            (epilogue, done) = Epilogue::find(&body, &found, *anchor, &operand, layout)?;
            *anchor = done.pop().unwrap_or(*anchor);
        }
        let returned: Vec<Arg> = match body.output() {
            Arg::Tuple(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        let mut results = Vec::new();
        for arg in &returned {
            let Some(id) = arg.leaf() else { return Ok(None) };
            let Some((dtype, now)) = known(found.get(id)) else { return Ok(None) };
            let shape = self.shape(symbolic.get(id), &now);
            results.push(self.result(dtype, shape, layout)?);
        }
        let stores: Vec<ValueId> = results.iter().map(|result| result.value).collect();
        let mut outside: Vec<(NodeId, OperandId)> =
            body.placeholders().into_iter().zip(operands.iter().map(|operand| operand.id)).collect();
        outside.extend(views.iter().map(|(id, view)| (*id, view.id)));
        let Some((anchor, kind)) = product else {
            let draft = self.draft(&body, (&found, &symbolic), &outside, None, &stores, layout)?;
            let Some(mut draft) = draft else { return Ok(None) };
            if !draft.take_sizes(sizes) {
                // The operation itself checks a size.
                if draft.is_checked() {
                    return Ok(None);
                }
                self.refuse_symbols(id);
            }
            let Some((axes, reduced)) = draft.reduced().cloned() else {
                let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
                    Ok(draft.build(instance)?.map(|tape| Box::new(tape) as Box<dyn Kernel>))
                };
                return Ok(self.kernel(stores, id, make)?.then_some(results));
            };
            // Blocks of the axes have results of their own first.
            let (mut writes, mut partials) = (stores, Vec::new());
            for (_, _, dtype) in draft.reductions() {
                let (axes, reduced) = (axes.clone(), reduced.clone());
                let len = move |instance: &Instance| {
                    Ok(Some(columns_of(&instance.sizes(&reduced)?, &axes)?.partial_len()))
                };
                let Some(partial) = self.line(Home::Memory, dtype, len)? else { return Ok(None) };
                partials.push(partial);
            }
            writes.extend(&partials);
            let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
                let Some(tape) = draft.build(instance)? else { return Ok(None) };
                let joined = draft.reductions().zip(&partials).map(|((i, kind, dtype), &partial)| {
                    let store = tape.stores.get(i)?;
                    Some(ReducedStore { kind, dtype, store: i, out: store.value, partial })
                });
                let Some(joined) = joined.collect() else { return Ok(None) };
                let columns = columns_of(&instance.sizes(&reduced)?, &axes)?;
                Ok(Some(Box::new(ColumnKernel::new(tape, columns, joined))))
            };
            return Ok(self.kernel(writes, id, make)?.then_some(results));
        };
        let Some((dtype, now)) = known(found.get(&anchor)) else { return Ok(None) };
        // The product is written where it is returned, or where a result of its type goes, or else beside them.
        let is_anchor = |arg: &Arg| arg.leaf() == Some(&anchor);
        let fits = |result: &Operand| result.dtype == dtype && result.shape == now;
        let place = returned.iter().position(is_anchor).or_else(|| results.iter().position(fits));
        let mut writes = stores.clone();
        // What is done tile by tile is found where the result is.
        let stored = match place {
            Some(i) => results[i].clone(),
            None => {
                let shape = self.shape(symbolic.get(&anchor), &now);
                let stored = self.result(dtype, shape, layout)?;
                writes.push(stored.value);
                stored
            }
        };
        let out = stored.value;
        outside.extend(done.into_iter().chain([anchor]).map(|id| (id, stored.id)));
        let is_given = |id| outside.iter().any(|(other, _)| *other == id);
        let has_more = !returned.iter().all(is_anchor)
            || body.nodes().any(|(id, node)| {
                !is_given(id) && !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output)
            });
        let draft = match has_more {
            false => None,
            true => {
                let anchor = Some((anchor, kind.row_axes()));
                match self.draft(&body, (&found, &symbolic), &outside, anchor, &stores, layout)? {
                    Some(draft) => Some(draft),
                    None => return Ok(None),
                }
            }
        };
        let epilogues = Epilogues { epilogue, draft };
        let is_made = match (kind, dtype) {
            (Anchor::Product(matrices), DType::F64) => {
                self.product::<f64>(matrices, out, epilogues, writes, id)?
            }
            (Anchor::Product(matrices), _) => self.product::<f32>(matrices, out, epilogues, writes, id)?,
            (Anchor::Convolution(call), DType::F64) => {
                self.convolution::<f64>(call, out, epilogues, writes, id)?
            }
            (Anchor::Convolution(call), _) => self.convolution::<f32>(call, out, epilogues, writes, id)?,
            (Anchor::Gufunc(call, operands), _) => {
                self.gufunc(call, operands, &[stored], epilogues, writes, id)?
            }
        };
        Ok(is_made.then_some(results))
    }

    /// Returns the types in a closed graph with their symbols, if there are any.
    fn symbolic_types(
        &mut self,
        body: &mut Graph,
        operands: &[Operand],
    ) -> Result<FxHashMap<NodeId, TypeTree>> {
        let Some(record) = &mut self.record else { return Ok(FxHashMap::default()) };
        let mut types: Vec<TypeTree> = Vec::with_capacity(operands.len());
        for operand in operands {
            let Some(window) = self.windows.get(operand.id as usize) else {
                bail!(Graph, "an operand of a kernel is not one of the plan");
            };
            types.push(TensorType::new(operand.dtype, record.dims(&window.shape)).into());
        }
        match infer_in(body, &types) {
            Ok(found) => Ok(found),
            Err(_) => {
                record.give_up();
                Ok(FxHashMap::default())
            }
        }
    }

    fn draft(
        &mut self,
        body: &Graph,
        (found, symbolic): (&FxHashMap<NodeId, TypeTree>, &FxHashMap<NodeId, TypeTree>),
        outside: &[(NodeId, OperandId)],
        anchor: Option<(NodeId, usize)>,
        stores: &[ValueId],
        layout: Layout,
    ) -> Result<Option<Draft>> {
        let mut shape = |id: NodeId| {
            let (_, sizes) = known(found.get(&id))?;
            Some(self.shape(symbolic.get(&id), &sizes))
        };
        Draft::new(body, found, &mut shape, outside, anchor, stores, layout)
    }

    /// Makes the kernel of a product; returns whether there is one.
    fn product<T: GemmElement + Real + fx_core::Element>(
        &mut self,
        Matrices { a, b }: Matrices,
        out: ValueId,
        epilogues: Epilogues,
        writes: Vec<ValueId>,
        id: NodeId,
    ) -> Result<bool> {
        let (kernel, a) = match ProductKernel::<T>::new(&a, &b, out) {
            Some(kernel) => (Some(kernel), a),
            None => {
                let a = self.contiguous(&a, id)?;
                (ProductKernel::<T>::new(&a, &b, out), a)
            }
        };
        let Some(kernel) = kernel else { return Ok(false) };
        let mut weights = None;
        if let (Some(product), Some(constant)) = (kernel.packable(), self.constant(b.value).cloned()) {
            let (at, strides) = (b.offset, kernel.b_strides());
            let pack = move |array: Array| match strides == (1, product.k)
                && product.k * product.n == array.numel()
            {
                true => Ok(product.packed_columns(array.into_vec()?)),
                false => Ok(product.packed_right(&array.data::<T>()?[at..], strides)),
            };
            weights = Some(self.packed_weights.promise(&constant, &b, 0, &mut self.jobs, pack)?);
        }
        let (a, b) = (a.id, b.id);
        let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
            let (a, b) = (instance.operand(a)?, instance.operand(b)?);
            let Some(mut kernel) = ProductKernel::<T>::new(a, b, out) else { return Ok(None) };
            if kernel.numel() != instance.values[out as usize].numel {
                return Ok(None);
            }
            if let Some(weights) = &weights {
                if kernel.packable().is_none() {
                    return Ok(None);
                }
                kernel.set_packed(weights.clone());
            }
            let Some((epilogue, epilogue_tape)) = epilogues.of(instance)? else { return Ok(None) };
            Ok(kernel.then(epilogue, epilogue_tape).map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
        };
        self.kernel(writes, id, make)
    }

    /// Returns whether the first steps after a product or convolution can be done tile by tile.
    fn has_tile_epilogue(&self, kind: &Anchor) -> bool {
        match kind {
            Anchor::Gufunc(..) => false,
            Anchor::Convolution(call) => call.layout == Layout::ChannelsLast,
            Anchor::Product(Matrices { a, b }) => {
                fn has<T: GemmElement>() -> bool {
                    T::tile().is_some()
                }
                let has_tiles = match a.dtype {
                    DType::F64 => has::<f64>(),
                    DType::F32 => has::<f32>(),
                    _ => false,
                };
                let is_constant = matches!(self.instance.values[b.value as usize].home, Home::Constant(_));
                let is_one = b.shape[..b.shape.len().saturating_sub(2)].iter().all(|&size| size == 1);
                has_tiles && is_constant && is_one && a.numel() * b.numel() > 0
            }
        }
    }

    /// Arranges the operands of an anchor without a bias; `None` if they are not of a kind that its kernel takes.
    fn anchor(&mut self, op: Op, bound: &[Arg], operands: &[Operand]) -> Result<Option<Anchor>> {
        if let (Some(spec), [x, weight]) = (spec_of(op, bound), operands) {
            if !matches!(self.instance.values[weight.value as usize].home, Home::Constant(_)) {
                return Ok(None);
            }
            let has_channels_last = match x.dtype {
                DType::F64 => ChannelsLast::<f64>::new(&spec, &x.shape, &weight.shape)?.is_some(),
                DType::F32 => ChannelsLast::<f32>::new(&spec, &x.shape, &weight.shape)?.is_some(),
                _ => return Ok(None),
            };
            let layout = if has_channels_last { Layout::ChannelsLast } else { Layout::RowMajor };
            return Ok(Some(Anchor::Convolution(ConvCall {
                spec,
                x: x.clone(),
                weight: weight.clone(),
                layout,
            })));
        }
        if let Some(def) = op.gufunc {
            return Ok(def.call(bound).map(|call| Anchor::Gufunc(call, operands.to_vec())));
        }
        let Some(Matrices { a, mut b }) = matrices(op, operands) else { return Ok(None) };
        if op == linear::OP {
            // It is the weight with its axes in the other order.
            b = self.permuted(&b, &[1, 0])?;
        }
        Ok(Some(Anchor::Product(Matrices { a, b })))
    }

    /// Makes the kernel of a convolution; returns whether there is one.
    fn convolution<T: GemmElement + Real + fx_core::Element>(
        &mut self,
        ConvCall { spec, x, weight, layout }: ConvCall,
        out: ValueId,
        epilogues: Epilogues,
        mut writes: Vec<ValueId>,
        id: NodeId,
    ) -> Result<bool> {
        let Some(constant) = self.constant(weight.value).cloned() else { return Ok(false) };
        let window = weight.clone();
        let dense = move |array: Array| {
            if window.is_contiguous() && window.numel() == array.numel() {
                return Ok(array);
            }
            array.as_strided(&window.shape, &window.strides, window.offset)?.contiguous()
        };
        let numel = move |instance: &Instance| instance.values[out as usize].numel;
        if layout == Layout::ChannelsLast {
            let Some(conv) = ChannelsLast::<T>::new(&spec, &x.shape, &weight.shape)? else {
                return Ok(false);
            };
            let packer = conv.clone();
            let pack = move |array: Array| Ok(packer.pack_vec(dense(array)?.into_vec()?));
            let weights =
                self.packed_weights.promise(&constant, &weight, conv.groups(), &mut self.jobs, pack)?;
            let (x_id, shape, has_slivers) = (x.id, weight.shape.clone(), conv.has_slivers());
            let of = move |instance: &Instance| {
                ChannelsLast::<T>::new(&spec, &instance.operand(x_id)?.shape, &shape)
            };
            // The input is read in place, or enclosed first if it has a border or lies otherwise.
            let in_place = !conv.has_border() && x.layout() == Some(Layout::ChannelsLast);
            let mut enclosed = None;
            if !in_place {
                let of = of.clone();
                let len = move |instance: &Instance| Ok(of(instance)?.map(|conv| conv.enclosed_len()));
                enclosed = self.line(Home::Memory, x.dtype, len)?;
                writes.extend(enclosed);
            }
            let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
                let (Some(conv), x) = (of(instance)?, instance.operand(x_id)?.clone()) else {
                    return Ok(None);
                };
                let fits = conv.has_slivers() == has_slivers && conv.out_len() == numel(instance);
                if !fits || (in_place && conv.has_border()) {
                    return Ok(None);
                }
                let Some(epilogues) = epilogues.of(instance)? else { return Ok(None) };
                let kernel = ChannelsLastKernel::new(conv, weights.clone(), x, enclosed, out, epilogues);
                Ok(Some(Box::new(kernel)))
            };
            return self.kernel(writes, id, make);
        }
        // Its weights are packed for inputs of these sizes.
        if let Some(record) = &mut self.record {
            record.give_up();
        }
        let array = dense(constant.array()?.clone())?;
        let x = if x.is_contiguous() { x } else { self.contiguous(&x, id)? };
        let x = x.id;
        let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
            let x = instance.operand(x)?.clone();
            let prepared = Prepared::new(&spec, &x.shape, array.data::<T>()?, &weight.shape)?;
            let Some((_, epilogue_tape)) = epilogues.of(instance)? else { return Ok(None) };
            Ok(Some(Box::new(ConvKernel::new(prepared, x, out, numel(instance), epilogue_tape))))
        };
        self.kernel(writes, id, make)
    }

    /// Makes a value for a result that lies in this order.
    pub(super) fn result(&mut self, dtype: DType, shape: Shape, layout: Layout) -> Result<Operand> {
        let value = self.value(Home::Memory, dtype, layout.arrange(&shape).into_iter().collect())?;
        self.laid_out(value, shape, layout)
    }
}

/// What is done to the parts of a result.
#[derive(Default)]
pub(super) struct Epilogues {
    epilogue: Epilogue,
    draft: Option<Draft>,
}

impl Epilogues {
    /// Returns it for the sizes of a plan; `None` if it cannot be done for these.
    pub(super) fn of(&self, instance: &Instance) -> Result<Option<(Epilogue, EpilogueTape)>> {
        let epilogue = self.epilogue.bind(instance)?;
        Ok(match &self.draft {
            None => Some((epilogue, EpilogueTape(None))),
            Some(draft) => draft.build(instance)?.map(|tape| (epilogue, EpilogueTape(Some(tape)))),
        })
    }
}

/// Returns the order in which the operands lie that have the shape of what a graph returns: channels last if
/// none lies otherwise.
fn common_layout(body: &Graph, types: &FxHashMap<NodeId, TypeTree>, operands: &[Operand]) -> Layout {
    // Rows are along the last axes as these are counted.
    let is_map = |node: &fx_core::Node| match node.op() {
        Some(op) => matches!(op.class, Class::Pointwise(_) | Class::View) || is_choice(op),
        None => true,
    };
    if !body.nodes().all(|(_, node)| is_map(node)) {
        return Layout::RowMajor;
    }
    let first = match body.output() {
        Arg::Tuple(items) => items.first().and_then(Arg::leaf),
        one => one.leaf(),
    };
    let Some((_, shape)) = known(first.and_then(|id| types.get(id))) else { return Layout::RowMajor };
    let mut whole = operands.iter().filter(|operand| operand.shape == shape).peekable();
    match whole.peek().is_some() && whole.all(Operand::has_channels_last) {
        true => Layout::ChannelsLast,
        false => Layout::RowMajor,
    }
}

/// Returns whether an operation chooses between operands element by element.
fn is_choice(op: Op) -> bool {
    op == crate::ops::view::where_::OP || op == crate::ops::view::masked_fill::OP
}

/// A convolution whose weight is a constant.
struct ConvCall {
    spec: ConvSpec,
    x: Operand,
    weight: Operand,
    /// How the result lies.
    layout: Layout,
}

/// What the anchor of a group computes.
enum Anchor {
    Product(Matrices),
    Convolution(ConvCall),
    /// The body of a gufunc on these operands.
    Gufunc(GufuncCall, Vec<Operand>),
}

impl Anchor {
    /// Returns how the result lies.
    fn layout(&self) -> Layout {
        match self {
            Anchor::Product(_) | Anchor::Gufunc(..) => Layout::RowMajor,
            Anchor::Convolution(call) => call.layout,
        }
    }

    /// Returns how many of the last axes of the result in memory make a row, of which parts are complete at a
    /// time.
    fn row_axes(&self) -> usize {
        match self {
            Anchor::Convolution(call) if call.layout == Layout::RowMajor => call.spec.stride.len(),
            // Of scalars, all of the result is changed when it is complete.
            Anchor::Gufunc(call, _) => call.def.results.first().map_or(1, |result| result.rank().max(1)),
            _ => 1,
        }
    }
}

/// Enters the types of a closed graph, and returns them.
fn infer_in(body: &mut Graph, inputs: &[TypeTree]) -> Result<FxHashMap<NodeId, TypeTree>> {
    let module = GraphModule::new("body", std::mem::take(body));
    let found = module.infer(inputs);
    *body = module.into_graph();
    Ok(found?.into_iter().collect())
}

fn find_anchor(body: &Graph, types: &FxHashMap<NodeId, TypeTree>) -> Result<Option<NodeId>> {
    let ty = |arg: &Arg| types.get(arg.leaf()?)?.tensor().cloned();
    for (id, node) in body.nodes() {
        let (Some(op), Some(out)) = (node.op(), types.get(&id).and_then(TypeTree::tensor)) else { continue };
        if is_anchor(op, &op.bind(node.args(), node.kwargs())?, ty, out) {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Makes the sum with a bias an addition of its own; returns whether there was one.
fn unbias(body: &mut Graph, anchor: NodeId) -> Result<bool> {
    let node = body.node(anchor)?;
    let Some(op) = node.op() else { return Ok(false) };
    let bound = op.bind(node.args(), node.kwargs())?;
    let (bias, op, args) = match &bound[..] {
        [x, weight, bias @ Arg::Leaf(_)] if op == linear::OP => {
            (bias.clone(), linear::OP, vec![x.clone(), weight.clone()])
        }
        [x, weight, bias @ Arg::Leaf(_), rest @ ..] if spec_of(op, &bound).is_some() => {
            let rank = spec_of(op, &bound).map_or(0, |spec| spec.stride.len());
            let (x, weight, rest) = (x.clone(), weight.clone(), rest.to_vec());
            return unbias_convolution(body, anchor, rank, (x, weight, bias.clone(), rest));
        }
        [bias, a, b, _, _] if op == addmm::OP => (bias.clone(), mm::OP, vec![a.clone(), b.clone()]),
        _ => return Ok(false),
    };
    body.transaction(|body| {
        body.set_kwargs(anchor, Vec::<(Arc<str>, Arg)>::new())?;
        if op == mm::OP {
            body.set_op(anchor, op)?;
        }
        body.set_args(anchor, args)?;
        let sum = body
            .inserting_after(anchor, |body| body.call_function(ops::add::OP, [Arg::Leaf(anchor), bias]))??;
        body.replace_uses_where(anchor, sum, |user| user != sum)?;
        Ok(())
    })?;
    Ok(true)
}

/// As [`unbias`], for a convolution over `rank` axes: the bias belongs to the channels, the axis before these.
fn unbias_convolution(
    body: &mut Graph,
    anchor: NodeId,
    rank: usize,
    (x, weight, bias, rest): (Arg, Arg, Arg, Vec<Arg>),
) -> Result<bool> {
    body.transaction(|body| {
        let Some(op) = body.node(anchor)?.op() else { return Ok(()) };
        let (args, kwargs) = op.spell(&[[x, weight, Arg::None].as_slice(), &rest].concat());
        body.set_kwargs(anchor, Vec::<(Arc<str>, Arg)>::new())?;
        body.set_args(anchor, args)?;
        body.set_kwargs(anchor, kwargs)?;
        let sizes = [Arg::Int(-1)].into_iter().chain(std::iter::repeat_n(Arg::Int(1), rank));
        let shape = Arg::list(sizes);
        let sum = body.inserting_after(anchor, |body| -> Result<NodeId> {
            let column = body.call_function(crate::ops::view::reshape::OP, [bias, shape])?;
            body.call_function(ops::add::OP, [Arg::Leaf(anchor), Arg::Leaf(column)])
        })??;
        body.replace_uses_where(anchor, sum, |user| user != sum)?;
        Ok(())
    })?;
    Ok(true)
}
