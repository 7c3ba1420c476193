// The tree of modules and nodes at the left, which unfolds by itself and not with the picture.

const MOST_ROWS = 2000;

class Outline {
  constructor(app) {
    this.app = app;
    this.listen();
  }

  show() {
    const tree = byId("outline");
    tree.replaceChildren(...this.rows(this.app.root, 1));
  }

  familyOf(box) {
    return box.kind === "node" ? this.app.model.families[box.record.family].key : box.kind === "graph" ? "control" : "module";
  }

  row(box, level) {
    const hasInside = box.kind === "node" ? box.record.subgraphs.length > 0 : true;
    const said = describe(this.app.model, box, this.app.options);
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
    const inside = box.kind === "node" ? innerBoxes(this.app.model, box, this.app.options) : box.children;
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
    if (this.app.selected) {
      const path = [];
      for (let box = this.app.selected; box && box !== this.app.root; box = box.parent) path.unshift(box);
      for (const box of path) {
        row = rowOf(box);
        if (!row) break;
        if (box !== this.app.selected) this.twist(row, true);
      }
    }
    if (row) {
      row.setAttribute("aria-selected", "true");
      if (!tree.hidden) row.scrollIntoView({ block: "nearest" });
    }
    const focus = row || tree.firstElementChild;
    if (focus) focus.setAttribute("tabindex", "0");
  }

  listen() {
    const tree = byId("outline");
    tree.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (!row) return;
      if (event.target.classList.contains("twist")) this.twist(row, row.getAttribute("aria-expanded") !== "true");
      else this.app.jump(row.box.key);
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
        Enter: () => this.app.jump(row.box.key),
        " ": () => this.app.jump(row.box.key),
      };
      if (!Object.hasOwn(actions, event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      actions[event.key]();
    });
  }
}
