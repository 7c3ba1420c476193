// The panel at the right: all that is known of what is selected, or of the program.

class Details {
  constructor(app) {
    this.app = app;
  }

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
    return el("button", { class: "ref", onclick: () => this.app.jump(key) }, text);
  }

  // A link to the box of a module that a node is in, or its path where it has no box of its own.
  moduleRef(box, frame) {
    for (let above = box.parent; above && above.kind === "module"; above = above.parent) {
      if (above.frame.path === frame.path && above.frame.call === frame.call) return this.ref(above.key, frame.path);
    }
    return el("span", { class: "code" }, frame.path);
  }

  show() {
    const panel = byId("right");
    const box = this.app.selected;
    panel.replaceChildren(...(!box ? this.ofProgram() : box.kind === "node" ? this.ofNode(box) : this.ofGroup(box)));
    panel.scrollTop = 0;
  }

  chip(text, family, kind) {
    return el("span", { class: "chip " + (kind || ""), style: family ? `--c: var(--f-${family})` : null }, family ? el("i") : null, text);
  }

  ofNode(box) {
    const { record } = box;
    const { graph, prefix } = box.root;
    const family = this.app.model.families[record.family];
    const mark = this.app.scene.mark(box);
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
      section("Sub-graphs", el("ul", {}, ...innerBoxes(this.app.model, box, this.app.options).map((inner) =>
        el("li", {}, this.ref(inner.prefix, "@" + inner.title), el("span", { class: "t" }, plural(inner.count, "node"))))));
    }
    if (record.source) section("Source", el("p", { class: "code" }, record.source));
    if (record.stack.length > 0) {
      section("Modules", el("ul", {}, ...record.stack.map((frame) => el("li", { title: frame.source ? "called at " + frame.source : null },
        this.moduleRef(box, frame),
        el("span", { class: "t" }, frame.type + (frame.call ? ` (call ${frame.call + 1})` : ""))))));
    }
    if (record.by.length > 0) {
      section("Made by", el("table", {}, ...record.by.map(({ pass, from }) =>
        el("tr", {}, el("td", { class: "code" }, pass), el("td", { class: "code" }, from.length > 0 ? "from " + from.map((name) => "%" + name).join(", ") : "")))));
    }
    if (record.ext.length > 0) {
      section("Facts", el("table", {}, ...record.ext.map(({ key, value }) => el("tr", {}, el("td", { class: "code" }, key), el("td", { class: "code" }, value)))));
    }
    const op = this.app.model.ops.get(record.target);
    if (op && (record.opcode === 2 || record.opcode === 4)) section("Operation", el("p", { class: "code" }, op.schema), el("p", { class: "doc" }, ...prose(op.doc)));
    out.push(el("div", { class: "actions" },
      box.canOpen ? el("button", { onclick: () => this.app.toggle(box) }, box.isOpen ? "Fold" : "Unfold") : null,
      inputs.length > 0 ? el("button", { onclick: () => this.showCone(box, true) }, "All it depends on") : null,
      users.length > 0 ? el("button", { onclick: () => this.showCone(box, false) }, "All that depends on it") : null,
      el("button", { onclick: () => this.app.scene.centre(inSight(box)) }, "Centre")));
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
    this.app.scene.cone = [...seen].map((i) => inSight(nodes[i])).filter((other) => other && other !== inSight(box));
    this.app.scene.drawOutlines();
    this.app.say(`${plural(seen.size, "node")} ${isUp ? "above" : "below"}`);
  }

  familyBar(box) {
    const counts = [...this.app.scene.familiesIn(box)].sort((a, b) => b[1] - a[1]);
    const family = (k) => this.app.model.families[k];
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
    if (isModule) out.push(el("div", { class: "actions" }, el("button", { onclick: () => this.app.toggle(box) }, box.isOpen ? "Fold" : "Unfold")));
    return out;
  }

  callTable(calls) {
    const rows = [...calls].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    const find = (name) => {
      byId("search").value = "op:" + name;
      this.app.search.run("op:" + name, false);
    };
    if (rows.length === 0) return [];
    return [el("h3", {}, `Calls (${rows.length})`), el("ul", {}, ...rows.slice(0, 60).map(([name, n]) =>
      el("li", {}, el("button", { class: "ref", onclick: () => find(name) }, name), el("span", { class: "t" }, String(n)))))];
  }

  ofProgram() {
    const { graph } = this.app.root;
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
      el("h2", {}, this.app.model.title),
      el("p", { class: "doc" }, "Click a node to see what is known of it."),
      el("h3", {}, `Inputs (${inputs.length})`), list(inputs),
      el("h3", {}, "Returns"), list(results),
      ...this.callTable(calls),
    ];
  }
}
