//! Special functions, and functions of the parts of numbers, element by element.
//!
//! The scalar body of a pointwise row is its eager kernel, its fused kernel and its generated Rust.

use fx_core::array::checked_numel;
use fx_core::op::Default::Int;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::special as math;
use fx_core::{Array, DType, Element, Op, Result, Tensor, TensorType, bail, err, kernels, pointwise};
use fx_simd::{call_256, wide};
use half::{bf16, f16};

use crate::kernel::chunks::fill;
use crate::ops::check::{dense, float_only, in_float, slice, type_of};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SPECIAL, FLOAT_PARTS];

pointwise! {
    /// Special functions, element by element.
    pub trait Special; pub static SPECIAL;

    /// The modified Bessel function of the first kind of order 0.
    i0(x) -> Float { real: math::i0(x) }
    /// `exp(-|x|) i0(x)`.
    special_i0e(x) -> Float { real: math::i0e(x) }
    /// The modified Bessel function of the first kind of order 1.
    special_i1(x) -> Float { real: math::i1(x) }
    /// `exp(-|x|) special_i1(x)`.
    special_i1e(x) -> Float { real: math::i1e(x) }
    /// The Bessel function of the first kind of order 0.
    special_bessel_j0(x) -> Float { real: math::bessel_j0(x) }
    /// The Bessel function of the first kind of order 1.
    special_bessel_j1(x) -> Float { real: math::bessel_j1(x) }
    /// The Bessel function of the second kind of order 0; minus infinity at 0, NaN below.
    special_bessel_y0(x) -> Float { real: math::bessel_y0(x) }
    /// The Bessel function of the second kind of order 1; minus infinity at 0, NaN below.
    special_bessel_y1(x) -> Float { real: math::bessel_y1(x) }
    /// The modified Bessel function of the second kind of order 0; infinite at 0, NaN below.
    special_modified_bessel_k0(x) -> Float { real: math::bessel_k0(x) }
    /// The modified Bessel function of the second kind of order 1; infinite at 0, NaN below.
    special_modified_bessel_k1(x) -> Float { real: math::bessel_k1(x) }
    /// `exp(x) special_modified_bessel_k0(x)`.
    special_scaled_modified_bessel_k0(x) -> Float { real: math::bessel_k0e(x) }
    /// `exp(x) special_modified_bessel_k1(x)`.
    special_scaled_modified_bessel_k1(x) -> Float { real: math::bessel_k1e(x) }
    /// `sin(x) / x`, 1 at 0.
    special_spherical_bessel_j0(x) -> Float {
        real: if math::abs(x) == 1.0 / 0.0 { 0.0 } else if x == 0.0 { 1.0 } else { math::sin(x) / x }
    }
    /// `exp(x * x) erfc(x)` without overflow for positive `x`.
    special_erfcx(x) -> Float { real: math::erfcx(x) }
    /// The normal distribution function.
    special_ndtr(x) -> Float { real: math::ndtr(x) }
    /// The logarithm of the normal distribution function without underflow.
    special_log_ndtr(x) -> Float { real: math::log_ndtr(x) }
    /// The inverse of the normal distribution function; NaN outside [0, 1].
    special_ndtri(x) -> Float { real: math::ndtri(x) }
    /// `-x log(x)`; 0 at 0, minus infinity below.
    special_entr(x) -> Float {
        real: {
            let y = -x * math::log(x);
            let y = if x == 0.0 { 0.0 } else { y };
            if x < 0.0 { -1.0 / 0.0 } else { y }
        }
    }
    /// `x * log(1 + other)`; 0 where `x` is 0, NaN where `other` is NaN.
    special_xlog1py(x, other) -> Float {
        real: {
            let y = x * math::log1p(other);
            let y = if x == 0.0 { 0.0 } else { y };
            if other != other { other } else { y }
        }
    }
    /// Chebyshev's polynomial of the first kind, of the degree that is the integer part of `n`; 0 where that is
    /// negative, NaN where it overflows.
    special_chebyshev_polynomial_t(x, n) -> Float { real: { let y = math::chebyshev_t(x, n); y + y * 0.0 } }
    /// Chebyshev's polynomial of the second kind, of the degree that is the integer part of `n`; 0 where that is
    /// negative, NaN where it overflows.
    special_chebyshev_polynomial_u(x, n) -> Float { real: { let y = math::chebyshev_u(x, n); y + y * 0.0 } }
    /// Chebyshev's polynomial of the third kind, of the degree that is the integer part of `n`; 0 where that is
    /// negative, NaN where it overflows.
    special_chebyshev_polynomial_v(x, n) -> Float { real: { let y = math::chebyshev_v(x, n); y + y * 0.0 } }
    /// Chebyshev's polynomial of the fourth kind, of the degree that is the integer part of `n`; 0 where that is
    /// negative, NaN where it overflows.
    special_chebyshev_polynomial_w(x, n) -> Float { real: { let y = math::chebyshev_w(x, n); y + y * 0.0 } }
    /// `special_chebyshev_polynomial_t` of `2 x - 1`.
    special_shifted_chebyshev_polynomial_t(x, n) -> Float {
        real: { let y = math::chebyshev_t(x + x - 1.0, n); y + y * 0.0 }
    }
    /// `special_chebyshev_polynomial_u` of `2 x - 1`.
    special_shifted_chebyshev_polynomial_u(x, n) -> Float {
        real: { let y = math::chebyshev_u(x + x - 1.0, n); y + y * 0.0 }
    }
    /// `special_chebyshev_polynomial_v` of `2 x - 1`.
    special_shifted_chebyshev_polynomial_v(x, n) -> Float {
        real: { let y = math::chebyshev_v(x + x - 1.0, n); y + y * 0.0 }
    }
    /// `special_chebyshev_polynomial_w` of `2 x - 1`.
    special_shifted_chebyshev_polynomial_w(x, n) -> Float {
        real: { let y = math::chebyshev_w(x + x - 1.0, n); y + y * 0.0 }
    }
    /// Hermite's polynomial of the physicists, of the degree that is the integer part of `n`; 0 where that is
    /// negative, NaN where it overflows.
    special_hermite_polynomial_h(x, n) -> Float { real: { let y = math::hermite_h(x, n); y + y * 0.0 } }
    /// Hermite's polynomial of the probabilists, of the degree that is the integer part of `n`; 0 where that
    /// is negative, NaN where it overflows.
    special_hermite_polynomial_he(x, n) -> Float { real: { let y = math::hermite_he(x, n); y + y * 0.0 } }
    /// Laguerre's polynomial, of the degree that is the integer part of `n`; 0 where that is negative, NaN
    /// where it overflows.
    special_laguerre_polynomial_l(x, n) -> Float { real: { let y = math::laguerre(x, n); y + y * 0.0 } }
    /// Legendre's polynomial, of the degree that is the integer part of `n`; 0 where that is negative, NaN
    /// where it overflows.
    special_legendre_polynomial_p(x, n) -> Float { real: { let y = math::legendre(x, n); y + y * 0.0 } }
    /// The regularised lower incomplete gamma function of order `x` at `other`; NaN where one is negative.
    igamma(x, other) -> Float { real: math::gammainc(x, other) }
    /// The regularised upper incomplete gamma function of order `x` at `other`; NaN where one is negative.
    igammac(x, other) -> Float { real: math::gammaincc(x, other) }
    /// Hurwitz's zeta function: the sum of `(other + k)^-x` for `k` from 0 on.
    special_zeta(x, other) -> Float { real: math::zeta(x, other) }
    /// The derivative of `digamma` of order `n`, which PyTorch's function takes first.
    polygamma(x; n: Int(1)) -> Float { real: math::polygamma(n, x) }
    /// The logarithm of the gamma function of `p` variables: `p (p - 1) / 4 log(pi)` and the sum of
    /// `lgamma(x - i / 2)` for `i` from 0 to `p - 1`.
    mvlgamma(x; p: Int(1)) -> Float {
        real: {
            let (mut sum, mut i) = (p * (p - 1.0) * 0.286_182_471_462_350_04, 0.0);
            while i < p {
                sum = sum + math::lgamma(x - i * 0.5);
                i = i + 1.0;
            }
            sum
        }
    }
    /// `x * 2^other`, without overflow of the power.
    ldexp(x, other) -> Float {
        real: {
            let third = math::trunc(other / 3.0);
            x * math::exp2(third) * math::exp2(third) * math::exp2(other - third - third)
        }
    }
    /// The greatest common divisor, at least 0; that of 0 and `x` is `|x|`.
    #[commutative = true]
    gcd(x, other) -> Same {
        int: {
            let (mut a, mut b) = (x, other);
            while b != 0 {
                let rest = a.wrapping_rem(b);
                a = b;
                b = rest;
            }
            if a < 0 { a.wrapping_neg() } else { a }
        }
    }
    /// The least common multiple, at least 0; 0 if one is 0. Integers wrap.
    #[commutative = true]
    lcm(x, other) -> Same {
        int: {
            let (mut a, mut b) = (x, other);
            while b != 0 {
                let rest = a.wrapping_rem(b);
                a = b;
                b = rest;
            }
            let y = if a == 0 { a } else { x.wrapping_div(a).wrapping_mul(other) };
            if y < 0 { y.wrapping_neg() } else { y }
        }
    }
}

kernels! {
    /// Functions of the parts of floats.
    pub trait FloatParts; pub static FLOAT_PARTS;

    /// The next float after `x` in the direction of `other`; `other` where they are equal. Both are of one dtype.
    nextafter(x: Tensor, other: Tensor) = next_type, next_array;
    /// `x` as a fraction whose magnitude is from 0.5 to 1, and the i32 exponent of a power of two:
    /// `x = fraction * 2^exponent`.
    ///
    /// 0, infinity and NaN are themselves, with the exponent 0.
    frexp(x: Tensor) -> (Tensor, Tensor) = frexp_type, frexp_array;
    /// The bytes of `x` as elements of another dtype. Where that is smaller or larger, the last axis grows or
    /// shrinks by the ratio.
    view_dtype(x: Tensor, dtype: DType) = view_type, view_array;
}

fn next_type(x: &TensorType, other: &TensorType) -> Result<TensorType> {
    let dtype = x.dtype.promote(other.dtype);
    float_only(dtype)?;
    Ok(TensorType { dtype, shape: broadcast_dims([&x.shape[..], &other.shape[..]].into_iter())? })
}

/// Moves by one in the order of floats, whose bits are sign and magnitude; straight-line code.
macro_rules! next_float {
    ($x:expr, $y:expr, $ty:ty) => {{
        let (x, y): ($ty, $ty) = ($x, $y);
        let zero = <$ty>::from_bits(0);
        let bits = x.to_bits();
        let away = if (y > x) == (x > zero) { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
        let least = if y > zero { <$ty>::from_bits(1) } else { -<$ty>::from_bits(1) };
        let next = if x == zero { least } else { <$ty>::from_bits(away) };
        let next = if x == y { y } else { next };
        if x.is_nan() | y.is_nan() { <$ty>::NAN } else { next }
    }};
}

macro_rules! next_floats {
    ($($name:ident $ty:ty;)*) => {
        wide! {$(
            fn $name[]((x, y, out): (&[$ty], &[$ty], &mut [$ty])) {
                for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                    *out = next_float!(x, y, $ty);
                }
            }
        )*}
    };
}
next_floats! {
    next_f16 f16;
    next_bf16 bf16;
    next_f32 f32;
    next_f64 f64;
}

fn next_array(x: &Array, other: &Array) -> Result<Array> {
    let ty = next_type(&type_of(x), &type_of(other))?;
    let shape = broadcast_shapes([x.shape(), other.shape()].into_iter())?;
    let (x, y) = (dense(&x.broadcast_to(&shape)?, ty.dtype)?, dense(&other.broadcast_to(&shape)?, ty.dtype)?);
    macro_rules! run {
        ($ty:ty, $next:ident) => {{
            let (x, y) = (slice::<$ty>(&x), slice::<$ty>(&y));
            let out = fill::<$ty>(x.len(), |at, out| call_256::<$next, _>((&x[at..], &y[at..], out)))?;
            Array::from_vec(out, &shape)
        }};
    }
    match ty.dtype {
        DType::F16 => run!(f16, next_f16),
        DType::BF16 => run!(bf16, next_bf16),
        DType::F32 => run!(f32, next_f32),
        DType::F64 => run!(f64, next_f64),
        dtype => Err(err!(DType, "expected floats, got {dtype}")),
    }
}

fn frexp_type(x: &TensorType) -> Result<(TensorType, TensorType)> {
    float_only(x.dtype)?;
    Ok((x.clone(), TensorType { dtype: DType::I32, shape: x.shape.clone() }))
}

/// A float that is taken apart by its bits.
trait Split: Element {
    /// Returns fraction and exponent; straight-line code.
    fn split(self) -> (Self, i32);
}

macro_rules! parts {
    ($($ty:ty, $bits:ty, $mantissa:literal, $exponents:literal;)*) => {$(
        impl Split for $ty {
            #[inline(always)]
            fn split(self) -> ($ty, i32) {
                const HALF: $bits = $exponents / 2 - 1;
                // Numbers too small for a leading one are scaled first.
                let is_small = self.abs() < <$ty>::MIN_POSITIVE;
                let x = if is_small { self * 18_446_744_073_709_551_616.0 } else { self };
                let bits = x.to_bits();
                let exponent = (bits >> $mantissa & $exponents) as i32 - HALF as i32;
                let exponent = if is_small { exponent - 64 } else { exponent };
                let fraction = <$ty>::from_bits(bits & !($exponents << $mantissa) | HALF << $mantissa);
                // Zero, infinity and NaN stay.
                let stays = !(self - self == 0.0) | (self == 0.0);
                (if stays { self } else { fraction }, if stays { 0 } else { exponent })
            }
        }
    )*};
}
parts! {
    f32, u32, 23, 0xff;
    f64, u64, 52, 0x7ff;
}

wide! {
    fn fractions[T: Split]((x, out): (&[T], &mut [T])) {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = x.split().0);
    }

    fn exponents[T: Split]((x, out): (&[T], &mut [i32])) {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = x.split().1);
    }
}

fn frexp_array(x: &Array) -> Result<(Array, Array)> {
    frexp_type(&type_of(x))?;
    in_float!(x.dtype(), T => {
        let wide = dense(x, T::DTYPE)?;
        let data = slice::<T>(&wide);
        let first = fill::<T>(data.len(), |at, out| call_256::<fractions, _>((&data[at..], out)))?;
        let second = fill::<i32>(data.len(), |at, out| call_256::<exponents, _>((&data[at..], out)))?;
        Ok((Array::from_vec(first, x.shape())?.cast(x.dtype()), Array::from_vec(second, x.shape())?))
    })
}

fn view_type(x: &TensorType, dtype: DType) -> Result<TensorType> {
    let (from, to) = (x.dtype.size() as i64, dtype.size() as i64);
    if dtype == DType::Bool && x.dtype != DType::Bool {
        return Err(err!(DType, "expected a dtype of numbers, got bool").help("compare with 0"));
    }
    let mut shape = x.shape.clone();
    if from != to {
        let Some(last) = shape.dims_mut().last_mut() else {
            bail!(Shape, "expected an axis for elements of another size, got {x}");
        };
        let bytes = &*last * from;
        if (&bytes % to).known().is_some_and(|rest| rest != 0) {
            bail!(Shape, "expected a last axis of a multiple of {to} bytes, got {bytes}");
        }
        *last = bytes.floor_div(&fx_core::Dim::new(to));
    }
    Ok(TensorType { dtype, shape })
}

fn view_array(x: &Array, dtype: DType) -> Result<Array> {
    let ty = view_type(&type_of(x), dtype)?;
    if dtype == x.dtype() {
        return Ok(x.clone());
    }
    let shape = crate::ops::check::sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let x = x.contiguous()?;
    macro_rules! same_size {
        ($from:ty, $to:ty, $view:expr) => {{
            let data = slice::<$from>(&x);
            let view = |at: usize, out: &mut [$to]| {
                out.iter_mut().zip(&data[at..]).for_each(|(out, &x)| *out = $view(x));
            };
            return Array::from_vec(fx_core::array::build(data.len(), view)?, &shape);
        }};
    }
    match (x.dtype(), dtype) {
        (DType::F32, DType::I32) => same_size!(f32, i32, |x: f32| x.to_bits() as i32),
        (DType::I32, DType::F32) => same_size!(i32, f32, |x: i32| f32::from_bits(x as u32)),
        (DType::F64, DType::I64) => same_size!(f64, i64, |x: f64| x.to_bits() as i64),
        (DType::I64, DType::F64) => same_size!(i64, f64, |x: i64| f64::from_bits(x as u64)),
        (DType::F16, DType::BF16) => same_size!(f16, bf16, |x: f16| bf16::from_bits(x.to_bits())),
        (DType::BF16, DType::F16) => same_size!(bf16, f16, |x: bf16| f16::from_bits(x.to_bits())),
        (DType::I8, DType::U8) => same_size!(i8, u8, |x: i8| x as u8),
        (DType::U8, DType::I8) => same_size!(u8, i8, |x: u8| x as i8),
        _ => {}
    }
    let mut bytes: Vec<u8> = fx_core::array::try_vec(x.numel() * x.dtype().size())?;
    fx_core::array::dispatch_dtype!(x.dtype(), T => {
        use fx_core::array::Stored;
        for x in slice::<T>(&x) {
            bytes.extend_from_slice(&x.bits().to_le_bytes()[..size_of::<T>()]);
        }
    });
    Array::from_le_bytes(dtype, &shape, &bytes)
}
