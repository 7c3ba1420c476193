//! Sizes that data decide: symbols that get their values while the program runs, such as the sizes of what a loop
//! carries. A value whose sizes they tell gets its memory where it is computed.

use fx_core::{Arg, DType, Dim, Error, Graph, Result, Symbol, TensorType, Type, TypeTree, bail, err};

use super::Lowering;
use super::pointwise::number_dtype;
use crate::standalone::step::{Length, Piece, Source, Step};
use crate::standalone::table;
use crate::standalone::value::{Home, StandsFor, Value, View, count};

impl Lowering<'_> {
    /// Notes the sizes that the nodes of a graph have, so that no other size is called the same.
    pub(super) fn take_names(&mut self, graph: &Graph) {
        for ty in graph.nodes().filter_map(|(_, node)| node.ty()) {
            each_size(ty, &mut |size| self.taken.extend(size.symbols()));
        }
    }

    /// Returns a symbol of the program that nothing else is called.
    pub(in crate::standalone) fn local(&mut self, name: &str, min: i64, max: Option<i64>) -> Symbol {
        let symbol =
            (0..).map(|i| Symbol::new(format!("{name}{i}"))).find(|symbol| !self.taken.contains(symbol));
        let symbol = symbol.unwrap_or_else(|| Symbol::new(name)).ranged(min, max);
        self.taken.insert(symbol.clone());
        self.locals.push(symbol.clone());
        symbol
    }

    /// Makes the symbols of a type that are not known yet sizes of the program; returns them.
    pub(in crate::standalone) fn declare(&mut self, ty: &TypeTree) -> Vec<Symbol> {
        let mut new = Vec::new();
        each_size(ty, &mut |size| {
            for symbol in size.symbols() {
                if !self.is_size(&symbol) {
                    self.locals.push(symbol.clone());
                    new.push(symbol);
                }
            }
        });
        new
    }

    fn is_size(&self, symbol: &Symbol) -> bool {
        self.symbols.contains(symbol) || self.locals.contains(symbol)
    }

    /// Returns whether all sizes of a type are numbers, or have values where the program is now.
    pub(in crate::standalone) fn has_sizes(&self, ty: &TypeTree) -> bool {
        let mut has_all = true;
        each_size(ty, &mut |size| has_all &= size.symbols().iter().all(|symbol| self.is_size(symbol)));
        has_all
    }

    /// Returns whether data decide a size.
    pub(in crate::standalone) fn is_local(&self, size: &Dim) -> bool {
        size.symbols().iter().any(|symbol| self.locals.contains(symbol))
    }

    /// Gives sizes their values, all at once.
    pub(in crate::standalone) fn bind(&mut self, values: Vec<(Symbol, Source)>) {
        if !values.is_empty() {
            self.push(Step::Bind(values));
        }
    }

    /// Makes a buffer for a tensor, without memory where data decide how much: [`grow`](Self::grow) sees to it.
    pub(in crate::standalone) fn place(&mut self, dtype: DType, shape: &[Dim]) -> View {
        let id = self.add_buffer(dtype, Length::Of(count(shape)));
        View::whole(Home::Buffer(id), dtype, shape)
    }

    /// Makes memory for a buffer, if data decide how much.
    pub(in crate::standalone) fn grow(&mut self, id: usize) {
        if self.buffers[id].len.follows_from(&self.locals) {
            self.push(Step::Grow(id));
        }
    }

    /// Notes that the program is for sizes for which this is not negative.
    pub(in crate::standalone) fn require(&mut self, dim: Dim) {
        if dim.bounds().0 >= 0 {
            return;
        }
        if self.is_local(&dim) {
            let is_checked = |step: &Step| matches!(step, Step::Require(known) if *known == dim);
            if !self.steps.iter().any(is_checked) {
                self.push(Step::Require(dim));
            }
        } else if !self.requires.contains(&dim) {
            self.requires.push(dim);
        }
    }

    /// Checks that a number which data decide is in the range of its symbol, on which sizes rely.
    pub(in crate::standalone) fn check_range(&mut self, symbol: &Symbol) {
        let number = Dim::symbol(symbol.ranged(i64::MIN, None));
        if symbol.min() > i64::MIN {
            self.push(Step::Require(&number - &Dim::new(symbol.min())));
        }
        if let Some(max) = symbol.max() {
            self.push(Step::Require(&Dim::new(max) - &number));
        }
    }

    /// Returns where an integer comes from.
    pub(in crate::standalone) fn integer(&mut self, value: &Value) -> Result<Source> {
        Ok(match value {
            Arg::Int(x) => Source::Size(Dim::new(*x)),
            Arg::Bool(x) => Source::Size(Dim::new(i64::from(*x))),
            Arg::Dim(size) => Source::Size(size.clone()),
            Arg::Leaf(view) => {
                if view.dtype.is_float() {
                    self.refuse(view, "!(x.abs() < 9.0e18)", "a number is too large for an integer");
                }
                Source::Element(self.converted(view, DType::I64)?)
            }
            other => bail!(Unresolved, "expected an integer, got {}", other.kind_name()),
        })
    }

    /// Returns a number as a tensor of rank 0.
    pub(in crate::standalone) fn number(&mut self, value: &Value) -> Result<View> {
        let (dtype, piece) = match (value, value.scalar()) {
            (Arg::Leaf(view), _) => return Ok(view.clone().standing_for(StandsFor::Tensor)),
            (Arg::Dim(size), _) => (DType::I64, Piece::Integer(size.clone())),
            (_, Some(x)) => {
                let dtype = number_dtype(x);
                (dtype, Piece::Text(table::number(x, dtype)))
            }
            (other, None) => bail!(Unresolved, "expected a number, got {}", other.kind_name()),
        };
        let view = self.buffer(dtype, &[]);
        self.call("copy::fill", vec![vec![piece], vec![Piece::WriteView(view.clone())]]);
        Ok(view)
    }

    /// Gives the sizes of a result, which a node has made up, the values that they have in `value`; returns it
    /// with these sizes.
    pub(in crate::standalone) fn adopted(&mut self, value: &Value, ty: &TypeTree) -> Result<Value> {
        let new = self.declare(ty);
        let mut types = ty.leaves().into_iter().filter_map(Type::tensor);
        let mut sizes: Vec<(Symbol, Source)> = Vec::new();
        let value = value.try_flat_map(&mut |view: &View| {
            let Some(ty) = types.next().filter(|ty| ty.rank() == view.rank()) else {
                bail!(Structure, "a result has another type than is known of it");
            };
            for (size, got) in ty.shape.iter().zip(&view.shape) {
                if let Some(symbol) = size.as_symbol().filter(|symbol| new.contains(symbol))
                    && !sizes.iter().any(|(known, _)| known == symbol)
                {
                    sizes.push((symbol.clone(), Source::Size(got.clone())));
                }
            }
            Ok(Arg::Leaf(View { shape: ty.shape.to_vec(), ..view.clone() }))
        })?;
        if sizes.len() < new.len() {
            return Err(Self::unknown_sizes(ty));
        }
        self.bind(sizes);
        Ok(value)
    }

    /// Returns a closed graph for these operands.
    pub(in crate::standalone) fn region(&mut self, graph: &Graph, operands: &[Value]) -> Result<Graph> {
        let types: Vec<TypeTree> = operands.iter().map(type_of).collect::<Result<_>>()?;
        let taken: Vec<Symbol> = self.taken.iter().cloned().collect();
        graph.for_operands(&types, &taken)
    }

    /// Returns the error of sizes that no code finds out.
    pub(super) fn unknown_sizes(ty: &TypeTree) -> Error {
        err!(
            Unresolved,
            "its result {ty} has as many elements as the data says, and sizes must follow from those of inputs"
        )
    }
}

/// Calls `f` on every size of a type.
fn each_size(ty: &TypeTree, f: &mut dyn FnMut(&Dim)) {
    ty.walk(&mut |arg| match arg {
        Arg::Leaf(Type::Tensor(ty)) => ty.shape.iter().for_each(&mut *f),
        Arg::Dim(size) => f(size),
        _ => {}
    });
}

/// Returns the type of a value.
fn type_of(value: &Value) -> Result<TypeTree> {
    value.try_flat_map(&mut |view: &View| {
        let tensor = |shape: &[Dim]| {
            Type::Tensor(TensorType { dtype: view.dtype, shape: shape.iter().cloned().collect() })
        };
        Ok(Arg::Leaf(match view.stands_for {
            StandsFor::Tensor => tensor(&view.shape),
            StandsFor::List => Type::List(Box::new(Arg::Leaf(tensor(&view.shape[1..])))),
            StandsFor::Number if view.dtype == DType::Bool => Type::Bool,
            StandsFor::Number if view.dtype.is_float() => Type::Float,
            StandsFor::Number => Type::Int,
        }))
    })
}
