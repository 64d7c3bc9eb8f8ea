// The state of the page: what is selected and how it is shown. The address bar's fragment has it, so that a link
// or a reload shows the same.
import { View } from "./view.js";

export const palette = ["#4c7fe6", "#e2703a", "#2fa37c", "#c254a8", "#c99a1c", "#7a62e0", "#2aa5c7", "#d4526e", "#84962b", "#9a6b4f"];
export const tabs = ["charts", "run", "time", "trace", "compare"];
export const axes = ["step", "tokens", "time", "wall"];

export const state = {
  runs: new Map(), // id to row
  order: [], // ids, newest first
  selected: [], // ids
  focus: null, // the id whose details are shown
  colors: new Map(), // id to color
  tab: "charts",
  axis: "step",
  smooth: 0,
  log: new Set(), // metrics with a logarithmic axis
  filter: "", // of metrics
  search: "", // of runs
  connected: false,
};

export const view = new View(); // of all charts

const listeners = new Map();

// on calls f when one of the named things changed: runs, selected, focus, tab, axis, look (smoothing, log), filter, data.
export function on(names, f) {
  for (const n of names.split(" ")) {
    if (!listeners.has(n)) listeners.set(n, new Set());
    listeners.get(n).add(f);
  }
  return () => { for (const n of names.split(" ")) listeners.get(n).delete(f); };
}

export function emit(name, detail) {
  for (const f of [...(listeners.get(name) || [])]) f(detail);
  save();
}

// name is how a run is called: its directory's name, with as much of the path as others of that name need.
export const nameOf = (id) => (state.runs.get(id) || {}).name || id;
export const colorOf = (id) => state.colors.get(id) || "#888";

function paint() {
  for (const id of [...state.colors.keys()]) if (!state.selected.includes(id)) state.colors.delete(id);
  for (const id of state.selected) {
    if (state.colors.has(id)) continue;
    const used = new Set(state.colors.values());
    state.colors.set(id, palette.find((c) => !used.has(c)) || palette[state.colors.size % palette.length]);
  }
}

// select replaces the selected runs.
export function select(ids, focus) {
  state.selected = ids;
  paint();
  if (focus !== undefined) state.focus = focus;
  if (!state.selected.includes(state.focus)) state.focus = ids.length ? ids[ids.length - 1] : null;
  emit("selected");
}

export function toggle(id) {
  const has = state.selected.includes(id);
  select(has ? state.selected.filter((x) => x !== id) : [...state.selected, id], has ? undefined : id);
}

export function setTab(tab) {
  if (tab === state.tab) return;
  state.tab = tab;
  emit("tab");
}

export function setAxis(axis) {
  if (axis === state.axis) return;
  state.axis = axis;
  view.range = null;
  view.pin = null;
  emit("axis");
}

let saved = "";

function save() {
  const q = new URLSearchParams();
  q.set("tab", state.tab);
  for (const id of state.selected) q.append("run", id);
  if (state.focus) q.set("focus", state.focus);
  if (state.axis !== "step") q.set("axis", state.axis);
  if (state.smooth) q.set("smooth", state.smooth);
  for (const m of state.log) q.append("log", m);
  if (state.filter) q.set("filter", state.filter);
  if (view.range) q.set("range", view.range.join(","));
  const s = "#" + q;
  if (s === saved) return;
  saved = s;
  history.replaceState(null, "", s);
}

// restore reads the fragment; unknown values are ignored.
export function restore() {
  const q = new URLSearchParams(location.hash.slice(1));
  if (tabs.includes(q.get("tab"))) state.tab = q.get("tab");
  if (axes.includes(q.get("axis"))) state.axis = q.get("axis");
  state.smooth = Math.min(0.999, Math.max(0, Number(q.get("smooth")) || 0));
  state.log = new Set(q.getAll("log"));
  state.filter = q.get("filter") || "";
  state.selected = q.getAll("run").slice(0, 64);
  state.focus = q.get("focus");
  const range = (q.get("range") || "").split(",").map(Number);
  if (range.length === 2 && range[1] > range[0]) view.range = range;
  paint();
}

// merge adds rows of the server to the runs.
export function merge(rows, gone) {
  for (const r of rows) state.runs.set(r.id, r);
  for (const id of gone || []) state.runs.delete(id);
  state.order = [...state.runs.values()].sort((a, b) => b.started - a.started || (a.id < b.id ? -1 : 1)).map((r) => r.id);
  emit("runs", rows.map((r) => r.id));
}
