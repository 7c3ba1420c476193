//! [`for_loop`]: a closed body that runs a number of times which is known before the first round.

use std::sync::Arc;

use super::control::{
    RunGraph, operands, output_type, param, refill, round, trace_body, unpacked, with_runner,
};
use super::join::{Names, check_round, fixpoint};
use crate::op::kind::{self, ParamKind};
use crate::trace::{apply_at, is_tracing};
use crate::{
    Arg, Category, Class, Dim, Effects, Kind, Op, OpDef, Result, Scalar, SourceLoc, Tensor, Tree, Type,
    TypeTree, Value, bail, err,
};

/// The handle of [`for_loop`].
#[doc(hidden)]
#[allow(non_camel_case_types, reason = "the handle is named as the operation")]
pub enum for_loop {}
impl for_loop {
    /// The operation: `for_loop(n, @body, [carried], [captured])`.
    pub const OP: Op = {
        static DEF: OpDef = OpDef {
            name: "for_loop",
            doc: "Runs a closed body `n` times on the number of the round, from 0, the carried values and the captured ones; \
                  it returns a list of the next carried values. `n` is an integer or an integer tensor of one element, \
                  taken once; below 1 there is no round.\n",
            params: &[
                param("n", Kind::IntOrTensor),
                param("body", Kind::Graph),
                param("carried", Kind::Any),
                param("captured", Kind::Any),
            ],
            class: Class::Control,
            effects: Effects::PURE,
            infer: &infer,
            eval: &|args| with_runner(|run| count(args, run)),
            ..OpDef::BASE
        };
        Op::new(&DEF)
    };
}

/// Runs `body` `n` times on the number of the round, from 0, and the carried values.
///
/// `n` is an integer, a size, or an integer tensor of one element. While tracing, the body becomes a closed
/// sub-graph of one `for_loop` node; captured values become operands. It must return the structure, dtypes and
/// ranks that it was given; a size that changes is a new symbol. The number of the round is an integer tensor of
/// rank 0.
#[track_caller]
pub fn for_loop<A: Tree>(n: impl Into<Value>, body: impl Fn(Tensor, A) -> A, carried: A) -> A {
    let source = SourceLoc::caller();
    let n: Value = n.into();
    let is_symbol = |value: &Value| value.leaves().iter().any(|tensor| tensor.is_symbolic());
    let is_symbolic = is_symbol(&n) || is_symbol(&carried.to_value());
    if !is_tracing() && !is_symbolic {
        let n = match rounds(&n) {
            Ok(n) => n,
            Err(error) => return A::failed(&error.at(source)),
        };
        let mut carried = carried;
        for i in 0..n {
            let before = carried.to_value();
            carried = body(Tensor::from_scalar(Scalar::Int(i)), carried);
            if let Err(error) = check_round("for_loop", &[before], &[carried.to_value()]) {
                return A::failed(&error.at(source));
            }
        }
        return carried;
    }
    let run = || -> Result<Value> {
        let value = carried.to_value();
        let (region, _) = trace_body("for_loop", &value, &[Arg::Leaf(Type::Int)], &mut |args| {
            let [i, carried @ ..] = args else {
                bail!(Trace, "the body of for_loop takes the number of the round")
            };
            let i = Tensor::from_value(i)?;
            Ok(body(i, A::from_value(&refill(&value, carried)?)?).to_value())
        })?;
        let carried = Arg::list(value.leaves().into_iter().cloned().map(Arg::Leaf));
        let args = [n.clone(), Arc::new(region.graph).into(), carried, Arg::list(region.captures)];
        let out = apply_at(for_loop::OP, false, &args, &[], source.clone())?;
        unpacked(&value, &out, &source)
    };
    match run() {
        Ok(value) => A::from_value(&value).unwrap_or_else(|error| A::failed(&error)),
        Err(error) => A::failed(&error.at(source)),
    }
}

/// Returns the number of rounds of a value.
fn rounds(n: &Value) -> Result<i64> {
    let n = match n {
        Arg::Leaf(tensor) => tensor.array()?.item()?,
        Arg::Failed(error) => return Err(error.clone()),
        other => match other.scalar() {
            Some(n) => n,
            None => bail!(Argument, "the number of rounds is an integer, got {}", other.kind_name()),
        },
    };
    match n {
        Scalar::Int(n) => Ok(n.max(0)),
        _ => {
            Err(err!(Argument, "the number of rounds is an integer, got {n:?}")
                .help("convert it with `num_int`"))
        }
    }
}

fn infer(args: &[TypeTree]) -> Result<TypeTree> {
    let [n, ..] = args else { return crate::op::wrong_arity(&for_loop::OP, args.len()) };
    match n {
        Arg::Int(_) | Arg::Dim(_) | Arg::Leaf(Type::Int) => {}
        Arg::Leaf(Type::Tensor(ty))
            if ty.dtype.category() == Category::Int && ty.shape.numel().known().is_none_or(|n| n == 1) => {}
        other => {
            return Err(err!(
                Argument,
                "the number of rounds is an integer or an integer tensor of one element, got {other}"
            )
            .help("convert it with `num_int`"));
        }
    }
    loop_types(args).map(Arg::list)
}

/// Returns the types of the carried values in any round.
pub(super) fn loop_types(args: &[TypeTree]) -> Result<Vec<TypeTree>> {
    let [n, body, carried, captured] = args else {
        return crate::op::wrong_arity(&for_loop::OP, args.len());
    };
    let (given, captured) = (operands(carried)?, operands(captured)?);
    let body = <kind::Graph as ParamKind>::ty(body)?;
    let all: Vec<TypeTree> = given.iter().chain(&captured).chain([n]).cloned().collect();
    let mut names = Names::avoiding(&all);
    // Sizes that are made of the number of the round are typed within the body, and joined to others behind it.
    let last = match n {
        Arg::Int(n) => Some((*n - 1).max(0)),
        _ => None,
    };
    let i = Arg::dim(Dim::symbol(names.next().ranged(0, last)));
    fixpoint("for_loop", names, &given, &mut |carried| {
        let all: Vec<TypeTree> = [&i].into_iter().chain(carried).chain(&captured).cloned().collect();
        output_type(body, &all)
    })
}

/// Evaluates a call; `run` runs the body.
pub(super) fn count(args: &[Value], run: RunGraph<'_>) -> Result<Value> {
    let [n, body, carried, captured] = args else {
        return crate::op::wrong_arity(&for_loop::OP, args.len());
    };
    let n = rounds(n)?;
    let body = <kind::Graph as ParamKind>::value(body)?;
    let (mut carried, captured) = (operands(carried)?, operands(captured)?);
    for i in 0..n {
        let mut all = Vec::with_capacity(1 + carried.len() + captured.len());
        all.push(Arg::Int(i));
        all.extend(carried.iter().chain(&captured).cloned());
        carried = round("for_loop", carried, all, &|all| run(body, all))?;
    }
    Ok(Arg::list(carried))
}
