"""A drawing of a graph, as Mermaid."""

from __future__ import annotations

from collections.abc import Mapping

from wesichain.graph.definition import END, START, Definition


def mermaid(definition: Definition) -> str:
    """Nodes as boxes, edges as arrows, choices as dotted ones."""
    ids = {START: "start", END: "end_", **{name: f"n{index}" for index, name in enumerate(definition.nodes)}}
    lines = ["flowchart TD", "    start([start])"]
    lines += [f'    {ids[name]}["{_text(name)}"]' for name in definition.nodes]
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
