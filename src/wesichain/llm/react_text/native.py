"""Whole calls in the text of a reply: JSON with the tool's name, and the native formats of models."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from wesichain.core import JsonValue
from wesichain.core.internal import dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError

from .inputs import check_encoding, clean_name, without_lead
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


class _Form(NamedTuple):
    """The native format of a family of models: the marks that begin and end a call (JSON needs no end), and
    the separator of its name and its arguments. `is_tag`: the name is in the opening mark."""

    opens: str
    closes: re.Pattern[str] | None = None
    separator: re.Pattern[str] = re.compile(
        r"<\|tool_call_argument_begin\|>|<[|\uff5c]tool\u2581sep[|\uff5c]>|\[ARGS\]|(?=<arg_key>)"
    )
    is_tag: bool = False


_FUNCTION = _Form("<function=", re.compile("</function>"), re.compile(">"), is_tag=True)
_FORMS = (
    _FUNCTION,
    _Form(r'<invoke\s++name="', re.compile("</invoke>"), re.compile(r'"\s*+>'), is_tag=True),
    _Form("<tool_call>", re.compile("</tool_call>")),
    _Form(f"{_BAR}begin[|\uff5c]>", re.compile(f"{_BAR}end[|\uff5c]>")),
    _Form(r"<tool_calls>(?=\s{0,19}[\[{])|\[TOOL_CALLS\]|<\|python_tag\|>"),
)
_OPENER = re.compile("|".join(f"({form.opens})" for form in _FORMS))
_VALUE = re.compile(
    r"""<parameter(?:=(?P<plain>[^<>\s]{1,64})|\s++name="(?P<named>[^"<>]{1,64})"[^<>]{0,40})>
      |<arg_key>(?P<key>[^<>]{1,64})</arg_key>\s*+<arg_value>""",
    re.VERBOSE,
)
# Marks without meaning around and between calls: special tokens, and elements around several calls.
AROUND_CALLS = re.compile(
    rf"{END_TOKEN.pattern}|</?+(?:\w{{1,20}}[:_])?(?:tool|function)_calls?>|</function>"
)
_NO_NAME = re.compile(r'[\n<>"]')
_MORE = "there is more in the call than one JSON object"
_UNFINISHED = "a call was begun and not finished"
NO_TOOL = "the call does not name a tool"


def read_native(text: str, at: int) -> tuple[TextReading, int]:
    """The native calls that begin at `at`, and their end; raises `NoCallError` if there is none.

    The closing mark may be missing, because it was a stop sequence.
    """
    opener = _OPENER.search(text, at)
    if opener is None or without_markers(text[at : opener.start()]):
        raise NoCallError(_UNFINISHED)
    form = _FORMS[(opener.lastindex or 1) - 1]
    closer = form.closes.search(text, opener.end()) if form.closes else None
    body = text[opener.end() : closer.start() if closer else len(text)]
    calls, rest, *_ = _read_body(form, body)
    if form.closes is None:
        return TextReading(calls), len(text) - len(rest)
    if rest.strip(" \t\r\n`}]"):
        raise NoCallError(_MORE)
    return TextReading(calls), closer.end() if closer else len(text)


def without_markers(text: str) -> str:
    """The text without the marks around calls, as one line."""
    if "<" in text:
        text = AROUND_CALLS.sub(" ", text)
    return " ".join(text.split()).strip("` ")


def _read_body(form: _Form, body: str) -> TextReading:
    """The calls between two marks, and the text after them: JSON with the name, or a name and an input."""
    start = without_lead(body)
    if not form.is_tag and start.startswith(("{", "[")):
        return json_calls(start, closed=True)
    if not form.is_tag and start.startswith(_FUNCTION.opens):
        inside, _, behind = start.removeprefix(_FUNCTION.opens).partition("</function>")
        found = _read_body(_FUNCTION, inside)
        if found.remark.strip():
            raise NoCallError(_MORE)
        return found._replace(remark=behind)
    name, given = _split_name(form, body)
    if without_lead(given).startswith(("{", "[")):
        return named_call(name, given, closed=True)
    return TextReading([_call(name, _values(name, given), is_raw=True)])


def _split_name(form: _Form, body: str) -> tuple[str, str]:
    separator = form.separator.search(body)
    if separator is None:
        raise NoCallError(_UNFINISHED)
    name, given = body[: separator.start()].strip(), body[separator.end() :]
    if name == "function":  # the name is on the next line
        name, _, given = given.strip().partition("\n")
    if separator.group().startswith("<|"):
        name = name.removeprefix("functions.").partition(":")[0]
    if not name or len(name) > 64 or _NO_NAME.search(name) or not (given or form.is_tag):
        raise NoCallError(_UNFINISHED)
    return name.strip(), given


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


def _values(name: str, body: str) -> dict[str, JsonValue]:
    """`<parameter=key>value</parameter>`s, or `<arg_key>key</arg_key><arg_value>value</arg_value>`s."""
    args: dict[str, JsonValue] = {}
    at = 0
    for opener in _VALUE.finditer(body):
        if opener.start() < at:
            continue
        at = body.find("</arg_value>" if opener["key"] else "</parameter>", opener.end())
        if at < 0:
            raise NoCallError(f"a parameter of {name!r} does not end")
        value = body[opener.end() : at]
        if opener["plain"]:  # in this format, the value is on its own line
            value = value.removeprefix("\n").removesuffix("\n")
        elif opener["key"]:
            value = value.strip()
        key = (opener["plain"] or opener["named"] or opener["key"]).strip()
        if key in args:
            raise NoCallError(f"the call gives {key!r} twice")
        args[key] = value
    if body.strip() and not args:
        raise NoCallError(f"the input of {name!r} is not one JSON object")
    return args
