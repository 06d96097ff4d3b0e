"""The playbook: bullets by domain, with retrieval by similarity, promotion, a journal and rollback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, Self, cast

from typing_extensions import override

from wesichain._elsewhere import PLAYBOOK, Translated, names_ours
from wesichain.core import StrategySource, ToolSpec
from wesichain.core.internal import Advice, Clock, SystemClock, replace
from wesichain.errors import PlaybookError

from .advising import FLOOR, Shares, is_near, make_advice
from .credit import earned_stage, merge_record, with_stage
from .embedders import Embedder, SharedEmbedder, Vectors
from .entities.bullets import PlaybookBullet, fingerprints_of
from .entities.conditions import fits, marks_of
from .entities.domains import check_domain
from .entities.evidence import Evidence
from .entities.wording import mask
from .page import PageChange, changes, read_page, write_page
from .storage.backend import Backend, Repaired
from .storage.domain import Domain, Match, rank
from .storage.erasing import selector
from .storage.filters import parse_where
from .storage.journal import Cause, Delta, PlaybookChange
from .storage.shelf import back_to, bullet_back_to

TRANSFER = 0.75  # the lowest similarity of a bullet from another domain


class Playbook(Translated, StrategySource):
    """A store of bullets by domain. A search stays within one domain unless `cross_domain` is set.

    A playbook can be shared between threads and processes. Close it (or use `with`) to save the index;
    otherwise the next process has to embed the texts again.
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
        self._embedder = SharedEmbedder(embedder)
        self._domains: dict[str, Domain] = {}
        self._guard = RLock()  # protects `_domains`

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
        """Open a playbook in a folder, which is created if it does not exist.

        `sync=False` is faster, but a power failure may lose the last records. After a change of the embedder
        all texts are embedded again at the first search. `explore` is the share of runs that a bullet on
        trial is shown to, `holdback` the share of runs that a trusted bullet is withheld from (none by
        default), and `half_life` the number of runs after which an earlier run counts half.
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
        """Open a playbook in a Postgres database with pgvector, for writers on many machines."""
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
        """Return the `k` visible bullets (staging and prod) that fit a task best.

        Unlike `advise`, this ignores `explore` and `holdback`. `cross_domain` adds bullets of other domains
        whose similarity is at least 0.75.
        """
        found = self._ranked(task, domain, k=k, where=where, cross_domain=cross_domain)
        return tuple(match.bullet for match in found[:k])

    def _matches(self, task: str, *, domain: str, k: int) -> Sequence[Match]:
        """Return the owners' sentences that fit a task, and the `k` learned bullets that fit it best."""
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
        meets = parse_where(where)
        if not isinstance(cast("object", task), str) or not isinstance(cast("object", k), int):
            raise PlaybookError(f"a task is a text and k a whole number; got {task!r} and k={k!r}")
        if k < 1:
            return ()

        def passes(bullet: PlaybookBullet, home: str) -> bool:
            return bullet.is_visible and meets(bullet, home)

        vector = self.embed([task])[0]
        wanted = 4 * k + 8  # more than k, so that evidence can order those alike
        with self.view(domain) as here:
            found = here.nearest(vector, k=wanted, passes=passes)
            found += here.owned(vector, passes, besides=found)
        for other in self.domains() if cross_domain else ():
            if other != domain:
                with self.view(other) as there:
                    matches = there.nearest(vector, k=wanted, passes=passes)
                found += [match for match in matches if match.similarity >= TRANSFER]
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

        A failure of the store or the embedder does not raise an error; it is described in `trouble`. The
        bullets in `first` come before those that are retrieved.
        """
        trouble = ""
        found: Sequence[Match] = ()
        try:
            if k > 0:  # twice as many, since some may name tools that the run does not have
                found = await asyncio.to_thread(self._matches, task, domain=domain, k=2 * k)
        except Exception as error:  # noqa: BLE001  # whatever an embedder or a database may raise
            trouble = f"{type(error).__name__}: {error}"
        made = make_advice(
            found,
            first,
            run_id=run_id,
            tools=fingerprints_of(tools),
            k=k,
            tokens=tokens,
            task=task,
            shares=self.shares,
        )
        return replace(made, trouble=trouble)

    def evidence(self, id: str, *, domain: str | None = None) -> Evidence:
        """Return a bullet's evidence: the decayed counts of runs with it and without it, and the lift."""
        bullet = self.get(id, domain=domain)
        if bullet is None:
            raise PlaybookError(f"no domain has a bullet {id!r}")
        return bullet.tally.evidence

    def domains(self) -> Sequence[str]:
        return self._backend.domains()

    def bullets(self, domain: str) -> Sequence[PlaybookBullet]:
        """Return every bullet of a domain, in any stage, oldest first."""
        with self.view(domain) as view:
            return tuple(view.bullets())

    def get(self, id: str, *, domain: str | None = None) -> PlaybookBullet | None:
        """Return a bullet by its id, or None. Give `domain` if several domains have the id."""
        home = self._domain_of(id) if domain is None else domain
        if home is None:
            return None
        with self.view(home) as view:
            return view.get(id)

    def journal(self, domain: str) -> Sequence[Delta]:
        """Return every change of a domain, oldest first."""
        return tuple(self._domain(domain).journal())

    # --- writing ---

    def record(self, bullet: PlaybookBullet, *, domain: str) -> PlaybookBullet:
        """Store a bullet and return the stored value, with its stage and times.

        A bullet that is already stored under this id must have the same content. Each of its counters takes
        the higher of the two values.
        """
        return self.record_all([bullet], domain=domain)[0]

    def record_all(self, bullets: Sequence[PlaybookBullet], *, domain: str) -> Sequence[PlaybookBullet]:
        """Store many bullets in one change: all of them or none."""
        for bullet in bullets:
            if not isinstance(cast("object", bullet), PlaybookBullet):
                raise PlaybookError(f"{bullet!r} is not a bullet; make one: PlaybookBullet(content=...)")
        with self.writing(domain) as here:
            now = self.now()
            kept = tuple(merge_record(bullet, here.get(bullet.id), now=now) for bullet in bullets)
            changed = tuple(bullet for bullet in kept if here.get(bullet.id) != bullet)
            here.write(PlaybookChange(puts=changed), at=now, cause="record")
        return kept

    def promote(self, id: str, *, force: bool = False, domain: str | None = None) -> PlaybookBullet:
        """Show a quarantined bullet again. `force` shows one whose evidence is not sufficient."""

        def passed(bullet: PlaybookBullet) -> PlaybookBullet:
            earned = earned_stage(bullet)
            if earned != "prod" and not force:
                raise PlaybookError(
                    f"bullet {id!r} was followed with success {bullet.helpful_count} times and without "
                    f"{bullet.harmful_count} times, which is {earned}; force=True promotes it anyway"
                )
            if bullet.provenance.author == "operator" and force:
                return replace(bullet, ruling="owner")
            return replace(bullet, ruling="none" if earned == "prod" else "forced")

        return self._rule(id, passed, cause="promote", domain=domain)

    def quarantine(self, id: str, *, domain: str | None = None) -> PlaybookBullet:
        """Stop showing a bullet until it is promoted again."""

        def hidden(bullet: PlaybookBullet) -> PlaybookBullet:
            return replace(bullet, ruling="quarantined")

        return self._rule(id, hidden, cause="quarantine", domain=domain)

    def rollback(self, domain: str, *, to: int | str | Delta, id: str | None = None) -> Delta | None:
        """Restore the state after a delta, given as a `Delta`, its number or its hash; 0 is the empty state.

        With an `id` only that bullet is restored; changes of other bullets stay. The rollback is a change of
        its own and can be undone. Returns None if there is nothing to change.
        """
        if isinstance(to, str):
            known = {delta.hash: delta.seq for delta in self.journal(domain)}
            if to not in known:
                raise PlaybookError(f"the journal of {domain!r} has no delta with the hash {to!r}")
            to = known[to]
        if not isinstance(cast("object", to), int | Delta):
            raise PlaybookError(f"rollback takes a delta, its number or its hash; got {to!r}")
        number = to.seq if isinstance(to, Delta) else to
        with self.writing(domain) as here:
            shelf = here.shelf
            if not 0 <= number <= shelf.seq:
                raise PlaybookError(
                    f"the deltas of {domain!r} are numbered up to {shelf.seq}; there is no {number}"
                )
            then = here.state_at(number)
            change = back_to(then, shelf) if id is None else bullet_back_to(id, then, shelf)
            note = f"to {number}" if id is None else id
            return here.write(change, at=self.now(), cause="rollback", note=note)

    def forget(
        self, *, id: str | None = None, task_id: str | None = None, matching: str | None = None
    ) -> int:
        """Erase bullets from the state, the journal, the index and the files or rows; return their number.

        Choose them by `id`, by the task that they were learned from (`task_id`), or by a text in their
        content, example, tags or ids (`matching`, ignoring case). A hash of each erased bullet stays in the
        journal as a record of the erasure. Other bullets can still be rolled back to earlier states.
        """
        is_meant = selector(id=id, task_id=task_id, matching=matching)
        tasks = () if task_id is None else (task_id,)
        count = 0
        for domain in self.domains():
            with self.writing(domain) as here:
                count += here.forget(is_meant, tasks=tasks, at=self.now())
        return count

    def repair(self, domain: str) -> Repaired:
        """Set damaged records aside, so that the others can be read again."""
        return self._domain(domain).repair()

    # --- as a page ---

    def export(self, path: str | PathLike[str]) -> None:
        """Write the playbook as a Markdown page, PLAYBOOK.md: what is shown, and lessons on trial."""
        page = write_page({domain: self.bullets(domain) for domain in self.domains()})
        try:
            Path(path).write_text(page, encoding="utf-8", newline="\n")
        except OSError as error:
            raise PlaybookError(f"{path} cannot be written: {error.strerror}") from error

    def load(self, path: str | PathLike[str], *, dry_run: bool = False) -> Sequence[PageChange]:
        """Apply the edits that were made to an exported page, and return the changes of each domain.

        With `dry_run` the changes are returned without being applied.
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

    def writing(self, domain: str) -> AbstractContextManager[Domain]:
        """Lock a domain for writing. Yields its current state, with `write`; other writers wait."""
        return self._domain(domain).writing()

    def view(self, domain: str) -> AbstractContextManager[Domain]:
        """Yield the current state of a domain, for reading."""
        return self._domain(domain).reading()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of the masked texts, which similarity is computed from."""
        return self._embedder.embed([mask(text) for text in texts])

    def now(self) -> float:
        return self._clock.time()

    def close(self) -> None:
        with self._guard:
            for domain in self._domains.values():
                domain.close()
            self._domains.clear()
            self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside ---

    def _domain(self, name: str) -> Domain:
        with self._guard:
            if check_domain(name) not in self._domains:
                self._domains[name] = Domain(name, self._backend.log(name), self._embedder)
            return self._domains[name]

    def _rule(
        self, id: str, rule: Callable[[PlaybookBullet], PlaybookBullet], *, cause: Cause, domain: str | None
    ) -> PlaybookBullet:
        home = self._domain_of(id) if domain is None else domain
        if home is None:
            raise PlaybookError(f"no domain has a bullet {id!r}")
        with self.writing(home) as here:
            bullet = here.get(id)
            if bullet is None:
                raise PlaybookError(f"the domain {home!r} has no bullet {id!r}")
            ruled = with_stage(rule(bullet), now=self.now())
            here.write(PlaybookChange(puts=(ruled,)), at=self.now(), cause=cause, note=id)
            return ruled

    def _domain_of(self, id: str) -> str | None:
        found: list[str] = []
        for name in self.domains():
            with self.view(name) as view:
                if view.get(id) is not None:
                    found.append(name)
        if len(found) > 1:
            raise PlaybookError(f"the domains {', '.join(found)} have a bullet {id!r}; name one with domain=")
        return found[0] if found else None


@cache  # the weights are loaded once per process
def _default_embedder() -> Embedder:
    from .use_embedder import UseEmbedder  # needs its package

    return UseEmbedder()
