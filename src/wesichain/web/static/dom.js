// Elements and texts: the only place that makes nodes. Text is always text; no markup is ever parsed.

export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : visible(child));
  }
  return node;
}

// Characters that hide or reorder text are made visible, so that people approve what they read.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function visible(value) {
  const text = typeof value === "string" ? value : String(value);
  return text.replace(HIDDEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function jsonText(value, indent = 2) {
  return typeof value === "string" ? value : JSON.stringify(value, null, indent) ?? "";
}

// A block of text; a long one is cut, with a button for the rest.
export function textBlock(value, kind = "") {
  const line = jsonText(value, 0);
  const text = line.length <= 80 ? line : jsonText(value);
  const block = h("pre", { class: `text ${kind}`, dir: "auto" });
  if (text.length <= 1600) {
    block.append(visible(text));
    return block;
  }
  const more = h("button", { type: "button", class: "link", onclick: () => block.replaceChildren(visible(text)) },
    `show all ${count(text.length)} characters`);
  block.append(visible(text.slice(0, 1200)), "…\n", more);
  return block;
}

export function chip(text, kind = "", title = null) {
  return h("span", { class: `chip ${kind}`, title }, text);
}

export function badge(status) {
  const known = ["completed", "failed", "interrupted", "unfinished", "prod", "staging", "shadow", "quarantined", "live", "running", "pending", "cancelled"];
  return chip(status, `badge ${known.includes(status) ? status : ""}`);
}

const NUMBERS = new Intl.NumberFormat("en"); // created once, because that is slow

export function count(number) {
  return typeof number === "number" ? NUMBERS.format(number) : "–";
}

export function duration(ms) {
  if (typeof ms !== "number") return "–";
  if (ms < 1) return "<1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
  return `${(ms / 3_600_000).toFixed(1)} h`;
}

const DAYS = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIMES = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

// A time as date and time; null if it is invalid.
export function dayAndTime(seconds) {
  const date = new Date(typeof seconds === "number" ? seconds * 1000 : NaN);
  if (Number.isNaN(date.getTime())) return null;
  const isToday = date.toDateString() === new Date().toDateString();
  return { day: isToday ? "today" : DAYS.format(date), time: TIMES.format(date) };
}

export function when(seconds) {
  const moment = dayAndTime(seconds);
  return moment === null ? "–" : `${moment.day}, ${moment.time}`;
}

// The message of an empty page, and what to do.
export function nothing(text, hint = "", command = "") {
  return h("div", { class: "empty" }, h("p", null, text), hint ? h("p", { class: "quiet" }, hint) : null, command ? h("code", null, command) : null);
}

export function fact(name, value, kind = "") {
  return h("div", { class: `fact ${kind}` }, h("dt", null, name), h("dd", null, value));
}
