"""Rules for calls that depend on their tools.

For a tool that is not pure, the reply has to end with the call, an input without delimiters has to be one
line, and no text argument may be a placeholder. An unknown tool is not pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from wesichain.core import JsonValue, ToolSpec
from wesichain.core.internal import replace

from .inputs import holds_data
from .parsed import Parsed, TextCall, action, is_placeholder, malformed
from .signature import WrongInputError, fit, takes_nothing

_HOLDERS = (str, dict, list)  # types that may be or contain a placeholder
ALONE = "write the call alone, with nothing behind it"


def check(parsed: Parsed, tools: Sequence[ToolSpec] = ()) -> Parsed:
    """The reply with the tools' own names and arguments in its calls, or as a malformed reply."""
    if parsed.kind == "final" or parsed.tool is None:
        return parsed
    if parsed.kind == "malformed":
        return _without_input(parsed, find_tool(tools, parsed.tool))
    if parsed.remark and holds_data(parsed.remark):
        return malformed(f"the reply has more than one object; {ALONE}", thought=parsed.thought)
    try:
        calls = [_checked(call, find_tool(tools, call.name), parsed.remark) for call in parsed.calls]
    except WrongInputError as error:
        return malformed(str(error), thought=parsed.thought)
    return action(*calls, thought=parsed.thought, remark=parsed.remark) if tools else parsed


def find_tool(tools: Sequence[ToolSpec], name: str) -> ToolSpec | None:
    """The tool with exactly that name, or else the only one whose name differs only in case."""
    exact = [tool for tool in tools if tool.name == name]
    alike = exact or [tool for tool in tools if tool.name.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 or exact else None


def _without_input(parsed: Parsed, spec: ToolSpec | None) -> Parsed:
    """A call without an input, which is valid if the tool has no parameters."""
    if spec is None or not takes_nothing(spec) or (parsed.remark and not spec.pure):
        return parsed
    return action(TextCall(spec.name, {}), thought=parsed.thought, remark=parsed.remark)


def _checked(call: TextCall, spec: ToolSpec | None, remark: str) -> TextCall:
    """The call with the tool's own name and arguments; raises `WrongInputError` if it is not allowed."""
    if spec is not None and spec.pure:
        return replace(call, name=spec.name, args=fit(spec, call))
    if remark:
        why = f"there is more in the reply than the call of {call.name!r}"
        said = remark if len(remark) <= 60 else f"{remark[:60]}..."
        raise WrongInputError(f"{why}, {said!r}; {ALONE}")
    if call.is_bare and len(call.input.splitlines()) > 1:
        why = f"the input of {call.name!r} is text of more than one line"
        raise WrongInputError(f"{why}; write it as one JSON object, and {ALONE}")
    if spec is not None:
        call = replace(call, name=spec.name, args=fit(spec, call))
    if hole := _placeholder(call.args):
        raise WrongInputError(f"{hole!r} in the input of {call.name!r} is a placeholder; write the value")
    return call


def _placeholder(value: JsonValue) -> str | None:
    """The first placeholder among the texts in a value."""
    if isinstance(value, str):
        return value if is_placeholder(value) else None
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        if isinstance(item, _HOLDERS) and (hole := _placeholder(item)):
            return hole
    return None
