//! Pointwise operations: promotion, broadcasting, and the driver that runs block kernels over arrays.
//!
//! A row's scalar body is compiled once per element type as a loop over slices ([`Block`]). The driver feeds
//! it blocks of each operand: a slice where the operand is contiguous and of the computed type, else a
//! gathered, converted copy in a small buffer. So broadcasting, strides and casts cost one pass over
//! cache-sized memory, and the eager kernel, fused groups and generated Rust run the same text.

mod call;
mod check;
pub mod fused_affine;
mod numbers;
mod operands;

use fx_simd::{Arithmetic, Filled, HalfArithmetic, UninitSlice};
use half::{bf16, f16};
use smallvec::SmallVec;

pub use self::call::{Argument, CallOperand, PointwiseCall, result_dtype, result_dtype_of_types};
pub use self::check::Check;
pub use self::numbers::{Limit, Numbers, held};
use self::operands::{Operands, Source, gather};
use crate::array::{BLOCK, Cast, build_slots_with, checked_numel, convert, dispatch_dtype};
use crate::op::kind::{OperandType, OperandValue};
use crate::op::{ParamKind, kind};
use crate::{
    Arg, Array, Category, DType, Dim, Element, Result, Scalar, Shape, Sizes, Stored, TensorType, Truth, Type,
    TypeTree, Value, err,
};

/// A loop that computes the elements of `O` from those of the operands, of equal length, and the parameters.
///
/// Of three operands or more, all but the first may be of one element instead, which stands for all.
pub type Kernel<T, O> = for<'a> fn(&[&[T]], &[T], UninitSlice<'a, O>) -> Filled<'a>;

/// A block kernel for the element type `T`.
pub enum Block<T: 'static> {
    /// The result is of the same type.
    Same(Kernel<T, T>),
    /// The result is a bool.
    Bool(Kernel<T, bool>),
}

impl<T> Clone for Block<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Block<T> {}

/// The dtype of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The promoted dtype of the operands.
    Same,
    /// The promoted dtype, but `i64` for bools.
    Number,
    /// The promoted dtype, but `f32` for integers and bools.
    Float,
    /// Bool.
    Bool,
}

macro_rules! kernel_table {
    ($($t:ident)*) => {
        /// The block kernels of a row by element type; what is absent is not supported.
        #[derive(Clone, Copy)]
        pub struct Kernels {
            $($t: Option<Block<$t>>,)*
            whole: u16,
            arithmetic: Option<Arithmetic>,
            fused_affine: Option<fused_affine::Kernel>,
        }

        impl Kernels {
            /// No kernel.
            pub const NONE: Kernels = Kernels { $($t: None,)* whole: 0, arithmetic: None, fused_affine: None };

            /// Returns the table with a note that the kernel for `dtype` is faster than a loop over the body,
            /// for it looks at a whole block first.
            pub const fn whole(mut self, dtype: DType) -> Self {
                self.whole |= 1 << dtype as u16;
                self
            }

            /// Returns the table with a note that the row is this operation of its two operands where
            /// parameters are 1.
            pub const fn arithmetic(mut self, op: Arithmetic) -> Self {
                self.arithmetic = Some(op);
                self
            }

            /// Returns the table with a kernel for `f32` that adds and multiplies before and after.
            pub const fn fused_affine(mut self, kernel: fused_affine::Kernel) -> Self {
                self.fused_affine = Some(kernel);
                self
            }

            $(
                #[doc = concat!("Returns the table with a kernel for `", stringify!($t), "`.")]
                pub const fn $t(mut self, block: Block<$t>) -> Self {
                    self.$t = Some(block);
                    self
                }
            )*
        }

        $(impl Compute for $t {
            fn block(kernels: &Kernels) -> Option<Block<$t>> { kernels.$t }

            fn gather<'a>(array: &'a Array, wide: &Array, dtype: DType) -> Result<Gather<'a, $t>> {
                dispatch_dtype!(array.dtype(), S => {
                    let data: &'a [S] =
                        S::slice(array.storage()).ok_or_else(|| err!(DType, "storage of another dtype"))?;
                    Ok(gather::<S, $t>(data, wide, dtype))
                })
            }
        })*

        fn has_kernel(kernels: &Kernels, dtype: DType) -> bool {
            match dtype {
                $(<$t as Element>::DTYPE => kernels.$t.is_some(),)*
                DType::F16 | DType::BF16 => kernels.f32.is_some(),
            }
        }
    };
}
kernel_table!(bool u8 i8 i32 i64 f32 f64);

/// An element type in which pointwise operations are computed.
pub trait Compute: Element {
    /// Returns the kernel of this type.
    fn block(kernels: &Kernels) -> Option<Block<Self>>;

    /// Returns a function that fills blocks with converted elements of the broadcast view `wide` of `array`,
    /// rounded to `dtype`.
    #[doc(hidden)]
    fn gather<'a>(array: &'a Array, wide: &Array, dtype: DType) -> Result<Gather<'a, Self>>;
}

/// Fills a block with the elements from a position on.
#[doc(hidden)]
pub type Gather<'a, T> = Box<dyn Fn(usize, &mut [T]) + Send + Sync + 'a>;

/// The pointwise part of a row.
pub struct PointwiseDef {
    /// The names of the operands.
    pub operands: &'static [&'static str],
    /// What stands for each operand that is left out; `None` if it may not be.
    pub absent: &'static [Option<f64>],
    /// The names of the parameters.
    pub params: &'static [&'static str],
    /// The dtype of the result.
    pub rule: Rule,
    /// The block kernels.
    pub kernels: Kernels,
    /// The text of the scalar body for each class of types, later ones replacing earlier ones.
    pub sources: &'static [(&'static str, &'static str)],
    /// The integers as the last operand on which the body is defined, if not all are.
    pub check: Option<Check>,
    /// How numbers are taken that the dtype cannot hold.
    pub numbers: Numbers,
    /// Returns the row of the other operands that this one is where the last operand is this number, in a result
    /// of this dtype, if there is one.
    pub instead: Option<fn(Scalar, DType) -> Option<&'static PointwiseDef>>,
}

impl std::fmt::Debug for PointwiseDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PointwiseDef({:?} -> {:?})", self.operands, self.rule)
    }
}

/// How many operands or parameters a computation of one element has at most.
const MOST_AT_ONCE: usize = 4;

/// Returns the shape to which shapes broadcast: aligned at the last axis, sizes equal or 1. Fails if they do
/// not broadcast.
pub fn broadcast_shapes<'a>(shapes: impl Iterator<Item = &'a [usize]> + Clone) -> Result<Sizes> {
    let rank = shapes.clone().map(<[usize]>::len).max().unwrap_or(0);
    let mut out = Sizes::from_elem(1, rank);
    for shape in shapes.clone() {
        for (size, &n) in out[rank - shape.len()..].iter_mut().zip(shape) {
            if *size == 1 {
                *size = n;
            } else if n != 1 && n != *size {
                let list: Vec<String> = shapes.map(|shape| format!("{shape:?}")).collect();
                return Err(err!(Shape, "cannot broadcast {}", list.join(" with "))
                    .help("sizes must be equal or 1, aligned at the last axis; add axes with `unsqueeze`"));
            }
        }
    }
    Ok(out)
}

/// Returns the symbolic shape to which shapes broadcast.
///
/// A size that is 1 gives way to the other. Fails if it cannot be shown that two other sizes are equal: one
/// of them might be 1.
pub fn broadcast_dims<'a>(shapes: impl Iterator<Item = &'a [Dim]> + Clone) -> Result<Shape> {
    let rank = shapes.clone().map(<[Dim]>::len).max().unwrap_or(0);
    let one = Dim::new(1);
    let mut out: Vec<Dim> = vec![one.clone(); rank];
    for shape in shapes.clone() {
        for (size, n) in out[rank - shape.len()..].iter_mut().zip(shape) {
            if *size == one {
                *size = n.clone();
                continue;
            }
            if *n == one || *n == *size {
                continue;
            }
            let list: Vec<String> =
                shapes.clone().map(|dims| dims.iter().cloned().collect::<Shape>().to_string()).collect();
            if size.is_one_beside(n) {
                *size = n.clone();
                continue;
            }
            if n.is_one_beside(size) {
                continue;
            }
            match size.same(n) {
                Truth::Yes => {}
                Truth::No => {
                    return Err(err!(Shape, "cannot broadcast {}", list.join(" with ")).help(
                        "sizes must be equal or 1, aligned at the last axis; add axes with `unsqueeze`",
                    ));
                }
                Truth::Unknown => {
                    return Err(err!(
                        Shape,
                        "cannot broadcast {}: {size} and {n} may differ",
                        list.join(" with ")
                    )
                    .help("give equal sizes the same symbol in the input specs, or fix one of them"));
                }
            }
        }
    }
    Ok(out.into_iter().collect())
}

impl PointwiseDef {
    /// Returns the dtypes on which the body is defined, after promotion.
    pub fn dtypes(&self) -> impl Iterator<Item = DType> {
        DType::ALL.iter().copied().filter(|dtype| has_kernel(&self.kernels, *dtype))
    }

    /// Returns whether the kernel for a dtype looks at whole blocks, and is faster by that than a loop over
    /// the body.
    pub fn is_whole(&self, dtype: DType) -> bool {
        self.kernels.whole & 1 << dtype as u16 != 0
    }

    /// Returns the operation of two operands that the row is where its parameters are 1, if it is one.
    pub fn arithmetic(&self) -> Option<Arithmetic> {
        self.kernels.arithmetic
    }

    /// Returns the kernel for `f32` that adds and multiplies before and after, if the row has one.
    pub fn fused_affine(&self) -> Option<fused_affine::Kernel> {
        self.kernels.fused_affine
    }

    /// A row to fill in with `..PointwiseDef::BASE`.
    pub const BASE: PointwiseDef = PointwiseDef {
        operands: &[],
        absent: &[],
        params: &[],
        rule: Rule::Same,
        kernels: Kernels::NONE,
        sources: &[],
        check: None,
        numbers: Numbers::Converted,
        instead: None,
    };

    /// Returns the row of the other operands that this one is where the last operand is the number `last`, if
    /// there is one: `sqrt` for `pow` and 0.5.
    ///
    /// Both compute in `dtype`, the dtype of this row's operands.
    pub fn instead(&self, last: Option<Scalar>, dtype: DType) -> Option<&'static PointwiseDef> {
        (self.instead?)(last?, dtype)
    }

    /// Returns the text of the scalar body for a dtype.
    pub fn source(&self, dtype: DType) -> Option<&'static str> {
        let class_has = |class: &str| match class {
            "any" => true,
            "num" => dtype != DType::Bool,
            "real" => dtype.is_float(),
            "int" => dtype.is_int(),
            "bool" => dtype == DType::Bool,
            "u8" => dtype == DType::U8,
            _ => false,
        };
        self.sources.iter().rev().find(|(class, _)| class_has(class)).map(|(_, text)| *text)
    }

    /// Returns what stands for the operand at `position` if it is left out: the number that the row gives, a
    /// finite one brought into the range of `dtype`. So `f64::MAX` is the greatest finite value of any dtype.
    pub fn absent_value(&self, position: usize, dtype: DType) -> Option<Scalar> {
        let x = self.absent.get(position).copied().flatten()?;
        let greatest = match dtype {
            DType::F16 => f16::MAX.to_f64(),
            DType::BF16 => bf16::MAX.to_f64(),
            DType::F32 => f64::from(f32::MAX),
            _ => f64::MAX,
        };
        Some(Scalar::Float(if x.is_finite() { x.clamp(-greatest, greatest) } else { x }))
    }

    /// Returns the dtype in which operands of the promoted dtype are computed. Fails if the operation is not
    /// defined for it.
    pub fn compute_dtype(&self, promoted: DType) -> Result<DType> {
        let dtype = match self.rule {
            Rule::Float if !promoted.is_float() => DType::F32,
            Rule::Number if promoted == DType::Bool => DType::I64,
            _ => promoted,
        };
        if has_kernel(&self.kernels, dtype) {
            return Ok(dtype);
        }
        let supported: Vec<&str> = self.dtypes().map(DType::name).collect();
        Err(err!(DType, "not defined for {dtype}").help(format!("it takes {}", supported.join(", "))))
    }

    /// Reads the arguments for the operands; those that may be left out can be `None`.
    fn operands<'a, L, T>(
        &self,
        args: &'a [Arg<L>],
        read: impl Fn(&'a Arg<L>) -> Result<T>,
    ) -> Result<SmallVec<[Option<T>; 4]>> {
        let mut operands = SmallVec::new();
        for (i, arg) in args.iter().take(self.operands.len()).enumerate() {
            let is_absent = matches!(arg, Arg::None) && self.absent.get(i).is_some_and(Option::is_some);
            operands.push(if is_absent { None } else { Some(read(arg)?) });
        }
        Ok(operands)
    }

    /// Returns the type of the result. Fails if the operands do not broadcast, or the operation is not
    /// defined for their dtype.
    pub fn infer(&self, args: &[TypeTree]) -> Result<TypeTree> {
        let operands = self.operands(args, <kind::Operand as ParamKind>::ty)?;
        let given = || operands.iter().flatten();
        let dtype = self.compute_dtype(call::promote(given().map(Argument::from)))?;
        if given().all(|operand| matches!(operand, OperandType::Scalar(_))) {
            return Ok(Arg::Leaf(match (self.rule, dtype.category()) {
                (Rule::Bool, _) | (_, Category::Bool) => Type::Bool,
                (_, Category::Int) => Type::Int,
                (_, Category::Float) => Type::Float,
            }));
        }
        let shapes = given().map(|operand| match operand {
            OperandType::Tensor(ty) => &ty.shape[..],
            OperandType::Scalar(_) => &[],
        });
        let shape = broadcast_dims(shapes)?;
        Ok(TensorType::new(self.result_dtype(dtype), shape).into())
    }

    /// Returns the dtype of a result that is computed in this one.
    pub fn result_dtype(&self, computed: DType) -> DType {
        if self.rule == Rule::Bool { DType::Bool } else { computed }
    }

    /// Computes the result. Fails as [`infer`](Self::infer) does.
    pub fn eval(&'static self, args: &[Value]) -> Result<Value> {
        let operands = self.operands(args, <kind::Operand as ParamKind>::value)?;
        let mut params = SmallVec::<[Scalar; 4]>::new();
        for arg in &args[self.operands.len()..] {
            params.push(<kind::Number as ParamKind>::value(arg)?);
        }
        let array = self.eval_operands(&operands, &mut params)?;
        if operands.iter().flatten().all(|operand| matches!(operand, OperandValue::Scalar(_))) {
            return Ok(array.item()?.into());
        }
        Ok(Arg::Leaf(array.into()))
    }

    /// Computes the result of operands, of which those may be absent that the row says a number for, and of
    /// parameters, which are converted. Fails as [`infer`](Self::infer) and [`resolve`](Self::resolve) do.
    pub fn eval_operands(
        &'static self,
        operands: &[Option<OperandValue<'_>>],
        params: &mut [Scalar],
    ) -> Result<Array> {
        let arguments = operands.iter().flatten().map(Argument::from);
        let dtype = self.compute_dtype(call::promote(arguments))?;
        let mut values = SmallVec::<[OperandValue<'_>; 4]>::new();
        for (i, operand) in operands.iter().enumerate() {
            values.push(match operand {
                Some(operand) => *operand,
                None => OperandValue::Scalar(self.number_for(i, dtype)?),
            });
        }
        let def = self.settle(dtype, &mut values, params)?;
        if dtype.is_int() {
            for value in &mut values {
                // Integers that wrap are checked as they are computed.
                if let OperandValue::Array(x) = value
                    && x.rank() == 0
                    && x.dtype() != dtype
                {
                    *value = OperandValue::Scalar(numbers::item(x, dtype, false)?);
                }
            }
            if let (Some(check), Some(last)) = (def.check, values.last()) {
                check.operand(last)?;
            }
        }
        def.compute(dtype, &values, params)
    }

    /// Computes operands whose numbers are settled.
    fn compute(&self, dtype: DType, operands: &[OperandValue<'_>], params: &[Scalar]) -> Result<Array> {
        let shape = broadcast_shapes(operands.iter().map(|operand| match operand {
            OperandValue::Array(array) => array.shape(),
            OperandValue::Scalar(_) => &[],
        }))?;
        match dtype {
            DType::F16 => match self.run_f16(operands, params, &shape)? {
                Some(array) => Ok(array),
                None => self.run::<f32, f16>(operands, params, &shape),
            },
            DType::BF16 => self.run::<f32, bf16>(operands, params, &shape),
            DType::F32 => self.run::<f32, f32>(operands, params, &shape),
            DType::F64 => self.run::<f64, f64>(operands, params, &shape),
            DType::U8 => self.run::<u8, u8>(operands, params, &shape),
            DType::I8 => self.run::<i8, i8>(operands, params, &shape),
            DType::I32 => self.run::<i32, i32>(operands, params, &shape),
            DType::I64 => self.run::<i64, i64>(operands, params, &shape),
            DType::Bool => self.run::<bool, bool>(operands, params, &shape),
        }
    }

    /// Computes two operands that lie as the result does without buffers, where that is faster.
    fn run_f16(
        &self,
        operands: &[OperandValue<'_>],
        params: &[Scalar],
        shape: &[usize],
    ) -> Result<Option<Array>> {
        let (Some(op), Some(arithmetic), [OperandValue::Array(x), OperandValue::Array(y)]) =
            (self.kernels.arithmetic, HalfArithmetic::detect(), operands)
        else {
            return Ok(None);
        };
        let is_plain = x.shape() == shape && y.shape() == shape && params.iter().all(|x| x.to_f64() == 1.0);
        let (true, Some(x), Some(y)) = (is_plain, x.as_slice::<f16>(), y.as_slice::<f16>()) else {
            return Ok(None);
        };
        let data = build_slots_with::<f16, _>(
            x.len(),
            || (),
            |(), at, out| {
                let part = at..at + out.len();
                arithmetic.pairs(op, &x[part.clone()], &y[part], out)
            },
        )?;
        Array::from_vec(data, shape).map(Some)
    }

    /// Computes in `T`, stores as `O` or bool.
    fn run<T: Compute + Cast<O>, O: Element>(
        &self,
        operands: &[OperandValue<'_>],
        params: &[Scalar],
        shape: &[usize],
    ) -> Result<Array> {
        let block = T::block(&self.kernels).ok_or_else(|| err!(DType, "not defined for {}", O::DTYPE))?;
        let numel = checked_numel(shape)?;
        if numel == 1 && operands.len().max(params.len()) <= MOST_AT_ONCE {
            return self.run_one::<T, O>(block, operands, params, shape);
        }
        let source = |(i, operand): (usize, &_)| Source::new(operand, shape, O::DTYPE, self.is_wide(i));
        let sources: Vec<Source<'_, T>> = operands.iter().enumerate().map(source).collect::<Result<_>>()?;
        let params: Vec<T> = params.iter().map(|&x| T::from_scalar(x)).collect();
        let splats: Vec<Vec<T>> = sources.iter().map(|source| source.splat(numel.min(BLOCK))).collect();
        let operands = Operands::new(&sources, &splats, shape);
        match block {
            Block::Bool(kernel) => Array::from_vec(operands.build(numel, &params, kernel)?, shape),
            Block::Same(kernel) if T::DTYPE == O::DTYPE => {
                Array::from_vec(operands.build(numel, &params, kernel)?, shape)
            }
            Block::Same(kernel) => {
                let scratch = || (operands.scratch(numel), vec![T::default(); numel.min(BLOCK)]);
                let data = build_slots_with::<O, _>(numel, scratch, |(scratch, wide), at, out| {
                    let wide = &mut wide[..out.len()];
                    operands.block(scratch, at, &params, kernel, UninitSlice::over(wide));
                    convert(wide, out)
                })?;
                Array::from_vec(data, shape)
            }
        }
    }
    /// Computes the only element, without buffers.
    fn run_one<T: Compute + Cast<O>, O: Element>(
        &self,
        block: Block<T>,
        operands: &[OperandValue<'_>],
        params: &[Scalar],
        shape: &[usize],
    ) -> Result<Array> {
        let mut numbers = [T::default(); MOST_AT_ONCE];
        for (i, (number, operand)) in numbers.iter_mut().zip(operands).enumerate() {
            *number = operands::only(operand, O::DTYPE, self.is_wide(i))?;
        }
        let numbers = numbers.each_ref().map(std::slice::from_ref);
        let mut converted = [T::default(); MOST_AT_ONCE];
        for (converted, param) in converted.iter_mut().zip(params) {
            *converted = T::from_scalar(*param);
        }
        let (numbers, params) = (&numbers[..operands.len()], &converted[..params.len()]);
        match block {
            Block::Bool(kernel) => {
                let mut out = [false];
                kernel(numbers, params, UninitSlice::over(&mut out));
                Array::from_vec(out.to_vec(), shape)
            }
            Block::Same(kernel) => {
                let mut out = [T::default()];
                kernel(numbers, params, UninitSlice::over(&mut out));
                Array::from_vec(vec![out[0].cast()], shape)
            }
        }
    }
}
