// The export of a run: draws the data in the page with the modules of the viewer.

import { badge, h, when } from "./dom.js";
import { PathTaken } from "./graph.js";
import { Timeline } from "./timeline.js";
import { Waterfall } from "./waterfall.js";

const exported = JSON.parse(document.getElementById("data").textContent);
const exportedLine = new Timeline({ prices: exported.prices, title: exported.run.user_input });
const exportedPath = new PathTaken();
const exportedWater = new Waterfall({ costOf: (event) => exportedLine.costOf(event) });
for (const event of exported.events) {
  exportedLine.add(event);
  exportedPath.add(event);
  exportedWater.add(event);
}
document.getElementById("main").append(
  h("div", { class: "run-head" },
    h("h1", { class: "task" }, exported.run.user_input || "(no task)"),
    h("p", { class: "meta" }, badge(exported.run.status), h("span", null, when(exported.run.started_at)), h("span", null, exported.run.model), h("code", { class: "id" }, exported.run.run_id))),
  exportedLine.facts(),
  ...exported.problems.map((problem) => h("p", { class: "notice" }, problem)),
  exportedWater.draw((row) => exportedLine.goTo(row.scope, row.step)) ?? "",
  ...exportedPath.draw(),
  exportedLine.root);
exportedLine.drawWhenIdle();
window.addEventListener("beforeprint", () => exportedLine.drawAll());
