//! `fx ops`: the operations.

use clap::Args;

use crate::output::{Bar, print};

/// List the operations, or tell about one
#[derive(Args)]
pub(crate) struct Ops {
    /// The operation
    name: Option<String>,
    /// Print the reference in Markdown
    #[arg(long, conflicts_with = "name")]
    markdown: bool,
    /// Check the row against its kernel, or all rows; fails if one is wrong
    #[arg(long, conflicts_with = "markdown")]
    check: bool,
}

impl Ops {
    pub(crate) fn run(self) -> fx::Result<bool> {
        if self.check {
            return check(self.name.as_deref());
        }
        print(&match self.name {
            Some(name) => fx::reference::operation(fx::registry().find(&name)?),
            None if self.markdown => fx::reference::markdown(),
            None => fx::reference::list(),
        });
        Ok(true)
    }
}

/// Checks a row against its kernel, or all rows.
fn check(name: Option<&str>) -> fx::Result<bool> {
    let registry = fx::registry();
    let ops: Vec<fx::Op> = match name {
        Some(name) => vec![registry.find(name)?],
        None => registry.iter().collect(),
    };
    let (mut bar, mut wrong) = (Bar::new(), 0);
    for (i, op) in ops.iter().enumerate() {
        bar.show(i, ops.len(), op.name);
        let report = fx::opcheck::check(*op)?;
        if name.is_some() || !report.findings.is_empty() {
            bar.clear();
            print(&report.to_string());
        }
        wrong += usize::from(!report.findings.is_empty());
    }
    drop(bar);
    print(&format!("{} passed, {wrong} failed", ops.len() - wrong));
    Ok(wrong == 0)
}
