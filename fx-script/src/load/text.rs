//! Programs from texts: functions and classes as users write them.

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::{Result, err};

use super::{Definitions, FunctionDef, Program, Runtime};
use crate::ast::{Argument, Expr, ExprKind, File, Function, Parameter, Sequence, Stmt, StmtKind};
use crate::emit::{Unit, UnknownOperators};
use crate::source::Source;
use crate::types::{self, ClassKind};
use crate::value::{Class, Object};
use crate::{archive, parse};

impl Program {
    /// Reads a text of functions, classes, imports and constants. Attributes of classes are what `__init__`
    /// assigns to `self`; a class with the decorator `dataclass` has a constructor for its fields.
    ///
    /// Fails with all errors of the text, each with its line and a caret.
    pub fn from_text(source: &Arc<Source>) -> Result<Program> {
        Program::from_file(&parse::file(source)?)
    }

    /// Reads a parsed text, as [`Program::from_text`] does. Fails as that does.
    pub fn from_file(file: &File) -> Result<Program> {
        let mut unit = Unit::default();
        unit.add("", file)?;
        unit.resolve()?;
        unit.infer_attributes()?;
        let definitions = Definitions::of(&unit, &[])?;
        let runtime = Runtime::of(&definitions);
        Ok(Program {
            origin: file.source.name().to_owned(),
            version: *archive::VERSIONS.end(),
            root: Object::new(Class::new("", Vec::<String>::new())),
            definitions,
            runtime,
            constants: Vec::new(),
            pending: Vec::new(),
            debug: BTreeMap::new(),
            unknown_operators: UnknownOperators::Refuse,
        })
    }

    /// Makes the top module one whose method `forward` calls a function: it has the parameters of the function.
    ///
    /// Fails if there is no such function.
    pub fn enter(&mut self, function: &str) -> Result<()> {
        let Some(definition) = self.definitions.functions.get(function).cloned() else {
            let names = self.definitions.functions.keys().map(|name| &**name);
            return Err(err!(Unresolved, "the program has no function {function:?}")
                .help(fx_core::names::suggest(function, names)));
        };
        let FunctionDef { function: called, source } = definition;
        let span = called.span;
        let name = |name: &str| Expr::new(ExprKind::Name(name.into()), span);
        let arguments = called.parameters.iter().map(|parameter| Argument {
            name: parameter.keyword_only.then(|| parameter.name.clone()),
            value: name(&parameter.name),
        });
        let arguments = Sequence { items: arguments.collect(), last_comma: false };
        let call = Expr::new(ExprKind::Call(Box::new(name(&called.name)), arguments), span);
        let this =
            Parameter { name: "$self".into(), annotation: None, default: None, keyword_only: false, span };
        let forward = Function {
            name: "forward".into(),
            parameters: [this].into_iter().chain(called.parameters.iter().cloned()).collect(),
            returns: called.returns.clone(),
            body: vec![Stmt { kind: StmtKind::Return(Some(call)), span }],
            decorators: Vec::new(),
            span,
        };
        let own: Arc<str> = function.into();
        self.definitions.classes.insert(types::Class {
            name: own.clone(),
            kind: ClassKind::Module,
            attributes: Vec::new(),
            members: Vec::new(),
            methods: vec![Arc::new(forward)],
            parameters: Vec::new(),
            buffers: Vec::new(),
            forward_pre_hooks: Vec::new(),
            forward_hooks: Vec::new(),
            source,
        });
        let class = Class::new(function, Vec::<String>::new());
        self.runtime.classes.insert(own, class.clone());
        self.root = Object::new(class);
        Ok(())
    }

    /// Defines a function whose result is an expression, such as `self.forward(x, 16000)`; returns its name.
    ///
    /// `self` is the top module, and `variables` are tensors: the parameters after it. Fails if the text is no
    /// expression.
    pub fn add_expression(&mut self, text: &str, variables: &[&str]) -> Result<&'static str> {
        let source = Source::new(EXPRESSION, text);
        let value = parse::expression(&source)?;
        let span = value.span;
        let parameter = |name: &str, annotation: Option<Expr>| Parameter {
            name: name.into(),
            annotation,
            default: None,
            keyword_only: false,
            span,
        };
        let mut parameters = Vec::new();
        if !self.root.class.name.is_empty() {
            let mut parts = self.root.class.name.split('.');
            let first = Expr::new(ExprKind::Name(parts.next().unwrap_or_default().into()), span);
            let class = parts
                .fold(first, |path, name| Expr::new(ExprKind::Attribute(Box::new(path), name.into()), span));
            parameters.push(parameter("self", Some(class)));
        }
        parameters.extend(variables.iter().map(|name| parameter(name, None)));
        let function = Function {
            name: EXPRESSION.into(),
            parameters,
            returns: None,
            body: vec![Stmt { kind: StmtKind::Return(Some(value)), span }],
            decorators: Vec::new(),
            span,
        };
        let definition = FunctionDef { function: Arc::new(function), source };
        self.definitions.functions.insert(EXPRESSION.into(), definition);
        Ok(EXPRESSION)
    }
}

/// The name of the function of an expression, which is no name of a text.
const EXPRESSION: &str = "<expression>";
