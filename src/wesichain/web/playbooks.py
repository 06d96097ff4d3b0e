"""The playbook in the viewer: bullets with their evidence, the journal, and rollback."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from wesichain.trace import redact

if TYPE_CHECKING:
    from wesichain.learning import Delta, Playbook, PlaybookBullet

JOURNAL = 500  # the newest deltas, which are shown


class PlaybookShelf:
    """A playbook that is opened on first use: the viewer works without the extra `learning`."""

    def __init__(self, source: Path | Playbook) -> None:
        self._source = source
        self._guard = RLock()

    @cached_property
    def _playbook(self) -> Playbook | None:
        if not isinstance(self._source, Path):
            return self._source
        if not self._source.is_dir():
            return None  # viewing does not create one
        from wesichain.learning import Playbook  # imports numpy and FAISS

        return Playbook.open(self._source)

    def domains(self) -> list[str]:
        with self._guard:
            return list(self._playbook.domains()) if self._playbook else []

    def show(self, domain: str) -> dict[str, Any] | None:
        """A domain as JSON; None if there is no such domain."""
        if domain not in self.domains() or self._playbook is None:
            return None
        with self._guard:
            bullets = self._playbook.bullets(domain)
            journal = self._playbook.journal(domain)
        shown: dict[str, Any] = {
            "domain": domain,
            "stages": dict(Counter(bullet.stage for bullet in bullets)),
            "bullets": [_bullet(bullet) for bullet in bullets],
            "journal": [_delta(delta) for delta in reversed(journal[-JOURNAL:])],
        }
        return redact(shown)

    def rollback(self, domain: str, *, to: int | str) -> dict[str, Any] | None:
        """Roll a domain back to a delta of its journal; return the new delta, or None if nothing changed."""
        assert self._playbook is not None  # `show` has found the domain
        with self._guard:
            delta = self._playbook.rollback(domain, to=to)
        return None if delta is None else _delta(delta)


def _bullet(bullet: PlaybookBullet) -> dict[str, Any]:
    return {
        "id": bullet.id,
        "content": bullet.content,
        "section": bullet.section,
        "stage": bullet.stage,
        "helpful_count": bullet.helpful_count,
        "harmful_count": bullet.harmful_count,
        "success_rate": bullet.success_rate,
        "tool_sequence": list(bullet.tool_sequence),
        "tags": list(bullet.tags),
        "ruling": bullet.ruling,
        "author": bullet.provenance.author,
        "last_updated": bullet.last_updated,
    }


def _delta(delta: Delta) -> dict[str, Any]:
    return {
        "seq": delta.seq,
        "hash": delta.hash,
        "at": delta.at,
        "cause": delta.cause,
        "note": delta.note,
        "puts": [bullet.id for bullet in delta.change.puts],
        "drops": list(delta.change.drops),
    }
