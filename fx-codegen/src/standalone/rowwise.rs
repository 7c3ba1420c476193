//! Row-wise operations: calls of functions that are written around the bodies of their rows.

use std::fmt::Write;

use fx_core::rowwise::{RowCall, Rowwise, RowwiseDef, without_leaves};
use fx_core::{Arg, DType, Op, Result, Scalar, TensorType, TypeTree};

use super::layout::{lay_out, lay_out_value};
use super::lower::{Lowering, is_half};
use super::step::Pieces;
use super::table::{number, optional, read, size, text};
use super::value::{Value, View, count};
use crate::kernel::unused;
use crate::native::{pasted, row_stands_alone};

/// The module of kernels with these functions.
pub(super) const MODULE: &str = "rowwise";

/// What an element of a row counts for, beside an addition.
const COST: usize = 8;

/// The functions of a crate that are written around bodies, one for each operation and dtype.
pub(super) struct Functions<D: 'static>(Vec<(&'static D, DType, String)>);

impl<D> Default for Functions<D> {
    fn default() -> Self {
        Functions(Vec::new())
    }
}

impl<D> Functions<D> {
    /// Returns the name of the function of an operation of this name.
    pub(super) fn name(&mut self, def: &'static D, name: &str, dtype: DType) -> String {
        let is_that = |known: &&(&'static D, DType, String)| std::ptr::eq(known.0, def) && known.1 == dtype;
        if let Some((_, _, name)) = self.0.iter().find(is_that) {
            return name.clone();
        }
        // Operations of several crates may have one name.
        let mut name = format!("{name}_{dtype}");
        while self.0.iter().any(|known| known.2 == name) {
            name.push('_');
        }
        self.0.push((def, dtype, name.clone()));
        name
    }

    /// Returns the text of their module, which begins with this head.
    pub(super) fn text(
        &self,
        head: &str,
        write: fn(&mut String, &D, DType, &str) -> std::fmt::Result,
    ) -> String {
        let mut text = head.to_owned();
        for (def, dtype, name) in &self.0 {
            // A string takes everything.
            let _ = write(&mut text, def, *dtype, name);
        }
        text
    }
}

/// Returns the text of the module.
pub(super) fn module(functions: &Functions<RowwiseDef>) -> String {
    functions.text(
        "//! Operations on rows, each of which is computed by itself.\n\nuse super::simd::simd;\nuse super::threads::split;\nuse super::{math, row};\n",
        write_function,
    )
}

fn write_function(text: &mut String, def: &RowwiseDef, dtype: DType, name: &str) -> std::fmt::Result {
    let taken: Vec<&str> = def.operands.iter().chain(def.params).copied().chain(def.out).collect();
    let [n, results, first] = ["n", "results", "first"].map(|name| unused(&taken, name));
    let x = def.operands[0];
    let mut params = format!("{x}: &[{dtype}], {n}: usize");
    let mut others = String::new();
    for (name, optional) in def.operands.iter().zip(def.optional).skip(1) {
        let ty = if *optional { format!("Option<&[{dtype}]>") } else { format!("&[{dtype}]") };
        write!(params, ", {name}: {ty}")?;
        write!(others, ", {name}")?;
    }
    for name in def.params {
        write!(params, ", {name}: {dtype}")?;
        write!(others, ", {name}")?;
    }
    let (unit, part) = match def.out {
        Some(_) => (n.clone(), format!("{results}.len()")),
        None => ("1".to_owned(), format!("{results}.len() * {n}")),
    };
    let rows = match def.out {
        Some(out) => format!(
            "for ({x}, {out}) in {x}.chunks_exact({n}.max(1)).zip({results}.chunks_exact_mut({n}.max(1))) {}",
            lay_out(&pasted(def.body), 2)
        ),
        None => {
            let [i, result] = ["i", "result"].map(|name| unused(&taken, name));
            format!(
                "for ({i}, {result}) in {results}.iter_mut().enumerate() {{\n            let {x} = &{x}[{i} * {n}..][..{n}];\n            \
                 *{result} = {};\n        }}",
                lay_out_value(&pasted(def.body), 3)
            )
        }
    };
    write!(
        text,
        "\n/// Computes `{}` of rows of `{n}` elements.\npub fn {name}({params}, {results}: &mut [{dtype}]) {{\n    \
         split({n} * {COST}, {unit}, {results}, &mut [(); 0], |{first}, {results}, _| {{\n        \
         {name}_rows(&{x}[{first} * {n}..][..{part}], {n}{others}, {results});\n    }});\n}}\n\n\
         simd! {{\n    fn {name}_rows({params}, {results}: &mut [{dtype}]) {{\n        type T = {dtype};\n        {rows}\n    }}\n}}\n",
        def.name
    )
}

impl Lowering<'_> {
    /// Writes a call of an operation whose row says that it is row-wise; `None` if it is not.
    pub(super) fn rowwise(&mut self, op: Op, args: &[Value], ty: &TypeTree) -> Result<Option<Value>> {
        let (Some(rule), Some(Arg::Leaf(x)), Some(ty)) = (op.rows, args.first(), ty.tensor()) else {
            return Ok(None);
        };
        // Rows of integers are taken in the dtype of the result.
        let from = if x.dtype.is_float() { x.dtype } else { ty.dtype };
        let leaves: Vec<Arg<()>> = args.iter().map(without_leaves).collect();
        let rowwise = rule(&leaves, &TensorType { dtype: from, ..x.ty() });
        let Some(Rowwise { call, axes }) = rowwise.filter(|_| from.is_float()) else { return Ok(None) };
        row_stands_alone(call.def)?;
        let dtype = if is_half(from) { DType::F32 } else { from };
        let rank = x.rank();
        let outer = (0..rank).filter(|axis| !axes.contains(axis));
        let order: Vec<usize> = outer.chain(axes.iter().copied()).collect();
        let others: Vec<View> = args[1..]
            .iter()
            .filter_map(Arg::leaf)
            .map(|view| self.dense(view, dtype))
            .collect::<Result<_>>()?;
        let x = self.dense(&x.permute(&order), dtype)?;
        let n = count(&x.shape[rank - axes.len()..]);
        let shape = if call.reduces() { &ty.shape[..] } else { &x.shape[..] };
        let (view, out) = self.out(dtype, shape);
        let pieces = self.row_args(&call, &x, size(&n), &others, dtype, out);
        let function = self.rowwise.name(call.def, call.def.name, dtype);
        self.call(format!("{MODULE}::{function}"), pieces);
        let view = match call.reduces() {
            true => view,
            false => {
                let mut back = vec![0; rank];
                order.iter().enumerate().for_each(|(i, axis)| back[*axis] = i);
                view.permute(&back)
            }
        };
        self.converted(&view, ty.dtype).map(|view| Some(Arg::Leaf(view)))
    }

    /// Returns a value in row-major order and a dtype.
    fn dense(&mut self, view: &View, dtype: DType) -> Result<View> {
        let view = self.converted(view, dtype)?;
        Ok(self.contiguous(&view))
    }

    fn row_args(
        &self,
        call: &RowCall,
        x: &View,
        n: Pieces,
        others: &[View],
        dtype: DType,
        out: Pieces,
    ) -> Vec<Pieces> {
        let mut pieces = vec![read(x), n];
        let mut others = others.iter();
        for (present, is_optional) in call.present.iter().zip(call.def.optional).skip(1) {
            let other = if *present { others.next().map(read) } else { None };
            pieces.push(if *is_optional { optional(other) } else { other.unwrap_or_default() });
        }
        let params = call.params.iter().take(call.def.params.len());
        pieces.extend(params.map(|x| text(number(Scalar::Float(*x), dtype))));
        pieces.push(out);
        pieces
    }
}
