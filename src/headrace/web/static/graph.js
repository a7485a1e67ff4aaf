// The graph of a pipeline: sources on the left, sinks in one column on the right, rates on the edges.
import { h, levelOf, number } from "./core.js";

const W = 168;
const H = 46;
const GAP_X = 96;
const GAP_Y = 16;

export function draw(graph) {
  const { columns, chains } = place(graph);
  const at = new Map();
  columns.forEach((ids, c) => ids.forEach((id, r) => at.set(id, { x: c * (W + GAP_X) + 4, y: r * (H + GAP_Y) + 4 })));
  const width = columns.length * (W + GAP_X) - GAP_X + 8;
  const height = Math.max(...columns.map((ids) => ids.length)) * (H + GAP_Y) + 8;
  const svg = h("svg:svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": describe(graph) });
  const labels = [];
  for (const { ids, rate } of chains) {
    const points = ids.map((id) => at.get(id));
    svg.append(h("svg:path", { d: `M${points[0].x + W} ${points[0].y + H / 2}${points.slice(1).map((to, n) => curve(points[n], to, n === points.length - 2)).join("")}` }));
    const [a, b] = points.slice(-2);
    if (rate !== null) labels.push(h("svg:text", { class: "rate", x: b.x - GAP_X / 2, y: (a.y + b.y + H) / 2 - 3 }, `${number(rate)}/s`));
  }
  svg.append(...labels);
  for (const node of graph.nodes) {
    const { x, y } = at.get(node.id);
    const kind = node.kind === "query" && node.state ? levelOf(node.state) : "";
    svg.append(h("svg:g", { class: `node ${node.kind}`, "data-node": node.id },
      h("svg:title", {}, about(node)),
      h("svg:rect", { x, y, width: W, height: H, rx: node.kind === "query" ? 8 : 3, class: kind }),
      h("svg:text", { x: x + 9, y: y + 19 }, cut(node.name || node.id, 22)),
      h("svg:text", { x: x + 9, y: y + 36, class: "sub" }, cut(under(node), 30))));
  }
  return h("div", { class: "graph", tabindex: "0", role: "region", "aria-label": "graph of the pipeline" }, svg);
}

/** A curve through the gap between two columns, and a straight line through the next column if the edge goes further. */
const curve = (from, to, isLast) => {
  const [x1, y1, x2, y2] = [from.x + W, from.y + H / 2, to.x, to.y + H / 2];
  return ` C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}${isLast ? "" : ` L${x2 + W} ${y2}`}`;
};

/**
 * The ids in each column: a node is one column to the right of its last input, and all sinks are in the last column. An edge over several columns
 * has a place in each of them, so that it does not run behind a node. `chains` are the places along each edge.
 */
function place(graph) {
  const inputs = new Map(graph.nodes.map((node) => [node.id, []]));
  const edges = graph.edges.filter(([from, to]) => inputs.has(from) && inputs.has(to));
  for (const [from, to] of edges) inputs.get(to).push(from);
  const columnOf = new Map();
  const find = (id, seen) => {
    if (columnOf.has(id)) return columnOf.get(id);
    if (seen.has(id)) return 0;
    const column = Math.max(-1, ...inputs.get(id).map((one) => find(one, new Set([...seen, id])))) + 1;
    columnOf.set(id, column);
    return column;
  };
  const last = Math.max(0, ...graph.nodes.map((node) => find(node.id, new Set())));
  const columns = Array.from({ length: last + 1 }, () => []);
  for (const node of graph.nodes) {
    if (node.kind === "sink") columnOf.set(node.id, last);
    columns[columnOf.get(node.id)].push(node.id);
  }
  const chains = edges.map(([from, to, rate]) => {
    const between = [];
    for (let c = columnOf.get(from) + 1; c < columnOf.get(to); c += 1) {
      between.push(`${from}\n${to}\n${c}`);
      columns[c].push(between.at(-1));
    }
    return { ids: [from, ...between, to], rate };
  });
  for (let c = 1; c <= last; c += 1) {
    const rowsBefore = (id) => chains.flatMap(({ ids }) => (ids.includes(id) ? [columns[c - 1].indexOf(ids[ids.indexOf(id) - 1])] : [])).filter((row) => row >= 0);
    const height = new Map(columns[c].map((id) => [id, rowsBefore(id).reduce((sum, row, n, all) => sum + row / all.length, 0)]));
    columns[c].sort((a, b) => height.get(a) - height.get(b));
  }
  return { columns, chains };
}

function under(node) {
  if (node.kind === "query") {
    const rate = node.input_rate === null || node.input_rate === undefined ? "" : ` · ${number(node.input_rate)} rows/s`;
    return `${node.state || "not running"}${rate}`;
  }
  return [node.kind, node.connector].filter(Boolean).join(" · ");
}

function about(node) {
  return [node.name || node.id, node.kind, node.connector, node.place, node.guarantee && `${node.guarantee}: ${node.guarantee_why}`].filter(Boolean).join("\n");
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const describe = (graph) => graph.edges.map(([from, to, rate]) => `${from} to ${to}${rate === null ? "" : `, ${number(rate)} rows per second`}`).join("; ");
