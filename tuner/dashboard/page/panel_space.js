// The space that was searched: settings down, threads and batches across, how fast each was in the cells.

import { h } from "./dom.js";
import { choice, empty, inOrder, on, regimeName, table } from "./parts.js";
import { count, times, tokens, words } from "./format.js";

const shown = 14; // rows, until all are asked for

export const space = {
  id: "space", title: "Space", from: "space", size: "half",
  render(d, { chosen }) {
    const measured = d.regimes.filter((r) => r.cells.length > 0);
    if (measured.length === 0) return empty("Nothing measured yet: every setting that is tried will have its cell here.");
    const names = inOrder(measured.map((r) => on(r.regime, r.target))), name = chosen("space-regime", names);
    const { cells, reference } = measured.find((r) => on(r.regime, r.target) === name);
    const rows = grouped(cells), columns = across(cells);
    const low = Math.min(...cells.filter((c) => c.ratio > 0).map((c) => c.ratio)), high = Math.max(...cells.map((c) => c.ratio));
    const all = chosen("space-all", ["few", "all"]) === "all";
    return [
      h("div", { class: "choices" }, choice("space-regime", "Regime", names.map((r) => [r, regimeName(r)]), name),
        rows.length > shown && choice("space-all", "Rows", [["few", `best ${shown}`], ["all", `all ${rows.length}`]], all ? "all" : "few")),
      table(`Times the ${reference}, ${regimeName(name)}: settings by threads`, [["kernel and blocking"], ...columns.map((c) => [c.title, "number"])],
        h("tbody", {}, rows.slice(0, all ? rows.length : shown).map((r) => h("tr", { "data-key": r.key },
          h("th", { scope: "row" }, h("code", {}, r.kernel), " ", h("span", { class: "soft" }, r.blocking)),
          columns.map((c) => cell(r.cells.get(c.key), low, high, reference))))), "heat"),
      h("p", { class: "legend" }, h("span", {}, `${times(low)}`), h("span", { class: "ramp", "aria-hidden": "true" }), h("span", {}, `${times(high)} the ${reference}; in brackets: samples; –: not tried`)),
    ];
  },
};

const columnKey = (c) => `${c.threads}/${c.batch}`;

function across(cells) {
  const seen = new Map(cells.map((c) => [columnKey(c), c]));
  const batches = new Set(cells.map((c) => c.batch)).size > 1;
  return [...seen.values()].sort((a, b) => a.threads - b.threads || a.batch - b.batch)
    .map((c) => ({ key: columnKey(c), title: `${c.threads} thread${c.threads === 1 ? "" : "s"}${batches ? `, batch ${c.batch}` : ""}` }));
}

// grouped is a row for every kernel and blocking, the fastest first.
function grouped(cells) {
  const rows = new Map();
  for (const c of cells) {
    const key = `${c.kernel} ${c.blocking}`;
    if (!rows.has(key)) rows.set(key, { key, kernel: c.kernel, blocking: c.blocking, cells: new Map(), best: 0 });
    const r = rows.get(key);
    r.cells.set(columnKey(c), c);
    r.best = Math.max(r.best, c.ratio);
  }
  return [...rows.values()].sort((a, b) => b.best - a.best);
}

function cell(c, low, high, reference) {
  if (!c) return h("td", { class: "number none" }, h("span", { class: "soft" }, "–"));
  if (!(c.ratio > 0)) return h("td", { class: "number failed" }, words(c.status));
  const title = `${times(c.ratio)} the ${reference}, ${tokens(c.tokens_per_second)}, ${count(c.samples)} samples`;
  return h("td", { class: "number cell", title, vars: { "--heat": ((c.ratio - low) / (high - low || 1)).toFixed(3) } }, c.ratio.toFixed(2), " ", h("small", {}, `(${count(c.samples)})`));
}
