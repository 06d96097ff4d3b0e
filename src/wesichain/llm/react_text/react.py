"""The ReAct grammar: what the sections of a reply mean together.

The first action wins, and nothing after its `Observation:` counts: the model made that up. A final
answer before any action is final; an action and a final answer in one breath is neither. What is quoted,
denied or taken back is refused: the model is asked again rather than guessed at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wesichain.core import dump_json, is_object, parse_json
from wesichain.errors import CodecError

from .doubt import (
    UNSEEN,
    cites,
    denies,
    is_inside_code,
    is_inside_quotes,
    is_placeholder,
    orders_not_to,
    takes_back,
    takes_back_text,
)
from .lenient import load
from .native import LEAKS, TOOL_KEYS, NoCallError, call_of, native_calls
from .parsed import Parsed, final, malformed, without_run_on
from .sections import Section, foreign_spans, is_within, split

_LEAD = re.compile(r"[\s*`~]*+(?:json\b\s*+)?+", re.IGNORECASE)  # noise before JSON: markdown, a fence
_WRAPPER = re.compile(r"[A-Z]\w*+\(\s*+(?=\{)")  # a class around it; `print({...})` is code
_BLOB = re.compile(r"^[^\S\n]*+`*+(?:json)?+[^\S\n]*+(?=\{)", re.MULTILINE | re.IGNORECASE)
# What only JSON, or an attempt at it, begins with; `{a word}` and `[a word]` may be prose.
_JSON = re.compile(r"""\{\s*+(?:["'}/\u201c\u2018]|[\w$-]++\s*+:)|\[\s*+[]["'{\u201c\u2018]""")
_NO_TOOL = frozenset({"none", "n/a", "null", "no tool", "no action"})
_HOLE = re.compile(r"^<.*>$|\bone of \[")  # the form itself, recited
_LONGEST_NAME = 200
_MARKS = " \t\r*`\"'\u201c\u201d\u2018\u2019" + UNSEEN  # around a name: markdown, quotes
_DECIDES = ("action", "input", "final", "answer")
_SPOKEN_OF = "is only quoted or given as an example; write it on lines of its own if it is meant"
_TAKEN_BACK = "is taken back by what follows; write only what is meant, and nothing after it"


def read_react(reply: str, *, strict: bool = True, truncated: bool = False) -> Parsed:
    """Read a reply in the classic format, with either `Final Answer:` or `Answer:`, or a JSON action."""
    sections = _until_observation(reply)
    thought = _thought(reply, sections)
    for index, section in enumerate(sections):
        if section.mark in _DECIDES and is_spoken_of(reply[: section.at]):
            return malformed(
                f"what follows {reply[section.at : section.start].strip()!r} {_SPOKEN_OF}", thought=thought
            )
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


def is_spoken_of(before: str) -> bool:
    """Whether what comes next is somebody else's word, or an example: by the text that leads to it."""
    line = before.rpartition("\n")[2].lstrip()
    is_quoted = line.startswith((">", "|", "<!--")) or before.endswith(("`", '"', "'"))
    return is_quoted or cites(before) or is_inside_quotes(before) or is_inside_code(before)


def until_invented(reply: str) -> str:
    """The reply without the result that the model made up, and all that it built on that."""
    return reply[: _until_observation(reply)[-1].end].rstrip()


def first_action(reply: str) -> tuple[str, str | None, str]:
    """The thought, the text of the first Action (None if there is none), and what is said right after it.

    An Action that is only spoken of raises `NoCallError`.
    """
    sections = _until_observation(reply)
    thought = _thought(reply, sections)
    for index, (mark, at, start, end) in enumerate(sections):
        if mark == "action":
            if is_spoken_of(reply[:at]):
                raise NoCallError(f"the Action {_SPOKEN_OF}")
            return thought, reply[start:end], _said_after(reply, sections[index:])
    return thought, None, ""


def _said_after(reply: str, sections: Sequence[Section]) -> str:
    """The words of a model right after the section, before it acts again."""
    return "\n".join(
        reply[start:end] for mark, _, start, end in sections[1:2] if mark in ("plain", "thought")
    )


def read_input(text: str, *, truncated: bool = False) -> Any:
    """The value of an action's input: JSON where it is meant to be JSON, else the text itself.

    What is meant to be JSON and is not raises `CodecError`: it never becomes a string. Nor is anything read
    that is taken back by what follows.
    """
    text = tidy(text)
    data = _after(_LEAD, text)
    if data.endswith(")"):
        data = _after(_WRAPPER, data)
    if data[:1] in ("{", "[") and (found := _data(data, truncated=truncated)) is not None:
        value, rest = found
        if takes_back(rest):
            raise CodecError(f"it {_TAKEN_BACK}")
        return value
    if truncated:
        raise CodecError("the reply was cut off before the input was complete")
    if takes_back_text(text) or orders_not_to(text):
        raise CodecError(f"it {_TAKEN_BACK}")
    try:
        return parse_json(text)
    except CodecError:
        return _unquoted(text)


def tidy(text: str) -> str:
    """Text without what only its generation left behind: half a stop word, end tokens, a lone fence."""
    text = text.strip()
    for _ in range(8):
        if not text.endswith(("</s>", "|>")):
            break
        text = _without_end_token(text)
    head, newline, tail = text.rpartition("\n")
    if newline and len(tail) >= 3 and "Observation:".startswith(tail):
        text = head.rstrip()
    if text.endswith("```") and text.count("```") % 2:
        text = text.rstrip("`").rstrip()
    return text


def tool_name(text: str) -> str:
    """The name in an Action line, without markdown and remarks; empty where there is none, or a denial."""
    line = text.strip().partition("\n")[0]
    if len(line.partition("(")[0]) > _LONGEST_NAME or denies(line[: 2 * _LONGEST_NAME]):
        return ""
    name = line.partition("(")[0].replace("\\_", "_").strip(_MARKS)
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1].strip(_MARKS)
    return "" if name.lower() in _NO_TOOL or ":" in name or _HOLE.search(name) else name


def no_tool(text: str) -> str:
    """Why a line names no tool."""
    line = text.strip().partition("\n")[0]
    if denies(line[: 2 * _LONGEST_NAME]):
        return "the Action says what not to do; write an Action only for a tool that is to be called"
    return "the Action does not name a tool"


def _until_observation(reply: str) -> list[Section]:
    """The sections before an invented result. An `Observation:` ahead of any action is only a thought."""
    sections: list[Section] = []
    spoken = False
    for section in split(reply):
        if spoken and section.mark == "observation":
            break
        spoken = spoken or section.mark in _DECIDES
        sections.append(section)
    return sections


def _thought(reply: str, sections: Sequence[Section]) -> str:
    """The thought before the first other marker; text before any marker counts if there is no more."""
    plain, thoughts = "", list[str]()
    for section in sections:
        if section.mark == "plain":
            plain = plain or reply[section.start : section.end].strip(" \t\r\n`")
        elif section.mark == "thought":
            thoughts.append(reply[section.start : section.end].strip())
        elif section.mark in _DECIDES:
            break
    return "\n".join(filter(None, thoughts)) or plain


def _final(reply: str, sections: Sequence[Section], *, thought: str) -> Parsed:
    answer = tidy(without_run_on(reply[sections[0].start : _end_of_answer(sections)]))
    if is_placeholder(answer):
        return malformed("the final answer is a placeholder; write the answer itself", thought=thought)
    if takes_back_text(f"{answer}\n{_said_after(reply, sections)}"):
        return malformed(f"the final answer {_TAKEN_BACK}", thought=thought)
    if LEAKS.search(answer):
        return malformed("the reply has both a call and a final answer; give one of them", thought=thought)
    return final(answer, thought=thought)


def _end_of_answer(sections: Sequence[Section]) -> int:
    """An answer may quote an `Action:` line; only one that has its input ends the answer."""
    for index, section in enumerate(sections[1:], start=1):
        called = sections[index + 1 : index + 2]
        if section.mark in ("plain", "thought", "final") or (
            section.mark == "action" and called and called[0].mark == "input"
        ):
            return section.at
    return sections[-1].end


def _action(reply: str, sections: Sequence[Section], *, thought: str, truncated: bool) -> Parsed:
    if any(section.mark in ("final", "answer") for section in sections):
        return malformed("the reply has both an Action and a Final Answer; give one of them", thought=thought)
    line = reply[sections[0].start : sections[0].end]
    if len(sections) == 1 or sections[1].mark != "input":
        if takes_back(_said_after(reply, sections)):
            return malformed(f"the Action {_TAKEN_BACK}", thought=thought)
        return _lone_action(line, thought=thought, truncated=truncated)
    _, _, start, end = sections[1]
    remark = line.strip().partition("\n")[2]
    if takes_back(remark) or takes_back(_said_after(reply, sections[1:])):
        return malformed(f"the Action {_TAKEN_BACK}", thought=thought)
    truncated = truncated and end == len(reply)
    return called(line, reply[start:end], thought=thought, truncated=truncated)


def called(line: str, given: str, *, thought: str, truncated: bool) -> Parsed:
    """The action that calls the tool that `line` names with the text `given`."""
    name = tool_name(line)
    if not name:
        return malformed(no_tool(line), thought=thought)
    try:
        args = read_input(given, truncated=truncated)
    except CodecError as error:
        return malformed(f"the input of {name!r} cannot be read ({error})", thought=thought)
    return Parsed("action", thought=thought, tool=name, args=args, input=tidy(given))


def _lone_action(line: str, *, thought: str, truncated: bool) -> Parsed:
    """An Action without an Action Input: the whole call may be in it, as JSON or as `name({...})`."""
    blob = _after(_LEAD, line)
    if blob.startswith("{"):
        return _blob(blob, thought=thought, truncated=truncated)
    name, given = tool_name(line), line.partition("(")[2].strip()
    if not name or _JSON.match(given):
        return called(line, given, thought=thought, truncated=truncated)
    if takes_back(line.strip().partition("\n")[2]):
        return malformed(f"the Action {_TAKEN_BACK}", thought=thought)
    bare = not given.strip(") \t\r\n`*")
    return malformed("the Action has no Action Input", thought=thought, tool=name if bare else None)


def _unmarked(
    reply: str, sections: Sequence[Section], *, thought: str, strict: bool, truncated: bool
) -> Parsed:
    """A reply that names no action and no answer: it may still be a bare JSON action, or a native call."""
    if ("<" in reply or "[" in reply) and LEAKS.search(reply):
        return read_native(reply)
    found = _BLOB.search(reply) if "{" in reply else None
    if (
        found
        and _JSON.match(reply, found.end())
        and any(f'"{key}"' in reply for key in (*TOOL_KEYS, "function"))
    ):
        before = reply[: found.start()]
        is_inline = found.group().strip() in ("`", "``")  # as a text speaks of code
        if strict and (is_inline or is_spoken_of(before) or is_within(foreign_spans(reply), found.end())):
            return malformed(f"the JSON action {_SPOKEN_OF}", thought=thought)
        told = _blob(reply[found.end() :], thought=_thought(before, list(split(before))), truncated=truncated)
        if strict or told.kind != "malformed" or not _is_data(reply[found.end() :]):
            return told
    if not reply.strip():
        return malformed("the reply is empty")
    if strict or len(sections) > 1:
        return malformed("there is neither an Action nor a Final Answer", thought=thought)
    return final(tidy(without_run_on(reply)))


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


def read_native(reply: str) -> Parsed:
    """The first native call that was left in the text, if it is meant."""
    thought = LEAKS.split(reply, maxsplit=1)[0].strip()
    try:
        calls = native_calls(reply)
    except NoCallError as error:
        return malformed(str(error), thought=thought, tool=error.name)
    first, last = calls[0], calls[-1]
    if is_spoken_of(reply[: first.start]) or is_within(foreign_spans(reply), first.start):
        return malformed(f"the call {_SPOKEN_OF}", thought=thought)
    if takes_back(reply[last.end :]):
        return malformed(f"the call {_TAKEN_BACK}", thought=thought)
    name = tool_name(first.name)
    if not name:
        return malformed(no_tool(first.name), thought=thought)
    return Parsed("action", thought=thought, tool=name, args=first.args, input=dump_json(first.args))


def _blob(text: str, *, thought: str, truncated: bool) -> Parsed:
    """A call, or the final answer, as one JSON object."""
    try:
        found = _data(text, truncated=truncated)
    except CodecError as error:
        return malformed(f"the JSON action cannot be read ({error})", thought=thought)
    value, rest = found or (None, "")
    if is_object(value):
        thought = str(value.get("thought") or thought)
    try:
        name, args = call_of(value)
    except NoCallError as error:
        return malformed(str(error), thought=thought, tool=error.name and (tool_name(error.name) or None))
    if takes_back(rest):
        return malformed(f"the JSON action {_TAKEN_BACK}", thought=thought)
    if name.lower().replace("_", " ") == "final answer":
        return final(args if isinstance(args, str) else dump_json(args), thought=thought)
    if not tool_name(name):
        return malformed(no_tool(name), thought=thought)
    return Parsed("action", thought=thought, tool=tool_name(name), args=args, input=dump_json(args))


def _data(text: str, *, truncated: bool) -> tuple[Any, str] | None:
    """The JSON that `text` begins with, and what follows; None if prose happens to begin with a bracket."""
    try:
        return parse_json(text), ""
    except CodecError:
        meant = _JSON.match(text) is not None or ("}" not in text and "]" not in text)
    try:
        value, rest = load(text, closed=truncated)
    except CodecError:
        if meant:
            raise
        return None
    rest = rest.lstrip(" \t\r\n,;)`")
    if rest.startswith("{") or _JSON.match(rest):
        raise CodecError("there is more than one JSON value")
    if rest and not is_object(value):
        if meant:
            raise CodecError("there is more than an array")
        return None
    return value, rest


def _after(noise: re.Pattern[str], text: str) -> str:
    found = noise.match(text)
    return text[found.end() :] if found else text


def _unquoted(text: str) -> str:
    """A string without quotes that only the model put around it."""
    if len(text) > 1 and text[0] == text[-1] == "'" and text.count("'") == 2:
        return text[1:-1]
    return text[1:] if text.startswith('"') and text.count('"') == 1 else text


def _without_end_token(text: str) -> str:
    if text.endswith("</s>"):
        return text[:-4].rstrip()
    at = text.rfind("<|", max(0, len(text) - 40)) if text.endswith("|>") else -1
    return text[:at].rstrip() if at >= 0 else text
