// One run: how it ended and why, what happened in it, its output with search, all to take along.
import { api, clock, data, h, live, main, path, proven, show, span, table } from "./core.js";

const name = data.run;
const FOLLOWED_MAX = 5000;
const head = h("div", {});
const events = h("div", {});
const log = h("div", { class: "log", id: "log", tabindex: "0", role: "log", "aria-label": "output of the run", "aria-live": "off" });
const box = h("input", { id: "search", "data-search": "", type: "search", placeholder: "search the output", "aria-label": "search the output", oninput: () => { clearTimeout(timer); timer = setTimeout(again, 250); } });
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
  await happened();
  if (position === null) await again();
  else await more();
});

function top(seen) {
  const spec = seen.spec;
  const ended = seen.exit;
  return [
    h("p", { class: "small" }, h("a", { href: path("pipelines", seen.pipeline) }, `← ${seen.pipeline}`)),
    h("div", { class: "row" }, h("h1", {}, name), h("span", { class: `state ${seen.is_live ? "good" : seen.failure ? "bad" : "off"}` }, seen.is_live ? "runs" : ended ? ended.ending : "ended"),
      h("span", { class: "grow" }), h("a", { class: "button quiet", href: proven(path("api", "runs", name, "bundle")), download: "" }, "Download all about it (zip)")),
    h("p", {}, seen.is_live ? `It has run for ${span(seen.at - spec.at)}.` : seen.headline),
    seen.query_lines.length ? h("ul", {}, seen.query_lines.map((one) => h("li", {}, one))) : null,
    ...explained(seen),
    h("dl", { class: "pairs card" }, pair("started", clock(spec.at)), ended ? pair("ended", [clock(ended.at), ` after ${span(ended.at - spec.at)}, code ${ended.code}`]) : null,
      pair("version", h("code", {}, spec.version)), pair("profile", spec.profile), pair("file", spec.file),
      pair("attempt", `${spec.attempt}, restarts before: ${spec.restarts}`), seen.pid ? pair("process", seen.pid) : null),
  ];
}

function explained(seen) {
  const found = seen.problems.length ? seen.problems : seen.failure ? [seen.failure] : [];
  const nodes = found.map((one) => h("div", { class: "card bad" },
    h("b", { id: "what" }, one.what),
    one.query ? h("p", { class: "small" }, `query ${one.query}${one.batch !== null && one.batch !== undefined ? `, batch ${one.batch}` : ""}`) : null,
    one.why ? h("p", {}, one.why) : null,
    one.where ? h("p", {}, "Where: ", h("code", {}, one.where)) : null,
    one.fix ? h("p", {}, h("b", {}, "What to do: "), one.fix) : null,
    one.slug ? h("p", { class: "muted small" }, one.slug) : null));
  if (seen.trace) nodes.push(h("details", { id: "trace" }, h("summary", {}, "The whole trace"), h("pre", {}, seen.trace)));
  return nodes;
}

const pair = (label, value) => [h("dt", {}, label), h("dd", {}, value)];

async function happened() {
  const told = await api(`${path("api", "runs", name, "events")}${eventsAt === null ? "" : `?after=${eventsAt}`}`);
  eventsAt = told.position;
  seenEvents = [...seenEvents, ...told.events].slice(-500);
  show(events, table([
    { name: "when", get: (one) => h("span", { class: "nowrap" }, clock(one.at)) },
    { name: "query", get: (one) => one.query || "" },
    { name: "what", get: (one) => one.text },
  ], [...seenEvents].reverse().slice(0, 100), "Nothing was told yet."));
}

/** From the beginning of what is shown: the end of the output, or all lines with the text. */
async function again() {
  const text = box.value.trim();
  const told = await api(`${path("api", "runs", name, "log")}${text ? `?search=${encodeURIComponent(text)}` : ""}`);
  position = told.position;
  log.replaceChildren(...told.lines.map((one) => marked(one, text)));
  document.getElementById("found").textContent = text ? `${told.lines.length} lines` : told.lines.length ? "" : "It has printed nothing.";
  if (follow.checked) log.scrollTop = log.scrollHeight;
}

async function more() {
  const text = box.value.trim();
  const told = await api(`${path("api", "runs", name, "log")}?after=${position}${text ? `&search=${encodeURIComponent(text)}` : ""}`);
  position = told.position;
  if (!told.lines.length) return;
  log.append(...told.lines.map((one) => marked(one, text)));
  while (log.childElementCount > FOLLOWED_MAX) log.firstElementChild.remove();
  if (follow.checked) log.scrollTop = log.scrollHeight;
}

function marked(one, text) {
  return h("div", { class: text ? "hit" : null }, one || " ");
}

