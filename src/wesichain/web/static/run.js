// The page of a run: facts, graph, timeline; live while the run is active.

import { agentPath, download, follow, get, post, runPath } from "./api.js";
import { waitingCard } from "./approvals.js";
import { badge, chip, h, when } from "./dom.js";
import { PathTaken } from "./graph.js";
import { isRaw, setRaw } from "./markdown.js";
import { Timeline } from "./timeline.js";
import { Waterfall } from "./waterfall.js";

const FRESH = 120; // seconds after the last event for which a run without an end is called live
const UNDER_WAY = ["pending", "running"]; // durable runs that are or will be worked on

export async function runPage(main, { args: [id], signal, announce, reload }) {
  const { agent } = await get("/api/info", { signal });
  let page = await get(runPath(id, "?limit=300"), { signal }); // a small one first, to be shown early
  const trouble = h("p", { class: "notice", role: "alert", hidden: true });
  const attempt = (work) => work().catch((error) => {
    trouble.textContent = error.message;
    trouble.hidden = false;
  });
  const onFork = agent ? (step) => attempt(async () => {
    const begun = await post(runPath(id, "/fork"), { step });
    announce(`Forked at step ${step}.`);
    location.hash = `#/runs/${encodeURIComponent(begun.run_id)}`;
  }) : null;
  const timeline = new Timeline({ prices: page.prices, approvals: true, title: page.run.user_input, onFork, loadPart: (digest) => loadPart(id, digest) });
  const water = new Waterfall({ costOf: (event) => timeline.costOf(event) });
  const waterfall = h("div");
  const path = new PathTaken();
  const facts = h("div");
  const graphs = h("div");
  const mark = h("span", null, badge(page.run.status));
  const problems = h("div");
  const stop = h("button", { type: "button", class: "refuse stop", hidden: true, onclick: () => attempt(() => post(agentPath(page.run.run_id, "/cancel"), {})) }, "Stop");
  const stored = page.run.stored ? new StoredRun(page.run, { signal, attempt, announce, reload }) : null;
  main.append(
    h("div", { class: "run-head" },
      h("h1", { class: "task" }, page.run.user_input || "(no task)"),
      h("p", { class: "meta" }, mark, h("span", null, when(page.run.started_at)), stored?.facts, h("span", null, page.run.model),
        h("code", { class: "id" }, page.run.run_id), h("a", { href: `#/diff?a=${encodeURIComponent(page.run.id)}` }, "Compare"))),
    h("div", { class: "run-tools" }, markForm(page.run, attempt, announce),
      h("span", { class: "spread" }),
      h("label", { class: "switch" }, h("input", { type: "checkbox", id: "raw", checked: isRaw(), onchange: (event) => {
        setRaw(event.target.checked);
        reload();
      } }), " Raw text"),
      h("button", { type: "button", class: "export", onclick: () => attempt(() => save(id)) }, "Export"), stop, stored?.actions), trouble, stored?.waiting ?? "",
    scores(page.run.evaluation), facts, problems, waterfall, graphs, timeline.root);

  let hasGraph = false;
  function take(events) {
    for (const event of events) {
      timeline.add(event);
      water.add(event);
      hasGraph = path.add(event) || hasGraph;
    }
    facts.replaceChildren(timeline.facts());
    if (events.some((event) => event.kind !== "text_delta")) waterfall.replaceChildren(water.draw((row) => timeline.goTo(row.scope, row.step)) ?? "");
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
      await new Promise((resolve) => setTimeout(resolve)); // let the browser show the first page
      page = await get(runPath(id, `?cursor=${page.next}&limit=5000`), { signal });
      take(page.events);
      tell(page.problems);
      last = page.events.at(-1)?.seq ?? last;
    }
    main.dataset.loaded = timeline.numbers.events;
    timeline.drawWhenIdle();
    await stored?.draw();
    const isFresh = Date.now() / 1000 - (timeline.last ?? 0) < FRESH;
    const shown = () => stored?.run.status ?? (timeline.status !== "unfinished" ? timeline.status : isFresh ? "live" : "unfinished");
    mark.replaceChildren(badge(shown()));
    if (stored ? stored.isOver : timeline.status !== "unfinished") return;
    stop.hidden = Boolean(stored) || !agent || !isFresh;
    await follow(id, {
      live: agent && !stored && page.run.run_id,
      after: last,
      signal,
      onEvents(events) {
        const atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
        take(events);
        timeline.drawAll();
        mark.replaceChildren(badge(stored || timeline.status === "unfinished" ? "live" : timeline.status));
        if (atEnd) window.scrollTo({ top: document.body.scrollHeight });
      },
      onEnd: () => attempt(async () => {
        stop.hidden = true;
        await stored?.look();
        mark.replaceChildren(badge(stored?.run.status ?? timeline.status));
      }),
    });
  };
  loadRest().catch((error) => signal.aborted || tell([error.message]));
}

// A durable run: its agent, its waiting calls, and the buttons that cancel and resume it.
class StoredRun {
  constructor(run, { signal, attempt, announce, reload }) {
    this.run = run;
    this.signal = signal;
    this.again = { announce, reload };
    const act = (verb, label, kind) => h("button", { type: "button", class: `${verb} ${kind}`, hidden: true, onclick: (event) => attempt(async () => {
      event.target.disabled = true;
      try {
        const now = (await post(runPath(run.id, `/${verb}`), {})).run;
        announce(`The run is ${now.status}.`);
        reload();
      } finally {
        event.target.disabled = false;
      }
    }) }, label);
    this.cancel = act("cancel", "Cancel", "refuse");
    this.resume = act("resume", "Resume", "approve");
    this.actions = [this.cancel, this.resume];
    this.waiting = h("ol", { class: "approvals" });
    this.facts = [h("span", { class: "agent" }, run.agent), h("span", null, `version ${run.version.slice(0, 12)}`),
      run.parent ? h("a", { href: `#/runs/${encodeURIComponent(run.parent)}` }, `inside ${run.parent}`) : null,
      run.status === "pending" && !run.served ? h("span", { class: "bad" }, "no worker of its version") : null,
      run.error ? h("span", { class: "bad" }, run.error) : null];
  }

  get isOver() {
    return !UNDER_WAY.includes(this.run.status);
  }

  // Requests its current state.
  async look() {
    this.run = (await get(runPath(this.run.id, "?limit=1"), { signal: this.signal })).run;
    await this.draw();
  }

  async draw() {
    const { run } = this;
    const waits = run.status === "interrupted" && !run.parent
      ? (await get("/api/approvals", { signal: this.signal })).approvals.filter((item) => item.run_id === run.run_id) : [];
    this.waiting.replaceChildren(...waits.map((item) => waitingCard(item, this.again.announce, () => this.again.reload())));
    this.cancel.hidden = Boolean(run.parent) || ![...UNDER_WAY, "interrupted"].includes(run.status);
    this.resume.hidden = Boolean(run.parent) || waits.length > 0 || !["cancelled", "failed", "interrupted"].includes(run.status);
  }
}

// The result of an evaluation.
function scores(found) {
  if (!found) return "";
  const said = found.scores.map(({ name, value, why }) => h("li", null, chip(`${name} ${Number(value.toFixed(2))}`, value >= 0.5 ? "completed" : "bad"), why ? ` ${why}` : ""));
  return h("section", { class: "scores", "aria-label": "Evaluation" },
    h("p", null, `Evaluated as case ${found.case}: `, h("strong", null, found.passed ? "passed" : "not passed")), h("ul", null, said));
}

// The human label of the run, for the Learner.
function markForm(run, attempt, announce) {
  const why = h("input", { type: "text", class: "why", placeholder: "Why? (optional)", "aria-label": "Why" });
  why.value = run.mark?.why ?? "";
  let now = run.mark?.good ?? null;
  const buttons = [[true, "good", "Good"], [false, "bad", "Bad"]].map(([good, kind, label]) => {
    const button = h("button", { type: "button", class: `mark ${kind}`, onclick: () => put(now === good ? null : good) }, label);
    return [good, button];
  });
  const draw = () => buttons.forEach(([good, button]) => button.setAttribute("aria-pressed", String(now === good)));
  function put(good) {
    return attempt(async () => {
      await post(runPath(run.id, "/mark"), { good, why: why.value });
      now = good;
      draw();
      announce(good === null ? "The mark is taken back." : `Marked as ${good ? "good" : "bad"}.`);
    });
  }
  why.addEventListener("change", () => now !== null && put(now));
  draw();
  return h("div", { class: "marks", role: "group", "aria-label": "Mark this run" }, buttons.map(([, button]) => button), why);
}

async function loadPart(id, digest) {
  const bytes = new Uint8Array(await (await download(runPath(id, `/parts/${digest}`))).arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

async function save(id) {
  const file = await download(runPath(id, "/export"));
  const link = h("a", { href: URL.createObjectURL(file), download: `${id}.html` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
