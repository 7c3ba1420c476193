//! `fx print`: a program as text.

use clap::{Args, ValueEnum};

use crate::output::print;
use crate::program::Program;

/// Print a program as text
#[derive(Args)]
pub(crate) struct Print {
    #[command(flatten)]
    program: Program,
    /// In whose wording
    #[arg(long, value_enum, default_value_t = Style::Fx)]
    style: Style,
    /// The whole module: attributes with types, sub-modules, and the graphs of all methods
    #[arg(long, conflicts_with = "style")]
    module: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Style {
    /// fx text, which reads back
    Fx,
    /// The wording of torch.fx
    Torch,
}

impl Print {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let gm = self.program.open()?;
        if self.module {
            print(&gm.dump());
            return Ok(true);
        }
        print(&match self.style {
            Style::Fx => gm.graph().to_text(),
            Style::Torch => gm.graph().to_torch_string(),
        });
        Ok(true)
    }
}
