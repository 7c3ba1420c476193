//! [`gufunc!`](crate::gufunc!).

use super::{BlockElement, Data, DataMut};
use crate::{DType, Dim};

/// The blocks of an operand.
#[doc(hidden)]
#[derive(Debug)]
pub struct OperandBlocks<'a, T> {
    data: &'a [T],
    step: usize,
    len: usize,
}

impl<'a, T: BlockElement> OperandBlocks<'a, T> {
    /// Takes the next operand; `None` if it is left out.
    pub fn next(
        operands: &mut std::slice::Iter<'_, Option<(Data<'a>, usize)>>,
        len: usize,
    ) -> Option<OperandBlocks<'a, T>> {
        let (data, step) = operands.next().copied().flatten()?;
        Some(OperandBlocks { data: T::read(data), step, len })
    }

    /// Takes the next operand, which is there.
    pub fn given(
        operands: &mut std::slice::Iter<'_, Option<(Data<'a>, usize)>>,
        len: usize,
    ) -> OperandBlocks<'a, T> {
        OperandBlocks::next(operands, len).unwrap_or(OperandBlocks { data: &[], step: 0, len: 0 })
    }

    /// Returns the elements of a block.
    #[inline(always)]
    pub fn block(&self, i: usize) -> &'a [T] {
        if self.len == 0 { &[] } else { &self.data[i * self.step..][..self.len] }
    }
}

/// The blocks of a result.
#[doc(hidden)]
#[derive(Debug)]
pub struct ResultBlocks<'a, T> {
    data: &'a mut [T],
    len: usize,
}

impl<'a, T: BlockElement> ResultBlocks<'a, T> {
    /// Takes the next result.
    pub fn next(
        results: &mut std::slice::IterMut<'a, DataMut<'_>>,
        lens: &mut std::slice::Iter<'_, usize>,
    ) -> ResultBlocks<'a, T> {
        let data = results.next().map_or(&mut [] as &mut [T], T::write);
        ResultBlocks { data, len: lens.next().copied().unwrap_or(0) }
    }

    /// Returns the elements of a block, all of them zero.
    #[inline(always)]
    pub fn block(&mut self, i: usize) -> &mut [T] {
        let block = &mut self.data[i * self.len..][..self.len];
        block.fill(T::default());
        block
    }
}

/// Returns the dtype of a type that a signature names.
#[doc(hidden)]
pub const fn dtype_of<T: BlockElement>() -> DType {
    T::DTYPE
}

/// Takes the next size.
#[doc(hidden)]
pub fn next_size<'a>(sizes: &mut std::slice::Iter<'a, Dim>) -> &'a Dim {
    static NONE: std::sync::LazyLock<Dim> = std::sync::LazyLock::new(|| Dim::new(0));
    sizes.next().unwrap_or(&NONE)
}

/// Defines generalised universal functions by a signature and a body for one block: the eager kernel, a step of
/// plans with the pointwise operations behind it, and the text of stand-alone crates.
///
/// ```
/// fx_core::gufunc! {
///     /// My operations on blocks.
///     pub trait Blocks; pub static BLOCKS;
///
///     /// `(x @ weight.T) * scale`, for a weight of 8 bits with a scale for each of its rows.
///     #[split = n]
///     linear_int8(x: T[k], weight: i8[n, k], scale: T[n]) -> (out: T[n]) {
///         for (i, out) in out.iter_mut().enumerate() {
///             *out = row::sum_of_pairs(&weight[i * k..][..k], x, |w, x| w as T * x) * scale[i];
///         }
///     }
///
///     /// The greatest element of a row and its position.
///     greatest(x: T[n]) -> (value: T[], index: i64[]) {
///         value[0] = T::NEG_INFINITY;
///         for (i, x) in x.iter().enumerate() {
///             if *x > value[0] {
///                 value[0] = *x;
///                 index[0] = i as i64;
///             }
///         }
///     }
/// }
/// # use fx_core::Tensor;
/// let weight = Tensor::new([[1i8, 2], [0, -4]]);
/// let y = Tensor::new([[1.0f32, 3.0]]).linear_int8(&weight, Tensor::new([1.0f32, 0.5]));
/// assert_eq!(y.to_vec::<f32>()?, [7.0, -6.0]);
/// let (value, index) = y.greatest();
/// assert_eq!((value.to_vec::<f32>()?, index.to_vec::<i64>()?), (vec![7.0], vec![0]));
/// # Ok::<(), fx_core::Error>(())
/// ```
/// An operand is written `name: dtype[axes]`. Its last axes are the core axes: a name stands for the same size
/// wherever it is written, a number for that size. The axes before them are loop axes, which broadcast; the body
/// runs for each of their positions, on several threads where that pays. The dtype is `T` or one of `bool`,
/// `u8`, `i8`, `i32`, `i64`, `f32` and `f64`. `T` is one dtype of floats for the whole call: the body is
/// compiled for `f32` and `f64`, halves are computed in `f32`. An operand `bias: Option T[n]` may be left out.
/// Parameters after `;` are numbers, with their defaults.
///
/// The core sizes of a result are expressions of the names, such as `out: T[n / 2, k + 1]`: the left operand of
/// an operator is a name. In the body, an operand is the slice of the elements of its block in row-major order,
/// a result is a slice of zeros to be written, a name of an axis is a `usize`, a parameter is a `T`.
///
/// `#[split = n]` says that parts of the axis `n` can be computed by themselves, each as if `n` were smaller: then
/// threads share one large block. It is the first core axis of the results, and of the operands that have it.
///
/// A body may name only these, its own variables, literals, methods of slices and numbers, and the functions of
/// [`math`](crate::math) and [`row`](crate::row); then stand-alone crates have it. It does not `return` and does
/// not panic. `#[flops = ..]` says how much arithmetic it is; see [`Flops`](crate::op::Flops).
#[macro_export]
macro_rules! gufunc {
    (
        $(#[$tdoc:meta])*
        pub trait $trait:ident; pub static $table:ident;
        $(
            $(#[doc = $doc:literal])+
            $(#[flops = $flops:expr])?
            $(#[split = $split:ident])?
            $name:ident(
                $x:ident: $($t:ident)+ [$($n:tt),*]
                $(, $y:ident: $($s:ident)+ [$($k:tt),*])*
                $(; $($p:ident: $d:expr),*)?
            ) -> ($($out:ident: $u:ident [$($m:expr),*]),+) $body:block
        )*
    ) => {
        $(
            #[doc(hidden)]
            #[allow(non_camel_case_types, reason = "the handle is named as the operation")]
            pub enum $name {}
            impl $name {
                /// The operation.
                pub const OP: $crate::Op = {
                    static BODY: $crate::gufunc::GufuncDef = $crate::__gufunc_def! {
                        $name [[$x: $($t)+ [$($n)*]] $([$y: $($s)+ [$($k)*]])*] [$($($p)*)?]
                        [$([$out: $u [$($m),*]])+] [$($split)?] $body
                    };
                    static DEF: $crate::OpDef = $crate::OpDef {
                        name: $crate::op::op_name(stringify!($name)),
                        doc: concat!($($doc, "\n"),+),
                        path: concat!(module_path!(), "::", stringify!($name)),
                        returns: $crate::__gufunc!(returns $($out)+),
                        params: &[
                            $crate::Param { name: stringify!($x), kind: $crate::Kind::Tensor, default: None, keyword_only: false },
                            $($crate::Param {
                                name: stringify!($y),
                                kind: $crate::__gufunc!(kind $($s)+),
                                default: $crate::__gufunc!(default $($s)+),
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
                        gufunc: Some(&BODY),
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
                $(, $y: $crate::__gufunc!(type $($s)+))* $($(, $p: $crate::op::kind::Number)*)?)
                    -> $crate::__gufunc!(ret $($out)+)
            )*
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __gufunc_def {
    (
        $name:ident [$([$x:ident: $($t:ident)+ [$($n:tt)*]])+] [$($p:ident)*]
        [$([$out:ident: $u:ident [$($m:expr),*]])+] [$($split:ident)?] $body:block
    ) => {{
        const OPERANDS: &[$crate::gufunc::CoreOperand] = &[$($crate::gufunc::CoreOperand {
            name: stringify!($x),
            optional: $crate::__gufunc!(optional $($t)+),
            dtype: $crate::__gufunc!(dtype $($t)+),
            axes: &[$($crate::__gufunc!(axis $n)),*],
        }),+];
        const RESULTS: &[$crate::gufunc::CoreResult] = &[$($crate::gufunc::CoreResult {
            name: stringify!($out),
            dtype: $crate::__gufunc!(dtype $u),
            sizes: &[$(stringify!($m)),*],
        }),+];
        const SPLIT: Option<&str> = $crate::__gufunc!(split $($split)?);
        const PARAMS: &[&str] = &[$(stringify!($p)),*];
        const { $crate::gufunc::check(OPERANDS, RESULTS, PARAMS, SPLIT) };
        #[allow(unused, clippy::all, clippy::pedantic, reason = "the sizes are the user's code")]
        fn result_sizes(sizes: &[$crate::Dim]) -> ::std::vec::Vec<::std::vec::Vec<$crate::Dim>> {
            let mut sizes = sizes.iter();
            $($($crate::__gufunc!(dim sizes $n);)*)+
            vec![$(vec![$($crate::Dim::from($m)),*]),+]
        }
        $crate::gufunc::GufuncDef {
            name: $crate::op::op_name(stringify!($name)),
            operands: OPERANDS,
            params: PARAMS,
            results: RESULTS,
            result_sizes,
            split: SPLIT,
            kernels: $crate::gufunc::Kernels {
                f32: $crate::__gufunc_body!(f32, [$([$x: $($t)+ [$($n)*]])+] [$($p)*] [$([$out: $u])+] $body),
                f64: $crate::__gufunc_body!(f64, [$([$x: $($t)+ [$($n)*]])+] [$($p)*] [$([$out: $u])+] $body),
            },
            body: stringify!($body),
        }
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __gufunc_body {
    (
        $f:ident, [$([$x:ident: $($t:ident)+ [$($n:tt)*]])+] [$($p:ident)*] [$([$out:ident: $u:ident])+] $body:block
    ) => {{
        #[allow(unused, clippy::all, clippy::pedantic, reason = "the body is the user's code")]
        fn kernel(blocks: &$crate::gufunc::Blocks<'_>, results: &mut [$crate::gufunc::DataMut<'_>]) {
            struct Loop<'a, 'b, 'c>(&'b $crate::gufunc::Blocks<'a>, &'b mut [$crate::gufunc::DataMut<'c>]);
            impl $crate::__private::Work for Loop<'_, '_, '_> {
                type Output = ();
                #[inline(always)]
                fn run(self) {
                    use $crate::{math, row};
                    type T = $f;
                    let Loop(blocks, results) = self;
                    let mut sizes = blocks.sizes.iter();
                    $($($crate::__gufunc!(size sizes $n);)*)+
                    let mut operands = blocks.operands.iter();
                    $($crate::__gufunc!(take operands $x (1usize $(* $n)*) $($t)+);)+
                    let (mut results, mut lens) = (results.iter_mut(), blocks.lens.iter());
                    $(let mut $out = $crate::gufunc::ResultBlocks::<$u>::next(&mut results, &mut lens);)+
                    let mut params = blocks.params.iter();
                    $(let $p: T = params.next().copied().unwrap_or_default() as T;)*
                    for block in 0..blocks.n {
                        $($crate::__gufunc!(block block $x $($t)+);)+
                        $(let $out: &mut [$u] = $out.block(block);)+
                        $body
                    }
                }
            }
            $crate::rowwise::widest::<$f, _>(Loop(blocks, results));
        }
        kernel
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __gufunc {
    (split) => {
        ::core::option::Option::None
    };
    (split $split:ident) => {
        ::core::option::Option::Some(stringify!($split))
    };
    (returns $one:ident) => {
        "Tensor"
    };
    (returns $first:ident $($more:ident)+) => {
        concat!("(Tensor", $($crate::__gufunc!(returns_more $more),)+ ")")
    };
    (returns_more $more:ident) => {
        ", Tensor"
    };
    (ret $one:ident) => {
        $crate::Tensor
    };
    (ret $($more:ident)+) => {
        ($($crate::__gufunc!(ret $more)),+)
    };
    (kind Option $t:ident) => {
        $crate::Kind::OptTensor
    };
    (kind $t:ident) => {
        $crate::Kind::Tensor
    };
    (type Option $t:ident) => {
        $crate::op::kind::OptTensor
    };
    (type $t:ident) => {
        $crate::op::kind::Tensor
    };
    (default Option $t:ident) => {
        ::core::option::Option::Some($crate::op::Default::None)
    };
    (default $t:ident) => {
        ::core::option::Option::None
    };
    (optional Option $t:ident) => {
        true
    };
    (optional $t:ident) => {
        false
    };
    (dtype Option $t:ident) => {
        $crate::__gufunc!(dtype $t)
    };
    (dtype T) => {
        ::core::option::Option::None
    };
    (dtype $t:ident) => {
        ::core::option::Option::Some($crate::gufunc::dtype_of::<$t>())
    };
    (axis $n:ident) => {
        $crate::gufunc::CoreAxis::Named(stringify!($n))
    };
    (axis $n:literal) => {
        $crate::gufunc::CoreAxis::Known($n)
    };
    (dim $sizes:ident $n:ident) => {
        let $n: &$crate::Dim = $crate::gufunc::next_size(&mut $sizes);
    };
    (dim $sizes:ident $n:literal) => {
        $crate::gufunc::next_size(&mut $sizes);
    };
    (size $sizes:ident $n:ident) => {
        let $n: usize = $sizes.next().copied().unwrap_or_default();
    };
    (size $sizes:ident $n:literal) => {
        $sizes.next();
    };
    (take $operands:ident $x:ident $len:tt Option $t:ident) => {
        let $x = $crate::gufunc::OperandBlocks::<$t>::next(&mut $operands, $len);
    };
    (take $operands:ident $x:ident $len:tt $t:ident) => {
        let $x = $crate::gufunc::OperandBlocks::<$t>::given(&mut $operands, $len);
    };
    (block $block:ident $x:ident Option $t:ident) => {
        let $x: Option<&[$t]> = $x.as_ref().map(|x| x.block($block));
    };
    (block $block:ident $x:ident $t:ident) => {
        let $x: &[$t] = $x.block($block);
    };
}
