//! Conversions and the Rust operators of [`Dim`]; `/` and `%` round towards minus infinity, as Python's do.

use std::iter::{Product, Sum};
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Neg, Rem, Sub, SubAssign};

use super::observed::lift;
use super::{Dim, polynomial};

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        Dim::new(n)
    }
}
impl From<i32> for Dim {
    fn from(n: i32) -> Dim {
        Dim::new(n.into())
    }
}
impl From<u32> for Dim {
    fn from(n: u32) -> Dim {
        Dim::new(n.into())
    }
}
impl From<usize> for Dim {
    fn from(n: usize) -> Dim {
        i64::try_from(n).map_or_else(|_| Dim::failed(polynomial::overflow()), Dim::new)
    }
}
impl From<&Dim> for Dim {
    fn from(dim: &Dim) -> Dim {
        dim.clone()
    }
}
impl From<super::Symbol> for Dim {
    fn from(symbol: super::Symbol) -> Dim {
        Dim::symbol(symbol)
    }
}

// The right side is generic, not one impl a type, so that `n * 2 + 1` infers before the literals have a type.
macro_rules! operators {
    ($($trait:ident $method:ident $function:path;)*) => {$(
        impl<T: Into<Dim>> $trait<T> for Dim {
            type Output = Dim;
            fn $method(self, other: T) -> Dim {
                lift($function, &self, &other.into())
            }
        }
        impl<T: Into<Dim>> $trait<T> for &Dim {
            type Output = Dim;
            fn $method(self, other: T) -> Dim {
                lift($function, self, &other.into())
            }
        }
        operators!(@number $trait $method $function; i64 i32 usize);
    )*};
    (@number $trait:ident $method:ident $function:path; $($number:ty)*) => {$(
        impl $trait<Dim> for $number {
            type Output = Dim;
            fn $method(self, other: Dim) -> Dim {
                lift($function, &self.into(), &other)
            }
        }
        impl $trait<&Dim> for $number {
            type Output = Dim;
            fn $method(self, other: &Dim) -> Dim {
                lift($function, &self.into(), other)
            }
        }
    )*};
}

operators! {
    Add add polynomial::add;
    Sub sub polynomial::subtract;
    Mul mul polynomial::multiply;
    Div div Dim::floor_div;
    Rem rem Dim::modulo;
}

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        -&self
    }
}
impl Neg for &Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        lift(|_, dim| polynomial::negate(dim), &Dim::new(0), self)
    }
}

impl<T: Into<Dim>> AddAssign<T> for Dim {
    fn add_assign(&mut self, other: T) {
        *self = lift(polynomial::add, self, &other.into());
    }
}
impl<T: Into<Dim>> SubAssign<T> for Dim {
    fn sub_assign(&mut self, other: T) {
        *self = lift(polynomial::subtract, self, &other.into());
    }
}
impl<T: Into<Dim>> MulAssign<T> for Dim {
    fn mul_assign(&mut self, other: T) {
        *self = lift(polynomial::multiply, self, &other.into());
    }
}

impl Sum for Dim {
    fn sum<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::new(0), |sum, dim| lift(polynomial::add, &sum, &dim))
    }
}
impl<'a> Sum<&'a Dim> for Dim {
    fn sum<I: Iterator<Item = &'a Dim>>(dims: I) -> Dim {
        dims.fold(Dim::new(0), |sum, dim| lift(polynomial::add, &sum, dim))
    }
}
impl Product for Dim {
    fn product<I: Iterator<Item = Dim>>(dims: I) -> Dim {
        dims.fold(Dim::new(1), |product, dim| lift(polynomial::multiply, &product, &dim))
    }
}
impl<'a> Product<&'a Dim> for Dim {
    fn product<I: Iterator<Item = &'a Dim>>(dims: I) -> Dim {
        dims.fold(Dim::new(1), |product, dim| lift(polynomial::multiply, &product, dim))
    }
}
