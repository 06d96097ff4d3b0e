"""Portable: a tool as data from which another process of the same program can make it again.

Functions and classes go by name: module and qualified name, never their code. A function that was made
inside another is found in the code of its module, and given what it closes over. Of the program's own file,
which would run when it is read, functions are sent with the globals that they use, as long as those can be.
Other values go as JSON, or as what they say of themselves for copying (`__reduce_ex__`). What cannot be had
elsewhere (locks, connections, open files) is refused by name. The way is from a process to its own child;
what comes back is JSON and nothing more.
"""

from __future__ import annotations

import builtins
import dis
import functools
import os
import sys
import types
from collections.abc import Iterator
from contextlib import suppress
from math import isfinite
from typing import Any

from wesichain.core import JsonValue
from wesichain.tools.definition import Tool
from wesichain.tools.function import FunctionTool
from wesichain.tools.json_schema import preview

from .remake import resolve

_ATOMS = (str, int, bool, type(None))
_TAG = "$"


# What makes a code object, in the order in which it is made.
CODE_FIELDS = (
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_nlocals", "co_stacksize", "co_flags"),
    *("co_code", "co_consts", "co_names", "co_varnames", "co_filename", "co_name", "co_qualname"),
    *("co_firstlineno", "co_linetable", "co_exceptiontable", "co_freevars", "co_cellvars"),
)


class NotPortableError(Exception):
    """Something that another process cannot be given; the message says what and where."""


class Encoder:
    """Writes one tool. `main` gathers the globals that functions of the program's own file use."""

    def __init__(self) -> None:
        self.main: dict[str, JsonValue] | None = None
        self._is_sending = False  # of a function of the program's own file: nothing else of it can be named

    def encode(self, value: Any, where: str = "it") -> JsonValue:
        """A value as JSON; `where` names it in the error."""
        kind: Any = type(value)  # pyright: ignore[reportUnknownVariableType]  # any value at all
        if kind in _ATOMS or (kind is float and isfinite(value)):
            return value  # type: ignore[no-any-return]  # one of JSON's own
        if kind is list:
            return [self.encode(item, where) for item in value]
        if kind is dict and _TAG not in value and all(type(key) is str for key in value):
            return {key: self.encode(item, f"{where}[{key!r}]") for key, item in value.items()}
        if kind is dict:
            return {
                _TAG: "dict",
                "items": [[self.encode(k, where), self.encode(v, where)] for k, v in value.items()],
            }
        if kind in (tuple, set, frozenset):
            return {_TAG: kind.__name__, "items": [self.encode(item, where) for item in value]}
        if kind is bytes:
            return {_TAG: "bytes", "hex": value.hex()}
        if kind is float:
            return {_TAG: "float", "text": repr(value)}
        if kind is types.CodeType:
            return {
                _TAG: "code object",
                "fields": [self.encode(getattr(value, name)) for name in CODE_FIELDS],
            }
        if kind is types.ModuleType:
            return {_TAG: "module", **self._module(value.__name__, where)}
        if isinstance(value, type):
            return self._named(value, value.__module__, value.__qualname__, where)
        return self._encode_callable(value, where) or self._encode_object(value, where)

    def _encode_callable(self, value: Any, where: str) -> dict[str, JsonValue] | None:
        if isinstance(value, types.FunctionType):
            return self._encode_function(value, where)
        if isinstance(value, types.MethodType):
            return {
                _TAG: "method",
                "of": self.encode(value.__self__, where),
                "function": self.encode(value.__func__, where),
            }
        if type(value) is functools.partial:
            parts: functools.partial[Any] = value  # pyright: ignore[reportUnknownVariableType]  # any value at all
            return {
                _TAG: "partial",
                "function": self.encode(parts.func, where),
                "args": self.encode(parts.args, where),
                "named": self.encode(parts.keywords, where),
            }
        if isinstance(value, FunctionTool):
            return of_function(value, self.encode(value.function, where))
        if isinstance(value, types.BuiltinFunctionType) and isinstance(
            value.__self__, types.ModuleType | None
        ):
            return self._named(value, value.__module__ or "builtins", value.__qualname__, where)
        return None

    def _encode_function(self, function: types.FunctionType, where: str) -> dict[str, JsonValue]:
        if function.__module__ == "__main__":
            before = self.main, self._is_sending
            self._is_sending = True
            try:
                return {_TAG: "sent", **self._whole(function), **self._bound(function)}
            except NotPortableError:
                if before[1] or not has_file():
                    raise
                self.main = before[0]
            finally:
                self._is_sending = before[1]
        if "<" not in function.__qualname__:
            with suppress(NotPortableError):  # its name may be another's by now: it is found in the code
                return self._named(function, function.__module__, function.__qualname__, where)
        code = function.__code__
        place: dict[str, JsonValue] = {"qualname": code.co_qualname, "line": code.co_firstlineno}
        return {_TAG: "code", **self._module(function.__module__, where), **place, **self._bound(function)}

    def _bound(self, function: types.FunctionType) -> dict[str, JsonValue]:
        """The defaults of a function, and what it closes over."""
        name = function.__name__
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        return {
            "defaults": self.encode(function.__defaults__, f"a default of {name}"),
            "named_defaults": self.encode(function.__kwdefaults__, f"a default of {name}"),
            "closure": [
                self.encode(_contents(cell), f"{variable!r}, which {name} closes over,")
                for variable, cell in cells
            ],
        }

    def _whole(self, function: types.FunctionType) -> dict[str, JsonValue]:
        """A function of the program's own file: its code, and the globals that it uses."""
        main = self.main = {**(self.main or {})}
        for name in used_globals(function.__code__):
            if name in function.__globals__ and name not in main:
                main[name] = None  # on its way: functions may use each other
                main[name] = self.encode(function.__globals__[name], f"{name!r}")
                main = self.main = {**(self.main or {}), **main}
        return {"code": self.encode(function.__code__)}

    def _encode_object(self, value: Any, where: str) -> dict[str, JsonValue]:
        refusal = (
            f"{where} is {preview(value)} ({type(value).__name__}), which another process cannot be given"
        )
        try:
            made: Any = value.__reduce_ex__(4)
        except Exception as error:
            raise NotPortableError(refusal) from error
        if isinstance(made, str):  # it is a global of its module
            return self._named(value, type(value).__module__, made, where)
        function, args, state, items, pairs = (*made, None, None, None)[:5]
        if len(made) > 5:
            raise NotPortableError(refusal)
        return {
            _TAG: "object",
            "make": self.encode(function, where),
            "args": self.encode(args, where),
            "state": self.encode(_without_plan(value, state), where),
            "items": None if items is None else [self.encode(item, where) for item in items],
            "pairs": None
            if pairs is None
            else [[self.encode(k, where), self.encode(v, where)] for k, v in pairs],
        }

    def _named(self, value: Any, module: str, qualname: str, where: str) -> dict[str, JsonValue]:
        """A reference, where the name leads to the value."""
        found: Any = builtins if module == "builtins" else sys.modules.get(module)
        try:
            found = resolve(found, qualname)
        except AttributeError:
            found = None
        if found is not value:
            raise NotPortableError(
                f"{where} is {qualname!r} of {module!r}, which another process cannot find by that name; "
                f"define it at the top level of a module"
            )
        return {_TAG: "ref", **self._module(module, where), "qualname": qualname}

    def _module(self, name: str, where: str) -> dict[str, JsonValue]:
        """A module by its name and file; the program's own by what it was started from."""
        module = sys.modules.get(name)
        file: str | None = getattr(module, "__file__", None)
        if name != "__main__":
            return {"module": name, "file": file}
        spec = getattr(module, "__spec__", None)
        if spec is not None:  # python -m package.module
            return {"module": str(spec.name), "file": file}
        if self._is_sending or not has_file():
            raise NotPortableError(
                f"{where} is defined in an interactive session or on the command line, where another process "
                f"finds functions but no classes; put it into a file"
            )
        return {"module": "__main__", "file": file}


def of_function(tool: Any, function: JsonValue) -> dict[str, JsonValue]:
    """A `FunctionTool`, whose function is written already."""
    options: dict[str, JsonValue] = {
        "name": tool.name,
        "description": tool.description,
        "max_output": tool.max_output,
    }
    return {_TAG: "tool", "function": function, "options": options}


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def used_globals(code: types.CodeType) -> Iterator[str]:
    """The names that a function, or one inside it, looks up outside."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from used_globals(inner)


def has_file() -> bool:
    """Whether the program was started from a file or a module that another process can read."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    return getattr(main, "__spec__", None) is not None or (file is not None and os.path.exists(file))  # noqa: PTH110  # a name such as <stdin>


def _without_plan(value: Any, state: Any) -> Any:
    """A tool's plan is made anew where it is used."""
    return (
        {name: item for name, item in state.items() if name != "_plan"}
        if isinstance(value, Tool) and state
        else state
    )
