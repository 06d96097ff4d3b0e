// Durable runs: the list of a database, and one of its runs as it happens.

import { followPath, get, post } from "./api.js";
import { badge, h, nothing, when } from "./dom.js";
import { Timeline } from "./timeline.js";

export async function durablePage(main, { args: [id], query, signal, announce, reload }) {
  if (id) {
    await onePage(main, id, { signal, announce, reload });
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

const UNDER_WAY = ["pending", "running"];

async function onePage(main, id, { signal, announce, reload }) {
  const path = `/api/database/${encodeURIComponent(id)}`;
  let { run } = await get(path, { signal });
  const timeline = new Timeline({ approvals: true });
  const facts = h("div");
  const mark = h("span");
  const trouble = h("p", { class: "notice", role: "alert", hidden: true });
  function fail(error) {
    trouble.textContent = error.message;
    trouble.hidden = false;
  }
  const act = (verb, label, kind) => h("button", { type: "button", class: `${verb} ${kind}`, onclick: async (event) => {
    event.target.disabled = true;
    try {
      ({ run } = await post(`${path}/${verb}`, {}));
      announce(`The run is ${run.status}.`);
      reload();
    } catch (error) {
      fail(error);
      event.target.disabled = false;
    }
  } }, label);
  const cancel = act("cancel", "Cancel", "refuse");
  const resume = act("resume", "Resume", "approve");
  async function draw() {
    const waits = run.status === "interrupted" && (await get("/api/approvals", { signal })).approvals.some((item) => item.run_id === id);
    mark.replaceChildren(badge(run.status));
    cancel.hidden = run.parent || ![...UNDER_WAY, "interrupted"].includes(run.status);
    resume.hidden = run.parent || waits || !["cancelled", "failed", "interrupted"].includes(run.status);
  }
  await draw();
  main.append(h("div", { class: "run-head" }, h("h1", { class: "task" }, id),
    h("p", { class: "meta" }, mark, h("span", null, run.agent), run.parent ? h("a", { href: `#/durable/${encodeURIComponent(run.parent)}` }, `inside ${run.parent}`) : null,
      h("a", { href: "#/durable" }, "All durable runs"), cancel, resume)), trouble, facts, timeline.root);
  followPath(`${path}/events`, { after: -1, signal, onEvents(events) {
    for (const event of events) timeline.add(event);
    timeline.drawAll();
    facts.replaceChildren(timeline.facts());
    if (timeline.status === "unfinished" && UNDER_WAY.includes(run.status)) mark.replaceChildren(badge("live"));
  }, onEnd() {
    get(path, { signal }).then((now) => {
      run = now.run;
      return draw();
    }).catch((error) => signal.aborted || fail(error));
  } });
}
