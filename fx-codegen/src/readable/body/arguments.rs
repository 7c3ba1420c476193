//! Arguments: variables, literals and sizes, as each kind of parameter takes them.

use fx_core::{Arg, Dim, Kind, NodeId, Result, bail, err};

use super::super::layout::Expr;
use super::super::names::variable;
use super::super::types::{self, float, int, number, string};
use super::{Body, Var};

impl Body<'_, '_> {
    /// Writes an argument for a parameter of a kind.
    pub(in super::super) fn typed(&mut self, kind: Kind, arg: &Arg) -> Result<Expr> {
        let whole_numbers = |items: &[Arg]| items.iter().all(|item| matches!(item, Arg::Int(_)));
        Ok(match (kind, arg) {
            (_, Arg::None) if kind != Kind::Any => Expr::text("()"),
            (Kind::Tensors, Arg::List(items) | Arg::Tuple(items)) if !items.is_empty() => {
                let items = items.iter().map(|item| match item {
                    Arg::Leaf(id) => self.reference(*id).map(Expr::Text),
                    other => bail!(Argument, "a list of tensors holds {}", other.kind_name()),
                });
                Expr::Array(items.collect::<Result<_>>()?)
            }
            (Kind::Float | Kind::OptFloat, Arg::Int(x)) => Expr::Text(float(*x as f64)),
            (Kind::Shape | Kind::Axes | Kind::Ints | Kind::OptInts, Arg::List(items) | Arg::Tuple(items))
                if !items.is_empty() && whole_numbers(items) =>
            {
                Expr::Array(self.ints(items))
            }
            (Kind::Shape, Arg::List(items) | Arg::Tuple(items)) if items.is_empty() => Expr::text("()"),
            (Kind::Shape, Arg::List(items) | Arg::Tuple(items)) if items.len() <= 8 => {
                let items = items.iter().map(|item| self.typed(Kind::Int, item)).collect::<Result<_>>()?;
                Expr::Tuple(items)
            }
            (Kind::Any, _) => self.any(arg)?,
            // The one element of a tensor.
            (_, Arg::Leaf(id)) if !kind.is_tensor() && self.is_tensor(*id) => self.value(arg)?,
            (Kind::Graph, Arg::Graph(_)) => bail!(
                Unresolved,
                "code for an operation that takes a sub-graph is written for `cond`, `while_loop` and `for_loop` only"
            ),
            (
                _,
                Arg::Int(_)
                | Arg::Float(_)
                | Arg::Bool(_)
                | Arg::Leaf(_)
                | Arg::Str(_)
                | Arg::DType(_)
                | Arg::Dim(_),
            ) => self.any(arg)?,
            _ => self.value(arg)?,
        })
    }

    /// Writes whole numbers of an array, whose type is that of the first.
    pub(in super::super) fn ints(&self, items: &[Arg]) -> Vec<Expr> {
        let is_wide = items.iter().any(|item| matches!(item, Arg::Int(x) if i32::try_from(*x).is_err()));
        let write = |item: &Arg| match item {
            Arg::Int(x) if is_wide && i32::try_from(*x).is_ok() => format!("{x}_i64"),
            Arg::Int(x) => int(*x),
            _ => String::new(),
        };
        items.iter().map(|item| Expr::Text(write(item))).collect()
    }

    /// Writes an argument whose kind is not known to the called function.
    pub(in super::super) fn any(&mut self, arg: &Arg) -> Result<Expr> {
        Ok(match arg {
            Arg::Leaf(id) => match self.var(*id)? {
                Var::Dim(name) => Expr::Text(format!("{name}.clone()")),
                Var::Parts(_) => self.value(arg)?,
                _ => Expr::Text(self.argument(*id)?),
            },
            Arg::Bool(_) | Arg::Int(_) | Arg::Float(_) => {
                arg.scalar().map_or_else(|| Expr::text("()"), number)
            }
            Arg::Str(text) => Expr::Text(string(text)),
            Arg::DType(dtype) => Expr::Text(types::dtype(*dtype)),
            Arg::Dim(dim) => Expr::Text(self.dim(dim)?),
            Arg::List(items) if !items.is_empty() && items.iter().all(|item| matches!(item, Arg::Int(_))) => {
                Expr::Array(self.ints(items))
            }
            Arg::List(items)
                if !items.is_empty()
                    && items.iter().all(|item| matches!(item, Arg::Leaf(id) if self.is_tensor(*id))) =>
            {
                let items =
                    items.iter().filter_map(|item| item.leaf()).map(|id| self.reference(*id).map(Expr::Text));
                Expr::Array(items.collect::<Result<_>>()?)
            }
            _ => self.value(arg)?,
        })
    }

    pub(in super::super) fn is_tensor(&self, id: NodeId) -> bool {
        matches!(
            self.vars.get(&id),
            Some(Var::Owned(_) | Var::Borrowed(_) | Var::Place(_) | Var::Parameter(_))
        )
    }

    /// Writes an argument as an `fx::Value`.
    pub(in super::super) fn value(&mut self, arg: &Arg) -> Result<Expr> {
        let call = |head: &str, args: Vec<Expr>| Expr::Call(format!("fx::Value::{head}"), args);
        Ok(match arg {
            Arg::Leaf(id) => match self.var(*id)?.clone() {
                Var::Dim(name) => call("dim", vec![Expr::Text(format!("{name}.clone()"))]),
                Var::Value(name) => Expr::Text(format!("{name}.clone()")),
                Var::Struct(name, _) => Expr::Text(format!("{name}.to_value()")),
                Var::Tensors(name) => {
                    call("list", vec![Expr::Text(format!("{name}.iter().map(fx::Value::from)"))])
                }
                Var::Parts(parts) => {
                    let parts =
                        parts.iter().flatten().map(|part| call("from", vec![Expr::Text(format!("&{part}"))]));
                    call("tuple", vec![Expr::Array(parts.collect())])
                }
                _ => call("from", vec![Expr::Text(self.reference(*id)?)]),
            },
            Arg::None => Expr::text("fx::Value::None"),
            Arg::Ellipsis => Expr::text("fx::Value::Ellipsis"),
            Arg::Bool(x) => call("Bool", vec![Expr::text(x.to_string())]),
            Arg::Int(x) => call("Int", vec![Expr::Text(int(*x))]),
            Arg::Float(x) => call("Float", vec![Expr::Text(float(*x))]),
            Arg::Str(text) => call("str", vec![Expr::Text(string(text))]),
            Arg::DType(dtype) => call("DType", vec![Expr::Text(types::dtype(*dtype))]),
            Arg::Dim(dim) => call("dim", vec![Expr::Text(self.dim(dim)?)]),
            Arg::Slice(slice) => {
                let parts = slice.parts().into_iter().map(|part| self.value(part)).collect::<Result<_>>()?;
                call("slice", parts)
            }
            Arg::Tuple(items) => call("tuple", vec![Expr::Array(self.values(items)?)]),
            Arg::List(items) => call("list", vec![Expr::Array(self.values(items)?)]),
            Arg::Dict(entries) => {
                let entries = entries
                    .iter()
                    .map(|(key, item)| Ok(Expr::Tuple(vec![Expr::Text(string(key)), self.value(item)?])));
                call("dict", vec![Expr::Array(entries.collect::<Result<_>>()?)])
            }
            Arg::Graph(_) => bail!(Unresolved, "code for a value that holds a sub-graph cannot be written"),
            Arg::Failed(error) => return Err(error.clone()),
        })
    }

    fn values(&mut self, items: &[Arg]) -> Result<Vec<Expr>> {
        items.iter().map(|item| self.value(item)).collect()
    }

    /// Writes a size.
    pub(in super::super) fn dim(&mut self, dim: &Dim) -> Result<String> {
        for symbol in dim.symbols() {
            self.symbol(symbol.name())?;
        }
        let names = &self.dims;
        let written = dim.fold(&mut |step| {
            use fx_core::dim::Step;
            let binary = |a: Text, sign: &str, b: Text| Text {
                text: format!("{} {sign} {}", a.operand(), b.operand()),
                form: Form::Sum,
            };
            let method = |a: Text, name: &str, b: Text| Text {
                text: format!("{}.{name}(&{})", a.dim(), b.dim()),
                form: Form::Size,
            };
            Ok(match step {
                Step::Const(n) => Text { text: int(n), form: Form::Number },
                Step::Symbol(symbol) => {
                    Text { text: names.get(symbol.name()).cloned().unwrap_or_default(), form: Form::Size }
                }
                Step::Add(a, b) => binary(a, "+", b),
                Step::Mul(a, b) => binary(a, "*", b),
                Step::FloorDiv(a, b) => binary(a, "/", b),
                Step::Mod(a, b) => binary(a, "%", b),
                Step::Min(a, b) => method(a, "min", b),
                Step::Max(a, b) => method(a, "max", b),
            })
        })?;
        // A plain name is copied, an expression makes a new size.
        Ok(if dim.as_symbol().is_some() { format!("{}.clone()", written.text) } else { written.text })
    }

    /// Writes the size that is in a variable of any value.
    pub(in super::super) fn size_of(&mut self, variable: &str) -> Expr {
        self.fails = true;
        Expr::Try(Box::new(Expr::Call(
            "Dim::try_from".into(),
            vec![Expr::Text(format!("{variable}.clone()"))],
        )))
    }

    /// Makes a variable for a symbol, of a number that has it as its value or a tensor that has it as a size.
    fn symbol(&mut self, name: &str) -> Result<()> {
        if self.dims.contains_key(name) {
            return Ok(());
        }
        let is_it = |id: &NodeId| match self.ty(*id) {
            Some(Arg::Dim(size)) => size.as_symbol().is_some_and(|symbol| symbol.name() == name),
            _ => false,
        };
        let number = self.graph.ids().into_iter().filter(is_it);
        match number.filter_map(|id| Some((id, self.vars.get(&id)?.clone()))).next() {
            Some((_, Var::Dim(variable))) => {
                self.dims.insert(name.to_owned(), variable);
                return Ok(());
            }
            Some((id, Var::Value(number))) => {
                let ident = self.names.claim(variable(name));
                let expr = self.size_of(&number);
                self.push(ident.clone(), None, expr, id);
                self.dims.insert(name.to_owned(), ident);
                return Ok(());
            }
            _ => {}
        }
        let axis = |id: NodeId| {
            self.ty(id)?
                .tensor()?
                .shape
                .iter()
                .position(|dim| dim.as_symbol().is_some_and(|symbol| symbol.name() == name))
        };
        let known =
            self.graph.ids().into_iter().filter(|id| self.vars.contains_key(id) && self.is_tensor(*id));
        let Some((id, axis)) = known.into_iter().find_map(|id| Some((id, axis(id)?))) else {
            return Err(err!(Unresolved, "the size {name} is written down, but no tensor in reach has it"));
        };
        let ident = self.names.claim(variable(name));
        let expr = Expr::Method(self.receiver(id)?, "dim".into(), vec![Expr::text(axis.to_string())]);
        self.push(ident.clone(), None, expr, id);
        self.dims.insert(name.to_owned(), ident);
        Ok(())
    }
}

/// The text of a size.
#[derive(Clone)]
struct Text {
    text: String,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    /// An integer of Rust.
    Number,
    /// A variable, or a call.
    Size,
    /// Something with operators.
    Sum,
}

impl Text {
    /// Returns it as an operand: variables are borrowed.
    fn operand(&self) -> String {
        match self.form {
            Form::Number => self.text.clone(),
            Form::Size => format!("&{}", self.text),
            Form::Sum => format!("({})", self.text),
        }
    }

    /// Returns it as a size that has methods.
    fn dim(&self) -> String {
        match self.form {
            Form::Number => format!("Dim::new({})", self.text),
            Form::Size => self.text.clone(),
            Form::Sum => format!("({})", self.text),
        }
    }
}
