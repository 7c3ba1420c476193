//! Arithmetic, comparison and bit operations: the rows behind Rust's operators.

use crate::op::Default::Int;
use crate::pointwise::Check::NonZero;
use crate::pointwise::Limit::{Lower, Upper};
use crate::pointwise::Numbers::{Limits, Wide, WideAnywhere};
use crate::{math, pointwise};

pointwise! {
    /// The operations behind `+ - * / %`, negation, and bit operators.
    pub trait Arithmetic; pub static ARITHMETIC;

    /// `x + alpha * y`, element by element. On bools it is `or`. Integers wrap.
    #[commutative = true]
    #[blocks = crate::blocks::add]
    add(x, y; alpha: Int(1)) -> Same {
        real: x + y * alpha, int: x.wrapping_add(y.wrapping_mul(alpha)), bool: x | (y & alpha)
    }
    /// `x - alpha * y`, element by element; not defined for bools. Integers wrap.
    #[blocks = crate::blocks::sub]
    sub(x, y; alpha: Int(1)) -> Same {
        real: x - y * alpha, int: x.wrapping_sub(y.wrapping_mul(alpha))
    }
    /// `x * y`, element by element. On bools it is `and`. Integers wrap.
    #[commutative = true]
    #[numbers = WideAnywhere]
    #[blocks = crate::blocks::mul]
    mul(x, y) -> Same { real: x * y, int: x.wrapping_mul(y), bool: x & y }
    /// `x / y` in floats, also for integers.
    #[numbers = Wide]
    #[blocks = crate::blocks::div]
    div(x, y) -> Float { real: x / y }
    /// `x / y` rounded down. Integer division by zero is an error.
    #[check = NonZero]
    #[numbers = Wide]
    #[blocks = crate::blocks::floor_divide]
    floor_divide(x, y) -> Same {
        real: math::floor_divide(x, y),
        int: { let q = x.wrapping_div(y); if (x.wrapping_rem(y) != 0) && ((x < 0) != (y < 0)) { q - 1 } else { q } },
        u8: x / y,
    }
    /// The remainder with the sign of `y`, as Python's `%`. Integer division by zero is an error.
    #[check = NonZero]
    #[blocks = crate::blocks::remainder]
    remainder(x, y) -> Same {
        real: math::remainder(x, y),
        int: { let r = x.wrapping_rem(y); if (r != 0) && ((r < 0) != (y < 0)) { r + y } else { r } },
        u8: x % y,
    }
    /// `-x`; not defined for bools. Integers wrap.
    neg(x) -> Same { real: -x, int: x.wrapping_neg() }
    /// The lesser of two elements; NaN if either is NaN. Of two zeros the negative one is the lesser.
    #[commutative = true]
    #[numbers = Limits(&[Upper, Upper])]
    minimum(x, y) -> Same {
        real: if x < y || x != x || (x == y && math::copysign(1.0, x) < 0.0) { x } else { y }, int: if x < y { x } else { y }, bool: x & y
    }
    /// The greater of two elements; NaN if either is NaN. Of two zeros the positive one is the greater.
    #[commutative = true]
    #[numbers = Limits(&[Lower, Lower])]
    maximum(x, y) -> Same {
        real: if x > y || x != x || (x == y && math::copysign(1.0, x) > 0.0) { x } else { y }, int: if x > y { x } else { y }, bool: x | y
    }
    /// Bitwise and; logical and on bools.
    #[commutative = true]
    bitwise_and(x, y) -> Same { int: x & y, bool: x & y }
    /// Bitwise or; logical or on bools.
    #[commutative = true]
    bitwise_or(x, y) -> Same { int: x | y, bool: x | y }
    /// Bitwise exclusive or; logical on bools.
    #[commutative = true]
    bitwise_xor(x, y) -> Same { int: x ^ y, bool: x ^ y }
    /// Bitwise not; logical not on bools.
    bitwise_not(x) -> Same { int: !x, bool: !x }
    /// `x * 2^y`; a shift by the width or more gives 0.
    bitwise_left_shift(x, y) -> Same {
        int: if (y as i64) < 0 || (y as i64) >= 8 * (::core::mem::size_of_val(&x) as i64) { 0 } else { x << y }
    }
    /// `x / 2^y` rounded down; a shift by the width or more gives 0 or -1.
    bitwise_right_shift(x, y) -> Same {
        int: {
            let width = 8 * (::core::mem::size_of_val(&x) as i64);
            x >> (if (y as i64) < 0 || (y as i64) >= width { width - 1 } else { y as i64 })
        },
        u8: if y >= 8 { 0 } else { x >> y },
    }
}

pointwise! {
    /// Comparisons and logic; the result is bool.
    pub trait Comparison; pub static COMPARISON;

    /// `x == y`, element by element.
    #[commutative = true]
    eq(x, y) -> Bool { any: x == y }
    /// `x != y`, element by element.
    #[commutative = true]
    ne(x, y) -> Bool { any: x != y }
    /// `x < y`, element by element.
    lt(x, y) -> Bool { any: x < y }
    /// `x <= y`, element by element.
    le(x, y) -> Bool { any: x <= y }
    /// `x > y`, element by element.
    gt(x, y) -> Bool { any: x > y }
    /// `x >= y`, element by element.
    ge(x, y) -> Bool { any: x >= y }
    /// Whether both elements are not zero.
    #[commutative = true]
    logical_and(x, y) -> Bool { real: x != 0.0 && y != 0.0, int: x != 0 && y != 0, bool: x & y }
    /// Whether at least one element is not zero.
    #[commutative = true]
    logical_or(x, y) -> Bool { real: x != 0.0 || y != 0.0, int: x != 0 || y != 0, bool: x | y }
    /// Whether exactly one element is not zero.
    #[commutative = true]
    logical_xor(x, y) -> Bool { real: (x != 0.0) != (y != 0.0), int: (x != 0) != (y != 0), bool: x ^ y }
    /// Whether the element is zero.
    logical_not(x) -> Bool { real: x == 0.0, int: x == 0, bool: !x }
}
