//! The steps of random programs: operations with arguments they are known to take, parts that rules look for,
//! what passes look for, effects, and nodes that compute again what is there.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::build::{Builder, random_tensor, vocabulary};
use crate::rewrite::Rule;
use crate::rewrite::example::{Example, Hole};
use crate::{Arg, Array, DType, Dim, Kind, NodeId, Op, OpCode, Shape, Tensor, TensorType, ops};

/// Returns every shipped rule.
pub(super) fn rules() -> &'static [Rule] {
    static RULES: OnceLock<Vec<Rule>> = OnceLock::new();
    RULES.get_or_init(|| crate::rules::all().filter_map(|row| row.rule().ok()).collect())
}

/// Shapes for the arguments of a pattern that belong together.
const SHAPES: &[&[&[i64]]] = &[
    &[&[2, 3, 4], &[2, 3, 4], &[2, 3, 4]],
    &[&[4, 3], &[3], &[3]],
    &[&[3, 3], &[3, 3], &[3]],
    &[&[4, 3], &[2, 3], &[2]],
    &[&[2, 4, 3], &[2, 5, 3], &[2, 5, 6], &[4, 5]],
    &[&[1, 2, 3, 4], &[1, 2, 5, 4], &[1, 2, 5, 3], &[1, 2, 3, 5]],
    &[&[2, 1, 3], &[2, 1, 3], &[1, 3]],
    &[&[5], &[5], &[5]],
];

impl Builder {
    /// Adds arguments: of all dtypes, with sizes that are numbers or symbols, now and then two in a structure.
    pub(super) fn arguments(&mut self) {
        let rank = self.rng.below(5);
        let mut base = Shape::from_iter((0..rank).map(|_| self.size()));
        if self.rng.one_in(3) && rank > 0 {
            let symbol = self.symbol();
            base.dims_mut()[0] = symbol;
        }
        let n = 1 + self.rng.below(3);
        for i in 0..n {
            let dtype = if self.rng.one_in(2) { DType::F32 } else { self.rng.pick(DType::ALL) };
            let shape = match self.rng.below(3) {
                0 => Shape::from_iter((0..self.rng.below(5)).map(|_| self.size())),
                _ => base.clone(),
            };
            let ty = TensorType::new(dtype, shape);
            let (Some(a), Some(b)) = (self.fresh(&ty), self.fresh(&ty)) else { continue };
            let name = ["x", "y", "z"][i];
            match self.rng.one_in(6) {
                true => self.pair(name, &ty.into(), [Arg::Leaf(a), Arg::Leaf(b)]),
                false => drop(self.input(name, ty.into(), Arg::Leaf(a))),
            }
        }
    }

    /// Makes about `n` steps.
    pub(super) fn steps(&mut self, n: usize) {
        for _ in 0..n {
            let mark = self.mark();
            let made = match self.rng.below(100) {
                0..32 => self.rule(),
                32..62 => self.operation(),
                62..74 => self.motif(),
                74..82 => self.again(),
                82..88 => self.effect(),
                88..91 if self.nesting > 0 => self.cond(),
                91..93 if self.nesting > 0 => self.while_loop(),
                93..95 if self.nesting > 0 => self.for_loop(),
                95..98 if self.nesting > 0 => self.module(),
                _ => self.size_of(),
            };
            if made.is_some() && !self.is_closed && self.rng.one_in(6) {
                let path = self.name("blocks.");
                self.frame(mark, &path);
            }
        }
    }

    /// Makes what a shipped rule looks for.
    fn rule(&mut self) -> Option<NodeId> {
        let rules = rules();
        let rule = &rules[self.rng.below(rules.len())];
        let example = rule.pattern().example(&mut |n| self.rng.below(n))?;
        (0..4).find_map(|_| {
            let mark = self.mark();
            let made = self.example(&example);
            if made.is_none() {
                self.back_to(mark);
            }
            made
        })
    }

    fn example(&mut self, example: &Example) -> Option<NodeId> {
        let inputs = self.inputs_of(example)?;
        let mark = self.mark();
        let mut literals: HashMap<Arc<str>, Arg> = HashMap::new();
        let mut results: Vec<NodeId> = Vec::new();
        for call in &example.calls {
            let first = call.args.iter().find_map(|arg| match arg {
                Arg::Leaf(Hole::Input(i)) => Some(inputs[*i]),
                Arg::Leaf(Hole::Call(i)) => Some(results[*i]),
                _ => None,
            });
            let mut bound = Vec::with_capacity(call.args.len());
            for (param, arg) in call.op.params.iter().zip(&call.args) {
                let mut failed = false;
                let filled = arg.try_rewrite(&mut |arg| {
                    Ok(Some(match arg {
                        Arg::Float(x) => self.literal(*x),
                        Arg::Leaf(Hole::Input(i)) => Arg::Leaf(inputs[*i]),
                        Arg::Leaf(Hole::Call(i)) => Arg::Leaf(results[*i]),
                        Arg::Leaf(Hole::Number(name)) => {
                            let number = self.number(name);
                            literals.entry(name.clone()).or_insert(number).clone()
                        }
                        Arg::Leaf(Hole::Integer(name)) => {
                            let integer = Arg::Int(self.rng.pick(&[-1, -1, 0, 1, -2, 2]));
                            literals.entry(name.clone()).or_insert(integer).clone()
                        }
                        Arg::Leaf(Hole::Free) => match first {
                            Some(first) => self.free(call.op, param.name, param.kind, first),
                            None => Arg::None,
                        },
                        Arg::Leaf(Hole::Attribute) => match self.outside(Tensor::new(0.5f32)) {
                            Some(id) => Arg::Leaf(id),
                            None => {
                                failed = true;
                                Arg::None
                            }
                        },
                        _ => return Ok(None),
                    }))
                });
                let Ok(filled) = filled else { return None };
                if failed {
                    return None;
                }
                bound.push(filled);
            }
            if call.op.commutative && bound.len() >= 2 && call.op.can_swap(&bound) && self.rng.one_in(2) {
                bound.swap(0, 1);
            }
            results.push(self.call(call.op, bound)?);
        }
        let last = *results.last()?;
        // What is inside of a pattern has no other users, or the rule does not match; now and then it has.
        if !self.rng.one_in(8) {
            let inner: Vec<NodeId> = self.since(mark).iter().copied().filter(|id| *id != last).collect();
            self.pool.retain(|id| !inner.contains(id));
        }
        Some(last)
    }

    fn inputs_of(&mut self, example: &Example) -> Option<Vec<NodeId>> {
        match self.rng.below(3) {
            0 => (0..example.n_inputs).map(|_| self.pick()).collect(),
            1 => {
                let first = self.pick()?;
                let ty = self.ty(first)?.clone();
                let mut inputs = vec![first];
                while inputs.len() < example.n_inputs {
                    inputs.push(self.pick_where(|b, id| b.ty(id) == Some(&ty))?);
                }
                Some(inputs)
            }
            _ => {
                let shapes = self.rng.pick(SHAPES);
                let dtype = match self.rng.below(10) {
                    0 => DType::F64,
                    1 => DType::Bool,
                    2 => self.rng.pick(DType::ALL),
                    _ => DType::F32,
                };
                let mut inputs = Vec::new();
                for i in 0..example.n_inputs {
                    let shape = shapes[i.min(shapes.len() - 1)];
                    let ty = TensorType::new(dtype, Shape::from_iter(shape.iter().map(|n| Dim::new(*n))));
                    inputs.push(self.tensor_of(&ty)?);
                }
                Some(inputs)
            }
        }
    }

    /// Returns a tensor of a type: one that there is, or a new one.
    fn tensor_of(&mut self, ty: &TensorType) -> Option<NodeId> {
        if self.is_closed || self.rng.one_in(2) {
            let found = self.pick_where(|b, id| b.tensor_type(id) == Some(ty));
            if found.is_some() || self.is_closed {
                return found;
            }
        }
        let value = self.fresh(ty)?;
        self.outside(value)
    }

    /// Writes a number as a float, as an integer where it is one, or as a constant.
    fn literal(&mut self, x: f64) -> Arg {
        match self.rng.below(8) {
            0..3 if x.fract() == 0.0 && x.abs() < 1e9 => Arg::Int(x as i64),
            3 if !self.is_closed => match self.outside(Tensor::new(x as f32)) {
                Some(id) => Arg::Leaf(id),
                None => Arg::Float(x),
            },
            _ => Arg::Float(x),
        }
    }

    fn number(&mut self, name: &str) -> Arg {
        if name == "eps" {
            return Arg::Float(self.rng.pick(&[1e-5, 1e-6, 0.1]));
        }
        let x = self.rng.pick(&[0.0, -0.0, 1.0, 0.5, 2.0, 0.125, 3.0, -1.0, 0.01, 1.5]);
        self.literal(x)
    }

    /// Makes an argument that a rule leaves open, such that the call has a chance to be valid.
    fn free(&mut self, op: Op, name: &str, kind: Kind, x: NodeId) -> Arg {
        let dims: Vec<Dim> = self.tensor_type(x).map(|ty| ty.shape.to_vec()).unwrap_or_default();
        let rank = dims.len() as i64;
        let axis = |b: &mut Builder| {
            b.rng.below(rank.max(1) as usize) as i64 - if b.rng.one_in(2) { rank } else { 0 }
        };
        let same = || Arg::list(dims.iter().map(|dim| Arg::dim(dim.clone())));
        match (op.name, name) {
            ("reshape" | "view", "shape") => match self.rng.below(5) {
                0 => Arg::ints([-1]),
                1 => Arg::list(dims.iter().rev().map(|dim| Arg::dim(dim.clone()))),
                2 => {
                    Arg::list([Arg::Int(-1)].into_iter().chain(dims.last().map(|dim| Arg::dim(dim.clone()))))
                }
                3 => Arg::list(dims.iter().map(|dim| Arg::dim(dim.clone())).chain([Arg::Int(1)])),
                _ => same(),
            },
            ("expand" | "broadcast_to", "size") => match self.rng.below(3) {
                0 => Arg::ints((0..rank).map(|_| -1)),
                1 => Arg::list([Arg::Int(2)].into_iter().chain(dims.iter().map(|dim| Arg::dim(dim.clone())))),
                _ => same(),
            },
            ("permute", "dims") => {
                let mut axes: Vec<i64> = (0..rank).collect();
                if !self.rng.one_in(3) {
                    for i in (1..axes.len()).rev() {
                        axes.swap(i, self.rng.below(i + 1));
                    }
                }
                Arg::ints(axes)
            }
            (_, "normalized_shape") => {
                let last = if self.rng.one_in(4) { 2 } else { 1 };
                Arg::list(dims.iter().skip(dims.len().saturating_sub(last)).map(|dim| Arg::dim(dim.clone())))
            }
            ("slice" | "narrow", "start") => Arg::Int(if self.rng.one_in(4) { 1 } else { 0 }),
            ("slice", "end") => Arg::Int(self.rng.pick(&[i64::MAX, 9, 2, -1])),
            ("narrow", "length") => dims.first().map_or(Arg::Int(1), |dim| Arg::dim(dim.clone())),
            ("slice" | "narrow", "dim") => Arg::Int(0),
            _ => match kind {
                Kind::DType | Kind::OptDType => Arg::DType(self.rng.pick(DType::ALL)),
                Kind::Axes | Kind::Ints | Kind::OptInts => match self.rng.below(4) {
                    0 => Arg::ints([0]),
                    _ => Arg::ints([axis(self)]),
                },
                Kind::Int | Kind::OptInt => Arg::Int(if self.rng.one_in(2) { 0 } else { axis(self) }),
                Kind::Bool => Arg::Bool(self.rng.one_in(2)),
                _ => Arg::Float(0.5),
            },
        }
    }

    /// Calls any operation of the vocabulary, on values of the program where they fit.
    fn operation(&mut self) -> Option<NodeId> {
        let vocabulary = vocabulary();
        let (op, samples) = &vocabulary[self.rng.below(vocabulary.len())];
        let sample = &samples[self.rng.below(samples.len())];
        let bound = op.bind(&sample.args, &sample.kwargs).ok()?;
        let cast = self.rng.one_in(4).then(|| self.rng.pick(DType::ALL));
        let resize = self
            .rng
            .one_in(5)
            .then(|| (self.rng.pick(&[3usize, 4, 5, 2]), self.rng.pick(&[1usize, 0, 7, 2])));
        for loose in [true, false] {
            let mark = self.mark();
            let mut filled = Vec::with_capacity(bound.len());
            let mut failed = false;
            for arg in &bound {
                let arg = arg.try_flat_map(&mut |tensor: &Tensor| {
                    let id = self.operand(tensor, loose, cast, resize);
                    failed |= id.is_none();
                    Ok(id.map_or(Arg::None, Arg::Leaf))
                });
                filled.push(arg.ok()?);
            }
            if !failed && let Some(id) = self.call(*op, filled) {
                return Some(id);
            }
            self.back_to(mark);
        }
        None
    }

    /// Returns what takes the place of a sample's tensor: anything of its category if `loose`, else what has
    /// its very type.
    fn operand(
        &mut self,
        sample: &Tensor,
        loose: bool,
        cast: Option<DType>,
        resize: Option<(usize, usize)>,
    ) -> Option<NodeId> {
        let array = sample.array().ok()?;
        let is_float = array.dtype().is_float();
        if loose && is_float && !self.rng.one_in(4) {
            return self.pick_where(|b, id| b.is_float(id)).or_else(|| self.pick());
        }
        let same = |b: &Self, id: NodeId| {
            b.tensor(id).is_some_and(|x| x.dtype() == array.dtype() && x.shape() == array.shape())
        };
        if is_float
            && !self.rng.one_in(3)
            && let Some(id) = self.pick_where(same)
        {
            return Some(id);
        }
        let shape: Vec<usize> = match resize {
            Some((from, to)) if loose => {
                array.shape().iter().map(|&n| if n == from { to } else { n }).collect()
            }
            _ => array.shape().to_vec(),
        };
        let value = match (cast, is_float) {
            (Some(dtype), true) if loose => random_tensor(&mut self.rng, dtype, &shape, self.is_wild).ok()?,
            _ if shape != array.shape() => random_tensor(&mut self.rng, array.dtype(), &shape, false).ok()?,
            _ => sample.clone(),
        };
        self.outside(value)
    }

    /// Computes something again, perhaps spelled in another way.
    fn again(&mut self) -> Option<NodeId> {
        let id = self.pick_where(|b, id| {
            b.gm.graph().node(id).is_ok_and(|node| {
                matches!(node.opcode(), OpCode::CallFunction | OpCode::CallMethod | OpCode::GetAttr)
                    && node.op().is_none_or(|op| op.effects.is_pure())
            })
        })?;
        let node = self.gm.graph().node(id).ok()?;
        let Some(op) = node.op() else {
            let path = node.target().path()?.clone();
            return self.read(&path);
        };
        let mut bound = op.bind(node.args(), node.kwargs()).ok()?;
        if op.can_swap(&bound)
            && self.rng.one_in(2)
            && matches!((&bound[0], &bound[1]), (Arg::Leaf(_), Arg::Leaf(_)))
        {
            bound.swap(0, 1);
        }
        let copy = self.call(op, bound)?;
        match self.rng.below(3) {
            0 => Some(copy),
            _ => self.apply("mul", [copy.into(), id.into()]).or(Some(copy)),
        }
    }

    /// Does something besides computing: prints, checks, updates a buffer, draws random numbers.
    fn effect(&mut self) -> Option<NodeId> {
        let x = self.pick()?;
        match self.rng.below(5) {
            0 => {
                let label = self.name("label ");
                self.apply("print", [x.into(), Arg::str(label)])
            }
            1 => {
                let condition = self.apply("ge", [x.into(), Arg::Int(-1000)])?;
                let condition = self.apply("all", [condition.into()])?;
                self.apply("check", [condition.into()])
            }
            2 if !self.is_closed => {
                let ty = self.tensor_type(x).filter(|ty| ty.shape.known().is_some())?.clone();
                let path = self.name("state");
                let value = self.fresh(&ty)?;
                self.gm.set_attribute(&path, crate::Attribute::Buffer(crate::Buffer::new(value))).ok()?;
                let before = if self.rng.one_in(2) { self.read(&path) } else { None };
                let new = before.and_then(|before| self.apply("add", [before.into(), x.into()]));
                let new = new.filter(|new| self.tensor_type(*new) == Some(&ty)).unwrap_or(x);
                self.call(ops::set_buffer::OP, vec![Arg::str(path), Arg::Leaf(new)])
            }
            3 => self.apply("dropout", [x.into(), Arg::Float(0.25), Arg::Bool(true)]),
            _ => {
                let random: Vec<&(Op, Vec<_>)> =
                    vocabulary().iter().filter(|(op, _)| op.effects.random).collect();
                let (op, samples) = random[self.rng.below(random.len())];
                let sample = &samples[self.rng.below(samples.len())];
                let bound = op.bind(&sample.args, &sample.kwargs).ok()?;
                let mut failed = false;
                let mut filled = Vec::new();
                for arg in &bound {
                    let arg = arg.try_flat_map(&mut |tensor: &Tensor| {
                        let id = self.operand(tensor, false, None, None);
                        failed |= id.is_none();
                        Ok(id.map_or(Arg::None, Arg::Leaf))
                    });
                    filled.push(arg.ok()?);
                }
                if failed { None } else { self.call(*op, filled) }
            }
        }
    }

    /// Reads a size, and computes with it.
    fn size_of(&mut self) -> Option<NodeId> {
        let x = self.pick_where(|b, id| b.tensor_type(id).is_some_and(|ty| ty.rank() > 0))?;
        let size = self.apply("size", [x.into(), Arg::Int(-1)])?;
        match self.rng.below(2) {
            0 => self.apply("mul", [x.into(), size.into()]),
            _ => self.apply("add", [x.into(), Arg::Leaf(size)]),
        }
    }

    /// Makes what a pass looks for.
    fn motif(&mut self) -> Option<NodeId> {
        if self.is_closed {
            return self.constant();
        }
        let mark = self.mark();
        let made = match self.rng.below(4) {
            0 => self.batch_norm_after(),
            1 => self.maps_of_one(),
            2 => self.constant(),
            _ => self.of_weights(),
        };
        if made.is_none() {
            self.back_to(mark);
        }
        made
    }

    fn weight(&mut self, shape: &[i64]) -> Option<NodeId> {
        let ty = TensorType::new(DType::F32, Shape::from_iter(shape.iter().map(|n| Dim::new(*n))));
        let value = self.fresh(&ty)?;
        self.outside(value)
    }

    /// A batch norm in evaluation after a convolution or a linear map.
    fn batch_norm_after(&mut self) -> Option<NodeId> {
        let kind = self.rng.below(4);
        let (name, x, w): (&str, &[i64], &[i64]) = match kind {
            0 => ("conv1d", &[2, 3, 7], &[4, 3, 2]),
            1 => ("conv2d", &[1, 3, 5, 4], &[4, 3, 2, 3]),
            2 => ("conv_transpose1d", &[2, 3, 5], &[3, 4, 2]),
            _ => ("linear", &[5, 3], &[4, 3]),
        };
        let x = TensorType::new(DType::F32, Shape::from_iter(x.iter().map(|n| Dim::new(*n))));
        let x = self.tensor_of(&x)?;
        let w = self.weight(w)?;
        let bias = if self.rng.one_in(2) { Arg::Leaf(self.weight(&[4])?) } else { Arg::None };
        let y = self.apply(name, [x.into(), w.into(), bias])?;
        let variance: Vec<f32> = (0..4).map(|_| 0.25 + self.rng.below(100) as f32 / 50.0).collect();
        let variance = self.outside(Tensor::from(Array::from_vec(variance, &[4]).ok()?))?;
        let mean = self.weight(&[4])?;
        let (scale, shift) = match self.rng.one_in(2) {
            true => (Arg::Leaf(self.weight(&[4])?), Arg::Leaf(self.weight(&[4])?)),
            false => (Arg::None, Arg::None),
        };
        self.pool.retain(|id| *id != y);
        self.apply("batch_norm", [y.into(), mean.into(), variance.into(), scale, shift])
    }

    /// Linear maps and products of one value.
    fn maps_of_one(&mut self) -> Option<NodeId> {
        let x = self.rng.pick(&[&[4i64, 3][..], &[2, 4, 3]]);
        let x = TensorType::new(DType::F32, Shape::from_iter(x.iter().map(|n| Dim::new(*n))));
        let x = self.tensor_of(&x)?;
        let with_bias = self.rng.one_in(2);
        let is_product = self.rng.one_in(3);
        let mut last = None;
        for n in [2, 5, 2] {
            last = Some(match is_product {
                true => {
                    let w = self.weight(&[3, n])?;
                    self.apply("matmul", [x.into(), w.into()])?
                }
                false => {
                    let w = self.weight(&[n, 3])?;
                    let bias = if with_bias { Arg::Leaf(self.weight(&[n])?) } else { Arg::None };
                    self.apply("linear", [x.into(), w.into(), bias])?
                }
            });
        }
        last
    }

    /// Constants made by operations.
    fn constant(&mut self) -> Option<NodeId> {
        let sizes = Arg::ints([self.rng.pick(&[1, 2, 3, 4]), 3]);
        let c = match self.rng.below(3) {
            0 => self.apply("ones", [sizes]),
            1 => self.apply("full", [sizes, Arg::Float(0.5)]),
            _ => self.apply("arange", [Arg::Int(3)]),
        }?;
        let d = self.apply("add", [c.into(), Arg::Int(1)])?;
        let x = self.pick()?;
        self.apply("mul", [x.into(), d.into()]).or(Some(d))
    }

    /// A value that weights alone determine.
    fn of_weights(&mut self) -> Option<NodeId> {
        let w = self.weight(&[3, 4])?;
        let t = self.apply("t", [w.into()])?;
        let s = self.apply("softmax", [t.into(), Arg::Int(-1)])?;
        let x = self.pick_where(|b, id| {
            b.tensor_type(id).is_some_and(|ty| ty.shape.last().is_some_and(|dim| dim.known() == Some(4)))
        });
        match x {
            Some(x) => self.apply("matmul", [x.into(), s.into()]).or(Some(s)),
            None => Some(s),
        }
    }
}
