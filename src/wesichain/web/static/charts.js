// Charts as SVG: a line over time, and bars in a table.

import { h, svg } from "./dom.js";

const TICKS = new Intl.NumberFormat("en", { notation: "compact" });

// Values over runs, oldest first: a dot each, and their moving average as a line.
export function curve(points, { label, window = 10 }) {
  const [width, height, left, bottom, top] = [460, 200, 44, 24, 12];
  const most = round(Math.max(2, ...points.map((point) => point.value)));
  const x = (index) => left + (points.length < 2 ? 0.5 : index / (points.length - 1)) * (width - left - 12);
  const y = (value) => top + (1 - value / most) * (height - top - bottom);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, class: "curve" });
  for (const share of [0, 0.5, 1]) {
    const value = most * share;
    drawing.append(
      svg("line", { x1: left, x2: width - 8, y1: y(value), y2: y(value), class: "grid" }),
      svg("text", { x: left - 8, y: y(value) + 4, class: "tick" }, TICKS.format(value)));
  }
  const averages = points.map((_, index) => {
    const some = points.slice(Math.max(0, index - window + 1), index + 1);
    return some.reduce((sum, point) => sum + point.value, 0) / some.length;
  });
  points.forEach((point, index) => drawing.append(svg("circle", { cx: x(index), cy: y(point.value), r: points.length > 120 ? 2 : 3.5, class: `dot ${point.kind}` },
    svg("title", null, point.title))));
  const line = averages.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join(" ");
  if (points.length > 1) drawing.append(svg("path", { d: line, class: "average" }));
  drawing.append(svg("text", { x: left, y: height - 4, class: "tick start" }, "older"), svg("text", { x: width - 8, y: height - 4, class: "tick" }, "newer"));
  return h("figure", { class: "chart" }, h("figcaption", null, label), drawing);
}

// The next round number: 1, 2 or 5 times a power of ten.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value);
}

// A bar relative to the widest one, with its failed share.
export function bar(value, failures, most) {
  const ok = h("span", { class: "ok" });
  const bad = h("span", { class: "bad" });
  ok.style.width = `${(100 * (value - failures)) / Math.max(1, most)}%`;
  bad.style.width = `${(100 * failures) / Math.max(1, most)}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, ok, bad);
}
