"""Writes docs/reference.md: every public name of every door, with the first line of its docstring.

Run: python docs/reference.py    (a test compares the page with the code)
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

DOORS = (
    "wesichain",
    "wesichain.core",
    "wesichain.context",
    "wesichain.errors",
    "wesichain.tools",
    "wesichain.tools.mcp",
    "wesichain.policy",
    "wesichain.middleware",
    "wesichain.agent",
    "wesichain.llm.openai",
    "wesichain.llm.anthropic",
    "wesichain.llm.local",
    "wesichain.llm.react_text",
    "wesichain.llm.fallback",
    "wesichain.llm.limiter",
    "wesichain.graph",
    "wesichain.graph.sqlite",
    "wesichain.graph.postgres",
    "wesichain.learning",
    "wesichain.evals",
    "wesichain.durable",
    "wesichain.trace",
    "wesichain.trace.otel",
    "wesichain.testing",
    "wesichain.web",
)
PAGE = Path(__file__).with_name("reference.md")


def names_of(module: object) -> list[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return sorted(listed)
    here = getattr(module, "__name__", "")
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == here and callable(value)
    )


def line_for(module: object, name: str) -> str:
    value = getattr(module, name)
    documented = inspect.isclass(value) or inspect.isroutine(value)
    text = (inspect.getdoc(value) or "").strip().partition("\n")[0] if documented else ""
    return f"- `{name}`: {text}" if text else f"- `{name}`"


def render() -> str:
    parts = [
        "# Reference",
        "",
        "Every public name, by the door that it is imported from. Written by `python docs/reference.py`.",
    ]
    for door in DOORS:
        module = importlib.import_module(door)
        about = (module.__doc__ or "").strip().partition("\n")[0]
        parts += ["", f"## {door}", "", about, "", *(line_for(module, name) for name in names_of(module))]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
