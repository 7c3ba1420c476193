// Places boxes: each open box is laid out by itself in layers, its inputs above its outputs, and is one box in the next.
//
// Longest-path layers, barycentre sweeps for the order, least-squares positions that keep order and gaps: near-linear. An edge
// that crosses the border of an open box does so at a port. Edges of one source share their bends; where too many bends would
// be needed, the longest edges are drawn directly.

const GAP = 18;
const LAYER_GAP = 36;
const BEND_WIDTH = 8;
const PADDING = 16;
const HEADER = 30;
const SWEEPS = 8;
const POSITION_SWEEPS = 24;
// Larger layouts are swept less often.
const LARGE = 4000;

// Lays out everything that is in sight below `root`, an open box of a graph, and returns the pieces of edges.
// `measure(box)` returns the size of a box that is not open.
function layoutAll(root, measure) {
  const pieces = [];
  sizeOf(root, measure);
  place(root, 0, 0, pieces);
  return pieces;
}

// Finds the size of a box, after those of the boxes in it.
function sizeOf(box, measure) {
  box.frameOf = null;
  if (!box.isOpen || contentsOf(box).length === 0) {
    const size = measure(box);
    Object.assign(box, { w: size.w, h: size.h, isLaidOut: false });
    return;
  }
  box.isLaidOut = true;
  if (box.kind === "node") {
    layoutRow(box, measure);
    return;
  }
  if (box.kind === "graph") connect(box);
  box.children.forEach((child) => sizeOf(child, measure));
  layoutLayers(box, measure);
}

// Puts the sub-graphs of a node side by side.
function layoutRow(box, measure) {
  let x = PADDING;
  let h = 0;
  for (const inner of box.inner) {
    sizeOf(inner, measure);
    inner.at = { x, y: HEADER + 8 };
    x += inner.w + PADDING;
    h = Math.max(h, inner.h);
  }
  const size = measure(box);
  box.w = Math.max(x, size.w);
  box.h = HEADER + 8 + h + PADDING;
}

// Returns the box in sight that stands for a node, or null for one that is not shown.
function inSight(node) {
  if (!node) return null;
  let shown = node;
  for (let box = node.parent; box && box !== node.root.parent; box = box.parent) if (!box.isOpen) shown = box;
  return shown;
}

// Gives each open box of a graph its edges: between the boxes in it, and from and to the ports on its border.
function connect(root) {
  const reset = (box) => {
    box.edges = new Map();
    box.tops = new Map();
    box.bottoms = new Map();
    box.children.forEach((child) => {
      if (child.kind === "module" && child.isOpen) reset(child);
    });
  };
  reset(root);
  const seen = new Set();
  const shown = root.nodes.map(inSight);
  root.graph.inputs.forEach((inputs, i) => {
    for (const input of inputs) {
      const [from, to] = [shown[input], shown[i]];
      if (!from || !to || from === to) continue;
      const key = from.id + ">" + to.id;
      if (seen.has(key)) continue;
      seen.add(key);
      for (const [box, source, target] of route(from, to)) addEdge(box, from, source, target);
    }
  });
}

// Returns the edges of which the way between two boxes consists: the box in which each is, and its ends; null is the border.
function route(from, to) {
  const way = [];
  let [a, b] = [from, to];
  const end = [];
  while (a.parent !== b.parent) {
    if (a.parent.depth >= b.parent.depth) {
      way.push([a.parent, a, null]);
      a = a.parent;
    } else {
      end.push([b.parent, null, b]);
      b = b.parent;
    }
  }
  way.push([a.parent, a, b]);
  return way.concat(end.reverse());
}

function edgeKey(from, source, target) {
  return from.id + "|" + (source ? source.id : "") + "|" + (target ? target.id : "");
}

function addEdge(box, from, source, target) {
  const key = edgeKey(from, source, target);
  if (box.edges.has(key)) return;
  if (!source && !box.tops.has(from)) box.tops.set(from, { from, dx: 0 });
  if (!target && !box.bottoms.has(from)) box.bottoms.set(from, { from, dx: 0 });
  box.edges.set(key, { from, source, target });
}

function vertex(box, port, w, h) {
  return { box, port, w, h, x: 0, layer: 0, rank: 0, key: 0, want: 0, weight: 0, floats: false, up: [], down: [] };
}

// How far from the middle of a vertex an edge of `from` ends.
function offset(v, from, isTop) {
  if (!v.box || !v.box.isLaidOut || v.box.kind === "node") return 0;
  const port = (isTop ? v.box.tops : v.box.bottoms).get(from);
  return port ? port.dx : 0;
}

function layoutLayers(box, measure) {
  const tops = [...box.tops.values()].map((port) => vertex(null, port, BEND_WIDTH, 0));
  const bottoms = [...box.bottoms.values()].map((port) => vertex(null, port, BEND_WIDTH, 0));
  const items = box.children.map((child) => vertex(child, null, child.w, child.h));
  const vertices = [...tops, ...items, ...bottoms];
  const ofBox = new Map(items.map((v) => [v.box, v]));
  const ofTop = new Map(tops.map((v) => [v.port.from, v]));
  const ofBottom = new Map(bottoms.map((v) => [v.port.from, v]));
  const edges = [];
  for (const edge of box.edges.values()) {
    edge.a = edge.source ? ofBox.get(edge.source) : ofTop.get(edge.from);
    edge.b = edge.target ? ofBox.get(edge.target) : ofBottom.get(edge.from);
    edge.bends = [];
    edge.isDirect = false;
    edges.push(edge);
  }
  assignLayers(tops, items, bottoms, edges);
  addBends(vertices, edges);
  let nLayers = 0;
  for (const v of vertices) nLayers = Math.max(nLayers, v.layer + 1);
  const layers = Array.from({ length: nLayers }, () => []);
  vertices.forEach((v) => layers[v.layer].push(v));
  orderLayers(layers);
  positionLayers(layers);

  const header = measure(box);
  let [left, right] = [Infinity, -Infinity];
  for (const v of vertices) {
    left = Math.min(left, v.x - v.w / 2);
    right = Math.max(right, v.x + v.w / 2);
  }
  const inner = Math.max(right - left, header.w - 2 * PADDING);
  const shift = PADDING - left + (inner - (right - left)) / 2;
  let y = box.parent || box.frame ? HEADER + 10 : 10;
  box.bands = layers.map((layer, i) => {
    let h = 0;
    for (const v of layer) h = Math.max(h, v.h);
    const band = [y, y + h];
    const isPorts = h === 0 && layer.every((v) => v.port);
    y += h + (i + 1 === layers.length ? 0 : isPorts ? LAYER_GAP / 2 : LAYER_GAP + Math.min(60, layer.length * 1.2));
    return band;
  });
  box.w = inner + 2 * PADDING;
  box.h = y + (bottoms.length > 0 ? 4 : PADDING);
  for (const v of vertices) {
    v.x += shift;
    if (v.port) v.port.dx = v.x - box.w / 2;
    const [top, bottom] = box.bands[v.layer];
    if (v.box) v.box.at = { x: v.x - v.w / 2, y: (top + bottom) / 2 - v.h / 2 };
  }
}

// Ports are first and last; what needs nothing stands just above its first user.
function assignLayers(tops, items, bottoms, edges) {
  const first = tops.length > 0 ? 1 : 0;
  const [ins, outs] = [new Map(), new Map()];
  for (const v of items) {
    ins.set(v, []);
    outs.set(v, []);
  }
  for (const edge of edges) {
    if (ins.has(edge.b)) ins.get(edge.b).push(edge.a);
    if (outs.has(edge.a)) outs.get(edge.a).push(edge.b);
  }
  let last = first;
  for (const v of items) {
    v.layer = first;
    for (const a of ins.get(v)) v.layer = Math.max(v.layer, a.layer + 1);
    v.floats = v.box.kind === "node" && v.box.record.opcode === 0
      ? false
      : ins.get(v).every((a) => a.floats);
    last = Math.max(last, v.layer);
  }
  const isLast = (v) => v.box.kind === "node" && v.box.record.opcode === OUTPUT;
  for (const v of items) if (isLast(v)) v.layer = last;
  bottoms.forEach((v) => (v.layer = last + 1));
  for (let i = items.length - 1; i >= 0; i--) {
    const v = items[i];
    const below = outs.get(v);
    if (!v.floats || below.length === 0 || isLast(v)) continue;
    let layer = Infinity;
    for (const b of below) layer = Math.min(layer, b.layer - 1);
    v.layer = Math.max(v.layer, layer);
  }
}

// Makes the bends of edges that pass through layers; those of one source are shared.
function addBends(vertices, edges) {
  const limit = vertices.length + 3 * Math.max(edges.length, 1000);
  const chains = new Map();
  const linked = new Set();
  const link = (a, b, from) => {
    a.down.push({ v: b, from });
    b.up.push({ v: a, from });
  };
  const spans = edges.map((edge, i) => [edge.b.layer - edge.a.layer, i]);
  spans.sort((p, q) => p[0] - q[0] || p[1] - q[1]);
  let n = vertices.length;
  for (const [span, i] of spans) {
    const edge = edges[i];
    const key = edge.from.id;
    let ofSource = chains.get(edge.a);
    if (!ofSource) chains.set(edge.a, (ofSource = new Map()));
    let chain = ofSource.get(key);
    if (!chain) ofSource.set(key, (chain = []));
    const bends = Math.max(0, span - 1);
    if (n + bends - chain.length > limit) {
      edge.isDirect = true;
      continue;
    }
    while (chain.length < bends) {
      const above = chain.length > 0 ? chain[chain.length - 1] : edge.a;
      const bend = vertex(null, null, BEND_WIDTH, 0);
      bend.layer = above.layer + 1;
      link(above, bend, edge.from);
      vertices.push(bend);
      chain.push(bend);
      n += 1;
    }
    edge.bends = bends > 0 ? chain : [];
    edge.nBends = bends;
    link(bends > 0 ? chain[bends - 1] : edge.a, edge.b, edge.from);
    linked.add(edge);
  }
}

function number(layer) {
  layer.forEach((v, i) => (v.rank = (i + 0.5) / layer.length));
}

// Orders each layer by the mean position of the neighbours above, then below, and so on; keeps the order with fewest crossings.
function orderLayers(layers) {
  layers.forEach(number);
  let best = null;
  let fewest = Infinity;
  let n = 0;
  layers.forEach((layer) => (n += layer.length));
  const counts = n <= LARGE;
  const sweeps = counts ? SWEEPS : SWEEPS / 2;
  for (let sweep = 0; sweep <= sweeps; sweep++) {
    if (counts) {
      const crossings = countCrossings(layers);
      if (crossings < fewest) {
        fewest = crossings;
        best = layers.map((layer) => layer.slice());
      }
      if (crossings === 0) break;
    }
    if (sweep === sweeps) break;
    const isDown = sweep % 2 === 0;
    for (let k = 0; k < layers.length; k++) {
      const layer = layers[isDown ? k : layers.length - 1 - k];
      for (const v of layer) {
        const near = isDown ? v.up : v.down;
        let sum = 0;
        for (const { v: other, from } of near) {
          const width = layers[other.layer].length;
          const skew = offset(other, from, !isDown) / Math.max(other.w, 1) / width;
          sum += other.rank + skew;
        }
        v.key = near.length > 0 ? sum / near.length : v.rank;
      }
      layer.sort((a, b) => a.key - b.key || a.rank - b.rank);
      number(layer);
    }
  }
  if (best) {
    best.forEach((layer, i) => {
      layers[i].splice(0, layer.length, ...layer);
      number(layers[i]);
    });
  }
}

function countCrossings(layers) {
  let crossings = 0;
  for (let i = 0; i + 1 < layers.length; i++) {
    const position = new Map(layers[i + 1].map((v, k) => [v, k]));
    const ends = [];
    for (const v of layers[i]) {
      const mine = v.down.map(({ v: other }) => position.get(other)).sort((a, b) => a - b);
      ends.push(...mine);
    }
    // Inversions by a tree of counts.
    const tree = new Int32Array(layers[i + 1].length + 2);
    for (let k = 0; k < ends.length; k++) {
      let greater = k;
      for (let j = ends[k] + 1; j > 0; j -= j & -j) greater -= tree[j];
      crossings += greater;
      for (let j = ends[k] + 1; j < tree.length; j += j & -j) tree[j] += 1;
    }
  }
  return crossings;
}

// How much it matters that an edge is straight: most of all between bends.
function straightness(a, b) {
  const bends = (a.box ? 0 : 1) + (b.box ? 0 : 1);
  return bends === 2 ? 12 : bends === 1 ? 2 : 1;
}

// Adds where the neighbours at one side want a vertex to be.
function pull(v, near, isUp) {
  for (const { v: other, from } of near) {
    const weight = straightness(v, other);
    v.want += weight * (other.x + offset(other, from, !isUp) - offset(v, from, isUp));
    v.weight += weight;
  }
}

function positionLayers(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const v of layer) {
      v.x = x + v.w / 2;
      x += v.w + GAP;
    }
    layer.forEach((v) => (v.x -= (x - GAP) / 2));
  }
  let n = 0;
  layers.forEach((layer) => (n += layer.length));
  const sweeps = n <= LARGE ? POSITION_SWEEPS : POSITION_SWEEPS / 3;
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const isLate = sweep >= sweeps / 2;
    const isDown = sweep % 2 === 0;
    for (let k = 0; k < layers.length; k++) {
      const layer = layers[isDown ? k : layers.length - 1 - k];
      let centre = 0;
      for (const v of layer) centre += v.x / layer.length;
      for (const v of layer) {
        v.want = 0;
        v.weight = 0;
        if (isLate || isDown) pull(v, v.up, true);
        if (isLate || !isDown) pull(v, v.down, false);
        v.want = v.weight > 0 ? v.want / v.weight : centre;
        v.weight = v.weight || 0.01;
      }
      spread(layer);
    }
  }
}

// Gives the vertices of a layer the positions nearest to those wanted that keep order and gaps, by pooling neighbours.
function spread(layer) {
  const n = layer.length;
  const offsets = new Float64Array(n);
  const [sums, weights, counts] = [new Float64Array(n), new Float64Array(n), new Int32Array(n)];
  let pools = 0;
  for (let i = 0; i < n; i++) {
    const v = layer[i];
    if (i > 0) offsets[i] = offsets[i - 1] + (layer[i - 1].w + v.w) / 2 + GAP;
    let [sum, weight, count] = [(v.want - offsets[i]) * v.weight, v.weight, 1];
    while (pools > 0 && sums[pools - 1] / weights[pools - 1] >= sum / weight) {
      pools -= 1;
      sum += sums[pools];
      weight += weights[pools];
      count += counts[pools];
    }
    [sums[pools], weights[pools], counts[pools]] = [sum, weight, count];
    pools += 1;
  }
  let i = 0;
  for (let pool = 0; pool < pools; pool++) {
    const x = sums[pool] / weights[pool];
    for (let k = 0; k < counts[pool]; k++, i++) layer[i].x = x + offsets[i];
  }
}

// Gives a box and all in it their places in the picture, and collects the pieces of edges, which overlap nowhere.
function place(box, x, y, pieces) {
  box.x = x;
  box.y = y;
  if (!box.isLaidOut) return;
  for (const child of contentsOf(box)) place(child, x + child.at.x, y + child.at.y, pieces);
  if (box.kind === "node") return;
  const drawn = new Set();
  for (const edge of box.edges.values()) {
    if (edge.isDirect) {
      pieces.push(piece(edge.from, [startOf(box, edge.a, edge.from), endOf(box, edge.b, edge.from)].flat(), edge.b));
      continue;
    }
    // Pieces of a shared chain are drawn once, from the last bend that is drawn already.
    let above = edge.a;
    for (let i = 0; i <= edge.nBends; i++) {
      const below = i < edge.nBends ? edge.bends[i] : edge.b;
      if (i === edge.nBends || !drawn.has(below)) {
        drawn.add(below);
        pieces.push(piece(edge.from, [...startOf(box, above, edge.from), ...endOf(box, below, edge.from)], below));
      }
      above = below;
    }
  }
}

// The points at which an edge leaves a vertex: from its lower side to the end of its layer.
function startOf(box, v, from) {
  const [top, bottom] = box.bands[v.layer];
  const x = box.x + v.x + offset(v, from, false);
  if (v.box) return [[x, v.box.y + v.box.h], [x, box.y + bottom]];
  if (v.port) return [[x, box.y], [x, box.y + top]];
  return [[x, box.y + bottom]];
}

function endOf(box, v, from) {
  const [top, bottom] = box.bands[v.layer];
  const x = box.x + v.x + offset(v, from, true);
  if (v.box) return [[x, box.y + top], [x, v.box.y]];
  if (v.port) return [[x, box.y + top], [x, box.y + box.h]];
  return [[x, box.y + top], [x, box.y + bottom]];
}

function piece(from, points, end) {
  let [x0, y0, x1, y1] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of points) {
    x0 = Math.min(x0, x);
    y0 = Math.min(y0, y);
    x1 = Math.max(x1, x);
    y1 = Math.max(y1, y);
  }
  const hasArrow = Boolean(end.box) && !(end.box.isLaidOut && end.box.kind !== "node");
  return { from, points, hasArrow, x0, y0, x1, y1 };
}

// Returns the pieces of the way from one box to another, which are in sight in the same graph.
function piecesBetween(from, to) {
  const pieces = [];
  for (const [box, source, target] of route(from, to)) {
    const edge = box.edges.get(edgeKey(from, source, target));
    if (!edge) continue;
    let above = edge.a;
    const bends = edge.isDirect ? [] : edge.bends.slice(0, edge.nBends);
    for (const below of [...bends, edge.b]) {
      pieces.push(piece(from, [...startOf(box, above, from), ...endOf(box, below, from)], below));
      above = below;
    }
  }
  return pieces;
}
