//! What decorators change: `dataclass` gives a class a constructor, a parameter for each field; a function with
//! `torch.jit.unused` or `torch.jit.ignore` is an error where it is called.

use std::sync::Arc;

use crate::ast::{Argument, ClassDef, Expr, ExprKind, Function, Member, Parameter, Sequence, Stmt, StmtKind};

/// Returns a class with the constructor that its decorator gives it, if it has none of its own.
pub(super) fn with_constructor(class: &ClassDef) -> ClassDef {
    let is_dataclass = class.decorators.iter().any(|decorator| {
        let callee = match &decorator.kind {
            ExprKind::Call(callee, _) => callee,
            _ => decorator,
        };
        callee.dotted().is_some_and(|name| name.rsplit('.').next() == Some("dataclass"))
    });
    let has_own = class
        .body
        .iter()
        .any(|member| matches!(member, Member::Method(method) if &*method.name == "__init__"));
    let mut class = class.clone();
    if !is_dataclass || has_own {
        return class;
    }
    let parameter = |name: &Arc<str>, annotation: Option<Expr>, default: Option<Expr>| Parameter {
        name: name.clone(),
        annotation,
        default,
        keyword_only: false,
        span: class.span,
    };
    let this: Arc<str> = "self".into();
    let mut parameters = vec![parameter(&this, None, None)];
    let mut body = Vec::new();
    for member in &class.body {
        let Member::Statement(Stmt { kind: StmtKind::Annotated(target, annotation, default), span }) = member
        else {
            continue;
        };
        let Some(name) = target.as_name() else { continue };
        parameters.push(parameter(name, Some(annotation.clone()), default.clone()));
        let object = Expr::new(ExprKind::Name(this.clone()), *span);
        let field = Expr::new(ExprKind::Attribute(Box::new(object), name.clone()), *span);
        let value = Expr::new(ExprKind::Name(name.clone()), *span);
        body.push(Stmt { kind: StmtKind::Assign(vec![field], value), span: *span });
    }
    let constructor = Function {
        name: "__init__".into(),
        parameters,
        returns: Some(Expr::new(ExprKind::None, class.span)),
        body,
        decorators: Vec::new(),
        span: class.span,
    };
    class.body.push(Member::Method(Arc::new(constructor)));
    class
}

/// Returns what is compiled of a function: itself, or one that raises in its place.
pub(super) fn without_unused(function: &Arc<Function>) -> Arc<Function> {
    let is_unused = |name: &str| ["unused", "ignore"].iter().any(|word| name == format!("torch.jit.{word}"));
    let mut names = function.decorators.iter().filter_map(|decorator| match &decorator.kind {
        ExprKind::Call(callee, _) => callee.dotted(),
        _ => decorator.dotted(),
    });
    if !names.any(|name| is_unused(&name)) {
        return function.clone();
    }
    let expr = |kind: ExprKind| Expr::new(kind, function.span);
    let message = format!("{} belongs to Python and was not compiled", function.name);
    let message = Argument { name: None, value: expr(ExprKind::Str(message.into())) };
    let arguments = Sequence { items: vec![message], last_comma: false };
    let class = Box::new(expr(ExprKind::Name("NotImplementedError".into())));
    let raise = StmtKind::Raise(Some(expr(ExprKind::Call(class, arguments))));
    let tensor = || expr(ExprKind::Name("Tensor".into()));
    Arc::new(Function {
        returns: Some(function.returns.clone().unwrap_or_else(tensor)),
        body: vec![Stmt { kind: raise, span: function.span }],
        ..(**function).clone()
    })
}
