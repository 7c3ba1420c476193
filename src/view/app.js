// The page around the graph: outline, search, details, steps of passes, keys, links. Text from files only ever becomes text.

const LOOK = 110;
const MOST_OPEN = 6000;
const MOST_ROWS = 2000;
const MOST_RESULTS = 300;

const byId = (id) => document.getElementById(id);

// Makes an element. Children that are strings become text nodes.
function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

class App {
  constructor(model) {
    this.model = model;
    this.options = { parameters: false };
    this.decided = new Map();
    this.step = 0;
    this.selected = null;
    this.indexes = new Map();
    this.scene = new Scene(byId("graph"), model, this.options);
    this.scene.onmove = (view) => this.drawMap(view);
    byId("title").textContent = model.title;
    this.steps();
    this.controls();
    this.pointer();
    this.keys();
    window.addEventListener("resize", () => this.scene.redraw());
    window.addEventListener("hashchange", () => this.follow());
    this.load(0);
    this.scene.fit(false);
    this.follow();
  }

  // The state after the present step.
  get stateIndex() {
    return this.step === 0 ? 0 : this.model.steps[this.step - 1].state;
  }

  // Reads the graph of the present step, and restores what was selected in the one before.
  load(step) {
    this.step = step;
    this.state = this.model.state(this.stateIndex);
    this.rebuild();
    const { records } = this.root.graph;
    const parameters = records.filter((record) => record.opcode === GET_ATTR).length;
    byId("summary").textContent = plural(records.length, "node") + (parameters ? `, ${parameters} of them parameters` : "");
    this.legend();
    this.showSteps();
  }

  rebuild() {
    const key = this.selected && this.selected.key;
    this.root = boxesOf(this.model, this.state.main, "", null, this.options);
    openBoxes(this.model, this.root, this.decided, LOOK, this.options);
    this.show();
    this.outline();
    this.selected = null;
    const box = key ? this.find(key) : null;
    this.select(box, { quiet: true });
  }

  show() {
    const marks = this.step > 0 && this.model.steps[this.step - 1].state !== this.stateBefore() ? this.state.marks : new Map();
    this.scene.show(this.root, marks);
    this.scene.selected = this.selected;
    this.search(byId("search").value, true);
    this.map = null;
    byId("graph").dataset.boxes = String(this.scene.list.length);
  }

  stateBefore() {
    return this.step <= 1 ? 0 : this.model.steps[this.step - 2].state;
  }

  // Lays out again while the box stays where it is on the screen.
  refold(box) {
    const { camera } = this.scene;
    const anchor = box || this.root;
    const [sx, sy] = [anchor.x * camera.s + camera.x, anchor.y * camera.s + camera.y];
    openBoxes(this.model, this.root, this.decided, LOOK, this.options);
    this.show();
    const seen = this.scene.list.includes(anchor) ? anchor : this.root;
    this.scene.camera = { s: camera.s, x: sx - seen.x * camera.s, y: sy - seen.y * camera.s };
    this.scene.redraw();
    this.showScale();
  }

  toggle(box) {
    if (!box.canOpen || box.kind === "graph") return;
    this.decided.set(box.key, !box.isOpen);
    if (box.kind === "node" && !box.isOpen) innerBoxes(this.model, box, this.options);
    this.refold(box);
    this.select(box, { quiet: true });
    this.say((box.isOpen ? "unfolded " : "folded ") + this.scene.label(box));
  }

  unfoldAll(isOpen) {
    this.decided = new Map();
    const n = openBoxes(this.model, this.root, this.decided, isOpen ? MOST_OPEN : 0, this.options);
    this.show();
    this.scene.fit(true);
    this.select(this.selected, { quiet: true });
    this.say(isOpen && n >= MOST_OPEN ? "unfolded as much as can be shown" : isOpen ? "unfolded all" : "folded all");
  }

  // Finds a box by its key: names of nodes and sub-graphs from the outside in, or the key of a module.
  find(key) {
    const parts = key.split("/");
    let root = this.root;
    for (let i = 0; ; i += 2) {
      const prefix = root.prefix;
      if (key.startsWith(prefix + "module:")) return this.findModule(root, key);
      const position = root.graph.byName.get(parts[i]);
      if (position === undefined) return null;
      const node = root.nodes[position];
      if (i + 1 >= parts.length) {
        if (node || root.graph.records[position].opcode !== GET_ATTR || this.options.parameters) return node;
        this.setParameters(true);
        return this.find(key);
      }
      if (!node) return null;
      const inner = innerBoxes(this.model, node, this.options).find((inner) => inner.prefix === `${node.key}/${parts[i + 1]}/`);
      if (!inner) return null;
      if (i + 2 >= parts.length || parts[i + 2] === "") return inner;
      root = inner;
    }
  }

  findModule(box, key) {
    for (const child of box.children) {
      if (child.key === key) return child;
      const found = child.kind === "module" ? this.findModule(child, key) : null;
      if (found) return found;
    }
    return null;
  }

  // Unfolds what a box is in.
  reveal(box) {
    let changed = false;
    for (let above = box.parent; above && above !== this.root; above = above.parent) {
      if (!above.isOpen && above.kind !== "graph") {
        this.decided.set(above.key, true);
        changed = true;
      }
    }
    if (changed) this.refold(null);
  }

  // Selects a box and brings it into the middle.
  jump(key) {
    const box = this.find(key);
    if (!box) {
      this.say(`there is no ${key} in this graph`);
      return false;
    }
    this.reveal(box);
    this.select(box, {});
    this.scene.centre(box);
    this.showScale();
    return true;
  }

  select(box, { quiet }) {
    this.selected = box && box !== this.root ? box : null;
    this.scene.selected = this.selected;
    this.scene.cone = [];
    this.scene.drawOutlines();
    this.details();
    const svg = byId("graph");
    if (this.selected) svg.setAttribute("aria-activedescendant", "box-" + this.selected.id);
    else svg.removeAttribute("aria-activedescendant");
    this.markRow();
    if (quiet) return;
    this.link();
    if (this.selected) this.say(this.scene.label(this.selected));
  }

  // Writes what is selected into the address, so that it can be shared.
  link() {
    const parts = [];
    if (this.selected) parts.push("node=" + encodeURIComponent(this.selected.key));
    if (this.step > 0) parts.push("step=" + this.step);
    const hash = parts.length > 0 ? "#" + parts.join("&") : "";
    if (location.hash === hash || (hash === "" && location.hash === "")) return;
    try {
      history.replaceState(null, "", hash || location.pathname + location.search);
    } catch {
      location.hash = hash;
    }
  }

  // Goes where the address says: #node=NAME&step=N.
  follow() {
    const wanted = new URLSearchParams(location.hash.slice(1));
    const step = Number(wanted.get("step") || 0);
    if (Number.isInteger(step) && step >= 0 && step <= this.model.steps.length && step !== this.step) this.goTo(step);
    const key = wanted.get("node");
    if (key && !(this.selected && this.selected.key === key)) this.jump(key);
  }

  say(text) {
    byId("live").textContent = text;
  }

  setParameters(shown) {
    this.options.parameters = shown;
    byId("parameters").setAttribute("aria-pressed", String(shown));
    this.rebuild();
    this.scene.redraw();
  }

  // ---- the outline ----

  outline() {
    const tree = byId("outline");
    tree.replaceChildren(...this.rows(this.root, 1));
  }

  familyOf(box) {
    return box.kind === "node" ? this.model.families[box.record.family].key : box.kind === "graph" ? "control" : "module";
  }

  row(box, level) {
    const hasInside = box.kind === "node" ? box.record.subgraphs.length > 0 : true;
    const said = describe(this.model, box, this.options);
    const more = box.kind === "module" ? box.frame.type : box.kind === "graph" ? plural(box.count, "node") : this.subtitle(box.record);
    const row = el("div", {
      class: "row " + box.kind,
      role: "treeitem",
      tabindex: -1,
      "aria-level": level,
      "aria-expanded": hasInside ? "false" : null,
      "data-key": box.key,
      style: `padding-left: ${6 + (level - 1) * 13}px; --c: var(--f-${this.familyOf(box)})`,
      title: said.title + "  " + more,
    },
    el("span", { class: "twist", "aria-hidden": "true" }, hasInside ? "▸" : ""),
    el("span", { class: "dot" }),
    el("span", { class: "name" }, said.title),
    el("span", { class: "more" }, more));
    row.box = box;
    row.level = level;
    return row;
  }

  subtitle(record) {
    return record.opcode === 0 || record.opcode === GET_ATTR ? record.type : record.opcode === OUTPUT ? "" : "%" + record.name;
  }

  rows(box, level) {
    const inside = box.kind === "node" ? innerBoxes(this.model, box, this.options) : box.children;
    const rows = inside.slice(0, MOST_ROWS).map((child) => this.row(child, level));
    if (inside.length > MOST_ROWS) rows.push(el("div", { class: "hint" }, `${inside.length - MOST_ROWS} more; search finds them`));
    return rows;
  }

  twist(row, open) {
    if (!row.hasAttribute("aria-expanded")) return;
    const isOpen = row.getAttribute("aria-expanded") === "true";
    if (isOpen === open) return;
    row.setAttribute("aria-expanded", String(open));
    row.firstChild.textContent = open ? "▾" : "▸";
    if (open) {
      row.after(...this.rows(row.box, row.level + 1));
    } else {
      while (row.nextElementSibling && row.nextElementSibling.level > row.level) row.nextElementSibling.remove();
    }
  }

  // Marks the row of what is selected, and unfolds the outline down to it.
  markRow() {
    const tree = byId("outline");
    const rowOf = (box) => [...tree.children].find((row) => row.box === box);
    tree.querySelectorAll('[aria-selected="true"]').forEach((row) => row.removeAttribute("aria-selected"));
    tree.querySelectorAll('[tabindex="0"]').forEach((row) => row.setAttribute("tabindex", "-1"));
    let row = null;
    if (this.selected) {
      const path = [];
      for (let box = this.selected; box && box !== this.root; box = box.parent) path.unshift(box);
      for (const box of path) {
        row = rowOf(box);
        if (!row) break;
        if (box !== this.selected) this.twist(row, true);
      }
    }
    if (row) {
      row.setAttribute("aria-selected", "true");
      if (!tree.hidden) row.scrollIntoView({ block: "nearest" });
    }
    const focus = row || tree.firstElementChild;
    if (focus) focus.setAttribute("tabindex", "0");
  }

  outlineEvents() {
    const tree = byId("outline");
    tree.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (!row) return;
      if (event.target.classList.contains("twist")) this.twist(row, row.getAttribute("aria-expanded") !== "true");
      else this.jump(row.box.key);
    });
    tree.addEventListener("keydown", (event) => {
      const row = event.target.closest(".row");
      if (!row) return;
      const move = (to) => {
        if (!to || !to.box) return;
        tree.querySelectorAll('[tabindex="0"]').forEach((row) => row.setAttribute("tabindex", "-1"));
        to.setAttribute("tabindex", "0");
        to.focus();
      };
      const isOpen = row.getAttribute("aria-expanded") === "true";
      const actions = {
        ArrowDown: () => move(row.nextElementSibling),
        ArrowUp: () => move(row.previousElementSibling),
        Home: () => move(tree.firstElementChild),
        ArrowRight: () => (isOpen ? move(row.nextElementSibling) : this.twist(row, true)),
        ArrowLeft: () => {
          if (isOpen) return this.twist(row, false);
          let above = row.previousElementSibling;
          while (above && above.level >= row.level) above = above.previousElementSibling;
          return move(above);
        },
        Enter: () => this.jump(row.box.key),
        " ": () => this.jump(row.box.key),
      };
      if (!Object.hasOwn(actions, event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      actions[event.key]();
    });
  }

  // ---- search ----

  // Every node of the program and its sub-graphs, with its key and the text that is searched.
  index() {
    let index = this.indexes.get(this.stateIndex);
    if (index) return index;
    index = [];
    const seen = new Set();
    const walk = (position, prefix) => {
      if (seen.has(position) || index.length > 200000) return;
      seen.add(position);
      const graph = this.model.graph(position);
      graph.records.forEach((record) => {
        const modules = record.stack.map((frame) => frame.path + " " + frame.type).join(" ");
        const entry = {
          key: prefix + record.name,
          record,
          fields: {
            name: "%" + record.name.toLowerCase(),
            op: record.target.toLowerCase(),
            module: (modules + " " + record.about).toLowerCase(),
            type: record.type.toLowerCase(),
            tag: record.tags.join(" ").toLowerCase(),
            source: record.source.toLowerCase(),
            family: (this.model.families[record.family].label + " " + OPCODES[record.opcode]).toLowerCase(),
          },
        };
        entry.all = Object.values(entry.fields).join("\n");
        index.push(entry);
        const labels = new Set();
        record.subgraphs.forEach((inner, k) => {
          const name = this.model.graph(inner).name;
          const label = labels.has(name) ? name + "." + k : name;
          labels.add(label);
          walk(inner, prefix + record.name + "/" + label + "/");
        });
      });
    };
    walk(this.state.main, "");
    this.indexes.set(this.stateIndex, index);
    return index;
  }

  matching(query) {
    const terms = query.toLowerCase().split(/\s+/).filter(Boolean).map((term) => {
      const [, field, value] = /^([a-z]+):(.+)$/.exec(term) || [];
      const name = { path: "module", target: "op", file: "source", shape: "type" }[field] || field;
      return name && ["name", "op", "module", "type", "tag", "source", "family"].includes(name)
        ? { field: name, value }
        : { field: "all", value: term };
    });
    const matches = this.index().filter((entry) =>
      terms.every(({ field, value }) => (field === "all" ? entry.all : entry.fields[field]).includes(value)));
    const word = terms.map((term) => term.value).join(" ");
    const rank = ({ record }) => {
      const [name, target] = [record.name.toLowerCase(), record.target.toLowerCase()];
      return name === word || "%" + name === word ? 0 : target === word ? 1 : name.startsWith(word) ? 2 : target.startsWith(word) ? 3 : 4;
    };
    return matches.map((entry, i) => [rank(entry), i, entry]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).map(([, , entry]) => entry);
  }

  search(query, quiet) {
    const results = byId("results");
    const isOn = query.trim() !== "";
    const found = isOn ? this.matching(query) : [];
    this.scene.matches = [];
    for (const entry of found) {
      if (entry.key.includes("/")) continue;
      const box = inSight(this.root.nodes[this.root.graph.byName.get(entry.record.name)]);
      if (box) this.scene.matches.push(box);
    }
    if (!quiet || isOn) {
      results.hidden = !isOn;
      byId("search").setAttribute("aria-expanded", String(isOn));
      const steps = byId("tab-steps").getAttribute("aria-selected") === "true";
      byId("outline").hidden = isOn || steps;
      byId("steps").hidden = isOn || !steps;
      const rows = found.slice(0, MOST_RESULTS).map((entry, i) => this.result(entry, i));
      const count = found.length > MOST_RESULTS ? `the first ${MOST_RESULTS} of ${found.length}` : plural(found.length, "node");
      results.replaceChildren(el("div", { class: "hint" }, count), ...rows);
    }
    if (!quiet) {
      this.current = -1;
      this.scene.drawOutlines();
      this.say(isOn ? plural(found.length, "result") : "");
    }
  }

  result(entry, i) {
    const { record, key } = entry;
    const family = this.model.families[record.family].key;
    const named = record.opcode < 2 || record.opcode === OUTPUT;
    return el("div", {
      class: "row", role: "option", id: "result-" + i, "data-key": key, style: `--c: var(--f-${family})`,
      title: [key, record.type, record.stack.map((frame) => frame.path).pop() || ""].filter(Boolean).join("\n"),
      onclick: () => this.jump(key),
    },
    el("span", { class: "dot" }),
    el("span", { class: "name" }, named ? "%" + record.name : record.target),
    el("span", { class: "more" }, named ? record.type || record.target : "%" + key));
  }

  moveResult(step) {
    const rows = [...byId("results").querySelectorAll(".row")];
    if (rows.length === 0) return;
    this.current = (Math.max(this.current, step < 0 ? 0 : -1) + step + rows.length) % rows.length;
    rows.forEach((row, i) => {
      row.classList.toggle("current", i === this.current);
      row.setAttribute("aria-selected", String(i === this.current));
    });
    rows[this.current].scrollIntoView({ block: "nearest" });
    byId("search").setAttribute("aria-activedescendant", rows[this.current].id);
  }

  // ---- details ----

  // Text in which the names of nodes are links.
  linked(text, names, prefix) {
    const parts = [];
    let last = 0;
    for (const match of text.matchAll(/%([A-Za-z_][A-Za-z0-9_]*)/g)) {
      if (!names.has(match[1])) continue;
      parts.push(text.slice(last, match.index), this.ref(prefix + match[1], match[0]));
      last = match.index + match[0].length;
    }
    parts.push(text.slice(last));
    return parts;
  }

  ref(key, text) {
    return el("button", { class: "ref", onclick: () => this.jump(key) }, text);
  }

  details() {
    const panel = byId("right");
    const box = this.selected;
    panel.replaceChildren(...(!box ? this.ofProgram() : box.kind === "node" ? this.ofNode(box) : this.ofGroup(box)));
    panel.scrollTop = 0;
  }

  chip(text, family, kind) {
    return el("span", { class: "chip " + (kind || ""), style: family ? `--c: var(--f-${family})` : null }, family ? el("i") : null, text);
  }

  ofNode(box) {
    const { record } = box;
    const { graph, prefix } = box.root;
    const family = this.model.families[record.family];
    const mark = this.scene.mark(box);
    const out = [
      el("h2", {}, "%" + record.name),
      el("div", { class: "chips" },
        this.chip(family.label, family.key),
        this.chip(OPCODES[record.opcode]),
        mark ? this.chip(mark === "new" ? "made by this pass" : "changed by this pass", null, mark) : null,
        ...record.tags.map((tag) => this.chip("tag " + tag))),
    ];
    const section = (title, ...content) => out.push(el("h3", {}, title), ...content);
    if (record.opcode >= GET_ATTR && record.opcode !== OUTPUT) section("Target", el("p", { class: "code" }, record.target));
    if (record.about) out.push(el("p", { class: "code doc" }, record.about));
    if (record.type) section("Type", el("p", { class: "code" }, record.type));
    if (record.args.length > 0) {
      const names = new Set(record.inputs);
      section("Arguments", el("table", {}, ...record.args.map((arg, i) =>
        el("tr", {}, el("td", { class: "code" }, arg.key || String(i)), el("td", { class: "code" }, ...this.linked(arg.text, names, prefix))))));
    }
    const list = (positions) => {
      const rows = positions.slice(0, 100).map((i) => {
        const other = graph.records[i];
        return el("li", {}, this.ref(prefix + other.name, "%" + other.name), el("span", { class: "t" }, other.opcode === OUTPUT ? "return" : other.type || other.target));
      });
      if (positions.length > 100) rows.push(el("li", {}, `and ${positions.length - 100} more`));
      return el("ul", {}, ...rows);
    };
    const [inputs, users] = [graph.inputs[box.position], graph.users[box.position]];
    if (inputs.length > 0) section(`Inputs (${inputs.length})`, list(inputs));
    if (record.opcode !== OUTPUT) section(`Users (${users.length})`, users.length > 0 ? list(users) : el("p", { class: "doc" }, "nothing uses it"));
    if (record.subgraphs.length > 0) {
      section("Sub-graphs", el("ul", {}, ...innerBoxes(this.model, box, this.options).map((inner) =>
        el("li", {}, this.ref(inner.prefix, "@" + inner.title), el("span", { class: "t" }, plural(inner.count, "node"))))));
    }
    if (record.source) section("Source", el("p", { class: "code" }, record.source));
    if (record.stack.length > 0) {
      section("Modules", el("table", {}, ...record.stack.map((frame) => el("tr", { title: frame.source ? "called at " + frame.source : null },
        el("td", {}, this.ref(prefix + "module:" + frame.path + "#" + frame.call, frame.path)),
        el("td", { class: "code" }, frame.type + (frame.call ? ` (call ${frame.call + 1})` : ""))))));
    }
    if (record.by.length > 0) {
      section("Made by", el("table", {}, ...record.by.map(({ pass, from }) =>
        el("tr", {}, el("td", { class: "code" }, pass), el("td", { class: "code" }, from.length > 0 ? "from " + from.map((name) => "%" + name).join(", ") : "")))));
    }
    if (record.ext.length > 0) {
      section("Facts", el("table", {}, ...record.ext.map(({ key, value }) => el("tr", {}, el("td", { class: "code" }, key), el("td", { class: "code" }, value)))));
    }
    const op = this.model.ops.get(record.target);
    if (op && (record.opcode === 2 || record.opcode === 4)) section("Operation", el("p", { class: "code" }, op.schema), el("p", { class: "doc" }, op.doc));
    out.push(el("div", { class: "actions" },
      box.canOpen ? el("button", { onclick: () => this.toggle(box) }, box.isOpen ? "Fold" : "Unfold") : null,
      inputs.length > 0 ? el("button", { onclick: () => this.showCone(box, true) }, "All it depends on") : null,
      users.length > 0 ? el("button", { onclick: () => this.showCone(box, false) }, "All that depends on it") : null,
      el("button", { onclick: () => this.scene.centre(inSight(box)) }, "Centre")));
    return out;
  }

  // Outlines everything upstream or downstream of a node.
  showCone(box, isUp) {
    const { graph, nodes } = box.root;
    const next = isUp ? graph.inputs : graph.users;
    const seen = new Set([box.position]);
    const todo = [box.position];
    while (todo.length > 0) {
      for (const i of next[todo.pop()]) {
        if (seen.has(i)) continue;
        seen.add(i);
        todo.push(i);
      }
    }
    seen.delete(box.position);
    this.scene.cone = [...seen].map((i) => inSight(nodes[i])).filter((other) => other && other !== inSight(box));
    this.scene.drawOutlines();
    this.say(`${plural(seen.size, "node")} ${isUp ? "above" : "below"}`);
  }

  familyBar(box) {
    const counts = [...this.scene.familiesIn(box)].sort((a, b) => b[1] - a[1]);
    const family = (k) => this.model.families[k];
    return [
      el("div", { class: "bar", "aria-hidden": "true" }, ...counts.map(([k, n]) => el("i", { style: `--c: var(--f-${family(k).key}); flex: ${n}` }))),
      el("ul", {}, ...counts.map(([k, n]) => el("li", {}, this.chip(family(k).label, family(k).key), el("span", { class: "t" }, String(n))))),
    ];
  }

  ofGroup(box) {
    const isModule = box.kind === "module";
    const calls = new Map();
    const walk = (box) => {
      if (box.kind === "node" && box.record.opcode >= 2 && box.record.opcode !== OUTPUT) {
        calls.set(box.record.target, (calls.get(box.record.target) || 0) + 1);
      }
      box.children.forEach(walk);
    };
    walk(box);
    const out = [
      el("h2", {}, isModule ? box.frame.path : "@" + box.title),
      el("div", { class: "chips" }, this.chip(isModule ? box.frame.type : "sub-graph", isModule ? "module" : "control"), this.chip(plural(box.count, "node")),
        isModule && box.frame.call ? this.chip("call " + (box.frame.call + 1)) : null),
    ];
    if (isModule && box.frame.source) out.push(el("h3", {}, "Called at"), el("p", { class: "code" }, box.frame.source));
    if (!isModule) {
      const owner = box.parent;
      out.push(el("p", {}, "Sub-graph of ", this.ref(owner.key, "%" + owner.record.name)));
    }
    out.push(el("h3", {}, "Contents"), ...this.familyBar(box), ...this.callTable(calls));
    if (isModule) out.push(el("div", { class: "actions" }, el("button", { onclick: () => this.toggle(box) }, box.isOpen ? "Fold" : "Unfold")));
    return out;
  }

  callTable(calls) {
    const rows = [...calls].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const find = (name) => {
      byId("search").value = "op:" + name;
      this.search("op:" + name, false);
    };
    if (rows.length === 0) return [];
    return [el("h3", {}, `Operations (${rows.length})`), el("ul", {}, ...rows.slice(0, 60).map(([name, n]) =>
      el("li", {}, el("button", { class: "ref", onclick: () => find(name) }, name), el("span", { class: "t" }, String(n)))))];
  }

  ofProgram() {
    const { graph } = this.root;
    const calls = new Map();
    graph.records.forEach(({ opcode, target }) => {
      if (opcode >= 2 && opcode !== OUTPUT) calls.set(target, (calls.get(target) || 0) + 1);
    });
    const inputs = graph.records.filter((record) => record.opcode === 0);
    const output = graph.records[graph.records.length - 1];
    const results = output.inputs.map((name) => graph.records[graph.byName.get(name)]);
    const list = (records) => el("ul", {}, ...records.slice(0, 40).map((record) =>
      el("li", {}, this.ref(record.name, "%" + record.name), el("span", { class: "t" }, record.type))));
    return [
      el("h2", {}, this.model.title),
      el("p", { class: "doc" }, "Click a node to see what is known of it."),
      el("h3", {}, `Inputs (${inputs.length})`), list(inputs),
      el("h3", {}, "Returns"), list(results),
      ...this.callTable(calls),
    ];
  }

  // ---- passes ----

  steps() {
    const { steps } = this.model;
    if (steps.length === 0) return;
    byId("tabs").hidden = false;
    const list = byId("steps");
    const item = (i, name, info, counts, isSame) => el("li", { class: isSame ? "same" : "" },
      el("button", { "data-step": i, onclick: () => this.goTo(i) },
        el("span", { class: "head" }, el("b", {}, name), el("span", {}, info)), counts));
    list.append(item(0, "as given", plural(this.model.graph(this.model.state(0).main).records.length, "node"), null, false));
    steps.forEach((step, i) => {
      const isSame = step.state === (i === 0 ? 0 : steps[i - 1].state);
      const counts = el("span", { class: "counts" },
        isSame ? "no change" : null,
        isSame ? null : el("span", { class: "new" }, "+" + step.created),
        isSame ? null : el("span", { class: "gone" }, "−" + step.erased),
        isSame ? null : el("span", { class: "changed" }, "~" + step.replaced),
        isSame ? null : `${step.nodes} left`);
      list.append(item(i + 1, `${i + 1}. ${step.name}`, duration(step.micros), counts, isSame));
    });
    const tab = (name) => {
      for (const other of ["outline", "steps"]) {
        byId("tab-" + other).setAttribute("aria-selected", String(other === name));
        byId(other).hidden = other !== name;
      }
      byId("search").value = "";
      this.search("", false);
    };
    byId("tab-outline").addEventListener("click", () => tab("outline"));
    byId("tab-steps").addEventListener("click", () => tab("steps"));
    this.openTab = tab;
  }

  // Shows the graph after a step; 0 is the program as it was given.
  goTo(step) {
    const { camera } = this.scene;
    const box = this.selected;
    const at = box && [box.x * camera.s + camera.x, box.y * camera.s + camera.y];
    const before = this.stateIndex;
    this.load(step);
    if (this.selected && this.scene.list.includes(this.selected)) {
      const [x, y] = at;
      this.scene.camera = { s: camera.s, x: x - this.selected.x * camera.s, y: y - this.selected.y * camera.s };
      this.scene.redraw();
    } else if (before !== this.stateIndex) {
      this.scene.fit(false);
    } else {
      this.scene.redraw();
    }
    this.showScale();
    this.link();
    this.say(step === 0 ? "the program as it was given" : `after ${this.model.steps[step - 1].name}`);
  }

  showSteps() {
    if (this.model.steps.length === 0) return;
    byId("steps").querySelectorAll("button").forEach((button) => {
      if (Number(button.dataset.step) === this.step) {
        button.setAttribute("aria-current", "step");
        if (!byId("steps").hidden) button.scrollIntoView({ block: "nearest" });
      } else {
        button.removeAttribute("aria-current");
      }
    });
    const drawer = byId("drawer");
    drawer.hidden = this.step === 0;
    if (this.step === 0) return;
    if (this.openTab && byId("tab-steps").getAttribute("aria-selected") !== "true") this.openTab("steps");
    const step = this.model.steps[this.step - 1];
    const facts = [plural(step.changes, "change"), `+${step.created} −${step.erased} ~${step.replaced} nodes`, `${step.nodes} left`,
      duration(step.micros), `checked in ${duration(step.checked)}`];
    if (step.runs > 0) facts.push(plural(step.runs, "run") + " agree");
    if (step.moved) facts.push("order, names or facts only");
    const before = new Set(this.model.graph(this.model.state(this.stateBefore()).main).byName.keys());
    const after = new Set(this.root.graph.byName.keys());
    const line = (text) => {
      const kind = text.startsWith("+") ? "plus" : text.startsWith("-") ? "minus" : text.startsWith("...") ? "gap" : "";
      const isOld = kind === "minus";
      const parts = this.linked(text, isOld ? before : after, "").map((part) => {
        if (typeof part === "string" || !isOld) return part;
        const name = part.textContent.slice(1);
        return el("button", { class: "ref", onclick: () => { this.goTo(this.step - 1); this.jump(name); } }, part.textContent);
      });
      return el("div", { class: kind }, ...parts);
    };
    drawer.replaceChildren(
      el("header", {}, el("b", {}, step.name), el("span", { class: "doc" }, facts.join(" · ")),
        el("span", { class: "end" },
          el("button", { onclick: () => this.goTo(this.step - 1), title: "The step before ([)" }, "◂ Before"),
          el("button", { disabled: this.step === this.model.steps.length, onclick: () => this.goTo(this.step + 1), title: "The next step (])" }, "Next ▸"),
          el("button", { class: "icon", "aria-label": "Hide the difference", onclick: () => { drawer.hidden = true; this.scene.redraw(); } }, "✕"))),
      ...step.notes.map((note) => el("div", { class: "note" }, note)),
      el("div", { id: "diff", tabindex: 0, "aria-label": "Difference of the text" },
        ...(step.diff.length > 0 ? step.diff.map(line) : [el("div", { class: "gap" }, "The text is the same.")])));
  }

  // ---- legend, map, keys ----

  legend() {
    const counts = new Map();
    this.root.graph.records.forEach(({ family }) => counts.set(family, (counts.get(family) || 0) + 1));
    const legend = byId("legend");
    legend.replaceChildren(...this.model.families.flatMap(({ key, label }, k) => {
      if (!counts.has(k)) return [];
      const button = el("button", { "aria-pressed": "false", style: `--c: var(--f-${key})`, title: "Show only these" }, el("i"), label, el("b", {}, String(counts.get(k))));
      button.addEventListener("click", () => {
        this.scene.family = this.scene.family === k ? null : k;
        legend.querySelectorAll("button").forEach((other) => other.setAttribute("aria-pressed", String(other === button && this.scene.family === k)));
        this.scene.redraw();
      });
      return [button];
    }));
    this.scene.family = null;
  }

  // The whole graph in a corner, with the part that is in view.
  drawMap(view) {
    const canvas = byId("map");
    const pen = canvas.getContext && canvas.getContext("2d");
    if (!pen || !this.scene.root || !this.scene.list) return;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [130, 150];
    if (canvas.width !== w * ratio) [canvas.width, canvas.height] = [w * ratio, h * ratio];
    const { root, list } = this.scene;
    const s = Math.min((w - 10) / root.w, (h - 10) / root.h);
    const [ox, oy] = [(w - root.w * s) / 2, (h - root.h * s) / 2];
    const style = getComputedStyle(document.documentElement);
    const theme = document.documentElement.dataset.theme;
    if (!this.map || this.map.theme !== theme) {
      const picture = document.createElement("canvas");
      [picture.width, picture.height] = [w * ratio, h * ratio];
      const ink = picture.getContext("2d");
      ink.scale(ratio, ratio);
      for (const box of list) {
        if (box.isLaidOut) {
          ink.strokeStyle = style.getPropertyValue("--frame-line");
          ink.lineWidth = 0.5;
          ink.strokeRect(ox + box.x * s, oy + box.y * s, box.w * s, box.h * s);
        } else {
          ink.fillStyle = style.getPropertyValue("--f-" + this.familyOf(box));
          ink.fillRect(ox + box.x * s, oy + box.y * s, Math.max(1, box.w * s), Math.max(1, box.h * s));
        }
      }
      this.map = { picture, theme };
    }
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(this.map.picture, 0, 0);
    pen.scale(ratio, ratio);
    pen.strokeStyle = style.getPropertyValue("--accent");
    pen.lineWidth = 1.5;
    const [x0, y0] = [Math.max(1, ox + view.x0 * s), Math.max(1, oy + view.y0 * s)];
    const [x1, y1] = [Math.min(w - 1, ox + view.x1 * s), Math.min(h - 1, oy + view.y1 * s)];
    pen.strokeRect(x0, y0, Math.max(2, x1 - x0), Math.max(2, y1 - y0));
    this.mapped = { s, ox, oy };
    this.showScale();
  }

  showScale() {
    byId("scale").textContent = Math.round(this.scene.camera.s * 100) + "%";
  }

  controls() {
    this.outlineEvents();
    const on = (id, act) => byId(id).addEventListener("click", act);
    on("zoom-in", () => this.scene.zoom(1.25));
    on("zoom-out", () => this.scene.zoom(0.8));
    on("fit", () => this.scene.fit(true));
    on("unfold", () => this.unfoldAll(true));
    on("fold", () => this.unfoldAll(false));
    on("parameters", () => this.setParameters(!this.options.parameters));
    on("help", () => this.help());
    on("theme", () => {
      const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      remember("theme", theme);
      this.scene.redraw();
    });
    for (const side of ["left", "right"]) {
      on("toggle-" + side, () => {
        byId("main").classList.toggle("no" + side);
        this.scene.redraw();
      });
    }
    const map = byId("map");
    const goThere = (event) => {
      if (event.buttons === 0 || !this.mapped) return;
      const { s, ox, oy } = this.mapped;
      const { w, h } = this.scene.size;
      const [x, y] = [(event.offsetX - ox) / s, (event.offsetY - oy) / s];
      const { camera } = this.scene;
      this.scene.camera = { s: camera.s, x: w / 2 - x * camera.s, y: h / 2 - y * camera.s };
      this.scene.draw();
    };
    map.addEventListener("pointerdown", goThere);
    map.addEventListener("pointermove", goThere);
    const input = byId("search");
    let timer = 0;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.search(input.value, false), 80);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        this.moveResult(event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Enter") {
        clearTimeout(timer);
        if (byId("results").hidden || this.current < 0) {
          this.search(input.value, false);
          this.moveResult(1);
        }
        const row = byId("results").querySelector(".row.current");
        if (row) this.jump(row.dataset.key);
      } else if (event.key === "Escape") {
        input.value = "";
        this.search("", false);
        byId("graph").focus();
      } else {
        return;
      }
      event.preventDefault();
      event.stopPropagation();
    });
  }

  pointer() {
    const svg = byId("graph");
    const pointers = new Map();
    let moved = 0;
    let pinch = 0;
    const at = (event) => {
      const r = svg.getBoundingClientRect();
      return { x: event.clientX - r.left, y: event.clientY - r.top };
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, at(event));
      if (pointers.size === 1) moved = 0;
      try {
        svg.setPointerCapture(event.pointerId);
      } catch {
        // A pointer that is gone already cannot be captured, which does no harm.
      }
    });
    svg.addEventListener("pointermove", (event) => {
      const last = pointers.get(event.pointerId);
      if (!last) return;
      const now = at(event);
      pointers.set(event.pointerId, now);
      if (pointers.size === 1) {
        moved += Math.abs(now.x - last.x) + Math.abs(now.y - last.y);
        if (moved > 4) {
          svg.classList.add("drag");
          this.scene.pan(now.x - last.x, now.y - last.y);
        }
      } else {
        const [p, q] = [...pointers.values()];
        const apart = Math.hypot(p.x - q.x, p.y - q.y);
        if (pinch > 0) this.scene.zoom(apart / pinch, { x: (p.x + q.x) / 2, y: (p.y + q.y) / 2 });
        pinch = apart;
        moved = 99;
      }
    });
    const up = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      pinch = 0;
      svg.classList.remove("drag");
      if (event.type === "pointercancel" || moved > 4 || pointers.size > 0) return;
      const { x, y } = at(event);
      const box = this.scene.boxAt(x, y);
      if (box && this.scene.isFold(box, x, y)) this.toggle(box);
      else this.select(box, {});
    };
    svg.addEventListener("pointerup", up);
    svg.addEventListener("pointercancel", up);
    svg.addEventListener("dblclick", (event) => {
      const { x, y } = at(event);
      const box = this.scene.boxAt(x, y);
      if (box && box.canOpen) this.toggle(box);
      else if (box) this.scene.centre(box);
    });
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      if (event.ctrlKey || event.metaKey) {
        this.scene.zoom(Math.exp(-event.deltaY * unit * (Math.abs(event.deltaY) < 40 ? 0.01 : 0.0022)), at(event));
      } else if (event.shiftKey) {
        this.scene.pan(-(event.deltaX || event.deltaY) * unit, 0);
      } else {
        this.scene.pan(-event.deltaX * unit, -event.deltaY * unit);
      }
    }, { passive: false });
  }

  // Follows an edge from the selected node, or moves along its row.
  walk(key) {
    const box = inSightOf(this.selected);
    if (key === "ArrowUp" || key === "ArrowDown") {
      const { inputs, users } = this.scene.near(box);
      const near = [...(key === "ArrowUp" ? inputs : users)];
      near.sort((a, b) => Math.abs(a.x + a.w / 2 - box.x - box.w / 2) - Math.abs(b.x + b.w / 2 - box.x - box.w / 2));
      return near[0];
    }
    const sign = key === "ArrowRight" ? 1 : -1;
    const middle = (b) => b.x + b.w / 2;
    const beside = this.scene.list.filter((other) => !other.isLaidOut && other !== box && other.root === box.root
      && Math.abs(other.y + other.h / 2 - box.y - box.h / 2) < 60 && sign * (middle(other) - middle(box)) > 0);
    beside.sort((a, b) => sign * (middle(a) - middle(b)));
    return beside[0];
  }

  keys() {
    const pans = new Map([["ArrowUp", [0, 80]], ["ArrowDown", [0, -80]], ["ArrowLeft", [80, 0]], ["ArrowRight", [-80, 0]]]);
    document.addEventListener("keydown", (event) => {
      const isTyping = event.target instanceof HTMLInputElement;
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
      const inGraph = event.target === byId("graph") || event.target === document.body;
      const { key } = event;
      if (key === "/") byId("search").focus();
      else if (key === "?") this.help();
      else if (key === "+" || key === "=") this.scene.zoom(1.25);
      else if (key === "-" || key === "_") this.scene.zoom(0.8);
      else if (key === "0") this.scene.fit(true);
      else if (key === "1") this.scene.zoom(1 / this.scene.camera.s);
      else if (key === "e") this.unfoldAll(true);
      else if (key === "c") this.unfoldAll(false);
      else if (key === "p") this.setParameters(!this.options.parameters);
      else if (key === "[" && this.step > 0) this.goTo(this.step - 1);
      else if (key === "]" && this.step < this.model.steps.length) this.goTo(this.step + 1);
      else if (key === "Escape") this.select(null, {});
      else if (inGraph && key === "Enter" && this.selected) this.toggle(this.selected);
      else if (inGraph && pans.has(key)) {
        if (this.selected && !event.shiftKey) {
          const next = this.walk(key);
          if (next) {
            this.select(next, {});
            this.bringIntoView(next);
          }
        } else {
          this.scene.pan(...pans.get(key));
        }
      } else return;
      event.preventDefault();
    });
  }

  bringIntoView(box) {
    const { camera } = this.scene;
    const { w, h } = this.scene.size;
    const [x0, y0] = [box.x * camera.s + camera.x, box.y * camera.s + camera.y];
    if (x0 < 20 || y0 < 20 || x0 + box.w * camera.s > w - 20 || y0 + box.h * camera.s > h - 20) this.scene.centre(box);
  }

  help() {
    const keys = [["Drag, wheel", "move"], ["Ctrl + wheel, pinch, + −", "zoom"], ["0   1", "show everything; true size"],
      ["Click", "select; the edges to its inputs and users light up"], ["Double click, Enter, ▸", "fold or unfold a module or sub-graph"],
      ["↑ ↓ ← →", "follow edges from the selected node; else move"], ["/", "search; op: name: module: type: tag: source: narrow it"],
      ["e   c   p", "unfold all; fold all; boxes for parameters"], ["[   ]", "the pass before; the next"], ["Esc", "select nothing"]];
    const dialog = byId("keys");
    dialog.replaceChildren(el("b", {}, "Keys and mouse"),
      el("dl", {}, ...keys.flatMap(([key, what]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)])),
      el("p", { class: "doc" }, "The address of the page names what is selected, so it can be shared."),
      el("button", { onclick: () => dialog.close(), autofocus: true }, "Close"));
    dialog.showModal();
  }
}

function inSightOf(box) {
  let shown = box;
  for (let above = box.parent; above; above = above.parent) if (!above.isOpen) shown = above;
  return shown;
}

function duration(micros) {
  return micros < 1000 ? `${micros} µs` : micros < 1e6 ? `${(micros / 1000).toFixed(1)} ms` : `${(micros / 1e6).toFixed(2)} s`;
}

// Storage is refused to pages from files in some browsers.
function remember(key, value) {
  try {
    localStorage.setItem("fx-view-" + key, value);
  } catch {
    // The choice then lasts as long as the page.
  }
}

function remembered(key) {
  try {
    return localStorage.getItem("fx-view-" + key);
  } catch {
    return null;
  }
}

function start() {
  const page = document.documentElement;
  const fail = (problem) => {
    page.dataset.errors = ((page.dataset.errors || "") + "\n" + problem).trim();
  };
  window.addEventListener("error", (event) => fail(event.message));
  window.addEventListener("unhandledrejection", (event) => fail(String(event.reason)));
  const isDark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  page.dataset.theme = remembered("theme") || (isDark ? "dark" : "light");
  try {
    new App(new Model(JSON.parse(byId("data").textContent)));
    page.dataset.ready = "true";
  } catch (error) {
    fail(String(error && error.stack ? error.stack : error));
    byId("stage").replaceChildren(el("div", { id: "failure", role: "alert" }, "The page could not be shown.\n" + String(error)));
  }
}

if (typeof document !== "undefined") start();
