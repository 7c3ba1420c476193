//! Where a node comes from: PyTorch's stack traces and module stacks as source lines and module frames.

use std::sync::Arc;

use super::schema::Node;
use crate::{ModuleFrame, NodeMeta, SourceLoc};

/// The most frames of a module stack that are kept.
const MAX_FRAMES: usize = 64;

/// Returns source line and module stack of a node.
pub(super) fn of(node: &Node) -> NodeMeta {
    let mut meta = NodeMeta::default();
    meta.source = node.metadata.get("stack_trace").and_then(|trace| source(trace));
    meta.stack = node.metadata.get("nn_module_stack").and_then(|stack| module_stack(stack));
    meta
}

/// Returns the innermost line that is not PyTorch's own; if all are, the innermost.
pub fn source(trace: &str) -> Option<SourceLoc> {
    let mut found = None;
    for line in trace.lines().rev() {
        let Some((file, rest)) =
            line.trim_start().strip_prefix("File \"").and_then(|rest| rest.split_once("\", line "))
        else {
            continue;
        };
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(number) = rest[..digits].parse::<u32>() else { continue };
        let own = file.starts_with("torch/") || file.contains("/torch/") || file.starts_with('<');
        if !own {
            return Some(SourceLoc::new(file, number, 1));
        }
        if found.is_none() && !file.starts_with('<') {
            found = Some(SourceLoc::new(file, number, 1));
        }
    }
    found
}

/// Reads `key,path,type;…`, outermost first; the root is left out.
pub fn module_stack(text: &str) -> Option<Arc<[ModuleFrame]>> {
    let frame = |entry: &str| {
        let mut parts = entry.splitn(3, ',');
        let (key, path, type_name) = (parts.next()?, parts.next()?, parts.next()?);
        let path = dotted(path);
        if path.is_empty() || type_name == key {
            return None;
        }
        let call = key.rsplit_once('@').and_then(|(_, call)| call.parse().ok()).unwrap_or(0);
        let path = super::plain(path.split('@').next().unwrap_or_default());
        let type_name = type_name.rsplit('.').next().unwrap_or(type_name);
        Some(ModuleFrame {
            path: Arc::from(path.as_str()),
            type_name: Arc::from(type_name),
            call,
            source: None,
        })
    };
    let frames: Vec<ModuleFrame> = text.split(';').filter_map(frame).take(MAX_FRAMES).collect();
    (!frames.is_empty()).then(|| Arc::from(frames))
}

/// Returns a path without the prefixes that PyTorch's tracers put before it.
fn dotted(path: &str) -> String {
    let path = path.strip_prefix("L['self'].").or_else(|| path.strip_prefix("L['self']")).unwrap_or(path);
    path.replace("_modules['", "").replace("']", "").replace(".slice(None, None, None)", "")
}
