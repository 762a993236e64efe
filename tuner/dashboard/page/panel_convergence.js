// How fast the running and the past tunes came to their answers.

import { h, s } from "./dom.js";
import { badge, choice, empty, inOrder, on, regimeName, table, verdict, when } from "./parts.js";
import { count, digits, seconds, times } from "./format.js";
import { mark, plot, show, steps } from "./chart.js";

export const convergence = {
  id: "convergence", title: "Convergence", from: "convergence", size: "half",
  render(d, { chosen }) {
    const regimes = regimesOf(d);
    if (regimes.length === 0) return empty("Nothing measured yet: the best so far will be drawn here while a tune runs.");
    const regime = chosen("convergence-regime", regimes), axis = chosen("convergence-axis", ["evaluations", "seconds"]);
    const curves = curvesOf(d.runs, regime, axis);
    return [
      h("div", { class: "choices" },
        choice("convergence-regime", "Regime", regimes.map((r) => [r, regimeName(r)]), regime),
        choice("convergence-axis", "Against", [["evaluations", "evaluations"], ["seconds", "seconds"]], axis)),
      h("figure", { class: "plot", "data-key": "plot" }, s("svg", { role: "img", "aria-label": summary(curves, regime) })),
      h("p", { class: "legend" }, h("span", { class: "key newest" }, "best so far, newest run"), h("span", { class: "key past" }, "earlier runs"), h("span", { class: "key dot" }, "an arm"), h("span", { class: "key cross" }, "failed"), h("span", {}, "These are single measurements: the duels of the certificate decide.")),
      h("details", {}, h("summary", {}, "Runs as a table"), runs(curves)),
    ];
  },
  after(element, d, { chosen }) {
    const figure = element.querySelector("figure");
    if (!figure) return;
    const regimes = regimesOf(d);
    const axis = chosen("convergence-axis", ["evaluations", "seconds"]);
    const curves = curvesOf(d.runs, chosen("convergence-regime", regimes), axis);
    show(figure, 340, (width, height) => picture(curves, axis, width, height));
  },
};

const regimesOf = (d) => inOrder(d.runs.flatMap((r) => r.regimes.map((g) => on(g.regime, r.target))));

// curvesOf are the runs that measured a regime, the newest first.
function curvesOf(runs, regime, axis) {
  return runs.flatMap((run) => run.regimes.filter((g) => on(g.regime, run.target) === regime && g.points.length > 0).map((g) => ({
    run, reference: g.reference,
    points: g.points.map((p) => ({ ...p, at: axis === "seconds" ? p.seconds : p.evaluation })),
  })));
}

function summary(curves, regime) {
  if (curves.length === 0) return `${regimeName(regime)}: no run measured it`;
  const last = curves[0].points.at(-1);
  return `${regimeName(regime)}: the newest run reached ${times(last.best)} the ${curves[0].reference} with ${count(last.evaluation)} evaluations in ${seconds(last.seconds)}`;
}

function picture(curves, axis, width, height) {
  if (curves.length === 0) return [];
  const all = curves.flatMap((c) => c.points);
  const ratios = [1, ...all.map((p) => p.ratio), ...all.map((p) => p.best)].filter((v) => v > 0);
  const span = Math.max(...ratios) - Math.min(...ratios) || 0.1, low = Math.max(0, Math.min(...ratios) - 0.08 * span), high = Math.max(...ratios) + 0.08 * span;
  const x = { low: 0, high: Math.max(1, ...all.map((p) => p.at)), label: axis === "seconds" ? "seconds" : "evaluations" };
  return plot({ width, height, x, y: { low, high, label: `times the ${curves[0].reference}${low > 0 ? ", not from 0" : ""}`, write: (v) => `${digits(v)}×` } }, (X, Y, inner) => [
    s("line", { class: "one", x1: inner.left, x2: inner.right, y1: Y(1), y2: Y(1) }),
    curves.slice(1, 8).reverse().map((c) => s("path", { class: "curve past", d: steps(line(c), X, Y) })),
    curves[0].points.map((p) => (p.ratio > 0
      ? mark("small", "arm", X(p.at), Y(p.ratio), `${p.label}: ${times(p.ratio)}`)
      : mark("cross", "bad", X(p.at), inner.bottom - 8, `${p.label}: ${p.status}`))),
    s("path", { class: "curve newest", d: steps(line(curves[0]), X, Y) }),
    mark("dot", curves[0].run.running ? "end running" : "end", X(curves[0].points.at(-1).at), Y(curves[0].points.at(-1).best), `best so far: ${times(curves[0].points.at(-1).best)}`),
  ]);
}

const line = (curve) => curve.points.filter((p) => p.best > 0).map((p) => [p.at, p.best]);

function runs(curves) {
  return table("Runs", [["begun"], ["objective"], ["evaluations", "number"], ["time", "number"], ["best so far", "number"], ["verdict"]], h("tbody", {}, curves.map((c) => {
    const last = c.points.at(-1);
    return h("tr", { "data-key": c.run.run }, h("th", { scope: "row" }, when(c.run.started)), h("td", {}, c.run.objective), h("td", { class: "number" }, count(last.evaluation)),
      h("td", { class: "number" }, seconds(last.seconds)), h("td", { class: "number" }, last.best > 0 ? times(last.best) : "none"), h("td", {}, c.run.running ? badge("good", "running") : c.run.finished ? verdict(c.run.verdict) : "cut short"));
  })));
}
