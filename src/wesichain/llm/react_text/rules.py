"""Rules for the calls of a reply that depend on their tools.

For a tool that is not pure, the reply has to end with the call, an input that is bare text is one line, and
no text argument may be a placeholder. A tool that is not known is not pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wesichain.core import JsonValue, ToolSpec

from .inputs import holds_data, is_nothing
from .parsed import Parsed, TextCall, action, is_placeholder, malformed
from .signature import WrongInputError, fit, takes_nothing

_HOLDERS = (str, dict, list)  # what may be a placeholder, or hold one
ALONE = "write the call alone, with nothing behind it"


def check(parsed: Parsed, tools: Sequence[ToolSpec] = ()) -> Parsed:
    """The reply as it may be acted on: its calls with the tools' own names and arguments, or malformed."""
    if parsed.kind == "final" or parsed.tool is None:
        return parsed
    specs = {call.name: find_tool(tools, call.name) for call in parsed.calls}
    if parsed.kind == "malformed":
        return _without_input(parsed, find_tool(tools, parsed.tool))
    if parsed.remark and holds_data(parsed.remark):
        return malformed(f"the reply has more than one object; {ALONE}", thought=parsed.thought)
    effects = [call for call in parsed.calls if not _is_pure(specs[call.name])]
    if effects and parsed.remark:
        why = f"there is more in the reply than the call of {effects[0].name!r}"
        return malformed(f"{why}, {_shorten(parsed.remark)!r}; {ALONE}", thought=parsed.thought)
    for call in effects:
        if call.is_bare and "\n" in call.input:
            why = f"the input of {call.name!r} is text of more than one line"
            return malformed(f"{why}; write it as one JSON object, and {ALONE}", thought=parsed.thought)
    try:
        calls = [_fitted(call, specs) for call in parsed.calls]
    except WrongInputError as error:
        return malformed(str(error), thought=parsed.thought)
    return parsed if not tools else action(*calls, thought=parsed.thought, remark=parsed.remark)


def find_tool(tools: Sequence[ToolSpec], name: str) -> ToolSpec | None:
    """The tool of exactly that name; its case may differ where that leaves one alone."""
    exact = [tool for tool in tools if tool.name == name]
    alike = exact or [tool for tool in tools if tool.name.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 or exact else None


def _is_pure(spec: ToolSpec | None) -> bool:
    return spec is not None and spec.pure


def _without_input(parsed: Parsed, spec: ToolSpec | None) -> Parsed:
    """A call whose input is missing; a tool that takes nothing needs none."""
    if spec is None or not takes_nothing(spec) or (parsed.remark and not spec.pure):
        return parsed
    return action(TextCall(spec.name, {}), thought=parsed.thought, remark=parsed.remark)


def _fitted(call: TextCall, specs: Mapping[str, ToolSpec | None]) -> TextCall:
    spec = specs[call.name]
    if spec is not None and call.is_bare and takes_nothing(spec):
        if not spec.pure and not is_nothing(call.input):
            raise WrongInputError(f"{spec.name!r} takes no input; write Action Input: {{}}")
        call = replace(call, name=spec.name, args={})
    elif spec is not None:
        call = replace(call, name=spec.name, args=fit(spec, call))
    if not _is_pure(spec) and (hole := _placeholder(call.args)):
        raise WrongInputError(f"{hole!r} in the input of {call.name!r} is a placeholder; write the value")
    return call


def _placeholder(value: JsonValue) -> str | None:
    """The first text in a value that is a placeholder."""
    if isinstance(value, str):
        return value if is_placeholder(value) else None
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        if isinstance(item, _HOLDERS) and (hole := _placeholder(item)):
            return hole
    return None


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:60]}..."
