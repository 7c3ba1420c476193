//! Expressions as text.

use super::Printer;
use crate::ast::{
    BinaryOp, Comprehension, ComprehensionKind, Expr, ExprKind, FormatPart, LogicalOp, Parentheses, Sequence,
    UnaryOp,
};

/// Levels of precedence; an expression of a lower level than its place asks for stands in parentheses.
pub(super) const LIST: u8 = 0;
pub(super) const TERNARY: u8 = 1;
const OR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const COMPARE: u8 = 5;
/// The level of the loosest binary operator, whose own precedence is 1.
const BINARY: u8 = 6;
const UNARY: u8 = 12;
const POWER: u8 = 13;
const ATOM: u8 = 14;

/// Returns the level of an expression.
fn level(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Tuple(_, Parentheses::Absent) | ExprKind::Starred(_) => LIST,
        ExprKind::Conditional(..) => TERNARY,
        ExprKind::Logical(LogicalOp::Or, _) => OR,
        ExprKind::Logical(LogicalOp::And, _) => AND,
        ExprKind::Unary(UnaryOp::Not, _) => NOT,
        ExprKind::Compare(..) => COMPARE,
        ExprKind::Binary(BinaryOp::Pow, ..) => POWER,
        ExprKind::Binary(op, ..) => BINARY + op.precedence() - 1,
        ExprKind::Unary(..) => UNARY,
        ExprKind::Int(value) if *value < 0 => UNARY,
        ExprKind::Float(value) if value.is_sign_negative() => UNARY,
        // `1.+2.j` is a sum to other operators.
        ExprKind::Complex(..) => BINARY + BinaryOp::Add.precedence() - 1,
        _ => ATOM,
    }
}

/// Returns a float with up to 17 digits, always with a point or an exponent.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if (-4..17).contains(&exponent) {
        let digits = (16 - exponent) as usize;
        let fixed = format!("{value:.digits$}");
        let trimmed = if fixed.contains('.') { fixed.trim_end_matches('0') } else { &fixed };
        return if trimmed.contains('.') { trimmed.to_owned() } else { format!("{trimmed}.") };
    }
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

impl Printer {
    /// Prints an expression, in parentheses if it binds more loosely than its place asks for.
    pub(super) fn expr(&mut self, expr: &Expr, place: u8) {
        let parentheses = level(expr) < place;
        if parentheses {
            self.push("(");
        }
        self.bare(expr);
        if parentheses {
            self.push(")");
        }
    }

    fn bare(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.push(name),
            ExprKind::None => self.push("None"),
            ExprKind::Bool(true) => self.push("True"),
            ExprKind::Bool(false) => self.push("False"),
            ExprKind::Int(value) => self.push(&value.to_string()),
            ExprKind::Float(value) => self.push(&float(*value)),
            ExprKind::Imaginary(value) => self.push(&format!("{}j", float(*value))),
            ExprKind::Complex(real, imaginary) => {
                let sign = if imaginary.is_sign_negative() { "-" } else { "+" };
                self.push(&format!("{}{sign}{}j", float(*real), float(imaginary.abs())));
            }
            ExprKind::Str(text) => self.quoted(text),
            ExprKind::Format(parts) => self.format(parts),
            ExprKind::Ellipsis => self.push("..."),
            ExprKind::Paren(value) => {
                self.push("(");
                self.expr(value, TERNARY);
                self.push(")");
            }
            ExprKind::Attribute(value, name) => {
                // A digit before the point would take it as its own.
                let place = if matches!(value.kind, ExprKind::Int(_)) { ATOM + 1 } else { ATOM };
                self.expr(value, place);
                self.push(".");
                self.push(name);
            }
            ExprKind::Subscript(value, index) => {
                self.expr(value, ATOM);
                self.push("[");
                self.expr(index, LIST);
                self.push("]");
            }
            ExprKind::Slice(start, stop, step) => {
                if let Some(start) = start {
                    self.expr(start, LIST);
                }
                self.push(":");
                if let Some(stop) = stop {
                    self.expr(stop, LIST);
                }
                if let Some(step) = step {
                    self.push(":");
                    self.expr(step, LIST);
                }
            }
            ExprKind::Call(callee, arguments) => {
                self.expr(callee, ATOM);
                self.push("(");
                for (index, argument) in arguments.items.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" });
                    if let Some(name) = &argument.name {
                        self.push(&format!("{name}="));
                    }
                    let place =
                        if matches!(argument.value.kind, ExprKind::Starred(_)) { LIST } else { TERNARY };
                    self.expr(&argument.value, place);
                }
                self.push(if arguments.last_comma { ", )" } else { ")" });
            }
            ExprKind::Tuple(items, Parentheses::Absent) => {
                self.items(&items.items);
                self.push(if items.last_comma || items.items.len() == 1 { "," } else { "" });
            }
            ExprKind::Tuple(items, Parentheses::Written) => {
                self.push("(");
                self.items(&items.items);
                self.push(if items.items.len() == 1 { ",)" } else { ")" });
            }
            ExprKind::List(Sequence { items, last_comma }) => {
                self.push("[");
                self.items(items);
                self.push(if *last_comma { ", ]" } else { "]" });
            }
            ExprKind::Dict(entries) => {
                self.push("{");
                for (index, (key, value)) in entries.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" });
                    self.expr(key, TERNARY);
                    self.push(": ");
                    self.expr(value, TERNARY);
                }
                self.push("}");
            }
            ExprKind::Unary(op, value) => {
                self.push(op.text());
                let least =
                    matches!(op, UnaryOp::Neg) && matches!(value.kind, ExprKind::Int(_) | ExprKind::Float(_));
                let place = match op {
                    UnaryOp::Not => NOT,
                    _ if least && level(value) == UNARY => ATOM,
                    _ => UNARY,
                };
                self.expr(value, place);
            }
            ExprKind::Binary(BinaryOp::Pow, base, exponent) => {
                self.expr(base, ATOM);
                self.push(" ** ");
                self.expr(exponent, UNARY);
            }
            ExprKind::Binary(op, left, right) => {
                let own = BINARY + op.precedence() - 1;
                self.expr(left, own);
                self.push(&format!(" {} ", op.text()));
                self.expr(right, own + 1);
            }
            ExprKind::Compare(first, rest) => {
                self.expr(first, BINARY);
                for (op, value) in rest {
                    self.push(&format!(" {} ", op.text()));
                    self.expr(value, BINARY);
                }
            }
            ExprKind::Logical(op, items) => {
                let (word, place) = match op {
                    LogicalOp::And => (" and ", AND + 1),
                    LogicalOp::Or => (" or ", OR + 1),
                };
                for (index, item) in items.iter().enumerate() {
                    self.push(if index > 0 { word } else { "" });
                    self.expr(item, place);
                }
            }
            ExprKind::Conditional(test, then, otherwise) => {
                self.expr(then, OR);
                self.push(" if ");
                self.expr(test, OR);
                self.push(" else ");
                self.expr(otherwise, TERNARY);
            }
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
            ExprKind::Starred(value) => {
                self.push("*");
                self.expr(value, BINARY);
            }
        }
    }

    fn items(&mut self, items: &[Expr]) {
        for (index, item) in items.iter().enumerate() {
            self.push(if index > 0 { ", " } else { "" });
            let place = if matches!(item.kind, ExprKind::Starred(_)) { LIST } else { TERNARY };
            self.expr(item, place);
        }
    }

    fn comprehension(&mut self, comprehension: &Comprehension) {
        let (open, close) = match comprehension.kind {
            ComprehensionKind::List => ("[", "]"),
            ComprehensionKind::Dict => ("{", "}"),
            ComprehensionKind::Generator => ("(", ")"),
        };
        self.push(open);
        self.expr(&comprehension.item, TERNARY);
        if let Some(value) = &comprehension.value {
            self.push(": ");
            self.expr(value, TERNARY);
        }
        for part in &comprehension.loops {
            self.push(" for ");
            self.expr(&part.target, LIST);
            self.push(" in ");
            self.expr(&part.values, OR);
            for condition in &part.conditions {
                self.push(" if ");
                self.expr(condition, OR);
            }
        }
        self.push(close);
    }

    fn format(&mut self, parts: &[FormatPart]) {
        // Values may have texts with double quotes of their own, so single ones enclose the whole.
        let double = parts.iter().any(|part| match part {
            FormatPart::Value { value, .. } => super::expression(value).contains(['"', '\'']),
            FormatPart::Text(_) => false,
        });
        let quote = if double { "'''" } else { "\"" };
        self.push("f");
        self.push(quote);
        for part in parts {
            match part {
                FormatPart::Text(text) => self.escaped(&text.replace('{', "{{").replace('}', "}}")),
                FormatPart::Value { value, conversion, spec } => {
                    self.push("{");
                    let text = super::expression(value);
                    // A dictionary at the start would read as an escaped brace.
                    self.push(if text.starts_with('{') { " " } else { "" });
                    self.push(&text);
                    if let Some(conversion) = conversion {
                        self.push(&format!("!{conversion}"));
                    }
                    if !spec.is_empty() {
                        self.push(&format!(":{spec}"));
                    }
                    self.push("}");
                }
            }
        }
        self.push(quote);
    }

    pub(super) fn quoted(&mut self, text: &str) {
        self.push("\"");
        self.escaped(text);
        self.push("\"");
    }

    fn escaped(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\\' => self.push("\\\\"),
                '\'' => self.push("\\'"),
                '"' => self.push("\\\""),
                '\x07' => self.push("\\a"),
                '\x08' => self.push("\\b"),
                '\x0c' => self.push("\\f"),
                '\n' => self.push("\\n"),
                '\r' => self.push("\\r"),
                '\t' => self.push("\\t"),
                '\x0b' => self.push("\\v"),
                ' '..='~' => self.out.push(character),
                '\0'..='\x7f' => self.push(&format!("\\{:03o}", character as u32)),
                _ => self.out.push(character),
            }
        }
    }
}
