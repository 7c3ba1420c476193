//! Attributes: of namespaces, classes, objects, named tuples, enumerations and tensors.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use super::function::{Emitter, Meaning};
use super::unit::UnknownOperators;
use crate::ast::{Expr, ExprKind};
use crate::ir::{Constant, Instruction, ValueId};
use crate::schema;
use crate::source::Span;
use crate::types::Type;

/// The numbers of dtypes, layouts and memory formats in archives.
const NUMBERED: &[(&str, i64)] = &[
    ("uint8", 0),
    ("int8", 1),
    ("int16", 2),
    ("short", 2),
    ("int32", 3),
    ("int", 3),
    ("int64", 4),
    ("long", 4),
    ("float16", 5),
    ("half", 5),
    ("float32", 6),
    ("float", 6),
    ("float64", 7),
    ("double", 7),
    ("complex32", 8),
    ("complex64", 9),
    ("cfloat", 9),
    ("complex128", 10),
    ("cdouble", 10),
    ("bool", 11),
    ("qint8", 12),
    ("quint8", 13),
    ("qint32", 14),
    ("bfloat16", 15),
    ("strided", 0),
    ("sparse_coo", 1),
    ("contiguous_format", 0),
    ("preserve_format", 1),
    ("channels_last", 2),
    ("channels_last_3d", 3),
];

/// Returns the number of a dtype, layout or memory format by its name in `torch`.
pub(crate) fn numbered(name: &str) -> Option<i64> {
    NUMBERED.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Methods of tensors that convert to a dtype, with its number: `x.float()` is `x.to(6)`.
const CASTS: &[(&str, i64)] = &[
    ("byte", 0),
    ("char", 1),
    ("short", 2),
    ("int", 3),
    ("long", 4),
    ("half", 5),
    ("float", 6),
    ("double", 7),
    ("cfloat", 9),
    ("cdouble", 10),
    ("bool", 11),
    ("bfloat16", 15),
];

/// Returns the number of the dtype to which a method of tensors converts.
pub(super) fn cast(method: &str) -> Option<i64> {
    CASTS.iter().find(|(name, _)| *name == method).map(|(_, number)| *number)
}

/// Attributes of tensors that are operators of `prim`.
const TENSOR_PRIMS: &[&str] = &[
    "dtype",
    "device",
    "layout",
    "data",
    "grad",
    "requires_grad",
    "is_cuda",
    "is_cpu",
    "is_meta",
    "is_xla",
    "is_xpu",
    "is_mkldnn",
    "is_quantized",
    "is_sparse",
    "is_sparse_csr",
    "is_mps",
    "is_mtia",
    "is_maia",
    "is_ipu",
    "is_vulkan",
    "is_nested",
    "retains_grad",
    "itemsize",
    "nbytes",
    "name",
    "is_leaf",
];

impl Emitter<'_> {
    /// Emits `object.name`.
    pub(super) fn attribute(&mut self, object: &Expr, name: &Arc<str>, span: Span) -> Result<Meaning> {
        match self.meaning(object, None)? {
            Meaning::Path(path) => self.path(&path, name, span),
            Meaning::Class(class) => self.class_member(&class, name, span),
            Meaning::Builtin(class) if &*class == "float" && &**name == "inf" => {
                self.path("math", name, span)
            }
            other => {
                let value = self.meaning_value(other, object.span)?;
                self.member(value, name, span)
            }
        }
    }

    fn class_member(&mut self, class: &Arc<str>, name: &Arc<str>, span: Span) -> Result<Meaning> {
        let definition = self.unit.classes.get(class).expect("a meaning names a class of the table").clone();
        if definition.members.iter().any(|member| member.name == *name) {
            let constant = Constant::Enum(class.clone(), name.clone());
            return Ok(Meaning::Value(self.builder.constant(constant, Type::Enum(class.clone()))));
        }
        let method: Arc<str> = format!("{class}.{name}").into();
        if &**name == "__new__" || self.unit.has_function(&method) {
            return Ok(Meaning::Function(method));
        }
        Err(self.error(span, &format!("the class '{class}' has no member '{name}'")))
    }

    /// Returns what a name in a namespace means.
    pub(super) fn path(&mut self, path: &str, name: &Arc<str>, span: Span) -> Result<Meaning> {
        let full = format!("{path}.{name}");
        if path == "CONSTANTS" {
            let index = name.strip_prefix('c').and_then(|index| index.parse::<usize>().ok());
            return match index.and_then(|index| self.unit.constants.get(index)) {
                Some(ty) => {
                    let constant = Constant::Stored(name.clone());
                    let ty = ty.clone();
                    Ok(Meaning::Value(self.builder.constant(constant, ty)))
                }
                None => Err(self.error(span, &format!("the program has no constant '{full}'"))),
            };
        }
        if path == "math" || path == "torch" {
            let float = match &**name {
                "pi" => Some(std::f64::consts::PI),
                "e" => Some(std::f64::consts::E),
                "tau" => Some(std::f64::consts::TAU),
                "inf" => Some(f64::INFINITY),
                "nan" => Some(f64::NAN),
                _ => None,
            };
            if let Some(float) = float {
                return Ok(Meaning::Value(self.builder.constant(Constant::Float(float), Type::Float)));
            }
        }
        if let Some(found) = self.definition(&full) {
            return Ok(found);
        }
        if let Some(rest) = full.strip_prefix("torch.ops.").or(full.strip_prefix("ops."))
            && let Some((namespace, operator)) = rest.split_once('.')
        {
            return Ok(Meaning::Operator(format!("{namespace}::{operator}").into()));
        }
        let operator: Arc<str> = format!("aten::{name}").into();
        let exists = schema::overloads(&operator).next().is_some();
        match path {
            "torch" => {
                if let Some(number) = numbered(name)
                    && !(exists && matches!(&**name, "int" | "float" | "bool"))
                {
                    return Ok(Meaning::Value(self.int(number)));
                }
                let is_module = matches!(
                    &**name,
                    "jit" | "nn" | "ops" | "linalg" | "fft" | "special" | "_C" | "autograd"
                );
                let fails_later = self.unit.unknown_operators == UnknownOperators::FailWhenRun && !is_module;
                if exists || fails_later {
                    return Ok(Meaning::Operator(operator));
                }
                Ok(Meaning::Path(full.into()))
            }
            "math"
            | "torch.nn.functional"
            | "torch._C._nn"
            | "torch.linalg"
            | "torch.fft"
            | "torch.special" => {
                let family = match path {
                    "torch.linalg" => Some("linalg"),
                    "torch.fft" => Some("fft"),
                    "torch.special" => Some("special"),
                    _ => None,
                };
                let operator: Arc<str> = match family {
                    Some(family) => format!("aten::{family}_{name}").into(),
                    None => operator,
                };
                if schema::overloads(&operator).next().is_none() {
                    return Err(self.source.error(
                        ErrorKind::Unresolved,
                        span,
                        &format!("there is no '{full}'"),
                    ));
                }
                Ok(Meaning::Operator(operator))
            }
            _ => match &*full {
                "torch.jit.annotate" | "torch.jit.fork" | "torch.jit._fork" => {
                    let builtin = if &**name == "annotate" { "annotate" } else { "fork" };
                    Ok(Meaning::Builtin(builtin.into()))
                }
                "torch.jit.wait" | "torch.jit._wait" => Ok(Meaning::Operator("aten::wait".into())),
                "torch.jit.isinstance" => Ok(Meaning::Builtin("isinstance".into())),
                "torch.jit.is_scripting" | "torch.jit.is_tracing" => Ok(Meaning::Builtin(full.into())),
                _ if full.starts_with("__torch__.") && self.is_prefix(&full) => {
                    Ok(Meaning::Path(full.into()))
                }
                _ if full.starts_with("torch.") || path == "ops" => Ok(Meaning::Path(full.into())),
                _ => Err(self.source.error(
                    ErrorKind::Unresolved,
                    span,
                    &format!("there is no '{full}' in the program"),
                )),
            },
        }
    }

    /// Returns whether some class or function is inside of a path.
    fn is_prefix(&self, path: &str) -> bool {
        let prefix = format!("{path}.");
        self.unit.function_names().any(|name| name.starts_with(&prefix))
            || self.unit.classes.iter().any(|class| class.name.starts_with(&prefix))
    }

    /// Returns what a name of a value means: an attribute or a method.
    pub(super) fn member(&mut self, value: ValueId, name: &Arc<str>, span: Span) -> Result<Meaning> {
        let ty = self.ty(value).clone();
        match &ty {
            Type::Class(_) | Type::Interface(_) => {
                let class = self.unit.classes.of(&ty).cloned();
                let class = class
                    .ok_or_else(|| self.error(span, &format!("the class {ty} is not in the program")))?;
                if self.unit.attribute(&ty, name).is_some() {
                    return Ok(Meaning::Value(self.attribute_value(value, name, span)?));
                }
                match class.method(name) {
                    Some(method)
                        if method.decorators.iter().any(|decorator| {
                            decorator.as_name().is_some_and(|name| &**name == "property")
                        }) =>
                    {
                        self.call_method(value, name, &[], span)
                    }
                    Some(_) => Ok(Meaning::Method(value, name.clone())),
                    None => Err(self.type_error(
                        span,
                        &format!("{ty} has no attribute or method '{name}'"),
                        value,
                    )),
                }
            }
            Type::NamedTuple(_) => {
                let class = self.unit.classes.of(&ty).cloned();
                match class.as_ref().and_then(|class| class.slot(name)) {
                    Some(at) => {
                        let field = class.expect("the slot is of the class").attributes[at].declared.clone();
                        Ok(Meaning::Value(self.builder.add(Instruction::Item(at as i64), vec![value], field)))
                    }
                    None => Err(self.type_error(span, &format!("{ty} has no field '{name}'"), value)),
                }
            }
            Type::Tuple(items) => {
                let operator = self.operators.get(&value).copied();
                let names = operator.map_or(&[][..], |operator| &operator.result_names);
                match names.iter().position(|result| result == name).filter(|at| *at < items.len()) {
                    Some(at) => {
                        let item = items[at].clone();
                        Ok(Meaning::Value(self.builder.add(Instruction::Item(at as i64), vec![value], item)))
                    }
                    None => Err(self.type_error(span, &format!("{ty} has no field '{name}'"), value)),
                }
            }
            Type::Enum(_) if &**name == "name" => {
                Ok(Meaning::Value(self.operator("prim::EnumName", &[value], span)?))
            }
            Type::Enum(_) if &**name == "value" => Ok(Meaning::Value(self.enum_value(value, &ty)?)),
            Type::Tensor => match &**name {
                "shape" => Ok(Meaning::Value(self.operator("aten::size", &[value], span)?)),
                "ndim" => Ok(Meaning::Value(self.operator("aten::dim", &[value], span)?)),
                "T" => Ok(Meaning::Value(self.operator("aten::numpy_T", &[value], span)?)),
                "mT" | "H" | "mH" => {
                    let operator = match &**name {
                        "mT" => "aten::mT",
                        "H" => "aten::matrix_H",
                        _ => "aten::mH",
                    };
                    Ok(Meaning::Value(self.operator(operator, &[value], span)?))
                }
                "real" | "imag" => {
                    Ok(Meaning::Value(self.operator(&format!("aten::{name}"), &[value], span)?))
                }
                _ if TENSOR_PRIMS.contains(&&**name) => {
                    let prim = format!("prim::{name}");
                    let known = schema::overloads(&prim).next().is_some();
                    let operator = if known { prim } else { format!("aten::{name}") };
                    Ok(Meaning::Value(self.operator(&operator, &[value], span)?))
                }
                _ => Ok(Meaning::Method(value, name.clone())),
            },
            Type::Device if matches!(&**name, "type" | "index") => {
                Ok(Meaning::Value(self.operator(&format!("prim::{name}"), &[value], span)?))
            }
            Type::Optional(_) => Err(self
                .type_error(span, &format!("the value may be None, which has no '{name}'"), value)
                .help("test it before: `if x is not None`, or `assert x is not None`")),
            _ => Ok(Meaning::Method(value, name.clone())),
        }
    }

    fn enum_value(&mut self, value: ValueId, ty: &Type) -> Result<ValueId> {
        let class = self.unit.classes.of(ty).cloned();
        let first = class.as_ref().and_then(|class| class.members.first()).map(|member| &member.value.kind);
        let (name, ty) = match first {
            Some(ExprKind::Str(_)) => ("prim::EnumValue.str", Type::Str),
            Some(ExprKind::Float(_)) => ("prim::EnumValue.float", Type::Float),
            _ => ("prim::EnumValue.int", Type::Int),
        };
        Ok(self.builder.add(Instruction::Call(name.into()), vec![value], ty))
    }

    /// Reads an attribute of an object; a final one is the literal of the text.
    pub(super) fn attribute_value(&mut self, object: ValueId, name: &str, span: Span) -> Result<ValueId> {
        let ty = self.ty(object).clone();
        let Some(attribute) = self.unit.attribute(&ty, name) else {
            return Err(self.type_error(span, &format!("{ty} has no attribute '{name}'"), object));
        };
        if let (true, Some(value)) = (attribute.is_final, &attribute.value) {
            let id = self.value_as(value, Some(&attribute.declared))?;
            return if *self.ty(id) == attribute.declared {
                Ok(id)
            } else {
                Ok(self.cast(id, attribute.declared.clone()))
            };
        }
        let declared = attribute.declared.clone();
        let value = self.builder.add(Instruction::GetAttr(name.into()), vec![object], declared);
        self.origins.insert(value, span);
        Ok(value)
    }

    /// Sets an attribute of an object.
    pub(super) fn set_attribute(
        &mut self,
        object: ValueId,
        name: &str,
        value: ValueId,
        span: Span,
    ) -> Result<()> {
        let ty = self.ty(object).clone();
        if self.unit.attribute(&ty, name).is_none() {
            let value_type = self.ty(value).clone();
            self.unit.declare(self.builder.function_name(), &ty, name, &value_type);
        }
        let Some(attribute) = self.unit.attribute(&ty, name) else {
            let message = format!("{ty} has no attribute '{name}' to set");
            return Err(self
                .type_error(span, &message, object)
                .help(format!("assign it in `__init__`, or declare it in the class: `{name}: int`")));
        };
        if attribute.is_final {
            return Err(self.error(span, &format!("the attribute '{name}' is Final")));
        }
        let value = self.convert(value, &attribute.declared, span, &format!("'{name}'"))?;
        self.builder.effect(Instruction::SetAttr(name.into()), vec![object, value]);
        Ok(())
    }

    /// Returns the types of the fields of a named tuple.
    pub(super) fn field_types(&self, ty: &Type) -> Vec<Type> {
        let class = self.unit.classes.of(ty);
        class.iter().flat_map(|class| &class.attributes).map(|field| field.declared.clone()).collect()
    }

    /// Returns the items of a tuple.
    pub(super) fn unpack(&mut self, value: ValueId, span: Span) -> Result<Vec<ValueId>> {
        let types = match self.ty(value).clone() {
            Type::Tuple(types) => types.to_vec(),
            named @ Type::NamedTuple(_) => self.field_types(&named),
            other => return Err(self.type_error(span, &format!("expected a tuple, got {other}"), value)),
        };
        Ok(self.builder.with_regions(Instruction::Unpack, vec![value], types, Vec::new()))
    }
}
