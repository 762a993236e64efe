// Configs of other people's engines, learned through their own programs.

import { h } from "./dom.js";
import { empty, table, verdict, versus, when } from "./parts.js";
import { tokens } from "./format.js";

export const engines = {
  id: "engines", title: "Engines", path: () => "engines", size: "half",
  render(d) {
    if (d.configs.length === 0) return empty("No engine was tuned here: tune --target engine:llama-bench finds its best flags.");
    return table("Configs of engines", [["engine and model"], ["faster than its default"], ["rates"], ["verdict"], ["measured"]], h("tbody", {}, d.configs.map((c) =>
      h("tr", {}, h("th", { scope: "row", class: "text" }, h("div", {}, c.target), h("div", { class: "soft" }, c.model)), h("td", {}, versus(c.ratio), c.command_line && h("details", {}, h("summary", {}, "Command line"), h("code", { class: "block" }, c.command_line))),
        h("td", {}, rates(c.default_tokens_per_second, c.best_tokens_per_second)), h("td", {}, verdict(c.verdict)), h("td", {}, when(c.measured_at))))));
  },
};

function rates(before, after) {
  return Object.keys(after ?? {}).map((r) => h("div", {}, `${r}: ${tokens(before?.[r])} → ${tokens(after[r])}`));
}
