//! Statements.

use super::{Dialect, Generator, Line, Type, Variable};

impl Generator {
    /// Makes the statements of a block, which may nest `depth` levels. Its variables end with it.
    pub(super) fn block(&mut self, depth: usize) -> Vec<Line> {
        let before = self.variables.len();
        let mut lines = Vec::new();
        let wanted = if depth == 3 { usize::MAX } else { 1 + self.rng.below(4) };
        while lines.len() < wanted && self.budget > 0 {
            self.budget -= 1;
            self.statement(depth, &mut lines);
            let ends = |line: &Line| {
                ["return", "break", "continue", "raise"].iter().any(|word| line.text.starts_with(word))
            };
            if lines.last().is_some_and(ends) {
                break;
            }
        }
        if depth < 3 {
            self.variables.truncate(before);
        }
        lines
    }

    fn declare(&mut self, name: &str, ty: &Type, is_writable: bool) {
        self.variables.push(Variable { name: name.into(), ty: ty.clone(), is_writable });
    }

    fn statement(&mut self, depth: usize, lines: &mut Vec<Line>) {
        match self.rng.below(40) {
            0..=6 => self.declaration(lines),
            7..=10 => self.assignment(lines),
            11..=14 => self.change_list(lines),
            15..=16 => self.change_dict(lines),
            17..=18 => self.change_object(lines),
            19..=21 if self.dialect == Dialect::Torch => self.change_tensor(lines),
            19..=20 => self.assignment(lines),
            21 => self.call_statement(lines),
            22..=25 if depth > 0 => self.conditional(depth, lines),
            26..=30 if depth > 0 && self.loops < 2 => self.repetition(depth, lines),
            31..=32 if depth > 0 => self.refinement(depth, lines),
            33 if depth > 0 => self.both_branches(lines),
            34 if depth < 3 => {
                let returns = self.returns.clone();
                let result = self.top(&returns);
                lines.push(Line::new(format!("return {result}")));
            }
            35 if self.loops > 0 && depth < 3 => {
                let exit = self.rng.pick(&["break", "continue"]);
                let test = self.expression(&Type::Bool, 2);
                lines.push(Line::with(format!("if {test}:"), vec![Line::new(exit)]));
            }
            36 => self.unpacking(lines),
            37 if self.chance(30) => {
                let (test, n) = (self.expression(&Type::Bool, 2), self.rng.below(100));
                match self.rng.below(3) {
                    0 => lines.push(Line::new(format!("assert {test}, \"raised {n}\""))),
                    _ => {
                        let raise = Line::new(format!("raise ValueError(\"raised {n}\")"));
                        lines.push(Line::with(format!("if {test}:"), vec![raise]));
                    }
                }
            }
            38 if self.dialect == Dialect::Python => {
                let (a, b) = (self.expression(&Type::Int, 2), self.expression(&Type::Str, 2));
                lines.push(Line::new(format!("print({a}, {b})")));
            }
            _ => self.declaration(lines),
        }
    }

    fn declaration(&mut self, lines: &mut Vec<Line>) {
        let ty = self.ty();
        let name = self.name("v");
        let needs_type = matches!(ty, Type::Optional(_)) || self.chance(40);
        let text = if needs_type && self.chance(25) { self.literal(&ty) } else { self.top(&ty) };
        match needs_type {
            true => lines.push(Line::new(format!("{name}: {} = {text}", ty.text()))),
            false => lines.push(Line::new(format!("{name} = {text}"))),
        }
        self.declare(&name, &ty, true);
    }

    fn assignment(&mut self, lines: &mut Vec<Line>) {
        let ty = self.ty();
        let Some(name) = self.variable(&ty, true) else { return self.declaration(lines) };
        let text = match (&ty, self.rng.below(4)) {
            (Type::Int, 0) => {
                let (op, value) = (self.rng.pick(&["+=", "-="]), self.top(&ty));
                format!("{name} {op} {value}")
            }
            (Type::Int, 1) => format!("{name} {} {}", self.rng.pick(&["//=", "%="]), 1 + self.rng.below(5)),
            (Type::Float, 0) => {
                let value = self.top(&ty);
                format!("{name} {} {value}", self.rng.pick(&["+=", "-="]))
            }
            (Type::Str, 0) if !self.is_repeated() => format!("{name} += {}", self.top(&ty)),
            (Type::List(item), 0) if **item != Type::Tensor => {
                let value = self.expression(&ty, 2);
                format!("{name} += ({value})[:3]")
            }
            (Type::Optional(_), 0) => format!("{name} = None"),
            _ => format!("{name} = {}", self.top(&ty)),
        };
        lines.push(Line::new(text));
    }

    fn change_list(&mut self, lines: &mut Vec<Line>) {
        let item = match self.rng.below(6) {
            0 => Type::list(Type::Int),
            1 if self.dialect == Dialect::Torch => Type::Tensor,
            _ => self.scalar(),
        };
        let list = Type::list(item.clone());
        let Some(place) = self.place(&list) else { return self.declaration(lines) };
        let at = self.expression(&Type::Int, 1);
        let is_sortable = matches!(item, Type::Int | Type::Str | Type::Float);
        let value = self.kept(&item, 3);
        let guarded = |text: String| Line::with(format!("if len({place}) > 0:"), vec![Line::new(text)]);
        lines.push(match self.rng.below(12) {
            0..=3 => Line::new(format!("{place}.append({value})")),
            4 => Line::new(format!("{place}.insert({at}, {value})")),
            5 => Line::new(format!("{place}.extend(({})[:3])", self.expression(&list, 2))),
            6 => Line::new(format!("{place}.reverse()")),
            7 if is_sortable => Line::new(format!("{place}.sort({})", self.rng.pick(&["", "reverse=True"]))),
            8 => guarded(format!("{place}.pop({})", self.rng.pick(&["", "0", "-1"]))),
            9 if is_sortable => {
                let test = format!("if {value} in {place}:");
                Line::with(test, vec![Line::new(format!("{place}.remove({value})"))])
            }
            10 if item == Type::Int => {
                let op = self.rng.pick(&["+=", "-="]);
                guarded(format!("{place}[({at}) % len({place})] {op} ({value}) % 1009"))
            }
            11 if self.chance(30) => Line::new(format!("{place}.clear()")),
            _ if self.chance(5) => Line::new(format!("{place}[{at}] = {value}")),
            _ => guarded(format!("{place}[({at}) % len({place})] = {value}")),
        });
    }

    fn change_dict(&mut self, lines: &mut Vec<Line>) {
        let key = self.rng.pick(&[Type::Int, Type::Str]);
        let value = if self.chance(20) { Type::list(Type::Int) } else { self.scalar() };
        let dict = Type::Dict(Box::new(key.clone()), Box::new(value.clone()));
        let Some(name) = self.variable(&dict, false) else { return self.declaration(lines) };
        let (at, new) = (self.key(&key, 2), self.kept(&value, 3));
        let present = |text: String| Line::with(format!("if {at} in {name}:"), vec![Line::new(text)]);
        lines.push(match self.rng.below(8) {
            0..=3 => Line::new(format!("{name}[{at}] = {new}")),
            4 => present(format!("del {name}[{at}]")),
            5 => present(format!("{name}.pop({at})")),
            6 => Line::new(format!("{name}.setdefault({at}, {new})")),
            _ => {
                let other = self.expression(&dict, 1);
                Line::new(format!("{name}.update({other})"))
            }
        });
    }

    fn change_object(&mut self, lines: &mut Vec<Line>) {
        let Some(object) = self.variable(&Type::Object, false) else { return self.declaration(lines) };
        let (field, ty) = self.rng.pick(&self.fields);
        let value = self.kept(&ty, 3);
        lines.push(match (&ty, self.rng.below(3)) {
            (Type::Int, 0) => Line::new(format!("{object}.{field} += ({value}) % 1009")),
            (Type::List(_), 0) => Line::new(format!("{object}.{field}.append({})", self.kept(&Type::Int, 2))),
            (Type::List(_), _) => Line::new(format!("{object}.{field} = ({value})[:6]")),
            _ => Line::new(format!("{object}.{field} = {value}")),
        });
    }

    fn call_statement(&mut self, lines: &mut Vec<Line>) {
        if self.functions.is_empty() {
            return self.declaration(lines);
        }
        let function = self.rng.pick(&self.functions);
        let call = self.call_of(&function, "", 3);
        match function.returns {
            Type::Optional(_) => lines.push(Line::new(call)),
            ref ty => {
                let name = self.name("v");
                lines.push(Line::new(format!("{name} = {call}")));
                self.declare(&name, &ty.clone(), true);
            }
        }
    }

    fn conditional(&mut self, depth: usize, lines: &mut Vec<Line>) {
        let test = self.expression(&Type::Bool, 3);
        let then = self.block(depth - 1);
        lines.push(Line::with(format!("if {test}:"), then));
        if self.chance(25) {
            let test = self.expression(&Type::Bool, 2);
            let body = self.block(depth - 1);
            lines.push(Line::with(format!("elif {test}:"), body));
        }
        if self.chance(50) {
            let body = self.block(depth - 1);
            lines.push(Line::with("else:", body));
        }
    }

    fn repetition(&mut self, depth: usize, lines: &mut Vec<Line>) {
        let (name, other) = (self.name("i"), self.name("i"));
        let before = self.variables.len();
        let mut body = Vec::new();
        let head = match self.rng.below(9) {
            0..=2 => {
                let n = self.expression(&Type::Int, 2);
                self.declare(&name, &Type::Int, false);
                match self.rng.below(3) {
                    0 => format!("for {name} in range(({n}) % 6):"),
                    1 => format!("for {name} in range({}, ({n}) % 6):", self.rng.below(3)),
                    _ => format!(
                        "for {name} in range({}, {}, {}):",
                        self.rng.below(9),
                        self.rng.below(9),
                        self.rng.pick(&[-2, -1, 1, 2, 3])
                    ),
                }
            }
            3 => {
                let item = self.scalar();
                let list = self.expression(&Type::list(item.clone()), 2);
                self.declare(&name, &item, false);
                format!("for {name} in ({list})[:5]:")
            }
            4 => {
                let item = self.scalar();
                let list = self.expression(&Type::list(item.clone()), 2);
                self.declare(&name, &Type::Int, false);
                self.declare(&other, &item, false);
                format!("for {name}, {other} in enumerate(({list})[:5]):")
            }
            5 => {
                let (a, b) = (self.scalar(), self.scalar());
                let first = self.expression(&Type::list(a.clone()), 2);
                let second = self.expression(&Type::list(b.clone()), 2);
                self.declare(&name, &a, false);
                self.declare(&other, &b, false);
                format!("for {name}, {other} in zip(({first})[:5], ({second})[:5]):")
            }
            6 => {
                let (key, value) = (self.rng.pick(&[Type::Int, Type::Str]), self.scalar());
                let dict = Type::Dict(Box::new(key.clone()), Box::new(value.clone()));
                let Some(dict) = self.variable(&dict, false) else { return self.conditional(depth, lines) };
                self.declare(&name, &key, false);
                if self.chance(50) {
                    format!("for {name} in list({dict}.keys()):")
                } else {
                    self.declare(&other, &value, false);
                    format!("for {name}, {other} in list({dict}.items()):")
                }
            }
            _ => {
                // The counter goes first, so that `continue` does not pass by it.
                lines.push(Line::new(format!("{name} = 0")));
                self.declare(&name, &Type::Int, false);
                body.push(Line::new(format!("{name} += 1")));
                match self.chance(25) {
                    true => {
                        body.push(Line::with(format!("if {name} > 4:"), vec![Line::new("break")]));
                        "while True:".to_owned()
                    }
                    false => {
                        let test = self.expression(&Type::Bool, 2);
                        format!("while {name} < {} and {test}:", 1 + self.rng.below(6))
                    }
                }
            }
        };
        self.loops += 1;
        body.extend(self.block(depth - 1));
        self.loops -= 1;
        self.variables.truncate(before);
        lines.push(Line::with(head, body));
    }

    /// Makes a test of an optional variable, which has a value below.
    fn refinement(&mut self, depth: usize, lines: &mut Vec<Line>) {
        let item = if self.chance(30) { Type::list(Type::Int) } else { self.scalar() };
        let optional = Type::Optional(Box::new(item.clone()));
        let Some(name) = self.variable(&optional, false) else { return self.conditional(depth, lines) };
        let before = self.variables.len();
        match self.rng.below(4) {
            0 if self.variable(&optional, true).as_ref() == Some(&name) => {
                let value = self.top(&item);
                lines.push(Line::with(
                    format!("if {name} is None:"),
                    vec![Line::new(format!("{name} = {value}"))],
                ));
                // The variable has a value from here to the end of the block.
                self.declare(&name, &item, false);
            }
            1 => {
                let otherwise = self.block(depth - 1);
                lines.push(Line::with(format!("if {name} is None:"), otherwise));
                self.declare(&name, &item, false);
                let body = self.block(depth - 1);
                self.variables.truncate(before);
                lines.push(Line::with("else:", body));
            }
            _ => {
                self.declare(&name, &item, false);
                let test = match self.chance(30) {
                    true => format!("{name} is not None and {}", self.expression(&Type::Bool, 2)),
                    false => format!("{name} is not None"),
                };
                let body = self.block(depth - 1);
                self.variables.truncate(before);
                lines.push(Line::with(format!("if {test}:"), body));
            }
        }
    }

    /// Makes a variable that both branches of a test set.
    fn both_branches(&mut self, lines: &mut Vec<Line>) {
        let (ty, name) = (self.scalar(), self.name("v"));
        for head in [format!("if {}:", self.expression(&Type::Bool, 3)), "else:".to_owned()] {
            let before = self.variables.len();
            let mut body = Vec::new();
            if self.chance(50) {
                self.declaration(&mut body);
            }
            let value = self.top(&ty);
            body.push(Line::new(format!("{name} = {value}")));
            self.variables.truncate(before);
            lines.push(Line::with(head, body));
        }
        self.declare(&name, &ty, true);
    }

    fn unpacking(&mut self, lines: &mut Vec<Line>) {
        if let (Some(a), Some(b), true) =
            (self.variable(&Type::Int, true), self.variable(&Type::Int, true), self.chance(50))
        {
            let (x, y) = (self.top(&Type::Int), self.top(&Type::Int));
            if a != b {
                lines.push(Line::new(match self.chance(50) {
                    true => format!("{a}, {b} = {b}, {a}"),
                    false => format!("{a}, {b} = {x}, {y}"),
                }));
                return;
            }
        }
        let n = 2 + self.rng.below(2);
        let types: Vec<Type> = (0..n).map(|_| self.scalar()).collect();
        let value = self.expression(&Type::Tuple(types.clone()), 3);
        let names: Vec<String> = types.iter().map(|_| self.name("v")).collect();
        lines.push(Line::new(format!("{} = {value}", names.join(", "))));
        for (name, ty) in names.iter().zip(&types) {
            self.declare(name, ty, true);
        }
    }
}
