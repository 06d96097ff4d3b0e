"""The ReAct grammar: what the sections of a reply mean together.

A call is one action line and one complete input. More than one action, input or object is no call, nor is a
call beside a final answer; nothing behind an `Observation:` counts, since the model made that up. A final
answer before any action is final. What else stands around the call is kept as its remark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from wesichain.core import dump_json, is_array, is_object
from wesichain.errors import CodecError

from .inputs import JSON_START, Input, check_encoding, load_data, read_input, read_name, tidy, without_lead
from .lenient import load
from .native import AROUND_CALLS, CALL_START, TOOL_KEYS, NoCallError, call_of, load_call, native_calls
from .parsed import Parsed, TextCall, action, final, malformed, without_run_on
from .structure import DECIDES, Section, TextReply

_BLOB = re.compile(r"^[^\S\n]*+(`*+)(?:json)?+[^\S\n]*+(?=[{\[])", re.MULTILINE | re.IGNORECASE)
QUOTED = "is only quoted; write it on lines of its own, outside of quotations and code, if it is meant"
SEVERAL = "the reply has more than one action or input; write one Action and one Action Input"
BOTH = "the reply has both an Action and a Final Answer; give one of them"
NO_TOOL = "the Action does not name a tool"


def read_react(text: str, *, strict: bool = True, truncated: bool = False) -> Parsed:
    """Read a reply in the classic format, with either `Final Answer:` or `Answer:`, or a JSON action."""
    reply = TextReply(text)
    sections = until_observation(reply)
    thought = thought_of(reply, sections)
    for index, section in enumerate(sections):
        if section.mark in DECIDES and reply.quotes(section.at):
            return malformed(f"what follows {_label(reply, section)!r} {QUOTED}", thought=thought)
        match section.mark:
            case "action":
                return _action(reply, sections[index:], thought=thought, truncated=truncated)
            case "final" | "answer":
                return _final(reply, sections[index:], thought=thought)
            case "input":
                return malformed("there is an Action Input but no Action before it", thought=thought)
            case _:
                pass
    return _unmarked(reply, sections, thought=thought, strict=strict, truncated=truncated)


def until_observation(reply: TextReply) -> list[Section]:
    """The sections before a made-up result. An `Observation:` ahead of any action is only a thought."""
    sections: list[Section] = []
    decided = False
    for section in reply.sections():
        if decided and section.mark == "observation":
            break
        decided = decided or section.mark in DECIDES
        sections.append(section)
    return sections


def before_observation(text: str) -> str:
    """The reply without the result that the model made up, and all that it built on that."""
    reply = TextReply(text)
    return reply.text[: until_observation(reply)[-1].end].rstrip()


def thought_of(reply: TextReply, sections: Sequence[Section]) -> str:
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


def remark_of(reply: TextReply, at: int, behind: Sequence[Section]) -> str:
    """What is said beside a call, in front of it as its introduction and in the sections behind it.

    Raises `NoCallError` where those act or answer.
    """
    if any(section.mark in ("final", "answer") for section in behind):
        raise NoCallError(BOTH)
    if any(section.mark in DECIDES for section in behind):
        raise NoCallError(SEVERAL)
    texts = (_text(reply, section) for section in behind)
    remarks = [tidy(text).strip("` \n") for text in texts if not text.isspace()]
    return "\n".join([reply.introduction(at), *remarks])


def _text(reply: TextReply, section: Section) -> str:
    return reply.text[section.start : section.end]


def _label(reply: TextReply, section: Section) -> str:
    return reply.text[section.at : section.start].strip()


def _final(reply: TextReply, sections: Sequence[Section], *, thought: str) -> Parsed:
    answer = tidy(without_run_on(reply.text[sections[0].start : _end_of_answer(sections)]))
    if CALL_START.search(answer) and _has_call(TextReply(answer)):
        return malformed("the reply has both a call and a final answer; give one of them", thought=thought)
    return final(answer, thought=thought)


def _has_call(answer: TextReply) -> bool:
    """Whether a native call begins a line of the answer; elsewhere the answer only speaks of it."""
    places = (found.start() for found in CALL_START.finditer(answer.text))
    return any(answer.begins_line(at) and not answer.quotes(at) for at in places)


def _end_of_answer(sections: Sequence[Section]) -> int:
    """An answer may mention an `Action:` line; only one that has its input ends the answer."""
    for index, section in enumerate(sections[1:], start=1):
        following = sections[index + 1 : index + 2]
        if section.mark in ("plain", "thought", "final") or (
            section.mark == "action" and following and following[0].mark == "input"
        ):
            return section.at
    return sections[-1].end


def _action(reply: TextReply, sections: Sequence[Section], *, thought: str, truncated: bool) -> Parsed:
    line = _text(reply, sections[0])
    has_input = len(sections) > 1 and sections[1].mark == "input"
    try:
        remark = remark_of(reply, sections[0].at, sections[2 if has_input else 1 :])
    except NoCallError as error:
        return malformed(str(error), thought=thought)
    if not has_input:
        return _lone_action(line, remark, thought=thought, truncated=truncated)
    truncated = truncated and sections[1].end == len(reply.text)
    return called(line, _text(reply, sections[1]), thought=thought, remark=remark, truncated=truncated)


def called(line: str, given: str, *, thought: str, truncated: bool, remark: str = "") -> Parsed:
    """The action that calls the tool that `line` names with the text `given`."""
    name, aside = read_name(line)
    if not name:
        return malformed(NO_TOOL, thought=thought)
    try:
        read = read_input(given, truncated=truncated)
    except CodecError as error:
        return malformed(f"the input of {name!r} cannot be read ({error})", thought=thought)
    return action(call_with(name, read), thought=thought, remark=f"{aside}\n{read.remark}\n{remark}")


def call_with(name: str, given: Input) -> TextCall:
    return TextCall(name, given.value, given.text, is_bare=given.is_bare)


def _lone_action(line: str, remark: str, *, thought: str, truncated: bool) -> Parsed:
    """An Action without an Action Input: the whole call may be in it, as JSON or as `name({...})`."""
    blob = without_lead(line)
    if blob.startswith("{"):
        return _blob(blob, thought=thought, remark=remark, truncated=truncated)
    name, aside = read_name(line)
    given = line.partition("(")[2].strip()
    if name and JSON_START.match(given):
        return called(line.partition("(")[0], given, thought=thought, remark=remark, truncated=truncated)
    if not name:
        return malformed(NO_TOOL, thought=thought)
    is_bare = not aside.strip("() \t\r\n`*")
    tool = name if is_bare else None
    return malformed("the Action has no Action Input", thought=thought, tool=tool, remark=remark)


def _unmarked(
    reply: TextReply, sections: Sequence[Section], *, thought: str, strict: bool, truncated: bool
) -> Parsed:
    """A reply that names no action and no answer: it may still be a bare JSON action, or a native call."""
    text = reply.text
    if ("<" in text or "[" in text) and CALL_START.search(text):
        return read_native(reply)
    found = _BLOB.search(text) if "{" in text else None
    if (
        found
        and (JSON_START.match(text, found.end()) or text.startswith("{{", found.end()))
        and any(f'"{key}"' in text for key in (*TOOL_KEYS, "function"))
    ):
        if (strict or found.start()) and _quotes_blob(reply, found):
            return malformed(f"the JSON action {QUOTED}", thought=thought)
        before = TextReply(text[: found.start()])
        thought = thought_of(before, before.sections()).rstrip("` \n")
        lead = reply.introduction(found.start())
        parsed = _blob(text[found.end() :], thought=thought, remark=lead, truncated=truncated)
        if strict or parsed.kind != "malformed" or not _is_data(text[found.end() :]):
            return parsed
    if not text.strip():
        return malformed("the reply is empty")
    if strict or len(sections) > 1:
        return malformed("there is neither an Action nor a Final Answer", thought=thought)
    return final(tidy(without_run_on(text)))


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
        value, _ = load(text, closed=True)
        call_of(value)
    except NoCallError as error:
        return error.name is None
    except CodecError:
        return False
    return False


def read_native(reply: TextReply) -> Parsed:
    """The native calls that stand in the text: all of them, or none."""
    start = next(CALL_START.finditer(reply.text)).start()
    thought = AROUND_CALLS.sub(" ", reply.text[:start]).strip("` ")
    if reply.quotes(start):
        return malformed(f"the call {QUOTED}", thought=thought)
    try:
        calls, remark = native_calls(reply.text)
    except NoCallError as error:
        return malformed(str(error), thought=thought, tool=error.name)
    return action(*calls, thought=thought, remark=f"{reply.introduction(start)}\n{remark}")


def _blob(text: str, *, thought: str, truncated: bool, remark: str = "") -> Parsed:
    """A call, or the final answer, as one JSON object; several calls as an array of them."""
    try:
        text = tidy(text)
        doubled = text.startswith("{{")  # as templates have it
        found = load_call(text) if doubled else load_data(text, truncated=truncated)
    except (CodecError, NoCallError) as error:
        return malformed(f"the JSON action cannot be read ({error})", thought=thought)
    value, rest = found or (None, "")
    if is_object(value):
        thought = str(value.get("thought") or thought)
    try:
        named = [call_of(item) for item in value] if is_array(value) and value else [call_of(value)]
        name, args = named[0]
        if name.lower().replace("_", " ") == "final answer" and len(named) == 1:
            return final(args if isinstance(args, str) else dump_json(args), thought=thought)
        for _, given in named:
            check_encoding(given)
    except NoCallError as error:
        return malformed(
            str(error), thought=thought, tool=error.name and (read_name(error.name).name or None)
        )
    except CodecError as error:
        return malformed(f"the JSON action cannot be read ({error})", thought=thought)
    if not all(read_name(name).name for name, _ in named):
        return malformed(NO_TOOL, thought=thought)
    calls = [TextCall(read_name(name).name, args, dump_json(args)) for name, args in named]
    return action(*calls, thought=thought, remark=f"{rest.strip('` ')}\n{remark}")
