"""The roles of a place where playbooks are kept: a log for each domain, and vectors beside it."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from wesichain.core.internal import dataclass
from wesichain.errors import PlaybookError
from wesichain.learning.embedders import DEFAULT_EMBEDDER, Embedder
from wesichain.store import Lines

from .journal import Delta, PlaybookChange
from .shelf import LONG, Shelf

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
        self._index: VectorIndex | None = None

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
    def journal(self) -> Sequence[Delta]:
        """Every delta that is kept, oldest first."""

    @abstractmethod
    def state_at(self, seq: int) -> Shelf:
        """The state right after delta `seq`."""

    def is_long(self) -> bool:
        """Whether a compaction is due."""
        return self._deltas > max(LONG, 8 * len(self.shelf.bullets))

    @abstractmethod
    def compact(self, *, keep_history: bool) -> None:
        """Make the state quick to read; called while locked."""

    @abstractmethod
    def repair(self) -> Repaired:
        """Set aside what cannot be read; called while locked."""

    @abstractmethod
    def lines(self) -> Sequence[bytes]:
        """Every line that is kept, oldest first: what a state begins with, and the deltas."""

    @abstractmethod
    def rewrite(self, edit: Callable[[bytes], bytes], *, intents: Sequence[str]) -> None:
        """Put another line in the place of each, and drop what is kept of the vectors of these intents.

        Called while locked; what others have read is read anew.
        """

    @abstractmethod
    def open_index(self, embedder: Embedder) -> VectorIndex:
        """An index of the shelf, with the vectors that are kept; the caller keeps it up to date."""

    @abstractmethod
    def save_index(self) -> None:
        """Keep the vectors of the opened index, for the next process."""


class Backend(Protocol):
    """Files, or a database."""

    def domains(self) -> Sequence[str]: ...

    def log(self, domain: str) -> Log: ...

    def close(self) -> None: ...


def mismatch(place: Sequence[str], stored: Mapping[str, Any], embedder: Embedder) -> PlaybookError:
    """The vectors were made by another embedder: how to make them again.

    `place` are the words that name the playbook on the command line.
    """
    words = ["wesichain", "playbook", "reembed", *place]
    if embedder.name.startswith("openai:"):
        words += ["--embedder", f"{embedder.name}:{embedder.dimension}"]
    elif embedder.name != DEFAULT_EMBEDDER:
        words += ["--embedder", "package.module:name"]  # where it is made, only its author knows
    return PlaybookError(
        f"the playbook at {place[-1]} was embedded with {stored.get('embedder')!r} "
        f"({stored.get('dimension')} dimensions), and this is {embedder.name!r} ({embedder.dimension}); "
        f"open it with that one, or embed it anew: {shlex.join(words)} "
        f"(in code: open it with reembed=True)"
    )
