//! Loops: pointwise nodes of one shape that are computed together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fx_core::loops::{self, Operand, Work};
use fx_core::pointwise::{Argument, Check, PointwiseDef};
use fx_core::{Arg, Category, Class, DType, Dim, Graph, NodeId, Result, Scalar, Type, TypeTree, bail, err};

use super::{Lowering, comment, is_built_in};
use crate::native::stands_alone;
use crate::standalone::step::{Loop, Step};
use crate::standalone::table;
use crate::standalone::value::{Home, StandsFor, Value, View};

/// The longest loop.
const LONGEST: usize = 32;

/// A group of nodes that become one loop.
pub(super) struct Group {
    pub(super) members: Vec<usize>,
    shape: Vec<Dim>,
}

impl Lowering<'_> {
    /// Makes a loop of a group.
    pub(super) fn group(
        &mut self,
        graph: &Graph,
        ids: &[NodeId],
        at: &HashMap<NodeId, usize>,
        group: &Group,
        values: &mut [Option<Value>],
    ) -> Result<()> {
        let mut made = Loop {
            shape: group.shape.clone(),
            reads: Vec::new(),
            sizes: Vec::new(),
            ops: Vec::new(),
            writes: Vec::new(),
            in_place: Vec::new(),
        };
        let mut step_of: BTreeMap<usize, usize> = BTreeMap::new();
        for &member in &group.members {
            self.steps.push(Step::Comment(comment(graph, ids[member])?));
            let op = match loop_step(graph, ids[member], at, values, &step_of, &mut made) {
                Ok(op) => op,
                Err(error) => {
                    self.problem(graph, ids[member], &error)?;
                    let dtype = graph
                        .node(ids[member])?
                        .ty()
                        .and_then(TypeTree::tensor)
                        .map_or(DType::F32, |ty| ty.dtype);
                    loops::Step::new(Work::Convert, [Operand::Number(Scalar::Int(0))], [dtype; 2])
                }
            };
            if let Err(error) = self.checked(&op, &made.reads, &made.sizes) {
                self.problem(graph, ids[member], &error)?;
            }
            made.ops.push(op);
            step_of.insert(member, made.ops.len() - 1);
        }
        for (&member, &step) in &step_of {
            let is_outside = |user: &NodeId| at.get(user).is_none_or(|user| !step_of.contains_key(user));
            if graph.users(ids[member])?.iter().any(is_outside) {
                let mut view = self.buffer(made.ops[step].dtype, &group.shape);
                if graph.node(ids[member])?.ty().is_some_and(|ty| ty.tensor().is_none()) {
                    view.stands_for = StandsFor::Number;
                }
                if let Home::Buffer(id) = view.home {
                    made.writes.push((id, step));
                }
                values[member] = Some(Arg::Leaf(view));
            }
        }
        self.steps.push(Step::Loop(made));
        Ok(())
    }

    /// Adds the check that a row makes of its last operand, if it makes one of what is no number yet.
    fn checked(&mut self, op: &loops::Step, reads: &[View], sizes: &[Dim]) -> Result<()> {
        let Work::Map(PointwiseDef { check: Some(check), .. }) = op.work else { return Ok(()) };
        if !op.from.is_int() {
            return Ok(());
        }
        let view = match op.operands.last() {
            Some(Operand::Number(_)) => return Ok(()),
            Some(Operand::Load(_) | Operand::Step(_)) if !check.is_of_elements() => return Ok(()),
            Some(Operand::Load(i)) => {
                let mut view = reads[*i as usize].clone();
                for (size, stride) in view.shape.iter_mut().zip(&view.strides) {
                    if *stride == Dim::new(0) && *size != Dim::new(0) {
                        *size = Dim::new(1);
                    }
                }
                view
            }
            // A narrower integer may wrap a size to zero.
            Some(Operand::Size(i)) if sizes[*i as usize].bounds().0 > 0 && op.from == DType::I64 => {
                return Ok(());
            }
            Some(Operand::Size(i)) => self.number(&Arg::dim(sizes[*i as usize].clone()))?,
            _ => bail!(Graph, "the operand that a check reads is no value"),
        };
        let view = self.converted(&view, op.from)?;
        match check {
            Check::NonZero => self.refuse(&view, "x == 0", check.error().message()),
            Check::NonNegative if op.from == DType::U8 => {}
            Check::NonNegative => self.refuse(&view, "x < 0", check.error().message()),
        }
        Ok(())
    }
}

/// Returns whether a node checks elements of its operands before it computes them, so that they must be there.
fn is_checked(graph: &Graph, id: NodeId) -> Result<bool> {
    let node = graph.node(id)?;
    let is_integral = node.ty().and_then(TypeTree::tensor).is_some_and(|ty| ty.dtype.is_int());
    let Some((op, Class::Pointwise(def))) = node.op().map(|op| (op, op.class)) else { return Ok(false) };
    let Some(check) = def.check.filter(|_| is_integral) else { return Ok(false) };
    let bound = op.bind(node.args(), node.kwargs())?;
    Ok(match bound[..def.operands.len()].last() {
        Some(Arg::Leaf(_)) => check.is_of_elements(),
        last => last.is_none_or(|last| last.scalar().is_none()),
    })
}

/// Returns whether a node can be a part of a loop, and the shape of the loop.
fn loop_shape(graph: &Graph, id: NodeId) -> Result<Option<Vec<Dim>>> {
    let node = graph.node(id)?;
    let (Some(op), Some(Arg::Leaf(ty))) = (node.op(), node.ty()) else { return Ok(None) };
    let is_map = matches!(op.class, Class::Pointwise(_)) && op.effects.is_pure();
    Ok(match ty {
        Type::Tensor(ty) if is_map || is_built_in(op) && table::LOOPS.contains(&op.name) => {
            Some(ty.shape.to_vec())
        }
        // Numbers are computed as tensors of rank 0.
        Type::Bool | Type::Int | Type::Float if is_map => Some(Vec::new()),
        _ => None,
    })
}

/// Puts nodes into groups. A node joins the group of an operand if it has its shape, and if whatever else
/// uses a value of that group comes after the node: so the group can be computed where its last member is.
pub(super) fn groups(
    graph: &Graph,
    ids: &[NodeId],
    at: &HashMap<NodeId, usize>,
) -> Result<(Vec<Option<usize>>, Vec<Group>)> {
    let mut group_of: Vec<Option<usize>> = vec![None; ids.len()];
    let mut groups: Vec<Group> = Vec::new();
    for (i, id) in ids.iter().enumerate() {
        let Some(shape) = loop_shape(graph, *id)? else { continue };
        let operands: BTreeSet<usize> = match is_checked(graph, *id)? {
            true => BTreeSet::new(),
            false => graph.node(*id)?.inputs().filter_map(|input| group_of[at[&input]]).collect(),
        };
        let mut joined = None;
        for &group in operands.iter().rev() {
            let candidate = &groups[group];
            if candidate.shape != shape || candidate.members.len() >= LONGEST {
                continue;
            }
            let mut fits = true;
            for &member in &candidate.members {
                let early = |user: &NodeId| at[user] < i && group_of[at[user]] != Some(group);
                fits &= !graph.users(ids[member])?.iter().any(early);
            }
            if fits {
                joined = Some(group);
                break;
            }
        }
        let group = joined.unwrap_or_else(|| {
            groups.push(Group { members: Vec::new(), shape });
            groups.len() - 1
        });
        groups[group].members.push(i);
        group_of[i] = Some(group);
    }
    Ok((group_of, groups))
}

/// Returns the dtype of a number.
pub(super) fn number_dtype(x: Scalar) -> DType {
    match x.category() {
        Category::Bool => DType::Bool,
        Category::Int => DType::I64,
        Category::Float => DType::F64,
    }
}

/// Returns a number that is known, or a size, as an operand.
fn number_of<L>(arg: &Arg<L>, sizes: &mut Vec<Dim>) -> Result<(Operand, Argument)> {
    if let Arg::Dim(size) = arg {
        sizes.push(size.clone());
        return Ok((Operand::Size(sizes.len() as u32 - 1), Argument::Number(Category::Int)));
    }
    match arg.scalar() {
        Some(x) => Ok((Operand::Number(x), Argument::Known(x))),
        None => bail!(Unresolved, "an operand is {}, not a number", arg.kind_name()),
    }
}

/// Makes the step of a node. What it reads from memory, and sizes, become those of the loop.
fn loop_step(
    graph: &Graph,
    id: NodeId,
    at: &HashMap<NodeId, usize>,
    values: &[Option<Value>],
    step_of: &BTreeMap<usize, usize>,
    made: &mut Loop,
) -> Result<loops::Step> {
    let node = graph.node(id)?;
    let (Some(op), Some(Arg::Leaf(ty))) = (node.op(), node.ty()) else {
        bail!(Graph, "a loop has an operation on tensors or numbers");
    };
    let bound = op.bind(node.args(), node.kwargs())?;
    let mut operand = |arg: &Arg| -> Result<(Operand, Argument)> {
        let id = match arg {
            Arg::Leaf(id) => *id,
            arg => return number_of(arg, &mut made.sizes),
        };
        let position = at[&id];
        if let Some(&step) = step_of.get(&position) {
            let argument = match graph.node(id)?.ty().and_then(TypeTree::tensor) {
                Some(ty) => Argument::from(ty),
                None => Argument::Number(made.ops[step].dtype.category()),
            };
            return Ok((Operand::Step(step as u32), argument));
        }
        let value =
            values[position].as_ref().ok_or_else(|| err!(Graph, "a value is used before it is computed"))?;
        let view = match value {
            Arg::Leaf(view) => view,
            value => return number_of(value, &mut made.sizes),
        };
        let argument = match view.stands_for {
            StandsFor::Number => Argument::Number(view.dtype.category()),
            StandsFor::Tensor => Argument::from(&view.ty()),
            StandsFor::List => bail!(Unresolved, "an operand is a list"),
        };
        let wide = View { shape: made.shape.clone(), strides: view.broadcast(&made.shape), ..view.clone() };
        let same = |other: &View| {
            other.home == wide.home && other.strides == wide.strides && other.offset == wide.offset
        };
        let read = made.reads.iter().position(same).unwrap_or_else(|| {
            made.reads.push(wide.clone());
            made.reads.len() - 1
        });
        Ok((Operand::Load(read as u32), argument))
    };
    let Class::Pointwise(def) = op.class else {
        let (work, args): (Work, Vec<&Arg>) = match (op.name, &bound[..]) {
            ("to" | "type_as", [x, _]) => (Work::Convert, vec![x]),
            ("where", [mask, yes, no]) => (Work::Select, vec![mask, yes, no]),
            ("masked_fill", [no, mask, yes]) => (Work::Select, vec![mask, yes, no]),
            _ => bail!(Unresolved, "the operation has no stand-alone code"),
        };
        let operands = args.into_iter().map(|arg| Ok(operand(arg)?.0)).collect::<Result<Vec<_>>>()?;
        let dtype = ty.tensor().ok_or_else(|| err!(Graph, "{} gives a tensor", op.name))?.dtype;
        let from = match (work, &operands[..]) {
            (Work::Convert, [x]) => made.dtype_of(*x, dtype),
            _ => dtype,
        };
        return Ok(loops::Step::new(work, operands, [from, dtype]));
    };
    let (operands, params) = bound.split_at(def.operands.len());
    let mut given: Vec<Option<Operand>> = Vec::new();
    let mut arguments: Vec<Argument> = Vec::new();
    for arg in operands {
        let (operand, argument) = match arg {
            Arg::None => (None, Argument::Absent),
            arg => operand(arg).map(|(operand, argument)| (Some(operand), argument))?,
        };
        given.push(operand);
        arguments.push(argument);
    }
    let param = |arg: &Arg| arg.scalar().ok_or_else(|| err!(Unresolved, "a parameter is not a number"));
    let params = params.iter().map(param).collect::<Result<Vec<Scalar>>>()?;
    let call = def.resolve(&arguments, &params)?;
    let source = call.def.source(call.dtype);
    stands_alone(call.def, source.ok_or_else(|| err!(DType, "it has no body for {}", call.dtype))?)?;
    loops::Step::of_call(&call, |i| given[i], |x, _| x).ok_or_else(|| err!(Argument, "an operand is missing"))
}
