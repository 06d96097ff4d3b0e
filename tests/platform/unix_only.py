"""What each system lacks: the names of the standard library that typeshed declares for some systems alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mypy

STDLIB = Path(mypy.__file__).parent / "typeshed" / "stdlib"
SYSTEMS = ("linux", "darwin", "win32")


@cache
def absent_names(module: str, system: str) -> frozenset[str]:
    """The names of a module that another system has and this one does not."""
    found = {each: frozenset(_names(_tree(module).body, each)) for each in SYSTEMS}
    return frozenset().union(*found.values()) - found[system]


@cache
def absent_modules(system: str) -> frozenset[str]:
    """The modules that are empty on this system, and not on another: `fcntl` on Windows."""
    return frozenset(name for name in _top_modules() if _is_empty(name, system))


def _is_empty(module: str, system: str) -> bool:
    found = {each: set(_names(_tree(module).body, each)) for each in SYSTEMS}
    return any(found.values()) and not found[system]


@cache
def _top_modules() -> tuple[str, ...]:
    """The modules that are not alike on all systems."""
    versions = (STDLIB / "VERSIONS").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[0].strip() for line in versions if ":" in line and line[0] != "#")
    found = (name for name in names if "." not in name and _path(name).exists())
    return tuple(name for name in found if "sys.platform" in _path(name).read_text(encoding="utf-8"))


def _path(module: str) -> Path:
    package = STDLIB.joinpath(*module.split("."), "__init__.pyi")
    return package if package.exists() else STDLIB.joinpath(*module.split(".")).with_suffix(".pyi")


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse(_path(module).read_text(encoding="utf-8"))


def _names(body: list[ast.stmt], system: str) -> Iterator[str]:
    """The public names that a body defines on a system, not those that it imports."""
    for node in body:
        match node:
            case ast.If(test=test, body=then, orelse=otherwise):
                yield from _names(then if _holds(test, system) else otherwise, system)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield from _public(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield from _public(name)
            case ast.Assign(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield from _public(target.id)
            case _:
                pass


def _public(name: str) -> Iterator[str]:
    if not name.startswith("_"):
        yield name


def _holds(test: ast.expr, system: str) -> bool:
    """Whether a condition of typeshed holds for this Python on a system."""
    known = {"sys": type("sys", (), {"platform": system, "version_info": sys.version_info})}
    return bool(eval(compile(ast.Expression(test), "typeshed", "eval"), {"TYPE_CHECKING": True, **known}))
