// The verdict of the last tune with its evidence, and what it does not say.

import { h } from "./dom.js";
import { facts, regimeName, setting, table, verdict, versus, when } from "./parts.js";
import { byteRate, bytes, count, digits, percent, seconds, times, tokens, words } from "./format.js";

export const certificate = {
  id: "certificate", title: "Certificate of the newest tune", from: "certificate", size: "wide",
  render(c) {
    const inForce = [...(c.regimes ?? []), ...(c.inherited ?? [])];
    return [
      h("div", { class: "headline" }, verdict(c.verdict), versus(c.ratio)),
      table("Verdicts by regime", [["regime"], ["against the default"], ["default → best", "number"]], inForce.map((v) => h("tbody", {},
        h("tr", {}, h("th", { scope: "rowgroup", rowspan: "2" }, regimeName(v.regime)), h("td", {}, versus(v.ratio)), h("td", { class: "number" }, rates(v))),
        h("tr", {}, h("td", { class: "text", colspan: "2" }, verdict(v.verdict), h("code", {}, v.best.kernel), " ", setting(v.best))))), "stack pairs"),
      facts(
        ["noise floor", c.noise_floor > 0 ? `${percent(c.noise_floor, 1)}: below it this host cannot tell two settings apart` : "not known"],
        ["evidence", `${count(c.evaluations)} of ${count(c.space_size)} arms measured, ${count(c.known)} known before, ${count(c.failed)} failed, ${count(c.censored)} samples set aside`],
        ["time", `${seconds(c.elapsed_seconds)} of ${seconds(c.budget_seconds)}` + (c.interrupted ? ", interrupted" : "")],
        ["read limit", c.roofline?.read_bandwidth_bytes_per_second > 0 ? `${byteRate(c.roofline.read_bandwidth_bytes_per_second)} with ${c.roofline.read_threads} thread${c.roofline.read_threads === 1 ? "" : "s"}; decode runs at ${percent(c.roofline.decode_fraction)} of it${c.roofline.residency ? ": " + c.roofline.residency : ""}` : "not measured"],
        ["objective", `${c.objective} on ${c.target}`],
        ["run", h("code", {}, c.run)],
        ["rolled back", c.rolled_back ? [`by ${c.rolled_back.by}: ${c.rolled_back.why}, `, when(c.rolled_back.at)] : null],
        ["fleet", c.fleet],
      ),
      missing(c, inForce),
      layouts(c.layouts ?? []),
    ];
  },
};

// rates are "574 → 1,413 tok/s".
function rates({ default_ns_per_token: before, best_ns_per_token: after }) {
  return before > 0 && after > 0 ? `${digits(1e9 / before)} → ${tokens(1e9 / after)}` : "not measured";
}

// missing lists what a reader may believe to be in the certificate and is not.
function missing(c, inForce) {
  const list = [
    ...["decode", "small_batch", "prefill"].filter((r) => !inForce.some((v) => v.regime === r)).map((r) => `${regimeName(r)} was not measured: its setting is from facts alone`),
    ...inForce.filter((v) => v.verdict === "INCONCLUSIVE").map((v) => `${regimeName(v.regime)} was not decided: ${v.stopped || "too little time"}`),
    ...inForce.flatMap((v) => (v.cuts ?? []).map((cut) => `${regimeName(v.regime)}: ${count(cut.points)} points left out before measuring: ${cut.reason}`)),
    ...inForce.flatMap((v) => (v.warnings ?? []).map((w) => `${regimeName(v.regime)}: ${w}`)),
    ...(c.warnings ?? []), ...(c.wrong ?? []).map((a) => `wrong results, never an answer again: ${a.kernel} ${setting(a)}`), c.note,
  ].filter(Boolean);
  return h("details", {}, h("summary", {}, `What was not measured, and doubts (${list.length})`), h("ul", {}, list.map((text) => h("li", {}, text))));
}

function layouts(list) {
  if (list.length === 0) return null;
  return h("details", {}, h("summary", {}, `How the layout was chosen (${list.length})`),
    table("Layouts", [["layout"], ["weights", "number"], ["repack", "number"], ["request", "number"], ["why"]], h("tbody", {}, list.map((l) =>
      h("tr", {}, h("th", { scope: "row" }, l.layout, l.chosen && " (chosen)"), h("td", { class: "number" }, bytes(l.bytes)), h("td", { class: "number" }, l.repack_seconds > 0 ? seconds(l.repack_seconds) : "unknown"),
        h("td", { class: "number" }, l.ratio > 0 ? times(l.ratio) : "not proven"), h("td", { class: "text" }, words(l.reason)))))));
}
