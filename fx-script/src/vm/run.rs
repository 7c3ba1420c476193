//! The loop over instructions.

use std::sync::Arc;
use std::time::Instant;

use fx_core::{Error, Result, bail, err};
use smallvec::SmallVec;

use super::Machine;
use super::code::{Action, Code, Instruction as Ins, Number, Site};
use crate::types::Type;
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
        let mut frame = code.frame.clone();
        for (&register, arg) in code.params.iter().zip(args) {
            frame[register as usize] = arg;
        }
        self.depth += 1;
        let result = match self.profile.is_some() {
            true => self.run::<true>(code, &mut frame, 0),
            false => self.run::<false>(code, &mut frame, 0),
        };
        self.depth -= 1;
        result
    }

    /// Runs instructions from one on, until the function returns or the task ends.
    fn run<const PROFILED: bool>(&mut self, code: &Code, frame: &mut [Value], from: usize) -> Result<Value> {
        let mut at = from;
        loop {
            let started = PROFILED.then(Instant::now);
            let now = at;
            match code.instructions[at] {
                Ins::Copy { to, from } => {
                    frame[to as usize] = frame[from as usize].clone();
                    at += 1;
                }
                Ins::Move { to, from } => {
                    frame[to as usize] = std::mem::take(&mut frame[from as usize]);
                    at += 1;
                }
                Ins::Jump { to } => at = to as usize,
                Ins::JumpUnless { test, to } => match &frame[test as usize] {
                    Value::Bool(true) => at += 1,
                    Value::Bool(false) => at = to as usize,
                    other => return Err(locate(code, at, wrong_kind("bool", other))),
                },
                Ins::Start { counter } => {
                    frame[counter as usize] = Value::Int(0);
                    at += 1;
                }
                Ins::Round { counter, limit, number, done } => {
                    let (Value::Int(round), Value::Int(rounds)) =
                        (&frame[counter as usize], &frame[limit as usize])
                    else {
                        return Err(locate(code, at, wrong_kind("int", &frame[limit as usize])));
                    };
                    if round < rounds {
                        let round = *round;
                        frame[number as usize] = Value::Int(round);
                        frame[counter as usize] = Value::Int(round + 1);
                        self.spend(done as usize - at).map_err(|error| locate(code, at, error))?;
                        at += 1;
                    } else {
                        at = done as usize;
                    }
                }
                Ins::Number { kind, to, a, b, site } => {
                    match number(kind, &frame[a as usize], &frame[b as usize]) {
                        Some(value) => frame[to as usize] = value,
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
                    let outcome = self.run::<PROFILED>(code, frame, at + 1);
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
            if let (Some(started), Some(profile), Some(source)) =
                (started, &mut self.profile, &code.sources[now])
            {
                let (count, seconds) = profile.entry(source.clone()).or_default();
                *count += 1;
                *seconds += started.elapsed().as_secs_f64();
            }
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
            Action::Method(name) => {
                let class = &arg(0).to_object()?.class;
                let at = self.method(class, name)?;
                self.function(at, args().collect())
            }
            Action::New(class) => Ok(Value::Object(Object::new(Arc::clone(class)))),
            Action::GetAttr(name) => arg(0).to_object()?.get(name),
            Action::SetAttr(name) => {
                arg(0).to_object()?.set(name, arg(1).clone())?;
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

#[inline]
fn number(kind: Number, a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(match kind {
            Number::AddInt => Value::Int(a.wrapping_add(*b)),
            Number::SubInt => Value::Int(a.wrapping_sub(*b)),
            Number::MulInt => Value::Int(a.wrapping_mul(*b)),
            Number::LtInt => Value::Bool(a < b),
            Number::LeInt => Value::Bool(a <= b),
            Number::GtInt => Value::Bool(a > b),
            Number::GeInt => Value::Bool(a >= b),
            Number::EqInt => Value::Bool(a == b),
            Number::NeInt => Value::Bool(a != b),
            _ => return None,
        }),
        (Value::Float(a), Value::Float(b)) => Some(match kind {
            Number::AddFloat => Value::Float(a + b),
            Number::SubFloat => Value::Float(a - b),
            Number::MulFloat => Value::Float(a * b),
            Number::DivFloat => Value::Float(a / b),
            Number::LtFloat => Value::Bool(a < b),
            Number::LeFloat => Value::Bool(a <= b),
            Number::GtFloat => Value::Bool(a > b),
            Number::GeFloat => Value::Bool(a >= b),
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

/// Whether a value has a type. An empty container has the type of every element.
fn is_instance(value: &Value, ty: &Type) -> bool {
    match (value, ty) {
        (_, Type::Any) => true,
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
