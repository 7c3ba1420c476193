//! From regions to bytecode.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Result, SourceLoc, err};

use super::code::{Action, Code, Instruction as Ins, NUMBERS, Register, Site};
use super::liveness::LastUses;
use super::{Environment, Operators};
use crate::host;
use crate::ir::{self, Constant, Function, Instruction, Operation, Region, ValueId};
use crate::types::Type;
use crate::value::{Device, Value};

/// Compiles a function. Fails as [`Executable::new`](super::Executable::new) does.
pub(super) fn compile(
    function: &Function,
    functions: &HashMap<Arc<str>, usize>,
    environment: &Environment,
    operators: &dyn Operators,
) -> Result<Code> {
    ir::verify(function)?;
    let mut compiler = Compiler {
        function,
        functions,
        environment,
        operators,
        last: LastUses::of(function),
        registers: vec![None; function.values.len()],
        is_constant: vec![false; function.values.len()],
        code: Code {
            name: function.name.clone(),
            n_params: function.body.params.len(),
            frame: Vec::new(),
            params: Vec::new(),
            instructions: Vec::new(),
            sources: Vec::new(),
            sites: Vec::new(),
        },
        source: None,
    };
    compiler.constants(&function.body)?;
    for &param in &function.body.params {
        let register = compiler.define(param);
        compiler.code.params.push(register);
    }
    compiler.region(&function.body)?;
    let from = compiler.register(function.body.results[0]);
    compiler.emit(Ins::Return { from });
    Ok(compiler.code)
}

struct Compiler<'a> {
    function: &'a Function,
    functions: &'a HashMap<Arc<str>, usize>,
    environment: &'a Environment,
    operators: &'a dyn Operators,
    last: LastUses,
    registers: Vec<Option<Register>>,
    is_constant: Vec<bool>,
    code: Code,
    source: Option<SourceLoc>,
}

impl Compiler<'_> {
    fn fresh(&mut self, value: Value) -> Register {
        self.code.frame.push(value);
        (self.code.frame.len() - 1) as Register
    }

    fn define(&mut self, id: ValueId) -> Register {
        let register = self.fresh(Value::None);
        self.registers[id.index()] = Some(register);
        register
    }

    fn register(&self, id: ValueId) -> Register {
        self.registers[id.index()].expect("a verified function defines values before their use")
    }

    fn emit(&mut self, instruction: Ins) -> usize {
        self.code.instructions.push(instruction);
        self.code.sources.push(self.source.clone());
        self.code.instructions.len() - 1
    }

    fn here(&self) -> u32 {
        self.code.instructions.len() as u32
    }

    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.code.instructions[jump] {
            Ins::Jump { to } | Ins::JumpUnless { to, .. } => *to = here,
            Ins::Round { done, .. } => *done = here,
            Ins::Fork { end, .. } => *end = here,
            _ => unreachable!("only jumps land"),
        }
    }

    /// Gives constants their registers, which hold them from the start.
    fn constants(&mut self, region: &Region) -> Result<()> {
        for operation in &region.operations {
            if let Instruction::Constant(constant) = &operation.instruction {
                let value =
                    self.constant(constant).map_err(|error| located(error, operation.source.as_ref()))?;
                let register = self.fresh(value);
                self.registers[operation.results[0].index()] = Some(register);
                self.is_constant[operation.results[0].index()] = true;
            }
            operation.regions.iter().try_for_each(|region| self.constants(region))?;
        }
        Ok(())
    }

    fn constant(&self, constant: &Constant) -> Result<Value> {
        Ok(match constant {
            Constant::None => Value::None,
            Constant::Bool(x) => Value::Bool(*x),
            Constant::Int(x) => Value::Int(*x),
            Constant::Float(x) => Value::Float(*x),
            Constant::Complex(re, im) => Value::complex(*re, *im),
            Constant::Str(text) => Value::str(&**text),
            Constant::Device(name) => Value::Device(Arc::new(Device::parse(name)?)),
            Constant::Enum(class, name) => {
                let member = self.environment.enums.get(&(class.clone(), name.clone()));
                Value::Enum(Arc::clone(
                    member.ok_or_else(|| err!(Unresolved, "the enumeration {class} has no member {name}"))?,
                ))
            }
            Constant::Stored(name) => self
                .environment
                .stored
                .get(name)
                .cloned()
                .ok_or_else(|| err!(Unresolved, "there is no constant CONSTANTS.{name}"))?,
        })
    }

    fn region(&mut self, region: &Region) -> Result<()> {
        region.operations.iter().try_for_each(|operation| self.operation(operation))
    }

    /// Whether a value is the constant `true`.
    fn is_true(&self, id: ValueId) -> bool {
        self.is_constant[id.index()]
            && matches!(self.code.frame[self.register(id) as usize], Value::Bool(true))
    }

    /// Brings a value to a register.
    fn transfer(&mut self, used: &ValueId, to: Register) {
        let from = self.register(*used);
        if from == to {
            return;
        }
        let is_last = self.last.contains(used) && !self.is_constant[used.index()];
        self.emit(if is_last { Ins::Move { to, from } } else { Ins::Copy { to, from } });
    }

    /// Brings values to registers at once: a register that is still to be read is saved first.
    fn transfer_all(&mut self, used: &[ValueId], to: &[Register]) {
        let mut saved: Vec<(Register, Register)> = Vec::new();
        for (i, id) in used.iter().enumerate() {
            let from = self.register(*id);
            if to[..i].contains(&from) && !saved.iter().any(|(old, _)| *old == from) {
                let spare = self.fresh(Value::None);
                self.emit(Ins::Copy { to: spare, from });
                saved.push((from, spare));
            }
        }
        for (id, &to) in used.iter().zip(to) {
            match saved.iter().find(|(old, _)| *old == self.register(*id)) {
                Some(&(_, spare)) if to != self.register(*id) => {
                    self.emit(Ins::Copy { to, from: spare });
                }
                _ => self.transfer(id, to),
            }
        }
    }

    /// Copies a value to a register of its own, since its last use may move it away.
    fn saved(&mut self, id: ValueId) -> Register {
        let (to, from) = (self.fresh(Value::None), self.register(id));
        self.emit(Ins::Copy { to, from });
        to
    }

    fn operation(&mut self, operation: &Operation) -> Result<()> {
        self.source.clone_from(&operation.source);
        match &operation.instruction {
            Instruction::Constant(_) => {}
            Instruction::Uninitialized => {
                self.define(operation.results[0]);
            }
            Instruction::Cast => {
                let to = self.define(operation.results[0]);
                self.transfer(&operation.operands[0], to);
            }
            Instruction::If => self.branches(operation)?,
            Instruction::Loop => self.repeat(operation)?,
            Instruction::Fork => {
                let to = self.define(operation.results[0]);
                let fork = self.emit(Ins::Fork { to, result: 0, end: 0 });
                let body = &operation.regions[0];
                self.region(body)?;
                let from = self.register(body.results[0]);
                self.emit(Ins::EndTask);
                if let Ins::Fork { result, .. } = &mut self.code.instructions[fork] {
                    *result = from;
                }
                self.land(fork);
            }
            instruction => {
                let action =
                    self.action(instruction).map_err(|error| located(error, operation.source.as_ref()))?;
                self.site(operation, action);
            }
        }
        Ok(())
    }

    fn branches(&mut self, operation: &Operation) -> Result<()> {
        let results: Vec<Register> = operation.results.iter().map(|&id| self.define(id)).collect();
        let test = self.register(operation.operands[0]);
        let to_else = self.emit(Ins::JumpUnless { test, to: 0 });
        self.region(&operation.regions[0])?;
        self.transfer_all(&operation.regions[0].results, &results);
        let to_end = self.emit(Ins::Jump { to: 0 });
        self.land(to_else);
        self.region(&operation.regions[1])?;
        self.transfer_all(&operation.regions[1].results, &results);
        self.land(to_end);
        Ok(())
    }

    fn repeat(&mut self, operation: &Operation) -> Result<()> {
        let body = &operation.regions[0];
        // A carried value and the result that it becomes share a register.
        let carried: Vec<Register> = operation.results.iter().map(|&id| self.define(id)).collect();
        for (&param, &register) in body.params[1..].iter().zip(&carried) {
            self.registers[param.index()] = Some(register);
        }
        let number = self.define(body.params[0]);
        let counter = self.fresh(Value::None);
        // The limit is read in every round; its own register may be moved away.
        let limit = self.saved(operation.operands[0]);
        let first = (!self.is_true(operation.operands[1])).then(|| self.saved(operation.operands[1]));
        self.transfer_all(&operation.operands[2..], &carried);
        self.emit(Ins::Start { counter });
        let skip = first.map(|test| self.emit(Ins::JumpUnless { test, to: 0 }));
        let head = self.here();
        let round = self.emit(Ins::Round { counter, limit, number, done: 0 });
        self.region(body)?;
        self.source.clone_from(&operation.source);
        let goes_on = body.results[0];
        let test = (!self.is_true(goes_on)).then(|| self.saved(goes_on));
        self.transfer_all(&body.results[1..], &carried);
        let stop = test.map(|test| self.emit(Ins::JumpUnless { test, to: 0 }));
        self.emit(Ins::Jump { to: head });
        [Some(round), skip, stop].into_iter().flatten().for_each(|jump| self.land(jump));
        Ok(())
    }

    fn site(&mut self, operation: &Operation, action: Action) {
        let args: Box<[Register]> = operation.operands.iter().map(|&id| self.register(id)).collect();
        let is_heavy = |id: &ValueId| {
            !matches!(self.function.values[id.index()].ty, Type::Int | Type::Float | Type::Bool | Type::None)
        };
        let ends = |id: &&ValueId| is_heavy(id) && self.last.contains(id) && !self.is_constant[id.index()];
        let last: Box<[Register]> =
            operation.operands.iter().filter(ends).map(|&id| self.register(id)).collect();
        let results: Box<[Register]> = operation.results.iter().map(|&id| self.define(id)).collect();
        let site = self.code.sites.len() as u32;
        let short = match &operation.instruction {
            Instruction::Call(name) => NUMBERS.iter().find(|(other, _)| **other == **name),
            _ => None,
        };
        let instruction = match (short, &*args, &*results) {
            (Some(&(_, kind)), &[a, b], &[to]) => Ins::Number { kind, to, a, b, site },
            _ => Ins::Run { site },
        };
        self.code.sites.push(Site { args, results, last, action });
        self.emit(instruction);
    }

    fn action(&self, instruction: &Instruction) -> Result<Action> {
        Ok(match instruction {
            Instruction::Call(name) => match host::find(name) {
                Some(function) => Action::Host(function),
                None => match self.operators.prepare(name) {
                    Ok(operator) => Action::Operator(operator),
                    Err(error) => Action::Missing(name.clone(), error),
                },
            },
            Instruction::Function(name) => match self.functions.get(name) {
                Some(&at) => Action::Function(at),
                None => return Err(err!(Unresolved, "there is no function {name:?}")),
            },
            Instruction::Method(name) => Action::Method(name.clone()),
            Instruction::New(name) => match self.environment.classes.get(name) {
                Some(class) => Action::New(Arc::clone(class)),
                None => return Err(err!(Unresolved, "there is no class {name:?}")),
            },
            Instruction::GetAttr(name) => Action::GetAttr(name.clone()),
            Instruction::SetAttr(name) => Action::SetAttr(name.clone()),
            Instruction::Tuple => Action::Tuple(None),
            Instruction::NamedTuple(name) => match self.environment.named_tuples.get(name) {
                Some(named) => Action::Tuple(Some(Arc::clone(named))),
                None => return Err(err!(Unresolved, "there is no named tuple {name:?}")),
            },
            Instruction::List => Action::List,
            Instruction::Dict => Action::Dict,
            Instruction::Item(at) => Action::Item(*at),
            Instruction::Unpack => Action::Unpack,
            Instruction::IsInstance(types) => Action::IsInstance(types.clone()),
            Instruction::Constant(_)
            | Instruction::Cast
            | Instruction::Uninitialized
            | Instruction::If
            | Instruction::Loop
            | Instruction::Fork => unreachable!("these have no site"),
        })
    }
}

fn located(error: fx_core::Error, source: Option<&SourceLoc>) -> fx_core::Error {
    match source {
        Some(source) => error.at(source.clone()),
        None => error,
    }
}
