// What hosts of this class share.

import { h } from "./dom.js";
import { empty, table, verdict, when } from "./parts.js";
import { count } from "./format.js";

export const fleet = {
  id: "fleet", title: "Fleet", path: () => "fleet", size: "half",
  render(d) {
    if (d.entries.length + d.runs.length === 0) return empty("Nothing came from other hosts or was given to them: this host has learned alone. Hosts of one class can share what they learn through an etcd.");
    return [
      d.entries.length > 0 && table("Configs that came from other hosts", [["model"], ["objective"], ["hosts", "number"], ["checked here"], ["when"]], h("tbody", {}, d.entries.map((e) =>
        h("tr", {}, h("th", { scope: "row", class: "text" }, e.model), h("td", {}, e.objective), h("td", { class: "number" }, count(e.hosts)), h("td", { title: e.reason }, verdict(e.verdict)), h("td", {}, when(e.checked_at)))))),
      d.runs.length > 0 && h("ul", { class: "plain" }, d.runs.map((r) => h("li", { "data-key": r.run }, when(r.at), ` ${r.model}: ${r.text}`))),
      h("p", { class: "soft" }, d.note),
    ];
  },
};
