"""Corrections: rules learned from a refused call that the same run then corrected.

A rule contains only names of tools and parameters. Rules about values are worded by a model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from wesichain.core.internal import is_array, is_object

from .entities.bullets import ToolCallingStrategy
from .entities.steps import ToolInvocation


def rules_from_corrections(
    calls: Sequence[ToolInvocation], known: Mapping[str, Collection[str]]
) -> Iterator[ToolCallingStrategy]:
    """Compare each refused call of a run with the next accepted call of its tool, and yield the rules.

    `known` has the parameters of each tool. Arguments with other names are left out of the rules, since such
    a name could be anybody's text.
    """
    for place, call in enumerate(calls):
        later = calls[place + 1 :]
        accepted = next(
            (at for at, one in enumerate(later) if one.success and one.tool_name == call.tool_name), None
        )
        if call.success or call.tool_name not in known or accepted is None:
            continue
        before, after = _arguments(call), _arguments(later[accepted])
        between = [one.tool_name for one in later[:accepted] if one.success and one.tool_name in known]
        if before == after and between:
            first, tool = between[-1], call.tool_name
            rule = f"Call {first} before {tool}."
            yield ToolCallingStrategy(content=rule, tool_sequence=(first, tool), lesson="order")
        else:
            yield from _rules_of_change(call.tool_name, known[call.tool_name], before, after)


def _rules_of_change(
    tool: str, parameters: Collection[str], before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[ToolCallingStrategy]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if len(names) != 1 or names[0] not in parameters:
        return
    (name,) = names
    if name not in before:
        rule = f"{tool}: give {name} as well."
    elif name not in after:
        rule = f"{tool}: leave out {name}."
    elif _kind(before[name]) != _kind(after[name]):
        rule = f"{tool}: give {name} as {_kind(after[name])}, not as {_kind(before[name])}."
    else:
        return
    yield ToolCallingStrategy(content=rule, tool_sequence=(tool,), parameter=name, lesson="argument")


def _arguments(call: ToolInvocation) -> Mapping[str, Any]:
    return call.arguments if is_object(call.arguments) else {}


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if value is None:
        return "null"
    return "an object" if is_object(value) else "a list" if is_array(value) else "text"
