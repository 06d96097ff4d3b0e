// Durable runs: the list of a database, and one of its runs as it happens.

import { followPath, get } from "./api.js";
import { badge, h, nothing, when } from "./dom.js";
import { Timeline } from "./timeline.js";

export async function durablePage(main, { args: [id], query, signal }) {
  if (id) {
    onePage(main, id, signal);
    return;
  }
  const status = h("select", { "aria-label": "Status" }, ["", "pending", "running", "completed", "failed", "interrupted", "cancelled"]
    .map((value) => h("option", { value }, value || "any status")));
  status.value = query.get("status") ?? "";
  status.addEventListener("change", () => (location.hash = status.value ? `#/durable?status=${status.value}` : "#/durable"));
  main.append(h("div", { class: "bar-top" }, h("h1", null, "Durable runs"), status));
  const { runs } = await get(`/api/database?limit=500${status.value ? `&status=${status.value}` : ""}`, { signal });
  if (!runs) {
    main.append(nothing("No database is open.", "Start the server with one:", "wesichain serve --database-url sqlite:///runs.db"));
    return;
  }
  if (!runs.length) {
    main.append(nothing("No runs."));
    return;
  }
  main.append(h("div", { class: "scroll" }, h("table", { class: "figures" },
    h("thead", null, h("tr", null, ["Run", "Agent", "Status", "Version", "Updated", "Error"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", null, runs.map((run) => h("tr", null,
      h("th", { scope: "row" }, h("a", { class: "run-link", href: `#/durable/${encodeURIComponent(run.run_id)}` }, run.run_id)),
      h("td", null, run.agent, run.parent ? [" inside ", h("a", { href: `#/durable/${encodeURIComponent(run.parent)}` }, run.parent)] : null), h("td", null, badge(run.status)), h("td", null, (run.version ?? "").slice(0, 12)), h("td", null, when(run.updated_at)), h("td", { class: "bad" }, run.error ?? "")))))));
}

function onePage(main, id, signal) {
  const timeline = new Timeline({ approvals: true });
  const facts = h("div");
  const mark = h("span", null, badge("live"));
  main.append(h("div", { class: "run-head" }, h("h1", { class: "task" }, id), h("p", { class: "meta" }, mark, h("a", { href: "#/durable" }, "All durable runs"))), facts, timeline.root);
  followPath(`/api/database/${encodeURIComponent(id)}/events`, { after: -1, signal, onEvents(events) {
    for (const event of events) timeline.add(event);
    timeline.drawAll();
    facts.replaceChildren(timeline.facts());
    mark.replaceChildren(badge(timeline.status === "unfinished" ? "live" : timeline.status));
  }, onEnd() {
    mark.replaceChildren(badge(timeline.status));
  } });
}
