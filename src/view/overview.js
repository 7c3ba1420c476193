// The whole graph in a corner, with the part that is in view.

class Overview {
  constructor(app) {
    this.app = app;
    // The picture of the boxes, and how it lies.
    this.map = null;
    this.mapped = null;
  }

  // The whole graph in a corner, with the part that is in view.
  draw(view) {
    const canvas = byId("map");
    const pen = canvas.getContext && canvas.getContext("2d");
    if (!pen || !this.app.scene.root || !this.app.scene.list) return;
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [130, 150];
    if (canvas.width !== w * ratio) [canvas.width, canvas.height] = [w * ratio, h * ratio];
    const { root, list } = this.app.scene;
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
          ink.fillStyle = style.getPropertyValue("--f-" + this.app.outline.familyOf(box));
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
    this.app.showScale();
  }
}
