"""The contract suite for checkpointers. Subclass it and implement `make`; pytest runs the tests.

class TestMyCheckpointer(CheckpointerContract):
    async def make(self):
        return MyCheckpointer(...)
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256

from wesichain.core.internal import replace
from wesichain.errors import CheckpointError
from wesichain.graph import Checkpointer, ThreadEntry

from .store_contract import StoreContract, law, run_in_loops


class CheckpointerContract(StoreContract[Checkpointer]):
    """The contract of a checkpointer: the behaviour that the graph engine relies on."""

    @law
    async def test_what_was_appended_is_read_back_as_it_was(self, store: Checkpointer) -> None:
        written = [entry(1, at=1.25), entry(2, "1", body='{"text":"\\u0000 ü 😀 \' \\" % ?"}')]
        await store.append("t", written, after=0)
        assert list(await store.read("t", since=1)) == written

    @law
    async def test_an_unknown_thread_has_nothing_and_a_known_one_has_its_newest(
        self, store: Checkpointer
    ) -> None:
        assert list(await store.read("nobody")) == []
        for seq in (1, 2, 3):
            await store.append("t", [entry(seq)], after=seq - 1)
        assert numbers(await store.read("t"))[-1] == 3
        assert numbers(await store.read("t", since=3)) == [3]
        assert numbers(await store.read("t", since=4)) == []

    @law
    async def test_threads_and_owners_do_not_mix(self, store: Checkpointer) -> None:
        await store.append("a", [entry(1), entry(2, "1"), entry(3, "1/child/1", base=3)], after=0)
        await store.append("b", [entry(1, body='{"b":1}')], after=0)
        assert [one.owner for one in await store.read("a")] == ["", "1", "1/child/1"]
        assert [one.body for one in await store.read("b")] == ['{"b":1}']

    @law
    async def test_reading_begins_at_the_base_of_the_newest_checkpoint(self, store: Checkpointer) -> None:
        await store.append(
            "t", [entry(1), entry(2), entry(3, base=3), entry(4, base=3), entry(5, "4")], after=0
        )
        assert numbers(await store.read("t")) == [3, 4, 5]
        assert numbers(await store.read("t", since=1)) == [1, 2, 3, 4, 5]

    @law
    async def test_a_checkpoint_settles_what_was_pending_on_its_parent_and_nothing_else(
        self, store: Checkpointer
    ) -> None:
        pending = ["1", "1/a/1", "1/a/1/3", "10", "10/a/1", "12", "1.5"]
        await store.append("t", [entry(1), *[entry(i, o) for i, o in enumerate(pending, start=2)]], after=0)
        assert [one.owner for one in await store.read("t")] == ["", *pending]
        await store.append("t", [entry(9)], after=8, settles="1")
        assert [one.owner for one in await store.read("t")] == ["", "10", "10/a/1", "12", "1.5", ""]

    @law
    async def test_the_same_place_in_a_thread_is_written_once(self, store: Checkpointer) -> None:
        await store.append("t", [entry(1)], after=0)
        for after in (0, 2, 7):
            with refused():
                await store.append("t", [entry(after + 1, body='{"late":1}')], after=after)
        assert list(await store.read("t")) == [entry(1)]

    @law
    async def test_a_number_that_was_settled_cannot_be_written_again(self, store: Checkpointer) -> None:
        await store.append("t", [entry(1)], after=0)
        await store.append("t", [entry(2, "1")], after=1)
        await store.append("t", [entry(3)], after=2, settles="1")
        with refused():
            await store.append("t", [entry(2, "1")], after=1)
        assert numbers(await store.read("t")) == [1, 3]

    @law
    async def test_an_append_that_is_refused_settles_nothing(self, store: Checkpointer) -> None:
        await store.append("t", [entry(1), entry(2, "1")], after=0)
        with refused():
            await store.append("t", [entry(2), entry(3)], after=1, settles="1")
        assert [one.owner for one in await store.read("t")] == ["", "1"]

    @law
    async def test_of_many_writers_at_once_one_wins_and_nothing_is_lost(self, store: Checkpointer) -> None:
        await store.append("t", [entry(1)], after=0)

        async def write(name: str) -> bool:
            try:
                await store.append("t", [entry(2, body=f'{{"by":"{name}"}}')], after=1)
            except CheckpointError:
                return False
            return True

        won = await asyncio.gather(*[write(str(index)) for index in range(8)])
        assert sum(won) == 1
        assert [one.body for one in await store.read("t")] == ["{}", f'{{"by":"{won.index(True)}"}}']

    def test_several_event_loops_share_it_at_once(self) -> None:
        store = asyncio.run(self.make())

        async def work(number: int) -> None:
            name = f"t{number}"
            for seq in range(1, 9):
                await store.append(name, [entry(seq)], after=seq - 1)
                assert numbers(await store.read(name, since=1)) == list(range(1, seq + 1))

        run_in_loops(work)
        asyncio.run(self.done(store))

    @law
    async def test_threads_are_listed_the_newest_first(self, store: Checkpointer) -> None:
        for name, at in (("old", 1.0), ("new", 3.0), ("middle", 2.0)):
            await store.append(name, [entry(1, at=at)], after=0)
        assert [thread.thread_id for thread in await store.threads()] == ["new", "middle", "old"]
        await store.append("old", [entry(2, at=9.0)], after=1)
        first = (await store.threads())[0]
        assert (first.thread_id, first.seq, first.at) == ("old", 2, 9.0)

    @law
    async def test_deleting_forgets_one_thread_wholly(self, store: Checkpointer) -> None:
        await store.append("t", [entry(1), entry(2, "1"), entry(3, "1/c/1")], after=0)
        await store.append("other", [entry(1)], after=0)
        await store.delete("t")
        await store.delete("never there")
        assert list(await store.read("t")) == []
        assert numbers(await store.read("other")) == [1]
        assert [thread.thread_id for thread in await store.threads()] == ["other"]
        await store.append("t", [entry(1)], after=0)

    @law
    async def test_parts_come_back_with_the_entries_that_name_them(self, store: Checkpointer) -> None:
        """For stores with `keeps_parts`; other stores have the parts in the texts."""
        if not getattr(store, "keeps_parts", False):
            return
        old, new = with_part(1, b"old"), with_part(2, b"new")
        both = ThreadEntry(3, "2", 1, 3.0, f"[{old.body},{new.body}]", {**old.parts, **new.parts})
        await store.append("t", [old, new], after=0)
        await store.append("t", [both], after=2)
        await store.append("other", [with_part(1, b"old")], after=0)
        assert [one.parts for one in await store.read("t", since=1)] == [old.parts, new.parts, both.parts]
        await store.append("t", [entry(4)], after=3, settles="2")
        await store.delete("t", before=2)
        assert [one.parts for one in await store.read("t", since=1)] == [new.parts, {}]
        await store.delete("t")
        assert [one.parts for one in await store.read("other", since=1)] == [old.parts]
        await store.append("t", [replace(old, parts={})], after=0)
        assert [one.parts for one in await store.read("t", since=1)] == [{}], "they went with the thread"

    @law
    async def test_deleting_the_beginning_keeps_the_rest_and_its_numbers(self, store: Checkpointer) -> None:
        await store.append("t", [entry(1), entry(2), entry(3, base=3), entry(4, "3")], after=0)
        await store.delete("t", before=3)
        await store.delete("nobody", before=3)
        assert numbers(await store.read("t", since=1)) == [3, 4]
        await store.append("t", [entry(5, base=3)], after=4, settles="3")
        assert numbers(await store.read("t")) == [3, 5]

    @law
    async def test_a_thread_may_be_named_anything(self, store: Checkpointer) -> None:
        for name in ("a'; DROP TABLE entries; --", "%s", "../../etc", "ü😀", " ", "x" * 5000):
            await store.append(name, [entry(1)], after=0)
            assert numbers(await store.read(name)) == [1]
            assert name in [thread.thread_id for thread in await store.threads()]

    @law
    async def test_a_large_body_is_kept_whole(self, store: Checkpointer) -> None:
        body = '{"text":"' + "ä" * 2_000_000 + '"}'
        await store.append("t", [entry(1, body=body)], after=0)
        assert (await store.read("t"))[0].body == body


def entry(
    seq: int, owner: str = "", *, base: int = 1, body: str = "{}", at: float | None = None
) -> ThreadEntry:
    return ThreadEntry(seq, owner, base, float(seq) if at is None else at, body)


def with_part(seq: int, data: bytes) -> ThreadEntry:
    """An entry that refers to a picture, with its bytes."""
    digest = sha256(data).hexdigest()
    body = f'{{"kind":"image","media_type":"image/png","url":"sha256:{digest}"}}'
    return ThreadEntry(seq, "", 1, float(seq), body, {digest: data})


def numbers(entries: Sequence[ThreadEntry]) -> list[int]:
    return [one.seq for one in entries]


@contextmanager
def refused() -> Generator[None]:
    try:
        yield
    except CheckpointError:
        return
    raise AssertionError("an entry of the thread was overwritten")
