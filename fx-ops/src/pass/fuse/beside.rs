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
struct Unit {
    members: Vec<usize>,
    /// The units that it depends on.
    inputs: Vec<usize>,
    /// `None` if it is joined with nothing.
    kind: Option<Kind>,
    level: usize,
}

/// Units that become one kernel.
#[derive(Default)]
struct Set {
    units: Vec<usize>,
    n_members: usize,
}

impl Planner<'_> {
    /// Joins independent groups.
    pub(super) fn join_beside(&mut self, convolved: &FxHashSet<NodeId>) -> Result<()> {
        let mut units = self.units(convolved)?;
        let order = topological(&units);
        for &unit in &order {
            let own = usize::from(units[unit].kind.is_some());
            units[unit].level =
                units[unit].inputs.iter().map(|&input| units[input].level).max().unwrap_or(0) + own;
        }
        raise(&mut units, &order);
        let mut places: FxHashMap<(usize, &Kind), Vec<usize>> = FxHashMap::default();
        for (i, unit) in units.iter().enumerate() {
            if let Some(kind) = &unit.kind {
                places.entry((unit.level, kind)).or_default().push(i);
            }
        }
        let mut sets: Vec<Set> = Vec::new();
        for ((_, kind), candidates) in places {
            let few = kind.domain.iter().try_fold(1i64, |n, dim| n.checked_mul(dim.bounds().1?));
            let is_small = few.is_some_and(|n| n <= FEW);
            // The set that takes groups of this kind now, or those which reduce an operand.
            let mut open: FxHashMap<Option<usize>, usize> = FxHashMap::default();
            for unit in candidates {
                let keys = if is_small { vec![None] } else { self.reduced(&units[unit], &kind.domain) };
                let n = units[unit].members.len();
                let fits =
                    |key| open.get(key).filter(|&&set: &&usize| sets[set].n_members + n <= LARGEST).copied();
                let set = keys.iter().find_map(fits).unwrap_or(sets.len());
                if set == sets.len() {
                    sets.push(Set::default());
                }
                sets[set].units.push(unit);
                sets[set].n_members += n;
                open.extend(keys.into_iter().map(|key| (key, set)));
            }
        }
        for Set { units: set, .. } in sets.into_iter().filter(|set| set.units.len() > 1) {
            let of = |unit: &usize| units[*unit].members.first().and_then(|&member| self.group_of[member]);
            let groups: Vec<usize> = set.iter().filter_map(of).collect();
            let members: Vec<usize> =
                groups.iter().flat_map(|&group| std::mem::take(&mut self.groups[group].members)).collect();
            members.iter().for_each(|&member| self.group_of[member] = Some(groups[0]));
            self.groups[groups[0]].members = members;
        }
        Ok(())
    }

    /// Returns the graph with its groups as nodes.
    fn units(&self, convolved: &FxHashSet<NodeId>) -> Result<Vec<Unit>> {
        let mut units: Vec<Unit> = Vec::new();
        let mut of_group: FxHashMap<usize, usize> = FxHashMap::default();
        let mut unit_of = Vec::with_capacity(self.flow.len());
        for at in 0..self.flow.len() {
            let group = self.group_of[at];
            let new = units.len();
            let unit = group.map_or(new, |group| *of_group.entry(group).or_insert(new));
            if unit == new {
                let kind = group.map(|group| &self.groups[group]).filter(|group| !group.anchored);
                let kind = kind.map(|group| Kind {
                    domain: group.domain.clone(),
                    axes: group.axes,
                    reduced: group.reduced.clone(),
                    is_convolved: false,
                });
                units.push(Unit { members: Vec::new(), inputs: Vec::new(), kind, level: 0 });
            }
            units[unit].members.push(at);
            unit_of.push(unit);
        }
        for (i, unit) in units.iter_mut().enumerate() {
            let inputs = unit.members.iter().flat_map(|&member| self.flow.inputs(member));
            unit.inputs = inputs.map(|&input| unit_of[input as usize]).filter(|&input| input != i).collect();
            let reads = |&member: &usize| {
                let inputs = self.flow.inputs(member).iter().map(|input| self.flow.id(*input as usize));
                convolved.contains(&self.flow.id(member))
                    || inputs.into_iter().any(|id| convolved.contains(&id))
            };
            if let Some(kind) = &mut unit.kind {
                kind.is_convolved = unit.members.iter().any(reads);
            }
        }
        Ok(units)
    }

    /// Returns the values from elsewhere that a group reads whole, if it gives no more than one element for
    /// each row.
    fn reduced(&self, unit: &Unit, domain: &Shape) -> Vec<Option<usize>> {
        let is_outside = |other: &usize| !unit.members.contains(other);
        let leaves = |member: usize| self.flow.users(member).iter().any(|&user| is_outside(&(user as usize)));
        if unit.members.iter().any(|&member| !self.per_row[member] && leaves(member)) {
            return Vec::new();
        }
        let inputs =
            unit.members.iter().flat_map(|&member| self.flow.inputs(member)).map(|&input| input as usize);
        inputs.filter(|input| is_outside(input) && self.shape(*input) == Some(domain)).map(Some).collect()
    }
}

/// Returns the units in an order in which each follows what it depends on.
fn topological(units: &[Unit]) -> Vec<usize> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); units.len()];
    let mut missing: Vec<usize> = units.iter().map(|unit| unit.inputs.len()).collect();
    for (i, unit) in units.iter().enumerate() {
        unit.inputs.iter().for_each(|&input| users[input].push(i));
    }
    let mut order: Vec<usize> = (0..units.len()).filter(|&i| missing[i] == 0).collect();
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
fn raise(units: &mut [Unit], order: &[usize]) {
    // How many units of each kind there are in each level.
    let mut n_of: FxHashMap<Kind, BTreeMap<usize, usize>> = FxHashMap::default();
    for unit in units.iter() {
        if let Some(kind) = &unit.kind {
            *n_of.entry(kind.clone()).or_default().entry(unit.level).or_default() += 1;
        }
    }
    // The highest level that a unit may have; that of those without users is the highest there is.
    let top = units.iter().map(|unit| unit.level).max().unwrap_or(0);
    let mut most = vec![top; units.len()];
    for &i in order.iter().rev() {
        let unit = &mut units[i];
        if let Some(kind) = &unit.kind {
            let levels = n_of.entry(kind.clone()).or_default();
            let is_alone = levels.get(&unit.level) == Some(&1);
            if is_alone
                && most[i] > unit.level
                && let Some((&level, n)) = levels.range_mut(unit.level + 1..=most[i]).next()
            {
                *n += 1;
                levels.remove(&unit.level);
                unit.level = level;
            }
            most[i] = units[i].level - 1;
        }
        for at in 0..units[i].inputs.len() {
            let input = units[i].inputs[at];
            most[input] = most[input].min(most[i]);
        }
    }
}
