// Timeline draws the spans of a trace: a row for each rank, stream and depth of nesting.
import { seconds, bytes, integer } from "./format.js";
import { Plot, ticks } from "./plot.js";
import { color } from "./view.js";

const rowHeight = 18, gap = 4, head = 20;

const kindColors = {
  step: "#8b909c", data: "#c99a1c", tokenize: "#b58d2e", forward: "#4c7fe6", backward: "#7a62e0", recompute: "#a79af0", optimizer: "#2fa37c",
  publish: "#7cc7a8", all_gather: "#e2703a", reduce_scatter: "#d98a4e", all_reduce: "#c9603a", all_to_all: "#d06a6a", send: "#c58a5a", recv: "#b97b4b", barrier: "#b0703f",
  wait: "#d4526e", upload: "#2aa5c7", offload: "#9a6b4f", checkpoint: "#84962b", evaluation: "#5f9ea0", compile: "#c254a8", program: "#5b8def", other: "#9aa0aa",
};
export const kindColor = (k) => kindColors[k] || "#9aa0aa";

export class Timeline extends Plot {
  constructor(view, tip) {
    super(view, 200);
    this.margin = { left: 96, right: 12, top: 6, bottom: 24 };
    this.tip = tip;
    this.rows = [];
    this.chosen = null;
    this.onchoose = () => {};
  }

  setTrace(t) {
    this.t = t;
    this.rows = [];
    let y = 0, rank = null, stream = null;
    for (const tr of t.tracks) {
      if (tr.rank !== rank) {
        y += rank === null ? 0 : gap;
        this.rows.push({ y, h: head, label: t.ranks.find((r) => r.rank === tr.rank).name });
        y += head;
        stream = null;
      }
      this.rows.push({ y, h: rowHeight, track: tr, label: tr.stream === stream ? "" : tr.stream, indent: true });
      y += rowHeight + (0);
      rank = tr.rank;
      stream = tr.stream;
    }
    this.box.style.height = Math.max(80, y + this.margin.top + this.margin.bottom) + "px";
    this.canvas.setAttribute("aria-label", `Timeline of ${t.ranks.length} ranks. Drag zooms; arrows move, plus and minus zoom, 0 shows everything.`);
    this.dirty = true;
    this.view.draw();
  }

  key(ev) {
    if (ev.key === "ArrowLeft" || ev.key === "ArrowRight") {
      this.view.pan((ev.key === "ArrowLeft" ? -1 : 1) * (ev.shiftKey ? 0.5 : 0.15));
      return true;
    }
    return super.key(ev);
  }

  paint(c, a) {
    const [x0, x1] = this.view.shown, k = a.w / (x1 - x0);
    this.drawX(c, a, ticks(x0, x1, a.w / 95), (v) => seconds(v / 1e9, 6));
    if (!this.t) return;
    let found = null;
    for (const r of this.rows) {
      const y = a.y + r.y;
      if (!r.track) {
        c.fillStyle = color("text");
        c.textBaseline = "middle";
        c.font = "600 11px system-ui, sans-serif";
        c.fillText(r.label, 10, y + r.h / 2 + 1);
        c.font = "11px system-ui, sans-serif";
        continue;
      }
      if (r.label) {
        c.fillStyle = color("faint");
        c.textBaseline = "middle";
        c.fillText(r.label, 22, y + r.h / 2);
      }
      const hit = this.pointer && this.pointer.y >= y && this.pointer.y < y + r.h ? this.pointer.x : null;
      found = this.paintTrack(c, a, r, y, k, x0, x1, hit) || found;
    }
    this.drawCross(c, a);
    this.hit = found;
    if (found && this.view.hover !== null) this.tip.lines(this, this.title(found), this.details(found));
    else this.tip.hide(this);
  }

  paintTrack(c, a, r, y, k, x0, x1, hit) {
    const s = r.track.spans, kinds = this.t.kinds, names = this.t.names;
    let found = null;
    c.save();
    c.beginPath();
    c.rect(a.x, y, a.w, r.h);
    c.clip();
    c.textBaseline = "middle";
    for (const one of s) {
      if (one.end < x0) continue;
      if (one.start > x1) break;
      const l = a.x + (one.start - x0) * k, w = Math.max(0.8, (one.end - one.start) * k - (one.count ? 0 : 0.5));
      c.fillStyle = kindColor(kinds[one.kind]);
      c.globalAlpha = one.count ? 0.55 : one === this.chosen ? 1 : 0.88;
      c.fillRect(l, y + 1, w, r.h - 2);
      c.globalAlpha = 1;
      if (hit !== null && hit >= l - 1 && hit <= l + w + 1) found = one;
      const from = Math.max(l, a.x), visible = Math.min(l + w, a.x + a.w) - from;
      if (visible < 34 || one.count) continue;
      c.fillStyle = "#fff";
      c.fillText(fit(c, names[one.name], visible - 8), from + 4, y + r.h / 2 + 0.5);
    }
    if (found) {
      c.strokeStyle = color("text");
      c.strokeRect(a.x + (found.start - x0) * k + 0.5, y + 1.5, Math.max(1, (found.end - found.start) * k - 1), r.h - 3);
    }
    c.restore();
    return found;
  }

  title(s) {
    return s.count ? `${integer(s.count)} short spans` : this.t.names[s.name];
  }

  details(s) {
    const t = this.t, rows = [[kindColor(t.kinds[s.kind]), s.count ? "mostly " + t.kinds[s.kind] : t.kinds[s.kind], seconds((s.end - s.start) / 1e9, 4)]];
    rows.push([null, "at", seconds(s.start / 1e9, 7)]);
    if (s.step) rows.push([null, "step", integer(s.step)]);
    if (s.axis) rows.push([null, "axis", s.axis]);
    if (s.bytes) rows.push([null, "size", bytes(s.bytes)]);
    if (s.ready > s.start) rows.push([null, "waits for the last rank", seconds((s.ready - s.start) / 1e9, 4)]);
    return rows;
  }

  // click zooms to a span at the second click on it.
  click(v) {
    if (this.hit && this.hit === this.chosen) {
      const w = this.hit.end - this.hit.start;
      this.view.set([this.hit.start - w * 0.1, this.hit.end + w * 0.1]);
    }
    this.chosen = this.hit;
    this.view.setPin(v);
  }
}

// fit shortens a text to a width.
function fit(c, s, width) {
  if (c.measureText(s).width <= width) return s;
  let n = Math.floor((width / c.measureText(s).width) * s.length);
  while (n > 0 && c.measureText(s.slice(0, n) + "…").width > width) n--;
  return n > 0 ? s.slice(0, n) + "…" : "";
}
