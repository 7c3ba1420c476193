//! Subscripts: items and slices of lists, tuples, texts, dictionaries, tensors and modules.

use fx_core::Result;

use super::function::{Emitter, Meaning};
use crate::ast::{Expr, ExprKind};
use crate::ir::{Instruction, ValueId};
use crate::source::Span;
use crate::types::{ClassKind, Type};

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
        let mut view = tensor;
        let mut gathered: Vec<(i64, ValueId)> = Vec::new();
        let mut axis = 0i64;
        let mut after_ellipsis = false;
        for (place, item) in items.iter().enumerate() {
            // After an ellipsis, axes count from behind.
            let at = if after_ellipsis { place as i64 - items.len() as i64 } else { axis };
            match &item.inner().kind {
                ExprKind::Ellipsis if after_ellipsis => {
                    return Err(self.error(item.span, "an index has two ellipses"));
                }
                ExprKind::Ellipsis => after_ellipsis = true,
                ExprKind::None => {
                    let at = self.int(at);
                    view = self.operator("aten::unsqueeze", &[view, at], span)?;
                    axis += 1;
                }
                ExprKind::Slice(start, stop, step) => {
                    let at = self.int(at);
                    let start = self.bound(start.as_deref(), None)?;
                    let stop = self.bound(stop.as_deref(), None)?;
                    let step = self.bound(step.as_deref(), Some(1))?;
                    view = self.operator("aten::slice", &[view, at, start, stop, step], span)?;
                    axis += 1;
                }
                _ => {
                    let value = self.value(item)?;
                    match self.ty(value).clone() {
                        Type::Int => {
                            let at = self.int(at);
                            view = self.operator("aten::select", &[view, at, value], span)?;
                        }
                        Type::None => {
                            let at = self.int(at);
                            view = self.operator("aten::unsqueeze", &[view, at], span)?;
                            axis += 1;
                        }
                        Type::Tensor | Type::List(_) if after_ellipsis => {
                            return Err(self
                                .error(item.span, "a tensor as index after an ellipsis is not supported")
                                .help("write the axes before it as `:`"));
                        }
                        Type::Tensor | Type::Optional(_) => {
                            gathered.push((axis, value));
                            axis += 1;
                        }
                        Type::List(_) => {
                            gathered.push((axis, self.operator("aten::tensor", &[value], item.span)?));
                            axis += 1;
                        }
                        other => {
                            let message =
                                format!("an index expected int, slice, None or a tensor, got {other}");
                            return Err(self.type_error(item.span, &message, value));
                        }
                    }
                }
            }
        }
        if gathered.is_empty() {
            return Ok(Indexed::View(view));
        }
        let last = gathered.iter().map(|(axis, _)| *axis).max().unwrap_or(0);
        let mut values = Vec::new();
        for axis in 0..=last {
            values.push(match gathered.iter().find(|(at, _)| *at == axis) {
                Some((_, value)) => *value,
                None => self.none(),
            });
        }
        let indices = self.builder.add(Instruction::List, values, Type::list(Type::optional(Type::Tensor)));
        let result = self.operator("aten::index", &[view, indices], span)?;
        Ok(Indexed::Gather { result, view, indices })
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
            Type::List(_) if matches!(index.kind, ExprKind::Slice(..)) => Err(self
                .error(span, "a slice of a list cannot be assigned")
                .help("assign its items one by one")),
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
