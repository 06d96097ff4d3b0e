"""The grammar: what the sections of a reply mean together, in every dialect.

A call is one action and one complete input. More than one action, input or object is no call, nor is a call
beside a final answer; nothing behind an `Observation:` counts, since the model made that up. A final answer
before any action is final. What else stands around the call is kept as its remark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from wesichain.core.internal import dump_json, is_array, is_object
from wesichain.errors import CodecError

from .inputs import JSON_START, check_encoding, load_data, read_input, read_name, tidy, without_lead
from .lenient import load
from .native import CALL_START, TOOL_KEYS, NoCallError, call_of, load_call, native_calls, without_markers
from .parsed import Parsed, TextCall, action, final, malformed, without_run_on
from .structure import DECIDES, Section, TextReply

_BLOB = re.compile(r"^[^\S\n]*+(`*+)(?:json)?+[^\S\n]*+(?=[{\[])", re.MULTILINE | re.IGNORECASE)
_QUOTED = "is only quoted; write it on lines of its own, outside of quotations and code, if it is meant"
SEVERAL = "the reply has more than one action or input; write one Action and one Action Input"
BOTH = "the reply has both a call and a final answer; give one of them"
_NO_TOOL = "the Action does not name a tool"


class TextReading(NamedTuple):
    """The calls of a reply and what is said around them, or the final answer; with a thought of their own."""

    calls: Sequence[TextCall] = ()
    remark: str = ""
    answer: str | None = None
    thought: str | None = None


class Grammar(NamedTuple):
    """The part of the grammar that differs between dialects.

    `marks` are further markers. `split` reads an action that has its input in the same line, and an input
    without an action is one of the tool `implied`: of these markers, where there are any.
    """

    marks: re.Pattern[str] | None = None
    split: Callable[[str], TextReading] | None = None
    implied: str = ""


REACT_GRAMMAR = Grammar()


def read_text(text: str, grammar: Grammar, *, strict: bool, truncated: bool) -> Parsed:
    """Read a reply that has no reasoning in it."""
    reply = TextReply(text, grammar.marks)
    sections = until_observation(reply)
    thought = _thought_of(reply, sections)
    place = next((index for index, section in enumerate(sections) if section.mark in DECIDES), None)
    try:
        if place is not None:
            reading = _marked(reply, sections[place:], grammar, truncated=truncated)
        else:
            reading = _unmarked(reply, sections, strict=strict, truncated=truncated)
    except NoCallError as error:
        thought = thought if error.thought is None else error.thought
        return malformed(str(error), thought=thought, tool=error.name, remark=error.remark)
    thought = thought if reading.thought is None else reading.thought
    if reading.answer is not None:
        return final(reading.answer, thought=thought)
    return action(*reading.calls, thought=thought, remark=reading.remark)


def until_observation(reply: TextReply) -> list[Section]:
    """The sections before a made-up result. An `Observation:` ahead of any action is only a thought."""
    sections: list[Section] = []
    decided = False
    for section in reply.sections:
        if decided and section.mark == "observation":
            break
        decided = decided or section.mark in DECIDES
        sections.append(section)
    return sections


def before_observation(text: str) -> str:
    """The reply without the result that the model made up, and all that it built on that."""
    reply = TextReply(text)
    return reply.text[: until_observation(reply)[-1].end].rstrip()


def _thought_of(reply: TextReply, sections: Sequence[Section]) -> str:
    """The thought before the first other marker; text before any marker counts if there is no more."""
    plain, thoughts = "", list[str]()
    for section in sections:
        if section.mark == "plain":
            plain = plain or _text(reply, section).strip(" \t\r\n`")
        elif section.mark == "thought":
            thoughts.append(_text(reply, section).strip())
        elif section.mark in DECIDES:
            break
    return "\n".join(filter(None, thoughts)) or plain


def _text(reply: TextReply, section: Section) -> str:
    return reply.text[section.start : section.end]


# --- replies with markers -------------------------------------------------------------------------


def _marked(
    reply: TextReply, sections: Sequence[Section], grammar: Grammar, *, truncated: bool
) -> TextReading:
    """Read the first section that decides, with those behind it."""
    first, *behind = sections
    if reply.quotes(first.at, call=first.mark in ("action", "input")):
        raise NoCallError(f"what follows {reply.text[first.at : first.start].strip()!r} {_QUOTED}")
    if first.mark in ("final", "answer"):
        return _final(reply, sections)
    if any(reply.begins_line(at) and not reply.quotes(at) for at in _call_starts(reply.text[: first.at])):
        raise NoCallError(SEVERAL)
    is_own = grammar.marks is None or grammar.marks.match(reply.text, first.at) is not None
    split, implied = (grammar.split, grammar.implied) if is_own else (None, "")
    given = first if first.mark == "input" else None
    if given and not implied:
        raise NoCallError("there is an Action Input but no Action before it")
    if behind and behind[0].mark == "input" and not given and not split:
        given = behind.pop(0)
    remark = _remark_of(reply, first.at, behind)
    line = implied if first is given else _text(reply, first)
    if given is not None:
        is_cut = truncated and given.end == len(reply.text)
        return called(line, _text(reply, given), remark=remark, truncated=is_cut)
    if split:
        found = split(line)
        return found._replace(remark=f"{found.remark}\n{remark}")
    return _lone_action(line, remark, truncated=truncated)


def _remark_of(reply: TextReply, at: int, behind: Sequence[Section]) -> str:
    """What is said beside a call: in front of it as its introduction, and in the sections behind it."""
    if any(section.mark in ("final", "answer") for section in behind):
        raise NoCallError(BOTH)
    if any(section.mark in DECIDES for section in behind):
        raise NoCallError(SEVERAL)
    texts = (_text(reply, section) for section in behind)
    remarks = [tidy(text).strip("` \n") for text in texts if not text.isspace()]
    return "\n".join([reply.introduction(at), *remarks])


def _final(reply: TextReply, sections: Sequence[Section]) -> TextReading:
    """An answer may mention an `Action:` line, or a native call within a line, and no call in full."""
    end = sections[-1].end
    for index, section in enumerate(sections[1:], start=1):
        following = sections[index + 1 : index + 2]
        if section.mark in ("plain", "thought", "final") or (
            section.mark == "action" and following and following[0].mark == "input"
        ):
            end = section.at
            break
    answer = tidy(without_run_on(reply.text[sections[0].start : end]))
    if CALL_START.search(answer):
        inner = TextReply(answer)
        if any(inner.begins_line(at) and not inner.quotes(at) for at in _call_starts(inner.text)):
            raise NoCallError(BOTH)
    return TextReading(answer=answer)


def _call_starts(text: str) -> Iterator[int]:
    return (found.start() for found in CALL_START.finditer(text))


def called(line: str, given: str, *, truncated: bool = False, remark: str = "") -> TextReading:
    """The call of the tool that `line` names with the text `given`."""
    name, aside = read_name(line)
    if not name:
        raise NoCallError(_NO_TOOL)
    try:
        read = read_input(given, truncated=truncated)
    except CodecError as error:
        raise NoCallError(f"the input of {name!r} cannot be read ({error})") from None
    call = TextCall(name, read.value, read.text, is_bare=read.is_bare)
    return TextReading([call], f"{aside}\n{read.remark}\n{remark}")


def _lone_action(line: str, remark: str, *, truncated: bool) -> TextReading:
    """An Action without an Action Input: the whole call may be in it, as JSON or as `name({...})`."""
    blob = without_lead(line)
    if blob.startswith("{"):
        return _blob(blob, remark=remark, truncated=truncated)
    name, aside = read_name(line)
    given = line.partition("(")[2].strip()
    if name and JSON_START.match(given):
        return called(line.partition("(")[0], given, remark=remark, truncated=truncated)
    if not name:
        raise NoCallError(_NO_TOOL)
    is_bare = not aside.strip("() \t\r\n`*")
    raise NoCallError("the Action has no Action Input", name=name if is_bare else None, remark=remark)


# --- replies without markers ----------------------------------------------------------------------


def _unmarked(reply: TextReply, sections: Sequence[Section], *, strict: bool, truncated: bool) -> TextReading:
    """A reply that names no action and no answer: it may still be a native call, or a bare JSON action."""
    text = reply.text
    if native := CALL_START.search(text):
        return _native(reply, native.start())
    found = _BLOB.search(text) if "{" in text else None
    if (
        found
        and (JSON_START.match(text, found.end()) or text.startswith("{{", found.end()))
        and any(f'"{key}"' in text for key in (*TOOL_KEYS, "function"))
    ):
        if (strict or found.start()) and _quotes_blob(reply, found):
            raise NoCallError(f"the JSON action {_QUOTED}")
        before = TextReply(text[: found.start()])
        thought = _thought_of(before, before.sections).rstrip("` \n")
        lead = reply.introduction(found.start())
        try:
            return _blob(text[found.end() :], remark=lead, thought=thought, truncated=truncated)
        except NoCallError:
            if strict or not _is_data(text[found.end() :]):
                raise
    if not text.strip():
        raise NoCallError("the reply is empty")
    if strict or len(sections) > 1:
        raise NoCallError("there is neither an Action nor a Final Answer")
    return TextReading(answer=tidy(without_run_on(text)), thought="")


def _native(reply: TextReply, start: int) -> TextReading:
    """The native calls that stand in the text: all of them, or none."""
    thought = without_markers(reply.text[:start])
    if reply.quotes(start):
        raise NoCallError(f"the call {_QUOTED}", thought=thought)
    try:
        calls, remark = native_calls(reply.text)
    except NoCallError as error:
        raise NoCallError(str(error), name=error.name, thought=thought) from None
    return TextReading(calls, f"{reply.introduction(start)}\n{remark}", thought=thought)


def _quotes_blob(reply: TextReply, found: re.Match[str]) -> bool:
    """Whether a JSON action is only quoted. One in a fence is not if its fence ends the reply."""
    if found[1] and len(found[1]) < 3:  # inline code
        return True
    fence = next((span for span in reply.quoted if span[0] <= found.start() < span[1]), None)
    if fence is None:
        return reply.quotes(found.end()) and not found[1]
    return not reply.text.startswith(("`", "~"), fence[0]) or bool(tidy(reply.text[fence[1] :]))


def _is_data(text: str) -> bool:
    """Whether JSON is whole and no call at all: without tools it may be the answer."""
    try:
        call_of(load(text, closed=True)[0])
    except NoCallError as error:
        return error.name is None
    except CodecError:
        return False
    return False


_Named: TypeAlias = list[tuple[str, Any]]


def _blob(text: str, *, truncated: bool, remark: str = "", thought: str | None = None) -> TextReading:
    """A call, or the final answer, as one JSON object; several calls as an array of them."""
    try:
        text = tidy(text)
        doubled = text.startswith("{{")  # as templates have it
        found = load_call(text) if doubled else load_data(text, truncated=truncated)
        value, rest = found or (None, "")
        thought = str(value.get("thought") or "") or thought if is_object(value) else thought
        named: _Named = [call_of(item) for item in (value if is_array(value) and value else [value])]
        name, args = named[0]
        if name.lower().replace("_", " ") == "final answer" and len(named) == 1:
            return TextReading(answer=args if isinstance(args, str) else dump_json(args), thought=thought)
        for _, given in named:
            check_encoding(given)
    except CodecError as error:
        raise NoCallError(f"the JSON action cannot be read ({error})", thought=thought) from None
    except NoCallError as error:
        tool = error.name and (read_name(error.name).name or None)
        raise NoCallError(str(error), name=tool, thought=thought) from None
    calls = [TextCall(read_name(name).name, args, dump_json(args)) for name, args in named]
    if not all(call.name for call in calls):
        raise NoCallError(_NO_TOOL, thought=thought)
    return TextReading(calls, f"{rest.strip('` ')}\n{remark}", thought=thought)
