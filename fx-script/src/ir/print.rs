//! Programs as text.

use std::fmt::{self, Display, Formatter};

use super::{Constant, Function, Instruction, Operation, Program, Region, ValueId};
use crate::types::Type;

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, function) in self.functions.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{function}")?;
        }
        Ok(())
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "func {:?}(", self.name)?;
        self.list(f, &self.body.params, true)?;
        writeln!(f, ") -> {} {{", Spelled(&self.returns))?;
        self.operations(f, &self.body, 1)?;
        f.write_str("  return ")?;
        self.list(f, &self.body.results, false)?;
        f.write_str("\n}\n")
    }
}

impl Function {
    fn value(&self, f: &mut Formatter<'_>, id: ValueId) -> fmt::Result {
        match self.values.get(id.index()).and_then(|info| info.name.as_ref()) {
            Some(name) => write!(f, "%{name}.{}", id.0),
            None => write!(f, "%{}", id.0),
        }
    }

    fn list(&self, f: &mut Formatter<'_>, ids: &[ValueId], typed: bool) -> fmt::Result {
        for (i, &id) in ids.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            self.value(f, id)?;
            if let Some(info) = self.values.get(id.index()).filter(|_| typed) {
                write!(f, ": {}", Spelled(&info.ty))?;
            }
        }
        Ok(())
    }

    fn operations(&self, f: &mut Formatter<'_>, region: &Region, depth: usize) -> fmt::Result {
        region.operations.iter().try_for_each(|operation| self.operation(f, operation, depth))
    }

    fn operation(&self, f: &mut Formatter<'_>, operation: &Operation, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", 2 * depth)?;
        if !operation.results.is_empty() {
            self.list(f, &operation.results, true)?;
            f.write_str(" = ")?;
        }
        write!(f, "{}", operation.instruction)?;
        f.write_str("(")?;
        self.list(f, &operation.operands, false)?;
        f.write_str(")")?;
        for region in &operation.regions {
            f.write_str(" {(")?;
            self.list(f, &region.params, true)?;
            f.write_str(")\n")?;
            self.operations(f, region, depth + 1)?;
            write!(f, "{:1$}yield ", "", 2 * depth + 2)?;
            self.list(f, &region.results, false)?;
            write!(f, "\n{:1$}}}", "", 2 * depth)?;
        }
        if let Some(source) = &operation.source {
            write!(f, " at {:?}:{}:{}", source.file(), source.line, source.column)?;
        }
        f.write_str("\n")
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Instruction::Constant(constant) => write!(f, "constant {constant}"),
            Instruction::Call(name) => f.write_str(name),
            Instruction::Function(name) => write!(f, "function {name:?}"),
            Instruction::Method(name) => write!(f, "method {name:?}"),
            Instruction::New(name) => write!(f, "new {name:?}"),
            Instruction::GetAttr(name) => write!(f, "get {name:?}"),
            Instruction::SetAttr(name) => write!(f, "set {name:?}"),
            Instruction::Tuple => f.write_str("tuple"),
            Instruction::NamedTuple(name) => write!(f, "named {name:?}"),
            Instruction::List => f.write_str("list"),
            Instruction::Dict => f.write_str("dict"),
            Instruction::Item(at) => write!(f, "item {at}"),
            Instruction::Unpack => f.write_str("unpack"),
            Instruction::IsInstance(types) => {
                f.write_str("isinstance")?;
                types.iter().try_for_each(|ty| write!(f, " {}", Spelled(ty)))
            }
            Instruction::Cast => f.write_str("cast"),
            Instruction::Uninitialized => f.write_str("uninitialized"),
            Instruction::If => f.write_str("if"),
            Instruction::Loop => f.write_str("loop"),
            Instruction::Fork => f.write_str("fork"),
        }
    }
}

impl Display for Constant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Constant::None => f.write_str("None"),
            Constant::Bool(x) => write!(f, "{x}"),
            Constant::Int(x) => write!(f, "{x}"),
            // The shortest text that reads back as the same bits; the payload of NaN is kept.
            Constant::Float(x) if x.is_nan() => write!(f, "nan {}", x.to_bits()),
            Constant::Float(x) => write!(f, "{x:?}"),
            Constant::Complex(re, im) => {
                write!(f, "complex {} {}", Constant::Float(*re), Constant::Float(*im))
            }
            Constant::Str(text) => write!(f, "{text:?}"),
            Constant::Device(name) => write!(f, "device {name:?}"),
            Constant::Enum(class, name) => write!(f, "enum {class:?} {name:?}"),
            Constant::Stored(name) => write!(f, "stored {name:?}"),
        }
    }
}

/// A type, with the kind of a named one.
struct Spelled<'a>(&'a Type);

impl Display for Spelled<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let items = |f: &mut Formatter<'_>, name: &str, items: &mut dyn Iterator<Item = &Type>| {
            write!(f, "{name}[")?;
            for (i, item) in items.enumerate() {
                write!(f, "{}{}", if i > 0 { ", " } else { "" }, Spelled(item))?;
            }
            f.write_str("]")
        };
        match self.0 {
            Type::Optional(item) => items(f, "Optional", &mut [&**item].into_iter()),
            Type::Union(types) => items(f, "Union", &mut types.iter()),
            Type::List(item) => items(f, "List", &mut [&**item].into_iter()),
            Type::Dict(key, value) => items(f, "Dict", &mut [&**key, &**value].into_iter()),
            Type::Tuple(types) => items(f, "Tuple", &mut types.iter()),
            Type::Future(item) => items(f, "Future", &mut [&**item].into_iter()),
            Type::Class(name) => write!(f, "class {name:?}"),
            Type::Interface(name) => write!(f, "interface {name:?}"),
            Type::NamedTuple(name) => write!(f, "named {name:?}"),
            Type::Enum(name) => write!(f, "enum {name:?}"),
            Type::Foreign(name) => write!(f, "foreign {name:?}"),
            Type::Function(name) => write!(f, "function {name:?}"),
            Type::Var(name) => write!(f, "var {name:?}"),
            other => write!(f, "{other}"),
        }
    }
}
