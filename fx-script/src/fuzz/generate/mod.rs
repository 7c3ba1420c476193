//! Random programs of the language, as trees of lines.
//!
//! Every program is well typed, ends after few steps and does the same in Python as in TorchScript: integers stay
//! small, lists are not changed while a loop runs over them, floats are printed as bits only. It may raise.
//! [`program`] makes one; `expression` has expressions by type, `statement` statements, `tensor` both for tensors.

mod expression;
mod statement;
mod tensor;

use std::fmt::Write as _;

use fx_core::testing::Rng;

/// What else than fx runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Python itself: no tensors, but what only newer TorchScript has.
    Python,
    /// PyTorch's TorchScript, with tensors.
    Torch,
}

/// A line of a program with the lines that are indented below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The text without indentation.
    pub text: String,
    /// The lines below.
    pub body: Vec<Line>,
}

impl Line {
    fn new(text: impl Into<String>) -> Line {
        Line { text: text.into(), body: Vec::new() }
    }

    fn with(text: impl Into<String>, body: Vec<Line>) -> Line {
        Line { text: text.into(), body }
    }
}

/// Returns lines as a text. A head without lines below has `pass` there.
pub(super) fn text(lines: &[Line]) -> String {
    let mut out = String::new();
    write_lines(&mut out, lines, 0);
    out
}

fn write_lines(out: &mut String, lines: &[Line], depth: usize) {
    for line in lines {
        writeln!(out, "{:1$}{2}", "", 4 * depth, line.text).expect("strings take all text");
        if line.body.is_empty() && line.text.ends_with(':') {
            writeln!(out, "{:1$}pass", "", 4 * (depth + 1)).expect("strings take all text");
        }
        write_lines(out, &line.body, depth + 1);
    }
}

/// The type of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Type {
    Int,
    Float,
    Bool,
    Str,
    Tensor,
    List(Box<Type>),
    /// Keys are ints or texts.
    Dict(Box<Type>, Box<Type>),
    Tuple(Vec<Type>),
    Optional(Box<Type>),
    /// The class of the program.
    Object,
}

impl Type {
    fn list(item: Type) -> Type {
        Type::List(Box::new(item))
    }

    fn text(&self) -> String {
        match self {
            Type::Int => "int".into(),
            Type::Float => "float".into(),
            Type::Bool => "bool".into(),
            Type::Str => "str".into(),
            Type::Tensor => "Tensor".into(),
            Type::List(item) => format!("List[{}]", item.text()),
            Type::Dict(key, value) => format!("Dict[{}, {}]", key.text(), value.text()),
            Type::Tuple(items) => {
                format!("Tuple[{}]", items.iter().map(Type::text).collect::<Vec<_>>().join(", "))
            }
            Type::Optional(item) => format!("Optional[{}]", item.text()),
            Type::Object => "Thing".into(),
        }
    }
}

/// A variable that can be read.
#[derive(Debug, Clone)]
struct Variable {
    name: String,
    ty: Type,
    /// Whether it may be assigned: counters and refined variables may not.
    is_writable: bool,
}

/// A function or method that can be called.
#[derive(Debug, Clone)]
struct Function {
    name: String,
    parameters: Vec<(String, Type)>,
    /// How many parameters at the end have defaults.
    defaults: usize,
    returns: Type,
}

/// A program that is being made.
struct Generator {
    rng: Rng,
    dialect: Dialect,
    variables: Vec<Variable>,
    functions: Vec<Function>,
    fields: Vec<(String, Type)>,
    methods: Vec<Function>,
    /// The class has a name only once it is complete.
    has_class: bool,
    names: usize,
    loops: usize,
    /// Whether the function may be called in a loop.
    is_helper: bool,
    /// The result of the function that is being made.
    returns: Type,
    /// How many statements may still be made.
    budget: usize,
}

/// Makes the program of a seed: classes and functions, and a function `run` without arguments.
pub(super) fn program(seed: u64, dialect: Dialect) -> Vec<Line> {
    let mut generator = Generator {
        rng: Rng::new(seed),
        dialect,
        variables: Vec::new(),
        functions: Vec::new(),
        fields: Vec::new(),
        methods: Vec::new(),
        has_class: false,
        names: 0,
        loops: 0,
        is_helper: true,
        returns: Type::Int,
        budget: 0,
    };
    generator.program()
}

impl Generator {
    fn program(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        if self.rng.one_in(3) {
            lines.push(self.class());
        }
        for _ in 0..self.rng.below(4) {
            let name = self.name("f");
            let budget = 4 + self.rng.below(8);
            lines.push(self.function(&name, budget));
        }
        self.is_helper = false;
        let budget = 10 + self.rng.below(30);
        lines.push(self.function("main", budget));
        lines.extend(self.arguments());
        lines.push(self.run());
        lines
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.rng.below(100) < percent
    }

    fn scalar(&mut self) -> Type {
        self.rng.pick(&[Type::Int, Type::Int, Type::Int, Type::Float, Type::Bool, Type::Str, Type::Str])
    }

    /// Returns a type that a variable may have.
    fn ty(&mut self) -> Type {
        match self.rng.below(20) {
            0..=6 => self.scalar(),
            7..=10 => {
                let item = match self.rng.below(8) {
                    0 => Type::list(Type::Int),
                    1 => Type::Tuple(vec![Type::Int, Type::Str]),
                    2 if self.dialect == Dialect::Torch => Type::Tensor,
                    _ => self.scalar(),
                };
                Type::list(item)
            }
            11..=12 => {
                let key = self.rng.pick(&[Type::Int, Type::Str]);
                let value = match self.rng.below(5) {
                    0 => Type::list(Type::Int),
                    _ => self.scalar(),
                };
                Type::Dict(Box::new(key), Box::new(value))
            }
            13..=14 => {
                let n = 2 + self.rng.below(2);
                Type::Tuple((0..n).map(|_| self.scalar()).collect())
            }
            15..=16 => {
                let item = match self.rng.below(4) {
                    0 => Type::list(Type::Int),
                    _ => self.scalar(),
                };
                Type::Optional(Box::new(item))
            }
            17 if self.has_class => Type::Object,
            _ if self.dialect == Dialect::Torch => Type::Tensor,
            _ => self.scalar(),
        }
    }

    /// Makes the class `Thing` with fields of plain types and methods.
    fn class(&mut self) -> Line {
        let mut body = Vec::new();
        for _ in 0..1 + self.rng.below(3) {
            let name = self.name("a");
            let ty = match self.rng.below(4) {
                0 => Type::list(Type::Int),
                1 => Type::Str,
                _ => Type::Int,
            };
            body.push(Line::new(format!("{name}: {}", ty.text())));
            self.fields.push((name, ty));
        }
        let parameters: Vec<String> =
            self.fields.iter().map(|(name, ty)| format!("{name}: {}", ty.text())).collect();
        let sets = self.fields.iter().map(|(name, _)| Line::new(format!("self.{name} = {name}"))).collect();
        body.push(Line::with(format!("def __init__(self, {}) -> None:", parameters.join(", ")), sets));
        for _ in 0..1 + self.rng.below(2) {
            let name = self.name("m");
            let budget = 2 + self.rng.below(4);
            let (function, line) = self.callable(&name, budget, true);
            self.methods.push(function);
            body.push(line);
        }
        self.has_class = true;
        Line::with("class Thing:", body)
    }

    fn function(&mut self, name: &str, budget: usize) -> Line {
        let (function, line) = self.callable(name, budget, false);
        self.functions.push(function);
        line
    }

    fn callable(&mut self, name: &str, budget: usize, is_method: bool) -> (Function, Line) {
        let mut parameters = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let name = self.name("p");
            let ty = self.ty();
            parameters.push((name, ty));
        }
        let is_plain = |ty: &Type| matches!(ty, Type::Int | Type::Str | Type::Bool);
        let plain = parameters.iter().rev().take_while(|(_, ty)| is_plain(ty)).count();
        let defaults = if is_method || name == "main" { 0 } else { self.rng.below(plain + 1) };
        self.returns = loop {
            let ty = self.ty();
            if ty != Type::Object {
                break ty;
            }
        };
        if name == "main" {
            let n = 1 + self.rng.below(3);
            let mut types: Vec<Type> = vec![Type::Int; n];
            for ty in &mut types {
                *ty = match self.ty() {
                    Type::Object => Type::Int,
                    other => other,
                };
            }
            types.push(Type::Int);
            self.returns = Type::Tuple(types);
        }
        self.variables = parameters
            .iter()
            .map(|(name, ty)| Variable { name: name.clone(), ty: ty.clone(), is_writable: true })
            .collect();
        if is_method {
            self.variables.push(Variable { name: "self".into(), ty: Type::Object, is_writable: false });
        }
        let first_default = parameters.len() - defaults;
        let mut texts: Vec<String> = Vec::new();
        for (i, (name, ty)) in parameters.iter().enumerate() {
            let default = match i >= first_default {
                true => format!(" = {}", self.literal(ty)),
                false => String::new(),
            };
            texts.push(format!("{name}: {}{default}", ty.text()));
        }
        if is_method {
            texts.insert(0, "self".into());
        }
        self.budget = budget;
        let mut body = self.block(3);
        if !matches!(body.last(), Some(line) if line.text.starts_with("return")) {
            let returns = self.returns.clone();
            let result = self.top(&returns);
            body.push(Line::new(format!("return {result}")));
        }
        self.variables.clear();
        let head = format!("def {name}({}) -> {}:", texts.join(", "), self.returns.text());
        let function = Function { name: name.into(), parameters, defaults, returns: self.returns.clone() };
        (function, Line::with(head, body))
    }

    /// Makes the function `arguments`, which returns a tuple of arguments for `main`; `None` if one is an object.
    fn arguments(&mut self) -> Option<Line> {
        let main = self.functions.last().expect("`main` is a function").clone();
        if main.parameters.iter().any(|(_, ty)| *ty == Type::Object) {
            return None;
        }
        let mut body = Vec::new();
        for (name, ty) in &main.parameters {
            body.push(Line::new(format!("{name}: {} = {}", ty.text(), self.literal(ty))));
        }
        let list = |text: &dyn Fn(&(String, Type)) -> String| {
            main.parameters.iter().map(text).collect::<Vec<_>>().join(", ")
        };
        body.push(Line::new(format!("return ({},)", list(&|(name, _)| name.clone()))));
        let returns = list(&|(_, ty)| ty.text());
        Some(Line::with(format!("def {}() -> Tuple[{returns}]:", super::ARGUMENTS), body))
    }

    /// Makes the function that calls `main` and returns its result with its arguments.
    fn run(&mut self) -> Line {
        let main = self.functions.last().expect("`main` is a function").clone();
        let mut body = Vec::new();
        let mut arguments = Vec::new();
        let mut results = vec!["result".to_owned()];
        let mut types = vec![main.returns.text()];
        for (name, ty) in &main.parameters {
            let value = self.literal(ty);
            body.push(Line::new(format!("{name}: {} = {value}", ty.text())));
            arguments.push(name.clone());
            match ty {
                Type::Object => {
                    for (field, ty) in self.fields.clone() {
                        results.push(format!("{name}.{field}"));
                        types.push(ty.text());
                    }
                }
                _ => {
                    results.push(name.clone());
                    types.push(ty.text());
                }
            }
        }
        body.push(Line::new(format!("result = main({})", arguments.join(", "))));
        body.push(Line::new(format!("return ({})", results.join(", "))));
        Line::with(format!("def run() -> Tuple[{}]:", types.join(", ")), body)
    }
}
