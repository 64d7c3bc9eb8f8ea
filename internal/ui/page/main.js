import { get, live } from "./api.js";
import { charts } from "./charts.js";
import { compare } from "./compare.js";
import { fill, h, icon } from "./dom.js";
import { inspector } from "./inspect.js";
import { help, keys } from "./keys.js";
import { run } from "./run.js";
import { runlist } from "./runlist.js";
import { axes, emit, merge, on, restore, select, setAxis, setTab, state, tabs, view } from "./state.js";
import { time } from "./time.js";
import { trace } from "./trace.js";
import { frames, redraw } from "./view.js";

const $ = (id) => document.getElementById(id);
const pages = { charts, run, time, trace, compare };
const titles = { charts: "Charts", run: "Run", time: "Time & memory", trace: "Trace", compare: "Compare" };
const axisNames = { step: "Steps", tokens: "Tokens", time: "Time", wall: "Clock" };

function bar() {
  const tab = (name) => h("button.tab", { type: "button", role: "tab", id: "tab-" + name, onclick: () => setTab(name) }, titles[name]);
  const axis = h("div.segments", { role: "radiogroup", "aria-label": "Horizontal axis" },
    axes.map((a) => h("button", { type: "button", role: "radio", "data-axis": a, onclick: () => setAxis(a) }, axisNames[a])));
  const smooth = h("input", {
    type: "range", min: "0", max: "0.99", step: "0.01", value: state.smooth, "aria-label": "Smoothing",
    oninput: () => { state.smooth = Number(smooth.value); emit("look"); },
  });
  const reset = h("button.tool.reset", { type: "button", title: "Show everything (0)", onclick: () => { view.set(null); } }, icon("reset"), "Reset zoom");
  const link = h("span.link-state", { role: "status" });
  const amount = h("output");
  fill($("bar"),
    h("button.tool.menu", { type: "button", "aria-label": "Runs", onclick: () => document.body.classList.toggle("open") }, icon("list")),
    h("span.brand", h("img", { src: "icon.svg", alt: "" }), "Trireme"),
    h("nav", { role: "tablist", "aria-label": "Views" }, tabs.map(tab)),
    h("span.space"),
    link, reset,
    h("label.smooth", "Smooth", smooth, amount),
    axis,
    h("button.tool", { type: "button", title: "Light or dark", "aria-label": "Light or dark", onclick: theme }, icon("theme")),
    h("button.tool", { type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: help }, icon("help")));
  const show = () => {
    for (const t of tabs) $("tab-" + t).setAttribute("aria-selected", t === state.tab);
    for (const b of axis.children) b.setAttribute("aria-checked", b.dataset.axis === state.axis);
    amount.textContent = state.smooth ? state.smooth.toFixed(2) : "off";
    reset.hidden = !view.range || state.tab === "trace" || state.tab === "run" || state.tab === "compare";
    document.body.dataset.tab = state.tab;
    link.textContent = state.connected ? "" : "reconnecting";
  };
  on("tab axis look zoom link", show);
  show();
}

// theme switches between light and dark; the browser keeps the choice.
function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("trireme.theme", root.dataset.theme); } catch { /* storage may be forbidden */ }
  redraw();
}

let page = null;

function show() {
  if (page) page.destroy();
  document.body.classList.remove("open");
  $("main").scrollTop = 0;
  page = pages[state.tab]($("main"));
}

async function start() {
  try {
    const kept = localStorage.getItem("trireme.theme");
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch { /* storage may be forbidden */ }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  restore();
  bar();
  const runs = runlist($("side"));
  inspector($("drawer"));
  keys(runs.search);
  view.onrange = () => emit("zoom");
  view.onpin = () => emit("pin");
  try {
    const all = await get("runs");
    merge(all.runs);
  } catch (err) {
    fill($("main"), h("p.error", err.message));
    return;
  }
  const known = state.selected.filter((id) => state.runs.has(id));
  const newest = state.order.filter((id) => state.runs.get(id).step > 0).slice(0, 1);
  select(known.length ? known : newest.length ? newest : state.order.slice(0, 1), known.includes(state.focus) ? state.focus : undefined);
  on("tab", show);
  show();
  live((m) => {
    merge(m.runs, m.gone);
    const changed = m.runs.map((r) => r.id);
    if (!state.selected.length && state.order.length) select(state.order.slice(0, 1));
    if (changed.some((id) => state.selected.includes(id))) emit("data", changed);
  }, (up) => {
    const back = up && !state.connected;
    state.connected = up;
    emit("link");
    if (back) emit("data", state.selected);
  });
}

// For measurements and tests.
window.trireme = { state, view, frames };

start();
