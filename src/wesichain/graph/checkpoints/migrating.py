"""Migrating: states that an older version of the program wrote, made into states of this one.

A migration works on plain data: what was stored, with nothing of the old types in it. What it returns may
be plain data as well, or values of the new types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wesichain.core.internal import same
from wesichain.errors import CheckpointError, CodecError
from wesichain.graph.definition import Definition
from wesichain.graph.state.kinds import is_mapping
from wesichain.graph.state.owned import clone
from wesichain.graph.state.schema import HIDDEN

from .coding import ANYTHING


class MigratedState:
    """One state on its way from the version that it was written by: as it was, and as it is now."""

    def __init__(self, definition: Definition, stored: Mapping[str, Any], version: int) -> None:
        self._definition = definition
        self._version = version
        self.before = plain_values(stored)
        self.after = self.run(self.before)

    def run(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """All migrations from the old version to this one, in order."""
        data: dict[str, Any] = clone(dict(state))
        for number in sorted(self._definition.migrations):
            migrate = self._definition.migrations[number].function
            if number <= self._version or migrate is None:
                continue
            try:
                made = migrate(data)
            except Exception as error:
                raise CheckpointError(
                    f"the migration to version {number} raised {type(error).__name__}: {error}; it was given "
                    f"the keys {', '.join(map(repr, data)) or 'none'}"
                ) from error
            if made is not None:
                if not is_mapping(made):
                    raise CheckpointError(
                        f"the migration to version {number} returned {type(made).__name__}; return the whole "
                        f"state as a mapping, or change the one that it is given"
                    )
                data = dict(made)
        return data

    def writes(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """The writes of a task to the old state, as writes to the new one."""
        with_it = self.run({**self.before, **{name: _plain(data) for name, data in written.items()}})
        return {
            name: item
            for name, item in with_it.items()
            if name in written or name not in self.after or not same(self.after[name], item)
        }


def plain_values(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored values as plain data, for who only looks at them."""
    return {name: _plain(data) for name, data in stored.items() if not name.startswith(HIDDEN)}


def _plain(data: Any) -> Any:
    try:
        return ANYTHING.decode(data)
    except CodecError:
        return data
