//! Inclusive ranges of values, with infinite ends. Every operation gives a range that holds all results.

use super::polynomial::{Function, floor_div};

/// The range from `low` to `high`; an absent end is infinite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) low: Option<i64>,
    pub(super) high: Option<i64>,
}

/// Stands for an infinite end while computing; the product of two finite ends is far below it.
const INFINITE: i128 = i128::MAX;

impl Interval {
    pub(super) const ALL: Interval = Interval { low: None, high: None };

    pub(super) const fn point(n: i64) -> Interval {
        Interval { low: Some(n), high: Some(n) }
    }

    /// Returns the range as wide numbers, infinite ends as plus or minus [`INFINITE`].
    fn wide(self) -> (i128, i128) {
        (self.low.map_or(-INFINITE, i128::from), self.high.map_or(INFINITE, i128::from))
    }

    /// Rounds outwards to what `i64` can hold.
    fn from_wide(low: i128, high: i128) -> Interval {
        let (min, max) = (i64::MIN as i128, i64::MAX as i128);
        Interval {
            low: (low >= min).then_some(low.min(max) as i64),
            high: (high <= max).then_some(high.max(min) as i64),
        }
    }

    fn corners(self, other: Interval, operation: impl Fn(i128, i128) -> i128) -> Interval {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        let all = [operation(a, c), operation(a, d), operation(b, c), operation(b, d)];
        let (low, high) =
            all.iter().fold((INFINITE, -INFINITE), |(low, high), x| (low.min(*x), high.max(*x)));
        Interval::from_wide(low, high)
    }

    pub(super) fn contains(self, n: i64) -> bool {
        self.low.is_none_or(|low| low <= n) && self.high.is_none_or(|high| n <= high)
    }

    /// Returns whether every value is at least `n`.
    pub(super) fn at_least(self, n: i64) -> bool {
        self.low.is_some_and(|low| low >= n)
    }

    /// Returns whether every value is at most `n`.
    pub(super) fn at_most(self, n: i64) -> bool {
        self.high.is_some_and(|high| high <= n)
    }

    /// Returns the only value, if there is just one.
    pub(super) fn only(self) -> Option<i64> {
        self.low.filter(|_| self.low == self.high)
    }

    pub(super) fn add(self, other: Interval) -> Interval {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        Interval::from_wide(a.saturating_add(c), b.saturating_add(d))
    }

    pub(super) fn multiply(self, other: Interval) -> Interval {
        self.corners(other, |a, b| match (a.signum() * b.signum(), a.checked_mul(b)) {
            (0, _) => 0,
            (_, Some(product)) => product,
            (sign, None) => sign * INFINITE,
        })
    }

    pub(super) fn power(self, power: u32) -> Interval {
        // Beyond this power only 0, 1 and -1 have finite powers, and they repeat.
        let steps = if power > 66 { 65 + power % 2 } else { power };
        let mut result = (0..steps).map(|_| self).reduce(Interval::multiply).unwrap_or(Interval::point(1));
        if power.is_multiple_of(2) && self.contains(0) {
            result.low = Some(0);
        }
        result
    }

    fn union(self, other: Interval) -> Interval {
        let ((a, b), (c, d)) = (self.wide(), other.wide());
        Interval::from_wide(a.min(c), b.max(d))
    }

    /// Returns the values above and below zero.
    fn split_at_zero(self) -> [Option<Interval>; 2] {
        let above = Interval { low: Some(self.low.map_or(1, |low| low.max(1))), high: self.high };
        let below = Interval { low: self.low, high: Some(self.high.map_or(-1, |high| high.min(-1))) };
        [
            self.high.is_none_or(|high| high > 0).then_some(above),
            self.low.is_none_or(|low| low < 0).then_some(below),
        ]
    }

    /// Returns the range of the results of a function, where it has one.
    pub(super) fn of_call(function: Function, left: Interval, right: Interval) -> Interval {
        let ((a, b), (c, d)) = (left.wide(), right.wide());
        match function {
            Function::Min => Interval::from_wide(a.min(c), b.min(d)),
            Function::Max => Interval::from_wide(a.max(c), b.max(d)),
            Function::FloorDiv | Function::Mod => right
                .split_at_zero()
                .into_iter()
                .flatten()
                .map(
                    |divisor| {
                        if function == Function::Mod { left.modulo(divisor) } else { left.divide(divisor) }
                    },
                )
                .reduce(Interval::union)
                .unwrap_or(Interval::ALL),
        }
    }

    /// Divides by a range that lies on one side of zero.
    fn divide(self, divisor: Interval) -> Interval {
        self.corners(divisor, |a, b| {
            let negative = (a < 0) != (b < 0);
            if b.abs() == INFINITE {
                // The limit for a great divisor; an infinite `a` has its extremes at the other end of the divisor.
                if negative && a != 0 { -1 } else { 0 }
            } else if a.abs() == INFINITE {
                if negative { -INFINITE } else { INFINITE }
            } else {
                floor_div(a, b).expect("a divisor on one side of zero, and i64 ends")
            }
        })
    }

    /// Takes the remainder by a range that lies on one side of zero.
    fn modulo(self, divisor: Interval) -> Interval {
        let (low, high) = divisor.wide();
        if low > 0 {
            let top = high.saturating_sub(1);
            Interval::from_wide(0, if self.at_least(0) { top.min(self.wide().1) } else { top })
        } else {
            let bottom = low.saturating_add(1);
            Interval::from_wide(if self.at_most(0) { bottom.max(self.wide().0) } else { bottom }, 0)
        }
    }
}
