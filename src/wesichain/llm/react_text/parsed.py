"""Parsed: what one reply of a text model says, without the turns that it made up behind its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from wesichain.core import JsonValue
from wesichain.core.internal import Value


class TextCall(Value):
    """A call in a reply. `input` is the text that `args` was read from.

    `is_bare`: the input is text that nothing delimits. `is_raw`: the values of `args` are texts, whatever the
    types of the parameters.
    """

    name: str
    args: JsonValue
    input: str = ""
    is_bare: bool = False
    is_raw: bool = False


class TextReading(NamedTuple):
    """The calls of a reply and what is said around them, or the final answer; with a thought of their own."""

    calls: Sequence[TextCall] = ()
    remark: str = ""
    answer: str | None = None
    thought: str | None = None


class NoCallError(Exception):
    """The text looks like a call and is none; says why.

    `name`: the tool, where only its input is missing. `thought`, `remark`: what is said before and beside it.
    `is_data`: it is JSON, and of no call.
    """

    def __init__(
        self, why: str, *, name: str | None = None, thought: str | None = None, remark: str = ""
    ) -> None:
        super().__init__(why)
        self.is_data = False
        self.name = name
        self.thought = thought
        self.remark = remark


class Parsed(Value):
    """A reply, read. An action has `tool` and `args`, a final one `answer`, a malformed one `reason`.

    `calls` are all calls of an action, the first of which `tool` and `args` repeat: a reply in a native
    format may have several. `remark` is what else the reply says around and behind them. A malformed reply
    keeps its `tool` when only the input was missing: a caller that knows the tools can tell whether that one
    needs any.
    """

    kind: Literal["action", "final", "malformed"]
    thought: str = ""
    tool: str | None = None
    args: JsonValue = None
    answer: str | None = None
    reason: str = ""
    calls: tuple[TextCall, ...] = ()
    remark: str = ""


def action(*calls: TextCall, thought: str = "", remark: str = "") -> Parsed:
    first = calls[0]
    return Parsed("action", thought, first.name, first.args, calls=calls, remark=remark.strip())


def malformed(reason: str, *, thought: str = "", tool: str | None = None, remark: str = "") -> Parsed:
    return Parsed("malformed", thought=thought, tool=tool, reason=reason, remark=remark.strip())


def final(answer: str, *, thought: str = "") -> Parsed:
    if not answer.strip():
        return malformed("the final answer is empty", thought=thought)
    if is_placeholder(answer):
        return malformed("the final answer is a placeholder; write the answer itself", thought=thought)
    return Parsed("final", thought=thought, answer=answer.strip())


_PLACEHOLDER = re.compile(r"<[^<>]+>|\{\{[^{}]+\}\}|\[[^\W\d](?:[\w -]|')*\]|\.{3,}|\u2026")


def is_placeholder(text: str) -> bool:
    """Whether a text is as a whole a placeholder by its form: `<id>`, `{{id}}`, `[the id]`, `...`."""
    return len(text) <= 200 and _PLACEHOLDER.fullmatch(text.strip()) is not None


# What ends a turn in a model's template, where the server leaves it in the text.
END_TOKEN = re.compile("</s>|<end_of_turn>|<eos>|<[|\uff5c][^<>|\uff5c]{1,60}[|\uff5c]>")
# A template's token, or the label of whoever speaks next.
_TOKENS = re.compile(
    r"(?<![`\"'])(?:<\|(?:im_end|im_start|eot_id|end_of_text|endoftext|start_header_id|end|start|return|user|assistant|system)\|>"
    r"|</s>|<s>|\[/?INST\]|<(?:start|end)_of_turn>|<\|?eos\|?>"
    r"|<\uff5c(?:(?:begin|end)\u2581of\u2581sentence|User|Assistant)\uff5c>)"
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
