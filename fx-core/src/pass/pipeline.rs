//! Pipelines as text: `normalize, cse, fuse(max=64), repeat(simplify, dead_code)`.
//!
//! ```text
//! pipeline = [ step { "," step } ]
//! step     = "repeat" "(" pipeline ")" | name [ "(" [ key "=" value { "," key "=" value } ] ")" ]
//! value    = integer | float | true | false | word | "text"
//! ```

use super::{Pass, Passes};
use crate::node::Literal;
use crate::op::Default as OptionDefault;
use crate::{Arg, Result, bail, err};

/// How deep `repeat` may be nested.
const MAX_NESTING: usize = 16;

impl Passes {
    /// Reads a pipeline; names are looked up in `known`. Fails if the text is no pipeline, or names an
    /// unknown pass or option.
    pub fn parse(text: &str, known: &[Pass]) -> Result<Passes> {
        let mut parser = Parser { text, at: 0, known };
        let passes = parser.pipeline(0)?;
        parser.space();
        if parser.at < text.len() {
            return Err(parser.error("a comma or the end"));
        }
        Ok(passes)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    known: &'a [Pass],
}

impl Parser<'_> {
    fn pipeline(&mut self, depth: usize) -> Result<Passes> {
        let mut passes = Passes::new();
        if depth > MAX_NESTING {
            bail!(Limit, "repeat is nested deeper than {MAX_NESTING} levels");
        }
        loop {
            self.space();
            if passes.is_empty() && matches!(self.peek(), None | Some(')')) {
                return Ok(passes);
            }
            let name = self.word("the name of a pass")?.to_owned();
            if name == "repeat" {
                self.expect('(')?;
                let inner = self.pipeline(depth + 1)?;
                self.expect(')')?;
                passes = passes.repeat(inner);
            } else {
                let Some(pass) = self.known.iter().find(|pass| pass.name == name).copied() else {
                    let names = self.known.iter().map(|pass| pass.name);
                    return Err(err!(Unresolved, "there is no pass {name:?}")
                        .help(crate::names::suggest(&name, names)));
                };
                let options = self.options(&pass)?;
                passes = passes.add_with(pass, options)?;
            }
            if !self.eat(',') {
                return Ok(passes);
            }
        }
    }

    fn options(&mut self, pass: &Pass) -> Result<Vec<(String, Literal)>> {
        let mut options = Vec::new();
        if !self.eat('(') || self.eat(')') {
            return Ok(options);
        }
        loop {
            self.space();
            let key = self.word("the name of an option")?.to_owned();
            self.expect('=')?;
            options.push((key, self.value(pass)?));
            if self.eat(')') {
                return Ok(options);
            }
            self.expect(',')?;
        }
    }

    fn value(&mut self, pass: &Pass) -> Result<Literal> {
        self.space();
        let rest = &self.text[self.at..];
        if let Some(inner) = rest.strip_prefix('"') {
            let end = inner.find('"').ok_or_else(|| self.error("a closing quote"))?;
            self.at += end + 2;
            return Ok(Arg::str(&inner[..end]));
        }
        let end = rest.find([',', ')', '(']).unwrap_or(rest.len());
        let word = rest[..end].trim();
        if word.is_empty() {
            return Err(self.error(&format!("a value for an option of {}", pass.name)));
        }
        self.at += end;
        Ok(match word {
            "true" => Arg::Bool(true),
            "false" => Arg::Bool(false),
            "none" => Arg::None,
            _ => match (word.parse::<i64>(), word.parse::<f64>()) {
                (Ok(x), _) => Arg::Int(x),
                (_, Ok(x)) => Arg::Float(x),
                _ => Arg::str(word),
            },
        })
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn space(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.at += c.len_utf8();
        }
    }

    fn eat(&mut self, expected: char) -> bool {
        self.space();
        let found = self.peek() == Some(expected);
        if found {
            self.at += expected.len_utf8();
        }
        found
    }

    fn expect(&mut self, expected: char) -> Result<()> {
        if self.eat(expected) { Ok(()) } else { Err(self.error(&format!("`{expected}`"))) }
    }

    fn word(&mut self, what: &str) -> Result<&str> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error(what));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn error(&self, expected: &str) -> crate::Error {
        let got = match self.peek() {
            Some(c) => format!("`{c}`"),
            None => "the end".into(),
        };
        err!(Parse, "expected {expected}, got {got} at column {} of the pipeline", self.at + 1)
            .help("write pipelines as normalize,cse,fuse(max=64)")
    }
}

/// Checks the value of an option against its default, by kind; an integer may be given for a float.
pub(super) fn option_value(pass: &Pass, key: &str, value: Literal) -> Result<Literal> {
    let Some(option) = pass.options.iter().find(|option| option.name == key) else {
        let names: Vec<&str> = pass.options.iter().map(|option| option.name).collect();
        let help = match names.is_empty() {
            true => format!("{} has no options", pass.name),
            false => format!("its options are {}", names.join(", ")),
        };
        return Err(err!(Argument, "the pass {} has no option {key:?}", pass.name).help(help));
    };
    let expected = option.default.to_arg::<std::convert::Infallible>();
    Ok(match (option.default, value) {
        (OptionDefault::Float(_), Arg::Int(x)) => Arg::Float(x as f64),
        (OptionDefault::Str(_), Arg::Int(x)) => Arg::str(x.to_string()),
        (_, value) if expected.kind_name() == value.kind_name() => value,
        (_, value) => bail!(
            Argument,
            "the option {key} of {} is {}, got {}",
            pass.name,
            expected.kind_name(),
            value.kind_name()
        ),
    })
}
