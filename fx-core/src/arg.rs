//! [`Arg`]: one nested value. Its leaf type says whose it is.
//!
//! `Arg<NodeId>` is an argument in a graph, `Arg<Tensor>` ([`Value`](crate::Value)) a value at run time,
//! `Arg<Type>` ([`TypeTree`](crate::TypeTree)) a type in shape propagation. Nesting is limited to
//! [`MAX_DEPTH`], so that recursion over an `Arg` is always bounded; a deeper one becomes [`Arg::Failed`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::{DType, Dim, Error, Graph, NodeId, Result, Scalar, err};

/// How deep lists, tuples, dictionaries, slices and sub-graphs may be nested.
pub const MAX_DEPTH: usize = 64;

/// A nested argument or value with leaves of type `L`.
#[derive(Clone)]
pub enum Arg<L = NodeId> {
    /// Nothing: an optional argument that is absent.
    None,
    /// `..` in an index.
    Ellipsis,
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// Text.
    Str(Arc<str>),
    /// A dtype.
    DType(DType),
    /// A size that depends on symbols; never a known number, which is [`Arg::Int`].
    Dim(Dim),
    /// `start..stop` with a step, in an index.
    Slice(Box<Slice<L>>),
    /// A tuple.
    Tuple(Items<L>),
    /// A list.
    List(Items<L>),
    /// Named entries in order: a dictionary or a struct.
    Dict(Entries<L>),
    /// A closed sub-graph.
    Graph(Arc<Graph>),
    /// A node, tensor or type.
    Leaf(L),
    /// A value that could not be made; using it gives the error.
    Failed(Error),
}

/// `start..stop` with a step; each is an integer, a symbolic size, a leaf, or none.
#[derive(Clone)]
pub struct Slice<L> {
    start: Arg<L>,
    stop: Arg<L>,
    step: Arg<L>,
}

impl<L> Slice<L> {
    /// Returns the start.
    pub fn start(&self) -> &Arg<L> {
        &self.start
    }
    /// Returns the stop, exclusive.
    pub fn stop(&self) -> &Arg<L> {
        &self.stop
    }
    /// Returns the step.
    pub fn step(&self) -> &Arg<L> {
        &self.step
    }
    /// Returns start, stop and step.
    pub fn parts(&self) -> [&Arg<L>; 3] {
        [&self.start, &self.stop, &self.step]
    }
}

/// The items of a tuple or list; clones share them.
#[derive(Clone)]
pub struct Items<L> {
    items: Arc<Vec<Arg<L>>>,
    depth: u8,
}

impl<L: Clone> Items<L> {
    /// Adds an item at the end, in place unless a clone of the list has the items, too. Fails if the item is
    /// nested too deep.
    pub fn push(&mut self, item: Arg<L>) -> Result<()> {
        self.deepen(&item)?;
        Arc::make_mut(&mut self.items).push(item);
        Ok(())
    }

    /// Replaces the item at a position, which must be one of the list, in place unless a clone of the list has
    /// the items, too. Fails if the item is nested too deep.
    pub fn replace(&mut self, at: usize, item: Arg<L>) -> Result<Arg<L>> {
        self.deepen(&item)?;
        match Arc::make_mut(&mut self.items).get_mut(at) {
            Some(place) => Ok(std::mem::replace(place, item)),
            None => Err(err!(Index, "there is no item {at}")),
        }
    }

    /// Removes and returns the item at a position, in place unless a clone of the list has the items, too. Fails
    /// if there is none.
    pub fn remove(&mut self, at: usize) -> Result<Arg<L>> {
        if at >= self.items.len() {
            return Err(err!(Index, "there is no item {at}"));
        }
        Ok(Arc::make_mut(&mut self.items).remove(at))
    }

    /// Adds an item before a position, or at the end. Fails if the item is nested too deep.
    pub fn insert(&mut self, at: usize, item: Arg<L>) -> Result<()> {
        self.deepen(&item)?;
        let items = Arc::make_mut(&mut self.items);
        items.insert(at.min(items.len()), item);
        Ok(())
    }

    /// Notes how deep an item is nested.
    fn deepen(&mut self, item: &Arg<L>) -> Result<()> {
        let depth = 1 + item.depth();
        if depth > MAX_DEPTH {
            return Err(err!(Limit, "lists nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth = self.depth.max(depth as u8);
        Ok(())
    }

    /// Returns the items, consuming the list. They are copied only if a clone of the list has them, too.
    pub fn into_vec(self) -> Vec<Arg<L>> {
        Arc::unwrap_or_clone(self.items)
    }
}

impl<L> Items<L> {
    /// Rewrites every item. A loop, since collecting results does not know how many there will be.
    fn try_rewrite<M>(&self, f: &mut Rewrite<'_, L, M>) -> Result<Vec<Arg<M>>> {
        let mut items = Vec::with_capacity(self.items.len());
        for item in self.items.iter() {
            items.push(item.try_rewrite(f)?);
        }
        Ok(items)
    }
}

impl<L> Deref for Items<L> {
    type Target = [Arg<L>];
    fn deref(&self) -> &[Arg<L>] {
        &self.items
    }
}

/// The entries of a dictionary: unique names in order.
#[derive(Clone)]
pub struct Entries<L> {
    entries: Vec<(Arc<str>, Arg<L>)>,
    depth: u8,
}

impl<L> Entries<L> {
    /// Returns the value under `key`.
    pub fn get(&self, key: &str) -> Option<&Arg<L>> {
        self.entries.iter().find(|(name, _)| &**name == key).map(|(_, value)| value)
    }
}

impl<L> Deref for Entries<L> {
    type Target = [(Arc<str>, Arg<L>)];
    fn deref(&self) -> &[(Arc<str>, Arg<L>)] {
        &self.entries
    }
}

/// What [`Arg::try_rewrite`] calls: returns the replacement, or `None` to go inside.
type Rewrite<'f, L, M> = dyn FnMut(&Arg<L>) -> Result<Option<Arg<M>>> + 'f;

/// Where a leaf is in the arguments of a node: positions from the outside to the inside.
pub(crate) type Place = smallvec::SmallVec<[u32; 4]>;

fn too_deep<L>() -> Arg<L> {
    Arg::Failed(
        err!(Limit, "arguments nested deeper than {MAX_DEPTH} levels").help("flatten the nested lists first"),
    )
}

impl<L> Arg<L> {
    /// Makes a tuple.
    pub fn tuple(items: impl IntoIterator<Item = Arg<L>>) -> Self {
        Self::sequence(items.into_iter().collect(), Arg::Tuple)
    }

    /// Makes a list.
    pub fn list(items: impl IntoIterator<Item = Arg<L>>) -> Self {
        Self::sequence(items.into_iter().collect(), Arg::List)
    }

    fn sequence(items: Vec<Arg<L>>, make: fn(Items<L>) -> Self) -> Self {
        let depth = 1 + items.iter().map(Arg::depth).max().unwrap_or(0);
        if depth > MAX_DEPTH {
            too_deep()
        } else {
            make(Items { items: Arc::new(items), depth: depth as u8 })
        }
    }

    /// Makes a list of integers.
    pub fn ints(items: impl IntoIterator<Item = i64>) -> Self {
        Self::list(items.into_iter().map(Arg::Int))
    }

    /// Makes a dictionary; a repeated key is an error.
    pub fn dict<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Arg<L>)>) -> Self {
        let entries: Vec<(Arc<str>, Arg<L>)> = entries.into_iter().map(|(k, v)| (k.into(), v)).collect();
        let mut keys: Vec<&str> = entries.iter().map(|(k, _)| &**k).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Arg::Failed(err!(Structure, "repeated key {:?} in a dictionary", pair[0]));
        }
        let depth = 1 + entries.iter().map(|(_, value)| value.depth()).max().unwrap_or(0);
        if depth > MAX_DEPTH { too_deep() } else { Arg::Dict(Entries { entries, depth: depth as u8 }) }
    }

    /// Makes a slice.
    pub fn slice(start: Arg<L>, stop: Arg<L>, step: Arg<L>) -> Self {
        let depth = 1 + start.depth().max(stop.depth()).max(step.depth());
        if depth > MAX_DEPTH { too_deep() } else { Arg::Slice(Box::new(Slice { start, stop, step })) }
    }

    /// Makes a size: a known one becomes an integer.
    pub fn dim(dim: impl Into<Dim>) -> Self {
        let dim: Dim = dim.into();
        let dim = dim.plain();
        match (dim.known(), dim.error()) {
            (Some(n), _) => Arg::Int(n),
            (_, Some(error)) => Arg::Failed(error.clone()),
            _ => Arg::Dim(dim.clone()),
        }
    }

    /// Makes text.
    pub fn str(text: impl Into<Arc<str>>) -> Self {
        Arg::Str(text.into())
    }

    /// Returns how deep this is nested: 0 for anything that holds no other argument.
    pub fn depth(&self) -> usize {
        match self {
            Arg::Tuple(items) | Arg::List(items) => items.depth as usize,
            Arg::Dict(entries) => entries.depth as usize,
            Arg::Slice(slice) => 1 + slice.parts().iter().map(|part| part.depth()).max().unwrap_or(0),
            Arg::Graph(graph) => 1 + graph.depth(),
            _ => 0,
        }
    }

    /// Returns the leaf, if this is one.
    pub fn leaf(&self) -> Option<&L> {
        match self {
            Arg::Leaf(leaf) => Some(leaf),
            _ => None,
        }
    }

    /// Returns the items of a tuple or list.
    pub fn items(&self) -> Option<&[Arg<L>]> {
        match self {
            Arg::Tuple(items) | Arg::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the items of a tuple or list; what is neither is the only item.
    pub fn as_items(&self) -> &[Arg<L>] {
        self.items().unwrap_or(std::slice::from_ref(self))
    }

    /// Returns the number, if this is a bool, integer or float.
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Arg::Bool(x) => Some(Scalar::Bool(*x)),
            Arg::Int(x) => Some(Scalar::Int(*x)),
            Arg::Float(x) => Some(Scalar::Float(*x)),
            _ => None,
        }
    }

    /// Calls `f` on every leaf, in order.
    pub fn for_each_leaf<'a>(&'a self, f: &mut dyn FnMut(&'a L)) {
        match self {
            Arg::Leaf(leaf) => f(leaf),
            Arg::Tuple(items) | Arg::List(items) => items.iter().for_each(|item| item.for_each_leaf(f)),
            Arg::Dict(entries) => entries.iter().for_each(|(_, item)| item.for_each_leaf(f)),
            Arg::Slice(slice) => slice.parts().into_iter().for_each(|part| part.for_each_leaf(f)),
            _ => {}
        }
    }

    /// Calls `f` with every leaf and its place: the positions that lead to it, below those in `place`.
    pub(crate) fn for_each_place(&self, place: &mut Place, f: &mut dyn FnMut(&L, &Place)) {
        let mut below = |at: usize, item: &Arg<L>| {
            place.push(at as u32);
            item.for_each_place(place, f);
            place.pop();
        };
        match self {
            Arg::Tuple(items) | Arg::List(items) => items.iter().enumerate().for_each(|(at, x)| below(at, x)),
            Arg::Dict(entries) => entries.iter().enumerate().for_each(|(at, (_, x))| below(at, x)),
            Arg::Slice(slice) => slice.parts().into_iter().enumerate().for_each(|(at, x)| below(at, x)),
            Arg::Leaf(leaf) => f(leaf, place),
            _ => {}
        }
    }

    /// Returns every leaf, in order.
    pub fn leaves(&self) -> Vec<&L> {
        let mut leaves = Vec::new();
        self.for_each_leaf(&mut |leaf| leaves.push(leaf));
        leaves
    }

    /// Calls `f` on this and every argument within it, outermost first.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Arg<L>)) {
        f(self);
        match self {
            Arg::Tuple(items) | Arg::List(items) => items.iter().for_each(|item| item.walk(f)),
            Arg::Dict(entries) => entries.iter().for_each(|(_, item)| item.walk(f)),
            Arg::Slice(slice) => slice.parts().into_iter().for_each(|part| part.walk(f)),
            _ => {}
        }
    }

    /// Returns the first error within.
    pub fn error(&self) -> Option<&Error> {
        let mut found = None;
        self.walk(&mut |arg| {
            if let (None, Arg::Failed(error)) = (found, arg) {
                found = Some(error);
            }
        });
        found
    }

    /// Returns the same nesting with every leaf replaced by an argument. Fails with the first error of `f`.
    pub fn try_flat_map<M>(&self, f: &mut dyn FnMut(&L) -> Result<Arg<M>>) -> Result<Arg<M>> {
        self.try_rewrite(&mut |arg| match arg {
            Arg::Leaf(leaf) => f(leaf).map(Some),
            _ => Ok(None),
        })
    }

    /// Returns the same nesting with every leaf mapped.
    pub fn map<M>(&self, f: &mut dyn FnMut(&L) -> M) -> Arg<M> {
        self.try_flat_map(&mut |leaf| Ok(Arg::Leaf(f(leaf)))).unwrap_or_else(Arg::Failed)
    }

    /// Rebuilds the nesting from the outside. Where `f` returns an argument, that argument is taken as it is.
    /// Fails with the first error of `f`, or if `f` leaves a leaf as it is.
    pub fn try_rewrite<M>(&self, f: &mut Rewrite<'_, L, M>) -> Result<Arg<M>> {
        if let Some(arg) = f(self)? {
            return Ok(arg);
        }
        Ok(match self {
            Arg::None => Arg::None,
            Arg::Ellipsis => Arg::Ellipsis,
            Arg::Bool(x) => Arg::Bool(*x),
            Arg::Int(x) => Arg::Int(*x),
            Arg::Float(x) => Arg::Float(*x),
            Arg::Str(x) => Arg::Str(x.clone()),
            Arg::DType(x) => Arg::DType(*x),
            Arg::Dim(x) => Arg::Dim(x.clone()),
            Arg::Graph(x) => Arg::Graph(x.clone()),
            Arg::Failed(x) => Arg::Failed(x.clone()),
            Arg::Leaf(_) => bail_unmapped()?,
            Arg::Tuple(items) => Arg::sequence(items.try_rewrite(f)?, Arg::Tuple),
            Arg::List(items) => Arg::sequence(items.try_rewrite(f)?, Arg::List),
            Arg::Dict(entries) => Arg::dict(
                entries
                    .iter()
                    .map(|(key, item)| Ok((key.clone(), item.try_rewrite(f)?)))
                    .collect::<Result<Vec<_>>>()?,
            ),
            Arg::Slice(slice) => Arg::slice(
                slice.start.try_rewrite(f)?,
                slice.stop.try_rewrite(f)?,
                slice.step.try_rewrite(f)?,
            ),
        })
    }

    /// Returns a word for the kind of this argument, for messages.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Arg::None => "none",
            Arg::Ellipsis => "an ellipsis",
            Arg::Bool(_) => "a bool",
            Arg::Int(_) => "an integer",
            Arg::Float(_) => "a float",
            Arg::Str(_) => "a string",
            Arg::DType(_) => "a dtype",
            Arg::Dim(_) => "a symbolic size",
            Arg::Slice(_) => "a slice",
            Arg::Tuple(_) => "a tuple",
            Arg::List(_) => "a list",
            Arg::Dict(_) => "a dictionary",
            Arg::Graph(_) => "a sub-graph",
            Arg::Leaf(_) => "a tensor",
            Arg::Failed(_) => "an error",
        }
    }
}

impl<L: Clone> Arg<L> {
    /// Puts `new`, which holds no other argument, in the place of what holds none either.
    pub(crate) fn put_at(&mut self, place: &[u32], new: Arg<L>) {
        debug_assert_eq!(new.depth(), 0, "the depths of what is around stay");
        let Some((at, rest)) = place.split_first() else {
            *self = new;
            return;
        };
        let at = *at as usize;
        match self {
            Arg::Tuple(items) | Arg::List(items) => Arc::make_mut(&mut items.items)[at].put_at(rest, new),
            Arg::Dict(entries) => entries.entries[at].1.put_at(rest, new),
            Arg::Slice(slice) => match at {
                0 => slice.start.put_at(rest, new),
                1 => slice.stop.put_at(rest, new),
                _ => slice.step.put_at(rest, new),
            },
            _ => unreachable!("places lead through what holds other arguments"),
        }
    }
}

fn bail_unmapped<T>() -> Result<T> {
    Err(err!(Structure, "a leaf was left unmapped"))
}

impl<L> Arg<L> {
    /// Returns whether two arguments are equal, with `leaf` to compare leaves. Literals are equal if their
    /// type and bits are, sub-graphs if their structure is.
    pub fn eq_by<M>(&self, other: &Arg<M>, leaf: &dyn Fn(&L, &M) -> bool) -> bool {
        let all =
            |a: &[Arg<L>], b: &[Arg<M>]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.eq_by(b, leaf));
        match (self, other) {
            (Arg::None, Arg::None) | (Arg::Ellipsis, Arg::Ellipsis) => true,
            (Arg::Bool(a), Arg::Bool(b)) => a == b,
            (Arg::Int(a), Arg::Int(b)) => a == b,
            (Arg::Float(a), Arg::Float(b)) => a.to_bits() == b.to_bits(),
            (Arg::Str(a), Arg::Str(b)) => a == b,
            (Arg::DType(a), Arg::DType(b)) => a == b,
            (Arg::Dim(a), Arg::Dim(b)) => a == b,
            (Arg::Slice(a), Arg::Slice(b)) => {
                a.parts().into_iter().zip(b.parts()).all(|(a, b)| a.eq_by(b, leaf))
            }
            (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => all(a, b),
            (Arg::Dict(a), Arg::Dict(b)) => {
                a.len() == b.len()
                    && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && a.eq_by(b, leaf))
            }
            (Arg::Graph(a), Arg::Graph(b)) => Arc::ptr_eq(a, b) || a == b,
            (Arg::Leaf(a), Arg::Leaf(b)) => leaf(a, b),
            (Arg::Failed(a), Arg::Failed(b)) => a.same(b),
            _ => false,
        }
    }

    /// Hashes the argument so that what [`eq_by`](Self::eq_by) calls equal hashes alike, with `leaf` to hash
    /// leaves.
    pub fn hash_by<H: Hasher>(&self, state: &mut H, leaf: &mut dyn FnMut(&L, &mut H)) {
        std::mem::discriminant(self).hash(state);
        match self {
            Arg::None | Arg::Ellipsis | Arg::Failed(_) => {}
            Arg::Bool(x) => x.hash(state),
            Arg::Int(x) => x.hash(state),
            Arg::Float(x) => x.to_bits().hash(state),
            Arg::Str(x) => x.hash(state),
            Arg::DType(x) => x.hash(state),
            Arg::Dim(x) => x.hash(state),
            Arg::Slice(slice) => slice.parts().into_iter().for_each(|part| part.hash_by(state, leaf)),
            Arg::Tuple(items) | Arg::List(items) => {
                items.len().hash(state);
                items.iter().for_each(|item| item.hash_by(state, leaf));
            }
            Arg::Dict(entries) => entries.iter().for_each(|(key, item)| {
                key.hash(state);
                item.hash_by(state, leaf);
            }),
            Arg::Graph(graph) => (graph.name(), graph.len()).hash(state),
            Arg::Leaf(x) => leaf(x, state),
        }
    }

    /// Returns whether both are the same literal; nothing that holds a leaf is.
    pub fn same_literal<M>(&self, other: &Arg<M>) -> bool {
        self.eq_by(other, &|_, _| false)
    }
}

impl<L: PartialEq> PartialEq for Arg<L> {
    fn eq(&self, other: &Self) -> bool {
        self.eq_by(other, &L::eq)
    }
}

impl<L: Eq> Eq for Arg<L> {}

impl<L: Hash> Hash for Arg<L> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash_by(state, &mut |leaf, state| leaf.hash(state));
    }
}

macro_rules! from {
    ($($ty:ty => |$x:ident| $make:expr;)*) => {
        $(impl<L> From<$ty> for Arg<L> { fn from($x: $ty) -> Self { $make } })*
    };
}
from! {
    () => |_x| Arg::None;
    bool => |x| Arg::Bool(x);
    i64 => |x| Arg::Int(x);
    i32 => |x| Arg::Int(x.into());
    usize => |x| i64::try_from(x).map_or_else(|_| Arg::Failed(err!(Argument, "{x} does not fit into i64")), Arg::Int);
    f64 => |x| Arg::Float(x);
    f32 => |x| Arg::Float(x.into());
    &str => |x| Arg::str(x);
    String => |x| Arg::str(x);
    DType => |x| Arg::DType(x);
    Dim => |x| Arg::dim(x);
    Arc<Graph> => |x| if x.depth() >= MAX_DEPTH { too_deep() } else { Arg::Graph(x) };
    Scalar => |x| match x { Scalar::Bool(x) => Arg::Bool(x), Scalar::Int(x) => Arg::Int(x), Scalar::Float(x) => Arg::Float(x) };
}
impl From<NodeId> for Arg<NodeId> {
    fn from(node: NodeId) -> Self {
        Arg::Leaf(node)
    }
}

/// Writes a float so that it reads back bit for bit, and never looks like an integer.
pub(crate) fn write_float(x: f64, f: &mut dyn fmt::Write) -> fmt::Result {
    if x.is_nan() {
        let bits = x.to_bits();
        if bits == f64::NAN.to_bits() { f.write_str("nan") } else { write!(f, "nan(0x{bits:016x})") }
    } else if x.is_infinite() {
        f.write_str(if x > 0.0 { "inf" } else { "-inf" })
    } else {
        write!(f, "{x:?}")
    }
}

/// Writes text in double quotes; every character outside printable ASCII is escaped.
pub(crate) fn write_str(text: &str, f: &mut dyn fmt::Write) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            ' '..='~' => f.write_char(c)?,
            _ => write!(f, "\\u{{{:x}}}", c as u32)?,
        }
    }
    f.write_char('"')
}

impl<L> Arg<L> {
    /// Writes the argument as the text format does, with the given way to write leaves. Fails if `out` does.
    pub fn write(
        &self,
        f: &mut dyn fmt::Write,
        leaf: &mut dyn FnMut(&L, &mut dyn fmt::Write) -> fmt::Result,
        graph: &mut dyn FnMut(&Arc<Graph>, &mut dyn fmt::Write) -> fmt::Result,
    ) -> fmt::Result {
        let mut separated = |items: &[Arg<L>], f: &mut dyn fmt::Write| -> fmt::Result {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                item.write(f, leaf, graph)?;
            }
            Ok(())
        };
        match self {
            Arg::None => f.write_str("none"),
            Arg::Ellipsis => f.write_str(".."),
            Arg::Bool(x) => write!(f, "{x}"),
            Arg::Int(x) => write!(f, "{x}"),
            Arg::Float(x) => write_float(*x, f),
            Arg::Str(x) => write_str(x, f),
            Arg::DType(x) => write!(f, "{x}"),
            Arg::Dim(x) => write!(f, "<{x}>"),
            Arg::Slice(slice) => {
                let [start, stop, step] = slice.parts();
                f.write_str("slice(")?;
                start.write(f, leaf, graph)?;
                f.write_str(", ")?;
                stop.write(f, leaf, graph)?;
                f.write_str(", ")?;
                step.write(f, leaf, graph)?;
                f.write_str(")")
            }
            Arg::Tuple(items) => {
                f.write_str("(")?;
                separated(items, f)?;
                f.write_str(if items.len() == 1 { ",)" } else { ")" })
            }
            Arg::List(items) => {
                f.write_str("[")?;
                separated(items, f)?;
                f.write_str("]")
            }
            Arg::Dict(entries) => {
                f.write_str("{")?;
                for (i, (key, item)) in entries.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write_str(key, f)?;
                    f.write_str(": ")?;
                    item.write(f, leaf, graph)?;
                }
                f.write_str("}")
            }
            Arg::Graph(x) => graph(x, f),
            Arg::Leaf(x) => leaf(x, f),
            Arg::Failed(error) => {
                f.write_str("error(")?;
                write_str(error.message(), f)?;
                f.write_str(")")
            }
        }
    }
}

impl<L: fmt::Display> fmt::Display for Arg<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &mut |leaf, f| write!(f, "{leaf}"), &mut |graph, f| write!(f, "@{}", graph.name()))
    }
}

impl<L: fmt::Debug> fmt::Debug for Arg<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &mut |leaf, f| write!(f, "{leaf:?}"), &mut |graph, f| write!(f, "@{}", graph.name()))
    }
}
