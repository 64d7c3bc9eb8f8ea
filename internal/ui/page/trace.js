// The page of a run's traces: which file, and its timeline.
import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { seconds } from "./format.js";
import { picker } from "./time.js";
import { on, state } from "./state.js";
import { Timeline, kindColor } from "./timeline.js";
import { Tip } from "./tip.js";
import { View } from "./view.js";

export function trace(main) {
  const tip = new Tip();
  let timeline = null, file = null, asked = 0, timer = null, shownRun = null;
  const mine = new View();
  mine.onrange = () => {
    clearTimeout(timer);
    timer = setTimeout(load, 60);
  };

  async function build() {
    const id = state.focus;
    if (shownRun === id) return;
    shownRun = id;
    if (timeline) timeline.destroy();
    timeline = null;
    mine.range = null;
    mine.pin = null;
    let files = [];
    if (id) {
      try {
        files = (await get("traces", { run: id })).files;
      } catch (err) {
        fill(main, h("p.error", err.message));
        return;
      }
    }
    if (id !== state.focus) return;
    file = files.length ? files[files.length - 1].name : null;
    const select = h("select", { "aria-label": "Trace file", onchange: () => { file = select.value; mine.range = null; load(); } },
      files.map((f) => h("option", { value: f.name, selected: f.name === file }, f.name)));
    if (!file) {
      fill(main, h("div.toolbar", picker()), h("div.none", h("p", "This run has no trace."),
        h("p", "Record one: ", h("code", "trireme train --trace steps=10-12"))));
      return;
    }
    timeline = new Timeline(mine, tip);
    timeline.onvisible = () => mine.onrange();
    const about = h("span.about.facts"), keys = h("div.keys");
    fill(main, h("div.toolbar", picker(), select, about, h("span.space"),
      h("button.mini", { type: "button", onclick: () => mine.zoom(0.5) }, "+"), h("button.mini", { type: "button", onclick: () => mine.zoom(2) }, "−"),
      h("button.mini", { type: "button", onclick: () => mine.set(null) }, "all")),
    h("div.column", h("section.card.wide.timeline", timeline.box, keys)));
  }

  async function load() {
    if (!timeline || !timeline.w || !file) return;
    const n = ++asked, [lo, hi] = mine.target(), w = (hi - lo) / 2;
    const params = { run: state.focus, file, points: Math.min(4000, Math.round(timeline.w * (mine.range ? 2 : 1))) };
    if (mine.range) Object.assign(params, { from: Math.floor(lo - w), to: Math.ceil(hi + w) });
    let t;
    try {
      t = await get("trace", params);
    } catch (err) {
      if (n === asked) fill(main.querySelector(".column") || main, h("p.error", err.message));
      return;
    }
    if (n !== asked || !timeline) return;
    mine.setFull(0, t.length);
    for (const track of t.tracks) track.spans = track.spans.map(([start, end, kind, name, step, bytes, axis, ready, count]) => ({ start, end, kind, name, step, bytes, axis: axis >= 0 ? t.names[axis] : "", ready, count }));
    timeline.setTrace(t);
    const used = new Set(t.tracks.flatMap((tr) => tr.spans.map((s) => s.kind)));
    fill(main.querySelector(".keys"), [...used].sort((a, b) => a - b).map((k) => h("span", h("i", { style: { background: kindColor(t.kinds[k]) } }), t.kinds[k])));
    fill(main.querySelector(".facts"), [t.steps, seconds(t.length / 1e9), ...t.notes].filter(Boolean).join(" · "));
  }

  const off = [on("focus selected", build)];
  build();
  return { destroy: () => {
    for (const f of off) f();
    clearTimeout(timer);
    asked++;
    if (timeline) timeline.destroy();
    tip.destroy();
  } };
}
