"""Whole calls in the text of a reply: JSON with the tool's name, and the native formats of models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from wesichain.core import JsonValue
from wesichain.core.internal import dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError

from .inputs import after_lead, check_encoding, clean_name, without_lead
from .lenient import load
from .parsed import END_TOKEN, NoCallError, TextCall, TextReading

TOOL_KEYS = ("action", "tool", "name", "tool_name")
INPUT_KEYS = ("action_input", "tool_input", "arguments", "args", "parameters", "input")
_ASIDE_KEYS = frozenset(
    {*("thought", "thoughts", "reasoning", "id", "type", "index"), *("call_id", "tool_call_id", "function")}
)
_OTHER_KEYS = _ASIDE_KEYS.union(INPUT_KEYS)  # besides the key of the name


def call_of(value: object) -> tuple[str, Any]:
    """The name and the arguments of a call in JSON, which must have only the keys of a call."""
    if not is_object(value):
        raise NoCallError("the action is not a JSON object")
    inner = value.get("function")
    if is_object(inner):
        if any(key not in _ASIDE_KEYS for key in value):
            raise NoCallError("the JSON has more keys than a call has")
        return call_of(inner)
    names = [
        key for key, item in value.items() if key in TOOL_KEYS and isinstance(item, str) and item.strip()
    ]
    if not names and isinstance(inner, str):
        names = ["function"]
    if len(names) != 1:
        raise NoCallError('the JSON action has no tool name under "action"')
    (named,) = names
    name = str(value[named])
    if strange := [key for key in value if key not in _OTHER_KEYS and key != named]:
        raise NoCallError(f"the JSON has the key {strange[0][:40]!r}, which no call has")
    inputs = [key for key in value if key in INPUT_KEYS]
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


def json_calls(text: str, *, closed: bool) -> TextReading:
    """The calls in a JSON object or array with the tools' names; the text after it is the remark."""
    try:
        value, rest = load(without_lead(text), closed=closed)
    except CodecError as error:
        raise NoCallError(f"the JSON of the call cannot be read ({error})") from None
    thought = str(value.get("thought") or "") or None if is_object(value) else None
    try:
        named = [call_of(item) for item in (value if is_array(value) and value else [value])]
    except NoCallError as error:
        error.thought, error.remark, error.is_data = thought, rest, error.name is None
        raise
    return TextReading([_call(*each) for each in named], rest, thought=thought)


# --- native calls ---------------------------------------------------------------------------------

CALL_START = re.compile(
    r"<tool_calls?>|<[|\uff5c]tool[_\u2581]calls?[_\u2581](?:section_)?begin|\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<function=|<invoke\s|<function_calls>"
)
_BAR = "<[|\uff5c]tool[_\u2581]call[_\u2581]"
# The marks that begin a call, by the form of what follows.
_OPENER = re.compile(
    rf"""(?P<function><function=)|(?P<invoke><invoke\s++name=")|(?P<list><tool_calls>(?=\s{{0,19}}[\[{{])
     |\[TOOL_CALLS\]|<\|python_tag\|>)|(?P<call><tool_call>)|(?P<bar>{_BAR}begin[|\uff5c]>)""",
    re.VERBOSE,
)
_CLOSERS = {
    "function": re.compile("</function>"),
    "invoke": re.compile("</invoke>"),
    "call": re.compile("</tool_call>"),
    "bar": re.compile(f"{_BAR}end[|\uff5c]>"),
}
# Between a name and its arguments; `[CALL_ID]` has an id of Mistral's.
_SEPARATOR = re.compile(
    r"<\|tool_call_argument_begin\|>|<[|\uff5c]tool\u2581sep[|\uff5c]>|(?:\[CALL_ID\][\w-]*+)?+\[ARGS\]|(?=<arg_key>)"
)
_VALUE = re.compile(
    r"""<parameter(?:=(?P<plain>[^<>\s]{1,64})|\s++name="(?P<named>[^"<>]{1,64})"[^<>]{0,40})>
      |<arg_key>(?P<key>[^<>]{1,64})</arg_key>\s*+<arg_value>""",
    re.VERBOSE,
)
# Marks of the forms whose values are not delimited as strings are; a value with one may be two.
_OWN_MARKS = {
    "function": re.compile(r"</?+(?:function|parameter|tool_call)[\s=>]"),
    "invoke": re.compile(r"</?+(?:invoke|parameter|function_calls)[\s=>]"),
    "call": re.compile(r"</?+(?:arg_key|arg_value|tool_call)>"),
}
# Marks without meaning around and between calls: special tokens, and elements around several calls.
AROUND_CALLS = re.compile(
    rf"{END_TOKEN.pattern}|</?+(?:\w{{1,20}}[:_])?(?:tool|function)_calls?>|</function>"
)
_NO_NAME = re.compile(r'[\n<>"]')
_NOISE = re.compile(r"[ \t\r\n`}\]]*+")
_MORE = "there is more in the call than one JSON object"
_UNFINISHED = "a call was begun and not finished"
NO_TOOL = "the call does not name a tool"


def dialect_of(text: str, at: int) -> str:
    """The form of the native call at this place; calls of one reply have one form."""
    found = _OPENER.search(text, at)
    return found.lastgroup or "" if found else ""


def read_native(text: str, at: int) -> tuple[TextReading, int]:
    """The native calls that begin at `at`, and their end; raises `NoCallError` if there is none.

    The closing mark may be missing, because it was a stop sequence.
    """
    opener = _OPENER.search(text, at)
    if opener is None or without_markers(text[at : opener.start()]):
        raise NoCallError(_UNFINISHED)
    form, start = opener.lastgroup or "", opener.end()
    calls, end = (_tagged if form in ("function", "invoke") else _untagged)(text, start, form)
    if form == "list":
        return TextReading(calls), end
    end = _NOISE.match(text, end).end()  # type: ignore[union-attr]
    if closer := _CLOSERS[form].match(text, end):
        return TextReading(calls), closer.end()
    if without_markers(text[end:]):
        raise NoCallError(_MORE if _CLOSERS[form].search(text, end) else _UNFINISHED)
    return TextReading(calls), len(text)


def without_markers(text: str) -> str:
    """The text without the marks around calls, as one line."""
    if "<" in text:
        text = AROUND_CALLS.sub(" ", text)
    return " ".join(text.split()).strip("` ")


def _untagged(text: str, at: int, form: str) -> tuple[Sequence[TextCall], int]:
    """The calls behind a mark without a name, and their end: JSON with the names, or a name and an input."""
    start = after_lead(text, at)
    if text.startswith(("{", "["), start):
        found = json_calls(text[start:], closed=True)
        return found.calls, len(text) - len(found.remark)
    if text.startswith("<function=", start):
        calls, end = _tagged(text, start + len("<function="), "function")
        closer = _CLOSERS["function"].match(text, end)
        return calls, closer.end() if closer else end
    separator = _SEPARATOR.search(text, at)
    if separator is None:
        raise NoCallError(_UNFINISHED)
    name, end = text[at : separator.start()].strip(), separator.end()
    if name == "function":  # the name is on the next line
        end = _NOISE.match(text, end).end()  # type: ignore[union-attr]
        line = text.find("\n", end)
        name, end = text[end : line if line >= 0 else len(text)].strip(), line if line >= 0 else len(text)
    if separator.group().startswith("<|"):
        name = name.removeprefix("functions.").partition(":")[0]
    return _named(text, name, end, form)


def _tagged(text: str, at: int, form: str) -> tuple[Sequence[TextCall], int]:
    """The call whose opening mark has its name, and the end of its input."""
    separator = re.compile(">" if form == "function" else r'"\s*+>').search(text, at)
    if separator is None:
        raise NoCallError(_UNFINISHED)
    return _named(text, text[at : separator.start()].strip(), separator.end(), form)


def _named(text: str, name: str, at: int, form: str) -> tuple[Sequence[TextCall], int]:
    """The call of a tool with the JSON object, or the values, at a place."""
    if not name or len(name) > 64 or _NO_NAME.search(name):
        raise NoCallError(_UNFINISHED)
    start = after_lead(text, at)
    if text.startswith(("{", "["), start):
        found = named_call(name, text[start:], closed=True)
        return found.calls, len(text) - len(found.remark)
    if form in ("list", "bar"):
        raise NoCallError(
            _UNFINISHED if not text[at:].strip() else f"the input of {name!r} is not one JSON object"
        )
    args, end = _values(name, text, at, _OWN_MARKS[form])
    return [_call(name, args, is_raw=True)], end


def named_call(name: str, text: str, *, closed: bool) -> TextReading:
    """The call of a tool with one JSON object; the text after it is the remark."""
    try:
        value, rest = load(without_lead(text), closed=closed)
    except CodecError as error:
        raise NoCallError(f"the input of {name!r} cannot be read ({error})") from None
    if not is_object(value):
        raise NoCallError(f"the input of {name!r} is not one JSON object")
    return TextReading([_call(name, value)], rest)


def _call(name: str, args: JsonValue, *, is_raw: bool = False) -> TextCall:
    name = clean_name(name)
    if not name:
        raise NoCallError(NO_TOOL)
    try:
        check_encoding(args)
    except CodecError as error:
        raise NoCallError(f"the input of {name!r} cannot be read ({error})") from None
    return TextCall(name, args, dump_json(args), is_raw=is_raw)


def _values(name: str, text: str, at: int, own: re.Pattern[str]) -> tuple[dict[str, JsonValue], int]:
    """`<parameter=key>value</parameter>`s, or `<arg_key>key</arg_key><arg_value>value</arg_value>`s, and
    their end.

    A value is kept as it is written, without the line breaks at its ends that some templates write. With a
    mark of
    its form (`own`) in it, its end is unsure.
    """
    args: dict[str, JsonValue] = {}
    while True:
        at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
        opener = _VALUE.match(text, at)
        if opener is None:
            break
        closing = "</arg_value>" if opener["key"] else "</parameter>"
        at = text.find(closing, opener.end())
        if at < 0:
            raise NoCallError(f"a parameter of {name!r} does not end")
        value = text[opener.end() : at]
        key = (opener["plain"] or opener["named"] or opener["key"]).strip()
        if own.search(value):
            raise NoCallError(f"the value of {key!r} has a mark of a call in it; write the call as JSON")
        if opener["plain"]:
            value = value.removeprefix("\n").removesuffix("\n")
        if key in args:
            raise NoCallError(f"the call gives {key!r} twice")
        args[key], at = value, at + len(closing)
    end = own.search(text, at)
    if text[at : end.start() if end else len(text)].strip():
        raise NoCallError(
            f"there is text between the parameters of {name!r}"
            if args
            else f"the input of {name!r} is not one JSON object"
        )
    return args, at


_BLANKS = re.compile(r"\s*+")
