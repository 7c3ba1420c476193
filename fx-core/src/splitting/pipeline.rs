//! Pipeline stages: a program cut into consecutive parts of about equal cost, with few bytes over the borders.
//!
//! The objective, in this order: no stage costs more than `1 + slack` times the least that the dearest stage
//! can cost; and, among the cuts that keep to this, as few bytes as possible over all borders. A value that
//! is used two stages on counts at both borders; parameters and arguments of the program do not count, nor
//! what goes to the output. The first part is solved by bisection, the second by a dynamic program over the
//! order, `O(nodes * stages)`.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::{Split, Splitter, plan};
use crate::analysis::{Costs, ParameterCount, Sizes, count_parameters};
use crate::{GraphModule, NodeId, Result, Target, bail, err};

/// The most places (nodes times stages) that are kept to find the best cut.
const MOST_PLACES: usize = 1 << 28;

/// The measure of work that is balanced over the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// Arithmetic operations, with the bytes that are moved: each counts one.
    #[default]
    Work,
    /// Bytes of parameters.
    Parameters,
    /// Nodes.
    Nodes,
}

/// How a program is cut into stages; see [`pipeline`] for the usual way.
#[derive(Clone, Debug)]
pub struct Pipeline {
    stages: usize,
    slack: f64,
    balance: Balance,
    sizes: Sizes,
}

/// A program cut into stages.
#[derive(Clone, Debug)]
pub struct Stages {
    /// The module with a part for each stage: `stage_0`, …
    pub split: Split,
    /// The cost of each stage.
    pub costs: Vec<f64>,
    /// The bytes over the border after each stage but the last.
    pub crossing: Vec<f64>,
}

/// Cuts a program into stages with about equal work. Fails if there are more stages than nodes, or a cost has
/// no number. For symbolic sizes see [`Pipeline::sizes`].
pub fn pipeline(gm: &GraphModule, stages: usize) -> Result<Stages> {
    Pipeline::new(stages).cut(gm)
}

impl Pipeline {
    /// Asks for this many stages.
    pub fn new(stages: usize) -> Self {
        Pipeline { stages, slack: 0.1, balance: Balance::Work, sizes: Sizes::new() }
    }

    /// Sets the measure of work.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// Allows the dearest stage to cost this fraction more than it must, for a smaller cut; 0.1 if nothing is
    /// said.
    pub fn slack(mut self, slack: f64) -> Self {
        self.slack = slack;
        self
    }

    /// Gives numbers for symbolic sizes.
    pub fn sizes(mut self, sizes: Sizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Cuts a program. Fails as [`pipeline`] does.
    pub fn cut(&self, gm: &GraphModule) -> Result<Stages> {
        let graph = gm.graph();
        let costs = Costs::new(gm, &self.sizes)?;
        // A cluster is a node with the items that are taken of its tuple.
        let mut cluster_of: FxHashMap<NodeId, usize> = FxHashMap::default();
        let mut cluster_costs: Vec<f64> = Vec::new();
        for (id, node) in graph.nodes() {
            if !plan::is_call(node) || plan::stores(node) {
                continue;
            }
            if let Some(cluster) = plan::item_of(graph, node).and_then(|of| cluster_of.get(&of).copied()) {
                cluster_of.insert(id, cluster);
                continue;
            }
            cluster_of.insert(id, cluster_costs.len());
            cluster_costs.push(self.cost(gm, &costs, id)?);
        }
        let n = cluster_costs.len();
        if self.stages == 0 || self.stages > n {
            bail!(Argument, "expected from 1 to {n} stages, as many as there are nodes, got {}", self.stages);
        }
        if n.saturating_mul(self.stages) > MOST_PLACES {
            bail!(Limit, "{} stages of {n} nodes are too many to cut well", self.stages);
        }
        let cut = self.cuts(gm, &costs, &cluster_of, n)?;
        let borders = best_borders(&cluster_costs, &cut, self.stages, self.slack)?;
        let stage_of = |cluster: usize| borders.partition_point(|border| *border <= cluster);
        let splitter = Splitter::default().prefix("stage").provenance("pipeline");
        let split = splitter.split(gm, |at| cluster_of.get(&at.id).map(|cluster| stage_of(*cluster)))?;
        let mut of_stages = vec![0.0; self.stages];
        cluster_costs.iter().enumerate().for_each(|(cluster, cost)| of_stages[stage_of(cluster)] += cost);
        Ok(Stages { split, costs: of_stages, crossing: borders.iter().map(|border| cut[*border]).collect() })
    }

    fn cost(&self, gm: &GraphModule, costs: &Costs, id: NodeId) -> Result<f64> {
        let node = gm.graph().node(id)?;
        match self.balance {
            Balance::Nodes => Ok(1.0),
            Balance::Parameters => {
                let mut bytes = 0;
                for input in node.inputs() {
                    if let Target::GetAttr(path) = gm.graph().node(input)?.target() {
                        bytes += ParameterCount::of(&gm.attr(path)?).bytes;
                    }
                }
                if let Target::CallModule(path) = node.target() {
                    bytes += count_parameters(gm.child(path)?.as_module()).bytes;
                }
                Ok(bytes as f64)
            }
            Balance::Work => {
                let cost = costs.of(id).cloned().unwrap_or(crate::analysis::Cost::ZERO);
                let number = |dim: Option<crate::Dim>| dim.and_then(|dim| dim.known());
                match (number(cost.flops.clone()), number(cost.bytes())) {
                    (Some(flops), Some(bytes)) => Ok(flops as f64 + bytes as f64),
                    _ => Err(err!(UnknownType, "the cost of %{} is not a number", node.name())
                        .help("give numbers for symbolic sizes, or balance something else than work")),
                }
            }
        }
    }

    /// Returns the bytes that a border before each cluster cuts.
    fn cuts(
        &self,
        gm: &GraphModule,
        costs: &Costs,
        cluster_of: &FxHashMap<NodeId, usize>,
        n: usize,
    ) -> Result<Vec<f64>> {
        let graph = gm.graph();
        let mut change = vec![0.0; n + 1];
        for (id, node) in graph.nodes() {
            let Some(cluster) = cluster_of.get(&id).copied() else { continue };
            let users = graph.users(id)?;
            let last = users.iter().filter_map(|user| cluster_of.get(user)).max().copied().unwrap_or(cluster);
            if last == cluster {
                continue;
            }
            let bytes = match costs.bytes_of(id).and_then(|bytes| bytes.known()) {
                Some(bytes) => bytes as f64,
                // Where only the balance was asked for, a value of unknown size counts like any other.
                None if self.balance != Balance::Work => 1.0,
                None => {
                    return Err(err!(UnknownType, "the size of %{} is not a number", node.name())
                        .help("give numbers for symbolic sizes"));
                }
            };
            change[cluster + 1] += bytes;
            change[last + 1..].first_mut().into_iter().for_each(|after| *after -= bytes);
        }
        let mut sum = 0.0;
        Ok(change
            .into_iter()
            .take(n)
            .map(|change| {
                sum += change;
                sum
            })
            .collect())
    }
}

/// Returns where the second and later stages begin.
fn best_borders(costs: &[f64], cut: &[f64], stages: usize, slack: f64) -> Result<Vec<usize>> {
    let n = costs.len();
    let mut before = vec![0.0; n + 1];
    for (i, cost) in costs.iter().enumerate() {
        before[i + 1] = before[i] + cost;
    }
    let limit = least_bottleneck(costs, stages) * (1.0 + slack.max(0.0)) * (1.0 + 1e-12);
    // `best[i]`: the least cut of the first `i` clusters in the stages so far; `from[s][i]`: where the last of
    // them begins.
    let mut best: Vec<f64> =
        (0..=n).map(|i| if i > 0 && before[i] <= limit { 0.0 } else { f64::INFINITY }).collect();
    let mut from: Vec<Vec<u32>> = Vec::with_capacity(stages);
    for _ in 1..stages {
        let (mut next, mut begins) = (vec![f64::INFINITY; n + 1], vec![0u32; n + 1]);
        let mut window: VecDeque<usize> = VecDeque::new();
        let value = |j: usize| best[j] + cut[j];
        for i in 1..=n {
            let j = i - 1;
            if j > 0 && best[j].is_finite() {
                while window.back().is_some_and(|back| value(*back) > value(j)) {
                    window.pop_back();
                }
                window.push_back(j);
            }
            while window.front().is_some_and(|front| before[i] - before[*front] > limit) {
                window.pop_front();
            }
            if let Some(front) = window.front() {
                (next[i], begins[i]) = (value(*front), *front as u32);
            }
        }
        best = next;
        from.push(begins);
    }
    if !best[n].is_finite() {
        bail!(Argument, "no cut into {stages} stages was found");
    }
    let (mut borders, mut at) = (Vec::new(), n);
    for begins in from.iter().rev() {
        at = begins[at] as usize;
        borders.push(at);
    }
    borders.reverse();
    Ok(borders)
}

/// Returns the least cost that the dearest of some stages can have.
fn least_bottleneck(costs: &[f64], stages: usize) -> f64 {
    // Fills stages up to a limit; returns how many there are and what the dearest costs.
    let fill = |limit: f64| {
        let (mut used, mut sum, mut dearest) = (1, 0.0, 0.0f64);
        for cost in costs {
            if sum + cost > limit && sum > 0.0 {
                used += 1;
                sum = 0.0;
            }
            sum += cost;
            dearest = dearest.max(sum);
        }
        (used, dearest)
    };
    let mut low = costs.iter().copied().fold(0.0, f64::max);
    let mut high: f64 = costs.iter().sum();
    if fill(low).0 <= stages {
        return fill(low).1;
    }
    for _ in 0..64 {
        let middle = low + (high - low) / 2.0;
        match fill(middle) {
            (used, _) if used > stages => low = middle,
            (_, dearest) => high = dearest.min(middle),
        }
    }
    fill(high).1
}
