// What every kernel reached, against what this host can do at all.

import { h } from "./dom.js";
import { badge, bar, empty, inOrder, on, regimeName, table } from "./parts.js";
import { byteRate, count, opRate, percent, tokens, words } from "./format.js";

export const kernels = {
  id: "kernels", title: "Kernels under the roofs", from: "kernels", size: "full",
  render(d) {
    if (d.rows.length === 0) return empty("Nothing measured yet: each kernel's best rate will stand here beside the limit of this host.");
    const longest = Math.max(1, ...d.rows.map((r) => r.fraction_of_limit)); // a cache may give more than memory can
    return [
      h("p", { class: "soft" }, limits(d)),
      table("The best setting of each kernel, by regime", [["kernel"], ["best setting"], ["rate", "number"], ["work", "number"], ["of the limit", "roof"], ["samples", "number"]],
        groups(d.rows).map(([regime, rows]) => h("tbody", { "data-key": regime },
          h("tr", { class: "group" }, h("th", { scope: "colgroup", colspan: "6" }, regimeName(regime))),
          rows.map((r) => row(r, longest))))),
      d.note && h("p", { class: "soft" }, d.note),
    ];
  },
};

function limits(d) {
  const list = [];
  if (d.read_bandwidth_bytes_per_second > 0) list.push(`reads ${byteRate(d.read_bandwidth_bytes_per_second)} with ${d.read_threads} thread${d.read_threads === 1 ? "" : "s"}`);
  if (d.int8_peak_ops_per_second > 0) list.push(`multiplies ${opRate(d.int8_peak_ops_per_second)}`);
  return list.length > 0 ? `This host ${list.join(" and ")}, by measurement.` : "The limits of this host were not measured yet.";
}

function groups(rows) {
  return inOrder(rows.map((r) => on(r.regime, r.target))).map((regime) => [regime, rows.filter((r) => on(r.regime, r.target) === regime).sort((a, b) => b.tokens_per_second - a.tokens_per_second)]);
}

function row(r, longest) {
  return h("tr", { "data-key": r.kernel },
    h("th", { scope: "row" }, h("code", {}, r.kernel), r.serving && badge("good", "serves"), r.default && badge("still", "default")),
    h("td", { class: "text" }, r.label.replace(r.kernel, ""), h("span", { class: "soft" }, ` of ${count(r.arms)} tried`)),
    h("td", { class: "number" }, r.tokens_per_second > 0 ? tokens(r.tokens_per_second) : words(r.status)),
    h("td", { class: "number" }, r.regime === "decode" ? byteRate(r.bytes_per_second) : opRate(r.ops_per_second)),
    h("td", { class: "roof" }, r.fraction_of_limit > 0 ? [bar(r.fraction_of_limit / longest, `${percent(r.fraction_of_limit)} of the ${r.limit} limit`, "", 1 / longest), h("span", { class: "figure" }, percent(r.fraction_of_limit))] : h("span", { class: "soft" }, "no limit measured")),
    h("td", { class: "number", "data-label": "samples" }, count(r.samples)));
}
