// One run: why it ended, its events, its output with search, and a download of all of it.
import { api, data, h, live, main, message, path, show, span, table, timestamp, withProof } from "./core.js";

const name = data.run;
const FOLLOWED_MAX = 5000;
const head = h("div", {});
const events = h("div", {});
const log = h("div", { class: "log", id: "log", tabindex: "0", role: "log", "aria-label": "output of the run", "aria-live": "off" });
const box = h("input", { id: "search", "data-search": "", type: "search", placeholder: "search the output", "aria-label": "search the output", oninput: () => { clearTimeout(timer); timer = setTimeout(loadLog, 250); } });
const follow = h("input", { id: "follow", type: "checkbox", checked: true });
let timer = 0;
let position = null;
let seenEvents = [];
let eventsAt = null;

main.replaceChildren(head, h("h2", {}, "Events"), events, h("h2", {}, "Output"),
  h("div", { class: "row" }, box, h("label", { for: "follow", class: "row" }, follow, "follow"), h("span", { id: "found", class: "muted small" })), log);

live(async () => {
  const seen = await api(path("api", "runs", name));
  document.title = `${seen.pipeline}: ${name} · Headrace`;
  show(head, ...top(seen));
  await loadEvents();
  if (position === null) await loadLog();
  else await loadMore();
});

function top(seen) {
  const spec = seen.spec;
  const ended = seen.exit;
  return [
    h("p", { class: "small" }, h("a", { href: path("pipelines", seen.pipeline) }, `← ${seen.pipeline}`)),
    h("div", { class: "row" }, h("h1", {}, name), h("span", { class: `state ${seen.is_live ? "good" : seen.failure ? "bad" : "off"}` }, seen.is_live ? "running" : ended ? ended.ending : "ended"),
      h("span", { class: "grow" }), h("a", { class: "button quiet", href: withProof(path("api", "runs", name, "bundle")), download: "" }, "Download all files (zip)")),
    h("p", {}, seen.is_live ? `Running for ${span(seen.at - spec.at)}.` : seen.headline),
    seen.query_lines.length ? h("ul", {}, seen.query_lines.map((one) => h("li", {}, one))) : null,
    ...problems(seen),
    h("dl", { class: "pairs card" }, pair("started", timestamp(spec.at)), ended ? pair("ended", [timestamp(ended.at), ` after ${span(ended.at - spec.at)}, exit code ${ended.code}`]) : null,
      pair("version", h("code", {}, spec.version)), pair("profile", spec.profile), pair("file", spec.file),
      pair("attempt", `${spec.attempt}, earlier restarts: ${spec.restarts}`), seen.pid ? pair("process", seen.pid) : null),
  ];
}

function problems(seen) {
  const found = seen.problems.length ? seen.problems : seen.failure ? [seen.failure] : [];
  const nodes = found.map((one) => h("div", { class: "card bad" },
    h("b", { id: "what" }, message(one.what)),
    one.query ? h("p", { class: "small" }, `query ${one.query}${one.batch !== null && one.batch !== undefined ? `, batch ${one.batch}` : ""}`) : null,
    one.why ? h("p", {}, message(one.why)) : null,
    one.where ? h("p", {}, "Where: ", h("code", {}, one.where)) : null,
    one.fix ? h("p", {}, h("b", {}, "What to do: "), message(one.fix)) : null,
    one.slug ? h("p", { class: "muted small" }, one.slug) : null));
  if (seen.trace) nodes.push(h("details", { id: "trace" }, h("summary", {}, "Stack trace"), h("pre", {}, seen.trace)));
  return nodes;
}

const pair = (label, value) => [h("dt", {}, label), h("dd", {}, value)];

async function loadEvents() {
  const page = await api(`${path("api", "runs", name, "events")}${eventsAt === null ? "" : `?after=${eventsAt}`}`);
  eventsAt = page.position;
  seenEvents = [...seenEvents, ...page.events].slice(-500);
  show(events, table([
    { name: "when", get: (one) => h("span", { class: "nowrap" }, timestamp(one.at)) },
    { name: "query", get: (one) => one.query || "" },
    { name: "what", get: (one) => one.text },
  ], [...seenEvents].reverse().slice(0, 100), "No events yet."));
}

/** The end of the output, or all lines with the search text. */
async function loadLog() {
  const text = box.value.trim();
  const page = await api(`${path("api", "runs", name, "log")}${text ? `?search=${encodeURIComponent(text)}` : ""}`);
  position = page.position;
  log.replaceChildren(...page.lines.map((one) => logLine(one, text)));
  document.getElementById("found").textContent = text ? `${page.lines.length} lines` : page.lines.length ? "" : "No output.";
  if (follow.checked) log.scrollTop = log.scrollHeight;
}

async function loadMore() {
  const text = box.value.trim();
  const page = await api(`${path("api", "runs", name, "log")}?after=${position}${text ? `&search=${encodeURIComponent(text)}` : ""}`);
  position = page.position;
  if (!page.lines.length) return;
  log.append(...page.lines.map((one) => logLine(one, text)));
  while (log.childElementCount > FOLLOWED_MAX) log.firstElementChild.remove();
  if (follow.checked) log.scrollTop = log.scrollHeight;
}

function logLine(one, text) {
  return h("div", { class: text ? "hit" : null }, one || " ");
}

