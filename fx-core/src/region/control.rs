//! Control flow as operations on closed sub-graphs: [`cond`] and [`while_loop`]; [`for_loop`](super::for_loop())
//! is in a file of its own.

use std::cell::RefCell;
use std::sync::Arc;

use super::counted_loop::{self, for_loop};
use super::join::{Join, Names, check_round, fixpoint};

use crate::eval::run_prepared;
use crate::interp::Schedule;
use crate::op::kind::{self, ParamKind};
use crate::trace::{Region, apply_at, is_tracing, trace_region};
use crate::{
    Arg, Class, Effects, Error, ErrorKind, Graph, Kind, Op, OpDef, Param, Result, Scalar, SourceLoc, Tensor,
    Tree, Type, TypeTree, Value, bail, err,
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
            infer: &infer_cond,
            eval: &eval_cond,
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
            infer: &infer_while,
            eval: &eval_while,
            ..OpDef::BASE
        };
        Op::new(&DEF)
    };
}

pub(crate) static CONTROL: &[Op] = &[cond::OP, while_loop::OP, for_loop::OP];

/// Runs `then` or `otherwise` on `operands`, as the one element of `predicate` says, or a bool.
///
/// While tracing, both become closed sub-graphs of one `cond` node; captured values become operands. They
/// must return the same structure, dtypes and ranks; a size that differs is a new symbol.
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
/// dtypes and ranks that it was given; a size that changes is a new symbol.
#[track_caller]
pub fn while_loop<A: Tree>(test: impl Fn(&A) -> Tensor, body: impl Fn(A) -> A, carried: A) -> A {
    let is_symbolic = carried.to_value().leaves().iter().any(|tensor| tensor.is_symbolic());
    if !is_tracing() && !is_symbolic {
        let mut carried = carried;
        loop {
            match is_true(&test(&carried)) {
                Ok(true) => {
                    let before = carried.to_value();
                    carried = body(carried);
                    if let Err(error) = check_round("while_loop", &[before], &[carried.to_value()]) {
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
            let (mut b, types) = trace_body("while_loop", &value, &[], &mut |args| {
                Ok(body(A::from_value(&refill(&value, args)?)?).to_value())
            })?;
            let mut a = trace_region("test", &types, |args| {
                Ok(test(&A::from_value(&refill(&value, args)?)?).to_value())
            })?;
            let captures = unify_captures(&mut [&mut a, &mut b])?;
            let carried = Arg::list(value.leaves().into_iter().cloned().map(Arg::Leaf));
            let args = [Arc::new(a.graph).into(), Arc::new(b.graph).into(), carried, Arg::list(captures)];
            let out = apply_at(while_loop::OP, false, &args, &[], source.clone())?;
            unpacked(&value, &out, &source)
        };
    match run() {
        Ok(value) => A::from_value(&value).unwrap_or_else(|error| A::failed(&error)),
        Err(error) => A::failed(&error.at(source)),
    }
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
pub(super) fn flat_types(value: &Value) -> Result<Vec<TypeTree>> {
    value.leaves().into_iter().map(Tensor::type_tree).collect()
}

/// Traces the body of a loop, again with wider types as long as a round gives values of other sizes than it took;
/// returns it with the types of the carried values. `first` are the types of its arguments before those.
pub(super) fn trace_body(
    name: &str,
    carried: &Value,
    first: &[TypeTree],
    body: &mut dyn FnMut(&[Value]) -> Result<Value>,
) -> Result<(Region, Vec<TypeTree>)> {
    let given = flat_types(carried)?;
    let mut region = None;
    let mut trace = |types: &[TypeTree]| -> Result<TypeTree> {
        let all: Vec<TypeTree> = first.iter().chain(types).cloned().collect();
        let mut out_types = Arg::None;
        let traced = trace_region("body", &all, |args| {
            let out = body(args)?;
            if out.map(&mut |_| ()) != carried.map(&mut |_| ()) {
                bail!(Structure, "the body of {name} returned another structure than it was given");
            }
            let leaves: Vec<&Tensor> = out.leaves();
            out_types = Arg::list(leaves.iter().map(|leaf| leaf.type_tree()).collect::<Result<Vec<_>>>()?);
            Ok(Arg::list(leaves.into_iter().cloned().map(Arg::Leaf)))
        })?;
        region = Some(traced);
        Ok(out_types)
    };
    let types = match fixpoint(name, Names::in_trace(&given), &given, &mut trace) {
        Ok(types) => types,
        // Nothing is known of carried values that change in another way in each round.
        Err(error) if error.kind() == ErrorKind::UnknownType => {
            let types = vec![Arg::Leaf(Type::Any); given.len()];
            trace(&types)?;
            types
        }
        Err(error) => return Err(error),
    };
    match region {
        Some(region) => Ok((region, types)),
        None => bail!(Trace, "the body of {name} was not traced"),
    }
}

/// Takes the list that a loop gives apart, into the structure of the carried values.
pub(crate) fn unpacked(structure: &Value, out: &Value, source: &SourceLoc) -> Result<Value> {
    let n = structure.leaves().len();
    let item = |i: usize| {
        let args = [out.clone(), Arg::Int(i as i64)];
        apply_at(crate::ops::getitem::OP, false, &args, &[], source.clone())
    };
    let parts: Vec<Value> = match out {
        Arg::List(items) => items.to_vec(),
        _ => (0..n).map(item).collect::<Result<_>>()?,
    };
    refill(structure, &parts)
}

/// Puts leaves back into a structure.
pub(crate) fn refill(structure: &Value, leaves: &[Value]) -> Result<Value> {
    let mut leaves = leaves.iter();
    structure.try_flat_map(&mut |_| {
        leaves.next().cloned().ok_or_else(|| err!(Structure, "too few values for the structure"))
    })
}

/// Gives all regions the same placeholders for captures, in the same order; returns what is captured.
pub(super) fn unify_captures(regions: &mut [&mut Region]) -> Result<Vec<Value>> {
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

pub(super) fn output_type(graph: &Graph, args: &[TypeTree]) -> Result<TypeTree> {
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
    if let Arg::Bool(chosen) = predicate {
        return Ok(if *chosen { then } else { otherwise });
    }
    Join::of_branches(&args).join(&then, &otherwise).map_err(|error| {
        let (place, a, b) = (error.place("the result"), &error.first, &error.second);
        err!(Structure, "the branches of cond differ in {place}: one gives {a}, the other {b}")
            .help(error.advice())
    })
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
pub(super) type RunGraph<'a> = &'a dyn Fn(&Arc<Graph>, Vec<Value>) -> Result<Value>;

/// Returns the lists of operands that the sub-graphs of a call take, if it is one of [`cond`], [`while_loop`] and
/// [`for_loop`](super::for_loop()): the sub-graphs of a loop take the carried values first. The body of `for_loop`
/// takes the number of the round before them.
pub fn operand_lists<L>(op: Op, args: &[Arg<L>]) -> Option<&[Arg<L>]> {
    match args {
        [_, _, _, operands] if op == cond::OP => Some(std::slice::from_ref(operands)),
        [_, _, lists @ ..] if op == while_loop::OP || op == for_loop::OP => Some(lists),
        _ => None,
    }
}

/// Returns the types of what the sub-graphs of a call take from those of its arguments, all the same, if it is an
/// operation of control flow. Fails if the types do not fit the sub-graphs, or are not known.
pub fn sub_graph_inputs(op: Op, args: &[TypeTree]) -> Result<Vec<TypeTree>> {
    let Some(lists) = operand_lists(op, args) else {
        bail!(Argument, "{} runs no sub-graphs", op.name);
    };
    let mut inputs = Vec::new();
    if op == cond::OP {
        return operands(&lists[0]);
    } else if op == while_loop::OP {
        inputs.extend(loop_types(args)?);
    } else {
        inputs.push(Arg::Leaf(Type::Int));
        inputs.extend(counted_loop::loop_types(args)?);
    }
    inputs.extend(operands(&lists[1])?);
    Ok(inputs)
}

/// Evaluates a call of [`cond`], [`while_loop`] or [`for_loop`](super::for_loop()); `run` runs a sub-graph on
/// operands. Fails if the predicate or the number of rounds has no value, or with the error of `run`.
pub fn evaluate_control(op: Op, args: &[Value], run: RunGraph<'_>) -> Result<Value> {
    match op {
        _ if op == cond::OP => choose(args, run),
        _ if op == while_loop::OP => repeat(args, run),
        _ if op == for_loop::OP => counted_loop::count(args, run),
        _ => (op.eval)(args),
    }
}

/// Runs `f` with a function that runs closed sub-graphs, each of which is prepared once.
pub(super) fn with_runner<T>(f: impl FnOnce(RunGraph<'_>) -> T) -> T {
    let prepared: RefCell<Vec<(Arc<Graph>, Arc<Schedule>)>> = RefCell::default();
    f(&|graph, args| {
        let found =
            prepared.borrow().iter().find(|(other, _)| Arc::ptr_eq(other, graph)).map(|(_, x)| x.clone());
        let schedule = match found {
            Some(schedule) => schedule,
            None => {
                let schedule = Arc::new(Schedule::new(graph)?);
                prepared.borrow_mut().push((graph.clone(), schedule.clone()));
                schedule
            }
        };
        run_prepared(graph, &schedule, args)
    })
}

fn eval_cond(args: &[Value]) -> Result<Value> {
    with_runner(|run| choose(args, run))
}

fn choose(args: &[Value], run: RunGraph<'_>) -> Result<Value> {
    let [predicate, then, otherwise, args] = args else {
        return crate::op::wrong_arity(&cond::OP, args.len());
    };
    let chosen = truth(predicate)?;
    let graph = <kind::Graph as ParamKind>::value(if chosen { then } else { otherwise })?;
    run(graph, operands(args)?)
}

fn infer_while(args: &[TypeTree]) -> Result<TypeTree> {
    let [test, _, _, captured] = args else {
        return crate::op::wrong_arity(&while_loop::OP, args.len());
    };
    let carried = loop_types(args)?;
    let mut all = carried.clone();
    all.extend(operands(captured)?);
    let test = output_type(<kind::Graph as ParamKind>::ty(test)?, &all)?;
    if let Arg::Leaf(Type::Tensor(ty)) = &test
        && ty.shape.numel().known().is_some_and(|n| n != 1)
    {
        bail!(Shape, "the test of while_loop gives one element, got {ty}");
    }
    Ok(Arg::list(carried))
}

/// Returns the types of the carried values of a `while_loop` in any round.
fn loop_types(args: &[TypeTree]) -> Result<Vec<TypeTree>> {
    let [_, body, carried, captured] = args else {
        return crate::op::wrong_arity(&while_loop::OP, args.len());
    };
    let (given, captured) = (operands(carried)?, operands(captured)?);
    let body = <kind::Graph as ParamKind>::ty(body)?;
    let all: Vec<TypeTree> = given.iter().chain(&captured).cloned().collect();
    fixpoint("while_loop", Names::avoiding(&all), &given, &mut |carried| {
        let all: Vec<TypeTree> = carried.iter().chain(&captured).cloned().collect();
        output_type(body, &all)
    })
}

fn eval_while(args: &[Value]) -> Result<Value> {
    with_runner(|run| repeat(args, run))
}

fn repeat(args: &[Value], run: RunGraph<'_>) -> Result<Value> {
    let [test, body, carried, captured] = args else {
        return crate::op::wrong_arity(&while_loop::OP, args.len());
    };
    let (test, body) = (<kind::Graph as ParamKind>::value(test)?, <kind::Graph as ParamKind>::value(body)?);
    let (mut carried, captured) = (operands(carried)?, operands(captured)?);
    loop {
        let all: Vec<Value> = carried.iter().chain(&captured).cloned().collect();
        let go_on = match run(test, all.clone())? {
            Arg::Leaf(tensor) => is_true(&tensor)?,
            Arg::Bool(x) => x,
            other => bail!(Argument, "a test gives a bool or a tensor, got {}", other.kind_name()),
        };
        if !go_on {
            return Ok(Arg::list(carried));
        }
        carried = round("while_loop", carried, all, &|all| run(body, all))?;
    }
}

/// Runs one round of a loop and returns the next carried values. Fails if they cannot take the place of the
/// others.
///
/// The caller's own handles of the carried values are dropped before the body runs, so that it may change in place
/// what nobody else holds.
pub(super) fn round(
    name: &str,
    carried: Vec<Value>,
    all: Vec<Value>,
    run: &dyn Fn(Vec<Value>) -> Result<Value>,
) -> Result<Vec<Value>> {
    let kinds: Vec<Value> = carried.iter().map(shallow).collect();
    drop(carried);
    let next = into_operands(run(all)?)?;
    check_round(name, &kinds, &next)?;
    Ok(next)
}

/// Returns what of a value decides whether another may take its place: of a list its first item.
fn shallow(value: &Value) -> Value {
    match value {
        Arg::List(items) => Arg::list(items.first().map(shallow)),
        value => value.clone(),
    }
}

fn into_operands(value: Value) -> Result<Vec<Value>> {
    match value {
        Arg::List(items) | Arg::Tuple(items) => Ok(items.into_vec()),
        other => operands(&other),
    }
}
