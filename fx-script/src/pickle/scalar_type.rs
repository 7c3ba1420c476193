//! The types of elements that PyTorch stores.

use std::fmt;

use fx_core::{DType, Result, err};

/// The type of the elements of a PyTorch tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarType {
    /// Unsigned, 8 bits.
    Byte,
    /// Signed, 8 bits.
    Char,
    /// Signed, 16 bits.
    Short,
    /// Signed, 32 bits.
    Int,
    /// Signed, 64 bits.
    Long,
    /// Floating point, 16 bits.
    Half,
    /// Floating point, 32 bits.
    Float,
    /// Floating point, 64 bits.
    Double,
    /// Complex: two halves.
    ComplexHalf,
    /// Complex: two floats.
    ComplexFloat,
    /// Complex: two doubles.
    ComplexDouble,
    /// A truth value in a byte.
    Bool,
    /// Quantised, signed, 8 bits.
    QInt8,
    /// Quantised, unsigned, 8 bits.
    QUInt8,
    /// Quantised, signed, 32 bits.
    QInt32,
    /// Floating point, 16 bits, with the exponent of a float.
    BFloat16,
}

/// Each type with its names in pickles and in Python, and the bytes of an element.
const TYPES: &[(ScalarType, &str, &str, usize)] = &[
    (ScalarType::Byte, "ByteStorage", "uint8", 1),
    (ScalarType::Char, "CharStorage", "int8", 1),
    (ScalarType::Short, "ShortStorage", "int16", 2),
    (ScalarType::Int, "IntStorage", "int32", 4),
    (ScalarType::Long, "LongStorage", "int64", 8),
    (ScalarType::Half, "HalfStorage", "float16", 2),
    (ScalarType::Float, "FloatStorage", "float32", 4),
    (ScalarType::Double, "DoubleStorage", "float64", 8),
    (ScalarType::ComplexHalf, "ComplexHalfStorage", "complex32", 4),
    (ScalarType::ComplexFloat, "ComplexFloatStorage", "complex64", 8),
    (ScalarType::ComplexDouble, "ComplexDoubleStorage", "complex128", 16),
    (ScalarType::Bool, "BoolStorage", "bool", 1),
    (ScalarType::QInt8, "QInt8Storage", "qint8", 1),
    (ScalarType::QUInt8, "QUInt8Storage", "quint8", 1),
    (ScalarType::QInt32, "QInt32Storage", "qint32", 4),
    (ScalarType::BFloat16, "BFloat16Storage", "bfloat16", 2),
];

impl ScalarType {
    fn row(self) -> &'static (ScalarType, &'static str, &'static str, usize) {
        TYPES.iter().find(|row| row.0 == self).expect("every type has a row")
    }

    /// Returns the type of a class of storages, such as `FloatStorage`.
    pub fn of_storage_class(name: &str) -> Option<ScalarType> {
        TYPES.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the name of the class of storages.
    pub fn storage_class(self) -> &'static str {
        self.row().1
    }

    /// Returns the number of bytes of an element.
    pub fn size(self) -> usize {
        self.row().3
    }

    /// Returns whether elements are complex numbers.
    pub fn is_complex(self) -> bool {
        matches!(self, ScalarType::ComplexHalf | ScalarType::ComplexFloat | ScalarType::ComplexDouble)
    }

    /// Returns the dtype of the elements, or of the two parts of each if they are complex. Fails for types
    /// that fx does not compute with.
    pub fn dtype(self) -> Result<DType> {
        Ok(match self {
            ScalarType::Byte => DType::U8,
            ScalarType::Char => DType::I8,
            ScalarType::Int => DType::I32,
            ScalarType::Long => DType::I64,
            ScalarType::Half | ScalarType::ComplexHalf => DType::F16,
            ScalarType::Float | ScalarType::ComplexFloat => DType::F32,
            ScalarType::Double | ScalarType::ComplexDouble => DType::F64,
            ScalarType::Bool => DType::Bool,
            ScalarType::BFloat16 => DType::BF16,
            ScalarType::Short => {
                return Err(err!(DType, "numbers of PyTorch's dtype {self} are not supported")
                    .help("cast to `torch.int32` before saving"));
            }
            ScalarType::QInt8 | ScalarType::QUInt8 | ScalarType::QInt32 => {
                return Err(err!(DType, "quantised numbers of PyTorch's dtype {self} are not supported")
                    .help("save the program before it is quantised"));
            }
        })
    }
}

impl From<DType> for ScalarType {
    fn from(dtype: DType) -> ScalarType {
        match dtype {
            DType::U8 => ScalarType::Byte,
            DType::I8 => ScalarType::Char,
            DType::I32 => ScalarType::Int,
            DType::I64 => ScalarType::Long,
            DType::F16 => ScalarType::Half,
            DType::BF16 => ScalarType::BFloat16,
            DType::F32 => ScalarType::Float,
            DType::F64 => ScalarType::Double,
            DType::Bool => ScalarType::Bool,
        }
    }
}

/// The name in Python, such as `float32`.
impl fmt::Display for ScalarType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().2)
    }
}
