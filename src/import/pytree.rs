//! The nesting of inputs and outputs: PyTorch's tree specs, as archives write them.

use serde::Deserialize;

use crate::{Arg, Result, bail, err};

/// The version of tree specs that is read.
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct Spec {
    r#type: Option<String>,
    #[serde(default)]
    context: serde_json::Value,
    #[serde(default)]
    children_spec: Vec<Spec>,
}

/// Reads a spec: the nesting, with nothing at its leaves. Fails if it is damaged or of another version.
pub fn parse(text: &str) -> Result<Arg<()>> {
    let (version, spec): (u64, Spec) =
        serde_json::from_str(text).map_err(|error| err!(Parse, "a tree spec does not parse: {error}"))?;
    if version != VERSION {
        bail!(Load, "expected version {VERSION} of tree specs, got {version}");
    }
    let tree = structure(spec)?;
    match tree.error() {
        Some(error) => Err(error.clone()),
        None => Ok(tree),
    }
}

fn structure(spec: Spec) -> Result<Arg<()>> {
    let Some(kind) = spec.r#type else {
        if !spec.children_spec.is_empty() {
            bail!(Parse, "a leaf of a tree spec has children");
        }
        return Ok(Arg::Leaf(()));
    };
    let n = spec.children_spec.len();
    let children = spec.children_spec.into_iter().map(structure).collect::<Result<Vec<_>>>()?;
    Ok(match kind.as_str() {
        "builtins.tuple" | "collections.namedtuple" | "torch.Size" => Arg::tuple(children),
        "builtins.list" | "collections.deque" => Arg::list(children),
        _ => match keys(&spec.context, n) {
            Some(keys) => Arg::dict(keys.into_iter().zip(children)),
            None if kind.ends_with("dict") || kind.ends_with("Dict") => {
                bail!(Parse, "expected the {n} keys of a {kind} in a tree spec, got {}", spec.context)
            }
            // A class of the user without names for its parts.
            None => Arg::tuple(children),
        },
    })
}

/// Returns the `n` names that a context holds, which may be JSON in text and may be nested.
fn keys(context: &serde_json::Value, n: usize) -> Option<Vec<String>> {
    match context {
        serde_json::Value::String(text) => keys(&serde_json::from_str(text).ok()?, n),
        serde_json::Value::Array(items) => {
            let key = |item: &serde_json::Value| match item {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            let names: Option<Vec<String>> = items.iter().map(key).collect();
            match names {
                Some(names) if names.len() == n => Some(names),
                _ => items.iter().filter(|item| item.is_array()).find_map(|item| keys(item, n)),
            }
        }
        serde_json::Value::Object(entries) => entries.values().find_map(|value| keys(value, n)),
        _ => None,
    }
}
