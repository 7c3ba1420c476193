//! Examples: one of the programs that a pattern describes, as calls to be made; for tests of rules on random
//! programs.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::holes::LiteralHole;
use super::pattern::{Pattern, PatternKind};
use crate::{Arg, Op};

/// A program that a pattern describes, with holes for what the pattern leaves open.
#[derive(Clone, Debug)]
pub struct Example {
    /// How many arguments the pattern has.
    pub n_inputs: usize,
    /// The calls in order.
    pub calls: Vec<ExampleCall>,
}

/// A call of an example.
#[derive(Clone, Debug)]
pub struct ExampleCall {
    /// The operation.
    pub op: Op,
    /// The arguments in schema order.
    pub args: Vec<Arg<Hole>>,
}

/// What is to be put into an example.
#[derive(Clone, Debug)]
pub enum Hole {
    /// The argument of the pattern with this number.
    Input(usize),
    /// The result of the call with this number.
    Call(usize),
    /// A number of this name, the same wherever the name occurs.
    Number(Arc<str>),
    /// An integer of this name.
    Integer(Arc<str>),
    /// Anything that the parameter takes.
    Free,
    /// An attribute.
    Attribute,
}

impl Pattern {
    /// Returns a program that the pattern describes; `choose(n)` says which of `n` alternatives is taken.
    /// `None` if the pattern calls modules or compares with a certain constant.
    pub fn example(&self, choose: &mut dyn FnMut(usize) -> usize) -> Option<Example> {
        // What each node of the pattern is in the example; alternatives are chosen before what they are made
        // from is visited.
        let mut made: FxHashMap<u32, Arg<Hole>> = FxHashMap::default();
        let mut chosen: FxHashMap<u32, u32> = FxHashMap::default();
        let mut calls: Vec<ExampleCall> = Vec::new();
        let mut stack: Vec<u32> = self.roots.iter().rev().copied().collect();
        while let Some(&at) = stack.last() {
            if made.contains_key(&at) {
                stack.pop();
                continue;
            }
            let mut missing: Vec<u32> = Vec::new();
            let hole = match &self.nodes[at as usize].kind {
                PatternKind::Input => {
                    Arg::Leaf(Hole::Input(self.inputs.iter().position(|input| *input == at)?))
                }
                PatternKind::Free => Arg::Leaf(Hole::Free),
                PatternKind::Attr(None) => Arg::Leaf(Hole::Attribute),
                PatternKind::Attr(Some(_)) | PatternKind::Module { .. } => return None,
                PatternKind::LiteralHole(hole) => match hole {
                    LiteralHole::Number(name) => Arg::Leaf(Hole::Number(name.clone())),
                    LiteralHole::Integer(name) => Arg::Leaf(Hole::Integer(name.clone())),
                    LiteralHole::Within { value, .. } | LiteralHole::Near(value) => Arg::Float(*value),
                    LiteralHole::Module(_) => return None,
                },
                PatternKind::AnyOf(options) => {
                    let option = *chosen.entry(at).or_insert_with(|| options[choose(options.len())]);
                    match made.get(&option) {
                        Some(hole) => hole.clone(),
                        None => {
                            missing.push(option);
                            Arg::None
                        }
                    }
                }
                PatternKind::Call { op, args, .. } => {
                    for arg in args {
                        arg.for_each_leaf(&mut |input| {
                            if !made.contains_key(input) {
                                missing.push(*input);
                            }
                        });
                    }
                    if missing.is_empty() {
                        let filled =
                            |arg: &Arg<u32>| arg.try_flat_map(&mut |input| Ok(made[input].clone())).ok();
                        let args = args.iter().map(filled).collect::<Option<Vec<_>>>()?;
                        calls.push(ExampleCall { op: *op, args });
                    }
                    Arg::Leaf(Hole::Call(calls.len().saturating_sub(1)))
                }
            };
            if missing.is_empty() {
                made.insert(at, hole);
                stack.pop();
            } else {
                stack.extend(missing.into_iter().rev());
            }
        }
        Some(Example { n_inputs: self.inputs.len(), calls })
    }
}
