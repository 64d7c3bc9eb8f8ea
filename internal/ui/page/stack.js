// Stack draws the parts of a whole of one run as areas on each other.
import { axis, position, unit, value } from "./format.js";
import { nearest } from "./chart.js";
import { Plot, byteTicks, ticks, timeTicks } from "./plot.js";

export class Stack extends Plot {
  constructor(view, options) {
    super(view, options.height || 220);
    this.options = options; // axis(), color(name), tip
    this.parts = []; // {name, ys}
    this.x = [];
    this.tops = [];
  }

  // setParts takes {name, mean} with the same positions.
  setParts(x, parts) {
    this.x = x;
    this.parts = parts;
    this.unit = parts.length ? unit(parts[0].metric) : "";
    this.margin.left = this.unit === "B" ? 62 : 52;
    let base = new Float64Array(x.length);
    this.tops = parts.map((p) => {
      const top = base.slice();
      for (let i = 0; i < x.length; i++) top[i] += p.mean[i] || 0;
      base = top;
      return top;
    });
    this.canvas.setAttribute("aria-label", `${parts.map((p) => p.name).join(", ")}, stacked. Arrow keys inspect.`);
    this.view.draw();
  }

  neighbor(v, direction) {
    if (!this.x.length) return v;
    return this.x[Math.min(this.x.length - 1, Math.max(0, nearest(this.x, v) + direction))];
  }

  paint(c, a) {
    const [x0, x1] = this.view.shown, n = this.x.length;
    let hi = 0, from = 0, to = -1;
    if (n) {
      from = Math.max(0, nearest(this.x, x0) - 1);
      to = Math.min(n - 1, nearest(this.x, x1) + 1);
      const top = this.tops[this.tops.length - 1] || [];
      for (let i = from; i <= to; i++) if (top[i] > hi) hi = top[i];
    }
    hi = hi > 0 ? hi * 1.05 : 1;
    const toY = (v) => a.y + a.h - (v / hi) * a.h;
    this.drawY(c, a, (this.unit === "B" ? byteTicks : ticks)(0, hi, a.h / 38), toY, this.unit);
    const name = this.options.axis(), marks = a.w / 85;
    this.drawX(c, a, name === "time" || name === "wall" ? timeTicks(x0, x1, marks) : ticks(x0, x1, marks), axis(name, x1 - x0));
    c.save();
    c.beginPath();
    c.rect(a.x, a.y, a.w + 1, a.h + 1);
    c.clip();
    for (let p = 0; p < this.parts.length; p++) {
      const top = this.tops[p], low = p > 0 ? this.tops[p - 1] : null;
      c.beginPath();
      for (let i = from; i <= to; i++) c.lineTo(this.toX(this.x[i]), toY(top[i]));
      for (let i = to; i >= from; i--) c.lineTo(this.toX(this.x[i]), toY(low ? low[i] : 0));
      c.closePath();
      c.fillStyle = this.options.color(this.parts[p].name, p);
      c.globalAlpha = 0.85;
      c.fill();
    }
    c.globalAlpha = 1;
    this.drawCross(c, a);
    c.restore();
    const at = this.view.hover !== null ? this.view.hover : this.view.pin;
    if (at === null || !n || this.view.hover === null) {
      this.options.tip.hide(this);
      return;
    }
    const i = nearest(this.x, at);
    const sum = this.parts.reduce((s, p) => s + (p.mean[i] || 0), 0);
    const rows = this.parts.map((p, k) => [this.options.color(p.name, k), p.name, `${value(p.mean[i], this.unit, 3)}  ${((100 * (p.mean[i] || 0)) / (sum || 1)).toFixed(1)}%`]).reverse();
    rows.push([null, "all", value(sum, this.unit, 4)]);
    this.options.tip.lines(this, position(name, this.x[i]), rows.filter((r) => !r[2].startsWith("0 ") || r[1] === "all"));
  }
}
