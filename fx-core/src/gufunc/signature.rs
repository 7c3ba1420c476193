//! The shape rule of a signature.

use std::fmt;

use smallvec::SmallVec;

use super::{CoreAxis, CoreOperand, GufuncDef, MOST};
use crate::op::ParamKind;
use crate::op::kind;
use crate::pointwise::broadcast_dims;
use crate::{Arg, DType, Dim, Result, Shape, TensorType, Type, TypeTree, bail, err};

/// A size that a name stands for, and the operand that says so.
struct Bound<'a> {
    name: &'static str,
    size: Dim,
    by: &'a str,
}

impl GufuncDef {
    /// Returns the types of the results. Fails if an operand has another dtype or other core axes than the
    /// signature says, or if loop axes do not broadcast.
    pub fn infer(&self, args: &[TypeTree]) -> Result<TypeTree> {
        let operands = args.iter().take(self.operands.len()).map(<kind::OptTensor as ParamKind>::ty);
        let operands = operands.collect::<Result<SmallVec<[Option<&TensorType>; MOST]>>>()?;
        let mut results: Vec<TypeTree> =
            self.results_of(&operands)?.into_iter().map(|ty| Arg::Leaf(Type::Tensor(ty))).collect();
        Ok(match results.len() {
            1 => results.remove(0),
            _ => Arg::tuple(results),
        })
    }

    /// Returns the dtype that `T` is.
    pub(super) fn float(&self, operands: &[Option<&TensorType>]) -> Option<DType> {
        let mut all = self.operands.iter().zip(operands);
        all.find_map(|(operand, ty)| ty.filter(|_| operand.dtype.is_none()).map(|ty| ty.dtype))
    }

    pub(super) fn results_of(
        &self,
        operands: &[Option<&TensorType>],
    ) -> Result<SmallVec<[TensorType; MOST]>> {
        let float = self.float(operands);
        let mut bound: Vec<Bound<'_>> = Vec::new();
        let mut loops: SmallVec<[&[Dim]; MOST]> = SmallVec::new();
        for (operand, ty) in self.operands.iter().zip(operands) {
            let Some(ty) = ty else {
                if !operand.optional {
                    bail!(Argument, "the operand {} is missing", operand.name);
                }
                continue;
            };
            self.check_dtype(operand, ty, float)?;
            let Some(at) = ty.rank().checked_sub(operand.axes.len()) else {
                return Err(err!(Shape, "expected {} of {}, got {ty}", operand.name, operand.written())
                    .help("add axes with `unsqueeze`"));
            };
            for (axis, size) in operand.axes.iter().zip(&ty.shape[at..]) {
                check_size(operand, *axis, size, ty, &mut bound)?;
            }
            loops.push(&ty.shape[..at]);
        }
        let broadcast = broadcast_dims(loops.iter().copied()).map_err(|error| {
            let written: Vec<String> =
                self.operands.iter().map(|x| format!("{} {}", x.name, x.written())).collect();
            let loops = err!(Shape, "{}, before the core axes of {}", error.message(), written.join(", "));
            match error.advice() {
                Some(advice) => loops.help(advice),
                None => loops,
            }
        })?;
        let size_of = |axis: &CoreAxis| match axis {
            CoreAxis::Known(n) => Dim::from(*n),
            CoreAxis::Named(name) => {
                bound.iter().find(|bound| bound.name == *name).map_or(Dim::new(0), |bound| bound.size.clone())
            }
        };
        let sizes: Vec<Dim> = self.operands.iter().flat_map(|operand| operand.axes).map(size_of).collect();
        let cores = (self.result_sizes)(&sizes);
        let mut results = SmallVec::new();
        for (result, core) in self.results.iter().zip(cores) {
            for size in &core {
                if let Some(error) = size.error() {
                    bail!(Shape, "{error}, in the sizes of {}", result.name);
                }
                if size.known().is_some_and(|n| n < 0) {
                    bail!(Shape, "a size of {} would be {size}", result.name);
                }
            }
            let shape: Shape = broadcast.iter().cloned().chain(core).collect();
            results.push(TensorType::new(result.dtype.or(float).unwrap_or(DType::F32), shape));
        }
        Ok(results)
    }

    fn check_dtype(&self, operand: &CoreOperand, ty: &TensorType, float: Option<DType>) -> Result<()> {
        let name = operand.name;
        let error = match (operand.dtype, float) {
            (Some(dtype), _) if dtype != ty.dtype => err!(DType, "expected {name} of {dtype}, got {ty}"),
            (None, _) if !ty.dtype.is_float() => err!(DType, "expected {name} of floats, got {ty}"),
            (None, Some(float)) if float != ty.dtype => {
                let first = self.operands.iter().find(|operand| operand.dtype.is_none());
                let first = first.map_or("", |operand| operand.name);
                err!(DType, "expected {name} of {float}, the dtype of {first}, got {ty}")
            }
            _ => return Ok(()),
        };
        Err(error.help("convert it with `to`"))
    }
}

/// The signature, such as `x: T[k], weight: i8[n, k] -> out: T[n]`.
impl fmt::Display for GufuncDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = |dtype: Option<DType>| dtype.map_or("T".to_owned(), |dtype| dtype.to_string());
        for (i, operand) in self.operands.iter().enumerate() {
            let CoreOperand { name, optional, dtype, .. } = operand;
            let (comma, option) = (if i > 0 { ", " } else { "" }, if *optional { "Option " } else { "" });
            let axes: Vec<String> = operand.axes.iter().map(ToString::to_string).collect();
            write!(f, "{comma}{name}: {option}{}[{}]", element(*dtype), axes.join(", "))?;
        }
        for (i, result) in self.results.iter().enumerate() {
            let arrow = if i > 0 { ", " } else { " -> " };
            write!(f, "{arrow}{}: {}[{}]", result.name, element(result.dtype), result.sizes.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for CoreAxis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CoreAxis::Named(name) => f.write_str(name),
            CoreAxis::Known(n) => write!(f, "{n}"),
        }
    }
}

impl CoreOperand {
    /// Returns the axes as they are written, such as `[.., n, k]`.
    pub(super) fn written(&self) -> String {
        let axes: Vec<String> =
            ["..".to_owned()].into_iter().chain(self.axes.iter().map(ToString::to_string)).collect();
        format!("[{}]", axes.join(", "))
    }
}

/// Checks a size against what its axis stands for, and notes what it stands for.
fn check_size<'a>(
    operand: &'a CoreOperand,
    axis: CoreAxis,
    size: &Dim,
    ty: &TensorType,
    bound: &mut Vec<Bound<'a>>,
) -> Result<()> {
    let (name, written) = (operand.name, operand.written());
    match axis {
        CoreAxis::Known(n) => match size.same(&Dim::from(n)).is_no() {
            true => bail!(Shape, "expected {name} of {written}, got {ty}"),
            false => Ok(()),
        },
        CoreAxis::Named(axis) => {
            let Some(known) = bound.iter_mut().find(|known| known.name == axis) else {
                bound.push(Bound { name: axis, size: size.clone(), by: name });
                return Ok(());
            };
            if known.size.same(size).is_no() {
                let Bound { size, by, .. } = known;
                bail!(Shape, "expected {name} of {written}, where {axis} is {size} as {by} says, got {ty}");
            }
            // What is known says most.
            if size.known().is_some() {
                known.size = size.clone();
            }
            Ok(())
        }
    }
}
