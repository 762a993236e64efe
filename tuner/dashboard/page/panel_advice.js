// What the advisor says of the config that answers.

import { h } from "./dom.js";
import { badge, empty } from "./parts.js";
import { digits, words } from "./format.js";

const impacts = { critical: "bad", high: "warn", medium: "info", low: "still" };

export const advice = {
  id: "advice", title: "Advice", from: "advice", size: "full",
  render(d) {
    const list = d.suggestions ?? [];
    const asked = d.checked > 0 ? `${d.checked} rules were asked, ${d.skipped?.length ?? 0} of them lack a fact or would bring nothing.` : "";
    if (list.length === 0) return empty(`Nothing to advise. ${asked}`);
    return [
      h("ul", { class: "advice" }, list.map((a) => h("li", { "data-key": a.digest || a.id },
        h("details", {},
          h("summary", {}, badge(impacts[a.impact] ?? "still", words(a.impact)), h("span", { class: "what" }, a.title), h("span", { class: "soft" }, gain(a.expected_improvement), ` ${a.evidence === "measured" ? "measured here" : "an estimate"}`)),
          h("p", {}, a.description),
          a.steps?.length > 0 && h("ol", {}, a.steps.map((text) => h("li", {}, text))),
          (a.warnings ?? []).map((w) => h("p", { class: "note" }, w)),
          a.measure && h("p", {}, "To measure it: ", h("code", {}, a.measure)))))),
      h("p", { class: "soft" }, asked),
    ];
  },
};

function gain(e) {
  const percent = (r) => `${r.estimate > 0 ? "+" : ""}${digits(r.estimate, 2)} %`;
  return [
    e?.speed_ratio && `${digits(e.speed_ratio.estimate)}× the speed,`, e?.throughput_ratio && `${digits(e.throughput_ratio.estimate)}× the throughput,`,
    e?.latency_percent && `${percent(e.latency_percent)} time,`, e?.memory_percent && `${percent(e.memory_percent)} memory,`,
  ].filter(Boolean).join(" ");
}
