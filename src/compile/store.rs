//! Graphs of a compiled function as a file, so that a later process need not record them again.
//!
//! The file is read as data that may be old, foreign or damaged. A graph is taken only if its operations exist,
//! its parameters are those of the module, and the rules of its operations give the types that it says. In a call
//! it is compared operation by operation as any other, so it can cost time, never change a result.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use smallvec::SmallVec;

use super::build::Constants;
use super::event::{self, Event, Outcome, SeenSizes, Types, Wire};
use super::report::{End, Place};
use super::segment::{Expected, Observation, Segment, Size, Slot};
use crate::{
    Arg, Category, DType, Dim, Error, ErrorKind, Result, Scalar, SourceLoc, Symbol, TensorType, Type,
    TypeTree, err,
};

/// The version of the format.
const FORMAT: u64 = 1;

/// The longest file that is read.
const MOST_BYTES: u64 = 64 << 20;

/// How deep arguments may be nested.
const MOST_DEPTH: usize = 32;

pub(super) fn checksum(text: &str) -> String {
    // FNV-1a, against accidents.
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// Writes segments; those with sub-graphs, or operations that the registry does not have, are left out.
pub(super) fn save(path: &Path, name: &str, segments: &[Arc<Segment>], constants: &Constants) -> Result<()> {
    let body: Vec<Json> = segments.iter().filter_map(|segment| segment_json(segment, constants)).collect();
    let body = Json::Array(body).to_string();
    let head = json!({
        "fx": FORMAT, "version": env!("CARGO_PKG_VERSION"), "function": name, "checksum": checksum(&body),
    });
    // Another process sees the file before or the whole of this one.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    std::fs::write(&temporary, format!("{head}\n{body}\n"))
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(|error| {
            let _ = std::fs::remove_file(&temporary);
            err!(Io, "cannot write {}: {error}", path.display())
        })
}

/// Reads segments, numbered from `first_id`; an empty list if the file is of another version of fx. Fails if it
/// cannot be read, is damaged, or is no such file.
pub(super) fn load(path: &Path, constants: &Constants, first_id: u64) -> Result<Vec<Arc<Segment>>> {
    let shown = path.display().to_string();
    let io = |error: std::io::Error| err!(Io, "cannot read {shown}: {error}");
    let length = std::fs::metadata(path).map_err(io)?.len();
    if length > MOST_BYTES {
        return Err(err!(Load, "{shown} has {length} bytes, more than {MOST_BYTES}"));
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    let bad = |why: &str| {
        Error::new(ErrorKind::Load, format!("{shown} has no graphs of a compiled function: {why}"))
            .help("give a file that `save` of a compiled function wrote, or remove it")
    };
    let (head, body) = text.split_once('\n').ok_or_else(|| bad("it has one line"))?;
    let body = body.trim_end();
    let head: Json = serde_json::from_str(head).map_err(|error| bad(&error.to_string()))?;
    if head["fx"].as_u64() != Some(FORMAT) {
        return Err(bad(&format!("format {FORMAT} is known, got {}", head["fx"])));
    }
    if head["checksum"].as_str() != Some(&checksum(body)) {
        return Err(bad("it is damaged, for its checksum is another one"));
    }
    if head["version"].as_str() != Some(env!("CARGO_PKG_VERSION")) {
        return Ok(Vec::new());
    }
    let body: Json = serde_json::from_str(body).map_err(|error| bad(&error.to_string()))?;
    let each = body.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut segments = Vec::new();
    for json in each {
        if let Some(segment) = segment_of(json, constants, first_id + segments.len() as u64) {
            segments.push(Arc::new(segment));
        }
    }
    Ok(segments)
}

fn segment_json(segment: &Segment, constants: &Constants) -> Option<Json> {
    let events = segment.events.iter().map(event_json).collect::<Option<Vec<Json>>>()?;
    let size = |size: &Size| match *size {
        Size::Is(n) => json!(n),
        Size::Symbol(at) => json!({ "symbol": at }),
    };
    let outside = segment.outside.iter().map(|expected| match expected {
        Expected::Constant(array) => Some(json!({ "constant": constants.path(array)? })),
        Expected::Input { name, dtype, sizes } => Some(json!({
            "name": &**name, "dtype": dtype.to_string(), "sizes": sizes.iter().map(size).collect::<Vec<_>>(),
        })),
    });
    let symbols = segment.symbols.iter().map(|symbol| json!([symbol.name(), symbol.min(), symbol.max()]));
    let slots = segment.slots.iter().map(|(literal, slot)| match slot {
        Slot::Size(size) => json!([literal, { "size": size.to_string() }]),
        Slot::Number { category, dtype } => {
            json!([literal, { "float": *category == Category::Float, "dtype": dtype.to_string() }])
        }
    });
    let observations = segment.observations.iter().map(|seen| {
        let literals: Vec<Json> = seen.literals.iter().map(scalar_json).collect();
        json!([seen.sizes.iter().map(|sizes| sizes.to_vec()).collect::<Vec<_>>(), literals])
    });
    Some(json!({
        "events": events,
        "outside": outside.collect::<Option<Vec<_>>>()?,
        "symbols": symbols.collect::<Vec<_>>(),
        "slots": slots.collect::<Vec<_>>(),
        "observations": observations.collect::<Vec<_>>(),
        "end": segment.end.to_string(),
    }))
}

fn event_json(event: &Event) -> Option<Json> {
    if crate::registry().get(event.op.name) != Some(event.op) {
        return None;
    }
    let args = event.args.iter().map(arg_json).collect::<Option<Vec<_>>>()?;
    let kwargs = event.kwargs.iter().map(|(key, arg)| Some(json!([&**key, arg_json(arg)?])));
    let at = &event.source;
    Some(json!({
        "op": event.op.name,
        "method": event.method,
        "args": args,
        "kwargs": kwargs.collect::<Option<Vec<_>>>()?,
        "result": types_json(&event.result)?,
        "at": [at.file(), at.line, at.column],
    }))
}

fn scalar_json(scalar: &Scalar) -> Json {
    match scalar {
        Scalar::Bool(x) => json!(x),
        Scalar::Int(x) => json!({ "i": x }),
        // All bits, also of NaN.
        Scalar::Float(x) => json!({ "f": format!("{:016x}", x.to_bits()) }),
    }
}

fn types_json(types: &Types) -> Option<Json> {
    Some(match types {
        Arg::Leaf(ty) => json!(ty.to_string()),
        Arg::None => Json::Null,
        Arg::Tuple(items) => json!({ "t": items.iter().map(types_json).collect::<Option<Vec<_>>>()? }),
        Arg::List(items) => json!({ "l": items.iter().map(types_json).collect::<Option<Vec<_>>>()? }),
        _ => return None,
    })
}

fn arg_json(arg: &Arg<Wire>) -> Option<Json> {
    let all = |items: &mut dyn Iterator<Item = &Arg<Wire>>| items.map(arg_json).collect::<Option<Vec<_>>>();
    Some(match arg {
        Arg::None => Json::Null,
        Arg::Ellipsis => json!({ "e": 0 }),
        Arg::Bool(x) => json!(x),
        Arg::Int(x) => scalar_json(&Scalar::Int(*x)),
        Arg::Float(x) => scalar_json(&Scalar::Float(*x)),
        Arg::Str(x) => json!(&**x),
        Arg::DType(x) => json!({ "d": x.to_string() }),
        Arg::Slice(slice) => json!({ "s": all(&mut slice.parts().into_iter())? }),
        Arg::Tuple(items) => json!({ "t": all(&mut items.iter())? }),
        Arg::List(items) => json!({ "l": all(&mut items.iter())? }),
        Arg::Dict(entries) => {
            let each = entries.iter().map(|(key, arg)| Some(json!([&**key, arg_json(arg)?])));
            json!({ "m": each.collect::<Option<Vec<_>>>()? })
        }
        Arg::Leaf(Wire::Local(at)) => json!({ "w": at }),
        Arg::Leaf(Wire::Outside(at)) => json!({ "o": at }),
        Arg::Leaf(Wire::Literal(at)) => json!({ "n": at }),
        // Sub-graphs are compared by their text; sizes are numbers in a recorded call.
        Arg::Dim(_) | Arg::Graph(_) | Arg::Failed(_) => return None,
    })
}

fn scalar_of(json: &Json) -> Option<Scalar> {
    if let Some(x) = json.as_bool() {
        return Some(Scalar::Bool(x));
    }
    if let Some(x) = json.get("i") {
        return x.as_i64().map(Scalar::Int);
    }
    let bits = u64::from_str_radix(json.get("f")?.as_str()?, 16).ok()?;
    Some(Scalar::Float(f64::from_bits(bits)))
}

fn arg_of(json: &Json, depth: usize) -> Option<Arg<Wire>> {
    if depth > MOST_DEPTH {
        return None;
    }
    if let Some(scalar) = scalar_of(json) {
        return Some(match scalar {
            Scalar::Bool(x) => Arg::Bool(x),
            Scalar::Int(x) => Arg::Int(x),
            Scalar::Float(x) => Arg::Float(x),
        });
    }
    let (key, inner) = match json {
        Json::Null => return Some(Arg::None),
        Json::String(text) => return Some(Arg::Str(Arc::from(&**text))),
        Json::Object(object) if object.len() == 1 => object.iter().next()?,
        _ => return None,
    };
    let items = || inner.as_array()?.iter().map(|item| arg_of(item, depth + 1)).collect::<Option<Vec<_>>>();
    let number = || u32::try_from(inner.as_u64()?).ok();
    Some(match key.as_str() {
        "e" => Arg::Ellipsis,
        "d" => Arg::DType(inner.as_str()?.parse().ok()?),
        "s" => {
            let [start, stop, step] = <[Arg<Wire>; 3]>::try_from(items()?).ok()?;
            Arg::slice(start, stop, step)
        }
        "t" => Arg::tuple(items()?),
        "l" => Arg::list(items()?),
        "m" => {
            let entry =
                |entry: &Json| Some((entry.get(0)?.as_str()?.to_owned(), arg_of(entry.get(1)?, depth + 1)?));
            Arg::dict(inner.as_array()?.iter().map(entry).collect::<Option<Vec<_>>>()?)
        }
        "w" => Arg::Leaf(Wire::Local(number()?)),
        "o" => Arg::Leaf(Wire::Outside(number()?)),
        "n" => Arg::Leaf(Wire::Literal(number()?)),
        _ => return None,
    })
}

/// What is known of a segment while its events are read.
struct Reader {
    symbols: Vec<Symbol>,
    slots: Vec<(u32, Slot)>,
    /// The types of the tensors from outside.
    outside: Vec<TensorType>,
    /// The types of the results so far.
    locals: Vec<TensorType>,
    /// So many tensors from outside were used, which are numbered by first use.
    used: u32,
    literals: u32,
}

impl Reader {
    fn dim(&self, dim: &Dim) -> Option<Dim> {
        let known = |symbol: &Symbol| self.symbols.iter().find(|other| other.name() == symbol.name());
        let is_known = dim.symbols().iter().all(|symbol| known(symbol).is_some());
        is_known.then(|| dim.substitute(&|symbol| Some(Dim::symbol(known(symbol)?.clone()))))
    }

    fn types(&self, json: &Json, depth: usize) -> Option<Types> {
        let items = |json: &Json| {
            json.as_array()?.iter().map(|item| self.types(item, depth + 1)).collect::<Option<Vec<_>>>()
        };
        match json {
            _ if depth > MOST_DEPTH => None,
            Json::Null => Some(Arg::None),
            Json::String(text) => {
                let ty: TensorType = text.parse().ok()?;
                let shape = ty.shape.iter().map(|dim| self.dim(dim)).collect::<Option<_>>()?;
                Some(Arg::Leaf(Arc::new(TensorType { dtype: ty.dtype, shape })))
            }
            Json::Object(object) => match (object.get("t"), object.get("l")) {
                (Some(inner), None) => Some(Arg::tuple(items(inner)?)),
                (None, Some(inner)) => Some(Arg::list(items(inner)?)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Checks the wires of an argument: operands are known, and numbers that vary stand at their place.
    fn check(&mut self, arg: &Arg<Wire>) -> bool {
        let mut is_right = true;
        arg.walk(&mut |arg| match arg {
            Arg::Leaf(Wire::Local(at)) => is_right &= (*at as usize) < self.locals.len(),
            Arg::Leaf(Wire::Outside(at)) => {
                is_right &= *at <= self.used && (*at as usize) < self.outside.len();
                self.used = self.used.max(at.saturating_add(1));
            }
            Arg::Leaf(Wire::Literal(at)) => {
                is_right &= *at == self.literals && self.slots.iter().any(|(slot, _)| slot == at);
                self.literals += 1;
            }
            arg => self.literals += u32::from(event::number(arg).is_some()),
        });
        is_right
    }

    fn event(&mut self, json: &Json) -> Option<Event> {
        let op = crate::registry().get(json["op"].as_str()?)?;
        let args =
            json["args"].as_array()?.iter().map(|arg| arg_of(arg, 0)).collect::<Option<SmallVec<_>>>()?;
        let kwargs = json["kwargs"]
            .as_array()?
            .iter()
            .map(|entry| Some((Arc::from(entry.get(0)?.as_str()?), arg_of(entry.get(1)?, 0)?)));
        let kwargs: Vec<(Arc<str>, Arg<Wire>)> = kwargs.collect::<Option<_>>()?;
        let at = &json["at"];
        let place = |i: usize| u32::try_from(at.get(i)?.as_u64()?).ok();
        let source = SourceLoc::new(at.get(0)?.as_str()?, place(1)?, place(2)?);
        let first_literal = self.literals;
        if !args.iter().chain(kwargs.iter().map(|(_, arg)| arg)).all(|arg| self.check(arg)) {
            return None;
        }
        // The types are those of the rule.
        let mut depends = self
            .slots
            .iter()
            .any(|(at, slot)| (first_literal..self.literals).contains(at) && matches!(slot, Slot::Size(_)));
        let mut type_of = |wire: &Wire| -> Result<TypeTree> {
            let ty = match wire {
                Wire::Local(at) => &self.locals[*at as usize],
                Wire::Outside(at) => &self.outside[*at as usize],
                Wire::Literal(at) => {
                    let slot = self.slots.iter().find(|(slot, _)| slot == at).map(|(_, slot)| slot);
                    return Ok(match slot {
                        Some(Slot::Size(size)) => Arg::dim(size.clone()),
                        Some(Slot::Number { dtype, .. }) => TensorType::new(*dtype, &[][..]).into(),
                        None => Arg::Leaf(Type::Any),
                    });
                }
            };
            depends |= !ty.shape.iter().all(Dim::is_known);
            Ok(ty.clone().into())
        };
        let Outcome::Tensors(result) = event::infer(op, &args, &kwargs, &mut type_of) else { return None };
        if result != self.types(&json["result"], 0)? {
            return None;
        }
        let first_local = self.locals.len() as u32;
        result.for_each_leaf(&mut |ty| self.locals.push(TensorType::clone(ty)));
        let seen = depends.then(|| Arc::new(SeenSizes::default()));
        let method = json["method"].as_bool()?;
        Some(Event { op, method, args, kwargs, result, first_local, source, seen })
    }
}

fn segment_of(json: &Json, constants: &Constants, id: u64) -> Option<Segment> {
    let list = |key: &str| json[key].as_array().map(Vec::as_slice);
    let symbols = list("symbols")?.iter().map(|symbol| {
        let max = match symbol.get(2)? {
            Json::Null => None,
            max => Some(max.as_i64()?),
        };
        let name = symbol.get(0)?.as_str()?;
        // A name such as any text of a type has.
        let dim: Dim = name.parse().ok()?;
        dim.as_symbol()?;
        Some(Symbol::new(name).ranged(symbol.get(1)?.as_i64()?, max))
    });
    let symbols: Vec<Symbol> = symbols.collect::<Option<_>>()?;
    let mut reader =
        Reader { symbols, slots: Vec::new(), outside: Vec::new(), locals: Vec::new(), used: 0, literals: 0 };
    let mut outside = Vec::new();
    for expected in list("outside")? {
        if let Some(path) = expected.get("constant") {
            let array = constants.array(path.as_str()?)?;
            reader.outside.push(TensorType::new(array.dtype(), array.shape()));
            outside.push(Expected::Constant(array));
            continue;
        }
        let dtype: DType = expected["dtype"].as_str()?.parse().ok()?;
        let sizes = expected["sizes"].as_array()?.iter().map(|size| match size.get("symbol") {
            Some(at) => {
                let at = at.as_u64()?;
                ((at as usize) < reader.symbols.len()).then_some(Size::Symbol(at as u32))
            }
            None => size.as_i64().filter(|n| *n >= 0).map(Size::Is),
        });
        let sizes: SmallVec<[Size; 4]> = sizes.collect::<Option<_>>()?;
        let shape = sizes.iter().map(|size| match *size {
            Size::Is(n) => Dim::new(n),
            Size::Symbol(at) => Dim::symbol(reader.symbols[at as usize].clone()),
        });
        reader.outside.push(TensorType { dtype, shape: shape.collect() });
        outside.push(Expected::Input { name: Arc::from(expected["name"].as_str()?), dtype, sizes });
    }
    for slot in list("slots")? {
        let literal = u32::try_from(slot.get(0)?.as_u64()?).ok()?;
        let slot = slot.get(1)?;
        let slot = match slot.get("size") {
            Some(size) => Slot::Size(reader.dim(&size.as_str()?.parse().ok()?)?),
            None => Slot::Number {
                category: if slot["float"].as_bool()? { Category::Float } else { Category::Int },
                dtype: slot["dtype"].as_str()?.parse().ok()?,
            },
        };
        reader.slots.push((literal, slot));
    }
    let mut events = Vec::new();
    for event in list("events")? {
        events.push(reader.event(event)?);
    }
    let observations = list("observations")?.iter().map(|seen| {
        let sizes =
            seen.get(0)?.as_array()?.iter().map(|sizes| {
                sizes.as_array()?.iter().map(Json::as_i64).collect::<Option<SmallVec<[i64; 4]>>>()
            });
        let sizes: Vec<SmallVec<[i64; 4]>> = sizes.collect::<Option<_>>()?;
        let literals: Vec<Scalar> = seen.get(1)?.as_array()?.iter().map(scalar_of).collect::<Option<_>>()?;
        let fits = sizes.len() == outside.len()
            && literals.len() == reader.literals as usize
            && sizes.iter().zip(&outside).all(|(sizes, expected)| match expected {
                Expected::Constant(_) => sizes.is_empty(),
                Expected::Input { sizes: axes, .. } => axes.len() == sizes.len(),
            });
        fits.then_some(Observation { sizes, literals })
    });
    let observations: Vec<Observation> = observations.collect::<Option<_>>()?;
    if events.is_empty() || reader.used as usize != outside.len() || observations.is_empty() {
        return None;
    }
    let end = Place { end: End::Loaded(Arc::from(json["end"].as_str()?)), at: None };
    let rest = (reader.symbols, reader.slots);
    Some(Segment::new(id, (events, outside), rest, observations, end))
}
