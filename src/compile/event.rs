//! [`Event`]: an operation as it was recorded, and how operations of a later call are compared with it.
//!
//! An event names its operands by [`Wire`]: an earlier result of the same segment, or a tensor from outside,
//! numbered by first use. The numbers of outside tensors are bound while a call is compared, so equal wiring
//! means equal numbers. Literals are compared bit by bit, unless they varied in earlier calls.

use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use super::segment::{Expected, Segment, Slot};
use crate::lazy::Call;
use crate::{Arg, Array, DType, Given, Op, Result, Scalar, SourceLoc, Tensor, TensorType, Type, TypeTree};

/// Where an argument of an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wire {
    /// A result of an earlier event of the segment.
    Local(u32),
    /// A tensor from outside.
    Outside(u32),
    /// A number that varies; its place among all numbers of the segment.
    Literal(u32),
}

/// The types of what an operation returns.
pub(super) type Types = Arg<Arc<TensorType>>;

/// An operation as it was recorded.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) op: Op,
    pub(super) method: bool,
    /// In the event itself, so that a call reads the events of a segment one after the other.
    pub(super) args: SmallVec<[Arg<Wire>; 3]>,
    pub(super) kwargs: Vec<(Arc<str>, Arg<Wire>)>,
    /// The types of the results; in a segment with symbols, their sizes may be expressions.
    pub(super) result: Types,
    /// The number of the first result.
    pub(super) first_local: u32,
    pub(super) source: SourceLoc,
    /// The types of the results for sizes that were seen, if they depend on symbols.
    pub(super) seen: Option<Arc<SeenSizes>>,
}

/// The types of results that the rule of the operation gave, by the values of the symbols.
///
/// A rule may be valid for a symbol and fail for one of its values. So the rule decides about each new value.
#[derive(Default)]
pub(super) struct SeenSizes(Mutex<Vec<(SmallVec<[i64; 4]>, Types)>>);

impl SeenSizes {
    const MOST: usize = 16;

    pub(super) fn find(&self, symbols: &[i64]) -> Option<Types> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().find(|(other, _)| **other == *symbols).map(|(_, types)| types.clone())
    }

    pub(super) fn enter(&self, symbols: &[i64], types: &Types) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= SeenSizes::MOST {
            seen.remove(0);
        }
        seen.push((SmallVec::from_slice(symbols), types.clone()));
    }
}

/// Tells a tensor from outside from others.
pub(super) type Identity = (u64, usize);

/// A tensor from outside in a log.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) identity: Identity,
    pub(super) array: Arc<Array>,
}

/// A tensor from outside in a call that is compared.
#[derive(Clone)]
pub(super) struct Outside {
    pub(super) identity: Identity,
    /// `None` for a constant, which the segment keeps: to count it would fetch its line of cache.
    pub(super) array: Option<Arc<Array>>,
}

/// What an operand is in the call that is compared.
pub(super) enum Operand<'a> {
    /// A result of this run of the segment.
    Local(u32),
    /// A tensor from outside.
    Known(Identity, &'a Arc<Array>),
}

/// Says what the operands of a call are.
pub(super) trait View: Copy {
    type Leaf;
    fn operand<'l>(self, leaf: &'l Self::Leaf) -> Operand<'l>
    where
        Self: 'l;
}

/// What a call bound so far, each by number.
#[derive(Default)]
pub(super) struct Bound {
    pub(super) outside: SmallVec<[Outside; 4]>,
    /// The values of the symbols of the segment; [`Bound::OPEN`] is none yet.
    pub(super) symbols: SmallVec<[i64; 4]>,
    /// The symbols in the order in which they were bound: by a size of an operand, or by a number before that.
    order: SmallVec<[u32; 4]>,
    /// The numbers that vary.
    pub(super) numbers: SmallVec<[(u32, Scalar); 4]>,
}

impl Bound {
    /// The value of a symbol that is not bound yet. No symbol has it.
    pub(super) const OPEN: i64 = i64::MIN;

    pub(super) fn new(outside: &[Known]) -> Bound {
        let of = |known: &Known| Outside { identity: known.identity, array: Some(known.array.clone()) };
        Bound { outside: outside.iter().map(of).collect(), ..Bound::default() }
    }

    /// Returns a tensor from outside of a call that follows a segment.
    pub(super) fn array<'a>(&'a self, segment: &'a Segment, input: usize) -> &'a Arc<Array> {
        match (&self.outside[input].array, &segment.outside[input]) {
            (Some(array), _) | (None, Expected::Constant(array)) => array,
            (None, Expected::Input { .. }) => unreachable!("only constants are kept by the segment"),
        }
    }

    /// Returns all tensors from outside of a call that follows a segment.
    pub(super) fn arrays<'a>(&'a self, segment: &'a Segment) -> impl Iterator<Item = &'a Arc<Array>> {
        (0..self.outside.len()).map(|input| self.array(segment, input))
    }

    /// Leaves a segment: the tensors from outside become those of a log.
    pub(super) fn leave(&mut self, segment: &Segment) {
        for input in 0..self.outside.len() {
            self.outside[input].array = Some(self.array(segment, input).clone());
        }
    }

    /// Returns the tensors from outside of a log.
    pub(super) fn known(&self) -> Vec<Known> {
        let known = |outside: &Outside| {
            let array = outside.array.clone().expect("a log has its tensors");
            Known { identity: outside.identity, array }
        };
        self.outside.iter().map(known).collect()
    }

    pub(super) fn mark(&self) -> [usize; 3] {
        [self.outside.len(), self.order.len(), self.numbers.len()]
    }

    pub(super) fn return_to(&mut self, [outside, order, numbers]: [usize; 3]) {
        self.outside.truncate(outside);
        for symbol in self.order.drain(order..) {
            self.symbols[symbol as usize] = Bound::OPEN;
        }
        let n = self.symbols.iter().rposition(|value| *value != Bound::OPEN).map_or(0, |last| last + 1);
        self.symbols.truncate(n);
        self.numbers.truncate(numbers);
    }

    /// Binds a symbol. Fails with its value if that is another one.
    pub(super) fn bind(&mut self, symbol: u32, value: i64) -> std::result::Result<(), i64> {
        let at = symbol as usize;
        if at >= self.symbols.len() {
            self.symbols.resize(at + 1, Bound::OPEN);
        }
        match self.symbols[at] {
            Bound::OPEN => {
                self.symbols[at] = value;
                self.order.push(symbol);
                Ok(())
            }
            known if known == value => Ok(()),
            known => Err(known),
        }
    }

    /// Returns the value of a symbol.
    pub(super) fn symbol(&self, symbol: usize) -> Option<i64> {
        self.symbols.get(symbol).copied().filter(|value| *value != Bound::OPEN)
    }

    pub(super) fn number(&self, literal: u32) -> Option<Scalar> {
        self.numbers.iter().find(|(other, _)| *other == literal).map(|(_, number)| *number)
    }
}

/// The first difference between a call and a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Difference {
    /// Another operation is applied.
    Operation,
    /// An argument comes from elsewhere, or is another literal than a number.
    Argument,
    /// A number is another one.
    Literal { expected: Scalar, got: Scalar },
    /// A tensor from outside has another dtype.
    DType { input: u32, expected: DType, got: DType },
    /// A tensor from outside has another number of axes.
    Rank { input: u32, expected: usize, got: usize },
    /// A tensor from outside has another size.
    Size { input: u32, axis: usize, expected: i64, got: i64 },
    /// A size that varies is not what follows from the others.
    Relation { input: u32, axis: usize, expected: i64, got: i64 },
    /// A parameter is another one.
    Constant { input: u32 },
    /// The segment ends, and the call goes on.
    Longer,
    /// The call reads or returns, and the segment goes on.
    Shorter,
    /// The rule of the operation refuses these sizes, or gives other types than those of the segment.
    Rule,
}

/// Compares one event with an operation of a call, whose operands `view` tells.
pub(super) struct Comparison<'a, V> {
    segment: &'a Segment,
    bound: &'a mut Bound,
    view: V,
    /// Sizes that are to be checked when all operands are bound: the number of the literal, and its value.
    sizes: SmallVec<[(u32, i64); 4]>,
}

impl<V: View<Leaf = Tensor>> Comparison<'_, V> {
    /// Binds the operands as they were written. Returns the first difference; then the bound of before must be
    /// restored.
    #[inline]
    pub(super) fn run_given(
        &mut self,
        event: &Event,
        op: Op,
        method: bool,
        args: &[Given<'_>],
    ) -> Result<(), Difference> {
        if event.op != op || event.method != method {
            return Err(Difference::Operation);
        }
        if event.args.len() != args.len() || !event.kwargs.is_empty() {
            return Err(Difference::Argument);
        }
        for (expected, got) in event.args.iter().zip(args) {
            match (expected, got) {
                (Arg::Leaf(wire), Given::Tensor(tensor)) => {
                    self.operand(*wire, { self.view }.operand(tensor))?
                }
                (_, Given::Tensor(_)) => return Err(Difference::Argument),
                (expected, Given::Value(value)) => self.argument(expected, value)?,
            }
        }
        self.check_sizes()
    }
}

impl<'a, V: View> Comparison<'a, V> {
    pub(super) fn new(segment: &'a Segment, bound: &'a mut Bound, view: V) -> Comparison<'a, V> {
        Comparison { segment, bound, view, sizes: SmallVec::new() }
    }

    /// Binds the operands. Returns the first difference; then the bound of before must be restored.
    pub(super) fn run<K: AsRef<str>>(
        &mut self,
        event: &Event,
        op: Op,
        method: bool,
        args: &[Arg<V::Leaf>],
        kwargs: &[(K, Arg<V::Leaf>)],
    ) -> Result<(), Difference> {
        if event.op != op || event.method != method {
            return Err(Difference::Operation);
        }
        if event.args.len() != args.len() || event.kwargs.len() != kwargs.len() {
            return Err(Difference::Argument);
        }
        for (expected, got) in event.args.iter().zip(args) {
            self.argument(expected, got)?;
        }
        for ((expected_key, expected), (key, got)) in event.kwargs.iter().zip(kwargs) {
            if **expected_key != *key.as_ref() {
                return Err(Difference::Argument);
            }
            self.argument(expected, got)?;
        }
        self.check_sizes()
    }

    #[inline]
    fn check_sizes(&mut self) -> Result<(), Difference> {
        if self.sizes.is_empty() { Ok(()) } else { self.check_some_sizes() }
    }

    fn check_some_sizes(&mut self) -> Result<(), Difference> {
        for (literal, got) in std::mem::take(&mut self.sizes) {
            let Some(Slot::Size(size)) = self.segment.slot(literal) else {
                return Err(Difference::Argument);
            };
            match self.segment.value_of(size, self.bound) {
                Some(expected) if expected == got => {}
                Some(expected) => {
                    let expected = Scalar::Int(expected);
                    return Err(Difference::Literal { expected, got: Scalar::Int(got) });
                }
                // The number stands before the operand with this size, which is checked then.
                None => self.segment.solve(size, got, self.bound).ok_or(Difference::Argument)?,
            }
        }
        Ok(())
    }

    fn argument(&mut self, expected: &Arg<Wire>, got: &Arg<V::Leaf>) -> Result<(), Difference> {
        match (expected, got) {
            (Arg::Leaf(Wire::Literal(literal)), got) => self.literal(*literal, got),
            (Arg::Leaf(wire), Arg::Leaf(leaf)) => self.operand(*wire, { self.view }.operand(leaf)),
            (Arg::Int(a), Arg::Int(b)) if a == b => Ok(()),
            (Arg::Float(a), Arg::Float(b)) if a.to_bits() == b.to_bits() => Ok(()),
            (Arg::None, Arg::None) => Ok(()),
            (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
                if a.len() != b.len() {
                    return Err(Difference::Argument);
                }
                a.iter().zip(b.iter()).try_for_each(|(a, b)| self.argument(a, b))
            }
            (Arg::Dict(a), Arg::Dict(b)) => {
                if a.len() != b.len() {
                    return Err(Difference::Argument);
                }
                a.iter().zip(b.iter()).try_for_each(|((key, a), (other, b))| {
                    if key == other { self.argument(a, b) } else { Err(Difference::Argument) }
                })
            }
            (Arg::Slice(a), Arg::Slice(b)) => {
                a.parts().into_iter().zip(b.parts()).try_for_each(|(a, b)| self.argument(a, b))
            }
            (expected, got) if expected.same_literal(got) => Ok(()),
            (expected, got) => match (number(expected), number(got)) {
                (Some(expected), Some(got)) => Err(Difference::Literal { expected, got }),
                _ => Err(Difference::Argument),
            },
        }
    }

    fn literal(&mut self, literal: u32, got: &Arg<V::Leaf>) -> Result<(), Difference> {
        let got = number(got).ok_or(Difference::Argument)?;
        match (self.segment.slot(literal), got) {
            (Some(Slot::Size(_)), Scalar::Int(got)) => self.sizes.push((literal, got)),
            (Some(Slot::Number { category, .. }), got) if got.category() == *category => {
                self.bound.numbers.push((literal, got));
            }
            _ => return Err(Difference::Argument),
        }
        Ok(())
    }

    fn operand(&mut self, wire: Wire, operand: Operand<'_>) -> Result<(), Difference> {
        match (wire, operand) {
            (Wire::Local(a), Operand::Local(b)) if a == b => Ok(()),
            (Wire::Outside(input), Operand::Known(identity, array)) => {
                if let Some(known) = self.bound.outside.get(input as usize) {
                    let is_same = known.identity == identity
                        || Arc::ptr_eq(self.bound.array(self.segment, input as usize), array);
                    return if is_same { Ok(()) } else { Err(Difference::Argument) };
                }
                self.segment.guard(input, array, self.bound)?;
                let array = (!self.segment.is_constant(input as usize)).then(|| array.clone());
                self.bound.outside.push(Outside { identity, array });
                Ok(())
            }
            _ => Err(Difference::Argument),
        }
    }
}

/// Returns an integer or float; a bool is no number that may vary.
pub(super) fn number<L>(arg: &Arg<L>) -> Option<Scalar> {
    match arg {
        Arg::Int(x) => Some(Scalar::Int(*x)),
        Arg::Float(x) => Some(Scalar::Float(*x)),
        _ => None,
    }
}

/// What the types of a call's arguments say of its result.
pub(super) enum Outcome {
    /// It is tensors of these types.
    Tensors(Types),
    /// The operation has to run first: its types depend on data, it acts on the world, or it fails.
    Eager,
}

/// Returns whether an operation acts on the world or on state, or a sub-graph does more than compute its outputs.
pub(super) fn acts<L, K>(op: Op, args: &[Arg<L>], kwargs: &[(K, Arg<L>)]) -> bool {
    let is_effect = |arg: &Arg<L>| matches!(arg, Arg::Graph(graph) if !graph.is_pure());
    op.effects.host || op.effects.state || args.iter().chain(kwargs.iter().map(|(_, arg)| arg)).any(is_effect)
}

/// Returns the types of a result, if they follow from those of the arguments.
pub(super) fn infer<L: Clone, K: AsRef<str>>(
    op: Op,
    args: &[Arg<L>],
    kwargs: &[(K, Arg<L>)],
    type_of: &mut dyn FnMut(&L) -> Result<TypeTree>,
) -> Outcome {
    if acts(op, args, kwargs) {
        return Outcome::Eager;
    }
    match infer_tree(op, args, kwargs, type_of).as_ref().and_then(tensors) {
        Some(types) => Outcome::Tensors(types),
        None => Outcome::Eager,
    }
}

/// Returns the type of a result, if it follows from those of the arguments.
pub(super) fn infer_tree<L: Clone, K: AsRef<str>>(
    op: Op,
    args: &[Arg<L>],
    kwargs: &[(K, Arg<L>)],
    type_of: &mut dyn FnMut(&L) -> Result<TypeTree>,
) -> Option<TypeTree> {
    let mut types: SmallVec<[TypeTree; 8]> = SmallVec::new();
    for arg in op.bind(args, kwargs).ok()? {
        let ty = match &arg {
            Arg::Leaf(leaf) => type_of(leaf),
            arg => arg.try_flat_map(type_of),
        };
        types.push(ty.ok()?);
    }
    op.infer(&types).ok()?
}

/// Returns the types as those of tensors; `None` if something else is among them.
pub(super) fn tensors(ty: &TypeTree) -> Option<Types> {
    if let Arg::Leaf(Type::Tensor(ty)) = ty {
        return Some(Arg::Leaf(Arc::new(ty.clone())));
    }
    let mut only_tensors = true;
    ty.walk(&mut |arg| {
        only_tensors &= matches!(
            arg,
            Arg::Leaf(Type::Tensor(_)) | Arg::Tuple(_) | Arg::List(_) | Arg::Dict(_) | Arg::None
        );
    });
    if !only_tensors {
        return None;
    }
    let types = ty.try_flat_map(&mut |leaf| match leaf {
        Type::Tensor(ty) => Ok(Arg::Leaf(Arc::new(ty.clone()))),
        _ => Ok(Arg::None),
    });
    types.ok()
}

/// Returns whether all sizes are numbers.
pub(super) fn are_known(types: &Types) -> bool {
    let mut known = true;
    types.for_each_leaf(&mut |ty| known &= ty.shape.iter().all(crate::Dim::is_known));
    known
}

/// Says what takes the place of an argument, if anything does.
pub(super) type Replace<'f> = dyn FnMut(&Arg<Wire>) -> Result<Option<Arg<Wire>>> + 'f;

impl Event {
    /// Makes an event of an operation of a call.
    pub(super) fn new(
        call: &Call<'_>,
        result: Types,
        first_local: u32,
        wire: &mut dyn FnMut(&crate::Tensor) -> Result<Wire>,
    ) -> Result<Event> {
        let mut lower = |arg: &crate::Value| arg.try_flat_map(&mut |tensor| Ok(Arg::Leaf(wire(tensor)?)));
        let args = call.args.iter().map(&mut lower).collect::<Result<_>>()?;
        let named = call.kwargs.iter().map(|(key, arg)| Ok((Arc::from(*key), lower(arg)?)));
        let kwargs = named.collect::<Result<Vec<_>>>()?;
        let (op, method, source) = (call.op, call.method, call.source.clone());
        Ok(Event { op, method, args, kwargs, result, first_local, source, seen: None })
    }

    /// Returns the arguments, the named ones last.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &Arg<Wire>> {
        self.args.iter().chain(self.kwargs.iter().map(|(_, arg)| arg))
    }

    /// Returns the same event with other arguments for wires and numbers.
    pub(super) fn rewrite(&self, f: &mut Replace<'_>) -> Result<Event> {
        let args = self.args.iter().map(|arg| arg.try_rewrite(f)).collect::<Result<_>>()?;
        let kwargs = self
            .kwargs
            .iter()
            .map(|(key, arg)| Ok((key.clone(), arg.try_rewrite(f)?)))
            .collect::<Result<Vec<_>>>()?;
        Ok(Event { args, kwargs, ..self.clone() })
    }
}
