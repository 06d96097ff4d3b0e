"""The playbook: what was learned, by domain; recorded, retrieved by intent, promoted and rolled back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, Self, cast

from typing_extensions import override

from wesichain._elsewhere import PLAYBOOK, Translated, names_ours
from wesichain.core import Advice, Clock, StrategySource, ToolSpec
from wesichain.core.internal import SystemClock, dump_json
from wesichain.errors import PlaybookError

from .advising import FLOOR, AdviceOffer, Shares, is_near
from .crediting import earned as earned_of
from .crediting import recorded, settled
from .embedders import Embedder, Vectors, rows_for
from .entities import (
    VISIBLE,
    Evidence,
    PlaybookBullet,
    check_domain,
    fingerprints_of,
    fits,
    marks_of,
    mask,
)
from .page import PageChange, changes, read_page, write_page
from .storage import (
    Backend,
    Cause,
    Condition,
    Decide,
    Delta,
    Eraser,
    Match,
    PlaybookChange,
    Repaired,
    View,
    back_to,
    bullet_back_to,
    draft,
    find,
    fingerprint,
    meant,
    parse_where,
    rank,
)

TRANSFER = 0.75  # how similar a bullet of another domain has to be
_IS_VISIBLE = Condition("stage", "$in", VISIBLE)


class Playbook(Translated, StrategySource):
    """Bullets by domain. Domains are separate unless `cross_domain` is set.

    Safe to share between threads and processes. Close it (or use `with`) so that the index is saved;
    without that nothing is lost but the time to embed again.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        embedder: Embedder,
        clock: Clock | None = None,
        shares: Shares | None = None,
    ) -> None:
        self.shares = shares or Shares()
        self._clock = clock or SystemClock()
        self._backend = backend
        self._embedder = embedder
        self._embedding = RLock()  # an embedder need not be safe to share between threads
        self._views: dict[str, View] = {}
        self._guard = RLock()  # of the views

    @classmethod
    @names_ours(PLAYBOOK)
    def open(
        cls,
        path: str | PathLike[str],
        embedder: Embedder | None = None,
        *,
        clock: Clock | None = None,
        sync: bool = True,
        explore: float = 1.0,
        holdback: float = 0.0,
        half_life: float = 50,
    ) -> Playbook:
        """A playbook in a folder, which is made where there is none.

        `sync=False` trades the last records before a power cut for speed. With another embedder than before
        everything is embedded anew when it is first searched. `explore`: the share of runs that a bullet on
        trial is shown to; `holdback`: the share that a trusted one is held back from (nothing is held back by
        default); `half_life`: runs after which one counts half.
        """
        from .storage.files import FileBackend  # needs FAISS

        chosen = embedder or _default_embedder()
        backend = FileBackend(Path(path), embedder=chosen, sync=sync)
        shares = Shares(explore, holdback, half_life)
        return cls(backend, embedder=chosen, clock=clock, shares=shares)

    @classmethod
    def postgres(
        cls,
        url: str,
        embedder: Embedder | None = None,
        *,
        clock: Clock | None = None,
        explore: float = 1.0,
        holdback: float = 0.0,
        half_life: float = 50,
    ) -> Playbook:
        """A playbook in a Postgres database with pgvector, for writers on many machines."""
        from .storage.postgres import PostgresBackend  # needs psycopg and FAISS

        chosen = embedder or _default_embedder()
        backend = PostgresBackend(url, embedder=chosen)
        shares = Shares(explore, holdback, half_life)
        return cls(backend, embedder=chosen, clock=clock, shares=shares)

    # --- reading ---

    @override
    @names_ours(PLAYBOOK)
    def retrieve(
        self,
        task: str,
        *,
        domain: str,
        k: int = 3,
        where: Mapping[str, Any] | None = None,
        cross_domain: bool = False,
    ) -> Sequence[PlaybookBullet]:
        """The k bullets that fit a task best, of those that may be shown (staging and prod); draws nothing.

        `cross_domain` adds bullets of other domains whose similarity is at least 0.75.
        """
        found = self._ranked(task, domain, k=k, where=where, cross_domain=cross_domain)
        return tuple(match.bullet for match in found[:k])

    def _matches(self, task: str, *, domain: str, k: int) -> Sequence[Match]:
        """The k best learned matches for a task, and every sentence of an owner that fits it."""
        found = self._ranked(task, domain, k=k, floor=FLOOR)
        learned = [match for match in found if not match.bullet.is_owned][:k]
        return [*(match for match in found if match.bullet.is_owned), *learned]

    def _ranked(
        self,
        task: str,
        domain: str,
        *,
        k: int,
        where: Mapping[str, Any] | None = None,
        cross_domain: bool = False,
        floor: float = 0.0,
    ) -> Sequence[Match]:
        check_domain(domain)
        conditions = (_IS_VISIBLE, *parse_where(where))
        if not isinstance(cast("object", task), str) or not isinstance(cast("object", k), int):
            raise PlaybookError(f"a task is a text and k a whole number; got {task!r} and k={k!r}")
        if k < 1:
            return ()
        vector = self.embed([task])[0]
        found = list(self._nearest(vector, domain, k=k, conditions=conditions))
        for other in self.domains() if cross_domain else ():
            if other != domain:
                matches = self._nearest(vector, other, k=k, conditions=conditions)
                found += [match for match in matches if match.similarity >= TRANSFER]
        found += self._owned(vector, domain, conditions, known={match.bullet.id for match in found})
        marks = marks_of(task)
        near = [item for item in found if is_near(item, floor) and fits(item.bullet.condition, marks)]
        return sorted(near, key=rank, reverse=True)

    async def advise(
        self,
        task: str,
        *,
        run_id: str,
        domain: str,
        tools: Sequence[ToolSpec],
        k: int = 3,
        tokens: int = 400,
        first: Sequence[PlaybookBullet] = (),
    ) -> Advice:
        """Return the advice for a run: owners' sentences and at most `k` learned bullets, in `tokens` tokens.

        Never an error: where the store is away, `trouble` says so. `first` are shown before what is found.
        """
        trouble = ""
        found: Sequence[Match] = ()
        try:
            if k > 0:  # more of them, since some may be about tools that are not here
                found = await asyncio.to_thread(self._matches, task, domain=domain, k=2 * k)
        except Exception as error:  # noqa: BLE001  # whatever an embedder or a database may raise
            trouble = f"{type(error).__name__}: {error}"
        offer = AdviceOffer(run_id, fingerprints_of(tools), k, tokens, self.shares, task)
        return replace(offer.advice(found, first=first), trouble=trouble)

    def evidence(self, id: str, *, domain: str | None = None) -> Evidence:
        """A bullet's evidence: runs with it and without, as they fade, and the lift in success."""
        bullet = self.get(id, domain=domain)
        if bullet is None:
            raise PlaybookError(f"no domain has a bullet {id!r}")
        return bullet.tally.evidence

    def domains(self) -> Sequence[str]:
        return self._backend.domains()

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
        entry = self._view(domain)
        with entry.guard:
            return tuple(entry.log.journal())

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

        def decide(view: View) -> PlaybookChange:
            now = self._clock.time()
            kept[:] = [recorded(bullet, view.get(bullet.id), now=now) for bullet in bullets]
            return PlaybookChange(puts=tuple(bullet for bullet in kept if view.get(bullet.id) != bullet))

        self.change(domain, decide, cause="record")
        return tuple(kept)

    def promote(self, id: str, *, force: bool = False, domain: str | None = None) -> PlaybookBullet:
        """Show a bullet again that was quarantined, or with `force` one whose evidence is not enough."""

        def passed(bullet: PlaybookBullet) -> PlaybookBullet:
            earned = earned_of(bullet)
            if earned != "prod" and not force:
                raise PlaybookError(
                    f"bullet {id!r} was followed with success {bullet.helpful_count} times and without "
                    f"{bullet.harmful_count} times, which is {earned}; force=True promotes it all the same"
                )
            if bullet.provenance.author == "operator" and force:
                return replace(bullet, ruling="owner")
            return replace(bullet, ruling="none" if earned == "prod" else "forced")

        return self._rule(id, passed, cause="promote", domain=domain)

    def quarantine(self, id: str, *, domain: str | None = None) -> PlaybookBullet:
        """Take a bullet out of sight until it is promoted again."""

        def hidden(bullet: PlaybookBullet) -> PlaybookBullet:
            return replace(bullet, ruling="quarantined")

        return self._rule(id, hidden, cause="quarantine", domain=domain)

    def rollback(self, domain: str, *, to: int | str | Delta, id: str | None = None) -> Delta | None:
        """Bring back the state right after a delta (or its number, or hash; 0 is the beginning).

        With an `id` only that bullet becomes what it was, and all that others wrote since stays. This is a
        change like any other, so that it can be undone; None where nothing is different.
        """
        check_domain(domain)
        if isinstance(to, str):
            known = {delta.hash: delta.seq for delta in self.journal(domain)}
            if to not in known:
                raise PlaybookError(f"the journal of {domain!r} has no delta with the hash {to!r}")
            to = known[to]
        if not isinstance(cast("object", to), int | Delta):
            raise PlaybookError(f"rollback goes to a delta, its number or its hash; got {to!r}")
        number = to.seq if isinstance(to, Delta) else to
        with self._locked(domain) as entry:
            shelf = entry.log.shelf
            if not 0 <= number <= shelf.seq:
                raise PlaybookError(
                    f"the deltas of {domain!r} are numbered up to {shelf.seq}; there is no {number}"
                )
            then = entry.log.state_at(number)
            change = back_to(then, shelf) if id is None else bullet_back_to(id, then, shelf)
            note = f"to {number}" if id is None else id
            return self._write(entry, change, cause="rollback", note=note)

    def forget(
        self, *, id: str | None = None, task_id: str | None = None, matching: str | None = None
    ) -> int:
        """Erase bullets from everything that is kept: state, journal, index, files or rows; how many.

        By their id, by the task that they were learned from, or by a text that stands in their words,
        example, tags or names, whatever its case. A hash of each stays in the journal, to say that something
        was. Other bullets, and the way back to their earlier states, stay.
        """
        is_meant = meant(id=id, task_id=task_id, matching=matching)
        tasks = () if task_id is None else (task_id,)
        return sum(self._forget(domain, is_meant, tasks=tasks) for domain in self.domains())

    def repair(self, domain: str) -> Repaired:
        """Set damaged records aside, so that all others can be read again."""
        entry = self._view(domain)
        with entry.guard, entry.log.locked():
            return entry.log.repair()

    # --- as a page ---

    def export(self, path: str | PathLike[str]) -> None:
        """Write the playbook as a page, PLAYBOOK.md: what is shown, and apart from it lessons on trial."""
        page = write_page({domain: self.bullets(domain) for domain in self.domains()})
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise PlaybookError(f"{path} cannot be written: {error.strerror}") from error

    def load(self, path: str | PathLike[str], *, dry_run: bool = False) -> Sequence[PageChange]:
        """Take in a page that a person has edited, and return the changes, a value a domain.

        With `dry_run` nothing is changed: the changes can be read before they are made.
        """
        try:
            page = read_page(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise PlaybookError(f"{path} cannot be read: {error}") from error
        found = [changes(domain, *read, self.bullets(domain)) for domain, read in page.items()]
        for change in found if not dry_run else ():
            for name in change.retired:
                self.quarantine(name, domain=change.domain)
            for name in change.promoted:
                self.promote(name, force=True, domain=change.domain)
            if change.added:
                self.record_all(change.added, domain=change.domain)
        return tuple(change for change in found if change)

    # --- for the curator and the learner ---

    def change(self, domain: str, decide: Decide, *, cause: Cause, note: str = "") -> Delta | None:
        """Decide on the state as it is now and write the change; nobody else writes in between."""
        with self._locked(domain) as entry:
            return self._write(entry, decide(entry), cause=cause, note=note)

    @contextmanager
    def view(self, domain: str) -> Generator[View]:
        """The state of a domain as it is now, for reading."""
        entry = self._view(domain)
        with entry.guard:
            entry.refresh()
            yield entry
            entry.save(at_least=max(256, len(entry) // 8))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts, masked: what similarity is taken on."""
        with self._embedding:
            return rows_for(self._embedder, [mask(text) for text in texts])

    def now(self) -> float:
        return self._clock.time()

    def close(self) -> None:
        with self._guard:
            for entry in self._views.values():
                with entry.guard:  # a thread of a run that was cancelled may still be at work in it
                    entry.save(at_least=1)
            self._views.clear()
            self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside ---

    def _view(self, domain: str) -> View:
        with self._guard:
            if check_domain(domain) not in self._views:
                self._views[domain] = View(self._backend.log(domain), self._embedder)
            return self._views[domain]

    @contextmanager
    def _locked(self, domain: str) -> Generator[View]:
        """A domain as it is now, which nobody else writes to meanwhile, wherever it runs."""
        entry = self._view(domain)
        with entry.guard, entry.log.locked():
            entry.refresh()
            yield entry

    def _write(self, entry: View, change: PlaybookChange, *, cause: Cause, note: str = "") -> Delta | None:
        """Append one delta, whose cost does not grow with the playbook; None where nothing changes."""
        if not change:
            return None
        shelf, at = entry.log.shelf, self._clock.time()
        delta, line = draft(change, seq=shelf.seq + 1, prev=shelf.hash, at=at, cause=cause, note=note)
        entry.log.append(delta, line)
        entry.follow([change])
        if entry.log.is_long():
            entry.log.compact()
        return delta

    def _forget(
        self, domain: str, is_meant: Callable[[PlaybookBullet], bool], *, tasks: Collection[str]
    ) -> int:
        with self._locked(domain) as entry:
            lines = entry.log.lines()
            found = find(lines, is_meant)
            if not found and not any(dump_json(name).encode() in line for name in tasks for line in lines):
                return 0
            eraser = Eraser(found, tasks=tasks)
            entry.log.rewrite(eraser.line, intents=[bullet.intent for bullet in found.values()])
            entry.resync()
            if found:
                hashes = tuple(sorted(map(fingerprint, found.values())))
                self._write(entry, PlaybookChange(forgotten=hashes), cause="forget")
            return len(found)

    def _nearest(
        self, vector: Vectors, domain: str, *, k: int, conditions: Sequence[Condition]
    ) -> Sequence[Match]:
        with self.view(domain) as view:  # more than k, so that evidence can order those alike
            return view.nearest(vector, k=4 * k + 8, conditions=conditions)

    def _owned(
        self, vector: Vectors, domain: str, conditions: Sequence[Condition], *, known: Collection[str]
    ) -> Sequence[Match]:
        """The sentences of owners that are not among the nearest: they are found by their tools."""
        with self.view(domain) as view:
            rest = [
                item
                for item in view.owned()
                if item.id not in known
                and item.tool_sequence
                and all(condition.is_met(item, domain) for condition in conditions)
            ]
            likeness = view.vectors([item.id for item in rest]) @ vector
        return [Match(item, float(near), domain) for item, near in zip(rest, likeness, strict=True)]

    def _rule(
        self, id: str, rule: Callable[[PlaybookBullet], PlaybookBullet], *, cause: Cause, domain: str | None
    ) -> PlaybookBullet:
        kept: list[PlaybookBullet] = []
        home = self._domain_of(id) if domain is None else domain

        def decide(view: View) -> PlaybookChange:
            bullet = view.get(id)
            if bullet is None:
                raise PlaybookError(f"the domain {home!r} has no bullet {id!r}")
            kept[:] = [settled(rule(bullet), now=self._clock.time())]
            return PlaybookChange(puts=tuple(kept))

        if home is None:
            raise PlaybookError(f"no domain has a bullet {id!r}")
        self.change(home, decide, cause=cause, note=id)
        return kept[0]

    def _domain_of(self, id: str) -> str | None:
        found: list[str] = []
        for name in self.domains():
            with self.view(name) as view:
                if view.get(id) is not None:
                    found.append(name)
        if len(found) > 1:
            raise PlaybookError(f"the domains {', '.join(found)} have a bullet {id!r}; name one with domain=")
        return found[0] if found else None


@cache  # its weights are loaded once a process, whoever opens a playbook
def _default_embedder() -> Embedder:
    from .embedders.use import UseEmbedder  # needs its package

    return UseEmbedder()
