"""Plan: the description, validation and rendering of a tool, from its Python types or its JSON schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from wesichain.core import JsonValue, ToolSpec
from wesichain.core.internal import Value, replace

from .describe import signature_line
from .output import Output
from .signature import Signature, is_mutable, read_signature

if TYPE_CHECKING:
    from .arguments import Arguments

_NO_SIGNATURE = Signature(())


class SchemaPlan(Value):
    """How a tool is described, checked and rendered. `signature` is that of its function.

    `check` raises `RejectedError`, `render` raises `ToolSerializationError`. `quick` is an optional fast
    check, which may raise any exception if `check` has to decide. `returns` gives the schema of results.
    """

    spec: ToolSpec
    usage: str
    check: Callable[[JsonValue], Any]
    render: Callable[[Any], JsonValue]
    returns: Callable[[], Mapping[str, Any] | None]
    quick: Callable[[Any], Any] | None = None
    signature: Signature = _NO_SIGNATURE


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
    """Return the plan of a function. Raises `NameError` if an annotation names an undefined class."""
    from pydantic.fields import FieldInfo

    from .arguments import arguments_of

    signature = read_signature(function, tool_name=name, context=context, skip_first=skip_first)
    arguments = arguments_of(signature, tool_name=name, described=described)
    fresh = tuple(
        (parameter.name, parameter.default)
        for parameter in signature.parameters
        if not isinstance(parameter.default, FieldInfo) and is_mutable(parameter.default)
    )
    return _plan(name, description, arguments, replace(signature, fresh=fresh), max_output=max_output)


def plan_types(args: Any, result: Any, *, name: str, description: str, max_output: int) -> SchemaPlan:
    """Return the plan of a `TypedTool` from its two types."""
    from .arguments import arguments_from

    arguments = arguments_from(args, tool_name=name)
    return _plan(name, description, arguments, Signature((), returns=result), max_output=max_output)


def _plan(
    name: str, description: str, arguments: Arguments, signature: Signature, *, max_output: int
) -> SchemaPlan:
    output = Output(signature.returns, limit=max_output)
    return SchemaPlan(
        ToolSpec(name, description, arguments.schema),
        signature_line(name, arguments.schema),
        arguments.check,
        output.render,
        lambda: output.schema,
        arguments.quick,
        signature,
    )
