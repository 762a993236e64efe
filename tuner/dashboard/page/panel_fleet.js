// What came from other hosts of this class.

import { h } from "./dom.js";
import { empty, table, verdict, versus, when } from "./parts.js";
import { count } from "./format.js";

export const fleet = {
  id: "fleet", title: "Fleet", from: "fleet", size: "half",
  render(d) {
    if (d.configs.length === 0) return empty("Nothing came from other hosts: this host has learned alone. Hosts of one class can share what they learn through an etcd.");
    return [
      table("Configs that came from other hosts", [["model"], ["there"], ["hosts", "number"], ["checked here"], ["when"]], h("tbody", {}, d.configs.map((c) =>
        h("tr", { "data-key": `${c.run} ${c.model} ${c.objective}` }, h("th", { scope: "row", class: "text" }, c.model, h("div", { class: "soft" }, `${c.objective} on ${c.target}`)), h("td", {}, versus(c.ratio)),
          h("td", { class: "number", "data-label": "hosts" }, count(c.received.hosts)), h("td", { class: "text" }, verdict(c.received.verdict), c.received.reason), h("td", {}, when(c.received.checked_at)))))),
      h("p", { class: "soft" }, d.note),
    ];
  },
};
