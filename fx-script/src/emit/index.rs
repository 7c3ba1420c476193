//! Subscripts: items and slices of lists, tuples, texts, dictionaries, tensors and modules.

use fx_core::Result;

use super::function::{Emitter, Meaning};
use crate::ast::{Expr, ExprKind};
use crate::ir::{Instruction, ValueId};
use crate::source::Span;
use crate::types::{ClassKind, Type};

/// The number that stands for the dtype `bool` in programs.
const BOOL: i64 = 11;

/// What the index of a tensor gives.
pub(super) enum Indexed {
    /// A view of the tensor.
    View(ValueId),
    /// A view, and the indices of a gather from it.
    Gather { result: ValueId, view: ValueId, indices: ValueId },
}

impl Indexed {
    pub(super) fn value(&self) -> ValueId {
        match self {
            Indexed::View(value) | Indexed::Gather { result: value, .. } => *value,
        }
    }

    /// Returns whether writing to the value leaves the tensor as it is.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self, Indexed::Gather { .. })
    }
}

impl Emitter<'_> {
    /// Emits `container[index]`.
    pub(super) fn subscript(&mut self, container: ValueId, index: &Expr, span: Span) -> Result<Meaning> {
        let ty = self.ty(container).clone();
        match &ty {
            Type::Tensor => Ok(Meaning::Value(self.tensor_index(container, index)?.value())),
            Type::Tuple(items) => self.tuple_item(container, items, index, span),
            Type::NamedTuple(_) => {
                let items = self.field_types(&ty);
                self.tuple_item(container, &items, index, span)
            }
            Type::List(_) | Type::Str | Type::Dict(..) => {
                if let ExprKind::Slice(start, stop, step) = &index.kind {
                    let bounds = [self.bound(start.as_deref(), None)?, self.bound(stop.as_deref(), None)?];
                    let step = self.bound(step.as_deref(), Some(1))?;
                    let value =
                        self.operator("aten::slice", &[container, bounds[0], bounds[1], step], span)?;
                    return Ok(Meaning::Value(value));
                }
                let index = self.value(index)?;
                Ok(Meaning::Value(self.operator("aten::__getitem__", &[container, index], span)?))
            }
            Type::Class(name) => {
                let class = self.unit.classes.get(name).cloned();
                let is_module = class.as_ref().is_some_and(|class| class.kind == ClassKind::Module);
                if is_module && class.as_ref().is_some_and(|class| class.method("__getitem__").is_none()) {
                    return self.module_item(container, index, span);
                }
                let index = self.value(index)?;
                self.call_method(container, "__getitem__", &[index], span)
            }
            other => Err(self.type_error(span, &format!("{other} has no items"), container)),
        }
    }

    fn module_item(&mut self, container: ValueId, index: &Expr, span: Span) -> Result<Meaning> {
        let key = self.value(index)?;
        let name = match (self.ints.get(&key), self.strings.get(&key)) {
            (Some(index), _) => {
                let class = self.unit.classes.of(self.ty(container)).cloned();
                let modules = class.iter().flat_map(|class| &class.attributes);
                let modules: Vec<_> =
                    modules.filter(|slot| matches!(slot.declared, Type::Class(_))).collect();
                let at = if *index < 0 { *index + modules.len() as i64 } else { *index };
                match usize::try_from(at).ok().and_then(|at| modules.get(at)) {
                    Some(slot) => slot.name.clone(),
                    None => {
                        let message =
                            format!("the index {index} is out of range for {} modules", modules.len());
                        return Err(self.error(span, &message));
                    }
                }
            }
            (None, Some(name)) => name.clone(),
            (None, None) => {
                return Err(self
                    .error(index.span, "modules have different types, so their index must be known")
                    .help("use a literal, or loop over the modules"));
            }
        };
        Ok(Meaning::Value(self.attribute_value(container, &name, span)?))
    }

    fn tuple_item(&mut self, tuple: ValueId, items: &[Type], index: &Expr, span: Span) -> Result<Meaning> {
        if let ExprKind::Slice(start, stop, step) = &index.kind {
            let length = items.len() as i64;
            let bound = |emitter: &mut Self, part: &Option<Box<Expr>>, default: i64| -> Result<i64> {
                let Some(part) = part else { return Ok(default) };
                let value = emitter.value(part)?;
                let known = emitter.ints.get(&value).copied();
                known.ok_or_else(|| {
                    emitter.error(part.span, "the bounds of a slice of a tuple must be literals")
                })
            };
            let step = bound(self, step, 1)?;
            if step != 1 {
                return Err(self.error(span, "a slice of a tuple has a step of 1"));
            }
            let clamp = |at: i64| (if at < 0 { at + length } else { at }).clamp(0, length);
            let start = clamp(bound(self, start, 0)?);
            let stop = clamp(bound(self, stop, length)?);
            let values: Vec<ValueId> = (start..stop)
                .map(|at| self.builder.add(Instruction::Item(at), vec![tuple], items[at as usize].clone()))
                .collect();
            let types = items[start as usize..stop.max(start) as usize].to_vec();
            return Ok(Meaning::Value(self.builder.add(Instruction::Tuple, values, Type::tuple(types))));
        }
        let key = self.value(index)?;
        let Some(&at) = self.ints.get(&key) else {
            // A tuple of one type can be indexed like a list.
            if let Some(first) = items.first()
                && items.iter().all(|item| item == first)
            {
                let values = self.unpack(tuple, span)?;
                let list = self.builder.add(Instruction::List, values, Type::list(first.clone()));
                return Ok(Meaning::Value(self.operator("aten::__getitem__", &[list, key], span)?));
            }
            return Err(self.error(
                index.span,
                "the items of a tuple have different types, so its index must be a literal",
            ));
        };
        let length = items.len() as i64;
        let place = if at < 0 { at + length } else { at };
        match usize::try_from(place).ok().and_then(|place| items.get(place)) {
            Some(item) => {
                Ok(Meaning::Value(self.builder.add(Instruction::Item(at), vec![tuple], item.clone())))
            }
            None => {
                Err(self
                    .error(span, &format!("the index {at} is out of range for a tuple of {length} items")))
            }
        }
    }

    fn bound(&mut self, part: Option<&Expr>, default: Option<i64>) -> Result<ValueId> {
        match (part, default) {
            (Some(part), _) => {
                let value = self.value(part)?;
                self.convert(value, &Type::optional(Type::Int), part.span, "a bound of a slice")
            }
            (None, Some(default)) => Ok(self.int(default)),
            (None, None) => Ok(self.none()),
        }
    }

    /// Emits the index of a tensor as PyTorch does: `select`, `slice` and `unsqueeze`, then `index` for tensors.
    pub(super) fn tensor_index(&mut self, tensor: ValueId, index: &Expr) -> Result<Indexed> {
        let items: Vec<&Expr> = match &index.kind {
            ExprKind::Tuple(items, _) => items.items.iter().collect(),
            _ => vec![index],
        };
        let span = index.span;
        let ellipsis = items.iter().position(|item| matches!(item.inner().kind, ExprKind::Ellipsis));
        let (values, widths) = self.index_values(&items, ellipsis)?;
        let mut view = tensor;
        // What is left for `index`: an entry for each axis before the ellipsis, and after it.
        let mut entries: [Vec<Option<ValueId>>; 2] = [Vec::new(), Vec::new()];
        for (place, item) in items.iter().enumerate() {
            let is_behind = ellipsis.is_some_and(|ellipsis| place > ellipsis);
            let own = &mut entries[usize::from(is_behind)];
            if matches!(item.inner().kind, ExprKind::Ellipsis) {
                if ellipsis != Some(place) {
                    return Err(self.error(item.span, "an index has two ellipses"));
                }
                continue;
            }
            let front = own.len() as i64;
            if let (Some(value), Some(_)) = (values[place], widths[place]) {
                let is_list = matches!(self.ty(value), Type::List(_));
                let tensor =
                    if is_list { self.operator("aten::tensor", &[value], item.span)? } else { value };
                own.push(Some(tensor));
                continue;
            }
            // After an ellipsis, axes count from behind.
            let at = if is_behind { self.axis_from_behind(&widths[place..], span)? } else { self.int(front) };
            match (&item.inner().kind, values[place]) {
                (ExprKind::Slice(start, stop, step), _) => {
                    let start = self.bound(start.as_deref(), None)?;
                    let stop = self.bound(stop.as_deref(), None)?;
                    let step = self.bound(step.as_deref(), Some(1))?;
                    view = self.operator("aten::slice", &[view, at, start, stop, step], span)?;
                    entries[usize::from(is_behind)].push(None);
                }
                (_, Some(value)) if *self.ty(value) == Type::Int => {
                    view = self.operator("aten::select", &[view, at, value], span)?;
                }
                _ => {
                    view = self.operator("aten::unsqueeze", &[view, at], span)?;
                    entries[usize::from(is_behind)].push(None);
                }
            }
        }
        let [front, mut behind] = entries;
        if front.iter().chain(&behind).all(Option::is_none) {
            return Ok(Indexed::View(view));
        }
        if behind.iter().all(Option::is_none) {
            behind.clear();
        }
        let mut indices = self.index_entries(&front, behind.is_empty());
        if !behind.is_empty() {
            // As many axes in between as the tensor has more than both sides index.
            let mut between = self.operator("aten::dim", &[view], span)?;
            for entry in front.iter().chain(&behind) {
                let width = match entry {
                    Some(tensor) => self.index_width(*tensor, span)?,
                    None => self.int(1),
                };
                between = self.operator("aten::sub", &[between, width], span)?;
            }
            let none = self.index_entries(&[None], false);
            let skipped = self.operator("aten::mul", &[none, between], span)?;
            let behind = self.index_entries(&behind, true);
            indices = self.operator("aten::add", &[indices, skipped], span)?;
            indices = self.operator("aten::add", &[indices, behind], span)?;
        }
        let result = self.operator("aten::index", &[view, indices], span)?;
        Ok(Indexed::Gather { result, view, indices })
    }

    /// Emits the values of the items of an index, but of slices, and for each item the number of axes that it
    /// takes: `None` if it is one, or a new axis. Behind an ellipsis, these numbers place the items.
    #[allow(clippy::type_complexity, reason = "the two columns of one table")]
    fn index_values(
        &mut self,
        items: &[&Expr],
        ellipsis: Option<usize>,
    ) -> Result<(Vec<Option<ValueId>>, Vec<Option<ValueId>>)> {
        let (mut values, mut widths) = (Vec::new(), Vec::new());
        for (place, item) in items.iter().enumerate() {
            let is_literal =
                matches!(item.inner().kind, ExprKind::Ellipsis | ExprKind::None | ExprKind::Slice(..));
            if is_literal {
                values.push(None);
                widths.push(None);
                continue;
            }
            let value = self.value(item)?;
            let is_behind = ellipsis.is_some_and(|ellipsis| place > ellipsis);
            let width = match self.ty(value).clone() {
                Type::Int | Type::None => None,
                Type::Tensor if is_behind => Some(self.index_width(value, item.span)?),
                Type::Tensor | Type::Optional(_) | Type::List(_) => Some(self.int(1)),
                other => {
                    let message = format!("an index expected int, slice, None or a tensor, got {other}");
                    return Err(self.type_error(item.span, &message, value));
                }
            };
            values.push(if *self.ty(value) == Type::None { None } else { Some(value) });
            widths.push(width);
        }
        Ok((values, widths))
    }

    /// Emits the number of axes that a tensor indexes: a mask indexes as many as it has.
    fn index_width(&mut self, tensor: ValueId, span: Span) -> Result<ValueId> {
        let one = self.int(1);
        if *self.ty(tensor) != Type::Tensor {
            return Ok(one);
        }
        let (dtype, mask) = (self.operator("prim::dtype", &[tensor], span)?, self.int(BOOL));
        let is_mask = self.operator("aten::eq", &[dtype, mask], span)?;
        let is_mask = self.operator("aten::Int", &[is_mask], span)?;
        let rank = self.operator("aten::dim", &[tensor], span)?;
        let more = self.operator("aten::sub", &[rank, one], span)?;
        let more = self.operator("aten::mul", &[is_mask, more], span)?;
        self.operator("aten::add", &[more, one], span)
    }

    /// Emits the axis, counted from behind, of the first of the items of an index that are the last.
    fn axis_from_behind(&mut self, widths: &[Option<ValueId>], span: Span) -> Result<ValueId> {
        let plain = widths.iter().filter(|width| width.is_none()).count() as i64;
        let mut axis = self.int(-plain);
        for width in widths.iter().flatten() {
            axis = self.operator("aten::sub", &[axis, *width], span)?;
        }
        Ok(axis)
    }

    /// Emits a list of indices of `aten::index`; of one that ends with the last axis, those that index nothing are
    /// left out at the end.
    fn index_entries(&mut self, entries: &[Option<ValueId>], is_last: bool) -> ValueId {
        let n = match is_last {
            true => entries.iter().rposition(Option::is_some).map_or(0, |last| last + 1),
            false => entries.len(),
        };
        let values = entries[..n].iter().map(|entry| entry.unwrap_or_else(|| self.none())).collect();
        self.builder.add(Instruction::List, values, Type::list(Type::optional(Type::Tensor)))
    }

    /// Emits `list[start:stop] = items`: the list takes the items before the slice, the new ones, and those
    /// after it.
    fn set_slice(&mut self, list: ValueId, index: &Expr, items: ValueId, span: Span) -> Result<()> {
        let ExprKind::Slice(start, stop, step) = &index.kind else {
            return Err(self.error(span, "expected a slice"));
        };
        if let Some(step) = step {
            return Err(self
                .error(step.span, "a slice with a step cannot be assigned")
                .help("assign its items one by one"));
        }
        let ty = self.ty(list).clone();
        let items = self.convert(items, &ty, span, "what a slice is assigned")?;
        let one = self.int(1);
        let start_at = self.bound(start.as_deref(), Some(0))?;
        let stop_at = self.bound(stop.as_deref(), None)?;
        let none = self.none();
        let before = self.operator("aten::slice", &[list, none, start_at, one], span)?;
        let replaced = self.operator("aten::slice", &[list, start_at, stop_at, one], span)?;
        let n_before = self.operator("aten::len", &[before], span)?;
        let n_replaced = self.operator("aten::len", &[replaced], span)?;
        let rest = self.operator("aten::add", &[n_before, n_replaced], span)?;
        let after = self.operator("aten::slice", &[list, rest, none, one], span)?;
        let whole = self.operator("aten::add", &[before, items], span)?;
        let whole = self.operator("aten::add", &[whole, after], span)?;
        self.operator_results("aten::clear", &[list], &[], span)?;
        self.operator_results("aten::extend", &[list, whole], &[], span)?;
        Ok(())
    }

    /// Emits `container[index] = value`.
    pub(super) fn set_item(
        &mut self,
        container: ValueId,
        index: &Expr,
        value: ValueId,
        span: Span,
    ) -> Result<()> {
        match self.ty(container).clone() {
            Type::Tensor => {
                let indexed = self.tensor_index(container, index)?;
                let like = match &indexed {
                    Indexed::View(view) | Indexed::Gather { view, .. } => *view,
                };
                let value = match self.ty(value) {
                    Type::Tensor => value,
                    _ => {
                        let dtype = self.operator("prim::dtype", &[like], span)?;
                        let device = self.operator("prim::device", &[like], span)?;
                        let named = [("dtype".into(), dtype), ("device".into(), device)];
                        let results = self.operator_results("aten::tensor", &[value], &named, span)?;
                        self.meaning_value(results, span)?
                    }
                };
                match indexed {
                    Indexed::View(view) => self.operator("aten::copy_", &[view, value], span)?,
                    Indexed::Gather { view, indices, .. } => {
                        self.operator("aten::index_put_", &[view, indices, value], span)?
                    }
                };
                Ok(())
            }
            Type::List(_) if matches!(index.kind, ExprKind::Slice(..)) => {
                self.set_slice(container, index, value, span)
            }
            Type::List(_) | Type::Dict(..) => {
                let index = self.value(index)?;
                self.operator_results("aten::_set_item", &[container, index, value], &[], span)?;
                Ok(())
            }
            Type::Class(_) => {
                let index = self.value(index)?;
                self.call_method(container, "__setitem__", &[index, value], span)?;
                Ok(())
            }
            other => {
                Err(self.type_error(span, &format!("the items of {other} cannot be assigned"), container))
            }
        }
    }
}
