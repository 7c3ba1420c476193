//! How arrays print.

use std::fmt;

use super::Array;

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({})", self.describe())
    }
}
