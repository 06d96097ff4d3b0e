"""Docstrings: what a function says of itself and of its parameters, in any of the usual styles."""

from __future__ import annotations

import inspect
from dataclasses import field

from wesichain.core.internal import dataclass


@dataclass(frozen=True, slots=True)
class Docstring:
    """The description, without sections, and one text a parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict[str, str])


def read_docstring(text: str | None) -> Docstring:
    """Read a Google, NumPy, Sphinx or Epydoc docstring; one in no style is all description."""
    cleaned = inspect.cleandoc(text or "").strip()
    if "\n" not in cleaned:
        return Docstring(cleaned)
    from docstring_parser import ParseError, parse  # not needed for the many one-liners

    try:
        parsed = parse(cleaned)
    except ParseError:
        return Docstring(cleaned)
    if not parsed.meta:
        return Docstring(cleaned)  # as it was written, with its indentation
    described = {param.arg_name.lstrip("*"): _joined(param.description) for param in parsed.params}
    return Docstring(
        (parsed.description or "").strip(), {name: said for name, said in described.items() if said}
    )


def _joined(text: str | None) -> str:
    return " ".join((text or "").split())
