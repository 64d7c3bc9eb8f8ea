// The page that compares the selected runs: figures side by side, and the keys of the configuration that differ.
import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { duration, integer, number, value } from "./format.js";
import { colorOf, nameOf, on, state } from "./state.js";

const rows = [
  ["state", (r) => r.state],
  ["step", (r) => integer(r.step)],
  ["loss", (r) => number(r.loss), "loss", false],
  ["best evaluation", (r) => number(r.best_eval_loss), "best_eval_loss", false],
  ["tokens/s", (r) => (r.tokens_per_second > 0 ? value(r.tokens_per_second, "tokens/s") : "–"), "tokens_per_second", true],
  ["MFU", (r) => (r.mfu > 0 ? value(r.mfu, "%") : "–"), "mfu", true],
  ["elapsed", (r) => (r.seconds > 0 ? duration(r.seconds) : "–")],
  ["ranks", (r) => (r.world ? integer(r.world) : "–")],
  ["strategy", (r) => r.strategy || "–"],
  ["parameters", (r) => (r.parameters ? number(r.parameters, 3) : "–")],
  ["verdict", (r) => r.verdict || "–"],
];

function head(runs) {
  return h("thead", h("tr", h("th"), runs.map((r) => h("th", { style: { "--c": colorOf(r.id) } }, h("i"), nameOf(r.id)))));
}

// best returns the value to mark, if runs differ.
function best(runs, key, high) {
  const all = runs.map((r) => r[key]).filter((v) => v !== null && v !== undefined && v > 0);
  if (!key || all.length < 2 || Math.min(...all) === Math.max(...all)) return null;
  return high ? Math.max(...all) : Math.min(...all);
}

export function compare(main) {
  let all = false, asked = 0, wait = null;

  async function load() {
    const mine = ++asked, ids = state.selected;
    if (!ids.length) {
      fill(main, h("p.none", "Select runs: Space in the list adds one."));
      return;
    }
    let d;
    try {
      d = await get("compare", { run: ids });
    } catch (err) {
      if (mine === asked) fill(main, h("p.error", err.message));
      return;
    }
    if (mine !== asked) return;
    const runs = d.runs;
    const shown = d.keys.filter((k) => all || k.differs);
    const top = main.scrollTop;
    fill(main, h("div.column",
      h("section.card.wide", h("header", h("h3", "Figures")), h("div.scroll", h("table.compare", head(runs), h("tbody", rows.map(([label, f, key, high]) => {
        const b = best(runs, key, high);
        return h("tr", h("th", label), runs.map((r) => h("td" + (b !== null && r[key] === b ? ".best" : ""), f(r))));
      }))))),
      h("section.card.wide", h("header", h("h3", "Configuration"),
        h("span.about", `${d.keys.filter((k) => k.differs).length} of ${d.keys.length} keys differ`), h("span.space"),
        h("button.mini", { type: "button", "aria-pressed": all, onclick: () => { all = !all; load(); } }, "all keys")),
      shown.length ? h("div.scroll", h("table.compare.config", head(runs), h("tbody", shown.map((k) => h("tr" + (k.differs ? ".differs" : ""),
        h("th", k.key), k.values.map((v) => h("td" + (v === null ? ".absent" : ""), v === null ? "–" : v))))))) : h("p.none", runs.length > 1 ? "Their configurations are equal." : "Select another run to see what differs."))));
    main.scrollTop = top;
  }

  const off = [on("selected", load), on("data", () => { wait = wait || setTimeout(() => { wait = null; load(); }, 2000); })];
  load();
  return { destroy: () => {
    for (const f of off) f();
    clearTimeout(wait);
    asked++;
  } };
}
