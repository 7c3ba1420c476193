//! `fx explain`: where a rule matches, or which kernels a program becomes.

use std::path::PathBuf;

use clap::Args;
use fx::program;

use crate::output::print;
use crate::program::{Source, no_program};

/// Say where a rule matches a program, and where not and why; `list` lists the rules
#[derive(Args)]
pub(crate) struct Explain {
    /// The rule
    #[arg(required_unless_present = "fusion")]
    rule: Option<String>,
    /// fx text, a saved module, or an archive that torch.export.save or torch.jit.save wrote
    file: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Only at the node of this name
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Say instead what the fused engine computes as one kernel in this program, and for each edge where
    /// it does not, why
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rule", "file", "node"])]
    fusion: Option<PathBuf>,
}

impl Explain {
    pub(crate) fn run(self) -> fx::Result<bool> {
        if let Some(file) = self.fusion {
            print(&program::explain_fusion(&self.source.open(&file)?)?);
            return Ok(true);
        }
        let rule = self.rule.unwrap_or_default();
        let Some(file) = self.file else {
            if rule != "list" {
                return Err(no_program());
            }
            print(&program::list_rules());
            return Ok(true);
        };
        let gm = self.source.open(&file)?;
        let (explanations, matches) = program::explain(&gm, &rule, self.node.as_deref())?;
        print(&explanations);
        Ok(matches > 0)
    }
}
