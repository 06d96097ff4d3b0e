"""The grammar: the meaning of the sections of a reply, in every dialect.

A call is one action and one complete input. A reply with more than one action, input or object, or with a
call and a final answer, is malformed. Text after an `Observation:` is ignored, because the model made it up.
A final answer before any action is final. Other text around the call is kept as its remark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from wesichain.errors import CodecError
from wesichain.llm.families import UNKNOWN, Family

from .answers import answer_in
from .harmony import Messages, read_messages, with_marks
from .inputs import BEHIND, JSON_START, Input, read_input, read_name, tidy, without_lead
from .native import NO_TOOL, json_calls, named_call, without_markers
from .parsed import NoCallError, Parsed, TextCall, TextReading, action, final, malformed
from .reader import DECIDES, QUOTED, Reader, Section

SEVERAL = "the reply has more than one action or input; write one Action and one Action Input"
BOTH = "the reply has both a call and a final answer; give one of them"
OPEN = "the reasoning never ends; close it, and write the reply after it"
_REHEARSED = (
    "a closing mark of reasoning stands behind a call or an answer; write the call or the answer once, "
    "after the reasoning"
)
_FORMS = "the reply has calls in two formats; write them in one"
_UNCLOSED = "the code block around the call is not closed"


class Grammar(NamedTuple):
    """The part of the grammar that differs between dialects.

    `marks` are further markers. `split` parses an action with its input in the same line, and an input
    without an action belongs to the tool `implied`. If there are `marks`, both apply only to them.
    """

    marks: re.Pattern[str] | None = None
    split: Callable[[str], TextReading] | None = None
    implied: str = ""


REACT_GRAMMAR = Grammar()


class Options(NamedTuple):
    """How replies are read. `tools` are the names of the offered tools, None if any name may be one; the
    other fields
    are those of `Reader`."""

    grammar: Grammar = REACT_GRAMMAR
    strict: bool = True
    truncated: bool = False
    family: Family = UNKNOWN
    is_opened: bool = False
    tools: frozenset[str] | None = None

    def reader(self) -> Reader:
        """A reader for one reply in pieces."""
        return Reader(**self._of_reader())

    def read(self, text: str) -> Reader:
        return Reader.of(text, **self._of_reader())

    def _of_reader(self) -> dict[str, Any]:
        return {
            "marks": self.grammar.marks,
            "is_split": self.grammar.split is not None,
            "family": self.family,
            "is_opened": self.is_opened,
            "is_strict": self.strict,
            "truncated": self.truncated,
        }


def read_text(text: str, options: Options) -> Parsed:
    """Parse a reply, without the rules that depend on its tools."""
    reply = options.read(with_marks(text))
    if reply.is_open:
        return malformed(OPEN)
    if reply.header is not None:
        return _read_messages(reply, read_messages(reply.text, reply.header), options)
    before, sections = divide(reply)
    try:
        reading = _decided(reply, sections, options) if sections else _undecided(reply, options)
    except NoCallError as error:
        thought = error.thought or _thought_of(reply, before)
        return malformed(str(error), thought=thought, tool=error.name, remark=error.remark)
    thought = (_thought_of(reply, before) if sections else "") or reading.thought or ""
    thought = thought if without_markers(thought) else ""
    if reading.answer is not None:
        return final(reading.answer, thought=thought)
    return action(*reading.calls, thought=thought, remark=reading.remark)


def _read_messages(reply: Reader, messages: Messages, options: Options) -> Parsed:
    """Parse messages: all calls of functions, or the answer."""
    before, thought = _thought_of(reply, reply.sections), messages.reasoning
    if len(messages.answers) + bool(messages.calls) > 1:
        return malformed(BOTH, thought=thought)
    if messages.answers:
        inner = read_text(messages.answers[0], options._replace(strict=False, is_opened=False))
        if inner.kind != "action" or not messages.remark:
            return inner
        return action(*inner.calls, thought=inner.thought, remark=f"{inner.remark}\n{messages.remark}")
    if not messages.calls:
        return malformed(OPEN)
    try:
        read = [
            named_call(name, tidy(given) or "{}", closed=options.truncated) for name, given in messages.calls
        ]
        said = (reading.remark for reading in read)
        behind = remark_in("\n".join(filter(None, [*said, messages.remark])))
    except NoCallError as error:
        return malformed(str(error), thought=thought)
    remarks = [reply.introduction(reply.header or 0), behind]
    calls = [call for reading in read for call in reading.calls]
    remark = "\n".join(filter(None, remarks))
    return action(*calls, thought="\n".join(filter(None, [before, thought])), remark=remark)


def divide(reply: Reader) -> tuple[list[Section], list[Section]]:
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


def before_observation(text: str, family: Family) -> str:
    """The reply without reasoning, and without a made-up observation and the text after it."""
    reply = Reader.of(text, family=family)
    if not reply.sections or reply.header is not None:
        return text
    before, decided = divide(reply)
    kept = [*before, *decided] if reply.closed is None else reply.sections
    return "".join(reply.text[section.at : section.end] for section in kept).strip() or text


def _thought_of(reply: Reader, sections: Sequence[Section]) -> str:
    """The thoughts in the sections, or else the text before any marker."""
    thoughts = [_text(reply, section).strip() for section in sections if section.mark == "thought"]
    if thought := "\n".join(filter(None, thoughts)):
        return thought
    plain = (_text(reply, section).strip(" \t\r\n`") for section in sections if section.mark == "plain")
    return next(filter(None, plain), "")


def _text(reply: Reader, section: Section) -> str:
    return reply.text[section.start : section.end]


def _undecided(reply: Reader, options: Options) -> TextReading:
    """Read a reply without a call or an answer marker, which may be the answer itself."""
    if reply.failed is not None and (options.strict or not reply.failed.is_data):
        reply.failed.remark = remark_in(reply.failed.remark)
        raise reply.failed
    if not reply.text.strip():
        raise NoCallError("the reply is empty")
    if options.strict or any(
        section.mark != "plain" and section.at < section.start for section in reply.sections
    ):
        raise NoCallError("there is neither an Action nor a Final Answer")
    said = "".join(_text(reply, section) for section in reply.sections if section.mark == "plain")
    thoughts = (_text(reply, section).strip() for section in reply.sections if section.mark == "thought")
    return TextReading(answer=answer_in(said, options.family), thought="\n".join(filter(None, thoughts)))


def _decided(reply: Reader, sections: Sequence[Section], options: Options) -> TextReading:
    """Read the first section with a call or an answer, and those after it."""
    first, *behind = sections
    grammar = options.grammar
    is_answer = first.mark in ("final", "answer")
    if reply.quotes(first.at, call=not is_answer):
        raise NoCallError(QUOTED)
    if reply.closed is not None and (not is_answer or _decides_behind(reply, reply.closed)):
        raise NoCallError(_REHEARSED)
    if is_answer:
        return _final(reply, first, options)
    if first.mark == "call":
        if (
            reply.is_unclosed
        ):  # a code block; around the whole format, its end may have been behind the stop sequence
            raise NoCallError(_UNCLOSED)
        return _complete_calls(reply, sections, options)
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
        is_cut = options.truncated and given.end == len(reply.text)
        return called(line, _text(reply, given), remark=remark, truncated=is_cut)
    if split:
        found = split(line)
        return found._replace(remark=f"{found.remark}\n{remark}")
    return _lone_action(line, remark, options)


def _decides_behind(reply: Reader, count: int) -> bool:
    return any(section.mark in DECIDES for section in reply.sections[count:])


def _complete_calls(reply: Reader, sections: Sequence[Section], options: Options) -> TextReading:
    """The whole calls of a reply: all of them, or none."""
    whole = [section for section in sections if section.mark == "call"]
    last = sections.index(whole[-1])
    if len(whole) > 1 and not all(section.form for section in whole):
        raise NoCallError(SEVERAL)
    if len({section.form for section in whole}) > 1:
        raise NoCallError(_FORMS)
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
    return _calls_or_answer(TextReading(calls, remark, thought=thought), options)


def _calls_or_answer(reading: TextReading, options: Options) -> TextReading:
    """Whole calls, or the final answer that is written as one; unless a tool has that name."""
    call, *more = reading.calls
    is_tool = call.name.casefold() in (options.tools or ())
    if call.name.lower().replace("_", " ") != "final answer" or more or is_tool:
        return reading
    answer = call.args if isinstance(call.args, str) else call.input
    return TextReading(answer=answer, thought=reading.thought)


def _remark_of(reply: Reader, at: int, behind: Sequence[Section]) -> str:
    """The other text with a call: its introduction, and the sections after it."""
    return "\n".join(filter(None, [reply.introduction(at), _remark_behind(reply, behind)]))


def _remark_behind(reply: Reader, behind: Sequence[Section]) -> str:
    """The sections after a call, which make no other call and give no answer."""
    if any(section.mark in ("final", "answer") for section in behind):
        raise NoCallError(BOTH)
    if any(section.mark in DECIDES for section in behind):
        raise NoCallError(SEVERAL)
    remarks = [without_markers(tidy(_text(reply, section))) for section in behind]
    return "\n".join(filter(None, remarks))


def remark_in(text: str) -> str:
    """The remark in a text after a call, up to a made-up observation."""
    reply = Reader.of(text)
    if reply.header is not None or reply.reasoning:
        raise NoCallError(SEVERAL)
    behind = takewhile(lambda section: section.mark != "observation", reply.sections)
    return _remark_behind(reply, [*behind])


def _final(reply: Reader, first: Section, options: Options) -> TextReading:
    """Read the answer, to the end of the reply. It may show calls, but a whole call of an offered tool is
    a second turn."""
    sections = reply.sections
    for index, section in enumerate(sections):
        may_call = section.at > first.at and section.mark in ("action", "call")
        if may_call and _is_turn(reply, section, sections[index + 1 : index + 2], options):
            raise NoCallError(BOTH)
    end, last, marks = len(reply.text), sections[-1], options.grammar.marks
    if (
        marks
        and last.mark == "thought"
        and marks.match(reply.text, last.at)
        and not reply.text[last.start :].strip()
    ):
        end = last.at  # the closing tag
    if reply.is_closed_wrapper and sections[-1].mark == "plain":
        end = sections[-1].at
    return TextReading(answer=answer_in(reply.text[first.start : end], options.family))


def _is_turn(reply: Reader, section: Section, behind: Sequence[Section], options: Options) -> bool:
    """Whether a section in an answer is a whole call of an offered tool."""
    if section.whole is None and not _text(reply, section).strip():
        return False
    try:
        if isinstance(section.whole, NoCallError):
            return False
        if section.whole is not None:
            calls = section.whole.calls
        elif behind and behind[0].mark == "input":
            calls = called(_text(reply, section), _text(reply, behind[0])).calls
        elif options.grammar.split is not None:
            calls = options.grammar.split(_text(reply, section)).calls
        else:
            calls = _lone_action(_text(reply, section), "", options).calls
    except NoCallError:
        return False
    return any(options.tools is None or call.name.casefold() in options.tools for call in calls)


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


def _lone_action(line: str, remark: str, options: Options) -> TextReading:
    """Read an Action without an Action Input, which may be a whole call: JSON, or `name({...})`."""
    blob = without_lead(line)
    if blob.startswith("{"):
        found = json_calls(tidy(blob), closed=options.truncated)
        return _calls_or_answer(found._replace(remark=f"{found.remark.lstrip(BEHIND)}\n{remark}"), options)
    name, aside = read_name(line)
    given = line.partition("(")[2].strip()
    if name and JSON_START.match(given):
        return called(line.partition("(")[0], given, remark=remark, truncated=options.truncated)
    if not name:
        raise NoCallError(NO_TOOL)
    is_bare = not aside.strip("() \t\r\n`*")
    raise NoCallError("the Action has no Action Input", name=name if is_bare else None, remark=remark)
