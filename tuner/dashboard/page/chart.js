// Axes and marks of the plots. One is drawn anew whenever its width changes, so that its text keeps its size.

import { s } from "./dom.js";
import { digits } from "./format.js";

// ticks are some round numbers from low to high.
export function ticks(low, high, wanted = 5) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((f) => f * power >= rough) ?? 10);
  const list = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) list.push(i * step + 0); // + 0: never -0
  return list;
}

// scale maps from low..high to from..to.
export function scale(low, high, from, to) {
  const span = high - low || 1;
  return (v) => from + ((v - low) / span) * (to - from);
}

// plot is a frame with a grid. x and y say low, high and how to write a tick; draw gets the two scales and returns marks.
export function plot({ width, height, x, y, left = 48, bottom = 34, right = 10, top = 24 }, draw) {
  const inner = { left, right: width - right, top, bottom: height - bottom };
  const X = scale(x.low, x.high, inner.left, inner.right), Y = scale(y.low, y.high, inner.bottom, inner.top);
  const across = x.ticks ?? ticks(x.low, x.high, Math.max(2, width / 110));
  const up = y.ticks ?? ticks(y.low, y.high, Math.max(2, height / 50));
  return [
    up.map((v) => s("line", { class: "gridline", x1: inner.left, x2: inner.right, y1: Y(v), y2: Y(v) })),
    up.map((v) => s("text", { class: "tick", x: inner.left - 6, y: Y(v), "text-anchor": "end", "dominant-baseline": "central" }, (y.write ?? digits)(v))),
    across.map((v) => s("text", { class: "tick", x: Math.min(X(v), inner.right - 4), y: inner.bottom + 14, "text-anchor": "middle" }, (x.write ?? digits)(v))),
    x.label && s("text", { class: "tick", x: inner.right, y: height - 4, "text-anchor": "end" }, x.label),
    y.label && s("text", { class: "tick", x: 0, y: 11 }, y.label),
    s("line", { class: "axis", x1: inner.left, x2: inner.right, y1: inner.bottom, y2: inner.bottom }),
    draw(X, Y, inner),
  ];
}

// steps is the path of a value that holds until the next one.
export function steps(points, X, Y) {
  return points.map(([x, y], i) => (i === 0 ? `M${X(x)},${Y(y)}` : `H${X(x)}V${Y(y)}`)).join("");
}

// Shapes differ as well as colours.
const shapes = {
  dot: (x, y) => s("circle", { cx: x, cy: y, r: 3.5 }),
  small: (x, y) => s("circle", { cx: x, cy: y, r: 2 }),
  cross: (x, y) => s("path", { d: `M${x - 3.5},${y - 3.5}l7,7m0,-7l-7,7` }),
  diamond: (x, y) => s("path", { d: `M${x},${y - 5.5}l5.5,5.5l-5.5,5.5l-5.5,-5.5z` }),
  square: (x, y) => s("rect", { x: x - 4, y: y - 4, width: 8, height: 8 }),
  down: (x, y) => s("path", { d: `M${x - 5.5},${y - 4.5}h11l-5.5,10z` }),
};

// mark is a shape with a name that a pointer shows.
export function mark(shape, kind, x, y, title) {
  return s("g", { class: `mark ${kind}` }, title && s("title", {}, title), shapes[shape](x, y));
}

const watcher = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) draw(target, Math.round(contentRect.width));
});
const drawings = new WeakMap();

function draw(figure, width) {
  const d = drawings.get(figure);
  if (!d || width < 50 || d.drawn === width) return;
  d.drawn = width;
  const svg = figure.querySelector("svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${d.height}`);
  svg.replaceChildren(...d.draw(width, d.height).flat(Infinity).filter(Boolean));
}

// show draws a picture into a figure that is in the page, and again when it becomes wider or narrower.
export function show(figure, height, drawer) {
  drawings.set(figure, { height, draw: drawer });
  watcher.observe(figure);
  draw(figure, Math.round(figure.clientWidth));
}
