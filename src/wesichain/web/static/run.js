// One run: facts, the graph where there is one, the timeline; live while the run goes on.

import { follow, get, runPath } from "./api.js";
import { badge, h, when } from "./dom.js";
import { PathTaken } from "./graph.js";
import { Timeline } from "./timeline.js";

const FRESH = 120; // seconds after which a run without an end is not called live any more

export async function runPage(main, { args: [id], signal }) {
  let page = await get(runPath(id, "?limit=300"), { signal }); // a small one first: it is soon seen
  const timeline = new Timeline({ prices: page.prices, approvals: true, title: page.run.user_input });
  const path = new PathTaken();
  const facts = h("div");
  const graphs = h("div");
  const mark = h("span", null, badge(page.run.status));
  const problems = h("div");
  main.append(
    h("div", { class: "run-head" },
      h("h1", { class: "task" }, page.run.user_input || "(no task)"),
      h("p", { class: "meta" }, mark, h("span", null, when(page.run.started_at)), h("span", null, page.run.model),
        h("code", { class: "id" }, page.run.run_id), h("a", { href: `#/diff?a=${encodeURIComponent(page.run.id)}` }, "Compare"))),
    facts, problems, graphs, timeline.root);

  let hasGraph = false;
  function take(events) {
    for (const event of events) {
      timeline.add(event);
      hasGraph = path.add(event) || hasGraph;
    }
    facts.replaceChildren(timeline.facts());
    if (hasGraph) graphs.replaceChildren(...path.draw());
  }
  function tell(found) {
    problems.append(...found.map((problem) => h("p", { class: "notice" }, problem)));
  }

  take(page.events);
  tell(page.problems);
  const loadRest = async () => {
    let last = page.events.at(-1)?.seq ?? -1;
    while (page.next !== null && !signal.aborted) {
      await new Promise((resolve) => setTimeout(resolve)); // let the first page be seen, and clicked
      page = await get(runPath(id, `?cursor=${page.next}&limit=5000`), { signal });
      take(page.events);
      tell(page.problems);
      last = page.events.at(-1)?.seq ?? last;
    }
    main.dataset.loaded = timeline.numbers.events;
    timeline.drawWhenIdle();
    if (timeline.status !== "unfinished") {
      mark.replaceChildren(badge(timeline.status));
      return;
    }
    const isFresh = Date.now() / 1000 - (timeline.last ?? 0) < FRESH;
    mark.replaceChildren(badge(isFresh ? "live" : "unfinished"));
    await follow(id, {
      after: last,
      signal,
      onEvents(events) {
        const atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
        take(events);
        timeline.drawAll();
        mark.replaceChildren(badge(timeline.status === "unfinished" ? "live" : timeline.status));
        if (atEnd) window.scrollTo({ top: document.body.scrollHeight });
      },
      onEnd() {
        mark.replaceChildren(badge(timeline.status));
      },
    });
  };
  loadRest().catch((error) => signal.aborted || tell([error.message]));
}
