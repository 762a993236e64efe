// What every kernel reached, against what this host can do at all.

import { h } from "../dom.js";
import { badge, bar, empty, inOrder, regimeName, setting, table } from "../parts.js";
import { byteRate, count, digits, opRate, percent, tokens, words } from "../format.js";

export const kernels = {
  id: "kernels", title: "Kernels under the roofs", path: (model) => `models/${model}/kernels`, size: "full",
  render(d) {
    if (d.rows.length === 0) return empty("Nothing measured yet: each kernel's best rate will stand here beside the limit of this host.");
    const longest = Math.max(1, ...d.rows.map((r) => r.fraction_of_limit)); // a cache may give more than memory can
    return [
      h("p", { class: "soft" }, limits(d)),
      table("The best setting of each kernel, by regime", [["kernel"], ["setting"], ["rate", "number"], ["work", "number"], ["of the limit", "roof"], ["samples", "number"]],
        groups(d.rows).map(([regime, rows]) => h("tbody", { "data-key": regime },
          h("tr", { class: "group" }, h("th", { scope: "colgroup", colspan: "6" }, regimeName(regime))),
          rows.map((r) => row(r, longest))))),
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
  return inOrder(rows.map((r) => r.regime)).map((regime) => [regime, rows.filter((r) => r.regime === regime).sort((a, b) => b.tokens_per_second - a.tokens_per_second)]);
}

function row(r, longest) {
  const share = r.fraction_of_limit > 0;
  return h("tr", { "data-key": r.kernel },
    h("th", { scope: "row" }, h("code", {}, r.kernel), r.serving && badge("good", "serves"), r.default && badge("still", "default")),
    h("td", {}, r.blocking ? setting(r) : r.label),
    h("td", { class: "number" }, r.tokens_per_second > 0 ? tokens(r.tokens_per_second) : words(r.status)),
    h("td", { class: "number" }, r.regime === "decode" ? byteRate(r.bytes_per_second) : opRate(r.ops_per_second)),
    h("td", { class: "roof" }, share ? [bar(r.fraction_of_limit / longest, `${percent(r.fraction_of_limit)} of the ${r.limit} limit`, "", 1 / longest), h("span", { class: "figure" }, percent(r.fraction_of_limit))] : h("span", { class: "soft" }, "no limit measured")),
    h("td", { class: "number" }, digits(r.samples)));
}
