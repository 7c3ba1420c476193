//! Writes a program on which two runners disagree as files that run again:
//! `fx run NAME.fx --io NAME.io.safetensors`.

use std::path::{Path, PathBuf};

use crate::pass::{Context, INLINE_LEAVES};
use crate::splitting::minimize::Culprit;
use crate::{OpCode, Result, Target, Tensor, check, err, weights};

/// Writes `PATH.fx`, `PATH.io.safetensors` with inputs and the outputs of the reference, and, if the program
/// reads tensors, `PATH.weights.safetensors`. Returns the paths. Calls of modules are inlined first, since
/// text cannot hold modules. Fails if a file cannot be written, or a module cannot be inlined.
pub fn write(culprit: &Culprit, path: &Path) -> Result<Vec<PathBuf>> {
    let mut gm = culprit.module.clone();
    (INLINE_LEAVES.run)(&mut gm, &mut Context::for_pass(&INLINE_LEAVES))?;
    if let Some(id) = gm.graph().find_nodes(OpCode::CallModule, None).first() {
        let node = gm.graph().node(*id)?;
        return Err(err!(Graph, "%{} calls a module that cannot be written as text", node.name()));
    }
    let with = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let files = [with(".fx"), with(".io.safetensors"), with(".weights.safetensors")];
    let io = |error: std::io::Error| err!(Io, "cannot write {}: {error}", files[0].display());
    std::fs::write(&files[0], gm.graph().to_text()).map_err(io)?;
    let mut tensors: Vec<(String, Tensor)> = Vec::new();
    for (i, tensor) in culprit.inputs.iter().flat_map(check::tensors).enumerate() {
        tensors.push((format!("0.in{i}"), tensor));
    }
    for (i, tensor) in check::tensors(&culprit.expected).into_iter().enumerate() {
        tensors.push((format!("0.out{i}"), tensor));
    }
    weights::save(&files[1], &tensors, &[])?;
    let mut read: Vec<(String, Tensor)> = Vec::new();
    for (_, node) in gm.graph().nodes() {
        if let Target::GetAttr(path) = node.target()
            && !read.iter().any(|(other, _)| **other == **path)
        {
            read.push((path.to_string(), gm.attr(path)?));
        }
    }
    if read.is_empty() {
        return Ok(files[..2].to_vec());
    }
    weights::save(&files[2], &read, &[])?;
    Ok(files.to_vec())
}
