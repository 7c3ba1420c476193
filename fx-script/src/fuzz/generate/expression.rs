//! Expressions by type.

use super::{Dialect, Function, Generator, Type};

const WORDS: &[&str] = &["\"\"", "\"a\"", "\"ab,c\"", "\" x \"", "\"Zed\"", "\"a b a\"", "'q\\n'", "\"0\""];

impl Generator {
    /// Returns a value of a type from literals only.
    pub(super) fn literal(&mut self, ty: &Type) -> String {
        match ty {
            Type::Int => (self.rng.below(41) as i64 - 20).to_string(),
            Type::Float => format!("{:.2}", (self.rng.below(81) as f64 - 40.0) / 4.0),
            Type::Bool => self.rng.pick(&["True", "False"]).to_owned(),
            Type::Str => self.rng.pick(WORDS).to_owned(),
            Type::Tensor => self.tensor_literal(),
            Type::List(item) => {
                let n = self.rng.below(5);
                let items: Vec<String> = (0..n).map(|_| self.literal(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Type::Dict(key, value) => {
                let n = self.rng.below(4);
                let entries: Vec<String> = (0..n)
                    .map(|_| {
                        let key = self.literal_key(key);
                        format!("{key}: {}", self.literal(value))
                    })
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.literal(item)).collect();
                format!("({})", items.join(", "))
            }
            Type::Optional(item) => match self.chance(40) {
                true => "None".into(),
                false => self.literal(item),
            },
            Type::Object => {
                let fields = self.fields.clone();
                let items: Vec<String> = fields.iter().map(|(_, ty)| self.literal(ty)).collect();
                format!("Thing({})", items.join(", "))
            }
        }
    }

    fn literal_key(&mut self, ty: &Type) -> String {
        match ty {
            Type::Int => self.rng.below(7).to_string(),
            _ => self.rng.pick(&["\"a\"", "\"b\"", "\"c\"", "\"\""]).to_owned(),
        }
    }

    /// Returns a variable of a type that can be read.
    pub(super) fn variable(&mut self, ty: &Type, must_be_writable: bool) -> Option<String> {
        let mut found = Vec::new();
        for (at, variable) in self.variables.iter().enumerate() {
            let is_hidden = self.variables[at + 1..].iter().any(|later| later.name == variable.name);
            if variable.ty == *ty && !is_hidden && (variable.is_writable || !must_be_writable) {
                found.push(variable.name.clone());
            }
        }
        (!found.is_empty()).then(|| self.rng.pick(&found))
    }

    /// Returns a variable or a field of a variable.
    pub(super) fn place(&mut self, ty: &Type) -> Option<String> {
        if self.chance(25)
            && let Some(object) = self.variable(&Type::Object, false)
        {
            let fields: Vec<String> =
                self.fields.iter().filter(|(_, own)| own == ty).map(|(name, _)| name.clone()).collect();
            if !fields.is_empty() {
                return Some(format!("{object}.{}", self.rng.pick(&fields)));
            }
        }
        self.variable(ty, false)
    }

    /// Whether code may run many times, so that values must not grow with every time.
    pub(super) fn is_repeated(&self) -> bool {
        self.loops > 0 || self.is_helper
    }

    /// Returns an expression whose value is small enough to be kept.
    pub(super) fn top(&mut self, ty: &Type) -> String {
        let text = self.expression(ty, 3);
        if !self.is_repeated() {
            return text;
        }
        match ty {
            Type::Int => format!("({text}) % 1009"),
            Type::Float => format!("min(max({text}, -512.0), 512.0)"),
            Type::Str => format!("({text})[:12]"),
            Type::List(item) if **item != Type::Tensor => format!("({text})[:6]"),
            _ => text,
        }
    }

    pub(super) fn expression(&mut self, ty: &Type, depth: usize) -> String {
        if depth == 0 || self.chance(20) {
            if self.chance(75)
                && let Some(place) = self.place(ty)
            {
                return place;
            }
            return self.plain(ty);
        }
        if self.chance(8)
            && let Some(call) = self.call(ty, depth)
        {
            return call;
        }
        if self.chance(6) && !matches!(ty, Type::Optional(_) | Type::Object | Type::Tensor) {
            let (test, then) = (self.expression(&Type::Bool, depth - 1), self.expression(ty, depth - 1));
            let otherwise = self.expression(ty, depth - 1);
            return format!("({then} if {test} else {otherwise})");
        }
        match ty {
            Type::Int => self.int(depth),
            Type::Float => self.float(depth),
            Type::Bool => self.boolean(depth),
            Type::Str => self.string(depth),
            Type::Tensor => self.tensor(depth),
            Type::List(item) => self.list(item, depth),
            Type::Dict(key, value) => self.dict(key, value, depth),
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.kept(item, depth)).collect();
                format!("({})", items.join(", "))
            }
            Type::Optional(item) => match self.variable(ty, false) {
                Some(name) if self.chance(50) => name,
                _ => self.expression(item, depth - 1),
            },
            Type::Object => match self.variable(ty, false) {
                Some(name) if self.chance(50) => name,
                _ => self.object(depth),
            },
        }
    }

    /// Returns an expression whose value may be kept in a container.
    pub(super) fn kept(&mut self, ty: &Type, depth: usize) -> String {
        let text = self.expression(ty, depth.saturating_sub(1));
        match ty {
            Type::Int if self.is_repeated() => format!("({text}) % 1009"),
            Type::Float if self.is_repeated() => format!("min(max({text}, -512.0), 512.0)"),
            Type::Str if self.is_repeated() => format!("({text})[:12]"),
            _ => text,
        }
    }

    /// Returns a literal that has a type without a hint.
    fn plain(&mut self, ty: &Type) -> String {
        match ty {
            Type::List(item) => {
                let n = 1 + self.rng.below(3);
                let items: Vec<String> = (0..n).map(|_| self.plain(item)).collect();
                format!("[{}]", items.join(", "))
            }
            Type::Dict(key, value) => {
                let (key, value) = (self.literal_key(key), self.plain(value));
                format!("{{{key}: {value}}}")
            }
            Type::Tuple(items) => {
                let items: Vec<String> = items.iter().map(|item| self.plain(item)).collect();
                format!("({})", items.join(", "))
            }
            Type::Optional(item) => self.plain(item),
            Type::Object => self.object(0),
            _ => self.literal(ty),
        }
    }

    fn object(&mut self, depth: usize) -> String {
        let fields = self.fields.clone();
        let items: Vec<String> = fields
            .iter()
            .map(|(_, ty)| match depth {
                0 => self.plain(ty),
                _ => self.kept(ty, depth),
            })
            .collect();
        format!("Thing({})", items.join(", "))
    }

    /// Returns a call of a function or method with a result of a type.
    fn call(&mut self, ty: &Type, depth: usize) -> Option<String> {
        let is_method = self.chance(30);
        let object = if is_method { self.variable(&Type::Object, false)? } else { String::new() };
        let known = if is_method { &self.methods } else { &self.functions };
        let fitting: Vec<Function> =
            known.iter().filter(|function| function.returns == *ty).cloned().collect();
        if fitting.is_empty() {
            return None;
        }
        let function = self.rng.pick(&fitting);
        Some(self.call_of(&function, &object, depth))
    }

    pub(super) fn call_of(&mut self, function: &Function, object: &str, depth: usize) -> String {
        let dropped = self.rng.below(function.defaults + 1);
        let n = function.parameters.len() - dropped;
        let mut arguments = Vec::new();
        for (i, (name, ty)) in function.parameters[..n].iter().enumerate() {
            let value = self.kept(ty, depth.min(2));
            let is_named = i >= function.parameters.len() - function.defaults;
            arguments.push(if is_named { format!("{name}={value}") } else { value });
        }
        let dot = if object.is_empty() { "" } else { "." };
        format!("{object}{dot}{}({})", function.name, arguments.join(", "))
    }

    /// Returns an item of a list, or something else if the list is too short.
    fn item(&mut self, item: &Type, depth: usize) -> Option<String> {
        let list = self.place(&Type::list(item.clone()))?;
        let at = self.expression(&Type::Int, depth.min(1));
        if self.chance(4) {
            return Some(format!("{list}[{at}]"));
        }
        let otherwise = self.plain(item);
        Some(match self.rng.below(3) {
            0 => format!("({list}[({at}) % len({list})] if len({list}) > 0 else {otherwise})"),
            1 => format!("({list}[-1] if len({list}) > 0 else {otherwise})"),
            _ => format!("({list}[1] if len({list}) >= 2 else {otherwise})"),
        })
    }

    /// Returns a value of a dictionary.
    fn entry(&mut self, value: &Type, depth: usize) -> Option<String> {
        let key = self.rng.pick(&[Type::Int, Type::Str]);
        let dict = self.place(&Type::Dict(Box::new(key.clone()), Box::new(value.clone())))?;
        let at = self.key(&key, depth);
        let otherwise = self.plain(value);
        Some(match self.rng.below(8) {
            0 => format!("{dict}[{at}]"),
            1..=3 => format!("({dict}[{at}] if {at} in {dict} else {otherwise})"),
            _ => format!("{dict}.get({at}, {otherwise})"),
        })
    }

    pub(super) fn key(&mut self, key: &Type, depth: usize) -> String {
        match (key, self.chance(50)) {
            (Type::Int, true) => format!("({}) % 7", self.expression(&Type::Int, depth.min(1))),
            (Type::Int, false) => self.rng.below(7).to_string(),
            (_, true) => format!("str(({}) % 3)", self.expression(&Type::Int, depth.min(1))),
            (_, false) => self.literal_key(key),
        }
    }

    fn field_of_tuple(&mut self, ty: &Type) -> Option<String> {
        let tuples: Vec<(String, usize)> = self
            .variables
            .iter()
            .filter_map(|variable| match &variable.ty {
                Type::Tuple(items) => {
                    Some((variable.name.clone(), items.iter().position(|item| item == ty)?))
                }
                _ => None,
            })
            .collect();
        if tuples.is_empty() {
            return None;
        }
        let (name, at) = self.rng.pick(&tuples);
        Some(format!("{name}[{at}]"))
    }

    /// Returns what containers of every kind give for a type.
    fn contained(&mut self, ty: &Type, depth: usize) -> Option<String> {
        match self.rng.below(3) {
            0 => self.item(ty, depth),
            1 => self.entry(ty, depth),
            _ => self.field_of_tuple(ty),
        }
    }

    fn parenthesized(&mut self, text: String) -> String {
        if self.chance(50) { format!("({text})") } else { text }
    }

    fn int(&mut self, depth: usize) -> String {
        let d = depth - 1;
        match self.rng.below(20) {
            0..=3 => {
                let op = self.rng.pick(&["+", "-", "+", "-", "&", "|", "^"]);
                let (a, b) = (self.expression(&Type::Int, d), self.expression(&Type::Int, d));
                self.parenthesized(format!("{a} {op} {b}"))
            }
            4 => {
                let (a, b) = (self.expression(&Type::Int, d), self.expression(&Type::Int, d));
                format!("(({a}) * ({b}) % 1009)")
            }
            5..=6 => {
                let op = self.rng.pick(&["//", "%"]);
                let by = self.rng.pick(&[-7, -2, 2, 3, 10]);
                let a = self.expression(&Type::Int, d);
                self.parenthesized(format!("({a}) {op} {by}"))
            }
            7 => {
                let op = self.rng.pick(&["-", "-", "abs"]);
                format!("{op}({})", self.expression(&Type::Int, d))
            }
            8 => {
                let (op, by) = (self.rng.pick(&["<<", ">>"]), self.rng.below(4));
                format!("((({}) % 1009) {op} {by})", self.expression(&Type::Int, d))
            }
            9 => {
                let (a, b) = (self.expression(&Type::Int, d), self.expression(&Type::Int, d));
                format!("{}({a}, {b})", self.rng.pick(&["min", "max"]))
            }
            10 => format!("int({})", self.expression(&Type::Bool, d)),
            11 => format!("len({})", self.sequence(d)),
            12 => {
                let list = self.expression(&Type::list(Type::Int), d);
                match self.rng.below(3) {
                    0 => format!("sum({list})"),
                    1 => format!("({list}).count({})", self.expression(&Type::Int, d)),
                    _ => format!("max([{}] + {list})", self.literal(&Type::Int)),
                }
            }
            13 => {
                let (a, b) = (self.expression(&Type::Str, d), self.expression(&Type::Str, d));
                let method = self.rng.pick(&["find", "count", "rfind"]);
                format!("({a}).{method}({b})")
            }
            14 => format!("int(str({}))", self.expression(&Type::Int, d)),
            15 if self.dialect == Dialect::Torch => self.int_of_tensor(d),
            15 => format!("int(min(max({}, -512.0), 512.0))", self.expression(&Type::Float, d)),
            _ => self.contained(&Type::Int, d).unwrap_or_else(|| self.expression(&Type::Int, 0)),
        }
    }

    fn float(&mut self, depth: usize) -> String {
        let d = depth - 1;
        match self.rng.below(10) {
            0..=2 => {
                let op = self.rng.pick(&["+", "-"]);
                let (a, b) = (self.expression(&Type::Float, d), self.expression(&Type::Float, d));
                self.parenthesized(format!("{a} {op} {b}"))
            }
            3 => {
                let (a, b) = (self.expression(&Type::Float, d), self.expression(&Type::Float, d));
                format!("min(max(({a}) * ({b}), -512.0), 512.0)")
            }
            4 => {
                let by = self.rng.pick(&["2.0", "-4.0", "3.0"]);
                let ty = self.rng.pick(&[Type::Int, Type::Float]);
                format!("({}) / {by}", self.expression(&ty, d))
            }
            5 => format!("float({})", self.expression(&Type::Int, d)),
            6 => format!("abs({})", self.expression(&Type::Float, d)),
            7 => {
                let (a, b) = (self.expression(&Type::Int, d), self.expression(&Type::Float, d));
                self.parenthesized(format!("({a}) + {b}"))
            }
            _ => self.contained(&Type::Float, d).unwrap_or_else(|| self.expression(&Type::Float, 0)),
        }
    }

    fn boolean(&mut self, depth: usize) -> String {
        let d = depth - 1;
        match self.rng.below(16) {
            0..=3 => {
                let ty = self.rng.pick(&[Type::Int, Type::Int, Type::Float, Type::Str]);
                let op = self.rng.pick(&["<", "<=", ">", ">=", "==", "!="]);
                let (a, b) = (self.expression(&ty, d), self.expression(&ty, d));
                format!("({a} {op} {b})")
            }
            4 => {
                let ops = ["<", "<=", ">", "!="];
                let (first, second) = (self.rng.pick(&ops), self.rng.pick(&ops));
                let (a, b) = (self.expression(&Type::Int, d), self.expression(&Type::Int, 0));
                format!("({a} {first} {b} {second} {})", self.expression(&Type::Int, d))
            }
            5..=6 => {
                let op = self.rng.pick(&["and", "or"]);
                let (a, b) = (self.expression(&Type::Bool, d), self.expression(&Type::Bool, d));
                format!("({a} {op} {b})")
            }
            7 => format!("(not {})", self.expression(&Type::Bool, d)),
            8 => {
                let ty = self.rng.pick(&[Type::Int, Type::Str]);
                let op = self.rng.pick(&["in", "not in"]);
                let (a, list) = (self.expression(&ty, d), self.expression(&Type::list(ty), d));
                format!("({a} {op} {list})")
            }
            9 => {
                let (a, b) = (self.expression(&Type::Str, d), self.expression(&Type::Str, d));
                match self.rng.below(3) {
                    0 => format!("({a} in {b})"),
                    1 => format!("({a}).startswith({b})"),
                    _ => format!("({a}).endswith({b})"),
                }
            }
            10 => {
                let ty = self.rng.pick(&[Type::Int, Type::Str, Type::Float]);
                let (a, b) =
                    (self.expression(&Type::list(ty.clone()), d), self.expression(&Type::list(ty), d));
                format!("({a} {} {b})", self.rng.pick(&["==", "!="]))
            }
            11 => {
                let ty = self.rng.pick(&[Type::Int, Type::Str]);
                match self.variable(&Type::Optional(Box::new(ty)), false) {
                    Some(name) => format!("({name} {} None)", self.rng.pick(&["is", "is not"])),
                    None => self.expression(&Type::Bool, 0),
                }
            }
            12 => {
                let key = self.rng.pick(&[Type::Int, Type::Str]);
                let dict = Type::Dict(Box::new(key.clone()), Box::new(Type::Int));
                match self.variable(&dict, false) {
                    Some(name) => format!("({} in {name})", self.key(&key, d)),
                    None => self.expression(&Type::Bool, 0),
                }
            }
            13 => {
                let method = self.rng.pick(&["isdigit", "isalpha", "isupper", "islower", "isspace"]);
                format!("({}).{method}()", self.expression(&Type::Str, d))
            }
            14 if self.dialect == Dialect::Torch => self.bool_of_tensor(d),
            _ => self.contained(&Type::Bool, d).unwrap_or_else(|| self.expression(&Type::Bool, 0)),
        }
    }

    fn string(&mut self, depth: usize) -> String {
        let d = depth - 1;
        match self.rng.below(14) {
            0..=1 => {
                let (a, b) = (self.expression(&Type::Str, d), self.expression(&Type::Str, d));
                self.parenthesized(format!("{a} + {b}"))
            }
            2..=3 => {
                let ty = self.rng.pick(&[Type::Int, Type::Int, Type::Bool, Type::Str]);
                format!("str({})", self.expression(&ty, d))
            }
            4 => {
                let method = self.rng.pick(&["upper", "lower", "strip", "lstrip", "rstrip", "capitalize"]);
                format!("({}).{method}()", self.expression(&Type::Str, d))
            }
            5 => {
                let text = self.expression(&Type::Str, d);
                let (from, to) = (self.rng.pick(&WORDS[1..]), self.rng.pick(WORDS));
                format!("({text}).replace({from}, {to})")
            }
            6 => format!("({}){}", self.expression(&Type::Str, d), self.slice(d)),
            7 => {
                let list = self.expression(&Type::list(Type::Str), d);
                format!("({}).join({list})", self.rng.pick(WORDS))
            }
            8..=9 => {
                let ty = self.rng.pick(&[Type::Int, Type::Str, Type::Bool]);
                let (a, b) = (self.place(&ty), self.place(&Type::Int));
                let (a, b) = (a.unwrap_or_else(|| "1".into()), b.unwrap_or_else(|| "2".into()));
                format!("f\"{{{a}}}-{{{b} + 1}}\"")
            }
            10 => {
                let (a, b) = (self.expression(&Type::Int, d), self.expression(&Type::Str, d));
                format!("\"{{}}/{{}}\".format({a}, {b})")
            }
            _ => self.contained(&Type::Str, d).unwrap_or_else(|| self.expression(&Type::Str, 0)),
        }
    }

    fn slice(&mut self, depth: usize) -> String {
        let mut bound = || match self.chance(60) {
            true => self.expression(&Type::Int, depth.min(1)),
            false => String::new(),
        };
        let (start, stop) = (bound(), bound());
        match self.rng.below(4) {
            0 => format!("[{start}:{stop}:{}]", 1 + self.rng.below(3)),
            _ => format!("[{start}:{stop}]"),
        }
    }

    /// Returns something that has a length.
    fn sequence(&mut self, depth: usize) -> String {
        let ty = match self.rng.below(4) {
            0 => Type::Str,
            1 => Type::Dict(Box::new(Type::Str), Box::new(Type::Int)),
            2 => Type::list(Type::Str),
            _ => Type::list(Type::Int),
        };
        self.expression(&ty, depth)
    }

    fn list(&mut self, item: &Type, depth: usize) -> String {
        let d = depth - 1;
        let list = Type::list(item.clone());
        let is_sortable = matches!(item, Type::Int | Type::Str | Type::Float);
        match self.rng.below(12) {
            0..=2 => {
                let n = 1 + self.rng.below(3);
                let items: Vec<String> = (0..n).map(|_| self.kept(item, d)).collect();
                format!("[{}]", items.join(", "))
            }
            3 => format!("({}){}", self.expression(&list, d), self.slice(d)),
            4 => {
                let (a, b) = (self.expression(&list, d), self.expression(&list, d));
                format!("({a} + {b})")
            }
            5 if is_sortable => format!("sorted({})", self.expression(&list, d)),
            6 if *item == Type::Int => format!("list(range(({}) % 5))", self.expression(&Type::Int, d)),
            6 if *item == Type::Str => {
                let by = self.rng.pick(&["\",\"", "\" \"", "\"a\""]);
                format!("({}).split({by})", self.expression(&Type::Str, d))
            }
            7 if matches!(item, Type::Int | Type::Str) => {
                let value = self.rng.pick(&[Type::Int, Type::Str]);
                match self.variable(&Type::Dict(Box::new(item.clone()), Box::new(value)), false) {
                    Some(dict) => format!("list({dict}.keys())"),
                    None => self.expression(&list, 0),
                }
            }
            8..=9 if *item != Type::Tensor => self.comprehension(item, d),
            10 => format!("(({}) * {})", self.expression(&list, d), self.rng.below(3)),
            _ => self.contained(&list, d).unwrap_or_else(|| self.expression(&list, 0)),
        }
    }

    fn comprehension(&mut self, item: &Type, depth: usize) -> String {
        let from = self.rng.pick(&[Type::Int, Type::Str, Type::Int]);
        let (name, before) = (self.name("c"), self.variables.len());
        let (list, of) = match (&from, self.rng.below(3)) {
            (Type::Int, 0) => (format!("range(({}) % 4)", self.expression(&Type::Int, depth)), Type::Int),
            _ => (self.expression(&Type::list(from.clone()), depth), from),
        };
        self.variables.push(super::Variable { name: name.clone(), ty: of, is_writable: false });
        let made = self.kept(item, depth);
        let test = match self.dialect == Dialect::Python && self.chance(30) {
            true => format!(" if {}", self.expression(&Type::Bool, depth)),
            false => String::new(),
        };
        self.variables.truncate(before);
        format!("[{made} for {name} in {list}{test}]")
    }

    fn dict(&mut self, key: &Type, value: &Type, depth: usize) -> String {
        let d = depth - 1;
        match self.rng.below(3) {
            0 => {
                let (name, before) = (self.name("c"), self.variables.len());
                let range = self.rng.below(5);
                let variable = super::Variable { name: name.clone(), ty: Type::Int, is_writable: false };
                self.variables.push(variable);
                let (key, made) = (self.key(key, d), self.kept(value, d));
                self.variables.truncate(before);
                format!("{{{key}: {made} for {name} in range({range})}}")
            }
            1 => {
                let ty = Type::Dict(Box::new(key.clone()), Box::new(value.clone()));
                match self.variable(&ty, false) {
                    Some(name) => format!("{name}.copy()"),
                    None => self.plain(&ty),
                }
            }
            _ => {
                let n = 1 + self.rng.below(3);
                let entries: Vec<String> = (0..n)
                    .map(|_| {
                        let key = self.key(key, d);
                        format!("{key}: {}", self.kept(value, d))
                    })
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
        }
    }
}
