"""The parsed reply of a text model, without turns that the model made up after its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from wesichain.core import JsonValue
from wesichain.core.internal import Value


class TextCall(Value):
    """A call in a reply. `input` is the text that `args` was parsed from.

    `is_bare`: the input is text without delimiters. `is_raw`: the values of `args` are strings, regardless of
    the types of the parameters.
    """

    name: str
    args: JsonValue
    input: str = ""
    is_bare: bool = False
    is_raw: bool = False


class TextReading(NamedTuple):
    """The calls of a reply with the text around them, or the final answer; with their own thought."""

    calls: Sequence[TextCall] = ()
    remark: str = ""
    answer: str | None = None
    thought: str | None = None


class NoCallError(Exception):
    """The text looks like a call, but is not a valid one; the message is the reason.

    `name`: the tool, if only its input is missing. `thought`, `remark`: the text before and after it.
    `is_data`: it is JSON that is not a call.
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
    """A parsed reply. An action has `tool` and `args`, a final one `answer`, a malformed one `reason`.

    `calls` are all calls of an action; `tool` and `args` are those of the first. Only a reply in a native
    format may have several. `remark` is the other text around the calls. A malformed reply has a `tool` if
    only the input was missing: a caller that knows the tools can tell whether the tool needs one.
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
    """Whether the whole text has the form of a placeholder: `<id>`, `{{id}}`, `[the id]`, `...`."""
    return len(text) <= 200 and _PLACEHOLDER.fullmatch(text.strip()) is not None


# The end of a turn in a model's template, which some servers leave in the text.
END_TOKEN = re.compile("</s>|<end_of_turn>|<eos>|<[|\uff5c][^<>|\uff5c]{1,60}[|\uff5c]>")
