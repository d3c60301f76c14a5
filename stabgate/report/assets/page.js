"use strict";
// Small helpers. Everything that comes from data becomes a text node or a checked attribute, never markup.

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value != null) node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) if (child != null && child !== false) node.append(child);
  return node;
}

// A name from outside, kept apart from the direction of the text around it.
const named = (text) => el("bdi", {}, String(text));

function show(value, digits = 3) {
  if (value == null) return "–";
  return Number.isInteger(value) ? String(value) : value.toPrecision(digits).replace(/(\.\d*?)0+($|e)/, "$1$2").replace(/\.($|e)/, "$1");
}

const fixed = (value) => (value == null ? "–" : value.toFixed(3));

const plural = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;

// A table of plain values; the first column names the line, numbers stand to the right.
function tableOf(headings, rows, caption) {
  const numeric = headings.map((_, j) => rows.length > 0 && rows.every((row) => row[j] == null || /^[−–-]?[\d.,e+-]*( %)?$/.test(String(row[j]))));
  const end = (j) => (numeric[j] && j > 0 ? "end" : null);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", { class: "numbers" },
      el("caption", { class: "hidden" }, caption),
      el("thead", {}, el("tr", {}, headings.map((heading, j) => el("th", { scope: "col", class: end(j) }, heading)))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, j) =>
        el(j ? "td" : "th", { scope: j ? null : "row", class: end(j) }, cell == null ? "–" : named(cell))))))));
}

const listOf = (pairs, big) => el("dl", { class: big ? "named big" : "named" },
  pairs.map(([name, value]) => el("div", {}, el("dt", {}, named(name)), el("dd", {}, named(value)))));

// Folded away until it is wanted; `make` runs on the first opening.
function folded(title, make) {
  const box = el("details", {}, el("summary", {}, title));
  box.addEventListener("toggle", () => { if (box.open && box.childElementCount === 1) box.append(make()); });
  return box;
}
