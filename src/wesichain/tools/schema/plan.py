"""Plan: what is known of a tool once its Python types have been read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pydantic.fields import FieldInfo

from wesichain.core import ToolSpec

from .arguments import Arguments, arguments_from, arguments_of
from .describe import signature_line
from .output import Output
from .signature import Signature, could_change, read_signature


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """How a tool is described, checked and rendered. `signature`: of a function, how it is called."""

    spec: ToolSpec
    usage: str
    arguments: Arguments
    output: Output
    signature: Signature


def plan_function(
    function: Callable[..., Any],
    *,
    name: str,
    description: str,
    described: dict[str, str],
    context: type,
    skip_first: bool,
    max_output: int,
) -> SchemaPlan:
    """Read a function. Raises `NameError` where an annotation names what is not defined yet."""
    signature = read_signature(function, tool_name=name, context=context, skip_first=skip_first)
    arguments = arguments_of(signature, tool_name=name, described=described)
    fresh = tuple(
        (parameter.name, parameter.default)
        for parameter in signature.parameters
        if not isinstance(parameter.default, FieldInfo) and could_change(parameter.default)
    )
    return _plan(name, description, arguments, replace(signature, fresh=fresh), max_output=max_output)


def plan_types(takes: Any, gives: Any, *, name: str, description: str, max_output: int) -> SchemaPlan:
    """Read the two types of a `TypedTool`."""
    arguments = arguments_from(takes, tool_name=name)
    return _plan(name, description, arguments, Signature((), returns=gives), max_output=max_output)


def _plan(
    name: str, description: str, arguments: Arguments, signature: Signature, *, max_output: int
) -> SchemaPlan:
    return SchemaPlan(
        ToolSpec(name, description, arguments.schema),
        signature_line(name, arguments.schema),
        arguments,
        Output(signature.returns, limit=max_output),
        signature,
    )
