"""The protocols of playbook storage: a log for each domain, and a cache of its vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from wesichain.core.internal import Value
from wesichain.errors import PlaybookError
from wesichain.store import Lines

from .journal import Delta

if TYPE_CHECKING:  # needs FAISS
    from .index import VectorIndex

_LINES = Lines(PlaybookError)
append, exclusive, read_lines, write_file = _LINES.append, _LINES.exclusive, _LINES.read, _LINES.replace


class Repaired(Value):
    """The result of a repair: how many records were kept, and where the unreadable ones were."""

    kept: int
    damaged: tuple[str, ...]


class Log(Protocol):
    """The log of one domain: lines that it stores without interpreting them."""

    where: str  # its location, for error messages

    def locked(self) -> AbstractContextManager[None]:
        """Lock the domain against all other writers, in any process."""
        ...

    def read(self) -> Sequence[bytes]:
        """Return the lines of the current state, starting with a head."""
        ...

    def read_new(self, after: int) -> Sequence[bytes] | None:
        """Return the lines after delta `after`, the last that was read; None if all must be read again."""
        ...

    def append(self, delta: Delta, line: bytes) -> None:
        """Write one delta; called while locked."""
        ...

    def compact(self, seq: int, state: Sequence[bytes]) -> None:
        """Start a new log with the state after delta `seq`, and keep the old one; called while locked."""
        ...

    def chains(self) -> Sequence[tuple[str, Sequence[bytes]]]:
        """Return the location and the lines of every log, oldest first."""
        ...

    def repair(self) -> Repaired:
        """Set unreadable records aside; called while locked."""
        ...

    def rewrite(self, edit: Callable[[bytes], bytes], *, intents: Sequence[str]) -> None:
        """Replace each line by `edit(line)`, and delete the vectors of these intents.

        Called while locked. Other processes read the log again.
        """
        ...

    def load_vectors(self, index: VectorIndex) -> None:
        """Give an index the stored vectors of its texts."""
        ...

    def save_vectors(self, index: VectorIndex) -> None:
        """Store the vectors of an index, for later processes."""
        ...


class Backend(Protocol):
    """The storage of a playbook: files or a database."""

    def domains(self) -> Sequence[str]: ...

    def log(self, domain: str) -> Log: ...

    def close(self) -> None: ...
