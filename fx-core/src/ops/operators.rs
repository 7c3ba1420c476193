//! Rust's operators on tensors, by reference and value, with numbers and parameters on either side.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

use crate::{Arg, Dim, Given, Op, Parameter, Tensor, ToArg, op::kind, trace::apply_given};

macro_rules! binary {
    ($($trait:ident $method:ident $op:ident $assign_trait:ident $assign:ident $extra:tt;)*) => {$(
        impl<R: ToArg<kind::Operand>> $trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                binary!(@call super::$op::OP, ToArg::<kind::Operand>::given(self), other.given(), $extra)
            }
        }
        impl<R: ToArg<kind::Operand>> $trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                binary!(@call super::$op::OP, ToArg::<kind::Operand>::given(self), other.given(), $extra)
            }
        }
        impl<R: ToArg<kind::Operand>> $trait<R> for &Parameter {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                binary!(@call super::$op::OP, ToArg::<kind::Operand>::given(self), other.given(), $extra)
            }
        }
        /// Binds the variable to the result; the tensor itself is immutable.
        impl<R: ToArg<kind::Operand>> std::ops::$assign_trait<R> for Tensor {
            #[track_caller]
            fn $assign(&mut self, other: R) {
                crate::trace::note_assignment(self, crate::SourceLoc::caller());
                *self = binary!(@call super::$op::OP, ToArg::<kind::Operand>::given(&*self), other.given(), $extra);
            }
        }
        binary!(@scalars $trait $method $op $extra: f32 f64 i8 i16 i32 i64 u8 u16 u32 usize isize bool Dim);
    )*};
    (@scalars $trait:ident $method:ident $op:ident $extra:tt: $($ty:ty)*) => {$(
        impl $trait<&Tensor> for $ty {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Tensor) -> Tensor {
                binary!(@call super::$op::OP, ToArg::<kind::Operand>::given(self), ToArg::<kind::Operand>::given(other), $extra)
            }
        }
        impl $trait<&Parameter> for $ty {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: &Parameter) -> Tensor {
                binary!(@call super::$op::OP, ToArg::<kind::Operand>::given(self), ToArg::<kind::Operand>::given(other), $extra)
            }
        }
        impl $trait<Tensor> for $ty {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: Tensor) -> Tensor {
                binary!(@call super::$op::OP, ToArg::<kind::Operand>::given(self), ToArg::<kind::Operand>::given(other), $extra)
            }
        }
    )*};
    (@call $op:expr, $a:expr, $b:expr, ()) => { apply_given($op, false, [$a, $b]) };
    (@call $op:expr, $a:expr, $b:expr, (alpha)) => { apply_given($op, false, [$a, $b, Given::Value(Arg::Int(1))]) };
}
binary! {
    Add add add AddAssign add_assign (alpha);
    Sub sub sub SubAssign sub_assign (alpha);
    Mul mul mul MulAssign mul_assign ();
    Div div div DivAssign div_assign ();
    Rem rem remainder RemAssign rem_assign ();
    BitAnd bitand bitwise_and BitAndAssign bitand_assign ();
    BitOr bitor bitwise_or BitOrAssign bitor_assign ();
    BitXor bitxor bitwise_xor BitXorAssign bitxor_assign ();
    Shl shl bitwise_left_shift ShlAssign shl_assign ();
    Shr shr bitwise_right_shift ShrAssign shr_assign ();
}

macro_rules! unary {
    ($($trait:ident $method:ident $op:ident;)*) => {$(
        impl $trait for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor { call_unary(super::$op::OP, self) }
        }
        impl $trait for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self) -> Tensor { call_unary(super::$op::OP, &self) }
        }
    )*};
}
unary! {
    Neg neg neg;
    Not not bitwise_not;
}

#[track_caller]
fn call_unary(op: Op, x: &Tensor) -> Tensor {
    apply_given(op, false, [Given::Tensor(x)])
}
