"""Drawings: small SVG files by hand, readable on light and on dark pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from .estimate import Estimate

STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 14px; font-weight: 600 }
.over { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
.faint { fill: #59636e } .grid { stroke: #d1d9e0 } .whisker { stroke: #1f2328 }
.peer { fill: #afb8c1; stroke: #818b98 } .yardstick { fill: #59636e; stroke: #59636e }
.ours { fill: #0969da; stroke: #0969da }
.line { fill: none; stroke-width: 1.5 } .ours.line { stroke-width: 3 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .over { stroke: #0d1117 }
.faint { fill: #9198a1 } .grid { stroke: #3d444d } .whisker { stroke: #f0f6fc }
.peer { fill: #565d66; stroke: #7d8590 } .yardstick { fill: #d1d7e0; stroke: #d1d7e0 }
.ours { fill: #4493f8; stroke: #4493f8 } .line { fill: none }
}
</style>"""

WIDTH = 760
Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `kind` is "ours", "yardstick" or "peer"."""

    label: str
    value: Estimate
    kind: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line through (x, y) points, labelled at its end."""

    label: str
    points: Sequence[tuple[float, float]]
    kind: str


class Scale:
    """A logarithmic axis: maps values to places between two coordinates."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self.low = math.floor(math.log10(min(values)))
        self.high = max(self.low + 1.0, math.log10(max(values)))
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, math.floor(self.high) + 1)]


def draw_bars(title: str, bars: Sequence[Bar], form: Format) -> str:
    """Bars from left to right on a logarithmic axis, with their intervals as whiskers."""
    left, top, pitch = 230, 60, 24
    bottom = top + pitch * len(bars)
    scale = Scale([edge for bar in bars for edge in (bar.value.low, bar.value.high)], left, WIDTH - 90)
    parts = [
        f'<line class="grid" x1="{scale(tick)}" x2="{scale(tick)}" y1="{top - 6}" y2="{bottom}"/>'
        f'<text class="faint" x="{scale(tick)}" y="{bottom + 16}" text-anchor="middle">{form(tick)}</text>'
        for tick in scale.ticks
    ]
    for place, bar in enumerate(bars):
        y = top + pitch * place
        middle = y + pitch / 2 - 3
        low, end, high = scale(bar.value.low), scale(bar.value.median), scale(bar.value.high)
        width = max(1.0, end - left)
        parts += [
            f'<text x="{left - 8}" y="{middle + 4}" text-anchor="end">{escape(bar.label)}</text>',
            f'<rect class="{bar.kind}" x="{left}" y="{y}" width="{width:.1f}" height="{pitch - 6}"/>',
            f'<line class="whisker" x1="{low}" x2="{high}" y1="{middle}" y2="{middle}"/>',
            f'<text class="over" x="{high + 6}" y="{middle + 4}">{form(bar.value.median)}</text>',
        ]
    return _svg(title, bottom + 28, [_subtitle("less is better"), *parts])


def draw_lines(title: str, lines: Sequence[Line], *, across_name: str, x_form: Format, y_form: Format) -> str:
    """Lines on two logarithmic axes; the labels at the right keep clear of each other."""
    left, right, top, bottom = 70, WIDTH - 230, 60, 460
    across = Scale([x for line in lines for x, _ in line.points], left, right)
    up = Scale([y for line in lines for _, y in line.points], bottom, top)
    parts = [
        f'<line class="grid" x1="{left}" x2="{right}" y1="{up(tick)}" y2="{up(tick)}"/>'
        f'<text class="faint" x="{left - 8}" y="{up(tick) + 4}" text-anchor="end">{y_form(tick)}</text>'
        for tick in up.ticks
    ]
    parts += [
        f'<text class="faint" x="{across(tick)}" y="{bottom + 18}" text-anchor="middle">{x_form(tick)}</text>'
        for tick in across.ticks
    ]
    middle = (left + right) / 2
    parts.append(
        f'<text class="faint" x="{middle}" y="{bottom + 36}" text-anchor="middle">{across_name}</text>'
    )
    ordered = sorted(lines, key=lambda line: up(line.points[-1][1]))
    places = spread([up(line.points[-1][1]) for line in ordered], gap=15, first=top, last=bottom)
    for line, place in zip(ordered, places, strict=True):
        path = " ".join(f"{across(x)},{up(y)}" for x, y in line.points)
        x, y = across(line.points[-1][0]), up(line.points[-1][1])
        parts += [
            f'<polyline class="{line.kind} line" points="{path}"/>',
            f'<circle class="{line.kind}" cx="{x}" cy="{y}" r="3"/>',
            f'<line class="grid" x1="{x + 5}" y1="{y}" x2="{right + 16}" y2="{place}"/>',
            f'<text x="{right + 20}" y="{place + 4}">{escape(line.label)}</text>',
        ]
    return _svg(title, bottom + 48, [_subtitle("level is better than climbing"), *parts])


def spread(places: Sequence[float], *, gap: float, first: float, last: float) -> list[float]:
    """The ascending places, moved as little as needed to lie `gap` apart, between `first` and `last`."""
    groups: list[tuple[float, int]] = []  # neighbours that touch: where the first would lie, and how many
    for index, place in enumerate(places):
        at, count = place - gap * index, 1
        while groups and groups[-1][0] >= at:
            before, more = groups.pop()
            at, count = (at * count + before * more) / (count + more), count + more
        groups.append((at, count))
    level = [at for at, count in groups for _ in range(count)]
    highest = last - gap * (len(places) - 1)
    return [round(min(max(at, first), highest) + gap * index, 1) for index, at in enumerate(level)]


def _subtitle(words: str) -> str:
    scale = "logarithmic: each grid line is ten times the one before"
    return f'<text class="faint" x="8" y="38">{scale}; {words}</text>'


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img">'
    )
    name = f'<title>{escape(title)}</title>\n<text class="title" x="8" y="20">{escape(title)}</text>'
    return "\n".join([head, STYLE, name, *parts, "</svg>"]) + "\n"
