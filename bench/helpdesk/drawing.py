"""Drawings of the experiment: bars with intervals, and columns over time, as SVG by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 760
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 14px; font-weight: 600 } .faint { fill: #59636e }
.grid { stroke: #d1d9e0 } .whisker { stroke: #1f2328; stroke-width: 1.5 }
.ours { fill: #0969da } .other { fill: #afb8c1 } .missed { fill: none; stroke: #818b98 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .faint { fill: #9198a1 } .grid { stroke: #3d444d } .whisker { stroke: #f0f6fc }
.ours { fill: #4493f8 } .other { fill: #565d66 } .missed { stroke: #7d8590 }
}
</style>"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A mean with its interval."""

    label: str
    mean: float
    low: float
    high: float
    is_ours: bool


def draw_bars(title: str, bars: Sequence[Bar], *, top: int, best: float) -> str:
    """Bars on a linear axis from 0 to `top`, with a line at the best that is possible."""
    left, first, pitch = 220, 56, 28
    bottom = first + pitch * len(bars)
    unit = (WIDTH - 90 - left) / top
    parts: list[str] = []
    for tick in range(0, top + 1, 2):
        x = left + unit * tick
        parts += [_line("grid", (x, first - 6), (x, bottom)), _text(str(tick), x, bottom + 16)]
    for place, bar in enumerate(bars):
        y = first + pitch * place
        middle = y + pitch / 2 - 4
        low, high = left + unit * bar.low, left + unit * bar.high
        parts += [
            _text(bar.label, left - 8, middle + 4, anchor="end", kind=""),
            _box("ours" if bar.is_ours else "other", (left, y), (unit * bar.mean, pitch - 8)),
            _line("whisker", (low, middle), (high, middle)),
            _text(f"{bar.mean:.2f}", high + 6, middle + 4, anchor="start", kind=""),
        ]
    x = left + unit * best
    parts += [_line("whisker", (x, first - 8), (x, bottom)), _text("best possible", x, first - 12)]
    return _svg(title, bottom + 26, parts)


def draw_columns(title: str, values: Sequence[tuple[int, bool]], *, top: int, under: str) -> str:
    """A column for each run, in their order; hollow where the task was not solved."""
    left, right, first, bottom = 44, WIDTH - 16, 44, 224
    step = (right - left) / max(1, len(values))
    unit = (bottom - first) / top
    parts: list[str] = []
    for tick in range(0, top + 1, 5):
        y = bottom - unit * tick
        parts += [_line("grid", (left, y), (right, y)), _text(str(tick), left - 8, y + 4, anchor="end")]
    for place, (value, is_solved) in enumerate(values):
        corner = (left + step * place + 2, bottom - unit * value)
        parts.append(_box("ours" if is_solved else "missed", corner, (step - 4, unit * value)))
    parts.append(_text(under, (left + right) / 2, bottom + 18))
    return _svg(title, bottom + 28, parts)


def _line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _box(kind: str, corner: tuple[float, float], size: tuple[float, float]) -> str:
    (x, y), (width, height) = corner, size
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _text(words: str, x: float, y: float, *, anchor: str = "middle", kind: str = "faint") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img">'
    )
    name = f'<title>{escape(title)}</title>\n<text class="title" x="8" y="20">{escape(title)}</text>'
    return "\n".join([head, STYLE, name, *parts, "</svg>"]) + "\n"
