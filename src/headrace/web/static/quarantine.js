// Records that could not be used: how many for which reason, when, and the newest, shown safely.
import { api, clock, h, live, main, number, path, show, table } from "./core.js";
import { draw } from "./charts.js";

const head = h("div", {});
const place = h("div", { class: "chart", id: "chart", role: "img", "aria-label": "records in quarantine by hour and reason" });
const rest = h("div", {});
main.replaceChildren(head, place, rest);
let isDue = 0;

live(async () => {
  if (Date.now() < isDue) return; // counted from files: not more often than every five seconds
  isDue = Date.now() + 5000;
  const seen = await api("/api/quarantine");
  const total = seen.quarantines.reduce((sum, one) => sum + one.rows, 0);
  show(head, h("h1", {}, "Quarantine"), h("p", { class: "muted" }, seen.quarantines.length
    ? `${number(total)} records did not fit; they are kept as they came, and the streams went on.`
    : "Nothing is kept in quarantine: no deployed pipeline uses hr.parse_json."));
  const reasons = [...new Set(seen.quarantines.flatMap((one) => one.over_time.map((t) => t[1])))];
  const traces = reasons.map((reason) => {
    const points = seen.quarantines.flatMap((one) => one.over_time.filter((t) => t[1] === reason));
    return { name: reason, type: "bar", x: points.map((p) => new Date(p[0] * 1000)), y: points.map((p) => p[2]) };
  });
  place.hidden = !traces.length;
  if (traces.length) await draw(place, traces, { barmode: "stack", xaxis: { type: "date" } });
  show(rest, ...seen.quarantines.map(one));
});

function one(q) {
  const most = Math.max(1, ...Object.values(q.reasons));
  return h("section", { class: "card" },
    h("h2", {}, h("a", { href: path("pipelines", q.pipeline) }, q.pipeline), ` / ${q.of}`),
    h("p", {}, `${number(q.rows)} records`),
    Object.entries(q.reasons).map(([reason, count]) => h("div", { class: "bar-row" }, h("span", {}, reason), h("progress", { max: most, value: count, "aria-label": reason }), h("span", { class: "right" }, number(count)))),
    q.newest.length ? h("h3", {}, "The newest") : null,
    table([
      { name: "when", get: (r) => h("span", { class: "nowrap" }, clock(Date.parse(r.at) / 1000)) },
      { name: "reason", get: (r) => r.reason },
      { name: "detail", get: (r) => r.detail || "" },
      { name: "from", get: (r) => (r.source || "").split("/").pop() },
      { name: "bytes", number: true, get: (r) => number(r.bytes) },
      { name: "record", get: (r) => h("code", {}, r.text) },
    ], q.newest, "None yet."));
}
