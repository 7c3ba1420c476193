//! Merging linear maps of one input, such as queries, keys and values, into one.

use std::collections::BTreeMap;

use fx_core::op::Default as Value;
use fx_core::pass::{Context, Pass, PassOption, erase_unused, fold_values};
use fx_core::rewrite::merged_meta;
use fx_core::{Arg, Attribute, GraphModule, NodeId, Result, Target, TypeTree, err};

use crate::ops::concat::cat;
use crate::ops::linalg::linear;
use crate::ops::view::narrow;

/// Merges linear maps of one input.
pub const MERGE_LINEARS: Pass = Pass {
    name: "merge_linears",
    doc: "Replaces several linear maps of one input, all with a bias or all without, by one with joined weights and a part of \
          its result for each. The joined weights follow their parameters.",
    options: &[
        PassOption { name: "least", default: Value::Int(2), doc: "merge at least this many" },
        PassOption {
            name: "freeze",
            default: Value::Bool(false),
            doc: "forget how weights were made, and remove the old ones that nobody else reads",
        },
    ],
    after: &["inline", "normalize", "shape_prop"],
    exact: false,
    run,
    ..Pass::BASE
};

/// A linear map that can be merged.
struct Map {
    id: NodeId,
    weight: NodeId,
    bias: Option<NodeId>,
    outputs: i64,
}

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let (least, freeze) = (usize::try_from(cx.int("least")?.max(2)).unwrap_or(2), cx.flag("freeze")?);
    // By the input and whether there is a bias, in the order in which they are met.
    let mut groups: BTreeMap<(NodeId, bool), usize> = BTreeMap::new();
    let mut maps: Vec<(NodeId, Vec<Map>)> = Vec::new();
    for (id, _) in gm.graph().nodes() {
        let Some((x, map)) = map_at(gm, id)? else { continue };
        let at = *groups.entry((x, map.bias.is_some())).or_insert_with(|| {
            maps.push((x, Vec::new()));
            maps.len() - 1
        });
        maps[at].1.push(map);
    }
    for (x, group) in maps.into_iter().filter(|(_, group)| group.len() >= least) {
        if !cx.allow(|| {
            format!("merge the linear maps of %{}", gm.graph().node(x).map_or("?", |node| node.name()))
        }) {
            return Ok(());
        }
        merge(gm, x, &group, freeze)?;
    }
    Ok(())
}

fn map_at(gm: &GraphModule, id: NodeId) -> Result<Option<(NodeId, Map)>> {
    let node = gm.graph().node(id)?;
    if node.op() != Some(linear::OP) {
        return Ok(None);
    }
    let bound = linear::OP.bind(node.args(), node.kwargs())?;
    let parameter = |arg: &Arg| {
        let id = *arg.leaf()?;
        let Target::GetAttr(path) = gm.graph().node(id).ok()?.target() else { return None };
        matches!(gm.attribute(path), Ok(Attribute::Parameter(_) | Attribute::Constant(_))).then_some(id)
    };
    let (Some(x), Some(weight)) = (bound[0].leaf().copied(), parameter(&bound[1])) else { return Ok(None) };
    let bias = match &bound[2] {
        Arg::None => None,
        arg => match parameter(arg) {
            Some(bias) => Some(bias),
            None => return Ok(None),
        },
    };
    let rank = |id: NodeId| Some(gm.graph().node(id).ok()?.ty()?.tensor()?.rank());
    let ty = gm.graph().node(weight)?.ty().and_then(TypeTree::tensor);
    let outputs = ty.filter(|ty| ty.rank() == 2).and_then(|ty| ty.shape[0].known());
    if bias.is_some_and(|bias| rank(bias) != Some(1)) || rank(id).is_none_or(|rank| rank == 0) {
        return Ok(None);
    }
    Ok(outputs.map(|outputs| (x, Map { id, weight, bias, outputs })))
}

fn merge(gm: &mut GraphModule, x: NodeId, group: &[Map], freeze: bool) -> Result<()> {
    let first = group[0].id;
    // Weights may be read later than the first map.
    let inputs: Vec<NodeId> = group.iter().flat_map(|map| [Some(map.weight), map.bias]).flatten().collect();
    gm.graph_mut().transaction(|graph| {
        for id in &inputs {
            if graph.is_before(first, *id)? {
                graph.move_before(*id, first)?;
            }
        }
        Ok(())
    })?;
    let weights: Vec<NodeId> = group.iter().map(|map| map.weight).collect();
    let weight = joined(gm, first, &weights, freeze)?;
    let biases: Vec<NodeId> = group.iter().filter_map(|map| map.bias).collect();
    let bias = if biases.is_empty() { None } else { Some(joined(gm, first, &biases, freeze)?) };
    let all: Vec<NodeId> = [Some(x), Some(weight), bias].into_iter().flatten().collect();
    let outputs: Vec<i64> = group.iter().map(|map| map.outputs).collect();
    let parts = gm.append(first, &all, |values| {
        let y = linear(&values[0], &values[1], values.get(2));
        let mut start = 0;
        let part = |size: &i64| {
            start += size;
            narrow(&y, -1, start - size, *size)
        };
        outputs.iter().map(part).collect::<Vec<_>>()
    })?;
    let Some(parts) = parts.items() else { fx_core::bail!(Graph, "the merged map gives no parts") };
    gm.graph_mut().transaction(|graph| {
        let meta = merged_meta(graph, &group.iter().map(|map| map.id).collect::<Vec<_>>(), "merge_linears");
        for (map, part) in group.iter().zip(parts) {
            let Arg::Leaf(part) = part else { continue };
            for new in graph.node(*part)?.inputs().chain([*part]).collect::<Vec<_>>() {
                let ty = graph.node(new)?.meta().ty.clone();
                *graph.meta_mut(new)? = meta.clone();
                graph.meta_mut(new)?.ty = ty;
            }
            graph.replace_all_uses(map.id, *part)?;
            graph.erase(map.id)?;
        }
        Ok(())
    })?;
    erase_unused(gm, inputs, freeze)
}

/// Folds what the parts are, one after the other; it is named after the first.
fn joined(gm: &mut GraphModule, before: NodeId, parts: &[NodeId], freeze: bool) -> Result<NodeId> {
    let name = format!("{}_joined", gm.graph().node(parts[0])?.name());
    let made = fold_values(gm, before, parts, &[&name], freeze, |values| cat(values, 0))?;
    made.first().copied().ok_or_else(|| err!(Graph, "joined weights are no tensor"))
}
