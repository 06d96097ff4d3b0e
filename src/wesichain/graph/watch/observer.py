"""Observers: callbacks for the nodes, tool calls and checkpoints of a run. They cannot make a run fail."""

from __future__ import annotations

import sys
from collections.abc import Awaitable
from typing import Any, TextIO

from typing_extensions import override

from wesichain.trace import neutralise

_WIDTH = 500  # characters of a line


class Observer:
    """Base class of observers. Override any methods; they may be async. An exception is logged once."""

    def on_node_start(self, node: str, input: Any) -> Awaitable[None] | None:
        """Called before a node runs on this state."""

    def on_node_end(self, node: str, output: Any, duration_ms: float) -> Awaitable[None] | None:
        """Called when a node has returned."""

    def on_error(self, node: str, error: BaseException) -> Awaitable[None] | None:
        """Called when a node has failed, after its last retry."""

    def on_tool_call(self, node: str, tool: str, args: Any) -> Awaitable[None] | None:
        """Called when an agent in this node calls a tool."""

    def on_tool_result(self, node: str, tool: str, result: Any) -> Awaitable[None] | None:
        """Called with the result of a tool, or the text of its error."""

    def on_checkpoint_saved(self, node: str) -> Awaitable[None] | None:
        """Called when the super-step of this node has been stored."""


class CollectingObserver(Observer):
    """Collects events as short texts: `start:add`, `end:add`, `error:add`, `tool_call:add:search`, ..."""

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
    """Prints a line for each event, with terminal control characters neutralised."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def _print(self, mark: str, node: str, text: str = "") -> None:
        line = f"{mark} {node}{': ' if text else ''}{text}"
        shown = line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…"
        print(neutralise(shown, newlines=False), file=self._stream or sys.stdout)

    @override
    def on_node_start(self, node: str, input: Any) -> None:
        self._print("▶", node)

    @override
    def on_node_end(self, node: str, output: Any, duration_ms: float) -> None:
        self._print("✔", node, f"{duration_ms:.1f} ms")

    @override
    def on_error(self, node: str, error: BaseException) -> None:
        self._print("✘", node, f"{type(error).__name__}: {error}")

    @override
    def on_tool_call(self, node: str, tool: str, args: Any) -> None:
        self._print("→", node, f"{tool}({args})")

    @override
    def on_tool_result(self, node: str, tool: str, result: Any) -> None:
        self._print("←", node, f"{tool} = {result}")

    @override
    def on_checkpoint_saved(self, node: str) -> None:
        self._print("●", node, "saved")
