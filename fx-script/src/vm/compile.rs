//! From regions to bytecode.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Result, SourceLoc, err};

use super::code::{Action, Code, Instruction as Ins, Known, Register, SHORT, Short, Site, Slot};
use super::liveness::{LastUses, Spans};
use super::{Environment, Operators};
use crate::host;
use crate::ir::{self, Constant, Function, Instruction, Operation, Region, ValueId};
use crate::types::Type;
use crate::value::{Class, Device, Value};

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
        spans: Spans::of(function),
        registers: vec![None; function.values.len()],
        wanted: HashMap::new(),
        holders: HashMap::new(),
        landed: 0,
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
    spans: Spans,
    registers: Vec<Option<Register>>,
    /// The register to which a value goes at the end of its region.
    wanted: HashMap<ValueId, Register>,
    /// The values of each register that several share.
    holders: HashMap<Register, Vec<ValueId>>,
    /// The last place to which a jump leads.
    landed: u32,
    is_constant: Vec<bool>,
    code: Code,
    source: Option<SourceLoc>,
}

impl Compiler<'_> {
    fn fresh(&mut self, value: Value) -> Register {
        self.code.frame.push(value);
        (self.code.frame.len() - 1) as Register
    }

    /// Gives a value a register: the one to which it goes later, if no value that is there is still needed.
    fn define(&mut self, id: ValueId) -> Register {
        let shared = self.wanted.remove(&id).filter(|register| {
            self.holders
                .get(register)
                .is_none_or(|held| !held.iter().any(|&other| self.spans.meet(id, other)))
        });
        let register = shared.unwrap_or_else(|| self.fresh(Value::None));
        self.place(id, register);
        register
    }

    fn place(&mut self, id: ValueId, register: Register) {
        self.registers[id.index()] = Some(register);
        self.holders.entry(register).or_default().push(id);
    }

    /// Compiles a region whose results go to registers.
    fn region_to(&mut self, region: &Region, results: &[ValueId], to: &[Register]) -> Result<()> {
        for (result, &register) in results.iter().zip(to) {
            if self.registers[result.index()].is_none() {
                self.wanted.entry(*result).or_insert(register);
            }
        }
        self.region(region)
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
        self.landed = here;
        match &mut self.code.instructions[jump] {
            Ins::Jump { to } | Ins::JumpUnless { to, .. } | Ins::JumpUnlessTest { to, .. } => *to = here,
            Ins::First { done, .. } => *done = here,
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
            _ => {
                let action =
                    self.action(operation).map_err(|error| located(error, operation.source.as_ref()))?;
                self.site(operation, action);
            }
        }
        Ok(())
    }

    /// Emits a jump that is taken unless a value is true. `used` is the use of the value.
    fn jump_unless(&mut self, used: &ValueId, test: Register) -> usize {
        let is_last = self.last.contains(used) && self.register(*used) == test;
        if let Some(&Ins::Test { kind, to, a, b, site }) = self.code.instructions.last()
            && is_last
            && to == test
            && self.landed != self.here()
        {
            self.code.instructions.pop();
            let source = self.code.sources.pop().flatten();
            let at = self.emit(Ins::JumpUnlessTest { kind, a, b, to: 0, site, result: test });
            self.code.sources[at] = source;
            return at;
        }
        self.emit(Ins::JumpUnless { test, to: 0 })
    }

    fn branches(&mut self, operation: &Operation) -> Result<()> {
        let test = self.register(operation.operands[0]);
        let to_else = self.jump_unless(&operation.operands[0], test);
        let results: Vec<Register> = operation.results.iter().map(|&id| self.define(id)).collect();
        let [then, otherwise] = &operation.regions[..] else {
            unreachable!("a verified branch has two regions")
        };
        self.region_to(then, &then.results, &results)?;
        self.transfer_all(&then.results, &results);
        let to_end = self.emit(Ins::Jump { to: 0 });
        self.land(to_else);
        let before = self.here();
        self.region_to(otherwise, &otherwise.results, &results)?;
        self.transfer_all(&otherwise.results, &results);
        if self.here() == before {
            // The branch is empty: so its jump leads to where the other one ends, too.
            self.code.instructions.pop();
            self.code.sources.pop();
            self.land(to_else);
            return Ok(());
        }
        self.land(to_end);
        Ok(())
    }

    fn repeat(&mut self, operation: &Operation) -> Result<()> {
        let body = &operation.regions[0];
        // The limit is read in every round; its own register may be moved away.
        let limit = self.kept(operation.operands[0]);
        let endless = matches!(self.code.frame[limit as usize], Value::Int(i64::MAX))
            && self.is_constant[operation.operands[0].index()]
            && !self.spans.is_used(body.params[0]);
        let first = (!self.is_true(operation.operands[1])).then(|| self.kept(operation.operands[1]));
        // A carried value and the result that it becomes share a register; the result is there after the loop.
        let carried: Vec<Register> = operation.results.iter().map(|&id| self.define(id)).collect();
        for (register, result) in carried.iter().zip(&operation.results) {
            self.holders.entry(*register).or_default().retain(|held| held != result);
        }
        self.transfer_all(&operation.operands[2..], &carried);
        let skip = first.map(|test| self.jump_unless(&operation.operands[1], test));
        for (&param, &register) in body.params[1..].iter().zip(&carried) {
            self.place(param, register);
        }
        let number = self.define(body.params[0]);
        let counter = self.fresh(Value::None);
        let enter = (!endless).then(|| self.emit(Ins::First { counter, limit, number, done: 0 }));
        let head = self.here();
        self.landed = head;
        self.region_to(body, &body.results[1..], &carried)?;
        self.source.clone_from(&operation.source);
        let goes_on = &body.results[0];
        let test = (!self.is_true(*goes_on)).then(|| match self.register(*goes_on) {
            register if carried.contains(&register) => self.saved(*goes_on),
            register => register,
        });
        self.transfer_all(&body.results[1..], &carried);
        let stop = test.map(|test| self.jump_unless(goes_on, test));
        self.emit(match endless {
            true => Ins::Again { head },
            false => Ins::Next { counter, limit, number, head },
        });
        [enter, skip, stop].into_iter().flatten().for_each(|jump| self.land(jump));
        for (&register, &result) in carried.iter().zip(&operation.results) {
            self.place(result, register);
        }
        self.landed = self.here();
        Ok(())
    }

    /// Returns the register of a value that stays there while a loop runs.
    fn kept(&mut self, id: ValueId) -> Register {
        if self.is_constant[id.index()] { self.register(id) } else { self.saved(id) }
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
        let name = match &operation.instruction {
            Instruction::Call(name) => &**name,
            _ => "",
        };
        let short = SHORT.iter().find(|(other, _)| *other == name).map(|(_, short)| *short);
        let is_unused = || !operation.results.iter().any(|&result| self.spans.is_used(result));
        let operands = match *args {
            [a, b] => Some((a, b)),
            [a] => Some((a, a)),
            _ => None,
        };
        let instruction = match (short.zip(operands), &*args, &*results) {
            (Some((Short::Arithmetic(kind), (a, b))), _, &[to]) => Ins::Arithmetic { kind, to, a, b, site },
            (Some((Short::Test(kind), (a, b))), _, &[to]) => Ins::Test { kind, to, a, b, site },
            (_, &[list, item], _) if name == "aten::append.t" && is_unused() => {
                Ins::Append { list, item, site }
            }
            (_, &[list, at], &[to]) if name == "aten::__getitem__.t" => Ins::GetItem { to, list, at, site },
            _ => Ins::Run { site },
        };
        let what = operation.instruction.clone();
        self.code.sites.push(Site { operation: what, args, results, last, action });
        self.emit(instruction);
    }

    /// Returns the class that the type of a value tells.
    fn class_of(&self, id: ValueId) -> Option<&Arc<Class>> {
        match &self.function.values[id.index()].ty {
            Type::Class(name) => self.environment.classes.get(name),
            _ => None,
        }
    }

    fn slot(&self, object: ValueId, name: &Arc<str>) -> Slot {
        let known = self.class_of(object).and_then(|class| {
            let at = class.slot(name).ok()?;
            Some(Known { class: Arc::clone(class), at })
        });
        Slot { name: name.clone(), known }
    }

    fn action(&self, operation: &Operation) -> Result<Action> {
        Ok(match &operation.instruction {
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
            Instruction::Method(name) => {
                let known = self.class_of(operation.operands[0]).and_then(|class| {
                    let at = *self.functions.get(&*format!("{}.{name}", class.name))?;
                    Some(Known { class: Arc::clone(class), at })
                });
                Action::Method(name.clone(), known)
            }
            Instruction::New(name) => match self.environment.classes.get(name) {
                Some(class) => Action::New(Arc::clone(class)),
                None => return Err(err!(Unresolved, "there is no class {name:?}")),
            },
            Instruction::GetAttr(name) => Action::GetAttr(self.slot(operation.operands[0], name)),
            Instruction::SetAttr(name) => Action::SetAttr(self.slot(operation.operands[0], name)),
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
