// Series come from the server as buckets of the visible range and half of it to both sides, so that zooming and
// panning have something to draw until the finer buckets arrive.
import { get } from "./api.js";
import { moveTime } from "./view.js";
import { colorOf, emit, nameOf, on, state, view } from "./state.js";

// Loader keeps the series of a page's plots up to date. Plots are {metrics, runs(), width(), visible(), set(series)}.
export class Loader {
  constructor() {
    this.plots = new Set();
    this.timer = null;
    this.busy = false;
    this.again = false;
    this.off = [
      on("zoom", () => this.soon(moveTime + 20)), // an answer that arrives during a move costs it frames
      on("axis selected focus", () => this.reset()),
      on("data", (ids) => { this.stale(ids); this.soon(120); }),
    ];
    this.generation = 0;
    this.abort = new AbortController();
  }

  destroy() {
    for (const f of this.off) f();
    clearTimeout(this.timer);
    this.abort.abort();
  }

  reset() {
    this.generation++;
    for (const p of this.plots) p.have = null;
    this.soon(0);
  }

  // stale marks the plots whose runs got records.
  stale(ids) {
    for (const p of this.plots) if (p.runs().some((id) => ids.includes(id))) p.have = null;
  }

  soon(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), ms);
  }

  // load requests what visible plots lack, one request for all of the same runs.
  async load() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      const want = view.target().join() + " " + state.axis, batches = new Map();
      for (const p of this.plots) {
        if (!p.visible() || !(p.width() > 0)) continue;
        const key = `${want} ${p.runs().join("\n")}`;
        if (p.have === key) continue;
        const batch = batches.get(p.runs().join("\n")) || { key, plots: [] };
        batch.plots.push(p);
        batches.set(p.runs().join("\n"), batch);
      }
      await Promise.all([...batches.values()].map((b) => this.fetch(b)));
    } catch (err) {
      if (err.name !== "AbortError") emit("error", err);
    } finally {
      this.busy = false;
      if (this.again) {
        this.again = false;
        this.soon(0);
      }
    }
  }

  async fetch({ key, plots }) {
    const runs = plots[0].runs(), generation = this.generation;
    if (!runs.length) {
      for (const p of plots) p.set(new Map());
      return;
    }
    const [lo, hi] = view.target(), w = (hi - lo) / 2;
    const metrics = [...new Set(plots.flatMap((p) => p.metrics))];
    const width = Math.max(...plots.map((p) => p.width()));
    const params = { run: runs, metric: metrics, axis: state.axis, points: Math.min(2000, Math.round(width * (view.range ? 1.2 : 0.6))) };
    if (view.range) Object.assign(params, { from: lo - w, to: hi + w });
    for (const p of plots) p.have = key; // records that arrive from here on make it stale
    let answer;
    try {
      answer = await get("series", params, this.abort.signal);
    } catch (err) {
      for (const p of plots) p.have = null;
      throw err;
    }
    if (generation !== this.generation) return;
    const byMetric = new Map();
    let a = Infinity, b = -Infinity;
    for (const r of answer.ranges) {
      a = Math.min(a, r.from);
      b = Math.max(b, r.to);
    }
    if (b >= a) view.setFull(a, b);
    for (const s of answer.series) {
      const dense = Boolean(s.min);
      const one = { run: s.run, name: nameOf(s.run), color: colorOf(s.run), x: answer.xs[s.x], mean: s.mean, min: s.min || s.mean, max: s.max || s.mean, dense };
      if (!byMetric.has(s.metric)) byMetric.set(s.metric, []);
      byMetric.get(s.metric).push(one);
    }
    for (const p of plots) p.set(byMetric);
  }
}
