//! Branches, loops, and the exits from them.

use std::sync::Arc;

use fx_core::Result;

use super::function::{BROKEN, EXITED, Emitter, Flow, Meaning, RESULT, RETURNED, Variables};
use super::iterate::Iterated;
use super::names::{Effects, effects};
use super::refine::Facts;
use crate::ast::{Expr, ExprKind, Stmt, StmtKind};
use crate::ir::{Instruction, ValueId};
use crate::source::Span;
use crate::types::{Type, join};

/// The next test of a `while`.
type Test<'t, 'a> = Option<&'t mut dyn FnMut(&mut Emitter<'a>) -> Result<ValueId>>;

impl<'a> Emitter<'a> {
    /// Emits a block. What follows a statement that may exit runs only if it did not.
    pub(super) fn block(&mut self, block: &[Stmt]) -> Result<Flow> {
        for (index, statement) in block.iter().enumerate() {
            let rest = &block[index + 1..];
            if let StmtKind::If(test, then, otherwise) = &statement.kind
                && !rest.is_empty()
            {
                let otherwise = otherwise.as_deref().unwrap_or_default();
                let exits = (always_exits(then), always_exits(otherwise));
                if exits.0 != exits.1 {
                    // What follows belongs to the branch that goes on.
                    self.at(statement.span);
                    return match exits.0 {
                        true => self.conditional(test, &[then], &[otherwise, rest]),
                        false => self.conditional(test, &[then, rest], &[otherwise]),
                    };
                }
            }
            match self.statement(statement)? {
                Flow::Falls => {}
                Flow::Maybe if !rest.is_empty() => {
                    let exited = self.flag(EXITED);
                    return self.branch(exited, &mut |_| Ok(Flow::Exits), &mut |emitter| emitter.block(rest));
                }
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Falls)
    }

    /// Emits blocks one after the other.
    fn blocks(&mut self, blocks: &[&[Stmt]]) -> Result<Flow> {
        let Some((first, rest)) = blocks.split_first() else { return Ok(Flow::Falls) };
        match self.block(first)? {
            Flow::Falls => self.blocks(rest),
            Flow::Maybe if rest.iter().any(|block| !block.is_empty()) => {
                let exited = self.flag(EXITED);
                self.branch(exited, &mut |_| Ok(Flow::Exits), &mut |emitter| emitter.blocks(rest))
            }
            flow => Ok(flow),
        }
    }

    /// Emits an `if`, whose branches are blocks; only one branch, if types decide the condition.
    pub(super) fn conditional(
        &mut self,
        test: &Expr,
        then: &[&[Stmt]],
        otherwise: &[&[Stmt]],
    ) -> Result<Flow> {
        let condition = self.condition(test)?;
        match condition.known {
            Some(true) => {
                self.refine(&condition.when_true);
                return self.blocks(then);
            }
            Some(false) => {
                self.refine(&condition.when_false);
                return self.blocks(otherwise);
            }
            None => {}
        }
        self.branch(
            condition.value,
            &mut |emitter| {
                emitter.refine(&condition.when_true);
                emitter.blocks(then)
            },
            &mut |emitter| {
                emitter.refine(&condition.when_false);
                emitter.blocks(otherwise)
            },
        )
    }

    /// Sets the flags of an exit.
    pub(super) fn exit(&mut self, flag: Option<&str>) -> Flow {
        let yes = self.bool(true);
        self.set(EXITED, yes);
        if let Some(flag) = flag {
            self.set(flag, yes);
        }
        Flow::Exits
    }

    /// Emits `return value`.
    pub(super) fn return_value(&mut self, value: ValueId, span: Span) -> Result<Flow> {
        let value = match self.returns.clone() {
            Some(returns) => self.convert(value, &returns, span, "the result")?,
            None => value,
        };
        let ty = self.ty(value).clone();
        self.returned.push(ty);
        self.set(RESULT, value);
        Ok(self.exit(Some(RETURNED)))
    }

    /// Emits `while test: body`.
    pub(super) fn while_loop(
        &mut self,
        test: &Expr,
        body: &[Stmt],
        otherwise: Option<&[Stmt]>,
    ) -> Result<Flow> {
        let most = self.int(i64::MAX);
        let mut scan = effects(body);
        let endless = matches!(test.inner().kind, ExprKind::Bool(true)) && !scan.breaks;
        let mut next = |emitter: &mut Self| -> Result<ValueId> { Ok(emitter.condition(test)?.value) };
        let start = next(self)?;
        scan.assigned.retain(|name| !name.starts_with('$'));
        self.repeat(
            most,
            start,
            &scan,
            &mut |emitter, _| {
                let (inside, _) = emitter.facts(test)?;
                emitter.refine(&inside);
                emitter.block(body)
            },
            Some(&mut next),
            test.span,
        )?;
        if endless && scan.returns {
            // The loop ends only by `return`.
            self.exit(None);
            return Ok(Flow::Exits);
        }
        if endless {
            return Ok(Flow::Raises);
        }
        if !scan.breaks && !scan.returns {
            let (_, after) = self.facts(test)?;
            self.refine(&after);
        }
        self.loop_else(&scan, otherwise)
    }

    /// Returns what the condition of a loop tells inside of its body and after it, without leaving operations
    /// behind.
    fn facts(&mut self, test: &Expr) -> Result<(Facts, Facts)> {
        let mark = self.builder.mark();
        self.builder.open();
        let before = self.variables.clone();
        let condition = self.condition(test)?;
        self.builder.close(Vec::new());
        self.variables = before;
        self.forget(mark);
        Ok((condition.when_true, condition.when_false))
    }

    /// Forgets the values since a mark, and what is known of them.
    fn forget(&mut self, mark: usize) {
        self.builder.forget(mark);
        let kept = |value: &ValueId| value.index() < mark;
        self.conditions.retain(|value, _| kept(value));
        self.refined.retain(|value, _| kept(value));
        self.ints.retain(|value, _| kept(value));
        self.strings.retain(|value, _| kept(value));
        self.bools.retain(|value, _| kept(value));
        self.operators.retain(|value, _| kept(value));
        self.origins.retain(|value, _| kept(value));
    }

    /// Emits `for target in values: body`.
    pub(super) fn for_loop(
        &mut self,
        target: &Expr,
        values: &Expr,
        body: &[Stmt],
        otherwise: Option<&[Stmt]>,
    ) -> Result<Flow> {
        let iterated = self.iterated(values)?;
        let scan = effects(body);
        if let Some(length) = iterated.known_length() {
            self.unroll(&iterated, target, body, &scan, 0, length)?;
            return self.loop_else(&scan, otherwise);
        }
        let length = self.length(&iterated, values.span)?;
        let start = self.bool(true);
        let mut scan_all = effects(body);
        assigned_by(target, &mut scan_all);
        self.repeat(
            length,
            start,
            &scan_all,
            &mut |emitter, round| {
                let item = emitter.item(&iterated, round, values.span)?;
                emitter.assign(target, item, target.span)?;
                emitter.block(body)
            },
            None,
            values.span,
        )?;
        self.loop_else(&scan, otherwise)
    }

    /// Emits the rounds of a loop whose items are known, one after the other.
    fn unroll(
        &mut self,
        iterated: &Iterated,
        target: &Expr,
        body: &[Stmt],
        scan: &Effects,
        round: usize,
        length: usize,
    ) -> Result<Flow> {
        for round in round..length {
            if scan.breaks || scan.continues || scan.returns {
                self.variables.remove(EXITED);
            }
            let item = self.known_item(iterated, round, target.span)?;
            self.assign(target, item, target.span)?;
            let flow = self.block(body)?;
            if flow == Flow::Raises {
                return Ok(flow);
            }
            if !(scan.breaks || scan.returns) || round + 1 == length {
                continue;
            }
            let left = self.left(scan)?;
            return self.branch(left, &mut |_| Ok(Flow::Falls), &mut |emitter| {
                emitter.unroll(iterated, target, body, scan, round + 1, length)
            });
        }
        Ok(Flow::Falls)
    }

    /// Returns whether a loop was left by `break` or `return`.
    fn left(&mut self, scan: &Effects) -> Result<ValueId> {
        let broken = self.flag(BROKEN);
        if !scan.returns {
            return Ok(broken);
        }
        let returned = self.flag(RETURNED);
        if !scan.breaks {
            return Ok(returned);
        }
        self.operator("aten::__or__", &[broken, returned], Span::default())
    }

    /// Emits the `else` of a loop, and clears the flags that belong to it.
    fn loop_else(&mut self, scan: &Effects, otherwise: Option<&[Stmt]>) -> Result<Flow> {
        let mut flow = if scan.returns { Flow::Maybe } else { Flow::Falls };
        if let Some(otherwise) = otherwise {
            let left = self.left(scan)?;
            let inner =
                self.branch(left, &mut |_| Ok(Flow::Falls), &mut |emitter| emitter.block(otherwise))?;
            if inner != Flow::Falls {
                flow = Flow::Maybe;
            }
            if flow == Flow::Maybe && !scan.returns {
                self.variables.remove(BROKEN);
                return Ok(flow);
            }
        }
        self.variables.remove(BROKEN);
        if scan.returns {
            let returned = self.flag(RETURNED);
            self.set(EXITED, returned);
        } else {
            self.variables.remove(EXITED);
        }
        Ok(flow)
    }

    /// Emits a loop: at most `most` rounds, while `start` and then the test of each round is true.
    ///
    /// Variables that the body assigns are carried. A variable whose type at the end of a round is wider than
    /// at the start widens to the join, and the loop is emitted anew.
    pub(super) fn repeat(
        &mut self,
        most: ValueId,
        start: ValueId,
        scan: &Effects,
        body: &mut dyn FnMut(&mut Self, ValueId) -> Result<Flow>,
        mut test: Test<'_, 'a>,
        span: Span,
    ) -> Result<()> {
        self.variables.remove(EXITED);
        self.variables.remove(BROKEN);
        if scan.breaks {
            let no = self.bool(false);
            self.set(BROKEN, no);
        }
        if scan.returns {
            let returned = self.flag(RETURNED);
            self.set(RETURNED, returned);
            if !self.variables.contains_key(RESULT) {
                let ty = self.returns.clone().unwrap_or(Type::Any);
                let nothing = self.uninitialized(ty);
                self.set(RESULT, nothing);
            }
        }
        let hidden = [(scan.breaks, BROKEN), (scan.returns, RETURNED), (scan.returns, RESULT)];
        let hidden = hidden.iter().filter(|(used, _)| *used).map(|(_, name)| Arc::from(*name));
        let names: Vec<Arc<str>> = scan
            .assigned
            .iter()
            .cloned()
            .chain(hidden)
            .filter(|name| matches!(self.variables.get(name), Some(Meaning::Value(_))))
            .collect();
        let before = self.variables.clone();
        let entry: Vec<ValueId> = names.iter().map(|name| variable(&before, name)).collect();
        let mut types: Vec<Type> = entry.iter().map(|value| self.ty(*value).clone()).collect();
        self.deeper(span)?;
        let (region, after) = loop {
            let mark = self.builder.mark();
            self.builder.open();
            let round = self.builder.param(Type::Int, None);
            for (name, ty) in names.iter().zip(&types) {
                let label = if name.starts_with('$') { None } else { Some(&**name) };
                let value = self.builder.param(ty.clone(), label);
                self.variables.insert(name.clone(), Meaning::Value(value));
            }
            let flow = body(self, round)?;
            let mut ends = Vec::with_capacity(names.len());
            let mut widened = false;
            for (index, name) in names.iter().enumerate() {
                let end = match self.variables.get(name) {
                    Some(Meaning::Value(end)) => *end,
                    Some(Meaning::Absent(why)) => return Err(self.error(span, why)),
                    _ if flow == Flow::Raises => self.uninitialized(types[index].clone()),
                    // A loop inside clears the flag of its own exits, which has the same name.
                    None if **name == *BROKEN => self.bool(false),
                    _ => {
                        let message = format!("'{name}' has no value at the end of a round of the loop");
                        return Err(self.error(span, &message));
                    }
                };
                let ty = self.ty(end).clone();
                if self.is_subtype(&ty, &types[index]) {
                    ends.push(end);
                } else if let Some(converted) = self.implicit(end, &types[index]) {
                    ends.push(converted);
                } else if let Some(joined) = join(&types[index], &ty, &self.unit.classes)
                    && self.widenings > 0
                {
                    self.widenings -= 1;
                    types[index] = joined;
                    widened = true;
                    ends.push(end);
                } else {
                    let message = format!(
                        "'{name}' is {} before the loop and {ty} at the end of a round",
                        types[index]
                    );
                    return Err(self
                        .type_error(span, &message, entry[index])
                        .help("a variable keeps its type in a loop; use another name, or annotate it"));
                }
            }
            if widened {
                self.builder.close(Vec::new());
                self.variables = before.clone();
                self.forget(mark);
                continue;
            }
            let go_on = self.go_on(scan, &mut test)?;
            let mut results = vec![go_on];
            results.extend(ends);
            let region = self.builder.close(results);
            break (region, std::mem::replace(&mut self.variables, before));
        };
        self.depth -= 1;
        let operands: Vec<ValueId> = [most, start].into_iter().chain(entry).collect();
        let results = self.builder.with_regions(Instruction::Loop, operands, types, vec![region]);
        for (name, value) in names.iter().zip(results) {
            if !name.starts_with('$') {
                self.builder.name(value, name);
            }
            self.variables.insert(name.clone(), Meaning::Value(value));
        }
        for name in after.keys() {
            if !self.variables.contains_key(name) && !name.starts_with('$') {
                let why = format!("'{name}' has a value only if the loop ran");
                self.variables.insert(name.clone(), Meaning::Absent(why.into()));
            }
        }
        Ok(())
    }

    /// Returns whether a loop goes on: it was not left, and its test is true.
    fn go_on(&mut self, scan: &Effects, test: &mut Test<'_, 'a>) -> Result<ValueId> {
        if !(scan.breaks || scan.returns) {
            return match test {
                Some(test) => test(self),
                None => Ok(self.bool(true)),
            };
        }
        let left = self.left(scan)?;
        let stays = self.operator("aten::__not__", &[left], Span::default())?;
        let Some(test) = test else { return Ok(stays) };
        let name = "$test";
        self.branch(
            stays,
            &mut |emitter| {
                let value = test(emitter)?;
                emitter.set(name, value);
                Ok(Flow::Falls)
            },
            &mut |emitter| {
                let no = emitter.bool(false);
                emitter.set(name, no);
                Ok(Flow::Falls)
            },
        )?;
        match self.variables.remove(name) {
            Some(Meaning::Value(value)) => Ok(value),
            _ => unreachable!("both branches set the outcome to a bool"),
        }
    }
}

/// Returns whether control never reaches the end of a block because of `return`, `break` or `continue`.
fn always_exits(block: &[Stmt]) -> bool {
    block.iter().any(|statement| match &statement.kind {
        StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue => true,
        StmtKind::If(_, then, Some(otherwise)) => always_exits(then) && always_exits(otherwise),
        _ => false,
    })
}

fn variable(variables: &Variables, name: &str) -> ValueId {
    match variables.get(name) {
        Some(Meaning::Value(value)) => *value,
        _ => unreachable!("only variables with values are carried"),
    }
}

fn assigned_by(target: &Expr, effects: &mut Effects) {
    match &target.kind {
        ExprKind::Name(name) => {
            effects.assigned.insert(name.clone());
        }
        ExprKind::Tuple(items, _) | ExprKind::List(items) => {
            items.items.iter().for_each(|item| assigned_by(item, effects));
        }
        ExprKind::Paren(inner) | ExprKind::Starred(inner) => assigned_by(inner, effects),
        _ => {}
    }
}
