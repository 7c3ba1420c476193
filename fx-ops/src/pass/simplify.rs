//! The rules of this crate as passes.

use std::sync::OnceLock;

use fx_core::op::Default as Value;
use fx_core::pass::{Context, Pass, PassOption};
use fx_core::rewrite::{RuleDef, Rules};
use fx_core::{GraphModule, Result};

use crate::rules::{ALGEBRA, FUSION, STABLE, find};

/// Applies identities.
pub const SIMPLIFY: Pass = Pass {
    name: "simplify",
    doc: "Applies the identities among the rules until none matches; no bit of a result changes.",
    options: RULE,
    after: &["shape_prop"],
    run: |gm, cx| {
        static RULES: OnceLock<Result<Rules>> = OnceLock::new();
        run(gm, cx, &RULES, ALGEBRA)
    },
    ..Pass::BASE
};

/// Recognises operations from their parts.
pub const RECOGNIZE: Pass = Pass {
    name: "recognize",
    doc: "Replaces parts by the operation that they make up, such as `gelu`, `softmax`, `layer_norm` and attention.",
    options: RULE,
    after: &["shape_prop"],
    exact: false,
    run: |gm, cx| {
        static RULES: OnceLock<Result<Rules>> = OnceLock::new();
        run(gm, cx, &RULES, FUSION)
    },
    ..Pass::BASE
};

/// Replaces parts by operations that are finite where the parts are not.
pub const STABILIZE: Pass = Pass {
    name: "stabilize",
    doc: "Replaces parts that overflow or underflow, such as `log(sum(exp(x)))` and `log(softmax(x))`, by the operation that does \
          not. Where the parts give infinities or NaN, results may become finite.",
    options: RULE,
    after: &["shape_prop"],
    exact: false,
    run: |gm, cx| {
        static RULES: OnceLock<Result<Rules>> = OnceLock::new();
        run(gm, cx, &RULES, STABLE)
    },
    ..Pass::BASE
};

const RULE: &[PassOption] =
    &[PassOption { name: "rule", default: Value::Str(""), doc: "apply this rule only" }];

fn run(
    gm: &mut GraphModule,
    cx: &mut Context,
    all: &OnceLock<Result<Rules>>,
    table: &[RuleDef],
) -> Result<()> {
    let one;
    let rules = match cx.text("rule")? {
        "" => all.get_or_init(|| Rules::of_table(table)).as_ref().map_err(Clone::clone)?,
        name => {
            one = Rules::new([find(name)?.rule()?]);
            &one
        }
    };
    let report = rules.run_counted(gm, &mut cx.rewrites)?;
    for rule in report.rules.iter().filter(|rule| rule.applied > 0) {
        cx.note(format!("{} x {}", rule.name, rule.applied));
    }
    Ok(())
}
