// Statistics: the learning curve, and the calls of tools and models.

import { get } from "./api.js";
import { bar, curve } from "./charts.js";
import { count, duration, fact, h, nothing, when } from "./dom.js";

export async function statsPage(main, { signal }) {
  let stats = await get("/api/stats", { signal });
  if (stats.counted < stats.runs) {
    const wait = h("p", { class: "notice", role: "status" });
    main.append(wait);
    while (stats.counted < stats.runs && !signal.aborted) {
      wait.textContent = `Reading the recordings: ${count(stats.counted)} of ${count(stats.runs)} runs…`;
      await new Promise((resolve) => setTimeout(resolve, 700));
      const before = stats.counted;
      stats = await get("/api/stats", { signal });
      if (stats.counted === before && stats.counted > 0.99 * stats.runs) break; // files that cannot be read
    }
    wait.remove();
  }
  const ended = stats.curve.filter((run) => run.steps !== null);
  main.append(h("h1", null, "Statistics"));
  if (!stats.curve.length) {
    main.append(nothing("No runs are recorded yet.", "They are counted here as soon as there are any."));
    return;
  }
  main.append(
    h("dl", { class: "facts" }, fact("Recorded runs", count(stats.runs)), stats.durable ? fact("Durable runs", count(stats.durable)) : null, Object.entries(stats.statuses).map(([name, number]) => fact(name, count(number))),
      stats.cost === null ? null : fact("Cost", stats.cost.toFixed(2))),
    h("div", { class: "charts" }, curve(ended.map((run) => ({ value: run.steps, kind: run.status, title: `${run.user_input.slice(0, 60)}: ${run.steps} steps, ${run.status}, ${when(run.started_at)}` })),
      { label: "Learning curve: steps per run, and their average over ten" }),
    curve(ended.filter((run) => run.tokens !== null).map((run) => ({ value: run.tokens, kind: run.status, title: `${run.user_input.slice(0, 60)}: ${count(run.tokens)} tokens` })),
      { label: "Tokens per run, and their average over ten" })),
    h("h2", null, "Tools"), figures(stats.tools, "No tool was called."),
    h("h2", null, "Models"), figures(stats.models, "No model was asked.", true));
  if (stats.faults.length) {
    const most = Math.max(...stats.faults.map((one) => one.count));
    main.append(h("h2", null, "Faults"), h("table", { class: "figures" }, h("tbody", null, stats.faults.map((one) =>
      h("tr", null, h("th", { scope: "row" }, one.name), h("td", { class: "wide" }, bar(one.count, one.count, most)), h("td", null, count(one.count)))))));
  }
}

function figures(rows, nothing, hasTokens = false) {
  if (!rows.length) return h("p", { class: "quiet" }, nothing);
  const most = Math.max(...rows.map((row) => row.count));
  const names = ["Name", "", "Calls", "Failed", "p50", "p95", "p99", ...(hasTokens ? ["In", "Out"] : [])];
  return h("div", { class: "scroll" }, h("table", { class: "figures" },
    h("thead", null, h("tr", null, names.map((name) => h("th", { scope: "col", class: name ? null : "wide" }, name)))),
    h("tbody", null, rows.map((row) => h("tr", null,
      h("th", { scope: "row" }, row.name), h("td", { class: "wide" }, bar(row.count, row.failures, most)), h("td", null, count(row.count)),
      h("td", { class: row.failures ? "bad" : "" }, count(row.failures)), h("td", null, duration(row.p50)), h("td", null, duration(row.p95)), h("td", null, duration(row.p99)),
      hasTokens ? [h("td", null, count(row.input_tokens)), h("td", null, count(row.output_tokens))] : null)))));
}
