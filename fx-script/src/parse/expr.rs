//! Expressions, by precedence climbing.

use fx_core::Result;

use super::{Parser, expression_within};
use crate::ast::{
    Argument, BinaryOp, CompareOp, Comprehension, ComprehensionKind, ComprehensionLoop, Expr, ExprKind,
    FormatPart, LogicalOp, Parentheses, Sequence, UnaryOp,
};
use crate::lex::{self, Token};
use crate::source::Span;

/// Levels of precedence below those of [`BinaryOp::precedence`].
const OR: u8 = 0;
const AND: u8 = 1;
const NOT: u8 = 2;
const COMPARE: u8 = 3;
const BINARY: u8 = 4;

impl Parser<'_> {
    /// Parses `a, *b, c`: an expression, or a tuple without parentheses.
    pub(super) fn expression_list(&mut self) -> Result<Expr> {
        let first = self.starred()?;
        if self.token() != Token::Op(",") {
            return Ok(first);
        }
        let start = first.span;
        let mut items = vec![first];
        let mut last_comma = false;
        while self.take_op(",") {
            if !self.begins_expression() {
                last_comma = true;
                break;
            }
            items.push(self.starred()?);
        }
        self.make(
            ExprKind::Tuple(Sequence { items, last_comma }, Parentheses::Absent),
            start.to(self.previous()),
        )
    }

    fn begins_expression(&self) -> bool {
        match self.token() {
            Token::Name | Token::Int | Token::Float | Token::Imaginary | Token::Str => true,
            Token::Op(op) => matches!(op, "(" | "[" | "{" | "-" | "+" | "~" | "..." | "*"),
            Token::Keyword(word) => {
                matches!(word, "None" | "True" | "False" | "not" | "lambda" | "await" | "yield")
            }
            Token::Newline | Token::Indent | Token::Dedent | Token::End => false,
        }
    }

    pub(super) fn starred(&mut self) -> Result<Expr> {
        let start = self.span();
        if !self.take_op("*") {
            return self.expression();
        }
        let value = self.nested(|parser| parser.climb(BINARY))?;
        let span = start.to(value.span);
        self.make(ExprKind::Starred(Box::new(value)), span)
    }

    /// Parses an expression with a conditional at the lowest level.
    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(|parser| {
            let value = parser.climb(OR)?;
            match parser.token() {
                Token::Keyword("if") => parser.conditional_of(value),
                Token::Op(":=") => Err(parser.error(parser.span(), "':=' is not part of TorchScript")),
                _ => Ok(value),
            }
        })
    }

    /// Parses what follows the value of a conditional expression.
    fn conditional_of(&mut self, value: Expr) -> Result<Expr> {
        self.expect_keyword("if")?;
        let test = self.climb(OR)?;
        self.expect_keyword("else")?;
        let otherwise = self.expression()?;
        let span = value.span.to(otherwise.span);
        self.make(ExprKind::Conditional(Box::new(test), Box::new(value), Box::new(otherwise)), span)
    }

    /// Parses an expression whose operators bind at least as tightly as `level`.
    ///
    /// Brackets lead here again, so this function and those below it that brackets pass through are small: their
    /// frames are most of the stack that deep code takes.
    fn climb(&mut self, level: u8) -> Result<Expr> {
        let mut left = if level <= NOT && self.token() == Token::Keyword("not") {
            self.negation()?
        } else {
            self.unary()?
        };
        while self.continues(level) {
            left = self.infix(level, left)?;
        }
        Ok(left)
    }

    fn negation(&mut self) -> Result<Expr> {
        let start = self.span();
        self.expect_keyword("not")?;
        let value = self.nested(|parser| parser.climb(NOT))?;
        let span = start.to(value.span);
        self.make(ExprKind::Unary(UnaryOp::Not, Box::new(value)), span)
    }

    /// Whether the next token is an operator between operands that binds at least as tightly as `level`.
    fn continues(&self, level: u8) -> bool {
        let token = self.token();
        match binary_operator(token) {
            Some(op) => op.precedence() + BINARY > level,
            None => {
                level <= COMPARE && self.comparison().is_some()
                    || level <= AND && token == Token::Keyword("and")
                    || level == OR && token == Token::Keyword("or")
            }
        }
    }

    /// Parses an operator that continues an expression, and its right operand.
    fn infix(&mut self, level: u8, left: Expr) -> Result<Expr> {
        let token = self.token();
        if let Some(op) = binary_operator(token) {
            let place = self.span();
            self.advance();
            let right = self.nested(|parser| parser.climb(op.precedence() + BINARY))?;
            return self.binary(op, place, left, right);
        }
        if level <= COMPARE && self.comparison().is_some() {
            return self.compare(left);
        }
        match token {
            Token::Keyword("and") => self.logical(LogicalOp::And, "and", AND + 1, left),
            _ => self.logical(LogicalOp::Or, "or", OR + 1, left),
        }
    }

    fn binary(&self, op: BinaryOp, place: Span, left: Expr, right: Expr) -> Result<Expr> {
        let span = left.span.to(right.span);
        let adjacent = left.span.end == place.start && place.end == right.span.start;
        let sign = match op {
            BinaryOp::Add => 1.0,
            BinaryOp::Sub => -1.0,
            _ => 0.0,
        };
        if adjacent
            && sign != 0.0
            && let ExprKind::Imaginary(imaginary) = right.kind
        {
            let real = match &left.kind {
                ExprKind::Float(real) => Some(*real),
                ExprKind::Unary(UnaryOp::Neg, value) => match value.kind {
                    ExprKind::Float(real) => Some(-real),
                    _ => None,
                },
                _ => None,
            };
            if let Some(real) = real {
                return self.make(ExprKind::Complex(real, sign * imaginary), span);
            }
        }
        self.make(ExprKind::Binary(op, Box::new(left), Box::new(right)), span)
    }

    fn logical(&mut self, op: LogicalOp, word: &'static str, level: u8, first: Expr) -> Result<Expr> {
        let mut items = vec![first];
        while self.take_keyword(word) {
            items.push(self.nested(|parser| parser.climb(level))?);
        }
        let span = items[0].span.to(self.previous());
        self.make(ExprKind::Logical(op, items), span)
    }

    fn comparison(&self) -> Option<CompareOp> {
        Some(match self.token() {
            Token::Op("<") => CompareOp::Lt,
            Token::Op("<=") => CompareOp::Le,
            Token::Op(">") => CompareOp::Gt,
            Token::Op(">=") => CompareOp::Ge,
            Token::Op("==") => CompareOp::Eq,
            Token::Op("!=") => CompareOp::Ne,
            Token::Keyword("in") => CompareOp::In,
            Token::Keyword("is") if self.after() == Token::Keyword("not") => CompareOp::IsNot,
            Token::Keyword("is") => CompareOp::Is,
            Token::Keyword("not") if self.after() == Token::Keyword("in") => CompareOp::NotIn,
            _ => return None,
        })
    }

    fn compare(&mut self, first: Expr) -> Result<Expr> {
        let mut rest = Vec::new();
        while let Some(op) = self.comparison() {
            self.advance();
            if matches!(op, CompareOp::IsNot | CompareOp::NotIn) {
                self.advance();
            }
            rest.push((op, self.nested(|parser| parser.climb(BINARY))?));
        }
        let span = first.span.to(self.previous());
        self.make(ExprKind::Compare(Box::new(first), rest), span)
    }

    fn unary(&mut self) -> Result<Expr> {
        let start = self.span();
        let op = match self.token() {
            Token::Op("-") => UnaryOp::Neg,
            Token::Op("+") => UnaryOp::Pos,
            Token::Op("~") => UnaryOp::Invert,
            _ => return self.power(),
        };
        self.advance();
        // The least int has no positive counterpart of 64 bits.
        if op == UnaryOp::Neg && self.token() == Token::Int && lex::integer(self.text()) == Some(1 << 63) {
            self.advance();
            return self.make(ExprKind::Int(i64::MIN), start.to(self.previous()));
        }
        let value = self.nested(Parser::unary)?;
        let span = start.to(value.span);
        self.make(ExprKind::Unary(op, Box::new(value)), span)
    }

    fn power(&mut self) -> Result<Expr> {
        let base = self.postfix()?;
        if !self.take_op("**") {
            return Ok(base);
        }
        let exponent = self.nested(Parser::unary)?;
        let span = base.span.to(exponent.span);
        self.make(ExprKind::Binary(BinaryOp::Pow, Box::new(base), Box::new(exponent)), span)
    }

    fn postfix(&mut self) -> Result<Expr> {
        let mut value = self.atom()?;
        loop {
            let start = value.span;
            let kind = if self.take_op(".") {
                ExprKind::Attribute(Box::new(value), self.name("the name of an attribute")?)
            } else if self.take_op("(") {
                ExprKind::Call(Box::new(value), self.arguments()?)
            } else if self.take_op("[") {
                let index = self.subscript()?;
                self.expect_op("]")?;
                ExprKind::Subscript(Box::new(value), Box::new(index))
            } else {
                return Ok(value);
            };
            value = self.make(kind, start.to(self.previous()))?;
        }
    }

    fn arguments(&mut self) -> Result<Sequence<Argument>> {
        let mut items: Vec<Argument> = Vec::new();
        let mut last_comma = false;
        while !self.take_op(")") {
            if !items.is_empty() && !last_comma {
                return Err(self.unexpected("',' or ')'"));
            }
            if self.token() == Token::Op("**") {
                return Err(self.error(self.span(), "'**' in a call is not part of TorchScript"));
            }
            let name = match (self.token(), self.after()) {
                (Token::Name, Token::Op("=")) => {
                    let name = self.name("a name")?;
                    self.advance();
                    Some(name)
                }
                _ => None,
            };
            let mut value = self.starred()?;
            if name.is_none() && self.token() == Token::Keyword("for") {
                value = self.comprehension(ComprehensionKind::Generator, value, None)?;
            }
            items.push(Argument { name, value });
            last_comma = self.take_op(",");
        }
        Ok(Sequence { items, last_comma })
    }

    fn subscript(&mut self) -> Result<Expr> {
        let first = self.subscript_item()?;
        if self.token() != Token::Op(",") {
            return Ok(first);
        }
        let start = first.span;
        let mut items = vec![first];
        let mut last_comma = false;
        while self.take_op(",") {
            if self.token() == Token::Op("]") {
                last_comma = true;
                break;
            }
            items.push(self.subscript_item()?);
        }
        self.make(
            ExprKind::Tuple(Sequence { items, last_comma }, Parentheses::Absent),
            start.to(self.previous()),
        )
    }

    fn subscript_item(&mut self) -> Result<Expr> {
        let start = self.span();
        let ends = |parser: &Self| matches!(parser.token(), Token::Op(":" | "]" | ","));
        let part = |parser: &mut Self| -> Result<Option<Box<Expr>>> {
            if ends(parser) { Ok(None) } else { Ok(Some(Box::new(parser.starred()?))) }
        };
        let first = part(self)?;
        if !self.take_op(":") {
            return match first {
                Some(first) => Ok(*first),
                None => Err(self.unexpected("an index")),
            };
        }
        let stop = part(self)?;
        let step = if self.take_op(":") { part(self)? } else { None };
        self.make(ExprKind::Slice(first, stop, step), start.to(self.previous()))
    }

    fn atom(&mut self) -> Result<Expr> {
        let start = self.span();
        let text = self.text();
        let kind = match self.token() {
            Token::Name => ExprKind::Name(text.into()),
            Token::Int => match lex::integer(text).and_then(|value| i64::try_from(value).ok()) {
                Some(value) => ExprKind::Int(value),
                None => return Err(self.error(start, &format!("{text} is no int of 64 bits"))),
            },
            Token::Float => ExprKind::Float(lex::float(text)),
            Token::Imaginary => ExprKind::Imaginary(lex::imaginary(text)),
            Token::Str => return self.string(),
            Token::Keyword("None") => ExprKind::None,
            Token::Keyword("True") => ExprKind::Bool(true),
            Token::Keyword("False") => ExprKind::Bool(false),
            Token::Op("...") => ExprKind::Ellipsis,
            Token::Op("(") => return self.parenthesised(),
            Token::Op("[") => return self.list(),
            Token::Op("{") => return self.dict(),
            Token::Keyword(word @ ("lambda" | "await" | "yield")) => {
                return Err(self
                    .error(start, &format!("'{word}' is not part of TorchScript"))
                    .help("write a function with a name"));
            }
            _ => return Err(self.unexpected("an expression")),
        };
        self.advance();
        self.make(kind, start)
    }

    fn parenthesised(&mut self) -> Result<Expr> {
        let start = self.span();
        self.advance();
        if self.take_op(")") {
            let empty = Sequence::new(Vec::new());
            return self.make(ExprKind::Tuple(empty, Parentheses::Written), start.to(self.previous()));
        }
        let first = self.starred()?;
        let is_value = self.token() != Token::Op(",") && !matches!(first.kind, ExprKind::Starred(_));
        let kind = if is_value && self.token() == Token::Keyword("for") {
            self.comprehension(ComprehensionKind::Generator, first, None)?.kind
        } else if is_value {
            ExprKind::Paren(Box::new(first))
        } else {
            let mut items = vec![first];
            while self.take_op(",") && self.token() != Token::Op(")") {
                items.push(self.starred()?);
            }
            ExprKind::Tuple(Sequence::new(items), Parentheses::Written)
        };
        self.expect_op(")")?;
        self.make(kind, start.to(self.previous()))
    }

    fn list(&mut self) -> Result<Expr> {
        let start = self.span();
        self.advance();
        let mut items = Vec::new();
        let mut last_comma = false;
        while !self.take_op("]") {
            if !items.is_empty() && !last_comma {
                return Err(self.unexpected("',' or ']'"));
            }
            let item = self.starred()?;
            if items.is_empty() && self.token() == Token::Keyword("for") {
                let comprehension = self.comprehension(ComprehensionKind::List, item, None)?;
                self.expect_op("]")?;
                return self.make(comprehension.kind, start.to(self.previous()));
            }
            items.push(item);
            last_comma = self.take_op(",");
        }
        self.make(ExprKind::List(Sequence { items, last_comma }), start.to(self.previous()))
    }

    fn dict(&mut self) -> Result<Expr> {
        let start = self.span();
        self.advance();
        let mut entries = Vec::new();
        let mut last_comma = true;
        while !self.take_op("}") {
            if !last_comma {
                return Err(self.unexpected("',' or '}'"));
            }
            let key = self.expression()?;
            if matches!(self.token(), Token::Op("," | "}")) {
                return Err(self
                    .error(start, "sets are not part of TorchScript")
                    .help("use a list or a dictionary"));
            }
            self.expect_op(":")?;
            let value = self.expression()?;
            if entries.is_empty() && self.token() == Token::Keyword("for") {
                let comprehension = self.comprehension(ComprehensionKind::Dict, key, Some(value))?;
                self.expect_op("}")?;
                return self.make(comprehension.kind, start.to(self.previous()));
            }
            entries.push((key, value));
            last_comma = self.take_op(",");
        }
        self.make(ExprKind::Dict(entries), start.to(self.previous()))
    }

    fn comprehension(&mut self, kind: ComprehensionKind, item: Expr, value: Option<Expr>) -> Result<Expr> {
        let start = item.span;
        let mut loops = Vec::new();
        while self.take_keyword("for") {
            let target = self.targets()?;
            self.expect_keyword("in")?;
            let values = self.nested(|parser| parser.climb(OR))?;
            let mut conditions = Vec::new();
            while self.take_keyword("if") {
                conditions.push(self.nested(|parser| parser.climb(OR))?);
            }
            loops.push(ComprehensionLoop { target, values, conditions });
        }
        let comprehension = Comprehension { kind, item, value, loops };
        self.make(ExprKind::Comprehension(Box::new(comprehension)), start.to(self.previous()))
    }

    /// Parses the targets of a `for`, which end before `in`.
    pub(super) fn targets(&mut self) -> Result<Expr> {
        let start = self.span();
        let mut items = Vec::new();
        let mut last_comma = true;
        while last_comma && self.begins_expression() {
            let star = self.span();
            let item = if self.take_op("*") {
                let value = self.nested(Parser::postfix)?;
                let span = star.to(value.span);
                self.make(ExprKind::Starred(Box::new(value)), span)?
            } else {
                self.nested(Parser::postfix)?
            };
            items.push(item);
            last_comma = self.take_op(",");
        }
        let target = match items.len() {
            0 => return Err(self.unexpected("a variable")),
            1 if !last_comma => items.remove(0),
            _ => {
                let items = Sequence { items, last_comma };
                self.make(ExprKind::Tuple(items, Parentheses::Absent), start.to(self.previous()))?
            }
        };
        self.check_target(&target)?;
        Ok(target)
    }

    /// Parses adjacent texts, which are one.
    fn string(&mut self) -> Result<Expr> {
        let start = self.span();
        let mut parts: Vec<FormatPart> = Vec::new();
        let mut has_format = false;
        while self.token() == Token::Str {
            let span = self.span();
            let (_, _, formatted) = lex::string_body(self.text());
            if formatted {
                has_format = true;
                self.format_string(span, &mut parts)?;
            } else {
                let text = lex::string(self.text()).map_err(|message| self.error(span, &message))?;
                push_text(&mut parts, &text);
            }
            self.advance();
        }
        let span = start.to(self.previous());
        if has_format {
            return self.make(ExprKind::Format(parts), span);
        }
        let text = match parts.pop() {
            Some(FormatPart::Text(text)) => text,
            _ => "".into(),
        };
        self.make(ExprKind::Str(text), span)
    }

    fn format_string(&mut self, span: Span, parts: &mut Vec<FormatPart>) -> Result<()> {
        let (body, raw, _) = lex::string_body(self.source.slice(span));
        let offset =
            span.start as usize + (body.as_ptr() as usize - self.source.slice(span).as_ptr() as usize);
        let mut literal = String::new();
        let mut at = 0;
        while let Some(character) = body[at..].chars().next() {
            let next = body[at + character.len_utf8()..].chars().next();
            match (character, next) {
                ('{', Some('{')) | ('}', Some('}')) => {
                    literal.push(character);
                    at += 2;
                }
                ('{', _) => {
                    let text = if raw { literal.clone() } else { self.unescaped(span, &literal)? };
                    push_text(parts, &text);
                    literal.clear();
                    at = self.replacement(span, body, offset, at + 1, parts)?;
                }
                ('}', _) => {
                    let place = Span { start: (offset + at) as u32, end: (offset + at + 1) as u32 };
                    return Err(self.error(place, "a single '}' in an f-string; write '}}'"));
                }
                ('\\', Some(escaped)) => {
                    literal.push(character);
                    literal.push(escaped);
                    at += 1 + escaped.len_utf8();
                }
                _ => {
                    literal.push(character);
                    at += character.len_utf8();
                }
            }
        }
        let text = if raw { literal } else { self.unescaped(span, &literal)? };
        push_text(parts, &text);
        Ok(())
    }

    fn unescaped(&self, span: Span, text: &str) -> Result<String> {
        lex::unescape(text).map_err(|message| self.error(span, &message))
    }

    /// Parses `value!conversion:spec}` from byte `at` of an f-string's body; returns the byte after it.
    fn replacement(
        &mut self,
        span: Span,
        body: &str,
        offset: usize,
        at: usize,
        parts: &mut Vec<FormatPart>,
    ) -> Result<usize> {
        let mut brackets = 0usize;
        let mut quote = None;
        let mut end = None;
        for (index, byte) in body.bytes().enumerate().skip(at) {
            match (quote, byte) {
                (Some(open), _) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'(' | b'[' | b'{') => brackets += 1,
                (None, b'}' | b':') if brackets == 0 => {
                    end = Some(index);
                    break;
                }
                (None, b'!') if brackets == 0 && body.as_bytes().get(index + 1) != Some(&b'=') => {
                    end = Some(index);
                    break;
                }
                (None, b')' | b']' | b'}') => brackets = brackets.saturating_sub(1),
                _ => {}
            }
        }
        let Some(end) = end else { return Err(self.error(span, "a '{' of an f-string is never closed")) };
        let place = Span { start: (offset + at) as u32, end: (offset + end) as u32 };
        let value = self.nested(|parser| {
            if parser.source.slice(place).trim().is_empty() {
                return Err(parser.error(span, "an f-string has an empty value '{}'"));
            }
            expression_within(parser.source, place, parser.depth)
        })?;
        let mut rest = end;
        let mut conversion = None;
        if body.as_bytes()[rest] == b'!' {
            conversion = body[rest + 1..].chars().next().filter(|letter| matches!(letter, 'r' | 's' | 'a'));
            if conversion.is_none() {
                return Err(self.error(span, "the conversion of an f-string is !r, !s or !a"));
            }
            rest += 2;
        }
        let mut spec = "";
        if body.as_bytes().get(rest) == Some(&b':') {
            let length = body[rest..].find('}').unwrap_or(body.len() - rest);
            spec = &body[rest + 1..rest + length];
            rest += length;
            if spec.contains('{') {
                return Err(
                    self.error(span, "a format specification has a value in it; write it as a constant")
                );
            }
        }
        if body.as_bytes().get(rest) != Some(&b'}') {
            return Err(self.error(span, "a '{' of an f-string is never closed"));
        }
        parts.push(FormatPart::Value { value, conversion, spec: spec.into() });
        Ok(rest + 1)
    }
}

/// Appends text to the last part, if that is text.
fn push_text(parts: &mut Vec<FormatPart>, text: &str) {
    if text.is_empty() {
        return;
    }
    match parts.last_mut() {
        Some(FormatPart::Text(last)) => *last = format!("{last}{text}").into(),
        _ => parts.push(FormatPart::Text(text.into())),
    }
}

fn binary_operator(token: Token) -> Option<BinaryOp> {
    let Token::Op(op) = token else { return None };
    Some(match op {
        "+" => BinaryOp::Add,
        "-" => BinaryOp::Sub,
        "*" => BinaryOp::Mul,
        "/" => BinaryOp::Div,
        "//" => BinaryOp::FloorDiv,
        "%" => BinaryOp::Mod,
        "@" => BinaryOp::MatMul,
        "&" => BinaryOp::And,
        "|" => BinaryOp::Or,
        "^" => BinaryOp::Xor,
        "<<" => BinaryOp::LeftShift,
        ">>" => BinaryOp::RightShift,
        _ => return None,
    })
}
