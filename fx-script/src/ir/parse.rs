//! Reads programs from text.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Error, Result, SourceLoc, err};

use super::{Constant, Function, Instruction, Operation, Program, Region, ValueId, ValueInfo};
use crate::types::Type;

/// How deep regions and types may be nested.
const MAX_NESTING: usize = 256;

/// The values of one function: more would be no program of a person.
const MAX_VALUES: usize = 1 << 24;

/// Reads a program. Fails at the first character that cannot be read, with its line and column.
pub fn parse(text: &str) -> Result<Program> {
    let mut parser = Parser { text, at: 0, values: HashMap::new(), depth: 0 };
    let mut program = Program::default();
    parser.space();
    while parser.at < text.len() {
        let function = parser.function()?;
        if program.get(&function.name).is_some() {
            return Err(parser.error(format!("the function {:?} is defined twice", function.name)));
        }
        program.insert(function);
        parser.space();
    }
    Ok(program)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    values: HashMap<u32, ValueInfo>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn error(&self, message: impl std::fmt::Display) -> Error {
        let before = &self.text[..self.at];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        let place = SourceLoc::new("script.ir", line as u32, column as u32);
        err!(Parse, "{message}").at(place)
    }

    fn expected(&self, what: &str) -> Error {
        let found: String = self.rest().chars().take(12).collect();
        match found.is_empty() {
            true => self.error(format!("expected {what}, got the end of the text")),
            false => self.error(format!("expected {what}, got {found:?}")),
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(&format!("{token:?}"))) }
    }

    /// A word of letters, digits, and `_:.`.
    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:.".contains(c))).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        self.space();
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len());
        let number = rest[..end].parse().map_err(|_| self.expected(what))?;
        self.at += end;
        Ok(number)
    }

    fn string(&mut self) -> Result<Arc<str>> {
        self.space();
        if !self.rest().starts_with('"') {
            return Err(self.expected("a name in quotation marks"));
        }
        let start = self.at;
        let mut out = String::new();
        let mut chars = self.rest()[1..].char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = start + 1 + at + 1;
                    return Ok(out.into());
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('r') => out.push('\r'),
                    Some('0') => out.push('\0'),
                    Some(c @ ('\\' | '"' | '\'')) => out.push(c),
                    Some('u') => {
                        let code: String =
                            chars.by_ref().map(|(_, c)| c).skip(1).take_while(|&c| c != '}').collect();
                        let c = u32::from_str_radix(&code, 16).ok().and_then(char::from_u32);
                        out.push(c.ok_or_else(|| self.error("a character has no such number"))?);
                    }
                    _ => return Err(self.error("the text has an unknown escape")),
                },
                c => out.push(c),
            }
        }
        Err(self.error("the quotation mark is never closed"))
    }

    fn nested<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(self.error(format!("the text is nested deeper than {MAX_NESTING}")));
        }
        let result = f(self);
        self.depth -= 1;
        result
    }

    fn ty(&mut self) -> Result<Type> {
        self.nested(Self::ty_inner)
    }

    fn ty_inner(&mut self) -> Result<Type> {
        let start = self.at;
        Ok(match self.word() {
            "Any" => Type::Any,
            "Tensor" => Type::Tensor,
            "number" => Type::Number,
            "int" => Type::Int,
            "float" => Type::Float,
            "complex" => Type::Complex,
            "bool" => Type::Bool,
            "str" => Type::Str,
            "NoneType" => Type::None,
            "Device" => Type::Device,
            "Generator" => Type::Generator,
            "Storage" => Type::Storage,
            "Stream" => Type::Stream,
            "list" => Type::AnyList,
            "tuple" => Type::AnyTuple,
            "class" => Type::Class(self.string()?),
            "interface" => Type::Interface(self.string()?),
            "named" => Type::NamedTuple(self.string()?),
            "enum" => Type::Enum(self.string()?),
            "foreign" => Type::Foreign(self.string()?),
            "function" => Type::Function(self.string()?),
            "var" => Type::Var(self.string()?),
            word @ ("Optional" | "List" | "Dict" | "Tuple" | "Union" | "Future") => {
                self.expect("[")?;
                let items = self.separated("]", Self::ty)?;
                match (word, &*items) {
                    ("Optional", [item]) => Type::Optional(Arc::new(item.clone())),
                    ("List", [item]) => Type::list(item.clone()),
                    ("Future", [item]) => Type::future(item.clone()),
                    ("Dict", [key, value]) => Type::dict(key.clone(), value.clone()),
                    ("Tuple", _) => Type::Tuple(items.into()),
                    ("Union", _) => Type::Union(items.into()),
                    _ => return Err(self.error(format!("{word} does not take {} types", items.len()))),
                }
            }
            _ => {
                self.at = start;
                return Err(self.expected("a type"));
            }
        })
    }

    /// Items up to the closing token, with commas between.
    fn separated<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close) {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if self.eat(close) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }

    /// `%3` or `%name.3`.
    fn value(&mut self) -> Result<(ValueId, Option<Arc<str>>)> {
        self.expect("%")?;
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_.".contains(c))).unwrap_or(rest.len());
        let word = &rest[..end];
        let (name, number) = match word.rsplit_once('.') {
            Some((name, number)) => (Some(name.into()), number),
            None => (None, word),
        };
        let number = number.parse().map_err(|_| self.expected("a number of a value"))?;
        self.at += end;
        Ok((ValueId(number), name))
    }

    fn used(&mut self) -> Result<ValueId> {
        Ok(self.value()?.0)
    }

    fn defined(&mut self) -> Result<ValueId> {
        let (id, name) = self.value()?;
        self.expect(":")?;
        let ty = self.ty()?;
        if self.values.insert(id.0, ValueInfo { ty, name }).is_some() {
            return Err(self.error(format!("the value %{} is defined twice", id.0)));
        }
        Ok(id)
    }

    fn function(&mut self) -> Result<Function> {
        self.expect("func")?;
        self.values.clear();
        let name = self.string()?;
        self.expect("(")?;
        let params = self.separated(")", Self::defined)?;
        self.expect("->")?;
        let returns = self.ty()?;
        self.expect("{")?;
        let mut body = Region { params, ..Region::default() };
        while !self.eat("return ") {
            body.operations.push(self.operation()?);
        }
        body.results = vec![self.used()?];
        self.expect("}")?;
        let n = self.values.len();
        let mut values = Vec::with_capacity(n);
        for id in 0..n.min(MAX_VALUES) {
            let info = self.values.remove(&(id as u32));
            values
                .push(info.ok_or_else(|| self.error(format!("the value %{id} is not defined in {name:?}")))?);
        }
        let function = Function { name, values, body, returns };
        super::verify(&function).map_err(|error| self.error(error.message()))?;
        Ok(function)
    }

    fn operation(&mut self) -> Result<Operation> {
        self.space();
        let mut results = Vec::new();
        if self.rest().starts_with('%') {
            loop {
                results.push(self.defined()?);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect("=")?;
        }
        let instruction = self.instruction()?;
        self.expect("(")?;
        let operands = self.separated(")", Self::used)?;
        let mut regions = Vec::new();
        while self.eat("{") {
            regions.push(self.nested(Self::region)?);
        }
        let mut source = None;
        if self.eat("at \"") {
            self.at -= 1;
            let file = self.string()?;
            self.expect(":")?;
            let line = self.number("a line")?;
            self.expect(":")?;
            source = Some(SourceLoc::new(file, line, self.number("a column")?));
        }
        Ok(Operation { instruction, operands, results, regions, source })
    }

    fn region(&mut self) -> Result<Region> {
        self.expect("(")?;
        let params = self.separated(")", Self::defined)?;
        let mut region = Region { params, ..Region::default() };
        while !self.eat("yield") {
            region.operations.push(self.operation()?);
        }
        region.results = self.separated("}", Self::used)?;
        Ok(region)
    }

    fn instruction(&mut self) -> Result<Instruction> {
        let start = self.at;
        Ok(match self.word() {
            "constant" => Instruction::Constant(self.constant()?),
            "function" => Instruction::Function(self.string()?),
            "method" => Instruction::Method(self.string()?),
            "new" => Instruction::New(self.string()?),
            "get" => Instruction::GetAttr(self.string()?),
            "set" => Instruction::SetAttr(self.string()?),
            "tuple" => Instruction::Tuple,
            "named" => Instruction::NamedTuple(self.string()?),
            "list" => Instruction::List,
            "dict" => Instruction::Dict,
            "item" => Instruction::Item(self.number("a place in a tuple")?),
            "unpack" => Instruction::Unpack,
            "isinstance" => {
                let mut types = Vec::new();
                self.space();
                while !self.rest().starts_with('(') {
                    types.push(self.ty()?);
                    self.space();
                }
                Instruction::IsInstance(types)
            }
            "cast" => Instruction::Cast,
            "uninitialized" => Instruction::Uninitialized,
            "if" => Instruction::If,
            "loop" => Instruction::Loop,
            "fork" => Instruction::Fork,
            name if name.contains("::") => Instruction::Call(name.into()),
            _ => {
                self.at = start;
                return Err(self.expected("an instruction"));
            }
        })
    }

    fn float(&mut self) -> Result<f64> {
        if self.eat("nan ") {
            return Ok(f64::from_bits(self.number("the bits of a NaN")?));
        }
        self.number("a float")
    }

    fn constant(&mut self) -> Result<Constant> {
        self.space();
        if self.rest().starts_with('"') {
            return Ok(Constant::Str(self.string()?));
        }
        for (word, constant) in
            [("None", Constant::None), ("true", Constant::Bool(true)), ("false", Constant::Bool(false))]
        {
            if self.eat(word) {
                return Ok(constant);
            }
        }
        if self.eat("complex ") {
            return Ok(Constant::Complex(self.float()?, self.float()?));
        }
        if self.eat("device ") {
            return Ok(Constant::Device(self.string()?));
        }
        if self.eat("enum ") {
            return Ok(Constant::Enum(self.string()?, self.string()?));
        }
        if self.eat("stored ") {
            return Ok(Constant::Stored(self.string()?));
        }
        let start = self.at;
        if let Ok(int) = self.number("an integer") {
            return Ok(Constant::Int(int));
        }
        self.at = start;
        self.float().map(Constant::Float)
    }
}
