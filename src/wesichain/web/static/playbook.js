// The playbook: bullets with their evidence, the journal, and rollback.

import { get, post } from "./api.js";
import { badge, chip, count, fact, h, nothing, when } from "./dom.js";

export async function playbookPage(main, { args: [chosen], signal, reload }) {
  const { domains } = await get("/api/playbook", { signal });
  main.append(h("h1", null, "Playbook"));
  if (!domains.length) {
    main.append(nothing("Nothing has been learned yet.", "A Learner writes here what worked; or the server was started without a playbook."));
    return;
  }
  const domain = chosen ?? domains[0];
  main.append(h("nav", { class: "tabs", "aria-label": "Domains" }, domains.map((name) =>
    h("a", { href: `#/playbook/${encodeURIComponent(name)}`, "aria-current": name === domain ? "page" : null }, name))));
  const shown = await get(`/api/playbook/${encodeURIComponent(domain)}`, { signal });
  main.append(
    h("dl", { class: "facts" }, fact("Bullets", count(shown.bullets.length)),
      ["prod", "staging", "shadow", "quarantined"].map((stage) => fact(stage, count(shown.stages[stage] ?? 0)))),
    h("ol", { class: "bullets" }, shown.bullets.map(bullet)),
    h("h2", null, "Journal"),
    h("ol", { class: "journal" }, shown.journal.map((delta, index) => entry(delta, index === 0, domain, reload))));
}

function bullet(item) {
  const seen = item.helpful_count + item.harmful_count;
  const meter = h("span", { class: "bar", title: `${item.helpful_count} helpful, ${item.harmful_count} harmful` }, h("span", { class: "ok" }), h("span", { class: "bad" }));
  meter.children[0].style.width = `${(100 * item.helpful_count) / Math.max(1, seen)}%`;
  meter.children[1].style.width = `${(100 * item.harmful_count) / Math.max(1, seen)}%`;
  return h("li", { class: "card bullet", tabindex: "0" },
    h("header", null, badge(item.stage), chip(item.section, "role"), h("code", { class: "id" }, item.id)),
    h("p", { class: "content" }, item.content),
    item.tool_sequence.length ? h("p", { class: "sequence" }, item.tool_sequence.map((tool) => chip(tool, "tool"))) : null,
    h("p", { class: "evidence" }, meter, h("span", null, `+${item.helpful_count} −${item.harmful_count}`),
      seen ? h("span", null, `${Math.round(100 * item.success_rate)}% success`) : null,
      h("span", null, `by ${item.author}`), item.tags.map((tag) => chip(tag))));
}

function entry(delta, isNewest, domain, reload) {
  const button = h("button", { type: "button", class: "rollback" }, "Roll back to here");
  let armed = false;
  button.addEventListener("click", async () => {
    if (!armed) {
      armed = true;
      button.textContent = `Really go back to #${delta.seq}?`;
      button.classList.add("danger");
      return;
    }
    button.disabled = true;
    try {
      await post(`/api/playbook/${encodeURIComponent(domain)}/rollback`, { to: delta.seq });
      reload();
    } catch (error) {
      button.replaceWith(h("span", { class: "fault" }, error.message));
    }
  });
  const changed = [delta.puts.length ? `${delta.puts.length} written` : "", delta.drops.length ? `${delta.drops.length} dropped` : ""].filter(Boolean).join(", ");
  return h("li", null, h("span", { class: "seq" }, `#${delta.seq}`), chip(delta.cause, "role"), h("span", null, changed),
    h("span", { class: "note" }, delta.note), h("span", { class: "quiet" }, when(delta.at)), isNewest ? null : button);
}
