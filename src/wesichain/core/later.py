"""Later: names that a door offers, and loads when they are first used.

A module takes a third of a millisecond to load, and a first agent needs less than half of them. A door has
such names twice: imported under TYPE_CHECKING, and here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from warnings import warn


def later(
    door: str, names: Mapping[str, Sequence[str]], renamed: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """The `__getattr__` of a door: `names` says which of its modules has which names.

    A name in `renamed` is an earlier one of another: it works for one version, with a warning.
    """
    module_of = {name: module for module, found in names.items() for name in found}

    def load(name: str) -> object:
        if renamed and name in renamed:
            warn(f"{door}.{name} is called {renamed[name]} now", DeprecationWarning, stacklevel=2)
            return getattr(sys.modules[door], renamed[name])
        if name not in module_of:
            raise AttributeError(f"module {door!r} has no attribute {name!r}")
        found = getattr(import_module(module_of[name], door), name)
        setattr(sys.modules[door], name, found)
        return found

    return load
