// A View is the range of the horizontal axis that several plots share, with the position under the pointer and
// the inspected one. Plots are drawn in animation frames, only when something changed.

const calm = matchMedia("(prefers-reduced-motion: reduce)");
export const moveTime = 160; // milliseconds that a change of the range takes

export class View {
  constructor() {
    this.full = [0, 1]; // of all data
    this.range = null; // chosen; null is all
    this.shown = [0, 1]; // drawn now
    this.hover = null; // position under the pointer
    this.pin = null; // inspected position
    this.plots = new Set();
    this.onrange = () => {};
    this.onpin = () => {};
    this.move = null;
  }

  target() {
    return this.range || this.full;
  }

  setFull(lo, hi) {
    if (!(hi > lo)) hi = lo + 1;
    if (lo === this.full[0] && hi === this.full[1]) return;
    this.full = [lo, hi];
    if (!this.range) {
      this.shown = [lo, hi];
      this.move = null;
      this.draw();
    }
  }

  // set changes the range, null to all; the plots move there.
  set(range) {
    if (range) {
      let [lo, hi] = range;
      const [a, b] = this.full;
      const width = Math.min(hi - lo, b - a);
      if (!(width > (b - a) * 1e-9)) return;
      lo = Math.min(Math.max(lo, a), b - width);
      range = width >= (b - a) * 0.9999 ? null : [lo, lo + width];
    }
    this.range = range;
    if (calm.matches) {
      this.shown = [...this.target()];
    } else {
      this.move = { from: [...this.shown], start: performance.now() };
    }
    this.onrange();
    this.draw();
  }

  // zoom scales the range around a position.
  zoom(factor, at) {
    const [lo, hi] = this.target();
    if (at === undefined || at === null) at = (lo + hi) / 2;
    this.set([at - (at - lo) * factor, at + (hi - at) * factor]);
  }

  pan(fraction) {
    const [lo, hi] = this.target();
    const d = (hi - lo) * fraction;
    this.set([lo + d, hi + d]);
  }

  setHover(x) {
    if (x === this.hover) return;
    this.hover = x;
    this.draw();
  }

  setPin(x) {
    this.pin = x;
    this.onpin();
    this.draw();
  }

  draw() {
    for (const p of this.plots) p.dirty = true;
    request();
  }

  // advance moves the drawn range towards the target.
  advance(now) {
    if (!this.move) return false;
    const t = Math.min(1, (now - this.move.start) / moveTime);
    const ease = 1 - (1 - t) ** 3;
    const [a, b] = this.target();
    this.shown = [this.move.from[0] + (a - this.move.from[0]) * ease, this.move.from[1] + (b - this.move.from[1]) * ease];
    if (t === 1) {
      this.shown = [a, b];
      this.move = null;
    }
    return true;
  }
}

const all = new Set(); // of plots
let requested = false;

export const frames = { count: 0, drawing: 0 }; // drawn frames, and the milliseconds that drawing took

function request() {
  if (requested) return;
  requested = true;
  requestAnimationFrame(frame);
}

function frame(now) {
  requested = false;
  const moved = new Set();
  for (const p of all) moved.add(p.view);
  for (const v of moved) if (v.advance(now)) v.draw();
  const start = performance.now();
  for (const p of all) {
    if (!p.dirty || !p.visible) continue;
    p.dirty = false;
    p.draw();
  }
  frames.count++;
  frames.drawing += performance.now() - start;
}

// redraw draws everything, after a change of colors.
export function redraw() {
  colors.clear();
  for (const p of all) p.dirty = true;
  request();
}

const colors = new Map();

// color reads a color of the style sheet.
export function color(name) {
  let c = colors.get(name);
  if (!c) {
    c = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "#888";
    colors.set(name, c);
  }
  return c;
}

export function register(plot) {
  all.add(plot);
  plot.view.plots.add(plot);
  plot.dirty = true;
  request();
}

export function unregister(plot) {
  all.delete(plot);
  plot.view.plots.delete(plot);
}

export function invalidate(plot) {
  plot.dirty = true;
  request();
}
