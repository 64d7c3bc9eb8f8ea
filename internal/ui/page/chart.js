// Chart draws one metric of several runs as lines: the band between a bucket's smallest and largest value, the mean
// as a line, and the smoothed mean over it.
import { axis, position, unit, value } from "./format.js";
import { Plot, byteTicks, logTicks, ticks, timeTicks } from "./plot.js";
import { color } from "./view.js";

// nearest returns the index of the value of sorted xs that is closest to x.
export function nearest(xs, x) {
  let lo = 0, hi = xs.length - 1;
  while (lo < hi) {
    const m = (lo + hi) >> 1;
    if (xs[m] < x) lo = m + 1;
    else hi = m;
  }
  return lo > 0 && x - xs[lo - 1] < xs[lo] - x ? lo - 1 : lo;
}

// smooth is an exponential moving average with bias correction. Its weight per 1/1000 of the visible range is
// beta, so that it has the same look at every zoom.
export function smooth(xs, ys, beta, width) {
  const out = new Array(ys.length);
  let sum = 0, weight = 0, last = null;
  for (let i = 0; i < ys.length; i++) {
    const y = ys[i];
    if (y === null) {
      out[i] = null;
      continue;
    }
    const b = last === null ? 0 : beta ** Math.max(0.05, ((xs[i] - last) / width) * 1000);
    sum = sum * b + (1 - b) * y;
    weight = weight * b + (1 - b);
    out[i] = sum / weight;
    last = xs[i];
  }
  return out;
}

// limits returns the smallest and largest value of series within [a, b].
function limits(series, a, b, log) {
  let lo = Infinity, hi = -Infinity;
  for (const s of series) {
    let i = nearest(s.x, a), j = nearest(s.x, b);
    if (i > 0 && s.x[i] > a) i--;
    if (j < s.x.length - 1 && s.x[j] < b) j++;
    for (; i <= j; i++) {
      const l = s.min[i], u = s.max[i];
      if (l === null || u === null) continue;
      if (l < lo && (!log || l > 0)) lo = l;
      if (u > hi) hi = u;
    }
  }
  return [lo, hi];
}

export class Chart extends Plot {
  constructor(view, metric, options) {
    super(view, options.height || 200);
    this.metric = metric;
    this.unit = unit(metric);
    if (this.unit.startsWith("B")) this.margin.left = 62;
    this.options = options; // axis(), smooth(), log(), tip
    this.series = []; // {run, name, color, x, min, max, mean}
    this.y = null; // drawn limits, which move too
  }

  setSeries(series) {
    this.series = series.filter((s) => s.x.length > 0);
    const names = series.map((s) => s.name).join(", ");
    this.canvas.setAttribute("aria-label", `${this.metric}: ${names || "no data"}. Arrow keys inspect, plus and minus zoom, 0 resets.`);
    this.smoothed = null;
    this.dirty = true;
    this.view.draw();
  }

  neighbor(v, direction) {
    const s = this.series[0];
    if (!s) return super.neighbor(v, direction);
    const i = nearest(s.x, v);
    return s.x[Math.min(s.x.length - 1, Math.max(0, i + direction))];
  }

  paint(c, a) {
    const log = this.options.log(), [x0, x1] = this.view.shown;
    let [lo, hi] = limits(this.series, x0, x1, log);
    const empty = !(hi >= lo);
    if (empty) [lo, hi] = log ? [0.1, 1] : [0, 1];
    if (log) {
      if (hi <= lo * 1.0001) [lo, hi] = [lo / 1.1, hi * 1.1];
      const pad = (hi / lo) ** 0.04;
      [lo, hi] = [lo / pad, hi * pad];
    } else {
      if (hi === lo) [lo, hi] = lo === 0 ? [0, 1] : [lo - Math.abs(lo) * 0.1, hi + Math.abs(hi) * 0.1];
      const pad = (hi - lo) * 0.05, zero = lo >= 0 && lo < (hi - lo) * 0.35;
      [lo, hi] = [zero ? 0 : lo - pad, hi + pad];
    }
    const f = log ? Math.log : (v) => v;
    const scale = a.h / (f(hi) - f(lo)), base = a.y + a.h;
    const toY = (v) => base - (f(v) - f(lo)) * scale;
    const round = this.unit.startsWith("B") ? byteTicks : ticks;
    this.drawY(c, a, log ? logTicks(lo, hi) : round(lo, hi, a.h / 34), toY, this.unit);
    this.drawAxis(c, a);
    if (empty) {
      c.fillStyle = color("faint");
      c.fillText("no values here", a.x + 10, a.y + a.h / 2);
      return;
    }
    c.save();
    c.beginPath();
    c.rect(a.x, a.y - 1, a.w + 1, a.h + 2);
    c.clip();
    const safe = log ? (v) => (v === null || v <= 0 ? null : v) : (v) => v;
    const beta = this.options.smooth();
    for (const s of this.series) this.drawSeries(c, a, s, toY, safe, beta);
    this.drawCross(c, a);
    this.drawDots(c, a, toY, safe, beta);
    c.restore();
  }

  drawAxis(c, a) {
    const name = this.options.axis(), [lo, hi] = this.view.shown, n = a.w / 85;
    const zone = name === "wall" ? new Date(hi * 1000).getTimezoneOffset() * 60 : 0;
    this.drawX(c, a, name === "time" || name === "wall" ? timeTicks(lo, hi, n, zone) : ticks(lo, hi, n), axis(name, hi - lo));
  }

  drawSeries(c, a, s, toY, safe, beta) {
    const [x0, x1] = this.view.shown, k = a.w / (x1 - x0), ox = a.x - x0 * k;
    let from = Math.max(0, nearest(s.x, x0) - 1), to = Math.min(s.x.length - 1, nearest(s.x, x1) + 1);
    if (s.dense) this.band(c, s, from, to, ox, k, toY, safe);
    c.globalAlpha = beta > 0 ? 0.3 : 1;
    this.line(c, s, s.mean, from, to, ox, k, toY, safe, beta > 0 ? 1 : 1.4);
    c.globalAlpha = 1;
    if (beta > 0) this.line(c, s, this.smoothOf(s, beta), from, to, ox, k, toY, safe, 1.6);
  }

  // band fills each column of pixels between the smallest and the largest value of its buckets: rectangles, since a
  // path of a thousand corners takes most of a frame to fill.
  band(c, s, from, to, ox, k, toY, safe) {
    c.globalAlpha = this.series.length > 1 ? 0.1 : 0.18;
    c.fillStyle = s.color;
    const pixel = (v) => Math.round((ox + v * k) * this.ratio) / this.ratio;
    let left = pixel(s.x[from]), low = Infinity, high = -Infinity;
    for (let i = from; i <= to; i++) {
      const l = safe(s.min[i]);
      if (l !== null) {
        low = Math.min(low, l);
        high = Math.max(high, s.max[i]);
      }
      const right = pixel(i < to ? (s.x[i] + s.x[i + 1]) / 2 : s.x[i]);
      if (right <= left) continue;
      if (high >= low) c.fillRect(left, toY(high), right - left, toY(low) - toY(high));
      left = right;
      low = Infinity;
      high = -Infinity;
    }
  }

  smoothOf(s, beta) {
    const [a, b] = this.view.target(), key = `${beta} ${b - a}`;
    if (!this.smoothed || this.smoothed.key !== key) this.smoothed = { key, of: new Map() };
    let out = this.smoothed.of.get(s);
    if (!out) this.smoothed.of.set(s, (out = smooth(s.x, s.mean, beta, b - a)));
    return out;
  }

  line(c, s, ys, from, to, ox, k, toY, safe, width) {
    c.strokeStyle = s.color;
    c.lineWidth = this.view.move ? 1 : width; // lines of one pixel are drawn many times faster
    c.lineJoin = "bevel";
    c.beginPath();
    let open = false;
    for (let i = from; i <= to; i++) {
      const v = safe(ys[i]);
      if (v === null) {
        open = false;
        continue;
      }
      const x = ox + s.x[i] * k, y = toY(v);
      if (open) c.lineTo(x, y);
      else c.moveTo(x, y);
      open = true;
    }
    c.stroke();
    if (to - from < 60) { // points that are far apart
      c.fillStyle = s.color;
      for (let i = from; i <= to; i++) {
        const v = safe(ys[i]);
        if (v === null) continue;
        c.beginPath();
        c.arc(ox + s.x[i] * k, toY(v), to - from < 3 ? 3 : 1.8, 0, 7);
        c.fill();
      }
    }
    c.lineWidth = 1;
  }

  // values are those at the pointer or the inspected position, by run.
  values(at) {
    const beta = this.options.smooth(), [x0, x1] = this.view.shown;
    return this.series.map((s) => {
      const i = nearest(s.x, at);
      if (Math.abs(s.x[i] - at) > (x1 - x0) * 0.05) return null;
      return { s, i, x: s.x[i], raw: s.mean[i], min: s.min[i], max: s.max[i], smooth: beta > 0 ? this.smoothOf(s, beta)[i] : null };
    }).filter((v) => v && v.raw !== null);
  }

  drawDots(c, a, toY, safe, beta) {
    const at = this.view.hover !== null ? this.view.hover : this.view.pin;
    const values = at === null ? [] : this.values(at);
    for (const v of values) {
      const y = safe(beta > 0 ? v.smooth : v.raw);
      if (y === null) continue;
      c.beginPath();
      c.arc(this.toX(v.x), toY(y), 3.2, 0, 7);
      c.fillStyle = v.s.color;
      c.fill();
      c.strokeStyle = color("panel");
      c.lineWidth = 1.5;
      c.stroke();
      c.lineWidth = 1;
    }
    this.options.tip(this, at, values);
  }

  where(v) {
    return position(this.options.axis(), v);
  }
}
