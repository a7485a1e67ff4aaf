// The pipeline drawn: sources on the left, sinks on the right, what flows into what.
import { h, level, number } from "./core.js";

const W = 168;
const H = 46;
const GAP_X = 60;
const GAP_Y = 16;
const SEVERITY = { "needs-attention": 5, stalled: 4, waiting: 3, degraded: 3, "catching-up": 2, starting: 1, stopping: 1, running: 0, finished: 0, stopped: -1 };

export function draw(graph) {
  const columns = place(graph);
  const at = new Map();
  columns.forEach((ids, c) => ids.forEach((id, r) => at.set(id, { x: c * (W + GAP_X) + 4, y: r * (H + GAP_Y) + 4 })));
  const width = columns.length * (W + GAP_X) - GAP_X + 8;
  const height = Math.max(...columns.map((ids) => ids.length)) * (H + GAP_Y) + 8;
  const svg = h("svg:svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words(graph) });
  for (const [from, to] of graph.edges) {
    const a = at.get(from);
    const b = at.get(to);
    if (!a || !b) continue;
    const [x1, y1, x2, y2] = [a.x + W, a.y + H / 2, b.x, b.y + H / 2];
    svg.append(h("svg:path", { d: `M${x1} ${y1} C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}` }));
  }
  for (const node of graph.nodes) {
    const { x, y } = at.get(node.id);
    const kind = node.kind === "query" && node.state ? level(SEVERITY[node.state] ?? 5) : "";
    const name = node.kind === "sink" ? node.connector || "sink" : node.id;
    svg.append(h("svg:g", { class: `node ${node.kind}` },
      h("svg:title", {}, about(node)),
      h("svg:rect", { x, y, width: W, height: H, rx: node.kind === "query" ? 8 : 3, class: kind }),
      h("svg:text", { x: x + 9, y: y + 19 }, cut(name, 22)),
      h("svg:text", { x: x + 9, y: y + 36, class: "sub" }, cut(under(node), 30))));
  }
  return h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "graph of the pipeline" }, svg);
}

/** A column for each node: one more than the last of what flows into it. */
function place(graph) {
  const before = new Map(graph.nodes.map((node) => [node.id, []]));
  for (const [from, to] of graph.edges) before.get(to)?.push(from);
  const depth = new Map();
  const deep = (id, seen) => {
    if (depth.has(id)) return depth.get(id);
    if (seen.has(id)) return 0;
    const found = Math.max(-1, ...(before.get(id) || []).filter((one) => before.has(one)).map((one) => deep(one, new Set([...seen, id])))) + 1;
    depth.set(id, found);
    return found;
  };
  const columns = [];
  for (const node of graph.nodes) (columns[deep(node.id, new Set())] ||= []).push(node.id);
  return columns.map((ids) => ids || []);
}

function under(node) {
  if (node.kind === "query") {
    const rate = node.input_rate === null || node.input_rate === undefined ? "" : ` · ${number(node.input_rate)} rows/s`;
    return `${node.state || "not running"}${rate}`;
  }
  return node.kind === "sink" ? "sink" : [node.kind, node.connector].filter(Boolean).join(" · ");
}

function about(node) {
  return [node.id, node.kind, node.connector, node.place, node.guarantee && `${node.guarantee}: ${node.guarantee_why}`].filter(Boolean).join("\n");
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const words = (graph) => graph.edges.map(([from, to]) => `${from} to ${to}`).join("; ");
