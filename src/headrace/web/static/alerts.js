// All alerts: what is open, who looks after it, what is silenced; and the channels that send notices.
import { ago, api, choose, chosen, h, live, main, message, number, path, refresh, show, span, timestamp } from "./core.js";
import { act, buttons, deliveryState, endButton, mayAct, scope, severity, SEVERITIES, state, stateOf, subject, until } from "./alert_parts.js";

const SHOWN = 200;
const STATES = { open: "open", unacknowledged: "not acknowledged", acknowledged: "acknowledged", silenced: "silenced", resolved: "resolved", all: "all" };
const wanted = {
  state: STATES[chosen("state")] ? chosen("state") : chosen("all") === "1" ? "all" : "open",
  severity: SEVERITIES.includes(chosen("severity")) ? chosen("severity") : "",
  pipeline: chosen("pipeline") || "",
};

const head = h("div", { class: "row" });
const filters = h("div", { class: "row", id: "filters", role: "group", "aria-label": "Filters" });
const acted = h("div", { id: "acted", role: "status" }); // the result of the last action
const list = h("div", {});
const silences = h("section", { "aria-labelledby": "silences" });
const channels = h("section", { "aria-labelledby": "channels" });
main.replaceChildren(head, filters, acted, list, silences, channels);

live(async () => {
  const isAll = ["all", "resolved"].includes(wanted.state);
  const seen = await api(`/api/alerts${isAll ? "?all=1" : ""}`);
  const open = seen.alerts.filter((one) => one.resolved_at === null);
  const waiting = open.filter((one) => stateOf(one) === "open");
  const found = seen.alerts.filter(isWanted);
  document.title = `${waiting.length ? `(${waiting.length}) ` : ""}Alerts · Headrace`;
  show(head, h("h1", {}, "Alerts"), h("span", { class: `state ${waiting.length ? "bad" : open.length ? "busy" : "good"}`, id: "count" }, count(open)));
  showFilters(seen.alerts);
  show(list, alerts(found), found.length > SHOWN ? h("p", { class: "muted" }, `Showing the newest ${SHOWN} of ${number(found.length)}.`) : null,
    seen.is_cut ? h("p", { class: "muted" }, `There are more alerts; only the newest ${number(seen.alerts.length)} are searched.`) : null);
  show(silences, h("h2", { id: "silences" }, "Silences"), silenceList((await api("/api/silences")).silences));
  show(channels, h("h2", { id: "channels" }, "Channels"), ...channelList((await api("/api/channels")).channels));
});

function count(open) {
  const parts = ["acknowledged", "silenced"].map((name) => [open.filter((one) => stateOf(one) === name).length, name]);
  return [`${open.length || "none"} open`, ...parts.filter(([many]) => many).map(([many, name]) => `${many} ${name}`)].join(", ");
}

const HAS_STATE = {
  open: (one) => one.resolved_at === null,
  unacknowledged: (one) => one.resolved_at === null && one.acknowledged_at === null,
  acknowledged: (one) => one.resolved_at === null && one.acknowledged_at !== null,
  silenced: (one) => one.resolved_at === null && one.silenced_until !== null,
  resolved: (one) => one.resolved_at !== null,
  all: () => true,
};

const isWanted = (one) => HAS_STATE[wanted.state](one) && (!wanted.severity || one.severity === wanted.severity) && (!wanted.pipeline || one.pipeline === wanted.pipeline);

function showFilters(alerts) {
  const pipelines = [...new Set([...alerts.map((one) => one.pipeline).filter(Boolean), wanted.pipeline].filter(Boolean))].sort();
  show(filters,
    select("state", "State", Object.entries(STATES)),
    select("severity", "Severity", [["", "all"], ...SEVERITIES.map((one) => [one, one])]),
    select("pipeline", "Pipeline", [["", "all"], ...pipelines.map((one) => [one, one])]));
}

function select(key, label, options) {
  const set = (value) => { wanted[key] = value; choose(key, value); refresh(); };
  return h("span", { class: "field" }, h("label", { for: `filter-${key}` }, label, " "),
    h("select", { id: `filter-${key}`, onchange: (event) => set(event.target.value) }, options.map(([value, text]) => h("option", { value, selected: value === wanted[key] }, text))));
}

function alerts(found) {
  if (!found.length) return h("p", { class: "muted" }, wanted.state === "open" && !wanted.severity && !wanted.pipeline ? "No open alerts." : "No alerts with these filters.");
  return h("ul", { class: "alerts" }, found.slice(0, SHOWN).map((one) => h("li", { class: "card", "data-alert": one.id },
    h("div", {}, severity(one)),
    h("div", {},
      h("a", { class: "title", id: `alert-${one.id}`, href: path("alerts", one.id) }, message(one.title)),
      h("p", { class: "small muted tight" }, subject(one), " · opened ", ago(one.opened_at),
        one.resolved_at === null ? [" · last seen ", ago(one.updated_at)] : ` · lasted ${span(one.resolved_at - one.opened_at)}`,
        one.count > 1 ? ` · ${number(one.count)} times` : "")),
    h("div", {}, state(one)),
    h("div", { class: "row" }, buttons(one)))));
}

function silenceList(found) {
  if (!found.length) return h("p", { class: "muted" }, "No alerts are silenced.");
  return h("ul", { class: "alerts" }, found.map((one) => h("li", { class: "card", "data-silence": one.id },
    h("div", {}, h("span", { class: "state off", title: `until ${timestamp(one.until)}` }, until(one.until))),
    h("div", {}, h("b", {}, scope(one)), h("p", { class: "small tight" }, one.reason, h("span", { class: "muted" }, ` · by ${one.by}, until ${timestamp(one.until)}`))),
    h("div", {}),
    h("div", { class: "row" }, endButton(one)))));
}

function channelList(found) {
  if (!found.length) return [h("p", { class: "muted" }, "No channels. To send notices to people, add ", h("code", {}, "[notify.NAME]"), " to headrace.toml.")];
  return [h("p", { class: "muted small" }, "Where notices are sent. A test sends a notice and then resolves it."),
    h("ul", { class: "alerts" }, found.map((one) => h("li", { class: "card", "data-channel": one.name },
      h("div", {}, one.problem ? h("span", { class: "state bad" }, "invalid") : one.state ? deliveryState(one.state) : isPing(one) ? null : h("span", { class: "state off" }, "unused")),
      h("div", {}, h("b", {}, one.name), ` ${one.kind}`,
        h("p", { class: "small muted tight" }, about(one)),
        one.state && one.state !== "sent" && !one.problem ? h("p", { class: "small tight" }, "last attempt ", ago(one.at), ": ", one.reply) : null),
      h("div", {}),
      h("div", { class: "row" }, mayAct && !one.problem ? h("button", { type: "button", class: "quiet", id: `test-${one.name}`, "aria-label": `Test channel ${one.name}`, onclick: () => test(one) }, "Test") : null))))];
}

const isPing = (one) => one.kind === "heartbeat";

function about(one) {
  if (one.problem) return one.problem;
  if (isPing(one)) return `pinged every ${span(one.repeat_s)} while Headrace works; receives no alerts`;
  return [`receives ${route(one)} · last sent `, ago(one.sent_at)];
}

function route(one) {
  const parts = [["severity", one.severity], ["pipelines", one.pipelines], ["rules", one.rules]].filter(([, values]) => values.length);
  const text = parts.map(([name, values]) => `${name} ${values.join(", ")}`).join("; ") || "all alerts";
  return one.repeat_s === null ? text : `${text}; again every ${span(one.repeat_s)}`;
}

const test = (one) => act(`Testing ${one.name}`, async () => {
  const { replies } = await api(path("api", "channels", one.name, "test"), { method: "POST", body: {} });
  return `${one.name} accepted the test: ${Object.entries(replies).map(([kind, reply]) => `${kind}: ${reply}`).join("; ")}`;
});
