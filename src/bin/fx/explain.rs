//! `fx explain`: where a rule matches, or which kernels a program becomes.

use std::path::PathBuf;

use clap::Args;
use fx::program;

use crate::output::print;
use crate::program::no_program;

/// Say where a rule matches a program, and where not and why; `list` lists the rules
#[derive(Args)]
pub(crate) struct Explain {
    /// The rule
    #[arg(required_unless_present = "fusion")]
    rule: Option<String>,
    /// fx text, or an archive that torch.export.save wrote
    file: Option<PathBuf>,
    /// A safetensors file with the tensors that fx text reads by path
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
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
            print(&program::explain_fusion(&program::open(file, self.weights.as_deref())?)?);
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
        let gm = program::open(file, self.weights.as_deref())?;
        let (explanations, matches) = program::explain(&gm, &rule, self.node.as_deref())?;
        print(&explanations);
        Ok(matches > 0)
    }
}
