// Checkpoints: the last committed and planned batch of each query, size, problems.
import { api, bytes, h, live, main, message, number, path, show, table } from "./core.js";

let nextAt = 0;
live(async () => {
  if (Date.now() < nextAt) return; // at most every five seconds: it reads the disk
  nextAt = Date.now() + 5000;
  const seen = await api("/api/checkpoints");
  show(main, h("h1", {}, "Checkpoints"),
    h("p", { class: "muted" }, "The position of each query: its last committed batch and its planned batch."),
    table([
      { name: "query", get: (c) => [h("a", { href: path("pipelines", c.pipeline) }, c.pipeline), ` / ${c.query}`] },
      { name: "committed", number: true, get: (c) => (c.last_commit ?? "–") },
      { name: "planned", number: true, get: (c) => (c.planned ?? "–") },
      { name: "batches stored", number: true, get: (c) => number(c.batches) },
      { name: "size", number: true, get: (c) => bytes(c.bytes) },
      { name: "files", number: true, get: (c) => number(c.files) },
      { name: "stateful operators", number: true, get: (c) => (c.operators || "") },
      { name: "status", get: (c) => status(c) },
      { name: "path", get: (c) => h("code", { title: c.path }, c.place || "") },
      { name: "offsets", get: (c) => (c.last_offsets ? h("details", { id: `offsets-${c.pipeline}-${c.query}` }, h("summary", {}, "show"), h("pre", {}, c.last_offsets)) : "") },
    ], seen.checkpoints, "No deployed query has a checkpoint."));
});

function status(c) {
  if (c.note) return h("span", { class: "muted" }, c.note);
  if (!c.exists) return h("span", { class: "muted" }, "not started");
  if (!c.problems.length) return h("span", { class: "state good" }, "healthy");
  return c.problems.map((one) => h("div", {}, h("span", { class: "state bad" }, one.slug), " ", message(one.text), " ", h("b", {}, message(one.fix))));
}
