//! Sizes and numbers that vary: a segment for all values, made of segments that differ in them only.
//!
//! The first segment has the sizes and numbers of its call. If a later log is the same but for sizes and
//! numbers, each size that varied becomes a symbol, and each number that varied an expression of symbols or an
//! input. An integer that follows from no size, such as a position, is a symbol itself. The shape rules decide
//! whether that is possible. Sizes that were equal in every call share a symbol.

use std::sync::Arc;

use smallvec::SmallVec;

use super::event::{self, Event, Known, Outcome, SeenSizes, Types, Wire, number};
use super::segment::{Expected, Observation, Segment, Size, Slot};
use crate::op::kind::OperandType;
use crate::pointwise::result_dtype_of_types;
use crate::signature::size_name;
use crate::{Arg, Class, DType, Dim, Kind, Param, Scalar, Shape, Symbol, TensorType, Type, TypeTree};

/// The most calls whose sizes and numbers a segment keeps.
const MOST_OBSERVATIONS: usize = 8;

/// A segment for several sizes and numbers, and what it was made of.
pub(super) struct General {
    pub(super) events: Vec<Event>,
    pub(super) outside: Vec<Expected>,
    pub(super) symbols: Vec<Symbol>,
    pub(super) slots: Vec<(u32, Slot)>,
    pub(super) observations: Vec<Observation>,
}

/// Returns whether a log is the same as a segment but for sizes and numbers.
pub(super) fn is_relative(segment: &Segment, log: &[Event], outside: &[Expected]) -> bool {
    let same_input = |(a, b): (&Expected, &Expected)| match (a, b) {
        (Expected::Constant(a), Expected::Constant(b)) => Arc::ptr_eq(a, b),
        (
            Expected::Input { dtype: a, sizes: a_sizes, .. },
            Expected::Input { dtype: b, sizes: b_sizes, .. },
        ) => a == b && a_sizes.len() == b_sizes.len(),
        _ => false,
    };
    let same_event = |(a, b): (&Event, &Event)| {
        a.op == b.op
            && a.method == b.method
            && a.first_local == b.first_local
            && a.args.len() == b.args.len()
            && a.kwargs.len() == b.kwargs.len()
            && a.kwargs.iter().zip(&b.kwargs).all(|((a, _), (b, _))| a == b)
            && a.arguments().zip(b.arguments()).all(|(a, b)| is_relative_argument(a, b))
    };
    segment.events.len() == log.len()
        && segment.outside.len() == outside.len()
        && segment.outside.iter().zip(outside).all(same_input)
        && segment.events.iter().zip(log).all(same_event)
}

fn is_relative_argument(general: &Arg<Wire>, log: &Arg<Wire>) -> bool {
    let is_number = |arg: &Arg<Wire>| number(arg).is_some() || matches!(arg, Arg::Leaf(Wire::Literal(_)));
    match (general, log) {
        (Arg::Leaf(Wire::Literal(_)), other) | (other, Arg::Leaf(Wire::Literal(_))) => is_number(other),
        (Arg::Int(_), Arg::Int(_)) | (Arg::Float(_), Arg::Float(_)) => true,
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| is_relative_argument(a, b))
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            a.len() == b.len()
                && a.iter().zip(b.iter()).all(|((k, a), (l, b))| k == l && is_relative_argument(a, b))
        }
        (Arg::Slice(a), Arg::Slice(b)) => {
            a.parts().into_iter().zip(b.parts()).all(|(a, b)| is_relative_argument(a, b))
        }
        (a, b) => a == b,
    }
}

/// Makes a segment for the sizes and numbers of earlier calls and of this one, and for sizes to which the user
/// gave a symbol. Fails with the reason why some of them cannot vary, and the event that needs them.
pub(super) fn generalise(
    earlier: &[Observation],
    log: &[Event],
    outside: &[Expected],
    call: &Observation,
    mark: &dyn Fn(usize, usize) -> Option<Symbol>,
) -> Result<General, (String, usize)> {
    let mut observations = earlier.to_vec();
    observations.push(call.clone());
    if observations.len() > MOST_OBSERVATIONS {
        observations.remove(1);
    }
    let mut general = Generaliser {
        observations: &observations,
        symbols: Vec::new(),
        values: Vec::new(),
        slots: Vec::new(),
        types: Vec::new(),
        events: Vec::new(),
        inputs: Vec::new(),
        next_literal: 0,
    };
    let outside = general.inputs(outside, mark);
    for (at, event) in log.iter().enumerate() {
        general.event(event).map_err(|reason| (reason, at))?;
    }
    let Generaliser { symbols, slots, events, .. } = general;
    Ok(General { events, outside, symbols, slots, observations })
}

struct Generaliser<'a> {
    observations: &'a [Observation],
    symbols: Vec<Symbol>,
    /// The value of each symbol in each observation.
    values: Vec<Vec<i64>>,
    slots: Vec<(u32, Slot)>,
    /// The types of the results so far.
    types: Vec<TensorType>,
    events: Vec<Event>,
    /// The types of the tensors from outside.
    inputs: Vec<TensorType>,
    next_literal: u32,
}

impl Generaliser<'_> {
    /// Makes a symbol of each size that varied. Symbols are numbered by first use.
    fn inputs(
        &mut self,
        outside: &[Expected],
        mark: &dyn Fn(usize, usize) -> Option<Symbol>,
    ) -> Vec<Expected> {
        let mut general = Vec::with_capacity(outside.len());
        for (input, expected) in outside.iter().enumerate() {
            let Expected::Input { name, dtype, sizes } = expected else {
                if let Expected::Constant(array) = expected {
                    self.inputs.push(TensorType::new(array.dtype(), array.shape()));
                }
                general.push(expected.clone());
                continue;
            };
            let mut new_sizes: SmallVec<[Size; 4]> = SmallVec::new();
            let mut dims = Shape::default();
            for axis in 0..sizes.len() {
                let values: Vec<i64> = self.observations.iter().map(|seen| seen.sizes[input][axis]).collect();
                let marked = mark(input, axis);
                let is_static = values.iter().all(|value| *value == values[0]);
                if is_static && marked.is_none() {
                    new_sizes.push(Size::Is(values[0]));
                    dims.dims_mut().push(Dim::new(values[0]));
                    continue;
                }
                let known = match &marked {
                    Some(symbol) => self.symbols.iter().position(|other| other == symbol),
                    None => self.values.iter().position(|other| *other == values),
                };
                let symbol = known.unwrap_or_else(|| {
                    let name = || Symbol::with_range(self.free_name(&size_name(name, axis)), 0, None);
                    self.symbols.push(marked.unwrap_or_else(name));
                    self.values.push(values);
                    self.symbols.len() - 1
                });
                new_sizes.push(Size::Symbol(symbol as u32));
                dims.dims_mut().push(Dim::symbol(self.symbols[symbol].clone()));
            }
            self.inputs.push(TensorType { dtype: *dtype, shape: dims });
            general.push(Expected::Input { name: name.clone(), dtype: *dtype, sizes: new_sizes });
        }
        general
    }

    /// Returns a name for a symbol that no other one has.
    fn free_name(&self, wanted: &str) -> String {
        let is_free = |name: &String| self.symbols.iter().all(|symbol| symbol.name() != name);
        let mut names = std::iter::once(wanted.to_owned()).chain((1..).map(|i| format!("{wanted}_{i}")));
        names.find(is_free).expect("some number is free")
    }

    fn lookup(&self, observation: usize) -> impl Fn(&Symbol) -> Option<i64> + '_ {
        move |symbol| {
            let at = self.symbols.iter().position(|other| other == symbol)?;
            Some(self.values[at][observation])
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let (op, first_literal) = (event.op, self.next_literal);
        let mut args = SmallVec::with_capacity(event.args.len());
        for (at, arg) in event.args.iter().enumerate() {
            args.push(self.argument(arg, op.params.get(at), event)?);
        }
        let mut kwargs = Vec::with_capacity(event.kwargs.len());
        for (key, arg) in &event.kwargs {
            let param = op.params.iter().find(|param| param.name == &**key);
            kwargs.push((key.clone(), self.argument(arg, param, event)?));
        }
        let general = Event { args, kwargs, ..event.clone() };
        let result = self.result(&general, event)?;
        let has_size = |(_, slot): &(u32, Slot)| matches!(slot, Slot::Size(_));
        let has_symbol = |ty: &TensorType| !ty.shape.iter().all(Dim::is_known);
        let mut depends = self.slots.iter().filter(|(literal, _)| *literal >= first_literal).any(has_size);
        general.arguments().for_each(|arg| {
            arg.for_each_leaf(&mut |wire| depends |= self.type_of(*wire).is_some_and(has_symbol))
        });
        let seen = depends.then(|| Arc::new(SeenSizes::default()));
        result.for_each_leaf(&mut |ty| self.types.push(TensorType::clone(ty)));
        self.events.push(Event { result, seen, ..general });
        Ok(())
    }

    fn type_of(&self, wire: Wire) -> Option<&TensorType> {
        match wire {
            Wire::Local(local) => self.types.get(local as usize),
            Wire::Outside(input) => self.inputs.get(input as usize),
            Wire::Literal(_) => None,
        }
    }

    /// Puts the slots of numbers that varied in their places.
    fn argument(
        &mut self,
        arg: &Arg<Wire>,
        param: Option<&Param>,
        event: &Event,
    ) -> Result<Arg<Wire>, String> {
        let mut problem = None;
        let is_whole = number(arg).is_some();
        let general = arg.try_rewrite(&mut |arg| {
            let Some(now) = number(arg) else {
                return Ok(match arg {
                    Arg::Leaf(wire) => Some(Arg::Leaf(*wire)),
                    _ => None,
                });
            };
            let literal = self.next_literal;
            self.next_literal += 1;
            let values: Vec<Scalar> =
                self.observations.iter().map(|seen| seen.literals[literal as usize]).collect();
            if values.iter().all(|value| is_same(*value, now)) {
                return Ok(None);
            }
            let slot = match self.size(&values) {
                _ if is_whole && param.is_some_and(|param| is_operand(param.kind)) => {
                    self.number(event, literal, now)
                }
                Some(size) => Ok(Slot::Size(size)),
                // Which axes an operation works along is known when it is compiled.
                None if param.is_some_and(Param::names_axes) => {
                    Err(format!("an axis of {} varies", event.op.name))
                }
                None => self
                    .integer(&values, param.map_or("number", |param| param.name))
                    .map(Slot::Size)
                    .ok_or_else(|| format!("a number of {} varies, and no size says how", event.op.name)),
            };
            match slot {
                Ok(slot) => {
                    self.slots.push((literal, slot));
                    Ok(Some(Arg::Leaf(Wire::Literal(literal))))
                }
                Err(reason) => {
                    problem.get_or_insert(reason);
                    Ok(None)
                }
            }
        });
        match problem {
            Some(reason) => Err(reason),
            None => general.map_err(|error| error.message().to_owned()),
        }
    }

    /// Finds the size whose values these integers are in all calls.
    fn size(&self, values: &[Scalar]) -> Option<Dim> {
        let wanted: Vec<i64> = values
            .iter()
            .map(|value| match value {
                Scalar::Int(n) => Some(*n),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let mut atoms: Vec<(Dim, Vec<i64>)> = Vec::new();
        let mut add = |dim: &Dim| {
            if dim.is_known() || atoms.iter().any(|(other, _)| other == dim) {
                return;
            }
            let each = (0..wanted.len()).map(|seen| dim.eval(&self.lookup(seen)).ok());
            if let Some(values) = each.collect::<Option<Vec<i64>>>() {
                atoms.push((dim.clone(), values));
            }
        };
        self.symbols.iter().for_each(|symbol| add(&Dim::symbol(symbol.clone())));
        self.types.iter().flat_map(|ty| ty.shape.iter()).for_each(&mut add);
        atoms.truncate(24);
        let fits = |values: &mut dyn Iterator<Item = i64>| values.eq(wanted.iter().copied());
        if let Some((dim, _)) = atoms.iter().find(|(_, values)| *values == wanted) {
            return Some(dim.clone());
        }
        for (dim, values) in &atoms {
            let offset = wanted[0].checked_sub(values[0])?;
            if fits(&mut values.iter().map(|value| value.wrapping_add(offset))) {
                return Some(dim + Dim::new(offset));
            }
        }
        for (dim, values) in &atoms {
            let at = values.iter().position(|value| *value != 0)?;
            let factor = wanted[at] / values[at];
            if factor != 0 && fits(&mut values.iter().map(|value| value.wrapping_mul(factor))) {
                return Some(dim * Dim::new(factor));
            }
            let divisor = if wanted[at] == 0 { 0 } else { values[at] / wanted[at] };
            if divisor > 1 && fits(&mut values.iter().map(|value| value.div_euclid(divisor))) {
                return Some(dim.floor_div(&Dim::new(divisor)));
            }
        }
        for (i, (a, a_values)) in atoms.iter().enumerate() {
            for (b, b_values) in &atoms[i..] {
                let pairs = || a_values.iter().zip(b_values);
                if fits(&mut pairs().map(|(a, b)| a.wrapping_add(*b))) {
                    return Some(a + b);
                }
                if fits(&mut pairs().map(|(a, b)| a.wrapping_mul(*b))) {
                    return Some(a * b);
                }
                if fits(&mut pairs().map(|(a, b)| a.wrapping_sub(*b))) {
                    return Some(a - b);
                }
                if fits(&mut pairs().map(|(a, b)| b.wrapping_sub(*a))) {
                    return Some(b - a);
                }
            }
        }
        None
    }

    /// Makes a symbol of integers that follow from no size. `None` if some are other numbers.
    fn integer(&mut self, values: &[Scalar], name: &str) -> Option<Dim> {
        let int = |value: &Scalar| match value {
            Scalar::Int(n) => Some(*n),
            _ => None,
        };
        let values: Vec<i64> = values.iter().map(int).collect::<Option<_>>()?;
        // Rules decide more about a number that counts from one end always.
        let are_from_end = values.iter().all(|value| *value < 0);
        let values = match are_from_end {
            true => values.iter().map(|value| value.checked_neg()).collect::<Option<_>>()?,
            false => values,
        };
        let min = if values.iter().all(|value| *value >= 0) { i64::from(are_from_end) } else { i64::MIN };
        let symbol = Symbol::new(self.free_name(name)).ranged(min, None);
        self.symbols.push(symbol.clone());
        self.values.push(values);
        let size = Dim::symbol(symbol);
        Some(if are_from_end { -size } else { size })
    }

    /// Makes an input of a number, if the result has the same type with it.
    fn number(&self, event: &Event, literal: u32, now: Scalar) -> Result<Slot, String> {
        let reason = || format!("a number of {} varies, and it cannot be an input", event.op.name);
        let Class::Pointwise(def) = event.op.class else { return Err(reason()) };
        if def.instead.is_some() || def.check.is_some() {
            return Err(reason());
        }
        let mut operands: Vec<OperandType<'_>> = Vec::new();
        for (param, arg) in event.op.params.iter().zip(&event.args) {
            if !is_operand(param.kind) {
                continue;
            }
            match arg {
                Arg::Leaf(wire) => {
                    operands.push(OperandType::Tensor(self.type_of(*wire).ok_or_else(reason)?))
                }
                arg => operands.extend(arg.scalar().map(|scalar| OperandType::Scalar(scalar.category()))),
            }
        }
        let dtype = result_dtype_of_types(&operands);
        let is_exact = match now {
            Scalar::Float(_) => matches!(dtype, DType::F32 | DType::F64),
            Scalar::Int(_) => matches!(dtype, DType::F32 | DType::F64 | DType::I64),
            Scalar::Bool(_) => false,
        };
        let has_slot = self.slots.iter().any(|(other, _)| *other == literal);
        if !is_exact || has_slot || !operands.iter().any(|operand| matches!(operand, OperandType::Tensor(_)))
        {
            return Err(reason());
        }
        Ok(Slot::Number { category: now.category(), dtype })
    }

    /// Returns the types of the result, which must have the values of this call's.
    fn result(&self, general: &Event, event: &Event) -> Result<Types, String> {
        let slots = &self.slots;
        let mut type_of = |wire: &Wire| -> crate::Result<TypeTree> {
            if let Wire::Literal(literal) = wire {
                let slot = slots.iter().find(|(other, _)| other == literal).map(|(_, slot)| slot);
                return Ok(match slot {
                    Some(Slot::Size(size)) => Arg::dim(size.clone()),
                    Some(Slot::Number { dtype, .. }) => TensorType::new(*dtype, &[][..]).into(),
                    None => Arg::Leaf(Type::Any),
                });
            }
            Ok(self.type_of(*wire).map_or(Arg::Leaf(Type::Any), |ty| ty.clone().into()))
        };
        let refused =
            |why: &str| format!("the rule of {} needs the numbers of its sizes{why}", event.op.name);
        let types = match event::infer(general.op, &general.args, &general.kwargs, &mut type_of) {
            Outcome::Tensors(types) => types,
            Outcome::Eager => return Err(refused("")),
        };
        let last = self.observations.len() - 1;
        let (lookup, mut agrees) = (self.lookup(last), types.leaves().len() == event.result.leaves().len());
        for (symbolic, known) in types.leaves().into_iter().zip(event.result.leaves()) {
            let same = |(a, b): (&Dim, &Dim)| a.eval(&lookup).ok() == b.known();
            agrees &= symbolic.dtype == known.dtype
                && symbolic.rank() == known.rank()
                && symbolic.shape.iter().zip(known.shape.iter()).all(same);
        }
        if agrees { Ok(types) } else { Err(refused(": its result has another type for these")) }
    }
}

fn is_operand(kind: Kind) -> bool {
    matches!(kind, Kind::Operand | Kind::OptOperand)
}

fn is_same(a: Scalar, b: Scalar) -> bool {
    match (a, b) {
        (Scalar::Float(a), Scalar::Float(b)) => a.to_bits() == b.to_bits(),
        (a, b) => a == b,
    }
}

/// Returns what tensors from outside must be, as they are in this call.
pub(super) fn expected(
    outside: &[Known],
    is_constant: &dyn Fn(&Known) -> bool,
    name: &dyn Fn(usize, &Known) -> Arc<str>,
) -> Vec<Expected> {
    let each = outside.iter().enumerate().map(|(at, known)| {
        if is_constant(known) {
            return Expected::Constant(known.array.clone());
        }
        let sizes = known.array.shape().iter().map(|size| Size::Is(*size as i64)).collect();
        Expected::Input { name: name(at, known), dtype: known.array.dtype(), sizes }
    });
    each.collect()
}
