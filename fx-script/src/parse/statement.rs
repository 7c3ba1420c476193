//! Statements, functions and classes.

use std::sync::Arc;

use fx_core::Result;

use super::{Parser, expression_within};
use crate::ast::{
    BinaryOp, ClassDef, Expr, ExprKind, Function, Item, Member, Parameter, Sequence, Stmt, StmtKind,
};
use crate::lex::Token;
use crate::source::Span;

impl Parser<'_> {
    /// Parses the items of a file up to its end.
    pub(super) fn items(&mut self) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        loop {
            match self.token() {
                Token::End => return Ok(items),
                Token::Newline => self.advance(),
                Token::Indent => {
                    return Err(self.error(self.span(), "a line is indented, but belongs to no block"));
                }
                Token::Op("@") | Token::Keyword("def" | "class") => {
                    let decorators = self.decorators()?;
                    items.push(match self.token() {
                        Token::Keyword("class") => Item::Class(self.class(decorators)?),
                        _ => Item::Function(Arc::new(self.function(decorators)?)),
                    });
                }
                _ => {
                    let mut statements = Vec::new();
                    self.statement(&mut statements)?;
                    items.extend(statements.into_iter().map(Item::Statement));
                }
            }
        }
    }

    fn decorators(&mut self) -> Result<Vec<Expr>> {
        let mut decorators = Vec::new();
        while self.take_op("@") {
            decorators.push(self.expression()?);
            if !self.take(Token::Newline) {
                return Err(self.unexpected("the end of the line"));
            }
        }
        Ok(decorators)
    }

    fn class(&mut self, decorators: Vec<Expr>) -> Result<ClassDef> {
        self.expect_keyword("class")?;
        let span = self.span();
        let name = self.name("the name of a class")?;
        let mut base = None;
        if self.take_op("(") && !self.take_op(")") {
            base = Some(self.expression()?);
            if self.take_op(",") && self.token() != Token::Op(")") {
                let message = "a class with several bases is not part of TorchScript";
                return Err(self.error(self.span(), message));
            }
            self.expect_op(")")?;
        }
        self.expect_op(":")?;
        let mut body = Vec::new();
        if !self.take(Token::Newline) {
            let mut statements = Vec::new();
            self.simple_line(&mut statements)?;
            body.extend(statements.into_iter().map(Member::Statement));
        } else if self.take(Token::Indent) {
            while !self.take(Token::Dedent) {
                match self.token() {
                    Token::Op("@") | Token::Keyword("def") => {
                        let decorators = self.decorators()?;
                        body.push(Member::Method(Arc::new(self.function(decorators)?)));
                    }
                    Token::Keyword("class") => {
                        let message = "a class inside of a class is not part of TorchScript";
                        return Err(self
                            .error(self.span(), message)
                            .help("define it at the top of the file"));
                    }
                    _ => {
                        let mut statements = Vec::new();
                        self.statement(&mut statements)?;
                        body.extend(statements.into_iter().map(Member::Statement));
                    }
                }
            }
        }
        Ok(ClassDef { name, base, body, decorators, span })
    }

    fn function(&mut self, decorators: Vec<Expr>) -> Result<Function> {
        self.expect_keyword("def")?;
        let span = self.span();
        let name = self.name("the name of a function")?;
        self.expect_op("(")?;
        let mut parameters = self.parameters()?;
        let mut returns = if self.take_op("->") { Some(self.expression()?) } else { None };
        self.expect_op(":")?;
        let head = self.previous().end;
        let first = self.at
            + usize::from(self.token() == Token::Newline)
            + usize::from(self.after() == Token::Indent);
        let body_start = self.tokens[first.min(self.tokens.len() - 1)].1.end;
        if let Some(comment) = self.type_comment(head, body_start) {
            self.apply_type_comment(comment, &mut parameters, &mut returns)?;
        }
        let body = self.block()?;
        Ok(Function { name, parameters, returns, body, decorators, span })
    }

    fn parameters(&mut self) -> Result<Vec<Parameter>> {
        let mut parameters: Vec<Parameter> = Vec::new();
        let mut keyword_only = false;
        while !self.take_op(")") {
            let span = self.span();
            if self.take_op("*") {
                if keyword_only || self.token() != Token::Op(",") {
                    return Err(self
                        .error(span, "'*args' is not part of TorchScript")
                        .help("a list takes any number of values"));
                }
                keyword_only = true;
            } else if matches!(self.token(), Token::Op("**" | "/")) {
                return Err(self
                    .error(span, &format!("'{}' among parameters is not part of TorchScript", self.text())));
            } else {
                let name = self.name("the name of a parameter")?;
                if parameters.iter().any(|other| other.name == name) {
                    return Err(self.error(span, &format!("the parameter '{name}' is there twice")));
                }
                let annotation = if self.take_op(":") { Some(self.expression()?) } else { None };
                let default = if self.take_op("=") { Some(self.expression()?) } else { None };
                parameters.push(Parameter { name, annotation, default, keyword_only, span });
            }
            if !self.take_op(",") && self.token() != Token::Op(")") {
                return Err(self.unexpected("',' or ')'"));
            }
        }
        Ok(parameters)
    }

    /// Returns the type comment that begins in a range of bytes.
    fn type_comment(&self, start: u32, end: u32) -> Option<Span> {
        let first = self.type_comments.partition_point(|comment| comment.start < start);
        self.type_comments.get(first).copied().filter(|comment| comment.start < end)
    }

    /// Types a function by the comment `# type: (int, float) -> Tensor`.
    fn apply_type_comment(
        &self,
        comment: Span,
        parameters: &mut [Parameter],
        returns: &mut Option<Expr>,
    ) -> Result<()> {
        let text = self.source.slice(comment);
        let Some(arrow) = text.rfind("->") else {
            return Err(self.error(comment, "expected a type comment '(A, B) -> R'"));
        };
        let arrow = comment.start + arrow as u32;
        let types = expression_within(self.source, Span { start: comment.start, end: arrow }, self.depth)?;
        let types = match types.kind {
            ExprKind::Paren(inner) => vec![*inner],
            ExprKind::Tuple(items, _) => items.items,
            _ => return Err(self.error(comment, "expected a type comment '(A, B) -> R'")),
        };
        // A method's comment leaves `self` out.
        let skipped = parameters.len().saturating_sub(types.len());
        if types.len() > parameters.len() || skipped > 1 {
            let message =
                format!("a type comment has {} types for {} parameters", types.len(), parameters.len());
            return Err(self.error(comment, &message));
        }
        for (parameter, annotation) in parameters[skipped..].iter_mut().zip(types) {
            parameter.annotation = Some(annotation);
        }
        let result = Span { start: arrow + 2, end: comment.end };
        *returns = Some(expression_within(self.source, result, self.depth)?);
        Ok(())
    }

    /// Parses the block after a colon: indented lines, or statements on the same line.
    fn block(&mut self) -> Result<Vec<Stmt>> {
        let mut body = Vec::new();
        if !self.take(Token::Newline) {
            self.simple_line(&mut body)?;
            return Ok(body);
        }
        if !self.take(Token::Indent) {
            return Err(self.unexpected("an indented block").help("a block without statements is 'pass'"));
        }
        while !self.take(Token::Dedent) {
            self.nested(|parser| parser.statement(&mut body))?;
        }
        Ok(body)
    }

    /// Parses a compound statement or a line of simple ones.
    fn statement(&mut self, out: &mut Vec<Stmt>) -> Result<()> {
        let span = self.span();
        let Token::Keyword(word) = self.token() else { return self.simple_line(out) };
        let kind = match word {
            "if" => self.conditional()?,
            "while" => {
                self.advance();
                let test = self.expression()?;
                let body = self.suite()?;
                StmtKind::While(test, body, self.otherwise()?)
            }
            "for" => {
                self.advance();
                let target = self.targets()?;
                self.expect_keyword("in")?;
                let values = self.expression_list()?;
                let body = self.suite()?;
                StmtKind::For(target, values, body, self.otherwise()?)
            }
            "with" => self.with()?,
            "def" => StmtKind::Function(Arc::new(self.function(Vec::new())?)),
            "try" | "except" | "finally" | "async" | "class" | "global" | "nonlocal" => {
                return Err(self.error(span, &format!("'{word}' here is not part of TorchScript")));
            }
            _ => return self.simple_line(out),
        };
        out.push(Stmt { kind, span });
        Ok(())
    }

    fn suite(&mut self) -> Result<Vec<Stmt>> {
        self.expect_op(":")?;
        self.block()
    }

    fn otherwise(&mut self) -> Result<Option<Vec<Stmt>>> {
        if self.take_keyword("else") { Ok(Some(self.suite()?)) } else { Ok(None) }
    }

    fn conditional(&mut self) -> Result<StmtKind> {
        self.advance();
        let test = self.expression()?;
        let then = self.suite()?;
        let span = self.span();
        let otherwise = if self.token() == Token::Keyword("elif") {
            let kind = self.nested(Parser::conditional)?;
            Some(vec![Stmt { kind, span }])
        } else {
            self.otherwise()?
        };
        Ok(StmtKind::If(test, then, otherwise))
    }

    fn with(&mut self) -> Result<StmtKind> {
        self.advance();
        let mut managers = Vec::new();
        loop {
            let manager = self.expression()?;
            let target = if self.take_keyword("as") { Some(self.expression()?) } else { None };
            managers.push((manager, target));
            if !self.take_op(",") {
                break;
            }
        }
        Ok(StmtKind::With(managers, self.suite()?))
    }

    /// Parses `a; b; c` up to the end of the line.
    fn simple_line(&mut self, out: &mut Vec<Stmt>) -> Result<()> {
        loop {
            out.push(self.simple()?);
            let semicolon = self.take_op(";");
            let line_end = self.span().start;
            if self.take(Token::Newline) || self.token() == Token::End {
                let comment = self.type_comment(self.previous_code_end(), line_end);
                if let Some(comment) = comment {
                    self.annotate_last(out, comment)?;
                }
                return Ok(());
            }
            if !semicolon {
                return Err(self.unexpected("the end of the line"));
            }
        }
    }

    /// Returns where the token before the line end that was just taken ends.
    fn previous_code_end(&self) -> u32 {
        self.tokens[self.at.saturating_sub(2)].1.end
    }

    /// Types an assignment by the comment `# type: List[int]`.
    fn annotate_last(&self, out: &mut [Stmt], comment: Span) -> Result<()> {
        if let Some(Stmt { kind, .. }) = out.last_mut()
            && let StmtKind::Assign(targets, value) = kind
            && let [target] = &targets[..]
        {
            let annotation = expression_within(self.source, comment, self.depth)?;
            *kind = StmtKind::Annotated(target.clone(), annotation, Some(value.clone()));
        }
        Ok(())
    }

    fn simple(&mut self) -> Result<Stmt> {
        let start = self.span();
        let ends = |parser: &Self| matches!(parser.token(), Token::Newline | Token::End | Token::Op(";"));
        let kind = match self.token() {
            Token::Keyword(word @ ("pass" | "break" | "continue")) => {
                self.advance();
                match word {
                    "pass" => StmtKind::Pass,
                    "break" => StmtKind::Break,
                    _ => StmtKind::Continue,
                }
            }
            Token::Keyword("return") => {
                self.advance();
                StmtKind::Return(if ends(self) { None } else { Some(self.expression_list()?) })
            }
            Token::Keyword("raise") => {
                self.advance();
                let value = if ends(self) { None } else { Some(self.expression()?) };
                if self.take_keyword("from") {
                    self.expression()?;
                }
                StmtKind::Raise(value)
            }
            Token::Keyword("assert") => {
                self.advance();
                let test = self.expression()?;
                StmtKind::Assert(test, if self.take_op(",") { Some(self.expression()?) } else { None })
            }
            Token::Keyword("del") => {
                self.advance();
                let mut targets = vec![self.expression()?];
                while self.take_op(",") && !ends(self) {
                    targets.push(self.expression()?);
                }
                StmtKind::Delete(targets)
            }
            Token::Keyword("import" | "from") => self.import()?,
            _ => self.assignment()?,
        };
        Ok(Stmt { kind, span: start.to(self.previous()) })
    }

    fn import(&mut self) -> Result<StmtKind> {
        let mut words: Vec<Arc<str>> = Vec::new();
        while !matches!(self.token(), Token::Newline | Token::End | Token::Op(";")) {
            words.push(self.text().into());
            self.advance();
        }
        Ok(StmtKind::Import(words))
    }

    fn assignment(&mut self) -> Result<StmtKind> {
        let first = self.expression_list()?;
        if self.take_op(":") {
            self.check_target(&first)?;
            let annotation = self.expression()?;
            let value = if self.take_op("=") { Some(self.expression_list()?) } else { None };
            return Ok(StmtKind::Annotated(first, annotation, value));
        }
        if let Some(op) = augmented_operator(self.token()) {
            self.check_target(&first)?;
            self.advance();
            return Ok(StmtKind::Augmented(first, op, self.expression_list()?));
        }
        if self.token() != Token::Op("=") {
            return Ok(StmtKind::Expr(first));
        }
        let mut targets = Vec::new();
        let mut value = first;
        while self.take_op("=") {
            self.check_target(&value)?;
            targets.push(value);
            value = self.expression_list()?;
        }
        Ok(StmtKind::Assign(targets, value))
    }

    /// Fails if an expression cannot be assigned to.
    pub(super) fn check_target(&self, target: &Expr) -> Result<()> {
        match &target.kind {
            ExprKind::Name(_) | ExprKind::Attribute(..) | ExprKind::Subscript(..) => Ok(()),
            ExprKind::Paren(inner) | ExprKind::Starred(inner) => self.check_target(inner),
            ExprKind::Tuple(Sequence { items, .. }, _) | ExprKind::List(Sequence { items, .. }) => {
                items.iter().try_for_each(|item| self.check_target(item))
            }
            _ => Err(self
                .error(target.span, "cannot assign to this expression")
                .help("a target is a name, an attribute, an item, or several of them")),
        }
    }
}

fn augmented_operator(token: Token) -> Option<BinaryOp> {
    let Token::Op(op) = token else { return None };
    Some(match op {
        "+=" => BinaryOp::Add,
        "-=" => BinaryOp::Sub,
        "*=" => BinaryOp::Mul,
        "/=" => BinaryOp::Div,
        "//=" => BinaryOp::FloorDiv,
        "%=" => BinaryOp::Mod,
        "**=" => BinaryOp::Pow,
        "@=" => BinaryOp::MatMul,
        "&=" => BinaryOp::And,
        "|=" => BinaryOp::Or,
        "^=" => BinaryOp::Xor,
        "<<=" => BinaryOp::LeftShift,
        ">>=" => BinaryOp::RightShift,
        _ => return None,
    })
}
