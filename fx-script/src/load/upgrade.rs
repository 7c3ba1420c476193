//! What operators of older versions of the format mean.

/// The meaning of an operator in an older version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// `div`, `div_` and `div.out`: a true division if an operand is a float, else one that truncates.
    TruncatingDivision,
    /// `full` without a dtype: the result is of floats, whatever the value is.
    FloatFill,
    /// `linspace` and `logspace` without `steps`, or with `None`: 100 of them.
    HundredSteps,
    /// `gelu` without `approximate`: the exact function.
    ExactGelu,
}

/// The operators that changed: the version from which on they mean what they do today.
const UPGRADES: &[(&str, u32, Upgrade)] = &[
    ("aten::div", 4, Upgrade::TruncatingDivision),
    ("aten::div_", 4, Upgrade::TruncatingDivision),
    ("aten::full", 5, Upgrade::FloatFill),
    ("aten::linspace", 8, Upgrade::HundredSteps),
    ("aten::logspace", 9, Upgrade::HundredSteps),
    ("aten::gelu", 10, Upgrade::ExactGelu),
];

/// Returns what an operator means in a version of the format, if that is not what it means today.
///
/// A division with `rounding_mode` and a `full` with a dtype mean in all versions what they do today.
pub fn upgrade(operator: &str, version: u32) -> Option<Upgrade> {
    let row = UPGRADES.iter().find(|row| row.0 == operator && version < row.1)?;
    Some(row.2)
}
