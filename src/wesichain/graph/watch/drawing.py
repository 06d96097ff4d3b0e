"""Drawings: of a graph, as Mermaid; of a run, from its events: which nodes ran, how often, how long."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from wesichain.core import Event
from wesichain.core.internal import NodeCompleted, NodeFailed, NodeStarted, dataclass
from wesichain.graph.definition import END, START, Definition


def mermaid(definition: Definition, notes: Mapping[str, str] | None = None) -> str:
    """Nodes as boxes, edges as arrows, choices as dotted ones. `notes` adds a line to a node's box."""
    ids = {START: "start", END: "end_", **{name: f"n{index}" for index, name in enumerate(definition.nodes)}}
    lines = ["flowchart TD", "    start([start])"]
    for name in definition.nodes:
        note = f"<br/>{_text(notes[name])}" if notes and name in notes else ""
        lines.append(f'    {ids[name]}["{_text(name)}{note}"]')
    for source in (START, *definition.nodes):
        lines += _arrows(definition, source, ids)
    if any(line.endswith(" end_") for line in lines):
        lines.insert(2, "    end_([end])")
    return "\n".join(lines) + "\n"


def _arrows(definition: Definition, source: str, ids: Mapping[str, str]) -> list[str]:
    """The arrows that lead away from a node."""
    here, goto = f"    {ids[source]}", definition.nodes[source].goto if source in definition.nodes else ()
    solid = [*definition.edges.get(source, ())]
    solid += [join.target for join in definition.joins_of.get(source, ())]
    lines = [f"{here} --> {ids[target]}" for target in solid]
    for router in definition.routers.get(source, ()):
        for label, target in (router.targets or {name: name for name in definition.nodes}).items():
            said = "" if label == target else f'|"{_text(str(label))}"|'
            lines.append(f"{here} -.->{said} {ids[target]}")
    lines += [f"{here} -.-> {ids[target]}" for target in goto]
    return lines or [f"{here} --> end_"]


def _text(text: str) -> str:
    """Text that Mermaid shows as it is: entities in place of what it would read as its own."""
    return "".join(char if char.isalnum() or char in " _-.:,/" else f"#{ord(char)};" for char in text)


@dataclass(frozen=True, slots=True)
class NodeVisit:
    """One visit to a node: when it began, how long it took, how it ended (`ok` None: it did not)."""

    node: str
    began: float
    seconds: float
    ok: bool | None


def visits(events: Iterable[Event]) -> list[NodeVisit]:
    """The visits of a run, in the order in which they began. Those of inner graphs are named by scope."""
    found: list[NodeVisit] = []
    open_: dict[tuple[str, str, str], deque[int]] = {}
    last = 0.0
    for event in events:
        last = max(last, event.at)
        if not isinstance(event, NodeStarted | NodeCompleted | NodeFailed):
            continue
        name = f"{event.scope}/{event.node}" if event.scope else event.node
        branch = event.scope, event.node, event.task_id
        if isinstance(event, NodeStarted):
            open_.setdefault(branch, deque()).append(len(found))
            found.append(NodeVisit(name, event.at, 0.0, None))
        elif open_.get(branch):
            index = open_[branch].popleft()
            began = found[index].began
            seconds = event.duration_ms / 1000 if isinstance(event, NodeCompleted) else event.at - began
            found[index] = NodeVisit(name, began, max(0.0, seconds), isinstance(event, NodeCompleted))
    return [
        NodeVisit(one.node, one.began, max(0.0, last - one.began), None) if one.ok is None else one
        for one in found
    ]


def run_mermaid(definition: Definition, events: Iterable[Event]) -> str:
    """The graph as a flowchart, with what happened at each node."""
    return mermaid(definition, {name: _summary(ones) for name, ones in _by_node(visits(events)).items()})


def run_svg(events: Iterable[Event], *, width: int = 900) -> str:
    """The run as a picture: a row for each node, a bar for each visit. It needs nothing from elsewhere."""
    rows = _by_node(visits(events))
    label, row, pad = 260, 28, 10
    begin = min((one.began for ones in rows.values() for one in ones), default=0.0)
    end = max((one.began + one.seconds for ones in rows.values() for one in ones), default=begin)
    scale = (width - label - 2 * pad) / max(end - begin, 1e-6)
    height = max(1, len(rows)) * row + 2 * pad
    lines = [_HEAD.format(width=width, height=height)]
    for index, (name, ones) in enumerate(rows.items()):
        y = pad + index * row
        lines.append(
            f'<text x="{pad}" y="{y + 17}" fill="currentColor">{_escaped(name)}'
            f'<tspan fill="#888" dx="8">{_escaped(_summary(ones))}</tspan></text>'
        )
        for one in ones:
            x, w = label + (one.began - begin) * scale, max(2.0, one.seconds * scale)
            lines.append(
                f'<rect x="{x:.1f}" y="{y + 5}" width="{w:.1f}" height="{row - 10}" '
                f'rx="3" fill="{_COLOURS[one.ok]}">'
                f"<title>{_escaped(name)}: {_time(one.seconds)}</title></rect>"
            )
    return "\n".join([*lines, "</svg>"]) + "\n"


_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
    'height="{height}" font-family="system-ui, sans-serif" font-size="12" role="img" '
    'aria-label="the nodes of the run over time">'
)
_COLOURS: Mapping[bool | None, str] = {True: "#2f7d5b", False: "#c0392b", None: "#d4a017"}


def _by_node(found: Sequence[NodeVisit]) -> dict[str, list[NodeVisit]]:
    rows: dict[str, list[NodeVisit]] = {}
    for one in found:
        rows.setdefault(one.node, []).append(one)
    return rows


def _summary(ones: Sequence[NodeVisit]) -> str:
    failed = sum(one.ok is False for one in ones)
    text = f"{len(ones)}x, {_time(sum(one.seconds for one in ones))}"
    return f"{text}, {failed} failed" if failed else text


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


def _escaped(text: str) -> str:
    """Text that is only text: no markup, and no character that XML or a reader's eye would stumble over."""
    shown = "".join(char if char.isprintable() else " " for char in text[:80])
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
