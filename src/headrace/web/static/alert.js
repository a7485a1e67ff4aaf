// One alert: what happened, what Headrace does, what to do, and what was sent to whom.
import { ago, api, cell, data, h, live, main, message, number, path, show, span, table, timestamp } from "./core.js";
import { buttons, deliveryState, endButton, severity, state, subject, until } from "./alert_parts.js";

const acted = h("div", { id: "acted", role: "status" }); // the result of the last action
const body = h("div", {});
main.replaceChildren(h("p", { class: "small" }, h("a", { href: "/alerts" }, "All alerts")), acted, body);

const FIRST = ["Headrace", "What to do", "Affected outputs"]; // texts of rules, in the order in which a person reads them
const LABELS = { Headrace: "What Headrace does" };

live(async () => {
  const one = await api(path("api", "alerts", data.alert));
  document.title = `${one.title} · Headrace`;
  show(body,
    h("div", { class: "row" }, h("h1", { id: `alert-${one.id}`, tabindex: "-1" }, message(one.title)), h("span", { class: "grow" }), ...buttons(one)),
    h("div", { class: "row" }, severity(one), state(one)),
    h("div", { class: "card" }, h("dl", { class: "pairs", id: "facts" }, facts(one).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
    rowOf(one),
    h("h2", {}, "Delivery log"), h("div", { id: "delivery-log" }, deliveries(one)));
});

function facts(one) {
  const texts = one.rule === "row" ? {} : one.data;
  const rest = Object.keys(texts).filter((name) => !FIRST.includes(name));
  const text = (name) => [LABELS[name] || name, message(typeof texts[name] === "string" ? texts[name] : JSON.stringify(texts[name]))];
  return [
    ["What happened", message(one.title)],
    ["Since", [timestamp(one.opened_at), " (", ago(one.opened_at), ")"]],
    one.resolved_at === null ? null : ["Resolved", [timestamp(one.resolved_at), `, after ${span(one.resolved_at - one.opened_at)}`]],
    ...FIRST.filter((name) => name in texts).map(text),
    one.outputs.length && !("Affected outputs" in texts) ? ["Affected outputs", one.outputs.map((out, n) => [n ? ", " : "", h("b", {}, out.name), out.kind === out.name ? "" : ` (${out.kind})`])] : null,
    ...rest.map(text),
    ["Query", subject(one)],
    ["Rule", h("code", {}, one.rule)],
    one.acknowledged_at === null ? null : ["Acknowledged", [`by ${one.acknowledged_by}, `, ago(one.acknowledged_at)]],
    one.silence ? ["Silenced", [`by ${one.silence.by} for another ${until(one.silence.until)}, until ${timestamp(one.silence.until)}: ${one.silence.reason} `, endButton(one.silence)]] : null,
    one.count > 1 ? ["Occurrences", `${number(one.count)}, the last `, ago(one.updated_at)] : null,
    one.reopened ? ["Earlier alerts with this key", number(one.reopened)] : null,
  ].filter(Boolean).map(([name, ...value]) => [name, value]);
}

/** The columns of the row with which a query opened the alert. */
function rowOf(one) {
  if (one.rule !== "row" || !Object.keys(one.data).length) return null;
  return [h("h2", {}, "Row"), table([{ name: "column", get: (pair) => pair[0] }, { name: "value", get: (pair) => cell(pair[1]) }], Object.entries(one.data))];
}

function deliveries(one) {
  return table([
    { name: "time", get: (d) => h("span", { class: "nowrap" }, timestamp(d.at)) },
    { name: "channel", get: (d) => d.channel },
    { name: "notice", get: (d) => d.kind },
    { name: "state", get: (d) => deliveryState(d.state) },
    { name: "attempts", number: true, get: (d) => number(d.attempts) },
    { name: "reply", get: (d) => d.reply },
  ], one.deliveries, one.silence ? "Nothing was sent: the alert is silenced." : "This alert was not sent to any channel.");
}
