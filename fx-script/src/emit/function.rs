//! The state of emitting one function: its variables and values.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fx_core::{Error, ErrorKind, Result};

use super::refine::Facts;
use super::unit::{Definition, Unit};
use crate::ast;
use crate::ir::{self, Builder, Constant, Instruction, ValueId};
use crate::schema::Schema;
use crate::source::{Source, Span};
use crate::types::{Type, is_subtype, join};

/// Hidden variables that early exits set. No name of a text begins with a dollar sign.
pub(super) const EXITED: &str = "$exited";
pub(super) const RETURNED: &str = "$returned";
pub(super) const BROKEN: &str = "$broken";
pub(super) const RESULT: &str = "$result";

/// What a name or an expression means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meaning {
    /// A value.
    Value(ValueId),
    /// The results of an operator that has none or several.
    Results(Vec<ValueId>),
    /// A path into a namespace: `torch`, `torch.nn`, `ops.prim`, `__torch__.nets`.
    Path(Arc<str>),
    /// An operator: `aten::add`.
    Operator(Arc<str>),
    /// A function of Python or TorchScript that is no operator: `int`, `range`, `annotate`.
    Builtin(Arc<str>),
    /// A function of the program.
    Function(Arc<str>),
    /// A class of the program.
    Class(Arc<str>),
    /// A method of a value.
    Method(ValueId, Arc<str>),
    /// A function inside of the function.
    Closure(Arc<Closure>),
    /// A variable that has no value here, and why.
    Absent(Arc<str>),
}

/// A function inside of a function, with the variables that it sees.
#[derive(Debug, PartialEq)]
pub(super) struct Closure {
    pub(super) function: Arc<ast::Function>,
    pub(super) variables: Variables,
}

pub(super) type Variables = BTreeMap<Arc<str>, Meaning>;

/// Whether control goes on after a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// It goes on.
    Falls,
    /// It goes on unless `$exited` is true.
    Maybe,
    /// It exits by `return`, `break` or `continue`.
    Exits,
    /// It raises.
    Raises,
}

impl Flow {
    pub(super) fn goes_on(self) -> bool {
        matches!(self, Flow::Falls | Flow::Maybe)
    }
}

/// The most rounds of emitting loops anew because the type of a variable widened.
const MAX_WIDENINGS: u32 = 64;

/// The most regions within each other: what follows an early exit is inside of a branch, too.
const MAX_REGIONS: u32 = 256;

/// Writes one function.
pub(super) struct Emitter<'a> {
    pub(super) unit: &'a Unit,
    pub(super) source: Arc<Source>,
    pub(super) scope: Arc<str>,
    pub(super) builder: Builder,
    pub(super) variables: Variables,
    /// The types that annotations give to variables.
    pub(super) declared: HashMap<Arc<str>, Type>,
    /// What stored conditions tell: facts when true, facts when false.
    pub(super) conditions: HashMap<ValueId, (Facts, Facts)>,
    /// Refined values: the value with the type before.
    pub(super) refined: HashMap<ValueId, ValueId>,
    /// Ints that are known: literals and what is made from them.
    pub(super) ints: HashMap<ValueId, i64>,
    pub(super) strings: HashMap<ValueId, Arc<str>>,
    pub(super) bools: HashMap<ValueId, bool>,
    /// The operators of which values are the first result, or all results as a tuple.
    pub(super) operators: HashMap<ValueId, &'static Schema>,
    /// The type of the result, if it is known.
    pub(super) returns: Option<Type>,
    /// The types of the values that were returned.
    pub(super) returned: Vec<Type>,
    /// Why values have their types, for messages: the place of their definition.
    pub(super) origins: HashMap<ValueId, Span>,
    pub(super) widenings: u32,
    /// How many regions are open.
    pub(super) depth: u32,
}

impl<'a> Emitter<'a> {
    /// Emits a function.
    pub(super) fn run(unit: &'a Unit, definition: &Definition) -> Result<ir::Function> {
        let signature = unit.signature(&definition.name)?;
        let mut returns = signature.returns.clone();
        // A second round knows the join of the types that the first one returned.
        loop {
            let mut emitter = Emitter {
                unit,
                source: definition.source.clone(),
                scope: definition.scope.clone(),
                builder: Builder::new(definition.name.clone()),
                variables: Variables::new(),
                declared: HashMap::new(),
                conditions: HashMap::new(),
                refined: HashMap::new(),
                ints: HashMap::new(),
                strings: HashMap::new(),
                bools: HashMap::new(),
                operators: HashMap::new(),
                returns: returns.clone(),
                returned: Vec::new(),
                origins: HashMap::new(),
                widenings: MAX_WIDENINGS,
                depth: 0,
            };
            for ((name, declared, _), parameter) in
                signature.parameters.iter().zip(&definition.function.parameters)
            {
                let value = emitter.builder.param(declared.clone(), Some(name));
                emitter.origins.insert(value, parameter.span);
                emitter.variables.insert(name.clone(), Meaning::Value(value));
                emitter.declared.insert(name.clone(), declared.clone());
            }
            let mut result = emitter.body(&definition.function)?;
            match &returns {
                Some(returns) if emitter.ty(result) != returns => {
                    result = emitter.cast(result, returns.clone())
                }
                Some(_) => {}
                None => {
                    let mut joined = emitter.returned.first().cloned().unwrap_or(Type::None);
                    for item in &emitter.returned {
                        joined = join(&joined, item, &unit.classes).ok_or_else(|| {
                            let message = format!("the function returns {joined} and {item}");
                            emitter.error(definition.function.span, &message)
                        })?;
                    }
                    if *emitter.ty(result) != joined {
                        returns = Some(joined);
                        continue;
                    }
                }
            }
            return Ok(emitter.builder.finish(result));
        }
    }

    /// Emits the statements of a function and returns its result.
    pub(super) fn body(&mut self, function: &ast::Function) -> Result<ValueId> {
        let flow = self.block(&function.body)?;
        let none =
            self.returns.as_ref().is_none_or(|returns| returns.allows_none() || *returns == Type::None);
        match flow {
            Flow::Falls if none => {
                let result = self.none();
                self.returned.push(Type::None);
                Ok(result)
            }
            Flow::Maybe if none => {
                let exited = self.flag(EXITED);
                let flow = self.branch(exited, &mut |_| Ok(Flow::Falls), &mut |emitter| {
                    let result = emitter.none();
                    emitter.returned.push(Type::None);
                    emitter.set(RESULT, result);
                    Ok(Flow::Falls)
                })?;
                debug_assert!(flow.goes_on());
                self.result(function)
            }
            Flow::Falls | Flow::Maybe => {
                let returns = self.returns.clone().unwrap_or(Type::None);
                let message = format!("'{}' returns {returns}, but not on every path", function.name);
                Err(self.error(function.span, &message).help("return or raise at the end"))
            }
            Flow::Exits => self.result(function),
            Flow::Raises => {
                let returns = self.returns.clone().unwrap_or(Type::None);
                Ok(self.uninitialized(returns))
            }
        }
    }

    fn result(&self, function: &ast::Function) -> Result<ValueId> {
        match self.variables.get(RESULT) {
            Some(Meaning::Value(result)) => Ok(*result),
            _ => Err(self.error(function.span, "the results of the function have different types")),
        }
    }

    pub(super) fn error(&self, span: Span, message: &str) -> Error {
        self.source.error(ErrorKind::Argument, span, message)
    }

    /// Makes an error that also says where a value and its type come from.
    pub(super) fn type_error(&self, span: Span, message: &str, value: ValueId) -> Error {
        let error = self.error(span, message);
        match self.origins.get(&value) {
            Some(origin) if *origin != span => {
                let place = self.source.location(origin.start);
                error.help(format!("the value is {} since {place}", self.ty(value)))
            }
            _ => error,
        }
    }

    pub(super) fn at(&mut self, span: Span) {
        let records = self.unit.debug.get(self.source.name());
        let place = records.and_then(|records| records.locate(span.start as usize)).cloned();
        self.builder.at(Some(place.unwrap_or_else(|| self.source.location(span.start))));
    }

    pub(super) fn ty(&self, value: ValueId) -> &Type {
        self.builder.ty(value)
    }

    pub(super) fn is_subtype(&self, sub: &Type, sup: &Type) -> bool {
        is_subtype(sub, sup, &self.unit.classes)
    }

    pub(super) fn none(&mut self) -> ValueId {
        self.builder.constant(Constant::None, Type::None)
    }

    pub(super) fn bool(&mut self, value: bool) -> ValueId {
        let id = self.builder.constant(Constant::Bool(value), Type::Bool);
        self.bools.insert(id, value);
        id
    }

    pub(super) fn int(&mut self, value: i64) -> ValueId {
        let id = self.builder.constant(Constant::Int(value), Type::Int);
        self.ints.insert(id, value);
        id
    }

    pub(super) fn text(&mut self, value: &str) -> ValueId {
        let id = self.builder.constant(Constant::Str(value.into()), Type::Str);
        self.strings.insert(id, value.into());
        id
    }

    pub(super) fn uninitialized(&mut self, ty: Type) -> ValueId {
        self.builder.add(Instruction::Uninitialized, Vec::new(), ty)
    }

    /// Gives a value as one of another type, without a test.
    pub(super) fn cast(&mut self, value: ValueId, ty: Type) -> ValueId {
        let cast = self.builder.add(Instruction::Cast, vec![value], ty);
        if let Some(origin) = self.origins.get(&value).copied() {
            self.origins.insert(cast, origin);
        }
        cast
    }

    pub(super) fn set(&mut self, name: &str, value: ValueId) {
        self.variables.insert(name.into(), Meaning::Value(value));
    }

    /// Returns a hidden flag; one that was never set is false.
    pub(super) fn flag(&mut self, name: &str) -> ValueId {
        match self.variables.get(name) {
            Some(Meaning::Value(value)) => *value,
            _ => self.bool(false),
        }
    }

    /// Counts a region that is about to be opened. Fails if there are too many.
    pub(super) fn deeper(&mut self, span: Span) -> Result<()> {
        self.depth += 1;
        if self.depth <= MAX_REGIONS {
            return Ok(());
        }
        let message = format!("branches, loops and early exits nest deeper than {MAX_REGIONS} levels");
        Err(self.source.error(ErrorKind::Limit, span, &message).help("make parts of the function functions"))
    }

    /// Emits two branches of a condition and merges the variables that they set.
    pub(super) fn branch(
        &mut self,
        condition: ValueId,
        then: &mut dyn FnMut(&mut Self) -> Result<Flow>,
        otherwise: &mut dyn FnMut(&mut Self) -> Result<Flow>,
    ) -> Result<Flow> {
        self.deeper(Span::default())?;
        let before = self.variables.clone();
        self.builder.open();
        let first_flow = then(self)?;
        let first = std::mem::replace(&mut self.variables, before.clone());
        let mut first_region = self.builder.close(Vec::new());
        self.builder.open();
        let second_flow = otherwise(self)?;
        let second = std::mem::replace(&mut self.variables, before);
        let mut second_region = self.builder.close(Vec::new());
        self.depth -= 1;

        let first_on = first_flow.goes_on();
        let second_on = second_flow.goes_on();
        let mut merged: Vec<(Arc<str>, Type)> = Vec::new();
        let mut refinements: Vec<(Arc<str>, ValueId, Type)> = Vec::new();
        let names: std::collections::BTreeSet<&Arc<str>> = first.keys().chain(second.keys()).collect();
        for name in names {
            let hidden = name.starts_with('$');
            let left = first.get(name).filter(|_| hidden || first_on || !second_on);
            let right = second.get(name).filter(|_| hidden || second_on || !first_on);
            let left = left.filter(|_| first_flow != Flow::Raises || second_flow == Flow::Raises);
            let right = right.filter(|_| second_flow != Flow::Raises || first_flow == Flow::Raises);
            if left == right {
                if let Some(meaning) = left {
                    self.variables.insert(name.clone(), meaning.clone());
                }
                continue;
            }
            let present = left.or(right).cloned();
            let one_sided = left.is_none() || right.is_none();
            match (left, right) {
                (Some(Meaning::Value(left)), Some(Meaning::Value(right))) => {
                    let (left, right) = (*left, *right);
                    if self.original(left) == self.original(right) {
                        // Only refined, in either branch: the variable is what it was.
                        let kept = match self.variables.get(name) {
                            Some(Meaning::Value(before)) if self.refines(left, *before) => *before,
                            _ => self.original(left),
                        };
                        self.variables.insert(name.clone(), Meaning::Value(kept));
                        continue;
                    }
                    let (left_type, right_type) = (self.ty(left).clone(), self.ty(right).clone());
                    let joined = self.join_variable(name, &left_type, &right_type);
                    match joined {
                        Some(joined) => merged.push((name.clone(), joined)),
                        None => {
                            let why = format!(
                                "'{name}' is {left_type} in one branch and {right_type} in the other; give it one type, \
                                 or annotate it"
                            );
                            self.variables.insert(name.clone(), Meaning::Absent(why.into()));
                        }
                    }
                }
                (None, Some(Meaning::Value(value))) | (Some(Meaning::Value(value)), None) => {
                    let value = *value;
                    let exits = !first_on || !second_on;
                    let before = match self.variables.get(name) {
                        Some(Meaning::Value(before)) if self.refines(value, *before) => Some(*before),
                        _ => None,
                    };
                    if let Some(before) = before {
                        // The branch that goes on may know more of a variable from before.
                        if before != value {
                            refinements.push((name.clone(), before, self.ty(value).clone()));
                        }
                    } else if hidden || exits {
                        merged.push((name.clone(), self.ty(value).clone()));
                    } else {
                        let why = format!("'{name}' has a value in only one of two branches");
                        self.variables.insert(name.clone(), Meaning::Absent(why.into()));
                    }
                }
                _ => {
                    let meaning = match present {
                        Some(meaning) if one_sided && (!first_on || !second_on) => meaning,
                        Some(Meaning::Absent(why)) => Meaning::Absent(why),
                        _ => {
                            Meaning::Absent(format!("'{name}' means different things in two branches").into())
                        }
                    };
                    self.variables.insert(name.clone(), meaning);
                }
            }
        }
        let types: Vec<Type> = merged.iter().map(|(_, joined)| joined.clone()).collect();
        for (region, variables) in [(&mut first_region, &first), (&mut second_region, &second)] {
            self.builder.reopen(std::mem::take(region));
            let mut results = Vec::with_capacity(merged.len());
            for (name, joined) in &merged {
                let value = match variables.get(name) {
                    Some(Meaning::Value(value)) if self.is_subtype(self.ty(*value), joined) => *value,
                    None if name.starts_with('$') && *joined == Type::Bool => self.bool(false),
                    _ => self.uninitialized(joined.clone()),
                };
                results.push(value);
            }
            *region = self.builder.close(results);
        }
        let results = self.builder.with_regions(
            Instruction::If,
            vec![condition],
            types,
            vec![first_region, second_region],
        );
        for ((name, _), value) in merged.iter().zip(results) {
            if !name.starts_with('$') {
                self.builder.name(value, name);
            }
            self.variables.insert(name.clone(), Meaning::Value(value));
        }
        for (name, original, ty) in refinements {
            let refined = self.cast(original, ty);
            self.refined.insert(refined, original);
            self.variables.insert(name, Meaning::Value(refined));
        }
        Ok(match (first_flow, second_flow) {
            (Flow::Raises, other) | (other, Flow::Raises) => other,
            (Flow::Falls, Flow::Falls) => Flow::Falls,
            (Flow::Exits, Flow::Exits) => Flow::Exits,
            _ => Flow::Maybe,
        })
    }

    /// Returns the value that a refined one was made from.
    pub(super) fn original(&self, value: ValueId) -> ValueId {
        let mut value = value;
        while let Some(before) = self.refined.get(&value) {
            value = *before;
        }
        value
    }

    /// Returns whether a value is another one, or made from it by refinement.
    fn refines(&self, value: ValueId, base: ValueId) -> bool {
        let mut value = value;
        while value != base {
            match self.refined.get(&value) {
                Some(before) => value = *before,
                None => return false,
            }
        }
        true
    }

    /// Returns the type that a variable has after two branches.
    pub(super) fn join_variable(&self, name: &str, left: &Type, right: &Type) -> Option<Type> {
        if let Some(declared) = self.declared.get(name)
            && left != right
            && self.is_subtype(left, declared)
            && self.is_subtype(right, declared)
        {
            return Some(declared.clone());
        }
        join(left, right, &self.unit.classes)
    }
}
