// Calls that wait for approval: approve, refuse, or approve with other arguments.

import { get, post } from "./api.js";
import { chip, h, jsonText, nothing, textBlock, when } from "./dom.js";
import { questionForm } from "./question.js";

export async function approvalsPage(main, { signal, announce, setWaiting }) {
  const list = h("ol", { class: "approvals" });
  const empty = h("div");
  const known = new Set();
  main.append(h("h1", null, "Approvals"), empty, list);
  async function look() {
    const { approvals } = await get("/api/approvals", { signal });
    for (const item of approvals) {
      if (!known.has(item.token)) list.append(waitingCard(item, announce));
      known.add(item.token);
    }
    setWaiting(approvals.length);
    empty.replaceChildren(list.children.length ? "" : nothing("No call waits for a decision.", "A tool with approval=True asks here before it runs."));
  }
  await look();
  const timer = setInterval(() => look().catch(() => {}), 2000);
  signal.addEventListener("abort", () => clearInterval(timer));
}

// A waiting call with its buttons; `onDecided` is called after the decision.
export function waitingCard(item, announce, onDecided = null) {
  const reason = h("input", { type: "text", placeholder: "Reason, told to the model (optional)", "aria-label": "Reason" });
  const edited = h("textarea", { rows: 6, spellcheck: "false", "aria-label": "Arguments as JSON" });
  edited.value = jsonText(item.args);
  const outcome = h("p", { class: "outcome", role: "status" });
  const buttons = [];
  const button = (label, kind, act, type = "button") => {
    const made = h("button", { type, class: kind, onclick: act ?? undefined }, label);
    buttons.push(made);
    return made;
  };
  async function decide(body, said) {
    buttons.forEach((one) => (one.disabled = true));
    try {
      const { next } = await post(`/api/approvals/${encodeURIComponent(item.token)}`, body);
      outcome.textContent = `${said} ${next}`;
      outcome.className = "outcome ok";
      announce(said);
      onDecided?.(item);
    } catch (error) {
      outcome.textContent = error.message;
      outcome.className = "outcome bad";
      if (![404, 409].includes(error.status)) buttons.forEach((one) => (one.disabled = false));
    }
  }
  function withChanges() {
    let args;
    try {
      args = JSON.parse(edited.value);
    } catch {
      outcome.textContent = "These arguments are not JSON.";
      outcome.className = "outcome bad";
      return;
    }
    decide({ decision: "approve_with", args }, "Approved with other arguments.");
  }
  function provide() {
    let value;
    try {
      value = JSON.parse(edited.value);
    } catch {
      value = edited.value; // a text
    }
    decide({ decision: "provide", value }, "Answered.");
  }
  if (item.external) edited.value = "";
  const form = item.question ? questionForm(item.question, {
    button,
    onAnswer: (value) => decide({ decision: "provide", value }, "Answered."),
    onDecline: () => decide({ decision: "refuse", reason: "the person declined to answer" }, "Declined."),
  }) : null;
  return h("li", { class: "card approval" },
    h("header", null, h("h3", null, h("code", { class: "name" }, item.tool)), item.expires_at === null ? null : chip(`expires ${when(item.expires_at)}`, "warn")),
    h("p", { class: "quiet" }, item.task ? ["for ", h("span", { class: "task" }, item.task), " · "] : null, item.scope?.length ? `in ${item.scope.join(" › ")} · ` : null,
      h("a", { href: `#/runs/${encodeURIComponent(item.run_id)}` }, "see the run")),
    textBlock(item.args, "args"),
    item.why ? item.why.split("\n").map((line) => h("p", { class: "notice", dir: "auto" }, line)) : null,
    item.is_redacted ? h("p", { class: "notice" }, "Secrets in the arguments are hidden here; the call has them.") : null,
    form,
    item.external && !form ? h("div", { class: "answer" }, h("label", null, "The result of this call, as text or JSON", edited),
      h("div", { class: "decide" }, button("Give this result", "approve", provide), button("It failed", "refuse", () => decide({ decision: "provide", error: reason.value || "it failed" }, "Told that it failed.")), reason)) : null,
    item.external ? null : h("div", { class: "decide" },
      button("Approve", "approve", () => decide({ decision: "approve" }, "Approved.")),
      button("Refuse", "refuse", () => decide({ decision: "refuse", reason: reason.value }, "Refused.")), reason),
    item.is_redacted || item.external ? null : h("details", null, h("summary", null, "Approve with other arguments"), edited, button("Approve with these", "approve", withChanges)),
    outcome);
}
