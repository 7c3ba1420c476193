// The passes that ran, and what the one that is looked at changed.

class Steps {
  constructor(app) {
    this.app = app;
    this.openTab = null;
    this.list();
  }

  list() {
    const { steps } = this.app.model;
    if (steps.length === 0) return;
    byId("tabs").hidden = false;
    const list = byId("steps");
    const item = (i, name, info, counts, isSame) => el("li", { class: isSame ? "same" : "" },
      el("button", { "data-step": i, onclick: () => this.app.goTo(i) },
        el("span", { class: "head" }, el("b", {}, name), el("span", {}, info)), counts));
    list.append(item(0, "as given", plural(this.app.model.graph(this.app.model.state(0).main).records.length, "node"), null, false));
    steps.forEach((step, i) => {
      const isSame = step.created + step.erased + step.replaced === 0 && !step.moved;
      const counts = isSame || step.moved
        ? el("span", { class: "counts" }, isSame ? "no change" : "order, names or facts only")
        : el("span", { class: "counts" },
          el("span", { class: "new" }, "+" + step.created),
          el("span", { class: "gone" }, "−" + step.erased),
          el("span", { class: "changed" }, "~" + step.replaced),
          `${step.nodes} left`);
      list.append(item(i + 1, `${i + 1}. ${step.name}`, duration(step.micros), counts, isSame));
    });
    const tab = (name) => {
      for (const other of ["outline", "steps"]) {
        byId("tab-" + other).setAttribute("aria-selected", String(other === name));
        byId(other).hidden = other !== name;
      }
      byId("search").value = "";
      this.app.search.run("", false);
    };
    byId("tab-outline").addEventListener("click", () => tab("outline"));
    byId("tab-steps").addEventListener("click", () => tab("steps"));
    this.openTab = tab;
  }

  show() {
    if (this.app.model.steps.length === 0) return;
    byId("steps").querySelectorAll("button").forEach((button) => {
      if (Number(button.dataset.step) === this.app.step) {
        button.setAttribute("aria-current", "step");
        if (!byId("steps").hidden) button.scrollIntoView({ block: "nearest" });
      } else {
        button.removeAttribute("aria-current");
      }
    });
    const drawer = byId("drawer");
    drawer.hidden = this.app.step === 0;
    if (this.app.step === 0) return;
    if (this.openTab && byId("tab-steps").getAttribute("aria-selected") !== "true") this.openTab("steps");
    const step = this.app.model.steps[this.app.step - 1];
    const facts = [plural(step.changes, "change"), `+${step.created} −${step.erased} ~${step.replaced} nodes`, `${step.nodes} left`,
      duration(step.micros), `checked in ${duration(step.checked)}`];
    if (step.runs > 0) facts.push(plural(step.runs, "run") + " agree");
    if (step.moved) facts.push("order, names or facts only");
    const before = new Set(this.app.model.graph(this.app.model.state(this.app.stateBefore()).main).byName.keys());
    const after = new Set(this.app.root.graph.byName.keys());
    const line = (text) => {
      const kind = text.startsWith("+") ? "plus" : text.startsWith("-") ? "minus" : text.startsWith("...") ? "gap" : "";
      const isOld = kind === "minus";
      const parts = this.app.details.linked(text, isOld ? before : after, "").map((part) => {
        if (typeof part === "string" || !isOld) return part;
        const name = part.textContent.slice(1);
        return el("button", { class: "ref", onclick: () => { this.app.goTo(this.app.step - 1); this.app.jump(name); } }, part.textContent);
      });
      return el("div", { class: kind }, ...parts);
    };
    drawer.replaceChildren(
      el("header", {}, el("b", {}, step.name), el("span", { class: "doc" }, facts.join(" · ")),
        el("span", { class: "end" },
          el("button", { onclick: () => this.app.goTo(this.app.step - 1), title: "The step before ([)" }, "◂ Before"),
          el("button", { disabled: this.app.step === this.app.model.steps.length, onclick: () => this.app.goTo(this.app.step + 1), title: "The next step (])" }, "Next ▸"),
          el("button", { class: "icon", "aria-label": "Hide the difference", onclick: () => { drawer.hidden = true; this.app.scene.redraw(); } }, "✕"))),
      ...step.notes.map((note) => el("div", { class: "note" }, note)),
      el("div", { id: "diff", tabindex: 0, "aria-label": "Difference of the text" },
        ...(step.diff.length > 0 ? step.diff.map(line) : [el("div", { class: "gap" }, "The text is the same.")])));
  }
}
