//! Random functions: compiled in each mode, on each engine, they are what they are without compilation.

use std::sync::Mutex;

use fx::compile::{Code, Function, compile};
use fx::prelude::*;
use fx::trace::Traceable;
use fx::{DType, Engine, Result, Tensor, Value, err};

/// How many functions the test makes; `FX_FUNCTIONS=2000` asks for more.
fn functions() -> u64 {
    std::env::var("FX_FUNCTIONS").map_or(40, |text| text.parse().expect("FX_FUNCTIONS is a number"))
}

/// Draws numbers that a seed decides.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// What Rust code decides on.
#[derive(Debug)]
enum Condition {
    /// A float that is read.
    Float(usize, i64),
    /// A bool that is read.
    Bool(usize, i64),
    /// A size against a number.
    Size(usize, usize, i64),
    /// The sizes of two tensors.
    Sizes(usize, usize),
    /// A number among the arguments.
    Number(i64),
    Rate(f64),
}

#[derive(Debug)]
enum Statement {
    Unary(usize, usize),
    Binary(usize, usize, usize),
    Number(usize, i64),
    Rate(usize),
    Sum(usize),
    Cat(usize, usize),
    Rows(usize),
    Double(usize),
    Widen(usize),
    NonZero(usize),
    /// Takes a row, some rows, or a triangle, at a place that the number among the arguments tells.
    Place(usize, usize, i64),
    /// Takes as many elements as an element that is read says.
    Prefix(usize),
    /// Sets a variable to another one.
    Set(usize, usize),
    If(Condition, Vec<Statement>, Vec<Statement>),
    /// Halves until all is small.
    While(usize),
    For(usize, Vec<Statement>),
    PushValue(usize),
    PushShape(usize),
    Fail(Condition),
    Cut,
}

/// A function of two tensors, a number of each kind.
#[derive(Debug)]
struct Program {
    body: Vec<Statement>,
}

fn condition(draw: &mut Draw) -> Condition {
    let (var, n) = (draw.below(16), draw.below(9) as i64 - 4);
    match draw.below(6) {
        0 => Condition::Float(var, n),
        1 => Condition::Bool(var, n),
        2 => Condition::Size(var, draw.below(2), draw.below(6) as i64),
        3 => Condition::Sizes(var, draw.below(16)),
        4 => Condition::Number(draw.below(4) as i64),
        _ => Condition::Rate(0.75),
    }
}

fn statements(draw: &mut Draw, n: usize, depth: usize) -> Vec<Statement> {
    (0..n).map(|_| statement(draw, depth)).collect()
}

fn statement(draw: &mut Draw, depth: usize) -> Statement {
    let (a, b) = (draw.below(16), draw.below(16));
    match draw.below(if depth == 0 { 17 } else { 23 }) {
        0..=2 => Statement::Unary(draw.below(4), a),
        3..=5 => Statement::Binary(draw.below(3), a, b),
        6 => Statement::Number(a, draw.below(5) as i64 - 2),
        7 => Statement::Rate(a),
        8 => Statement::Sum(a),
        9 => [Statement::Cat(a, b), Statement::Rows(a), Statement::Double(a), Statement::Widen(a)]
            .into_iter()
            .nth(draw.below(4))
            .expect("four"),
        10 => Statement::Set(a, b),
        11 => Statement::PushShape(a),
        12 if draw.below(2) == 0 => Statement::PushValue(a),
        12 => Statement::NonZero(a),
        13 if draw.below(4) == 0 => Statement::Fail(condition(draw)),
        13 => Statement::Cut,
        14 => Statement::While(a),
        15 => Statement::Place(draw.below(5), a, draw.below(5) as i64 - 2),
        16 if draw.below(2) == 0 => Statement::Prefix(a),
        16 => Statement::Place(draw.below(5), b, draw.below(3) as i64 - 1),
        17..=20 => {
            let (then, other) = (1 + draw.below(3), draw.below(3));
            Statement::If(
                condition(draw),
                statements(draw, then, depth - 1),
                statements(draw, other, depth - 1),
            )
        }
        _ => {
            let (rounds, n) = (1 + draw.below(3), 1 + draw.below(3));
            Statement::For(rounds, statements(draw, n, depth - 1))
        }
    }
}

/// A call of a program.
struct State<'a> {
    vars: Vec<Tensor>,
    n: i64,
    rate: f64,
    log: &'a Mutex<Vec<String>>,
}

impl State<'_> {
    fn var(&self, at: usize) -> &Tensor {
        &self.vars[at % self.vars.len()]
    }

    fn holds(&self, condition: &Condition) -> Result<bool> {
        Ok(match *condition {
            Condition::Float(var, n) => self.var(var).to(DType::F64).sum((), false).item::<f64>()? > n as f64,
            Condition::Bool(var, n) => self.var(var).sum((), false).gt(n).to_bool()?,
            Condition::Size(var, axis, n) => {
                let var = self.var(var);
                let axis = axis.min(var.rank()?.saturating_sub(1)) as i64;
                var.rank()? > 0 && var.dim(axis) > n
            }
            Condition::Sizes(a, b) => self.var(a).shape()? == self.var(b).shape()?,
            Condition::Number(n) => self.n > n,
            Condition::Rate(rate) => self.rate > rate,
        })
    }

    fn run(&mut self, body: &[Statement]) -> Result<()> {
        for statement in body {
            self.step(statement)?;
        }
        Ok(())
    }

    fn log(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }

    fn step(&mut self, statement: &Statement) -> Result<()> {
        let new = match statement {
            Statement::Unary(which, a) => match which {
                0 => self.var(*a).relu(),
                1 => -self.var(*a),
                2 => self.var(*a).abs(),
                _ => self.var(*a).clamp(-4, 4),
            },
            Statement::Binary(which, a, b) => match which {
                0 => self.var(*a) + self.var(*b),
                1 => self.var(*a) - self.var(*b),
                _ => self.var(*a).maximum(self.var(*b)),
            },
            Statement::Number(a, n) => self.var(*a) + *n,
            Statement::Rate(a) => self.var(*a) * self.rate + self.n,
            Statement::Sum(a) => self.var(*a).sum((), false),
            Statement::Cat(a, b) => fx::cat([self.var(*a), self.var(*b)], 0),
            Statement::Rows(a) => {
                let n = self.var(*a).dim(0);
                self.var(*a).reshape((n, -1)).sum(1, false)
            }
            Statement::Double(a) => {
                let n = self.var(*a).dim(0);
                self.var(*a) + (n * 2 + 1)
            }
            Statement::Widen(a) => self.var(*a).to(DType::F64),
            Statement::NonZero(a) => self.var(*a).nonzero().sum(0, false),
            Statement::Place(which, a, shift) => {
                let (x, at) = (self.var(*a), self.n + *shift);
                match which {
                    0 => x.select(0, at.max(0)),
                    1 => x.narrow(0, 0, at),
                    2 => x.slice(0, at, (), 1),
                    3 => x.unsqueeze(-1).tril(at),
                    _ => x.roll(at, 0),
                }
            }
            Statement::Prefix(a) => {
                let flat = self.var(*a).reshape(-1);
                let n = flat.abs().sum((), false).to(DType::I64).remainder(3).item::<i64>()?;
                flat.narrow(0, 0, n)
            }
            Statement::Set(a, b) => {
                let (at, value) = (a % self.vars.len(), self.var(*b).clone());
                self.vars[at] = value;
                return Ok(());
            }
            Statement::If(condition, then, other) => {
                return if self.holds(condition)? { self.run(then) } else { self.run(other) };
            }
            Statement::While(a) => {
                let mut x = self.var(*a).to(DType::F64);
                while x.abs().sum((), false).gt(6.0).to_bool()? {
                    x *= 0.5;
                }
                x
            }
            Statement::For(rounds, body) => {
                for _ in 0..*rounds {
                    self.run(body)?;
                }
                return Ok(());
            }
            Statement::PushValue(a) => {
                let text = format!("{}", self.var(*a));
                self.log(text);
                return Ok(());
            }
            Statement::PushShape(a) => {
                let shape: Result<Vec<i64>> = self
                    .var(*a)
                    .shape()
                    .map(|shape| shape.iter().map(|size| size.known().unwrap_or(-1)).collect());
                self.log(shape.map_or_else(|error| error.to_string(), |shape| format!("{shape:?}")));
                return Ok(());
            }
            Statement::Fail(condition) => {
                return if self.holds(condition)? {
                    Err(err!(Argument, "a failure of the user"))
                } else {
                    Ok(())
                };
            }
            Statement::Cut => {
                fx::cut();
                return Ok(());
            }
        };
        if self.vars.len() < 12 {
            self.vars.push(new);
        } else {
            let at = self.vars.len() - 1;
            self.vars[at] = new;
        }
        Ok(())
    }
}

impl Program {
    fn new(seed: u64) -> Program {
        let mut draw = Draw(seed.wrapping_mul(0x9E3779B97F4A7C15) + 1);
        let n = 3 + draw.below(10);
        Program { body: statements(&mut draw, n, 2) }
    }

    fn call(
        &self,
        (x, y): (&Tensor, &Tensor),
        n: i64,
        rate: f64,
        log: &Mutex<Vec<String>>,
    ) -> Result<Vec<Tensor>> {
        let mut state = State { vars: vec![x.clone(), y.clone()], n, rate, log };
        state.run(&self.body)?;
        Ok(state.vars.split_off(state.vars.len().saturating_sub(3)))
    }
}

/// The arguments of a call: sizes, dtypes and numbers vary.
fn arguments(draw: &mut Draw) -> Vec<Value> {
    let dtypes = [DType::F32, DType::F32, DType::F32, DType::F64, DType::I64];
    let rows = [2, 3, 3, 4, 1, 0][draw.below(6)];
    let shape = if draw.below(3) == 0 { vec![rows, 2] } else { vec![rows] };
    let mut tensor = |shape: &[usize]| {
        let n = shape.iter().product();
        let elements: Vec<f32> = (0..n).map(|_| draw.below(9) as f32 - 4.0).collect();
        Tensor::from_vec(elements, shape).to(dtypes[draw.below(5)])
    };
    let (x, y) = (tensor(&shape), tensor(&shape));
    let (n, rate) = (draw.below(4) as i64, [0.5, 1.0, 2.0][draw.below(3)]);
    vec![Value::from(&x), Value::from(&y), fx::Arg::Int(n), fx::Arg::Float(rate)]
}

/// Results are equal in all bits, errors in text and line.
fn same(got: &Result<Value>, expected: &Result<Value>) -> bool {
    match (got, expected) {
        (Ok(got), Ok(expected)) => got.eq_by(expected, &|a: &Tensor, b: &Tensor| a.bits_eq(b)),
        (Err(got), Err(expected)) => got.to_string() == expected.to_string(),
        _ => false,
    }
}

#[track_caller]
fn check<T: Traceable<M>, M>(
    f: &Function<T, M>,
    program: &Program,
    log: &Mutex<Vec<String>>,
    (seed, mode, is_pure): (u64, &str, bool),
) {
    let mut draw = Draw(seed + 77);
    let mut calls: Vec<Vec<Value>> = (0..4).map(|_| arguments(&mut draw)).collect();
    calls.extend_from_within(..);
    calls.extend_from_within(..4);
    for (at, args) in calls.iter().enumerate() {
        log.lock().unwrap().clear();
        let expected = f.function().run(args).and_then(Value::into_result);
        let expected_log = std::mem::take(&mut *log.lock().unwrap());
        let got = f.call_values(args);
        let got_log = std::mem::take(&mut *log.lock().unwrap());
        let told = || format!("function {seed}, {mode}, call {at}: {program:#?}\n{}", f.explain());
        assert!(same(&got, &expected), "got {got:?}, expected {expected:?}\n{}", told());
        if !is_pure {
            assert_eq!(got_log, expected_log, "{}", told());
        }
    }
    let broken = f.explain().breaks.into_iter().find(|found| found.code == Code::C07);
    assert!(broken.is_none(), "function {seed}: {broken:?}\n{program:#?}");
}

#[test]
fn random_functions_are_what_they_are_without_compilation() {
    for seed in 0..functions() {
        let program = Program::new(seed);
        let log = Mutex::new(Vec::new());
        let make =
            || compile(|x: &Tensor, y: &Tensor, n: i64, rate: f64| program.call((x, y), n, rate, &log));
        check(&make(), &program, &log, (seed, "fused", false));
        check(&make().pure(), &program, &log, (seed, "pure", true));
        check(&make().engine(Engine::Eager).verify(2), &program, &log, (seed, "checked", true));
        // Each graph is a call of rustc, so a few functions of a long run only.
        if seed % 100 == 99 && fx::Native::shared().check().is_ok() {
            check(&make().engine(Engine::Native), &program, &log, (seed, "native", false));
        }
    }
}
