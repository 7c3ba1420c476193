//! The canonical text of TorchScript, as `torch.jit.save` writes it.
//!
//! A tree that was parsed from such a text prints as the same bytes; any tree prints as a text that parses to
//! an equal tree, spans aside. Parentheses that a tree lacks but its operators need are added.

mod expr;

use crate::ast::{ClassDef, Expr, ExprKind, File, Function, Item, Member, Parameter, Stmt, StmtKind};

/// Returns the text of a file.
pub fn file(file: &File) -> String {
    let mut printer = Printer::default();
    for item in &file.items {
        match item {
            Item::Class(class) => printer.class(class),
            Item::Function(function) => printer.function(function, Layout::Lines),
            Item::Statement(statement) => printer.statement(statement),
        }
    }
    printer.out
}

/// Returns the text of a function.
pub fn function(function: &Function) -> String {
    let mut printer = Printer::default();
    printer.function(function, Layout::Lines);
    printer.out
}

/// Returns the text of an expression.
pub fn expression(expr: &Expr) -> String {
    let mut printer = Printer::default();
    printer.expr(expr, expr::LIST);
    printer.out
}

/// Returns a text in double quotes, with the escapes of TorchScript.
pub fn quoted(text: &str) -> String {
    let mut printer = Printer::default();
    printer.quoted(text);
    printer.out
}

/// Returns a float with up to 17 digits, always with a point or an exponent.
pub fn float(value: f64) -> String {
    expr::float(value)
}

/// How the parameters of a function are laid out: one a line, or all on one line as in interfaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layout {
    Lines,
    OneLine,
}

#[derive(Default)]
struct Printer {
    out: String,
    level: usize,
}

impl Printer {
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn begin(&mut self) {
        for _ in 0..self.level {
            self.out.push_str("  ");
        }
    }

    fn class(&mut self, class: &ClassDef) {
        self.decorators(&class.decorators);
        self.begin();
        self.push(&format!("class {}", class.name));
        if let Some(base) = &class.base {
            self.push("(");
            self.expr(base, expr::TERNARY);
            self.push(")");
        }
        self.push(":\n");
        let base = class.base.as_ref().and_then(Expr::dotted).unwrap_or_default();
        let layout = if base.ends_with("Interface") { Layout::OneLine } else { Layout::Lines };
        self.level += 1;
        for member in &class.body {
            match member {
                Member::Statement(statement) => self.statement(statement),
                Member::Method(method) => self.function(method, layout),
            }
        }
        self.level -= 1;
    }

    fn decorators(&mut self, decorators: &[Expr]) {
        for decorator in decorators {
            self.begin();
            self.push("@");
            self.expr(decorator, expr::TERNARY);
            self.push("\n");
        }
    }

    fn function(&mut self, function: &Function, layout: Layout) {
        self.decorators(&function.decorators);
        self.begin();
        self.push(&format!("def {}(", function.name));
        let mut keyword_only = false;
        for (index, parameter) in function.parameters.iter().enumerate() {
            if index > 0 {
                self.separate(layout);
            }
            if parameter.keyword_only && !keyword_only {
                keyword_only = true;
                self.push("*");
                self.separate(layout);
            }
            self.parameter(parameter);
        }
        self.push(")");
        if let Some(returns) = &function.returns {
            self.push(" -> ");
            self.expr(returns, expr::TERNARY);
        }
        self.push(":\n");
        self.block(&function.body);
    }

    fn separate(&mut self, layout: Layout) {
        match layout {
            Layout::OneLine => self.push(", "),
            Layout::Lines => {
                // Four columns, however deep the function is.
                self.push(",\n    ");
            }
        }
    }

    fn parameter(&mut self, parameter: &Parameter) {
        self.push(&parameter.name);
        if let Some(annotation) = &parameter.annotation {
            self.push(": ");
            self.expr(annotation, expr::TERNARY);
        }
        if let Some(default) = &parameter.default {
            self.push("=");
            self.expr(default, expr::TERNARY);
        }
    }

    fn block(&mut self, body: &[Stmt]) {
        self.level += 1;
        if body.is_empty() {
            self.begin();
            self.push("pass\n");
        }
        body.iter().for_each(|statement| self.statement(statement));
        self.level -= 1;
    }

    fn head(&mut self, word: &str, value: &Expr) {
        self.push(word);
        self.push(" ");
        self.expr(value, expr::LIST);
    }

    fn otherwise(&mut self, body: &Option<Vec<Stmt>>) {
        if let Some(body) = body {
            self.begin();
            self.push("else:\n");
            self.block(body);
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        if let StmtKind::Function(function) = &statement.kind {
            return self.function(function, Layout::Lines);
        }
        self.begin();
        match &statement.kind {
            StmtKind::Assign(targets, value) => {
                for target in targets {
                    self.expr(target, expr::LIST);
                    self.push(" = ");
                }
                self.expr(value, expr::LIST);
            }
            StmtKind::Annotated(target, annotation, value) => {
                self.expr(target, expr::TERNARY);
                // Entries of `__annotations__` are subscripts and keep the form of an assignment.
                self.push(if matches!(target.kind, ExprKind::Subscript(..)) { ": " } else { " : " });
                self.expr(annotation, expr::TERNARY);
                if let Some(value) = value {
                    self.push(" = ");
                    self.expr(value, expr::LIST);
                }
            }
            StmtKind::Augmented(target, op, value) => {
                self.expr(target, expr::LIST);
                self.push(&format!(" {}= ", op.text()));
                self.expr(value, expr::LIST);
            }
            StmtKind::Expr(value) => self.expr(value, expr::LIST),
            StmtKind::Return(None) => self.push("return"),
            StmtKind::Return(Some(value)) => self.head("return", value),
            StmtKind::If(test, then, otherwise) => {
                self.head("if", test);
                self.push(":\n");
                self.block(then);
                return self.otherwise(otherwise);
            }
            StmtKind::While(test, body, otherwise) => {
                self.head("while", test);
                self.push(":\n");
                self.block(body);
                return self.otherwise(otherwise);
            }
            StmtKind::For(target, values, body, otherwise) => {
                self.head("for", target);
                self.push(" ");
                self.head("in", values);
                self.push(":\n");
                self.block(body);
                return self.otherwise(otherwise);
            }
            StmtKind::With(managers, body) => {
                self.push("with ");
                for (index, (manager, target)) in managers.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" });
                    self.expr(manager, expr::TERNARY);
                    if let Some(target) = target {
                        self.push(" as ");
                        self.expr(target, expr::TERNARY);
                    }
                }
                self.push(":\n");
                return self.block(body);
            }
            StmtKind::Break => self.push("break"),
            StmtKind::Continue => self.push("continue"),
            StmtKind::Pass => self.push("pass"),
            StmtKind::Assert(test, message) => {
                self.push("assert ");
                self.expr(test, expr::TERNARY);
                if let Some(message) = message {
                    self.push(", ");
                    self.expr(message, expr::TERNARY);
                }
            }
            StmtKind::Raise(None) => self.push("raise"),
            StmtKind::Raise(Some(value)) => self.head("raise", value),
            StmtKind::Delete(targets) => {
                self.push("del ");
                for (index, target) in targets.iter().enumerate() {
                    self.push(if index > 0 { ", " } else { "" });
                    self.expr(target, expr::TERNARY);
                }
            }
            StmtKind::Import(words) => self.push(&import(words)),
            StmtKind::Function(_) => {}
        }
        self.push("\n");
    }
}

/// Joins the words of an `import`; dots stick to their neighbours, commas to the word before.
fn import(words: &[std::sync::Arc<str>]) -> String {
    let mut out = String::new();
    for word in words {
        let sticks = matches!(&**word, "." | "," | ")" | "...") || out.ends_with(['.', '(']);
        let keyword = matches!(&**word, "import" | "as");
        if !out.is_empty() && (!sticks || keyword) && !(out.ends_with('(')) {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}
