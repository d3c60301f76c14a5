"use strict";
// The overview: filter, sort, open. What is below a gate is built when it is opened for the first time.

const gates = Array.from(document.querySelectorAll("tbody.gate"));
const find = document.getElementById("find"), kind = document.getElementById("kind"), controls = document.getElementById("controls");
const closeAll = document.getElementById("close-all");
const words = new Map(gates.map((gate) => [gate, (gate.rows[0].textContent + " " + (gate.querySelector(".message")?.textContent || "") + " " + testOf(gate)).toLowerCase()]));
const PRINTED_GATES = 12;

function dataOf(gate) { return JSON.parse(document.getElementById("data-" + gate.dataset.n).textContent); }

function testOf(gate) { return gate.dataset.test || ""; }

function filter() {
  const wanted = new Set(Array.from(controls.querySelectorAll("[name=outcome]:checked"), (box) => box.value));
  const text = find.value.trim().toLowerCase();
  let shown = 0;
  for (const gate of gates) {
    const fits = wanted.has(gate.dataset.outcome) && (!kind?.value || gate.dataset.kind === kind.value) && words.get(gate).includes(text);
    gate.hidden = !fits;
    shown += fits;
  }
  document.getElementById("shown").textContent = `${shown} of ${plural(gates.length, "gate")}`;
  const nothing = document.getElementById("nothing");
  if (nothing) nothing.hidden = shown > 0;
}

const KEYS = {
  order: (gate) => Number(gate.dataset.order), value: (gate) => Number(gate.dataset.value), seconds: (gate) => Number(gate.dataset.seconds),
  name: (gate) => gate.querySelector("th.name bdi").textContent, asked: (gate) => gate.querySelector(".asked").textContent,
};

function sort(button) {
  const head = button.closest("th"), table = document.getElementById("table");
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = new Map(gates.map((gate) => [gate, KEYS[button.dataset.key](gate)]));
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  const sorted = gates.slice().sort((a, b) => (down ? -1 : 1) * compare(key.get(a), key.get(b)) || a.dataset.n - b.dataset.n);
  table.append(...sorted);
}

function open(gate, wanted) {
  const button = gate.querySelector(".open"), more = gate.rows[1];
  button.setAttribute("aria-expanded", String(wanted));
  more.hidden = !wanted;
  if (wanted) build(gate);
  closeAll.hidden = !gates.some((one) => !one.rows[1].hidden);
}

function build(gate) {
  const place = gate.querySelector(".charts");
  if (place.childElementCount) return;
  const data = dataOf(gate);
  if (data === null) { place.append(el("p", { class: "note" }, "The details of this gate are left out, so that this page stays below its largest size.")); return; }
  const parts = [listOf(data.numbers, true)];
  if (data.notes.length) parts.push(el("section", { "aria-label": "Notes" }, el("h3", {}, "Notes"), el("ul", { class: "plainlist" }, data.notes.map((note) => el("li", {}, named(note))))));
  if (data.compared && data.changes) parts.push(data.changes.length ? changeChart(data) : el("p", { class: "explain" }, unchanged(data)));
  const small = [];
  if (data.k && Object.keys(data.k).length) small.push(kChart(data));
  if (data.curve) small.push(curveChart(data));
  if (data.heat) small.push(heatChart(data));
  if (data.parts && data.parts.length > 1) {
    if (data.parts.some((part) => part.fass != null)) small.push(fassChart(data));
    small.push(retentionChart(data));
  }
  if (small.length) parts.push(el("div", { class: "pair" }, small));
  if (data.rows?.length) parts.push(rowExplorer(data, gate.dataset.n));
  if (data.pairs?.length) parts.push(pairExplorer(data, gate.dataset.n));
  if (data.scored?.length) parts.push(folded(`Pairs (${data.scored.length} of ${data.pairs_of}, lowest scores and problems first)`, () => tableOf(
    ["image", "perturbation", "draw", "status", "FASS", "SSIM", "rank correlation", "top-k overlap", "why"],
    data.scored.map(([image, perturbation, draw, status, ...rest]) => [image, perturbation, draw || null, status, ...rest.slice(0, 4).map((v) => (v == null ? null : fixed(v))), rest[4]]), "Pairs")));
  const last = [];
  if (data.cost.length) last.push(el("section", { "aria-label": "Cost" }, el("h3", {}, "Cost"), listOf(data.cost)));
  last.push(folded("Provenance: model, method, settings, versions", () => listOf(data.provenance)));
  place.append(...parts, ...last);
  for (const figure of place.querySelectorAll("figure")) figure.draw?.();
}

function unchanged(data) {
  const word = data.before_k ? "row" : "pair", { fell, rose, same } = data.compared;
  if (fell + rose) return `Against the baseline ${plural(fell, word)} fell and ${rose} rose.`;
  return same ? `Against the baseline nothing changed on ${plural(same, word)}.` : `No ${word} was measured both in the baseline and now.`;
}

// Chooses one of many by select and by buttons for the one before and after.
function chooser(label, id, options, choose) {
  const select = el("select", { id }, options.map((text, i) => el("option", { value: i }, text)));
  const said = el("span", { class: "hidden", role: "status" });
  const step = (by) => { select.selectedIndex = Math.min(options.length - 1, Math.max(0, select.selectedIndex + by)); change(); said.textContent = options[select.selectedIndex]; };
  const back = el("button", { type: "button", onclick: () => step(-1) }, "‹ Before"), next = el("button", { type: "button", onclick: () => step(1) }, "Next ›");
  const change = () => { back.disabled = select.selectedIndex === 0; next.disabled = select.selectedIndex === options.length - 1; choose(select.selectedIndex); };
  select.addEventListener("change", change);
  return { box: el("div", { class: "pager" }, el("label", { for: id }, label, select), back, next, said), start: change };
}

function rowExplorer(data, n) {
  const place = el("div", {});
  const status = (row) => (row.reason != null ? "not measured" : `k = ${row.k}` + (data.required?.k ? (row.meets ? ", meets" : ", does not meet") : ""));
  const choose = (i) => {
    const row = data.rows[i];
    if (row.reason != null) { place.replaceChildren(el("p", { class: "note" }, "Not measured: ", named(row.reason))); return; }
    const name = (j) => named(`“${data.features[j]}”`);
    const facts = [`k = ${row.k}`, row.target && ["explained output ", named(row.target)], row.chance != null && `${Math.round(100 * row.chance)} % of half-samples of the runs meet the requirement`].filter(Boolean);
    const figure = rowChart(data, row);
    const key = (colour, text) => [el("span", { class: "key", style: `background:var(--c-${colour})` }), text];
    figure.querySelector("figcaption").append(
      ...facts.flatMap((fact, i) => (i ? [" · ", fact] : [fact])).flat(),
      el("br"), ...key("keep", "order holds"), ...key("stop", "▲ cannot be told apart"), ...key("rest", "further down"),
      row.blockers.length ? el("ul", { class: "plainlist" }, row.blockers.map(([a, b, d, tied]) => el("li", {}, name(a), " and ", name(b), tied ? " are tied" : ` overlap: distance ${d}, ${show(data.threshold, 6)} is needed`))) : "");
    place.replaceChildren(figure);
    figure.draw();
  };
  const { box, start } = chooser("Row, those below the requirement first", `row-${n}`, data.rows.map((row) => `${row.id} · ${status(row)}`), choose);
  const cut = data.rows.length < data.rows_of ? ` ${data.rows.length} of ${data.rows_of} rows, the most useful ones.` : "";
  const some = data.rows.some((row) => row.reason == null);
  const section = el("section", { "aria-label": "Rows" }, el("h3", {}, some ? "Why a row's features overlap" : "Rows that were not measured"),
    el("p", { class: "explain" }, (some ? "Each line is one feature's attribution over all runs of one row: marks are runs, the shape is the density that distances come from." : "") + cut), box, place);
  requestAnimationFrame(start);
  return section;
}

function pairExplorer(data, n) {
  const place = el("div", {});
  const names = [["original", "original"], ["perturbed", "perturbed"], ["before", "map of the original"], ["after", "map of the perturbed"], ["difference", "difference of the maps"]];
  const choose = (i) => {
    const pair = data.pairs[i];
    const scores = [["FASS", pair.fass], ["SSIM", pair.ssim], ["rank correlation", pair.spearman], ["top-k overlap", pair.jaccard]];
    place.replaceChildren(
      el("div", { class: "strip" }, names.map(([key, text]) => el("figure", {},
        el("img", { src: pair[key].startsWith("data:image/png;base64,") ? pair[key] : "data:,", alt: `${text}: image ${pair.image}, ${pair.perturbation}` }), el("figcaption", {}, text)))),
      el("p", { class: "scale" }, `−${show(pair.scale)}`, el("i", { "aria-hidden": "true" }), `+${show(pair.scale)}`, " attribution; chequered where the perturbed copy does not show the original's pixels"),
      el("div", { class: "components" }, scores.map(([name, value]) => el("div", {}, name, el("b", {}, fixed(value)),
        el("div", { class: "meter", "aria-hidden": "true" }, el("i", { style: `width:${Math.max(0, Math.min(100, 100 * (value || 0)))}%` }))))));
  };
  const { box, start } = chooser("Pair, the worst of each perturbation first", `pair-${n}`, data.pairs.map((pair) => `${pair.image} · ${pair.perturbation} · FASS ${fixed(pair.fass)}`), choose);
  start();
  return el("section", { "aria-label": "Images and maps" }, el("h3", {}, "Images and maps"),
    el("p", { class: "explain" }, data.protocol === "aligned" ? "The map of the perturbed copy is brought back into the frame of the original before the two are compared." : "Maps as they came, compared in place (published protocol)."), box, place);
}

// On paper: what is open, and else the gates that did not pass, a dozen at most; drawn in the colours of paper.
function print(wanted) {
  if (printing === wanted) return;
  printing = wanted;
  if (wanted && !gates.some((gate) => !gate.rows[1].hidden))
    for (const gate of gates.filter((one) => !one.hidden && one.dataset.outcome !== "PASS").slice(0, PRINTED_GATES)) { gate.dataset.printed = ""; open(gate, true); }
  if (!wanted) for (const gate of gates.filter((one) => "printed" in one.dataset)) { delete gate.dataset.printed; open(gate, false); }
  redraw();
}
addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));
matchMedia("print").addEventListener("change", (event) => print(event.matches));

function follow() {
  const gate = location.hash.startsWith("#gate-") && document.getElementById(location.hash.slice(1));
  if (gate) { open(gate, true); gate.scrollIntoView(); }
}
addEventListener("hashchange", follow);
controls.addEventListener("input", filter);
controls.addEventListener("submit", (event) => event.preventDefault());
closeAll.addEventListener("click", () => { for (const gate of gates) if (!gate.rows[1].hidden) open(gate, false); });
document.getElementById("table")?.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.key) sort(button);
  else if (button?.classList.contains("open")) { const gate = button.closest("tbody"); open(gate, gate.rows[1].hidden); }
});
if (gates.length === 1) open(gates[0], true);
follow();
