//! Generalised universal functions: calls of functions that are written around the bodies of their blocks.

use std::fmt::Write;

use fx_core::gufunc::{CoreAxis, GufuncDef};
use fx_core::{Arg, DType, Dim, Op, Result, Scalar, TensorType, Type, TypeTree, bail};

use super::layout::lay_out;
use super::lower::{Lowering, is_half};
use super::rowwise::Functions;
use super::step::Pieces;
use super::table::{list, number, optional, read, size, text, wrap};
use super::value::{Value, View, collapse, count};
use crate::kernel::unused;
use crate::native::{gufunc_stands_alone, pasted};

/// The module of kernels with these functions.
pub(super) const MODULE: &str = "blocks";

/// Returns the text of the module.
pub(super) fn module(functions: &Functions<GufuncDef>) -> String {
    functions.text(
        "//! Operations on blocks, each of which is computed by itself.\n\nuse super::simd::simd;\nuse super::threads::split;\nuse super::walk::block_of;\nuse super::{math, row};\n",
        write_function,
    )
}

/// Returns the names of core sizes, each once.
fn sizes(def: &GufuncDef) -> Vec<&'static str> {
    let mut names = Vec::new();
    for axis in def.operands.iter().flat_map(|operand| operand.axes) {
        if let CoreAxis::Named(name) = axis
            && !names.contains(name)
        {
            names.push(*name);
        }
    }
    names
}

/// Writes the number of elements of a block of an operand.
fn length(axes: &[CoreAxis]) -> String {
    match axes {
        [] => "1".to_owned(),
        axes => axes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" * "),
    }
}

fn write_function(text: &mut String, def: &GufuncDef, float: DType, name: &str) -> std::fmt::Result {
    let sizes = sizes(def);
    let operands = def.operands.iter().map(|operand| operand.name);
    let results = def.results.iter().map(|result| result.name);
    let mut taken: Vec<String> = operands
        .chain(results)
        .chain(def.params.iter().copied())
        .chain(sizes.iter().copied())
        .map(str::to_owned)
        .collect();
    let mut name_of = |hint: String| {
        let known: Vec<&str> = taken.iter().map(String::as_str).collect();
        let name = unused(&known, &hint);
        taken.push(name.clone());
        name
    };
    let [loops, n, first, i, at] =
        ["loops", "blocks", "first", "i", "at"].map(|name| name_of(name.to_owned()));
    let (mut params, mut args, mut blocks) = (format!("{loops}: &[usize]"), loops.clone(), String::new());
    for operand in def.operands {
        let (x, ty) = (operand.name, operand.dtype.unwrap_or(float));
        let steps = name_of(format!("{x}_steps"));
        let len = length(operand.axes);
        let call = |x: &str| format!("block_of({x}, {at}, {loops}, {steps}, {len})");
        let (ty, block) = match operand.optional {
            true => (format!("Option<&[{ty}]>"), format!("{x}.map(|{x}| {})", call(x))),
            false => (format!("&[{ty}]"), call(x)),
        };
        write!(params, ", {x}: {ty}, {steps}: &[usize]")?;
        write!(args, ", {x}, {steps}")?;
        writeln!(blocks, "            let {x} = {block};")?;
    }
    for size in &sizes {
        write!(params, ", {size}: usize")?;
        write!(args, ", {size}")?;
    }
    for param in def.params {
        write!(params, ", {param}: {float}")?;
        write!(args, ", {param}")?;
    }
    let (mut outs, mut passed, mut lens) = (String::new(), String::new(), Vec::new());
    for result in def.results {
        let (out, ty) = (result.name, result.dtype.unwrap_or(float));
        let len = name_of(format!("{out}_len"));
        write!(outs, ", {len}: usize, {out}: &mut [{ty}]")?;
        write!(passed, ", {len}, {out}")?;
        writeln!(blocks, "            let {out} = &mut {out}[{i} * {len}..][..{len}];")?;
        writeln!(blocks, "            {out}.fill(Default::default());")?;
        lens.push(len);
    }
    let body = lay_out(&pasted(def.body), 2);
    let body = body.strip_prefix("{\n").and_then(|body| body.strip_suffix('}')).unwrap_or(&body).trim_end();
    let mut work: Vec<String> = def.operands.iter().map(|operand| length(operand.axes)).collect();
    work.retain(|len| len != "1");
    work.push("1".to_owned());
    let work = work.join(" + ");
    let call = match (def.results, &lens[..]) {
        // One result is shared among threads.
        ([result], [len]) => {
            let out = result.name;
            let mut call = String::new();
            if let Some(axis) = def.split {
                // So is one block that may be cut.
                let step = name_of("step".to_owned());
                let mut cut = String::new();
                for operand in
                    def.operands.iter().filter(|operand| operand.axes.first() == Some(&CoreAxis::Named(axis)))
                {
                    let (x, skipped) = (operand.name, format!("{first} * {}", length(&operand.axes[1..])));
                    match operand.optional {
                        true => writeln!(cut, "            let {x} = {x}.map(|{x}| &{x}[{skipped}..]);")?,
                        false => writeln!(cut, "            let {x} = &{x}[{skipped}..];")?,
                    }
                }
                write!(
                    call,
                    "if {n} == 1 {{\n        let {step} = {len} / {axis}.max(1);\n        \
                     return split({COST} * ({work} + {len}) / {axis}.max(1), {step}, {out}, &mut [(); 0], |{first}, {out}, _| {{\n            \
                     let ({axis}, {len}) = ({out}.len() / {step}.max(1), {out}.len());\n{cut}            \
                     {name}_blocks(0, 1, {args}{passed});\n        }});\n    }}\n    "
                )?;
            }
            write!(
                call,
                "split({COST} * ({work} + {len}), {len}, {out}, &mut [(); 0], |{first}, {out}, _| {{\n        \
                 let {n} = {n}.min({out}.len() / {len}.max(1));\n        {name}_blocks({first}, {n}, {args}{passed});\n    }});"
            )?;
            call
        }
        _ => format!("{name}_blocks(0, {n}, {args}{passed});"),
    };
    write!(
        text,
        "\n/// Computes `{}` of blocks.\npub fn {name}({n}: usize, {params}{outs}) {{\n    {call}\n}}\n\n\
         simd! {{\n    fn {name}_blocks({first}: usize, {n}: usize, {params}{outs}) {{\n        type T = {float};\n        \
         for {i} in 0..{n} {{\n            let {at} = {first} + {i};\n{blocks}{body}\n        }}\n    }}\n}}\n",
        def.name
    )
}

/// What an element of a block counts for, beside an addition.
const COST: usize = 4;

impl Lowering<'_> {
    /// Writes a call of a gufunc; `None` if the operation is none.
    pub(super) fn gufunc(&mut self, op: Op, args: &[Value], ty: &TypeTree) -> Result<Option<Value>> {
        let Some(def) = op.gufunc else { return Ok(None) };
        gufunc_stands_alone(def)?;
        let Some(call) = def.call(args) else { bail!(Unresolved, "a parameter is no number") };
        let mut float = DType::F32;
        let mut operands: Vec<Option<View>> = Vec::new();
        for (operand, arg) in def.operands.iter().zip(args) {
            let Arg::Leaf(x) = arg else {
                operands.push(None);
                continue;
            };
            let x = match operand.dtype {
                Some(_) => x.clone(),
                None => {
                    float = if is_half(x.dtype) { DType::F32 } else { x.dtype };
                    self.converted(x, float)?
                }
            };
            let at = x.rank() - operand.axes.len();
            let core = View { shape: x.shape[at..].to_vec(), strides: x.strides[at..].to_vec(), ..x.clone() };
            operands.push(Some(if core.is_contiguous() { x } else { self.contiguous(&x) }));
        }
        let types: Vec<TensorType> = ty.leaves().into_iter().filter_map(Type::tensor).cloned().collect();
        let Some((first, rank)) = types.first().zip(def.results.first().map(|result| result.rank())) else {
            bail!(Unresolved, "it has no result");
        };
        let loops: Vec<Dim> = first.shape[..first.shape.len() - rank].to_vec();
        let core_sizes = self.core_sizes(def, &operands);
        let strides: Vec<Vec<Dim>> = def
            .operands
            .iter()
            .zip(&operands)
            .filter_map(|(operand, x)| Some((x.as_ref()?, operand.axes.len())))
            .map(|(x, core)| {
                let at = x.rank() - core;
                let outer =
                    View { shape: x.shape[..at].to_vec(), strides: x.strides[..at].to_vec(), ..x.clone() };
                outer.broadcast(&loops)
            })
            .collect();
        let (joined, strides) = collapse(&loops, &strides);
        let slice = |dims: &[Dim]| wrap("&", list(dims), "");
        let mut pieces: Vec<Pieces> = vec![size(&count(&loops)), slice(&joined)];
        let mut strides = strides.iter();
        for (operand, x) in def.operands.iter().zip(&operands) {
            let given = x.as_ref().map(read);
            pieces.push(if operand.optional { optional(given) } else { given.unwrap_or_default() });
            let steps = x.as_ref().and_then(|_| strides.next());
            pieces.push(slice(steps.map_or(&[], Vec::as_slice)));
        }
        pieces.extend(core_sizes.iter().map(|(_, n)| size(n)));
        let params = call.params.iter().take(def.params.len());
        pieces.extend(params.map(|x| text(number(Scalar::Float(*x), float))));
        let mut views = Vec::new();
        for (ty, result) in types.iter().zip(def.results) {
            let (view, out) = self.out(result.dtype.unwrap_or(float), &ty.shape);
            pieces.push(size(&count(&ty.shape[ty.shape.len() - result.rank()..])));
            pieces.push(out);
            views.push(view);
        }
        let function = self.gufuncs.name(def, def.name, float);
        self.call(format!("{MODULE}::{function}"), pieces);
        let mut values = Vec::new();
        for (view, ty) in views.iter().zip(&types) {
            values.push(Arg::Leaf(self.converted(view, ty.dtype)?));
        }
        Ok(Some(match ty {
            Arg::Tuple(_) => Arg::tuple(values),
            _ => values.remove(0),
        }))
    }

    /// Returns the core sizes by their names, and requires that operands agree on them.
    fn core_sizes(&mut self, def: &GufuncDef, operands: &[Option<View>]) -> Vec<(&'static str, Dim)> {
        let mut known: Vec<(&'static str, Option<Dim>)> =
            sizes(def).into_iter().map(|name| (name, None)).collect();
        for (operand, x) in def.operands.iter().zip(operands) {
            let Some(x) = x else { continue };
            let at = x.rank() - operand.axes.len();
            for (axis, n) in operand.axes.iter().zip(&x.shape[at..]) {
                let other = match axis {
                    CoreAxis::Known(other) => Some(Dim::from(*other)),
                    CoreAxis::Named(name) => match known.iter_mut().find(|(known, _)| known == name) {
                        Some((_, size)) => size.replace(n.clone()),
                        None => None,
                    },
                };
                if let Some(other) = other.filter(|other| !other.same(n).is_yes()) {
                    self.require(n - &other);
                    self.require(&other - n);
                }
            }
        }
        known.into_iter().map(|(name, size)| (name, size.unwrap_or(Dim::new(0)))).collect()
    }
}
