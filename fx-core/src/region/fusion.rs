//! [`fused`]: operations that an engine computes as one kernel, as a closed sub-graph.

use super::control::{operands, param};
use crate::op::kind::{self, ParamKind};
use crate::{Class, Effects, Kind, Op, OpDef, Result, TypeTree, Value};

/// The handle of `fused`.
#[doc(hidden)]
#[allow(non_camel_case_types, reason = "the handle is named as the operation")]
pub enum fused {}
impl fused {
    /// The operation: `fused(@body, [operands])`.
    pub const OP: Op = {
        static DEF: OpDef = OpDef {
            name: "fused",
            doc: "Runs a closed sub-graph on the operands; engines make one kernel of it.\n",
            params: &[param("body", Kind::Graph), param("operands", Kind::Any)],
            class: Class::Control,
            effects: Effects::PURE,
            infer: &infer,
            eval: &eval,
            ..OpDef::BASE
        };
        Op::new(&DEF)
    };
}

pub(crate) static FUSED: &[Op] = &[fused::OP];

fn infer(args: &[TypeTree]) -> Result<TypeTree> {
    let [body, args] = args else { return crate::op::wrong_arity(&fused::OP, args.len()) };
    crate::infer::infer_graph(<kind::Graph as ParamKind>::ty(body)?, &operands(args)?)
}

fn eval(args: &[Value]) -> Result<Value> {
    let [body, args] = args else { return crate::op::wrong_arity(&fused::OP, args.len()) };
    crate::eval::run_closed(<kind::Graph as ParamKind>::value(body)?, &operands(args)?)
}
