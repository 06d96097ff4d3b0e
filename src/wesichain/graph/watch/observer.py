"""Observers: a person's or a program's view of a run, node by node. None can hurt it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Any, TextIO

from typing_extensions import override

from wesichain.trace import neutralise

_WIDTH = 500  # characters of a line


class Observer:
    """Override the methods of the events that you want. They may be async; one that raises is logged once."""

    def on_node_start(self, node: str, input: Any) -> Awaitable[None] | None:
        """A node is about to run on this state."""

    def on_node_end(self, node: str, output: Any, duration_ms: float) -> Awaitable[None] | None:
        """A node returned this."""

    def on_error(self, node: str, error: BaseException) -> Awaitable[None] | None:
        """A node failed, for good."""

    def on_tool_call(self, node: str, tool: str, args: Any) -> Awaitable[None] | None:
        """An agent in this node calls a tool."""

    def on_tool_result(self, node: str, tool: str, result: Any) -> Awaitable[None] | None:
        """The tool gave this; an error's text, where it failed."""

    def on_checkpoint_saved(self, node: str) -> Awaitable[None] | None:
        """The super-step of this node is stored."""


class CollectingObserver(Observer):
    """Keeps what happened as short texts: `start:add`, `end:add`, `error:add`, `tool_call:add:search`, ..."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @override
    def on_node_start(self, node: str, input: Any) -> None:
        self.events.append(f"start:{node}")

    @override
    def on_node_end(self, node: str, output: Any, duration_ms: float) -> None:
        self.events.append(f"end:{node}")

    @override
    def on_error(self, node: str, error: BaseException) -> None:
        self.events.append(f"error:{node}")

    @override
    def on_tool_call(self, node: str, tool: str, args: Any) -> None:
        self.events.append(f"tool_call:{node}:{tool}")

    @override
    def on_tool_result(self, node: str, tool: str, result: Any) -> None:
        self.events.append(f"tool_result:{node}:{tool}")

    @override
    def on_checkpoint_saved(self, node: str) -> None:
        self.events.append(f"checkpoint:{node}")


class ConsoleObserver(Observer):
    """Prints a line for everything that happens, without what a terminal would act on."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def _say(self, mark: str, node: str, text: str = "") -> None:
        line = f"{mark} {node}{': ' if text else ''}{text}"
        shown = line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…"
        print(neutralise(shown, newlines=False), file=self._stream or sys.stdout)

    @override
    def on_node_start(self, node: str, input: Any) -> None:
        self._say("▶", node)

    @override
    def on_node_end(self, node: str, output: Any, duration_ms: float) -> None:
        self._say("✔", node, f"{duration_ms:.1f} ms")

    @override
    def on_error(self, node: str, error: BaseException) -> None:
        self._say("✘", node, f"{type(error).__name__}: {error}")

    @override
    def on_tool_call(self, node: str, tool: str, args: Any) -> None:
        self._say("→", node, f"{tool}({args})")

    @override
    def on_tool_result(self, node: str, tool: str, result: Any) -> None:
        self._say("←", node, f"{tool} = {result}")

    @override
    def on_checkpoint_saved(self, node: str) -> None:
        self._say("●", node, "saved")
