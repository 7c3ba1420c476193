//! What the functions of a program do to attributes: which are read, and which must stay attributes, since code
//! assigns them, writes to their values, or keeps these elsewhere.
//!
//! A value *stems* from the attributes that it may be, be a view of, or hold. The stems of all values of all
//! functions are the least fixed point of the rules below; what is not known to be apart is taken as one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ir::{Instruction, Operation, Program, Region, ValueId};
use crate::schema::{self, Schema};
use crate::types::Type;

/// An attribute: its class and its name.
pub(super) type Slot = (Arc<str>, Arc<str>);

type Stems = BTreeSet<Slot>;

/// What functions do to attributes.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// The attributes that are read.
    pub(super) read: BTreeSet<Slot>,
    /// The attributes that stay.
    pub(super) changed: BTreeSet<Slot>,
}

/// Returns the functions that others call, these included, by name.
pub(super) fn reachable(code: &Program, from: impl IntoIterator<Item = Arc<str>>) -> BTreeSet<Arc<str>> {
    let mut found = BTreeSet::new();
    let mut waiting: Vec<Arc<str>> = from.into_iter().collect();
    while let Some(name) = waiting.pop() {
        let Some(function) = code.get(&name) else { continue };
        if !found.insert(name) {
            continue;
        }
        each(&function.body, &mut |operation| match &operation.instruction {
            Instruction::Function(called) => waiting.push(called.clone()),
            // Which class the object has is not known.
            Instruction::Method(method) => waiting.extend(methods(code, method)),
            _ => {}
        });
    }
    found
}

/// Returns the effects of functions.
pub(super) fn effects(code: &Program, functions: &BTreeSet<Arc<str>>) -> Effects {
    let mut flow = Flow { code, effects: Effects::default(), stems: BTreeMap::new(), is_new: true };
    while std::mem::take(&mut flow.is_new) {
        for name in functions {
            if let Some(function) = code.get(name) {
                flow.region(name, &function.body);
                flow.join(&function.body.results, name, &[Place::Result(name.clone())]);
            }
        }
    }
    flow.effects
}

/// Visits the operations of a region and of those in it.
fn each<'a>(region: &'a Region, visit: &mut dyn FnMut(&'a Operation)) {
    for operation in &region.operations {
        visit(operation);
        operation.regions.iter().for_each(|region| each(region, visit));
    }
}

/// Returns the functions that are methods of a name.
fn methods<'a>(code: &'a Program, method: &'a str) -> impl Iterator<Item = Arc<str>> + 'a {
    let names = code.functions().iter().map(|function| &function.name);
    names.filter(move |name| name.rsplit('.').next() == Some(method)).cloned()
}

/// Something that stems from attributes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A value of a function.
    Value(Arc<str>, ValueId),
    /// The result of a function.
    Result(Arc<str>),
}

struct Flow<'a> {
    code: &'a Program,
    effects: Effects,
    stems: BTreeMap<Place, Stems>,
    /// Whether the last round found anything.
    is_new: bool,
}

impl Flow<'_> {
    fn of(&self, function: &Arc<str>, values: &[ValueId]) -> Stems {
        let stems = values.iter().filter_map(|value| self.stems.get(&Place::Value(function.clone(), *value)));
        stems.flatten().cloned().collect()
    }

    /// Says that places stem from the attributes that values stem from.
    fn join(&mut self, values: &[ValueId], function: &Arc<str>, places: &[Place]) {
        let stems = self.of(function, values);
        self.add(stems, places);
    }

    fn add(&mut self, stems: Stems, places: &[Place]) {
        if stems.is_empty() {
            return;
        }
        for place in places {
            let own = self.stems.entry(place.clone()).or_default();
            let before = own.len();
            own.extend(stems.iter().cloned());
            self.is_new |= own.len() > before;
        }
    }

    /// Says that the attributes that values stem from stay attributes.
    fn change(&mut self, function: &Arc<str>, values: &[ValueId]) {
        let stems = self.of(function, values);
        let before = self.effects.changed.len();
        self.effects.changed.extend(stems);
        self.is_new |= self.effects.changed.len() > before;
    }

    fn region(&mut self, function: &Arc<str>, region: &Region) {
        for operation in &region.operations {
            self.operation(function, operation);
        }
    }

    fn operation(&mut self, function: &Arc<str>, operation: &Operation) {
        let value = |value: &ValueId| Place::Value(function.clone(), *value);
        let results: Vec<Place> = operation.results.iter().map(value).collect();
        let operands = &operation.operands[..];
        match &operation.instruction {
            Instruction::GetAttr(name) => {
                let Some(class) = self.class(function, operands) else { return };
                let slot = (class, name.clone());
                self.effects.read.insert(slot.clone());
                self.add(Stems::from([slot]), &results);
            }
            Instruction::SetAttr(name) => {
                if let Some(class) = self.class(function, operands) {
                    self.is_new |= self.effects.changed.insert((class, name.clone()));
                }
                // The value is then reached by another name.
                self.change(function, &operands[1..]);
            }
            Instruction::Call(name) => self.call(function, schema::get(name), operands, &results, operation),
            Instruction::Function(called) => self.function(function, called, operands, &results),
            Instruction::Method(method) => {
                let called: Vec<Arc<str>> = methods(self.code, method).collect();
                called.iter().for_each(|called| self.function(function, called, operands, &results));
            }
            Instruction::If => {
                for region in &operation.regions {
                    self.region(function, region);
                    for (from, to) in region.results.iter().zip(&results) {
                        self.join(&[*from], function, std::slice::from_ref(to));
                    }
                }
            }
            Instruction::Loop => {
                let Some(region) = operation.regions.first() else { return };
                let carried = operands.iter().skip(2);
                let next = region.results.iter().skip(1);
                let params: Vec<Place> = region.params.iter().skip(1).map(value).collect();
                for values in [carried.collect::<Vec<_>>(), next.collect()] {
                    for ((from, param), result) in values.into_iter().zip(&params).zip(&results) {
                        self.join(&[*from], function, &[param.clone(), result.clone()]);
                    }
                }
                self.region(function, region);
            }
            Instruction::Fork => {
                for region in &operation.regions {
                    self.region(function, region);
                    self.join(&region.results, function, &results);
                }
            }
            Instruction::Constant(_)
            | Instruction::New(_)
            | Instruction::IsInstance(_)
            | Instruction::Uninitialized => {}
            Instruction::Tuple
            | Instruction::NamedTuple(_)
            | Instruction::List
            | Instruction::Dict
            | Instruction::Item(_)
            | Instruction::Unpack
            | Instruction::Cast => self.join(operands, function, &results),
        }
    }

    /// Returns the class of the first operand.
    fn class(&self, function: &Arc<str>, operands: &[ValueId]) -> Option<Arc<str>> {
        match &self.code.get(function)?.values[operands.first()?.index()].ty {
            Type::Class(class) => Some(class.clone()),
            _ => None,
        }
    }

    fn call(
        &mut self,
        function: &Arc<str>,
        schema: Option<&Schema>,
        operands: &[ValueId],
        results: &[Place],
        operation: &Operation,
    ) {
        let Some(schema) = schema else {
            // Nothing is known of the operator.
            self.change(function, operands);
            self.join(operands, function, results);
            return;
        };
        let Some(code) = self.code.get(function) else { return };
        let is_container = |value: &ValueId| {
            matches!(code.values[value.index()].ty, Type::List(_) | Type::Dict(..) | Type::AnyList)
        };
        let written: Vec<ValueId> = operands
            .iter()
            .zip(&schema.parameters)
            .filter(|(_, parameter)| parameter.is_written)
            .map(|(operand, _)| *operand)
            .collect();
        self.change(function, &written);
        if written.iter().any(is_container) {
            // Other operands may be items of a container now.
            self.change(function, operands);
            let places: Vec<Place> =
                written.iter().map(|value| Place::Value(function.clone(), *value)).collect();
            self.join(operands, function, &places);
        }
        let plain = |value: &ValueId| {
            matches!(
                code.values[value.index()].ty,
                Type::Tensor
                    | Type::Int
                    | Type::Float
                    | Type::Bool
                    | Type::Str
                    | Type::Number
                    | Type::Complex
            )
        };
        // A list of what was in another holds the same tensors.
        if schema.shares_memory || !operation.results.iter().all(plain) {
            self.join(operands, function, results);
        }
    }

    fn function(&mut self, caller: &Arc<str>, called: &Arc<str>, operands: &[ValueId], results: &[Place]) {
        let Some(code) = self.code.get(called) else { return };
        for (operand, param) in operands.iter().zip(&code.body.params) {
            self.join(&[*operand], caller, &[Place::Value(called.clone(), *param)]);
        }
        let stems = self.stems.get(&Place::Result(called.clone())).cloned().unwrap_or_default();
        self.add(stems, results);
    }
}
