//! Control flow as operations on closed sub-graphs: [`cond`] and [`while_loop`].

use std::sync::Arc;

use crate::eval::run_closed;
use crate::op::kind::{self, ParamKind};
use crate::trace::{Region, apply_at, is_tracing, trace_region};
use crate::{
    Arg, Class, Effects, Error, Graph, Kind, Op, OpDef, Param, Result, Scalar, SourceLoc, Tensor, Tree, Type,
    TypeTree, Value, bail, err,
};

pub(super) const fn param(name: &'static str, kind: Kind) -> Param {
    Param { name, kind, default: None, keyword_only: false }
}

/// The handle of [`cond`].
#[doc(hidden)]
#[allow(non_camel_case_types, reason = "the handle is named as the operation")]
pub enum cond {}
impl cond {
    /// The operation: `cond(p, @then, @else, [operands])`.
    pub const OP: Op = {
        static DEF: OpDef = OpDef {
            name: "cond",
            doc: "Runs one of two closed sub-graphs on the operands, as the predicate says.\n",
            params: &[
                param("predicate", Kind::Any),
                param("then", Kind::Graph),
                param("otherwise", Kind::Graph),
                param("operands", Kind::Any),
            ],
            class: Class::Control,
            effects: Effects::PURE,
            infer: infer_cond,
            eval: eval_cond,
            ..OpDef::BASE
        };
        Op::new(&DEF)
    };
}

/// The handle of [`while_loop`].
#[doc(hidden)]
#[allow(non_camel_case_types, reason = "the handle is named as the operation")]
pub enum while_loop {}
impl while_loop {
    /// The operation: `while_loop(@test, @body, [carried], [captured])`.
    pub const OP: Op = {
        static DEF: OpDef = OpDef {
            name: "while_loop",
            doc: "Runs a closed body on the carried values as long as a closed test of them holds.\n",
            params: &[
                param("test", Kind::Graph),
                param("body", Kind::Graph),
                param("carried", Kind::Any),
                param("captured", Kind::Any),
            ],
            class: Class::Control,
            effects: Effects::PURE,
            infer: infer_while,
            eval: eval_while,
            ..OpDef::BASE
        };
        Op::new(&DEF)
    };
}

pub(crate) static CONTROL: &[Op] = &[cond::OP, while_loop::OP];

/// Runs `then` or `otherwise` on `operands`, as the one element of `predicate` says, or a bool.
///
/// While tracing, both become closed sub-graphs of one `cond` node; captured values become operands. They
/// must return the same structure, dtypes and shapes.
#[track_caller]
pub fn cond<A: Tree, R: Tree>(
    predicate: impl Into<Value>,
    then: impl FnOnce(A) -> R,
    otherwise: impl FnOnce(A) -> R,
    operands: A,
) -> R {
    let predicate: Value = predicate.into();
    let is_symbolic = predicate.leaf().is_some_and(Tensor::is_symbolic);
    if !is_tracing() && !is_symbolic {
        return match truth(&predicate) {
            Ok(true) => then(operands),
            Ok(false) => otherwise(operands),
            Err(error) => R::failed(&error.at(SourceLoc::caller())),
        };
    }
    let source = SourceLoc::caller();
    let run = || -> Result<Value> {
        let operands = operands.to_value();
        let types = flat_types(&operands)?;
        let call = |f: &mut dyn FnMut(A) -> R, args: &[Value]| -> Result<Value> {
            Ok(f(A::from_value(&refill(&operands, args)?)?).to_value())
        };
        let (mut then, mut otherwise) = (once(then), once(otherwise));
        let mut a = trace_region("then", &types, |args| call(&mut then, args))?;
        let mut b = trace_region("otherwise", &types, |args| call(&mut otherwise, args))?;
        let captures = unify_captures(&mut [&mut a, &mut b])?;
        let mut all: Vec<Value> = operands.leaves().into_iter().cloned().map(Arg::Leaf).collect();
        all.extend(captures);
        let args = [predicate.clone(), Arc::new(a.graph).into(), Arc::new(b.graph).into(), Arg::list(all)];
        apply_at(cond::OP, false, &args, &[], source.clone())
    };
    finish(run(), source)
}

/// Runs `body` on `carried` as long as `test` of it holds.
///
/// While tracing, both become closed sub-graphs of one `while_loop` node. The body must return the structure,
/// dtypes and shapes that it was given.
#[track_caller]
pub fn while_loop<A: Tree>(test: impl Fn(&A) -> Tensor, body: impl Fn(A) -> A, carried: A) -> A {
    let is_symbolic = carried.to_value().leaves().iter().any(|tensor| tensor.is_symbolic());
    if !is_tracing() && !is_symbolic {
        let mut carried = carried;
        let types = carried.to_value();
        loop {
            match is_true(&test(&carried)) {
                Ok(true) => {
                    carried = body(carried);
                    if let Err(error) = keeps_types(&types, &carried.to_value()) {
                        return A::failed(&error.at(SourceLoc::caller()));
                    }
                }
                Ok(false) => return carried,
                Err(error) => return A::failed(&error.at(SourceLoc::caller())),
            }
        }
    }
    let source = SourceLoc::caller();
    let run =
        || -> Result<Value> {
            let value = carried.to_value();
            let types = flat_types(&value)?;
            let mut a = trace_region("test", &types, |args| {
                Ok(test(&A::from_value(&refill(&value, args)?)?).to_value())
            })?;
            let mut b = trace_region("body", &types, |args| {
                let out = body(A::from_value(&refill(&value, args)?)?).to_value();
                let leaves = out.leaves().into_iter().cloned().map(Arg::Leaf).collect::<Vec<_>>();
                if out.map(&mut |_| ()) != value.map(&mut |_| ()) {
                    return Err(err!(
                        Structure,
                        "the body of a while loop returned another structure than it was given"
                    ));
                }
                Ok(Arg::list(leaves))
            })?;
            let captures = unify_captures(&mut [&mut a, &mut b])?;
            let carried: Vec<Value> = value.leaves().into_iter().cloned().map(Arg::Leaf).collect();
            let args =
                [Arc::new(a.graph).into(), Arc::new(b.graph).into(), Arg::list(carried), Arg::list(captures)];
            let out = apply_at(while_loop::OP, false, &args, &[], source.clone())?;
            let n = value.leaves().len();
            let parts: Vec<Value> = match &out {
                Arg::List(items) => items.to_vec(),
                node => (0..n)
                    .map(|i| {
                        apply_at(
                            crate::ops::getitem::OP,
                            false,
                            &[node.clone(), Arg::Int(i as i64)],
                            &[],
                            source.clone(),
                        )
                    })
                    .collect::<Result<_>>()?,
            };
            refill(&value, &parts)
        };
    match run() {
        Ok(value) => A::from_value(&value).unwrap_or_else(|error| A::failed(&error)),
        Err(error) => A::failed(&error.at(source)),
    }
}

/// Refuses carried values of other types than those that a loop began with; a value that is an error passes.
fn keeps_types(before: &Value, after: &Value) -> Result<()> {
    let types = |value: &Value| value.try_flat_map(&mut |tensor: &Tensor| tensor.type_tree());
    let (Ok(given), Ok(out)) = (types(before), types(after)) else { return Ok(()) };
    if given != out {
        return Err(changed(&out, &given));
    }
    Ok(())
}

fn changed(out: &TypeTree, given: &TypeTree) -> Error {
    err!(Structure, "the body of while_loop gives {out}, it was given {given}")
        .help("carried values keep their dtype and shape")
}

/// Makes a closure that is called at most once callable by reference.
fn once<A, R>(f: impl FnOnce(A) -> R) -> impl FnMut(A) -> R {
    let mut f = Some(f);
    move |arg| f.take().expect("a branch is traced once")(arg)
}

#[track_caller]
fn finish<R: Tree>(result: Result<Value>, source: SourceLoc) -> R {
    crate::trace::result_as(result.map_err(|error: Error| error.at(source)))
}

/// Returns the types of the leaves.
fn flat_types(value: &Value) -> Result<Vec<TypeTree>> {
    value.leaves().into_iter().map(Tensor::type_tree).collect()
}

/// Puts leaves back into a structure.
fn refill(structure: &Value, leaves: &[Value]) -> Result<Value> {
    let mut leaves = leaves.iter();
    structure.try_flat_map(&mut |_| {
        leaves.next().cloned().ok_or_else(|| err!(Structure, "too few values for the structure"))
    })
}

/// Gives all regions the same placeholders for captures, in the same order; returns what is captured.
fn unify_captures(regions: &mut [&mut Region]) -> Result<Vec<Value>> {
    let mut all: Vec<Value> = Vec::new();
    let key = |value: &Value| value.leaf().map(Tensor::identity);
    for region in regions.iter() {
        for capture in &region.captures {
            if !all.iter().any(|other| key(other) == key(capture)) {
                all.push(capture.clone());
            }
        }
    }
    for region in regions.iter_mut() {
        region.arrange_captures(&all, &key)?;
    }
    Ok(all)
}

pub(super) fn operands<L: Clone>(arg: &Arg<L>) -> Result<Vec<Arg<L>>> {
    match arg.items() {
        Some(items) => Ok(items.to_vec()),
        None => bail!(Argument, "expected a list of operands, got {}", arg.kind_name()),
    }
}

fn output_type(graph: &Graph, args: &[TypeTree]) -> Result<TypeTree> {
    crate::infer::infer_graph(graph, args)
}

fn infer_cond(args: &[TypeTree]) -> Result<TypeTree> {
    let [predicate, then, otherwise, args] = args else {
        return crate::op::wrong_arity(&cond::OP, args.len());
    };
    if let Arg::Leaf(Type::Tensor(ty)) = predicate
        && ty.shape.numel().known().is_some_and(|n| n != 1)
    {
        return Err(err!(Shape, "the predicate of cond has one element, got {ty}")
            .help("reduce it with `any` or `all`"));
    }
    let args = operands(args)?;
    let then = output_type(<kind::Graph as ParamKind>::ty(then)?, &args)?;
    let otherwise = output_type(<kind::Graph as ParamKind>::ty(otherwise)?, &args)?;
    if then != otherwise {
        return Err(err!(Structure, "the branches of cond differ: one gives {then}, the other {otherwise}")
            .help("give both the same structure, dtypes and shapes"));
    }
    Ok(then)
}

/// Returns which branch a predicate chooses.
fn truth(predicate: &Value) -> Result<bool> {
    match predicate {
        Arg::Leaf(tensor) => is_true(tensor),
        Arg::Bool(x) => Ok(*x),
        Arg::Failed(error) => Err(error.clone()),
        other => bail!(Argument, "a predicate is a bool or a tensor, got {}", other.kind_name()),
    }
}

/// Returns whether the one element of a tensor is not zero. The error has no source line, so that the caller's
/// is that of the user.
fn is_true(tensor: &Tensor) -> Result<bool> {
    let item = tensor.array()?.item();
    item.map(Scalar::to_bool).map_err(|error| error.help("reduce it with `any` or `all`"))
}

/// Runs a sub-graph on operands.
type RunGraph<'a> = &'a dyn Fn(&Arc<Graph>, &[Value]) -> Result<Value>;

/// Returns what the sub-graphs of a call take, all the same, if it is one of [`cond`] or [`while_loop`].
pub fn sub_graph_operands<L>(op: Op, args: &[Arg<L>]) -> Option<Vec<&Arg<L>>> {
    let lists: &[Arg<L>] = match args {
        [_, _, _, operands] if op == cond::OP => std::slice::from_ref(operands),
        [_, _, lists @ ..] if op == while_loop::OP => lists,
        _ => return None,
    };
    lists
        .iter()
        .map(Arg::items)
        .collect::<Option<Vec<_>>>()
        .map(|lists| lists.into_iter().flatten().collect())
}

/// Evaluates a call of [`cond`] or [`while_loop`]; `run` runs a sub-graph on operands. Fails if the predicate
/// has no value, or with the error of `run`.
pub fn evaluate_control(op: Op, args: &[Value], run: RunGraph<'_>) -> Result<Value> {
    match op {
        _ if op == cond::OP => choose(args, run),
        _ if op == while_loop::OP => repeat(args, run),
        _ => (op.eval)(args),
    }
}

fn eval_cond(args: &[Value]) -> Result<Value> {
    choose(args, &|graph, args| run_closed(graph, args))
}

fn choose(args: &[Value], run: RunGraph<'_>) -> Result<Value> {
    let [predicate, then, otherwise, args] = args else {
        return crate::op::wrong_arity(&cond::OP, args.len());
    };
    let chosen = truth(predicate)?;
    let graph = <kind::Graph as ParamKind>::value(if chosen { then } else { otherwise })?;
    run(graph, &operands(args)?)
}

fn infer_while(args: &[TypeTree]) -> Result<TypeTree> {
    let [test, body, carried, captured] = args else {
        return crate::op::wrong_arity(&while_loop::OP, args.len());
    };
    let carried = operands(carried)?;
    let mut all = carried.clone();
    all.extend(operands(captured)?);
    let test = output_type(<kind::Graph as ParamKind>::ty(test)?, &all)?;
    if let Arg::Leaf(Type::Tensor(ty)) = &test
        && ty.shape.numel().known().is_some_and(|n| n != 1)
    {
        bail!(Shape, "the test of while_loop gives one element, got {ty}");
    }
    let out = output_type(<kind::Graph as ParamKind>::ty(body)?, &all)?;
    if out != Arg::list(carried.clone()) {
        return Err(changed(&out, &Arg::list(carried)));
    }
    Ok(out)
}

fn eval_while(args: &[Value]) -> Result<Value> {
    repeat(args, &|graph, args| run_closed(graph, args))
}

fn repeat(args: &[Value], run: RunGraph<'_>) -> Result<Value> {
    let [test, body, carried, captured] = args else {
        return crate::op::wrong_arity(&while_loop::OP, args.len());
    };
    let (test, body) = (<kind::Graph as ParamKind>::value(test)?, <kind::Graph as ParamKind>::value(body)?);
    let (mut carried, captured) = (operands(carried)?, operands(captured)?);
    loop {
        let mut all = carried.clone();
        all.extend(captured.iter().cloned());
        let go_on = match run(test, &all)? {
            Arg::Leaf(tensor) => is_true(&tensor)?,
            Arg::Bool(x) => x,
            other => bail!(Argument, "a test gives a bool or a tensor, got {}", other.kind_name()),
        };
        if !go_on {
            return Ok(Arg::list(carried));
        }
        let next = operands(&run(body, &all)?)?;
        keeps_types(&Arg::list(carried), &Arg::list(next.clone()))?;
        carried = next;
    }
}
