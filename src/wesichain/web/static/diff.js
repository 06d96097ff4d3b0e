// The differences between two runs, side by side.

import { get } from "./api.js";
import { badge, chip, count, h, textBlock, when } from "./dom.js";

const NAMES = {
  run_started: "start", step_started: "messages to the model", model_responded: "reply of the model", tool_dispatched: "tool call",
  tool_completed: "tool result", step_failed: "fault", run_completed: "answer", run_failed: "failure", run_interrupted: "interruption",
};

export async function diffPage(main, { query, signal }) {
  const { runs } = await get("/api/runs?limit=200", { signal });
  const pick = (side) => {
    const chosen = query.get(side) ?? "";
    const known = runs.some((run) => run.id === chosen) || !chosen ? runs : [{ id: chosen, user_input: chosen, started_at: null }, ...runs];
    const select = h("select", { "aria-label": side === "a" ? "First run" : "Second run", id: `pick-${side}` },
      h("option", { value: "" }, "Choose a run…"),
      known.map((run) => h("option", { value: run.id }, `${run.user_input.slice(0, 60) || run.id} · ${when(run.started_at)}`)));
    select.value = chosen;
    select.addEventListener("change", () => {
      const asked = new URLSearchParams(query);
      asked.set(side, select.value);
      location.hash = `#/diff?${asked}`;
    });
    return h("div", { class: "pick" }, h("label", null, side === "a" ? "First" : "Second", select));
  };
  const picks = [pick("a"), pick("b")];
  main.append(h("h1", null, "Compare two runs"), h("div", { class: "picks" }, picks));
  const [a, b] = [query.get("a"), query.get("b")];
  if (!a || !b) return;
  const found = await get(`/api/diff?${new URLSearchParams({ a, b })}`, { signal });
  main.append(h("p", { class: "verdict" }, found.total === 0
    ? "The two runs are the same, but for times and ids."
    : `They part in step ${found.differences[0].step_id}; ${count(found.total)} difference${found.total === 1 ? "" : "s"} in all.`));
  picks[0].append(about(found.a));
  picks[1].append(about(found.b));
  main.append(h("ol", { class: "differences" }, found.differences.map(difference)));
  if (found.total > found.differences.length) main.append(h("p", { class: "quiet" }, `The first ${found.differences.length} are shown.`));
}

function about(run) {
  return h("p", { class: "meta" }, badge(run.status), h("span", null, run.model), h("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, "Open the run"));
}

function difference({ step_id: step, left, right, changes }, index) {
  const event = left ?? right;
  const head = h("header", null, h("h3", null, `Step ${step} · ${NAMES[event.kind] ?? event.kind}`),
    event.scope ? chip(event.scope, "scope") : null, index === 0 ? chip("they part here", "warn") : null);
  const alone = left && right ? null : chip(left ? "only in the first" : "only in the second", left ? "left" : "right");
  if (alone) {
    head.append(alone);
    return h("li", { class: "card" }, head, textBlock(brief(event)));
  }
  return h("li", { class: "card" }, head, changes.map((change) => h("div", { class: "change" },
    h("code", { class: "path" }, change.path), textBlock(change.left, "left"), textBlock(change.right, "right"))));
}

// The fields of an event, without those that all events have.
function brief({ kind, run_id, step_id, seq, at, scope, ...rest }) {
  return rest;
}
