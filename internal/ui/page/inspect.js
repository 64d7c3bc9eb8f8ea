// The inspector: all values of the selected runs at one position, in a drawer below the charts.
import { get } from "./api.js";
import { fill, h, icon } from "./dom.js";
import { position, unit, value } from "./format.js";
import { colorOf, nameOf, on, state, view } from "./state.js";

export function inspector(drawer) {
  let asked = 0, wait = null;

  async function load() {
    const at = view.pin, mine = ++asked;
    const here = state.tab === "charts" || state.tab === "time";
    if (at === null || !here || !state.selected.length) {
      drawer.hidden = true;
      return;
    }
    let answer;
    try {
      answer = await get("at", { run: state.selected, axis: state.axis, x: at });
    } catch (err) {
      answer = { runs: [], error: err.message };
    }
    if (mine === asked) draw(answer, at);
  }

  function draw(answer, at) {
    const names = [...new Set(answer.runs.flatMap((r) => Object.keys(r.values)))];
    const where = position(state.axis, state.axis === "step" && answer.runs[0] ? answer.runs[0].step : at);
    fill(drawer,
      h("header", h("h2", where), h("span.hint", "← → move"), h("span.space"),
        h("button.tool", { type: "button", "aria-label": "Close", onclick: () => view.setPin(null) }, icon("close"))),
      answer.error && h("p.error", answer.error),
      h("div.scroll", h("table.at",
        h("thead", h("tr", h("th", "metric"), answer.runs.map((r) => h("th", { style: { "--c": colorOf(r.run) } }, h("i"), nameOf(r.run),
          h("small", ` step ${r.step}`))))),
        h("tbody", names.map((m) => h("tr", h("th", m), answer.runs.map((r) => h("td", m in r.values ? value(r.values[m], unit(m), 5) : "–"))))))));
    drawer.hidden = false;
    const loss = answer.runs.map((r) => `${nameOf(r.run)}: loss ${value(r.values.loss, "", 5)}`).join(", ");
    document.getElementById("live").textContent = `${where}. ${loss}`;
  }

  const soon = () => {
    clearTimeout(wait);
    wait = setTimeout(load, 40);
  };
  on("pin tab selected axis", soon);
}
