"""Native calls in the text of a reply, in the forms in which models are trained to write them."""

from __future__ import annotations

import re
from typing import Any

from wesichain.core import JsonValue
from wesichain.core.internal import dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError

from .lenient import load
from .parsed import TextCall
from .structure import TextReply

TOOL_KEYS = ("action", "tool", "name", "tool_name")
INPUT_KEYS = ("action_input", "tool_input", "arguments", "args", "parameters", "input")
_ASIDE_KEYS = frozenset(
    {*("thought", "thoughts", "reasoning", "id", "type", "index"), *("call_id", "tool_call_id", "function")}
)


class NoCallError(Exception):
    """The text looks like a call and is none; says why.

    `name`: the tool, where only its input is missing. `thought`, `remark`: what is said before and beside it.
    """

    def __init__(
        self, why: str, *, name: str | None = None, thought: str | None = None, remark: str = ""
    ) -> None:
        super().__init__(why)
        self.name = name
        self.thought = thought
        self.remark = remark


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

CALL_START = re.compile(
    r"<tool_calls?>|<\|tool_calls?_|<[|\uff5c]tool\u2581|\[TOOL_CALLS\]|<\|python_tag\|>|<function=|<invoke\s|<function_calls>"
)
_OPENER = re.compile(
    r"""<tool_calls?+>|<\|tool_call_begin\|>|<[|\uff5c]tool\u2581call\u2581begin[|\uff5c]>|\[TOOL_CALLS\]|<\|python_tag\|>
      |<function=(?P<function>[\w.:-]{1,64})>|<invoke\s++name="(?P<invoke>[^"<>]{1,64})"\s*+>""",
    re.VERBOSE,
)
# What ends a call, by the last letters of what begins it; JSON tells itself where the others end.
_CLOSERS = {
    "tool_call>": re.compile("</tool_call>"),
    "tool_call_begin|>": re.compile(r"<\|tool_call_end\|>"),
    "function": re.compile("</function>"),
    "invoke": re.compile("</invoke>"),
    "\u2581begin": re.compile("<[|\uff5c]tool\u2581call\u2581end[|\uff5c]>"),
}
_SEPARATOR = re.compile(r"<\|tool_call_argument_begin\|>|<[|\uff5c]tool\u2581sep[|\uff5c]>|\[ARGS\]")
_VALUE = re.compile(
    r"""<parameter(?:=(?P<plain>[^<>\s]{1,64})|\s++name="(?P<named>[^"<>]{1,64})"[^<>]{0,40})>
      |<arg_key>(?P<key>[^<>]{1,64})</arg_key>\s*+<arg_value>""",
    re.VERBOSE,
)
_FENCE = re.compile(r"[\s`]*+(?:json\b)?\s*+")
# What stands around and between calls and says nothing: special tokens, and the elements around several.
AROUND_CALLS = re.compile(
    r"<[|\uff5c][^<>|\uff5c]{0,60}[|\uff5c]>|</?+(?:\w{1,20}[:_])?(?:tool|function)_calls?>|</s>|</function>|\s++"
)
_RESULT = re.compile(r"\n[ \t]*+observation\b|<tool_response>|<observation>", re.IGNORECASE)
_UNFINISHED = "a call was begun and not finished"


def native_calls(text: str) -> tuple[list[TextCall], str]:
    """The calls in the text, in order, and what is said behind them.

    What begins as a call and is none raises `NoCallError`, and so does text between two calls: several are
    all read, or none is. What follows the first made-up result does not count.
    """
    calls: list[TextCall] = []
    result = _RESULT.search(text)
    end = 0
    for opener in _OPENER.finditer(text):
        if calls and result and end <= result.start() < opener.start():
            break
        if opener.start() < end or (opener.group() == "<tool_calls>" and not _holds_json(text, opener.end())):
            continue
        if calls and without_markers(text[end : opener.start()]):
            raise NoCallError("there is text between two calls; write them one behind the other, or only one")
        found, end = _read(opener, text)
        calls += found
    if not calls:
        raise NoCallError(_UNFINISHED)
    return calls, without_markers(
        text[end : result.start() if result and result.start() >= end else len(text)]
    )


def begins_with_call(text: str) -> bool:
    """Whether the text begins as a native call, complete or not, within nothing but its own marks."""
    reply = TextReply(text)
    found = CALL_START.search(reply.text)
    return found is not None and not AROUND_CALLS.sub("", reply.text[: found.start()])


def without_markers(text: str) -> str:
    """A text without the marks around calls."""
    return AROUND_CALLS.sub(" ", text).strip("` ")


def _holds_json(text: str, at: int) -> bool:
    return text[at : at + 20].lstrip().startswith(("[", "{"))


def _read(opener: re.Match[str], text: str) -> tuple[list[TextCall], int]:
    """The calls that begin here, and where they end; a stop sequence may have eaten the closing mark."""
    key = opener.lastgroup or next((key for key in _CLOSERS if key in opener.group()), "")
    closer = _CLOSERS[key].search(text, opener.end()) if key else None
    body = text[opener.end() : closer.start() if closer else len(text)]
    calls, rest = _read_body((opener["function"] or opener["invoke"] or ""), body)
    if not key:
        return calls, len(text) - len(rest)
    if rest.strip(" \t\r\n`}]"):
        raise NoCallError("there is more in the call than one JSON object")
    return calls, closer.end() if closer else len(text)


def _read_body(name: str, body: str) -> tuple[list[TextCall], str]:
    """The calls between two marks, and what follows: JSON that names its tool, or a name with its input."""
    start = _FENCE.sub("", body, count=1)
    if not name and start.startswith(("{", "[")):
        value, rest = load_call(body)
        named = [call_of(item) for item in (value if is_array(value) else [value])]
        return [_call(name, args) for name, args in named], rest
    inner = _OPENER.match(start)
    if inner and inner["function"] and not name:
        return _read_body(inner["function"], start[inner.end() :].partition("</function>")[0])
    if not name:
        separator = _SEPARATOR.search(body)
        before, _, rest = body.partition(separator.group() if separator else "<arg_key>")
        if before.strip() == "function":  # the name has a line of its own
            before, _, rest = rest.strip().partition("\n")
        name = before.strip()
        if separator and separator.group().startswith("<|"):
            name = name.removeprefix("functions.").partition(":")[0]
        if not rest or not name or len(name) > 64:
            raise NoCallError(_UNFINISHED)
        start = rest if separator else f"<arg_key>{rest}"
    value, rest = load_call(start)
    if is_object(value):
        return [_call(name, value)], rest
    return [_call(name, _values(name, start), is_raw=True)], ""


def _call(name: str, args: JsonValue, *, is_raw: bool = False) -> TextCall:
    name = name.strip().strip("`\"'")
    if not name:
        raise NoCallError("the call does not name a tool")
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
        if opener["plain"]:  # this form has a line for the value
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
