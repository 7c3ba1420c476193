//! Sums of products by names of axes: pairs of operands are contracted from left to right, each as one matrix
//! product.

use std::collections::BTreeSet;

use fx_core::op::Flops::{PerOutput, Rule};
use fx_core::op::kind::TensorsType;
use fx_core::{Array, DType, Dim, Op, Result, TensorType, bail, err, functions, kernels};
use smallvec::SmallVec;

use crate::ops::check::type_of;
use crate::ops::compose::Operand;
use crate::ops::flops;
use crate::ops::infer::{axis, expect_same};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[EINSUM, CONTRACTIONS];

functions! {
    pub static EINSUM;

    /// The sum of products that `equation` names, such as `"bij,bjk->bik"`: letters are axes, those not in
    /// the result are summed.
    ///
    /// `...` stands for further axes, which broadcast. A letter twice in one operand takes the diagonal.
    /// Integers that are summed without a product are of i64 then, as those of `sum`. Without `->` the result
    /// has the axes of `...` and then the letters that occur once, in alphabetical order. A size of 1
    /// broadcasts.
    #[flops = Rule(flops::einsum)]
    einsum(equation: Str, operands: Tensors) =
        |equation: &str, operands: TensorsType<'_>| named_sum(&operands.known()?, equation),
        |equation: &str, operands: SmallVec<[&Array; 4]>| named_sum(&operands, equation);
}

kernels! {
    /// Contractions of two tensors.
    pub trait Contractions; pub static CONTRACTIONS;

    /// Sums products over the last axis of both: `[.., k], [.., k]` gives the leading axes of `x` and then
    /// those of `other`.
    ///
    /// With an operand of rank 0 it is the product.
    #[flops = Rule(flops::product::<0>)]
    inner(x: Tensor, other: Tensor) = inner_product, inner_product;
    /// The Kronecker product: blocks of `other`, each times an element of `x`. Sizes are products of sizes.
    #[flops = PerOutput(1)]
    kron(x: Tensor, other: Tensor) =
        |x: &TensorType, other: &TensorType| kronecker(x, other), kronecker_array;
}

/// An axis: a letter, or a position of `...` counted from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Rest(usize),
    Letter(char),
}

/// A tensor whose axes have distinct names.
struct Named<V> {
    x: V,
    names: Vec<Name>,
}

impl<V: Operand> Named<V> {
    fn has(&self, name: Name) -> bool {
        self.names.contains(&name)
    }

    fn size(&self, name: Name) -> Option<Dim> {
        Some(self.x.dims()[self.names.iter().position(|&other| other == name)?].clone())
    }

    /// Sums over the axes that `keep` does not want; integers as `sum` does if `widens`.
    fn keeping(self, widens: bool, keep: impl Fn(Name) -> bool) -> Result<Self> {
        let gone: Vec<usize> = (0..self.names.len()).filter(|&i| !keep(self.names[i])).collect();
        let widens = widens && !gone.is_empty() && !self.x.ty().dtype.is_float();
        let x = if widens { self.x.to_dtype(DType::I64)? } else { self.x };
        let x = x.sum_over(&gone, false)?;
        Ok(Named { x, names: self.names.into_iter().filter(|&name| keep(name)).collect() })
    }

    /// Permutes to these names, of which absent ones get an axis of size 1, and reshapes to `sizes`.
    fn lay(&self, names: &[Name], sizes: impl FnOnce(&dyn Fn(Name) -> Dim) -> Vec<Dim>) -> Result<V> {
        let order = names.iter().filter_map(|name| self.names.iter().position(|other| other == name));
        let x = self.x.reorder(&order.collect::<Vec<_>>())?;
        x.arrange(&sizes(&|name| self.size(name).unwrap_or(Dim::new(1))))
    }
}

/// Returns the names of one operand's axes or of the result; `rest` axes are behind `...`.
fn names(text: &str, rest: usize) -> Result<Vec<Name>> {
    let mut out = Vec::new();
    let mut chars = text.chars().filter(|c| !c.is_whitespace());
    let mut seen_rest = false;
    while let Some(c) = chars.next() {
        match c {
            'a'..='z' | 'A'..='Z' => out.push(Name::Letter(c)),
            '.' if !seen_rest && chars.next() == Some('.') && chars.next() == Some('.') => {
                seen_rest = true;
                out.extend((0..rest).rev().map(Name::Rest));
            }
            _ => bail!(Argument, "expected letters and at most one \"...\" for each operand, got {text:?}"),
        }
    }
    Ok(out)
}

fn letters(text: &str) -> usize {
    text.chars().filter(char::is_ascii_alphabetic).count()
}

pub(crate) fn named_sum<V: Operand>(operands: &[&V], equation: &str) -> Result<V> {
    let (inputs, output) = match equation.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (equation, None),
    };
    let inputs: Vec<&str> = inputs.split(',').collect();
    if operands.is_empty() || inputs.len() != operands.len() {
        bail!(Argument, "expected {} operands for {equation:?}, got {}", inputs.len(), operands.len());
    }
    let mut rest = 0;
    let mut all = Vec::new();
    for (&x, text) in operands.iter().zip(&inputs) {
        let (rank, letters) = (x.dims().len(), letters(text));
        let fits = if text.contains('.') { letters <= rank } else { letters == rank };
        if !fits {
            bail!(Shape, "expected an operand with the axes {:?}, got {}", text.trim(), x.ty());
        }
        rest = rest.max(rank - letters);
        all.push(diagonals(x, names(text, rank - letters)?)?);
    }
    let result = match output {
        Some(text) => names(text, rest)?,
        None => implicit(&inputs, rest),
    };
    for (i, name) in result.iter().enumerate() {
        if result[..i].contains(name) {
            bail!(Argument, "an axis appears twice in the result of {equation:?}");
        }
        if !all.iter().any(|x| x.has(*name)) {
            bail!(Argument, "an axis of the result of {equation:?} is in no operand");
        }
    }
    let mut all = all.into_iter();
    let mut left = all.next().ok_or_else(|| err!(Argument, "expected operands"))?;
    let mut later: Vec<Named<V>> = all.collect();
    later.reverse();
    while let Some(right) = later.pop() {
        let keep = |name| result.contains(&name) || later.iter().any(|x| x.has(name));
        left = contract(left, right, true, keep)?;
    }
    let left = left.keeping(true, |name| result.contains(&name))?;
    let order = result.iter().filter_map(|name| left.names.iter().position(|other| other == name));
    left.x.reorder(&order.collect::<Vec<_>>())
}

/// Returns the axes of a result that is not spelled out.
fn implicit(inputs: &[&str], rest: usize) -> Vec<Name> {
    let letters = || inputs.iter().flat_map(|text| text.chars()).filter(char::is_ascii_alphabetic);
    let once: BTreeSet<char> =
        letters().filter(|c| letters().filter(|other| other == c).count() == 1).collect();
    (0..rest).rev().map(Name::Rest).chain(once.into_iter().map(Name::Letter)).collect()
}

/// Takes the diagonal of axes of one name.
fn diagonals<V: Operand>(x: &V, mut names: Vec<Name>) -> Result<Named<V>> {
    let mut x = x.clone();
    while let Some((i, j)) =
        (0..names.len()).flat_map(|j| (0..j).map(move |i| (i, j))).find(|&(i, j)| names[i] == names[j])
    {
        let dims = x.dims();
        expect_same(&dims[i], &dims[j], "the size of a repeated axis")?;
        let args = [fx_core::Arg::Int(0), fx_core::Arg::Int(i as i64), fx_core::Arg::Int(j as i64)];
        x = x.apply(crate::ops::view::diagonal::OP, &args)?;
        let name = names.remove(j);
        names.remove(i);
        names.push(name);
    }
    Ok(Named { x, names })
}

/// Multiplies two tensors and sums over what `keep` does not want.
fn contract<V: Operand>(
    a: Named<V>,
    b: Named<V>,
    widens: bool,
    keep: impl Fn(Name) -> bool,
) -> Result<Named<V>> {
    let one = Dim::new(1);
    // An axis of size 1 on one side only repeats: the other side is summed before.
    let repeats = |x: &Named<V>, other: &Named<V>, name: Name| match (x.size(name), other.size(name)) {
        (Some(size), Some(other)) => other.same(&one).is_yes() && !size.same(&one).is_yes(),
        (_, other) => other.is_none(),
    };
    let gone_a: Vec<Name> =
        a.names.iter().copied().filter(|&name| !keep(name) && repeats(&a, &b, name)).collect();
    let gone_b: Vec<Name> =
        b.names.iter().copied().filter(|&name| !keep(name) && repeats(&b, &a, name)).collect();
    // What one side summed away is an axis of size 1 on the other side.
    let a = a.keeping(widens, |name| !gone_a.contains(&name) && !gone_b.contains(&name))?;
    let b = b.keeping(widens, |name| !gone_a.contains(&name) && !gone_b.contains(&name))?;
    for &name in &a.names {
        if let (Some(x), Some(y)) = (a.size(name), b.size(name))
            && !x.same(&one).is_yes()
            && !y.same(&one).is_yes()
        {
            expect_same(&x, &y, "the size of an axis that operands share")?;
            // A symbol may turn out to be 1, and such an axis repeats.
            if V::is_for_all_sizes() && !x.same(&y).is_yes() {
                bail!(Unresolved, "whether {x} or {y} is 1 is known when it runs");
            }
        }
    }
    let (both, left): (Vec<Name>, Vec<Name>) = a.names.iter().partition(|&&name| b.has(name));
    let (batch, inner): (Vec<Name>, Vec<Name>) = both.iter().partition(|&&name| keep(name));
    let right: Vec<Name> = b.names.iter().copied().filter(|&name| !a.has(name)).collect();
    let names: Vec<Name> = batch.iter().chain(&left).chain(&right).copied().collect();
    if inner.is_empty() {
        let sizes = |size: &dyn Fn(Name) -> Dim| names.iter().map(|&name| size(name)).collect();
        return Ok(Named { x: a.lay(&names, sizes)?.mul(&b.lay(&names, sizes)?)?, names });
    }
    let product = |names: &[Name], size: &dyn Fn(Name) -> Dim| names.iter().map(|&name| size(name)).product();
    let with = |tail: [&[Name]; 2]| [&batch[..], tail[0], tail[1]].concat();
    let x = a.lay(&with([&left, &inner]), |size| {
        batch.iter().map(|&name| size(name)).chain([product(&left, size), product(&inner, size)]).collect()
    })?;
    let y = b.lay(&with([&inner, &right]), |size| {
        batch.iter().map(|&name| size(name)).chain([product(&inner, size), product(&right, size)]).collect()
    })?;
    let dtype = crate::ops::compose::promoted(&[&x, &y]);
    let z = x.to_dtype(dtype)?.matmul(&y.to_dtype(dtype)?)?;
    let outer = left.iter().map(|&name| a.size(name)).chain(right.iter().map(|&name| b.size(name))).flatten();
    let sizes: Vec<Dim> = z.dims().iter().take(batch.len()).cloned().chain(outer).collect();
    Ok(Named { x: z.arrange(&sizes)?, names })
}

/// Contracts pairs of axes; what is left of `x` comes before what is left of `other`. A size of 1 repeats.
pub(crate) fn contracted<V: Operand>(x: &V, other: &V, axes: [&[i64]; 2]) -> Result<V> {
    let position = |x: &V, dims: &[i64]| -> Result<Vec<usize>> {
        let rank = x.dims().len();
        dims.iter().map(|&dim| axis(dim, rank)).collect()
    };
    let (of_x, of_other) = (position(x, axes[0])?, position(other, axes[1])?);
    if of_x.len() != of_other.len() {
        bail!(Argument, "expected as many axes of both tensors, got {} and {}", of_x.len(), of_other.len());
    }
    for (i, (a, b)) in of_x.iter().zip(&of_other).enumerate() {
        if of_x[..i].contains(a) || of_other[..i].contains(b) {
            bail!(Axis, "an axis appears twice among {:?} and {:?}", axes[0], axes[1]);
        }
    }
    let rank = x.dims().len();
    let left: Vec<Name> = (0..rank).map(Name::Rest).collect();
    let right: Vec<Name> = (0..other.dims().len())
        .map(|i| match of_other.iter().position(|&at| at == i) {
            Some(pair) => Name::Rest(of_x[pair]),
            None => Name::Rest(rank + i),
        })
        .collect();
    let summed: Vec<Name> = of_x.iter().map(|&at| Name::Rest(at)).collect();
    let (a, b) = (Named { x: x.clone(), names: left }, Named { x: other.clone(), names: right });
    Ok(contract(a, b, false, |name| !summed.contains(&name))?.x)
}

pub(crate) fn inner_product<V: Operand>(x: &V, other: &V) -> Result<V> {
    if x.dims().is_empty() || other.dims().is_empty() {
        return x.mul(other);
    }
    crate::ops::check::same_dtype("a right operand", x.ty().dtype, other.ty().dtype)?;
    let (a, b) = (x.dims(), other.dims());
    expect_same(&a[a.len() - 1], &b[b.len() - 1], "the last size of both operands")?;
    contracted(x, other, [&[-1], &[-1]])
}

fn kronecker_array(x: &Array, other: &Array) -> Result<Array> {
    let ty = kronecker(&type_of(x), &type_of(other))?;
    let rank = ty.rank();
    let grow = |x: &Array| {
        let missing = std::iter::repeat_n(1, rank - x.rank());
        x.reshape(&missing.chain(x.shape().iter().copied()).collect::<Vec<_>>())
    };
    crate::ops::outer::kronecker(&grow(x)?, &grow(other)?, ty.dtype)
}

fn kronecker<V: Operand>(x: &V, other: &V) -> Result<V> {
    let (a, b) = (x.dims(), other.dims());
    let rank = a.len().max(b.len());
    let one = Dim::new(1);
    let pad = |dims: &[Dim]| -> Vec<Dim> {
        std::iter::repeat_n(one.clone(), rank - dims.len()).chain(dims.iter().cloned()).collect()
    };
    let (a, b) = (pad(&a), pad(&b));
    let outer: Vec<Dim> = a.iter().flat_map(|size| [size.clone(), one.clone()]).collect();
    let inside: Vec<Dim> = b.iter().flat_map(|size| [one.clone(), size.clone()]).collect();
    let sizes: Vec<Dim> = a.iter().zip(&b).map(|(a, b)| a * b).collect();
    x.arrange(&outer)?.mul(&other.arrange(&inside)?)?.arrange(&sizes)
}
