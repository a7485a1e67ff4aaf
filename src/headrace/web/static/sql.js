// SQL over committed data: an editor that suggests names, the result as rows or a chart, and a history.
import { api, cell, choose, chosen, h, main, number, problem, show, table, timestamp } from "./core.js";
import { chart } from "./charts.js";

const KEPT = 50;
const editor = h("textarea", { class: "sql", id: "sql", spellcheck: "false", "data-search": "", "aria-label": "SQL query", placeholder: "SELECT …" });
const ask = h("button", { type: "button", id: "ask", onclick: run }, "Run");
const kinds = h("select", { id: "kind", "aria-label": "chart", onchange: () => draw() }, ["table", "line", "bar", "area"].map((k) => h("option", { value: k }, k)));
const answer = h("div", { id: "answer", "aria-live": "polite" });
const names = h("div", {});
const past = h("div", {});
const suggest = h("div", { class: "row small", id: "suggestions" });
let known = [];
let last = null;

main.replaceChildren(h("h1", {}, "SQL"), h("p", { class: "muted" }, "Run short, read-only Spark SQL queries over committed data. A batch is visible only as a whole."),
  editor, suggest, h("div", { class: "row" }, ask, h("span", { class: "muted small" }, h("kbd", {}, "Ctrl"), " + ", h("kbd", {}, "Enter")), kinds), answer,
  h("div", { class: "grid" }, h("div", { class: "card" }, h("h2", {}, "Tables"), names), h("div", { class: "card" }, h("h2", {}, "History"), past)));

editor.value = chosen("q") || "";
editor.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
  if (event.key === "Tab" && suggest.firstElementChild && word()) { event.preventDefault(); take(suggest.firstElementChild.textContent); }
});
editor.addEventListener("input", offer);
remember();
load();

async function load() {
  try {
    const seen = await api("/api/sql");
    known = seen.tables;
    show(names, known.length ? known.map(describe) : h("p", { class: "muted" }, "Nothing is deployed yet. Read files by their path: ", h("code", {}, "SELECT * FROM parquet.`data/metrics`")));
    const isBusy = editor.value || document.activeElement === editor; // never overwrite what the user types
    if (!isBusy && known.length) editor.value = `SELECT * FROM ${known[0].name} LIMIT 20`;
    if (chosen("q")) run();
  } catch (error) { show(names, problem(error)); }
}

function describe(one) {
  return h("details", { id: `table-${one.name}` }, h("summary", {}, one.name, h("span", { class: "muted small" }, ` ${one.kind}${one.written_by ? `, by ${one.written_by}` : ""}`)),
    h("button", { type: "button", class: "quiet small", onclick: () => { editor.value = `SELECT * FROM ${one.name} LIMIT 20`; run(); } }, "show rows"),
    one.schema ? table([{ name: "column", get: (c) => c[0] }, { name: "type", get: (c) => c[1] }], columns(one.schema)) : h("p", { class: "muted small" }, "Columns are not known yet."));
}

/** Name and type of each column of a DDL; commas inside < > and ( ) belong to the type. */
function columns(ddl) {
  const found = [];
  let depth = 0;
  let part = "";
  for (const c of `${ddl},`) {
    if ("<(".includes(c)) depth += 1;
    if (">)".includes(c)) depth -= 1;
    if (c === "," && depth === 0) {
      const match = part.trim().match(/^(`[^`]*`|\S+)\s+(.*)$/s);
      if (match) found.push([match[1].replaceAll("`", ""), match[2]]);
      part = "";
    } else part += c;
  }
  return found;
}

function word() {
  return (editor.value.slice(0, editor.selectionStart).match(/[\w.`]+$/) || [""])[0].toLowerCase();
}

function offer() {
  const typed = word();
  const all = known.flatMap((t) => [t.name, ...(t.schema ? columns(t.schema).map((c) => c[0]) : [])]);
  const fits = typed.length < 2 ? [] : [...new Set(all)].filter((one) => one.toLowerCase().startsWith(typed) && one.toLowerCase() !== typed).slice(0, 8);
  show(suggest, ...fits.map((one) => h("button", { type: "button", class: "quiet small", onclick: () => take(one) }, one)));
}

function take(text) {
  const end = editor.selectionStart;
  const begin = end - word().length;
  editor.setRangeText(text, begin, end, "end");
  editor.focus();
  offer();
}

async function run() {
  const sql = editor.value.trim();
  if (!sql) return;
  ask.disabled = true;
  show(answer, h("p", { class: "muted" }, "running…"));
  try {
    last = await api("/api/sql", { method: "POST", body: { sql, rows: 1000 } });
    remember(sql);
    choose("q", sql);
    await draw();
  } catch (error) {
    last = null;
    show(answer, problem(error));
  }
  ask.disabled = false;
}

async function draw() {
  if (!last) return;
  const numeric = (c) => /INT|DOUBLE|FLOAT|DECIMAL|LONG/i.test(c.type);
  const asOf = last.tables.map((t) => `${t.name} ${t.as_of ? `as of ${timestamp(Date.parse(t.as_of) / 1000)}` : "without committed data"}${t.batch !== null ? ` (batch ${t.batch})` : ""}`).join("; ");
  const foot = h("p", { class: "muted small", id: "as-of" }, `${last.is_cut ? "the first " : ""}${number(last.rows.length)} rows in ${number(last.took_ms)} ms${asOf ? `; ${asOf}` : ""}`);
  if (kinds.value === "table") {
    show(answer, table(last.columns.map((c, n) => ({ name: c.name, number: numeric(c), get: (row) => cell(row[n]) })), last.rows, "No rows."), foot);
    return;
  }
  const place = h("div", { class: "chart tall", role: "img", "aria-label": "chart of the result" });
  const note = h("p", { class: "muted" });
  answer.replaceChildren(place, note, foot);
  const objects = last.rows.map((row) => Object.fromEntries(last.columns.map((c, n) => [`${c.name}`, row[n]])));
  const all = last.columns.map((c) => c.name);
  const ys = last.columns.filter((c, n) => n > 0 && numeric(c)).map((c) => c.name);
  note.textContent = await chart(place, kinds.value, objects, all[0], ys.length ? ys : all.slice(0, 1));
  place.hidden = Boolean(note.textContent);
}

function remember(sql) {
  const all = JSON.parse(localStorage.getItem("asked") || "[]");
  if (sql) {
    all.unshift({ sql, at: Date.now() });
    const seen = new Set();
    localStorage.setItem("asked", JSON.stringify(all.filter((one) => !seen.has(one.sql) && seen.add(one.sql)).slice(0, KEPT)));
  }
  showHistory();
}

function showHistory() {
  const all = JSON.parse(localStorage.getItem("asked") || "[]");
  show(past, all.length ? all.slice(0, 20).map((one) => h("p", { class: "tight" }, h("button", { type: "button", class: "quiet small mono", onclick: () => { editor.value = one.sql; run(); } }, one.sql.length > 120 ? `${one.sql.slice(0, 119)}…` : one.sql))) : h("p", { class: "muted" }, "No queries yet. The query history is stored only in this browser."));
}
document.addEventListener("theme", draw);
