// What the daemon did and noticed, newest first.

import { h } from "./dom.js";
import { badge, empty, table, when } from "./parts.js";

const levels = { info: ["info", "info"], warn: ["warn", "warning"], error: ["bad", "error"] };

export const events = {
  id: "events", title: "Events", from: "state", size: "full",
  render(state) {
    if (state.events.length === 0) return empty("Nothing happened since the daemon began.");
    return table("Events, newest first", [["when"], ["level"], ["what"], ["model"], ["why"]], h("tbody", {}, state.events.toReversed().map((e) =>
      h("tr", { "data-key": `${e.at} ${e.model ?? ""} ${e.what}` }, h("th", { scope: "row" }, when(e.at)), h("td", {}, badge(...(levels[e.level] ?? ["info", e.level]))),
        h("td", { class: "text" }, e.what), h("td", { class: "text" }, e.model ?? ""), h("td", { class: "text" }, e.why ?? "")))), "stack long");
  },
};
