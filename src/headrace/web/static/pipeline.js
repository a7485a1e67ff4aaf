// One pipeline: its graph, its queries, why a query is slow, and its history.
import { ago, api, ask, CAPACITY, capacity, choose, chosen, confirm, data, h, live, main, message, ms, number, path, Problem, problem, refresh, show, span, state, table, timestamp } from "./core.js";
import { state as alertState, stateOf } from "./alert_parts.js";
import { COLOURS, date, draw, line, linkZoom, TIME_AXIS } from "./charts.js";
import { draw as graph } from "./graph.js";

const name = data.pipeline;
const RANGES = ["15m", "1h", "6h", "24h", "7d", "30d"];
let range = RANGES.includes(chosen("range")) ? chosen("range") : "15m";
let query = chosen("query") || "";
let isLinked = false;

const head = h("div", {});
const acted = h("div", { id: "acted", role: "status" }); // the result of the last action
const charts = h("div", {});
const rest = h("div", {});
main.replaceChildren(acted, head, h("h2", {}, "History"), h("div", { class: "row", id: "controls" }), h("p", { id: "chart-note", class: "muted small" }), charts, rest);

live(async () => {
  const seen = await api(path("api", "pipelines", name));
  show(head, ...top(seen));
  show(rest, ...bottom(seen));
  const queries = seen.pipeline.queries.map((q) => q.name).filter((q) => !q.includes(".quarantine"));
  try {
    await history(queries);
  } catch (error) { // the rest of the page does not need the store
    if (!(error instanceof Problem) || error.status === 0) throw error;
    show(document.getElementById("chart-note"), problem(error));
  }
});

// ---- status and graph

function top(seen) {
  const one = seen.pipeline;
  return [
    h("div", { class: "row" }, h("h1", {}, one.name), state(one.state), one.edited ? h("span", { class: "state off" }, "edited since it was deployed") : null,
      h("span", { class: "grow" }), ...actions(seen)),
    h("p", { id: "why" }, message(one.why), h("br"), h("span", { class: "muted" }, "Next: "), message(seen.next)),
    !seen.supervisor ? h("div", { class: "card busy", role: "alert" }, "The supervisor is not running: nothing is monitored or restarted. ", h("code", {}, "headrace up")) : null,
    ...findings(seen),
    seen.failure ? failure(seen) : null,
    alerts(seen.alerts),
    seen.graph ? graph(seen.graph) : h("p", { class: "muted" }, "This is a script: its queries are known only while they run."),
    ...queries(seen),
  ];
}

function alerts(found) {
  if (!found.length) return null;
  const isHandled = found.every((a) => stateOf(a) !== "open");
  const item = (a) => h("li", {}, h("a", { href: path("alerts", a.id) }, message(a.title)), stateOf(a) === "open" ? "" : [" ", alertState(a)]);
  return h("div", { class: `card ${isHandled ? "busy" : "bad"}`, id: "open-alerts" }, h("b", {}, `${found.length} open alert${found.length === 1 ? "" : "s"} `),
    h("a", { href: `/alerts?pipeline=${encodeURIComponent(name)}` }, "all"), h("ul", {}, found.slice(0, 5).map(item)));
}

/** Problems that no failure reveals, then warnings. */
function findings(seen) {
  const all = [...seen.pipeline.queries.flatMap((q) => q.findings || []), ...(seen.pipeline.findings || [])];
  all.sort((a, b) => (a.severity === "problem" ? 0 : 1) - (b.severity === "problem" ? 0 : 1));
  return all.map((one) => h("div", { class: one.severity === "problem" ? "card bad" : "card busy", "data-finding": one.slug },
    h("b", {}, one.query ? `${one.query}: ` : "", message(one.what)),
    one.cause ? h("p", {}, h("b", {}, "Likely cause: "), message(one.cause)) : null,
    one.where ? h("p", { class: "small" }, "where: ", h("code", {}, one.where)) : null,
    one.fix ? h("p", {}, h("b", {}, "What to do: "), message(one.fix)) : null));
}

function failure(seen) {
  const error = seen.failure.error || {};
  const isCurrent = ["needs-attention", "waiting"].includes(seen.pipeline.state);
  return h("div", { class: isCurrent ? "card bad" : "card" },
    h("b", {}, isCurrent ? "" : "Last failure ", isCurrent ? "" : ago(seen.failure.at, seen.at), isCurrent ? "" : ": ", message(error.what || `The run ended: ${seen.failure.ending}.`)),
    error.why ? h("p", {}, message(error.why)) : null,
    error.where ? h("p", { class: "small" }, "where: ", h("code", {}, error.where)) : null,
    error.fix ? h("p", {}, h("b", {}, "What to do: "), message(error.fix)) : null,
    h("a", { href: path("runs", seen.failed_run) }, "Run, log and stack trace"));
}

function queries(seen) {
  const columns = [
    { name: "query", get: (q) => h("b", {}, q.name) },
    { name: "state", get: (q) => state(q.state) },
    { name: "activity", get: (q) => q.message || "" },
    { name: "input", number: true, get: (q) => `${number(q.input_rate)}/s` },
    { name: "capacity", head: capacity(), number: true, get: (q) => (q.processing_rate === null ? "–" : `${number(q.processing_rate)}/s`) },
    { name: "lag", number: true, get: (q) => (q.is_lag_unknown ? "unknown" : q.lag_rows === null ? "–" : number(q.lag_rows)) },
    { name: "fresh p50 / p99", number: true, get: (q) => h("span", { class: q.broken_promise ? "bad" : "", title: q.broken_promise || "" }, `${ms(q.fresh_p50_ms)} / ${ms(q.fresh_p99_ms)}`, q.fresh_within_s ? ` of ${span(q.fresh_within_s)}` : "") },
    { name: "batches", number: true, get: (q) => number(q.batches) },
    { name: "rows in / out", number: true, get: (q) => `${number(q.rows_in)} / ${number(q.rows_out)}` },
    { name: "late", number: true, get: (q) => number(q.late_rows) },
  ];
  return [table(columns, seen.pipeline.queries, "No query is running."), h("p", { class: "muted small", id: "about-capacity" }, CAPACITY), ...kafkaLag(seen), ...slowness(seen)];
}

/** Lag in Kafka topics as the relay last measured it, also while the pipeline is stopped. */
function kafkaLag(seen) {
  if (!seen.lag.length) return [];
  const known = (seconds) => (seconds === null ? "–" : span(seconds));
  const parts = (one) => h("details", { id: `parts-${one.query}` }, h("summary", {}, `${one.partitions.length} partitions`),
    table([
      { name: "partition", get: (p) => `${p.topic} ${p.partition}` },
      { name: "next offset", number: true, get: (p) => number(p.next) },
      { name: "end offset", number: true, get: (p) => number(p.high) },
      { name: "lag", number: true, get: (p) => number(Math.max(0, p.high - Math.max(p.next, p.low))) },
      { name: "oldest record waiting for", number: true, get: (p) => known(p.waits_s) },
    ], one.partitions, ""));
  return [h("h2", {}, "Kafka lag"), table([
    { name: "query", get: (one) => h("b", {}, one.query) },
    { name: "records", number: true, get: (one) => (one.records === null ? "unknown" : number(one.records)) },
    { name: "oldest record waiting for", number: true, get: (one) => known(one.seconds) },
    { name: "caught up in", number: true, get: (one) => (one.records ? known(one.catch_up_s) : "–") },
    { name: "data loss in", number: true, get: (one) => known(one.loss_in_s) },
    { name: "measured", get: (one) => ago(one.at, seen.at) },
    { name: "", get: (one) => one.problem ? h("span", { class: "bad" }, one.problem) : one.gone ? h("span", { class: "bad" }, `${number(one.gone)} records were deleted before they were read`) : [one.note ? `${one.note} ` : "", one.group_problem ? h("span", { class: "bad" }, `the consumer group could not be updated: ${one.group_problem} `) : "", parts(one)] },
  ], seen.lag, "")];
}

/** Where each query spends its time, and what would help. The heading asks only about queries that do not keep up. */
function slowness(seen) {
  const all = seen.pipeline.queries.map((q) => [q.name, seen.verdicts[q.name]]).filter(([, one]) => one);
  if (!all.length) return [];
  const isFine = (one) => one.keeps_up || ["not-slow", "too-new"].includes(one.slug);
  const gain = (one) => (one.gain ? ` Expected gain: ${Math.round(one.gain * 100)} % of the batch duration.` : "");
  const item = ([name, one]) => h("li", { "data-verdict": one.slug, class: isFine(one) ? "muted" : "" }, h("b", {}, `${name}: `), one.what, one.fix ? ` ${one.fix}` : "", gain(one));
  const slow = all.filter(([, one]) => !isFine(one));
  const others = h("details", { id: "fine" }, h("summary", {}, "Where batches spend their time"), h("ul", {}, all.filter(([, one]) => isFine(one)).map(item)));
  return slow.length ? [h("h2", { id: "slow" }, "Why is it slow?"), h("ul", { class: "verdicts" }, slow.map(item)), others] : [others];
}

// ---- actions: requests to the supervisor

function actions(seen) {
  if (data.role !== "operate") return [h("span", { class: "muted small" }, "your key is read-only")];
  const byWanted = {
    running: [button("Restart", "restart"), button("Stop", "stop", true)],
    unknown: [button("Start", "start"), button("Stop", "stop", true)],
  };
  const buttons = byWanted[seen.deployed?.wanted] ?? [button("Start", "start")];
  if (seen.deployed?.previous.length) buttons.push(button("Roll back", "rollback", true));
  return seen.deployed ? buttons : [];
}

const EFFECTS = {
  start: "Starts the deployed version.",
  stop: "Every query stops at the end of its batch; the next start continues from there. No data is lost.",
  restart: "Every query stops at the end of its batch, then the pipeline starts again from its checkpoints.",
  rollback: "Every query stops at the end of its batch, then the previous version starts. Checkpoints are kept.",
};

function button(label, what, danger = false) {
  return h("button", { type: "button", id: `do-${what}`, class: danger ? "danger" : "", onclick: () => act(label, what, danger) }, label);
}

async function act(label, what, danger) {
  if (!(await confirm(`${label} ${name}?`, [EFFECTS[what], h("p", { class: "muted small" }, `The audit log will record this action under ${data.who}.`)], label, danger))) return;
  const showResult = (...nodes) => show(document.getElementById("acted"), ...nodes);
  try {
    showResult(`${label} ${name}: requested…`);
    showResult((await ask(path("api", "pipelines", name, what))) || `${label} ${name}: no reply from the supervisor yet.`);
    refresh();
  } catch (error) {
    showResult(problem(error));
  }
}

// ---- history

// id, title, traces of the values (and of the phases of a batch), and whether there is anything to draw
const CHARTS = [
  ["rates", "Input rate and capacity (rows per second)", (v) => [...line("input", v, "input_rate"), ...line("capacity", v, "processing_rate", { colour: COLOURS[1], dash: "dash" })]],
  ["phases", "Batch duration by phase (ms, mean)", (v, phases) => phases.map((phase) => ({ name: phase, x: v.at.map(date), y: v[phase], stackgroup: "one", mode: "lines", line: { width: 0.5 } }))],
  ["rows", "Rows per batch", (v) => line("rows per batch", v, "rows_per_batch")],
  ["fresh", "Freshness (s)", (v) => [...line("p50", v, "fresh_p50_ms", { divisor: 1000 }), ...line("p99", v, "fresh_p99_ms", { colour: COLOURS[1], dash: "dash", divisor: 1000 })]],
  ["state", "State rows", (v) => line("rows", v, "state_rows"), (v) => v.state_rows.some((n) => n !== null)],
  ["memory", "State memory", (v) => line("bytes", v, "state_bytes"), (v) => v.state_bytes.some((n) => n !== null)],
  ["watermark", "Watermark behind the clock (s)", (v) => line("behind", v, "watermark_behind_s"), (v) => v.watermark_behind_s.some((n) => n !== null)],
  ["late", "Rows dropped by the watermark", (v) => [{ name: "late", x: v.at.map(date), y: v.late_rows, type: "bar", marker: { color: COLOURS[0], opacity: v.is_complete.map((is) => (is === false ? 0.4 : 1)) } }], (v) => v.late_rows.some((n) => n)],
];

async function history(names) {
  const found = await api(`${path("api", "pipelines", name, "history")}?range=${range}`);
  const known = [...new Set([...names, ...Object.keys(found.queries).filter((q) => !q.includes(".quarantine"))])];
  if (!known.includes(query)) query = known.find((q) => found.queries[q]) || known[0] || "";
  showControls(known);
  const values = found.queries[query];
  const note = document.getElementById("chart-note");
  if (!values || !values.at.length) {
    note.textContent = known.length ? `${query} has no batches in this range.` : "No data yet: the pipeline has not run.";
    charts.replaceChildren();
    isLinked = false;
    return;
  }
  note.textContent = `${query}: ${values.batches.reduce((a, b) => a + (b || 0), 0).toLocaleString("en")} batches, one point every ${span(found.step_s)}. Vertical lines mark starts, stops, deployments and alerts.${values.is_complete.at(-1) === false ? " The dotted or pale end is the current step, which is incomplete." : ""}`;
  const wanted = CHARTS.filter(([, , , hasData]) => !hasData || hasData(values));
  if (charts.dataset.kinds !== wanted.map(([id]) => id).join()) {
    charts.dataset.kinds = wanted.map(([id]) => id).join();
    charts.replaceChildren(h("div", { class: "grid" }, wanted.map(([id, title]) => h("div", { class: "card" }, h("h3", { class: "chart-title", title: id === "rates" ? CAPACITY : null }, title), h("div", { class: "chart", id: `chart-${id}`, role: "img", "aria-label": `${title}, ${query}` })))));
    isLinked = false;
  }
  const marks = found.marks.map((mark) => ({ type: "line", xref: "x", yref: "paper", x0: date(mark.at), x1: date(mark.at), y0: 0, y1: 1, line: { color: colourOf(mark.kind), width: 1, dash: "dot" } }));
  const whole = [date(found.since), date(found.until)];
  const places = [];
  for (const [id, , make] of wanted) {
    const place = document.getElementById(`chart-${id}`);
    places.push(place);
    await draw(place, make(values, found.phases), { shapes: marks, uirevision: `${query} ${range}`, xaxis: { ...TIME_AXIS, range: whole } });
  }
  if (!isLinked) { linkZoom(places); isLinked = true; }
  showMarks(found.marks);
}

const colourOf = (kind) => (kind.includes("ended") || kind === "alert_opened" || kind === "alert_worsened" || kind === "killed" || kind === "gave_up" ? "#cf3f55" : kind.includes("deploy") || kind.includes("rollback") ? "#8457d6" : "#7a8794");

function showMarks(marks) {
  let place = document.getElementById("marks-list");
  if (!place) { place = h("details", { id: "marks-list" }, h("summary", {}, "Events in this range"), h("div", {})); charts.after(place); }
  show(place.lastElementChild, table([
    { name: "when", get: (m) => timestamp(m.at) }, { name: "what", get: (m) => m.kind.replaceAll("_", " ") }, { name: "", get: (m) => m.text },
    { name: "run", get: (m) => (m.run ? h("a", { href: path("runs", m.run) }, "open") : "") }], [...marks].reverse().slice(0, 100), "No events."));
}

function showControls(names) {
  const set = (key, value) => { choose(key, value); charts.dataset.kinds = ""; refresh(); };
  show(document.getElementById("controls"),
    h("label", { for: "query" }, "Query"),
    h("select", { id: "query", onchange: (e) => { query = e.target.value; set("query", query); } }, names.map((q) => h("option", { value: q, selected: q === query }, q))),
    h("span", { class: "row", role: "group", "aria-label": "Range" }, RANGES.map((one) => h("button", { type: "button", class: "quiet", id: `range-${one}`, "aria-pressed": String(one === range), onclick: () => { range = one; set("range", one); } }, one))));
}

// ---- runs and versions

function bottom(seen) {
  const one = seen.pipeline;
  return [
    h("h2", {}, "Runs"),
    table([
      { name: "run", get: (r) => h("a", { href: path("runs", r.run) }, r.run) },
      { name: "started", get: (r) => ago(r.started_at, seen.at) },
      { name: "duration", get: (r) => (r.ended_at ? span(r.ended_at - r.started_at) : "running") },
      { name: "ended", get: (r) => r.ending || "" },
      { name: "why", get: (r) => r.exit?.error?.what || "" },
      { name: "version", get: (r) => h("code", {}, r.version.slice(0, 8)) },
      { name: "attempt", number: true, get: (r) => r.attempt },
    ], seen.runs, "No runs yet."),
    h("h2", {}, "Versions"),
    table([
      { name: "version", get: (v) => h("code", {}, v.version.slice(0, 12)) },
      { name: "created", get: (v) => ago(v.at, seen.at) },
      { name: "", get: (v) => (v.current.includes(one.name) ? "deployed" : v.earlier.includes(one.name) ? "earlier" : "") },
    ], [...seen.versions].reverse(), "No versions."),
    seen.deployed ? h("p", { class: "muted small" }, `Deployed by ${seen.deployed.by || "an unknown user"} `, ago(seen.deployed.at, seen.at), `, profile ${seen.deployed.profile}, file ${seen.deployed.file}.`,
      one.cpu_s_per_million_rows ? ` ${number(one.cpu_s_per_million_rows)} CPU seconds per million rows.` : "", one.pid ? ` Process ${one.pid}, JVM ${one.jvm_pid}.` : "") : null,
  ];
}

document.addEventListener("theme", () => { charts.dataset.kinds = ""; refresh(); });

