"""The roles of a place where playbooks are kept: a log for each domain, and vectors beside it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from wesichain.core import dataclass
from wesichain.errors import PlaybookError
from wesichain.learning.embedders import DEFAULT_EMBEDDER, Embedder, Vectors
from wesichain.learning.entities import PlaybookBullet
from wesichain.store import Lines

from .filters import Condition
from .journal import Change, Delta
from .shelf import Shelf

_LINES = Lines(PlaybookError, without_locks="; use Playbook.postgres(url)")
append, exclusive, read_lines, write_file = _LINES.append, _LINES.exclusive, _LINES.read, _LINES.replace


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair did: how many records were kept, and the places of those that could not be read."""

    kept: int
    damaged: tuple[str, ...]


class Index(Protocol):
    """The bullets of a domain, to be found by what they are about."""

    @property
    def unsaved(self) -> int:
        """How many vectors are not kept yet."""
        ...

    def put(self, bullet: PlaybookBullet) -> None: ...

    def drop(self, id: str) -> None: ...

    def sync(self, bullets: Iterable[PlaybookBullet]) -> None:
        """Hold exactly these bullets."""
        ...

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """One row for each of these bullets."""
        ...

    def purge(self) -> None:
        """Keep no vector of a bullet that is gone."""
        ...

    def search(
        self, vector: Vectors, *, k: int, conditions: Sequence[Condition] = ()
    ) -> Sequence[tuple[str, float]]:
        """The k most similar bullets that meet the conditions: ids and cosines, best first."""
        ...


class Log(Protocol):
    """The deltas of one domain, and `shelf`, the state that they add up to."""

    domain: str
    shelf: Shelf

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other writer of the domain out, wherever it runs."""
        ...

    def refresh(self) -> Sequence[Change] | None:
        """Take in what others have written, and say what; None where everything was read anew."""
        ...

    def append(self, delta: Delta, line: bytes) -> None:
        """Write one delta and apply it; called while locked."""
        ...

    def journal(self) -> Sequence[Delta]:
        """Every delta that is kept, oldest first."""
        ...

    def state_at(self, seq: int) -> Shelf:
        """The state right after delta `seq`."""
        ...

    def is_long(self) -> bool:
        """Whether a compaction is due."""
        ...

    def compact(self, *, keep_history: bool) -> None:
        """Make the state quick to read; called while locked."""
        ...

    def repair(self) -> Repaired:
        """Set aside what cannot be read; called while locked."""
        ...

    def lines(self) -> Sequence[bytes]:
        """Every line that is kept, oldest first: what a state begins with, and the deltas."""
        ...

    def rewrite(self, edit: Callable[[bytes], bytes], *, intents: Sequence[str]) -> None:
        """Put another line in the place of each, and drop what is kept of the vectors of these intents.

        Called while locked; what others have read is read anew.
        """
        ...

    def open_index(self, embedder: Embedder) -> Index:
        """An index of the shelf, with the vectors that are kept; the caller keeps it up to date."""
        ...

    def save_index(self) -> None:
        """Keep the vectors of the opened index, for the next process."""
        ...


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
