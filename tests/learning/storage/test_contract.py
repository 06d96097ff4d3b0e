"""What every playbook promises, wherever it is kept: one suite, on files and on Postgres."""

from __future__ import annotations

import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from typing_extensions import override

from tests.learning.kit import compact, ids, note, reflect, strategy, words
from wesichain.errors import CorruptRecordError, DomainError, PlaybookError
from wesichain.learning import FunctionEmbedder, Playbook, PlaybookChange, Provenance, SemanticCurator
from wesichain.testing import FakeClock


class PlaybookContract(ABC):
    """`open` opens the same playbook each time that it is called in one test."""

    @abstractmethod
    def open(self, embedder: FunctionEmbedder | None = None) -> Playbook: ...

    @abstractmethod
    def stored(self) -> str:
        """Everything that is kept, as text."""

    @abstractmethod
    def cut_history(self) -> None:
        """Delete what came before the last compaction, as `compact(keep_history=False)` of 0.2.0 did."""

    @pytest.fixture
    def book(self) -> Iterator[Playbook]:
        with self.open() as opened:
            yield opened

    def test_what_is_recorded_is_there_with_its_stage_and_times(self, book: Playbook) -> None:
        kept = book.record(strategy("pay a bill", "a", "b", id="s1"), domain="shop")
        assert (kept.stage, kept.created_at > 0, kept.last_updated > 0) == ("staging", True, True)
        assert book.get("s1") == kept
        assert list(book.bullets("shop")) == [kept]
        assert list(book.domains()) == ["shop"]

    def test_another_process_sees_it_at_once(self, book: Playbook) -> None:
        with self.open() as other:
            assert list(other.bullets("shop")) == []
            kept = book.record(strategy("pay a bill", "a"), domain="shop")
            assert list(other.bullets("shop")) == [kept]
            assert list(other.retrieve("pay a bill", domain="shop")) == [kept]
            more = other.record(strategy("send a parcel", "b"), domain="shop")
            assert list(book.retrieve("send a parcel", domain="shop", k=1)) == [more]

    def test_shadow_and_quarantined_bullets_are_never_retrieved(self, book: Playbook) -> None:
        book.record_all(
            [
                strategy("pay a bill", "a", helpful=2, id="shadow"),
                strategy("pay a bill", "b", helpful=3, id="staging"),
                strategy("pay a bill", "c", helpful=9, id="prod"),
                strategy("pay a bill", "d", helpful=1, harmful=1, id="quarantined"),
            ],
            domain="shop",
        )
        book.promote("prod")
        assert set(ids(book.retrieve("pay a bill", domain="shop", k=9))) == {"staging", "prod"}

    def test_the_closest_come_first_and_evidence_decides_between_equals(self, book: Playbook) -> None:
        book.record_all(
            [
                strategy("send a parcel home", "a", helpful=9, id="far"),
                strategy("pay a bill", "b", helpful=3, harmful=1, id="shaky"),
                strategy("pay a bill", "c", helpful=9, id="proven"),
            ],
            domain="shop",
        )
        assert ids(book.retrieve("pay a bill", domain="shop", k=2)) == ["proven", "shaky"]
        assert list(book.retrieve("pay a bill", domain="shop", k=0)) == []

    def test_of_equals_the_shorter_way_comes_first_and_a_warning_last(self, book: Playbook) -> None:
        book.record_all(
            [
                strategy("pay a bill", "a", harmful=9, helpful=0, id="warning", section="Pitfalls"),
                strategy("pay a bill", "a", "b", "c", helpful=9, id="detour"),
                strategy("pay a bill", "a", "c", helpful=4, id="way"),
                strategy("pay a bill", "c", "d", helpful=3, harmful=1, id="doubtful"),
            ],
            domain="shop",
        )
        found = ids(book.retrieve("pay a bill", domain="shop", k=4))
        assert found == ["way", "detour", "doubtful", "warning"]

    def test_domains_are_apart_unless_transfer_is_asked_for(self, book: Playbook) -> None:
        book.record(strategy("pay a bill", "a", id="same"), domain="shop")
        book.record(strategy("pay a bill", "a", id="same"), domain="bank")
        book.record(strategy("pay a big old bill", "b", id="close"), domain="bank")
        book.record(strategy("paint a fence", "c", id="far"), domain="bank")
        assert ids(book.retrieve("pay a bill", domain="shop", k=9)) == ["same"]
        assert list(book.retrieve("pay a bill", domain="empty", k=9)) == []
        crossed = book.retrieve("pay a bill", domain="shop", k=9, cross_domain=True)
        assert sorted(ids(crossed)) == ["close", "same", "same"]
        with pytest.raises(PlaybookError, match="name one with domain="):
            book.get("same")
        assert book.get("same", domain="bank") is not None

    def test_a_hostile_domain_reaches_nothing(self, book: Playbook) -> None:
        for name in ("../x", "A", "system", ""):
            for touch in (book.bullets, book.journal, lambda name: book.retrieve("x", domain=name)):
                with pytest.raises(DomainError):
                    touch(name)
        assert list(book.domains()) == []

    def test_a_bullet_is_never_rewritten_and_its_counters_only_grow(self, book: Playbook) -> None:
        book.record(note("Do this.", id="b", helpful=3, harmful=1), domain="shop")
        with pytest.raises(PlaybookError, match="never rewritten"):
            book.record(note("Do that.", id="b"), domain="shop")
        kept = book.record(note("Do this.", id="b", helpful=1, harmful=2), domain="shop")
        assert (kept.helpful_count, kept.harmful_count) == (3, 2)
        before = len(book.journal("shop"))
        book.record(note("Do this.", id="b"), domain="shop")
        assert len(book.journal("shop")) == before

    def test_promotion_needs_evidence_or_force(self, book: Playbook) -> None:
        book.record(strategy("pay", "a", helpful=4, id="few"), domain="shop")
        with pytest.raises(PlaybookError, match="force=True"):
            book.promote("few")
        assert book.promote("few", force=True).stage == "prod"
        assert book.quarantine("few").stage == "quarantined"
        assert book.record(strategy("pay", "a", helpful=9, id="few"), domain="shop").stage == "quarantined"
        assert book.promote("few").stage == "prod"
        with pytest.raises(PlaybookError, match="no domain has"):
            book.quarantine("nobody")
        with pytest.raises(PlaybookError, match="the domain 'shop' has no bullet 'nobody'"):
            book.quarantine("nobody", domain="shop")
        assert book.get("nobody") is None

    def test_every_change_is_a_delta_chained_to_the_last(self, book: Playbook) -> None:
        book.record(note("One.", id="1"), domain="shop")
        book.record(note("Two.", id="2"), domain="shop")
        book.quarantine("1")
        journal = book.journal("shop")
        assert [(delta.seq, delta.cause) for delta in journal] == [
            (1, "record"),
            (2, "record"),
            (3, "quarantine"),
        ]
        assert [delta.prev for delta in journal] == ["0" * 32, journal[0].hash, journal[1].hash]
        assert list(book.journal("bank")) == []

    def test_any_state_can_be_brought_back_exactly(self, book: Playbook) -> None:
        states = [book.bullets("shop")]
        for number in range(4):
            bullet = strategy(
                "pay a bill", "a", helpful=number, id=str(number), provenance=Provenance("reflector")
            )
            book.record(bullet, domain="shop")
            states.append(book.bullets("shop"))
        book.quarantine("1")
        states.append(book.bullets("shop"))
        for seq, state in reversed(list(enumerate(states))):
            book.rollback("shop", to=seq)
            assert book.bullets("shop") == state
        book.rollback("shop", to=book.journal("shop")[4])
        assert book.bullets("shop") == states[5]
        book.rollback("shop", to=book.journal("shop")[2].hash)
        assert book.bullets("shop") == states[3]
        assert ids(book.retrieve("pay a bill", domain="shop", k=9)) == []
        with self.open() as other:
            assert other.bullets("shop") == states[3]
        for wrong in (-1, 99, "f" * 32):
            with pytest.raises(PlaybookError):
                book.rollback("shop", to=wrong)

    def test_a_rollback_takes_a_reflection_out_so_that_it_can_come_again(self, book: Playbook) -> None:
        reflection = reflect("Pay the bill 12", "a", "b")
        curator = SemanticCurator()
        assert curator.merge(book, reflection)
        assert not curator.merge(book, reflection)
        once = book.bullets("shop")
        book.rollback("shop", to=0)
        assert list(book.bullets("shop")) == []
        assert curator.merge(book, reflection)
        assert book.bullets("shop") == once

    def test_a_compaction_changes_nothing_but_the_time_to_open(
        self, book: Playbook, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for number in range(4):
            book.record(strategy("pay a bill", "a", helpful=number, id=str(number)), domain="shop")
        SemanticCurator().merge(book, reflect("Send a parcel", "c"))
        before, journal = book.bullets("shop"), book.journal("shop")
        compact(book, monkeypatch)
        compact(book, monkeypatch)
        assert (book.bullets("shop")[:-2], book.journal("shop")[:-2]) == (before, journal)
        book.quarantine("3")
        with self.open() as other:
            assert other.journal("shop")[:-3] == journal
            assert not SemanticCurator().merge(other, reflect("Send a parcel", "c"))
            other.rollback("shop", to=3)
            assert ids(other.bullets("shop")) == ["0", "1", "2"]
        assert ids(book.bullets("shop")) == ["0", "1", "2"]

    def test_a_reader_keeps_up_with_the_compactions_of_others(
        self, book: Playbook, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with self.open() as other:
            book.record(strategy("pay a bill", "a", id="1"), domain="shop")
            assert ids(other.retrieve("pay", domain="shop")) == ["1"]
            book.record(strategy("pay a bill", "b", id="2"), domain="shop")
            compact(book, monkeypatch)
            book.record(strategy("pay a bill", "c", id="3"), domain="shop")
            assert set(ids(other.retrieve("pay", domain="shop", k=9))) >= {"1", "2", "3"}

    def test_a_history_that_was_cut_off_cannot_be_gone_back_beyond(
        self, book: Playbook, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        book.record_all([note("Same.", id="1"), note("Same.", id="2")], domain="shop")
        last = compact(book, monkeypatch)
        book.close()
        self.cut_history()
        with self.open() as other:
            other.record(note("More.", id="more"), domain="shop")
            assert [delta.seq for delta in other.journal("shop")] == [3]
            other.rollback("shop", to=2)
            assert ids(other.bullets("shop")) == ["1", "2", last]
            with pytest.raises(PlaybookError, match="begins after delta 1"):
                other.rollback("shop", to=1)

    def test_what_only_a_compacted_state_holds_can_be_forgotten(
        self, book: Playbook, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        book.record(note("Erika Muster pays.", id="1"), domain="shop")
        last = compact(book, monkeypatch)
        book.close()
        self.cut_history()
        with self.open() as other:
            assert other.forget(matching="muster") == 1
            assert ids(other.bullets("shop")) == [last]
        assert "Muster" not in self.stored()

    def test_threads_lose_nothing(self, book: Playbook) -> None:
        def write(me: int) -> None:
            for number in range(10):
                book.record(note("Same.", id=f"{me}-{number}"), domain="shop")
                book.retrieve("same", domain="shop")

        threads = [threading.Thread(target=write, args=(me,)) for me in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(book.bullets("shop")) == 40
        assert [delta.seq for delta in book.journal("shop")] == list(range(1, 41))

    def test_closing_waits_for_whoever_is_at_work(self, book: Playbook) -> None:
        book.record(strategy("pay a bill", "a"), domain="shop")
        book.retrieve("pay", domain="shop")
        closing = threading.Thread(target=book.close)
        with book.view("shop"):
            closing.start()
            closing.join(0.2)
            assert closing.is_alive()
        closing.join()

    def test_a_failed_decision_leaves_everything_as_it_was(self, book: Playbook) -> None:
        book.record(note("Same.", id="1"), domain="shop")
        with pytest.raises(RuntimeError), book.writing("shop"):
            raise RuntimeError("changed my mind")
        assert len(book.journal("shop")) == 1
        book.record(note("Same.", id="2"), domain="shop")
        assert ids(book.bullets("shop")) == ["1", "2"]

    def test_after_a_failed_write_the_playbook_is_what_is_stored(self, book: Playbook) -> None:
        def write_and_fail() -> None:
            with book.writing("shop") as domain:
                change = PlaybookChange(puts=(strategy("pay a bill", "a", id="1"),))
                domain.write(change, at=0.0, cause="record")
                raise RuntimeError("changed my mind")

        with pytest.raises(RuntimeError):
            write_and_fail()
        with self.open() as other:
            assert list(book.bullets("shop")) == list(other.bullets("shop"))

    def test_another_embedder_makes_vectors_of_its_own(self, book: Playbook) -> None:
        book.record(strategy("pay a bill", "a", id="1"), domain="shop")
        book.retrieve("pay", domain="shop")
        book.close()
        shouting = FunctionEmbedder("shouting", 64, function=words().embed)
        longer = FunctionEmbedder("longer", 65, function=lambda texts: [[1.0] * 65 for _ in texts])
        for embedder in (shouting, longer, None):
            with self.open(embedder) as other:
                assert ids(other.retrieve("pay", domain="shop")) == ["1"]

    def test_vectors_are_kept_for_the_next_process(self, book: Playbook) -> None:
        book.record_all([strategy(f"task {word}", "a") for word in ("x", "y", "z")], domain="shop")
        book.retrieve("task x", domain="shop")
        book.close()
        asked: list[str] = []

        def spy(texts: list[str]) -> object:
            asked.extend(texts)
            return words().embed(texts)

        with self.open(FunctionEmbedder("words", 64, function=spy)) as other:
            assert len(other.retrieve("task y", domain="shop")) == 3
        assert asked == ["task y"]

    @pytest.mark.parametrize(
        "how",
        [{"id": "muster-7"}, {"task_id": "case-4711"}, {"matching": "erika MUSTER"}],
        ids=["by-id", "by-task", "by-a-name"],
    )
    @pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
    def test_what_is_forgotten_is_nowhere(
        self, book: Playbook, how: dict[str, str], monkeypatch: pytest.MonkeyPatch, *, compacted: bool
    ) -> None:
        """A name survives neither in the state nor in the journal, the index or the files."""
        with self.open() as other:
            book.record(strategy("pay a bill", "a", id="stays"), domain="shop")
            SemanticCurator().merge(book, reflect("Refund Erika Muster", "b", task_id="case-4711"))
            (learned,) = [item for item in book.bullets("shop") if item.id != "stays"]
            if "id" in how:
                how = {"id": learned.id}
            book.retrieve("Refund Erika Muster", domain="shop")
            other.retrieve("Refund Erika Muster", domain="shop")
            book.quarantine(learned.id)
            after = [compact(book, monkeypatch)] if compacted else []
            after.append(book.record(strategy("send a parcel", "c", id="after"), domain="shop").id)
            assert "Muster" in self.stored()
            assert book.forget(**how) == 1
            assert book.forget(**how) == 0
            assert ids(other.bullets("shop")) == ids(book.bullets("shop")) == ["stays", *after]
            assert learned not in book.retrieve("Refund Erika Muster", domain="shop", k=9)
            other.retrieve("Refund Erika Muster", domain="shop")
            kept = [item.change.forgotten for item in book.journal("shop")]
        book.close()
        text = self.stored()
        assert "Muster" not in text
        assert learned.id not in text
        assert ("case-4711" in text) == ("task_id" not in how)
        assert len(kept[-1]) == 1  # a hash says that something was
        with self.open() as again:
            assert ids(again.bullets("shop")) == ["stays", *after]
            assert ids(again.retrieve("pay a bill", domain="shop", k=1)) == ["stays"]
            again.rollback("shop", to=1)  # the rest of the past can still be brought back
            assert ids(again.bullets("shop")) == ["stays"]

    def test_forgetting_needs_one_thing_that_is_meant(self, book: Playbook) -> None:
        wrong: list[dict[str, str]] = [{}, {"id": ""}, {"id": "a", "matching": "b"}]
        for how in wrong:
            with pytest.raises(PlaybookError, match="forget takes one of"):
                book.forget(**how)

    def test_one_bullet_can_go_back_alone(self, book: Playbook) -> None:
        book.record(strategy("pay a bill", "a", id="mine"), domain="shop")
        book.promote("mine", force=True)
        book.record(strategy("send a parcel", "b", id="theirs"), domain="shop")
        book.record(strategy("pay a bill", "a", id="mine", helpful=9), domain="shop")
        assert book.rollback("shop", to=1, id="mine") is not None
        assert [(item.id, item.stage, item.helpful_count) for item in book.bullets("shop")] == [
            ("mine", "staging", 3),
            ("theirs", "staging", 3),
        ]
        assert book.rollback("shop", to=1, id="mine") is None
        book.rollback("shop", to=0, id="mine")
        assert ids(book.bullets("shop")) == ["theirs"]

    def test_many_domains(self, book: Playbook) -> None:
        for number in range(30):
            book.record(strategy("pay a bill", "a", id=str(number)), domain=f"d{number}")
        assert len(book.domains()) == 30
        assert book.get("27", domain="d27") == book.get("27")
        assert ids(book.retrieve("pay a bill", domain="d5", k=9)) == ["5"]


class TestFilePlaybook(PlaybookContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "playbook"

    @override
    def open(self, embedder: FunctionEmbedder | None = None) -> Playbook:
        return Playbook.open(self.path, embedder or words(), clock=FakeClock())

    @override
    def stored(self) -> str:
        return "".join(path.read_bytes().decode("latin-1") for path in self.path.rglob("*") if path.is_file())

    @override
    def cut_history(self) -> None:
        for past in self.path.glob("*/past-*.jsonl"):
            past.unlink()


class TestPostgresPlaybook(PlaybookContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres: str) -> Iterator[None]:
        """A schema of its own for every test."""
        schema = f"t{uuid.uuid4().hex[:12]}"
        with psycopg.connect(postgres, autocommit=True) as database:
            database.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
            database.execute(f"CREATE SCHEMA {schema}")
            self.name = schema
            self.url = f"{postgres}&options=-csearch_path%3D{schema},public&application_name={schema}"
            yield
            database.execute(f"DROP SCHEMA {schema} CASCADE")

    @override
    def open(self, embedder: FunctionEmbedder | None = None) -> Playbook:
        return Playbook.postgres(self.url, embedder or words(), clock=FakeClock())

    @override
    def stored(self) -> str:
        tables = ("delta", "state", "domain")
        with psycopg.connect(self.url) as database:
            return "".join(
                str(database.execute(f"SELECT * FROM wesichain_playbook_{name}").fetchall())
                for name in tables
            )

    @override
    def cut_history(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as database:
            database.execute("DELETE FROM wesichain_playbook_delta")

    def test_a_broken_connection_is_made_anew(self, postgres: str) -> None:
        with self.open() as book:
            book.record(note("Same.", id="1"), domain="shop")
            with psycopg.connect(postgres, autocommit=True) as database:
                database.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                    (self.name,),
                )
            with pytest.raises(PlaybookError, match="the playbook in Postgres cannot be used"):
                book.bullets("shop")
            assert ids(book.bullets("shop")) == ["1"]

    def test_a_row_that_was_tampered_with_is_noticed(self) -> None:
        with self.open() as book:
            book.record(note("Same.", id="1"), domain="shop")
            with psycopg.connect(self.url, autocommit=True) as database:
                database.execute("UPDATE wesichain_playbook_delta SET line = replace(line, 'Same', 'Evil')")
            with self.open() as other, pytest.raises(CorruptRecordError, match="line 2"):
                other.bullets("shop")
