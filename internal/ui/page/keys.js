// Keys of the whole page, and the page that lists them.
import { h } from "./dom.js";
import { setAxis, setTab, state, axes, tabs, view, emit } from "./state.js";

const table = [
  ["/", "search runs"],
  ["f", "filter metrics"],
  ["1 – 5", "charts, run, time & memory, trace, compare"],
  ["x", "next horizontal axis"],
  ["s", "more smoothing, S less"],
  ["Tab", "next control or chart"],
  ["↑ ↓", "in the list: move; Space adds a run, Enter shows only it"],
  ["← →", "in a chart: inspect the previous or next step; with Shift: pan"],
  ["+ − 0", "in a chart: zoom in, zoom out, everything"],
  ["drag", "in a chart: zoom; Shift-drag pans; double click resets"],
  ["Esc", "close, or end the inspection, then the zoom"],
  ["?", "this list"],
];

let dialog;

export function help() {
  if (!dialog) {
    dialog = h("dialog.help", { "aria-label": "Keys" },
      h("h2", "Keys"),
      h("dl", table.map(([k, what]) => [h("dt", k.split(" ").map((one) => h("kbd", one))), h("dd", what)])),
      h("form", { method: "dialog" }, h("button.plain", { type: "submit" }, "Close")));
    dialog.addEventListener("click", (e) => { if (e.target === dialog) dialog.close(); });
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

export function keys(search) {
  addEventListener("keydown", (e) => {
    const in_field = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) && e.target.type !== "range";
    if (e.ctrlKey || e.metaKey || e.altKey || in_field || (dialog && dialog.open)) return;
    const n = Number(e.key);
    if (n >= 1 && n <= tabs.length) setTab(tabs[n - 1]);
    else if (e.key === "/") search();
    else if (e.key === "?") help();
    else if (e.key === "f") (document.querySelector("input.filter") || { focus() {} }).focus();
    else if (e.key === "x") setAxis(axes[(axes.indexOf(state.axis) + 1) % axes.length]);
    else if (e.key === "s" || e.key === "S") {
      const to = state.smooth + (e.key === "s" ? 0.1 : -0.1);
      state.smooth = Math.round(Math.min(0.99, Math.max(0, to)) * 100) / 100;
      for (const i of document.querySelectorAll("label.smooth input")) i.value = state.smooth;
      emit("look");
    } else if (e.key === "0") view.set(null);
    else if (e.key === "Escape" && document.body.classList.contains("open")) document.body.classList.remove("open");
    else if (e.key === "Escape" && view.pin !== null) view.setPin(null);
    else if (e.key === "Escape" && view.range) view.set(null);
    else return;
    e.preventDefault();
  });
}
