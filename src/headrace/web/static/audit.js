// The audit log: requests to the supervisor and their results.
import { api, h, live, main, path, show, table, timestamp } from "./core.js";

live(async () => {
  const seen = await api("/api/audit");
  show(main, h("h1", {}, "Audit"), h("p", { class: "muted" }, "All requests to the supervisor, from the command line and from this page."),
    table([
      { name: "when", get: (a) => h("span", { class: "nowrap" }, timestamp(a.at)) },
      { name: "user", get: (a) => a.by },
      { name: "action", get: (a) => a.what },
      { name: "pipeline", get: (a) => (a.pipeline ? h("a", { href: path("pipelines", a.pipeline) }, a.pipeline) : "") },
      { name: "result", get: (a) => a.text },
    ], seen.audit, "No requests yet."));
});
