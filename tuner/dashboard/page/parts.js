// Pieces that several panels show.

import { h, s } from "./dom.js";
import { exact, interval, known, relative, times, words } from "./format.js";

// when is a time as its distance from now, with the exact one at hand.
export function when(time) {
  if (!known(time)) return h("span", { class: "soft" }, "never");
  return h("time", { datetime: time, title: exact(time), "data-relative": true }, relative(time));
}

// tick brings every relative time up to date.
export function tick() {
  for (const t of document.querySelectorAll("time[data-relative]")) {
    const text = relative(t.dateTime);
    if (t.textContent !== text) t.textContent = text;
  }
}

// signs are shapes, so that colour is never the only sign.
const signs = {
  good: "M3 8.5l3.2 3.2L13 5",
  warn: "M8 3v6M8 12v.5",
  bad: "M4 4l8 8M12 4l-8 8",
  info: "M8 7v6M8 4v.5",
  pin: "M5 2.5h6M6 2.5v4.5l-2 2.5h8l-2-2.5v-4.5M8 9.5v4.5",
  still: "M3 8h10",
};

function sign(kind) {
  return s("svg", { class: `sign ${kind}`, viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: signs[kind] }));
}

export const badge = (kind, text, title) => h("span", { class: `badge ${kind}`, title }, sign(kind), text);

const verdicts = {
  ADOPT: ["good", "adopted", "proven faster than the default"],
  KEEP_DEFAULT: ["still", "default kept", "a gain of 1 % over the default is ruled out"],
  INCONCLUSIVE: ["warn", "inconclusive", "neither proven faster nor ruled out; nothing is changed"],
  CONFIRMED: ["good", "confirmed", "right, and no slower than the default"],
  PROPOSED: ["still", "proposed", "not measured here"],
  FAILED: ["bad", "failed", "wrong, or proven slower than the default"],
};

export function verdict(name) {
  const [kind, text, title] = verdicts[name] ?? ["still", name ? words(name).toLowerCase() : "none yet", null];
  return badge(kind, text, title);
}

const sources = {
  pinned: ["pin", "pinned", "an operator said so"],
  measured: ["good", "measured here", "proven on this host under these limits"],
  derived: ["info", "derived", "proven on this host, re-bounded to other limits"],
  near_host: ["info", "from a near host", "proven on a host like this one"],
  heuristic: ["still", "from facts alone", "nothing was measured for it"],
};

export function source(name) {
  return badge(...(sources[name] ?? ["still", words(name)]));
}

// versus is a ratio to the default with its interval, as figures and as a mark on a scale whose middle is 1.
export function versus(ratio, span = 0.1) {
  if (!ratio || !(ratio.estimate > 0)) return h("span", { class: "soft" }, "not measured");
  return h("span", { class: "versus" }, h("span", { class: "figure" }, times(ratio.estimate)), " ", whisker(ratio, span), " ", h("span", { class: "soft" }, interval(ratio)));
}

// whisker is drawn on a logarithmic scale: twice as fast is as far from 1 as half as fast.
function whisker(ratio, span) {
  const reach = Math.max(span, ...[ratio.low, ratio.estimate, ratio.high].filter((v) => v > 0).map((v) => Math.abs(Math.log(v)) * 1.15));
  const X = (v) => 60 + (56 * Math.log(v)) / reach;
  return s("svg", { class: `whisker ${side(ratio)}`, viewBox: "0 0 120 16", "aria-hidden": "true" },
    s("line", { class: "one", x1: 60, x2: 60, y1: 1, y2: 15 }),
    s("line", { class: "track", x1: 2, x2: 118, y1: 8, y2: 8 }),
    ratio.low > 0 && s("line", { class: "span", x1: X(ratio.low), x2: X(ratio.high), y1: 8, y2: 8 }),
    s("circle", { cx: X(ratio.estimate), cy: 8, r: 4 }));
}

// side is where the whole interval lies.
function side(ratio) {
  if (ratio.low > 1) return "good";
  return ratio.high > 0 && ratio.high < 1 ? "bad" : "still";
}

// facts is a list of names with values; a value of null is left out.
export function facts(...pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// bar is a share of a whole as a length, with words that say the same. A line stands at limit, where that is not the end.
export function bar(share, text, kind = "", limit = 1) {
  const within = (v) => Math.min(1, Math.max(0, v)).toFixed(4);
  return h("div", { class: `bar ${kind}`, role: "img", "aria-label": text, vars: { "--share": within(share), "--limit": within(limit) } }, h("span"), limit < 1 && h("i"));
}

export const empty = (text) => h("p", { class: "empty" }, text);

// table has a caption for those who cannot see what it belongs to. A column is [name, class]. On a narrow window the rows of one
// that stacks become paragraphs.
export function table(caption, columns, bodies, kind = "stack") {
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    h("table", { class: kind }, h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map(([name, side]) => h("th", { scope: "col", class: side }, name)))),
      bodies));
}

// choice is a row of radio buttons that look like one switch. The page keeps what is chosen under its name.
export function choice(name, legend, options, chosen) {
  return h("fieldset", { class: "choice" }, h("legend", { class: "hidden" }, legend),
    options.map(([value, text]) => h("label", { "data-key": value }, h("input", { type: "radio", name, value, checked: value === chosen }), h("span", {}, text))));
}

const regimeNames = { decode: "decode", small_batch: "batch of 8", prefill: "prefill" };

// on is a regime on a target: what can be compared with each other. The CPU goes without saying.
export const on = (regime, target) => (target && target !== "cpu" ? `${regime} on ${target}` : regime);

// inOrder are the names without repetition, in the order in which regimes are tuned, others after them.
export function inOrder(names) {
  const rank = (r) => Object.keys(regimeNames).findIndex((name) => r.startsWith(name)) + (r.includes(" on ") ? 10 : 0);
  return [...new Set(names)].sort((a, b) => rank(a) - rank(b));
}

export function regimeName(r) {
  const [name, ...target] = r.split(" on ");
  return [regimeNames[name] ?? words(name), ...target].join(" on ");
}

// setting is how an arm is run, in short: "4x1, 2 threads, prefetch 8192".
export function setting(a) {
  const b = a.blocking ?? {};
  return [
    b.tile && b.tile !== "0x0" && b.tile.replace("x", "×"),
    a.threads > 0 && `${a.threads} thread${a.threads === 1 ? "" : "s"}`,
    a.batch > 1 && `batch ${a.batch}`,
    b.prefetch_bytes > 0 && `prefetch ${b.prefetch_bytes} B`,
    b.chunk_rows > 0 && `chunks of ${b.chunk_rows} rows`,
    a.launch?.split_k > 1 && `split K ${a.launch.split_k}`,
    a.launch?.max_registers > 0 && `at most ${a.launch.max_registers} registers`,
  ].filter(Boolean).join(", ");
}
