"""Native calls in the text of a reply, in the forms in which models are trained to write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from wesichain.core import JsonValue, dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError

from .lenient import load
from .parsed import TextCall
from .structure import TextReply

TOOL_KEYS = ("action", "tool", "name", "tool_name")
INPUT_KEYS = ("action_input", "tool_input", "arguments", "args", "parameters", "input")
_ASIDE_KEYS = frozenset(
    {*("thought", "thoughts", "reasoning", "id", "type", "index"), *("call_id", "tool_call_id", "function")}
)


@dataclass(frozen=True, slots=True)
class _Place:
    """One call, and where it stands. `raw`: its values are texts as they were written, of any kind."""

    name: str
    args: JsonValue
    start: int
    end: int
    raw: bool = False


class NoCallError(Exception):
    """The text looks like a call and is none; says why. `name`: the tool, where only its input is missing."""

    def __init__(self, why: str, *, name: str | None = None) -> None:
        super().__init__(why)
        self.name = name


def call_of(value: object) -> tuple[str, Any]:
    """The name and the arguments of a call in JSON: it has the keys of one, and no others."""
    if not is_object(value):
        raise NoCallError("the action is not a JSON object")
    inner = value.get("function")
    if is_object(inner):
        if any(key not in _ASIDE_KEYS for key in value):
            raise NoCallError("the JSON has more keys than a call has")
        return call_of(inner)
    names = [key for key in TOOL_KEYS if isinstance(value.get(key), str) and value[key].strip()]
    if not names and isinstance(inner, str):
        names = ["function"]
    if len(names) != 1:
        raise NoCallError('the JSON action has no tool name under "action"')
    name = str(value[names[0]])
    inputs = [key for key in INPUT_KEYS if key in value]
    strange = [key for key in value if key not in (*_ASIDE_KEYS, *names, *inputs)]
    if strange:
        raise NoCallError(f"the JSON has the key {strange[0][:40]!r}, which no call has")
    if not inputs:
        raise NoCallError("the JSON action has no input", name=name)
    if len(inputs) > 1:
        raise NoCallError(f"the JSON action has two inputs, {inputs[0]!r} and {inputs[1]!r}")
    args = value[inputs[0]]
    if is_object(args) and args.get("type") == "object" and is_object(args.get("properties")):
        raise NoCallError("the JSON describes a tool instead of calling it")
    if inputs[0] == "arguments" and isinstance(args, str) and args.lstrip().startswith("{"):
        try:
            args = parse_json(args)
        except CodecError:
            raise NoCallError(f"the arguments of {name!r} are not JSON") from None
    return name, args


# --- where calls stand ----------------------------------------------------------------------------

_OPENERS = re.compile(
    r"""<tool_calls?+>|<\|tool_call_begin\|>|<[|\uff5c]tool\u2581call\u2581begin[|\uff5c]>|\[TOOL_CALLS\]|<\|python_tag\|>
      |<function=(?P<function>[\w.:-]{1,64})>|<invoke\s++name="(?P<invoke>[^"<>]{1,64})"\s*+>""",
    re.VERBOSE,
)
CALL_START = re.compile(
    r"<tool_calls?>|<\|tool_calls?_|<[|\uff5c]tool\u2581|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|<invoke\s|<function_calls>"
)
_DEEPSEEK_END = re.compile(r"<[|\uff5c]tool\u2581call\u2581end[|\uff5c]>")
_SEPARATOR = re.compile(r"<[|\uff5c]tool\u2581sep[|\uff5c]>")
_PARAMETER = re.compile(
    r"""<parameter(?:=(?P<plain>[^<>\s]{1,64})|\s++name="(?P<named>[^"<>]{1,64})"[^<>]{0,40})>"""
)
_ARGUMENT = re.compile(r"<arg_key>([^<>]{1,64})</arg_key>\s*+<arg_value>")
_FENCE = re.compile(r"[\s`]*+(?:json\b)?\s*+")


# What stands around and between calls and says nothing: special tokens, and the elements around several.
AROUND_CALLS = re.compile(
    r"<[|\uff5c][^<>|\uff5c]{0,60}[|\uff5c]>|</?+(?:\w{1,20}[:_])?(?:tool|function)_calls?>|</s>|</function>|\s++"
)
_RESULT = re.compile(r"\n[ \t]*+observation\b|<tool_response>|<observation>", re.IGNORECASE)


def native_calls(text: str) -> tuple[list[TextCall], str]:
    """The calls in the text, in order, and what is said behind them.

    What begins as a call and is none raises `NoCallError`, and so does text between two calls: several are
    all read, or none is. What follows the first made-up result does not count.
    """
    found: list[_Place] = []
    result = _RESULT.search(text)
    for opener in _OPENERS.finditer(text):
        if found and result and found[-1].end <= result.start() < opener.start():
            break
        if not found or opener.start() >= found[-1].end:
            found.extend(_from(opener, text))
    if not found:
        raise NoCallError("a call was begun and not finished")
    end = result.start() if result and result.start() >= found[-1].end else len(text)
    for place, following in pairwise(found):
        if _said(text[place.end : max(place.end, following.start)]):
            raise NoCallError("there is text between two calls; write them one behind the other, or only one")
    return [_call(place) for place in found], _said(text[found[-1].end : end])


def begins_with_call(text: str) -> bool:
    """Whether the text begins as a native call, complete or not, within nothing but its own marks."""
    reply = TextReply(text)
    found = CALL_START.search(reply.text)
    return found is not None and not AROUND_CALLS.sub("", reply.text[: found.start()])


def _said(text: str) -> str:
    """A text without the marks around calls."""
    return AROUND_CALLS.sub(" ", text).strip("` ")


def _call(place: _Place) -> TextCall:
    name = place.name.strip().strip("`\"'")
    if not name:
        raise NoCallError("the call does not name a tool")
    return TextCall(name, place.args, dump_json(place.args), is_raw=place.raw)


def _from(opener: re.Match[str], text: str) -> Iterator[_Place]:
    word, start, at = opener.group(), opener.start(), opener.end()
    if word == "<tool_calls>":
        if text[at : at + 20].lstrip().startswith(("[", "{")):
            yield from _mistral(text, start, at)
    elif word == "<tool_call>":
        end = _find(text, "</tool_call>", at)
        yield _tagged(text[at : end[0]], start, end[1])
    elif word == "<|tool_call_begin|>":
        end = _find(text, "<|tool_call_end|>", at)
        name, mark, given = text[at : end[0]].partition("<|tool_call_argument_begin|>")
        if not mark:
            raise NoCallError("a call was begun and not finished")
        name = name.strip().removeprefix("functions.").partition(":")[0]
        yield _Place(name, _json(given, name), start, end[1])
    elif word.startswith(("<|tool\u2581", "<\uff5ctool\u2581")):
        yield _deepseek(text, start, at)
    elif word == "[TOOL_CALLS]":
        yield from _mistral(text, start, at)
    elif word == "<|python_tag|>":
        value, rest = load_call(text[at:])
        name, args = call_of(value)
        yield _Place(name, args, start, len(text) - len(rest))
    elif opener["function"]:
        end = _find(text, "</function>", at)
        yield _parameters(opener["function"], text[at : end[0]], start, end[1])
    else:
        end = _find(text, "</invoke>", at)
        yield _parameters(opener["invoke"], text[at : end[0]], start, end[1])


def _find(text: str, closer: str, at: int) -> tuple[int, int]:
    """Where a call ends, and where the text goes on; a stop sequence may have eaten the closing mark."""
    end = text.find(closer, at)
    return (len(text), len(text)) if end < 0 else (end, end + len(closer))


def _tagged(inside: str, start: int, end: int) -> _Place:
    body = inside.strip()
    function = _OPENERS.match(body)
    if function and function["function"]:
        close = _find(body, "</function>", function.end())
        return _parameters(function["function"], body[function.end() : close[0]], start, end)
    if not body.startswith(("{", "`", "[")) and "<arg_key>" in body:
        name, _, rest = body.partition("<arg_key>")
        return _arguments(name.strip(), f"<arg_key>{rest}", start, end)
    value, rest = load_call(body)
    if rest.strip(" \t\r\n`}]"):
        raise NoCallError("there is more in the call than one JSON object")
    name, args = call_of(value)
    return _Place(name, args, start, end)


def _parameters(name: str, inside: str, start: int, end: int) -> _Place:
    """`<parameter=key>value</parameter>`, or JSON instead of them."""
    body = inside.strip()
    if body.startswith("{"):
        return _Place(name, _json(body, name), start, end)
    args: dict[str, JsonValue] = {}
    at = 0
    for opener in _PARAMETER.finditer(body):
        if opener.start() < at:
            continue
        stop = body.find("</parameter>", opener.end())
        if stop < 0:
            raise NoCallError(f"a parameter of {name!r} does not end")
        value = body[opener.end() : stop]
        if opener["plain"]:  # this form has a line for the value
            value = value.removeprefix("\n").removesuffix("\n")
        _add(args, opener["plain"] or opener["named"], value)
        at = stop
    if body and not args:
        raise NoCallError(f"the input of {name!r} cannot be read")
    return _Place(name, args, start, end, raw=True)


def _arguments(name: str, body: str, start: int, end: int) -> _Place:
    args: dict[str, JsonValue] = {}
    for opener in _ARGUMENT.finditer(body):
        stop = body.find("</arg_value>", opener.end())
        if stop < 0:
            raise NoCallError(f"an argument of {name!r} does not end")
        _add(args, opener[1].strip(), body[opener.end() : stop].strip())
    return _Place(name, args, start, end, raw=True)


def _add(args: dict[str, JsonValue], name: str, value: str) -> None:
    if name in args:
        raise NoCallError(f"the call gives {name!r} twice")
    args[name] = value


def _deepseek(text: str, start: int, at: int) -> _Place:
    closer = _DEEPSEEK_END.search(text, at)
    end = (closer.start(), closer.end()) if closer else (len(text), len(text))
    parts = _SEPARATOR.split(text[at : end[0]])
    if len(parts) != 2:
        raise NoCallError("a call was begun and not finished")
    head, rest = parts[0].strip(), parts[1]
    if head == "function":  # the name has a line of its own
        head, _, rest = rest.strip().partition("\n")
    return _Place(head.strip(), _json(rest, head), start, end[1])


def _mistral(text: str, start: int, at: int) -> Iterator[_Place]:
    body = text[at:]
    name, mark, given = body.partition("[ARGS]")
    if mark and len(name) <= 64:
        value, rest = load_call(given)
        yield _Place(name.strip(), value, start, len(text) - len(rest))
        return
    value, rest = load_call(body)
    end = len(text) - len(rest)
    for item in value if is_array(value) else [value]:
        name, args = call_of(item)
        yield _Place(name, args, start, end)


def _json(given: str, name: str) -> JsonValue:
    value, rest = load_call(given)
    if not is_object(value) or rest.strip(" \t\r\n`}"):
        raise NoCallError(f"the input of {name!r} is not one JSON object")
    return value


def load_call(text: str) -> tuple[Any, str]:
    """The JSON that the text begins with. Some templates teach double braces, and models copy them."""
    found = _FENCE.match(text)
    body = text[found.end() :] if found else text
    try:
        if body.startswith("{{"):
            try:
                value, rest = load(body[1:], closed=True)
                return value, rest.removeprefix("}")
            except CodecError:
                return load(body.replace("{{", "{").replace("}}", "}"), closed=True)
        return load(body, closed=True) if body.startswith(("{", "[")) else (None, body)
    except CodecError as error:
        raise NoCallError(f"the JSON of the call cannot be read ({error})") from None
