"""Words for figures: times, sizes, ratios and Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from .estimate import Estimate

Format = Callable[[float], str]


def significant(value: float) -> str:
    """Three significant digits at most, without an exponent."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def seconds(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size * 0.9995:
            return f"{significant(value / size)} {unit}"
    return f"{significant(value * 1e9)} ns"


def size(value: float) -> str:
    """An amount of memory in the unit that suits it."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale * 0.9995:
            return f"{significant(value / scale)} {unit}"
    return f"{significant(value)} B"


def times(value: float) -> str:
    """A ratio."""
    return significant(value) if value >= 10 else f"{value:.2f}"


def with_interval(figure: Estimate, form: Format) -> str:
    """The median and, below it, the interval."""
    low, high = form(figure.low), form(figure.high)
    if low == high:
        return form(figure.median)
    return f"{form(figure.median)}<br><sub>{low} to {high}</sub>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and the rest to the right."""
    lines = [" | ".join(head), " | ".join([":--", *["--:"] * (len(head) - 1)])]
    lines += [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    return "\n".join(f"| {line} |" for line in lines)


def paragraphs(*parts: str) -> str:
    """The parts that there are, a blank line between them."""
    return "\n\n".join(part for part in parts if part)
