// The list of runs: newest first, searched as you type.

import { get } from "./api.js";
import { badge, count, dayAndTime, duration, h, money, nothing } from "./dom.js";

export async function runsPage(main, { query, signal }) {
  const search = h("input", { type: "search", id: "search", placeholder: "Search task, answer, model, id…", "aria-label": "Search runs", autocomplete: "off", spellcheck: "false" });
  search.value = query.get("search") ?? "";
  const status = h("select", { "aria-label": "Status" }, ["", "completed", "failed", "interrupted", "unfinished"]
    .map((value) => h("option", { value }, value || "any status")));
  status.value = query.get("status") ?? "";
  const list = h("ol", { class: "runs" });
  const more = h("button", { type: "button", class: "more", hidden: true }, "Show more");
  const said = h("p", { class: "quiet", role: "status" });
  const empty = h("div", { role: "status" });
  main.append(h("div", { class: "bar-top" }, h("h1", null, "Runs"), search, status), said, empty, list, more);

  let next = null;
  let day = null;
  let turn = 0;
  async function load(from) {
    const mine = (turn += 1);
    const asked = new URLSearchParams({ limit: 50, search: search.value, status: status.value });
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
    const filtered = search.value || status.value;
    said.textContent = shown
      ? `${count(shown)}${next ? "+" : ""} ${filtered ? "found" : "shown"}, ${count(answer.total)} in the store`
      : "";
    empty.replaceChildren(shown ? "" : filtered
      ? nothing("Nothing matches.", `None of the ${count(answer.total)} runs in the store.`)
      : nothing("No runs are recorded yet.", "Run an agent with a Recorder, or ask from the command line:", 'wesichain ask "What is 17 * 23?"'));
  }

  let timer = 0;
  const again = () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const kept = new URLSearchParams();
      if (search.value) kept.set("search", search.value);
      if (status.value) kept.set("status", status.value);
      history.replaceState(null, "", kept.size ? `#/?${kept}` : "#/");
      load().catch(() => {});
    }, 150);
  };
  search.addEventListener("input", again);
  status.addEventListener("change", again);
  more.addEventListener("click", () => load(next));
  await load();
}

function row(run, time) {
  const usage = run.usage;
  const cost = money(usage, run.price);
  return h("li", null, h("a", { class: "run", href: `#/runs/${encodeURIComponent(run.id)}` },
    h("span", { class: "task" }, run.user_input || "(no task)"),
    badge(run.status),
    h("span", { class: "result" }, run.result),
    h("span", { class: "meta" },
      h("span", { class: "model" }, run.model),
      run.steps === null ? null : h("span", null, `${run.steps} step${run.steps === 1 ? "" : "s"}`),
      run.duration === null ? null : h("span", null, duration(run.duration * 1000)),
      usage ? h("span", null, `${count(usage.input_tokens + usage.output_tokens)} tokens`) : null,
      cost === null ? null : h("span", null, `cost ${cost}`),
      h("time", null, time))));
}
