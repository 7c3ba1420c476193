//! Layered layout of a graph: each box in a layer below its inputs, in an order with few crossings, near its
//! neighbours.
//!
//! Longest-path layering; barycentre sweeps for the order; least-squares positions that keep the order and
//! the gaps. The edges of one node that go down further than a layer share a chain of bends. Where so many
//! bends would be needed that the layout were no longer near-linear, the longest edges are drawn directly.

/// The gap between neighbours in a layer.
const GAP: f64 = 22.0;
/// The gap between layers.
const LAYER_GAP: f64 = 44.0;
/// The room for an edge that passes through a layer.
const BEND_WIDTH: f64 = 10.0;
const ORDER_SWEEPS: usize = 6;
const POSITION_SWEEPS: usize = 24;

/// A box to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub width: f64,
    pub height: f64,
    /// Whether it is to stand just above its first user rather than at the top.
    pub sinks: bool,
}

/// A placed picture; coordinates are from the top left.
#[derive(Debug, Default)]
pub struct Layout {
    pub width: f64,
    pub height: f64,
    /// The middle of each box.
    pub centres: Vec<(f64, f64)>,
    /// Pieces of edges from top to bottom, and whether each ends at a box.
    pub pieces: Vec<(Vec<(f64, f64)>, bool)>,
    /// Edges that are drawn directly, from box to box.
    pub direct: Vec<(usize, usize)>,
}

/// A box or a bend.
struct Vertex {
    width: f64,
    layer: usize,
    x: f64,
    up: Vec<usize>,
    down: Vec<usize>,
}

/// Lays out boxes; `inputs` are those of each box and come before it. The last box stands at the bottom.
pub fn layout(sizes: &[Size], inputs: &[Vec<usize>]) -> Layout {
    if sizes.is_empty() {
        return Layout::default();
    }
    let layer_of = layers(sizes, inputs);
    let n_layers = layer_of.iter().max().map_or(0, |n| n + 1);
    let mut vertices: Vec<Vertex> = sizes
        .iter()
        .zip(&layer_of)
        .map(|(size, layer)| Vertex {
            width: size.width,
            layer: *layer,
            x: 0.0,
            up: Vec::new(),
            down: Vec::new(),
        })
        .collect();
    let direct = add_edges(&mut vertices, inputs);
    let mut layers: Vec<Vec<usize>> = vec![Vec::new(); n_layers];
    for (i, vertex) in vertices.iter().enumerate() {
        layers[vertex.layer].push(i);
    }
    order(&mut vertices, &mut layers);
    place(&mut vertices, &layers);
    finish(sizes, &vertices, &layers, direct)
}

fn layers(sizes: &[Size], inputs: &[Vec<usize>]) -> Vec<usize> {
    let mut layer = vec![0; sizes.len()];
    let mut first_user = vec![usize::MAX; sizes.len()];
    for (i, inputs) in inputs.iter().enumerate() {
        layer[i] = inputs.iter().map(|input| layer[*input] + 1).max().unwrap_or(0);
        for input in inputs {
            first_user[*input] = first_user[*input].min(layer[i]);
        }
    }
    for (i, size) in sizes.iter().enumerate() {
        if size.sinks && first_user[i] != usize::MAX {
            layer[i] = first_user[i].saturating_sub(1);
        }
    }
    let deepest = layer.iter().copied().max().unwrap_or(0);
    layer.iter_mut().last().into_iter().for_each(|output| *output = deepest);
    layer
}

/// Makes edges and bends; returns the edges for which there are no bends.
fn add_edges(vertices: &mut Vec<Vertex>, inputs: &[Vec<usize>]) -> Vec<(usize, usize)> {
    let mut edges: Vec<(usize, usize, usize)> = Vec::new();
    for (to, inputs) in inputs.iter().enumerate() {
        for &from in inputs {
            edges.push((vertices[to].layer.saturating_sub(vertices[from].layer), from, to));
        }
    }
    edges.sort_unstable();
    let limit = vertices.len() + 4 * edges.len().max(1000);
    // The bends below each box, from the layer after its own.
    let mut chains: Vec<Vec<usize>> = inputs.iter().map(|_| Vec::new()).collect();
    let mut direct = Vec::new();
    for (span, from, to) in edges {
        let bends = span.saturating_sub(1);
        if vertices.len() + bends.saturating_sub(chains[from].len()) > limit {
            direct.push((from, to));
            continue;
        }
        while chains[from].len() < bends {
            let above = chains[from].last().copied().unwrap_or(from);
            let (bend, layer) = (vertices.len(), vertices[above].layer + 1);
            vertices.push(Vertex { width: BEND_WIDTH, layer, x: 0.0, up: vec![above], down: Vec::new() });
            vertices[above].down.push(bend);
            chains[from].push(bend);
        }
        let above = if bends == 0 { from } else { chains[from][bends - 1] };
        vertices[above].down.push(to);
        vertices[to].up.push(above);
    }
    direct
}

/// Orders each layer by the mean position of the neighbours above, then below, and so on.
fn order(vertices: &mut [Vertex], layers: &mut [Vec<usize>]) {
    let mut rank = vec![0.0; vertices.len()];
    let mut key = vec![0.0; vertices.len()];
    let number = |layer: &[usize], rank: &mut [f64]| {
        layer.iter().enumerate().for_each(|(i, v)| rank[*v] = (i as f64 + 0.5) / layer.len() as f64);
    };
    layers.iter().for_each(|layer| number(layer, &mut rank));
    for sweep in 0..ORDER_SWEEPS {
        let is_down = sweep % 2 == 0;
        for i in 0..layers.len() {
            let layer = if is_down {
                &mut layers[i]
            } else {
                let last = layers.len() - 1;
                &mut layers[last - i]
            };
            for &v in layer.iter() {
                let near = if is_down { &vertices[v].up } else { &vertices[v].down };
                key[v] = match near.len() {
                    0 => rank[v],
                    n => near.iter().map(|v| rank[*v]).sum::<f64>() / n as f64,
                };
            }
            layer.sort_by(|a, b| key[*a].total_cmp(&key[*b]));
            number(layer, &mut rank);
        }
    }
}

/// Moves each layer towards its neighbours.
fn place(vertices: &mut [Vertex], layers: &[Vec<usize>]) {
    for layer in layers {
        let mut x = 0.0;
        for &v in layer {
            vertices[v].x = x + vertices[v].width / 2.0;
            x += vertices[v].width + GAP;
        }
        layer.iter().for_each(|v| vertices[*v].x -= (x - GAP) / 2.0);
    }
    for sweep in 0..POSITION_SWEEPS {
        let is_last = sweep >= POSITION_SWEEPS / 2;
        for i in 0..layers.len() {
            let layer = if sweep % 2 == 0 { &layers[i] } else { &layers[layers.len() - 1 - i] };
            let centre = layer.iter().map(|v| vertices[*v].x).sum::<f64>() / layer.len().max(1) as f64;
            let wanted: Vec<(f64, f64)> = layer
                .iter()
                .map(|&v| {
                    let vertex = &vertices[v];
                    let is_down = sweep % 2 == 0;
                    let (up, down) = (is_last || is_down, is_last || !is_down);
                    let near = vertex.up.iter().filter(|_| up).chain(vertex.down.iter().filter(|_| down));
                    let (sum, total) = near.fold((0.0, 0.0), |(sum, total), other| {
                        let weight = straightness(vertex, &vertices[*other]);
                        (sum + vertices[*other].x * weight, total + weight)
                    });
                    if total > 0.0 { (sum / total, total) } else { (centre, 0.01) }
                })
                .collect();
            spread(vertices, layer, &wanted);
        }
    }
}

/// Returns how much it matters that an edge is straight: most of all between bends.
fn straightness(a: &Vertex, b: &Vertex) -> f64 {
    match (a.width == BEND_WIDTH, b.width == BEND_WIDTH) {
        (true, true) => 12.0,
        (false, false) => 1.0,
        _ => 2.0,
    }
}

/// Gives the vertices of a layer the positions nearest to those wanted that keep order and gaps (pooling
/// neighbours).
fn spread(vertices: &mut [Vertex], layer: &[usize], wanted: &[(f64, f64)]) {
    let mut offsets = Vec::with_capacity(layer.len());
    let mut offset = 0.0;
    for (i, &v) in layer.iter().enumerate() {
        if i > 0 {
            offset += (vertices[layer[i - 1]].width + vertices[v].width) / 2.0 + GAP;
        }
        offsets.push(offset);
    }
    // Each pool: the weighted sum of wanted positions, the weight, and how many vertices.
    let mut pools: Vec<(f64, f64, usize)> = Vec::with_capacity(layer.len());
    for ((x, weight), offset) in wanted.iter().zip(&offsets) {
        let mut pool = ((x - offset) * weight, *weight, 1);
        while let Some(last) = pools.last()
            && last.0 / last.1 >= pool.0 / pool.1
        {
            pool = (pool.0 + last.0, pool.1 + last.1, pool.2 + last.2);
            pools.pop();
        }
        pools.push(pool);
    }
    let mut next = layer.iter().zip(&offsets);
    for (sum, weight, count) in pools {
        for (v, offset) in next.by_ref().take(count) {
            vertices[*v].x = sum / weight + offset;
        }
    }
}

fn finish(sizes: &[Size], vertices: &[Vertex], layers: &[Vec<usize>], direct: Vec<(usize, usize)>) -> Layout {
    let left = vertices.iter().map(|v| v.x - v.width / 2.0).fold(f64::INFINITY, f64::min);
    let right = vertices.iter().map(|v| v.x + v.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    let mut bands: Vec<(f64, f64)> = Vec::with_capacity(layers.len());
    let mut y = 0.0;
    for layer in layers {
        let height = layer.iter().filter_map(|v| sizes.get(*v)).map(|size| size.height).fold(0.0, f64::max);
        bands.push((y, y + height));
        y += height + LAYER_GAP;
    }
    let middle = |v: usize| (bands[vertices[v].layer].0 + bands[vertices[v].layer].1) / 2.0;
    let centres: Vec<(f64, f64)> = (0..sizes.len()).map(|v| (vertices[v].x - left, middle(v))).collect();
    let mut pieces = Vec::new();
    for (v, vertex) in vertices.iter().enumerate() {
        let x = vertex.x - left;
        let is_box = v < sizes.len();
        let bottom = bands[vertex.layer].1;
        let start = if is_box {
            vec![(x, middle(v) + sizes[v].height / 2.0), (x, bottom)]
        } else {
            vec![(x, bottom)]
        };
        for &to in &vertex.down {
            let target = &vertices[to];
            let (top, end) = (bands[target.layer].0, target.x - left);
            let mut piece = start.clone();
            piece.push((end, top));
            let is_end = to < sizes.len();
            piece.push((
                end,
                if is_end { middle(to) - sizes[to].height / 2.0 } else { bands[target.layer].1 },
            ));
            pieces.push((piece, is_end));
        }
    }
    Layout { width: right - left, height: y - LAYER_GAP, centres, pieces, direct }
}
