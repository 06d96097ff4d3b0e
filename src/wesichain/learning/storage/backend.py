"""The roles of a place where playbooks are kept: a log for each domain, and vectors beside it."""

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

_LINES = Lines(PlaybookError, without_locks="; use Playbook.postgres(url)")
append, exclusive, read_lines, write_file = _LINES.append, _LINES.exclusive, _LINES.read, _LINES.replace


class Repaired(Value):
    """The result of a repair: how many records were kept, and the places of those that could not be read."""

    kept: int
    damaged: tuple[str, ...]


class Log(Protocol):
    """The lines of one domain, which are written and never interpreted here."""

    where: str  # the place of the log, for errors

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other writer of the domain out, wherever it runs."""
        ...

    def read(self) -> Sequence[bytes]:
        """Return every line that makes up the state as it is now, from a head on."""
        ...

    def read_new(self, after: int) -> Sequence[bytes] | None:
        """Return the lines behind delta `after`, the last that was read; None if all must be read anew."""
        ...

    def append(self, delta: Delta, line: bytes) -> None:
        """Write one delta; called while locked."""
        ...

    def compact(self, seq: int, state: Sequence[bytes]) -> None:
        """Begin with these lines, the state after delta `seq`, and keep the history; called while locked."""
        ...

    def chains(self) -> Sequence[tuple[str, Sequence[bytes]]]:
        """Return the logs that are kept, oldest first: the place of each, and its lines from the head on."""
        ...

    def repair(self) -> Repaired:
        """Set aside what cannot be read; called while locked."""
        ...

    def rewrite(self, edit: Callable[[bytes], bytes], *, intents: Sequence[str]) -> None:
        """Put another line in the place of each, and drop what is kept of the vectors of these intents.

        Called while locked; what others have read is read anew.
        """
        ...

    def load_vectors(self, index: VectorIndex) -> None:
        """Supply an index with the vectors that are kept for its texts."""
        ...

    def save_vectors(self, index: VectorIndex) -> None:
        """Keep the vectors of an index, for the next process."""
        ...


class Backend(Protocol):
    """Files, or a database."""

    def domains(self) -> Sequence[str]: ...

    def log(self, domain: str) -> Log: ...

    def close(self) -> None: ...
