//! `fx summary`: what each module of a program costs.

use clap::Args;
use fx::program;

use crate::json;
use crate::output::print;
use crate::program::Program;

/// Say what each module of a program costs: parameters, arithmetic, bytes moved, and when most memory is taken
#[derive(Args)]
pub(crate) struct Summary {
    #[command(flatten)]
    program: Program,
    /// A number for a symbolic size; may be repeated
    #[arg(long, value_name = "NAME=N", value_parser = size)]
    size: Vec<(String, i64)>,
    /// Print JSON: the modules, and the peak of memory
    #[arg(long)]
    json: bool,
}

impl Summary {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let (gm, sizes) = (self.program.open()?, self.size.into_iter().collect());
        let summary = fx::analysis::Summary::new(&gm, &sizes)?;
        let memory = program::fused_memory(&gm, &sizes)?;
        if self.json {
            print(&format!("{:#}", json::summary_json(&summary, memory)));
            return Ok(true);
        }
        print(&summary.to_string());
        if let Some(memory) = memory {
            let [block, bound, arrays] = [memory.block, memory.bound, memory.arrays];
            print(&format!(
                "memory of a fused call  {block} B for values, of which {bound} B at a time, and {arrays} B of results that kernels write\n"
            ));
        }
        Ok(true)
    }
}

/// Reads `NAME=N`.
fn size(text: &str) -> Result<(String, i64), String> {
    let (name, n) = text.split_once('=').ok_or("expected NAME=N, such as batch=8")?;
    let n = n.trim().parse().map_err(|_| format!("expected a number after {name}=, got {n:?}"))?;
    Ok((name.trim().to_owned(), n))
}
