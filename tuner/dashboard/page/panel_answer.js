// What a model runs with here, and what an operator can do about it.

import { h } from "./dom.js";
import { bar, facts, regimeName, setting, source, table, verdict, versus, when } from "./parts.js";
import { bytes, count, digits } from "./format.js";

export const answer = {
  id: "answer", title: "Learned config", from: "plan", size: "wide",
  render(plan, { state, model }) {
    const m = state?.models.find((m) => m.name === model) ?? {};
    const c = plan.config;
    const rows = [["decode", c.decode], ["small_batch", c.small_batch], ["prefill", c.prefill]].filter(([, s]) => s?.kernel);
    return [
      h("div", { class: "headline" }, source(plan.source), h("p", {}, plan.reason)),
      table("The config that answers, by regime", [["regime"], ["kernel"], ["setting"]], h("tbody", {}, rows.map(([r, s]) =>
        h("tr", {}, h("th", { scope: "row" }, regimeName(r)), h("td", {}, h("code", {}, s.kernel)), h("td", { class: "text" }, setting(s)))))),
      facts(
        ["gain", plan.ratio?.estimate > 0 ? [versus(plan.ratio), h("span", { class: "soft" }, " against the default")] : "not measured"],
        ["layout", `${c.layout}${plan.layout_reason ? ": " + plan.layout_reason : ""}`],
        ["runs on", c.strategy === "cpu_only" ? "the CPU" : `${c.strategy === "gpu_only" ? "the GPU" : "GPU and CPU"} ${(c.devices ?? []).join(", ")}`],
        ["workspace", c.workspace_bytes > 0 ? bytes(c.workspace_bytes) : null],
        ["pinned knobs", (plan.pinned_knobs ?? []).map((k) => `${k.knob} = ${k.value} by ${k.by}`).join(", ")],
        ["measured", plan.source === "heuristic" ? null : when(plan.measured_at)],
        ["arms known", plan.evaluations > 0 ? count(plan.evaluations) : null],
        ["to be checked again", (plan.recheck ?? []).join(", ")],
        ["last tune", m.verdict ? verdict(m.verdict) : null],
        ["checks", m.checks > 0 ? [`${count(m.checks)}, the last: `, versus(m.last_ratio)] : "none yet"],
        ["next check", m.next_check && plan.source === "measured" ? when(m.next_check) : null],
        ["drift", m.checks > 0 ? drift(m) : null],
      ),
      h("div", { class: "actions" },
        plan.source === "pinned"
          ? h("button", { type: "button", "data-act": "unpin", "data-key": "pin" }, "Unpin…")
          : h("button", { type: "button", "data-act": "pin", "data-key": "pin" }, "Pin…"),
        h("button", { type: "button", "data-act": "rollback", "data-key": "rollback", disabled: plan.source !== "measured", title: plan.source === "measured" ? null : why(plan.source) }, "Roll back…")),
    ];
  },
};

const why = (source) => (source === "pinned" ? "It is pinned: unpin it first." : "Nothing was learned here that could be taken back.");

function drift(m) {
  const text = `${digits(m.drift, 2)} of ${digits(m.drift_limit, 2)}`;
  return [bar(m.drift / (m.drift_limit || 1), `the drift statistic is ${text}`, m.drift > m.drift_limit / 3 ? "warn" : ""), ` ${text}, above which it is tuned anew or rolled back`];
}
