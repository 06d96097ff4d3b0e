// The chat with the agent: streamed turns, with the steps of each answer.

import { agentPath, follow, get, post, runPath, startRun } from "./api.js";
import { waitingCard } from "./approvals.js";
import { badge, chip, h, nothing } from "./dom.js";
import { prose } from "./markdown.js";
import { Timeline } from "./timeline.js";

const KEPT = "wesichain-talk"; // the conversation of this tab
const empty = () => ({ conversation: [...crypto.getRandomValues(new Uint32Array(4))].join("-"), runs: [] });

export async function talkPage(main, { signal, announce }) {
  const { agent } = await get("/api/info", { signal });
  if (!agent) {
    main.append(h("h1", null, "Talk"), nothing("There is no agent to talk to.", "How to start the server with one of yours:", "wesichain serve --help"));
    return;
  }
  let kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null") ?? empty();
  const turns = h("ol", { class: "turns", "aria-label": "The conversation" });
  const field = h("textarea", { id: "task", rows: 2, placeholder: "What shall it do?", title: "Enter sends; Shift and Enter begins a new line", "aria-label": "Task" });
  const send = h("button", { type: "submit", class: "approve" }, "Send");
  const stop = h("button", { type: "button", class: "refuse", hidden: true }, "Stop");
  const problem = h("p", { class: "notice", role: "alert", hidden: true });
  const fresh = h("button", { type: "button", class: "fresh", onclick: () => {
    kept = empty();
    save();
    turns.replaceChildren();
    field.focus();
  } }, "New conversation");
  const form = h("form", { class: "ask", onsubmit: (event) => {
    event.preventDefault();
    ask();
  } }, field, h("div", { class: "buttons" }, send, stop));
  main.append(
    h("div", { class: "bar-top" }, h("h1", null, agent.name), fresh),
    h("p", { class: "tools" }, agent.description || `answers with ${agent.model}`, " ", agent.tools.map((tool) => chip(tool.name, "tool", tool.description))),
    turns, problem, form);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      ask();
    }
  });

  function save() {
    sessionStorage.setItem(KEPT, JSON.stringify({ ...kept, runs: kept.runs.slice(-50) }));
  }

  async function ask() {
    const task = field.value.trim();
    if (!task || send.disabled) return;
    send.disabled = true;
    problem.hidden = true;
    try {
      const { id, answer } = await startRun(task, kept.conversation, signal);
      field.value = "";
      kept.runs.push(id);
      save();
      await turn(id, task, answer);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    } finally {
      send.disabled = false;
      if (!signal.aborted) field.focus();
    }
  }

  // One turn: the question, the text so far, and the answer. `answer` has the events of a new run.
  async function turn(id, task, answer = null) {
    const timeline = new Timeline({ title: task });
    const said = h("div", { class: "said" }, h("p", { class: "waiting" }, "thinking…"));
    const steps = h("summary", null, "Steps");
    const open = h("a", { href: `#/runs/${encodeURIComponent(id)}` }, "Open the run");
    const asked = h("div", { class: "asked" });
    turns.append(h("li", { class: "turn" }, h("div", { class: "user", dir: "auto" }, task), asked, said,
      h("details", { class: "how" }, steps, timeline.root), h("p", { class: "meta" }, open)));
    let text = "";
    let live = null;
    const decided = new Set();
    stop.hidden = false;
    stop.onclick = () => post(agentPath(id, "/cancel"), {}).catch(() => {});
    const take = (events) => {
      const atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 120;
      for (const event of events) {
        timeline.add(event);
        if (event.scope) continue;
        if (event.kind === "text_delta") {
          if (!live) said.replaceChildren((live = h("pre", { class: "text prose live" })));
          text += event.text ?? "";
          live.append(event.text ?? "");
        } else if (event.kind === "step_started" || event.kind === "tool_dispatched") {
          text = "";
          live = null;
          said.replaceChildren(h("p", { class: "waiting" }, event.kind === "step_started" ? "thinking…" : `running ${event.call?.name}…`));
        } else if (event.kind === "run_completed") said.replaceChildren(prose(event.output, "answer"));
        else if (event.kind === "run_failed") said.replaceChildren(h("div", { class: "fault" }, h("strong", null, event.error), prose(event.message ?? "")));
        else if (event.kind === "run_interrupted") said.replaceChildren(h("p", null, badge("interrupted"), " ", event.reason));
      }
      steps.textContent = `${timeline.ownSteps()} step${timeline.ownSteps() === 1 ? "" : "s"}, ${timeline.numbers.calls} tool call${timeline.numbers.calls === 1 ? "" : "s"}`;
      timeline.drawAll();
      if (atEnd) window.scrollTo({ top: document.body.scrollHeight });
    };
    let last = -1;
    for (;;) {
      let ended = false;
      await follow(id, { live: id, answer, after: last, signal, onEvents(events) {
        last = Math.max(last, events.at(-1).seq);
        take(events);
      }, onEnd() {
        ended = true;
      } });
      answer = null;
      if (signal.aborted || !ended) break;
      if (timeline.status !== "interrupted") break;
      // It waits for approval: the calls are decided here, then the run continues.
      const { approvals } = await get("/api/approvals", { signal });
      const waiting = approvals.filter((item) => item.run_id === id && !decided.has(item.token));
      if (!waiting.length) break;
      await new Promise((resolve) => {
        let left = waiting.length;
        asked.replaceChildren(...waiting.map((item) => waitingCard(item, announce, () => {
          decided.add(item.token);
          left -= 1;
          if (!left) resolve();
        })));
        signal.addEventListener("abort", resolve);
      });
      if (signal.aborted) break;
      asked.replaceChildren();
    }
    stop.hidden = true;
    announce(timeline.status === "completed" ? "The answer is there." : `The run is ${timeline.status}.`);
  }

  for (const id of kept.runs) {
    try {
      const page = await get(runPath(id, "?limit=1"), { signal });
      turn(id, page.run.user_input).catch(() => {});
    } catch {
      // the run no longer exists
    }
  }
  field.focus();
}
