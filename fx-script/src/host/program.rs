//! Errors, prints, futures, enumerations, devices, and what a program asks about the system.

use std::sync::Arc;

use fx_core::{Result, bail, err};

use super::{Row, arg};
use crate::value::{Device, Value, shown};

fn raise(args: &[&Value]) -> Result<Value> {
    let message = shown(arg(args, 0)?)?;
    match args.get(1) {
        Some(Value::Str(class)) => Err(err!(Check, "{}: {message}", &***class)),
        _ => Err(err!(Check, "RuntimeError: {message}")),
    }
}

fn print(out: &mut super::Output, args: &[&Value]) -> Result<Value> {
    let texts: Result<Vec<String>> = args.iter().map(|value| shown(value)).collect();
    out.print(&format!("{}\n", texts?.join(" ")))?;
    Ok(Value::None)
}

fn unwrap(args: &[&Value]) -> Result<Value> {
    match arg(args, 0)? {
        Value::None => Err(err!(Argument, "Unwrapping null optional")),
        value => Ok(value.clone()),
    }
}

/// A number that equal values share. Fails for values that cannot be keys.
fn hash(value: &Value) -> Result<i64> {
    Ok(match value {
        Value::Bool(x) => i64::from(*x),
        Value::Int(x) => *x,
        Value::Float(x) if x.fract() == 0.0 && x.abs() < 9.0e18 => *x as i64,
        Value::Float(x) => x.to_bits() as i64,
        // FNV-1a, which has no seed.
        Value::Str(text) => text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }) as i64,
        Value::Enum(member) => hash(&member.value)?,
        Value::Tuple(tuple) => tuple.items.iter().try_fold(0i64, |total, item| {
            Ok::<_, fx_core::Error>(total.wrapping_mul(1_000_003).wrapping_add(hash(item)?))
        })?,
        other => bail!(Argument, "{} has no hash", other.type_name()),
    })
}

/// A number that is another for each object that is there at the same time.
fn id(value: &Value) -> Result<i64> {
    Ok(match value {
        Value::None => 0,
        Value::Object(object) => Arc::as_ptr(object) as i64,
        other => bail!(Argument, "expected an object, got {}", other.type_name()),
    })
}

fn device<'a>(args: &[&'a Value]) -> Result<&'a Device> {
    match arg(args, 0)? {
        Value::Device(device) => Ok(device),
        other => Err(err!(Argument, "expected Device, got {}", other.type_name())),
    }
}

#[rustfmt::skip]
pub(super) static TABLE: &[Row] = &[
    ("prim::RaiseException", "-", |_, a| raise(a)), ("prim::Print", "-", print),
    ("aten::hash", "generic", |_, a| hash(arg(a, 0)?).map(Value::Int)), ("prim::id", "-", |_, a| id(arg(a, 0)?).map(Value::Int)),
    ("aten::warn", "-", |_, _| Ok(Value::None)),
    ("aten::_assert_scalar", "-", |_, a| match arg(a, 0)?.to_float()? { 0.0 => raise(&[arg(a, 1)?]), _ => Ok(Value::None) }),
    ("aten::wait", "-", |_, a| match arg(a, 0)? {
        Value::Future(future) => future.result.clone(), other => Err(err!(Argument, "expected Future, got {}", other.type_name())) }),
    ("prim::EnumName", "-", |_, a| match arg(a, 0)? {
        Value::Enum(member) => Ok(Value::str(&*member.name)), other => Err(err!(Argument, "expected an enumeration, got {}", other.type_name())) }),
    ("prim::EnumValue", "int float str", |_, a| match arg(a, 0)? {
        Value::Enum(member) => Ok(member.value.clone()), other => Err(err!(Argument, "expected an enumeration, got {}", other.type_name())) }),
    ("prim::unchecked_cast", "-", |_, a| Ok(arg(a, 0)?.clone())), ("prim::unchecked_unwrap_optional", "-", |_, a| unwrap(a)),
    ("aten::_unwrap_optional", "-", |_, a| unwrap(a)), ("prim::Uninitialized", "-", |_, _| Ok(Value::None)),
    ("prim::TupleIndex", "-", |_, a| { let (items, index) = (arg(a, 0)?.to_items()?, arg(a, 1)?.to_int()?);
        let at = if index < 0 { index + items.len() as i64 } else { index };
        usize::try_from(at).ok().and_then(|at| items.get(at).cloned()).ok_or_else(|| err!(Index, "tuple index out of range")) }),
    ("prim::IfThenElse", "-", |_, a| Ok(arg(a, if arg(a, 0)?.to_bool()? { 1 } else { 2 })?.clone())),
    ("prim::device", "-", |_, a| { arg(a, 0)?.to_tensor()?; Ok(Value::Device(Arc::new(Device { kind: "cpu".to_owned(), index: None }))) }),
    ("prim::type", "-", |_, a| Ok(Value::str(&*device(a)?.kind))), ("prim::index", "-", |_, a| Ok(device(a)?.index.map_or(Value::None, Value::Int))),
    ("aten::device", "-", |_, a| Ok(Value::Device(Arc::new(Device::parse(arg(a, 0)?.to_str()?)?)))),
    ("aten::device", "with_index", |_, a| Ok(Value::Device(Arc::new(Device { index: Some(arg(a, 1)?.to_int()?), ..Device::parse(arg(a, 0)?.to_str()?)? })))),
    // Gradients are wanted and nothing else is: so programs take their plain paths.
    ("aten::is_grad_enabled", "-", |_, _| Ok(Value::Bool(true))), ("aten::set_grad_enabled", "-", |_, _| Ok(Value::None)),
    ("aten::is_scripting", "-", |_, _| Ok(Value::Bool(true))), ("aten::is_autocast_enabled", "-", |_, _| Ok(Value::Bool(false))),
    ("aten::is_autocast_cpu_enabled", "-", |_, _| Ok(Value::Bool(false))), ("aten::_is_tracing", "-", |_, _| Ok(Value::Bool(false))),
    ("aten::_get_tracing_state", "-", |_, _| Ok(Value::Bool(false))), ("aten::has_torch_function", "-", |_, _| Ok(Value::Bool(false))),
    ("aten::_infer_size", "-", |_, a| broadcast(a)), ("aten::broadcast_shapes", "-", |_, a| broadcast(a)),
    ("aten::_size_if_not_equal", "-", |_, a| { let (x, y) = (arg(a, 0)?.to_ints()?, arg(a, 1)?.to_ints()?); Ok(if x == y { Value::None } else { Value::ints(x) }) }),
];

fn broadcast(args: &[&Value]) -> Result<Value> {
    let (a, b) = (arg(args, 0)?.to_ints()?, arg(args, 1)?.to_ints()?);
    let rank = a.len().max(b.len());
    let size = |sizes: &[i64], axis: usize| (axis + sizes.len()).checked_sub(rank).map_or(1, |at| sizes[at]);
    let mut sizes = Vec::with_capacity(rank);
    for axis in 0..rank {
        sizes.push(match (size(&a, axis), size(&b, axis)) {
            (a, b) if a == b || b == 1 => a,
            (1, b) => b,
            (a, b) => bail!(Shape, "sizes {a} and {b} of axis {axis} cannot be broadcast"),
        });
    }
    Ok(Value::ints(sizes))
}
