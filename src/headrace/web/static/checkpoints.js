// Checkpoints: which batch each query has committed, what it has planned, its size, its problems.
import { api, bytes, h, live, main, number, path, show, table } from "./core.js";

let isDue = 0;
live(async () => {
  if (Date.now() < isDue) return; // read from disk: not more often than every five seconds
  isDue = Date.now() + 5000;
  const seen = await api("/api/checkpoints");
  show(main, h("h1", {}, "Checkpoints"),
    h("p", { class: "muted" }, "Where each query goes on: the batches it has committed, and what it has planned for the next."),
    table([
      { name: "query", get: (c) => [h("a", { href: path("pipelines", c.pipeline) }, c.pipeline), ` / ${c.query}`] },
      { name: "committed", number: true, get: (c) => (c.last_commit ?? "–") },
      { name: "planned", number: true, get: (c) => (c.planned ?? "–") },
      { name: "kept batches", number: true, get: (c) => number(c.batches) },
      { name: "size", number: true, get: (c) => bytes(c.bytes) },
      { name: "files", number: true, get: (c) => number(c.files) },
      { name: "stateful parts", number: true, get: (c) => (c.operators || "") },
      { name: "how it is", get: (c) => health(c) },
      { name: "where", get: (c) => h("code", { title: c.path }, c.place || "") },
      { name: "offsets", get: (c) => (c.last_offsets ? h("details", { id: `offsets-${c.pipeline}-${c.query}` }, h("summary", {}, "show"), h("pre", {}, c.last_offsets)) : "") },
    ], seen.checkpoints, "No deployed query has one."));
});

function health(c) {
  if (c.note) return h("span", { class: "muted" }, c.note);
  if (!c.exists) return h("span", { class: "muted" }, "not begun");
  if (!c.problems.length) return h("span", { class: "state good" }, "whole");
  return c.problems.map((one) => h("div", {}, h("span", { class: "state bad" }, one.slug), ` ${one.text} `, h("b", {}, one.fix)));
}
