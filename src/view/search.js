// Search: words and fields, such as `op:conv module:layer1`, over every node of the program and its sub-graphs.

const MOST_RESULTS = 300;

class Search {
  constructor(app) {
    this.app = app;
    this.indexes = new Map();
    this.current = -1;
  }

  // Every node of the program and its sub-graphs, with its key and the text that is searched.
  index() {
    let index = this.indexes.get(this.app.stateIndex);
    if (index) return index;
    index = [];
    const seen = new Set();
    const walk = (position, prefix) => {
      if (seen.has(position) || index.length > 200000) return;
      seen.add(position);
      const graph = this.app.model.graph(position);
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
            family: (this.app.model.families[record.family].label + " " + OPCODES[record.opcode]).toLowerCase(),
          },
        };
        entry.all = Object.values(entry.fields).join("\n");
        index.push(entry);
        const labels = new Set();
        record.subgraphs.forEach((inner, k) => {
          const name = this.app.model.graph(inner).name;
          const label = labels.has(name) ? name + "." + k : name;
          labels.add(label);
          walk(inner, prefix + record.name + "/" + label + "/");
        });
      });
    };
    walk(this.app.state.main, "");
    this.indexes.set(this.app.stateIndex, index);
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

  run(query, quiet) {
    const results = byId("results");
    const isOn = query.trim() !== "";
    const found = isOn ? this.matching(query) : [];
    this.app.scene.matches = [];
    for (const entry of found) {
      if (entry.key.includes("/")) continue;
      const box = inSight(this.app.root.nodes[this.app.root.graph.byName.get(entry.record.name)]);
      if (box) this.app.scene.matches.push(box);
    }
    if (!quiet || isOn) {
      results.hidden = !isOn;
      byId("search").setAttribute("aria-expanded", String(isOn));
      const steps = byId("tab-steps").getAttribute("aria-selected") === "true";
      byId("outline").hidden = isOn || steps;
      byId("steps").hidden = isOn || !steps;
      const modules = isOn ? this.modulesMatching(query) : [];
      const rows = [
        ...modules.map((box, i) => this.moduleResult(box, i)),
        ...found.slice(0, MOST_RESULTS).map((entry, i) => this.result(entry, i)),
      ];
      const count = found.length > MOST_RESULTS ? `the first ${MOST_RESULTS} of ${found.length}` : plural(found.length, "node");
      results.replaceChildren(el("div", { class: "hint" }, count), ...rows);
    }
    if (!quiet) {
      this.current = -1;
      this.app.scene.drawOutlines();
      this.app.say(isOn ? plural(found.length, "result") : "");
    }
  }

  // The modules of the program whose path or type has the words of a query that names no other field.
  modulesMatching(query) {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.replace(/^(module|path):/, ""));
    const found = [];
    const walk = (box) => {
      for (const child of box.children) {
        if (child.kind !== "module") continue;
        const text = (child.frame.path + " " + child.frame.type).toLowerCase();
        if (found.length < 20 && words.every((word) => text.includes(word))) found.push(child);
        walk(child);
      }
    };
    walk(this.app.root);
    return found;
  }

  moduleResult(box, i) {
    return el("div", {
      class: "row module", role: "option", id: "module-result-" + i, "data-key": box.key, style: "--c: var(--f-module)",
      onclick: () => this.app.jump(box.key),
    },
    el("span", { class: "dot" }),
    el("span", { class: "name" }, box.frame.path),
    el("span", { class: "more" }, box.frame.type));
  }

  result(entry, i) {
    const { record, key } = entry;
    const family = this.app.model.families[record.family].key;
    const named = record.opcode < 2 || record.opcode === OUTPUT;
    return el("div", {
      class: "row", role: "option", id: "result-" + i, "data-key": key, style: `--c: var(--f-${family})`,
      title: [key, record.type, record.stack.map((frame) => frame.path).pop() || ""].filter(Boolean).join("\n"),
      onclick: () => this.app.jump(key),
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
}
