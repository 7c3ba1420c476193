//! Arguments of nodes: the archive's unions as values of the graph, and numbers from expressions over sizes.

use std::sync::Arc;

use super::{Attempt, Builder, shorten};
use crate::import::complex;
use crate::import::schema::{
    self, Argument, OptionalTensor, SymBool, SymBoolArgument, SymExpr, SymFloat, SymFloatArgument, SymInt,
    SymIntArgument,
};
use crate::import::symbols::{self, Expr};
use crate::{Arg, DType, Dim, err};

impl<'a> Builder<'a> {
    /// Reads an argument of a node.
    pub(in crate::import) fn argument(&mut self, argument: &'a Argument) -> Attempt<Arg> {
        Ok(match argument {
            Argument::AsNone(_) | Argument::AsToken(_) => Arg::None,
            Argument::AsTensor(tensor) | Argument::AsOptionalTensor(OptionalTensor::AsTensor(tensor)) => {
                self.value_named(&tensor.name)?
            }
            Argument::AsOptionalTensor(OptionalTensor::AsNone(_)) => Arg::None,
            Argument::AsTensors(tensors) => Arg::list(
                tensors.iter().map(|tensor| self.value_named(&tensor.name)).collect::<Attempt<Vec<_>>>()?,
            ),
            Argument::AsOptionalTensors(tensors) => {
                let item = |tensor: &'a OptionalTensor| match tensor {
                    OptionalTensor::AsTensor(tensor) => self.value_named(&tensor.name),
                    OptionalTensor::AsNone(_) => Ok(Arg::None),
                };
                Arg::list(tensors.iter().map(item).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsNestedTensors(lists) => {
                let list = |tensors: &'a Vec<schema::Named>| -> Attempt<Arg> {
                    let items = tensors.iter().map(|tensor| self.value_named(&tensor.name));
                    items.collect::<Attempt<Vec<_>>>().map(Arg::list)
                };
                Arg::list(lists.iter().map(list).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsInt(n) => Arg::Int(*n),
            Argument::AsInts(items) => Arg::ints(items.iter().copied()),
            Argument::AsIntLists(lists) => {
                Arg::list(lists.iter().map(|items| Arg::ints(items.iter().copied())))
            }
            Argument::AsFloat(x) => Arg::Float(x.0),
            Argument::AsFloats(items) => Arg::list(items.iter().map(|x| Arg::Float(x.0))),
            Argument::AsFloatLists(lists) => {
                Arg::list(lists.iter().map(|items| Arg::list(items.iter().map(|x| Arg::Float(x.0)))))
            }
            Argument::AsString(text) | Argument::AsOperator(text) => Arg::str(text.as_str()),
            Argument::AsStrings(items) => Arg::list(items.iter().map(|text| Arg::str(text.as_str()))),
            Argument::AsBool(x) => Arg::Bool(*x),
            Argument::AsBools(items) => Arg::list(items.iter().map(|x| Arg::Bool(*x))),
            Argument::AsSymInt(item) => self.sym_int(item)?,
            Argument::AsSymInts(items) => {
                Arg::list(items.iter().map(|item| self.sym_int(item)).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsSymFloat(item) => self.sym_float(item)?,
            Argument::AsSymFloats(items) => {
                Arg::list(items.iter().map(|item| self.sym_float(item)).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsSymBool(item) => self.sym_bool(item)?,
            Argument::AsSymBools(items) => {
                Arg::list(items.iter().map(|item| self.sym_bool(item)).collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsScalarType(code) => Arg::DType(match complex::part_dtype(*code) {
                Some(dtype) => dtype,
                None => crate::import::dtype(*code)?,
            }),
            Argument::AsMemoryFormat(code) => Arg::Str(Arc::from(format!("memory_format {code}"))),
            Argument::AsLayout(crate::import::STRIDED) => Arg::str("strided"),
            Argument::AsLayout(code) => {
                return Err(err!(Load, "expected the strided layout, got {code}").into());
            }
            Argument::AsDevice(_) => Arg::str("device"),
            Argument::AsStringToArgument(entries) => {
                let entries = entries.iter().map(|(key, item)| Ok((key.as_str(), self.argument(item)?)));
                Arg::dict(entries.collect::<Attempt<Vec<_>>>()?)
            }
            Argument::AsGraph(graph) => {
                return Err(err!(
                    Load,
                    "the graph {:?} is no argument of this operator",
                    shorten(&graph.name)
                )
                .into());
            }
            Argument::AsCustomObj(object) => {
                return Err(err!(Load, "the custom object {:?} needs Python", shorten(&object.name)).into());
            }
            Argument::AsComplex(x) => Arg::tuple([Arg::Float(x.real.0), Arg::Float(x.imag.0)]),
        })
    }

    fn sym_int(&mut self, item: &SymIntArgument) -> Attempt<Arg> {
        match item {
            SymIntArgument::AsInt(n) => Ok(Arg::Int(*n)),
            SymIntArgument::AsName(name) => self.value_named(name),
        }
    }

    fn sym_float(&mut self, item: &SymFloatArgument) -> Attempt<Arg> {
        match item {
            SymFloatArgument::AsFloat(x) => Ok(Arg::Float(x.0)),
            SymFloatArgument::AsName(name) => self.value_named(name),
        }
    }

    fn sym_bool(&mut self, item: &SymBoolArgument) -> Attempt<Arg> {
        match item {
            SymBoolArgument::AsBool(x) => Ok(Arg::Bool(*x)),
            SymBoolArgument::AsName(name) => self.value_named(name),
        }
    }

    /// Returns the value that the archive gives for a number: an expression over sizes.
    pub(in crate::import) fn number(&mut self, output: &Argument) -> Attempt<Option<Arg>> {
        let source = self.source;
        let expr: Option<&SymExpr> = match output {
            Argument::AsSymInt(SymIntArgument::AsName(name)) => match source.sym_int_values.get(name) {
                Some(SymInt::AsInt(n)) => return Ok(Some(Arg::Int(*n))),
                Some(SymInt::AsExpr(expr)) => Some(expr),
                None => None,
            },
            Argument::AsSymBool(SymBoolArgument::AsName(name)) => match source.sym_bool_values.get(name) {
                Some(SymBool::AsBool(x)) => return Ok(Some(Arg::Bool(*x))),
                Some(SymBool::AsExpr(expr)) => Some(expr),
                None => None,
            },
            Argument::AsSymFloat(SymFloatArgument::AsName(name)) => match source.sym_float_values.get(name) {
                Some(SymFloat::AsFloat(x)) => return Ok(Some(Arg::Float(x.0))),
                Some(SymFloat::AsExpr(expr)) => {
                    let expr = symbols::parse(&expr.expr_str)?;
                    let value = self.float_expr(&expr)?;
                    self.numbers.extend(value.leaf());
                    return Ok(Some(value));
                }
                None => None,
            },
            _ => None,
        };
        let Some(dim) = expr.map(|expr| self.symbols.dim(&expr.expr_str)).transpose()? else {
            return Ok(None);
        };
        self.round_floats(&dim)?;
        Ok(Some(Arg::dim(dim)))
    }

    /// Computes the symbols of a size that stand for rounded floats, unless they are there.
    fn round_floats(&mut self, dim: &Dim) -> Attempt<()> {
        for symbol in dim.symbols() {
            let Some(rounded) = self.symbols.rounding(symbol.name()) else { continue };
            if self.has_data_size(symbol.name()) {
                continue;
            }
            let float = match self.float_expr(&rounded.float)? {
                Arg::Float(x) => {
                    let full = self.row("full")?;
                    let args = vec![Arg::list([]), Arg::Float(x)];
                    self.emit(full, args, &[("dtype", Arg::DType(DType::F64))]).map(Arg::Leaf)?
                }
                float => float,
            };
            let whole = self.call(rounded.row, [float])?;
            let whole = self.call("to", [Arg::Leaf(whole), Arg::DType(DType::I64)])?;
            let item = self.call("item", [Arg::Leaf(whole)])?;
            self.set_number(item, Arg::Dim(Dim::symbol(symbol)))?;
        }
        Ok(())
    }

    /// Computes a float from sizes, as tensors of rank 0.
    fn float_expr(&mut self, expr: &Expr) -> Attempt<Arg> {
        if let Expr::Float(x) = expr {
            return Ok(Arg::Float(*x));
        }
        if let Ok(dim) = self.symbols.value(expr)
            && dim.error().is_none()
            && !dim.symbols().iter().any(|symbol| symbol.name().starts_with('z'))
        {
            self.round_floats(&dim)?;
            let number = Arg::dim(dim);
            if let Arg::Int(n) = number {
                return Ok(Arg::Float(n as f64));
            }
            let args = vec![Arg::list([]), number];
            let full = self.row("full")?;
            return self.emit(full, args, &[("dtype", Arg::DType(DType::F64))]).map(Arg::Leaf);
        }
        let Expr::Call(name, args) = expr else {
            return Err(err!(Load, "a float that depends on data cannot be imported").into());
        };
        let row = match (name.as_str(), args.len()) {
            ("Add", _) => "add",
            ("Mul", _) => "mul",
            ("IntTrueDiv" | "FloatTrueDiv", 2) => "div",
            ("Pow" | "FloatPow" | "PowByNatural", 2) => "pow",
            ("OpaqueUnaryFn_sqrt" | "sqrt", 1) => "sqrt",
            ("OpaqueUnaryFn_exp" | "exp", 1) => "exp",
            ("OpaqueUnaryFn_log" | "log", 1) => "log",
            ("OpaqueUnaryFn_cos" | "cos", 1) => "cos",
            ("OpaqueUnaryFn_sin" | "sin", 1) => "sin",
            ("ToFloat", 1) => return self.float_expr(&args[0]),
            _ => return Err(err!(Load, "unknown function {name:?} of floats").into()),
        };
        let mut items = Vec::new();
        for arg in args {
            let value = self.float_expr(arg)?;
            items.push(match value {
                Arg::Float(_) => {
                    let full = self.row("full")?;
                    Arg::Leaf(self.emit(
                        full,
                        vec![Arg::list([]), value],
                        &[("dtype", Arg::DType(DType::F64))],
                    )?)
                }
                value => value,
            });
        }
        let mut items = items.into_iter();
        let first = items.next().ok_or_else(|| err!(Load, "{name} without arguments"))?;
        let rest: Vec<Arg> = items.collect();
        if rest.is_empty() {
            return self.call(row, [first]).map(Arg::Leaf);
        }
        rest.into_iter().try_fold(first, |a, b| self.call(row, [a, b]).map(Arg::Leaf))
    }

    /// Notes that a node is a number of the host.
    pub(in crate::import) fn note_number(&mut self, node: crate::NodeId) {
        self.numbers.insert(node);
    }

    /// Returns whether a node is a number of the host.
    pub(in crate::import) fn is_number(&self, node: crate::NodeId) -> bool {
        self.numbers.contains(&node)
    }

    /// Casts numbers of the host among the operands to the float dtype of the tensors beside them, which they
    /// do not widen.
    pub(super) fn settle_numbers(&mut self, operands: &mut [Arg]) -> Attempt<()> {
        let is_number = |this: &Self, arg: &Arg| arg.leaf().is_some_and(|node| this.numbers.contains(node));
        if !operands.iter().any(|arg| is_number(self, arg)) {
            return Ok(());
        }
        let mut dtypes = Vec::new();
        for arg in operands.iter().filter(|arg| !is_number(self, arg)) {
            if let Some(node) = arg.leaf() {
                dtypes.push(self.tensor_type(*node)?.dtype);
            }
        }
        if dtypes.is_empty() {
            return Ok(());
        }
        let floats = dtypes.into_iter().filter(|dtype| dtype.is_float());
        let to = floats.reduce(DType::promote).unwrap_or(DType::F32);
        for operand in operands {
            if is_number(self, operand) && to != DType::F64 {
                *operand = Arg::Leaf(self.call("to", [operand.clone(), Arg::DType(to)])?);
            }
        }
        Ok(())
    }
}
