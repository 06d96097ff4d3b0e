"""By value: a tool whose function has no name elsewhere (a closure, a notebook's cell), pickled.

The way is from a program to its own child: `dump` is called in the program, `load` in the child, and what the
child answers is JSON. Functions and classes of modules go by their names here too; those of the program's own
file, and those that were made inside a function, go with their code, what they close over and the globals
that they use.
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
    what = "an isolated tool that is no function at the top level of a module"
    raise MissingDependencyError(what, package="cloudpickle", extra="isolation") from error


def dump(tool: Tool) -> bytes:
    """A tool as bytes for a child of this process; raises `ToolDefinitionError` for what cannot be sent."""
    try:
        return _dump(tool)
    except Exception as error:
        culprit = next(_culprits(tool), f"it is {preview(tool)}, which cannot be sent to another process")
        raise ToolDefinitionError(f"tool {tool.name!r} cannot be isolated: {culprit} ({error})") from error


def load(data: bytes) -> Tool:
    """The tool that the parent of this process has written."""
    return cloudpickle.loads(data)  # type: ignore[no-any-return]  # what `dump` was given


def _dump(value: Any) -> bytes:
    file = io.BytesIO()
    pickler: Any = _Pickler(file)  # it has no types
    pickler.dump(value)
    return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Writes tools without what was compiled for them, and what has a name in a module as that name."""

    @override
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tool):
            return _reduced(obj)  # pyright: ignore[reportUnknownArgumentType]  # any tool
        name = name_of(obj) if inspect.isfunction(obj) and obj is not find else None
        if name is not None and not name.is_main:
            return find, (name,)
        return super().reducer_override(obj)  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # it has no types


def _reduced(tool: Tool) -> Any:
    recipe = recipe_of(tool)
    if recipe is None:
        state = {name: value for name, value in vars(tool).items() if name != "_plan"}
        return _restored, (type(tool), state)
    if isinstance(tool, FunctionTool):
        function: Any = classmethod(tool.function) if tool.binds_class and tool.is_unbound else tool.function
        return _annotated, (Recipe(recipe.kind, function, recipe.options), _annotations(tool))  # pyright: ignore[reportUnknownArgumentType]  # any function
    return Recipe.make, (recipe,)


def _restored(cls: type[Tool], state: dict[str, Any]) -> Tool:
    made = cls.__new__(cls)
    vars(made).update(state)
    return made


def _annotated(recipe: Recipe, annotations: dict[str, Any]) -> Tool:
    unwrapped(getattr(recipe.function, "__func__", recipe.function)).__annotations__ = annotations
    return recipe.make()


def _annotations(tool: FunctionTool[..., Any, Any]) -> dict[str, Any]:
    """The annotations of a tool's function as types: the names in them may mean nothing elsewhere."""
    signature: Signature = tool.plan().signature
    known = {each.name: each.annotation for each in signature.parameters} | {"return": signature.returns}
    for several in (signature.star, signature.extras):  # a list, or a dict, of what is annotated
        if several is not None:
            known[several.name] = get_args(several.annotation)[-1]
    if signature.context is not None:
        known[signature.context] = ToolContext
    written = unwrapped(tool.function).__annotations__
    return {name: known.get(name, annotation) for name, annotation in written.items()}


def _culprits(tool: Tool) -> Iterator[str]:
    """What a tool's function uses and cannot be sent, by name."""
    recipe = recipe_of(tool)
    function: Callable[..., Any] = unwrapped(recipe.function if recipe else type(tool).call)
    try:
        used = inspect.getclosurevars(function)
    except (TypeError, ValueError):  # it is not written in Python
        return
    for how, names in (("closes over", used.nonlocals), ("uses", used.globals)):
        for name, value in names.items():
            try:
                _dump(value)
            except Exception:  # noqa: BLE001  # whatever a value raises when it is written
                yield (
                    f"{name!r}, which {function.__name__} {how}, is {preview(value)}, "
                    f"which cannot be sent to another process"
                )
