// The timeline of a run: turns events into cards, for finished and live runs.
//
// Events are counted when they arrive and drawn when they become visible: of a run of ten thousand events the
// visible part is drawn at once, then the part that is scrolled to, and the rest while the browser is idle.

import { chip, count, duration, fact, h, jsonText, textBlock, badge } from "./dom.js";
import { contentOf, prose } from "./markdown.js";
import { branch, branchName, price } from "./waterfall.js";

const AT_ONCE = 30; // items that are drawn at once
const AHEAD = "1500px 0px"; // of the screen

export class Timeline {
  constructor({ prices = {}, approvals = false, title = "", onFork = null, loadPart = null } = {}) {
    this.loadPart = loadPart; // the bytes of a part by its hash, as base64
    this.onFork = onFork; // forks the run at a step, if there is an agent
    this.root = h("ol", { class: "timeline", "aria-label": "What happened, in order" });
    this.prices = prices;
    this.approvals = approvals;
    this.title = title; // the task, if the page shows it already
    this.status = "unfinished";
    this.first = this.last = null;
    this.usage = { input_tokens: 0, output_tokens: 0 };
    this.cost = null;
    this.numbers = { events: 0, own: 0, nested: 0, calls: 0, faults: 0 };
    this.models = new Map(); // scope -> model
    this.steps = new Map(); // scope and step -> item
    this.calls = new Map(); // scope and call id -> item
    this.nodes = new Map(); // scope and branch of a graph -> items that wait for its end
    this.tails = new Map(); // scope of what runs inside a branch -> the last element there
    this.undrawn = new Map(); // element -> item, in order
    this.watcher = new IntersectionObserver((seen) => {
      for (const { isIntersecting, target } of seen) if (isIntersecting) this.draw(this.undrawn.get(target));
    }, { rootMargin: AHEAD });
  }

  add(event) {
    this.numbers.events += 1;
    this.first ??= event.at;
    this.last = event.at;
    if (!event.scope) this.numbers.own = Math.max(this.numbers.own, event.step_id ?? 0);
    COUNTED[event.kind]?.(this, event);
    const item = PLACED[event.kind]?.(this, event);
    if (!item) return;
    if (this.undrawn.has(item.root)) item.events.push(event);
    else SHOWN[event.kind](this, event, item);
  }

  // A new item, at the end, or at the end of its branch. Its events fill it.
  put(event, kind) {
    const depth = event.scope ? Math.min(6, event.scope.split("/").length) : 0;
    const item = { root: h("li", { class: `item ${kind} depth-${depth}` }), events: [] };
    this.place(item.root, event.scope ?? "");
    if (this.root.children.length > AT_ONCE) {
      this.undrawn.set(item.root, item);
      this.watcher.observe(item.root);
    }
    return item;
  }

  // Branches run concurrently and their events are interleaved: each branch is shown below the row of its node.
  place(element, scope) {
    const parts = scope.split("/");
    const around = parts.map((_, index) => parts.slice(0, index + 1).join("/")).filter((one) => this.tails.has(one));
    const last = around.length ? this.tails.get(around.at(-1)) : null;
    if (last) last.after(element);
    else this.root.append(element);
    for (const one of around) if (this.tails.get(one) === last) this.tails.set(one, element);
  }

  draw(item) {
    if (!item || !this.undrawn.delete(item.root)) return;
    this.watcher.unobserve(item.root);
    for (const event of item.events) SHOWN[event.kind](this, event, item);
    item.events = [];
  }

  drawAll() {
    for (const item of [...this.undrawn.values()]) this.draw(item);
  }

  // Draws the rest piece by piece while the page is open, so that it can be searched and printed.
  drawWhenIdle() {
    const idle = window.requestIdleCallback ?? ((work) => setTimeout(() => work({ timeRemaining: () => 8 }), 20));
    const some = (deadline) => {
      if (!this.root.isConnected) return;
      for (const item of this.undrawn.values()) {
        this.draw(item);
        if (deadline.timeRemaining() < 2) break;
      }
      if (this.undrawn.size) idle(some);
    };
    idle(some);
  }

  // The steps of the run itself, as a list of runs counts them.
  ownSteps() {
    return this.numbers.own;
  }

  // The cost of a reply: from the event, else by the prices; null if unknown.
  costOf(event) {
    if (event.cost) return event.cost;
    const rows = this.prices[this.models.get(event.scope ?? "")];
    return rows ? charge(event.response?.usage ?? {}, rows) : null;
  }

  // Shows a step of the run and focuses it.
  goTo(scope, number) {
    const item = this.steps.get(`${scope}\n${number}`);
    if (!item) return;
    this.draw(item);
    item.root.scrollIntoView({ block: "start" });
    item.root.querySelector(".card")?.focus({ preventScroll: true });
  }

  facts() {
    const seconds = this.first === null ? null : Math.max(0, this.last - this.first);
    return h("dl", { class: "facts" },
      fact("Time", seconds === null ? "–" : duration(seconds * 1000)),
      fact("Steps", count(this.ownSteps())),
      this.numbers.nested ? fact("Steps inside", count(this.numbers.nested)) : null,
      fact("Tool calls", count(this.numbers.calls)),
      fact("Tokens in", count(this.usage.input_tokens)),
      fact("Tokens out", count(this.usage.output_tokens)),
      this.cost === null ? null : fact("Cost", price(this.cost)),
      fact("Faults", count(this.numbers.faults), this.numbers.faults ? "bad" : ""));
  }

  // The tokens of a reply.
  spent(event) {
    const usage = event.response?.usage ?? {};
    return { input_tokens: usage.input_tokens ?? 0, output_tokens: usage.output_tokens ?? 0 };
  }
}

// The cost of a reply by the price rows of its model: the row with the highest limit below its input tokens.
// Cached tokens are charged once, at the cache's price.
export function charge(usage, rows) {
  const read = usage.input_tokens ?? 0;
  const cached = usage.cache_read_tokens ?? 0;
  const stored = usage.cache_write_tokens ?? 0;
  const [, input, output, cacheRead, cacheWrite] = rows.findLast(([over]) => read > over);
  const fresh = Math.max(0, read - cached - stored);
  return (fresh * input + cached * cacheRead + stored * cacheWrite + (usage.output_tokens ?? 0) * output) / 1e6;
}

// --- counting events ---

const COUNTED = {
  run_started(line, event) {
    line.models.set(event.scope ?? "", event.model);
    if (!event.scope) line.status = "unfinished";
  },
  model_responded(line, event) {
    const spent = line.spent(event);
    const cost = line.costOf(event);
    line.usage.input_tokens += spent.input_tokens;
    line.usage.output_tokens += spent.output_tokens;
    if (cost !== null) line.cost = (line.cost ?? 0) + cost;
  },
  tool_dispatched(line) {
    line.numbers.calls += 1;
  },
  step_failed(line) {
    line.numbers.faults += 1;
  },
  node_failed(line) {
    line.numbers.faults += 1;
  },
  run_completed(line, event) {
    if (!event.scope) line.status = "completed";
  },
  run_failed(line, event) {
    if (!event.scope) line.status = "failed";
  },
  run_interrupted(line, event) {
    if (!event.scope) line.status = "interrupted";
  },
};

// --- the item of an event ---

const scoped = (event, name) => `${event.scope ?? ""}\n${name}`;

function step(line, event) {
  const key = scoped(event, event.step_id);
  if (!line.steps.has(key)) {
    line.steps.set(key, line.put(event, "step"));
    if (event.scope) line.numbers.nested += 1;
  }
  return line.steps.get(key);
}

const PLACED = {
  run_started: (line, event) => line.put(event, "edge"),
  step_started: step,
  text_delta: step,
  output_delta: step,
  context_reduced: step,
  content_omitted: step,
  advice_shown: (line, event) => line.put(event, "node"),
  tools_offered: step,
  handed_off: (line, event) => line.put(event, "edge"),
  tool_progress: (line, event) => line.calls.get(scoped(event, event.call_id)),
  model_responded: step,
  tool_dispatched(line, event) {
    const item = step(line, event);
    line.calls.set(scoped(event, event.call?.id), item);
    return item;
  },
  tool_completed: (line, event) => line.calls.get(scoped(event, event.call_id)),
  step_failed: (line, event) => (event.call_id && line.calls.get(scoped(event, event.call_id))) || step(line, event),
  run_completed: (line, event) => line.put(event, "edge completed"),
  run_failed: (line, event) => line.put(event, "edge failed"),
  run_interrupted: (line, event) => line.put(event, "edge interrupted"),
  node_started(line, event) {
    const key = scoped(event, branch(event));
    const item = line.put(event, "node");
    line.tails.set(event.scope ? `${event.scope}/${branch(event)}` : branch(event), item.root);
    line.nodes.set(key, [...(line.nodes.get(key) ?? []), item]);
    return item;
  },
  node_completed: (line, event) => line.nodes.get(scoped(event, branch(event)))?.shift(),
  node_failed: (line, event) => line.nodes.get(scoped(event, branch(event)))?.shift() ?? line.put(event, "node"),
  checkpoint_saved: (line, event) => line.put(event, "node"),
};

// --- drawing ---

// The card of a step, created by its first event.
function card(line, event, item) {
  if (!item.body) {
    item.chips = h("span", { class: "chips" });
    item.body = h("div", { class: "body" });
    item.rows = new Map(); // call id -> the row of its outcome
    const forks = line.onFork && !event.scope;
    item.root.append(h("article", { class: "card", tabindex: "0" },
      h("header", null, h("h3", null, `Step ${event.step_id}`),
        forks ? h("button", { type: "button", class: "fork", title: "Run again from this step on", onclick: () => line.onFork(event.step_id) }, "Fork here") : null, event.scope ? chip(event.scope, "scope", "the nested run") : null, item.chips), item.body));
  }
  return item;
}

function said({ tool_name: tool, decision }) {
  if (decision.kind === "approve") return `Approved: ${tool}`;
  if (decision.kind === "provide") return `Answered: ${tool}${decision.error ? ` (${decision.error})` : ""}`;
  if (decision.kind === "approve_with") return `Approved: ${tool} with ${jsonText(decision.args, 0)}`;
  return `Refused: ${tool}${decision.reason ? ` (${decision.reason})` : ""}`;
}

const SHOWN = {
  run_started(line, event, item) {
    const tools = (event.tools ?? []).map((tool) => chip(tool.name, "tool", tool.description));
    item.root.append(h("article", { class: "card plain", tabindex: "0" },
      h("header", null, h("h3", null, event.resumed ? "Resumed" : event.scope ? "Nested run" : "Started"),
        event.scope ? chip(event.scope, "scope") : null, chip(event.model, "model", "the model")),
      event.user_input === line.title ? null : textBlock(event.user_input ?? "", "prose"),
      event.parts?.length ? contentOf(event.parts, line.loadPart) : null,
      (event.decisions ?? []).map((decided) => h("p", { class: "prose" }, said(decided))),
      tools.length ? h("p", { class: "tools" }, "Tools ", tools) : null));
  },

  step_started(line, event, item) {
    const { body } = card(line, event, item);
    const told = event.messages ?? [];
    if (!told.length) return;
    const details = h("details", { class: "told" },
      h("summary", null, `The model is told ${told.length} new message${told.length === 1 ? "" : "s"}`));
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      for (const message of told) {
        const said = message.content || (message.tool_calls ?? []).map((call) => `${call.name}(${jsonText(call.args, 0)})`).join("\n");
        details.append(h("div", { class: "message" }, chip(message.role, "role"), contentOf(said, line.loadPart)));
      }
    });
    body.append(details);
  },

  text_delta(line, event, item) {
    card(line, event, item);
    if (!item.live) item.body.append((item.live = h("pre", { class: "text prose live" })));
    item.live.append(event.text ?? "");
  },

  model_responded(line, event, item) {
    const { chips, body } = card(line, event, item);
    const reply = event.response ?? {};
    const spent = line.spent(event);
    const cost = line.costOf(event);
    item.live?.remove();
    item.live = null;
    chips.append(
      chip(`${count(spent.input_tokens)} → ${count(spent.output_tokens)} tokens`, "tokens", "tokens read → written"),
      cost === null ? "" : chip(`cost ${price(cost)}`, "cost"),
      chip(duration(event.duration_ms), "time", "the model's time"));
    if (!["stop", "tool_calls", undefined].includes(reply.finish_reason)) chips.append(chip(reply.finish_reason, "warn"));
    if (reply.reasoning) {
      body.append(h("details", null, h("summary", null, "Reasoning"), prose(reply.reasoning)));
    }
    if (reply.content) {
      const label = reply.tool_calls?.length ? "Thought" : "Answer";
      body.append(h("div", { class: `said ${label.toLowerCase()}` }, h("h4", null, label), prose(reply.content)));
    }
    for (const part of reply.parts ?? []) body.append(...contentOf([part], line.loadPart));
  },

  tool_dispatched(line, event, item) {
    const call = event.call ?? {};
    const args = jsonText(call.args, 0);
    const short = args.length <= 72;
    const outcome = h("div", { class: "outcome" }, h("span", { class: "waiting" }, "running…"));
    const chips = h("span", { class: "chips" });
    const { body, rows } = card(line, event, item);
    body.append(h("section", { class: "call" },
      h("header", null, h("span", { class: "arrow", "aria-hidden": "true" }, "→"), h("code", { class: "name" }, call.name),
        short ? h("code", { class: "args" }, args) : null, chips),
      short ? null : textBlock(call.args, "args"), outcome));
    rows.set(call.id, { outcome, chips });
  },

  tool_completed(line, event, item) {
    const row = item.rows.get(event.call_id);
    row.chips.append(chip(duration(event.duration_ms), "time", "the tool's time"));
    const pictures = (event.parts ?? []).filter((part) => part?.kind !== "text");
    row.outcome.replaceChildren(textBlock(event.value, "result"), ...contentOf(pictures, line.loadPart));
  },

  step_failed(line, event, item) {
    const { body, rows } = card(line, event, item);
    const fault = h("div", { class: "fault" },
      h("header", null, h("strong", null, event.error), chip(`policy: ${event.decision}`, "warn")), textBlock(event.message ?? ""));
    const row = rows.get(event.call_id);
    if (row) row.outcome.replaceChildren(fault);
    else body.append(fault);
  },

  tool_progress(line, event, item) {
    const row = item.rows?.get(event.call_id);
    const share = event.total ? ` ${Math.round((100 * event.done) / event.total)} %` : "";
    row?.outcome.replaceChildren(h("span", { class: "waiting" }, `running…${share} ${event.message ?? ""}`));
  },

  output_delta(line, event, item) {
    const { body } = card(line, event, item);
    item.partial ??= body.appendChild(h("div", { class: "partial" }));
    item.partial.replaceChildren(textBlock(event.value, "result"));
  },

  context_reduced(line, event, item) {
    card(line, event, item).body.append(h("p", { class: "quiet" }, `The model sees less than the log holds (${event.view}).`));
  },

  content_omitted(line, event, item) {
    card(line, event, item).body.append(h("p", { class: "quiet" }, "Something was left out that the model cannot take: ", jsonText(event.what ?? event.omitted ?? "", 0)));
  },

  advice_shown(line, event, item) {
    item.root.append(h("details", { class: "node-row quiet" }, h("summary", null, `Advice from earlier runs: ${(event.ids ?? []).length}`), event.text ? textBlock(event.text) : ""));
  },

  tools_offered(line, event, item) {
    const tools = (event.tools ?? []).map((tool) => chip(tool.name, "tool", tool.description));
    card(line, event, item).body.append(h("p", { class: "tools" }, "Tools from here on ", tools));
  },

  handed_off(line, event, item) {
    item.root.append(h("div", { class: "node-row" }, chip("handed off", "role"), h("strong", null, `${event.source} → ${event.target}`)));
  },

  run_completed(line, event, item) {
    end(event, item, "completed", "Answer", event.output);
  },

  run_failed(line, event, item) {
    end(event, item, "failed", event.error, event.message);
  },

  run_interrupted(line, event, item) {
    const waiting = (event.pending ?? []).map((one) => h("div", { class: "call" },
      h("header", null, h("code", { class: "name" }, one.call?.name)), textBlock(one.call?.args, "args")));
    const link = waiting.length && line.approvals ? h("p", null, h("a", { href: "#/approvals" }, "Decide on the waiting calls")) : null;
    end(event, item, "interrupted", event.reason, null, waiting, link);
  },

  node_started(line, event, item) {
    item.chips = h("span", { class: "chips" });
    item.root.append(h("div", { class: "node-row" }, chip("node", "role"), h("strong", null, branchName(event)), item.chips));
  },

  node_completed(line, event, item) {
    item.chips.append(chip(duration(event.duration_ms), "time"), (event.keys ?? []).length ? chip(`wrote ${event.keys.join(", ")}`) : "");
  },

  node_failed(line, event, item) {
    item.chips?.append(chip("failed", "bad"));
    item.root.append(h("div", { class: "fault" },
      h("header", null, h("strong", null, `${event.node}: ${event.error}`)), textBlock(event.message ?? "")));
  },

  checkpoint_saved(line, event, item) {
    item.root.append(h("div", { class: "node-row quiet" }, "checkpoint saved"));
  },
};

function end(event, item, status, title, value, ...rest) {
  item.root.append(h("article", { class: `card end ${status}`, tabindex: "0" },
    h("header", null, h("h3", null, title), event.scope ? chip(event.scope, "scope") : null, badge(status)),
    value === null || value === undefined ? null : prose(value), ...rest));
}
