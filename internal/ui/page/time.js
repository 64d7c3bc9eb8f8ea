// The page of one run's time and memory: the split of its steps, memory by category, and ranks beside each other.
import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { Heat } from "./heat.js";
import { Loader } from "./series.js";
import { Stack } from "./stack.js";
import { Tip } from "./tip.js";
import { colorOf, emit, nameOf, on, palette, state, view } from "./state.js";

const splitColors = {
  forward: "#4c7fe6", backward: "#7a62e0", recompute: "#a79af0", optimizer: "#2fa37c", publish: "#7cc7a8", data: "#c99a1c",
  comm: "#e2703a", wait: "#d4526e", offload: "#9a6b4f", other: "#9aa0aa",
};
const order = Object.keys(splitColors);
export const splitColor = (name, i) => splitColors[name] || palette[i % palette.length];

const heats = [
  ["own", "Own time per rank", "seconds of a step without waits for others"],
  ["data", "Waiting for data per rank", "seconds of its own time"],
  ["comm", "Waiting for communication per rank", "seconds, for data and for slower ranks: the slow rank waits least"],
  ["save", "Checkpoints per rank", "seconds of its own time"],
];

// picker chooses the run whose details are shown.
export function picker() {
  if (state.selected.length < 2) return h("div.legend");
  return h("div.legend", state.selected.map((id) => h("button.chip" + (id === state.focus ? ".focus" : ""), {
    type: "button", style: { "--c": colorOf(id) }, "aria-pressed": id === state.focus,
    onclick: () => { state.focus = id; emit("focus"); },
  }, h("i"), nameOf(id))));
}

export function time(main) {
  const loader = new Loader(), tip = new Tip();
  let plots = [], shown = null, own = 0; // own is the median of own times, in seconds

  function section(title, about, plot, legend) {
    return h("section.card.wide", { "data-metric": title }, h("header", h("h3", title), h("span.about", about)), plot.box, legend);
  }

  function stack(title, about, metrics, paint, sort) {
    const legend = h("div.keys"), names = metrics.map((m) => m.slice(m.indexOf(".") + 1));
    const s = new Stack(view, { axis: () => state.axis, color: paint, tip });
    fill(legend, names.map((n, i) => h("span", h("i", { style: { background: paint(n, i) } }), n)));
    add(s, metrics, (found) => {
      const one = metrics.map((m, i) => ({ ...(found.get(m) || [])[0], metric: m, name: names[i] })).filter((p) => p.x);
      if (sort) one.sort((a, b) => sort(a.name) - sort(b.name));
      if (one.length) s.setParts(one[0].x, one);
    });
    return section(title, about, s, legend);
  }

  function add(plot, metrics, set) {
    const p = { metrics, runs: () => (state.focus ? [state.focus] : []), width: () => plot.w, visible: () => plot.visible, set };
    plot.onvisible = () => loader.soon(0);
    loader.plots.add(p);
    plots.push(plot);
  }

  async function build() {
    const id = state.focus;
    let metrics = [];
    if (id) {
      try {
        metrics = (await get("metrics", { run: [id] })).metrics;
      } catch (err) {
        fill(main, h("p.error", err.message));
        return;
      }
    }
    const key = id + "\n" + metrics.join();
    if (id !== state.focus || shown === key) return;
    shown = key;
    for (const p of plots) p.destroy();
    plots = [];
    loader.plots.clear();
    const out = [];
    const split = order.map((n) => "split." + n).filter((m) => metrics.includes(m));
    if (split.length) out.push(stack("Time of a step", "rank 0; comm is exposed transfer, wait is for slower ranks", split, splitColor, (n) => order.indexOf(n)));
    for (const [prefix, title] of [["memory.", "Memory by category"], ["memory_peak.", "Peak memory by category"]]) {
      const parts = metrics.filter((m) => m.startsWith(prefix) && m !== prefix + "total").slice(0, 12);
      if (parts.length) out.push(stack(title, prefix === "memory." ? "rank 0, tensors at the end of the step" : "rank 0; categories peak at different times", parts, (n, i) => palette[i % palette.length]));
    }
    for (const [kind, title, about] of heats) {
      const ranks = metrics.filter((m) => m.startsWith(`ranks.${kind}.`)).sort((a, b) => rank(a) - rank(b));
      if (!ranks.length) continue;
      const heat = new Heat(view, { axis: () => state.axis, tip });
      add(heat, ranks, (found) => {
        const rows = ranks.map((m) => ({ ...(found.get(m) || [])[0], rank: rank(m) })).filter((r) => r.x);
        if (rows.length) heat.setRows(rows[0].x, rows, own * 0.2);
        if (kind === "own") own = heat.mid;
      });
      out.push(section(title, about, heat, h("div.scale", h("span", "short"), h("i"), h("span", "long"))));
    }
    fill(main, h("div.toolbar", picker()), h("div.column", out.length ? out : h("p.none", id ? "This run has no records of time or memory." : "Select a run.")));
    loader.soon(0);
  }

  const rank = (m) => Number(m.slice(m.lastIndexOf(".") + 1));
  const off = [on("focus selected", build), on("data", build), on("error", (err) => tip.error(err))];
  build();
  return { destroy: () => {
    for (const f of off) f();
    for (const p of plots) p.destroy();
    loader.destroy();
    tip.destroy();
  } };
}
