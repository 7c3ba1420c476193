//! Scalar mathematics that compilers vectorise, generic over f32 and f64.
//!
//! The files beside this one are one text, which [`math_source`](crate::math_source) hands to generated code:
//! `real` has the trait and the functions that call it, `parts` what f32 is computed from, `elementary` what
//! f64 is, `single` and `double` the two implementations. `real` states what holds for all of them.

include!("real.rs");
include!("parts.rs");
include!("elementary.rs");
include!("single.rs");
include!("double.rs");
