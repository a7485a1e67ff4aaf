// Small charts without axes, as SVG: lines for rates, bars for a live table.
import { h } from "./core.js";

const WIDTH = 180;
const HEIGHT = 44;

/**
 * points: [[at, input rate, capacity, is complete], …]; a line for the input, a dashed one for the capacity. The part up
 * to a minute that has not ended is dotted.
 */
export function rates(points, label) {
  const svg = frame(label);
  if (points.length < 2) return svg;
  const most = Math.max(...points.map((p) => p[1]), 1e-9);
  const first = points[0][0];
  const length = Math.max(points.at(-1)[0] - first, 1);
  // The capacity is often many times the input: the chart ends at twice the highest input.
  const line = (list, n) => list
    .filter((p) => p[n] !== null)
    .map((p, i) => `${i ? "L" : "M"}${x((p[0] - first) / length)} ${y(Math.min(p[n], 2 * most) / (2 * most))}`)
    .join("");
  const complete = points.filter((p) => p[3]);
  svg.append(h("svg:path", { class: "capacity", d: line(complete, 2) }), h("svg:path", { class: "in", d: line(complete, 1) }));
  if (complete.length < points.length) svg.append(h("svg:path", { class: "in incomplete", d: line(points.slice(Math.max(0, complete.length - 1)), 1) }));
  return svg;
}

/** values: [{value, isIncomplete}] */
export function bars(values, label) {
  const svg = frame(label);
  const most = Math.max(...values.map((one) => Math.abs(one.value)), 1e-9);
  const width = WIDTH / Math.max(values.length, 12);
  values.forEach((one, n) => {
    const height = Math.max(1, (Math.abs(one.value) / most) * (HEIGHT - 4));
    svg.append(h("svg:rect", { class: one.isIncomplete ? "incomplete" : null, x: n * width + 1, y: HEIGHT - height, width: Math.max(1, width - 2), height }));
  });
  return svg;
}

const x = (share) => (share * (WIDTH - 2) + 1).toFixed(1);
const y = (share) => (HEIGHT - 2 - share * (HEIGHT - 4)).toFixed(1);

function frame(label) {
  return h("svg:svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, preserveAspectRatio: "none" });
}
