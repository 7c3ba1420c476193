//! Row-wise operations: each row of a tensor, its last axes, is computed by itself. Softmax, normalisations and
//! reductions of rows are such.
//!
//! The body of a row-wise operation is written once, for one row. [`rowwise!`](crate::rowwise!) makes it the eager
//! kernel, a part of fused kernels, and the text of stand-alone crates. An operation with a schema of its own says
//! by [`OpDef::rows`](crate::OpDef::rows) which of its calls are row-wise: `softmax` along one axis.

use fx_simd::Work;
use smallvec::SmallVec;

use crate::array::{build_blocks, checked_numel};
use crate::op::ParamKind;
use crate::op::kind::{self, IntoValue};
use crate::{Arg, Array, DType, Element, Result, Shape, TensorType, TypeTree, Value, err};

/// The most operands and the most parameters of a row-wise operation.
pub const MOST: usize = 4;

/// Rows, what is the same for all of them, and the parameters.
#[derive(Debug)]
pub struct Rows<'a, T> {
    /// The elements, row after row.
    pub x: &'a [T],
    /// The elements of a row.
    pub width: usize,
    /// The operands after the first, each of the elements of one row; `None` if it is left out.
    pub others: &'a [Option<&'a [T]>],
    /// The parameters.
    pub params: &'a [f64],
}

/// Computes rows; the result has as many elements, or one for each row.
pub type Kernel<T> = fn(&Rows<'_, T>, &mut [T]);

/// A kernel for each dtype in which rows are computed.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// That of `f32`, in which halves are computed, too.
    pub f32: Kernel<f32>,
    /// That of `f64`.
    pub f64: Kernel<f64>,
}

/// An element type in which rows are computed.
pub trait Compute: Element {
    /// Returns the kernel of this type.
    fn kernel(kernels: &Kernels) -> Kernel<Self>;
}

impl Compute for f32 {
    fn kernel(kernels: &Kernels) -> Kernel<f32> {
        kernels.f32
    }
}

impl Compute for f64 {
    fn kernel(kernels: &Kernels) -> Kernel<f64> {
        kernels.f64
    }
}

/// The row-wise part of a row of the table of operations.
#[derive(Debug)]
pub struct RowwiseDef {
    /// The name of the function in generated code.
    pub name: &'static str,
    /// The names of the operands: the rows, then what is the same for all of them.
    pub operands: &'static [&'static str],
    /// Whether each operand may be left out.
    pub optional: &'static [bool],
    /// The names of the parameters.
    pub params: &'static [&'static str],
    /// The name of the row of the result in the body; `None` if a row gives one element, the value of the body.
    pub out: Option<&'static str>,
    /// What the engines run.
    pub kernels: Kernels,
    /// The body as it is written, if `kernels` are tuned ones: in debug builds, for tests.
    pub portable: Option<Kernels>,
    /// The text of the body.
    pub body: &'static str,
}

/// A row-wise call: the operation with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct RowCall {
    /// The operation.
    pub def: &'static RowwiseDef,
    /// Which operands there are.
    pub present: [bool; MOST],
    /// The parameters, and zeros behind them.
    pub params: [f64; MOST],
}

// Operations are rows, which are compared by address.
impl PartialEq for RowCall {
    fn eq(&self, other: &RowCall) -> bool {
        std::ptr::eq(self.def, other.def)
            && self.present == other.present
            && self.params.map(f64::to_bits) == other.params.map(f64::to_bits)
    }
}

/// A row-wise call, and the axes of the first operand that make a row.
#[derive(Clone, Debug)]
pub struct Rowwise {
    /// The call.
    pub call: RowCall,
    /// The axes, in order and each once.
    pub axes: SmallVec<[usize; 4]>,
}

impl Rowwise {
    /// Makes a call on rows of these axes.
    pub fn new(call: RowCall, axes: impl IntoIterator<Item = usize>) -> Rowwise {
        Rowwise { call, axes: axes.into_iter().collect() }
    }

    /// Returns of how many axes the rows are, if these are the last ones of `rank`.
    pub fn last_axes(&self, rank: usize) -> Option<usize> {
        let first = *self.axes.first()?;
        (self.axes.len() == rank.checked_sub(first)?).then_some(self.axes.len())
    }
}

/// Returns the row-wise call that a call with these arguments in schema order is, if it is one. Tensors are
/// leaves, the first of them of this type.
pub type RowwiseRule = fn(&[Arg<()>], &TensorType) -> Option<Rowwise>;

/// Returns an argument as a [`RowwiseRule`] takes it.
pub fn without_leaves<L>(arg: &Arg<L>) -> Arg<()> {
    arg.try_flat_map(&mut |_| Ok(Arg::Leaf(()))).unwrap_or_else(Arg::Failed)
}

/// Runs work in the widest vectors that pay for elements of a type.
#[doc(hidden)]
#[inline]
pub fn widest<T, W: Work>(work: W) -> W::Output {
    if const { size_of::<T>() > 4 } { fx_simd::widest_256(work) } else { fx_simd::widest(work) }
}

/// The elements of a task, below which a second thread does not pay.
const GRAIN: usize = 1 << 13;

impl RowCall {
    /// Makes a call with these parameters, whose operands are all there.
    pub fn new(def: &'static RowwiseDef, params: &[f64]) -> RowCall {
        let param = |i: usize| params.get(i).copied().unwrap_or(0.0);
        RowCall {
            def,
            present: std::array::from_fn(|i| i < def.operands.len()),
            params: std::array::from_fn(param),
        }
    }

    /// Returns whether a row gives one element.
    pub fn reduces(&self) -> bool {
        self.def.out.is_none()
    }

    /// Computes rows of `width` elements on this thread; `others` are the operands after the first that there are.
    pub fn run<T: Compute>(&self, x: &[T], width: usize, others: &[&[T]], out: &mut [T]) {
        self.run_as(&self.def.kernels, x, width, others, out);
    }

    /// As [`run`](Self::run), by the body as it is written; see [`RowwiseDef::portable`].
    pub fn run_portable<T: Compute>(&self, x: &[T], width: usize, others: &[&[T]], out: &mut [T]) {
        self.run_as(&self.def.portable.unwrap_or(self.def.kernels), x, width, others, out);
    }

    fn run_as<T: Compute>(&self, kernels: &Kernels, x: &[T], width: usize, others: &[&[T]], out: &mut [T]) {
        let mut given = others.iter().copied();
        let others: [Option<&[T]>; MOST] =
            std::array::from_fn(|i| if self.present.get(i + 1) == Some(&true) { given.next() } else { None });
        T::kernel(kernels)(&Rows { x, width, others: &others, params: &self.params }, out);
    }

    /// Computes the rows of an array, whose operands are dense and of this type, on several threads where it pays.
    fn eval<T: Compute>(&self, x: &Array, others: &[Array], shape: &[usize]) -> Result<Array> {
        let width = x.shape().last().copied().unwrap_or(1);
        let unit = if self.reduces() { 1 } else { width.max(1) };
        let rows = GRAIN.div_ceil(width.max(1));
        let others = others.iter().map(Array::data::<T>).collect::<Result<SmallVec<[&[T]; MOST]>>>()?;
        let x = x.data::<T>()?;
        let fill = |at: usize, out: &mut [T]| {
            let (first, n) = (at / unit, out.len() / unit);
            self.run(&x[first * width..][..n * width], width, &others, out);
        };
        Array::from_vec(build_blocks(checked_numel(shape)?, rows * unit, 1, &fill)?, shape)
    }
}

impl RowwiseDef {
    /// Returns the call that these arguments of an operation of [`rowwise!`](crate::rowwise!) are.
    pub fn call(&'static self, args: &[Arg<()>], x: &TensorType) -> Option<Rowwise> {
        let (operands, params) = args.split_at_checked(self.operands.len())?;
        let params: SmallVec<[f64; MOST]> =
            params.iter().map(|arg| Some(arg.scalar()?.to_f64())).collect::<Option<_>>()?;
        let mut call = RowCall::new(self, &params);
        for (present, arg) in call.present.iter_mut().zip(operands) {
            *present = matches!(arg, Arg::Leaf(()));
        }
        let rank = x.rank();
        (rank > 0).then(|| Rowwise::new(call, [rank - 1]))
    }

    /// Returns the type of the result. Fails if the operands are no floats of one dtype, or have not the size of a
    /// row.
    pub fn infer(&self, args: &[TypeTree]) -> Result<TypeTree> {
        let others = args.iter().take(self.operands.len()).skip(1);
        let others =
            others.map(<kind::OptTensor as ParamKind>::ty).collect::<Result<SmallVec<[_; MOST]>>>()?;
        let x = <kind::Tensor as ParamKind>::ty(first(args)?)?;
        self.result(x, others.into_iter()).map(TypeTree::from)
    }

    fn result<'a>(
        &self,
        x: &TensorType,
        others: impl Iterator<Item = Option<&'a TensorType>>,
    ) -> Result<TensorType> {
        if !x.dtype.is_float() {
            return Err(err!(DType, "expected floats, got {}", x.dtype).help("convert the operand with `to`"));
        }
        let Some((width, outer)) = x.shape.split_last() else {
            return Err(
                err!(Shape, "expected rows, got {x}, which has no axes").help("add one with `unsqueeze`")
            );
        };
        for (name, ty) in self.operands.iter().skip(1).zip(others) {
            let Some(ty) = ty else { continue };
            if ty.dtype != x.dtype {
                return Err(err!(DType, "expected {name} of {}, the dtype of the rows, got {ty}", x.dtype)
                    .help("convert one of them with `to`"));
            }
            if ty.rank() != 1 || ty.shape[0].same(width).is_no() {
                return Err(err!(Shape, "expected {name} of [{width}], the size of a row, got {ty}"));
            }
        }
        let shape: Shape = match self.out {
            Some(_) => x.shape.clone(),
            None => outer.iter().cloned().collect(),
        };
        Ok(TensorType::new(x.dtype, shape))
    }

    /// Computes the result. Fails as [`infer`](Self::infer) does.
    pub fn eval(&'static self, args: &[Value]) -> Result<Value> {
        let x = <kind::Tensor as ParamKind>::value(first(args)?)?;
        let type_of = |x: &Array| TensorType::new(x.dtype(), x.shape());
        let others = args.iter().take(self.operands.len()).skip(1);
        let others =
            others.map(<kind::OptTensor as ParamKind>::value).collect::<Result<SmallVec<[_; MOST]>>>()?;
        let types: SmallVec<[_; MOST]> = others.iter().map(|other| other.map(type_of)).collect();
        let ty = self.result(&type_of(x), types.iter().map(Option::as_ref))?;
        let leaves: SmallVec<[Arg<()>; 2 * MOST]> = args.iter().map(without_leaves).collect();
        let Some(Rowwise { call, .. }) = self.call(&leaves, &type_of(x)) else {
            return Err(err!(Argument, "{}: a parameter is not a number", self.name));
        };
        let wide = if ty.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let dense = |x: &Array| x.cast(wide).contiguous();
        let others = others.iter().copied().flatten().map(dense).collect::<Result<SmallVec<[_; MOST]>>>()?;
        let shape = &x.shape()[..ty.rank()];
        let out = match wide {
            DType::F64 => call.eval::<f64>(&dense(x)?, &others, shape)?,
            _ => call.eval::<f32>(&dense(x)?, &others, shape)?,
        };
        Ok(out.cast(ty.dtype).into_value())
    }
}

fn first<L>(args: &[Arg<L>]) -> Result<&Arg<L>> {
    args.first().ok_or_else(|| err!(Argument, "the rows are missing"))
}

/// Defines row-wise operations: one body for one row is the eager kernel, a part of fused kernels, and the text of
/// stand-alone crates.
///
/// ```
/// fx_core::rowwise! {
///     /// My operations on rows.
///     pub trait Rowwise; pub static ROWWISE;
///
///     /// `x / sqrt(mean(x * x) + eps) * (1 + weight)`.
///     gemma_norm(x, weight; eps: 1e-6) -> out {
///         let scale = math::rsqrt(row::sum_squares(x) / x.len() as T + eps);
///         for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
///             *out = *x * scale * (1.0 + *weight);
///         }
///     }
///
///     /// The root of the sum of squares of a row.
///     row_norm(x) -> T { math::sqrt(row::sum_squares(x)) }
/// }
/// let x = fx_core::Tensor::new([[3.0f32, 4.0], [0.0, 2.0]]);
/// assert_eq!(x.row_norm().to_vec::<f32>()?, [5.0, 2.0]);
/// # Ok::<(), fx_core::Error>(())
/// ```
/// The first operand is a tensor of floats, whose last axis is the row. Other operands have the size of a row and
/// are the same for all rows; one that is written `bias: Option` may be left out. Parameters after `;` are
/// numbers, with their defaults. In the body, operands are slices `&[T]` (or `Option<&[T]>`), parameters are `T`,
/// and `T` is `f32` or `f64`; halves are computed in `f32`. The body writes the row `out`, of the length of `x`
/// and with arbitrary contents at first, or, after `-> T`, is the one element that the row gives.
///
/// A body may name only these, its own variables, literals, methods of slices and numbers, and the functions of
/// [`math`](crate::math) and [`row`](crate::row); then stand-alone crates have it. `#[flops = ..]` says how much
/// arithmetic it is; see [`Flops`](crate::op::Flops).
#[macro_export]
macro_rules! rowwise {
    (
        $(#[$tdoc:meta])*
        pub trait $trait:ident; pub static $table:ident;
        $(
            $(#[doc = $doc:literal])+
            $(#[flops = $flops:expr])?
            $name:ident($x:ident $(, $y:ident $(: $option:ident)?)* $(; $($p:ident: $d:expr),*)?) -> $out:ident $body:block
        )*
    ) => {
        $(
            #[doc(hidden)]
            #[allow(non_camel_case_types, reason = "the handle is named as the operation")]
            pub enum $name {}
            impl $name {
                /// The operation.
                pub const OP: $crate::Op = {
                    static BODY: $crate::rowwise::RowwiseDef =
                        $crate::row_kernel!($name($x $(, $y $(: $option)?)* $(; $($p),*)?) -> $out $body);
                    static DEF: $crate::OpDef = $crate::OpDef {
                        name: $crate::op::op_name(stringify!($name)),
                        doc: concat!($($doc, "\n"),+),
                        path: concat!(module_path!(), "::", stringify!($name)),
                        params: &[
                            $crate::Param { name: stringify!($x), kind: $crate::Kind::Tensor, default: None, keyword_only: false },
                            $($crate::Param {
                                name: stringify!($y),
                                kind: $crate::__row_operand!(kind $($option)?),
                                default: $crate::__row_operand!(default $($option)?),
                                keyword_only: false,
                            },)*
                            $($($crate::Param {
                                name: stringify!($p),
                                kind: $crate::Kind::Number,
                                default: Some($crate::op::Written($d).default()),
                                keyword_only: false,
                            },)*)?
                        ],
                        flops: $crate::__row_operand!(flops $($flops)?),
                        method: true,
                        infer: &|args| BODY.infer(args),
                        eval: &|args| BODY.eval(args),
                        rows: Some(|args, x| BODY.call(args, x)),
                        ..$crate::OpDef::BASE
                    };
                    $crate::Op::new(&DEF)
                };
            }
        )*
        $crate::__tensor_functions! {
            [$(#[$tdoc])*] $trait $table
            $(
                [$($doc)+] $name ($x: $crate::op::kind::Tensor
                $(, $y: $crate::__row_operand!(type $($option)?))* $($(, $p: $crate::op::kind::Number)*)?) -> $crate::Tensor
            )*
        }
    };
}

/// Makes a [`RowwiseDef`] of a body, which is written as in [`rowwise!`](crate::rowwise!).
///
/// `#[tuned = name]` names a generic function, of a [`Compute`], that the engines run instead of the body.
#[macro_export]
macro_rules! row_kernel {
    (
        $(#[tuned = $tuned:ident])?
        $name:ident($x:ident $(, $y:ident $(: $option:ident)?)* $(; $($p:ident),*)?) -> $out:ident $body:block
    ) => {{
        #[allow(dead_code, reason = "a tuned row checks that its body compiles")]
        const PORTABLE: $crate::rowwise::Kernels = $crate::rowwise::Kernels {
            f32: $crate::__row_body!(f32, $x [$([$y $($option)?])*] [$($($p)*)?] $out $body),
            f64: $crate::__row_body!(f64, $x [$([$y $($option)?])*] [$($($p)*)?] $out $body),
        };
        const OPERANDS: &[&str] = &[stringify!($x) $(, stringify!($y))*];
        const PARAMS: &[&str] = &[$($(stringify!($p)),*)?];
        const { assert!(OPERANDS.len() <= $crate::rowwise::MOST, "a row-wise operation has at most 4 operands") };
        const { assert!(PARAMS.len() <= $crate::rowwise::MOST, "a row-wise operation has at most 4 parameters") };
        $crate::rowwise::RowwiseDef {
            name: $crate::op::op_name(stringify!($name)),
            operands: OPERANDS,
            optional: &[false $(, $crate::__row_operand!(optional $($option)?))*],
            params: PARAMS,
            out: $crate::__row_operand!(out $out),
            kernels: $crate::__row_operand!(kernels PORTABLE $($tuned)?),
            portable: $crate::__row_operand!(portable PORTABLE $($tuned)?),
            body: stringify!($body),
        }
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __row_operand {
    (kind) => {
        $crate::Kind::Tensor
    };
    (kind Option) => {
        $crate::Kind::OptTensor
    };
    (type) => {
        $crate::op::kind::Tensor
    };
    (type Option) => {
        $crate::op::kind::OptTensor
    };
    (default) => {
        ::core::option::Option::None
    };
    (default Option) => {
        ::core::option::Option::Some($crate::op::Default::None)
    };
    (optional) => {
        false
    };
    (optional Option) => {
        true
    };
    (flops) => {
        $crate::Flops::Unknown
    };
    (flops $flops:expr) => {
        $flops
    };
    (out T) => {
        ::core::option::Option::None
    };
    (out $out:ident) => {
        ::core::option::Option::Some(stringify!($out))
    };
    (kernels $portable:ident) => {
        $portable
    };
    (kernels $portable:ident $tuned:ident) => {
        $crate::rowwise::Kernels { f32: $tuned::<f32>, f64: $tuned::<f64> }
    };
    (portable $portable:ident) => {
        None
    };
    (portable $portable:ident $tuned:ident) => {{
        #[cfg(debug_assertions)]
        const KERNELS: Option<$crate::rowwise::Kernels> = Some($portable);
        #[cfg(not(debug_assertions))]
        const KERNELS: Option<$crate::rowwise::Kernels> = None;
        KERNELS
    }};
    (take $others:ident $y:ident) => {
        let $y: &[T] = $others.next().copied().flatten().unwrap_or_default();
    };
    (take $others:ident $y:ident Option) => {
        let $y: Option<&[T]> = $others.next().copied().flatten();
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __row_body {
    ($t:ident, $x:ident [$([$y:ident $($option:ident)?])*] [$($p:ident)*] $out:ident $body:block) => {{
        #[allow(unused, clippy::all, clippy::pedantic, reason = "the body is the user's code")]
        fn kernel(rows: &$crate::rowwise::Rows<'_, $t>, out: &mut [$t]) {
            struct Loop<'a, 'b>(&'b $crate::rowwise::Rows<'a, $t>, &'b mut [$t]);
            impl $crate::__private::Work for Loop<'_, '_> {
                type Output = ();
                #[inline(always)]
                fn run(self) {
                    use $crate::{math, row};
                    type T = $t;
                    let Loop(rows, results) = self;
                    let mut others = rows.others.iter();
                    $($crate::__row_operand!(take others $y $($option)?);)*
                    let mut params = rows.params.iter();
                    $(let $p: T = params.next().copied().unwrap_or_default() as T;)*
                    $crate::__row_loop!(rows, results, $x $out $body);
                }
            }
            $crate::rowwise::widest::<$t, _>(Loop(rows, out));
        }
        kernel
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __row_loop {
    ($rows:ident, $results:ident, $x:ident T $body:block) => {
        for (i, result) in $results.iter_mut().enumerate() {
            let $x: &[T] = &$rows.x[i * $rows.width..][..$rows.width];
            *result = $body;
        }
    };
    ($rows:ident, $results:ident, $x:ident $out:ident $body:block) => {
        let width = $rows.width.max(1);
        for ($x, $out) in $rows.x.chunks_exact(width).zip($results.chunks_exact_mut(width)) $body
    };
}
