// The frame: routing, navigation, keyboard shortcuts, and the message when the token is missing.

import { ApiError, get, setToken, takeToken } from "./api.js";
import { approvalsPage } from "./approvals.js";
import { diffPage } from "./diff.js";
import { h } from "./dom.js";
import { playbookPage } from "./playbook.js";
import { runPage } from "./run.js";
import { runsPage } from "./runs.js";
import { statsPage } from "./stats.js";
import { talkPage } from "./talk.js";

const PAGES = { "": ["Runs", runsPage], runs: ["Run", runPage], diff: ["Compare", diffPage], approvals: ["Approvals", approvalsPage], playbook: ["Playbook", playbookPage], stats: ["Statistics", statsPage], talk: ["Talk", talkPage] };
const NAV = [["talk", "Talk"], ["", "Runs"], ["diff", "Compare"], ["approvals", "Approvals"], ["playbook", "Playbook"], ["stats", "Stats"]];

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const status = document.getElementById("status");
const waiting = h("span", { class: "waiting-count", hidden: true });
const links = new Map(NAV.map(([name, label]) => [name, h("a", { href: `#/${name}` }, label, name === "approvals" ? waiting : null)]));
nav.append(...links.values());
links.get("talk").hidden = true; // until the server has reported an agent

function announce(text) {
  status.textContent = text;
}

let current = new AbortController();

async function show() {
  takeToken();
  if (location.hash && !location.hash.startsWith("#/")) return; // a place on the page, such as #main
  current.abort();
  current = new AbortController();
  const { signal } = current;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const [title, page] = PAGES[name] ?? PAGES[""];
  document.title = `${title} · Wesichain`;
  for (const [key, link] of links) {
    if (key === (name === "runs" ? "" : name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren();
  delete main.dataset.loaded;
  main.dataset.page = name;
  const view = h("div", { class: `page-${name || "list"}` });
  const loading = h("p", { class: "loading quiet", role: "status" }, "Loading…");
  main.append(loading, view);
  window.scrollTo(0, 0);
  try {
    await page(view, { args: rest.map(decoded), query: new URLSearchParams(query), signal, announce, setWaiting, reload: show });
    if (!signal.aborted) main.dataset.ready = name || "list";
  } catch (error) {
    if (!signal.aborted) view.replaceChildren(...trouble(error));
  } finally {
    loading.remove();
  }
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function trouble(error) {
  if (!(error instanceof ApiError) || error.status !== 401) return [h("h1", null, "That did not work"), h("p", { class: "notice" }, error.message), h("p", null, h("a", { href: "#/" }, "Back to the runs"))];
  const field = h("input", { type: "password", id: "token", autocomplete: "off", "aria-label": "Token" });
  return [h("h1", null, "Who is there?"),
    h("p", null, "Open the address that the server printed: it ends in a token. Or paste the token, or that address, here."),
    h("form", { class: "token", onsubmit: (event) => {
      event.preventDefault();
      setToken(field.value);
      show();
      askWhatIsHere();
    } }, field, h("button", { type: "submit" }, "Go on"))];
}

// '/' searches; 'j' and 'k' move through the items; 'g' and a letter change the page.
let isGoing = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (isGoing) {
    isGoing = false;
    const goal = { r: "", c: "diff", a: "approvals", p: "playbook", s: "stats", t: "talk" }[event.key];
    if (goal !== undefined) location.hash = `#/${goal}`;
  } else if (event.key === "g") {
    isGoing = true;
  } else if (event.key === "/") {
    const search = document.getElementById("search");
    if (search) {
      event.preventDefault();
      search.focus();
    } else location.hash = "#/";
  } else if (event.key === "?") {
    help.open ? help.close() : help.showModal();
  } else if (event.key === "+" || event.key === "-") {
    main.querySelector(event.key === "+" ? "button.mark.good" : "button.mark.bad")?.click();
  } else if (event.key === "j" || event.key === "k") {
    const stops = [...main.querySelectorAll("a.run, .card[tabindex]")];
    const here = stops.indexOf(document.activeElement.closest("a.run, .card[tabindex]"));
    const there = stops[Math.min(stops.length - 1, Math.max(0, here + (event.key === "j" ? 1 : -1)))];
    there?.focus();
    there?.scrollIntoView({ block: "nearest" });
  }
});

function setWaiting(number) {
  waiting.textContent = number;
  waiting.hidden = !number;
}

async function countWaiting() {
  try {
    setWaiting((await get("/api/approvals")).approvals.length);
  } catch {
    setWaiting(0);
  }
}

const KEYS = [["/", "search the runs"], ["j, k", "walk through runs, steps and cards"], ["g then r, t, a, c, p, s", "runs, talk, approvals, comparison, playbook, statistics"], ["+, -", "mark the run as good or bad"], ["?", "this list"], ["Esc", "leave a field, close this list"]];
const help = h("dialog", { class: "help", "aria-label": "Keys" }, h("h2", null, "Keys"),
  h("dl", null, KEYS.map(([keys, what]) => [h("dt", null, h("kbd", null, keys)), h("dd", null, what)])), h("form", { method: "dialog" }, h("button", { type: "submit" }, "Close")));
document.body.append(help);

async function askWhatIsHere() {
  try {
    links.get("talk").hidden = !(await get("/api/info")).agent;
  } catch {
    // without a token there is no message
  }
}

window.addEventListener("hashchange", show);
show();
countWaiting();
askWhatIsHere();
setInterval(countWaiting, 10_000);
