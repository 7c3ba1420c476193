//! Pointwise operations: promotion, broadcasting, and the driver that runs block kernels over arrays.
//!
//! A row's scalar body is compiled once per element type as a loop over slices ([`Block`]). The driver feeds it blocks of
//! each operand: a slice where the operand is contiguous and of the computed type, else a gathered, converted copy in a
//! small buffer. So broadcasting, strides and casts cost one pass over cache-sized memory, and the eager kernel, fused groups
//! and generated Rust run the same text.

use fx_simd::{Filled, Slots};
use half::{bf16, f16};
use smallvec::SmallVec;

use crate::array::{
    BLOCK, Cast, Strided, Strides, build_slots_with, build_tasks_with, checked_numel, convert, dispatch_dtype,
};
use crate::op::kind::{OperandType, OperandValue};
use crate::op::{Default, ParamKind, kind};
use crate::{
    Arg, Array, Category, DType, Dim, Element, Result, Scalar, Shape, Sizes, Stored, TensorType, Truth, Type,
    TypeTree, Value, dtype::default_dtype, err,
};

/// A loop that computes the elements of `O` from those of the operands, of equal length, and the parameters.
pub type Kernel<T, O> = for<'a> fn(&[&[T]], &[T], Slots<'a, O>) -> Filled<'a>;

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
        }

        impl Kernels {
            /// No kernel.
            pub const NONE: Kernels = Kernels { $($t: None,)* };

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

    /// Returns a function that fills blocks with converted elements of the broadcast view `wide` of `array`, rounded to
    /// `dtype`.
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
    /// Refuses operands on which the body is not defined.
    pub check: fn(&[OperandValue<'_>]) -> Result<()>,
}

impl std::fmt::Debug for PointwiseDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PointwiseDef({:?} -> {:?})", self.operands, self.rule)
    }
}

/// Writes the default of a parameter in a row.
#[doc(hidden)]
pub const fn default(x: Default) -> Default {
    x
}

/// What takes part in promotion.
#[derive(Clone, Copy)]
enum Promoted {
    Dimensioned(DType),
    ZeroDim(DType),
    Number(Category),
}

/// Returns the dtype of a pointwise operation, by PyTorch's rule: tensors of rank one or more decide; tensors of rank 0
/// and then numbers count only if their category is higher.
fn promote(operands: impl Iterator<Item = Promoted> + Clone) -> DType {
    let join = |a: Option<DType>, b: DType| Some(a.map_or(b, |a| a.promote(b)));
    let (mut dimensioned, mut zero_dim, mut number) = (None, None, None);
    for operand in operands {
        match operand {
            Promoted::Dimensioned(dtype) => dimensioned = join(dimensioned, dtype),
            Promoted::ZeroDim(dtype) => zero_dim = join(zero_dim, dtype),
            Promoted::Number(category) => number = join(number, default_dtype(category)),
        }
    }
    let higher = |a: Option<DType>, b: Option<DType>| match (a, b) {
        (Some(a), Some(b)) => Some(if b.category() > a.category() { b } else { a }),
        (a, b) => a.or(b),
    };
    higher(higher(dimensioned, zero_dim), number).unwrap_or(DType::F32)
}

/// Returns the dtype to which operands are promoted, as `torch.result_type` does.
pub fn result_dtype(operands: &[OperandValue<'_>]) -> DType {
    promote(operands.iter().map(|operand| match operand {
        OperandValue::Array(array) if array.rank() > 0 => Promoted::Dimensioned(array.dtype()),
        OperandValue::Array(array) => Promoted::ZeroDim(array.dtype()),
        OperandValue::Scalar(x) => Promoted::Number(x.category()),
    }))
}

/// Returns the dtype to which operands of these types are promoted.
pub fn result_dtype_of_types(operands: &[OperandType<'_>]) -> DType {
    promote(operands.iter().map(|operand| match operand {
        OperandType::Tensor(ty) if ty.rank() > 0 => Promoted::Dimensioned(ty.dtype),
        OperandType::Tensor(ty) => Promoted::ZeroDim(ty.dtype),
        OperandType::Scalar(category) => Promoted::Number(*category),
    }))
}

/// Returns the shape to which shapes broadcast: aligned at the last axis, sizes equal or 1.
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
/// A size that is 1 gives way to the other. Two sizes of which it cannot be shown that they are equal are an error, because
/// the result would not be known: one of them might be 1.
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

    /// A row to fill in with `..PointwiseDef::BASE`.
    pub const BASE: PointwiseDef = PointwiseDef {
        operands: &[],
        absent: &[],
        params: &[],
        rule: Rule::Same,
        kernels: Kernels::NONE,
        sources: &[],
        check: |_| Ok(()),
    };

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

    /// Returns what stands for the operand at `position` if it is left out: the number that the row gives, a finite one
    /// brought into the range of `dtype`. So `f64::MAX` is the greatest finite value of any dtype.
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

    fn may_be_absent(&self, position: usize) -> bool {
        self.absent.get(position).is_some_and(Option::is_some)
    }

    /// Returns the operands that are given.
    fn given<'a, L>(&'a self, args: &'a [Arg<L>]) -> impl Iterator<Item = &'a Arg<L>> {
        let operands = args.iter().take(self.operands.len()).enumerate();
        operands.filter(|(i, arg)| !(matches!(arg, Arg::None) && self.may_be_absent(*i))).map(|(_, arg)| arg)
    }

    /// Returns the dtype in which operands of the promoted dtype are computed.
    fn compute_dtype(&self, promoted: DType) -> Result<DType> {
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

    /// Returns the type of the result.
    pub fn infer(&self, args: &[TypeTree]) -> Result<TypeTree> {
        let operands: Vec<OperandType<'_>> =
            self.given(args).map(<kind::Operand as ParamKind>::ty).collect::<Result<_>>()?;
        let dtype = self.compute_dtype(result_dtype_of_types(&operands))?;
        if operands.iter().all(|operand| matches!(operand, OperandType::Scalar(_))) {
            return Ok(Arg::Leaf(match (self.rule, dtype.category()) {
                (Rule::Bool, _) | (_, Category::Bool) => Type::Bool,
                (_, Category::Int) => Type::Int,
                (_, Category::Float) => Type::Float,
            }));
        }
        let shapes = operands.iter().map(|operand| match operand {
            OperandType::Tensor(ty) => &ty.shape[..],
            OperandType::Scalar(_) => &[],
        });
        let shape = broadcast_dims(shapes)?;
        Ok(TensorType::new(if self.rule == Rule::Bool { DType::Bool } else { dtype }, shape).into())
    }

    /// Computes the result.
    pub fn eval(&self, args: &[Value]) -> Result<Value> {
        let n = self.operands.len();
        let given: Vec<OperandValue<'_>> =
            self.given(args).map(<kind::Operand as ParamKind>::value).collect::<Result<_>>()?;
        let params: Vec<Scalar> =
            args[n..].iter().map(<kind::Number as ParamKind>::value).collect::<Result<_>>()?;
        let array = if given.len() == n {
            self.eval_operands(&given, &params)?
        } else {
            let dtype = self.compute_dtype(result_dtype(&given))?;
            let mut given = given.iter();
            let operands: Vec<OperandValue<'_>> = args[..n]
                .iter()
                .enumerate()
                .filter_map(|(i, arg)| match (arg, self.absent_value(i, dtype)) {
                    (Arg::None, Some(x)) => Some(OperandValue::Scalar(x)),
                    _ => given.next().copied(),
                })
                .collect();
            self.eval_in(dtype, &operands, &params)?
        };
        if self.given(args).all(|arg| arg.scalar().is_some()) {
            return Ok(array.item()?.into());
        }
        Ok(Arg::Leaf(array.into()))
    }

    /// Computes the result of operands and parameters.
    pub fn eval_operands(&self, operands: &[OperandValue<'_>], params: &[Scalar]) -> Result<Array> {
        self.eval_in(self.compute_dtype(result_dtype(operands))?, operands, params)
    }

    fn eval_in(&self, dtype: DType, operands: &[OperandValue<'_>], params: &[Scalar]) -> Result<Array> {
        (self.check)(operands)?;
        let shape = broadcast_shapes(operands.iter().map(|operand| match operand {
            OperandValue::Array(array) => array.shape(),
            OperandValue::Scalar(_) => &[],
        }))?;
        match dtype {
            DType::F16 => self.run::<f32, f16>(operands, params, &shape),
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

    /// Computes in `T`, stores as `O` or bool.
    fn run<T: Compute + Cast<O>, O: Element>(
        &self,
        operands: &[OperandValue<'_>],
        params: &[Scalar],
        shape: &[usize],
    ) -> Result<Array> {
        let block = T::block(&self.kernels).ok_or_else(|| err!(DType, "not defined for {}", O::DTYPE))?;
        let numel = checked_numel(shape)?;
        let sources: Vec<Source<'_, T>> =
            operands.iter().map(|operand| Source::new(operand, shape, O::DTYPE)).collect::<Result<_>>()?;
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
                    operands.block(scratch, at, &params, kernel, Slots::over(wide));
                    convert(wide, out)
                })?;
                Array::from_vec(data, shape)
            }
        }
    }
}

/// Where the blocks of an operand come from.
enum Source<'a, T> {
    /// Contiguous, of the computed type and of the shape of the result.
    Slice(&'a [T]),
    /// The same number everywhere.
    Splat(T),
    /// Of the computed type.
    Rows(Rows<'a, T>),
    /// Gathered and converted from a position on, or only converted.
    Gather(Gather<'a, T>),
}

/// A broadcast operand of the shape of the result.
struct Rows<'a, T> {
    data: &'a [T],
    /// The strides along the result's axes.
    strides: Strides,
}

impl<T> Rows<'_, T> {
    /// Returns how many of the last axes are walked as one, with a step of 0 or 1.
    fn plain_axes(&self, shape: &[usize]) -> usize {
        let axes = || shape.iter().zip(&self.strides).rev();
        let same = axes().take_while(|&(&size, &stride)| size == 1 || stride == 0).count();
        let mut step = 1;
        let dense = axes().take_while(|&(&size, &stride)| {
            let fits = size == 1 || stride == step;
            step *= size as isize;
            fits
        });
        same.max(dense.count())
    }

    /// Returns where the elements at an index along the first axes begin.
    fn place(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.strides).map(|(&i, &stride)| i as isize * stride).sum::<isize>() as usize
    }

    /// Returns the step, 0 or 1, along the last `n_plain` axes.
    fn step(&self, shape: &[usize], n_plain: usize) -> isize {
        let plain = shape.iter().zip(&self.strides).rev().take(n_plain);
        plain.into_iter().find(|(size, _)| **size > 1).map_or(0, |(_, &stride)| stride)
    }
}

/// The shortest run along which operands are read in place rather than gathered.
const SHORTEST_RUN: usize = 32;

/// Runs shorter than this are joined, so that the kernel need not be called for each.
const LONG_RUN: usize = 512;

/// Bytes of buffers and repeated numbers that may be read again and again beside what streams through the fastest cache.
const RESIDENT: usize = 12 << 10;

impl<'a, T: Compute> Source<'a, T> {
    /// Returns `len` copies of a number that is the same everywhere.
    fn splat(&self, len: usize) -> Vec<T> {
        match self {
            Source::Splat(x) => vec![*x; len],
            _ => Vec::new(),
        }
    }

    fn new(operand: &OperandValue<'a>, shape: &[usize], dtype: DType) -> Result<Self> {
        let array = match operand {
            OperandValue::Scalar(x) => {
                // A number is rounded to the result's dtype first, as a tensor of rank 0 would be.
                return Ok(Source::Splat(T::from_scalar(round_to(*x, dtype))));
            }
            OperandValue::Array(array) => *array,
        };
        if array.numel() == 1 {
            let x = array.item()?;
            return Ok(Source::Splat(T::from_scalar(round_to(x, dtype))));
        }
        if array.shape() == shape
            && let Some(data) = array.as_slice::<T>()
        {
            return Ok(Source::Slice(data));
        }
        let wide = array.broadcast_to(shape)?;
        if array.dtype() == T::DTYPE {
            let (data, strides) = (array.data::<T>()?, Strides::from_slice(wide.strides()));
            return Ok(Source::Rows(Rows { data, strides }));
        }
        Ok(Source::Gather(T::gather(array, &wide, dtype)?))
    }
}

/// Rounds a number to what `dtype` can hold.
fn round_to(x: Scalar, dtype: DType) -> Scalar {
    match (x, dtype) {
        (Scalar::Float(x), DType::F16) => Scalar::Float(f16::from_f32(x as f32).to_f64()),
        (Scalar::Float(x), DType::BF16) => Scalar::Float(bf16::from_f32(x as f32).to_f64()),
        (x, _) => x,
    }
}

/// Returns a function that fills a block with the converted elements from a position of the broadcast view on.
fn gather<'a, S: Element + Cast<T>, T: Compute>(data: &'a [S], wide: &Array, dtype: DType) -> Gather<'a, T> {
    let round = matches!(dtype, DType::F16 | DType::BF16) && S::DTYPE != dtype;
    let (shape, strides, offset): (Sizes, Vec<isize>, usize) =
        (wide.shape().into(), wide.strides().to_vec(), wide.offset());
    let dense = wide.is_contiguous();
    Box::new(move |start, out| {
        if dense {
            convert(&data[offset + start..], Slots::over(out));
        } else {
            let view = Strided { data, shape: &shape, strides: &strides, offset };
            let mut block = [S::default(); BLOCK];
            let block = &mut block[..out.len()];
            view.block(start, block);
            convert(block, Slots::over(out));
        }
        if round {
            for x in out {
                *x = T::from_scalar(round_to(x.to_scalar(), dtype));
            }
        }
    })
}

/// The operands of a computation.
struct Operands<'s, 'a, T> {
    sources: &'s [Source<'a, T>],
    splats: &'s [Vec<T>],
    shape: &'s [usize],
    /// How many of the last axes every broadcast operand walks as one; 0 if broadcast operands are to be gathered.
    n_plain: usize,
    /// The number of elements along these axes.
    run: usize,
    /// Whether short runs are joined in buffers.
    joins: bool,
    /// How many elements are computed at a time.
    part: usize,
}

impl<'s, 'a, T: Compute> Operands<'s, 'a, T> {
    fn new(sources: &'s [Source<'a, T>], splats: &'s [Vec<T>], shape: &'s [usize]) -> Self {
        let rows = sources.iter().filter_map(|source| match source {
            Source::Rows(rows) => Some(rows.plain_axes(shape)),
            _ => None,
        });
        let n_plain = rows.min().unwrap_or(0);
        let run = shape[shape.len() - n_plain..].iter().product();
        let n_plain = if run < SHORTEST_RUN { 0 } else { n_plain };
        let repeats =
            |source: &Source<'_, T>| matches!(source, Source::Rows(rows) if rows.step(shape, n_plain) == 0);
        let joins = run < if sources.iter().any(repeats) { BLOCK } else { LONG_RUN };
        let is_resident = |source: &&Source<'_, T>| match source {
            Source::Slice(_) => false,
            Source::Rows(_) => joins || n_plain == 0 || repeats(source),
            Source::Splat(_) | Source::Gather(_) => true,
        };
        let n_resident = sources.iter().filter(is_resident).count();
        let mut part = BLOCK;
        while n_resident * part * size_of::<T>() > RESIDENT && part > LONG_RUN {
            part /= 2;
        }
        Operands { sources, splats, shape, n_plain, run, joins, part }
    }

    /// Computes all elements.
    fn build<O: Element>(&self, numel: usize, params: &[T], kernel: Kernel<T, O>) -> Result<Vec<O>> {
        build_tasks_with(
            numel,
            || self.scratch(numel),
            |scratch, at, out| self.block(scratch, at, params, kernel, out),
        )
    }

    /// Makes buffers for the operands that are not read in place.
    fn scratch(&self, numel: usize) -> Vec<T> {
        let n_buffers =
            self.sources.iter().filter(|x| matches!(x, Source::Gather(_) | Source::Rows(_))).count();
        vec![T::default(); n_buffers * numel.min(BLOCK)]
    }

    /// Computes the elements from a position on.
    fn block<'b, O: Element>(
        &self,
        scratch: &mut [T],
        at: usize,
        params: &[T],
        kernel: Kernel<T, O>,
        out: Slots<'b, O>,
    ) -> Filled<'b> {
        if self.joins && self.n_plain > 0 {
            let mut walks = self.walks(at);
            return out.runs(self.part, self.part, |start, out| {
                kernel(&self.joined(at + start, out.len(), &mut walks, scratch), params, out)
            });
        }
        if out.len() > self.part {
            return out.runs(self.part, self.part, |start, out| {
                self.block(scratch, at + start, params, kernel, out)
            });
        }
        if self.n_plain == 0 {
            return kernel(&self.at(at, out.len(), None, scratch), params, out);
        }
        let mut walk = Walk::of(self, self.rows(), at);
        let first = self.run - at % self.run;
        out.runs(first, self.run, |start, out| {
            let xs = self.at(at + start, out.len(), Some(&walk), scratch);
            let filled = kernel(&xs, params, out);
            drop(xs);
            walk.next_run(self, self.rows());
            filled
        })
    }

    /// Returns the `len` elements of each operand from a position on; those that `walk` leads lie in one run.
    fn at<'b>(
        &'b self,
        at: usize,
        len: usize,
        walk: Option<&Walk>,
        scratch: &'b mut [T],
    ) -> SmallVec<[&'b [T]; 4]> {
        let mut buffers = scratch.chunks_mut(len.max(1));
        let mut buffer = || buffers.next().map_or(&mut [][..], |block| block);
        let mut xs = SmallVec::new();
        let mut n_rows = 0;
        for (source, splat) in self.sources.iter().zip(self.splats) {
            xs.push(match source {
                Source::Slice(data) => &data[at..at + len],
                Source::Splat(_) => &splat[..len],
                Source::Rows(Rows { data, strides }) => match walk {
                    Some(walk) => {
                        let (place, step) = walk.places[n_rows];
                        n_rows += 1;
                        if step == 0 {
                            let block = buffer();
                            Slots::over(block).fill(data[place]);
                            block
                        } else {
                            &data[place..place + len]
                        }
                    }
                    None => {
                        let block = buffer();
                        Strided { data, shape: self.shape, strides, offset: 0 }.block(at, block);
                        block
                    }
                },
                Source::Gather(fill) => {
                    let block = buffer();
                    fill(at, block);
                    block
                }
            });
        }
        xs
    }

    /// Returns the `len` elements of each operand from a position on, where those of short runs are joined in buffers; `walks`
    /// are there, one for each broadcast operand, and go on.
    fn joined<'b>(
        &'b self,
        at: usize,
        len: usize,
        walks: &mut [Runs<'_>],
        scratch: &'b mut [T],
    ) -> SmallVec<[&'b [T]; 4]> {
        let mut buffers = scratch.chunks_mut(len.max(1));
        let mut buffer = || buffers.next().map_or(&mut [][..], |block| block);
        let mut walks = walks.iter_mut();
        let mut xs = SmallVec::new();
        for (source, splat) in self.sources.iter().zip(self.splats) {
            xs.push(match source {
                Source::Slice(data) => &data[at..at + len],
                Source::Splat(_) => &splat[..len],
                Source::Rows(rows) => {
                    let block = buffer();
                    if let Some(walk) = walks.next() {
                        fx_simd::call::<join, _>((rows.data, walk, &mut *block));
                    }
                    block
                }
                Source::Gather(fill) => {
                    let block = buffer();
                    fill(at, block);
                    block
                }
            });
        }
        xs
    }

    /// Returns where each broadcast operand is read for the element at a position and those after it.
    fn walks(&self, at: usize) -> SmallVec<[Runs<'_>; 2]> {
        let outer = self.shape.len() - self.n_plain;
        let walk = |rows: &'s Rows<'a, T>| {
            let Walk { index, places } = Walk::of(self, [rows], at);
            let (place, step) = places[0];
            let (shape, strides) = (&self.shape[..outer], &rows.strides[..outer]);
            Runs {
                shape,
                strides,
                index,
                place,
                step: step as usize,
                run: self.run,
                left: self.run - at % self.run,
            }
        };
        self.rows().map(walk).collect()
    }

    /// Returns the broadcast operands.
    fn rows(&self) -> impl Iterator<Item = &'s Rows<'a, T>> {
        self.sources.iter().filter_map(|source| match source {
            Source::Rows(rows) => Some(rows),
            _ => None,
        })
    }
}

/// A walk from run to run.
struct Walk {
    /// The index of the run along the other axes.
    index: Sizes,
    /// For each broadcast operand the place of the run's next element, and the step along the run.
    places: SmallVec<[(usize, isize); 4]>,
}

impl Walk {
    /// Starts at a position of the result; `rows` are operands.
    fn of<'r, T: Compute>(
        operands: &Operands<'_, '_, T>,
        rows: impl IntoIterator<Item = &'r Rows<'r, T>>,
        at: usize,
    ) -> Walk {
        let outer = &operands.shape[..operands.shape.len() - operands.n_plain];
        let (mut rest, inner) = (at / operands.run, at % operands.run);
        let mut index = Sizes::from_elem(0, outer.len());
        for (i, &size) in index.iter_mut().zip(outer).rev() {
            *i = rest % size;
            rest /= size;
        }
        let places = rows.into_iter().map(|rows| {
            let step = rows.step(operands.shape, operands.n_plain);
            (rows.place(&index) + inner * step as usize, step)
        });
        let places = places.collect();
        Walk { index, places }
    }

    /// Goes to the start of the next run.
    fn next_run<'r, T: Compute>(
        &mut self,
        operands: &Operands<'_, '_, T>,
        rows: impl IntoIterator<Item = &'r Rows<'r, T>>,
    ) {
        next_index(&mut self.index, operands.shape);
        for (rows, (place, _)) in rows.into_iter().zip(&mut self.places) {
            *place = rows.place(&self.index);
        }
    }
}

/// Goes to the next index in row-major order, after the last to the first.
#[inline(always)]
fn next_index(index: &mut Sizes, shape: &[usize]) {
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < size {
            break;
        }
        *i = 0;
    }
}

/// The runs of a broadcast operand, one after the other.
struct Runs<'s> {
    /// The other axes, and the operand's strides along them.
    shape: &'s [usize],
    strides: &'s [isize],
    /// The index of the run along these axes.
    index: Sizes,
    /// Where the next element is.
    place: usize,
    /// 0 if a run is one element, repeated; 1 if it is of neighbours.
    step: usize,
    /// How many elements a run has.
    run: usize,
    /// How many of them are to come.
    left: usize,
}

impl Runs<'_> {
    /// Goes on by some elements of this run, and to the next run at its end.
    #[inline(always)]
    fn advance(&mut self, len: usize) {
        self.left -= len;
        self.place += self.step * len;
        if self.left > 0 {
            return;
        }
        self.left = self.run;
        let begin = self.place - self.step * self.run;
        if let (Some(i), Some(&size), Some(&stride)) =
            (self.index.last_mut(), self.shape.last(), self.strides.last())
            && *i + 1 < size
        {
            *i += 1;
            self.place = begin.wrapping_add_signed(stride);
            return;
        }
        next_index(&mut self.index, self.shape);
        let places = self.index.iter().zip(self.strides).map(|(&i, &stride)| i as isize * stride);
        self.place = places.sum::<isize>() as usize;
    }
}

fx_simd::wide! {
    /// Fills a buffer with the elements of an operand from where `walk` is, run by run.
    fn join[T: Copy]((data, walk, buffer): (&[T], &mut Runs<'_>, &mut [T])) {
        let mut rest = buffer;
        while !rest.is_empty() {
            let len = walk.left.min(rest.len());
            let (part, others) = rest.split_at_mut(len);
            match walk.step {
                0 => part.fill(data[walk.place]),
                _ => part.copy_from_slice(&data[walk.place..][..len]),
            }
            walk.advance(len);
            rest = others;
        }
    }
}
