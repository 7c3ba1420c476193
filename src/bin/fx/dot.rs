//! `fx dot`: a program as a drawing.

use clap::Args;

use crate::output::print;
use crate::program::Program;

/// Print a program as a Graphviz graph
#[derive(Args)]
pub(crate) struct Dot {
    #[command(flatten)]
    program: Program,
    /// Print a drawing in SVG instead, which needs no other program
    #[arg(long)]
    svg: bool,
}

impl Dot {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let gm = self.program.open()?;
        print(&if self.svg { gm.graph().to_svg() } else { gm.graph().to_dot() });
        Ok(true)
    }
}
