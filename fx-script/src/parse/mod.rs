//! The parser: tokens to the syntax tree of [`crate::ast`].
//!
//! It accepts what `torch.jit.save` writes and what users write. Recursion is bounded by [`MAX_NESTING`], so
//! that no text overflows the stack. `statement` has statements and definitions, `expr` expressions.

mod expr;
mod statement;

use std::sync::Arc;

use fx_core::logging::{self, Stage};
use fx_core::{Error, ErrorKind, Result};

use crate::ast::{Expr, ExprKind, File, MAX_NESTING};
use crate::lex::{self, Token, Tokens};
use crate::print;
use crate::source::{Source, Span};

/// Parses a file: classes, functions and statements.
///
/// Fails if the text is no TorchScript; the error has file, line, column and a caret.
pub fn file(source: &Arc<Source>) -> Result<File> {
    let tokens = lex::tokens(source)?;
    logging::dump(Stage::Lex, source.name(), |level| lex::listing(source, &tokens, level > 1))?;
    let items = Parser::new(source, tokens).items()?;
    let file = File { source: source.clone(), items };
    logging::dump(Stage::Parse, source.name(), |level| match level {
        1 => print::file(&file),
        _ => format!("{:#?}", file.items),
    })?;
    Ok(file)
}

/// Parses a text that is one expression.
///
/// Fails if it is none.
pub fn expression(source: &Source) -> Result<Expr> {
    let whole = Span { start: 0, end: source.text().len() as u32 };
    expression_within(source, whole, 0)
}

/// Parses a part of a text that is one expression, such as a value of an f-string, at some depth.
fn expression_within(source: &Source, part: Span, depth: u32) -> Result<Expr> {
    let mut parser = Parser::new(source, lex::tokens_within(source, part)?);
    parser.depth = depth;
    let expr = parser.expression_list()?;
    parser.take(Token::Newline);
    match parser.token() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("the end of the expression")),
    }
}

struct Parser<'a> {
    source: &'a Source,
    tokens: Vec<(Token, Span)>,
    type_comments: Vec<Span>,
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn new(source: &'a Source, tokens: Tokens) -> Self {
        Parser { source, tokens: tokens.tokens, type_comments: tokens.type_comments, at: 0, depth: 0 }
    }

    fn token(&self) -> Token {
        self.tokens[self.at].0
    }

    fn after(&self) -> Token {
        self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    fn span(&self) -> Span {
        self.tokens[self.at].1
    }

    /// Returns the place of the token before the next one.
    fn previous(&self) -> Span {
        self.tokens[self.at.saturating_sub(1)].1
    }

    fn text(&self) -> &'a str {
        self.source.slice(self.span())
    }

    /// Goes to the next token; [`Token::End`] is never passed.
    fn advance(&mut self) {
        if self.token() != Token::End {
            self.at += 1;
        }
    }

    fn take(&mut self, token: Token) -> bool {
        let found = self.token() == token;
        if found {
            self.advance();
        }
        found
    }

    fn take_op(&mut self, text: &'static str) -> bool {
        self.take(Token::Op(text))
    }

    fn take_keyword(&mut self, text: &'static str) -> bool {
        self.take(Token::Keyword(text))
    }

    fn expect_op(&mut self, text: &'static str) -> Result<()> {
        if self.take_op(text) { Ok(()) } else { Err(self.unexpected(&format!("'{text}'"))) }
    }

    fn expect_keyword(&mut self, text: &'static str) -> Result<()> {
        if self.take_keyword(text) { Ok(()) } else { Err(self.unexpected(&format!("'{text}'"))) }
    }

    fn name(&mut self, role: &str) -> Result<Arc<str>> {
        if self.token() != Token::Name {
            return Err(self.unexpected(role));
        }
        let name = self.text().into();
        self.advance();
        Ok(name)
    }

    fn error(&self, span: Span, message: &str) -> Error {
        self.source.error(ErrorKind::Parse, span, message)
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let got = match self.token() {
            Token::End => "the end of the text".to_owned(),
            Token::Newline => "the end of the line".to_owned(),
            Token::Indent => "a deeper indentation".to_owned(),
            Token::Dedent => "the end of the block".to_owned(),
            _ => format!("'{}'", self.text().chars().take(40).collect::<String>()),
        };
        self.error(self.span(), &format!("expected {wanted}, got {got}"))
    }

    /// Runs a rule one level deeper.
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_NESTING {
            return Err(self.too_deep(self.span()));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn too_deep(&self, span: Span) -> Error {
        let message = format!("the code nests deeper than {MAX_NESTING} levels");
        self.source.error(ErrorKind::Limit, span, &message).help("give parts of the code names")
    }

    /// Makes an expression that is not too high.
    fn make(&self, kind: ExprKind, span: Span) -> Result<Expr> {
        let expr = Expr::new(kind, span);
        if expr.height() > MAX_NESTING { Err(self.too_deep(span)) } else { Ok(expr) }
    }
}
