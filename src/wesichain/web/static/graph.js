// The graph of a run: its nodes and the edges taken between them, drawn from the events.

import { count, duration, h, svg, visible } from "./dom.js";

const BOX = { width: 148, height: 46, gapX: 64, gapY: 22, side: 2, pad: 34 };

// Collects node events; each scope with node events is a separate graph.
export class PathTaken {
  constructor() {
    this.scopes = new Map();
  }

  add(event) {
    if (!event.kind.startsWith("node_")) return false;
    const scope = event.scope ?? "";
    if (!this.scopes.has(scope)) this.scopes.set(scope, { nodes: new Map(), steps: new Map() });
    const graph = this.scopes.get(scope);
    if (!graph.nodes.has(event.node)) graph.nodes.set(event.node, { visits: 0, ms: 0, failed: 0, open: 0 });
    const node = graph.nodes.get(event.node);
    if (event.kind === "node_started") {
      node.visits += 1;
      node.open += 1;
      if (!graph.steps.has(event.step_id)) graph.steps.set(event.step_id, new Set());
      graph.steps.get(event.step_id).add(event.node);
    } else {
      node.open -= 1;
      node.failed += event.kind === "node_failed" ? 1 : 0;
      node.ms += event.duration_ms ?? 0;
    }
    return true;
  }

  draw() {
    const visited = [...this.scopes].filter(([, graph]) => graph.steps.size); // a simulated fault is at no node
    return visited.slice(0, 8).map(([scope, graph]) => h("figure", { class: "graph" },
      h("figcaption", null, scope ? `Path taken in ${scope}` : "Path taken"), h("div", { class: "scroll" }, drawGraph(graph))));
  }
}

function drawGraph(graph) {
  const steps = [...graph.steps].sort(([a], [b]) => a - b).map(([, names]) => [...names]);
  const columns = [];
  const place = new Map();
  for (const names of steps) {
    const fresh = names.filter((name) => !place.has(name));
    if (!fresh.length) continue;
    for (const name of fresh) place.set(name, { column: columns.length, row: fresh.indexOf(name) });
    columns.push(fresh);
  }
  const rows = Math.max(1, ...columns.map((names) => names.length));
  const edges = new Map();
  for (let index = 1; index < steps.length; index += 1) {
    for (const from of steps[index - 1]) {
      for (const to of steps[index]) {
        const key = JSON.stringify([from, to]);
        edges.set(key, (edges.get(key) ?? 0) + 1);
      }
    }
  }
  const width = 2 * BOX.side + columns.length * (BOX.width + BOX.gapX) - BOX.gapX;
  const height = 2 * BOX.pad + rows * (BOX.height + BOX.gapY) - BOX.gapY;
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "The nodes of the graph and the path taken" },
    svg("defs", null, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      svg("path", { d: "M0 0.8 L7 4 L0 7.2 z", class: "arrowhead" }))));
  const corner = (name) => {
    const { column, row } = place.get(name);
    return { x: BOX.side + column * (BOX.width + BOX.gapX), y: BOX.pad + row * (BOX.height + BOX.gapY) };
  };
  for (const [key, times] of edges) drawing.append(drawEdge(...JSON.parse(key).map(corner), times));
  for (const [name, node] of graph.nodes) if (place.has(name)) drawing.append(drawNode(name, node, corner(name)));
  return drawing;
}

// Forward edges leave at the side; back edges go around, above the first row and below the others.
function drawEdge(from, to, times) {
  const middle = { x: (from.x + to.x + BOX.width) / 2 };
  let path;
  if (to.x > from.x) {
    const [x, y, goal] = [from.x + BOX.width, from.y + BOX.height / 2, to.y + BOX.height / 2];
    const bend = (to.x - x) / 2;
    path = `M${x} ${y} C${x + bend} ${y} ${to.x - bend} ${goal} ${to.x - 2} ${goal}`;
    middle.y = Math.min(y, goal) - 7;
  } else {
    const isAbove = from.y === BOX.pad && to.y === BOX.pad;
    const side = (box) => (isAbove ? box.y : box.y + BOX.height);
    const lift = isAbove ? -30 : 30;
    const [x, goal] = [from.x + BOX.width / 2 + 10, to.x + BOX.width / 2 - 10];
    path = `M${x} ${side(from)} C${x} ${side(from) + lift} ${goal} ${Math.max(side(from), side(to)) + lift} ${goal} ${side(to) + Math.sign(lift) * 2}`;
    middle.y = isAbove ? BOX.pad - 24 : Math.max(side(from), side(to)) + 26;
  }
  const label = times > 1 ? svg("text", { x: middle.x, y: middle.y, class: "times" }, `${times}×`) : null;
  return svg("g", null, svg("path", { d: path, class: "way", "marker-end": "url(#arrow)" }), label);
}

function drawNode(name, node, { x, y }) {
  const state = node.failed ? "failed" : node.open > 0 ? "open" : "done";
  const shown = visible(name);
  const label = shown.length > 18 ? `${shown.slice(0, 17)}…` : shown;
  return svg("g", { class: `node ${state}` },
    svg("title", null, `${name}: ${node.visits} visits, ${duration(node.ms)}, ${node.failed} failed`),
    svg("rect", { x, y, width: BOX.width, height: BOX.height, rx: 10 }),
    svg("text", { x: x + BOX.width / 2, y: y + 20, class: "label" }, label),
    svg("text", { x: x + BOX.width / 2, y: y + 36, class: "sub" }, `${count(node.visits)}× · ${duration(node.ms)}`));
}
