//! Reads the cases of an operator: `NAME.json` with the calls, `NAME.safetensors` with the data.

use std::path::Path;

use serde_json::Value as Json;

use crate::opcheck::rule;
use crate::weights::Weights;
use crate::{Arg, Array, DType, Result, Tensor, Value, bail, err};

/// A call with the expected output.
pub(super) struct Case {
    /// The positional arguments.
    pub(super) args: Vec<Value>,
    /// The arguments by name.
    pub(super) kwargs: Vec<(String, Value)>,
    /// What PyTorch returned.
    pub(super) out: Value,
}

impl Case {
    /// Returns the call as text, with types for tensors.
    pub(super) fn call(&self, name: &str) -> String {
        let args = self.args.iter().map(rule::describe);
        let kwargs = self.kwargs.iter().map(|(key, value)| format!("{key}={}", rule::describe(value)));
        format!("{name}({})", args.chain(kwargs).collect::<Vec<_>>().join(", "))
    }
}

/// Reads the cases of one file. A case that cannot be read is an error of its own.
pub(super) fn read(path: &Path) -> Result<Vec<Result<Case>>> {
    let tensors = Weights::open(path.with_extension("safetensors"))?;
    let text = std::fs::read(path).map_err(|error| err!(Io, "cannot read {}: {error}", path.display()))?;
    let file: Json =
        serde_json::from_slice(&text).map_err(|error| err!(Parse, "{}: {error}", path.display()))?;
    let cases =
        file["cases"].as_array().ok_or_else(|| err!(Parse, "{}: no list \"cases\"", path.display()))?;
    let reader = Reader { tensors };
    Ok(cases.iter().map(|case| reader.case(case)).collect())
}

/// Returns an array whose axes lie in memory in this order, the slowest first.
fn laid(array: &Array, order: &Json) -> Result<Array> {
    let axes = order.as_array().map(Vec::as_slice).unwrap_or_default();
    let axes: Option<Vec<usize>> = axes.iter().map(|axis| usize::try_from(axis.as_u64()?).ok()).collect();
    let order = axes.ok_or_else(|| err!(Parse, "{order} is no order of axes"))?;
    let mut back = vec![0; order.len()];
    for (at, &axis) in order.iter().enumerate() {
        *back.get_mut(axis).ok_or_else(|| err!(Parse, "{order:?} is no order of axes"))? = at;
    }
    array.permute(&order)?.contiguous()?.permute(&back)
}

struct Reader {
    tensors: Weights,
}

impl Reader {
    fn case(&self, case: &Json) -> Result<Case> {
        let args = case["args"].as_array().ok_or_else(|| err!(Parse, "no list \"args\" in the case"))?;
        let kwargs =
            case["kwargs"].as_object().ok_or_else(|| err!(Parse, "no object \"kwargs\" in the case"))?;
        Ok(Case {
            args: args.iter().map(|arg| self.value(arg)).collect::<Result<_>>()?,
            kwargs: kwargs
                .iter()
                .map(|(key, arg)| Ok((key.clone(), self.value(arg)?)))
                .collect::<Result<_>>()?,
            out: self.value(&case["out"])?,
        })
    }

    fn value(&self, json: &Json) -> Result<Value> {
        Ok(match json {
            Json::Null => Arg::None,
            Json::Bool(x) => Arg::Bool(*x),
            Json::Number(x) => match (x.as_i64(), x.as_f64()) {
                (Some(x), _) => Arg::Int(x),
                (None, Some(x)) => Arg::Float(x),
                (None, None) => bail!(Parse, "{x} is not a number that fx has"),
            },
            Json::String(x) => Arg::str(x.as_str()),
            Json::Array(items) => Arg::list(self.values(items)?),
            Json::Object(entries) => {
                if let Some(Json::String(name)) = entries.get("tensor") {
                    return self.tensor(name, json).map(Arg::Leaf);
                }
                let Some((tag, content)) = entries.iter().next() else { bail!(Parse, "an empty object") };
                match (tag.as_str(), content) {
                    ("tuple", Json::Array(items)) => Arg::tuple(self.values(items)?),
                    ("slice", Json::Array(parts)) => match <[Value; 3]>::try_from(self.values(parts)?) {
                        Ok([start, stop, step]) => Arg::slice(start, stop, step),
                        Err(_) => bail!(Parse, "a slice has three parts: {json}"),
                    },
                    ("dtype", Json::String(name)) => Arg::DType(name.parse::<DType>()?),
                    ("float", Json::String(text)) => {
                        Arg::Float(text.parse().map_err(|_| err!(Parse, "{text:?} is no float"))?)
                    }
                    ("ellipsis", _) => Arg::Ellipsis,
                    _ => bail!(Parse, "unknown value {json}"),
                }
            }
        })
    }

    fn values(&self, items: &[Json]) -> Result<Vec<Value>> {
        items.iter().map(|item| self.value(item)).collect()
    }

    fn tensor(&self, name: &str, json: &Json) -> Result<Tensor> {
        let tensor = self.tensors.require(name)?;
        let array = tensor.array()?;
        let sizes = array.shape().iter().map(|&n| Some(n as u64));
        let declared = json["shape"].as_array().map(Vec::as_slice).unwrap_or_default();
        if json["dtype"] != array.dtype().name() || !declared.iter().map(Json::as_u64).eq(sizes) {
            bail!(
                Load,
                "tensor {name:?}: expected {} {}, got {}",
                json["dtype"],
                json["shape"],
                array.describe()
            );
        }
        match &json["order"] {
            Json::Null => Ok(tensor),
            order => Ok(Tensor::new(laid(array, order)?)),
        }
    }
}
