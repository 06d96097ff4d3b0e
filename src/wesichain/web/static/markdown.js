// Renders a model's Markdown as DOM nodes. HTML is never parsed.

import { h, jsonText, textBlock, visible } from "./dom.js";

const LONGEST = 60_000; // characters; longer texts are not rendered
const SPAN = 4_000; // characters within which emphasis must be closed
const RAW = "wesichain-raw";

export function isRaw() {
  try {
    return sessionStorage.getItem(RAW) === "1";
  } catch {
    return false; // a file has no storage in some browsers
  }
}

export function setRaw(raw) {
  sessionStorage.setItem(RAW, raw ? "1" : "0");
}

// A model's text: rendered, unless the reader has chosen the raw text.
export function prose(value, kind = "") {
  if (typeof value !== "string" || isRaw() || value.length > LONGEST) return textBlock(value, `prose ${kind}`);
  return h("div", { class: `markdown ${kind}`, dir: "auto" }, blocks(value.split(/\r?\n/)));
}

function blocks(lines) {
  const out = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) {
      at += 1;
      continue;
    }
    const fence = /^\s{0,3}(```+|~~~+)\s*([\w+-]{0,32})/.exec(line);
    if (fence) {
      let end = at + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence[1])) end += 1;
      out.push(textBlock(lines.slice(at + 1, end).join("\n"), "code"));
      at = end + 1;
      continue;
    }
    const heading = /^\s{0,3}(#{1,6})\s+(.*)$/.exec(line);
    if (heading) {
      out.push(h("p", { class: `heading level-${heading[1].length}`, role: "heading", "aria-level": Math.min(6, heading[1].length + 3) }, inline(heading[2].replace(/\s+#+\s*$/, ""))));
      at += 1;
      continue;
    }
    if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      out.push(h("hr"));
      at += 1;
      continue;
    }
    if (/^\s{0,3}>/.test(line)) {
      const some = take(lines, at, (one) => /^\s{0,3}>/.test(one));
      out.push(h("blockquote", null, blocks(some.map((one) => one.replace(/^\s{0,3}>\s?/, "")))));
      at += some.length;
      continue;
    }
    if (isItem(line)) {
      const some = take(lines, at, (one, index) => isItem(one) || (one.trim() && /^\s{2,}/.test(one)) || (index > at && !one.trim() && isItem(lines[index + 1] ?? "")));
      out.push(list(some));
      at += some.length;
      continue;
    }
    if (line.includes("|") && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[at + 1] ?? "")) {
      const some = take(lines, at, (one) => one.includes("|"));
      out.push(table(some));
      at += some.length;
      continue;
    }
    const some = take(lines, at, (one, index) => one.trim() && (index === at || !/^\s{0,3}(#{1,6}\s|>|```|~~~)/.test(one)) && (index === at || !isItem(one)));
    out.push(h("p", null, some.flatMap((one, index) => [...(index ? [h("br")] : []), ...inline(one.trim())])));
    at += some.length;
  }
  return out;
}

function take(lines, from, belongs) {
  let end = from;
  while (end < lines.length && belongs(lines[end], end)) end += 1;
  return lines.slice(from, Math.max(end, from + 1));
}

function isItem(line) {
  return /^\s{0,12}([-*+]|\d{1,9}[.)])\s+\S/.test(line);
}

function list(lines) {
  const first = /^(\s*)([-*+]|\d{1,9}[.)])\s+/.exec(lines[0]);
  const indent = first[1].length;
  const items = [];
  for (const line of lines) {
    const found = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);
    if (found && found[1].length <= indent + 1) items.push({ text: found[3], rest: [] });
    else items.at(-1)?.rest.push(line.replace(new RegExp(`^\\s{0,${indent + 4}}`), ""));
  }
  const isOrdered = /\d/.test(first[2]);
  return h(isOrdered ? "ol" : "ul", isOrdered ? { start: parseInt(first[2], 10) } : null,
    items.map(({ text, rest }) => {
      const box = /^\[([ xX])\]\s+(.*)$/.exec(text);
      return h("li", null, box ? [box[1] === " " ? "☐ " : "☑ ", ...inline(box[2])] : inline(text), rest.some((one) => one.trim()) ? blocks(rest) : null);
    }));
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((one) => inline(one.trim()));
  return h("div", { class: "scroll" }, h("table", null,
    h("thead", null, h("tr", null, cells(lines[0]).map((cell) => h("th", { scope: "col" }, cell)))),
    h("tbody", null, lines.slice(2).map((line) => h("tr", null, cells(line).map((cell) => h("td", null, cell)))))));
}

// Code, emphasis and links within a line. Unclosed marks are text.
function inline(text, depth = 0) {
  const out = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain) out.push(plain);
    plain = "";
  };
  while (at < text.length) {
    const char = text[at];
    if (char === "\\" && /[\\`*_[\]()#+\-.!|>~]/.test(text[at + 1] ?? "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const made = depth < 8 && "`*_[!~<h".includes(char) ? span(text, at, depth) : null;
    if (made) {
      flush();
      out.push(made.node);
      at = made.end;
    } else {
      plain += char;
      at += 1;
    }
  }
  flush();
  return out;
}

function span(text, at, depth) {
  const char = text[at];
  const near = text.slice(at, at + SPAN);
  if (char === "`") {
    const ticks = /^`+/.exec(near)[0];
    const end = near.indexOf(ticks, ticks.length);
    return end < 0 ? null : { node: h("code", null, near.slice(ticks.length, end).trim() || near.slice(ticks.length, end)), end: at + end + ticks.length };
  }
  if (char === "*" || char === "_" || char === "~") {
    const mark = near.startsWith(char + char) ? char + char : char;
    if (mark === "~") return null;
    if (char === "_" && /\w/.test(text[at - 1] ?? "")) return null;
    if (/^\s|^$/.test(near.slice(mark.length, mark.length + 1))) return null;
    const end = near.indexOf(mark, mark.length + 1);
    if (end < 0 || /\s/.test(near[end - 1]) || (char === "_" && /\w/.test(near[end + mark.length] ?? ""))) return null;
    const tag = mark === "~~" ? "s" : mark.length === 2 ? "strong" : "em";
    return { node: h(tag, null, inline(near.slice(mark.length, end), depth + 1)), end: at + end + mark.length };
  }
  if (char === "[" || (char === "!" && near[1] === "[")) {
    const found = /^!?\[([^\[\]]{0,500})\]\(\s*<?([^\s()<>]{1,1000})>?(?:\s+["'][^"']{0,200}["'])?\s*\)/.exec(near);
    return found ? { node: link(found[2], inline(found[1] || found[2], depth + 1)), end: at + found[0].length } : null;
  }
  if (char === "<" || char === "h") {
    if (char === "h" && /\w/.test(text[at - 1] ?? "")) return null;
    const found = char === "<" ? /^<(https?:\/\/[^\s<>]{1,1000})>/.exec(near) : /^(https?:\/\/[^\s<>()"'`*\]]{1,1000})/.exec(near);
    if (!found) return null;
    const address = char === "<" ? found[1] : found[1].replace(/[.,;:!?]+$/, "");
    return { node: link(address, [address]), end: at + (char === "<" ? found[0].length : address.length) };
  }
  return null;
}

// Only web and mail addresses become links, with the target visible.
function link(address, label) {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    // not an address by itself
  }
  if (!url || !/^(https?|mailto):$/.test(url.protocol)) return h("span", null, label, label.join?.("") === address ? "" : ` (${address})`);
  return h("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank", title: visible(url.href) }, label);
}

// The content of a message: text or parts; images are shown if their bytes are available.
export function contentOf(content, load = null) {
  if (typeof content === "string") return [textBlock(content)];
  if (!Array.isArray(content)) return [textBlock(jsonText(content))];
  return content.map((part) => (part?.kind === "text" ? textBlock(part.text ?? "") : picture(part, load)));
}

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

function picture(part, load) {
  const label = `${part?.kind ?? "part"}${part?.name ? ` ${part.name}` : ""} (${part?.media_type || "unknown type"})`;
  const figure = h("figure", { class: "part" }, h("figcaption", null, label));
  if (part?.kind !== "image" || !PICTURES.includes(part.media_type)) return figure;
  const show = (base64) => figure.prepend(h("img", { src: `data:${part.media_type};base64,${base64}`, alt: label }));
  const kept = /^sha256:([0-9a-f]{64})$/.exec(part.url ?? "");
  if (typeof part.data === "string" && /^[A-Za-z0-9+/]+={0,2}$/.test(part.data)) show(part.data);
  else if (kept && load) load(kept[1]).then(show, () => {});
  else if (typeof part.url === "string") figure.append(" ", h("code", null, part.url));
  return figure;
}
