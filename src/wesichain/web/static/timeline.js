// The timeline of a run: events go in one by one, cards come out; the same for a finished run and a live one.

import { chip, count, duration, fact, h, jsonText, money, textBlock, badge } from "./dom.js";

export class Timeline {
  constructor({ prices = {}, approvals = false } = {}) {
    this.root = h("ol", { class: "timeline", "aria-label": "What happened, in order" });
    this.prices = prices;
    this.approvals = approvals;
    this.status = "unfinished";
    this.first = this.last = null;
    this.usage = { input_tokens: 0, output_tokens: 0 };
    this.cost = null;
    this.numbers = { events: 0, steps: 0, calls: 0, faults: 0 };
    this.models = new Map(); // scope -> model
    this.steps = new Map(); // scope and step -> card
    this.calls = new Map(); // scope and call id -> row
    this.nodes = new Map(); // scope and node -> rows
  }

  add(event) {
    this.numbers.events += 1;
    this.first ??= event.at;
    this.last = event.at;
    const show = SHOWN[event.kind];
    if (show) show(this, event);
  }

  facts(run) {
    const seconds = this.first === null ? null : Math.max(0, this.last - this.first);
    return h("dl", { class: "facts" },
      fact("Time", seconds === null ? "–" : duration(seconds * 1000)),
      fact("Steps", count(this.numbers.steps)),
      fact("Tool calls", count(this.numbers.calls)),
      fact("Tokens in", count(this.usage.input_tokens)),
      fact("Tokens out", count(this.usage.output_tokens)),
      this.cost === null ? null : fact("Cost", this.cost === 0 ? "0" : this.cost.toPrecision(2)),
      fact("Faults", count(this.numbers.faults), this.numbers.faults ? "bad" : ""),
      fact("Model", run.model || "–", "wide"));
  }

  put(event, kind, ...children) {
    const depth = event.scope ? Math.min(6, event.scope.split("/").length) : 0;
    const item = h("li", { class: `item ${kind} depth-${depth}` }, children);
    this.root.append(item);
    return item;
  }

  card(event) {
    const key = `${event.scope ?? ""}\n${event.step_id}`;
    let card = this.steps.get(key);
    if (!card) {
      const chips = h("span", { class: "chips" });
      const body = h("div", { class: "body" });
      const title = h("h3", null, `Step ${event.step_id}`);
      this.put(event, "step", h("article", { class: "card", tabindex: "0" },
        h("header", null, title, event.scope ? chip(event.scope, "scope", "the nested run") : null, chips), body));
      card = { chips, body, live: null };
      this.steps.set(key, card);
      this.numbers.steps += 1;
    }
    return card;
  }

  spend(event) {
    const usage = event.response?.usage ?? {};
    const spent = { input_tokens: usage.input_tokens ?? 0, output_tokens: usage.output_tokens ?? 0 };
    this.usage.input_tokens += spent.input_tokens;
    this.usage.output_tokens += spent.output_tokens;
    const price = this.prices[this.models.get(event.scope ?? "")];
    if (price) this.cost = (this.cost ?? 0) + (spent.input_tokens * price[0] + spent.output_tokens * price[1]) / 1e6;
    return { spent, price };
  }
}

const SHOWN = {
  run_started(line, event) {
    line.models.set(event.scope ?? "", event.model);
    if (!event.scope) line.status = "unfinished";
    const tools = (event.tools ?? []).map((tool) => chip(tool.name, "tool", tool.description));
    line.put(event, "edge", h("article", { class: "card plain", tabindex: "0" },
      h("header", null, h("h3", null, event.resumed ? "Resumed" : event.scope ? "Nested run" : "Task"),
        event.scope ? chip(event.scope, "scope") : null, chip(event.model, "model", "the model")),
      textBlock(event.user_input ?? "", "prose"),
      tools.length ? h("p", { class: "tools" }, "Tools ", tools) : null));
  },

  step_started(line, event) {
    const card = line.card(event);
    const told = event.messages ?? [];
    if (!told.length) return;
    const details = h("details", { class: "told" },
      h("summary", null, `The model is told ${told.length} new message${told.length === 1 ? "" : "s"}`));
    details.addEventListener("toggle", () => {
      if (details.children.length > 1) return;
      for (const message of told) {
        const said = message.content || (message.tool_calls ?? []).map((call) => `${call.name}(${jsonText(call.args, 0)})`).join("\n");
        details.append(h("div", { class: "message" }, chip(message.role, "role"), textBlock(said)));
      }
    });
    card.body.append(details);
  },

  text_delta(line, event) {
    const card = line.card(event);
    if (!card.live) card.body.append((card.live = h("pre", { class: "text prose live" })));
    card.live.append(event.text ?? "");
  },

  model_responded(line, event) {
    const card = line.card(event);
    const reply = event.response ?? {};
    const { spent, price } = line.spend(event);
    const cost = money(spent, price);
    card.live?.remove();
    card.live = null;
    card.chips.append(
      chip(`${count(spent.input_tokens)} → ${count(spent.output_tokens)} tokens`, "tokens", "tokens read → written"),
      cost === null ? "" : chip(`cost ${cost}`, "cost"),
      chip(duration(event.duration_ms), "time", "the model's time"));
    if (!["stop", "tool_calls", undefined].includes(reply.finish_reason)) card.chips.append(chip(reply.finish_reason, "warn"));
    if (reply.reasoning) {
      card.body.append(h("details", null, h("summary", null, "Reasoning"), textBlock(reply.reasoning, "prose")));
    }
    if (reply.content) {
      const label = reply.tool_calls?.length ? "Thought" : "Answer";
      card.body.append(h("div", { class: `said ${label.toLowerCase()}` }, h("h4", null, label), textBlock(reply.content, "prose")));
    }
  },

  tool_dispatched(line, event) {
    const card = line.card(event);
    const call = event.call ?? {};
    const args = jsonText(call.args, 0);
    const short = args.length <= 72;
    const outcome = h("div", { class: "outcome" }, h("span", { class: "waiting" }, "running…"));
    const chips = h("span", { class: "chips" });
    card.body.append(h("section", { class: "call" },
      h("header", null, h("span", { class: "arrow", "aria-hidden": "true" }, "→"), h("code", { class: "name" }, call.name),
        short ? h("code", { class: "args" }, args) : null, chips),
      short ? null : textBlock(call.args, "args"), outcome));
    line.calls.set(`${event.scope ?? ""}\n${call.id}`, { outcome, chips });
    line.numbers.calls += 1;
  },

  tool_completed(line, event) {
    const row = line.calls.get(`${event.scope ?? ""}\n${event.call_id}`);
    if (!row) return;
    row.chips.append(chip(duration(event.duration_ms), "time", "the tool's time"));
    row.outcome.replaceChildren(textBlock(event.value, "result"));
  },

  step_failed(line, event) {
    line.numbers.faults += 1;
    const row = event.call_id ? line.calls.get(`${event.scope ?? ""}\n${event.call_id}`) : null;
    const fault = h("div", { class: "fault" },
      h("header", null, h("strong", null, event.error), chip(`policy: ${event.decision}`, "warn")), textBlock(event.message ?? ""));
    if (row) row.outcome.replaceChildren(fault);
    else line.card(event).body.append(fault);
  },

  run_completed(line, event) {
    line.close(event, "completed", "Answer", event.output);
  },

  run_failed(line, event) {
    line.close(event, "failed", event.error, event.message);
  },

  run_interrupted(line, event) {
    const waiting = (event.pending ?? []).map((item) => h("div", { class: "call" },
      h("header", null, h("code", { class: "name" }, item.call?.name)), textBlock(item.call?.args, "args")));
    const link = waiting.length && line.approvals ? h("p", null, h("a", { href: "#/approvals" }, "Decide on the waiting calls")) : null;
    line.close(event, "interrupted", event.reason, null, waiting, link);
  },

  node_started(line, event) {
    const chips = h("span", { class: "chips" });
    line.put(event, "node", h("div", { class: "node-row" }, chip("node", "role"), h("strong", null, event.node), chips));
    const key = `${event.scope ?? ""}\n${event.node}`;
    line.nodes.set(key, [...(line.nodes.get(key) ?? []), chips]);
  },

  node_completed(line, event) {
    const chips = line.nodes.get(`${event.scope ?? ""}\n${event.node}`)?.shift();
    chips?.append(chip(duration(event.duration_ms), "time"), (event.keys ?? []).length ? chip(`wrote ${event.keys.join(", ")}`) : "");
  },

  node_failed(line, event) {
    line.numbers.faults += 1;
    line.nodes.get(`${event.scope ?? ""}\n${event.node}`)?.shift()?.append(chip("failed", "bad"));
    line.put(event, "node", h("div", { class: "fault" },
      h("header", null, h("strong", null, `${event.node}: ${event.error}`)), textBlock(event.message ?? "")));
  },

  checkpoint_saved(line, event) {
    line.put(event, "node", h("div", { class: "node-row quiet" }, "checkpoint saved"));
  },
};

Timeline.prototype.close = function close(event, status, title, value, ...rest) {
  if (!event.scope) this.status = status;
  this.put(event, `edge ${status}`, h("article", { class: `card end ${status}`, tabindex: "0" },
    h("header", null, h("h3", null, title), event.scope ? chip(event.scope, "scope") : null, badge(status)),
    value === null || value === undefined ? null : textBlock(value, "prose"), ...rest));
};
