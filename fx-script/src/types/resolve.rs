//! Types from annotations: `Optional[torch.Tensor]`, `list[int] | None`, `__torch__.nets.Point`.

use fx_core::{ErrorKind, Result};

use super::{ClassTable, Type};
use crate::ast::{BinaryOp, Expr, ExprKind, Sequence};
use crate::source::{Source, Span};

/// The most levels that types may nest.
const MAX_TYPE_NESTING: u32 = 64;

/// Returns the type that an annotation names. A name that is none of the language is looked up as it is, then
/// inside of `scope`, the path of the text with its last dot such as `__torch__.`.
///
/// Fails if the annotation is no type, names an unknown class, or nests too deep.
pub fn annotation(expr: &Expr, scope: &str, classes: &ClassTable, source: &Source) -> Result<Type> {
    Resolver { scope, classes, source }.resolve(expr, 0)
}

/// Returns the type of a text such as the type tag of a pickle: `Dict[str, List[int]]`.
///
/// Fails if the text is no type.
pub fn parse_type(text: &str, classes: &ClassTable) -> Result<Type> {
    let source = Source::new("type", text);
    let expr = crate::parse::expression(&source)?;
    annotation(&expr, "__torch__.", classes, &source)
}

struct Resolver<'a> {
    scope: &'a str,
    classes: &'a ClassTable,
    source: &'a Source,
}

impl Resolver<'_> {
    fn fail<T>(&self, span: Span, message: &str) -> Result<T> {
        Err(self.source.error(ErrorKind::Parse, span, message))
    }

    fn resolve(&self, expr: &Expr, depth: u32) -> Result<Type> {
        if depth > MAX_TYPE_NESTING {
            return self.fail(expr.span, &format!("a type nests deeper than {MAX_TYPE_NESTING} levels"));
        }
        let next = depth + 1;
        match &expr.kind {
            ExprKind::None => Ok(Type::None),
            ExprKind::Paren(inner) => self.resolve(inner, next),
            ExprKind::Name(_) | ExprKind::Attribute(..) => self.named(expr),
            // A forward reference is the text of a type.
            ExprKind::Str(text) => {
                let inner = Source::new(self.source.name(), &**text);
                let parsed = crate::parse::expression(&inner).map_err(|_| {
                    self.source.error(ErrorKind::Parse, expr.span, &format!("{text:?} is no type"))
                })?;
                Resolver { source: &inner, ..*self }.resolve(&parsed, next)
            }
            ExprKind::Binary(BinaryOp::Or, left, right) => {
                Ok(Type::union([self.resolve(left, next)?, self.resolve(right, next)?]))
            }
            ExprKind::Subscript(base, index) => self.generic(base, index, expr.span, next),
            ExprKind::Tuple(items, _) if items.items.is_empty() => Ok(Type::tuple([])),
            _ => self.fail(expr.span, "expected a type"),
        }
    }

    fn generic(&self, base: &Expr, index: &Expr, span: Span, depth: u32) -> Result<Type> {
        let name = self.path(&base.dotted().unwrap_or_default());
        let arguments = match &index.kind {
            ExprKind::Tuple(Sequence { items, .. }, _) => items.iter().collect::<Vec<_>>(),
            _ => vec![index],
        };
        let short = name.rsplit('.').next().unwrap_or_default();
        let empty_tuple = matches!(short, "Tuple" | "tuple")
            && arguments.first().is_none_or(
                |first| matches!(&first.kind, ExprKind::Tuple(items, _) if items.items.is_empty()),
            );
        if empty_tuple {
            return Ok(Type::tuple([]));
        }
        let types = arguments.iter().map(|item| self.resolve(item, depth)).collect::<Result<Vec<_>>>()?;
        match (short, &types[..]) {
            ("Optional", [item]) => Ok(Type::optional(item.clone())),
            ("List" | "list" | "Sequence", [item]) => Ok(Type::list(item.clone())),
            ("Dict" | "dict", [key, value]) => Ok(Type::dict(key.clone(), value.clone())),
            ("Tuple" | "tuple", items) => Ok(Type::tuple(items.iter().cloned())),
            ("Union", items) => Ok(Type::union(items.iter().cloned())),
            ("Future" | "Await", [item]) => Ok(Type::future(item.clone())),
            ("Final", [item]) => Ok(item.clone()),
            (
                "Optional" | "List" | "list" | "Sequence" | "Dict" | "dict" | "Future" | "Await" | "Final",
                _,
            ) => {
                let wanted = if short.eq_ignore_ascii_case("dict") { 2 } else { 1 };
                self.fail(span, &format!("{short} takes {wanted} types, got {}", types.len()))
            }
            _ => self.fail(base.span, &format!("{name:?} takes no types in brackets")),
        }
    }

    fn named(&self, expr: &Expr) -> Result<Type> {
        let Some(name) = expr.dotted() else { return self.fail(expr.span, "expected a type") };
        let name = self.path(&name);
        let plain = name.strip_prefix("torch.").or(name.strip_prefix("typing.")).unwrap_or(&name);
        Ok(match plain {
            "Tensor" => Type::Tensor,
            "int" | "dtype" | "layout" | "memory_format" | "Layout" | "ScalarType" | "MemoryFormat"
            | "SymInt" => Type::Int,
            "float" | "SymFloat" => Type::Float,
            "bool" | "SymBool" => Type::Bool,
            "complex" => Type::Complex,
            "str" => Type::Str,
            "NoneType" | "None" => Type::None,
            "number" | "Scalar" => Type::Number,
            "Any" | "AnyType" => Type::Any,
            "Device" | "device" => Type::Device,
            "Generator" => Type::Generator,
            "Storage" => Type::Storage,
            "Stream" => Type::Stream,
            "list" | "List" | "AnyListType" => Type::AnyList,
            "tuple" | "Tuple" | "AnyTupleType" => Type::AnyTuple,
            _ => return self.class(&name, expr.span),
        })
    }

    /// Returns a name with the path that an import stands for.
    fn path(&self, name: &str) -> String {
        let (first, rest) = name.split_at(name.find('.').unwrap_or(name.len()));
        let scoped = format!("{}{first}", self.scope);
        match self.classes.imported(&scoped) {
            Some(path) if self.classes.get(&scoped).is_none() => format!("{path}{rest}"),
            _ => name.to_owned(),
        }
    }

    fn class(&self, name: &str, span: Span) -> Result<Type> {
        if name.starts_with("__torch__.torch.classes.") {
            return Ok(Type::Foreign(name.into()));
        }
        let scoped = format!("{}{name}", self.scope);
        match self.classes.get(name).or_else(|| self.classes.get(&scoped)) {
            Some(class) => Ok(class.instance()),
            None => Err(self
                .source
                .error(ErrorKind::Unresolved, span, &format!("there is no type {name:?}"))
                .help("types are Tensor, int, float, bool, str, List[..], Optional[..] and the classes of the program")),
        }
    }
}
