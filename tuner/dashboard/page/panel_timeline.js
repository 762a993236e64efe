// What was decided, checked, pinned and taken back, over time.

import { h, s } from "./dom.js";
import { badge, empty, regimeName, table, verdict, versus, when } from "./parts.js";
import { digits, exact, times } from "./format.js";
import { mark, plot, show, scale } from "./chart.js";

const kinds = {
  tune: ["info", "tuned", "diamond"],
  compare: ["info", "compared", "diamond"],
  publish: ["good", "came from the fleet", "square"],
  check: ["still", "checked", "dot"],
  pin: ["pin", "pinned", "down"],
  unpin: ["pin", "unpinned", "down"],
  rollback: ["bad", "rolled back", "cross"],
};

const kindOf = (e) => kinds[e.kind] ?? ["info", e.kind, "dot"];

export const timeline = {
  id: "timeline", title: "History", from: "timeline", size: "full",
  render(d) {
    const list = d.entries;
    if (list.length === 0) return empty("Nothing happened yet: tunes, checks, pins and rollbacks will stand here.");
    const checks = list.filter((e) => e.kind === "check");
    return [
      h("figure", { class: "plot", "data-key": "plot" }, s("svg", { role: "img", "aria-label": `${list.length} entries, ${checks.length} of them checks` + (checks[0] ? `, the last ${times(checks[0].ratio?.estimate ?? 0)} the default` : "") })),
      h("p", { class: "legend" }, h("span", { class: "key" }, "check, with its interval"), h("span", { class: "key diamond" }, "tune"), h("span", { class: "key square" }, "from the fleet"),
        h("span", { class: "key down" }, "pin, unpin"), h("span", { class: "key cross" }, "rollback"), h("span", { class: "key drift" }, "drift statistic, with its limit")),
      table("History, newest first", [["when"], ["what"], ["against the default"], ["drift", "number"], ["why"]], h("tbody", {}, list.slice(0, 200).map(entry)), "stack long"),
    ];
  },
  after(element, d) {
    const figure = element.querySelector("figure");
    if (figure) show(figure, 260, (width, height) => picture(d.entries.toReversed(), width, height));
  },
};

function entry(e) {
  const [kind, text] = kindOf(e);
  return h("tr", { "data-key": `${e.at} ${e.kind} ${e.regime ?? ""} ${e.run ?? ""}` },
    h("th", { scope: "row" }, when(e.at)),
    h("td", { class: "text" }, badge(kind, text), e.verdict && verdict(e.verdict), e.regime && ` ${regimeName(e.regime)}`, e.objective && ` ${e.objective}`, e.serving && badge("good", "serves")),
    h("td", {}, e.ratio?.estimate > 0 ? versus(e.ratio) : null),
    h("td", { class: "number", "data-label": e.drift_limit > 0 ? "drift" : null }, e.drift_limit > 0 ? `${digits(e.drift ?? 0, 2)} of ${digits(e.drift_limit, 2)}` : ""),
    h("td", { class: "text" }, [e.by && `by ${e.by}`, e.why].filter(Boolean).join(": ")));
}

// picture is the ratio over time, and below it the drift statistic. oldest first.
function picture(list, width, height) {
  const at = (e) => Date.parse(e.at);
  const rated = list.filter((e) => e.ratio?.estimate > 0), drifts = list.filter((e) => e.drift_limit > 0);
  const first = at(list[0]), last = Math.max(at(list.at(-1)), first + 60000), room = (last - first) * 0.02, step = stepOf(last - first, width);
  const x = { low: first - room, high: last + room, ticks: dates(first, last, step), write: (t) => dated(t, last - first, step) };
  const values = rated.flatMap((e) => [e.ratio.estimate, e.ratio.low, e.ratio.high]).filter((v) => v > 0 && v < 1e3);
  const span = Math.max(1.02, ...values) - Math.min(0.98, ...values);
  const y = { low: Math.min(0.98, ...values) - 0.05 * span, high: Math.max(1.02, ...values) + 0.05 * span, label: "times the default, not from 0", write: (v) => `${digits(v)}×` };
  const lower = drifts.length > 0 ? 56 : 0;
  return plot({ width, height, x, y, bottom: 34 + lower, top: 38 }, (X, Y, inner) => [
    s("line", { class: "one", x1: inner.left, x2: inner.right, y1: Y(1), y2: Y(1) }),
    list.filter((e) => ["pin", "unpin", "rollback"].includes(e.kind)).map((e) => s("line", { class: `event ${e.kind}`, x1: X(at(e)), x2: X(at(e)), y1: inner.top, y2: inner.bottom })),
    rated.filter((e) => e.ratio.low > 0).map((e) => s("line", { class: "interval", x1: X(at(e)), x2: X(at(e)), y1: Y(Math.max(y.low, e.ratio.low)), y2: Y(Math.min(y.high, e.ratio.high)) })),
    list.map((e) => mark(kindOf(e)[2], `${e.kind} ${kindOf(e)[0]}`, X(at(e)), e.ratio?.estimate > 0 && e.kind !== "rollback" ? Y(e.ratio.estimate) : inner.top - 6, `${exact(e.at)}: ${kindOf(e)[1]}${e.ratio?.estimate > 0 ? " " + times(e.ratio.estimate) : ""}`)),
    lower > 0 && drift(drifts, X, at, inner, height, lower),
  ]);
}

function drift(list, X, at, inner, height, lower) {
  const limit = list.at(-1).drift_limit;
  const bottom = height - 4, top = bottom - lower + 16;
  const Y = scale(0, Math.max(limit * 1.15, ...list.map((e) => e.drift ?? 0)), bottom, top);
  return [
    s("line", { class: "axis", x1: inner.left, x2: inner.right, y1: bottom, y2: bottom }),
    s("line", { class: "limit", x1: inner.left, x2: inner.right, y1: Y(limit), y2: Y(limit) }),
    s("text", { class: "tick", x: inner.left - 6, y: Y(limit), "text-anchor": "end", "dominant-baseline": "central" }, digits(limit)),
    s("text", { class: "tick", x: inner.left - 6, y: bottom - 3, "text-anchor": "end" }, "drift"),
    list.map((e) => s("line", { class: `stalk ${e.drift > limit ? "bad" : ""}`, x1: X(at(e)), x2: X(at(e)), y1: bottom, y2: Y(e.drift ?? 0) })),
  ];
}

// stepOf is a round distance of the times that are written below a picture.
function stepOf(span, width) {
  const wanted = Math.max(2, Math.floor(width / 130));
  return [1, 5, 15, 60, 180, 720, 1440, 10080, 43200].map((minutes) => minutes * 60000).find((ms) => span / ms <= wanted) ?? 365 * 86400000;
}

function dates(first, last, step) {
  const zone = new Date(first).getTimezoneOffset() * 60000, list = [];
  for (let t = Math.ceil((first - zone) / step) * step + zone; t <= last; t += step) list.push(t);
  return list;
}

function dated(time, span, step) {
  const day = { day: "numeric", month: "short" }, hour = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const format = step >= 86400000 ? day : span > 86400000 ? { ...day, ...hour } : hour;
  return new Date(time).toLocaleString("en", format);
}
