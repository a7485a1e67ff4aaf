// The first screen: is everything healthy, does it keep up, what failed last, and the live results.
import { ago, api, capacity, cell, h, live, main, message, ms, notice, number, path, problem, show, span, state } from "./core.js";
import { severity, state as alertState, stateOf } from "./alert_parts.js";
import { bars, rates } from "./sparks.js";

live(async () => {
  const seen = await api("/api/overview");
  document.title = title(seen);
  const parts = [];
  if (seen.notice) parts.push(h("div", { class: "card busy", role: "alert" }, seen.notice));
  if (seen.error) parts.push(problem(seen.error));
  else parts.push(headline(seen));
  if (seen.live.length) parts.push(h("h2", {}, "Live results"), h("div", { class: "tiles" }, seen.live.map(result)));
  if (!seen.error) parts.push(h("h2", {}, "Pipelines"), seen.pipelines.length ? seen.pipelines.map((one) => card(one, seen.at)) : firstSteps(seen));
  if (seen.alerts.length) parts.push(h("h2", {}, "Open alerts"), h("div", { class: "card" }, seen.alerts.slice(0, 8).map((one) => alert(one, seen.at))));
  if (seen.hints.length) parts.push(h("p", { class: "muted small" }, seen.hints.join(" · ")));
  show(main, h("h1", { class: "muted small" }, `${seen.project}, profile ${seen.profile}`), ...parts);
});

function title(seen) {
  const bad = seen.headline?.problems;
  return `${bad ? `(${bad}) ` : ""}${seen.project} · Headrace`;
}

function headline(seen) {
  const failures = seen.pipelines.filter((one) => one.failure).sort((a, b) => b.failure.at - a.failure.at);
  const last = failures[0];
  return h("div", { class: `card ${seen.headline.level}`, id: "verdict" },
    h("h2", { class: "flush", id: "health" }, seen.headline.text),
    h("p", { id: "last-failure", class: "tight" }, last
      ? ["Last failure: ", h("a", { href: path("runs", last.failure.run) }, last.name), " ", ago(last.failure.at, seen.at), ": ", message(last.failure.what),
        last.failure.fix ? h("span", { class: "muted" }, " What to do: ", message(last.failure.fix)) : ""]
      : "Nothing has failed in the last seven days."));
}

/** A live table: its newest value large, the one before it for comparison. A window that has not ended is marked. */
function result(one) {
  const href = path("live", `${one.pipeline}.${one.name}`);
  const points = one.points || [];
  const last = points.at(-1);
  const before = points.at(-2);
  const isIncomplete = (point) => Boolean(one.current_window) && point[0] === one.current_window;
  return h("a", { class: "tile plain", href, "data-live": one.name },
    h("span", { class: "muted" }, one.name, one.y.length ? "" : " (table)"),
    last ? h("b", {}, number(Number(last[1]))) : h("b", { class: "muted" }, "–"),
    last ? h("span", { class: "small muted" }, `${one.y[0]} at ${cell(last[0])}`, isIncomplete(last) ? h("i", { class: "so-far" }, " so far") : "", before ? `; previous: ${number(Number(before[1]))}` : "")
      : h("span", { class: "small muted" }, one.problem || (one.y.length ? "no rows yet" : "see its rows")),
    points.length > 1 ? bars(points.map((point) => ({ value: Number(point[1]) || 0, isIncomplete: isIncomplete(point) })), `the last ${points.length} values of ${one.name}`) : null);
}

function card(one, now) {
  const fresh = one.queries.filter((q) => q.fresh_p50_ms !== null);
  const slowest = fresh.sort((a, b) => b.fresh_p99_ms - a.fresh_p99_ms)[0];
  const lastAt = Math.max(0, ...one.queries.map((q) => q.last_progress_at || 0)) || null;
  const isUp = one.pid !== null;
  return h("article", { class: "card pipeline-card", "data-pipeline": one.name },
    h("div", {},
      h("h2", {}, h("a", { href: path("pipelines", one.name) }, one.name), state(one.state, one.severity),
        one.alerts ? h("a", { class: `state ${one.alerts > one.alerts_handled ? "bad" : "busy"}`, href: `/alerts?pipeline=${encodeURIComponent(one.name)}` }, `${one.alerts} alert${one.alerts === 1 ? "" : "s"}${handled(one)}`) : null,
        one.edited ? h("span", { class: "state off", title: "The working tree differs from the deployed version" }, "edited since it was deployed") : null),
      h("p", { class: "tight" }, h("span", { class: "why" }, message(one.why)), one.pace ? [" · ", h("b", { class: "pace" }, one.pace)] : ""),
      h("p", { class: "facts small" },
        fact("input", `${number(one.input_rate)} rows/s`),
        one.capacity === null ? null : fact(capacity(), `${number(one.capacity)} rows/s`),
        one.queries.some((q) => q.is_lag_unknown) ? fact("lag", "unknown") : one.queries.some((q) => q.lag_rows) ? fact("lag", `${number(Math.max(...one.queries.map((q) => q.lag_rows || 0)))} rows`) : null,
        slowest ? fact("fresh", h("span", { title: `${slowest.name}: half of its rows within ${ms(slowest.fresh_p50_ms)}, 99 % within ${ms(slowest.fresh_p99_ms)}` },
          `${ms(slowest.fresh_p50_ms)} (p99 ${ms(slowest.fresh_p99_ms)})${slowest.fresh_within_s ? `, target ${span(slowest.fresh_within_s)}` : ""}`)) : null,
        fact("last batch", ago(lastAt, now)),
        isUp ? fact("up", span(Math.max(0, now - one.since))) : null,
        fact("restarts in 24 h", one.restarts_today),
        one.version ? fact("version", [h("code", {}, one.version.slice(0, 8)), one.deployed_by ? ` by ${one.deployed_by}` : "", " ", one.deployed_at ? ago(one.deployed_at, now) : ""]) : null),
      one.failure ? h("p", { class: "small tight" }, h("span", { class: "muted" }, "last failure "), ago(one.failure.at, now), ": ", h("a", { href: path("runs", one.failure.run) }, message(one.failure.what))) : null),
    rates(one.rates, `input rows per second over the last half hour: ${one.rates.map((p) => `${Math.round(p[1])}${p[3] ? "" : " so far"}`).join(", ")}`));
}

/** How many of the alerts are acknowledged or silenced. */
const handled = (one) => (!one.alerts_handled ? "" : one.alerts_handled === one.alerts ? ", handled" : `, ${one.alerts_handled} handled`);

const fact = (name, value) => h("span", {}, h("span", { class: "muted" }, name, " "), h("b", {}, value));

function alert(one, now) {
  return h("p", { class: "tight" }, severity(one), " ", stateOf(one) === "open" ? null : [alertState(one), " "],
    h("a", { href: path("alerts", one.id) }, message(one.title)), h("span", { class: "muted small" }, ` ${[one.pipeline, one.query].filter(Boolean).join("/")}, opened `), ago(one.opened_at, now));
}

function firstSteps(seen) {
  notice("");
  return h("div", { class: "card" }, h("p", {}, "Nothing is deployed yet."),
    h("pre", {}, (seen.hints.length ? seen.hints : ["headrace up   deploys all pipelines in this project and keeps them running"]).join("\n")));
}
