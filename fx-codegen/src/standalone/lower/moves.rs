//! Values that the row itself tells: views by the rule of their windows, moves by numbered elements, and what is
//! computed without operands.

use fx_core::array::checked_numel;
use fx_core::window::Window;
use fx_core::{Arg, Array, DType, Dim, Op, Result, Scalar, Tensor, Type, TypeTree, bail, err};

use super::{Lowering, known};
use crate::standalone::step::Piece;
use crate::standalone::table;
use crate::standalone::value::{Value, View, count};

/// The most elements that are moved by a table of where each comes from.
const MOST_MOVED: usize = 1 << 24;

impl Lowering<'_> {
    /// Computes a view: a window on its operand, or on a copy whose elements follow each other.
    pub(in crate::standalone) fn view(&mut self, op: Op, args: &[Value], ty: &TypeTree) -> Result<Value> {
        if let Some(value) = self.windows(op, args, ty)? {
            return Ok(value);
        }
        let mut args = args.to_vec();
        if let Some(x) = args.first_mut() {
            *x = x.map(&mut |view: &View| self.contiguous(view));
        }
        let value = self.windows(op, &args, ty)?;
        value.ok_or_else(|| err!(Unresolved, "it needs sizes that are known to be equal"))
    }

    /// Computes windows by the rule of a view; `None` if the elements do not lie in the operands.
    fn windows(&mut self, op: Op, args: &[Value], ty: &TypeTree) -> Result<Option<Value>> {
        let views: Vec<&View> = args.iter().flat_map(Arg::leaves).collect();
        let mut base = 0..;
        let mut window = |view: &View| view.window(base.next().unwrap_or_default());
        let args: Vec<Arg<Window>> = args.iter().map(|arg| arg.map(&mut window)).collect();
        let Some(found) = op.windows_of(&args, ty)? else { return Ok(None) };
        found.requires.into_iter().for_each(|dim| self.require(dim));
        Ok(Some(found.result.map(&mut |window: &Window| views[window.base].at(window))))
    }

    /// Takes elements by a table of where each comes from, which the row makes of numbered elements. Where the
    /// result has a zero, nothing is taken.
    pub(in crate::standalone) fn moved(&mut self, op: Op, args: &[Value], ty: &TypeTree) -> Result<Value> {
        let views: Vec<View> = args.iter().flat_map(Arg::leaves).cloned().collect();
        let dtype = ty.leaves().into_iter().find_map(Type::tensor).map(|ty| ty.dtype);
        let Some(dtype) = dtype.filter(|_| !views.is_empty()) else {
            bail!(Unresolved, "it has no tensor");
        };
        let mut numbered = Vec::new();
        let mut n = 0;
        for view in &views {
            let shape = known(&view.shape)?;
            let count = checked_numel(&shape)?;
            let numbers = (n as i64 + 1..=(n + count) as i64).collect::<Vec<i64>>();
            n += count;
            if n > MOST_MOVED {
                bail!(Limit, "it moves {n} elements by a table, which may have {MOST_MOVED}");
            }
            numbered.push(Array::from_vec(numbers, &shape)?);
        }
        let from = match &views[..] {
            [only] => self.contiguous(only),
            _ => self.joined(&views, dtype, n)?,
        };
        let eval = |cast: fn(&Array) -> Array| {
            let mut numbered = numbered.iter().map(|numbers| Tensor::new(cast(numbers)));
            let mut next = |_: &View| Ok(numbered.next().map_or(Arg::None, Arg::Leaf));
            let values = args.iter().map(|arg| arg.try_flat_map(&mut next)).collect::<Result<Vec<_>>>()?;
            let result = (op.eval)(&values)?;
            match result.leaves().into_iter().find_map(Tensor::error) {
                Some(error) => Err(error.clone()),
                None => Ok(result),
            }
        };
        // Some rows take floats only, which count as far as there may be elements.
        let result = eval(Array::clone).or_else(|_| eval(|numbers| numbers.cast(DType::F64)))?;
        result.try_flat_map(&mut |tensor| {
            let numbers = tensor.array()?.cast(DType::I64).contiguous()?;
            let shape: Vec<Dim> = numbers.shape().iter().map(|&n| Dim::from(n)).collect();
            let positions =
                numbers.to_vec::<i64>()?.into_iter().map(|number| number - 1).collect::<Vec<i64>>();
            let has_zeros = positions.contains(&-1);
            let positions = self.constant("positions", Tensor::from_vec(positions, numbers.shape()))?;
            let out = self.buffer(from.dtype, &shape);
            let mut pieces = vec![vec![Piece::Read(from.clone())], vec![Piece::Read(positions)]];
            if has_zeros {
                pieces.push(vec![Piece::Text(table::number(Scalar::Int(0), from.dtype))]);
            }
            pieces.push(vec![Piece::WriteView(out.clone())]);
            self.call(if has_zeros { "copy::take_or" } else { "copy::take" }, pieces);
            self.converted(&out, dtype).map(Arg::Leaf)
        })
    }

    /// Puts the elements of values behind each other.
    fn joined(&mut self, views: &[View], dtype: DType, n: usize) -> Result<View> {
        let joined = self.buffer(dtype, &[Dim::from(n)]);
        let mut offset = Dim::new(0);
        for view in views {
            let dense = self.converted(view, dtype)?;
            let to = View { offset: offset.clone(), ..View::whole(joined.home, dtype, &view.shape) };
            offset += count(&view.shape);
            self.copy(&dense, &to);
        }
        Ok(joined)
    }

    /// Keeps what an operation without operands computes.
    pub(super) fn evaluated(&mut self, op: Op, args: &[Value]) -> Result<Value> {
        let none = &mut |_: &View| bail!(Graph, "an operand was not expected");
        let args = args.iter().map(|arg| arg.try_flat_map(none)).collect::<Result<Vec<_>>>()?;
        (op.eval)(&args)?.try_flat_map(&mut |tensor: &Tensor| {
            let n = tensor.array()?.numel();
            if n > MOST_MOVED {
                bail!(Limit, "it makes {n} elements, of which a crate keeps {MOST_MOVED}");
            }
            self.constant(op.name, tensor.clone()).map(Arg::Leaf)
        })
    }
}
