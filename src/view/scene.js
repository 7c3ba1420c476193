// Draws the boxes and edges that are in view as SVG: with text from near, as plain blocks from afar.

const SVG = "http://www.w3.org/2000/svg";
const TITLE_SIZE = 13;
const LINE_SIZE = 11;
const LINE = 15;
const STRIP = 6;
const NEAR = 0.42;
const MOST_NEAR = 1500;
const MOST_LITERALS = 38;

// Makes an SVG element; what comes from files goes into attributes as values and into text nodes only.
function shape(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function cut(text, max) {
  return text.length > max ? text.slice(0, max - 1) + "…" : text;
}

// What a box says: its title and the lines below.
function describe(model, box, options) {
  if (box.said && box.saidWith === options.parameters) return box.said;
  const said = { title: "", lines: [] };
  if (box.kind === "module") {
    said.title = box.title;
    said.lines.push({ text: box.frame.type, kind: "type" }, { text: plural(box.count, "node"), kind: "muted" });
  } else if (box.kind === "graph") {
    said.title = "@" + box.title;
  } else {
    const record = box.record;
    const name = "%" + record.name;
    if (record.opcode === OUTPUT) said.title = "return";
    else if (record.opcode === 0) said.title = record.name;
    else if (record.opcode === GET_ATTR) said.title = record.target;
    else said.title = record.target;
    if (record.opcode >= 2 && record.opcode !== OUTPUT) said.lines.push({ text: name, kind: "name" });
    if (record.opcode === 3 && record.about) said.lines.push({ text: record.about, kind: "type" });
    if (record.opcode <= GET_ATTR && record.type) said.lines.push({ text: record.type, kind: "muted" });
    if (box.frame && record.opcode !== GET_ATTR) said.lines.push({ text: box.frame.path, kind: "muted" });
    if (record.opcode >= 2 && record.opcode !== OUTPUT) {
      const literals = record.args.filter((arg) => !arg.hasInput && !arg.text.startsWith("@"));
      const text = literals.map((arg) => (arg.key ? arg.key + "=" : "") + arg.text).join(", ");
      if (text) said.lines.push({ text: cut(text, MOST_LITERALS), kind: "code" });
    }
    if (!options.parameters) said.lines.push(...parametersOf(box));
    if (record.subgraphs.length > 0 && !box.isOpen) {
      said.lines.push({ text: plural(record.subgraphs.length, "sub-graph"), kind: "muted" });
    }
  }
  said.title = cut(said.title, 44);
  said.lines.forEach((line) => (line.text = cut(line.text, 44)));
  const widths = said.lines.map((line) => textWidth(line.text, LINE_SIZE));
  const fold = box.canOpen ? 20 : 0;
  said.headerWidth = textWidth(said.title, TITLE_SIZE) + (box.frame ? textWidth(cut(box.frame.type, 44), LINE_SIZE) + 14 : 0) + 64;
  said.w = Math.round(Math.max(56, textWidth(said.title, TITLE_SIZE) + fold, ...widths) + 24 + STRIP);
  said.h = 25 + said.lines.length * LINE + (said.lines.length > 0 ? 5 : 3);
  box.said = said;
  box.saidWith = options.parameters;
  return said;
}

// The parameters that a node reads, where they have no boxes of their own.
function parametersOf(box) {
  const graph = box.root.graph;
  const lines = [];
  for (const input of graph.inputs[box.position]) {
    const parameter = graph.records[input];
    if (parameter.opcode !== GET_ATTR) continue;
    const arg = box.record.args.find((arg) => arg.text === "%" + parameter.name);
    const key = arg && arg.key ? arg.key : parameter.target.split(".").pop();
    lines.push({ text: key + " " + (parameter.type || parameter.about), kind: "parameter" });
  }
  if (lines.length <= 3) return lines;
  return [...lines.slice(0, 2), { text: lines.length - 2 + " more parameters", kind: "parameter" }];
}

function plural(n, word) {
  return n + " " + word + (n === 1 ? "" : "s");
}

const widths = new Map();
let pen = null;

// How wide text is: measured once for each character, since names are many and alphabets small.
function textWidth(text, size) {
  let width = 0;
  for (const character of text) {
    let w = widths.get(character);
    if (w === undefined) {
      if (!pen && typeof document !== "undefined") {
        pen = document.createElement("canvas").getContext("2d");
        if (pen) pen.font = "600 100px " + getComputedStyle(document.body).getPropertyValue("--mono");
      }
      w = pen ? pen.measureText(character).width / 100 : 0.61;
      widths.set(character, w);
    }
    width += w;
  }
  return width * size;
}

class Scene {
  constructor(svg, model, options) {
    this.svg = svg;
    this.model = model;
    this.options = options;
    this.camera = { x: 0, y: 0, s: 1 };
    this.world = shape("g", {});
    this.under = shape("g", { class: "groups" });
    this.edges = shape("g", { class: "edges" });
    this.over = shape("g", { class: "ways" });
    this.boxes = shape("g", { class: "boxes" });
    this.labels = shape("g", { class: "labels", "aria-hidden": "true" });
    this.outlines = shape("g", { class: "outlines", "aria-hidden": "true" });
    this.world.append(this.under, this.edges, this.over, this.boxes, this.labels, this.outlines);
    svg.append(this.world);
    this.selected = null;
    this.family = null;
    this.matches = [];
    this.cone = [];
    this.marks = new Map();
  }

  // Lays out a tree of boxes.
  show(root, marks) {
    this.root = root;
    this.marks = marks;
    this.pieces = layoutAll(root, (box) => {
      const said = describe(this.model, box, this.options);
      return box.isOpen && contentsOf(box).length > 0 ? { w: said.headerWidth, h: 0 } : said;
    });
    this.list = [];
    const collect = (box) => {
      if (box !== root) this.list.push(box);
      if (box.isLaidOut) contentsOf(box).forEach(collect);
    };
    collect(root);
    this.drawn = null;
  }

  get size() {
    return { w: this.svg.clientWidth || 800, h: this.svg.clientHeight || 600 };
  }

  // Shows everything, or where that would be too small to read, the beginning.
  fit(everything) {
    const { w, h } = this.size;
    const s = Math.min((w - 40) / this.root.w, (h - 40) / this.root.h, 1.25);
    if (everything || s >= 0.5) {
      this.camera = { s, x: (w - this.root.w * s) / 2, y: (h - this.root.h * s) / 2 };
    } else {
      const near = Math.min(Math.max((w - 40) / this.root.w, 0.5), 0.9);
      const first = this.list.find((box) => box.kind === "node") || this.root;
      const middle = this.root.w * near <= w - 40 ? this.root.w / 2 : first.x + first.w / 2;
      this.camera = { s: near, x: w / 2 - middle * near, y: 16 };
    }
    this.draw();
  }

  zoom(factor, at) {
    const camera = this.camera;
    const s = Math.min(4, Math.max(0.004, camera.s * factor));
    const { w, h } = this.size;
    const { x, y } = at || { x: w / 2, y: h / 2 };
    this.camera = { s, x: x - ((x - camera.x) * s) / camera.s, y: y - ((y - camera.y) * s) / camera.s };
    this.draw();
  }

  pan(dx, dy) {
    this.camera = { ...this.camera, x: this.camera.x + dx, y: this.camera.y + dy };
    this.draw();
  }

  // Brings a box to the middle, large enough to read.
  centre(box) {
    const { w, h } = this.size;
    const isGroup = box.isLaidOut;
    let s = Math.max(this.camera.s, 0.8);
    if (isGroup) s = Math.min(1.1, (w - 40) / box.w, (h - 40) / box.h);
    this.camera = { s, x: w / 2 - (box.x + box.w / 2) * s, y: h / 2 - (box.y + box.h / 2) * s };
    this.draw();
  }

  // Returns the innermost box at a place of the screen.
  boxAt(x, y) {
    const { camera } = this;
    const [px, py] = [(x - camera.x) / camera.s, (y - camera.y) / camera.s];
    const inside = (box) => px >= box.x && px <= box.x + box.w && py >= box.y && py <= box.y + box.h;
    let found = null;
    let box = this.root;
    while (box && box.isLaidOut) {
      box = contentsOf(box).find(inside);
      if (box) found = box;
    }
    return found;
  }

  // Returns whether a place of the screen is on the mark that folds a box.
  isFold(box, x, y) {
    const { camera } = this;
    const dx = (x - camera.x) / camera.s - box.x;
    const dy = (y - camera.y) / camera.s - box.y;
    return box.canOpen && camera.s >= NEAR && dy < HEADER && (box.isLaidOut ? dx < 26 : dx > box.w - 26);
  }

  redraw() {
    this.drawn = null;
    this.draw();
  }

  draw() {
    const { camera } = this;
    const { w, h } = this.size;
    this.world.setAttribute("transform", `translate(${camera.x.toFixed(2)} ${camera.y.toFixed(2)}) scale(${camera.s})`);
    const view = { x0: -camera.x / camera.s, y0: -camera.y / camera.s };
    view.x1 = view.x0 + w / camera.s;
    view.y1 = view.y0 + h / camera.s;
    if (this.onmove) this.onmove(view);
    const last = this.drawn;
    const wantsNear = camera.s >= NEAR;
    const covers = last && last.x0 <= view.x0 && last.y0 <= view.y0 && last.x1 >= view.x1 && last.y1 >= view.y1;
    const scaleKept = last && (last.isNear ? camera.s >= NEAR && last.s / camera.s < 2 : Math.abs(Math.log(camera.s / last.s)) < 0.2);
    if (covers && scaleKept && last.wantsNear === wantsNear) return;
    const [mx, my] = [(view.x1 - view.x0) * 0.4, (view.y1 - view.y0) * 0.4];
    const area = { x0: view.x0 - mx, y0: view.y0 - my, x1: view.x1 + mx, y1: view.y1 + my };
    const meets = (x0, y0, x1, y1) => x1 >= area.x0 && x0 <= area.x1 && y1 >= area.y0 && y0 <= area.y1;
    const shown = this.list.filter((box) => meets(box.x, box.y, box.x + box.w, box.y + box.h));
    const isNear = wantsNear && shown.length <= MOST_NEAR;
    this.drawn = { ...area, s: camera.s, isNear, wantsNear };
    this.svg.classList.toggle("far", !isNear);
    this.drawEdges(this.pieces.filter((p) => meets(p.x0, p.y0, p.x1, p.y1)), isNear);
    this.under.replaceChildren(...shown.filter((box) => box.isLaidOut).map((box) => this.group(box, isNear)));
    const closed = shown.filter((box) => !box.isLaidOut);
    this.labels.replaceChildren();
    if (isNear) {
      this.boxes.replaceChildren(...closed.map((box) => this.card(box)));
      if (camera.s >= 0.6) this.labels.append(...this.edgeLabels(shown));
    } else {
      this.boxes.replaceChildren(...this.blocks(closed));
      this.labels.append(...this.farLabels(shown));
    }
    this.svg.dataset.drawn = String(shown.length);
    this.drawOutlines();
  }

  drawEdges(pieces, isNear) {
    const lines = [];
    const arrows = [];
    for (const p of pieces) {
      lines.push(pathOf(p.points));
      if (isNear && p.hasArrow) arrows.push(arrowOf(p.points));
    }
    this.edges.replaceChildren(
      shape("path", { class: "edge", d: lines.join("") }),
      shape("path", { class: "arrow", d: arrows.join("") }),
    );
  }

  isDim(box) {
    return this.family !== null && !(box.kind === "node" && box.record.family === this.family);
  }

  // Whether the pass that is looked at made a node, or changed it or what is in a module.
  mark(box) {
    if (box.kind !== "node") return box.children.some((child) => this.mark(child)) ? "changed" : "";
    const marks = this.marks.get(box.root.graph.position);
    if (!marks) return "";
    return marks.added.has(box.position) ? "new" : marks.changed.has(box.position) ? "changed" : "";
  }

  label(box) {
    if (box.kind === "module") return `module ${box.frame.path}, ${box.frame.type}, ${plural(box.count, "node")}`;
    if (box.kind === "graph") return `sub-graph ${box.title}, ${plural(box.count, "node")}`;
    const { name, opcode, target, type } = box.record;
    return `${opcode < 2 || opcode === OUTPUT ? OPCODES[opcode] : target} %${name}${type ? ", " + type : ""}`;
  }

  // An open box: its frame and header.
  group(box, isNear) {
    const said = describe(this.model, box, this.options);
    const owner = box.kind === "graph" ? box.parent : box;
    const family = owner.kind === "node" ? this.model.families[owner.record.family].key : "module";
    const attributes = {
      class: "group " + box.kind,
      id: "box-" + box.id,
      "data-key": box.key,
      role: "group",
      "aria-label": this.label(box),
      style: `--c: var(--f-${family})`,
    };
    const g = shape("g", attributes,
      shape("rect", { class: "frame" + (box.depth % 2 ? " odd" : ""), x: box.x, y: box.y, width: box.w, height: box.h, rx: 9 }));
    if (isNear) {
      const title = shape("text", { class: "grouptitle", x: box.x + 26, y: box.y + 19 }, shape("tspan", {}, said.title));
      const type = box.kind === "module" ? box.frame.type : box.kind === "node" ? "%" + box.record.name : "";
      if (type) title.append(shape("tspan", { class: "grouptype", dx: 8 }, cut(type, 44)));
      const wide = textWidth(said.title, TITLE_SIZE) + textWidth(cut(type, 44), LINE_SIZE) + 44;
      g.append(shape("rect", { class: "pill", x: box.x + 4, y: box.y + 4, width: Math.min(wide, box.w - 8), height: 22, rx: 6 }), title);
      if (box.canOpen && box.kind !== "graph") {
        g.append(shape("path", { class: "fold", d: `M${box.x + 11} ${box.y + 12}l5 6 5 -6z` }));
      }
    }
    return g;
  }

  // A box that is not open, with its text.
  card(box) {
    const said = describe(this.model, box, this.options);
    const family = box.kind === "node" ? this.model.families[box.record.family].key : "module";
    const mark = this.mark(box);
    const { x, y, w, h } = box;
    const attributes = {
      class: `box ${box.kind}${this.isDim(box) ? " dim" : ""}${mark ? " " + mark : ""}`,
      id: "box-" + box.id,
      "data-key": box.key,
      role: "img",
      "aria-label": this.label(box) + (mark ? ", " + mark : ""),
      style: `--c: var(--f-${family})`,
    };
    const hint = [this.label(box), box.kind === "node" ? box.record.source : "", box.frame ? box.frame.path : ""];
    const g = shape("g", attributes, shape("title", {}, hint.filter(Boolean).join("\n")));
    if (box.canOpen) g.append(shape("rect", { class: "behind", x: x + 4, y: y + 4, width: w, height: h, rx: 7 }));
    g.append(shape("rect", { class: "card", x, y, width: w, height: h, rx: 7 }));
    if (box.kind === "module") g.append(...this.bands(box));
    else g.append(shape("path", { class: "strip", d: `M${x + STRIP} ${y}h-1a5 7 0 0 0 -5 7v${h - 14}a5 7 0 0 0 5 7h1z` }));
    g.append(shape("text", { class: "title", x: x + STRIP + 10, y: y + 18 }, said.title));
    said.lines.forEach((line, i) => {
      g.append(shape("text", { class: "line " + line.kind, x: x + STRIP + 10, y: y + 34 + i * LINE }, line.text));
    });
    if (box.canOpen) g.append(shape("path", { class: "fold", d: `M${x + w - 17} ${y + 8}l6 5 -6 5z` }));
    if (mark) g.append(shape("circle", { class: "mark", cx: x + w, cy: y, r: 5 }));
    return g;
  }

  // The families of what is in a closed module, as a striped edge.
  bands(box) {
    const counts = this.familiesIn(box);
    let total = 0;
    counts.forEach((n) => (total += n));
    const [top, height] = [box.y + 5, box.h - 10];
    let y = top;
    const bands = [];
    for (const [family, n] of [...counts].sort((a, b) => b[1] - a[1])) {
      const h = (height * n) / total;
      bands.push(shape("rect", { class: "strip", style: `--c: var(--f-${this.model.families[family].key})`, x: box.x + 3, y, width: 4, height: h }));
      y += h;
    }
    return bands;
  }

  familiesIn(box) {
    const counts = new Map();
    const walk = (box) => {
      if (box.kind === "node") counts.set(box.record.family, (counts.get(box.record.family) || 0) + 1);
      box.children.forEach(walk);
    };
    walk(box);
    return counts;
  }

  // Closed boxes from afar: one path for each family.
  blocks(boxes) {
    const paths = new Map();
    for (const box of boxes) {
      const family = box.kind === "node" ? this.model.families[box.record.family].key : "module";
      const key = family + (this.isDim(box) ? " dim" : "");
      if (!paths.has(key)) paths.set(key, []);
      paths.get(key).push(`M${box.x.toFixed(0)} ${box.y.toFixed(0)}h${box.w}v${box.h}h${-box.w}z`);
    }
    return [...paths].map(([key, list]) => {
      const [family, dim] = key.split(" ");
      return shape("path", { class: "block" + (dim ? " dim" : ""), style: `--c: var(--f-${family})`, d: list.join("") });
    });
  }

  // Titles from afar, as large as they must be to be read, where there is room for them.
  farLabels(shown) {
    const size = 12 / this.camera.s;
    const labels = [];
    for (const box of shown) {
      if (box.kind === "graph" || (box.kind === "node" && !box.isLaidOut)) continue;
      const said = describe(this.model, box, this.options);
      const title = box.kind === "node" ? box.record.target : box.title;
      if (textWidth(title, size) > box.w || box.h < size * (box.isLaidOut ? 3 : 1.2)) continue;
      const y = box.isLaidOut ? box.y + size * 1.15 : box.y + box.h / 2 + size * 0.35;
      labels.push(shape("text", { class: "far", "font-size": size, x: box.x + box.w / 2, y }, cut(title || said.title, 60)));
      if (labels.length > 400) break;
    }
    return labels;
  }

  // The type of what leaves a box, beside the beginning of its edge.
  edgeLabels(shown) {
    const labels = [];
    for (const box of shown) {
      if (box.kind !== "node" || box.record.opcode <= GET_ATTR || !box.record.type) continue;
      if (box.root.graph.users[box.position].length === 0) continue;
      labels.push(shape("text", { class: "type", x: box.x + box.w / 2 + 6, y: box.y + box.h + 12 }, cut(box.record.type, 40)));
    }
    return labels;
  }

  drawOutlines() {
    const outline = (box, kind) =>
      shape("rect", { class: "outline " + kind, x: box.x - 3, y: box.y - 3, width: box.w + 6, height: box.h + 6, rx: 10 });
    const area = this.drawn;
    const inArea = (box) => area && box.x + box.w >= area.x0 && box.x <= area.x1 && box.y + box.h >= area.y0 && box.y <= area.y1;
    const outlines = [];
    for (const box of new Set(this.cone)) if (inArea(box)) outlines.push(outline(box, "cone"));
    for (const box of new Set(this.matches)) if (inArea(box) && box !== this.selected) outlines.push(outline(box, "match"));
    const ways = [];
    const way = (pieces, kind) => {
      if (pieces.length === 0) return;
      ways.push(shape("path", { class: "way " + kind, d: pieces.map((p) => pathOf(p.points)).join("") }));
      ways.push(shape("path", { class: "wayarrow " + kind, d: pieces.filter((p) => p.hasArrow).map((p) => arrowOf(p.points)).join("") }));
    };
    const box = this.selected;
    if (box && this.list.includes(box)) {
      const { inputs, users } = this.near(box);
      way([...inputs].flatMap((other) => piecesBetween(other, box)), "input");
      way([...users].flatMap((other) => piecesBetween(box, other)), "user");
      inputs.forEach((other) => outlines.push(outline(other, "input")));
      users.forEach((other) => outlines.push(outline(other, "user")));
      outlines.push(outline(box, "selected"));
    }
    this.over.replaceChildren(...ways);
    this.outlines.replaceChildren(...outlines);
  }

  // The boxes in sight from and to which edges of a box go.
  near(box) {
    const [inputs, users] = [new Set(), new Set()];
    if (box.kind === "graph") return { inputs, users };
    const { graph, nodes } = box.root;
    const inside = [];
    const walk = (box) => {
      if (box.kind === "node") inside.push(box);
      else box.children.forEach(walk);
    };
    walk(box);
    // The ways of an open module begin and end at the boxes in it.
    if (box.kind === "module" && box.isLaidOut) return { inputs, users };
    for (const node of inside) {
      for (const i of graph.inputs[node.position]) inputs.add(inSight(nodes[i]));
      for (const i of graph.users[node.position]) users.add(inSight(nodes[i]));
    }
    for (const set of [inputs, users]) {
      set.delete(null);
      set.delete(box);
    }
    return { inputs, users };
  }
}

// Vertical parts are straight, the others curves that leave and arrive vertically.
function pathOf(points) {
  let [x, y] = points[0];
  let d = `M${x.toFixed(1)} ${y.toFixed(1)}`;
  for (const [toX, toY] of points.slice(1)) {
    if (Math.abs(toX - x) < 0.05) {
      d += `V${toY.toFixed(1)}`;
    } else {
      const middle = ((y + toY) / 2).toFixed(1);
      d += `C${x.toFixed(1)} ${middle} ${toX.toFixed(1)} ${middle} ${toX.toFixed(1)} ${toY.toFixed(1)}`;
    }
    [x, y] = [toX, toY];
  }
  return d;
}

function arrowOf(points) {
  const [x, y] = points[points.length - 1];
  return `M${x.toFixed(1)} ${y.toFixed(1)}l-3.6 -7.5 3.6 1.7 3.6 -1.7z`;
}
