//! Horizontal fusion: groups that do not depend on each other become one kernel if their elements are few, so
//! that starting them is most of their work, or if they reduce the same operand, which then is fetched once.
//! Many elements that are not reduced are better written one after the other: this takes a core fewer streams
//! of memory at a time.
//!
//! Each group has a *level* above those of the groups that it depends on. Groups of one level are
//! independent, and stay so whichever of them become one: an edge never leads to a lower level, and to the
//! same level only past what is in no group here. So levels replace the search for paths. A group may wait
//! for a level up to that before its first user, where it finds company.

use std::collections::BTreeMap;
use std::ops::Range;

use fx_core::{NodeId, Result, Shape};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{LARGEST, Planner};

/// The most elements of a group that is joined with any other of its shape. To start a kernel takes about as
/// long as a hundredth of this.
const FEW: i64 = 1 << 14;

/// What groups have in common that can be one kernel.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Kind {
    domain: Shape,
    axes: Option<usize>,
    reduced: Option<Range<usize>>,
    /// Channels lie last in what convolutions write.
    is_convolved: bool,
}

/// A group, or a node that is in none.
struct Cluster {
    members: Vec<usize>,
    /// The clusters that it depends on.
    inputs: Vec<usize>,
    /// `None` if it is joined with nothing.
    kind: Option<Kind>,
    level: usize,
}

/// Clusters that become one kernel.
#[derive(Default)]
struct Set {
    clusters: Vec<usize>,
    n_members: usize,
}

impl Planner<'_> {
    /// Joins independent groups.
    pub(super) fn join_horizontally(&mut self, convolved: &FxHashSet<NodeId>) -> Result<()> {
        let mut clusters = self.clusters(convolved)?;
        let order = topological(&clusters);
        for &cluster in &order {
            let own = usize::from(clusters[cluster].kind.is_some());
            clusters[cluster].level =
                clusters[cluster].inputs.iter().map(|&input| clusters[input].level).max().unwrap_or(0) + own;
        }
        raise(&mut clusters, &order);
        let mut places: FxHashMap<(usize, &Kind), Vec<usize>> = FxHashMap::default();
        for (i, cluster) in clusters.iter().enumerate() {
            if let Some(kind) = &cluster.kind {
                places.entry((cluster.level, kind)).or_default().push(i);
            }
        }
        let mut sets: Vec<Set> = Vec::new();
        for ((_, kind), candidates) in places {
            let few = kind.domain.iter().try_fold(1i64, |n, dim| n.checked_mul(dim.bounds().1?));
            let is_small = few.is_some_and(|n| n <= FEW);
            // The set that takes groups of this kind now, or those which reduce an operand.
            let mut open: FxHashMap<Option<usize>, usize> = FxHashMap::default();
            for cluster in candidates {
                let keys = if is_small { vec![None] } else { self.reduced(&clusters[cluster], &kind.domain) };
                let n = clusters[cluster].members.len();
                let fits =
                    |key| open.get(key).filter(|&&set: &&usize| sets[set].n_members + n <= LARGEST).copied();
                let set = keys.iter().find_map(fits).unwrap_or(sets.len());
                if set == sets.len() {
                    sets.push(Set::default());
                }
                sets[set].clusters.push(cluster);
                sets[set].n_members += n;
                open.extend(keys.into_iter().map(|key| (key, set)));
            }
        }
        for Set { clusters: set, .. } in sets.into_iter().filter(|set| set.clusters.len() > 1) {
            let of = |cluster: &usize| {
                clusters[*cluster].members.first().and_then(|&member| self.group_of[member])
            };
            let groups: Vec<usize> = set.iter().filter_map(of).collect();
            let members: Vec<usize> =
                groups.iter().flat_map(|&group| std::mem::take(&mut self.groups[group].members)).collect();
            members.iter().for_each(|&member| self.group_of[member] = Some(groups[0]));
            self.groups[groups[0]].members = members;
        }
        Ok(())
    }

    /// Returns the graph with its groups as nodes.
    fn clusters(&self, convolved: &FxHashSet<NodeId>) -> Result<Vec<Cluster>> {
        let mut clusters: Vec<Cluster> = Vec::new();
        let mut of_group: FxHashMap<usize, usize> = FxHashMap::default();
        let mut unit_of = Vec::with_capacity(self.flow.len());
        for at in 0..self.flow.len() {
            let group = self.group_of[at];
            let new = clusters.len();
            let cluster = group.map_or(new, |group| *of_group.entry(group).or_insert(new));
            if cluster == new {
                let kind = group.map(|group| &self.groups[group]).filter(|group| !group.anchored);
                let kind = kind.map(|group| Kind {
                    domain: group.domain.clone(),
                    axes: group.axes,
                    reduced: group.reduced.clone(),
                    is_convolved: false,
                });
                clusters.push(Cluster { members: Vec::new(), inputs: Vec::new(), kind, level: 0 });
            }
            clusters[cluster].members.push(at);
            unit_of.push(cluster);
        }
        for (i, cluster) in clusters.iter_mut().enumerate() {
            let inputs = cluster.members.iter().flat_map(|&member| self.flow.inputs(member));
            cluster.inputs =
                inputs.map(|&input| unit_of[input as usize]).filter(|&input| input != i).collect();
            let reads = |&member: &usize| {
                let inputs = self.flow.inputs(member).iter().map(|input| self.flow.id(*input as usize));
                convolved.contains(&self.flow.id(member))
                    || inputs.into_iter().any(|id| convolved.contains(&id))
            };
            if let Some(kind) = &mut cluster.kind {
                kind.is_convolved = cluster.members.iter().any(reads);
            }
        }
        Ok(clusters)
    }

    /// Returns the values from elsewhere that a group reads whole, if it gives no more than one element for
    /// each row.
    fn reduced(&self, cluster: &Cluster, domain: &Shape) -> Vec<Option<usize>> {
        let is_outside = |other: &usize| !cluster.members.contains(other);
        let leaves = |member: usize| self.flow.users(member).iter().any(|&user| is_outside(&(user as usize)));
        if cluster.members.iter().any(|&member| !self.per_row[member] && leaves(member)) {
            return Vec::new();
        }
        let inputs =
            cluster.members.iter().flat_map(|&member| self.flow.inputs(member)).map(|&input| input as usize);
        inputs.filter(|input| is_outside(input) && self.shape(*input) == Some(domain)).map(Some).collect()
    }
}

/// Returns the clusters in an order in which each follows what it depends on.
fn topological(clusters: &[Cluster]) -> Vec<usize> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); clusters.len()];
    let mut missing: Vec<usize> = clusters.iter().map(|cluster| cluster.inputs.len()).collect();
    for (i, cluster) in clusters.iter().enumerate() {
        cluster.inputs.iter().for_each(|&input| users[input].push(i));
    }
    let mut order: Vec<usize> = (0..clusters.len()).filter(|&i| missing[i] == 0).collect();
    let mut next = 0;
    while next < order.len() {
        for &user in &users[order[next]] {
            missing[user] -= 1;
            if missing[user] == 0 {
                order.push(user);
            }
        }
        next += 1;
    }
    order
}

/// Raises groups that are alone in their level to the first one before their users that has another of their kind.
fn raise(clusters: &mut [Cluster], order: &[usize]) {
    // How many clusters of each kind there are in each level.
    let mut n_of: FxHashMap<Kind, BTreeMap<usize, usize>> = FxHashMap::default();
    for cluster in clusters.iter() {
        if let Some(kind) = &cluster.kind {
            *n_of.entry(kind.clone()).or_default().entry(cluster.level).or_default() += 1;
        }
    }
    // The highest level that a cluster may have; that of those without users is the highest there is.
    let top = clusters.iter().map(|cluster| cluster.level).max().unwrap_or(0);
    let mut most = vec![top; clusters.len()];
    for &i in order.iter().rev() {
        let cluster = &mut clusters[i];
        if let Some(kind) = &cluster.kind {
            let levels = n_of.entry(kind.clone()).or_default();
            let is_alone = levels.get(&cluster.level) == Some(&1);
            if is_alone
                && most[i] > cluster.level
                && let Some((&level, n)) = levels.range_mut(cluster.level + 1..=most[i]).next()
            {
                *n += 1;
                levels.remove(&cluster.level);
                cluster.level = level;
            }
            most[i] = clusters[i].level - 1;
        }
        for at in 0..clusters[i].inputs.len() {
            let input = clusters[i].inputs[at];
            most[input] = most[input].min(most[i]);
        }
    }
}
