//! [`fork`] and [`wait`]: work beside what follows, as a closed sub-graph.

use super::control::{operands, param};
use crate::op::kind::{self, ParamKind};
use crate::rng::{default_generator, with_generator};
use crate::{Class, Effects, Graph, Kind, Op, OpDef, Result, TypeTree, Value};

/// The handle of `fork`.
#[doc(hidden)]
#[allow(non_camel_case_types, reason = "the handle is named as the operation")]
pub enum fork {}
impl fork {
    /// The operation: `fork(@body, [operands])`.
    pub const OP: Op = {
        static DEF: OpDef = OpDef {
            name: "fork",
            doc: "Runs a closed sub-graph on the operands, beside what follows, with a generator of random numbers of its own. \
                  `wait` gives its result.\n",
            params: &[param("body", Kind::Graph), param("operands", Kind::Any)],
            class: Class::Control,
            // The generator counts its forks.
            effects: Effects::RANDOM,
            infer: &infer,
            eval: &eval,
            ..OpDef::BASE
        };
        Op::new(&DEF)
    };
}

/// The handle of `wait`.
#[doc(hidden)]
#[allow(non_camel_case_types, reason = "the handle is named as the operation")]
pub enum wait {}
impl wait {
    /// The operation: `wait(future)`.
    pub const OP: Op = {
        static DEF: OpDef = OpDef {
            name: "wait",
            doc: "Returns the result of a `fork`.\n",
            params: &[param("future", Kind::Any)],
            class: Class::Control,
            infer: &|args| {
                let [future] = args else { return crate::op::wrong_arity(&wait::OP, args.len()) };
                Ok(future.clone())
            },
            eval: &|args| {
                let [future] = args else { return crate::op::wrong_arity(&wait::OP, args.len()) };
                Ok(future.clone())
            },
            ..OpDef::BASE
        };
        Op::new(&DEF)
    };
}

pub(crate) static TASKS: &[Op] = &[fork::OP, wait::OP];

fn infer(args: &[TypeTree]) -> Result<TypeTree> {
    let [body, args] = args else { return crate::op::wrong_arity(&fork::OP, args.len()) };
    crate::infer::infer_graph(<kind::Graph as ParamKind>::ty(body)?, &operands(args)?)
}

fn eval(args: &[Value]) -> Result<Value> {
    let [body, args] = args else { return crate::op::wrong_arity(&fork::OP, args.len()) };
    let body = <kind::Graph as ParamKind>::value(body)?;
    let args = operands(args)?;
    with_generator(&default_generator().fork(), || crate::eval::run_closed(body, &args))
}

/// Returns whether a graph draws random numbers, itself or in its sub-graphs. Forks count only as what they run.
pub(crate) fn draws(graph: &Graph) -> bool {
    graph.nodes().any(|(_, node)| {
        let is_drawn = node.op().is_some_and(|op| op.effects.random && op != fork::OP);
        is_drawn || node.subgraphs().iter().any(|inner| draws(inner))
    })
}
