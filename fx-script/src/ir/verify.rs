//! The invariants of functions.

use std::collections::HashSet;

use fx_core::{Error, Result, err};

use super::{Function, Instruction, Operation, Region, ValueId};

/// Checks a function. Fails if a value is used before its definition or outside of its region, is defined
/// twice, or an operation has another number of operands, results, regions or parameters than its instruction
/// asks for.
pub fn verify(function: &Function) -> Result<()> {
    let mut verifier =
        Verifier { function, defined: HashSet::new(), visible: Vec::new(), seen: HashSet::new() };
    verifier.region(&function.body)?;
    if function.body.results.len() != 1 {
        return Err(err!(
            Graph,
            "a function has one result, {:?} has {}",
            function.name,
            function.body.results.len()
        ));
    }
    Ok(())
}

struct Verifier<'a> {
    function: &'a Function,
    defined: HashSet<ValueId>,
    /// What is visible, in order of definition; a region drops its own at its end.
    visible: Vec<ValueId>,
    seen: HashSet<ValueId>,
}

impl Verifier<'_> {
    fn define(&mut self, id: ValueId) -> Result<()> {
        if id.index() >= self.function.values.len() || !self.defined.insert(id) {
            return Err(err!(Graph, "the value %{} of {:?} is not defined once", id.0, self.function.name));
        }
        self.visible.push(id);
        self.seen.insert(id);
        Ok(())
    }

    fn region(&mut self, region: &Region) -> Result<()> {
        let outer = self.visible.len();
        for &param in &region.params {
            self.define(param)?;
        }
        for operation in &region.operations {
            self.operation(operation).map_err(|error| match &operation.source {
                Some(source) => error.at(source.clone()),
                None => error,
            })?;
        }
        self.uses(&region.results)?;
        for id in self.visible.drain(outer..) {
            self.seen.remove(&id);
        }
        Ok(())
    }

    fn uses(&self, ids: &[ValueId]) -> Result<()> {
        match ids.iter().find(|id| !self.seen.contains(id)) {
            Some(id) => Err(err!(
                Graph,
                "the value %{} is used in {:?} where it is not defined",
                id.0,
                self.function.name
            )),
            None => Ok(()),
        }
    }

    fn operation(&mut self, operation: &Operation) -> Result<()> {
        self.uses(&operation.operands)?;
        for region in &operation.regions {
            self.region(region)?;
        }
        let wrong = |what: &str| -> Error {
            err!(Graph, "`{}` of {:?} has {what}", operation.instruction, self.function.name)
        };
        let (operands, results) = (operation.operands.len(), operation.results.len());
        let shape: Vec<(usize, usize)> =
            operation.regions.iter().map(|region| (region.params.len(), region.results.len())).collect();
        let fits = match &operation.instruction {
            Instruction::If => operands == 1 && shape == [(0, results), (0, results)],
            Instruction::Loop => {
                operands >= 2 && results == operands - 2 && shape == [(results + 1, results + 1)]
            }
            Instruction::Fork => operands == 0 && results == 1 && shape == [(0, 1)],
            instruction => {
                shape.is_empty()
                    && match instruction {
                        Instruction::Constant(_) | Instruction::New(_) | Instruction::Uninitialized => {
                            operands == 0 && results == 1
                        }
                        Instruction::GetAttr(_)
                        | Instruction::Item(_)
                        | Instruction::IsInstance(_)
                        | Instruction::Cast => operands == 1 && results == 1,
                        Instruction::SetAttr(_) => operands == 2 && results == 0,
                        Instruction::Unpack => operands == 1,
                        Instruction::Dict => operands.is_multiple_of(2) && results == 1,
                        Instruction::Method(_) => operands >= 1 && results == 1,
                        Instruction::Function(_)
                        | Instruction::Tuple
                        | Instruction::NamedTuple(_)
                        | Instruction::List => results == 1,
                        _ => true,
                    }
            }
        };
        if !fits {
            return Err(wrong("operands, results or regions that do not belong to it"));
        }
        operation.results.iter().try_for_each(|&result| self.define(result))
    }
}
