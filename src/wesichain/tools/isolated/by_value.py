"""By value: pickles tools whose function cannot be imported by name, such as closures and notebook cells.

`dump` is called in the program, `load` in its child process; results are JSON, and never unpickled. Functions
and classes of modules are pickled by name. Those of the program's own file, and those defined inside a
function, are pickled with their code, their closure and the globals that they use.
"""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from typing import Any, get_args

from typing_extensions import override

from wesichain.errors import MissingDependencyError, ToolDefinitionError
from wesichain.tools.context import ToolContext
from wesichain.tools.definition import Tool
from wesichain.tools.function import FunctionTool
from wesichain.tools.json_schema.issues import preview
from wesichain.tools.schema.signature import Signature, unwrapped

from .names import Recipe, find, name_of, recipe_of

try:
    import cloudpickle  # type: ignore[import-untyped]  # it has no types
except ImportError as error:
    what = "an isolated tool that is not a top-level function of a module"
    raise MissingDependencyError(what, package="cloudpickle", extra="isolation") from error


def dump(tool: Tool) -> bytes:
    """Pickle a tool for a child process. Raises `ToolDefinitionError` if that is not possible."""
    try:
        return _dump(tool)
    except Exception as error:
        reason = next(_unpicklable(tool), f"it is {preview(tool)}, which cannot be sent to another process")
        raise ToolDefinitionError(f"tool {tool.name!r} cannot be isolated: {reason} ({error})") from error


def load(data: bytes) -> Tool:
    """Return the tool that the parent process has pickled."""
    return cloudpickle.loads(data)  # type: ignore[no-any-return]  # a tool


def _dump(value: Any) -> bytes:
    file = io.BytesIO()
    pickler: Any = _Pickler(file)  # it has no types
    pickler.dump(value)
    return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles tools without their compiled parts, and functions of modules by name."""

    @override
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tool):
            return _reduce_tool(obj)  # pyright: ignore[reportUnknownArgumentType]  # any tool
        name = name_of(obj) if inspect.isfunction(obj) and obj is not find else None
        if name is not None and not name.is_main:
            return find, (name,)
        return super().reducer_override(obj)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # it has no types


def _reduce_tool(tool: Tool) -> Any:
    recipe = recipe_of(tool)
    if recipe is None:
        state = {name: value for name, value in vars(tool).items() if name != "_plan"}
        return _restore_tool, (type(tool), state)
    if isinstance(tool, FunctionTool):
        function: Any = classmethod(tool.function) if tool.binds_class and tool.is_unbound else tool.function
        return _make_annotated, (Recipe(recipe.kind, function, recipe.options), _annotations(tool))  # pyright: ignore[reportUnknownArgumentType]  # any function
    return Recipe.make, (recipe,)


def _restore_tool(cls: type[Tool], state: dict[str, Any]) -> Tool:
    made = cls.__new__(cls)
    vars(made).update(state)
    return made


def _make_annotated(recipe: Recipe, annotations: dict[str, Any]) -> Tool:
    unwrapped(getattr(recipe.function, "__func__", recipe.function)).__annotations__ = annotations
    return recipe.make()


def _annotations(tool: FunctionTool[..., Any, Any]) -> dict[str, Any]:
    """Return the resolved annotations of a tool's function: names cannot be resolved in the child."""
    signature: Signature = tool.plan().signature
    known = {each.name: each.annotation for each in signature.parameters} | {"return": signature.returns}
    for several in (signature.star, signature.extras):  # annotated as list[T] or dict[str, T] here
        if several is not None:
            known[several.name] = get_args(several.annotation)[-1]
    if signature.context is not None:
        known[signature.context] = ToolContext
    annotations = unwrapped(tool.function).__annotations__
    return {name: known.get(name, annotation) for name, annotation in annotations.items()}


def _unpicklable(tool: Tool) -> Iterator[str]:
    """Yield messages about the variables of a tool's function that cannot be pickled."""
    recipe = recipe_of(tool)
    function: Callable[..., Any] = unwrapped(recipe.function if recipe else type(tool).call)
    try:
        variables = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # not a Python function
        return
    for how, names in (("closes over", variables.nonlocals), ("uses", variables.globals)):
        for name, value in names.items():
            try:
                _dump(value)
            except Exception:  # noqa: BLE001  # pickling may raise anything
                yield (
                    f"{name!r}, which {function.__name__} {how}, is {preview(value)}, "
                    f"which cannot be sent to another process"
                )
