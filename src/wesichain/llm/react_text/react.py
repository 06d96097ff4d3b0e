"""The ReAct grammar: what the sections of a reply mean together.

The first action wins, and nothing after its `Observation:` counts: the model made that up. A final
answer before any action is final; an action and a final answer in one breath is neither.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wesichain.core import dump_json, is_object, parse_json
from wesichain.errors import CodecError

from .lenient import load
from .parsed import Parsed, final, malformed
from .sections import Section, split

_LEAD = re.compile(r"[\s*`~]*+(?:json\b\s*+)?+", re.IGNORECASE)  # noise before JSON: markdown, a fence
_WRAPPER = re.compile(r"[A-Z]\w*+\(\s*+(?=\{)")  # a class around it; `print({...})` is code
_BLOB = re.compile(r"^[^\S\n]*+`*+(?:json)?+[^\S\n]*+(?=\{)", re.MULTILINE | re.IGNORECASE)
# What only JSON, or an attempt at it, begins with; `{a word}` and `[a word]` may be prose.
_JSON = re.compile(r"""\{\s*+(?:["'}/\u201c\u2018]|[\w$-]++\s*+:)|\[\s*+[]["'{\u201c\u2018]""")
_NO_TOOL = frozenset({"none", "n/a", "null", "no tool", "no action"})
_TOOL_KEYS = ("action", "tool", "name")
_INPUT_KEYS = ("action_input", "tool_input", "arguments", "args", "parameters", "input")
_LONGEST_NAME = 200
_DECIDES = ("action", "input", "final", "answer")


def read_react(reply: str, *, strict: bool = True, truncated: bool = False) -> Parsed:
    """Read a reply in the classic format, with either `Final Answer:` or `Answer:`, or a JSON action."""
    sections = _until_observation(reply)
    thought = _thought(reply, sections)
    for index, section in enumerate(sections):
        match section.mark:
            case "action":
                return _action(reply, sections[index:], thought=thought, truncated=truncated)
            case "final" | "answer":
                return final(tidy(reply[section.start : _end_of_answer(sections[index:])]), thought=thought)
            case "input":
                return malformed("there is an Action Input but no Action before it", thought=thought)
            case _:
                pass
    return _unmarked(reply, sections, thought=thought, strict=strict, truncated=truncated)


def until_invented(reply: str) -> str:
    """The reply without the result that the model made up, and all that it built on that."""
    return reply[: _until_observation(reply)[-1].end].rstrip()


def first_action(reply: str) -> tuple[str, str | None]:
    """The thought, and the text of the first Action; None if there is none."""
    sections = _until_observation(reply)
    actions = (reply[start:end] for mark, _, start, end in sections if mark == "action")
    return _thought(reply, sections), next(actions, None)


def read_input(text: str, *, truncated: bool = False) -> Any:
    """The value of an action's input: JSON where it is meant to be JSON, else the text itself.

    What is meant to be JSON and is not raises `CodecError`: it never becomes a string.
    """
    text = tidy(text)
    data = _after(_LEAD, text)
    if data.endswith(")"):
        data = _after(_WRAPPER, data)
    if data[:1] in ("{", "[") and (value := _data(data, truncated=truncated)) is not None:
        return value
    if truncated:
        raise CodecError("the reply was cut off before the input was complete")
    try:
        return parse_json(text)
    except CodecError:
        return _unquoted(text)


def tidy(text: str) -> str:
    """Text without what only its generation left behind: half a stop word, end tokens, a lone fence."""
    text = text.strip()
    for _ in range(8):
        text = _without_end_token(text)
    head, newline, tail = text.rpartition("\n")
    if newline and len(tail) >= 3 and "Observation:".startswith(tail):
        text = head.rstrip()
    if text.endswith("```") and text.count("```") % 2:
        text = text.rstrip("`").rstrip()
    return text


def tool_name(text: str) -> str:
    """The name in an Action line, without markdown and remarks; empty where there is none."""
    line = text.strip().partition("\n")[0]
    name = line.partition("(")[0].replace("\\_", "_").strip(" \t\r*`\"'")
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1].strip()
    return "" if name.lower() in _NO_TOOL or ":" in name or len(name) > _LONGEST_NAME else name


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
    """What is thought before the first other marker; text before any marker counts if there is no more."""
    plain, thoughts = "", list[str]()
    for section in sections:
        if section.mark == "plain":
            plain = plain or reply[section.start : section.end].strip(" \t\r\n`")
        elif section.mark == "thought":
            thoughts.append(reply[section.start : section.end].strip())
        elif section.mark in _DECIDES:
            break
    return "\n".join(filter(None, thoughts)) or plain


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
        return _lone_action(line, thought=thought, truncated=truncated)
    _, _, start, end = sections[1]
    truncated = truncated and end == len(reply)
    return called(tool_name(line), reply[start:end], thought=thought, truncated=truncated)


def called(name: str, given: str, *, thought: str, truncated: bool) -> Parsed:
    """The action that calls `name` with the text `given`."""
    if not name:
        return malformed("the Action does not name a tool", thought=thought)
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
        return called(name, given, thought=thought, truncated=truncated)
    bare = not given.strip(") \t\r\n`*")
    return malformed("the Action has no Action Input", thought=thought, tool=name if bare else None)


def _unmarked(
    reply: str, sections: Sequence[Section], *, thought: str, strict: bool, truncated: bool
) -> Parsed:
    """A reply that names no action and no answer: it may still be a bare JSON action."""
    found = _BLOB.search(reply) if "{" in reply else None
    if found and _JSON.match(reply, found.end()) and any(f'"{key}"' in reply for key in _TOOL_KEYS):
        before = reply[: found.start()]
        thought = _thought(before, list(split(before)))
        return _blob(reply[found.end() :], thought=thought, truncated=truncated)
    if not reply.strip():
        return malformed("the reply is empty")
    if strict or len(sections) > 1:
        return malformed("there is neither an Action nor a Final Answer", thought=thought)
    return final(tidy(reply))


def _blob(text: str, *, thought: str, truncated: bool) -> Parsed:
    """A call, or the final answer, as one JSON object."""
    try:
        value = _data(text, truncated=truncated)
    except CodecError as error:
        return malformed(f"the JSON action cannot be read ({error})", thought=thought)
    if not is_object(value):
        return malformed("the action is not a JSON object", thought=thought)
    thought = str(value.get("thought") or thought)
    name = next((str(value[key]) for key in _TOOL_KEYS if value.get(key)), "")
    args: Any = next((value[key] for key in _INPUT_KEYS if key in value), dict[str, Any]())
    if name.lower().replace("_", " ") == "final answer":
        return final(args if isinstance(args, str) else dump_json(args), thought=thought)
    if not tool_name(name):
        return malformed('the JSON action has no tool name under "action"', thought=thought)
    return Parsed("action", thought=thought, tool=tool_name(name), args=args, input=dump_json(args))


def _data(text: str, *, truncated: bool) -> Any:
    """The JSON that `text` begins with; None if it is prose that happens to begin with a bracket."""
    try:
        return parse_json(text)
    except CodecError:
        meant = _JSON.match(text) is not None or ("}" not in text and "]" not in text)
    try:
        value, rest = load(text, closed=truncated)
    except CodecError:
        if meant:
            raise
        return None
    rest = rest.lstrip(" \t\r\n,;)`")
    if rest.startswith(("{", "[")):
        raise CodecError("there is more than one JSON value")
    if rest and not is_object(value):
        if meant:
            raise CodecError("there is more than an array")
        return None
    return value


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
