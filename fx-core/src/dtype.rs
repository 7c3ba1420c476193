//! The dtype table: one row a type, and PyTorch's promotion rules.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};

use crate::{Error, Result, err};

/// Runs a macro once with the whole table: `(Variant, rust type, "name", category, "safetensors name")`.
#[doc(hidden)]
#[macro_export]
macro_rules! __for_each_dtype {
    ($mac:ident) => {
        $mac! {
            (Bool, bool, "bool", Bool, "BOOL"),
            (U8, u8, "u8", Int, "U8"),
            (I8, i8, "i8", Int, "I8"),
            (I32, i32, "i32", Int, "I32"),
            (I64, i64, "i64", Int, "I64"),
            (F16, ::half::f16, "f16", Float, "F16"),
            (BF16, ::half::bf16, "bf16", Float, "BF16"),
            (F32, f32, "f32", Float, "F32"),
            (F64, f64, "f64", Float, "F64"),
        }
    };
}
pub use crate::__for_each_dtype as for_each_dtype;

/// The category of a dtype; categories are ordered as promotion orders them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// `bool`.
    Bool,
    /// The integers.
    Int,
    /// The floating-point types.
    Float,
}

macro_rules! define {
    ($(($variant:ident, $ty:ty, $name:literal, $category:ident, $st:literal)),* $(,)?) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl DType {
            /// Every dtype, in the order of the table.
            pub const ALL: &'static [DType] = &[$(DType::$variant),*];

            /// Returns the name that text and specs use, such as `f32`.
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Returns the name in a safetensors header, such as `F32`.
            pub const fn safetensors_name(self) -> &'static str {
                match self { $(DType::$variant => $st,)* }
            }

            /// Returns whether it is bool, an integer or a float.
            pub const fn category(self) -> Category {
                match self { $(DType::$variant => Category::$category,)* }
            }

            /// Returns the size of one element in bytes.
            pub const fn size(self) -> usize {
                match self { $(DType::$variant => size_of::<$ty>(),)* }
            }
        }

        $(impl sealed::Sealed for $ty {})*
        $(impl Element for $ty { const DTYPE: DType = DType::$variant; })*
    };
}
for_each_dtype!(define);

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that is the element of some dtype.
pub trait Element:
    sealed::Sealed + crate::array::Stored + Copy + Send + Sync + PartialEq + fmt::Debug + Default + 'static
{
    /// The dtype of which this is the element type.
    const DTYPE: DType;
}

impl DType {
    /// Returns whether this is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self.category(), Category::Float)
    }

    /// Returns whether this is an integer type; `bool` is not.
    pub const fn is_int(self) -> bool {
        matches!(self.category(), Category::Int)
    }

    /// Returns the rounding unit of floats, the distance from 1 to the next number; `None` for integers and bool.
    pub fn epsilon(self) -> Option<f64> {
        match self {
            DType::F64 => Some(f64::EPSILON),
            DType::F32 => Some(f64::from(f32::EPSILON)),
            DType::F16 => Some(half::f16::EPSILON.to_f64()),
            DType::BF16 => Some(half::bf16::EPSILON.to_f64()),
            DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64 => None,
        }
    }

    /// Returns the dtype of a binary operation on tensors of `self` and `other`, both of rank one or more.
    ///
    /// This is PyTorch's table: the higher category wins, and within a category the wider type; `f16` with
    /// `bf16` gives `f32`.
    ///
    /// | | bool | u8 | i8 | i32 | i64 | f16 | bf16 | f32 | f64 |
    /// |---|---|---|---|---|---|---|---|---|---|
    /// | bool | bool | u8 | i8 | i32 | i64 | f16 | bf16 | f32 | f64 |
    /// | u8 | u8 | u8 | i32 | i32 | i64 | f16 | bf16 | f32 | f64 |
    /// | i8 | i8 | i32 | i8 | i32 | i64 | f16 | bf16 | f32 | f64 |
    /// | i32 | i32 | i32 | i32 | i32 | i64 | f16 | bf16 | f32 | f64 |
    /// | i64 | i64 | i64 | i64 | i64 | i64 | f16 | bf16 | f32 | f64 |
    /// | f16 | f16 | f16 | f16 | f16 | f16 | f16 | f32 | f32 | f64 |
    /// | bf16 | bf16 | bf16 | bf16 | bf16 | bf16 | f32 | bf16 | f32 | f64 |
    /// | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f32 | f64 |
    /// | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 | f64 |
    ///
    /// PyTorch gives `i16` for `u8` with `i8`; fx has no `i16` and takes the next wider type, `i32`.
    pub const fn promote(self, other: DType) -> DType {
        PROMOTED[self as usize][other as usize]
    }
}

/// The promoted dtype of each pair, in the order of the dtype table.
const PROMOTED: [[DType; DType::ALL.len()]; DType::ALL.len()] = {
    use DType::*;
    [
        [Bool, U8, I8, I32, I64, F16, BF16, F32, F64],
        [U8, U8, I32, I32, I64, F16, BF16, F32, F64],
        [I8, I32, I8, I32, I64, F16, BF16, F32, F64],
        [I32, I32, I32, I32, I64, F16, BF16, F32, F64],
        [I64, I64, I64, I64, I64, F16, BF16, F32, F64],
        [F16, F16, F16, F16, F16, F16, F32, F32, F64],
        [BF16, BF16, BF16, BF16, BF16, F32, BF16, F32, F64],
        [F32, F32, F32, F32, F32, F32, F32, F32, F64],
        [F64, F64, F64, F64, F64, F64, F64, F64, F64],
    ]
};

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        DType::ALL.iter().copied().find(|dtype| dtype.name() == text).ok_or_else(|| {
            let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
            err!(DType, "unknown dtype {text:?}").help(format!("one of {}", names.join(", ")))
        })
    }
}

/// A number written in the program: it takes part in promotion only by its category.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
}

impl Scalar {
    /// Returns the category that counts in promotion.
    pub fn category(self) -> Category {
        match self {
            Scalar::Bool(_) => Category::Bool,
            Scalar::Int(_) => Category::Int,
            Scalar::Float(_) => Category::Float,
        }
    }

    /// Returns the value as a float.
    pub fn to_f64(self) -> f64 {
        match self {
            Scalar::Bool(x) => f64::from(u8::from(x)),
            Scalar::Int(x) => x as f64,
            Scalar::Float(x) => x,
        }
    }

    /// Returns the value as an integer; floats are truncated towards zero.
    pub fn to_i64(self) -> i64 {
        match self {
            Scalar::Bool(x) => i64::from(x),
            Scalar::Int(x) => x,
            Scalar::Float(x) => x as i64,
        }
    }

    /// Returns whether the value is not zero.
    pub fn to_bool(self) -> bool {
        match self {
            Scalar::Bool(x) => x,
            Scalar::Int(x) => x != 0,
            Scalar::Float(x) => x != 0.0,
        }
    }
}

/// The widest float and integer defaults: a Python-like float is `f32`, an integer `i64`, as in PyTorch.
pub const fn default_dtype(category: Category) -> DType {
    match category {
        Category::Bool => DType::Bool,
        Category::Int => DType::I64,
        Category::Float => DType::F32,
    }
}

macro_rules! scalar_from {
    ($($variant:ident: $($ty:ty as $wide:ty),*;)*) => {
        $($(impl From<$ty> for Scalar {
            fn from(x: $ty) -> Self { Scalar::$variant(x as $wide) }
        })*)*
    };
}
scalar_from! {
    Bool: bool as bool;
    Int: i8 as i64, i16 as i64, i32 as i64, i64 as i64, u8 as i64, u16 as i64, u32 as i64, usize as i64, isize as i64;
    Float: f32 as f64, f64 as f64;
}
impl From<f16> for Scalar {
    fn from(x: f16) -> Self {
        Scalar::Float(x.to_f64())
    }
}
impl From<bf16> for Scalar {
    fn from(x: bf16) -> Self {
        Scalar::Float(x.to_f64())
    }
}
