//! A case: an archive with calls and the results that PyTorch gave.
//!
//! `NAME.json` says how `NAME.pt` is called, `NAME.io.safetensors` has the tensors that it names.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fx_script::load::{Program, Session};
use fx_script::value::{Key, TensorCell, Value, float_text, shown};
use serde_json::Value as Json;

use crate::script::Script;
use crate::weights::Weights;
use crate::{Array, DType, Result, bail, err};

/// The relative and the absolute tolerance of tensors of floats; the latter is times the largest element.
const TOLERANCE: (f64, f64) = (1e-4, 1e-5);

/// A program with its state, as something runs it.
pub trait Callee {
    /// Calls a method. Fails if the program does.
    fn call(&mut self, method: &str, args: Vec<Value>, kwargs: Vec<(String, Value)>) -> Result<Value>;

    /// Returns the text that was printed since the last time, if that is known.
    fn take_output(&mut self) -> Option<String>;

    /// Returns the value of an attribute by its path, if the program has attributes. Fails if there is none.
    fn attribute(&mut self, path: &str) -> Result<Option<Value>>;
}

impl Callee for Session {
    fn call(&mut self, method: &str, args: Vec<Value>, kwargs: Vec<(String, Value)>) -> Result<Value> {
        Session::call(self, method, args, kwargs)
    }

    fn take_output(&mut self) -> Option<String> {
        Some(Session::take_output(self))
    }

    fn attribute(&mut self, path: &str) -> Result<Option<Value>> {
        let mut value = Value::Object(Arc::clone(&self.program().root));
        for name in path.split('.') {
            value = value.to_object()?.get(name)?;
        }
        Ok(Some(value))
    }
}

/// The first function of a text.
impl Callee for Script {
    fn call(&mut self, _: &str, args: Vec<Value>, kwargs: Vec<(String, Value)>) -> Result<Value> {
        let name = self.functions().next().unwrap_or_default().to_owned();
        self.call_values(&name, args, kwargs)
    }

    fn take_output(&mut self) -> Option<String> {
        Some(Script::take_output(self))
    }

    fn attribute(&mut self, _: &str) -> Result<Option<Value>> {
        Ok(None)
    }
}

/// A case that was read.
pub struct Case {
    path: PathBuf,
    json: Json,
    tensors: Option<Weights>,
}

impl Case {
    /// Reads a case. Fails if the files are damaged or missing.
    pub fn open(path: &Path) -> Result<Case> {
        let wrong = |what: &dyn std::fmt::Display| err!(Load, "{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| err!(Io, "{}: {error}", path.display()))?;
        let json: Json = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if !json["sets"].is_array() && json["must_refuse"] != Json::Bool(true) {
            return Err(wrong(&"expected the key \"sets\" with a list, or \"must_refuse\": true"));
        }
        let tensors = path.with_extension("io.safetensors");
        let tensors = if tensors.exists() { Some(Weights::open(&tensors)?) } else { None };
        Ok(Case { path: path.to_owned(), json, tensors })
    }

    /// Returns the path of the archive.
    pub fn archive(&self) -> PathBuf {
        self.path.with_extension("pt")
    }

    /// Returns whether reading the archive must fail.
    pub fn must_refuse(&self) -> bool {
        self.json["must_refuse"] == Json::Bool(true)
    }

    /// Returns the methods that are called.
    pub fn methods(&self) -> std::collections::BTreeSet<&str> {
        let sets = self.json["sets"].as_array().into_iter().flatten();
        let calls = sets.flat_map(|set| set["calls"].as_array().into_iter().flatten());
        calls.map(|call| call["method"].as_str().unwrap_or("forward")).collect()
    }

    /// Returns the text that the archive was made from, if it was one.
    pub(super) fn source(&self) -> Option<&str> {
        self.json["source"].as_str()
    }

    /// Makes all calls on programs that `load` makes, one for each set; `definitions` are of the archive. Fails
    /// with the first call whose result, error, text or state is not PyTorch's.
    pub fn check<C: Callee>(&self, definitions: &Program, load: &dyn Fn() -> Result<C>) -> Result<()> {
        let mut fields = HashMap::new();
        for class in definitions.definitions.classes.iter() {
            let name = class.name.rsplit('.').next().unwrap_or_default().to_owned();
            fields.insert(name, class.attributes.iter().map(|field| field.name.to_string()).collect());
        }
        let values = Values { tensors: self.tensors.as_ref(), fields };
        for (i, set) in self.json["sets"].as_array().into_iter().flatten().enumerate() {
            let mut program = load()?;
            let at = |what: String, error: crate::Error| err!(Check, "set {i}, {what}: {error}");
            for (j, call) in set["calls"].as_array().into_iter().flatten().enumerate() {
                values.call(&mut program, call).map_err(|error| at(format!("call {j}"), error))?;
            }
            for (buffer, expected) in set["buffers_after"].as_object().into_iter().flatten() {
                if let Some(value) = program.attribute(buffer)? {
                    let same = values.same(&value, expected);
                    same.map_err(|error| at(format!("buffer {buffer}"), error))?;
                }
            }
        }
        Ok(())
    }
}

struct Values<'a> {
    /// The fields of each class in order.
    fields: HashMap<String, Vec<String>>,
    tensors: Option<&'a Weights>,
}

impl Values<'_> {
    fn call(&self, program: &mut impl Callee, call: &Json) -> Result<()> {
        let args = call["args"].as_array().into_iter().flatten().map(|arg| self.value(arg));
        let args = args.collect::<Result<Vec<_>>>()?;
        let kwargs = call["kwargs"].as_object().into_iter().flatten();
        let kwargs =
            kwargs.map(|(key, arg)| Ok((key.clone(), self.value(arg)?))).collect::<Result<Vec<_>>>()?;
        let method = call["method"].as_str().unwrap_or("forward");
        let outcome = program.call(method, args.clone(), kwargs);
        if let Some(raises) = call.get("raises") {
            let message = raises["message"].as_str().unwrap_or_default();
            return match outcome {
                Ok(_) => Err(err!(Check, "expected an error with {message:?}, got a result")),
                Err(error) if error.message().contains(message) => Ok(()),
                Err(error) => {
                    Err(err!(Check, "expected an error with {message:?}, got {:?}", error.message()))
                }
            };
        }
        self.same(&outcome?, &call["result"])?;
        if let (Some(stdout), Some(printed)) = (call["stdout"].as_str(), program.take_output())
            && printed != stdout
        {
            bail!(Check, "expected the text {stdout:?}, got {printed:?}");
        }
        for (arg, after) in args.iter().zip(call["args_after"].as_array().into_iter().flatten()) {
            self.same(arg, after)?;
        }
        Ok(())
    }

    fn tensor(&self, name: &Json) -> Result<Array> {
        let name = name.as_str().unwrap_or_default();
        let tensors = self.tensors.ok_or_else(|| err!(Load, "the file of tensors is missing"))?;
        tensors.require(name)?.into_array()
    }

    fn value(&self, json: &Json) -> Result<Value> {
        let Some((kind, of)) = json.as_object().and_then(|object| {
            object.iter().find(|(kind, _)| !matches!(kind.as_str(), "fields" | "dtype") || object.len() == 1)
        }) else {
            bail!(Load, "expected a value with one key, got {json}");
        };
        let items =
            || of.as_array().into_iter().flatten().map(|item| self.value(item)).collect::<Result<Vec<_>>>();
        Ok(match kind.as_str() {
            "tensor" => Value::tensor(self.tensor(of)?)?,
            "complex_tensor" => Value::Tensor(TensorCell::complex_of(self.tensor(of)?)?),
            "none" => Value::None,
            "bool" => Value::Bool(of == &Json::Bool(true)),
            "int" => Value::Int(of.as_i64().ok_or_else(|| err!(Load, "expected an integer, got {of}"))?),
            "str" => Value::str(of.as_str().unwrap_or_default()),
            "float" => Value::Float(float(of)?),
            "complex" => Value::complex(float(&of[0])?, float(&of[1])?),
            "dtype" => Value::Int(dtype(of.as_str().unwrap_or_default())?),
            "list" => Value::list(items()?),
            "tuple" => Value::tuple(items()?),
            "dict" => {
                let pairs = of.as_array().into_iter().flatten();
                Value::dict(
                    pairs
                        .map(|pair| Ok((self.value(&pair[0])?, self.value(&pair[1])?)))
                        .collect::<Result<Vec<_>>>()?,
                )?
            }
            "named_tuple" => {
                let name = of.as_str().unwrap_or_default();
                let order = self.fields.get(name).ok_or_else(|| err!(Load, "there is no class {name:?}"))?;
                let items = order.iter().map(|field| self.value(&json["fields"][field]));
                Value::tuple(items.collect::<Result<Vec<_>>>()?)
            }
            other => bail!(Load, "unknown kind of value {other:?}"),
        })
    }

    fn same(&self, got: &Value, expected: &Json) -> Result<()> {
        same(got, &self.value(expected)?)
    }
}

fn float(json: &Json) -> Result<f64> {
    let parsed = match json {
        Json::String(text) => text.parse().ok(),
        other => other.as_f64(),
    };
    parsed.ok_or_else(|| err!(Load, "expected a float, got {json}"))
}

fn dtype(name: &str) -> Result<i64> {
    let complex = match name {
        "complex32" => Some(DType::F16),
        "complex64" => Some(DType::F32),
        "complex128" => Some(DType::F64),
        _ => None,
    };
    if let Some(part) = complex {
        return Ok(fx_script::host::code_of(part, true));
    }
    let dtypes = [
        ("uint8", DType::U8),
        ("int8", DType::I8),
        ("int32", DType::I32),
        ("int64", DType::I64),
        ("float16", DType::F16),
        ("bfloat16", DType::BF16),
        ("float32", DType::F32),
        ("float64", DType::F64),
        ("bool", DType::Bool),
    ];
    let found = dtypes.iter().find(|(other, _)| *other == name);
    found
        .map(|(_, dtype)| fx_script::host::code_of(*dtype, false))
        .ok_or_else(|| err!(Load, "unknown dtype {name:?}"))
}

/// Compares a result with the expected one. Fails with both where they differ.
fn same(got: &Value, expected: &Value) -> Result<()> {
    let differ = || -> Result<()> {
        Err(err!(
            Check,
            "expected {} {}, got {} {}",
            expected.type_name(),
            shown(expected)?,
            got.type_name(),
            shown(got)?
        ))
    };
    match (got, expected) {
        (Value::Tensor(got), Value::Tensor(expected)) => {
            let (got, expected) = (got.array()?, expected.array()?);
            if got.dtype() != expected.dtype() || got.shape() != expected.shape() {
                bail!(Check, "expected {}, got {}", expected.describe(), got.describe());
            }
            if !got.dtype().is_float() {
                return if got.bits_eq(&expected) { Ok(()) } else { differ() };
            }
            let largest = expected.iter_scalars().map(|x| x.to_f64().abs());
            let largest = largest.filter(|x| x.is_finite()).fold(0.0, f64::max);
            let wide = if matches!(got.dtype(), DType::F16 | DType::BF16) { (1e-2, 1e-2) } else { TOLERANCE };
            got.all_close(&expected, wide.0, wide.1 * largest).map_err(|mismatch| err!(Check, "{mismatch}"))
        }
        (Value::Float(got), Value::Float(expected)) => {
            let close = got == expected
                || got.is_nan() && expected.is_nan()
                || (got - expected).abs() <= 1e-6 * expected.abs();
            if close {
                Ok(())
            } else {
                Err(err!(Check, "expected {}, got {}", float_text(*expected), float_text(*got)))
            }
        }
        (Value::List(a), Value::List(b)) => same_items(&a.read(Clone::clone), &b.read(Clone::clone)),
        (Value::Tuple(a), Value::Tuple(b)) => same_items(&a.items, &b.items),
        (Value::Dict(a), Value::Dict(b)) => {
            let (a, b) = (a.read(Clone::clone), b.read(Clone::clone));
            if a.len() != b.len() {
                return differ();
            }
            for ((key, value), (other, expected)) in a.iter().zip(b.iter()) {
                if Key::of(key)? != Key::of(other)? {
                    return differ();
                }
                same(value, expected)?;
            }
            Ok(())
        }
        _ if std::mem::discriminant(got) != std::mem::discriminant(expected) => differ(),
        _ => {
            if fx_script::value::values_equal(got, expected)? {
                Ok(())
            } else {
                differ()
            }
        }
    }
}

fn same_items(got: &[Value], expected: &[Value]) -> Result<()> {
    if got.len() != expected.len() {
        bail!(Check, "expected {} items, got {}", expected.len(), got.len());
    }
    got.iter().zip(expected).try_for_each(|(got, expected)| same(got, expected))
}
