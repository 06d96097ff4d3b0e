"""The playbook: what was learned, by domain; recorded, retrieved by intent, promoted and rolled back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, Self, cast

from typing_extensions import override

from wesichain.core import Clock, StrategySource, SystemClock
from wesichain.errors import PlaybookError

from .embedders import CachingEmbedder, Embedder, Vectors
from .entities import (
    VISIBLE,
    PlaybookBullet,
    Ruling,
    check_domain,
    is_followed,
    mask,
    settle,
    stage_of,
)
from .storage import (
    Backend,
    Cause,
    Change,
    Condition,
    Decide,
    Delta,
    Library,
    Match,
    Repaired,
    View,
    parse_where,
)

TRANSFER = 0.75  # how similar a bullet of another domain has to be
_WEIGHT = 0.1  # of all else beside the similarity
_IS_VISIBLE = Condition("stage", "$in", VISIBLE)


class Playbook(StrategySource):
    """Bullets by domain. A domain sees nothing of another unless `cross_domain` is asked for.

    Safe to share between threads and, by its backend, between processes. Close it (or use `with`) so
    that the index is saved; without that nothing is lost but the time to embed again.
    """

    def __init__(self, backend: Backend, *, embedder: Embedder, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._library = Library(backend, embedder=embedder, clock=self._clock)
        self._queries = CachingEmbedder(embedder)
        self._guard = Lock()

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        embedder: Embedder | None = None,
        *,
        clock: Clock | None = None,
        sync: bool = True,
        reembed: bool = False,
    ) -> Playbook:
        """A playbook in a folder, which is made where there is none.

        `embedder`: by default one that works offline. `sync=False` trades the last records before a
        power cut for speed. `reembed=True` accepts another embedder than the one it was made with.
        """
        from .storage.files import FileBackend  # needs FAISS

        chosen = embedder or _default_embedder()
        backend = FileBackend(Path(path), embedder=chosen, sync=sync, reembed=reembed)
        return cls(backend, embedder=chosen, clock=clock)

    @classmethod
    def browse(cls, path: str | PathLike[str], *, clock: Clock | None = None) -> Playbook:
        """A playbook in a folder, to look at and to go back in, whatever embedder it was made with.

        What needs the embedder, such as `retrieve`, raises.
        """
        from .storage.files import stored_embedder  # needs FAISS

        known = stored_embedder(Path(path))
        return cls.open(path, None if known is None else _Unknown(*known), clock=clock)

    @classmethod
    def postgres(
        cls, url: str, embedder: Embedder | None = None, *, clock: Clock | None = None, reembed: bool = False
    ) -> Playbook:
        """A playbook in a Postgres database with pgvector, for writers on many machines."""
        from .storage.postgres import PostgresBackend  # needs psycopg and FAISS

        chosen = embedder or _default_embedder()
        backend = PostgresBackend(url, embedder=chosen, reembed=reembed)
        return cls(backend, embedder=chosen, clock=clock)

    # --- reading ---

    @override
    def retrieve(
        self,
        task: str,
        *,
        domain: str,
        k: int = 3,
        where: Mapping[str, Any] | None = None,
        cross_domain: bool = False,
    ) -> Sequence[PlaybookBullet]:
        """The k bullets that fit a task best, of those that may be shown (staging and prod).

        `cross_domain` adds bullets of other domains whose similarity is at least 0.75.
        """
        found = self.search(task, domain=domain, k=k, where=where, cross_domain=cross_domain)
        return tuple(match.bullet for match in found)

    def search(
        self,
        task: str,
        *,
        domain: str,
        k: int = 3,
        where: Mapping[str, Any] | None = None,
        cross_domain: bool = False,
        floor: float = 0.0,
    ) -> Sequence[Match]:
        """As `retrieve`, with the similarity and the domain of each bullet.

        `floor` leaves out bullets whose example task is less similar; of bullets without an example
        too little is known to leave them out.
        """
        check_domain(domain)
        conditions = (_IS_VISIBLE, *parse_where(where))
        if not isinstance(cast("object", task), str) or not isinstance(cast("object", k), int):
            raise PlaybookError(f"a task is a text and k a whole number; got {task!r} and k={k!r}")
        if k < 1:
            return ()
        vector = self.embed([task])[0]
        found = list(self._nearest(vector, domain, k=k, conditions=conditions))
        for other in self._library.domains() if cross_domain else ():
            if other != domain:
                matches = self._nearest(vector, other, k=k, conditions=conditions)
                found += [match for match in matches if match.similarity >= TRANSFER]
        near = [match for match in found if match.similarity >= floor or not match.bullet.example_task]
        return sorted(near, key=lambda match: _rank(match, near), reverse=True)[:k]

    def domains(self) -> Sequence[str]:
        return self._library.domains()

    def bullets(self, domain: str) -> Sequence[PlaybookBullet]:
        """Every bullet of a domain, whatever its stage, oldest first."""
        with self.view(domain) as view:
            return tuple(view.bullets())

    def get(self, id: str, *, domain: str | None = None) -> PlaybookBullet | None:
        """One bullet, or None; where two domains have the id, `domain` says which."""
        home = self._domain_of(id) if domain is None else domain
        if home is None:
            return None
        with self.view(home) as view:
            return view.get(id)

    def journal(self, domain: str) -> Sequence[Delta]:
        """Every change of a domain, oldest first."""
        return tuple(self._library.journal(check_domain(domain)))

    # --- writing ---

    def record(self, bullet: PlaybookBullet, *, domain: str) -> PlaybookBullet:
        """Put a bullet in, and return it as it is kept: with its stage and times.

        An id that is there already must have the same content; its counters take the higher values.
        """
        return self.record_all([bullet], domain=domain)[0]

    def record_all(self, bullets: Sequence[PlaybookBullet], *, domain: str) -> Sequence[PlaybookBullet]:
        """Record many bullets as one change: all of them, or none."""
        for bullet in bullets:
            if not isinstance(cast("object", bullet), PlaybookBullet):
                raise PlaybookError(f"{bullet!r} is not a bullet; make one: PlaybookBullet(content=...)")
        kept: list[PlaybookBullet] = []

        def decide(view: View) -> Change:
            now = self._clock.time()
            kept[:] = [_recorded(bullet, view.get(bullet.id), now=now) for bullet in bullets]
            return Change(puts=tuple(bullet for bullet in kept if view.get(bullet.id) != bullet))

        self.change(domain, decide, cause="record")
        return tuple(kept)

    def promote(self, id: str, *, force: bool = False, domain: str | None = None) -> PlaybookBullet:
        """Let a bullet into prod; the Learner does so when its gate is passed.

        Without `force` the evidence has to be good enough. With it the bullet stays in prod until the
        evidence speaks for quarantine.
        """

        def ruling(bullet: PlaybookBullet) -> Ruling:
            earned = stage_of(bullet.helpful_count, bullet.harmful_count, section=bullet.section)
            if earned != "prod" and not force:
                raise PlaybookError(
                    f"bullet {id!r} was followed with success {bullet.helpful_count} times and without "
                    f"{bullet.harmful_count} times, which is {earned}; force=True promotes it all the same"
                )
            return "passed" if earned == "prod" else "forced"

        return self._rule(id, ruling, cause="promote", domain=domain)

    def quarantine(self, id: str, *, domain: str | None = None) -> PlaybookBullet:
        """Take a bullet out of sight until it is promoted again."""
        return self._rule(id, lambda _: "quarantined", cause="quarantine", domain=domain)

    def rollback(self, domain: str, *, to: int | str | Delta) -> Delta | None:
        """Bring back the state right after a delta (or its number, or hash; 0 is the beginning).

        This is a change like any other, so that it can be undone; None where nothing is different.
        """
        check_domain(domain)
        if isinstance(to, str):
            known = {delta.hash: delta.seq for delta in self._library.journal(domain)}
            if to not in known:
                raise PlaybookError(f"the journal of {domain!r} has no delta with the hash {to!r}")
            to = known[to]
        if not isinstance(cast("object", to), int | Delta):
            raise PlaybookError(f"rollback goes to a delta, its number or its hash; got {to!r}")
        return self._library.rollback(domain, to=to.seq if isinstance(to, Delta) else to)

    def compact(self, domain: str, *, keep_history: bool = True) -> None:
        """Make a domain quick to open; without its history no earlier state can be brought back."""
        self._library.compact(check_domain(domain), keep_history=keep_history)

    def repair(self, domain: str) -> Repaired:
        """Set damaged records aside, so that all others can be read again."""
        return self._library.repair(check_domain(domain))

    # --- for the curator and the learner ---

    def change(self, domain: str, decide: Decide, *, cause: Cause, note: str = "") -> Delta | None:
        """Decide on the state as it is now and write the change; nobody else writes in between."""
        return self._library.commit(check_domain(domain), decide, cause=cause, note=note)

    def view(self, domain: str) -> AbstractContextManager[View]:
        """The state of a domain as it is now, for reading."""
        return self._library.view(check_domain(domain))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, masked: what similarity is taken on."""
        with self._guard:
            return self._queries.embed([mask(text) for text in texts])

    def now(self) -> float:
        return self._clock.time()

    def close(self) -> None:
        self._library.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside ---

    def _nearest(
        self, vector: Vectors, domain: str, *, k: int, conditions: Sequence[Condition]
    ) -> Sequence[Match]:
        with self._library.view(domain) as view:  # more than k, so that evidence can order those alike
            return view.nearest(vector, k=4 * k + 8, conditions=conditions)

    def _rule(
        self, id: str, rule: Callable[[PlaybookBullet], Ruling], *, cause: Cause, domain: str | None
    ) -> PlaybookBullet:
        ruled: list[PlaybookBullet] = []
        home = self._domain_of(id) if domain is None else domain

        def decide(view: View) -> Change:
            bullet = view.get(id)
            if bullet is None:
                raise PlaybookError(f"the domain {home!r} has no bullet {id!r}")
            ruled[:] = [settled(replace(bullet, ruling=rule(bullet)), now=self._clock.time())]
            return Change(puts=tuple(ruled))

        if home is None:
            raise PlaybookError(f"no domain has a bullet {id!r}")
        self.change(home, decide, cause=cause, note=id)
        return ruled[0]

    def _domain_of(self, id: str) -> str | None:
        found: list[str] = []
        for name in self._library.domains():
            with self._library.view(name) as view:
                if view.get(id) is not None:
                    found.append(name)
        if len(found) > 1:
            raise PlaybookError(f"the domains {', '.join(found)} have a bullet {id!r}; name one with domain=")
        return found[0] if found else None


def settled(bullet: PlaybookBullet, *, now: float) -> PlaybookBullet:
    """The bullet with the stage that its evidence and ruling give it."""
    stage, ruling = settle(
        bullet.helpful_count, bullet.harmful_count, section=bullet.section, ruling=bullet.ruling
    )
    return replace(bullet, stage=stage, ruling=ruling, last_updated=now)


def _recorded(bullet: PlaybookBullet, known: PlaybookBullet | None, *, now: float) -> PlaybookBullet:
    if known is None:
        ruling: Ruling = "quarantined" if bullet.ruling == "quarantined" else "none"
        return settled(replace(bullet, ruling=ruling, created_at=bullet.created_at or now), now=now)
    for name in ("content", "section", "tool_sequence"):
        if getattr(bullet, name) != getattr(known, name):
            raise PlaybookError(
                f"bullet {known.id!r} is recorded with another {name}; a bullet is never rewritten: "
                f"record the new one under an id of its own"
            )
    grown = replace(
        known,
        helpful_count=max(known.helpful_count, bullet.helpful_count),
        harmful_count=max(known.harmful_count, bullet.harmful_count),
        tags=tuple(dict.fromkeys((*known.tags, *bullet.tags))),
    )
    return known if grown == known else settled(grown, now=now)


def _rank(match: Match, others: Sequence[Match]) -> tuple[float, int]:
    """Similarity, then evidence; detours, and what not to do, behind what to do. Of equals, short first."""
    bullet = match.bullet
    is_pitfall = bullet.section == "Pitfalls"
    for_it, against = bullet.helpful_count, bullet.harmful_count
    if is_pitfall:
        for_it, against = against, for_it
    score = match.similarity + _WEIGHT * for_it / max(1, for_it + against)
    if is_pitfall or _is_detour(match, others):
        score -= _WEIGHT
    return round(score, 3), -bullet.tool_count


def _is_detour(match: Match, others: Sequence[Match]) -> bool:
    """Whether a shorter way, which is a part of this one, is known to do for the same kind of task."""
    bullet, near = match.bullet, match.similarity
    if bullet.section != "Strategies" or bullet.tool_count < 2:
        return False
    return any(
        is_followed(other.bullet.tool_sequence, bullet.tool_sequence)
        for other in others
        if -0.01 < other.similarity - near < 0.01  # first, since few are left then
        and 0 < other.bullet.tool_count < bullet.tool_count
        and other.domain == match.domain
        and other.bullet.section == "Strategies"
    )


class _Unknown:
    """Stands for an embedder of which only the name and the dimension are known."""

    def __init__(self, name: str, dimension: int) -> None:
        self.name = name
        self.dimension = dimension

    def embed(self, texts: Sequence[str]) -> Vectors:
        raise PlaybookError(
            f"the playbook was opened to be looked at; open it with its embedder, {self.name!r}, to embed "
            f"{len(texts)} texts"
        )


def _default_embedder() -> Embedder:
    from .embedders.use import UseEmbedder  # needs its package

    return UseEmbedder()
