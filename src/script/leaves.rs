//! Calls of programs of TorchScript as files of tensors have them: `0.in0`, `0.in1`, … are the tensors in the
//! arguments, depth first, `0.out0`, … those in the result.

use fx_script::emit::Unit;
use fx_script::load::Program;
use fx_script::types::Type;
use fx_script::value::Value as Item;

use crate::weights::Weights;
use crate::{Arg, Array, DType, Result, Tensor, err};

/// Returns the arguments of a method of the top module, filled leaf by leaf from an input set.
///
/// `fixed` are arguments by name that take none. A list of tensors as the last argument takes all tensors that are
/// left; arguments with defaults are left out when no tensor is left. Fails if a tensor is missing or is one too
/// many, or an argument is neither made of tensors nor of numbers; the error names the argument, the file and
/// the tensor.
pub fn arguments(
    program: &Program,
    method: &str,
    io: &Weights,
    set: usize,
    fixed: &[(&str, Item)],
) -> Result<Vec<Item>> {
    let class = &program.root.class.name;
    let name = format!("{class}.{method}");
    let unit = Unit::of(program)?;
    if !unit.has_function(&name) {
        let class = program.definitions.classes.get(class);
        let methods = class.iter().flat_map(|class| class.methods.iter()).map(|method| &*method.name);
        return Err(err!(Unresolved, "the program has no method {method:?}")
            .help(crate::names::suggest(method, methods)));
    }
    let signature = unit.signature(&name)?;
    let mut leaves = Leaves { io, set, next: 0 };
    let mut args = Vec::new();
    let parameters = signature.parameters.get(1..).unwrap_or_default();
    let names = || parameters.iter().map(|(name, ..)| &**name);
    if let Some((wrong, _)) = fixed.iter().find(|(name, _)| !names().any(|own| own == *name)) {
        return Err(
            err!(Argument, "{method} has no parameter {wrong:?}").help(crate::names::suggest(wrong, names()))
        );
    }
    for (at, (parameter, ty, default)) in parameters.iter().enumerate() {
        if let Some((_, value)) = fixed.iter().find(|(name, _)| *name == &**parameter) {
            args.push(value.clone());
            continue;
        }
        if default.is_some() && !leaves.any_left() {
            break;
        }
        let is_last = at + 1 == parameters.len();
        let value = leaves.value(ty, is_last, program);
        args.push(value.map_err(|error| {
            let message = format!("the argument {parameter:?} of {method}: {}", error.message());
            crate::Error::new(error.kind(), message)
                .help(format!(
                    "give its value with `--input {parameter}=1`, or the call as code with `--call`"
                ))
                .in_file(io.origin(), Some(&format!("{set}.in{}", leaves.next)))
        })?);
    }
    if leaves.any_left() {
        return Err(err!(Structure, "{method} takes {} tensors, got more", leaves.next)
            .in_file(io.origin(), Some(&format!("{set}.in{}", leaves.next))));
    }
    Ok(args)
}

struct Leaves<'a> {
    io: &'a Weights,
    set: usize,
    next: usize,
}

impl Leaves<'_> {
    fn any_left(&self) -> bool {
        self.io.contains(&format!("{}.in{}", self.set, self.next))
    }

    fn array(&mut self) -> Result<Array> {
        let array = self.io.require(&format!("{}.in{}", self.set, self.next))?.into_array()?;
        self.next += 1;
        Ok(array)
    }

    fn value(&mut self, ty: &Type, is_last: bool, program: &Program) -> Result<Item> {
        Ok(match ty {
            Type::Optional(_) if !self.any_left() => Item::None,
            Type::Optional(item) => self.value(item, is_last, program)?,
            Type::Tensor | Type::Any => Item::tensor(self.array()?)?,
            Type::Int | Type::Float | Type::Bool | Type::Number => self.array()?.item()?.into(),
            Type::Tuple(types) => {
                let items = types.iter().map(|ty| self.value(ty, false, program));
                Item::tuple(items.collect::<Result<Vec<_>>>()?)
            }
            Type::NamedTuple(name) => {
                let class = program.definitions.classes.get(name);
                let fields = class.iter().flat_map(|class| &class.attributes);
                let items = fields.map(|field| self.value(&field.declared, false, program));
                Item::tuple(items.collect::<Result<Vec<_>>>()?)
            }
            Type::List(item) if is_last => {
                let mut items = Vec::new();
                while self.any_left() {
                    items.push(self.value(item, false, program)?);
                }
                Item::list(items)
            }
            other => {
                return Err(err!(Structure, "how many tensors {other} takes is not known from its type"));
            }
        })
    }
}

/// What a graph for a call depends on: dtypes and sizes of tensors, and all else as it is.
pub(crate) type CallKey = Vec<Arg<(DType, Vec<usize>)>>;

/// Returns what a graph for a call depends on. Fails if an argument is no argument of graphs.
pub(crate) fn call_key(args: &[Item]) -> Result<CallKey> {
    let key = |arg: &Item| {
        arg.to_arg()?.try_flat_map(&mut |tensor: &Tensor| {
            let array = tensor.array()?;
            Ok(Arg::Leaf((array.dtype(), array.shape().to_vec())))
        })
    };
    args.iter().map(key).collect()
}

/// Returns the tensors of a result in order; numbers are tensors of rank 0, complex tensors have an axis of two
/// parts at their end. Fails if a list contains itself.
pub fn tensors(value: &Item) -> Result<Vec<Tensor>> {
    let mut out = Vec::new();
    collect(value, 0, &mut out)?;
    Ok(out)
}

fn collect(value: &Item, depth: usize, out: &mut Vec<Tensor>) -> Result<()> {
    if depth > crate::MAX_DEPTH {
        return Err(err!(Limit, "the result nests deeper than {} levels", crate::MAX_DEPTH));
    }
    match value {
        Item::Tensor(tensor) => out.push(Tensor::from(tensor.array()?)),
        Item::Int(x) => out.push(Tensor::from(Array::scalar(*x))),
        Item::Float(x) => out.push(Tensor::from(Array::scalar(*x))),
        Item::Bool(x) => out.push(Tensor::from(Array::scalar(*x))),
        Item::List(_) | Item::Tuple(_) => {
            value.to_items()?.iter().try_for_each(|item| collect(item, depth + 1, out))?;
        }
        Item::Dict(dict) => {
            let entries = dict.read(Clone::clone);
            entries.iter().try_for_each(|(_, item)| collect(item, depth + 1, out))?;
        }
        _ => {}
    }
    Ok(())
}
