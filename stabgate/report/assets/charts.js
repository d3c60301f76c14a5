"use strict";
// Charts by Plotly. Each is made from data and colours alone, so that it can be drawn again for paper or the dark.

const charts = new Set();
const CIVIDIS = [[0, "#00224e"], [0.125, "#123570"], [0.25, "#3b496c"], [0.375, "#575d6d"], [0.5, "#707173"],
  [0.625, "#8a8678"], [0.75, "#a59c74"], [0.875, "#c3b369"], [1, "#fee838"]];
const PRINTED = 330;
const LONGEST = 26, SHORTEST = 16; // characters of a name beside an axis, also on a phone
let printing = false;

// Plotly reads tags and entities in texts.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

function brief(text, longest = innerWidth < 700 && !printing ? SHORTEST : LONGEST) {
  const points = Array.from(String(text));
  return points.length <= longest ? String(text) : points.slice(0, longest - 9).join("") + "…" + points.slice(-8).join("");
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return new Proxy({}, { get: (_, name) => style.getPropertyValue("--" + name).trim() });
}

function layout(c, more) {
  const axis = (given) => ({ gridcolor: c.line, linecolor: c.line, zerolinecolor: c.line, automargin: true, fixedrange: true, ...given });
  return {
    height: 300, margin: { l: 46, r: 14, t: 10, b: 42 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: c.ink }, showlegend: false, dragmode: false,
    hoverlabel: { bgcolor: c.raised, bordercolor: c.line, font: { color: c.ink }, align: "left" },
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { color: c.soft }, traceorder: "normal" },
    ...more, xaxis: axis(more.xaxis), yaxis: axis(more.yaxis),
  };
}

// `make(colours)` gives traces and layout; `alternative` the same as text, for those who do not see it.
function chart(title, explained, make, alternative, wide) {
  const plot = el("div", { class: "plot", role: "img", "aria-label": title + ". The numbers follow as a table." });
  const figure = el("figure", { class: wide ? "wide" : null }, el("h3", {}, title), el("figcaption", {}, explained), plot,
    alternative && folded("Numbers", alternative));
  const one = { plot, make, wide };
  charts.add(one);
  figure.draw = () => draw(one);
  return figure;
}

function draw(one) {
  if (!one.plot.isConnected) { charts.delete(one); return; }
  const { traces, more } = one.make(colours());
  if (printing) Object.assign(more, { width: one.wide ? 2 * PRINTED : PRINTED, autosize: false });
  else Object.assign(more, { width: undefined, autosize: true });
  Plotly.react(one.plot, traces, layout(colours(), more), { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false });
}

const redraw = () => { for (const one of charts) draw(one); };
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

const line = (c, at, vertical = true) => ({
  type: "line", line: { color: c.ink, width: 1.5, dash: "dash" },
  ...(vertical ? { x0: at, x1: at, y0: 0, y1: 1, yref: "paper" } : { y0: at, y1: at, x0: 0, x1: 1, xref: "paper" }),
});

// An axis of whole numbers that spans `span` of them: few of them get steps of a half from Plotly.
const whole = (span) => (span <= 9 ? { dtick: 1 } : {});

// Told apart by more than colour.
const hatched = (c, colour, shape) => ({ color: colour, pattern: { shape, bgcolor: colour, fgcolor: c.raised, size: 7, solidity: 0.2 } });

function curveChart(data) {
  const { mean, half_width: half, rand } = data.curve;
  const steps = mean.map((_, i) => i + 1);
  const spread = half.some((value) => value != null);
  const make = (c) => ({
    traces: [
      spread && { x: [...steps, ...steps.slice().reverse()], fill: "toself", fillcolor: c["c-keep"], opacity: 0.18, line: { width: 0 }, hoverinfo: "skip", mode: "lines",
        y: [...mean.map((m, i) => m + (half[i] || 0)), ...mean.map((m, i) => m - (half[i] || 0)).reverse()], showlegend: false },
      { x: steps, y: mean, mode: "lines+markers", name: "measured", line: { color: c["c-keep"], width: 2 }, marker: { size: 6 }, hoverinfo: "text",
        hovertext: mean.map((m, i) => `rank ${i + 1} to ${i + 2}: ${show(m)}` + (half[i] == null ? "" : ` ± ${show(half[i], 2)}`)) },
      { x: steps, y: rand, mode: "lines+markers", name: "RAND", line: { color: c["c-rand"], width: 2, dash: "dot" }, marker: { size: 6, symbol: "diamond-open" }, hoverinfo: "text",
        hovertext: rand.map((m, i) => `RAND, rank ${i + 1} to ${i + 2}: ${show(m)}`) },
    ].filter(Boolean),
    more: { showlegend: true, shapes: [line(c, data.threshold, false)], xaxis: { title: { text: "rank, to the next" }, dtick: steps.length > 12 ? 5 : 1, zeroline: false },
      yaxis: { title: { text: "mean distance" }, range: [-0.03, 1.05] } },
  });
  return chart("Separability curve",
    `How far each ranked feature is from the next, averaged over rows${spread ? " (band: ± 2σ/√N)" : ""}; dashed: the threshold of ${show(data.threshold, 6)}. RAND is what random attributions give.`,
    make, () => tableOf(["rank", "distance to the next", "±", "RAND"], mean.map((m, i) => [`${i + 1} to ${i + 2}`, show(m), half[i] == null ? null : show(half[i], 2), show(rand[i])]), "Separability curve"));
}

function heatChart(data) {
  const n = data.heat.length;
  const ranks = data.heat.map((_, i) => i + 1);
  const z = data.heat.map((row, i) => row.map((value, j) => (i === j ? null : value)));
  const make = (c) => ({
    traces: [{ type: "heatmap", x: ranks, y: ranks, z, zmin: 0, zmax: 1, colorscale: CIVIDIS, hoverongaps: false, hoverinfo: "text", xgap: 1, ygap: 1,
      hovertext: z.map((row, i) => row.map((value, j) => `rank ${i + 1} and rank ${j + 1}: mean distance ${show(value)}`)),
      ...(n <= 10 ? { text: z.map((row) => row.map((value) => (value == null ? "" : value.toFixed(2)))), texttemplate: "%{text}", textfont: { size: 10 } } : {}),
      colorbar: { thickness: 10, len: 0.9, outlinewidth: 0, tickfont: { color: c.soft } } }],
    more: { height: 340, xaxis: { title: { text: "rank" }, dtick: n > 12 ? 5 : 1, showgrid: false, zeroline: false, constrain: "domain" },
      yaxis: { title: { text: "rank" }, autorange: "reversed", dtick: n > 12 ? 5 : 1, showgrid: false, zeroline: false, scaleanchor: "x", constrain: "domain" } },
  });
  return chart("Heat map in rank order",
    `Mean distance of every two ranks; light is told apart, dark overlaps.${data.of > n ? ` The first ${n} of ${data.of} ranks.` : ""}`,
    make, () => tableOf(["rank", ...ranks], data.heat.map((row, i) => [i + 1, ...row.map((value, j) => (i === j ? null : show(value)))]), "Heat map"));
}

function kChart(data) {
  const before = data.before_k || {};
  const seen = [...Object.keys(data.k), ...Object.keys(before)].map(Number);
  const last = Math.max(2, data.required?.k || 0, ...seen);
  const ks = Array.from({ length: last }, (_, i) => i + 1);
  const count = (k, i) => (data.k[k] || [0, 0])[i];
  const asked = data.required?.k;
  const most = Math.max(...ks.map((k) => Math.max(count(k, 0) + count(k, 1), before[k] || 0)));
  const make = (c) => {
    const bars = (i, name, colour, pattern) => ({ type: "bar", x: ks, y: ks.map((k) => count(k, i)), name, marker: hatched(c, colour, pattern),
      hoverinfo: "text", hovertext: ks.map((k) => `k = ${k}: ${plural(count(k, i), "row")}` + (asked ? `, ${name}` : "")), textposition: "none" });
    const traces = asked ? [bars(0, "meets the requirement", c["c-keep"], ""), bars(1, "does not", c["c-stop"], "/")] : [bars(0, "now", c["c-keep"], "")];
    if (data.before_k) traces.push({ x: ks, y: ks.map((k) => before[k] || 0), mode: "lines+markers", name: "baseline", line: { shape: "hvh", color: c["c-before"], width: 2 },
      marker: { symbol: "diamond", size: 7 }, hoverinfo: "text", hovertext: ks.map((k) => `baseline, k = ${k}: ${plural(before[k] || 0, "row")}`) });
    return { traces, more: { barmode: "stack", bargap: 0.25, showlegend: traces.length > 1, shapes: asked ? [line(c, asked - 0.5)] : [],
      xaxis: { title: { text: "k" }, dtick: last > 15 ? 5 : 1, showgrid: false, range: [0.4, last + 0.6] }, yaxis: { title: { text: "rows" }, rangemode: "tozero", tickformat: "d", ...whole(most) } } };
  };
  const heads = ["k", ...(asked ? ["rows that meet", "rows that do not"] : ["rows"]), ...(data.before_k ? ["baseline"] : [])];
  const line_of = (k) => [k, count(k, 0), ...(asked ? [count(k, 1)] : []), ...(data.before_k ? [before[k] || 0] : [])];
  return chart("k per row", (asked ? `On how many rows the first k features keep their order; dashed: k ≥ ${asked} is required` + (data.required.require === "order" ? "." : `, and here the requirement is on ${data.required.require === "both" ? "order and membership" : "membership"}.`)
    : "On how many rows the first k features keep their order.") + (data.before_k ? " Violet: the baseline." : ""), make, () => tableOf(heads, ks.map(line_of), "k per row"));
}

// The density that the distances were computed from: Gaussian kernels at the points, and masses at repeated values.
function density(one) {
  const atoms = one.atoms || [];
  if (!one.points.length || !one.h) return null;
  const low = Math.min(...one.points) - 3.5 * one.h, high = Math.max(...one.points) + 3.5 * one.h;
  const share = (1 - atoms.reduce((sum, atom) => sum + atom[1], 0)) / one.points.length;
  const x = Array.from({ length: 121 }, (_, i) => low + ((high - low) * i) / 120);
  return { x, y: x.map((at) => one.points.reduce((sum, p) => sum + Math.exp(-0.5 * ((at - p) / one.h) ** 2), 0) * share / one.h) };
}

function rowChart(data, row) {
  const names = row.ranking.map((j) => data.features[j]);
  const stops = new Set(row.blockers.flatMap(([a, b]) => [a, b]));
  const kind = (r) => (stops.has(row.ranking[r]) ? "stop" : r < row.k && row.k > 1 ? "keep" : "rest");
  const make = (c) => {
    const traces = [];
    row.distributions.forEach((one, r) => {
      const colour = c["c-" + kind(r)], found = density(one), top = found ? Math.max(...found.y) : 1;
      if (found) traces.push({ x: [...found.x, found.x[120], found.x[0]], y: [...found.y.map((y) => -r + (0.82 * y) / top), -r, -r], mode: "lines", fill: "toself", fillcolor: colour,
        opacity: 0.55, line: { color: colour, width: 1 }, hoverinfo: "skip" });
      for (const [place, mass] of one.atoms || []) traces.push({ x: [place, place], y: [-r, -r + 0.82 * Math.sqrt(mass)], mode: "lines", line: { color: colour, width: 4 }, hoverinfo: "text",
        hovertext: plain(`${names[r]}: ${Math.round(100 * mass)} % of the runs at ${show(place, 4)}`) });
      traces.push({ x: one.points, y: one.points.map(() => -r), mode: "markers", marker: { symbol: "line-ns-open", size: 7, color: colour }, hoverinfo: "text",
        hovertext: one.points.map((p) => plain(`${names[r]}: ${show(p, 4)}`)) });
    });
    return { traces, more: { height: 70 + 44 * names.length, hovermode: "closest", margin: { l: 60, r: 14, t: 6, b: 42 }, xaxis: { title: { text: "attribution" }, zeroline: true },
      yaxis: { tickvals: names.map((_, r) => -r), ticktext: names.map((name, r) => (kind(r) === "stop" ? "▲ " : "") + `\u2068${plain(brief(name))}\u2069  ${r + 1}`), showgrid: true, zeroline: false, range: [0.5 - names.length - 0.1, 1] } } };
  };
  const confused = (r) => row.confused.filter(([a]) => a === r).map(([, b]) => names[b]).join(", ") || "all";
  return chart(`Leading features of row ${brief(row.id, 60)}`, "", make,
    () => tableOf(["rank", "feature", "mean", "distance to the next", "told apart from those above"],
      names.map((name, r) => [r + 1, name, show(row.means[r], 4), r + 1 < names.length ? row.distances[r][r + 1] : null, r === 0 ? null : confused(r) === "all" ? "all" : `not from ${confused(r)}`]), `Leading features of row ${row.id}`), true);
}

function retentionChart(data) {
  const parts = data.parts.slice(1);
  const kinds = [["retained", "retained", "c-keep", ""], ["changed", "prediction changed", "c-rest", "/"], ["no_signal", "no signal", "c-before", "x"], ["errors", "error", "c-stop", "."]];
  const make = (c) => ({
    traces: kinds.filter(([key], i) => i < 2 || parts.some((part) => part[key])).map(([key, name, colour, pattern]) => ({
      type: "bar", orientation: "h", y: parts.map((_, i) => i), x: parts.map((part) => (100 * part[key]) / Math.max(1, part.attempted)), name,
      marker: hatched(c, c[colour], pattern), hoverinfo: "text", textposition: "none",
      hovertext: parts.map((part) => plain(`${part.name}: ${part[key]} of ${part.attempted} pairs ${name}`)) })),
    more: { barmode: "stack", showlegend: true, height: 110 + 34 * parts.length, shapes: data.required?.retention ? [line(c, 100 * data.required.retention)] : [],
      xaxis: { title: { text: "% of attempted pairs" }, range: [0, 100] }, yaxis: { tickvals: parts.map((_, i) => i), ticktext: parts.map((part) => plain(brief(part.name))), autorange: "reversed", showgrid: false } },
  });
  return chart("Retention", "Of how many attempted pairs the prediction held, so that their maps count." + (data.required?.retention ? " Dashed: the least that is needed." : ""), make,
    () => tableOf(["perturbation", "attempted", "retained", "prediction changed", "no signal", "errors"], parts.map((p) => [p.name, p.attempted, p.retained, p.changed, p.no_signal, p.errors]), "Retention"));
}

function fassChart(data) {
  const parts = data.parts.slice(1).filter((part) => part.fass != null);
  const marks = [["ssim", "SSIM", "circle-open"], ["spearman", "rank correlation", "square-open"], ["jaccard", "top-k overlap", "diamond-open"]];
  const floor = data.references.floor.fass, reseed = data.references["re-seed"].fass;
  const where = parts.map((_, i) => i);
  const make = (c) => ({
    traces: [
      ...marks.map(([key, name, symbol]) => ({ x: parts.map((part) => part[key]), y: where, mode: "markers", name, marker: { symbol, size: 9, color: c.soft, line: { width: 1.5 } }, hoverinfo: "text",
        hovertext: parts.map((part) => plain(`${part.name}: ${name} ${fixed(part[key])}`)) })),
      { x: parts.map((part) => part.fass), y: where, mode: "markers", name: "FASS", marker: { size: 11, color: c["c-keep"] }, hoverinfo: "text", hovertext: parts.map((part) => plain(`${part.name}: FASS ${fixed(part.fass)}` + (part.low == null ? "" : ` (95 %: ${fixed(part.low)} to ${fixed(part.high)})`))),
        error_x: { type: "data", symmetric: false, array: parts.map((p) => (p.high == null ? 0 : p.high - p.fass)), arrayminus: parts.map((p) => (p.low == null ? 0 : p.fass - p.low)), color: c["c-keep"], thickness: 2, width: 4 } },
    ],
    more: { showlegend: true, height: 130 + 34 * parts.length, xaxis: { range: [Math.min(0, ...parts.map((p) => p.ssim)) - 0.02, 1.03], title: { text: "score" } },
      yaxis: { tickvals: where, ticktext: parts.map((part) => plain(brief(part.name))), range: [parts.length - 0.5, -0.6] },
      shapes: [data.required?.score != null && line(c, data.required.score), floor != null && { ...line(c, floor), line: { color: c["c-stop"], width: 2, dash: "dot" } }].filter(Boolean) },
  });
  const reference = (one, name) => [name, fixed(one.fass), null, null, fixed(one.ssim), fixed(one.spearman), fixed(one.jaccard)];
  return chart("Score and components by perturbation",
    (data.required?.score != null ? "Dashed: the score that is required. " : "") + (floor != null ? `Dotted orange: the floor (${fixed(floor)}), the score against another image's map. ` : "") + (reseed != null ? `Explained again with another seed, an image scores ${fixed(reseed)} against itself.` : ""),
    make, () => tableOf(["perturbation", "FASS", "low", "high", "SSIM", "rank correlation", "top-k overlap"],
      [...data.parts.map((p) => [p.name, fixed(p.fass), p.low == null ? null : fixed(p.low), p.high == null ? null : fixed(p.high), fixed(p.ssim), fixed(p.spearman), fixed(p.jaccard)]),
        reference(data.references.floor, "floor"), reference(data.references["re-seed"], "re-seed")], "Scores by perturbation"));
}

function changeChart(data) {
  const kept = data.changes.slice(0, 15);
  const values = kept.flatMap(([, a, b]) => [a, b]), span = Math.max(...values) - Math.min(...values);
  const make = (c) => ({
    traces: [
      { x: kept.flatMap(([, a, b]) => [a, b, null]), y: kept.flatMap((_, i) => [i, i, null]), mode: "lines", line: { color: c.soft, width: 2 }, hoverinfo: "skip", showlegend: false },
      { x: kept.map((row) => row[1]), y: kept.map((_, i) => i), mode: "markers", name: "baseline", marker: { symbol: "diamond-open", size: 10, color: c["c-before"], line: { width: 2 } }, hoverinfo: "text", hovertext: kept.map(([id, a]) => plain(`${id}: ${show(a)} before`)) },
      { x: kept.map((row) => row[2]), y: kept.map((_, i) => i), mode: "markers", name: "now", marker: { size: 10, color: c["c-keep"] }, hoverinfo: "text", hovertext: kept.map(([id, , b]) => plain(`${id}: ${show(b)} now`)) },
    ],
    more: { showlegend: true, height: 110 + 24 * kept.length, xaxis: { title: { text: data.before_k ? "k" : "FASS" }, ...(data.before_k ? whole(span) : {}) },
      yaxis: { tickvals: kept.map((_, i) => i), ticktext: kept.map(([id]) => plain(brief(id))), range: [kept.length - 0.4, -0.6], showgrid: false } },
  });
  const word = data.before_k ? "row" : "pair", { fell, rose, same, other } = data.compared;
  return chart("Baseline and now", `${plural(fell, word)} fell, ${rose} rose, ${same} stayed` + (other ? `, ${other} cannot be compared` : "") + (data.changes.length > kept.length ? "; the 15 that fell furthest." : "."),
    make, () => tableOf([word, "baseline", "now"], data.changes.map(([id, a, b]) => [id, show(a), show(b)]), "Baseline and now"), true);
}
