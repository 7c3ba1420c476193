//! Operands on which an operation is not defined.

/// Returns `why` as an error if an element is one that is refused.
pub fn each<T: Copy>(x: &[T], refused: impl Fn(T) -> bool, why: &'static str) -> Result<(), &'static str> {
    if x.iter().any(|&x| refused(x)) { Err(why) } else { Ok(()) }
}
