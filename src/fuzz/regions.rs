//! Sub-graphs and modules of random programs.

use std::sync::Arc;

use super::build::Builder;
use crate::{Arg, Array, Forward, Generator, NodeId, Tensor, Type, TypeTree, nn, ops, with_generator};

impl Builder {
    /// Runs one of two sub-graphs.
    pub(super) fn cond(&mut self) -> Option<NodeId> {
        let operands = self.operands(3)?;
        let mut then = self.part("then", &operands, true)?;
        let mut otherwise = self.part("otherwise", &operands, true)?;
        let (n, m) = (1 + self.rng.below(4), self.rng.below(4));
        then.steps(n);
        otherwise.steps(m);
        self.problem = self.problem.take().or(then.problem.take()).or(otherwise.problem.take());
        let mut pairs: Vec<(NodeId, NodeId)> = Vec::new();
        for a in then.pool.iter().rev() {
            let same = |b: &&NodeId| then.ty(*a).is_some() && then.ty(*a) == otherwise.ty(**b);
            pairs.extend(otherwise.pool.iter().rev().find(same).map(|b| (*a, *b)));
        }
        let n = 1 + self.rng.below(2);
        pairs.truncate(n);
        if pairs.is_empty() {
            return None;
        }
        let result = |ids: Vec<NodeId>| match &ids[..] {
            [id] => Arg::Leaf(*id),
            _ => Arg::tuple(ids.into_iter().map(Arg::Leaf)),
        };
        then.gm.graph_mut().set_output(result(pairs.iter().map(|pair| pair.0).collect())).ok()?;
        otherwise.gm.graph_mut().set_output(result(pairs.iter().map(|pair| pair.1).collect())).ok()?;
        let mark = self.mark();
        let predicate = match self.rng.below(3) {
            0 => Arg::Bool(self.rng.one_in(2)),
            _ => {
                let x = self.pick()?;
                let sum = self.apply("sum", [x.into()])?;
                Arg::Leaf(self.apply("gt", [sum.into(), Arg::Int(0)])?)
            }
        };
        let (then, otherwise) = (Arc::new(then.gm.graph().clone()), Arc::new(otherwise.gm.graph().clone()));
        let same = self.rng.one_in(8);
        let otherwise = if same { then.clone() } else { otherwise };
        let args = vec![
            predicate,
            then.into(),
            otherwise.into(),
            Arg::list(operands.iter().map(|id| Arg::Leaf(*id))),
        ];
        let made = self.call(ops::cond::OP, args);
        if made.is_none() {
            self.back_to(mark);
        }
        made
    }

    /// Runs a sub-graph again and again; part of what it computes is the same each time.
    pub(super) fn while_loop(&mut self) -> Option<NodeId> {
        let operands = self.operands(3)?;
        let mark = self.mark();
        let count = self.apply_named("zeros", [Arg::list([])], "dtype", Arg::DType(crate::DType::I64))?;
        let all: Vec<NodeId> = std::iter::once(count).chain(operands.iter().copied()).collect();
        let made = self.loop_over(&all);
        if made.is_none() {
            self.back_to(mark);
        }
        made
    }

    fn loop_over(&mut self, all: &[NodeId]) -> Option<NodeId> {
        let mut test = self.part("test", all, true)?;
        let count = *test.pool.first()?;
        let limit = self.rng.below(4) as i64;
        let holds = test.apply("lt", [count.into(), Arg::Int(limit)])?;
        test.gm.graph_mut().set_output(holds).ok()?;
        let mut body = self.part("body", all, true)?;
        let given = body.pool.clone();
        let next = body.apply("add", [given[0].into(), Arg::Int(1)])?;
        // What the first captured value alone gives is the same each time.
        if let (Some(last), true) = (given.get(2), self.rng.one_in(2)) {
            body.apply("neg", [(*last).into()]).and_then(|x| body.apply("mul", [x.into(), x.into()]));
        }
        let n = 1 + self.rng.below(4);
        body.steps(n);
        self.problem = self.problem.take().or(body.problem.take());
        let carried = if self.rng.one_in(4) { 1 } else { 2.min(all.len()) };
        let mut results = vec![Arg::Leaf(next)];
        for x in &given[1..carried] {
            let same = |y: &&NodeId| body.ty(**y) == body.ty(*x);
            results.push(Arg::Leaf(*body.pool.iter().rev().find(same)?));
        }
        body.gm.graph_mut().set_output(Arg::list(results)).ok()?;
        let list = |ids: &[NodeId]| Arg::list(ids.iter().map(|id| Arg::Leaf(*id)));
        let args = vec![
            Arc::new(test.gm.graph().clone()).into(),
            Arc::new(body.gm.graph().clone()).into(),
            list(&all[..carried]),
            list(&all[carried..]),
        ];
        self.call(ops::while_loop::OP, args)
    }

    /// Runs a sub-graph a number of times, and collects what it computes in a list.
    pub(super) fn for_loop(&mut self) -> Option<NodeId> {
        let operands = self.operands(3)?;
        let mark = self.mark();
        let made = self.count(&operands);
        if made.is_none() {
            self.back_to(mark);
        }
        made
    }

    fn count(&mut self, operands: &[NodeId]) -> Option<NodeId> {
        let mut body = self.part("step", &[], true)?;
        let round = body.input("i", Arg::Leaf(Type::Int), Arg::Int(0));
        let collects = self.rng.one_in(2);
        let ty = self.ty(operands[0])?.clone();
        let rows = collects.then(|| body.input("rows", ty.clone().list_of(), Arg::list([])));
        self.give(&mut body, operands)?;
        let given = body.pool.clone();
        if body.rng.one_in(2) {
            let name = if body.rng.one_in(2) { "add" } else { "mul" };
            body.apply(name, [given[0].into(), round.into()]);
        }
        let n = 1 + self.rng.below(4);
        body.steps(n);
        self.problem = self.problem.take().or(body.problem.take());
        let carried = 1 + self.rng.below(operands.len().min(2));
        let same =
            |body: &Builder, x: NodeId| body.pool.iter().rev().find(|y| body.ty(**y) == body.ty(x)).copied();
        let mut results = Vec::new();
        if let Some(rows) = rows {
            let row = same(&body, given[0])?;
            results.push(Arg::Leaf(body.apply("list_push", [rows.into(), row.into()])?));
        }
        for x in &given[..carried] {
            results.push(Arg::Leaf(same(&body, *x)?));
        }
        body.gm.graph_mut().set_output(Arg::list(results)).ok()?;
        let rounds = self.rng.below(6) as i64 - 1;
        let rounds = match self.rng.below(3) {
            0 => Arg::Leaf(self.apply_named(
                "full",
                [Arg::list([]), Arg::Int(rounds)],
                "dtype",
                Arg::DType(crate::DType::I64),
            )?),
            _ => Arg::Int(rounds),
        };
        let list = |ids: &[NodeId]| ids.iter().map(|id| Arg::Leaf(*id)).collect::<Vec<Arg>>();
        let first = rows.map(|_| Arg::list([]));
        let args = vec![
            rounds,
            Arc::new(body.gm.graph().clone()).into(),
            Arg::list(first.into_iter().chain(list(&operands[..carried]))),
            Arg::list(list(&operands[carried..])),
        ];
        let made = self.call(ops::for_loop::OP, args)?;
        if collects {
            let rows = self.apply("getitem", [made.into(), Arg::Int(0)])?;
            self.apply("stack", [rows.into(), Arg::Int(0)]);
            self.apply("list_get", [rows.into(), Arg::Int(-1)]);
        }
        Some(made)
    }

    fn operands(&mut self, most: usize) -> Option<Vec<NodeId>> {
        let mut operands = Vec::new();
        for _ in 0..1 + self.rng.below(most) {
            let id = self.pick()?;
            if !operands.contains(&id) {
                operands.push(id);
            }
        }
        Some(operands)
    }

    /// Calls an operation with one argument by name.
    pub(super) fn apply_named(
        &mut self,
        name: &str,
        args: impl IntoIterator<Item = Arg>,
        key: &str,
        value: Arg,
    ) -> Option<NodeId> {
        let op = super::build::op(name);
        let args: Vec<Arg> = args.into_iter().collect();
        let bound = op.bind(&args, &[(key, value)]).ok()?;
        self.call(op, bound)
    }

    /// Calls a module: one of the shipped ones, a program of its own, or one that was called before.
    pub(super) fn module(&mut self) -> Option<NodeId> {
        if self.is_closed {
            return None;
        }
        if self.rng.one_in(3) {
            return self.graph_module();
        }
        let mark = self.mark();
        let seed = self.rng.bits();
        let x = self.pick_where(|b, id| b.is_float(id))?;
        let features =
            self.tensor_type(x).and_then(|ty| ty.shape.last()?.known()).and_then(|n| usize::try_from(n).ok());
        let rank = self.tensor_type(x)?.rank();
        let channels =
            self.tensor_type(x).and_then(|ty| ty.shape.get(1)?.known()).and_then(|n| usize::try_from(n).ok());
        let f32 = self.tensor_type(x)?.dtype == crate::DType::F32;
        let child: Arc<dyn Forward> =
            with_generator(&Generator::seeded(seed), || -> Option<Arc<dyn Forward>> {
                Some(match self.rng.below(8) {
                    0 => Arc::new(nn::Identity),
                    1 => {
                        let mut dropout = nn::Dropout::new(0.5);
                        dropout.training = self.rng.one_in(3);
                        Arc::new(dropout)
                    }
                    2 => Arc::new(nn::ReLU),
                    3 if f32 => Arc::new(nn::LayerNorm::new([features?])),
                    4 if f32 && rank == 2 => Arc::new(self.batch_norm(features?)),
                    5 if f32 && channels.is_some() && rank == 3 => Arc::new(self.batch_norm(channels?)),
                    6 | 7 if f32 => Arc::new(nn::Linear::new(features?, 3)),
                    _ => Arc::new(nn::Identity),
                })
            })?;
        let is_linear = child.as_module().type_name() == "Linear";
        let path = self.name("layer");
        self.gm.add_shared_submodule(&path, child).ok()?;
        let made = self.call_module(&path, vec![x.into()]);
        let Some(y) = made else {
            self.back_to(mark);
            let _ = self.gm.delete_submodule(&path);
            return None;
        };
        if self.rng.one_in(5) {
            self.call_module(&path, vec![x.into()]);
        }
        if is_linear && rank == 2 && self.rng.one_in(2) {
            let norm = with_generator(&Generator::seeded(seed), || self.batch_norm(3));
            let path = self.name("norm");
            self.gm.add_submodule(&path, norm).ok()?;
            self.pool.retain(|id| *id != y);
            return self.call_module(&path, vec![y.into()]);
        }
        Some(y)
    }

    fn batch_norm(&mut self, n: usize) -> nn::BatchNorm1d {
        let mut norm = nn::BatchNorm1d::new(n);
        norm.training = self.rng.one_in(4);
        let mut statistic = |offset: f32| -> Tensor {
            let data: Vec<f32> = (0..n).map(|_| self.rng.below(64) as f32 / 64.0 + offset).collect();
            Array::from_vec(data, &[n]).map_or_else(Tensor::failed, Tensor::from)
        };
        let (mean, var) = (statistic(-0.5), statistic(0.25));
        if let Some(buffer) = &norm.running_mean {
            buffer.store(mean);
        }
        if let Some(buffer) = &norm.running_var {
            buffer.store(var);
        }
        norm
    }

    /// Calls a sub-module that is a graph module; it may read attributes, update buffers and call modules of
    /// its own.
    fn graph_module(&mut self) -> Option<NodeId> {
        let operands = self.operands(2)?;
        let mut part = self.part("child", &operands, false)?;
        let n = 2 + self.rng.below(4);
        part.steps(n);
        self.problem = self.problem.take().or(part.problem.take());
        // Attributes only: an argument of its own would have to be given.
        if part.inputs.len() != operands.len() {
            return None;
        }
        part.finish();
        let path = self.name("block");
        self.gm.add_submodule(&path, part.gm).ok()?;
        let args: Vec<Arg> = operands.into_iter().map(Arg::Leaf).collect();
        let made = self.call_module(&path, args.clone());
        match made {
            None => drop(self.gm.delete_submodule(&path)),
            Some(_) if self.rng.one_in(5) => drop(self.call_module(&path, args)),
            Some(_) => {}
        }
        made
    }

    pub(super) fn is_float(&self, id: NodeId) -> bool {
        self.tensor_type(id).is_some_and(|ty| ty.dtype.is_float())
    }

    /// Sets what the program returns: the last value and others, nested in some way.
    pub(super) fn finish(&mut self) {
        let Some(last) = self.pool.last().copied() else { return };
        let mut leaf = || Arg::Leaf(self.pick().unwrap_or(last));
        let (a, b) = (leaf(), leaf());
        let output = match self.rng.below(5) {
            0 => Arg::tuple([Arg::Leaf(last), a]),
            1 => Arg::tuple([Arg::list([a, Arg::Int(3)]), Arg::dict([("y", Arg::Leaf(last)), ("z", b)])]),
            2 => Arg::dict([("last", Arg::Leaf(last)), ("a", a.clone()), ("same", a)]),
            _ => Arg::Leaf(last),
        };
        self.gm.graph_mut().set_output(output).expect("the output comes last");
        let ty = self
            .gm
            .graph()
            .output()
            .try_flat_map(&mut |id| Ok(self.ty(*id).cloned().unwrap_or(Arg::Leaf(crate::Type::Any))));
        let output = self.gm.graph().output_node();
        if let (Ok(ty), Ok(meta)) = (ty, self.gm.graph_mut().meta_mut(output)) {
            meta.ty = Some(Arc::new(ty)).filter(|ty: &Arc<TypeTree>| ty.is_complete());
        }
    }
}
