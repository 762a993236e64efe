// What was learned of other people's engines, through their own programs.

import { h } from "./dom.js";
import { empty, regimeName, table, verdict, versus, when } from "./parts.js";
import { tokens } from "./format.js";

export const engines = {
  id: "engines", title: "Engines", from: "engines", size: "half",
  render(d) {
    if (d.configs.length === 0) return empty("No engine was tuned here: tune --target engine:llama-bench finds the best flags of one.");
    return table("Configs of engines", [["engine and model"], ["against its default"], ["rates"], ["verdict"], ["measured"]], h("tbody", {}, d.configs.map((c) =>
      h("tr", { "data-key": `${c.run} ${c.model} ${c.objective}` }, h("th", { scope: "row", class: "text" }, c.target.replace("engine:", ""), h("div", { class: "soft" }, `${c.model}, ${c.objective}`)),
        h("td", {}, versus(c.ratio), c.command_line && h("details", {}, h("summary", {}, "Command line"), h("code", { class: "block" }, c.command_line))),
        h("td", {}, Object.keys(c.best_tokens_per_second).map((r) => h("div", {}, `${regimeName(r)}: ${tokens(c.default_tokens_per_second[r])} → ${tokens(c.best_tokens_per_second[r])}`))),
        h("td", {}, verdict(c.verdict), c.here ? null : h("div", { class: "soft" }, "on another host")), h("td", {}, when(c.measured_at))))));
  },
};
