// One pipeline: what it is, what it is doing, why it is slow, and its history on one axis.
import { ago, api, choose, chosen, clock, confirm, data, h, live, main, ms, number, path, Problem, problem, refresh, show, span, state, table } from "./core.js";
import { draw, together } from "./charts.js";
import { draw as graph } from "./graph.js";

const name = data.pipeline;
const RANGES = ["15m", "1h", "6h", "24h", "7d", "30d"];
const PHASES = ["latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets"];
let range = RANGES.includes(chosen("range")) ? chosen("range") : "15m";
let query = chosen("query") || "";
let isJoined = false;

const head = h("div", {});
const acted = h("div", { id: "acted", role: "status" }); // what became of the last action
const charts = h("div", {});
const rest = h("div", {});
main.replaceChildren(acted, head, h("h2", {}, "History"), h("div", { class: "row", id: "controls" }), h("p", { id: "chart-note", class: "muted small" }), charts, rest);

live(async () => {
  const seen = await api(path("api", "pipelines", name));
  show(head, ...top(seen));
  show(rest, ...below(seen));
  const queries = seen.pipeline.queries.map((q) => q.name).filter((q) => !q.includes(".quarantine"));
  try {
    await history(queries);
  } catch (error) { // the rest of the page needs no store
    if (!(error instanceof Problem) || error.status === 0) throw error;
    show(document.getElementById("chart-note"), problem(error));
  }
});

// ---- the upper part

function top(seen) {
  const one = seen.pipeline;
  return [
    h("div", { class: "row" }, h("h1", {}, one.name), state(one.state), one.edited ? h("span", { class: "state off" }, "edited since deploy") : null,
      h("span", { class: "grow" }), ...actions(seen)),
    h("p", { id: "why" }, one.why, h("br"), h("span", { class: "muted" }, "Next: "), seen.next),
    !seen.supervisor ? h("div", { class: "card busy", role: "alert" }, "No supervisor runs: nothing is watched or restarted. ", h("code", {}, "headrace up")) : null,
    ...findings(seen),
    seen.failure ? failure(seen) : null,
    seen.alerts.length ? h("div", { class: "card bad" }, h("b", {}, `${seen.alerts.length} open alert${seen.alerts.length === 1 ? "" : "s"}: `), seen.alerts.slice(0, 5).map((a) => a.title).join("; "), " ", h("a", { href: "/alerts" }, "all")) : null,
    seen.graph ? graph(seen.graph) : h("p", { class: "muted" }, "A script: its queries are known while they run."),
    ...queries(seen),
  ];
}

/** What is wrong though nothing has failed: problems first, then warnings. */
function findings(seen) {
  const all = [...seen.pipeline.queries.flatMap((q) => q.findings || []), ...(seen.pipeline.findings || [])];
  all.sort((a, b) => (a.severity === "problem" ? 0 : 1) - (b.severity === "problem" ? 0 : 1));
  return all.map((one) => h("div", { class: one.severity === "problem" ? "card bad" : "card busy", "data-finding": one.slug },
    h("b", {}, one.query ? `${one.query}: ` : "", one.what),
    one.cause ? h("p", {}, h("b", {}, "Likely cause: "), one.cause) : null,
    one.where ? h("p", { class: "small" }, "where: ", h("code", {}, one.where)) : null,
    one.fix ? h("p", {}, h("b", {}, "What to do: "), one.fix) : null));
}

function failure(seen) {
  const error = seen.failure.error || {};
  const isNow = ["needs-attention", "waiting"].includes(seen.pipeline.state);
  return h("div", { class: isNow ? "card bad" : "card" },
    h("b", {}, isNow ? "" : "Last failure ", isNow ? "" : ago(seen.failure.at, seen.at), isNow ? "" : ": ", error.what || `The run ended: ${seen.failure.ending}.`),
    error.why ? h("p", {}, error.why) : null,
    error.where ? h("p", { class: "small" }, "where: ", h("code", {}, error.where)) : null,
    error.fix ? h("p", {}, h("b", {}, "What to do: "), error.fix) : null,
    h("a", { href: path("runs", seen.failed_run) }, "The run, its log and its trace"));
}

function queries(seen) {
  const columns = [
    { name: "query", get: (q) => h("b", {}, q.name) },
    { name: "state", get: (q) => state(q.state) },
    { name: "doing now", get: (q) => q.message || "" },
    { name: "in", number: true, get: (q) => `${number(q.input_rate)}/s` },
    { name: "could do", number: true, get: (q) => `${number(q.processing_rate)}/s` },
    { name: "lag", number: true, get: (q) => (q.is_lag_unknown ? "unknown" : q.lag_rows === null ? "–" : number(q.lag_rows)) },
    { name: "fresh p50 / p99", number: true, get: (q) => h("span", { class: q.broken_promise ? "bad" : "", title: q.broken_promise || "" }, `${ms(q.fresh_p50_ms)} / ${ms(q.fresh_p99_ms)}`, q.fresh_within_s ? ` of ${span(q.fresh_within_s)}` : "") },
    { name: "batches", number: true, get: (q) => number(q.batches) },
    { name: "rows in / out", number: true, get: (q) => `${number(q.rows_in)} / ${number(q.rows_out)}` },
    { name: "late", number: true, get: (q) => number(q.late_rows) },
  ];
  return [table(columns, seen.pipeline.queries, "No query runs now."), ...behind(seen), ...slowness(seen)];
}

/** How far behind in a broker's topics, by the relay's last look; also while nothing runs. */
function behind(seen) {
  if (!seen.lag.length) return [];
  const known = (seconds) => (seconds === null ? "–" : span(seconds));
  const parts = (one) => h("details", { id: `parts-${one.query}` }, h("summary", {}, `${one.partitions.length} partitions`),
    table([
      { name: "partition", get: (p) => `${p.topic} ${p.partition}` },
      { name: "next", number: true, get: (p) => number(p.next) },
      { name: "ends at", number: true, get: (p) => number(p.high) },
      { name: "behind", number: true, get: (p) => number(Math.max(0, p.high - Math.max(p.next, p.low))) },
      { name: "oldest waits", number: true, get: (p) => known(p.waits_s) },
    ], one.partitions, ""));
  return [h("h2", {}, "Behind in Kafka"), table([
    { name: "query", get: (one) => h("b", {}, one.query) },
    { name: "records", number: true, get: (one) => (one.records === null ? "unknown" : number(one.records)) },
    { name: "oldest waits", number: true, get: (one) => known(one.seconds) },
    { name: "caught up in", number: true, get: (one) => (one.records ? known(one.catch_up_s) : "–") },
    { name: "lost in", number: true, get: (one) => known(one.loss_in_s) },
    { name: "looked", get: (one) => ago(one.at, seen.at) },
    { name: "", get: (one) => one.problem ? h("span", { class: "bad" }, one.problem) : one.gone ? h("span", { class: "bad" }, `${number(one.gone)} records are gone before they were read`) : [one.note ? `${one.note} ` : "", one.group_problem ? h("span", { class: "bad" }, `its group is not moved: ${one.group_problem} `) : "", parts(one)] },
  ], seen.lag, "")];
}

/** One verdict a query: what takes its time, what would help, and how much. */
function slowness(seen) {
  const all = seen.pipeline.queries.map((q) => [q.name, seen.verdicts[q.name]]).filter(([, one]) => one);
  if (!all.length) return [];
  const isFine = (one) => ["not-slow", "too-new"].includes(one.slug);
  const gain = (one) => (one.gain ? ` Expected gain: ${Math.round(one.gain * 100)} % of a batch.` : "");
  const line = ([name, one]) => h("li", { "data-verdict": one.slug, class: isFine(one) ? "muted" : "" }, h("b", {}, `${name}: `), one.what, one.fix ? ` ${one.fix}` : "", gain(one));
  const slow = all.filter(([, one]) => !isFine(one));
  return [h("h2", {}, "Why is it slow?"), slow.length ? h("ul", { class: "verdicts" }, slow.map(line)) : h("p", { class: "muted" }, "No query is slow."),
    h("details", { id: "fine" }, h("summary", {}, "The other queries"), h("ul", {}, all.filter(([, one]) => isFine(one)).map(line)))];
}

// ---- actions: asked for here, done by the supervisor, followed until done

function actions(seen) {
  if (data.role !== "operate") return [h("span", { class: "muted small" }, "your key lets you look only")];
  const byWanted = {
    running: [button("Restart", "restart"), button("Stop", "stop", true)],
    unknown: [button("Start", "start"), button("Stop", "stop", true)],
  };
  const found = byWanted[seen.deployed?.wanted] ?? [button("Start", "start")];
  if (seen.deployed?.previous.length) found.push(button("Roll back", "rollback", true));
  return seen.deployed ? found : [];
}

const WORDS = {
  start: "It starts with the version that is deployed.",
  stop: "Every query stops at the end of its batch; nothing is lost, and it goes on there when it is started again.",
  restart: "It is drained at a batch boundary, then started again from its checkpoint.",
  rollback: "It is drained, then the version before this one starts. Checkpoints stay.",
};

function button(label, what, danger = false) {
  return h("button", { type: "button", id: `do-${what}`, class: danger ? "danger" : "", onclick: () => act(label, what, danger) }, label);
}

async function act(label, what, danger) {
  if (!(await confirm(`${label} ${name}?`, [WORDS[what], h("p", { class: "muted small" }, `It is written down that ${data.who} asked for it.`)], label, danger))) return;
  const say = (...nodes) => show(document.getElementById("acted"), ...nodes);
  try {
    say(`${label} ${name}: asked…`);
    let told = await api(path("api", "pipelines", name, what), { method: "POST", body: {} });
    for (let n = 0; !told.is_answered && n < 60; n += 1) {
      await new Promise((done) => setTimeout(done, 500));
      told = await api(path("api", "requests", told.request));
    }
    say(told.text || `${label} ${name}: the supervisor has not answered yet.`);
    refresh();
  } catch (error) {
    say(problem(error));
  }
}

// ---- history

const CHARTS = [
  ["rates", "Rows per second: coming in, and what could be done", (l) => [line("in", l, "input_rate"), line("could do", l, "processing_rate", { line: { dash: "dot" } })]],
  ["phases", "Batch duration by phase (ms, mean)", (l) => PHASES.map((p) => ({ name: p, x: l.at, y: l[p], stackgroup: "one", mode: "lines", line: { width: 0.5 } }))],
  ["rows", "Rows per batch", (l) => [line("rows per batch", l, "rows_per_batch")]],
  ["fresh", "Freshness (s)", (l) => [line("p50", l, "fresh_p50_ms", {}, 1000), line("p99", l, "fresh_p99_ms", { line: { dash: "dot" } }, 1000)]],
  ["state", "State rows", (l) => [line("rows", l, "state_rows")], (l) => l.state_rows.some((v) => v !== null)],
  ["memory", "State memory", (l) => [line("bytes", l, "state_bytes")], (l) => l.state_bytes.some((v) => v !== null)],
  ["watermark", "Watermark behind the clock (s)", (l) => [line("behind", l, "watermark_behind_s")], (l) => l.watermark_behind_s.some((v) => v !== null)],
  ["late", "Rows dropped by the watermark", (l) => [{ name: "late", x: l.at, y: l.late_rows, type: "bar" }], (l) => l.late_rows.some((v) => v)],
];

const line = (label, l, key, more = {}, by = 1) => ({ name: label, x: l.at, y: l[key].map((v) => (v === null ? null : v / by)), mode: "lines", ...more });

async function history(names) {
  const found = await api(`${path("api", "pipelines", name, "history")}?range=${range}`);
  const known = [...new Set([...names, ...Object.keys(found.queries).filter((q) => !q.includes(".quarantine"))])];
  if (!known.includes(query)) query = known.find((q) => found.queries[q]) || known[0] || "";
  controls(known);
  const lines = found.queries[query];
  const note = document.getElementById("chart-note");
  if (!lines || !lines.at.length) {
    note.textContent = known.length ? `No batch of ${query} in this time.` : "No data yet: it has not run.";
    charts.replaceChildren();
    isJoined = false;
    return;
  }
  note.textContent = `${query}: ${lines.batches.reduce((a, b) => a + (b || 0), 0).toLocaleString("en")} batches, one point every ${span(found.step_s)}. Lines across: starts, ends, deploys, alerts.`;
  const moments = (at) => at.map((one) => new Date(one * 1000));
  const seen = { ...lines, at: moments(lines.at) };
  const wanted = CHARTS.filter(([, , , isThere]) => !isThere || isThere(lines));
  if (charts.dataset.kinds !== wanted.map(([id]) => id).join()) {
    charts.dataset.kinds = wanted.map(([id]) => id).join();
    charts.replaceChildren(h("div", { class: "grid" }, wanted.map(([id, title]) => h("div", { class: "card" }, h("h3", { class: "chart-title" }, title), h("div", { class: "chart", id: `chart-${id}`, role: "img", "aria-label": `${title}, ${query}` })))));
    isJoined = false;
  }
  const marks = found.marks.map((mark) => ({ type: "line", xref: "x", yref: "paper", x0: new Date(mark.at * 1000), x1: new Date(mark.at * 1000), y0: 0, y1: 1, line: { color: colourOf(mark.kind), width: 1, dash: "dot" } }));
  const whole = [new Date(found.since * 1000), new Date(found.until * 1000)];
  const places = [];
  for (const [id, , make] of wanted) {
    const place = document.getElementById(`chart-${id}`);
    places.push(place);
    await draw(place, make(seen), { shapes: marks, uirevision: `${query} ${range}`, xaxis: { type: "date", range: whole } });
  }
  if (!isJoined) { together(places); isJoined = true; }
  marked(found.marks);
}

const colourOf = (kind) => (kind.includes("ended") || kind.includes("alert_opened") || kind === "killed" || kind === "gave_up" ? "#cf3f55" : kind.includes("deploy") || kind.includes("rollback") ? "#8457d6" : "#7a8794");

function marked(marks) {
  let place = document.getElementById("marks-list");
  if (!place) { place = h("details", { id: "marks-list" }, h("summary", {}, "What happened in this time"), h("div", {})); charts.after(place); }
  show(place.lastElementChild, table([
    { name: "when", get: (m) => clock(m.at) }, { name: "what", get: (m) => m.kind.replaceAll("_", " ") }, { name: "", get: (m) => m.text },
    { name: "run", get: (m) => (m.run ? h("a", { href: path("runs", m.run) }, "look") : "") }], [...marks].reverse().slice(0, 100), "Nothing but its work."));
}

function controls(names) {
  const set = (key, value) => { choose(key, value); charts.dataset.kinds = ""; refresh(); };
  show(document.getElementById("controls"),
    h("label", { for: "query" }, "Query"),
    h("select", { id: "query", onchange: (e) => { query = e.target.value; set("query", query); } }, names.map((q) => h("option", { value: q, selected: q === query }, q))),
    h("span", { class: "row", role: "group", "aria-label": "Range" }, RANGES.map((one) => h("button", { type: "button", class: "quiet", id: `range-${one}`, "aria-pressed": String(one === range), onclick: () => { range = one; set("range", one); } }, one))));
}

// ---- the lower part

function below(seen) {
  const one = seen.pipeline;
  return [
    h("h2", {}, "Runs"),
    table([
      { name: "run", get: (r) => h("a", { href: path("runs", r.run) }, r.run) },
      { name: "started", get: (r) => ago(r.started_at, seen.at) },
      { name: "lived", get: (r) => (r.ended_at ? span(r.ended_at - r.started_at) : "runs now") },
      { name: "ended", get: (r) => r.ending || "" },
      { name: "why", get: (r) => r.exit?.error?.what || "" },
      { name: "version", get: (r) => h("code", {}, r.version.slice(0, 8)) },
      { name: "attempt", number: true, get: (r) => r.attempt },
    ], seen.runs, "It has not run yet."),
    h("h2", {}, "Versions"),
    table([
      { name: "version", get: (v) => h("code", {}, v.version.slice(0, 12)) },
      { name: "made", get: (v) => ago(v.at, seen.at) },
      { name: "", get: (v) => (v.current.includes(one.name) ? "runs, or should" : v.earlier.includes(one.name) ? "earlier" : "") },
    ], [...seen.versions].reverse(), "None is kept."),
    seen.deployed ? h("p", { class: "muted small" }, `Deployed by ${seen.deployed.by || "somebody"} `, ago(seen.deployed.at, seen.at), `, profile ${seen.deployed.profile}, file ${seen.deployed.file}.`,
      one.cpu_s_per_million_rows ? ` ${number(one.cpu_s_per_million_rows)} CPU seconds per million rows.` : "", one.pid ? ` Process ${one.pid}, JVM ${one.jvm_pid}.` : "") : null,
  ];
}

document.addEventListener("theme", () => { charts.dataset.kinds = ""; refresh(); });

