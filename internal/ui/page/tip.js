// Tip is the box beside the pointer with the values there.
import { fill, h } from "./dom.js";
import { value } from "./format.js";
import { state } from "./state.js";

export class Tip {
  constructor() {
    this.box = h("div.tip", { hidden: true, "aria-hidden": "true" });
    document.body.append(this.box);
    this.owner = null;
  }

  destroy() {
    this.box.remove();
  }

  // place puts the box beside the pointer of a plot.
  place(plot) {
    const r = plot.canvas.getBoundingClientRect(), b = this.box;
    b.hidden = false;
    const w = b.offsetWidth, height = b.offsetHeight;
    let x = r.left + plot.pointer.x + 16, y = r.top + plot.pointer.y - height / 2;
    if (x + w > innerWidth - 8) x = Math.max(4, r.left + plot.pointer.x - w - 16);
    y = Math.max(4, Math.min(innerHeight - height - 4, y));
    b.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  }

  hide(plot) {
    if (this.owner !== plot && this.owner !== null) return;
    this.owner = null;
    this.box.hidden = true;
  }

  chart(chart, at, values) {
    if (!chart.pointer || chart.view.hover === null || !values.length) {
      this.hide(chart);
      return;
    }
    this.owner = chart;
    const u = chart.unit, smooth = state.smooth > 0;
    const sorted = [...values].sort((a, b) => b.raw - a.raw);
    const row = (v) => h("tr", h("td", h("i", { style: { background: v.s.color } })), h("td.name", v.s.name),
      smooth && h("td", value(v.smooth, u)), h("td" + (smooth ? ".raw" : ""), value(v.raw, u)),
      v.s.dense && v.max > v.min ? h("td.raw", `${value(v.min, u, 3)} – ${value(v.max, u, 3)}`) : h("td"));
    fill(this.box, h("div.where", chart.where(values[0].x), smooth && h("span", "smoothed, raw")), h("table", sorted.slice(0, 20).map(row)));
    this.place(chart);
  }

  // lines shows rows of [color, name, value].
  lines(plot, where, rows) {
    if (!plot.pointer || !rows.length) {
      this.hide(plot);
      return;
    }
    this.owner = plot;
    fill(this.box, h("div.where", where), h("table", rows.map(([c, name, v]) =>
      h("tr", h("td", c && h("i", { style: { background: c } })), h("td.name", name), h("td", v)))));
    this.place(plot);
  }

  error(err) {
    const note = h("div.toast", { role: "alert" }, err.message);
    document.body.append(note);
    setTimeout(() => note.remove(), 5000);
  }
}
