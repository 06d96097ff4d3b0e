"""Harmony's format: a reply as messages in channels.

The message of the channel `final` is the answer, a message to a function is a call, any other is reasoning.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .inputs import after_lead
from .lenient import end_of

_HEADER = re.compile(
    r"\s*+(?:<\|start\|>(?P<role>[^<\[]{0,120}+))?+<\|channel\|>"
    r"(?P<head>[^<\[]{0,200}+(?:<\|constrain\|>[^<\[]{0,60}+)?+)<\|message\|>"
)
_END = re.compile(r"<\|(?:end|return|call)\|>|(?=<\|start\|>[^<\[]{0,120}<\|channel\|>)")
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.:-]+)")
# Channels whose marks the server dropped: `analysisWe need ...assistantfinalIt is 4.`
_GLUED = re.compile(r"[Aa]ssistant(final|commentary[\s:]*+to=[\w.:-]++\s*+(?:json)?+)")


class Messages(NamedTuple):
    """The messages of a reply. `calls` are names and inputs, `answers` the messages of the final channel,
    `remark` the
    text after a call or an answer."""

    calls: list[tuple[str, str]]
    answers: list[str]
    reasoning: str
    remark: str


def with_marks(text: str) -> str:
    """A reply that begins with the name of the first channel, with the marks that the server dropped."""
    start = text.lstrip()
    if start.startswith("analysis<|message|>"):
        return f"<|channel|>{start}"
    if not start.startswith("analysis") or _GLUED.search(start) is None:
        return text
    start = start.removeprefix("analysis")
    return "<|channel|>analysis<|message|>" + _GLUED.sub(
        r"<|end|><|start|>assistant<|channel|>\1<|message|>", start
    )


def read_messages(text: str, at: int) -> Messages:
    """The messages from a header on, up to a message that the model made up for somebody else."""
    calls, answers, said, remarks = list[tuple[str, str]](), list[str](), list[str](), list[str]()
    while header := _HEADER.match(text, at):
        start, role = header.end(), (header["role"] or "").strip()
        if role and not role.startswith("assistant"):
            return Messages(calls, answers, "\n".join(said), "\n".join(remarks))
        recipient = _RECIPIENT.search(header.group())
        given = end_of(text, after_lead(text, start)) if recipient else None
        end = _END.search(text, given or start)
        body = text[start : end.start() if end else len(text)]
        at = end.end() if end else len(text)
        if recipient:
            calls.append((recipient[1], body.strip()))
        elif header["head"].strip().startswith("final"):
            answers.append(body)
        else:
            (remarks if calls else said).append(body.strip())
    remarks.append(text[at:])
    return Messages(calls, answers, "\n".join(filter(None, said)), "\n".join(remarks).strip("` \n"))


def begins_answer(text: str, at: int) -> int | None:
    """Where the text of the answer begins behind a header, if that has arrived."""
    while header := _HEADER.match(text, at):
        if header["head"].strip().startswith("final") and "to=" not in header.group():
            return header.end()
        end = _END.search(text, header.end())
        if end is None:
            return None
        at = end.end()
    return None
