// Elements are made here and nowhere else, and text enters them as text nodes: nothing of a run is parsed as HTML.

// h makes an element of a tag and classes: h("div.card", {title: "x"}, children). Properties, which may be left out, are
// listeners if they begin with "on", an object for "style", and attributes otherwise; false and null leave an attribute
// out. Children are elements, text or arrays of them.
export function h(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const e = document.createElement(tag || "div");
  if (classes.length) e.className = classes.join(" ");
  if (rest.length && isProps(rest[0])) {
    for (const [k, v] of Object.entries(rest.shift())) {
      if (v === false && !k.startsWith("aria-") || v === null || v === undefined) continue;
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else if (k === "style") for (const [p, s] of Object.entries(v)) e.style.setProperty(p, s);
      else e.setAttribute(k, v === true && !k.startsWith("aria-") ? "" : String(v));
    }
  }
  append(e, rest);
  return e;
}

const isProps = (v) => v !== null && typeof v === "object" && !Array.isArray(v) && !(v instanceof Node);

function append(e, children) {
  for (const c of children.flat(Infinity)) {
    if (c === null || c === undefined || c === false) continue;
    e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
}

// fill replaces the children of e.
export function fill(e, ...children) {
  e.replaceChildren();
  append(e, children);
  return e;
}

// icon makes one of the page's line icons, 16 units wide.
export function icon(name) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", icons[name]);
  svg.append(path);
  return svg;
}

const icons = {
  expand: "M9.5 2.5h4v4M13.5 2.5 9 7M6.5 13.5h-4v-4M2.5 13.5 7 9",
  close: "M4 4l8 8M12 4l-8 8",
  theme: "M8 2.5a5.5 5.5 0 1 0 5.5 5.5A4.2 4.2 0 0 1 8 2.5z",
  help: "M6.2 6a1.9 1.9 0 1 1 2.7 1.9c-.6.3-.9.7-.9 1.300M8 11.6v.1",
  list: "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
  reset: "M3 8a5 5 0 1 0 1.7-3.7M3 2.800V5.5h2.7",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.4 10.4l3.1 3.1",
};
