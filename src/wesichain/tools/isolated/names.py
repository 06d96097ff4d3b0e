"""Names: functions by module and qualified name, so that another process can import them.

A `Recipe` has the function and the options of a tool, from which another process creates the tool.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from wesichain.tools.definition import Tool
from wesichain.tools.function import FunctionTool
from wesichain.tools.json_tool import JsonTool

_MAIN = "__mp_main__"  # the name of the program's module in children of multiprocessing


class FunctionName(NamedTuple):
    """Where a function is defined. `is_main`: in the file that was started as the program."""

    module: str
    qualname: str
    file: str | None
    is_main: bool


def name_of(function: Any) -> FunctionName | None:
    """Return the name by which another process can import a function; None for closures and the like.

    Functions of an interactive session or a notebook have no file, and cannot be imported.
    """
    module = sys.modules.get(str(getattr(function, "__module__", None)))
    qualname = str(getattr(function, "__qualname__", ""))
    if module is None or _resolve(module, qualname) is not function:
        return None
    file: str | None = getattr(module, "__file__", None)
    if module.__name__ != "__main__":
        return FunctionName(module.__name__, qualname, file, is_main=False)
    if module.__spec__ is not None:  # python -m package.module
        return FunctionName(module.__spec__.name, qualname, file, is_main=True)
    return FunctionName("__main__", qualname, file, is_main=True) if file and Path(file).exists() else None


def find(name: FunctionName) -> Callable[..., Any]:
    """Return the function with this name. Its module is imported, or executed from its file, if necessary."""
    module = _load_main(name) if name.is_main else _load(name.module, name.file)
    function = _resolve(module, name.qualname)
    if function is None:
        raise LookupError(f"{name.file} has no {name.qualname!r} when it is imported again")
    return function  # type: ignore[no-any-return]  # any callable


def _resolve(module: types.ModuleType, qualname: str) -> Any:
    """Return the object with a qualified name, or None; for a tool, its function."""
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found.function if isinstance(found, FunctionTool) else found  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]  # any function


def _load(name: str, file: str | None) -> types.ModuleType:
    """Import a module by name, or execute its file if the name refers to another file or to none."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and (file is None or spec.origin is None or _is_same(spec.origin, file)):
        return importlib.import_module(name)
    return _execute(name, str(file))


def _is_same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _execute(name: str, file: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"module {name!r} cannot be read from {file!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_main(name: FunctionName) -> types.ModuleType:
    """Import the program's file under another name, so that `if __name__ == "__main__":` is false."""
    if _MAIN not in sys.modules:
        policy = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated]  # no alternative yet
        refusing: Any = asyncio.DefaultEventLoopPolicy()
        refusing.new_event_loop = _refuse_loop
        asyncio.set_event_loop_policy(refusing)  # pyright: ignore[reportDeprecated]  # no alternative yet
        try:
            own = name.module == "__main__"
            module = _execute(_MAIN, str(name.file)) if own else importlib.import_module(name.module)
        finally:
            asyncio.set_event_loop_policy(policy)  # pyright: ignore[reportDeprecated]  # no alternative yet
        sys.modules[_MAIN] = sys.modules["__main__"] = module
    return sys.modules[_MAIN]


def _refuse_loop() -> NoReturn:
    """Stop a program that would run while its file is imported for its tools."""
    raise RuntimeError(
        "the program runs when its file is imported; put its code under if __name__ == '__main__':"
    )


class Recipe(NamedTuple):
    """A function, a kind of tool, and its options, which are JSON."""

    kind: str
    function: Callable[..., Any]
    options: dict[str, Any]

    def make(self) -> Tool:
        """Create the tool, without its timeout and limits, which the program applies."""
        if self.kind == "json":
            return JsonTool(invoke=self.function, **self.options)
        return FunctionTool(self.function, **self.options)


def recipe_of(tool: Tool) -> Recipe | None:
    """Return the recipe of a tool; None for an instance of another class of tools."""
    options = {"name": tool.name, "description": tool.description, "max_output": tool.max_output}
    if isinstance(tool, JsonTool):
        schemas = {"schema": tool.spec.parameters, "returns": tool.returns}
        return Recipe("json", tool.invoke, {**options, **schemas})
    return Recipe("function", tool.function, options) if isinstance(tool, FunctionTool) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]  # any function
