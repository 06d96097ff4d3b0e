"""Isolation: what a tool in a process of its own is given, and how much it may use."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from wesichain.core.internal import dataclass
from wesichain.errors import ToolDefinitionError

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Isolation:
    """The limits of an isolated tool: `@tool(isolate=Isolation(memory_mb=256, env=("API_KEY",)))`.

    `memory_mb` is what it may allocate beyond the interpreter it starts with, `cpu_seconds` what it may
    compute, `file_mb` the size of the largest file that it may write; each holds for every process of the
    tool by itself. `env` names the variables of our environment that it gets.
    """

    memory_mb: int | None = None
    cpu_seconds: int | None = None
    env: tuple[str, ...] = ()
    file_mb: int | None = None

    def __post_init__(self) -> None:
        for name in ("memory_mb", "cpu_seconds", "file_mb"):
            value: Any = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ToolDefinitionError(f"Isolation: {name} is {value!r:.80}; it is a whole number above 0")
        names: Any = self.env
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ToolDefinitionError(
                f"Isolation: env is {names!r:.80}; it is a tuple of names of variables, such as ('API_KEY',)"
            )
        given: tuple[Any, ...] = tuple(names)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]  # any value at all
        for name in given:
            if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
                raise ToolDefinitionError(f"Isolation: env has {name!r:.80}, which is no name of a variable")
        object.__setattr__(self, "env", given)
