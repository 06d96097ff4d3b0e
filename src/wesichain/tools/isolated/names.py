"""Names: a function as `module:qualname`, and the function that such a name leads to in another process.

With a `Recipe`, what a tool is made of apart from its function, that is enough to make the tool there again.
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

_MAIN = "__mp_main__"  # what multiprocessing calls a program's own module in its children


class FunctionName(NamedTuple):
    """Where a function is defined. `is_main`: in the file that the program was started from."""

    module: str
    qualname: str
    file: str | None
    is_main: bool


def name_of(function: Any) -> FunctionName | None:
    """The name by which another process finds a function; None where there is none, as for a closure.

    What is typed into an interactive session or a notebook has no file, and so no name elsewhere.
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
    """The function with that name; its module is imported, or read from its file, where it is not yet."""
    module = _load_main(name) if name.is_main else _load(name.module, name.file)
    function = _resolve(module, name.qualname)
    if function is None:
        raise LookupError(f"{name.file} has no {name.qualname!r} when it is read again")
    return function  # type: ignore[no-any-return]  # whatever can be called


def _resolve(module: types.ModuleType, qualname: str) -> Any:
    """What a qualified name leads to, or None; of a tool, its function."""
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found.function if isinstance(found, FunctionTool) else found  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]  # any function


def _load(name: str, file: str | None) -> types.ModuleType:
    """A module by its name, or from its file where that name leads elsewhere or nowhere."""
    if name in sys.modules:
        return sys.modules[name]
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is not None and (file is None or spec.origin is None or _is_same(spec.origin, file)):
        return importlib.import_module(name)
    return _read(name, str(file))


def _is_same(one: str, other: str) -> bool:
    return Path(one).resolve() == Path(other).resolve()


def _read(name: str, file: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"module {name!r} cannot be read from {file!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_main(name: FunctionName) -> types.ModuleType:
    """The program's own file, under another name: what is below `if __name__ == "__main__":` does not run."""
    if _MAIN not in sys.modules:
        policy = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated]  # there is no other way yet
        refusing: Any = asyncio.DefaultEventLoopPolicy()
        refusing.new_event_loop = _refuse_loop
        asyncio.set_event_loop_policy(refusing)  # pyright: ignore[reportDeprecated]  # there is no other way yet
        try:
            own = name.module == "__main__"
            module = _read(_MAIN, str(name.file)) if own else importlib.import_module(name.module)
        finally:
            asyncio.set_event_loop_policy(policy)  # pyright: ignore[reportDeprecated]  # there is no other way yet
        sys.modules[_MAIN] = sys.modules["__main__"] = module
    return sys.modules[_MAIN]


def _refuse_loop() -> NoReturn:
    """Stops a program that would run, agents and all, while its file is read for its tools."""
    raise RuntimeError(
        "the program runs when its file is read; put what it does under if __name__ == '__main__':"
    )


class Recipe(NamedTuple):
    """A function, and the options with which it becomes a tool of that kind; the options are JSON."""

    kind: str
    function: Callable[..., Any]
    options: dict[str, Any]

    def make(self) -> Tool:
        """The tool; its timeout, its limits and the like are the program's to keep."""
        if self.kind == "json":
            return JsonTool(invoke=self.function, **self.options)
        return FunctionTool(self.function, **self.options)


def recipe_of(tool: Tool) -> Recipe | None:
    """The recipe of a tool; None for a tool that is an object of its own class."""
    options = {"name": tool.name, "description": tool.description, "max_output": tool.max_output}
    if isinstance(tool, JsonTool):
        schemas = {"schema": tool.spec.parameters, "returns": tool.returns}
        return Recipe("json", tool.invoke, {**options, **schemas})
    return Recipe("function", tool.function, options) if isinstance(tool, FunctionTool) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownArgumentType]  # any function
