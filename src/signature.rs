//! [`Signature`]: the structure of arguments, and [`BySignature`], which finds compiled code by it.

use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::{FxHashMap, FxHasher};
use smallvec::SmallVec;

use crate::eval::Inputs;
use crate::{Arg, Array, DType, Tensor, Tree, Value};

/// What a leaf of an argument must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Leaf {
    Tensor {
        dtype: DType,
        rank: u8,
    },
    /// Any integer.
    Int,
}

impl Leaf {
    fn of(array: &Array) -> Leaf {
        Leaf::Tensor { dtype: array.dtype(), rank: array.rank() as u8 }
    }

    fn fits(&self, tensor: &Tensor) -> bool {
        tensor.shared_array().is_some_and(|array| *self == Leaf::of(array))
    }
}

/// Returns whether an argument has the structure that is expected.
fn fits(expected: &Arg<Leaf>, arg: &Value) -> bool {
    let all = |a: &[Arg<Leaf>], b: &[Value]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| fits(a, b));
    match (expected, arg) {
        (Arg::Leaf(leaf), Arg::Leaf(tensor)) => leaf.fits(tensor),
        (Arg::Leaf(Leaf::Int), Arg::Int(_)) => true,
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => all(a, b),
        (Arg::Dict(a), Arg::Dict(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && fits(a, b))
        }
        (expected, arg) => expected.same_literal(arg),
    }
}

/// Visits the integers of an argument that [`Leaf::Int`] stands for.
pub(crate) fn for_each_integer(arg: &Value, visit: &mut dyn FnMut(i64)) {
    match arg {
        Arg::Int(n) => visit(*n),
        Arg::Tuple(items) | Arg::List(items) => items.iter().for_each(|item| for_each_integer(item, visit)),
        Arg::Dict(entries) => entries.iter().for_each(|(_, item)| for_each_integer(item, visit)),
        _ => {}
    }
}

/// Returns what is expected with any integer in the place of those that [`for_each_integer`] visits.
fn opened(expected: &Arg<Leaf>) -> Arg<Leaf> {
    match expected {
        Arg::Int(_) => Arg::Leaf(Leaf::Int),
        Arg::Tuple(items) => Arg::tuple(items.iter().map(opened)),
        Arg::List(items) => Arg::list(items.iter().map(opened)),
        Arg::Dict(entries) => Arg::dict(entries.iter().map(|(key, item)| (&**key, opened(item)))),
        other => other.clone(),
    }
}

/// For each argument, whether a structure is for all values of its integers.
pub(crate) type Open = [bool];

fn is_open(open: &Open, at: usize) -> bool {
    open.get(at).copied().unwrap_or(false)
}

/// The structure of the arguments: tuples, lists and maps with their lengths and keys, numbers and texts, and the
/// dtype and rank of each tensor.
#[derive(Clone, Debug)]
pub(crate) struct Signature {
    pub(crate) args: Vec<Arg<Leaf>>,
    pub(crate) hash: u64,
}

impl Signature {
    pub(crate) fn of(args: &[Value], open: &Open) -> Signature {
        let none = Leaf::Tensor { dtype: DType::Bool, rank: u8::MAX };
        let leaf = |tensor: &Tensor| tensor.shared_array().map_or(none, |array| Leaf::of(array));
        let types = args.iter().enumerate().map(|(at, arg)| match arg.map(&mut { leaf }) {
            arg if is_open(open, at) => opened(&arg),
            arg => arg,
        });
        Signature { args: types.collect(), hash: hash_of(args, open) }
    }

    pub(crate) fn fits(&self, args: Inputs<'_>) -> bool {
        self.args.len() == args.len()
            && match args {
                Inputs::Tensors(tensors) => self
                    .args
                    .iter()
                    .zip(tensors)
                    .all(|(expected, tensor)| matches!(expected, Arg::Leaf(leaf) if leaf.fits(tensor))),
                Inputs::Values(values) => {
                    self.args.iter().zip(values).all(|(expected, arg)| fits(expected, arg))
                }
            }
    }

    /// Says in words where arguments differ first.
    pub(crate) fn difference(&self, args: &[Value], names: &[Arc<str>]) -> String {
        for (at, (expected, arg)) in self.args.iter().zip(args).enumerate() {
            if !fits(expected, arg) {
                let name = names.get(at).map_or("?", |name| &**name);
                return describe(&format!("argument {name}"), expected, arg);
            }
        }
        format!("{} arguments, got {}", self.args.len(), args.len())
    }
}

fn describe(place: &str, expected: &Arg<Leaf>, arg: &Value) -> String {
    match (expected, arg) {
        (Arg::Leaf(Leaf::Tensor { dtype, rank }), Arg::Leaf(tensor)) => match tensor.shared_array() {
            Some(array) if array.dtype() != *dtype => {
                format!("{place}: dtype {dtype}, got {}", array.dtype())
            }
            Some(array) => format!("{place}: {rank} axes, got {}", array.rank()),
            None => format!("{place}: a tensor without a value"),
        },
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
            if a.len() != b.len() {
                return format!("{place}: {} items, got {}", a.len(), b.len());
            }
            let mut items = a.iter().zip(b.iter()).enumerate();
            match items.find(|(_, (a, b))| !fits(a, b)) {
                Some((i, (a, b))) => describe(&format!("{place}[{i}]"), a, b),
                None => format!("{place}: other items"),
            }
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            let keys = |keys: Vec<&str>| keys.join(", ");
            let (expected, got): (Vec<&str>, Vec<&str>) =
                (a.iter().map(|(key, _)| &**key).collect(), b.iter().map(|(key, _)| &**key).collect());
            if expected != got {
                return format!("{place}: keys {}, got {}", keys(expected), keys(got));
            }
            match a.iter().zip(b.iter()).find(|((_, a), (_, b))| !fits(a, b)) {
                Some(((key, a), (_, b))) => describe(&format!("{place}[{key:?}]"), a, b),
                None => format!("{place}: other items"),
            }
        }
        (Arg::Leaf(Leaf::Int), arg) => format!("{place}: an integer, got {}", shown(arg)),
        _ => format!("{place}: {}, got {}", shown(expected), shown(arg)),
    }
}

fn shown<L>(arg: &Arg<L>) -> String {
    match arg {
        Arg::Bool(x) => x.to_string(),
        Arg::Int(x) => x.to_string(),
        Arg::Float(x) => format!("{x:?}"),
        Arg::Str(x) => format!("{x:?}"),
        Arg::DType(x) => x.to_string(),
        other => other.kind_name().to_owned(),
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, arg) in self.args.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            f.write_str(separator)?;
            arg.write(
                f,
                &mut |leaf, out| match leaf {
                    Leaf::Tensor { dtype, rank } => {
                        write!(out, "{dtype}[{}]", vec!["_"; usize::from(*rank)].join(", "))
                    }
                    Leaf::Int => out.write_str("int"),
                },
                &mut |_, out| out.write_str("a graph"),
            )?;
        }
        Ok(())
    }
}

/// Hashes arguments so that those with one signature hash alike.
fn hash_of(args: &[Value], open: &Open) -> u64 {
    let mut hasher = FxHasher::default();
    for (at, arg) in args.iter().enumerate() {
        hash_argument(arg, is_open(open, at), &mut hasher);
    }
    hasher.finish()
}

/// Hashes an argument, without the values of its integers if it is open.
fn hash_argument(arg: &Value, is_open: bool, hasher: &mut FxHasher) {
    match arg {
        Arg::Int(_) if is_open => {}
        Arg::Tuple(items) | Arg::List(items) if is_open => {
            hasher.write_usize(items.len());
            items.iter().for_each(|item| hash_argument(item, true, hasher));
        }
        Arg::Dict(entries) if is_open => entries.iter().for_each(|(key, item)| {
            hasher.write(key.as_bytes());
            hash_argument(item, true, hasher);
        }),
        arg => arg.hash_by(hasher, &mut |tensor, hasher| {
            if let Some(array) = tensor.shared_array() {
                hasher.write_u8(array.dtype() as u8);
                hasher.write_u8(array.rank() as u8);
            }
        }),
    }
}

/// From so many entries on, an index finds them.
pub(crate) const INDEXED: usize = 4;

/// Entries for arguments of one structure each.
pub(crate) struct BySignature<T> {
    list: Vec<Arc<T>>,
    by_hash: FxHashMap<u64, SmallVec<[u32; 1]>>,
    /// The entry that was found last.
    last: AtomicUsize,
}

/// What is found by a signature.
pub(crate) trait Signed {
    fn signature(&self) -> &Signature;
}

impl<T> Default for BySignature<T> {
    fn default() -> Self {
        BySignature { list: Vec::new(), by_hash: FxHashMap::default(), last: AtomicUsize::new(0) }
    }
}

impl<T: Signed> BySignature<T> {
    /// Makes the table; the last entry counts as the one that was found last.
    pub(crate) fn new(list: Vec<Arc<T>>) -> BySignature<T> {
        let mut by_hash: FxHashMap<u64, SmallVec<[u32; 1]>> = FxHashMap::default();
        if list.len() >= INDEXED {
            for (at, entry) in list.iter().enumerate() {
                by_hash.entry(entry.signature().hash).or_default().push(at as u32);
            }
        }
        let last = AtomicUsize::new(list.len().saturating_sub(1));
        BySignature { list, by_hash, last }
    }

    pub(crate) fn list(&self) -> &[Arc<T>] {
        &self.list
    }

    /// Returns the entry for these arguments, the one that was found last first.
    pub(crate) fn find(&self, args: Inputs<'_>, open: &Open) -> Option<&Arc<T>> {
        if let Some(last) = self.last().filter(|entry| entry.signature().fits(args)) {
            return Some(last);
        }
        let fits = |at: &usize| self.list[*at].signature().fits(args);
        let found = if self.list.len() < INDEXED {
            (0..self.list.len()).find(fits)
        } else {
            self.by_hash.get(&hash_of(&args.values(), open))?.iter().map(|at| *at as usize).find(fits)
        }?;
        self.last.store(found, Ordering::Relaxed);
        Some(&self.list[found])
    }

    /// Returns the entry that was found last.
    pub(crate) fn last(&self) -> Option<&Arc<T>> {
        self.list.get(self.last.load(Ordering::Relaxed))
    }
}

/// Returns the arguments of a call as a tuple: what is no tuple is the only one.
pub(crate) fn arguments(args: impl Tree) -> Value {
    match args.to_value() {
        tuple @ Arg::Tuple(_) => tuple,
        value => Arg::tuple([value]),
    }
}

/// Names the symbol of a size: `x0` for axis 0 of `x`, and `xs_1_0` for that of `xs_1`.
pub(crate) fn size_name(input: &str, axis: usize) -> String {
    let separator = if input.ends_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    format!("{input}{separator}{axis}")
}
