// The page of one run: its figures, the verdict's findings, what happened, and samples.
import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { duration, integer, moment, number, value } from "./format.js";
import { on, setTab, state, view, setAxis } from "./state.js";
import { picker, splitColor } from "./time.js";

function figure(label, text, more) {
  return text === "–" || text === "" ? null : h("div.figure", h("small", label), h("b", text), more && h("span", more));
}

function figures(d) {
  const r = d.run, l = d.last || {};
  const progress = r.max_steps > 0 ? `of ${integer(r.max_steps)}` : "";
  return h("div.figures",
    figure("state", r.state, d.exit_text),
    figure("step", integer(r.step), progress),
    figure("loss", number(r.loss), r.eval_loss !== null && `evaluation ${number(r.eval_loss)}`),
    figure("speed", r.tokens_per_second > 0 ? value(r.tokens_per_second, "tokens/s") : "–", "tokens/s"),
    figure("MFU", l.mfu ? value(l.mfu, "%") : "–"),
    figure("step time", l.step_seconds ? value(l.step_seconds, "s") : "–"),
    figure("elapsed", r.seconds > 0 ? duration(r.seconds) : "–", r.state === "running" && r.eta > 0 && `${duration(r.eta)} left`),
    figure("ranks", r.world ? integer(r.world) : "–", r.strategy),
    figure("parameters", r.parameters ? number(r.parameters, 3) : "–", r.device));
}

function findings(d) {
  if (!d.findings.length) return null;
  return h("section.card.wide", h("header", h("h3", "Verdict"), h("span.verdict." + d.health.replace(" ", "-"), d.health)),
    d.shares.length > 0 && h("div.shares", { "aria-hidden": "true" }, d.shares.map((s, i) => h("i", { title: s.name, style: { flex: String(s.fraction), background: splitColor(s.name, i) } }))),
    d.shares.length > 0 && h("div.keys", d.shares.map((s, i) => h("span", h("i", { style: { background: splitColor(s.name, i) } }), `${s.name} ${value(s.fraction, "%")}`))),
    h("ul.findings", d.findings.map((f) => h("li." + f.level,
      h("b", f.text), f.step > 0 && h("button.link", { type: "button", onclick: () => goto(f.step) }, `step ${integer(f.step)}`),
      f.try.length > 0 && h("p.try", "try: ", f.try.map((t) => h("code", t)))))));
}

// goto shows the charts around a step.
function goto(step) {
  setAxis("step");
  setTab("charts");
  view.setPin(step);
}

function events(d) {
  if (!d.events.length) return null;
  return h("section.card.wide", h("header", h("h3", "Events"), h("span.about", d.events_left ? `the last ${d.events.length} of ${integer(d.events.length + d.events_left)}` : "")),
    h("ol.events", [...d.events].reverse().map((e) => h("li",
      h("time", e.time ? moment(e.time) : ""),
      e.step > 0 ? h("button.link", { type: "button", onclick: () => goto(e.step) }, `step ${integer(e.step)}`) : h("span"),
      h("span.kind" + (e.kind === "alert" ? ".alert" : ""), e.kind), h("span.text", e.text)))));
}

function samples(d) {
  if (!d.samples || !d.samples.length) return null;
  return h("section.card.wide", h("header", h("h3", "Samples")),
    h("div.samples", d.samples.map((s) => h("article", h("small", s.step > 0 ? `step ${integer(s.step)}` : ""), h("pre", s.text)))));
}

export function run(main) {
  let asked = 0, wait = null;

  async function load() {
    const id = state.focus, mine = ++asked;
    if (!id) {
      fill(main, h("p.none", "Select a run."));
      return;
    }
    let d;
    try {
      d = await get("run", { run: id });
    } catch (err) {
      if (mine === asked) fill(main, h("p.error", err.message));
      return;
    }
    if (mine !== asked) return;
    const top = main.scrollTop;
    fill(main, h("div.toolbar", picker()), h("div.column",
      h("div.title", h("h1", d.run.name), h("p", d.run.path), d.command && h("pre.command", d.command)),
      figures(d), findings(d), samples(d), events(d)));
    main.scrollTop = top;
  }

  const off = [
    on("focus selected", load),
    on("data", (ids) => {
      if (!ids.includes(state.focus)) return;
      wait = wait || setTimeout(() => { wait = null; load(); }, 700);
    }),
  ];
  load();
  return { destroy: () => {
    for (const f of off) f();
    clearTimeout(wait);
    asked++;
  } };
}
