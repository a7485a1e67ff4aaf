// Small charts without axes, as SVG: two lines for rates, bars for a live result.
import { h } from "./core.js";

const WIDTH = 180;
const HEIGHT = 44;

/** points: [[at, in, could], …]; one line for what came in, a dashed one for what could be done. */
export function rates(points, label) {
  const svg = frame(label);
  if (points.length < 2) return svg;
  const most = Math.max(...points.map((p) => p[1]), 1e-9);
  const first = points[0][0];
  const length = Math.max(points.at(-1)[0] - first, 1);
  // What could be done is often many times what comes in: it is cut at twice that.
  const line = (n) => points
    .filter((p) => p[n] !== null)
    .map((p, i) => `${i ? "L" : "M"}${x((p[0] - first) / length)} ${y(Math.min(p[n], 2 * most) / (2 * most))}`)
    .join("");
  svg.append(h("svg:path", { class: "could", d: line(2) }), h("svg:path", { class: "in", d: line(1) }));
  return svg;
}

/** values: numbers; the last ones as bars. */
export function bars(values, label) {
  const svg = frame(label);
  const most = Math.max(...values.map((v) => Math.abs(v)), 1e-9);
  const width = WIDTH / Math.max(values.length, 12);
  values.forEach((value, n) => {
    const height = Math.max(1, (Math.abs(value) / most) * (HEIGHT - 4));
    svg.append(h("svg:rect", { x: n * width + 1, y: HEIGHT - height, width: Math.max(1, width - 2), height }));
  });
  return svg;
}

const x = (share) => (share * (WIDTH - 2) + 1).toFixed(1);
const y = (share) => (HEIGHT - 2 - share * (HEIGHT - 4)).toFixed(1);

function frame(label) {
  return h("svg:svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, preserveAspectRatio: "none" });
}
