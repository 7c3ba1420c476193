//! The graph of a segment: its events are traced again, with the types of its inputs.

use std::any::Any;
use std::sync::Arc;

use super::event::{Event, Wire};
use super::segment::{Expected, Segment, Size, Slot};
use crate::module::{InputDecl, Visitor, VisitorMut};
use crate::trace::{Traceable, apply_at};
use crate::{
    Arg, Array, Dim, GraphModule, Module, Parameter, Result, Tensor, TensorType, TypeTree, Value, err,
};

/// The parameters of the compiled module by path, which are constants of segments.
///
/// As a module it has only these, so that a traced segment reads them by their paths.
#[derive(Clone, Default)]
pub(super) struct Constants {
    parameters: Vec<(String, Parameter)>,
}

impl Constants {
    /// Collects the parameters and constants below a module.
    pub(super) fn of(root: Option<&dyn Module>) -> Constants {
        let mut walk = Walk { parameters: Vec::new(), prefix: String::new() };
        if let Some(root) = root {
            root.visit(&mut walk);
        }
        Constants { parameters: walk.parameters }
    }

    /// Returns the path of a parameter.
    pub(super) fn path(&self, array: &Arc<Array>) -> Option<&str> {
        let is_same = |(_, parameter): &&(String, Parameter)| {
            parameter.tensor().shared_array().is_some_and(|other| Arc::ptr_eq(other, array))
        };
        self.parameters.iter().find(is_same).map(|(path, _)| &**path)
    }

    /// Returns the value of the parameter at a path.
    pub(super) fn array(&self, path: &str) -> Option<Arc<Array>> {
        let (_, parameter) = self.parameters.iter().find(|(other, _)| other == path)?;
        parameter.tensor().shared_array().cloned()
    }

    /// Returns whether this is the memory of a parameter.
    pub(super) fn has(&self, array: &Arc<Array>) -> bool {
        let is_same = |(_, parameter): &(String, Parameter)| {
            parameter.tensor().shared_array().is_some_and(|other| Arc::ptr_eq(other, array))
        };
        self.parameters.iter().any(is_same)
    }
}

struct Walk {
    parameters: Vec<(String, Parameter)>,
    prefix: String,
}

impl Walk {
    fn path(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}

impl<'a> Visitor<'a> for Walk {
    fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
        self.parameters.push((self.path(name), parameter.clone()));
    }
    fn buffer(&mut self, _: &str, _: &'a crate::Buffer) {}
    fn constant(&mut self, name: &str, tensor: &'a Tensor) {
        self.parameters.push((self.path(name), Parameter::new(tensor.clone())));
    }
    fn module(&mut self, name: &str, module: &'a dyn Module) {
        let inner = self.path(name);
        let outer = std::mem::replace(&mut self.prefix, inner);
        module.visit(self);
        self.prefix = outer;
    }
}

impl Module for Constants {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        for (path, parameter) in &self.parameters {
            visitor.parameter(path, parameter);
        }
    }
    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        for (path, parameter) in &mut self.parameters {
            visitor.parameter(path, parameter);
        }
    }
    fn type_name(&self) -> &'static str {
        "Segment"
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A segment as a function that can be traced.
struct Replay<'a> {
    segment: &'a Segment,
    outputs: &'a [u32],
    constants: &'a Constants,
}

#[derive(Debug)]
enum BySegment {}

impl Replay<'_> {
    /// Returns the names and types of the arguments.
    fn inputs(&self) -> Vec<(String, TypeTree)> {
        let segment = self.segment;
        let mut inputs: Vec<(String, TypeTree)> = Vec::new();
        let mut add = |wanted: &str, ty: TypeTree| {
            let is_free = |name: &str| inputs.iter().all(|(other, _)| other != name);
            let numbered = || (1..).map(|i| format!("{wanted}_{i}")).find(|name| is_free(name));
            let name = if is_free(wanted) { Some(wanted.to_owned()) } else { numbered() };
            inputs.push((name.expect("some number is free"), ty));
        };
        for expected in &segment.outside {
            let Expected::Input { name, dtype, sizes } = expected else { continue };
            let dims = sizes.iter().map(|size| match *size {
                Size::Is(n) => Dim::new(n),
                Size::Symbol(symbol) => Dim::symbol(segment.symbols[symbol as usize].clone()),
            });
            add(name, TensorType { dtype: *dtype, shape: dims.collect() }.into());
        }
        for symbol in &segment.integers {
            let symbol = &segment.symbols[*symbol as usize];
            add(symbol.name(), Arg::dim(Dim::symbol(symbol.clone())));
        }
        for (_, slot) in &segment.slots {
            if let Slot::Number { dtype, .. } = slot {
                add("number", TensorType::new(*dtype, &[][..]).into());
            }
        }
        inputs
    }
}

impl Traceable<BySegment> for Replay<'_> {
    fn name(&self) -> String {
        format!("segment{}", self.segment.id)
    }

    fn arguments(&self) -> Vec<InputDecl> {
        self.inputs().into_iter().map(|(name, ty)| InputDecl::new(name, Ok(ty.map(&mut |_| ())))).collect()
    }

    fn root(&self) -> Option<&dyn Module> {
        Some(self.constants)
    }

    fn run(&self, args: &[Value]) -> Result<Value> {
        let mut args = args.iter().filter_map(Arg::leaf).cloned();
        let mut next = || args.next().ok_or_else(|| err!(Trace, "a segment has more inputs than arguments"));
        let outside = self.segment.outside.iter().map(|expected| match expected {
            Expected::Constant(array) => Ok(Tensor::from_shared(array.clone())),
            Expected::Input { .. } => next(),
        });
        let outside = outside.collect::<Result<Vec<Tensor>>>()?;
        let mut numbers = Vec::new();
        for (literal, slot) in &self.segment.slots {
            numbers.push((
                *literal,
                match slot {
                    Slot::Size(size) => Arg::dim(size.clone()),
                    Slot::Number { .. } => Arg::Leaf(next()?),
                },
            ));
        }
        let number =
            |literal: u32| numbers.iter().find(|(other, _)| *other == literal).map(|(_, arg)| arg.clone());
        let locals = replay(&self.segment.events, &outside, &number, &mut |_, result| result)?;
        Ok(Arg::tuple(self.outputs.iter().map(|local| Arg::Leaf(locals[*local as usize].clone()))))
    }
}

/// Applies events one after another. `number` tells the numbers that vary, and `after` gets each result with
/// the number of its event; a result that is an error goes on as one. Fails with the first error that `after`
/// leaves.
pub(super) fn replay(
    events: &[Event],
    outside: &[Tensor],
    number: &dyn Fn(u32) -> Option<Value>,
    after: &mut dyn FnMut(usize, Result<Value>) -> Result<Value>,
) -> Result<Vec<Tensor>> {
    let mut locals: Vec<Tensor> = Vec::new();
    for (at, event) in events.iter().enumerate() {
        let value = |arg: &Arg<Wire>| {
            arg.try_flat_map(&mut |wire| {
                Ok(match wire {
                    Wire::Local(local) => Arg::Leaf(locals[*local as usize].clone()),
                    Wire::Outside(input) => Arg::Leaf(outside[*input as usize].clone()),
                    Wire::Literal(literal) => number(*literal)
                        .ok_or_else(|| err!(Trace, "a number of a compiled segment is not bound"))?,
                })
            })
        };
        let args = event.args.iter().map(value).collect::<Result<Vec<Value>>>()?;
        let kwargs = event.kwargs.iter().map(|(key, arg)| Ok((&**key, value(arg)?)));
        let kwargs = kwargs.collect::<Result<Vec<(&str, Value)>>>()?;
        let result = apply_at(event.op, event.method, &args, &kwargs, event.source.clone());
        let result = after(at, result)?;
        take_leaves(event, &result, &mut locals)?;
    }
    Ok(locals)
}

/// Appends the tensors of a result. A symbol for several tensors is taken apart.
fn take_leaves(event: &Event, result: &Value, locals: &mut Vec<Tensor>) -> Result<()> {
    let n = event.result.leaves().len();
    if let (Arg::Leaf(tensor), false) = (result, matches!(event.result, Arg::Leaf(_))) {
        if let Some(error) = tensor.error() {
            locals.extend(std::iter::repeat_n(Tensor::failed(error.clone()), n));
            return Ok(());
        }
        return part(&event.result, tensor, event, locals);
    }
    let leaves = result.leaves();
    if leaves.len() != n {
        return Err(err!(
            Trace,
            "{} returned {} tensors, and its types say {n}",
            event.op.name,
            leaves.len()
        )
        .at(event.source.clone()));
    }
    locals.extend(leaves.into_iter().cloned());
    Ok(())
}

fn part<T>(types: &Arg<T>, whole: &Tensor, event: &Event, locals: &mut Vec<Tensor>) -> Result<()> {
    let get = |key: Value| -> Result<Tensor> {
        let args = [Arg::Leaf(whole.clone()), key];
        apply_at(crate::getitem::OP, false, &args, &[], event.source.clone())?.try_into()
    };
    match types {
        Arg::Leaf(_) => locals.push(whole.clone()),
        Arg::Tuple(items) | Arg::List(items) => {
            for (i, item) in items.iter().enumerate() {
                if !item.leaves().is_empty() {
                    part(item, &get(Arg::Int(i as i64))?, event, locals)?;
                }
            }
        }
        Arg::Dict(entries) => {
            for (key, item) in entries.iter() {
                if !item.leaves().is_empty() {
                    part(item, &get(Arg::Str(key.clone()))?, event, locals)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Traces a segment that returns the given results. Fails if an operation refuses the symbols.
pub(super) fn module(segment: &Segment, outputs: &[u32], constants: &Constants) -> Result<GraphModule> {
    let replay = Replay { segment, outputs, constants };
    let inputs = replay.inputs();
    let trace = inputs.into_iter().fold(crate::trace(replay), |trace, (name, ty)| trace.input(&name, ty));
    trace.build()
}
