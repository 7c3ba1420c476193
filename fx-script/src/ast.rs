//! The syntax tree of TorchScript texts.
//!
//! A tree keeps what the canonical text distinguishes (parentheses, last commas), so that printing what was parsed
//! gives the same bytes. [`Expr::height`] bounds how deep a tree is: the parser refuses more than
//! [`MAX_NESTING`], and everything that walks a tree may recurse.

use std::sync::Arc;

use crate::source::{Source, Span};

/// The most levels that expressions and statements may nest.
pub const MAX_NESTING: u32 = 256;

/// A parsed file.
#[derive(Debug, Clone)]
pub struct File {
    /// The text.
    pub source: Arc<Source>,
    /// The definitions in order.
    pub items: Vec<Item>,
}

/// Something that a file defines.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A class.
    Class(ClassDef),
    /// A function.
    Function(Arc<Function>),
    /// A statement at the top: `import`s, docstrings, assignments of constants.
    Statement(Stmt),
}

/// A class definition.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassDef {
    /// The name without its path.
    pub name: Arc<str>,
    /// The base as written: `Module`, `NamedTuple`, `nn.Module`.
    pub base: Option<Expr>,
    /// Slots, fields, lists of names, as statements; and methods.
    pub body: Vec<Member>,
    /// The decorators, such as `@torch.jit.script`.
    pub decorators: Vec<Expr>,
    /// The place of the name.
    pub span: Span,
}

/// A member of a class.
#[derive(Debug, Clone, PartialEq)]
pub enum Member {
    /// `x : int`, `RED = 1`, `__annotations__["0"] = T`, a docstring or `pass`.
    Statement(Stmt),
    /// A method.
    Method(Arc<Function>),
}

/// A function or method.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// The name without its path.
    pub name: Arc<str>,
    /// The parameters in order.
    pub parameters: Vec<Parameter>,
    /// The annotation of the result.
    pub returns: Option<Expr>,
    /// The body.
    pub body: Vec<Stmt>,
    /// The decorators.
    pub decorators: Vec<Expr>,
    /// The place of the name.
    pub span: Span,
}

/// A parameter of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name.
    pub name: Arc<str>,
    /// The annotation; a parameter without one is a tensor.
    pub annotation: Option<Expr>,
    /// The default value.
    pub default: Option<Expr>,
    /// Whether it is given by name only.
    pub keyword_only: bool,
    /// The place of the name.
    pub span: Span,
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Its place; of compound statements, that of the head.
    pub span: Span,
}

/// What a statement does.
#[derive(Debug, Clone, PartialEq)]
pub enum StmtKind {
    /// `a = b = value`: the targets in order.
    Assign(Vec<Expr>, Expr),
    /// `target : annotation = value`, or without a value.
    Annotated(Expr, Expr, Option<Expr>),
    /// `target += value`.
    Augmented(Expr, BinaryOp, Expr),
    /// An expression whose value is dropped.
    Expr(Expr),
    /// `return value`.
    Return(Option<Expr>),
    /// `if test: then else: otherwise`.
    If(Expr, Vec<Stmt>, Option<Vec<Stmt>>),
    /// `while test: body else: otherwise`.
    While(Expr, Vec<Stmt>, Option<Vec<Stmt>>),
    /// `for target in values: body else: otherwise`.
    For(Expr, Expr, Vec<Stmt>, Option<Vec<Stmt>>),
    /// `with value as target: body`, each manager with its target.
    With(Vec<(Expr, Option<Expr>)>, Vec<Stmt>),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// `pass`.
    Pass,
    /// `assert test, message`.
    Assert(Expr, Option<Expr>),
    /// `raise value`.
    Raise(Option<Expr>),
    /// `del targets`.
    Delete(Vec<Expr>),
    /// A function inside of a function, which `fork` runs.
    Function(Arc<Function>),
    /// `import a.b as c` or `from a import b`: the text after which names are bound.
    Import(Vec<Arc<str>>),
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its place.
    pub span: Span,
    height: u32,
}

/// What an expression is.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A name.
    Name(Arc<str>),
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// An imaginary number: `2.j`.
    Imaginary(f64),
    /// `1.+2.j`, written without spaces, a complex literal of archives.
    Complex(f64, f64),
    /// A text.
    Str(Arc<str>),
    /// An f-string.
    Format(Vec<FormatPart>),
    /// `...`.
    Ellipsis,
    /// `(value)`.
    Paren(Box<Expr>),
    /// `value.name`.
    Attribute(Box<Expr>, Arc<str>),
    /// `value[index]`.
    Subscript(Box<Expr>, Box<Expr>),
    /// `start:stop:step`, inside of a subscript.
    Slice(Option<Box<Expr>>, Option<Box<Expr>>, Option<Box<Expr>>),
    /// A call.
    Call(Box<Expr>, Sequence<Argument>),
    /// `(a, b)`, or `a, b` without parentheses.
    Tuple(Sequence<Expr>, Parentheses),
    /// `[a, b]`.
    List(Sequence<Expr>),
    /// `{a: b}`.
    Dict(Vec<(Expr, Expr)>),
    /// A unary operation.
    Unary(UnaryOp, Box<Expr>),
    /// A binary operation.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// A chain of comparisons: `a < b <= c`.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    /// `a and b and c`, `a or b`.
    Logical(LogicalOp, Vec<Expr>),
    /// `then if test else otherwise`: test, then, otherwise.
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A comprehension.
    Comprehension(Box<Comprehension>),
    /// `*value`, in calls, literals and targets.
    Starred(Box<Expr>),
}

/// Items with or without a comma after the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct Sequence<T> {
    /// The items.
    pub items: Vec<T>,
    /// Whether a comma is written after the last one.
    pub last_comma: bool,
}

impl<T> Sequence<T> {
    /// Returns a sequence without a last comma.
    pub fn new(items: Vec<T>) -> Self {
        Sequence { items, last_comma: false }
    }
}

/// Whether a tuple is written in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parentheses {
    /// `(a, b)`.
    Written,
    /// `a, b`.
    Absent,
}

/// An argument of a call; a starred one is an expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Argument {
    /// The name in `name=value`.
    pub name: Option<Arc<str>>,
    /// The value.
    pub value: Expr,
}

/// A part of an f-string.
#[derive(Debug, Clone, PartialEq)]
pub enum FormatPart {
    /// Text as it is.
    Text(Arc<str>),
    /// `{value!conversion:spec}`.
    Value {
        /// The value.
        value: Expr,
        /// The conversion: `r`, `s` or `a`.
        conversion: Option<char>,
        /// The format specification.
        spec: Arc<str>,
    },
}

/// A comprehension.
#[derive(Debug, Clone, PartialEq)]
pub struct Comprehension {
    /// What it makes.
    pub kind: ComprehensionKind,
    /// The item, or the key of a dictionary.
    pub item: Expr,
    /// The value of a dictionary.
    pub value: Option<Expr>,
    /// The loops, outermost first.
    pub loops: Vec<ComprehensionLoop>,
}

/// What a comprehension makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComprehensionKind {
    /// `[f(x) for x in xs]`.
    List,
    /// `{k: v for k, v in xs}`.
    Dict,
    /// `f(x) for x in xs`, the only argument of a call.
    Generator,
}

/// A `for` of a comprehension with its `if`s.
#[derive(Debug, Clone, PartialEq)]
pub struct ComprehensionLoop {
    /// The target.
    pub target: Expr,
    /// What it runs over.
    pub values: Expr,
    /// The conditions.
    pub conditions: Vec<Expr>,
}

/// A unary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Python's")]
pub enum UnaryOp {
    Neg,
    Pos,
    Invert,
    Not,
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Python's")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    MatMul,
    And,
    Or,
    Xor,
    LeftShift,
    RightShift,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Python's")]
pub enum CompareOp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    Is,
    IsNot,
    In,
    NotIn,
}

/// `and` or `or`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are Python's")]
pub enum LogicalOp {
    And,
    Or,
}

impl UnaryOp {
    /// Returns how it is written, with the space that follows a word.
    pub fn text(self) -> &'static str {
        match self {
            UnaryOp::Neg => "-",
            UnaryOp::Pos => "+",
            UnaryOp::Invert => "~",
            UnaryOp::Not => "not ",
        }
    }
}

impl BinaryOp {
    /// Returns how it is written.
    pub fn text(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::FloorDiv => "//",
            BinaryOp::Mod => "%",
            BinaryOp::Pow => "**",
            BinaryOp::MatMul => "@",
            BinaryOp::And => "&",
            BinaryOp::Or => "|",
            BinaryOp::Xor => "^",
            BinaryOp::LeftShift => "<<",
            BinaryOp::RightShift => ">>",
        }
    }

    /// Returns how tightly it binds, from 1 for `|`.
    pub fn precedence(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::Xor => 2,
            BinaryOp::And => 3,
            BinaryOp::LeftShift | BinaryOp::RightShift => 4,
            BinaryOp::Add | BinaryOp::Sub => 5,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Mod | BinaryOp::MatMul => 6,
            BinaryOp::Pow => 8,
        }
    }
}

impl CompareOp {
    /// Returns how it is written.
    pub fn text(self) -> &'static str {
        match self {
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Is => "is",
            CompareOp::IsNot => "is not",
            CompareOp::In => "in",
            CompareOp::NotIn => "not in",
        }
    }
}

impl Expr {
    /// Makes an expression.
    pub fn new(kind: ExprKind, span: Span) -> Expr {
        let mut height = 0;
        kind.each(&mut |child| height = height.max(child.height));
        Expr { kind, span, height: height + 1 }
    }

    /// Returns how many levels the expression has.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Returns the expression inside of all parentheses.
    pub fn inner(&self) -> &Expr {
        let mut expr = self;
        while let ExprKind::Paren(inner) = &expr.kind {
            expr = inner;
        }
        expr
    }

    /// Returns the name, if it is one.
    pub fn as_name(&self) -> Option<&Arc<str>> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the dotted name, if the expression is a name or attributes of one: `torch.nn.Module`.
    pub fn dotted(&self) -> Option<String> {
        match &self.kind {
            ExprKind::Name(name) => Some(name.to_string()),
            ExprKind::Attribute(value, name) => Some(format!("{}.{name}", value.dotted()?)),
            _ => None,
        }
    }
}

impl ExprKind {
    /// Calls `visit` with each expression directly below.
    pub fn each<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match self {
            ExprKind::Name(_)
            | ExprKind::None
            | ExprKind::Bool(_)
            | ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Imaginary(_)
            | ExprKind::Complex(..)
            | ExprKind::Str(_)
            | ExprKind::Ellipsis => {}
            ExprKind::Format(parts) => {
                for part in parts {
                    if let FormatPart::Value { value, .. } = part {
                        visit(value);
                    }
                }
            }
            ExprKind::Paren(value)
            | ExprKind::Attribute(value, _)
            | ExprKind::Unary(_, value)
            | ExprKind::Starred(value) => visit(value),
            ExprKind::Subscript(value, index) => {
                visit(value);
                visit(index);
            }
            ExprKind::Slice(start, stop, step) => {
                [start, stop, step].into_iter().flatten().for_each(|part| visit(part));
            }
            ExprKind::Call(callee, arguments) => {
                visit(callee);
                arguments.items.iter().for_each(|argument| visit(&argument.value));
            }
            ExprKind::Tuple(items, _) | ExprKind::List(items) => items.items.iter().for_each(visit),
            ExprKind::Dict(entries) => {
                for (key, value) in entries {
                    visit(key);
                    visit(value);
                }
            }
            ExprKind::Binary(_, left, right) => {
                visit(left);
                visit(right);
            }
            ExprKind::Compare(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, value)| visit(value));
            }
            ExprKind::Logical(_, items) => items.iter().for_each(visit),
            ExprKind::Conditional(test, then, otherwise) => {
                visit(test);
                visit(then);
                visit(otherwise);
            }
            ExprKind::Comprehension(comprehension) => {
                visit(&comprehension.item);
                comprehension.value.iter().for_each(&mut *visit);
                for part in &comprehension.loops {
                    visit(&part.target);
                    visit(&part.values);
                    part.conditions.iter().for_each(&mut *visit);
                }
            }
        }
    }
}
