"""Remake: in the other process, what `portable` wrote becomes functions, objects and tools again.

Nothing of ours is loaded that the tool does not need: what is loaded is copied for every call.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

_MAIN = "__mp_main__"  # what multiprocessing calls a program's own module in its children


def decode(plain: Any) -> Any:
    """The value that `encode` was given, made anew."""
    kind: Any = type(plain)  # pyright: ignore[reportUnknownVariableType]  # any value at all
    if kind is list:
        return [decode(item) for item in plain]
    if kind is not dict:
        return plain
    if "$" not in plain:
        return {key: decode(value) for key, value in plain.items()}
    return _MAKERS[plain["$"]](plain)


def _object(plain: dict[str, Any]) -> Any:
    made = decode(plain["make"])(*decode(plain["args"]))
    state = decode(plain["state"])
    if state is not None and hasattr(made, "__setstate__"):
        made.__setstate__(state)
    elif state is not None:
        halves: Any = state if isinstance(state, tuple) else (state, None)  # pyright: ignore[reportUnknownVariableType]  # any value at all
        by_name, by_slot = halves
        for name, value in {**(by_name or {}), **(by_slot or {})}.items():  # pyright: ignore[reportUnknownVariableType]  # any value at all
            object.__setattr__(made, name, value)  # pyright: ignore[reportUnknownArgumentType]  # any value at all
    for item in plain["items"] or ():
        made.append(decode(item))
    for key, value in plain["pairs"] or ():
        made[decode(key)] = decode(value)
    return made


def _function_in(plain: dict[str, Any]) -> Any:
    """A function that was made inside another: its code is in its module's."""
    module = load(plain["module"], plain["file"])
    loader: Any = getattr(getattr(module, "__spec__", None), "loader", None)
    whole = loader.get_code(module.__name__) if hasattr(loader, "get_code") else None
    found = [
        code
        for code in _codes(whole)
        if (code.co_qualname, code.co_firstlineno) == (plain["qualname"], plain["line"])
    ]
    if len(found) != 1:
        many = "several functions" if found else "no function"
        raise LookupError(
            f"line {plain['line']} of {plain['file']} has {many} {plain['qualname']!r}; "
            f"define the tool at the top level of a module"
        )
    return _function_of(found[0], vars(module), plain)


def _function_of(code: types.CodeType, scope: dict[str, Any], plain: dict[str, Any]) -> Any:
    cells = tuple(types.CellType(value) for value in decode(plain["closure"]))
    made = types.FunctionType(code, scope, code.co_name, decode(plain["defaults"]), cells)
    made.__kwdefaults__ = decode(plain["named_defaults"])
    return made


def fill_main(plain: dict[str, Any]) -> None:
    """Put the globals of a program that has no file where its functions look for them."""
    scope = vars(sys.modules.setdefault(_MAIN, types.ModuleType(_MAIN)))
    scope.update({name: decode(value) for name, value in plain.items()})


def _codes(code: types.CodeType | None) -> Iterator[types.CodeType]:
    pending = [code] if code else []
    while pending:
        current = pending.pop()
        yield current
        pending += [each for each in current.co_consts if isinstance(each, types.CodeType)]


def resolve(module: Any, qualname: str) -> Any:
    """The object that a qualified name leads to; of a tool, its function."""
    found = module
    for name in qualname.split("."):
        found = vars(found)[name] if isinstance(found, type) and name in vars(found) else getattr(found, name)
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]  # any function
    ours: Any = sys.modules.get("wesichain.tools.function")  # without it there is no tool to be found
    return getattr(found, "function") if ours and isinstance(found, ours.FunctionTool) else found  # noqa: B009  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]  # any value at all


def _tool(plain: dict[str, Any]) -> Any:
    from wesichain.tools.function import FunctionTool

    return FunctionTool(decode(plain["function"]), **plain["options"])


def _named(plain: dict[str, Any]) -> Any:
    return resolve(load(plain["module"], plain["file"]), plain["qualname"])


def _partial(plain: dict[str, Any]) -> Any:
    return functools.partial(decode(plain["function"]), *decode(plain["args"]), **decode(plain["named"]))


def _code(plain: dict[str, Any]) -> types.CodeType:
    fields: Any = decode(plain["fields"])
    return types.CodeType(*fields)


_MAKERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "dict": lambda plain: {decode(key): decode(value) for key, value in plain["items"]},
    "tuple": lambda plain: tuple(decode(plain["items"])),
    "set": lambda plain: set(decode(plain["items"])),
    "frozenset": lambda plain: frozenset(decode(plain["items"])),
    "bytes": lambda plain: bytes.fromhex(plain["hex"]),
    "float": lambda plain: float(plain["text"]),
    "module": lambda plain: load(plain["module"], plain["file"]),
    "ref": _named,
    "method": lambda plain: types.MethodType(decode(plain["function"]), decode(plain["of"])),
    "partial": _partial,
    "tool": _tool,
    "code": _function_in,
    "code object": _code,
    "sent": lambda plain: _function_of(decode(plain["code"]), vars(sys.modules[_MAIN]), plain),
    "object": _object,
}


# --- modules -------------------------------------------------------------------------------------


def load(name: str, file: str | None) -> types.ModuleType:
    """A module by its name, or from its file where that name leads elsewhere or nowhere."""
    if name == "__main__":
        return sys.modules.get(_MAIN) or _load_main(str(file))
    if name in sys.modules:
        return sys.modules[name]
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is not None and (file is None or found.origin is None or _is_same(found.origin, file)):
        return importlib.import_module(name)
    return _from_file(name, str(file))


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _from_file(name: str, file: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"module {name!r} cannot be read from {file!r}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _load_main(file: str) -> types.ModuleType:
    """The program's own file, under another name: what is below `if __name__ == "__main__":` does not run."""
    import asyncio

    policy = asyncio.get_event_loop_policy()  # pyright: ignore[reportDeprecated]  # there is no other way yet
    refusing: Any = asyncio.DefaultEventLoopPolicy()
    refusing.new_event_loop = _refuse_loop
    asyncio.set_event_loop_policy(refusing)  # pyright: ignore[reportDeprecated]  # likewise
    try:
        module = _from_file(_MAIN, file)
    finally:
        asyncio.set_event_loop_policy(policy)  # pyright: ignore[reportDeprecated]  # likewise
    sys.modules["__main__"] = module
    return module


def _refuse_loop() -> NoReturn:
    """A program that would run, agents and all, while it is read for its tools, is stopped before it does."""
    raise RuntimeError(
        "the program runs when its file is read; put what it does under if __name__ == '__main__':"
    )
