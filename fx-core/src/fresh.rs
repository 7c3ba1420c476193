//! Sizes that depend on data: naming the symbols that shape rules make up.
//!
//! A rule such as that of `x[mask]` returns a [fresh](Symbol::fresh) symbol; the result of a sub-graph or
//! module has symbols of its own. A symbol of a result that occurs in no argument is *new*: whoever called
//! the rule names it `u0`, `u1`, …, the first that is free in the graph, or keeps the name that the node was
//! recorded with. So names are deterministic and a name stands for one size in a whole trace, sub-graphs
//! included.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::{Arg, Dim, Graph, Node, Symbol, TensorType, Type, TypeTree};

/// Calls `f` on every size in a type.
pub(crate) fn for_each_dim<'a>(ty: &'a TypeTree, f: &mut dyn FnMut(&'a Dim)) {
    ty.walk(&mut |arg| match arg {
        Arg::Leaf(Type::Tensor(ty)) => ty.shape.iter().for_each(&mut *f),
        Arg::Leaf(Type::Optional(inner) | Type::List(inner)) => for_each_dim(inner, f),
        Arg::Dim(dim) => f(dim),
        _ => {}
    });
}

/// Returns the distinct symbols of a type in order.
pub fn symbols(ty: &TypeTree) -> Vec<Symbol> {
    let mut found = Vec::new();
    for_each_dim(ty, &mut |dim| dim.collect_symbols(&mut found));
    found
}

/// Replaces symbols in a type.
pub(crate) fn substitute(ty: &TypeTree, replacement: &dyn Fn(&Symbol) -> Option<Dim>) -> TypeTree {
    let rewritten = ty.try_rewrite(&mut |arg| {
        Ok(match arg {
            Arg::Leaf(Type::Tensor(ty)) => Some(Arg::Leaf(Type::Tensor(TensorType {
                dtype: ty.dtype,
                shape: ty.shape.iter().map(|dim| dim.substitute(replacement)).collect(),
            }))),
            Arg::Leaf(Type::Optional(inner)) => {
                Some(Arg::Leaf(Type::Optional(Box::new(substitute(inner, replacement)))))
            }
            Arg::Leaf(Type::List(inner)) => {
                Some(Arg::Leaf(Type::List(Box::new(substitute(inner, replacement)))))
            }
            Arg::Leaf(other) => Some(Arg::Leaf(other.clone())),
            Arg::Dim(dim) => Some(Arg::dim(dim.substitute(replacement))),
            _ => None,
        })
    });
    rewritten.unwrap_or_else(Arg::Failed)
}

/// Returns the symbols of a result that occur in no argument.
pub(crate) fn new_symbols(ty: &TypeTree, args: &[TypeTree]) -> Vec<Symbol> {
    let mut found = symbols(ty);
    for arg in args {
        if found.is_empty() {
            break;
        }
        for_each_dim(arg, &mut |dim| {
            if let Some(symbol) = dim.as_symbol() {
                found.retain(|other| other != symbol);
            } else if !dim.is_known() {
                let known = dim.symbols();
                found.retain(|symbol| !known.contains(symbol));
            }
        });
    }
    found
}

/// Returns a type with new symbols for sizes that rules made up, as of an item of a list: what is called `u0` in
/// the type of all items is another size in each. Sizes that have names of the user are one size.
pub fn renewed(ty: &TypeTree) -> TypeTree {
    let is_made_up = |symbol: &Symbol| {
        let name = symbol.name();
        let number = name.strip_prefix('u').or_else(|| name.strip_prefix("joined"));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()))
    };
    let found: Vec<Symbol> = symbols(ty).into_iter().filter(is_made_up).collect();
    substitute(ty, &|symbol| {
        let at = found.iter().position(|other| other == symbol)?;
        Some(Dim::symbol(Symbol::fresh(at as u32).ranged(symbol.min(), symbol.max())))
    })
}

/// Returns whether every size is a number or the very size of an argument, as is most common and quickly seen.
fn is_of_arguments(ty: &TypeTree, args: &[TypeTree]) -> bool {
    let Arg::Leaf(Type::Tensor(ty)) = ty else { return false };
    ty.shape.iter().all(|dim| {
        dim.is_known()
            || args.iter().filter_map(TypeTree::tensor).any(|arg| arg.shape.iter().any(|other| dim.is(other)))
    })
}

/// Gives the new symbols of a result the names that the node was recorded with, and those without one a name
/// by `name`.
pub fn settle(
    ty: TypeTree,
    args: &[TypeTree],
    recorded: Option<&TypeTree>,
    name: &mut dyn FnMut() -> Arc<str>,
) -> TypeTree {
    if is_of_arguments(&ty, args) {
        return ty;
    }
    let new = new_symbols(&ty, args);
    if new.is_empty() {
        return ty;
    }
    let mut found: Vec<(Symbol, Symbol)> = Vec::new();
    if let Some(recorded) = recorded {
        let kept = new_symbols(recorded, args);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for_each_dim(&ty, &mut |dim| a.push(dim));
        for_each_dim(recorded, &mut |dim| b.push(dim));
        if a.len() == b.len() {
            for (a, b) in a.into_iter().zip(b) {
                if let (Some(a), Some(b)) = (a.as_symbol(), b.as_symbol())
                    && new.contains(a)
                    && kept.contains(b)
                    && !found.iter().any(|(from, to)| from == a || to == b)
                {
                    found.push((a.clone(), b.clone()));
                }
            }
        }
    }
    for symbol in &new {
        if !found.iter().any(|(from, _)| from == symbol) {
            found.push((symbol.clone(), Symbol::new(name()).ranged(symbol.min(), symbol.max())));
        }
    }
    substitute(&ty, &|symbol| {
        let (from, to) = found.iter().find(|(from, _)| from == symbol)?;
        // What the rule leaves open, as for a number out of data, is as recorded.
        let min = if from.min() == i64::MIN { to.min() } else { from.min() };
        Some(Dim::symbol(to.ranged(min, from.max().or(to.max()))))
    })
}

/// The sizes that arguments of nodes name. What finds out a size out of data is needed as long as one of them
/// does, also if nobody uses its value.
#[derive(Default)]
pub(crate) struct NamedSizes(FxHashSet<Symbol>);

impl NamedSizes {
    /// Notes the sizes that the arguments of a node name.
    pub(crate) fn note(&mut self, node: &Node) {
        for arg in node.all_args() {
            arg.walk(&mut |arg| {
                if let Arg::Dim(dim) = arg {
                    self.0.extend(dim.symbols());
                }
            });
        }
    }

    /// Returns whether a node finds out a size that was noted.
    pub(crate) fn has_of(&self, graph: &Graph, node: &Node) -> bool {
        let Some(ty) = node.ty().filter(|_| !self.0.is_empty()) else { return false };
        let found = symbols(ty);
        found.iter().any(|symbol| self.0.contains(symbol)) && {
            let mut args: Vec<TypeTree> =
                node.inputs().filter_map(|input| graph.node(input).ok()?.ty().cloned()).collect();
            args.extend(node.all_args().filter_map(dims));
            new_symbols(ty, &args).iter().any(|symbol| self.0.contains(symbol))
        }
    }
}

/// Returns the sizes within an argument as a type.
fn dims(arg: &Arg) -> Option<TypeTree> {
    let mut found = Vec::new();
    arg.walk(&mut |arg| {
        if let Arg::Dim(dim) = arg {
            found.push(Arg::Dim(dim.clone()));
        }
    });
    (!found.is_empty()).then(|| Arg::list(found))
}

/// Hands out names that are free.
#[derive(Default, Debug)]
pub(crate) struct Names {
    taken: Option<FxHashSet<Arc<str>>>,
    next: u32,
}

impl Names {
    /// Returns the next name that neither this graph nor `types` use; both are looked at only once.
    pub(crate) fn next<'a>(
        &mut self,
        graph: &'a Graph,
        types: impl Iterator<Item = &'a TypeTree>,
    ) -> Arc<str> {
        let taken = self.taken.get_or_insert_with(|| {
            let mut taken = FxHashSet::default();
            for ty in graph.nodes().filter_map(|(_, node)| node.ty()).chain(types) {
                taken.extend(symbols(ty).into_iter().map(|symbol| Arc::from(symbol.name())));
            }
            taken
        });
        loop {
            let name: Arc<str> = Arc::from(format!("u{}", self.next));
            self.next += 1;
            if taken.insert(name.clone()) {
                return name;
            }
        }
    }
}
