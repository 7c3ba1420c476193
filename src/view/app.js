// The page: which step is looked at, what is selected and unfolded, and the parts that show it.

const LOOK = 110;
const MOST_OPEN = 6000;

class App {
  constructor(model) {
    this.model = model;
    this.options = { parameters: false };
    this.decided = new Map();
    this.step = 0;
    this.selected = null;
    this.scene = new Scene(byId("graph"), model, this.options);
    this.outline = new Outline(this);
    this.search = new Search(this);
    this.details = new Details(this);
    this.steps = new Steps(this);
    this.overview = new Overview(this);
    this.input = new Input(this);
    this.scene.onmove = (view) => this.overview.draw(view);
    byId("title").textContent = model.title;
    if (window.innerWidth <= 900) byId("main").classList.add("noleft", "noright");
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
    this.steps.show();
  }

  rebuild() {
    const key = this.selected && this.selected.key;
    this.root = boxesOf(this.model, this.state.main, "", null, this.options);
    openBoxes(this.model, this.root, this.decided, LOOK, this.options);
    this.show();
    this.outline.show();
    this.selected = null;
    const box = key ? this.find(key) : null;
    this.select(box, { quiet: true });
  }

  show() {
    const marks = this.step > 0 && this.model.steps[this.step - 1].state !== this.stateBefore() ? this.state.marks : new Map();
    this.scene.show(this.root, marks);
    this.scene.selected = this.selected;
    this.search.run(byId("search").value, true);
    this.overview.map = null;
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
      if (parts[i].startsWith("@")) return root;
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
    this.details.show();
    const svg = byId("graph");
    if (this.selected) svg.setAttribute("aria-activedescendant", "box-" + this.selected.id);
    else svg.removeAttribute("aria-activedescendant");
    this.outline.markRow();
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
      const touched = this.scene.list.find((box) => !box.isLaidOut && this.scene.mark(box));
      if (touched) this.scene.centre(touched);
      else this.scene.fit(false);
    } else {
      this.scene.redraw();
    }
    this.showScale();
    this.link();
    this.say(step === 0 ? "the program as it was given" : `after ${this.model.steps[step - 1].name}`);
  }

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

  showScale() {
    const percent = this.scene.camera.s * 100;
    byId("scale").textContent = (percent < 10 ? percent.toFixed(1) : Math.round(percent)) + "%";
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
