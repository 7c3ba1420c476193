// The data of the page: nodes, graphs and states, and the tree of boxes in which the nodes of a graph stand.

const OPCODES = ["placeholder", "get_attr", "call_function", "call_module", "call_method", "output"];
const GET_ATTR = 1;
const OUTPUT = 5;

class Model {
  constructor(data) {
    if (data.format !== 1) throw new Error("the data are of another version than the page");
    this.data = data;
    this.title = data.strings[data.title];
    this.families = data.families.map(([key, label]) => ({ key, label }));
    this.ops = new Map(data.ops.map(([name, schema, doc]) =>
      [data.strings[name], { schema: data.strings[schema], doc: data.strings[doc] }]));
    this.records = new Array(data.nodes.length);
    this.graphs = new Array(data.graphs.length);
    this.steps = data.steps.map((step) => ({
      ...step,
      name: this.text(step.name),
      notes: step.notes.map((note) => this.text(note)),
      diff: step.diff.map((line) => this.text(line)),
    }));
  }

  text(position) {
    return position === null || position === undefined ? "" : this.data.strings[position];
  }

  frame(position) {
    const [path, type, call, source] = this.data.frames[position];
    return { path: this.text(path), type: this.text(type), call, source: this.text(source) };
  }

  record(position) {
    let record = this.records[position];
    if (!record) {
      const [name, opcode, target, family, type, source, stack, inputs, args, subgraphs, about, by, tags, ext] =
        this.data.nodes[position];
      record = this.records[position] = {
        name: this.text(name),
        opcode,
        target: this.text(target),
        family,
        type: this.text(type),
        source: this.text(source),
        stack: stack === null || stack === undefined ? [] : this.data.stacks[stack].map((frame) => this.frame(frame)),
        inputs: (inputs || []).map((input) => this.text(input)),
        args: (args || []).map(([key, text, hasInput]) => ({ key: this.text(key), text: this.text(text), hasInput })),
        subgraphs: subgraphs || [],
        about: this.text(about),
        by: (by || []).map(([pass, from]) => ({ pass: this.text(pass), from: from.map((name) => this.text(name)) })),
        tags: (tags || []).map((tag) => this.text(tag)),
        ext: (ext || []).map(([key, value]) => ({ key: this.text(key), value: this.text(value) })),
      };
    }
    return record;
  }

  // The nodes of a graph in program order, with the positions of what each uses and of its users.
  graph(position) {
    let graph = this.graphs[position];
    if (!graph) {
      const [name, nodes] = this.data.graphs[position];
      const records = nodes.map((node) => this.record(node));
      const byName = new Map(records.map((record, i) => [record.name, i]));
      const inputs = records.map((record) => record.inputs.map((input) => byName.get(input)));
      const users = records.map(() => []);
      inputs.forEach((list, i) => list.forEach((input) => users[input].push(i)));
      graph = this.graphs[position] = { position, name: this.text(name), records, byName, inputs, users };
    }
    return graph;
  }

  state(k) {
    const [main, marks] = this.data.states[k];
    return {
      main,
      marks: new Map(marks.map(([graph, added, changed]) => [graph, { added: new Set(added), changed: new Set(changed) }])),
    };
  }
}

// A heap of numbers, least first.
class Heap {
  constructor() {
    this.list = [];
  }

  push(x) {
    const list = this.list;
    let i = list.push(x) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (list[parent] <= x) break;
      list[i] = list[parent];
      i = parent;
    }
    list[i] = x;
  }

  pop() {
    const list = this.list;
    const least = list[0];
    const x = list.pop();
    const n = list.length;
    if (n > 0) {
      let i = 0;
      for (;;) {
        let child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && list[child + 1] < list[child]) child += 1;
        if (list[child] >= x) break;
        list[i] = list[child];
        i = child;
      }
      list[i] = x;
    }
    return least;
  }
}

// Returns the nodes in an order in which those of a module stand together as far as their edges allow, and the module of each.
// `isHidden` nodes are left out; the output is last.
function schedule(graph, isHidden) {
  const root = { frame: null, parent: null, children: new Map(), ready: new Heap() };
  const homes = graph.records.map((record) => {
    let home = root;
    for (const frame of record.stack) {
      const key = frame.call + " " + frame.path;
      let child = home.children.get(key);
      if (!child) {
        child = { frame, key, parent: home, children: new Map(), ready: new Heap() };
        home.children.set(key, child);
      }
      home = child;
    }
    return home;
  });
  const n = graph.records.length;
  const waits = graph.inputs.map((inputs) => inputs.filter((input) => !isHidden(input)).length);
  const done = new Uint8Array(n);
  const order = [];
  const offer = (i) => {
    for (let home = homes[i]; home; home = home.parent) home.ready.push(i);
  };
  for (let i = 0; i < n; i++) {
    if (isHidden(i) || graph.records[i].opcode === OUTPUT) done[i] = 1;
    else if (waits[i] === 0) offer(i);
  }
  let here = root;
  while (here) {
    const ready = here.ready;
    while (ready.list.length > 0 && done[ready.list[0]]) ready.pop();
    if (ready.list.length === 0) {
      here = here.parent;
      continue;
    }
    const i = ready.pop();
    done[i] = 1;
    order.push(i);
    here = homes[i];
    for (const user of graph.users[i]) {
      waits[user] -= 1;
      if (waits[user] === 0 && !done[user]) offer(user);
    }
  }
  const output = n - 1;
  if (!isHidden(output)) order.push(output);
  return { order, homes };
}

let nextId = 0;

// A box: a node, the call of a module with what is in it, or a graph.
class Box {
  constructor(kind, key, parent) {
    this.id = nextId++;
    this.kind = kind;
    this.key = key;
    this.parent = parent;
    this.children = [];
    this.count = 0;
    this.isOpen = false;
  }

  // Whether there is something inside that can be shown.
  get canOpen() {
    return this.kind === "module" || this.kind === "graph" || this.record.subgraphs.length > 0;
  }
}

// The tree of boxes of one graph where it stands: the program, or a sub-graph of a node. `prefix` begins the keys of its boxes.
function boxesOf(model, position, prefix, parent, options) {
  const graph = model.graph(position);
  const root = new Box("graph", prefix + "@" + graph.name, parent);
  Object.assign(root, { graph, prefix, title: graph.name, depth: parent ? parent.depth + 1 : 0, root: null });
  root.root = root;
  root.nodes = new Array(graph.records.length).fill(null);
  const isParameter = (i) => graph.records[i].opcode === GET_ATTR;
  const { order, homes } = schedule(graph, isParameter);
  const runs = new Map();
  const open = [{ home: null, box: root }];
  const shown = new Uint8Array(graph.records.length);

  const addNode = (i, box) => {
    const node = new Box("node", prefix + graph.records[i].name, box);
    Object.assign(node, { record: graph.records[i], position: i, root });
    root.nodes[i] = node;
    box.children.push(node);
    shown[i] = 1;
  };
  for (const i of order) {
    const path = [];
    for (let home = homes[i]; home.parent; home = home.parent) path.push(home);
    path.reverse();
    let common = 0;
    while (common < path.length && common + 1 < open.length && open[common + 1].home === path[common]) common += 1;
    open.length = common + 1;
    for (const home of path.slice(common)) {
      const above = open[open.length - 1].box;
      const key = prefix + "module:" + home.frame.path + "#" + home.frame.call;
      const run = runs.get(key) || 0;
      runs.set(key, run + 1);
      const box = new Box("module", run ? key + "~" + run : key, above);
      Object.assign(box, { frame: home.frame, root });
      above.children.push(box);
      open.push({ home, box });
    }
    const box = open[open.length - 1].box;
    if (options.parameters) {
      for (const input of graph.inputs[i]) if (isParameter(input) && !shown[input]) addNode(input, box);
    }
    addNode(i, box);
  }
  if (options.parameters) {
    const unused = [];
    graph.records.forEach((record, i) => {
      if (isParameter(i) && !shown[i]) unused.push(i);
    });
    const output = root.children.pop();
    unused.forEach((i) => addNode(i, root));
    if (output) root.children.push(output);
  }
  tidy(root);
  return root;
}

// Drops boxes around a single one, names the others, and counts nodes.
function tidy(box) {
  const outerPath = box.frame ? box.frame.path : "";
  for (let i = 0; i < box.children.length; i++) {
    let child = box.children[i];
    while (child.kind === "module" && child.children.length === 1) {
      const only = child.children[0];
      if (only.kind === "node") only.frame = child.frame;
      only.parent = box;
      child = box.children[i] = only;
    }
    child.depth = box.depth + 1;
    if (child.kind === "module") {
      const path = child.frame.path;
      const isBelow = outerPath && path.startsWith(outerPath + ".");
      child.title = isBelow ? path.slice(outerPath.length + 1) : path;
      // A bare number says too little.
      if (isBelow && /^[0-9]/.test(child.title)) child.title = outerPath.split(".").pop() + "." + child.title;
      tidy(child);
    } else {
      child.count = 1;
    }
  }
  box.count = box.children.reduce((sum, child) => sum + child.count, 0);
}

// Makes the boxes of the sub-graphs of a node, once.
function innerBoxes(model, node, options) {
  if (!node.inner) {
    const labels = new Set();
    node.inner = node.record.subgraphs.map((position, k) => {
      const name = model.graph(position).name;
      const label = labels.has(name) ? name + "." + k : name;
      labels.add(label);
      const root = boxesOf(model, position, node.key + "/" + label + "/", node, options);
      root.isOpen = true;
      return root;
    });
  }
  return node.inner;
}

// Returns what is directly inside an open box.
function contentsOf(box) {
  return box.kind === "node" ? box.inner || [] : box.children;
}

// Opens boxes from the outside in while no more than `budget` are in sight, unless it is decided; then it is decided.
function openBoxes(model, root, decided, budget, options) {
  let inSight = root.children.length;
  let level = [root];
  root.isOpen = true;
  while (level.length > 0) {
    const next = [];
    for (const box of level) {
      for (const child of contentsOf(box)) {
        if (!child.canOpen) continue;
        let size = child.children.length;
        if (child.kind === "node") {
          size = child.record.subgraphs.reduce((sum, position) => sum + model.data.graphs[position][1].length, 0);
        }
        if (child.kind !== "graph" && !decided.has(child.key)) decided.set(child.key, inSight + size <= budget);
        child.isOpen = child.kind === "graph" || decided.get(child.key);
        if (child.isOpen) {
          if (child.kind === "node") innerBoxes(model, child, options);
          inSight += size;
          next.push(child);
        }
      }
    }
    level = next;
  }
  return inSight;
}
