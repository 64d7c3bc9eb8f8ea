// The list of runs: a search, and a row per run with its state and last figures. Rows outside the list's window are
// not in the document, so thousands of runs scroll well.
import { fill, h, icon } from "./dom.js";
import { ago, integer, number, value } from "./format.js";
import { colorOf, emit, on, select, setTab, state, toggle } from "./state.js";

const rowHeight = 56;
const words = { running: "running", done: "done", stopped: "stopped", failed: "failed", silent: "silent", unknown: "unknown" };
let list, body, search, count, cursor = 0;

// matching are the ids that the search leaves: every word in the name, path, state, strategy or verdict.
function matching() {
  const terms = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  if (!terms.length) return state.order;
  return state.order.filter((id) => {
    const r = state.runs.get(id);
    const text = [r.name, r.path, r.state, r.strategy, r.health, r.verdict].join(" ").toLowerCase();
    return terms.every((t) => text.includes(t));
  });
}

function row(id, i) {
  const r = state.runs.get(id), on = state.selected.includes(id);
  const progress = r.max_steps > 0 ? `${integer(r.step)} / ${integer(r.max_steps)}` : integer(r.step);
  return h("div.run" + (id === state.focus ? ".focus" : "") + (i === cursor ? ".cursor" : ""), {
    role: "option", id: "run-" + i, "aria-selected": on, title: r.path, style: { top: i * rowHeight + "px" },
    onclick: (e) => {
      cursor = i;
      if (e.metaKey || e.ctrlKey || e.shiftKey) toggle(id);
      else if (on && state.selected.length > 1 && state.focus !== id) focus(id);
      else select([id], id);
    },
  },
  h("button.swatch" + (on ? ".on" : ""), {
    type: "button", tabindex: "-1", "aria-label": (on ? "Remove " : "Add ") + r.name, style: on ? { "--c": colorOf(id) } : {},
    onclick: (e) => { e.stopPropagation(); cursor = i; toggle(id); },
  }),
  h("div.what",
    h("div.line1", h("span.name", r.name), h("span.state." + (words[r.state] ? r.state : "unknown"), { title: words[r.state] || r.state }), /^(doubtful|unhealthy)$/.test(r.health) && h("span.health." + r.health, { title: r.verdict }, r.health), h("span.ago", ago(r.updated || r.started))),
    h("div.line2",
      h("span", progress),
      r.loss !== null && h("span", "loss ", number(r.loss)),
      r.tokens_per_second > 0 && h("span", value(r.tokens_per_second, "tokens/s"), " tok/s"))));
}

function draw() {
  const ids = matching();
  cursor = Math.max(0, Math.min(cursor, ids.length - 1));
  count.textContent = ids.length === state.order.length ? integer(ids.length) : `${integer(ids.length)} of ${integer(state.order.length)}`;
  body.style.setProperty("height", ids.length * rowHeight + "px");
  const from = Math.max(0, Math.floor(list.scrollTop / rowHeight) - 6);
  const to = Math.min(ids.length, Math.ceil((list.scrollTop + (list.clientHeight || 800)) / rowHeight) + 6);
  fill(body, ids.slice(from, to).map((id, i) => row(id, from + i)));
  if (!ids.length) fill(body, h("p.none", state.order.length ? "no run matches" : "no runs yet: they appear here when they start"));
  list.setAttribute("aria-activedescendant", ids.length ? "run-" + cursor : "");
}

function focus(id) {
  state.focus = id;
  emit("focus");
}

function move(to) {
  cursor = Math.max(0, Math.min(matching().length - 1, to));
  const top = cursor * rowHeight;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight - list.clientHeight;
  draw();
}

function keys(e) {
  const ids = matching(), id = ids[cursor];
  switch (e.key) {
    case "ArrowDown": case "j": move(cursor + 1); break;
    case "ArrowUp": case "k": move(cursor - 1); break;
    case "Home": move(0); break;
    case "End": move(ids.length - 1); break;
    case " ": if (id) toggle(id); break;
    case "Enter": if (id) select([id], id); break;
    case "Escape": state.search = search.value = ""; draw(); break;
    default: return;
  }
  e.preventDefault();
}

export function runlist(side) {
  search = h("input", {
    type: "search", placeholder: "Search runs", "aria-label": "Search runs", autocomplete: "off", spellcheck: "false",
    oninput: () => { state.search = search.value; cursor = 0; draw(); },
    onkeydown: (e) => {
      if (e.key === "ArrowDown" || e.key === "Enter") { list.focus(); e.preventDefault(); }
      if (e.key === "Escape") { search.value = state.search = ""; search.blur(); draw(); }
    },
  });
  count = h("span.count");
  body = h("div.rows");
  list = h("div.list", { tabindex: "0", role: "listbox", "aria-multiselectable": "true", "aria-label": "Runs", onkeydown: keys, onscroll: draw }, body);
  fill(side,
    h("div.search", icon("search"), search, h("kbd", "/")),
    h("div.head", h("span", "Runs"), count,
      h("button.link", { type: "button", title: "Select the runs of the list, up to 10", onclick: () => select(matching().slice(0, 10)) }, "overlay"),
      h("button.link", { type: "button", onclick: () => { setTab("compare"); } }, "compare")),
    list);
  on("runs selected focus", draw);
  new ResizeObserver(draw).observe(list);
  setInterval(draw, 15000); // ages
  return { search: () => { search.focus(); search.select(); } };
}
