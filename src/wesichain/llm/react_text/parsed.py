"""Parsed: what one reply of a text model says, without the turns that it made up behind its answer."""

from __future__ import annotations

import re
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


# A template's token, or the label of whoever speaks next.
_TOKENS = re.compile(
    r"(?<![`\"'])(?:<\|(?:im_end|im_start|eot_id|end_of_text|endoftext|start_header_id|end|start|return|user|assistant|system)\|>"
    r"|</s>|<s>|\[/?INST\]|<(?:start|end)_of_turn>|<\|?eos\|?>)"
)
_LABELS = re.compile(
    r"^(?:[ \t*#]*+(?:(?P<asked>question)|human|user|assistant|system)"
    r"|###[ \t]*+(?:instruction|input|response))"
    r"[ \t]*+\d*+[ \t]*+\**+[:>]",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWERED = re.compile(r"[^\n]*+\n\s*+\**+(?:a|answer)\b", re.IGNORECASE)


def without_run_on(text: str) -> str:
    """An answer without the turns that the model made up behind it."""
    if "<" in text or "[" in text:
        token = _TOKENS.search(text, len(text) - len(text.lstrip()) + 1)
        if token and text[: token.start()].strip():
            text = text[: token.start()]
    if ":" not in text and ">" not in text:
        return text
    for label in _LABELS.finditer(text):
        before = text[: label.start()].strip()
        is_content = not before or before.endswith((":", "\uff1a"))
        if label["asked"] and _ANSWERED.match(text, label.end()):  # questions and answers are an answer's own
            is_content = True
        if not is_content:
            return text[: label.start()].rstrip(" \t\r\n-=_#*")
        if not before or not label["asked"]:
            return text  # a dialogue from its first line on
    return text
