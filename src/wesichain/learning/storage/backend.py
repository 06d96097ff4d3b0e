"""The roles of a place where playbooks are kept: a log for each domain, and vectors beside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from wesichain.core.internal import dataclass
from wesichain.errors import PlaybookError
from wesichain.learning.embedders import Embedder
from wesichain.store import Lines

from .journal import Delta, PlaybookChange
from .shelf import LONG, Shelf, follow

if TYPE_CHECKING:  # needs FAISS
    from .index import VectorIndex

_LINES = Lines(PlaybookError, without_locks="; use Playbook.postgres(url)")
append, exclusive, read_lines, write_file = _LINES.append, _LINES.exclusive, _LINES.read, _LINES.replace


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair: how many records were kept, and the places of those that could not be read."""

    kept: int
    damaged: tuple[str, ...]


class Log(ABC):
    """The deltas of one domain, and `shelf`, the state that they add up to."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.shelf = Shelf(domain)
        self._deltas = 0  # since the state that a reader begins with: what a compaction would clear away

    @abstractmethod
    def locked(self) -> AbstractContextManager[None]:
        """Keep every other writer of the domain out, wherever it runs."""

    @abstractmethod
    def refresh(self) -> Sequence[PlaybookChange] | None:
        """Take in what others have written, and say what; None where everything was read anew."""

    @abstractmethod
    def append(self, delta: Delta, line: bytes) -> None:
        """Write one delta and apply it; called while locked."""

    @abstractmethod
    def chains(self) -> Sequence[tuple[str, Sequence[bytes]]]:
        """Return the logs that are kept, oldest first: the place of each, and its lines from the head on."""

    def journal(self) -> Sequence[Delta]:
        """Return every delta that is kept, oldest first."""
        deltas: list[Delta] = []
        for where, lines in self.chains():
            known = deltas[-1].seq if deltas else 0  # a compaction cut short leaves a log twice
            records = follow(lines, Shelf(self.domain), where=where)
            deltas += [item for item in records if isinstance(item, Delta) and item.seq > known]
        return deltas

    def state_at(self, seq: int) -> Shelf:
        """Return the state right after delta `seq`, from the latest log that begins before it."""
        for where, lines in reversed(self.chains()):
            shelf = Shelf(self.domain)
            for _ in follow(lines, shelf, where=where, until=seq):
                pass
            if shelf.seq <= seq:
                return shelf
        if seq == 0:
            return Shelf(self.domain)
        raise PlaybookError(f"the journal of {self.domain!r} begins after delta {seq}: that state is gone")

    def is_long(self) -> bool:
        """Whether a compaction is due."""
        return self._deltas > max(LONG, 8 * len(self.shelf.bullets))

    @abstractmethod
    def compact(self) -> None:
        """Make the state quick to read, and keep the history; called while locked."""

    def repair(self) -> Repaired:
        """Set aside what cannot be read; called while locked. A database's own backup is its repair."""
        return Repaired(len(self.journal()), ())

    @abstractmethod
    def lines(self) -> Sequence[bytes]:
        """Return every line that is kept, oldest first: what a state begins with, and the deltas."""

    @abstractmethod
    def rewrite(self, edit: Callable[[bytes], bytes], *, intents: Sequence[str]) -> None:
        """Put another line in the place of each, and drop what is kept of the vectors of these intents.

        Called while locked; what others have read is read anew.
        """

    @abstractmethod
    def load_vectors(self, index: VectorIndex, embedder: Embedder) -> None:
        """Supply an index with the vectors that are kept for its texts."""

    @abstractmethod
    def save_vectors(self, index: VectorIndex, embedder: Embedder) -> None:
        """Keep the vectors of an index, for the next process."""


class Backend(Protocol):
    """Files, or a database."""

    def domains(self) -> Sequence[str]: ...

    def log(self, domain: str) -> Log: ...

    def close(self) -> None: ...
