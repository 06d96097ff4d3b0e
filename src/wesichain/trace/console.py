"""The console: a run as it happens, in plain text, for a person at a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from wesichain.core import (
    ContentOmitted,
    Event,
    ModelResponded,
    Part,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    Text,
    TextDelta,
    ToolCompleted,
    ToolDispatched,
)
from wesichain.core.internal import (
    Approve,
    ApproveWith,
    Decided,
    HandedOff,
    NodeFailed,
    NodeStarted,
    PendingCall,
    Provide,
    Refuse,
    replace,
    text_of,
)

from .terminal import neutralise

_COLOURS = {"dim": "2", "thought": "3", "call": "36", "result": "32", "error": "31", "answer": "1"}


class ConsoleSink:
    """Shows thoughts, calls, results and the answer. What a model or a tool says cannot steer the terminal.

    Writes to `file` (standard output, as it is when an event comes). Colour only on a terminal, and
    never with `NO_COLOR` set or `color=False`. Results are cut after `max_width` characters.
    """

    def __init__(
        self, file: TextIO | None = None, *, color: bool | None = None, max_width: int = 600
    ) -> None:
        self._file = file
        self._color = color
        self._max_width = max_width
        self._streamed: dict[tuple[str, str], bool] = {}  # runs shown piece by piece: is the line open?
        self._faults: dict[tuple[str, str], str] = {}  # the last one of each run that goes on

    def emit(self, event: Event) -> None:
        run = event.run_id, event.scope
        if isinstance(event, TextDelta):
            self._write(neutralise(event.text))
            self._streamed[run] = True
            return
        if self._streamed.get(run):
            self._streamed[run] = False
            self._write("\n")
        if isinstance(event, StepStarted):
            self._streamed.pop(run, None)
        elif isinstance(event, ModelResponded | RunCompleted) and run in self._streamed:
            return  # its text was shown as it came
        if isinstance(event, StepFailed):
            self._faults[run] = event.message
        elif isinstance(event, RunFailed | RunCompleted | RunInterrupted):
            fault = self._faults.pop(run, None)
            if isinstance(event, RunFailed) and event.message == fault:  # told once, where it happened
                event = replace(event, message="")
        for style, mark, text in _lines_of(event, self._max_width):
            self._say(style, mark, text, indent=event.scope.count("/") + 1 if event.scope else 0)

    def _say(self, style: str, mark: str, text: str, *, indent: int) -> None:
        lead = "  " * indent + mark
        lines = neutralise(text).split("\n")
        body = f"\n{' ' * len(lead)}".join(lines)
        shown = lead + body
        if self._is_coloured():
            shown = f"\x1b[{_COLOURS[style]}m{shown}\x1b[0m"
        self._write(shown + "\n")

    def _is_coloured(self) -> bool:
        if os.environ.get("NO_COLOR"):
            return False
        return self._out().isatty() if self._color is None else self._color

    def _out(self) -> TextIO:
        return self._file or sys.stdout

    def _write(self, text: str) -> None:
        out = self._out()
        encoding = getattr(out, "encoding", None) or "utf-8"
        with suppress(BrokenPipeError):  # the reader of a pipe may go when it has enough
            out.write(text.encode(encoding, "replace").decode(encoding))
            out.flush()


def _lines_of(event: Event, width: int) -> list[tuple[str, str, str]]:
    """The lines about an event: of each the style, the mark, the text."""
    match event:
        case RunStarted():
            again = "goes on" if event.resumed else "starts"
            begins = f"{event.model or 'the run'} {again}: {_cut(event.user_input, width)}"
            return [
                ("dim", "» ", begins),
                *_named(event.parts, "dim"),
                *(("dim", "» ", _decision_line(item, width)) for item in event.decisions),
            ]
        case ModelResponded():
            # A reply without calls is the answer, which the end of the run tells.
            thought = event.response.content if event.response.tool_calls else ""
            said = [("thought", "· ", text) for text in (event.response.reasoning, thought) if text.strip()]
            return said + _named(event.response.parts, "thought")
        case ToolDispatched():
            return [("call", "→ ", f"{_line(event.call.name)} {_cut(text_of(event.call.args), width)}")]
        case ToolCompleted():
            value = _cut(text_of(event.value), width)
            unnamed = [part for part in event.parts if not isinstance(part, Text) and part.label not in value]
            return [("result", "← ", value), *_named(unnamed, "result")]
        case ContentOmitted():
            return [("error", "! ", line) for line in event.omitted]
        case StepFailed() if event.decision != "waiting":  # else the interruption says what it waits for
            what = f"{_line(event.tool_name)}: " if event.tool_name else ""
            return [("error", "! ", f"{what}{event.error}: {_cut(event.message, width)} ({event.decision})")]
        case RunCompleted():
            return [("answer", "", text_of(event.output))]
        case RunFailed():
            return [("error", "✗ ", ": ".join(filter(None, (event.error, event.message))))]
        case RunInterrupted():
            waiting = "".join(
                f"\nwaits for {_awaited(item)}: {_line(item.call.name)}" for item in event.pending
            )
            return [("error", "‖ ", event.reason + waiting)]
        case HandedOff() | NodeStarted() | NodeFailed():
            return [_moved(event, width)]
        case _:
            return []


def _moved(event: HandedOff | NodeStarted | NodeFailed, width: int) -> tuple[str, str, str]:
    """Who has the word now."""
    match event:
        case HandedOff():
            return "dim", "» ", f"{_line(event.source)} hands over to {_line(event.target)}"
        case NodeStarted():
            return "dim", "» ", f"node {_line(event.node)}"
        case NodeFailed():
            return "error", "! ", f"node {_line(event.node)}: {event.error}: {_cut(event.message, width)}"


def _named(parts: Sequence[Part], style: str) -> list[tuple[str, str, str]]:
    """Parts that are no text, by what they are: a terminal shows no pictures."""
    return [(style, "▣ ", part.label) for part in parts if not isinstance(part, Text)]


def _awaited(pending: PendingCall) -> str:
    if pending.question is not None:
        return "an answer"
    return "a result" if pending.external else "approval"


def _decision_line(decided: Decided, width: int) -> str:
    """The line about a person's decision on a call that waited."""
    tool = _line(decided.tool_name)
    match decided.decision:
        case Approve():
            return f"approved: {tool}"
        case ApproveWith(args=args):
            return f"approved: {tool} with {_cut(text_of(args), width)}"
        case Refuse(reason=reason):
            return f"refused: {tool}" + (f" ({_cut(reason, width)})" if reason else "")
        case Provide(value=value, error=error):
            return f"provided: {tool} -> {_cut(error or text_of(value), width)}"


def _line(text: str) -> str:
    return neutralise(text, newlines=False)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[:width]}… ({len(text)} characters)"
