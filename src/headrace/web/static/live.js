// Live tables: the list, or one as a chart and rows that update by themselves.
import { ago, api, cell, choose, chosen, data, h, live, main, number, path, refresh, show, table, withProof } from "./core.js";
import { chart } from "./charts.js";

const KINDS = ["line", "bar", "area", "number", "table"];
const ROWS_SHOWN = 200;
let kind = chosen("chart");

if (data.table) showTable();
else showList();

function showList() {
  live(async () => {
    const seen = await api("/api/live");
    show(main, h("h1", {}, "Live results"), seen.tables.length
      ? table([
        { name: "table", get: (t) => h("a", { href: path("live", `${t.pipeline}.${t.name}`) }, t.name) },
        { name: "pipeline", get: (t) => h("a", { href: path("pipelines", t.pipeline) }, t.pipeline) },
        { name: "key", get: (t) => t.key.join(", ") },
        { name: "chart", get: (t) => t.chart || "table" },
        { name: "API", get: (t) => h("code", {}, `GET /api/live/${t.name}${t.key.map((k) => `/{${k}}`).join("")}`) },
      ], seen.tables)
      : h("p", {}, "No live tables. A query with ", h("code", {}, "to=hr.live(key=…, chart=…, x=…, y=…)"), " creates one."));
  });
}

function showTable() {
  const name = data.table;
  const place = h("div", { class: "chart tall", id: "chart", role: "img", "aria-label": `chart of ${name}` });
  const head = h("div", {});
  const note = h("p", { id: "chart-note", class: "muted" });
  const rows = h("div", {});
  main.replaceChildren(head, place, note, h("h2", {}, "Rows"), rows);
  live(async () => {
    const seen = await api(path("api", "live", name));
    const objects = seen.rows.map((row) => Object.fromEntries(seen.columns.map((c, n) => [c.name, row[n]])));
    kind ||= seen.chart || "table";
    show(head, ...top(seen));
    await drawTable(seen, objects, place, note);
    const numeric = (c) => /INT|DOUBLE|FLOAT|DECIMAL|LONG/i.test(c.type);
    show(rows, table(seen.columns.map((c, n) => ({ name: c.name, number: numeric(c), get: (row) => cell(row[n]) })), [...seen.rows].reverse().slice(0, ROWS_SHOWN), "No rows yet: the query has not committed a batch."),
      seen.rows.length > ROWS_SHOWN || seen.is_cut ? h("p", { class: "muted small" }, `Showing the latest ${ROWS_SHOWN} of ${seen.is_cut ? "more than " : ""}${number(seen.rows.length)} rows.`) : null);
  });
}

function top(seen) {
  const link = (form) => h("a", { class: "button quiet", href: withProof(`${path("api", "live", `${seen.pipeline}.${seen.name}`)}?as=${form}`), download: "" }, form.toUpperCase());
  const asOf = seen.tables[0]?.as_of;
  return [
    h("p", { class: "small" }, h("a", { href: "/live" }, "← all live results")),
    h("div", { class: "row" }, h("h1", {}, seen.name), h("span", { class: "muted" }, "of ", h("a", { href: path("pipelines", seen.pipeline) }, seen.pipeline)), h("span", { class: "grow" }),
      h("span", { class: "row", role: "group", "aria-label": "Chart" }, KINDS.map((k) => h("button", { type: "button", class: "quiet", id: `as-${k}`, "aria-pressed": String(k === kind), onclick: () => chooseKind(k) }, k))),
      link("csv"), link("parquet")),
    h("p", { class: "muted" }, asOf ? ["as of ", ago(Date.parse(asOf) / 1000, seen.at), seen.tables[0].batch !== null ? `, batch ${seen.tables[0].batch}` : ""] : "no data yet"),
    seen.key.length ? h("p", { class: "small muted" }, "For programs: ", h("code", {}, `GET /api/live/${seen.pipeline}.${seen.name}${seen.key.map((k) => `/{${k}}`).join("")}`)) : null,
  ];
}

function chooseKind(next) {
  kind = next;
  choose("chart", next);
  refresh();
}

async function drawTable(seen, objects, place, note) {
  const names = seen.columns.map((c) => c.name);
  const x = seen.x || names[0];
  const ys = seen.y.length ? seen.y : names.filter((n) => n !== x && objects.some((o) => typeof o[n] === "number")).slice(0, 3);
  const isDrawn = ["line", "bar", "area"].includes(kind);
  place.hidden = !isDrawn;
  note.textContent = "";
  if (kind === "number") {
    const last = objects.at(-1);
    note.replaceChildren(...ys.map((y) => h("span", { class: "tile" }, h("span", { class: "muted" }, y), h("b", {}, last ? number(Number(last[y])) : "–"), h("span", { class: "small muted" }, last ? cell(last[x]) : "", last && last[x] === seen.current_window ? " so far" : ""))));
  } else if (isDrawn && objects.length) {
    note.textContent = await chart(place, kind, objects, x, ys, seen.current_window);
    place.hidden = Boolean(note.textContent);
    if (!note.textContent && seen.current_window) note.textContent = `${kind === "bar" ? "Pale bar" : "Hollow point"}: the window at ${cell(seen.current_window)} has not ended yet.`;
  } else if (isDrawn) place.hidden = true;
}

document.addEventListener("theme", () => import("./core.js").then((core) => core.refresh()));
