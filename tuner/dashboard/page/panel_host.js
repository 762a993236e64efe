// The host and its limits.

import { h } from "./dom.js";
import { badge, facts } from "./parts.js";
import { bytes, byteRate, cacheBytes, count, digits, percent } from "./format.js";

export const host = {
  id: "host", title: "Host and limits", from: "host", size: "half",
  render(d) {
    const c = d.cpu, m = d.memory, g = d.cgroup ?? {};
    const bandwidth = Object.entries(d.read_bandwidth_bytes_per_second ?? {}).map(([n, rate]) => `${byteRate(rate)} with ${n} thread${n === "1" ? "" : "s"}`);
    return [
      h("p", { class: "lead" }, c.model || "a CPU whose name is unknown"),
      facts(
        ["cores", `${count(c.usable_cores)} usable of ${count(c.logical_cores)} logical, ${count(c.physical_cores)} physical; ${count(c.numa_nodes)} NUMA node${c.numa_nodes === 1 ? "" : "s"}`],
        ["CPU quota", g.quota_cpus > 0 ? badge("warn", `${digits(g.quota_cpus)} CPUs by its cgroup`) : "none"],
        ["memory", `${bytes(m.available_bytes)} available of ${bytes(m.limit_bytes)}` + (m.limit_bytes < m.total_bytes ? ` (limit; ${bytes(m.total_bytes)} in the machine)` : "")],
        ["caches", `L1d ${cacheBytes(c.l1d_bytes)}, L2 ${cacheBytes(c.l2_bytes)}, L3 ${cacheBytes(c.l3_bytes)}`],
        ["load", `${percent(d.load.cpu_utilization)} of the CPUs wanted over the last minute, ${percent(d.load.memory_utilization)} of the memory used`],
        ["read bandwidth", bandwidth.join(", ")],
        ["GPUs", gpus(d)],
        ["governor", d.governor || "unknown"],
        ["huge pages", d.huge_pages || "unknown"],
        ["virtualization", d.virtualization || "unknown"],
      ),
      h("details", {}, h("summary", {}, "Instruction sets, fingerprint" + (d.warnings?.length ? `, ${d.warnings.length} note${d.warnings.length === 1 ? "" : "s"}` : "")),
        facts(["instruction sets", [c.features].flat().join(" ")], ["fingerprint", h("code", {}, d.fingerprint)], ["kernel", d.kernel], ["microcode", d.microcode]),
        (d.warnings ?? []).map((w) => h("p", { class: "note" }, w))),
    ];
  },
};

function gpus(d) {
  if (!d.gpus?.length) return h("span", { class: "soft" }, d.gpu_note || "none");
  return d.gpus.map((g) => h("div", {}, `${g.name}: ${bytes(g.memory_free_bytes)} free of ${bytes(g.memory_total_bytes)}, ${percent(g.utilization ?? 0)} busy`));
}
