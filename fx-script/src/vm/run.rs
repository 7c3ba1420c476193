//! The loop over instructions.

use std::sync::Arc;
use std::time::Instant;

use fx_core::logging::{self, Stage};
use fx_core::{Error, Result, bail, err};
use smallvec::SmallVec;

use super::code::{Action, Arithmetic, Code, Instruction as Ins, Known, Register, Site, Test};
use super::{Machine, brief};
use crate::types::{ClassTable, Type, is_subtype};
use crate::value::{Class, Future, Object, Tuple, Value, transaction};

/// How many steps pass between two looks at the limits.
const INTERVAL: u64 = 4096;

impl Machine<'_> {
    /// Takes steps. Fails at a limit.
    fn spend(&mut self, steps: usize) -> Result<()> {
        self.fuel -= steps as i64;
        if self.fuel < 0 { self.refuel() } else { Ok(()) }
    }

    #[cold]
    fn refuel(&mut self) -> Result<()> {
        transaction::check()?;
        let wanted = INTERVAL.saturating_add(self.fuel.unsigned_abs());
        if self.steps_left < wanted {
            return Err(err!(Limit, "the call needs more than {} steps", self.limits.steps)
                .help("the program may loop for ever; else raise `Limits::steps`"));
        }
        self.steps_left -= wanted;
        self.fuel = INTERVAL as i64;
        Ok(())
    }

    /// Calls a function by its number.
    pub(super) fn function(&mut self, at: usize, args: Vec<Value>) -> Result<Value> {
        let executable = self.executable;
        let code = &executable.functions[at];
        if args.len() != code.n_params {
            bail!(Argument, "{} takes {} arguments, got {}", code.name, code.n_params, args.len());
        }
        if self.depth >= self.limits.depth {
            return Err(err!(Limit, "calls are nested deeper than {}", self.limits.depth)
                .help("the program may recurse for ever; else raise `Limits::depth`"));
        }
        self.spend(1 + code.instructions.len() / 8)?;
        self.show_call(code, &args);
        let mut frame = code.frame.clone();
        for (&register, arg) in code.params.iter().zip(args) {
            frame[register as usize] = arg;
        }
        self.depth += 1;
        let result = match self.is_observed() {
            true => self.run::<true>(code, &mut frame, 0),
            false => self.run::<false>(code, &mut frame, 0),
        };
        self.depth -= 1;
        self.show_result(code, &result);
        result
    }

    /// Runs instructions from one on, until the function returns or the task ends.
    fn run<const OBSERVED: bool>(&mut self, code: &Code, frame: &mut [Value], from: usize) -> Result<Value> {
        let mut at = from;
        loop {
            let started = OBSERVED.then(Instant::now);
            let now = at;
            match code.instructions[at] {
                Ins::Copy { to, from } => {
                    copy(frame, to, from);
                    at += 1;
                }
                Ins::Move { to, from } => {
                    move_to(frame, to, from);
                    at += 1;
                }
                Ins::Jump { to } => at = to as usize,
                Ins::JumpUnless { test, to } => match &frame[test as usize] {
                    Value::Bool(true) => at += 1,
                    Value::Bool(false) => at = to as usize,
                    other => return Err(locate(code, at, wrong_kind("bool", other))),
                },
                Ins::JumpUnlessTest { kind, a, b, to, site, result } => {
                    let holds = match test(kind, &frame[a as usize], &frame[b as usize]) {
                        Some(holds) => holds,
                        None => {
                            self.site(code, site, frame).map_err(|error| locate(code, at, error))?;
                            match std::mem::take(&mut frame[result as usize]) {
                                Value::Bool(holds) => holds,
                                other => return Err(locate(code, at, wrong_kind("bool", &other))),
                            }
                        }
                    };
                    at = if holds { at + 1 } else { to as usize };
                }
                Ins::First { counter, limit, number, done } => {
                    let Value::Int(rounds) = frame[limit as usize] else {
                        return Err(locate(code, at, wrong_kind("int", &frame[limit as usize])));
                    };
                    set_int(&mut frame[counter as usize], 0);
                    set_int(&mut frame[number as usize], 0);
                    at = if rounds > 0 { at + 1 } else { done as usize };
                }
                Ins::Next { counter, limit, number, head } => {
                    let (&Value::Int(round), &Value::Int(rounds)) =
                        (&frame[counter as usize], &frame[limit as usize])
                    else {
                        return Err(locate(code, at, wrong_kind("int", &frame[limit as usize])));
                    };
                    let round = round + 1;
                    if round < rounds {
                        set_int(&mut frame[counter as usize], round);
                        set_int(&mut frame[number as usize], round);
                        self.spend(at + 1 - head as usize).map_err(|error| locate(code, at, error))?;
                        at = head as usize;
                    } else {
                        at += 1;
                    }
                }
                Ins::Again { head } => {
                    self.spend(at + 1 - head as usize).map_err(|error| locate(code, at, error))?;
                    at = head as usize;
                }
                Ins::Append { list, item, site } => {
                    let (Value::List(list), item) = (&frame[list as usize], &frame[item as usize]) else {
                        return Err(locate(code, at, wrong_kind("List", &frame[list as usize])));
                    };
                    let item = item.clone();
                    list.edit(|items| items.push(item));
                    self.release(code, site, frame);
                    at += 1;
                }
                Ins::GetItem { to, list, at: index, site } => {
                    let found = match (&frame[list as usize], &frame[index as usize]) {
                        (Value::List(list), &Value::Int(index)) => list.read(|items| {
                            let index = if index < 0 { index + items.len() as i64 } else { index };
                            usize::try_from(index).ok().and_then(|index| items.get(index).cloned())
                        }),
                        _ => None,
                    };
                    match found {
                        Some(value) => {
                            self.release(code, site, frame);
                            frame[to as usize] = value;
                        }
                        None => self.site(code, site, frame).map_err(|error| locate(code, at, error))?,
                    }
                    at += 1;
                }
                Ins::Arithmetic { kind, to, a, b, site } => {
                    if !arithmetic(kind, frame, to, a, b) {
                        self.site(code, site, frame).map_err(|error| locate(code, at, error))?;
                    }
                    at += 1;
                }
                Ins::Test { kind, to, a, b, site } => {
                    match test(kind, &frame[a as usize], &frame[b as usize]) {
                        Some(holds) => set_bool(&mut frame[to as usize], holds),
                        None => self.site(code, site, frame).map_err(|error| locate(code, at, error))?,
                    }
                    at += 1;
                }
                Ins::Run { site } => {
                    self.site(code, site, frame).map_err(|error| locate(code, at, error))?;
                    at += 1;
                }
                Ins::Fork { to, result, end } => {
                    if self.depth >= self.limits.depth {
                        return Err(locate(
                            code,
                            at,
                            err!(Limit, "tasks are nested deeper than {}", self.depth),
                        ));
                    }
                    self.depth += 1;
                    let outcome = self.run::<OBSERVED>(code, frame, at + 1);
                    self.depth -= 1;
                    let outcome = match outcome {
                        // A limit ends the whole call, not one task.
                        Err(error) if error.kind() == fx_core::ErrorKind::Limit => return Err(error),
                        outcome => outcome.map(|_| frame[result as usize].clone()),
                    };
                    frame[to as usize] = Value::Future(Arc::new(Future { result: outcome }));
                    at = end as usize;
                }
                Ins::EndTask => return Ok(Value::None),
                Ins::Return { from } => return Ok(frame[from as usize].clone()),
            }
            if let Some(started) = started {
                self.observe(code, now, frame, started);
            }
        }
    }

    /// Times or shows an instruction that ran.
    #[cold]
    fn observe(&mut self, code: &Code, at: usize, frame: &[Value], started: Instant) {
        if let (Some(profile), Some(source)) = (&mut self.profile, &code.sources[at]) {
            let (count, seconds) = profile.entry(source.clone()).or_default();
            *count += 1;
            *seconds += started.elapsed().as_secs_f64();
        }
        if self.log > 2 {
            let results =
                code.written(at).iter().map(|&to| format!("r{to} = {}", brief(&frame[to as usize])));
            let place = code.sources[at].as_ref().map_or(String::new(), |source| format!("  at {source}"));
            let what = format!("{} {at}: {}{place}", code.name, code.shown(at));
            logging::write(Stage::Vm, &what, &results.collect::<Vec<_>>().join("\n"));
        }
    }

    /// Empties the registers that a site uses for the last time.
    fn release(&self, code: &Code, site: u32, frame: &mut [Value]) {
        for &register in &code.sites[site as usize].last {
            frame[register as usize] = Value::None;
        }
    }

    fn site(&mut self, code: &Code, site: u32, frame: &mut [Value]) -> Result<()> {
        let site = &code.sites[site as usize];
        let value = self.act(site, frame)?;
        for &register in &site.last {
            frame[register as usize] = Value::None;
        }
        match *site.results {
            [to] if !matches!(site.action, Action::Unpack) => frame[to as usize] = value,
            [] if !matches!(site.action, Action::Unpack) => {}
            _ => unpack(&value, &site.results, frame)?,
        }
        Ok(())
    }

    fn act(&mut self, site: &Site, frame: &[Value]) -> Result<Value> {
        let arg = |at: usize| &frame[site.args[at] as usize];
        let args = || site.args.iter().map(|&register| frame[register as usize].clone());
        match &site.action {
            Action::Host(function) => {
                let args: SmallVec<[&Value; 6]> = site.args.iter().map(|&at| &frame[at as usize]).collect();
                function(&mut self.output, &args)
            }
            Action::Operator(operator) => {
                let args: SmallVec<[&Value; 12]> = site.args.iter().map(|&at| &frame[at as usize]).collect();
                self.spend(1)?;
                operator.call(&args)
            }
            Action::Missing(_, error) => Err(error.clone()),
            Action::Function(at) => self.function(*at, args().collect()),
            Action::Method(name, known) => {
                let class = &arg(0).to_object()?.class;
                let at = match Known::of(known.as_ref(), class) {
                    Some(at) => at,
                    None => self.method(class, name)?,
                };
                self.function(at, args().collect())
            }
            Action::New(class) => Ok(Value::Object(Object::new(Arc::clone(class)))),
            Action::GetAttr(slot) => {
                let object = arg(0).to_object()?;
                match Known::of(slot.known.as_ref(), &object.class) {
                    Some(at) => Ok(object.slots.read(|slots| slots[at].clone())),
                    None => object.get(&slot.name),
                }
            }
            Action::SetAttr(slot) => {
                arg(0).to_object()?.set(&slot.name, arg(1).clone())?;
                Ok(Value::None)
            }
            Action::Tuple(named) => {
                Ok(Value::Tuple(Arc::new(Tuple { items: args().collect(), named: named.clone() })))
            }
            Action::List => Ok(Value::list(args().collect())),
            Action::Dict => {
                Value::dict((0..site.args.len() / 2).map(|i| (arg(2 * i).clone(), arg(2 * i + 1).clone())))
            }
            Action::Item(at) => {
                let Value::Tuple(tuple) = arg(0) else { return Err(wrong_kind("Tuple", arg(0))) };
                let index = if *at < 0 { *at + tuple.items.len() as i64 } else { *at };
                let item = usize::try_from(index).ok().and_then(|index| tuple.items.get(index));
                item.cloned().ok_or_else(|| err!(Index, "tuple index out of range"))
            }
            Action::Unpack => Ok(arg(0).clone()),
            Action::IsInstance(types) => Ok(Value::Bool(types.iter().any(|ty| is_instance(arg(0), ty)))),
        }
    }

    fn method(&self, class: &Class, name: &str) -> Result<usize> {
        let qualified = format!("{}.{name}", class.name);
        self.executable
            .by_name
            .get(&*qualified)
            .copied()
            .ok_or_else(|| err!(Unresolved, "the class {} has no method {name:?}", class.name))
    }
}

#[cold]
fn wrong_kind(expected: &str, got: &Value) -> Error {
    err!(Argument, "expected {expected}, got {}", got.type_name())
}

#[cold]
fn locate(code: &Code, at: usize, error: Error) -> Error {
    match &code.sources[at] {
        Some(source) if error.source_loc().is_none() => error.at(source.clone()),
        _ => error,
    }
}

// Writing a number over a number stores it alone: a copy of the whole value would have to wait for the parts
// that were just written.

#[inline(always)]
fn set_int(to: &mut Value, x: i64) {
    match to {
        Value::Int(old) => *old = x,
        to => *to = Value::Int(x),
    }
}

#[inline(always)]
fn set_float(to: &mut Value, x: f64) {
    match to {
        Value::Float(old) => *old = x,
        to => *to = Value::Float(x),
    }
}

#[inline(always)]
fn set_bool(to: &mut Value, x: bool) {
    match to {
        Value::Bool(old) => *old = x,
        to => *to = Value::Bool(x),
    }
}

#[inline(always)]
fn copy(frame: &mut [Value], to: Register, from: Register) {
    match frame[from as usize] {
        Value::Int(x) => set_int(&mut frame[to as usize], x),
        Value::Float(x) => set_float(&mut frame[to as usize], x),
        Value::Bool(x) => set_bool(&mut frame[to as usize], x),
        ref other => frame[to as usize] = other.clone(),
    }
}

/// Moves a value to a register; one that has no memory stays where it was, too.
#[inline(always)]
fn move_to(frame: &mut [Value], to: Register, from: Register) {
    match frame[from as usize] {
        Value::Int(x) => set_int(&mut frame[to as usize], x),
        Value::Float(x) => set_float(&mut frame[to as usize], x),
        Value::Bool(x) => set_bool(&mut frame[to as usize], x),
        ref mut other => frame[to as usize] = std::mem::take(other),
    }
}

/// The short way of arithmetic; returns whether there is one for these values.
#[inline(always)]
fn arithmetic(kind: Arithmetic, frame: &mut [Value], to: Register, a: Register, b: Register) -> bool {
    match (&frame[a as usize], &frame[b as usize]) {
        (&Value::Int(a), &Value::Int(b)) => {
            let x = match kind {
                Arithmetic::Add => a.wrapping_add(b),
                Arithmetic::Sub => a.wrapping_sub(b),
                Arithmetic::Mul => a.wrapping_mul(b),
                Arithmetic::Neg => a.wrapping_neg(),
                Arithmetic::FloorDiv if b > 0 => a.div_euclid(b),
                Arithmetic::Remainder if b > 0 => a.rem_euclid(b),
                _ => return false,
            };
            set_int(&mut frame[to as usize], x);
            true
        }
        (&Value::Float(a), &Value::Float(b)) => {
            let x = match kind {
                Arithmetic::Add => a + b,
                Arithmetic::Sub => a - b,
                Arithmetic::Mul => a * b,
                Arithmetic::Div => a / b,
                Arithmetic::Neg => -a,
                _ => return false,
            };
            set_float(&mut frame[to as usize], x);
            true
        }
        _ => false,
    }
}

/// The short way of a test; `None` if there is none for these values.
#[inline(always)]
fn test(kind: Test, a: &Value, b: &Value) -> Option<bool> {
    match (a, b) {
        (&Value::Int(a), &Value::Int(b)) => Some(match kind {
            Test::Lt => a < b,
            Test::Le => a <= b,
            Test::Gt => a > b,
            Test::Ge => a >= b,
            Test::Eq => a == b,
            Test::Ne => a != b,
            _ => return None,
        }),
        (&Value::Float(a), &Value::Float(b)) => Some(match kind {
            Test::Lt => a < b,
            Test::Le => a <= b,
            Test::Gt => a > b,
            Test::Ge => a >= b,
            Test::Eq => a == b,
            Test::Ne => a != b,
            _ => return None,
        }),
        (&Value::Bool(a), &Value::Bool(b)) => Some(match kind {
            Test::Not => !a,
            Test::And => a && b,
            Test::Or => a || b,
            _ => return None,
        }),
        _ => None,
    }
}

fn unpack(value: &Value, results: &[u32], frame: &mut [Value]) -> Result<()> {
    let items = value.to_items()?;
    if items.len() != results.len() {
        let kind = if matches!(value, Value::List(_)) { "list" } else { "tuple" };
        bail!(Structure, "Expected {} elements in a {kind} but found {}", results.len(), items.len());
    }
    for (&register, item) in results.iter().zip(items) {
        frame[register as usize] = item;
    }
    Ok(())
}

/// Returns whether a value has a type. An empty container has the type of every element.
pub fn is_instance(value: &Value, ty: &Type) -> bool {
    match (value, ty) {
        (_, Type::Any) => true,
        (Value::Symbol(symbol), ty) => is_subtype(&symbol.ty, ty, &ClassTable::default()),
        (Value::None, Type::None | Type::Optional(_))
        | (Value::Bool(_), Type::Bool)
        | (Value::Int(_), Type::Int | Type::Number)
        | (Value::Float(_), Type::Float | Type::Number)
        | (Value::Complex(_), Type::Complex | Type::Number)
        | (Value::Str(_), Type::Str)
        | (Value::Tensor(_), Type::Tensor)
        | (Value::Device(_), Type::Device)
        | (Value::List(_), Type::AnyList)
        | (Value::Tuple(_), Type::AnyTuple)
        | (Value::Future(_), Type::Future(_)) => true,
        (_, Type::Optional(item)) => is_instance(value, item),
        (_, Type::Union(types)) => types.iter().any(|ty| is_instance(value, ty)),
        (Value::List(list), Type::List(item)) => {
            list.read(Clone::clone).iter().all(|value| is_instance(value, item))
        }
        (Value::Dict(dict), Type::Dict(key, item)) => {
            dict.read(Clone::clone).iter().all(|(k, v)| is_instance(k, key) && is_instance(v, item))
        }
        (Value::Tuple(tuple), Type::Tuple(types)) => {
            tuple.items.len() == types.len()
                && tuple.items.iter().zip(&**types).all(|(v, ty)| is_instance(v, ty))
        }
        (Value::Tuple(tuple), Type::NamedTuple(name)) => {
            tuple.named.as_ref().is_some_and(|named| *named.name == **name)
        }
        (Value::Object(object), Type::Class(name) | Type::Foreign(name)) => *object.class.name == **name,
        (Value::Enum(member), Type::Enum(name)) => *member.class == **name,
        _ => false,
    }
}
