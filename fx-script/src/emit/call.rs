//! Calls: of functions, classes, methods and closures.

use std::sync::Arc;

use fx_core::{ErrorKind, Result};

use super::attribute::cast;
use super::function::{Closure, Emitter, Meaning};
use super::unit::Signature;
use crate::ast::{Argument, Expr, ExprKind};
use crate::ir::{Constant, Instruction, ValueId};
use crate::schema;
use crate::source::Span;
use crate::types::{ClassKind, Type};

/// Arguments by position, and by name.
type Given = (Vec<ValueId>, Vec<(Arc<str>, ValueId)>);

impl Emitter<'_> {
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

    pub(super) fn arguments(&mut self, arguments: &[Argument]) -> Result<Given> {
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
                // The operator takes the depth of the list and the code of its elements, as in PyTorch.
                let (mut depth, mut element) = (0, returns);
                while let Type::List(item) = element {
                    (depth, element) = (depth + 1, item);
                }
                let code = match element {
                    Type::Int => 0,
                    Type::Float => 1,
                    Type::Bool => 2,
                    Type::Complex => 3,
                    _ => {
                        let message = format!("'tolist' gives numbers in lists, not {returns}");
                        return Err(self.error(span, &message).help("write `xs : List[int] = x.tolist()`"));
                    }
                };
                let numbers = [depth, code].map(|n| self.builder.constant(Constant::Int(n), Type::Int));
                let operands = vec![receiver, numbers[0], numbers[1]];
                let instruction = Instruction::Call("prim::tolist".into());
                Ok(Meaning::Value(self.builder.add(instruction, operands, returns.clone())))
            }
            Type::Tensor if let Some(number) = cast(name) => {
                let (mut positional, named) = self.arguments(arguments)?;
                let dtype = self.builder.constant(Constant::Int(number), Type::Int);
                positional.splice(0..0, [receiver, dtype]);
                self.operator_results("aten::to", &positional, &named, span)
            }
            // `type` takes what `to` takes.
            Type::Tensor if &**name == "type" => {
                let (mut positional, named) = self.arguments(arguments)?;
                positional.insert(0, receiver);
                self.operator_results("aten::to", &positional, &named, span)
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

    pub(super) fn fork(&mut self, arguments: &[Argument], span: Span) -> Result<Meaning> {
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
}
