"""Deltas: the change of a value since the last checkpoint, as JSON.

{"=": data}                     the whole value
{"+": [kept, items]}            a list: the first `kept` items, then these
{"~": {name: delta, ...}}       an object: the entries that changed
{"~": ..., "-": [name, ...]}    and those that were removed
"""

from __future__ import annotations

from types import NoneType
from typing import Any

from wesichain.core.internal import common_prefix, same
from wesichain.errors import CodecError
from wesichain.graph.state.kinds import is_dict, is_list, is_set
from wesichain.graph.state.owned import AppendOnlyList, plain_list
from wesichain.graph.state.reducers import Unset

from .coding import ANYTHING, Coder, excerpt

_DEEPEST = 30  # levels of entries within entries; a change at a deeper level is written with its whole entry

_SCALARS = (str, int, float, NoneType)


def delta(coder: Coder, old: Any, new: Any, *, kept: int | None = None, level: int = 0) -> dict[str, Any]:
    """Return the change that turns `old` into `new`. `kept`: how many items of a list are equal, if known."""
    if isinstance(new, _SCALARS):
        return {"=": coder.encode(new)}
    if isinstance(new, AppendOnlyList):
        if kept is not None and coder.item is not None:
            return {"+": [kept, [coder.item.encode(item) for item in new.items(kept)]]}
        old, new = plain_list(old), new.items()
    if isinstance(old, Unset) or type(old) is not type(new):
        return {"=": coder.encode(new)}
    if is_list(new) and coder.item is not None:
        kept = common_prefix(old, new)
        if kept:
            return {"+": [kept, [coder.item.encode(item) for item in new[kept:]]]}
    elif is_dict(new) and coder.entry is not None and level < _DEEPEST and _is_named(old) and _is_named(new):
        return _entries(coder.entry, old, new, level + 1)
    elif is_set(new) and coder.item is not None and old <= new:
        added = sorted(new - old, key=repr)
        more = {"+": [len(old), [coder.item.encode(item) for item in added]]}
        return {"~": {"$set": more}} if coder is ANYTHING else more
    return {"=": coder.encode(new)}


def _is_named(value: dict[Any, Any]) -> bool:
    """Whether the dict is stored as an object with an entry for each key."""
    return all(type(key) is str and not key.startswith("$") for key in value)


def _entries(entry: Coder, old: dict[str, Any], new: dict[str, Any], level: int) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for name, item in new.items():
        if name not in old:
            changed[name] = {"=": entry.encode(item)}
        elif not same(old[name], item):
            changed[name] = delta(entry, old[name], item, level=level)
    gone = [name for name in old if name not in new]
    return {"~": changed, "-": gone} if gone else {"~": changed}


def undelta(old: Any, change: Any) -> Any:
    """Apply a delta to stored data, and return the result. May change `old` in place."""
    if not is_dict(change):
        raise _not_a_delta(change)
    if "=" in change:
        return change["="]
    if "+" in change:
        return _extended(old, change["+"])
    if is_dict(changed := change.get("~")):
        entries = old if is_dict(old) else {}
        for name, inner in changed.items():
            entries[name] = undelta(entries.get(name), inner)
        for name in change.get("-", ()):
            entries.pop(name, None)
        return entries
    raise _not_a_delta(change)


def _extended(old: Any, change: Any) -> list[Any]:
    found = old if is_list(old) else []
    if not is_list(change) or len(change) != 2 or not is_list(change[1]) or not isinstance(change[0], int):
        raise _not_a_delta(change)
    kept, items = change
    if not 0 <= kept <= len(found):
        raise CodecError(f"a list of {len(found)} cannot keep {kept} of its items")
    found[kept:] = items
    return found


def _not_a_delta(change: object) -> CodecError:
    return CodecError(f"{excerpt(change)} is not a delta")
