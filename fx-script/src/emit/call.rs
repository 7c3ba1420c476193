//! Calls: of operators, builtin functions, functions, classes and methods; and attributes.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use super::function::{Closure, Emitter, Flow, Meaning};
use super::unit::Signature;
use crate::ast::{Argument, Expr, ExprKind};
use crate::ir::{Constant, Instruction, ValueId};
use crate::schema::{self, Conversion, Default, Slot};
use crate::source::Span;
use crate::types::{ClassKind, Type};

/// Functions of Python and TorchScript that are names without a module.
pub(super) const BUILTINS: &[&str] = &[
    "int",
    "float",
    "bool",
    "str",
    "complex",
    "len",
    "abs",
    "min",
    "max",
    "sum",
    "round",
    "any",
    "all",
    "ord",
    "chr",
    "hex",
    "oct",
    "bin",
    "divmod",
    "pow",
    "sorted",
    "list",
    "dict",
    "tuple",
    "print",
    "range",
    "enumerate",
    "zip",
    "reversed",
    "isinstance",
    "hasattr",
    "getattr",
    "fork",
    "annotate",
    "unchecked_cast",
    "uninitialized",
    "hash",
    "super",
];

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
    "is_mps",
    "is_nested",
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
    fn path(&mut self, path: &str, name: &Arc<str>, span: Span) -> Result<Meaning> {
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
                if let Some((_, number)) = NUMBERED.iter().find(|(known, _)| **known == **name)
                    && !(exists && matches!(&**name, "int" | "float" | "bool"))
                {
                    return Ok(Meaning::Value(self.int(*number)));
                }
                if exists || &**name == "device" {
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
    fn member(&mut self, value: ValueId, name: &Arc<str>, span: Span) -> Result<Meaning> {
        let ty = self.ty(value).clone();
        match &ty {
            Type::Class(_) | Type::Interface(_) => {
                let class = self.unit.classes.of(&ty).cloned();
                let class = class
                    .ok_or_else(|| self.error(span, &format!("the class {ty} is not in the program")))?;
                if class.attribute(name).is_some() {
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
        let class = self.unit.classes.of(&ty).cloned();
        let Some(attribute) = class.as_ref().and_then(|class| class.attribute(name)) else {
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
        let class = self.unit.classes.of(&ty).cloned();
        let Some(attribute) = class.as_ref().and_then(|class| class.attribute(name)) else {
            let message = format!("{ty} has no attribute '{name}' to set");
            return Err(self
                .type_error(span, &message, object)
                .help("declare it in the class: `name : int`"));
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

    /// Converts a value to a type where it must have it. Fails if it cannot.
    pub(super) fn convert(&mut self, value: ValueId, ty: &Type, span: Span, what: &str) -> Result<ValueId> {
        if self.is_subtype(self.ty(value), ty) {
            return Ok(value);
        }
        if let Some(converted) = self.implicit(value, ty) {
            return Ok(converted);
        }
        let got = self.ty(value).clone();
        let error = self.type_error(span, &format!("{what} expected {ty}, got {got}"), value);
        Err(match (&got, ty) {
            (Type::Int, Type::Float) => error.help("ints are not converted: write `1.` or `float(..)`"),
            (Type::Optional(_), _) => error.help("it may be None; test it before, or `assert x is not None`"),
            _ => error,
        })
    }

    /// Converts a value as calls do implicitly, if it can be.
    pub(super) fn implicit(&mut self, value: ValueId, ty: &Type) -> Option<ValueId> {
        let inner = match ty {
            Type::Optional(inner) => inner,
            other => other,
        };
        let operator = match (self.ty(value).clone(), inner) {
            (Type::Tensor, Type::Int) => "aten::IntImplicit",
            (Type::Tensor, Type::Float) => "aten::FloatImplicit",
            (Type::Tensor, Type::Complex) => "aten::ComplexImplicit",
            (Type::Tensor, Type::Number) => "aten::ScalarImplicit",
            (Type::Bool, Type::Int) => "aten::Int.bool",
            (Type::Bool, Type::Float) => "aten::Float.bool",
            (Type::Number, Type::Int) => "aten::Int.Scalar",
            (Type::Number, Type::Float) => "aten::Float.Scalar",
            (Type::Str, Type::Device) => "aten::device",
            (Type::Tuple(items), Type::List(item)) if items.iter().all(|ty| self.is_subtype(ty, item)) => {
                let values = self.unpack(value, Span::default()).ok()?;
                return Some(self.builder.add(Instruction::List, values, inner.clone()));
            }
            _ => return None,
        };
        Some(self.builder.add(Instruction::Call(operator.into()), vec![value], inner.clone()))
    }

    /// Emits an operator that has one result.
    pub(super) fn operator(&mut self, name: &str, operands: &[ValueId], span: Span) -> Result<ValueId> {
        let results = self.operator_results(name, operands, &[], span)?;
        self.meaning_value(results, span)
    }

    /// Emits an operator: finds the overload, converts arguments, and gives defaults.
    pub(super) fn operator_results(
        &mut self,
        name: &str,
        positional: &[ValueId],
        named: &[(Arc<str>, ValueId)],
        span: Span,
    ) -> Result<Meaning> {
        let types: Vec<Type> = positional.iter().map(|value| self.ty(*value).clone()).collect();
        let named_types: Vec<_> =
            named.iter().map(|(name, value)| (name.clone(), self.ty(*value).clone())).collect();
        let call = match schema::resolve(name, &types, &named_types, &self.unit.classes) {
            Ok(call) => call,
            Err(reasons) => return Err(self.no_overload(name, &types, &named_types, &reasons, span)),
        };
        let given: Vec<ValueId> =
            positional.iter().copied().chain(named.iter().map(|(_, value)| *value)).collect();
        let mut operands = Vec::with_capacity(call.slots.len());
        for (slot, parameter) in call.slots.iter().zip(&call.schema.parameters) {
            let operand = match slot {
                Slot::Given(at, conversion) => self.converted(given[*at], conversion, span)?,
                Slot::Gathered(items, item) => {
                    let mut values = Vec::with_capacity(items.len());
                    for (at, conversion) in items {
                        values.push(self.converted(given[*at], conversion, span)?);
                    }
                    self.builder.add(Instruction::List, values, Type::list(item.clone()))
                }
                Slot::Default(default) => self.default(default, &parameter.declared, parameter.length),
            };
            operands.push(operand);
        }
        operands.extend(call.variadic.iter().map(|at| given[*at]));
        let Some(returns) = call.returns else {
            return Err(self.error(span, &format!("the result of '{}' has no type", call.schema.full_name)));
        };
        let instruction = Instruction::Call(call.schema.full_name.clone());
        let mut results = self.builder.with_regions(instruction, operands, returns, Vec::new());
        for result in &results {
            self.origins.insert(*result, span);
        }
        Ok(if results.len() == 1 { Meaning::Value(results.remove(0)) } else { Meaning::Results(results) })
    }

    fn no_overload(
        &self,
        name: &str,
        types: &[Type],
        named: &[(Arc<str>, Type)],
        reasons: &[String],
        span: Span,
    ) -> fx_core::Error {
        if reasons.is_empty() {
            let message = format!("there is no operator '{name}'");
            return self.source.error(ErrorKind::Unresolved, span, &message);
        }
        let given = types.iter().map(ToString::to_string);
        let given: Vec<String> = given.chain(named.iter().map(|(name, ty)| format!("{name}={ty}"))).collect();
        let error = self.error(span, &format!("no overload of '{name}' takes ({})", given.join(", ")));
        let shown = reasons.iter().take(6).cloned().collect::<Vec<_>>().join("\n        ");
        let more = reasons.len().saturating_sub(6);
        let more = if more > 0 { format!("\n        and {more} more") } else { String::new() };
        error.help(format!("the overloads are\n        {shown}{more}"))
    }

    fn converted(&mut self, value: ValueId, conversion: &Conversion, span: Span) -> Result<ValueId> {
        Ok(match conversion {
            Conversion::None => value,
            Conversion::Operator(name, ty) => {
                self.builder.add(Instruction::Call((*name).into()), vec![value], ty.clone())
            }
            Conversion::TupleToList(item) => {
                let items = self.unpack(value, span)?;
                self.builder.add(Instruction::List, items, Type::list(item.clone()))
            }
            Conversion::Repeated(count, item) => {
                self.builder.add(Instruction::List, vec![value; *count as usize], Type::list(item.clone()))
            }
        })
    }

    fn default(&mut self, default: &Default, declared: &Type, length: Option<u32>) -> ValueId {
        let inner = match declared {
            Type::Optional(inner) => inner,
            other => other,
        };
        match (default, inner) {
            (Default::None, _) => self.none(),
            (Default::List(items), Type::List(item)) => {
                let values = items.iter().map(|default| self.default(default, item, None)).collect();
                self.builder.add(Instruction::List, values, inner.clone())
            }
            (default, Type::List(item)) => {
                let values = (0..length.unwrap_or(1)).map(|_| self.default(default, item, None)).collect();
                self.builder.add(Instruction::List, values, inner.clone())
            }
            (Default::Bool(value), _) => self.bool(*value),
            (Default::Int(value), Type::Float) => {
                self.builder.constant(Constant::Float(*value as f64), Type::Float)
            }
            (Default::Int(value), _) => self.int(*value),
            (Default::Float(value), _) => self.builder.constant(Constant::Float(*value), Type::Float),
            (Default::Str(text), _) => self.text(text),
            (Default::List(_), _) => self.none(),
        }
    }

    /// Emits a call.
    pub(super) fn call(
        &mut self,
        callee: &Expr,
        arguments: &[Argument],
        hint: Option<&Type>,
        span: Span,
    ) -> Result<Meaning> {
        let callee_meaning = match callee.dotted().as_deref() {
            // `C.__new__(C)` makes an object without running its constructor.
            Some(name) if name.ends_with(".__new__") => match self.meaning(callee, None)? {
                Meaning::Function(name) => {
                    let class: Arc<str> = name.trim_end_matches(".__new__").into();
                    return Ok(Meaning::Value(self.new_object(&class)));
                }
                other => other,
            },
            _ => self.meaning(callee, None)?,
        };
        match callee_meaning {
            Meaning::Builtin(name) => self.builtin(&name, arguments, hint, span),
            Meaning::Operator(name) => {
                if &*name == "prim::tolist" || &*name == "aten::tolist" {
                    return Err(self.error(span, "'tolist' needs an annotation of its result"));
                }
                if let ("aten::device", [Argument { value: Expr { kind: ExprKind::Str(device), .. }, .. }]) =
                    (&*name, arguments)
                {
                    let device = Constant::Device(device.clone());
                    return Ok(Meaning::Value(self.builder.constant(device, Type::Device)));
                }
                let (positional, named) = self.arguments(arguments)?;
                self.operator_results(&name, &positional, &named, span)
            }
            Meaning::Function(name) => {
                let signature = self.unit.signature(&name)?;
                let operands = self.bind(&name, &signature, Vec::new(), arguments, span)?;
                self.call_function(&name, operands)
            }
            Meaning::Class(name) => self.construct(&name, arguments, span),
            Meaning::Method(receiver, name) => self.method(receiver, &name, arguments, hint, span),
            Meaning::Closure(closure) => self.inline(&closure),
            Meaning::Value(value) => {
                self.method(value, &Arc::from(self.call_name(value)), arguments, hint, span)
            }
            Meaning::Path(path) => {
                Err(self.source.error(ErrorKind::Unresolved, span, &format!("there is no function '{path}'")))
            }
            other => {
                self.meaning_value(other, span)?;
                Err(self.error(span, "this is no function"))
            }
        }
    }

    /// Returns the method that calling a value means.
    fn call_name(&self, value: ValueId) -> &'static str {
        let class = self.unit.classes.of(self.ty(value));
        let has_call = class.is_some_and(|class| class.method("__call__").is_some());
        if has_call { "__call__" } else { "forward" }
    }

    fn arguments(&mut self, arguments: &[Argument]) -> Result<(Vec<ValueId>, Vec<(Arc<str>, ValueId)>)> {
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        for argument in arguments {
            match (&argument.name, &argument.value.kind) {
                (Some(name), _) => named.push((name.clone(), self.value(&argument.value)?)),
                (None, ExprKind::Starred(inner)) => {
                    let value = self.value(inner)?;
                    positional.extend(self.unpack(value, inner.span)?);
                }
                (None, _) => positional.push(self.value(&argument.value)?),
            }
        }
        Ok((positional, named))
    }

    /// Fills the parameters of a function: `first` and then arguments, defaults for the rest.
    fn bind(
        &mut self,
        name: &str,
        signature: &Signature,
        first: Vec<ValueId>,
        arguments: &[Argument],
        span: Span,
    ) -> Result<Vec<ValueId>> {
        let mut filled: Vec<Option<ValueId>> = vec![None; signature.parameters.len()];
        let mut next = 0;
        for value in first {
            if let Some(slot) = filled.get_mut(next) {
                *slot = Some(value);
            }
            next += 1;
        }
        for argument in arguments {
            let (at, values) = match (&argument.name, &argument.value.kind) {
                (Some(given), _) => {
                    let at = signature.parameters.iter().position(|(name, ..)| name == given);
                    let at =
                        at.ok_or_else(|| self.error(span, &format!("'{name}' has no parameter '{given}'")))?;
                    (at, vec![self.value_as(&argument.value, Some(&signature.parameters[at].1))?])
                }
                (None, ExprKind::Starred(inner)) => {
                    let value = self.value(inner)?;
                    (next, self.unpack(value, inner.span)?)
                }
                (None, _) => {
                    let hint = signature.parameters.get(next).map(|(_, ty, _)| ty.clone());
                    (next, vec![self.value_as(&argument.value, hint.as_ref())?])
                }
            };
            for (offset, value) in values.into_iter().enumerate() {
                if argument.name.is_none() {
                    next += 1;
                }
                let at = at + offset;
                if argument.name.is_none() && at >= signature.positional {
                    let message =
                        format!("'{name}' takes {} arguments by position, got more", signature.positional);
                    return Err(self.error(span, &message));
                }
                if filled[at].is_some() {
                    return Err(self.error(span, &format!("'{}' is given twice", signature.parameters[at].0)));
                }
                filled[at] = Some(value);
            }
        }
        let mut operands = Vec::with_capacity(filled.len());
        for (value, (parameter, ty, default)) in filled.into_iter().zip(&signature.parameters) {
            let value = match (value, default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.value_as(default, Some(ty))?,
                (None, None) => {
                    return Err(self.error(span, &format!("'{name}' lacks the argument '{parameter}'")));
                }
            };
            operands.push(self.convert(value, ty, span, &format!("'{parameter}' of '{name}'"))?);
        }
        Ok(operands)
    }

    fn call_function(&mut self, name: &str, operands: Vec<ValueId>) -> Result<Meaning> {
        let returns = self.unit.returns(name)?;
        Ok(Meaning::Value(self.builder.add(Instruction::Function(name.into()), operands, returns)))
    }

    fn new_object(&mut self, class: &Arc<str>) -> ValueId {
        self.builder.add(Instruction::New(class.clone()), Vec::new(), Type::Class(class.clone()))
    }

    fn construct(&mut self, name: &Arc<str>, arguments: &[Argument], span: Span) -> Result<Meaning> {
        let class = self.unit.classes.get(name).expect("a meaning names a class of the table").clone();
        match class.kind {
            ClassKind::NamedTuple => {
                let fields = class.attributes.iter();
                let parameters =
                    fields.map(|field| (field.name.clone(), field.declared.clone(), field.value.clone()));
                let parameters: Vec<_> = parameters.collect();
                let positional = parameters.len();
                let signature = Signature { parameters, positional, returns: None };
                let values = self.bind(name, &signature, Vec::new(), arguments, span)?;
                let instruction = Instruction::NamedTuple(name.clone());
                Ok(Meaning::Value(self.builder.add(instruction, values, Type::NamedTuple(name.clone()))))
            }
            ClassKind::Class => {
                let object = self.new_object(name);
                let constructor = format!("{name}.__init__");
                if self.unit.has_function(&constructor) {
                    let signature = self.unit.signature(&constructor)?;
                    let operands = self.bind(&constructor, &signature, vec![object], arguments, span)?;
                    self.call_function(&constructor, operands)?;
                }
                Ok(Meaning::Value(object))
            }
            _ => Err(self.error(span, &format!("a program cannot make a '{name}'"))),
        }
    }

    /// Emits a call of a method with values as arguments.
    pub(super) fn call_method(
        &mut self,
        receiver: ValueId,
        name: &str,
        positional: &[ValueId],
        span: Span,
    ) -> Result<Meaning> {
        let ty = self.ty(receiver).clone();
        let class = self.unit.classes.of(&ty).cloned();
        if class.as_ref().and_then(|class| class.method(name)).is_none() {
            return Err(self.type_error(span, &format!("{ty} has no method '{name}'"), receiver));
        }
        let method = format!("{}.{name}", ty.name().expect("a class has a name"));
        let signature = self.unit.signature(&method)?;
        let given: Vec<ValueId> = [receiver].into_iter().chain(positional.iter().copied()).collect();
        let operands = self.bind(&method, &signature, given, &[], span)?;
        self.call_function(&method, operands)
    }

    /// Emits `receiver.name(arguments)`.
    fn method(
        &mut self,
        receiver: ValueId,
        name: &Arc<str>,
        arguments: &[Argument],
        hint: Option<&Type>,
        span: Span,
    ) -> Result<Meaning> {
        let ty = self.ty(receiver).clone();
        match &ty {
            Type::Class(class) => {
                let method = format!("{class}.{name}");
                if !self.unit.has_function(&method) {
                    return Err(self.type_error(span, &format!("{ty} has no method '{name}'"), receiver));
                }
                let signature = self.unit.signature(&method)?;
                let operands = self.bind(&method, &signature, vec![receiver], arguments, span)?;
                self.call_function(&method, operands)
            }
            Type::Interface(_) => {
                let interface = self.unit.classes.of(&ty).cloned();
                let Some((interface, method)) =
                    interface.as_ref().and_then(|interface| Some((interface, interface.method(name)?)))
                else {
                    return Err(self.type_error(span, &format!("{ty} has no method '{name}'"), receiver));
                };
                let signature = self.unit.interface_method(interface, method)?;
                let operands = self.bind(name, &signature, vec![receiver], arguments, span)?;
                let returns = signature.returns.unwrap_or(Type::Tensor);
                Ok(Meaning::Value(self.builder.add(Instruction::Method(name.clone()), operands, returns)))
            }
            Type::Tensor if &**name == "tolist" => {
                let Some(returns) = hint else {
                    return Err(self
                        .error(span, "'tolist' needs an annotation of its result")
                        .help("write `xs : List[int] = x.tolist()`"));
                };
                let instruction = Instruction::Call("prim::tolist".into());
                Ok(Meaning::Value(self.builder.add(instruction, vec![receiver], returns.clone())))
            }
            _ => {
                let operator = format!("aten::{name}");
                let prim = format!("prim::{name}");
                let operator = if schema::overloads(&operator).next().is_some() { operator } else { prim };
                if schema::overloads(&operator).next().is_none() {
                    return Err(self.type_error(span, &format!("{ty} has no method '{name}'"), receiver));
                }
                let (mut positional, named) = self.arguments(arguments)?;
                positional.insert(0, receiver);
                self.operator_results(&operator, &positional, &named, span)
            }
        }
    }

    /// Emits the body of a function inside of the function.
    fn inline(&mut self, closure: &Arc<Closure>) -> Result<Meaning> {
        let variables = std::mem::replace(&mut self.variables, closure.variables.clone());
        for hidden in [
            super::function::EXITED,
            super::function::RETURNED,
            super::function::BROKEN,
            super::function::RESULT,
        ] {
            self.variables.remove(hidden);
        }
        let returns =
            closure.function.returns.as_ref().map(|returns| self.annotation(returns)).transpose()?;
        let outer_returns = std::mem::replace(&mut self.returns, returns);
        let outer_returned = std::mem::take(&mut self.returned);
        let result = self.body(&closure.function);
        self.returns = outer_returns;
        self.returned = outer_returned;
        self.variables = variables;
        Ok(Meaning::Value(result?))
    }

    fn fork(&mut self, arguments: &[Argument], span: Span) -> Result<Meaning> {
        let Some((first, rest)) = arguments.split_first() else {
            return Err(self.error(span, "'fork' expected a function"));
        };
        let callee = self.meaning(&first.value, None)?;
        // Arguments are taken before the task starts.
        let mut bound = Vec::with_capacity(rest.len());
        let before = self.variables.clone();
        for (index, argument) in rest.iter().enumerate() {
            let value = self.value(&argument.value)?;
            let hidden: Arc<str> = format!("$argument{index}").into();
            self.variables.insert(hidden.clone(), Meaning::Value(value));
            let value = Expr::new(ExprKind::Name(hidden), argument.value.span);
            bound.push(Argument { name: argument.name.clone(), value });
        }
        let hidden: Arc<str> = "$callee".into();
        self.variables.insert(hidden.clone(), callee);
        let callee = Expr::new(ExprKind::Name(hidden), first.value.span);
        self.builder.open();
        let result = self.call(&callee, &bound, None, span)?;
        let value = self.meaning_value(result, span)?;
        let region = self.builder.close(vec![value]);
        self.variables = before;
        let ty = Type::future(self.ty(value).clone());
        let future = self.builder.with_regions(Instruction::Fork, Vec::new(), [ty], vec![region]);
        Ok(Meaning::Value(future[0]))
    }

    /// Emits a call of a function of Python or TorchScript.
    fn builtin(
        &mut self,
        name: &str,
        arguments: &[Argument],
        hint: Option<&Type>,
        span: Span,
    ) -> Result<Meaning> {
        let exprs: Vec<&Expr> = arguments.iter().map(|argument| &argument.value).collect();
        match (name, &exprs[..]) {
            ("annotate" | "unchecked_cast" | "uninitialized", [ty, value @ ..]) => {
                let ty = self.annotation(ty)?;
                match (name, value) {
                    ("uninitialized", []) => Ok(Meaning::Value(self.uninitialized(ty))),
                    ("annotate", [value]) => {
                        let value = self.value_as(value, Some(&ty))?;
                        // A traced number is annotated, not converted.
                        if ty == Type::Number && *self.ty(value) == Type::Tensor {
                            return Ok(Meaning::Value(self.operator(
                                "aten::ScalarImplicit",
                                &[value],
                                span,
                            )?));
                        }
                        let value = self.convert(value, &ty, span, "the value")?;
                        Ok(Meaning::Value(if *self.ty(value) == ty { value } else { self.cast(value, ty) }))
                    }
                    ("unchecked_cast", [value]) => {
                        let value = self.value(value)?;
                        Ok(Meaning::Value(self.cast(value, ty)))
                    }
                    _ => Err(self.error(span, &format!("'{name}' expected a type and a value"))),
                }
            }
            ("isinstance" | "hasattr" | "torch.jit.is_scripting" | "torch.jit.is_tracing", _) => {
                let callee = Expr::new(ExprKind::Name(name.into()), span);
                let arguments = crate::ast::Sequence::new(arguments.to_vec());
                let call = Expr::new(ExprKind::Call(Box::new(dotted(name, &callee)), arguments), span);
                let condition = self.condition(&call)?;
                Ok(Meaning::Value(condition.value))
            }
            ("getattr", [object, attribute]) => {
                let ExprKind::Str(attribute) = &attribute.kind else {
                    return Err(self.error(attribute.span, "expected the name of an attribute as a text"));
                };
                let object = self.value(object)?;
                self.member(object, attribute, span)
            }
            ("fork", _) => self.fork(arguments, span),
            ("print", _) => {
                let (positional, _) = self.arguments(arguments)?;
                self.builder.effect(Instruction::Call("prim::Print".into()), positional);
                Ok(Meaning::Results(Vec::new()))
            }
            ("tuple", [value]) => {
                let value = self.value(value)?;
                match self.ty(value) {
                    Type::Tuple(_) => Ok(Meaning::Value(value)),
                    other => {
                        let message = format!("'tuple' expected a value of known length, got {other}");
                        Err(self.error(span, &message))
                    }
                }
            }
            ("list" | "dict", []) => {
                let literal = if name == "list" {
                    ExprKind::List(crate::ast::Sequence::new(Vec::new()))
                } else {
                    ExprKind::Dict(Vec::new())
                };
                self.meaning(&Expr::new(literal, span), hint)
            }
            ("list", [value]) => self.list_of(value, span),
            ("float", [value]) if matches!(&value.kind, ExprKind::Str(_)) => {
                self.conversion("aten::Float", value, span)
            }
            ("int", [value]) => self.conversion("aten::Int", value, span),
            ("float", [value]) => self.conversion("aten::Float", value, span),
            ("bool", [value]) => {
                let id = self.value(value)?;
                match self.ty(id) {
                    Type::Tensor | Type::Int | Type::Float => {
                        Ok(Meaning::Value(self.operator("aten::Bool", &[id], span)?))
                    }
                    _ => Ok(Meaning::Value(self.truth(id, span)?)),
                }
            }
            ("len", [value]) => {
                let value = self.value(value)?;
                match self.ty(value).clone() {
                    Type::Tuple(items) => Ok(Meaning::Value(self.int(items.len() as i64))),
                    named @ Type::NamedTuple(_) => {
                        let length = self.field_types(&named).len() as i64;
                        Ok(Meaning::Value(self.int(length)))
                    }
                    Type::Class(class) if self.unit.has_function(&format!("{class}.__len__")) => {
                        self.call_method(value, "__len__", &[], span)
                    }
                    Type::Class(_) => {
                        let iterated = self.iterated_value(value, span)?;
                        let length = iterated.known_length().unwrap_or(0) as i64;
                        Ok(Meaning::Value(self.int(length)))
                    }
                    _ => Ok(Meaning::Value(self.operator("aten::len", &[value], span)?)),
                }
            }
            ("min" | "max", [first, rest @ ..]) => {
                // Three and more are taken two by two.
                let operator = format!("prim::{name}");
                let mut value = self.value(first)?;
                if rest.is_empty() {
                    return Ok(Meaning::Value(self.operator(&operator, &[value], span)?));
                }
                for next in rest {
                    let next = self.value(next)?;
                    let operator = if *self.ty(value) == Type::Tensor {
                        format!("aten::{name}")
                    } else {
                        operator.clone()
                    };
                    value = self.operator(&operator, &[value, next], span)?;
                }
                Ok(Meaning::Value(value))
            }
            ("abs", [value]) => Ok(Meaning::Value({
                let value = self.value(value)?;
                let operator = if *self.ty(value) == Type::Tensor { "aten::abs" } else { "prim::abs" };
                self.operator(operator, &[value], span)?
            })),
            ("range" | "enumerate" | "zip" | "reversed", _) => Err(self
                .error(span, &format!("'{name}' stands only after `in`"))
                .help("a list is made by `[i for i in ..]`")),
            ("super", _) => Err(self.error(span, &format!("'{name}' cannot be called"))),
            _ => {
                let operator = match name {
                    "complex" => "aten::Complex".to_owned(),
                    _ => format!("aten::{name}"),
                };
                let (positional, named) = self.arguments(arguments)?;
                self.operator_results(&operator, &positional, &named, span)
            }
        }
    }

    fn conversion(&mut self, operator: &str, value: &Expr, span: Span) -> Result<Meaning> {
        let value = self.value(value)?;
        let target = if operator == "aten::Int" { Type::Int } else { Type::Float };
        if *self.ty(value) == target {
            return Ok(Meaning::Value(value));
        }
        Ok(Meaning::Value(self.operator(operator, &[value], span)?))
    }

    /// Emits `list(values)`, which copies.
    fn list_of(&mut self, values: &Expr, span: Span) -> Result<Meaning> {
        if let ExprKind::Comprehension(comprehension) = &values.inner().kind {
            return Ok(Meaning::Value(self.comprehension(comprehension, None, span)?));
        }
        let is_iterator = matches!(&values.inner().kind, ExprKind::Call(callee, _)
            if callee.as_name().is_some_and(|name| matches!(&**name, "range" | "enumerate" | "zip" | "reversed")));
        if !is_iterator {
            let value = self.value(values)?;
            match self.ty(value).clone() {
                Type::List(_) | Type::Str => {
                    return Ok(Meaning::Value(self.operator("aten::list", &[value], span)?));
                }
                Type::Dict(..) => return Ok(Meaning::Value(self.operator("aten::keys", &[value], span)?)),
                Type::Tuple(_) => {
                    let items = self.unpack(value, span)?;
                    let item = items.first().map_or(Type::Tensor, |item| self.ty(*item).clone());
                    if let Some(other) = items.iter().find(|value| *self.ty(**value) != item) {
                        let message = format!("the items of a list are {item} and {}", self.ty(*other));
                        return Err(self.error(span, &message));
                    }
                    return Ok(Meaning::Value(self.builder.add(Instruction::List, items, Type::list(item))));
                }
                _ => {}
            }
        }
        let iterated = self.iterated(values)?;
        let list = self.builder.add(Instruction::List, Vec::new(), Type::list(Type::Tensor));
        let length = self.length(&iterated, span)?;
        let start = self.bool(true);
        let before = self.variables.clone();
        self.repeat(
            length,
            start,
            &super::names::Effects::default(),
            &mut |emitter, round| {
                let item = emitter.item(&iterated, round, span)?;
                let item = emitter.meaning_value(item, span)?;
                let ty = Type::list(emitter.ty(item).clone());
                emitter.builder.set_type(list, ty);
                emitter.operator("aten::append", &[list, item], span)?;
                Ok(Flow::Falls)
            },
            None,
            span,
        )?;
        self.variables = before;
        Ok(Meaning::Value(list))
    }
}

/// Returns the expression of a dotted name.
fn dotted(name: &str, plain: &Expr) -> Expr {
    let mut parts = name.split('.');
    let first = parts.next().unwrap_or_default();
    let mut expr = Expr::new(ExprKind::Name(first.into()), plain.span);
    for part in parts {
        expr = Expr::new(ExprKind::Attribute(Box::new(expr), part.into()), plain.span);
    }
    expr
}
