//! `fx table`: a program as a table.

use clap::Args;

use crate::json;
use crate::output::{print, print_json};
use crate::program::Program;

/// Print a program as a table, a line for each node
#[derive(Args)]
pub(crate) struct Table {
    #[command(flatten)]
    program: Program,
    /// Print a JSON array of the nodes
    #[arg(long)]
    json: bool,
}

impl Table {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let gm = self.program.open()?;
        if self.json {
            print_json(gm.graph().nodes().map(|(_, node)| json::node_json(node)).collect());
        } else {
            print(&gm.graph().tabular());
        }
        Ok(true)
    }
}
