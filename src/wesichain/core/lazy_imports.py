"""Lazy imports: names of a package that are loaded on first use.

A module takes a third of a millisecond to load, and a first agent needs less than half of them. A package has
such names twice: imported under TYPE_CHECKING, and here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from warnings import warn


def lazy_getattr(
    door: str,
    names: Mapping[str, Sequence[str]],
    renamed: Mapping[str, str] | None = None,
    moved_to: Sequence[str] = (),
) -> Callable[[str], object]:
    """The `__getattr__` of a package: `names` maps its modules to the names that they define.

    Old names work for one version, with a warning. `renamed` maps old names to new ones. Names in the last
    module of `moved_to` are imported from there; the warning names the first package of `moved_to` that
    offers them.
    """
    module_of = {name: module for module, found in names.items() for name in found}

    def load(name: str) -> object:
        if renamed and name in renamed:
            warn(f"{door}.{name} is called {renamed[name]} now", DeprecationWarning, stacklevel=2)
            name = renamed[name]
            if name in vars(sys.modules[door]):
                return vars(sys.modules[door])[name]
        elif name not in module_of and is_moved(name):
            doors = (each for each in moved_to if name in getattr(import_module(each), "__all__", ()))
            home = next(doors, moved_to[-1])
            warn(f"{door}.{name} is in {home} now", DeprecationWarning, stacklevel=2)
        if name not in module_of:
            if is_moved(name):
                return getattr(sys.modules[moved_to[-1]], name)
            raise AttributeError(f"module {door!r} has no attribute {name!r}")
        found = getattr(import_module(module_of[name], door), name)
        setattr(sys.modules[door], name, found)
        return found

    def is_moved(name: str) -> bool:
        return bool(moved_to) and hasattr(import_module(moved_to[-1]), name)

    return load
