// Buttons, mouse, fingers and keys.

class Input {
  constructor(app) {
    this.app = app;
    this.controls();
    this.pointer();
    this.keys();
  }

  controls() {
    this.app.outline.listen();
    const on = (id, act) => byId(id).addEventListener("click", act);
    on("zoom-in", () => this.app.scene.zoom(1.25));
    on("zoom-out", () => this.app.scene.zoom(0.8));
    on("fit", () => this.app.scene.fit(true));
    on("unfold", () => this.app.unfoldAll(true));
    on("fold", () => this.app.unfoldAll(false));
    on("parameters", () => this.app.setParameters(!this.app.options.parameters));
    on("help", () => this.help());
    on("theme", () => {
      const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      remember("theme", theme);
      this.app.scene.redraw();
    });
    for (const side of ["left", "right"]) {
      on("toggle-" + side, () => {
        byId("main").classList.toggle("no" + side);
        this.app.scene.redraw();
      });
    }
    const map = byId("map");
    const goThere = (event) => {
      if (event.buttons === 0 || !this.app.overview.mapped) return;
      const { s, ox, oy } = this.app.overview.mapped;
      const { w, h } = this.app.scene.size;
      const [x, y] = [(event.offsetX - ox) / s, (event.offsetY - oy) / s];
      const { camera } = this.app.scene;
      this.app.scene.camera = { s: camera.s, x: w / 2 - x * camera.s, y: h / 2 - y * camera.s };
      this.app.scene.draw();
    };
    map.addEventListener("pointerdown", goThere);
    map.addEventListener("pointermove", goThere);
    const input = byId("search");
    let timer = 0;
    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => this.app.search.run(input.value, false), 80);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        this.app.search.moveResult(event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Enter") {
        clearTimeout(timer);
        if (byId("results").hidden || this.app.search.current < 0) {
          this.app.search.run(input.value, false);
          this.app.search.moveResult(1);
        }
        const row = byId("results").querySelector(".row.current");
        if (row) this.app.jump(row.dataset.key);
      } else if (event.key === "Escape") {
        input.value = "";
        this.app.search.run("", false);
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
          this.app.scene.pan(now.x - last.x, now.y - last.y);
        }
      } else {
        const [p, q] = [...pointers.values()];
        const apart = Math.hypot(p.x - q.x, p.y - q.y);
        if (pinch > 0) this.app.scene.zoom(apart / pinch, { x: (p.x + q.x) / 2, y: (p.y + q.y) / 2 });
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
      const box = this.app.scene.boxAt(x, y);
      if (box && this.app.scene.isFold(box, x, y)) this.app.toggle(box);
      else this.app.select(box, {});
    };
    svg.addEventListener("pointerup", up);
    svg.addEventListener("pointercancel", up);
    svg.addEventListener("dblclick", (event) => {
      const { x, y } = at(event);
      const box = this.app.scene.boxAt(x, y);
      if (box && box.canOpen) this.app.toggle(box);
      else if (box) this.app.scene.centre(box);
    });
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
      if (event.ctrlKey || event.metaKey) {
        this.app.scene.zoom(Math.exp(-event.deltaY * unit * (Math.abs(event.deltaY) < 40 ? 0.01 : 0.0022)), at(event));
      } else if (event.shiftKey) {
        this.app.scene.pan(-(event.deltaX || event.deltaY) * unit, 0);
      } else {
        this.app.scene.pan(-event.deltaX * unit, -event.deltaY * unit);
      }
    }, { passive: false });
  }

  // Follows an edge from the selected node, or moves along its row.
  walk(key) {
    const box = inSightOf(this.app.selected);
    if (key === "ArrowUp" || key === "ArrowDown") {
      const { inputs, users } = this.app.scene.near(box);
      const near = [...(key === "ArrowUp" ? inputs : users)];
      near.sort((a, b) => Math.abs(a.x + a.w / 2 - box.x - box.w / 2) - Math.abs(b.x + b.w / 2 - box.x - box.w / 2));
      return near[0];
    }
    const sign = key === "ArrowRight" ? 1 : -1;
    const middle = (b) => b.x + b.w / 2;
    const beside = this.app.scene.list.filter((other) => !other.isLaidOut && other !== box && other.root === box.root
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
      else if (key === "+" || key === "=") this.app.scene.zoom(1.25);
      else if (key === "-" || key === "_") this.app.scene.zoom(0.8);
      else if (key === "0") this.app.scene.fit(true);
      else if (key === "1") this.app.scene.zoom(1 / this.app.scene.camera.s);
      else if (key === "e") this.app.unfoldAll(true);
      else if (key === "c") this.app.unfoldAll(false);
      else if (key === "p") this.app.setParameters(!this.app.options.parameters);
      else if (key === "[" && this.app.step > 0) this.app.goTo(this.app.step - 1);
      else if (key === "]" && this.app.step < this.app.model.steps.length) this.app.goTo(this.app.step + 1);
      else if (key === "Escape") this.app.select(null, {});
      else if (inGraph && key === "Enter" && this.app.selected) this.app.toggle(this.app.selected);
      else if (inGraph && pans.has(key)) {
        if (this.app.selected && !event.shiftKey) {
          const next = this.walk(key);
          if (next) {
            this.app.select(next, {});
            this.bringIntoView(next);
          }
        } else {
          this.app.scene.pan(...pans.get(key));
        }
      } else return;
      event.preventDefault();
    });
  }

  bringIntoView(box) {
    const { camera } = this.app.scene;
    const { w, h } = this.app.scene.size;
    const [x0, y0] = [box.x * camera.s + camera.x, box.y * camera.s + camera.y];
    if (x0 < 20 || y0 < 20 || x0 + box.w * camera.s > w - 20 || y0 + box.h * camera.s > h - 20) this.app.scene.centre(box);
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
