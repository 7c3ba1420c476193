//! Views against their rules: the elements must lie where the rule of a view says, for numbers and for symbols in
//! their place.

use super::rule::{self, Naming};
use crate::window::Window;
use crate::{Arg, Array, Class, Dim, ErrorKind, Op, Result, Symbol, Tensor, TypeTree, Value, bail, err};

/// How the operands of a view lie in their memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    RowMajor,
    /// The axes in reverse order, and a gap after each element.
    WithGaps,
}

/// Checks where the elements of a result lie.
pub(super) fn check(op: Op, args: &[Value], value: &Value) -> Result<()> {
    if op.windows.is_none() {
        if matches!(op.class, Class::View) {
            bail!(Check, "a view has no rule; name it in the row: `#[class = View(rule)]`");
        }
        return Ok(());
    }
    let types = rule::types(args)?;
    let namings = [None, Some(Naming::Equal), Some(Naming::Distinct)];
    for lie in [Lie::RowMajor, Lie::WithGaps] {
        for naming in namings {
            let mut sizes = Vec::new();
            let types = match naming {
                Some(naming) => types.iter().map(|ty| rule::symbolic(ty, naming, &mut sizes)).collect(),
                None => types.clone(),
            };
            let Ok(Some(ty)) = op.infer(&types) else { continue };
            let lookup = |symbol: &Symbol| rule::value_of(symbol, &sizes);
            check_lying(op, (args, &types), (value, &ty), lie, &lookup)?;
        }
    }
    Ok(())
}

fn check_lying(
    op: Op,
    (args, types): (&[Value], &[TypeTree]),
    (value, ty): (&Value, &TypeTree),
    lie: Lie,
    lookup: &dyn Fn(&Symbol) -> Option<i64>,
) -> Result<()> {
    let mut memory: Vec<Array> = Vec::new();
    let mut windows = Vec::new();
    for (arg, ty) in args.iter().zip(types) {
        let mut types = ty.leaves().into_iter().filter_map(crate::Type::tensor);
        windows.push(arg.try_flat_map(&mut |tensor: &Tensor| {
            let ty = types.next().ok_or_else(|| err!(Check, "an operand has no type"))?;
            let (array, window) = placed(tensor.array()?, memory.len(), &ty.shape, lie)?;
            memory.push(array);
            Ok(Arg::Leaf(window))
        })?);
    }
    let types_are_known =
        windows.iter().flat_map(Arg::leaves).flat_map(|x: &Window| &x.shape).all(Dim::is_known);
    let found = match op.windows_of(&windows, ty) {
        Ok(Some(found)) => found,
        Ok(None) if lie == Lie::RowMajor && types_are_known && matches!(op.class, Class::View) => {
            bail!(Check, "no windows on operands in row-major order")
        }
        Ok(None) => return Ok(()),
        // What is not known is no view.
        Err(error) if error.kind() == ErrorKind::Unresolved => return Ok(()),
        Err(error) => return Err(error),
    };
    let number = |dim: &Dim| {
        let n = dim.eval(lookup)?;
        usize::try_from(n).map_err(|_| err!(Check, "{dim} is {n}"))
    };
    let numbers = |dims: &[Dim]| dims.iter().map(number).collect::<Result<Vec<usize>>>();
    // They are right for other sizes alone.
    if numbers(&found.requires).is_err() {
        return Ok(());
    }
    let (got, expected) = (found.result.leaves(), value.leaves());
    if got.len() != expected.len() {
        bail!(Check, "there are {} windows for {} tensors", got.len(), expected.len());
    }
    for (window, expected) in got.into_iter().zip(expected) {
        let shape = numbers(&window.shape)?;
        let strides: Vec<isize> = numbers(&window.strides)?.into_iter().map(|n| n as isize).collect();
        let offset = if shape.contains(&0) { 0 } else { number(&window.offset)? };
        let memory = memory.get(window.base).ok_or_else(|| err!(Check, "a window is on no operand"))?;
        if !memory.as_strided(&shape, &strides, offset)?.bits_eq(expected.array()?) {
            let (strides, offset) = (&window.strides, &window.offset);
            bail!(Check, "other elements at {offset} with strides {strides:?} on an operand {lie:?}");
        }
    }
    Ok(())
}

/// Returns memory with the elements of an array that lie so, and the window of these sizes on it.
fn placed(array: &Array, base: usize, shape: &[Dim], lie: Lie) -> Result<(Array, Window)> {
    let (numel, rank) = (array.numel(), array.rank());
    if lie == Lie::RowMajor || rank == 0 {
        return Ok((array.reshape(&[numel])?, Window::row_major(base, shape)));
    }
    let order: Vec<usize> = (0..rank).rev().collect();
    let turned = array.permute(&order)?.reshape(&[numel, 1])?;
    let memory = turned.broadcast_to(&[numel, 2])?.reshape(&[2 * numel])?;
    let reversed: Vec<Dim> = shape.iter().rev().cloned().collect();
    let window = Window::row_major(base, &reversed).permute(&order);
    let strides = window.strides.iter().map(|stride| stride * 2).collect();
    Ok((memory, Window { strides, ..window }))
}
