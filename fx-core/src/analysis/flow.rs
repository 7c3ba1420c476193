//! [`Flow`]: the edges of a graph as flat tables over positions in program order.

use crate::{Graph, GraphModule, NodeId};

/// Lists of positions, one for each node, end to end.
#[derive(Clone, Debug, Default)]
struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn get(&self, i: usize) -> &[u32] {
        &self.items[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    /// Turns the lists of sources into lists of targets, each in order.
    fn reversed(&self) -> Lists {
        let n = self.starts.len() - 1;
        let mut starts = vec![0u32; n + 1];
        for source in &self.items {
            starts[*source as usize + 1] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let (mut next, mut items) = (starts.clone(), vec![0u32; self.items.len()]);
        for i in 0..n {
            for source in self.get(i) {
                let at = &mut next[*source as usize];
                items[*at as usize] = i as u32;
                *at += 1;
            }
        }
        Lists { starts, items }
    }
}

/// The nodes of a graph numbered in program order, with the edges between them. It belongs to the graph as it was.
#[derive(Clone, Debug)]
pub struct Flow {
    ids: Vec<NodeId>,
    /// Position by slot of the arena.
    positions: Vec<u32>,
    inputs: Lists,
    users: Lists,
}

impl Flow {
    /// Reads the data edges of a graph.
    pub fn new(graph: &Graph) -> Flow {
        Flow::with_edges(graph, &[])
    }

    /// Reads the data edges of a module's graph, and adds an edge between each node with an effect and the
    /// next one, so that every topological order keeps their order. Updates of buffers are left out: a graph
    /// stores them at the end of a call, so they may stand anywhere.
    pub fn with_effects(gm: &GraphModule) -> Flow {
        let mut extra = Vec::new();
        let mut last = None;
        for (i, (_, node)) in gm.graph().nodes().enumerate() {
            let stores = node.op().is_some_and(crate::ops::is_store);
            if gm.parts().has_effect(node) && !stores {
                extra.extend(last.map(|last| (last, i as u32)));
                last = Some(i as u32);
            }
        }
        Flow::with_edges(gm.graph(), &extra)
    }

    /// Reads the data edges, and adds edges between positions, each to a later one, in order of these.
    pub(crate) fn with_edges(graph: &Graph, extra: &[(u32, u32)]) -> Flow {
        let ids = graph.ids();
        let slots = ids.iter().map(|id| id.index as usize + 1).max().unwrap_or(0);
        let mut positions = vec![u32::MAX; slots];
        let mut inputs = Lists { starts: Vec::with_capacity(ids.len() + 1), items: Vec::new() };
        inputs.starts.push(0);
        let mut extra = extra.iter().peekable();
        for (i, (id, node)) in graph.nodes().enumerate() {
            positions[id.index as usize] = i as u32;
            let start = inputs.items.len();
            inputs.items.extend(node.inputs().map(|input| positions[input.index as usize]));
            while let Some((from, _)) = extra.next_if(|(_, to)| *to == i as u32) {
                if !inputs.items[start..].contains(from) {
                    inputs.items.push(*from);
                }
            }
            inputs.starts.push(inputs.items.len() as u32);
        }
        let users = inputs.reversed();
        Flow { ids, positions, inputs, users }
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether there is no node; a graph has at least its output.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the handles in program order.
    pub fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    /// Returns the handle of the node at a position.
    pub fn id(&self, position: usize) -> NodeId {
        self.ids[position]
    }

    /// Returns the position of a node; `None` if it is not in the graph.
    pub fn position(&self, id: NodeId) -> Option<usize> {
        let position = *self.positions.get(id.index as usize)? as usize;
        (self.ids.get(position) == Some(&id)).then_some(position)
    }

    /// Returns the positions of the nodes that the one at `position` depends on, each once.
    pub fn inputs(&self, position: usize) -> &[u32] {
        self.inputs.get(position)
    }

    /// Returns the positions of the nodes that depend on the one at `position`, each once and in order.
    pub fn users(&self, position: usize) -> &[u32] {
        self.users.get(position)
    }
}
