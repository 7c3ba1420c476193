//! Elements as their bits.

use super::math::Real;

/// Reads elements of `from` bits as elements of `to` bits: those of a wider one lie behind each other, the least
/// significant first.
pub fn view<A: Copy, B: Copy>(
    x: &[A],
    from: usize,
    bits: impl Fn(A) -> u64,
    to: usize,
    element: impl Fn(u64) -> B,
    out: &mut [B],
) {
    if from >= to {
        for (&x, out) in x.iter().zip(out.chunks_exact_mut(from / to)) {
            let all = bits(x);
            for (i, out) in out.iter_mut().enumerate() {
                *out = element(all >> (i * to));
            }
        }
        return;
    }
    for (x, out) in x.chunks_exact(to / from).zip(out) {
        let parts = x.iter().enumerate().map(|(i, &x)| bits(x) << (i * from));
        *out = element(parts.fold(0, |all, part| all | part));
    }
}

/// Splits numbers into a part from 0.5 to 1 and a power of two; what is not finite is its own part.
pub fn frexp<T: Real>(x: &[T], part: &mut [T], power: &mut [i32]) {
    for ((&x, part), power) in x.iter().zip(part).zip(power) {
        let wide = x.to_f64();
        if !wide.is_finite() || wide == 0.0 {
            (*part, *power) = (x, 0);
            continue;
        }
        // A subnormal number has no exponent of its own.
        let (wide, shift) =
            if wide.is_subnormal() { (wide * 18_014_398_509_481_984.0, 54) } else { (wide, 0) };
        let bits = wide.to_bits();
        *power = (bits >> 52 & 0x7ff) as i32 - 1022 - shift;
        *part = T::from_f64(f64::from_bits(bits & !(0x7ff << 52) | 1022 << 52));
    }
}
