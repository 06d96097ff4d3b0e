// The list of runs, recorded and durable: newest first, searched as you type.

import { get } from "./api.js";
import { badge, chip, count, dayAndTime, duration, h, nothing } from "./dom.js";
import { price, verdict } from "./waterfall.js";

const AGES = [["", "any time"], [3600, "last hour"], [86_400, "last day"], [604_800, "last week"], [2_592_000, "last 30 days"]];

export async function runsPage(main, { query, signal }) {
  const search = h("input", { type: "search", id: "search", placeholder: "Search task, answer, model, id…", "aria-label": "Search runs", autocomplete: "off", spellcheck: "false" });
  search.value = query.get("search") ?? "";
  const status = h("select", { "aria-label": "Status" }, ["", "live", "pending", "running", "completed", "failed", "interrupted", "cancelled", "unfinished"]
    .map((value) => h("option", { value }, value || "any status")));
  status.value = query.get("status") ?? "";
  const tool = h("input", { type: "text", id: "tool", placeholder: "any tool", "aria-label": "Tool", autocomplete: "off", spellcheck: "false" });
  const mark = h("select", { "aria-label": "Mark" }, [["", "marked or not"], ["good", "marked good"], ["bad", "marked bad"], ["none", "not marked"]].map(([value, label]) => h("option", { value }, label)));
  const age = h("select", { "aria-label": "Time" }, AGES.map(([value, label]) => h("option", { value }, label)));
  const least = h("input", { type: "number", min: 0, step: "any", placeholder: "cost from", "aria-label": "Least cost" });
  const most = h("input", { type: "number", min: 0, step: "any", placeholder: "cost to", "aria-label": "Most cost" });
  const slow = h("input", { type: "number", min: 0, step: "any", placeholder: "seconds from", "aria-label": "Least seconds" });
  const fields = { status, tool, mark, age, least_cost: least, most_cost: most, least_seconds: slow };
  for (const [name, field] of Object.entries(fields)) field.value = query.get(name) ?? "";
  const filters = h("details", { class: "filters" }, h("summary", null, "Filters"), h("div", { class: "filter-row" }, tool, mark, age, least, most, slow));
  filters.open = Object.entries(fields).some(([name, field]) => name !== "status" && field.value);
  const list = h("ol", { class: "runs" });
  const more = h("button", { type: "button", class: "more", hidden: true }, "Show more");
  const said = h("p", { class: "quiet", role: "status" });
  const empty = h("div", { role: "status" });
  main.append(h("div", { class: "bar-top" }, h("h1", null, "Runs"), search, status), filters, said, empty, list, more);

  let next = null;
  let day = null;
  let turn = 0;
  async function load(from) {
    const mine = (turn += 1);
    const asked = new URLSearchParams({ limit: 50, search: search.value });
    for (const [name, field] of Object.entries(fields)) if (field.value && name !== "age") asked.set(name, field.value);
    if (age.value) asked.set("since", Date.now() / 1000 - Number(age.value));
    if (from) asked.set("before", from);
    const answer = await get(`/api/runs?${asked}`, { signal });
    if (mine !== turn) return;
    if (!from) {
      list.replaceChildren();
      day = null;
    }
    for (const run of answer.runs) {
      const moment = dayAndTime(run.started_at) ?? { day: "some day", time: "–" };
      if (moment.day !== day) list.append(h("li", { class: "day" }, h("h2", null, (day = moment.day))));
      list.append(row(run, moment.time));
    }
    const shown = list.querySelectorAll("a.run").length;
    next = answer.next;
    more.hidden = !next;
    const filtered = search.value || Object.values(fields).some((field) => field.value);
    const inAll = answer.total === null ? "" : `, ${count(answer.total)} in the store`;
    said.textContent = shown ? `${count(shown)}${next ? "+" : ""} ${filtered ? "found" : "shown"}${inAll}` : "";
    empty.replaceChildren(shown ? "" : filtered
      ? nothing("Nothing matches.", answer.total === null ? "" : `None of the ${count(answer.total)} runs in the store.`)
      : nothing("No runs are recorded yet.", "Run an agent with a Recorder, or ask from the command line:", 'wesichain ask "What is 17 * 23?"'));
  }

  let timer = 0;
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const kept = new URLSearchParams();
      if (search.value) kept.set("search", search.value);
      for (const [name, field] of Object.entries(fields)) if (field.value) kept.set(name, field.value);
      history.replaceState(null, "", kept.size ? `#/?${kept}` : "#/");
      load().catch(() => {});
    }, 150);
  };
  search.addEventListener("input", again);
  for (const field of Object.values(fields)) field.addEventListener("input", again);
  more.addEventListener("click", () => load(next));
  await load();
}

function row(run, time) {
  return h("li", null, h("a", { class: "run", href: `#/runs/${encodeURIComponent(run.id)}` },
    h("span", { class: "task" }, run.user_input || "(no task)"),
    h("span", { class: "chips" }, evaluated(run.evaluation), verdict(run.mark), badge(run.status)),
    h("span", { class: "result" }, run.result),
    h("span", { class: "meta" },
      run.agent ? h("span", { class: "agent" }, run.agent) : null,
      run.parent ? h("span", null, `inside ${run.parent}`) : null,
      run.stored && run.status === "pending" && !run.served ? h("span", { class: "bad" }, "no worker of its version") : null,
      h("span", { class: "model" }, run.model),
      run.steps === null ? null : h("span", null, `${run.steps} step${run.steps === 1 ? "" : "s"}`),
      run.duration === null ? null : h("span", null, duration(run.duration * 1000)),
      run.tokens === null ? null : h("span", null, `${count(run.tokens)} tokens`),
      run.cost === null ? null : h("span", null, `cost ${price(run.cost)}`),
      h("time", null, time))));
}

function evaluated(found) {
  return found ? chip(found.passed ? "passed" : "not passed", found.passed ? "completed" : "bad", `case ${found.case}`) : "";
}
