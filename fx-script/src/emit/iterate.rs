//! What a `for` runs over: ranges, lists, tensors, texts, dictionaries, tuples, lists of modules.

use fx_core::Result;

use super::function::{Emitter, Meaning};
use crate::ast::{Expr, ExprKind};
use crate::ir::{Instruction, ValueId};
use crate::source::Span;
use crate::types::{ClassKind, Type};

/// Something that a `for` runs over.
pub(super) enum Iterated {
    /// The ints of a range: start, stop, step.
    Range(Option<ValueId>, ValueId, Option<ValueId>),
    /// The items of a list, a tensor or a text.
    Items(ValueId),
    /// Items that are known: of a tuple, or of a list of modules.
    Known(Vec<ValueId>),
    /// Items with their numbers from a start.
    Enumerate(Box<Iterated>, Option<ValueId>),
    /// Items of several, as many as the shortest has.
    Zip(Vec<Iterated>),
}

impl Iterated {
    /// Returns how many items there are, if they are emitted one by one.
    pub(super) fn known_length(&self) -> Option<usize> {
        match self {
            Iterated::Known(items) => Some(items.len()),
            Iterated::Enumerate(inner, _) => inner.known_length(),
            Iterated::Zip(parts) => parts.iter().filter_map(Iterated::known_length).min(),
            Iterated::Range(..) | Iterated::Items(_) => None,
        }
    }
}

impl Emitter<'_> {
    /// Emits the expression after `in`.
    pub(super) fn iterated(&mut self, expr: &Expr) -> Result<Iterated> {
        if let ExprKind::Call(callee, arguments) = &expr.inner().kind
            && let Some(name) = callee.as_name()
            && !self.variables.contains_key(name)
            && arguments.items.iter().all(|argument| !matches!(argument.value.kind, ExprKind::Starred(_)))
        {
            let values: Vec<&Expr> = arguments.items.iter().map(|argument| &argument.value).collect();
            match (&**name, &values[..]) {
                ("range", [stop]) => {
                    let stop = self.int_value(stop)?;
                    return Ok(Iterated::Range(None, stop, None));
                }
                ("range", [start, stop]) => {
                    let (start, stop) = (self.int_value(start)?, self.int_value(stop)?);
                    return Ok(Iterated::Range(Some(start), stop, None));
                }
                ("range", [start, stop, step]) => {
                    let (start, stop) = (self.int_value(start)?, self.int_value(stop)?);
                    let step = self.int_value(step)?;
                    return Ok(Iterated::Range(Some(start), stop, Some(step)));
                }
                ("enumerate", [inner]) => {
                    return Ok(Iterated::Enumerate(Box::new(self.iterated(inner)?), None));
                }
                ("enumerate", [inner, start]) => {
                    let inner = Box::new(self.iterated(inner)?);
                    return Ok(Iterated::Enumerate(inner, Some(self.int_value(start)?)));
                }
                ("zip", parts) if !parts.is_empty() => {
                    let parts = parts.iter().map(|part| self.iterated(part)).collect::<Result<_>>()?;
                    return Ok(Iterated::Zip(parts));
                }
                ("reversed", [inner]) => {
                    let list = self.value(inner)?;
                    if !matches!(self.ty(list), Type::List(_)) {
                        return Err(self.type_error(inner.span, "'reversed' expected a list", list));
                    }
                    // Slices of lists have positive steps only.
                    let copy = self.operator("aten::copy", &[list], expr.span)?;
                    self.operator_results("aten::reverse", &[copy], &[], expr.span)?;
                    return Ok(Iterated::Items(copy));
                }
                _ => {}
            }
        }
        let value = self.value(expr)?;
        self.iterated_value(value, expr.span)
    }

    pub(super) fn iterated_value(&mut self, value: ValueId, span: Span) -> Result<Iterated> {
        match self.ty(value).clone() {
            Type::List(_) | Type::Tensor | Type::Str => Ok(Iterated::Items(value)),
            Type::Dict(..) => Ok(Iterated::Items(self.operator("aten::keys", &[value], span)?)),
            Type::Tuple(_) | Type::NamedTuple(_) => Ok(Iterated::Known(self.unpack(value, span)?)),
            Type::Class(name)
                if self.unit.classes.get(&name).is_some_and(|class| class.kind == ClassKind::Module) =>
            {
                let class = self.unit.classes.get(&name).expect("it was just found").clone();
                let mut items = Vec::new();
                for attribute in &class.attributes {
                    if matches!(&attribute.declared, Type::Class(_) | Type::Interface(_)) {
                        items.push(self.attribute_value(value, &attribute.name, span)?);
                    }
                }
                Ok(Iterated::Known(items))
            }
            other => Err(self.type_error(span, &format!("cannot iterate over {other}"), value)),
        }
    }

    /// Returns the number of items, taken once before a loop.
    pub(super) fn length(&mut self, iterated: &Iterated, span: Span) -> Result<ValueId> {
        match iterated {
            Iterated::Range(None, stop, None) => Ok(*stop),
            Iterated::Range(start, stop, step) => {
                let start = start.unwrap_or_else(|| self.int(0));
                let step = step.unwrap_or_else(|| self.int(1));
                self.operator("aten::__range_length", &[start, *stop, step], span)
            }
            Iterated::Items(value) => self.operator("aten::len", &[*value], span),
            Iterated::Known(items) => Ok(self.int(items.len() as i64)),
            Iterated::Enumerate(inner, _) => self.length(inner, span),
            Iterated::Zip(parts) => {
                let lengths = parts.iter().map(|part| self.length(part, span)).collect::<Result<Vec<_>>>()?;
                let list = self.builder.add(Instruction::List, lengths, Type::list(Type::Int));
                self.operator("prim::min", &[list], span)
            }
        }
    }

    /// Returns the item of a round.
    pub(super) fn item(&mut self, iterated: &Iterated, round: ValueId, span: Span) -> Result<Meaning> {
        let value = match iterated {
            Iterated::Range(None, _, None) => round,
            Iterated::Range(start, _, step) => {
                let start = start.unwrap_or_else(|| self.int(0));
                let step = step.unwrap_or_else(|| self.int(1));
                self.operator("aten::__derive_index", &[round, start, step], span)?
            }
            Iterated::Items(value) if *self.ty(*value) == Type::Tensor => {
                let axis = self.int(0);
                self.operator("aten::select", &[*value, axis, round], span)?
            }
            Iterated::Items(value) => self.operator("aten::__getitem__", &[*value, round], span)?,
            Iterated::Known(_) => unreachable!("loops over known items are emitted round by round"),
            Iterated::Enumerate(inner, start) => {
                let number = match start {
                    Some(start) => self.operator("aten::add", &[round, *start], span)?,
                    None => round,
                };
                let item = self.item(inner, round, span)?;
                return Ok(Meaning::Results(vec![number, self.meaning_value(item, span)?]));
            }
            Iterated::Zip(parts) => {
                let mut items = Vec::with_capacity(parts.len());
                for part in parts {
                    let item = self.item(part, round, span)?;
                    items.push(self.meaning_value(item, span)?);
                }
                return Ok(Meaning::Results(items));
            }
        };
        Ok(Meaning::Value(value))
    }

    /// Returns the item of a round that is known.
    pub(super) fn known_item(&mut self, iterated: &Iterated, round: usize, span: Span) -> Result<Meaning> {
        match iterated {
            Iterated::Known(items) => Ok(Meaning::Value(items[round])),
            Iterated::Enumerate(inner, start) => {
                let mut number = self.int(round as i64);
                if let Some(start) = start {
                    number = self.operator("aten::add", &[number, *start], span)?;
                }
                let item = self.known_item(inner, round, span)?;
                Ok(Meaning::Results(vec![number, self.meaning_value(item, span)?]))
            }
            Iterated::Zip(parts) => {
                let mut items = Vec::with_capacity(parts.len());
                for part in parts {
                    let item = self.known_item(part, round, span)?;
                    items.push(self.meaning_value(item, span)?);
                }
                Ok(Meaning::Results(items))
            }
            Iterated::Range(..) | Iterated::Items(_) => {
                let round = self.int(round as i64);
                self.item(iterated, round, span)
            }
        }
    }

    fn int_value(&mut self, expr: &Expr) -> Result<ValueId> {
        let value = self.value(expr)?;
        self.convert(value, &Type::Int, expr.span, "a bound of a range")
    }
}
