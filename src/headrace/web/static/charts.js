// Charts with Plotly, which is loaded on first use, in the colours of the page. Times are UTC.
let loading = null;

export function plotly() {
  loading ||= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.min.js";
    script.onload = () => done(window.Plotly);
    script.onerror = () => failed(new Error("plotly.min.js could not be loaded"));
    document.head.append(script);
  });
  return loading;
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const COLOURS = ["#0b84b0", "#e07b00", "#2f9e5b", "#8457d6", "#cf3f55", "#7a8794", "#b59a00", "#00a3a3"];

export function layout(more = {}) {
  const axis = { gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", colorway: COLOURS,
    font: { color: colour("ink"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 48, r: 12, t: 6, b: 28 }, showlegend: true, hovermode: "x unified",
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
    ...more,
    xaxis: { ...axis, ...(more.xaxis || {}) }, yaxis: { ...axis, rangemode: "tozero", ...(more.yaxis || {}) },
  };
}

export const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false, scrollZoom: false };

/** Draws or updates a chart; keeps its zoom. */
export async function draw(place, traces, more = {}) {
  const Plotly = await plotly();
  await Plotly.react(place, traces, layout({ uirevision: "kept", ...more }), CONFIG);
}

/** Zooms all charts together. */
export function linkZoom(places, onZoom) {
  let isOurs = false;
  for (const place of places) {
    place.on?.("plotly_relayout", async (change) => {
      if (isOurs) return;
      const from = change["xaxis.range[0]"] ?? change["xaxis.range"]?.[0];
      const to = change["xaxis.range[1]"] ?? change["xaxis.range"]?.[1];
      const isReset = change["xaxis.autorange"];
      if (from === undefined && !isReset) return;
      isOurs = true;
      const Plotly = await plotly();
      const set = isReset ? { "xaxis.autorange": true } : { "xaxis.range": [from, to] };
      await Promise.all(places.filter((one) => one !== place).map((one) => Plotly.relayout(one, set)));
      isOurs = false;
      onZoom?.(isReset ? null : [from, to]);
    });
  }
}

const isTime = (value) => typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value);

/** A window that has not ended: a pale bar, or a hollow point. */
function marker(kind, xs, current) {
  const isOpen = xs.map((value) => current !== null && value === current);
  return kind === "bar" ? { opacity: isOpen.map((is) => (is ? 0.4 : 1)) } : { size: 4, symbol: isOpen.map((is) => (is ? "circle-open" : "circle")) };
}

/**
 * A line over time; `values` has lists of the same length, `at` in seconds. The last part is dotted where `is_complete`
 * says that the step has not ended.
 */
export function line(label, values, key, { colour = COLOURS[0], dash = "solid", divisor = 1 } = {}) {
  const ys = values[key].map((v) => (v === null ? null : v / divisor));
  const trace = { name: label, x: values.at.map(date), mode: "lines", legendgroup: label, line: { color: colour, dash } };
  const end = values.is_complete.lastIndexOf(true);
  if (values.is_complete.at(-1) !== false || end < 0) return [{ ...trace, y: ys }];
  const solid = ys.map((y, n) => (n <= end ? y : null));
  const rest = ys.map((y, n) => (n >= end ? y : null));
  return [{ ...trace, y: solid }, { ...trace, y: rest, name: `${label}, so far`, opacity: 0.6, showlegend: false, line: { color: colour, dash: "dot" } }];
}

/** Seconds since 1970 for Plotly, which draws a Date or a number in local time, and a text as it is written: in UTC. */
export const date = (at) => new Date(at * 1000).toISOString();
export const TIME_AXIS = { type: "date", hoverformat: "%Y-%m-%d %H:%M:%SZ", title: { text: "UTC", standoff: 4, font: { size: 10 } } };

/** A chart of rows: kind is line, bar or area. Rows with x === current are not final. Returns why it cannot be drawn, or "". */
export async function chart(place, kind, rows, x, ys, current = null) {
  const numbers = ys.map((y) => rows.map((row) => (row[y] === null || row[y] === "" ? NaN : Number(row[y]))));
  if (!ys.length || numbers.every((list) => list.every(Number.isNaN))) return "No numbers to plot: choose another column for y.";
  const xs = rows.map((row) => (x ? row[x] : null));
  const traces = ys.map((y, n) => ({
    name: y, x: x ? xs : undefined, y: numbers[n],
    type: kind === "bar" ? "bar" : "scatter",
    mode: kind === "bar" ? undefined : "lines+markers", marker: marker(kind, xs, current),
    fill: kind === "area" ? "tozeroy" : undefined, stackgroup: kind === "area" && ys.length > 1 ? "one" : undefined,
  }));
  await draw(place, traces, { xaxis: { title: x ? { text: xs.some(isTime) ? `${x} (UTC)` : x } : undefined }, barmode: "group", showlegend: ys.length > 1 });
  return "";
}
