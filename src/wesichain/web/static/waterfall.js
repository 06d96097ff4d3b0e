// The waterfall: when each model call and tool call began, how long it took, and what it cost.

import { chip, count, duration, h } from "./dom.js";

const FIRST = 60; // rows that are shown first

export class Waterfall {
  constructor({ costOf }) {
    this.costOf = costOf; // the cost of a reply; null if unknown
    this.rows = [];
    this.open = new Map();
    this.first = null;
    this.last = 0;
    this.models = new Map();
  }

  add(event) {
    this.first ??= event.at;
    this.last = Math.max(this.last, event.at);
    const scope = event.scope ?? "";
    const key = (name) => `${scope}\n${name}`;
    if (event.kind === "run_started") this.models.set(scope, event.model);
    else if (event.kind === "step_started") this.begin(key("model"), event, this.models.get(scope) || "model", "model");
    else if (event.kind === "model_responded") this.end(key("model"), event, "ok", this.costOf(event));
    else if (event.kind === "tool_dispatched") this.begin(key(event.call?.id), event, event.call?.name ?? "tool", "tool");
    else if (event.kind === "tool_completed") this.end(key(event.call_id), event, "ok");
    else if (event.kind === "step_failed") this.end(key(event.call_id ?? "model"), event, "bad");
    else if (event.kind === "node_started") this.begin(key(`node ${branch(event)}`), event, branchName(event), "node");
    else if (event.kind === "node_completed") this.end(key(`node ${branch(event)}`), event, "ok");
    else if (event.kind === "node_failed") this.end(key(`node ${branch(event)}`), event, "bad");
  }

  begin(key, event, label, kind) {
    const depth = event.scope ? event.scope.split("/").length : 0;
    const row = { label, kind, depth, step: event.step_id, scope: event.scope ?? "", start: event.at, end: null, state: "open", cost: null };
    this.rows.push(row);
    this.open.set(key, row);
  }

  end(key, event, state, cost = null) {
    const row = this.open.get(key);
    if (!row) return;
    this.open.delete(key);
    // The duration of the call may be more exact: events of a batch may have the same time.
    row.end = Math.max(event.at, row.start + (event.duration_ms ?? 0) / 1000);
    row.state = state;
    row.cost = cost;
    this.last = Math.max(this.last, row.end);
  }

  draw(onPick, all = false) {
    if (!this.rows.length) return null;
    const whole = Math.max(0.001, this.last - this.first);
    const shown = all ? this.rows : this.rows.slice(0, FIRST);
    const known = this.rows.map((row) => row.cost).filter((cost) => cost !== null);
    const total = known.length ? known.reduce((sum, cost) => sum + cost, 0) : null;
    const figure = h("figure", { class: "waterfall" },
      h("figcaption", null, `Where the time went: ${duration(whole * 1000)}`, total === null ? null : ` · cost ${price(total)}`));
    const list = h("ol", { "aria-label": "Model calls and tool calls over time" });
    for (const row of shown) list.append(this.row(row, whole, onPick));
    figure.append(list);
    if (shown.length < this.rows.length) {
      figure.append(h("button", { type: "button", class: "link", onclick: () => figure.replaceWith(this.draw(onPick, true)) }, `show all ${count(this.rows.length)}`));
    }
    return figure;
  }

  row(row, whole, onPick) {
    const end = row.end ?? this.last;
    const bar = h("span", { class: `span ${row.kind} ${row.state}` });
    bar.style.left = `${(100 * (row.start - this.first)) / whole}%`;
    bar.style.width = `${Math.max(0.4, (100 * (end - row.start)) / whole)}%`;
    const took = row.end === null ? "…" : duration((end - row.start) * 1000);
    const said = `Step ${row.step}: ${row.label}, ${row.kind}, ${took}${row.state === "bad" ? ", failed" : ""}`;
    return h("li", { class: `depth-${Math.min(6, row.depth)}` }, h("button", { type: "button", class: "lane", "aria-label": said, title: said, onclick: () => onPick?.(row) },
      h("span", { class: "what" }, row.label), h("span", { class: "track" }, bar), h("span", { class: "took" }, took),
      h("span", { class: "price" }, row.cost === null ? "" : price(row.cost))));
  }
}

// The key of a branch of a graph: several tasks of a node may run concurrently.
export function branch(event) {
  return event.task_id || event.node;
}

// The label of a branch: the node, and the number of one of several Sends.
export function branchName(event) {
  return event.node + branch(event).slice(event.node.replaceAll("#", "##").length);
}

export function price(cost) {
  return cost === 0 ? "0" : cost < 0.01 ? cost.toPrecision(2) : cost.toFixed(2);
}

export function verdict(mark) {
  return mark ? chip(mark.good ? "good" : "bad", mark.good ? "completed" : "failed", mark.why || null) : null;
}
