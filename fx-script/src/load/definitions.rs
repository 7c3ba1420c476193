//! The classes and functions that files of code define.

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::{ErrorKind, Result, bail};

use super::annotation::{annotation, final_type};
use super::literal::literal;
use crate::ast::{ClassDef, Expr, ExprKind, File, Function, Item, Member, Stmt, StmtKind};
use crate::source::Source;
use crate::types::{Attribute, Class, ClassKind, ClassTable, EnumMember, Type};
use crate::value::Value;

/// A function with the text that it is in.
#[derive(Debug, Clone)]
pub struct FunctionDef {
    /// The function.
    pub function: Arc<Function>,
    /// The text.
    pub source: Arc<Source>,
}

/// All that the code of a program defines, by qualified name.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    /// The classes.
    pub classes: ClassTable,
    /// The functions.
    pub functions: BTreeMap<Arc<str>, FunctionDef>,
    /// The values of the members of enumerations, by class and name of the member.
    members: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>>,
    /// The values of final attributes, by class and name.
    finals: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>>,
}

impl Definitions {
    /// Collects the definitions of files, each with the qualified name that it defines names in. `constants`
    /// are what literals may refer to.
    ///
    /// Fails if two things have one name, a member of a class is none, or an annotation is no type.
    pub fn of(files: &[(String, File)], constants: &[Value]) -> Result<Definitions> {
        let mut kinds: BTreeMap<Arc<str>, Type> = BTreeMap::new();
        let mut definitions = Definitions::default();
        let mut found: Vec<(Arc<str>, ClassKind, &ClassDef, &Arc<Source>)> = Vec::new();
        for (module, file) in files {
            for item in &file.items {
                match item {
                    Item::Class(class) => {
                        let name: Arc<str> = Arc::from(format!("{module}.{}", class.name));
                        let kind = kind(class, &file.source)?;
                        let ty = named_type(kind, &name);
                        if kinds.insert(name.clone(), ty).is_some() {
                            let message = format!("there are two classes {name:?}");
                            return Err(file.source.error(ErrorKind::Parse, class.span, &message));
                        }
                        found.push((name, kind, class, &file.source));
                    }
                    Item::Function(function) => {
                        let name: Arc<str> = Arc::from(format!("{module}.{}", function.name));
                        let definition =
                            FunctionDef { function: function.clone(), source: file.source.clone() };
                        if definitions.functions.insert(name.clone(), definition).is_some() {
                            let message = format!("there are two functions {name:?}");
                            return Err(file.source.error(ErrorKind::Parse, function.span, &message));
                        }
                    }
                    // Such as the version that old files begin with.
                    Item::Statement(_) => {}
                }
            }
        }
        for (name, kind, class, source) in found {
            let named = |name: &str| kinds.get(name).cloned();
            let class = Reader { source, named: &named }.class(name, kind, class)?;
            definitions.add_values(&class, constants)?;
            definitions.classes.insert(class);
        }
        Ok(definitions)
    }

    /// Returns the members of an enumeration with their values.
    pub fn members(&self, class: &str) -> &[(Arc<str>, Value)] {
        self.members.get(class).map_or(&[], Vec::as_slice)
    }

    /// Returns the value of a final attribute.
    pub fn final_value(&self, class: &str, name: &str) -> Option<&Value> {
        self.finals.get(class)?.iter().find(|(own, _)| &**own == name).map(|(_, value)| value)
    }

    /// Evaluates the literals of a class.
    fn add_values(&mut self, class: &Class, constants: &[Value]) -> Result<()> {
        let value = |expr: &Expr| literal(expr, &class.source, constants);
        let members = class.members.iter().map(|member| Ok((member.name.clone(), value(&member.value)?)));
        let members = members.collect::<Result<Vec<_>>>()?;
        if !members.is_empty() {
            self.members.insert(class.name.clone(), members);
        }
        let mut finals = Vec::new();
        for attribute in class.attributes.iter().filter(|attribute| attribute.is_final) {
            if let Some(expr) = &attribute.value {
                finals.push((attribute.name.clone(), value(expr)?));
            }
        }
        if !finals.is_empty() {
            self.finals.insert(class.name.clone(), finals);
        }
        Ok(())
    }
}

fn named_type(kind: ClassKind, name: &Arc<str>) -> Type {
    match kind {
        ClassKind::Class | ClassKind::Module => Type::Class(name.clone()),
        ClassKind::Interface | ClassKind::ModuleInterface => Type::Interface(name.clone()),
        ClassKind::NamedTuple => Type::NamedTuple(name.clone()),
        ClassKind::Enum => Type::Enum(name.clone()),
    }
}

fn kind(class: &ClassDef, source: &Source) -> Result<ClassKind> {
    let Some(base) = &class.base else { return Ok(ClassKind::Class) };
    let name = base.dotted().unwrap_or_default();
    Ok(match name.rsplit('.').next().unwrap_or_default() {
        "Module" => ClassKind::Module,
        "ModuleInterface" => ClassKind::ModuleInterface,
        "Interface" => ClassKind::Interface,
        "NamedTuple" => ClassKind::NamedTuple,
        "Enum" => ClassKind::Enum,
        _ => {
            let message = "expected the base Module, ModuleInterface, Interface, NamedTuple or Enum";
            return Err(source.error(ErrorKind::Parse, base.span, message));
        }
    })
}

struct Reader<'a> {
    source: &'a Arc<Source>,
    named: &'a dyn Fn(&str) -> Option<Type>,
}

impl Reader<'_> {
    fn class(&self, name: Arc<str>, kind: ClassKind, def: &ClassDef) -> Result<Class> {
        let mut class = Class {
            name,
            kind,
            attributes: Vec::new(),
            members: Vec::new(),
            methods: Vec::new(),
            parameters: Vec::new(),
            buffers: Vec::new(),
            forward_pre_hooks: Vec::new(),
            forward_hooks: Vec::new(),
            source: self.source.clone(),
        };
        for member in &def.body {
            match member {
                Member::Method(method) => class.methods.push(method.clone()),
                Member::Statement(statement) => self.statement(&mut class, statement)?,
            }
        }
        let mut names: Vec<&str> = class.attributes.iter().map(|attribute| &*attribute.name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("the class has two attributes {:?}", pair[0]);
            return Err(self.source.error(ErrorKind::Parse, def.span, &message));
        }
        Ok(class)
    }

    fn statement(&self, class: &mut Class, statement: &Stmt) -> Result<()> {
        let wrong = || self.source.error(ErrorKind::Parse, statement.span, "this is no member of a class");
        match &statement.kind {
            StmtKind::Pass => Ok(()),
            StmtKind::Expr(expr) if matches!(expr.inner().kind, ExprKind::Str(_)) => Ok(()),
            StmtKind::Annotated(target, ty, value) => {
                let name = target.as_name().ok_or_else(wrong)?;
                self.attribute(class, name, ty, value.clone())
            }
            StmtKind::Assign(targets, value) => {
                let [target] = &targets[..] else { return Err(wrong()) };
                if let ExprKind::Subscript(head, key) = &target.kind
                    && head.as_name().is_some_and(|name| &**name == "__annotations__")
                    && let ExprKind::Str(name) = &key.inner().kind
                {
                    return self.attribute(class, name, value, None);
                }
                let name = target.as_name().ok_or_else(wrong)?;
                let list = match &**name {
                    "__parameters__" => &mut class.parameters,
                    "__buffers__" => &mut class.buffers,
                    "__forward_hooks__" => &mut class.forward_hooks,
                    "__forward_pre_hooks__" => &mut class.forward_pre_hooks,
                    "__annotations__" => return Ok(()),
                    _ if class.kind == ClassKind::Enum => {
                        class.members.push(EnumMember { name: name.clone(), value: value.clone() });
                        return Ok(());
                    }
                    _ => return Err(wrong()),
                };
                let ExprKind::List(items) = &value.inner().kind else { return Err(wrong()) };
                for item in &items.items {
                    let ExprKind::Str(name) = &item.inner().kind else { return Err(wrong()) };
                    list.push(name.clone());
                }
                Ok(())
            }
            _ => Err(wrong()),
        }
    }

    fn attribute(&self, class: &mut Class, name: &Arc<str>, ty: &Expr, value: Option<Expr>) -> Result<()> {
        let is_final = final_type(ty).is_some();
        if is_final && value.is_none() {
            let message = "a final attribute has its value in the text";
            return Err(self.source.error(ErrorKind::Parse, ty.span, message));
        }
        if !is_final && value.is_some() && class.kind != ClassKind::NamedTuple {
            bail!(Load, "the attribute {name:?} of {} has a value but is not final", class.name);
        }
        let declared = annotation(ty, self.source, self.named)?;
        class.attributes.push(Attribute { name: name.clone(), declared, is_final, value });
        Ok(())
    }
}
