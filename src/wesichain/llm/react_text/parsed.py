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
# A token of a template, or the label of the next speaker.
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
