// Who asked for what, and what became of it.
import { api, clock, h, live, main, path, show, table } from "./core.js";

live(async () => {
  const seen = await api("/api/audit");
  show(main, h("h1", {}, "Audit"), h("p", { class: "muted" }, "Everything that was asked of the supervisor, from the command line or from this page."),
    table([
      { name: "when", get: (a) => h("span", { class: "nowrap" }, clock(a.at)) },
      { name: "who", get: (a) => a.by },
      { name: "what", get: (a) => a.what },
      { name: "pipeline", get: (a) => (a.pipeline ? h("a", { href: path("pipelines", a.pipeline) }, a.pipeline) : "") },
      { name: "what became of it", get: (a) => a.text },
    ], seen.audit, "Nothing was asked yet."));
});
