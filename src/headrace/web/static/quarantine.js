// Records that could not be parsed: counts by reason and hour, and the newest ones.
import { api, h, live, main, number, path, show, table, timestamp } from "./core.js";
import { date, draw, TIME_AXIS } from "./charts.js";

const head = h("div", {});
const place = h("div", { class: "chart", id: "chart", role: "img", "aria-label": "records in quarantine by hour and reason" });
const rest = h("div", {});
main.replaceChildren(head, place, rest);
let nextAt = 0;

live(async () => {
  if (Date.now() < nextAt) return; // at most every five seconds: it counts files
  nextAt = Date.now() + 5000;
  const seen = await api("/api/quarantine");
  const total = seen.quarantines.reduce((sum, one) => sum + one.rows, 0);
  show(head, h("h1", {}, "Quarantine"), h("p", { class: "muted" }, seen.quarantines.length
    ? `${number(total)} records could not be parsed. They are stored unchanged, and the queries keep running.`
    : "No quarantine: no deployed pipeline uses hr.parse_json."));
  const reasons = [...new Set(seen.quarantines.flatMap((one) => one.over_time.map((t) => t[1])))];
  const traces = reasons.map((reason) => {
    const points = seen.quarantines.flatMap((one) => one.over_time.filter((t) => t[1] === reason));
    return { name: reason, type: "bar", x: points.map((p) => date(p[0])), y: points.map((p) => p[2]) };
  });
  place.hidden = !traces.length;
  if (traces.length) await draw(place, traces, { barmode: "stack", xaxis: TIME_AXIS });
  show(rest, ...seen.quarantines.map(section));
});

function section(q) {
  const most = Math.max(1, ...Object.values(q.reasons));
  return h("section", { class: "card" },
    h("h2", {}, h("a", { href: path("pipelines", q.pipeline) }, q.pipeline), ` / ${q.of}`),
    h("p", {}, `${number(q.rows)} records`),
    Object.entries(q.reasons).map(([reason, count]) => h("div", { class: "bar-row" }, h("span", {}, reason), h("progress", { max: most, value: count, "aria-label": reason }), h("span", { class: "right" }, number(count)))),
    q.newest.length ? h("h3", {}, "Latest records") : null,
    table([
      { name: "when", get: (r) => h("span", { class: "nowrap" }, timestamp(Date.parse(r.at) / 1000)) },
      { name: "reason", get: (r) => r.reason },
      { name: "detail", get: (r) => r.detail || "" },
      { name: "from", get: (r) => (r.source || "").split("/").pop() },
      { name: "bytes", number: true, get: (r) => number(r.bytes) },
      { name: "record", get: (r) => h("code", {}, r.text) },
    ], q.newest, "No records yet."));
}
