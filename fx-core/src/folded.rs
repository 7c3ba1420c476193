//! Folded constants: how each was made, and which are out of date.
//!
//! A folded value is a constant with a [`Recipe`]: the graph that made it and the tensors that it was made
//! from. Whatever changes attributes of a graph module asks whether recipes are out of date.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::attribute::Attribute;
use crate::{Graph, Result, Tensor, err};

/// Attributes with their values, in the order of the paths.
pub(crate) type Sources = Vec<(Arc<str>, Tensor)>;

/// How a folded constant was made.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// The graph; it reads attributes and has no inputs.
    pub graph: Arc<Graph>,
    /// Which of the tensors that the graph returns it is.
    item: usize,
    /// The attributes that it read, with their values then, in the order of the paths.
    sources: Sources,
}

impl Recipe {
    pub(crate) fn new(graph: Arc<Graph>, item: usize, sources: Sources) -> Self {
        Recipe { graph, item, sources }
    }

    /// Returns the paths of the attributes that the constant is made from.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = &str> {
        self.sources.iter().map(|(path, _)| &**path)
    }

    /// Returns which of the tensors that the graph returns the constant is.
    pub(crate) fn item(&self) -> usize {
        self.item
    }

    /// Returns the attributes that the graph reads, with their values when the constant was made.
    pub(crate) fn values(&self) -> &Sources {
        &self.sources
    }

    fn is_fresh(&self, attributes: &BTreeMap<Arc<str>, Attribute>) -> bool {
        self.sources.iter().all(|(path, then)| match attributes.get(path) {
            Some(attribute) => is_same(&attribute.tensor(), then),
            // What was removed cannot change.
            None => true,
        })
    }

    fn make(&self, attributes: &BTreeMap<Arc<str>, Attribute>) -> Result<(Tensor, Recipe)> {
        let present = |(path, then): &(Arc<str>, Tensor)| {
            (path.clone(), attributes.get(path).map_or_else(|| then.clone(), Attribute::tensor))
        };
        let sources: Sources = self.sources.iter().map(present).collect();
        let value =
            crate::trace::without_tracing(|| crate::eval::evaluator::run_with(&self.graph, &sources))?;
        let tensor = value.leaves().get(self.item).map(|tensor| Tensor::clone(tensor));
        let tensor = tensor.ok_or_else(|| err!(Graph, "the recipe makes no tensor"))?.ok()?;
        Ok((tensor, Recipe { graph: self.graph.clone(), item: self.item, sources }))
    }
}

fn is_same(a: &Tensor, b: &Tensor) -> bool {
    matches!((a.array(), b.array()), (Ok(a), Ok(b)) if std::ptr::eq(a, b))
}

/// The folded constants of a graph module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folded {
    recipes: BTreeMap<Arc<str>, Recipe>,
    /// The paths of the constants that are folded from an attribute, by its path.
    by_source: FxHashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Folded {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Recipe)> {
        self.recipes.iter()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Recipe> {
        self.recipes.get(path)
    }

    /// Returns whether a constant is folded from the attribute at a path.
    pub(crate) fn has_source(&self, path: &str) -> bool {
        self.by_source.contains_key(path)
    }

    pub(crate) fn insert(&mut self, path: &str, recipe: Recipe) {
        self.remove(path);
        let path: Arc<str> = Arc::from(path);
        for source in recipe.sources() {
            match self.by_source.get_mut(source) {
                Some(of_source) => drop(of_source.insert(path.clone())),
                None => drop(self.by_source.insert(Arc::from(source), BTreeSet::from([path.clone()]))),
            }
        }
        self.recipes.insert(path, recipe);
    }

    pub(crate) fn remove(&mut self, path: &str) {
        let Some(recipe) = self.recipes.remove(path) else { return };
        for source in recipe.sources() {
            let Some(of_source) = self.by_source.get_mut(source) else { continue };
            of_source.remove(path);
            if of_source.is_empty() {
                self.by_source.remove(source);
            }
        }
    }

    /// Makes the constants anew whose sources have changed. Where that fails, reading the constant gives the
    /// error.
    pub(crate) fn refresh(&mut self, attributes: &mut BTreeMap<Arc<str>, Attribute>) {
        let paths: Vec<Arc<str>> = self.recipes.keys().cloned().collect();
        self.refresh_some(paths, attributes);
    }

    /// Makes the constants anew that are folded from the attribute at a path, if it has changed.
    pub(crate) fn refresh_from(&mut self, source: &str, attributes: &mut BTreeMap<Arc<str>, Attribute>) {
        let paths = self.by_source.get(source).into_iter().flatten().cloned().collect();
        self.refresh_some(paths, attributes);
    }

    fn refresh_some(&mut self, paths: Vec<Arc<str>>, attributes: &mut BTreeMap<Arc<str>, Attribute>) {
        // A recipe reads no folded constant, so the order does not matter.
        for path in paths {
            let Some(recipe) = self.recipes.get_mut(&path).filter(|recipe| !recipe.is_fresh(attributes))
            else {
                continue;
            };
            let value = match recipe.make(attributes) {
                Ok((value, new)) => {
                    *recipe = new;
                    value
                }
                Err(error) => Tensor::failed(error.in_context(|| format!("the folded constant {path}"))),
            };
            attributes.insert(path, Attribute::Constant(value));
        }
    }
}
