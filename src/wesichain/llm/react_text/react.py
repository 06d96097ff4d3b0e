"""The grammar: the meaning of the sections of a reply, in every dialect.

A call is one action and one complete input. A reply with more than one action, input or object, or with a
call and a final answer, is malformed. Text after an `Observation:` is ignored, because the model made it up.
A final answer before any action is final. Other text around the call is kept as its remark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import NamedTuple

from wesichain.errors import CodecError

from .inputs import BEHIND, JSON_START, Input, read_input, read_name, tidy, without_lead
from .native import CALL_START, NO_TOOL, json_calls, without_markers
from .parsed import NoCallError, Parsed, TextCall, TextReading, action, final, malformed, without_run_on
from .structure import DECIDES, QUOTED, Section, TextReply

SEVERAL = "the reply has more than one action or input; write one Action and one Action Input"
BOTH = "the reply has both a call and a final answer; give one of them"


class Grammar(NamedTuple):
    """The part of the grammar that differs between dialects.

    `marks` are further markers. `split` parses an action with its input in the same line, and an input
    without an action belongs to the tool `implied`. If there are `marks`, both apply only to them.
    """

    marks: re.Pattern[str] | None = None
    split: Callable[[str], TextReading] | None = None
    implied: str = ""


REACT_GRAMMAR = Grammar()


def read_text(text: str, grammar: Grammar, *, strict: bool, truncated: bool) -> Parsed:
    """Parse a reply without reasoning."""
    reply = TextReply(text, grammar.marks, truncated=truncated)
    before, sections = divide(reply)
    try:
        if sections:
            reading = _decided(reply, sections, grammar, truncated=truncated)
        else:
            reading = _undecided(reply, strict=strict)
    except NoCallError as error:
        thought = error.thought or _thought_of(reply, before)
        return malformed(str(error), thought=thought, tool=error.name, remark=error.remark)
    thought = _thought_of(reply, before) if reading.thought is None else reading.thought
    thought = thought if without_markers(thought) else ""
    if reading.answer is not None:
        return final(reading.answer, thought=thought)
    return action(*reading.calls, thought=thought, remark=reading.remark)


def divide(reply: TextReply) -> tuple[list[Section], list[Section]]:
    """The sections before the first call or answer, and those from it on, up to a made-up observation.

    An `Observation:` before any action is only a thought.
    """
    sections = reply.sections
    first = None
    for index, section in enumerate(sections):
        if first is None and section.mark in DECIDES:
            first = index
        elif first is not None and section.mark == "observation":
            return sections[:first], sections[first:index]
    return (sections, []) if first is None else (sections[:first], sections[first:])


def before_observation(text: str) -> str:
    """The reply without a made-up observation and the text after it."""
    reply = TextReply(text)
    before, decided = divide(reply)
    return reply.text[: (decided or before)[-1].end].rstrip()


def _thought_of(reply: TextReply, sections: Sequence[Section]) -> str:
    """The thoughts in the sections, or else the text before any marker."""
    thoughts = [_text(reply, section).strip() for section in sections if section.mark == "thought"]
    if thought := "\n".join(filter(None, thoughts)):
        return thought
    plain = (_text(reply, section).strip(" \t\r\n`") for section in sections if section.mark == "plain")
    return next(filter(None, plain), "")


def _text(reply: TextReply, section: Section) -> str:
    return reply.text[section.start : section.end]


def _undecided(reply: TextReply, *, strict: bool) -> TextReading:
    """Read a reply without a call or an answer marker, which may be the answer itself."""
    if reply.failed is not None and (strict or not reply.failed.is_data):
        reply.failed.remark = remark_in(reply.failed.remark)
        raise reply.failed
    if not reply.text.strip():
        raise NoCallError("the reply is empty")
    if strict or any(section.mark != "plain" for section in reply.sections):
        raise NoCallError("there is neither an Action nor a Final Answer")
    return TextReading(answer=tidy(without_run_on(reply.text)), thought="")


def _decided(
    reply: TextReply, sections: Sequence[Section], grammar: Grammar, *, truncated: bool
) -> TextReading:
    """Read the first section with a call or an answer, and those after it."""
    first, *behind = sections
    if reply.quotes(first.at, call=first.mark not in ("final", "answer")):
        raise NoCallError(QUOTED)
    if first.mark in ("final", "answer"):
        return _final(reply, sections)
    if first.mark == "call":
        return _complete_calls(reply, sections)
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


def _complete_calls(reply: TextReply, sections: Sequence[Section]) -> TextReading:
    """The whole calls of a reply: all of them, or none."""
    whole = [section for section in sections if section.mark == "call"]
    last = sections.index(whole[-1])
    if len(whole) > 1 and not all(CALL_START.match(reply.text, section.at) for section in whole):
        raise NoCallError(SEVERAL)
    between = [section for section in sections[:last] if section.mark != "call"]
    if any(section.mark in DECIDES or without_markers(_text(reply, section)) for section in between):
        raise NoCallError("there is text between two calls; write them one behind the other, or only one")
    remark = _remark_of(reply, sections[0].at, sections[last + 1 :])
    calls, thought = list[TextCall](), None
    for section in whole:
        if isinstance(section.whole, NoCallError):
            section.whole.remark = remark
            raise section.whole
        calls += section.whole.calls if section.whole else ()
        thought = section.whole.thought if section.whole else None
    return _calls_or_answer(TextReading(calls, remark, thought=thought))


def _calls_or_answer(reading: TextReading) -> TextReading:
    """Whole calls, or the final answer that is written as one."""
    call, *more = reading.calls
    if call.name.lower().replace("_", " ") != "final answer" or more:
        return reading
    answer = call.args if isinstance(call.args, str) else call.input
    return TextReading(answer=answer, thought=reading.thought)


def _remark_of(reply: TextReply, at: int, behind: Sequence[Section]) -> str:
    """The other text with a call: its introduction, and the sections after it."""
    return "\n".join(filter(None, [reply.introduction(at), _remark_behind(reply, behind)]))


def _remark_behind(reply: TextReply, behind: Sequence[Section]) -> str:
    """The sections after a call, which make no other call and give no answer."""
    if any(section.mark in ("final", "answer") for section in behind):
        raise NoCallError(BOTH)
    if any(section.mark in DECIDES for section in behind):
        raise NoCallError(SEVERAL)
    remarks = [without_markers(tidy(_text(reply, section))) for section in behind]
    return "\n".join(filter(None, remarks))


def remark_in(text: str) -> str:
    """The remark in a text after a call, up to a made-up observation."""
    reply = TextReply(text)
    behind = takewhile(lambda section: section.mark != "observation", reply.sections)
    return _remark_behind(reply, [*behind])


def _final(reply: TextReply, sections: Sequence[Section]) -> TextReading:
    """Read the answer, which may mention an `Action:` line or an inline native call, but no complete call."""
    end = sections[-1].end
    for index, section in enumerate(sections[1:], start=1):
        following = sections[index + 1 : index + 2]
        is_call = section.mark == "action" and following and following[0].mark == "input"
        if section.mark == "call":
            raise NoCallError(BOTH)
        if is_call or section.mark in ("plain", "thought", "final"):
            end = section.at
            break
    return TextReading(answer=tidy(without_run_on(reply.text[sections[0].start : end])))


def called(
    line: str,
    given: str,
    *,
    truncated: bool = False,
    remark: str = "",
    read: Callable[[str], Input] | None = None,
) -> TextReading:
    """The call of the tool named in `line` with the input `given`, which `read` parses."""
    name, aside = read_name(line)
    if not name:
        raise NoCallError(NO_TOOL)
    try:
        found = read(given) if read else read_input(given, truncated=truncated)
    except CodecError as error:
        raise NoCallError(f"the input of {name!r} cannot be read ({error})") from None
    call = TextCall(name, found.value, found.text, is_bare=found.is_bare)
    return TextReading([call], f"{aside}\n{found.remark}\n{remark}")


def _lone_action(line: str, remark: str, *, truncated: bool) -> TextReading:
    """Read an Action without an Action Input, which may be a whole call: JSON, or `name({...})`."""
    blob = without_lead(line)
    if blob.startswith("{"):
        found = json_calls(tidy(blob), closed=truncated)
        return _calls_or_answer(found._replace(remark=f"{found.remark.lstrip(BEHIND)}\n{remark}"))
    name, aside = read_name(line)
    given = line.partition("(")[2].strip()
    if name and JSON_START.match(given):
        return called(line.partition("(")[0], given, remark=remark, truncated=truncated)
    if not name:
        raise NoCallError(NO_TOOL)
    is_bare = not aside.strip("() \t\r\n`*")
    raise NoCallError("the Action has no Action Input", name=name if is_bare else None, remark=remark)
