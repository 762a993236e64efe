// What hosts of this class share.

import { h } from "../dom.js";
import { empty, table, verdict, when } from "../parts.js";

export const fleet = {
  id: "fleet", title: "Fleet", path: () => "fleet", size: "half",
  render(d) {
    if (d.entries.length === 0) return empty(d.configured ? "Nothing was shared or received yet." : d.note || "No fleet: this host learns alone. Daemons that share an etcd learn from each other.");
    return [
      table("Configs that came from the fleet or were given to it", [["model"], ["objective"], ["from"], ["checked here"], ["when"]], h("tbody", {}, d.entries.map((e) =>
        h("tr", {}, h("th", { scope: "row", class: "text" }, e.model), h("td", {}, e.objective), h("td", {}, e.received ? "another host" : "this host"), h("td", {}, verdict(e.verdict)), h("td", {}, when(e.at)))))),
      d.note && h("p", { class: "soft" }, d.note),
    ];
  },
};
