//! Kernels of single nodes and of groups.

use std::sync::Arc;

use fx_core::math::Real;
use fx_core::{
    Arg, Array, Class, DType, Graph, GraphModule, NodeId, Op, OpCode, Result, TensorType, TypeTree, ops,
};
use rustc_hash::FxHashMap;

use super::{Home, Lowered, Lowering, known, type_of};
use crate::engine::Kernel;
use crate::engine::attend::{AttentionKernel, Options};
use crate::engine::convolution::{ChannelsLastKernel, ConvKernel, is_convolution, spec_of};
use crate::engine::finish::Ending;
use crate::engine::operand::{Layout, Operand, ValueId};
use crate::engine::product::{Matrices, ProductKernel, is_product, matrices};
use crate::engine::tape::{Epilogue, build};
use crate::kernel::conv::{ChannelsLast, ConvSpec, Prepared};
use crate::kernel::gemm::GemmElement;
use crate::linalg::{addmm, linear, mm};

impl Lowering<'_> {
    pub(super) fn attention(&mut self, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let [q, k, v, mask, dropout, Arg::Bool(is_causal), scale, Arg::Bool(grouped)] = bound else {
            return Ok(None);
        };
        let Some((dtype, shape)) = known(self.gm.graph().node(id)?.ty()) else { return Ok(None) };
        let scale = match scale {
            Arg::None => None,
            arg => match arg.scalar() {
                Some(x) => Some(x.to_f64()),
                None => return Ok(None),
            },
        };
        let no_dropout = dropout.scalar().is_some_and(|p| p.to_f64() == 0.0);
        if !no_dropout || !matches!(dtype, DType::F32 | DType::F64) || shape.len() < 2 {
            return Ok(None);
        }
        let lowered = |arg: &Arg| arg.leaf().and_then(|id| self.env.get(id)).cloned();
        let Some(Lowered::Tensor(q)) = lowered(q) else { return Ok(None) };
        let mask = match (mask, lowered(mask)) {
            (Arg::None, _) => None,
            (_, Some(Lowered::Tensor(mask))) if mask.dtype == dtype || mask.dtype == DType::Bool => {
                Some(mask)
            }
            _ => return Ok(None),
        };
        let is_along_keys = |parts: &[Operand], axis: usize| axis + 2 == parts[0].shape.len();
        let parts: Vec<(Operand, Operand)> = match (lowered(k), lowered(v)) {
            (Some(Lowered::Tensor(k)), Some(Lowered::Tensor(v))) => vec![(k, v)],
            (Some(Lowered::Joined(k, k_axis)), Some(Lowered::Joined(v, v_axis)))
                if k.len() == v.len()
                    && is_along_keys(&k, k_axis)
                    && is_along_keys(&v, v_axis)
                    && k.iter().zip(&v).all(|(k, v)| k.shape[k_axis] == v.shape[v_axis]) =>
            {
                k.into_iter().zip(v).collect()
            }
            _ => return Ok(None),
        };
        if parts.iter().any(|(k, v)| k.dtype != dtype || v.dtype != dtype) || q.dtype != dtype {
            return Ok(None);
        }
        // The result lies with the heads inside, as what follows most often wants it.
        let rank = shape.len();
        let n_values = self.values.len();
        let mut physical = shape.clone();
        if rank >= 3 {
            physical.swap(rank - 3, rank - 2);
        }
        let value = self.value(Home::Memory, dtype, &physical)?;
        let mut out = Operand::whole(value, dtype, &physical);
        if rank >= 3 {
            out.shape.swap(rank - 3, rank - 2);
            out.strides.swap(rank - 3, rank - 2);
        }
        let options = Options { is_causal: *is_causal, scale, grouped: *grouped };
        let kernel: Option<Box<dyn Kernel>> = match dtype {
            DType::F64 => AttentionKernel::<f64>::new(&q, &parts, mask.as_ref(), options, &out)
                .map(|kernel| Box::new(kernel) as Box<dyn Kernel>),
            _ => AttentionKernel::<f32>::new(&q, &parts, mask.as_ref(), options, &out)
                .map(|kernel| Box::new(kernel) as Box<dyn Kernel>),
        };
        let Some(kernel) = kernel else {
            self.values.truncate(n_values);
            return Ok(None);
        };
        self.push_kernel(kernel, vec![value], id);
        Ok(Some(Lowered::Tensor(out)))
    }

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
                || build::select_of(op, bound)
                    .is_some_and(|args| build::is_select(args, |arg| self.tensor_type(arg), ty))
                || is_anchor(op, bound, |arg| self.tensor_type(arg), ty)
                || bound
                    .first()
                    .and_then(|arg| self.tensor_type(arg))
                    .is_some_and(|x| build::row_kind(op, bound, &x).is_some()))
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
        Ok(self.group(&body, &operands, id)?.and_then(|mut results| results.pop()))
    }

    /// Makes a kernel of a closed graph; `None` if there is none for it.
    pub(super) fn group(
        &mut self,
        body: &Graph,
        operands: &[Operand],
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
            let Some(heavy) = self.heavy(op, &bound, &tensors)? else { return Ok(None) };
            product = Some((anchor, heavy));
        }
        let mut given = self.views_in(&body, operands)?;
        let (mut ending, mut done) = (Ending::default(), Vec::new());
        let layout = match &product {
            Some((_, heavy)) => heavy.layout(),
            None => common_layout(&body, &found, operands),
        };
        if let Some((anchor, heavy)) = &mut product
            && self.ends_in_tiles(heavy)
        {
            let placeholders = body.placeholders();
            let operand = |id: NodeId| match placeholders.iter().position(|other| *other == id) {
                Some(i) => operands.get(i).cloned(),
                None => given.iter().find(|(view, _)| *view == id).map(|(_, view)| view.clone()),
            };
            (ending, done) = Ending::find(&body, &found, *anchor, &operand, layout)?;
            *anchor = done.pop().unwrap_or(*anchor);
        }
        let returned: Vec<Arg> = match body.output() {
            Arg::Tuple(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        let first_value = self.values.len();
        let mut results = Vec::new();
        for arg in &returned {
            let ty = arg.leaf().and_then(|id| found.get(id));
            let Some((dtype, shape)) = known(ty) else {
                self.values.truncate(first_value);
                return Ok(None);
            };
            results.push(self.result(dtype, &shape, layout)?);
        }
        let stores: Vec<ValueId> = results.iter().map(|result| result.value).collect();
        let Some((anchor, heavy)) = product else {
            let Some(tape) = build::build(&body, &found, operands, &given, None, &stores, layout)? else {
                self.values.truncate(first_value);
                return Ok(None);
            };
            self.push_kernel(Box::new(tape), stores, id);
            return Ok(Some(results));
        };
        let Some((dtype, shape)) = known(found.get(&anchor)) else {
            self.values.truncate(first_value);
            return Ok(None);
        };
        // The product is written where it is returned, or where a result of its type goes, or else beside them.
        let is_anchor = |arg: &Arg| arg.leaf() == Some(&anchor);
        let fits = |result: &Operand| result.dtype == dtype && result.shape == shape;
        let place = returned.iter().position(is_anchor).or_else(|| results.iter().position(fits));
        let mut writes = stores.clone();
        let out = match place {
            Some(i) => stores[i],
            None => {
                let value = self.result(dtype, &shape, layout)?.value;
                writes.push(value);
                value
            }
        };
        // What is done tile by tile is found where the result is.
        let stored = Operand::laid_out(out, dtype, &shape, layout);
        given.extend(done.into_iter().chain([anchor]).map(|id| (id, stored.clone())));
        let is_given = |id| given.iter().any(|(other, _)| *other == id);
        let has_more = !returned.iter().all(is_anchor)
            || body.nodes().any(|(id, node)| {
                !is_given(id) && !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output)
            });
        let epilogue = Epilogue(match has_more {
            false => None,
            true => match build::build(
                &body,
                &found,
                operands,
                &given,
                Some((anchor, heavy.row_axes())),
                &stores,
                layout,
            )? {
                Some(tape) => Some(tape),
                None => {
                    self.values.truncate(first_value);
                    return Ok(None);
                }
            },
        });
        let ends = (ending, epilogue);
        let kernel = match (heavy, dtype) {
            (Heavy::Product(matrices), DType::F64) => self.product::<f64>(&matrices, out, ends, id)?,
            (Heavy::Product(matrices), _) => self.product::<f32>(&matrices, out, ends, id)?,
            (Heavy::Convolution(call), DType::F64) => {
                self.convolution::<f64>(&call, out, ends, &mut writes, id)?
            }
            (Heavy::Convolution(call), _) => self.convolution::<f32>(&call, out, ends, &mut writes, id)?,
        };
        let Some(kernel) = kernel else { return Ok(None) };
        self.push_kernel(kernel, writes, id);
        Ok(Some(results))
    }

    fn product<T: GemmElement + Real + fx_core::Element>(
        &mut self,
        Matrices { a, b }: &Matrices,
        out: ValueId,
        (ending, epilogue): (Ending, Epilogue),
        id: NodeId,
    ) -> Result<Option<Box<dyn Kernel>>> {
        let kernel = match ProductKernel::<T>::new(a, b, out) {
            Some(kernel) => Some(kernel),
            None => {
                let a = self.contiguous(a, id)?;
                ProductKernel::<T>::new(&a, b, out)
            }
        };
        let Some(mut kernel) = kernel else { return Ok(None) };
        if let (Some(product), Some(constant)) = (kernel.packable(), self.constant(b.value).cloned()) {
            let (at, strides) = (b.offset, kernel.b_strides());
            let pack = move |array: Array| match strides == (1, product.k)
                && product.k * product.n == array.numel()
            {
                true => Ok(product.packed_columns(array.into_vec()?)),
                false => Ok(product.packed_right(&array.data::<T>()?[at..], strides)),
            };
            kernel.set_packed(self.packs.promise(&constant, b, 0, &mut self.jobs, pack)?);
        }
        Ok(kernel.then(ending, epilogue).map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
    }

    /// Returns whether the first steps after a product or convolution can be done tile by tile.
    fn ends_in_tiles(&self, heavy: &Heavy) -> bool {
        match heavy {
            Heavy::Convolution(call) => call.layout == Layout::ChannelsLast,
            Heavy::Product(Matrices { a, b }) => {
                fn has<T: GemmElement>() -> bool {
                    T::tile().is_some()
                }
                let has_tiles = if a.dtype == DType::F64 { has::<f64>() } else { has::<f32>() };
                let is_constant = matches!(self.values[b.value as usize].home, Home::Constant(_));
                let is_one = b.shape[..b.shape.len().saturating_sub(2)].iter().all(|&size| size == 1);
                has_tiles && is_constant && is_one && a.numel() * b.numel() > 0
            }
        }
    }

    /// Arranges the operands of an anchor without a bias; `None` if they are not of a kind that its kernel takes.
    fn heavy(&self, op: Op, bound: &[Arg], operands: &[Operand]) -> Result<Option<Heavy>> {
        if let (Some(spec), [x, weight]) = (spec_of(op, bound), operands) {
            if !matches!(self.values[weight.value as usize].home, Home::Constant(_)) {
                return Ok(None);
            }
            let has_channels_last = match x.dtype {
                DType::F64 => ChannelsLast::<f64>::new(&spec, &x.shape, &weight.shape)?.is_some(),
                _ => ChannelsLast::<f32>::new(&spec, &x.shape, &weight.shape)?.is_some(),
            };
            let layout = if has_channels_last { Layout::ChannelsLast } else { Layout::RowMajor };
            return Ok(Some(Heavy::Convolution(ConvCall {
                spec,
                x: x.clone(),
                weight: weight.clone(),
                layout,
            })));
        }
        Ok(matrices(op, operands).map(Heavy::Product))
    }

    fn convolution<T: GemmElement + Real + fx_core::Element>(
        &mut self,
        ConvCall { spec, x, weight, layout }: &ConvCall,
        out: ValueId,
        (ending, epilogue): (Ending, Epilogue),
        writes: &mut Vec<ValueId>,
        id: NodeId,
    ) -> Result<Option<Box<dyn Kernel>>> {
        let Some(constant) = self.constant(weight.value).cloned() else { return Ok(None) };
        let window = weight.clone();
        let dense = move |array: Array| {
            if window.is_contiguous() && window.numel() == array.numel() {
                return Ok(array);
            }
            array.as_strided(&window.shape, &window.strides, array.offset() + window.offset)?.contiguous()
        };
        if *layout == Layout::ChannelsLast {
            let Some(conv) = ChannelsLast::<T>::new(spec, &x.shape, &weight.shape)? else { return Ok(None) };
            let packer = conv.clone();
            let pack = move |array: Array| Ok(packer.pack_vec(dense(array)?.into_vec()?));
            let weights = self.packs.promise(&constant, weight, conv.groups(), &mut self.jobs, pack)?;
            // The input is read in place, or enclosed first if it has a border or lies otherwise.
            let enclosed = match !conv.has_border() && x.layout() == Some(Layout::ChannelsLast) {
                true => None,
                false => {
                    let value = self.value(Home::Memory, x.dtype, &[conv.enclosed_len()])?;
                    writes.push(value);
                    Some(value)
                }
            };
            return Ok(Some(Box::new(ChannelsLastKernel::new(
                conv,
                weights,
                x.clone(),
                enclosed,
                out,
                (ending, epilogue),
            ))));
        }
        let prepared =
            Prepared::new(spec, &x.shape, dense(constant.array()?.clone())?.data::<T>()?, &weight.shape)?;
        let x = if x.is_contiguous() { x.clone() } else { self.contiguous(x, id)? };
        let numel = self.values[out as usize].numel;
        Ok(Some(Box::new(ConvKernel::new(prepared, x, out, numel, epilogue))))
    }

    /// Makes a value for a result that lies in this order.
    pub(super) fn result(&mut self, dtype: DType, shape: &[usize], layout: Layout) -> Result<Operand> {
        let value = self.value(Home::Memory, dtype, &layout.arrange(shape))?;
        Ok(Operand::laid_out(value, dtype, shape, layout))
    }
}

/// Returns the order in which the operands lie that have the shape of what a graph returns: channels last if none lies otherwise.
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
    op == crate::view::where_::OP || op == crate::view::masked_fill::OP
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
enum Heavy {
    Product(Matrices),
    Convolution(ConvCall),
}

impl Heavy {
    /// Returns how the result lies.
    fn layout(&self) -> Layout {
        match self {
            Heavy::Product(_) => Layout::RowMajor,
            Heavy::Convolution(call) => call.layout,
        }
    }

    /// Returns how many of the last axes of the result in memory make a row, of which parts are complete at a time.
    fn row_axes(&self) -> usize {
        match self {
            Heavy::Convolution(call) if call.layout == Layout::RowMajor => call.spec.stride.len(),
            _ => 1,
        }
    }
}

/// Returns whether a call can be the anchor of a group: a matrix product or a convolution of floats.
pub(crate) fn is_anchor(
    op: Op,
    bound: &[Arg],
    ty: impl Fn(&Arg) -> Option<TensorType>,
    out: &TensorType,
) -> bool {
    matches!(out.dtype, DType::F32 | DType::F64)
        && (is_product(op, bound, &ty) || is_convolution(op, bound, &ty))
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
            let column = body.call_function(crate::view::reshape::OP, [bias, shape])?;
            body.call_function(ops::add::OP, [Arg::Leaf(anchor), Arg::Leaf(column)])
        })??;
        body.replace_uses_where(anchor, sum, |user| user != sum)?;
        Ok(())
    })?;
    Ok(true)
}
