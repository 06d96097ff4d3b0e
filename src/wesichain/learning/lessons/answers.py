"""Answers: a tool gave what was asked for, and the run did not say it.

Such a run failed, and yet it shows two things: the way to that tool was right, and what it gives has to be
said. The value is compared with what the feedback says should have been, and is not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from wesichain.core import JsonValue
from wesichain.learning.entities import Feedback, ToolInvocation, is_named

from .forms import Mend

_OF_THE_ANSWER = re.compile(r"\b(?:answer|repl(?:y|ied)|response)", re.IGNORECASE)
_LONG = 2000  # characters of a text that are compared
_MANY = 1000  # values of a result that are compared


def unsaid(calls: Sequence[ToolInvocation], *, task: str, answer: str, feedback: Feedback) -> str:
    """The tool, the last of several, that gave the value which the answer should have named; "" without one.

    Words about the answer count as they are, with the value in them; what the task says itself is no find.
    """
    words = feedback.why if _OF_THE_ANSWER.search(feedback.why) else ""
    wanted = (feedback.answer or words)[:_LONG]
    known = f"{task[:_LONG]}\n{answer[:_LONG]}"
    if not wanted or (feedback.answer and is_named(feedback.answer, answer)):
        return ""
    for call in reversed(calls):
        values = islice(leaves(call.result), _MANY) if call.success else ()
        for value in map(str, values):
            if _is_wanted(value[:_LONG], wanted, whole=bool(feedback.answer)) and not is_named(value, known):
                return call.tool_name
    return ""


def saying(tool: str) -> Mend:
    """The lesson of it: about runs that call the tool, without its name, which would be read as a way."""
    return Mend("stop", (tool,), "Answer with what the tool gave.")


def leaves(value: JsonValue) -> Iterator[JsonValue]:
    """The values of a result, whatever they are kept in."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield value


def _is_wanted(value: str, wanted: str, *, whole: bool) -> bool:
    """Whether a value is what is wanted, or a part of it, or (a tool's sentence) `whole` has it in it."""
    if whole and is_named(wanted, value):
        return True
    return (len(value) > 1 or value.isdigit()) and value in wanted and is_named(value, wanted)
