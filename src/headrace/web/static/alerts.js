// Alerts: open ones, or also resolved ones.
import { ago, api, choose, chosen, h, live, main, number, path, refresh, show, span, table } from "./core.js";

let isAll = chosen("all") === "1";

live(async () => {
  const seen = await api(`/api/alerts${isAll ? "?all=1" : ""}`);
  const open = seen.alerts.filter((one) => one.resolved_at === null);
  document.title = `${open.length ? `(${open.length}) ` : ""}Alerts · Headrace`;
  show(main, h("div", { class: "row" }, h("h1", {}, "Alerts"), h("span", { class: `state ${open.length ? "bad" : "good"}` }, open.length ? `${open.length} open` : "none open"),
    h("span", { class: "grow" }), h("button", { type: "button", class: "quiet", id: "all", "aria-pressed": String(isAll), onclick: toggle }, "include resolved")),
  table([
    { name: "state", get: (a) => h("span", { class: `state ${a.resolved_at === null ? "bad" : "off"}` }, a.resolved_at === null ? "open" : "resolved") },
    { name: "severity", get: (a) => a.severity },
    { name: "what", get: (a) => h("b", {}, a.title) },
    { name: "pipeline", get: (a) => [h("a", { href: path("pipelines", a.pipeline) }, a.pipeline), a.query ? ` / ${a.query}` : ""] },
    { name: "opened", get: (a) => ago(a.opened_at) },
    { name: "duration", get: (a) => (a.resolved_at === null ? "" : span(a.resolved_at - a.opened_at)) },
    { name: "last seen", get: (a) => ago(a.updated_at) },
    { name: "count", number: true, get: (a) => number(a.count) },
  ], seen.alerts, isAll ? "No alerts." : "No open alerts."));
});

function toggle() {
  isAll = !isAll;
  choose("all", isAll ? "1" : "0");
  refresh();
}
