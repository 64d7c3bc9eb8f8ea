// Plot is a canvas with axes: the base of line charts, stacked areas, heat maps and the timeline. It has the
// gestures: drag zooms, shift-drag or a horizontal wheel pans, double click resets, click inspects.
import { h } from "./dom.js";
import { value } from "./format.js";
import { color, invalidate, register, unregister } from "./view.js";

export const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';

const seen = new IntersectionObserver((entries) => {
  for (const e of entries) {
    const p = e.target.plot;
    p.visible = e.isIntersecting;
    if (p.visible) {
      invalidate(p);
      p.onvisible();
    }
  }
}, { rootMargin: "120px" });

const sized = new ResizeObserver((entries) => {
  for (const e of entries) e.target.plot.resize();
});

// ticks returns about n round positions in [lo, hi].
export function ticks(lo, hi, n) {
  const raw = (hi - lo) / Math.max(1, n);
  if (!(raw > 0) || !Number.isFinite(raw)) return [];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * power >= raw * 0.999) * power;
  const out = [];
  for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9 && out.length < 100; i++) out.push(i === 0 ? 0 : i * step);
  return out.map((v) => Number(v.toPrecision(12)));
}

// byteTicks are ticks at round multiples of powers of 1024.
export function byteTicks(lo, hi, n) {
  const unit = 1024 ** Math.floor(Math.log(Math.max(1, hi - lo)) / Math.log(1024));
  return ticks(lo / unit, hi / unit, n).map((v) => v * unit);
}

const spans = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];

// timeTicks are ticks at round times, for seconds.
export function timeTicks(lo, hi, n, offset = 0) {
  const raw = (hi - lo) / Math.max(1, n);
  if (raw < 1) return ticks(lo, hi, n);
  const step = spans.find((s) => s >= raw) || raw;
  const out = [];
  for (let v = Math.ceil((lo - offset) / step) * step + offset; v <= hi && out.length < 100; v += step) out.push(v);
  return out;
}

// logTicks are powers of ten, with 2 and 5 between them where there are few.
export function logTicks(lo, hi) {
  const out = [];
  const decades = Math.log10(hi / lo);
  const marks = decades > 4 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9];
  const every = Math.max(1, Math.ceil(decades / 6));
  for (let e = Math.floor(Math.log10(lo)); e <= Math.ceil(Math.log10(hi)); e++) {
    if (decades > 4 && e % every) continue;
    for (const m of marks) {
      const v = m * 10 ** e;
      if (v >= lo * 0.999 && v <= hi * 1.001) out.push(Number(v.toPrecision(12)));
    }
  }
  return out;
}

export class Plot {
  constructor(view, height) {
    this.view = view;
    this.visible = false;
    this.dirty = true;
    this.margin = { left: 52, right: 12, top: 8, bottom: 22 };
    this.onvisible = () => {};
    this.canvas = h("canvas", { tabindex: "0", role: "img" });
    this.box = h("div.plot", { style: { height: height + "px" } }, this.canvas);
    this.box.plot = this;
    this.w = this.h = 0;
    this.select = null;
    this.listen();
    register(this);
    seen.observe(this.box);
    sized.observe(this.box);
  }

  destroy() {
    seen.unobserve(this.box);
    sized.unobserve(this.box);
    unregister(this);
    this.box.remove();
  }

  resize() {
    const r = this.box.getBoundingClientRect();
    const ratio = (this.ratio = Math.min(2, devicePixelRatio || 1)); // pixels of the canvas per unit
    if (r.width === this.w && r.height === this.h) return;
    this.w = r.width;
    this.h = r.height;
    this.canvas.width = Math.round(r.width * ratio);
    this.canvas.height = Math.round(r.height * ratio);
    this.canvas.style.width = r.width + "px";
    this.canvas.style.height = r.height + "px";
    this.ctx = this.canvas.getContext("2d");
    this.ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    invalidate(this);
    this.onvisible();
  }

  inner() {
    const m = this.margin;
    return { x: m.left, y: m.top, w: Math.max(1, this.w - m.left - m.right), h: Math.max(1, this.h - m.top - m.bottom) };
  }

  // toX maps a position of the axis to a pixel; toValue is its inverse.
  toX(v) {
    const a = this.inner(), [lo, hi] = this.view.shown;
    return a.x + ((v - lo) / (hi - lo)) * a.w;
  }

  toValue(px) {
    const a = this.inner(), [lo, hi] = this.view.shown;
    return lo + ((px - a.x) / a.w) * (hi - lo);
  }

  draw() {
    if (!this.ctx || this.w < 10) return;
    const c = this.ctx, a = this.inner();
    c.clearRect(0, 0, this.w, this.h);
    c.font = font;
    this.paint(c, a);
    if (this.select && this.select.zoom) {
      const x0 = Math.min(this.select.from, this.select.to), x1 = Math.max(this.select.from, this.select.to);
      c.fillStyle = color("select");
      c.fillRect(x0, a.y, x1 - x0, a.h);
    }
  }

  // drawY draws the vertical axis with the given ticks; toY maps a value to a pixel.
  drawY(c, a, marks, toY, unit) {
    c.textBaseline = "middle";
    c.textAlign = "right";
    let last = Infinity;
    for (const v of marks) {
      const y = Math.round(toY(v)) + 0.5;
      if (y < a.y - 1 || y > a.y + a.h + 1) continue;
      c.strokeStyle = color(v === 0 ? "axis" : "grid");
      c.beginPath();
      c.moveTo(a.x, y);
      c.lineTo(a.x + a.w, y);
      c.stroke();
      if (last - y < 13) continue;
      c.fillStyle = color("faint");
      c.fillText(value(v, unit, 3), a.x - 7, y);
      last = y;
    }
    c.textAlign = "left";
  }

  // drawX draws the horizontal axis with the given ticks.
  drawX(c, a, marks, write) {
    c.fillStyle = color("faint");
    c.textBaseline = "top";
    let last = -Infinity;
    for (const v of marks) {
      const x = Math.round(this.toX(v)) + 0.5, s = write(v), w = c.measureText(s).width;
      if (x < a.x - 1 || x > a.x + a.w + 1) continue;
      c.strokeStyle = color("grid");
      c.beginPath();
      c.moveTo(x, a.y);
      c.lineTo(x, a.y + a.h);
      c.stroke();
      const left = Math.min(Math.max(x - w / 2, 0), this.w - w - 1);
      if (left < last + 10) continue;
      c.fillText(s, left, a.y + a.h + 6);
      last = left + w;
    }
  }

  // drawCross draws the lines of the inspected position and of the pointer's.
  drawCross(c, a) {
    for (const [v, name] of [[this.view.pin, "pin"], [this.view.hover, "cross"]]) {
      if (v === null) continue;
      const x = Math.round(this.toX(v)) + 0.5;
      if (x < a.x || x > a.x + a.w + 1) continue;
      c.strokeStyle = color(name);
      c.beginPath();
      c.moveTo(x, a.y);
      c.lineTo(x, a.y + a.h);
      c.stroke();
    }
  }

  listen() {
    const e = this.canvas;
    const at = (ev) => ev.clientX - e.getBoundingClientRect().left;
    e.addEventListener("pointerdown", (ev) => {
      if (ev.button !== 0) return;
      const x = at(ev);
      this.select = { from: x, to: x, zoom: false, pan: ev.shiftKey, shown: [...this.view.shown], touch: ev.pointerType === "touch" };
      if (!this.select.touch) e.setPointerCapture(ev.pointerId);
    });
    e.addEventListener("pointermove", (ev) => {
      const x = at(ev), a = this.inner(), s = this.select;
      this.pointer = { x, y: ev.clientY - e.getBoundingClientRect().top };
      if (s && !s.touch) {
        if (s.pan) {
          const [lo, hi] = s.shown, d = ((s.from - x) / a.w) * (hi - lo);
          this.view.set([lo + d, hi + d]);
          this.view.shown = [...this.view.target()];
          this.view.move = null;
        } else {
          s.to = Math.min(Math.max(x, a.x), a.x + a.w);
          s.zoom = s.zoom || Math.abs(s.to - s.from) > 4;
        }
      }
      this.view.setHover(x >= a.x && x <= a.x + a.w ? this.toValue(x) : null);
      invalidate(this);
    });
    e.addEventListener("pointerup", () => {
      const s = this.select;
      this.select = null;
      if (!s) return;
      if (s.zoom) {
        const v = [this.toValue(s.from), this.toValue(s.to)].sort((x, y) => x - y);
        this.view.set(v);
      } else if (!s.pan) {
        this.click(this.toValue(s.from), this.pointer);
      }
      invalidate(this);
    });
    const leave = () => {
      this.pointer = null;
      this.select = null;
      this.view.setHover(null);
      invalidate(this);
    };
    e.addEventListener("pointerleave", () => { if (!this.select || this.select.touch) leave(); });
    e.addEventListener("pointercancel", leave);
    e.addEventListener("dblclick", () => {
      this.view.setPin(null);
      this.view.set(null);
    });
    e.addEventListener("wheel", (ev) => {
      if (ev.ctrlKey || ev.metaKey) {
        ev.preventDefault();
        this.view.zoom(Math.exp(ev.deltaY * 0.003), this.toValue(at(ev)));
      } else if (Math.abs(ev.deltaX) > Math.abs(ev.deltaY)) {
        ev.preventDefault();
        this.view.pan(ev.deltaX / this.inner().w);
      }
    }, { passive: false });
    e.addEventListener("keydown", (ev) => {
      if (ev.ctrlKey || ev.metaKey || ev.altKey || !this.key(ev)) return;
      ev.preventDefault();
      ev.stopPropagation();
    });
  }

  click(v) {
    this.view.setPin(v);
  }

  // neighbor returns the next position with data after v in a direction; plots override it.
  neighbor(v, direction) {
    const [lo, hi] = this.view.target();
    return Math.min(hi, Math.max(lo, v + (direction * (hi - lo)) / 100));
  }

  key(ev) {
    const v = this.view;
    switch (ev.key) {
      case "ArrowLeft": case "ArrowRight": {
        const d = ev.key === "ArrowLeft" ? -1 : 1;
        if (ev.shiftKey) v.pan(d * 0.2);
        else v.setPin(v.pin === null ? (d > 0 ? v.target()[0] : v.target()[1]) : this.neighbor(v.pin, d));
        return true;
      }
      case "+": case "=": v.zoom(0.5, v.pin); return true;
      case "-": v.zoom(2, v.pin); return true;
      case "0": v.set(null); return true;
      case "Escape":
        if (v.pin !== null) v.setPin(null);
        else if (v.range) v.set(null);
        else return false;
        return true;
    }
    return false;
  }
}
