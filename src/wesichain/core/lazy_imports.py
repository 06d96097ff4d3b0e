"""Lazy imports: names of a door that are loaded when they are first used.

A module takes a third of a millisecond to load, and a first agent needs less than half of them. A door has
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
    """The `__getattr__` of a door: `names` says which of its modules has which names.

    Earlier names work for one version, with a warning: one in `renamed` is called otherwise now, and those
    that the last module of `moved_to` has are to be imported from there, or from the first of the doors
    before it that offers them.
    """
    module_of = {name: module for module, found in names.items() for name in found}

    def load(name: str) -> object:
        if renamed and name in renamed:
            warn(f"{door}.{name} is called {renamed[name]} now", DeprecationWarning, stacklevel=2)
            name = renamed[name]
            if name in vars(sys.modules[door]):
                return vars(sys.modules[door])[name]
        elif is_moved(name):
            doors = (each for each in moved_to if name in getattr(import_module(each), "__all__", ()))
            home = next(doors, moved_to[-1])
            warn(f"{door}.{name} is in {home} now", DeprecationWarning, stacklevel=2)
        if is_moved(name):
            return getattr(sys.modules[moved_to[-1]], name)
        if name not in module_of:
            raise AttributeError(f"module {door!r} has no attribute {name!r}")
        found = getattr(import_module(module_of[name], door), name)
        setattr(sys.modules[door], name, found)
        return found

    def is_moved(name: str) -> bool:
        return bool(moved_to) and hasattr(import_module(moved_to[-1]), name)

    return load
