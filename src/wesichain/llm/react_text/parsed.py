"""Parsed: what one reply of a text model says."""

from __future__ import annotations

from typing import Literal

from wesichain.core import JsonValue, dataclass


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reply, read. An action has `tool` and `args`, a final one `answer`, a malformed one `reason`.

    `input` is the text that `args` was read from. A malformed reply keeps its `tool` when only the
    input was missing: a caller that knows the tools can tell whether that one needs any.
    """

    kind: Literal["action", "final", "malformed"]
    thought: str = ""
    tool: str | None = None
    args: JsonValue = None
    answer: str | None = None
    reason: str = ""
    input: str = ""


def malformed(reason: str, *, thought: str = "", tool: str | None = None) -> Parsed:
    return Parsed("malformed", thought=thought, tool=tool, reason=reason)


def final(answer: str, *, thought: str = "") -> Parsed:
    if not answer.strip():
        return malformed("the final answer is empty", thought=thought)
    return Parsed("final", thought=thought, answer=answer.strip())
