"""Harmony: replies in channels, of which `analysis` is reasoning, `final` the answer, and a message to a
function is a call. A header that stands in a quotation or within a line is text, and no header."""

from __future__ import annotations

import re

from wesichain.core import dataclass

from .structure import TextReply

_HEADER = (
    r"(?:<\|start\|>(?P<role>[^<]{0,120}+))?+"
    r"<\|channel\|>(?P<head>[^<]{0,200}+(?:<\|constrain\|>[^<]{0,60}+)?+)<\|message\|>"
)
_FIRST = re.compile(rf"(?P<ended><\|end\|>\s*+)?+{_HEADER}")
_NEXT = re.compile(rf"\s*+{_HEADER}")
_END = re.compile(r"<\|(?:end|return|call)\|>|(?=<\|start\|>)")
_RECIPIENT = re.compile(r"to=([\w.:-]+)")
# Channels of which a server has dropped the marks: `analysisWe need ...assistantfinalIt is 4.`
_GLUED = re.compile(r"assistant(?:final|commentary(?=[\s:]*to=))")


@dataclass(frozen=True, slots=True)
class Channels:
    """A reply in channels. `calls` are names with their inputs; `lead` is text in front of the first message
    that belongs to none, `remark` text behind the last."""

    reasoning: str
    final: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    lead: str = ""
    remark: str = ""


def read_channels(text: str) -> Channels | None:
    """The channels of a reply; None if it has none."""
    if "<|channel|>" in text:
        return _read(TextReply(text))
    if text.lstrip().startswith("analysis") and (glued := list(_GLUED.finditer(text))):
        return _read_glued(text, glued[-1])
    return None


def _read(reply: TextReply) -> Channels | None:
    text = reply.text
    found = _first(reply)
    if found is None:
        return None
    before = text[: found.start()].strip()
    thoughts = [before]
    calls: list[tuple[str, str]] = []
    final: str | None = None
    header: re.Match[str] | None = found
    at = found.start()
    while header is not None:
        stop = _END.search(text, header.end())
        body = text[header.end() : stop.start() if stop else len(text)].strip()
        at = stop.end() if stop else len(text)
        role, head = header["role"] or "", header["head"]
        if role.strip() and not role.strip().startswith("assistant"):
            at = len(text)  # a result that the model made up, and what follows it
            break
        if recipient := _RECIPIENT.search(head) or _RECIPIENT.search(role):
            calls.append((recipient[1].removeprefix("functions."), body))
        elif head.strip().startswith("final"):
            final = body  # the last one counts
        else:
            thoughts.append(body)
        header = _NEXT.match(text, at)
    lead = "" if found["ended"] else before
    return Channels("\n".join(filter(None, thoughts)), final, tuple(calls), lead, text[at:].strip("` \n"))


def _first(reply: TextReply) -> re.Match[str] | None:
    """The first header, if it begins a line that nothing quotes, or ends a message that the prompt began."""
    header = _FIRST.search(reply.text)
    if header is None or header["ended"]:
        return header
    return header if reply.begins_line(header.start()) and not reply.quotes(header.start()) else None


def _read_glued(text: str, mark: re.Match[str]) -> Channels:
    reasoning = text[: mark.start()].strip().removeprefix("analysis").strip()
    after = text[mark.end() :].strip()
    if mark.group().endswith("final"):
        return Channels(reasoning, after)
    recipient = _RECIPIENT.search(after)
    given = after[recipient.end() :].strip().removeprefix("json").strip() if recipient else ""
    name = recipient[1].removeprefix("functions.") if recipient else ""
    return Channels(reasoning, calls=((name, given),) if name else ())
