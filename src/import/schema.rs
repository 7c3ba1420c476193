//! The JSON of an archive as types: `torch._export.serde.schema`, schema version 8.
//!
//! Unknown fields are ignored, as newer minor versions add some; unknown variants of a union are errors, and
//! so is a name that is given twice. The depth is bounded by serde_json.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

/// The greatest schema version that is read; every minor version of it is.
pub(super) const MAJOR: u64 = 8;

/// A map in which a name occurs once.
#[derive(Debug)]
pub(super) struct Table<T>(pub(super) BTreeMap<String, T>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table(BTreeMap::new())
    }
}

impl<T> std::ops::Deref for Table<T> {
    type Target = BTreeMap<String, T>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Table<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = Table<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Table<T>, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, T>()? {
                    if entries.contains_key(&name) {
                        return Err(A::Error::custom(format!("the name {name:?} is given twice")));
                    }
                    entries.insert(name, value);
                }
                Ok(Table(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

/// A complex number.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Complex {
    pub(super) real: Float,
    pub(super) imag: Float,
}

/// A float; what JSON cannot write is text: `"Infinity"`, `"-Infinity"`, `"NaN"`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Float(pub(super) f64);

impl<'de> Deserialize<'de> for Float {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Float;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"Infinity\", \"-Infinity\" or \"NaN\"")
            }
            fn visit_f64<E>(self, x: f64) -> Result<Float, E> {
                Ok(Float(x))
            }
            fn visit_i64<E>(self, x: i64) -> Result<Float, E> {
                Ok(Float(x as f64))
            }
            fn visit_u64<E>(self, x: u64) -> Result<Float, E> {
                Ok(Float(x as f64))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Float, E> {
                match text {
                    "Infinity" => Ok(Float(f64::INFINITY)),
                    "-Infinity" => Ok(Float(f64::NEG_INFINITY)),
                    "NaN" => Ok(Float(f64::NAN)),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Text)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ExportedProgram {
    pub(super) graph_module: GraphModule,
    #[serde(default)]
    pub(super) range_constraints: Table<RangeConstraint>,
}

/// The part of a program that tells its version, which is read first.
#[derive(Debug, Deserialize)]
pub(super) struct Versioned {
    pub(super) schema_version: SchemaVersion,
}

#[derive(Debug, Deserialize)]
pub(super) struct SchemaVersion {
    pub(super) major: u64,
    pub(super) minor: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct RangeConstraint {
    #[serde(default)]
    pub(super) min_val: Option<i64>,
    #[serde(default)]
    pub(super) max_val: Option<i64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphModule {
    pub(super) graph: Graph,
    pub(super) signature: Signature,
    #[serde(default)]
    pub(super) module_call_graph: Vec<ModuleCall>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ModuleCall {
    pub(super) fqn: String,
    #[serde(default)]
    pub(super) signature: Option<ModuleCallSignature>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ModuleCallSignature {
    pub(super) in_spec: String,
    pub(super) out_spec: String,
    #[serde(default)]
    pub(super) forward_arg_names: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Graph {
    pub(super) inputs: Vec<Argument>,
    pub(super) outputs: Vec<Argument>,
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) tensor_values: Table<TensorMeta>,
    #[serde(default)]
    pub(super) sym_int_values: Table<SymInt>,
    #[serde(default)]
    pub(super) sym_bool_values: Table<SymBool>,
    #[serde(default)]
    pub(super) sym_float_values: Table<SymFloat>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Node {
    pub(super) target: String,
    pub(super) inputs: Vec<NamedArgument>,
    pub(super) outputs: Vec<Argument>,
    #[serde(default)]
    pub(super) metadata: Table<String>,
    #[serde(default)]
    pub(super) name: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct NamedArgument {
    pub(super) name: String,
    pub(super) arg: Argument,
}

#[derive(Debug, Deserialize)]
pub(super) struct Named {
    pub(super) name: String,
}

/// What an argument is. Fields that are not read are there because a union is read whole.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the names in the file")]
pub(super) enum Argument {
    AsNone(IgnoredAny),
    AsTensor(Named),
    AsTensors(Vec<Named>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsStrings(Vec<String>),
    AsSymInt(SymIntArgument),
    AsSymInts(Vec<SymIntArgument>),
    AsScalarType(u32),
    AsMemoryFormat(u32),
    AsLayout(u32),
    AsDevice(IgnoredAny),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsSymBool(SymBoolArgument),
    AsSymBools(Vec<SymBoolArgument>),
    AsGraph(Box<GraphArgument>),
    AsOptionalTensors(Vec<OptionalTensor>),
    AsCustomObj(Named),
    AsOperator(String),
    AsSymFloat(SymFloatArgument),
    AsSymFloats(Vec<SymFloatArgument>),
    AsOptionalTensor(OptionalTensor),
    AsComplex(Complex),
    AsNestedTensors(Vec<Vec<Named>>),
    AsIntLists(Vec<Vec<i64>>),
    AsStringToArgument(Table<Argument>),
    AsFloatLists(Vec<Vec<Float>>),
    AsToken(IgnoredAny),
}

#[derive(Debug, Deserialize)]
pub(super) struct GraphArgument {
    pub(super) name: String,
    pub(super) graph: Graph,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymIntArgument {
    AsName(String),
    AsInt(i64),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymFloatArgument {
    AsName(String),
    AsFloat(Float),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymBoolArgument {
    AsName(String),
    AsBool(bool),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OptionalTensor {
    AsTensor(Named),
    AsNone(IgnoredAny),
}

#[derive(Debug, Deserialize)]
pub(super) struct SymExpr {
    pub(super) expr_str: String,
    #[serde(default)]
    pub(super) hint: Option<Hint>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the names in the file")]
pub(super) enum Hint {
    AsInt(i64),
    AsBool(IgnoredAny),
    AsFloat(IgnoredAny),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymInt {
    AsExpr(SymExpr),
    AsInt(i64),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymBool {
    AsExpr(SymExpr),
    AsBool(bool),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymFloat {
    AsExpr(SymExpr),
    AsFloat(Float),
}

#[derive(Debug, Deserialize)]
pub(super) struct TensorMeta {
    pub(super) dtype: u32,
    pub(super) sizes: Vec<SymInt>,
    #[serde(default)]
    pub(super) strides: Vec<SymInt>,
    #[serde(default)]
    pub(super) storage_offset: Option<SymInt>,
    #[serde(default)]
    pub(super) layout: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Signature {
    pub(super) input_specs: Vec<InputSpec>,
    pub(super) output_specs: Vec<OutputSpec>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum InputSpec {
    UserInput { arg: Argument },
    Parameter { arg: Named, parameter_name: String },
    Buffer { arg: Named, buffer_name: String, persistent: bool },
    TensorConstant { arg: Named, tensor_constant_name: String },
    CustomObj { custom_obj_name: String },
    Token {},
    ConstantInput { value: Argument },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputSpec {
    UserOutput { arg: Argument },
    LossOutput { arg: Named },
    BufferMutation { arg: Named, buffer_name: String },
    GradientToParameter { parameter_name: String },
    GradientToUserInput { user_input_name: String },
    UserInputMutation {},
    Token {},
    ParameterMutation { arg: Named, parameter_name: String },
}

#[derive(Debug, Deserialize)]
pub(super) struct PayloadConfig {
    pub(super) config: Table<PayloadMeta>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PayloadMeta {
    pub(super) path_name: String,
    #[serde(default)]
    pub(super) use_pickle: bool,
    #[serde(default)]
    pub(super) tensor_meta: Option<TensorMeta>,
}
