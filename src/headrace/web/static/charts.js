// Plotly, loaded when a page first draws with it, and dressed in the page's own colours.
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

/** Draws, or changes what is drawn; keeps the zoom of a chart that is there already. */
export async function draw(place, traces, more = {}) {
  const Plotly = await plotly();
  await Plotly.react(place, traces, layout({ uirevision: "kept", ...more }), CONFIG);
}

/** One axis for all: what is zoomed in one chart is zoomed in the others. */
export function together(places, onZoom) {
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

/** A chart of rows: kind is line, bar, area or number. Returns why it cannot be drawn, or "". */
export async function chart(place, kind, rows, x, ys) {
  const numbers = ys.map((y) => rows.map((row) => (row[y] === null || row[y] === "" ? NaN : Number(row[y]))));
  if (!ys.length || numbers.every((list) => list.every(Number.isNaN))) return "There are no numbers to draw: choose another column for y.";
  const xs = rows.map((row) => (x ? row[x] : null));
  const traces = ys.map((y, n) => ({
    name: y, x: x ? xs : undefined, y: numbers[n],
    type: kind === "bar" ? "bar" : "scatter",
    mode: kind === "bar" ? undefined : "lines+markers", marker: { size: 4 },
    fill: kind === "area" ? "tozeroy" : undefined, stackgroup: kind === "area" && ys.length > 1 ? "one" : undefined,
  }));
  await draw(place, traces, { xaxis: { title: x ? { text: x } : undefined }, barmode: "group", showlegend: ys.length > 1 });
  return "";
}
