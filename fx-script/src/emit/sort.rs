//! Sorting of objects by their method `__lt__`: an insertion sort, which is stable, written into the function.

use std::sync::Arc;

use fx_core::Result;

use super::function::{Emitter, Meaning};
use crate::ir::{Instruction, ValueId};
use crate::source::Span;
use crate::types::Type;

impl Emitter<'_> {
    /// Emits `sort` or `sorted` of a list of objects; `None` if it is another call. Fails if their class has no
    /// `__lt__` that returns a bool.
    pub(super) fn sort_of_objects(
        &mut self,
        name: &str,
        positional: &[ValueId],
        named: &[(Arc<str>, ValueId)],
        span: Span,
    ) -> Result<Option<Meaning>> {
        let (true, Some(&list)) = (matches!(name, "aten::sort" | "aten::sorted"), positional.first()) else {
            return Ok(None);
        };
        let Type::List(item) = self.ty(list).clone() else { return Ok(None) };
        if !matches!(*item, Type::Class(_)) {
            return Ok(None);
        }
        let named = named.iter().find(|(name, _)| &**name == "reverse").map(|(_, value)| *value);
        let reverse = match positional.get(1).copied().or(named) {
            Some(reverse) => reverse,
            None => self.bool(false),
        };
        let list = if name == "aten::sorted" { self.operator("aten::list", &[list], span)? } else { list };
        let (n, yes) = (self.operator("aten::len", &[list], span)?, self.bool(true));
        self.builder.open();
        let at = self.builder.param(Type::Int, None);
        self.insert_sorted(list, at, reverse, span)?;
        let round = self.builder.close(vec![yes]);
        self.builder.with_regions(Instruction::Loop, vec![n, yes], [], vec![round]);
        Ok(Some(match name {
            "aten::sorted" => Meaning::Value(list),
            _ => Meaning::Results(Vec::new()),
        }))
    }

    /// Moves the item at a place before all items that come after it in order; those before the place are sorted.
    fn insert_sorted(&mut self, list: ValueId, at: ValueId, reverse: ValueId, span: Span) -> Result<()> {
        let (one, yes) = (self.int(1), self.bool(true));
        let moved = self.operator("aten::__getitem__", &[list, at], span)?;
        self.builder.open();
        let _round = self.builder.param(Type::Int, None);
        let place = self.builder.param(Type::Int, None);
        let before = self.operator("aten::sub", &[place, one], span)?;
        let other = self.operator("aten::__getitem__", &[list, before], span)?;
        let mut sides = Vec::new();
        for (smaller, greater) in [(other, moved), (moved, other)] {
            self.builder.open();
            let less = self.call_method(smaller, "__lt__", &[greater], span)?;
            let less = self.meaning_value(less, span)?;
            if *self.ty(less) != Type::Bool {
                return Err(self.type_error(span, "'__lt__' of what is sorted returns a bool", less));
            }
            sides.push(self.builder.close(vec![less]));
        }
        let goes_before = self.builder.with_regions(Instruction::If, vec![reverse], [Type::Bool], sides)[0];
        self.builder.open();
        self.operator_results("aten::_set_item", &[list, place, other], &[], span)?;
        let shifted = self.builder.close(vec![before]);
        self.builder.open();
        let stays = self.builder.close(vec![place]);
        let sides = vec![shifted, stays];
        let next = self.builder.with_regions(Instruction::If, vec![goes_before], [Type::Int], sides)[0];
        let region = self.builder.close(vec![goes_before, next]);
        let place =
            self.builder.with_regions(Instruction::Loop, vec![at, yes, at], [Type::Int], vec![region])[0];
        self.operator_results("aten::_set_item", &[list, place, moved], &[], span)?;
        Ok(())
    }
}
