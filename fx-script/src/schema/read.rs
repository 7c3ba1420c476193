//! Reads a line of the table: `aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False) -> Tensor`.

use std::sync::Arc;

use super::{Default, Parameter, Schema};
use crate::types::Type;

/// How results are marked that may be an argument, a view of one, or an item of one.
const ALIASES: &[&str] = &["(a)", "(a!)", "(b)", "(b!)", "(a|", "(a ->", "(*)"];

/// Returns the schema of a line. Fails with the position of what cannot be read.
pub(super) fn schema(line: &str) -> Result<Schema, usize> {
    let mut reader = Reader { rest: line };
    let schema = reader.schema(line);
    schema.ok_or(line.len() - reader.rest.len())
}

struct Reader<'a> {
    rest: &'a str,
}

/// A type with what its place says.
struct Typed {
    declared: Type,
    length: Option<u32>,
    is_written: bool,
}

impl<'a> Reader<'a> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> &'a str {
        let end = self
            .rest
            .find(|character: char| !(character.is_ascii_alphanumeric() || matches!(character, '_' | '.')))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn schema(&mut self, line: &'a str) -> Option<Schema> {
        self.rest = &line[line.find(|c: char| !(c.is_ascii_alphanumeric() || "_.:".contains(c)))?..];
        let full_name: Arc<str> = line[..line.len() - self.rest.len()].into();
        let namespace = full_name.find("::")? + 2;
        let end = full_name[namespace..].find('.').map_or(full_name.len(), |at| namespace + at);
        let name: Arc<str> = full_name[..end].into();
        let mut parameters = Vec::new();
        let mut is_variadic = false;
        let mut keyword_only = false;
        if !self.take("(") {
            return None;
        }
        while !self.take(")") {
            if self.take("...") {
                is_variadic = true;
            } else if self.take("*") {
                keyword_only = true;
            } else {
                parameters.push(self.parameter(keyword_only)?);
            }
            if !self.take(", ") && !self.rest.starts_with(')') {
                return None;
            }
        }
        if !self.take(" -> ") {
            return None;
        }
        let shares_memory = ALIASES.iter().any(|alias| self.rest.contains(alias));
        let mut result_names = Vec::new();
        let returns = self.returns(&mut result_names)?;
        if !self.rest.is_empty() {
            return None;
        }
        Some(Schema { name, full_name, parameters, is_variadic, returns, result_names, shares_memory })
    }

    fn parameter(&mut self, keyword_only: bool) -> Option<Parameter> {
        let typed = self.typed()?;
        self.take(" ");
        let name: Arc<str> = self.word().into();
        let default = if self.take("=") { Some(self.default()?) } else { None };
        let Typed { declared, length, is_written } = typed;
        Some(Parameter { name, declared, length, keyword_only, default, is_written })
    }

    /// Reads a base type with its suffixes: `Tensor(a!)[]?`, `int[2]`, `(str, t)[]`.
    fn typed(&mut self) -> Option<Typed> {
        let mut declared = if self.take("(") {
            let mut items = Vec::new();
            while !self.take(")") {
                items.push(self.typed()?.declared);
                self.take(", ");
            }
            Type::tuple(items)
        } else {
            self.base()?
        };
        let mut length = None;
        let mut is_written = false;
        loop {
            if self.take("?") {
                declared = Type::optional(declared);
            } else if self.take("[") {
                length = self.word().parse().ok();
                self.take("]");
                declared = if declared == Type::Any { Type::AnyList } else { Type::list(declared) };
            } else if self.rest.starts_with('(') {
                let end = self.rest.find(')')?;
                is_written |= self.rest[..end].contains('!');
                self.rest = &self.rest[end + 1..];
            } else {
                return Some(Typed { declared, length, is_written });
            }
        }
    }

    fn base(&mut self) -> Option<Type> {
        let before = self.rest;
        let word = self.word();
        let base = self.named(word);
        if base.is_none() {
            self.rest = before;
        }
        base
    }

    fn named(&mut self, word: &'a str) -> Option<Type> {
        Some(match word {
            "Tensor" => Type::Tensor,
            "int" | "SymInt" | "ScalarType" | "Layout" | "MemoryFormat" | "QScheme" => Type::Int,
            "float" => Type::Float,
            "bool" | "SymBool" => Type::Bool,
            "complex" => Type::Complex,
            "str" => Type::Str,
            "Scalar" | "number" => Type::Number,
            "Device" => Type::Device,
            "Generator" => Type::Generator,
            "Storage" => Type::Storage,
            "Stream" => Type::Stream,
            "NoneType" => Type::None,
            "Any" => Type::Any,
            "AnyEnumType" => Type::AnyEnum,
            "AnyClassType" => Type::AnyClass,
            "Future" | "Await" | "RRef" => {
                self.take("(");
                let item = self.typed()?.declared;
                self.take(")");
                Type::future(item)
            }
            "Dict" => {
                self.take("(");
                let key = self.typed()?.declared;
                self.take(", ");
                let value = self.typed()?.declared;
                self.take(")");
                Type::dict(key, value)
            }
            _ if word.starts_with("__torch__.") => Type::Foreign(word.into()),
            _ if word.starts_with(|first: char| first.is_ascii_lowercase()) => Type::Var(word.into()),
            _ => return None,
        })
    }

    /// Reads the results: one type, or several in parentheses with names. `((str, t)[])` is one result.
    fn returns(&mut self, names: &mut Vec<Arc<str>>) -> Option<Option<Vec<Type>>> {
        if self.take("...") {
            return Some(None);
        }
        if !self.take("(") {
            let result = self.typed()?.declared;
            if self.take(" ") {
                names.push(self.word().into());
            }
            return Some(Some(vec![result]));
        }
        let mut types = Vec::new();
        while !self.take(")") {
            types.push(self.typed()?.declared);
            if self.take(" ") {
                names.push(self.word().into());
            }
            self.take(", ");
        }
        Some(Some(types))
    }

    /// Reads text after its first quotation mark, with escapes.
    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'f' => '\x0c',
                    'v' => '\x0b',
                    other => other,
                }),
                c => text.push(c),
            }
        }
        None
    }

    fn default(&mut self) -> Option<Default> {
        if self.take("[") {
            let mut items = Vec::new();
            while !self.take("]") {
                items.push(self.default()?);
                self.take(", ");
                self.take(",");
            }
            return Some(Default::List(items));
        }
        if self.take("\"") {
            return Some(Default::Str(self.quoted()?.into()));
        }
        let end = self.rest.find([',', ')', ']']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(match word {
            "None" => Default::None,
            "True" => Default::Bool(true),
            "False" => Default::Bool(false),
            _ => match word.parse() {
                Ok(int) => Default::Int(int),
                Err(_) => Default::Float(word.parse().ok()?),
            },
        })
    }
}
