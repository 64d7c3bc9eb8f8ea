// The page of charts: a card per metric of the selected runs, in groups.
import { get } from "./api.js";
import { Chart } from "./chart.js";
import { fill, h, icon } from "./dom.js";
import { value } from "./format.js";
import { Loader } from "./series.js";
import { Tip } from "./tip.js";
import { colorOf, emit, nameOf, on, state, view } from "./state.js";

const groups = [
  ["Training", /^(loss|eval_loss|perplexity|accuracy|macro_f1|grad_norm|lr|epoch_loss|loss_scale|means[./].*)$/],
  ["Speed", /^(tokens_per_second|samples_per_second|mfu|step_seconds|comm_fraction|data_fraction|skew|flops_per_second)$/],
  ["Time", /^(split[./]|comm_|step_seconds_|(memory_)?save_seconds|eval_seconds|label_tokens_per_second|slow_rank)/],
  ["Memory", /^(rss|memory)/],
  ["Host and device", /^(host|device)[./]/],
  ["Ranks", /^ranks[./]/],
  ["Other", /./],
];
const first = ["loss", "eval_loss", "grad_norm", "lr", "tokens_per_second", "mfu", "step_seconds", "comm_fraction", "data_fraction", "skew"];
const opened = new Set(["Training", "Speed"]);

const rank = (m) => { const i = first.indexOf(m); return i < 0 ? first.length : i; };

export function charts(main) {
  const loader = new Loader();
  const tip = new Tip(main);
  const cards = new Map(); // metric to card
  let metrics = [];

  const filter = h("input.filter", {
    type: "search", placeholder: "Filter metrics", "aria-label": "Filter metrics", value: state.filter, autocomplete: "off", spellcheck: "false",
    oninput: () => { state.filter = filter.value; emit("filter"); },
    onkeydown: (e) => { if (e.key === "Escape") { filter.value = state.filter = ""; filter.blur(); emit("filter"); } },
  });
  const legend = h("div.legend");
  const body = h("div.groups");
  fill(main, h("div.toolbar", filter, legend), body);

  function drawLegend() {
    fill(legend, state.selected.map((id) => h("button.chip" + (id === state.focus ? ".focus" : ""), {
      type: "button", title: "Details of this run", style: { "--c": colorOf(id) },
      onclick: () => { state.focus = id; emit("focus"); },
    }, h("i"), nameOf(id))));
  }

  function card(metric) {
    const values = h("span.values");
    const log = h("button.mini", { type: "button", title: "Logarithmic axis", onclick: () => {
      state.log.has(metric) ? state.log.delete(metric) : state.log.add(metric);
      emit("look");
    } }, "log");
    const expand = h("button.mini", { type: "button", title: "Larger", "aria-label": "Larger", onclick: () => {
      const large = box.classList.toggle("large");
      chart.box.style.height = (large ? 420 : 200) + "px";
    } }, icon("expand"));
    const chart = new Chart(view, metric, {
      axis: () => state.axis, smooth: () => state.smooth, log: () => state.log.has(metric),
      tip: (c, at, found) => {
        tip.chart(c, at, found);
        show(values, c, at, found);
      },
    });
    const box = h("section.card", { "data-metric": metric }, h("header", h("h3", metric), values, log, expand), chart.box);
    const plot = {
      metrics: [metric], runs: () => state.selected, width: () => chart.w, visible: () => chart.visible,
      set: (found) => chart.setSeries(found.get(metric) || []),
    };
    chart.onvisible = () => loader.soon(0);
    loader.plots.add(plot);
    const look = () => log.setAttribute("aria-pressed", state.log.has(metric));
    look();
    return { box, look, destroy: () => { loader.plots.delete(plot); chart.destroy(); } };
  }

  // show writes the values at the inspected position, or the last ones, into the head of a card.
  function show(e, chart, at, found) {
    const text = (at === null ? chart.series.map((s) => ({ s, raw: s.mean.findLast((v) => v !== null) })) : found)
      .slice(0, 3).map((v) => [v.s.color, value(v.smooth || v.raw, chart.unit, chart.unit ? 3 : 4)]);
    const key = JSON.stringify(text);
    if (e.shown === key) return;
    e.shown = key;
    fill(e, text.map(([c, s]) => h("b", { style: { color: c } }, s)));
  }

  function layout() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = metrics.filter((m) => words.every((w) => m.toLowerCase().includes(w)));
    const left = new Set(kept), wanted = new Set(), out = [];
    for (const [name, re] of groups) {
      const mine = kept.filter((m) => left.has(m) && re.test(m)).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
      for (const m of mine) left.delete(m);
      if (!mine.length) continue;
      const open = opened.has(name) || words.length > 0;
      if (open) mine.slice(0, 100).forEach((m) => wanted.add(m));
      const toggle = h("button.group", { type: "button", "aria-expanded": open, onclick: () => {
        opened.has(name) ? opened.delete(name) : opened.add(name);
        layout();
      } }, name, h("span.count", mine.length));
      out.push(toggle, open && h("div.grid", mine.slice(0, 100).map((m) => {
        if (!cards.has(m)) cards.set(m, card(m));
        return cards.get(m).box;
      })));
    }
    for (const [m, c] of cards) {
      if (wanted.has(m)) continue;
      c.destroy();
      cards.delete(m);
    }
    fill(body, out.length ? out : h("p.none", state.selected.length ? "no metric matches" : "Select a run."));
    loader.soon(0);
  }

  let asked = "";
  async function list() {
    const runs = state.selected.filter((id) => state.runs.has(id)), key = runs.join("\n");
    asked = key;
    let found = [];
    if (runs.length) {
      try {
        found = (await get("metrics", { run: runs })).metrics;
      } catch (err) {
        fill(body, h("p.error", err.message));
        return;
      }
    }
    if (asked !== key || JSON.stringify(found) === JSON.stringify(metrics) && cards.size) return;
    metrics = found;
    layout();
  }

  let listing = null;
  const off = [
    on("selected", () => { drawLegend(); list(); }),
    on("focus", drawLegend),
    on("filter", layout),
    on("look", () => { for (const c of cards.values()) c.look(); view.draw(); }),
    on("data", () => { listing = listing || setTimeout(() => { listing = null; list(); }, 3000); }),
    on("error", (err) => tip.error(err)),
  ];
  drawLegend();
  list();
  return { destroy: () => {
    for (const f of off) f();
    clearTimeout(listing);
    for (const c of cards.values()) c.destroy();
    loader.destroy();
    tip.destroy();
  } };
}
