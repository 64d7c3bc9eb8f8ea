// Heat draws a value per rank and step as colors: a row is a rank.
import { axis, position, value } from "./format.js";
import { nearest } from "./chart.js";
import { Plot, ticks, timeTicks } from "./plot.js";
import { color } from "./view.js";

// shade maps 0..1 to a color from the panel's background over the accent to a warm end.
function shade(t, dark) {
  const stops = dark ? [[28, 30, 38], [58, 82, 160], [76, 160, 200], [240, 200, 90], [235, 95, 70]] : [[238, 241, 250], [160, 185, 240], [80, 140, 215], [240, 175, 60], [205, 60, 50]];
  const x = Math.min(0.9999, Math.max(0, t)) * (stops.length - 1), i = Math.floor(x), f = x - i;
  return stops[i].map((v, k) => Math.round(v + (stops[i + 1][k] - v) * f));
}

export class Heat extends Plot {
  constructor(view, options) {
    super(view, 120);
    this.options = options; // axis(), tip
    this.rows = [];
    this.x = [];
  }

  // setRows takes {rank, mean} with the same positions. The scale covers at least floor, so that noise has one color.
  setRows(x, rows, floor) {
    this.x = x;
    this.rows = rows;
    const all = rows.flatMap((r) => r.mean.filter((v) => v !== null)).sort((a, b) => a - b);
    this.lo = all.length ? all[Math.floor(all.length * 0.02)] : 0;
    this.hi = all.length ? all[Math.min(all.length - 1, Math.floor(all.length * 0.98))] : 1;
    this.mid = all.length ? all[all.length >> 1] : 0;
    const width = Math.max(this.mid * 0.5, floor || 0, 1e-9);
    if (this.hi - this.lo < width) this.hi = this.lo + width;
    const height = Math.max(60, Math.min(640, rows.length * (rows.length > 16 ? 12 : 22))) + this.margin.top + this.margin.bottom;
    this.box.style.height = height + "px";
    this.canvas.setAttribute("aria-label", `Seconds per rank and step, ${rows.length} ranks. Arrow keys inspect.`);
    this.image = null;
    this.view.draw();
  }

  neighbor(v, direction) {
    if (!this.x.length) return v;
    return this.x[Math.min(this.x.length - 1, Math.max(0, nearest(this.x, v) + direction))];
  }

  // picture draws a pixel per value once; frames scale it.
  picture() {
    const dark = color("scheme") === "dark";
    if (this.image && this.image.dark === dark) return this.image;
    const w = Math.max(1, this.x.length), n = Math.max(1, this.rows.length);
    const image = document.createElement("canvas");
    image.width = w;
    image.height = n;
    const c = image.getContext("2d"), data = c.createImageData(w, n);
    this.rows.forEach((r, y) => r.mean.forEach((v, x) => {
      if (v === null || v === undefined) return;
      data.data.set([...shade((v - this.lo) / (this.hi - this.lo), dark), 255], 4 * (y * w + x));
    }));
    c.putImageData(data, 0, 0);
    image.dark = dark;
    return (this.image = image);
  }

  paint(c, a) {
    const n = this.rows.length, m = this.x.length, [x0, x1] = this.view.shown, name = this.options.axis();
    this.drawX(c, a, name === "time" || name === "wall" ? timeTicks(x0, x1, a.w / 85) : ticks(x0, x1, a.w / 85), axis(name, x1 - x0));
    if (!n || !m) return;
    const image = this.picture(), row = a.h / n;
    c.save();
    c.beginPath();
    c.rect(a.x, a.y, a.w, a.h);
    c.clip();
    c.imageSmoothingEnabled = false;
    // A column covers the positions up to the middle to its neighbors; columns are about as wide as each other
    // on every axis but the clock's, where each is drawn at its place.
    const edge = (i) => (i <= 0 ? this.x[0] - (m > 1 ? (this.x[1] - this.x[0]) / 2 : 0.5) : i >= m ? this.x[m - 1] + (m > 1 ? (this.x[m - 1] - this.x[m - 2]) / 2 : 0.5) : (this.x[i - 1] + this.x[i]) / 2);
    for (let i = 0; i < m; i++) {
      const l = this.toX(edge(i)), r = this.toX(edge(i + 1));
      if (r < a.x || l > a.x + a.w) continue;
      c.drawImage(image, i, 0, 1, n, Math.floor(l), a.y, Math.max(1, Math.ceil(r) - Math.floor(l)), a.h);
    }
    c.restore();
    c.fillStyle = color("panel");
    if (row > 6) for (let y = 1; y < n; y++) c.fillRect(a.x, Math.round(a.y + y * row) - 0.5, a.w, 1);
    c.fillStyle = color("faint");
    c.textAlign = "right";
    c.textBaseline = "middle";
    const every = Math.ceil(12 / row);
    for (let y = 0; y < n; y += every) c.fillText("rank " + this.rows[y].rank, a.x - 7, a.y + (y + 0.5) * row);
    c.textAlign = "left";
    this.drawCross(c, a);
    this.tip(a, row, name);
  }

  tip(a, row, name) {
    const at = this.view.hover;
    if (at === null || !this.pointer) {
      this.options.tip.hide(this);
      return;
    }
    const i = nearest(this.x, at), y = Math.min(this.rows.length - 1, Math.max(0, Math.floor((this.pointer.y - a.y) / row)));
    const sorted = this.rows.map((r) => r.mean[i]).filter((v) => v !== null && v !== undefined).sort((p, q) => p - q);
    const mid = sorted[sorted.length >> 1];
    const v = this.rows[y].mean[i];
    this.options.tip.lines(this, position(name, this.x[i]), [
      [null, "rank " + this.rows[y].rank, value(v, "s", 4)],
      [null, "median", value(mid, "s", 4)],
      [null, "slowest", value(sorted[sorted.length - 1], "s", 4)],
    ]);
  }
}
