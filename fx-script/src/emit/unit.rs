//! The classes and functions of a program, by qualified name, before they are emitted.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use fx_core::logging::{self, Stage};
use fx_core::{Error, ErrorKind, Result};

use super::decorators::{with_constructor, without_unused};
use super::function::Emitter;
use super::global::Global;
use super::infer::Inferred;
use super::listing::listing;
use crate::archive::DebugRecords;
use crate::ast::{self, ClassDef, Expr, ExprKind, File, Item, Member, StmtKind};
use crate::ir;
use crate::load::Program;
use crate::source::Source;
use crate::types::{Attribute, Class, ClassKind, ClassTable, EnumMember, Type, annotation};
use crate::value::Value;

/// The texts of a program: its classes and functions.
///
/// [`Unit::add`] declares the definitions of files, in any order; [`Unit::resolve`] then types the classes, and
/// [`Unit::emit`] gives the program.
#[derive(Debug, Default)]
pub struct Unit {
    /// The classes.
    pub classes: ClassTable,
    /// The types of the constants that archives hold, by their number in `CONSTANTS.c0`.
    pub constants: Vec<Type>,
    /// The version of the format that says what operators mean; `None` is today's.
    pub version: Option<u32>,
    /// What becomes of a call of an operator that the table of schemas does not have.
    pub unknown_operators: UnknownOperators,
    /// The places of the user's Python by the name of a source, which operations then have.
    pub debug: BTreeMap<String, DebugRecords>,
    pub(super) globals: BTreeMap<Arc<str>, Global>,
    /// What constructors assign, while [`Unit::infer_attributes`] reads them.
    pub(super) inferred: RefCell<Option<Inferred>>,
    pending: Vec<(Arc<str>, ClassDef, Arc<Source>)>,
    functions: BTreeMap<Arc<str>, Arc<Definition>>,
    emitted: RefCell<HashMap<Arc<str>, ir::Function>>,
    in_progress: RefCell<HashSet<Arc<str>>>,
}

/// What becomes of a call of an operator that the table of schemas does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownOperators {
    /// It is an error of the text.
    #[default]
    Refuse,
    /// It is a call that fails when it runs, so that a branch that is never taken does no harm. Its result is
    /// a tensor, as most are.
    FailWhenRun,
}

/// A function of the text.
#[derive(Debug)]
pub(super) struct Definition {
    pub(super) name: Arc<str>,
    pub(super) function: Arc<ast::Function>,
    pub(super) source: Arc<Source>,
    /// The path with its last dot in which names are looked up.
    pub(super) scope: Arc<str>,
    /// The class of a method.
    pub(super) class: Option<Arc<str>>,
}

/// The parameters and the result of a function.
#[derive(Debug, Clone)]
pub struct Signature {
    /// The parameters in order.
    pub parameters: Vec<(Arc<str>, Type, Option<Expr>)>,
    /// The number of parameters that may be given by position.
    pub positional: usize,
    /// The type of the result, if it is annotated.
    pub returns: Option<Type>,
}

impl Unit {
    /// Declares the definitions of a file; `path` is its qualified name, such as `__torch__.nets`, or empty.
    ///
    /// Fails if a name is defined twice, or a statement at the top does not belong there.
    pub fn add(&mut self, path: &str, file: &File) -> Result<()> {
        let scope: Arc<str> = if path.is_empty() { "".into() } else { format!("{path}.").into() };
        for item in &file.items {
            match item {
                Item::Class(class) => {
                    let class = with_constructor(class);
                    let name: Arc<str> = format!("{scope}{}", class.name).into();
                    let kind = class_kind(&class);
                    self.classes.insert(Class {
                        name: name.clone(),
                        kind,
                        attributes: Vec::new(),
                        members: Vec::new(),
                        methods: Vec::new(),
                        parameters: Vec::new(),
                        buffers: Vec::new(),
                        forward_pre_hooks: Vec::new(),
                        forward_hooks: Vec::new(),
                        source: file.source.clone(),
                    });
                    for member in &class.body {
                        if let Member::Method(method) = member
                            && !matches!(kind, ClassKind::Interface | ClassKind::ModuleInterface)
                        {
                            self.define(
                                &format!("{name}."),
                                method,
                                &scope,
                                Some(name.clone()),
                                &file.source,
                            )?;
                        }
                    }
                    self.pending.push((name, class, file.source.clone()));
                }
                Item::Function(function) => self.define(&scope, function, &scope, None, &file.source)?,
                Item::Statement(statement) => self.add_global(&scope, statement, &file.source)?,
            }
        }
        Ok(())
    }

    /// Makes the unit of a program that was loaded from an archive.
    ///
    /// Fails if two methods of a class have one name.
    pub fn of(program: &Program) -> Result<Unit> {
        let mut unit = Unit {
            classes: program.definitions.classes.clone(),
            constants: program.constants.iter().map(type_of).collect(),
            version: Some(program.version),
            debug: program.debug.clone(),
            unknown_operators: program.unknown_operators,
            globals: program.definitions.globals.clone(),
            ..Unit::default()
        };
        let scope = |name: &str| -> Arc<str> { scope_of(name).into() };
        for class in program.definitions.classes.iter() {
            if matches!(class.kind, ClassKind::Interface | ClassKind::ModuleInterface) {
                continue;
            }
            for method in &class.methods {
                let prefix = format!("{}.", class.name);
                unit.define(&prefix, method, &scope(&class.name), Some(class.name.clone()), &class.source)?;
            }
        }
        for (name, definition) in &program.definitions.functions {
            let scope = scope(name);
            unit.define(&scope, &definition.function, &scope, None, &definition.source)?;
        }
        Ok(unit)
    }

    fn define(
        &mut self,
        prefix: &str,
        function: &Arc<ast::Function>,
        scope: &Arc<str>,
        class: Option<Arc<str>>,
        source: &Arc<Source>,
    ) -> Result<()> {
        let name: Arc<str> = format!("{prefix}{}", function.name).into();
        let definition = Definition {
            name: name.clone(),
            function: without_unused(function),
            source: source.clone(),
            scope: scope.clone(),
            class,
        };
        match self.functions.insert(name.clone(), Arc::new(definition)) {
            Some(_) => {
                Err(source.error(ErrorKind::Parse, function.span, &format!("'{name}' is defined twice")))
            }
            None => Ok(()),
        }
    }

    /// Types the attributes of all classes that were added.
    ///
    /// Fails with all annotations that are no types.
    pub fn resolve(&mut self) -> Result<()> {
        let mut errors = Vec::new();
        for (name, definition, source) in std::mem::take(&mut self.pending) {
            match self.class(&name, &definition, &source) {
                Ok(class) => self.classes.insert(class),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(Error::many(errors)) }
    }

    fn class(&self, name: &Arc<str>, definition: &ClassDef, source: &Arc<Source>) -> Result<Class> {
        let scope = scope_of(name).to_owned();
        let mut class = (**self.classes.get(name).expect("`add` declares a class before `resolve`")).clone();
        let mut attribute = |name: &str, declared: &Expr, value: &Option<Expr>| -> Result<()> {
            let is_final = matches!(&declared.kind, ExprKind::Subscript(base, _)
                if base.dotted().is_some_and(|base| base.rsplit('.').next() == Some("Final")));
            let declared = annotation(declared, &scope, &self.classes, source)?;
            class.attributes.push(Attribute { name: name.into(), declared, is_final, value: value.clone() });
            Ok(())
        };
        for member in &definition.body {
            let statement = match member {
                Member::Method(method) => {
                    class.methods.push(method.clone());
                    continue;
                }
                Member::Statement(statement) => statement,
            };
            let wrong = || {
                source.error(
                    ErrorKind::Parse,
                    statement.span,
                    "expected an attribute with its type, or a method",
                )
            };
            match &statement.kind {
                StmtKind::Pass => {}
                StmtKind::Expr(value) if matches!(value.kind, ExprKind::Str(_)) => {}
                StmtKind::Annotated(target, declared, value) => {
                    attribute(target.as_name().ok_or_else(wrong)?, declared, value)?;
                }
                StmtKind::Assign(targets, value) if targets.len() == 1 => match &targets[0].kind {
                    ExprKind::Name(target) => {
                        let list = match &**target {
                            "__parameters__" => &mut class.parameters,
                            "__buffers__" => &mut class.buffers,
                            "__forward_hooks__" => &mut class.forward_hooks,
                            "__forward_pre_hooks__" => &mut class.forward_pre_hooks,
                            "__annotations__" | "__constants__" => continue,
                            _ if class.kind == ClassKind::Enum => {
                                class.members.push(EnumMember { name: target.clone(), value: value.clone() });
                                continue;
                            }
                            _ => return Err(wrong().help("write the type: `name : int = 1`")),
                        };
                        *list = names(value).ok_or_else(wrong)?;
                    }
                    ExprKind::Subscript(base, key)
                        if base.as_name().is_some_and(|name| &**name == "__annotations__") =>
                    {
                        let ExprKind::Str(key) = &key.kind else { return Err(wrong()) };
                        attribute(key, value, &None)?;
                    }
                    _ => return Err(wrong()),
                },
                _ => return Err(wrong()),
            }
        }
        Ok(class)
    }

    /// Returns the qualified names of all functions and methods.
    pub fn function_names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.functions.keys()
    }

    /// Returns whether there is a function or method of a qualified name.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    /// Returns the source and the tree of a function, such as for printing it.
    pub fn function(&self, name: &str) -> Option<(&Arc<Source>, &Arc<ast::Function>)> {
        self.functions.get(name).map(|definition| (&definition.source, &definition.function))
    }

    /// Returns the parameters and the result of a function.
    ///
    /// Fails if there is no such function, or an annotation is no type.
    pub fn signature(&self, name: &str) -> Result<Signature> {
        let definition = self.definition(name)?;
        self.signature_of(
            &definition.function,
            definition.class.as_ref(),
            &definition.scope,
            &definition.source,
        )
    }

    /// Returns the signature of a method of an interface.
    pub(super) fn interface_method(&self, class: &Class, method: &ast::Function) -> Result<Signature> {
        self.signature_of(method, Some(&class.name), scope_of(&class.name), &class.source)
    }

    fn signature_of(
        &self,
        function: &ast::Function,
        class: Option<&Arc<str>>,
        scope: &str,
        source: &Arc<Source>,
    ) -> Result<Signature> {
        let typed = |expr: &Expr| annotation(expr, scope, &self.classes, source);
        let is_static = function
            .decorators
            .iter()
            .any(|decorator| decorator.dotted().is_some_and(|name| name == "staticmethod"));
        let mut parameters = Vec::with_capacity(function.parameters.len());
        for (index, parameter) in function.parameters.iter().enumerate() {
            let declared = match (&parameter.annotation, class) {
                (None, Some(class)) if index == 0 && !is_static => {
                    self.classes.get(class).expect("methods belong to declared classes").instance()
                }
                (None, _) => Type::Tensor,
                (Some(annotation), _) => typed(annotation)?,
            };
            parameters.push((parameter.name.clone(), declared, parameter.default.clone()));
        }
        let positional = function.parameters.iter().filter(|parameter| !parameter.keyword_only).count();
        let returns = function.returns.as_ref().map(typed).transpose()?;
        Ok(Signature { parameters, positional, returns })
    }

    pub(super) fn definition(&self, name: &str) -> Result<&Arc<Definition>> {
        self.functions.get(name).ok_or_else(|| {
            Error::new(ErrorKind::Unresolved, format!("there is no function {name:?} in the program"))
        })
    }

    /// Returns the type of the result of a function; without an annotation, that of its emitted body.
    pub(super) fn returns(&self, name: &str) -> Result<Type> {
        match self.signature(name)?.returns {
            Some(returns) => Ok(returns),
            None => Ok(self.emit(name)?.returns),
        }
    }

    /// Returns a function as typed SSA. Results are kept, so that each function is emitted once.
    ///
    /// Fails if the function does not exist or its code has an error.
    pub fn emit(&self, name: &str) -> Result<ir::Function> {
        if let Some(function) = self.emitted.borrow().get(name) {
            return Ok(function.clone());
        }
        let definition = self.definition(name)?.clone();
        if !self.in_progress.borrow_mut().insert(definition.name.clone()) {
            let message = format!("'{name}' calls itself, and its result has no annotation");
            return Err(definition
                .source
                .error(ErrorKind::Unresolved, definition.function.span, &message)
                .help("annotate the result: `-> Tensor`"));
        }
        let function = Emitter::run(self, &definition);
        self.in_progress.borrow_mut().remove(name);
        let function = function?;
        self.emitted.borrow_mut().insert(definition.name.clone(), function.clone());
        Ok(function)
    }

    pub(super) fn forget_emitted(&mut self) {
        self.emitted.get_mut().clear();
    }

    /// Returns all functions and methods as a program.
    ///
    /// Fails with the errors of all functions.
    pub fn emit_all(&self) -> Result<ir::Program> {
        let mut program = ir::Program::default();
        let mut errors = Vec::new();
        // A function whose result has no annotation is emitted by its callers, too.
        let mut known = HashSet::new();
        for name in self.functions.keys() {
            match self.emit(name) {
                Ok(function) => program.insert(function),
                Err(error) if known.insert(error.to_string()) => errors.push(error),
                Err(_) => {}
            }
        }
        if !errors.is_empty() {
            return Err(Error::many(errors));
        }
        logging::dump(Stage::Types, "the program", |level| listing(self, &program, level > 1))?;
        logging::dump(Stage::Ir, "the program", |_| program.to_string())?;
        Ok(program)
    }
}

/// Returns the path with its last dot that a qualified name is in.
pub(crate) fn scope_of(name: &str) -> &str {
    name.rfind('.').map_or("", |dot| &name[..=dot])
}

fn class_kind(class: &ClassDef) -> ClassKind {
    let base = class.base.as_ref().and_then(Expr::dotted).unwrap_or_default();
    let is_interface =
        class.decorators.iter().filter_map(Expr::dotted).any(|name| name.ends_with("jit.interface"));
    match base.rsplit('.').next().unwrap_or_default() {
        "Module" if is_interface => ClassKind::ModuleInterface,
        _ if is_interface => ClassKind::Interface,
        "Module" | "ScriptModule" => ClassKind::Module,
        "ModuleInterface" => ClassKind::ModuleInterface,
        "Interface" => ClassKind::Interface,
        "NamedTuple" => ClassKind::NamedTuple,
        "Enum" | "IntEnum" => ClassKind::Enum,
        _ => ClassKind::Class,
    }
}

/// Returns the type of a constant.
fn type_of(value: &Value) -> Type {
    match value {
        Value::None => Type::None,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Float(_) => Type::Float,
        Value::Complex(_) => Type::Complex,
        Value::Str(_) => Type::Str,
        Value::Tensor(_) => Type::Tensor,
        Value::Device(_) => Type::Device,
        Value::Tuple(tuple) => match &tuple.named {
            Some(named) => Type::NamedTuple(named.name.as_str().into()),
            None => Type::tuple(tuple.items.iter().map(type_of)),
        },
        Value::List(list) => Type::list(list.read(|items| items.first().map_or(Type::Tensor, type_of))),
        Value::Dict(dict) => dict.read(|entries| match entries.iter().next() {
            Some((key, value)) => Type::dict(type_of(key), type_of(value)),
            None => Type::dict(Type::Str, Type::Tensor),
        }),
        Value::Object(object) => Type::Class(object.class.name.as_str().into()),
        Value::Enum(member) => Type::Enum(member.class.as_str().into()),
        Value::Future(_) => Type::future(Type::Any),
        Value::Symbol(symbol) => symbol.ty.clone(),
    }
}

/// Returns the texts of a list of texts.
fn names(value: &Expr) -> Option<Vec<Arc<str>>> {
    let ExprKind::List(items) = &value.kind else { return None };
    let text = |item: &Expr| match &item.kind {
        ExprKind::Str(text) => Some(text.clone()),
        _ => None,
    };
    items.items.iter().map(text).collect()
}
