// What the daemon does now, and why.

import { h } from "./dom.js";
import { bar, facts, badge, when } from "./parts.js";
import { count, percent, seconds } from "./format.js";

const phases = {
  waiting: ["still", "Waiting"],
  measuring: ["good", "Measuring"],
  checking: ["info", "Checking"],
  stopped: ["warn", "Stopped"],
};

const modes = {
  off: "does nothing at all",
  use: "answers with what is known, measures nothing",
  advise: "checks what is known and says what should be done, changes nothing",
  tune: "learns, checks, and takes back what got worse",
  frozen: "answers with the configs of given hashes only",
};

export const now = {
  id: "now", title: "Now", from: "state", size: "half",
  render(state) {
    const [kind, text] = phases[state.phase] ?? ["still", state.phase];
    const b = state.budget, u = state.host;
    return [
      h("p", { class: "phase" }, h("span", { class: `lamp ${state.phase}`, "aria-hidden": "true" }), h("strong", { class: kind }, text), h("span", { class: "reason" }, state.reason)),
      h("div", { class: "budget" },
        h("p", {}, "CPU time spent in 24 hours", h("span", { class: "figure" }, `${seconds(b.spent_seconds)} of ${seconds(b.limit_seconds)}`)),
        bar(b.spent_seconds / (b.limit_seconds || 1), `${percent(b.spent_seconds / (b.limit_seconds || 1))} of the budget of CPU time is spent`, b.left_seconds < 1 ? "full" : ""),
        h("p", { class: "soft" }, b.left_seconds >= 1 ? `${seconds(b.left_seconds)} left` : "nothing left: it waits until a day has passed since it was spent")),
      facts(
        ["mode", h("span", { title: modes[state.mode] }, badge("info", state.mode), " ", h("span", { class: "soft" }, modes[state.mode] ?? ""))],
        ["runs since", when(state.started)],
        ["steps", state.steps > 0 ? `${count(state.steps)}, of which ${count(state.aborted)} gave way to load and ${count(state.failed)} failed` : "none yet"],
        ["others on this host", u.known ? `${u.cpus.toFixed(2)} CPUs busy (${percent(u.utilization)}), ${count(u.runnable)} task${u.runnable === 1 ? "" : "s"} runnable` : "not known yet"],
        ["tasks waited for", u.known ? `CPU ${percent(u.cpu_stall, 1)}, memory ${percent(u.memory_stall, 1)}, I/O ${percent(u.io_stall, 1)} of the time` : null],
        ["throttled", u.known && u.throttled > 0 ? badge("warn", `${percent(u.throttled, 1)} of the time`) : null],
        ["power", u.battery ? badge("warn", "on battery") : null],
      ),
    ];
  },
};
