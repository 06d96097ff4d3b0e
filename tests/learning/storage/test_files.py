"""A playbook on disk: damage, torn tails, full disks, dead processes, and an index that does not matter."""

from __future__ import annotations

import json
import multiprocessing
import signal
import stat
import subprocess
import textwrap
import time
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest

from tests.learning.kit import compact, ids, note, strategy, words
from tests.warm import python
from wesichain.errors import CorruptRecordError, PlaybookError
from wesichain.learning import Playbook
from wesichain.learning.internal import DATA_MODEL
from wesichain.platform.names import hashed_name


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A playbook of five bullets, closed."""
    with open_at(tmp_path / "book") as book:
        for number in range(5):
            book.record(strategy("pay a bill", "a", id=str(number)), domain="shop")
        book.record(strategy("pay a bill", "a", id="other"), domain="bank")
        book.retrieve("pay a bill", domain="shop")
    return tmp_path / "book"


def open_at(path: Path) -> Playbook:
    return Playbook.open(path, words(), sync=False)


def log_of(path: Path, domain: str = "shop") -> Path:
    return path / hashed_name(domain) / "log.jsonl"


def test_a_log_cut_at_any_byte_opens_with_every_whole_delta_and_takes_the_next(path: Path) -> None:
    whole = log_of(path).read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for cut in [0, 1, *(end + shift for end in ends for shift in (-1, 0, 1)), len(whole)]:
        log_of(path).write_bytes(whole[: min(cut, len(whole))])
        kept = max(0, sum(end <= cut for end in ends) - 1)  # the first line is the head
        with open_at(path) as book:
            assert ids(book.bullets("shop")) == [str(number) for number in range(kept)]
            book.record(note("next", id="next"), domain="shop")
        with open_at(path) as book:
            assert ids(book.bullets("shop")) == [*map(str, range(kept)), "next"]


DAMAGE = [
    pytest.param(lambda line: line[:40] + b"x" + line[41:], id="a-changed-byte"),
    pytest.param(lambda line: line[: len(line) // 2], id="half-a-line"),
    pytest.param(lambda line: b"\0" * len(line), id="zeros"),
    pytest.param(lambda line: b"", id="an-empty-line"),
    pytest.param(
        lambda line: line.replace(b'"helpful_count":3', b'"helpful_count":9'), id="a-better-counter"
    ),
]


@pytest.mark.parametrize("harm", DAMAGE)
def test_a_bad_record_in_the_middle_is_named_and_the_rest_can_be_saved(
    path: Path, harm: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = log_of(path).read_bytes().split(b"\n")
    lines[3] = harm(lines[3])  # type: ignore[operator]  # a table of functions
    log_of(path).write_bytes(b"\n".join(lines))
    with open_at(path) as book:
        with pytest.raises(CorruptRecordError, match=r"log\.jsonl, line 4.*repair\('shop'\)"):
            book.bullets("shop")
        assert ids(book.bullets("bank")) == ["other"]
        repaired = book.repair("shop")
        assert (repaired.kept, repaired.damaged) == (5, ("log.jsonl:4",))
        assert (log_of(path).parent / "damaged.jsonl").read_bytes() == lines[3] + b"\n"
        assert b'"line":4' in log_of(path).read_bytes().split(b"\n")[3]
        assert ids(book.bullets("shop")) == ["0", "1", "3", "4"]
        book.record(note("next", id="next"), domain="shop")
    with open_at(path) as book:
        assert ids(book.bullets("shop")) == ["0", "1", "3", "4", "next"]
        assert [delta.seq for delta in book.journal("shop")] == [1, 2, 4, 5, 6]
        book.rollback("shop", to=4)
        assert ids(book.bullets("shop")) == ["0", "1", "3"]
        compact(book, monkeypatch)
        assert book.repair("shop").damaged == ()
        assert len(book.journal("shop")) == 7


def test_nothing_is_forgotten_where_an_earlier_log_is_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_at(path) as book:
        compact(book, monkeypatch)
        (past,) = log_of(path).parent.glob("past-*.jsonl")
        past.write_bytes(past.read_bytes().replace(b'"id":"3"', b'"id":"7"'))
        with pytest.raises(PlaybookError, match=r"nothing is erased .* repair it first"):
            book.forget(id="3")
        book.repair("shop")
        assert book.forget(id="3") == 1


def test_nothing_is_forgotten_in_a_damaged_log_and_all_of_it_in_a_repaired_one(path: Path) -> None:
    lines = log_of(path).read_bytes().split(b"\n")
    log_of(path).write_bytes(b"\n".join([*lines[:3], b"?", *lines[4:]]))
    with open_at(path) as book:
        with pytest.raises(CorruptRecordError, match="line 4"):
            book.forget(id="3")
        book.repair("shop")
        assert book.forget(id="3") == 1
        assert ids(book.bullets("shop")) == ["0", "1", "4"]
    assert b'"id":"3"' not in log_of(path).read_bytes()
    with open_at(path) as book:
        assert ids(book.bullets("shop")) == ["0", "1", "4"]


@pytest.mark.parametrize("line", [{"kind": "mood"}, {"kind": "delta", "seq": 6}], ids=["unknown", "in-part"])
def test_a_line_that_is_sealed_and_no_record_is_named(path: Path, line: dict[str, object]) -> None:
    body = json.dumps(line)
    seal = sha256(body.encode()).hexdigest()[:32]
    with log_of(path).open("a") as log:
        log.write(f'{{"hash":"{seal}",{body[1:]}\n')
    with (
        open_at(path) as book,
        pytest.raises(CorruptRecordError, match=r"line 7: it (has the unknown kind|is not a)"),
    ):
        book.bullets("shop")


def test_a_line_that_is_missing_is_noticed(path: Path) -> None:
    lines = log_of(path).read_bytes().split(b"\n")
    log_of(path).write_bytes(b"\n".join(lines[:3] + lines[4:]))
    with open_at(path) as book:
        with pytest.raises(CorruptRecordError, match="a line is missing"):
            book.bullets("shop")
        book.repair("shop")
        assert ids(book.bullets("shop")) == ["0", "1", "3", "4"]


def test_a_lost_head_or_state_line_costs_only_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_at(path) as book:
        compact(book, monkeypatch)
        book.record(note("next", id="next"), domain="shop")
    lines = log_of(path).read_bytes().split(b"\n")
    for bad in range(3):
        log_of(path).write_bytes(b"\n".join(b"?" if at == bad else line for at, line in enumerate(lines)))
        with open_at(path) as book:
            with pytest.raises(CorruptRecordError):
                book.bullets("shop")
            book.repair("shop")
            assert "next" in ids(book.bullets("shop"))


def test_a_missing_line_of_a_compacted_state_is_noticed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_at(path) as book:
        compact(book, monkeypatch)
        book.record(note("next", id="next"), domain="shop")
    lines = log_of(path).read_bytes().split(b"\n")
    log_of(path).write_bytes(b"\n".join([lines[0], *lines[2:]]))
    with open_at(path) as book, pytest.raises(CorruptRecordError, match="a line is missing"):
        book.bullets("shop")


def test_the_log_of_another_domain_is_not_taken_for_ones_own(path: Path) -> None:
    log_of(path).write_bytes(log_of(path, "bank").read_bytes())
    with open_at(path) as book:
        with pytest.raises(CorruptRecordError, match="log of 'bank'"):
            book.bullets("shop")
        with pytest.raises(CorruptRecordError, match="cannot be repaired"):
            book.repair("shop")
        assert list(book.domains()) == ["bank"]


def test_data_of_a_later_major_version_is_refused(path: Path) -> None:
    meta = path / "playbook.json"
    meta.write_text(meta.read_text().replace(f'"{DATA_MODEL}"', '"2.0.0"'))
    with pytest.raises(PlaybookError, match=r"version 2\.0\.0"):
        open_at(path)


@pytest.mark.parametrize("damaged", ["nonsense", '{"format": 5}', "", "[]"])
def test_a_damaged_description_is_written_anew_and_nothing_is_lost(path: Path, damaged: str) -> None:
    with open_at(path) as book:
        book.record(note("Same.", id="kept"), domain="shop")
    (path / "playbook.json").write_text(damaged)
    with open_at(path) as book:
        assert ids(book.bullets("shop"))[-1] == "kept"
    assert DATA_MODEL in (path / "playbook.json").read_text()


INDEXES = [
    pytest.param(None, id="deleted"),
    pytest.param(b"", id="empty"),
    pytest.param(b"garbage" * 100, id="garbage"),
    pytest.param(b'{"count": 3}\n', id="a-head-without-a-body"),
    pytest.param("half", id="cut-in-half"),
    pytest.param("flipped", id="with-one-byte-changed"),
    pytest.param("moved", id="with-a-wrong-count"),
    pytest.param("foreign", id="from-another-playbook"),
]


@pytest.mark.parametrize("kind", INDEXES)
def test_an_index_is_rebuilt_that_was(path: Path, tmp_path: Path, kind: str | bytes | None) -> None:
    index = log_of(path).with_name("index.faiss")
    saved = index.read_bytes()
    if kind is None:
        index.unlink()
    elif kind == "foreign":
        with open_at(tmp_path / "elsewhere") as book:
            book.record(strategy("paint a fence", "z", id="0"), domain="shop")
            book.retrieve("paint", domain="shop")
        index.write_bytes(log_of(tmp_path / "elsewhere").with_name("index.faiss").read_bytes())
    else:
        harmed = {
            "half": saved[: len(saved) // 2],
            "flipped": saved[:-9] + b"\xff" + saved[-8:],
            "moved": saved.replace(b'"count":5', b'"count":6', 1).replace(b'"count": 5', b'"count": 6', 1),
        }
        assert saved not in harmed.values()
        index.write_bytes(kind if isinstance(kind, bytes) else harmed[kind])
    with open_at(path) as book:
        with book.view("shop") as view:
            found = view.nearest(book.embed(["pay a bill"])[0], k=9)
        assert len(found) == 5
        assert all(match.similarity > 0.99 for match in found)


def test_a_process_that_is_killed_between_log_and_index_loses_nothing(path: Path) -> None:
    source = textwrap.dedent(
        """
        import os, signal, sys
        from tests.learning.kit import strategy, words
        from wesichain.learning import Playbook
        book = Playbook.open(sys.argv[1], words())
        book.retrieve("pay", domain="shop")
        book.record(strategy("pay a bill", "b", id="last"), domain="shop")
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = subprocess.run([*python(), "-c", source, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    with open_at(path) as book:
        assert "last" in ids(book.retrieve("pay a bill", domain="shop", k=9))


def test_a_full_disk_refuses_a_record_and_keeps_the_playbook(path: Path) -> None:
    source = textwrap.dedent(
        """
        import resource, signal, sys
        from tests.learning.kit import note, words
        from wesichain.errors import PlaybookError
        from wesichain.learning import Playbook
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        book = Playbook.open(sys.argv[1], words())
        book.bullets("shop")
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            book.record(note("big " * 5000, id="big"), domain="shop")
        except PlaybookError as error:
            print("refused", error)
        print(len(book.bullets("shop")), book.get("big"))
        book.record(note("small", id="small"), domain="shop")
        book.close()
        """
    )
    command = [*python(), "-c", source, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "refused" in done.stdout, done.stderr
    assert "5 None" in done.stdout
    with open_at(path) as book:
        assert ids(book.bullets("shop")) == ["0", "1", "2", "3", "4", "small"]


def record_notes(path: Path, me: int) -> None:
    with open_at(path) as book:
        for number in range(4):
            book.record(note("word " * (10 + 400 * number), id=f"{me}-{number}"), domain="shop")


@pytest.mark.filterwarnings("ignore:.*fork")
def test_three_processes_record_into_one_domain(path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=record_notes, args=(path, me)) for me in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * 3
    with open_at(path) as book:
        assert len(book.bullets("shop")) == 17
        assert [delta.seq for delta in book.journal("shop")] == list(range(1, 18))


def test_nothing_of_a_domain_or_an_id_reaches_a_path(path: Path) -> None:
    with open_at(path) as book:
        book.record(note("x", id="../../etc/passwd"), domain="shop")
        assert book.get("../../etc/passwd") is not None
    names = {part.name for part in path.rglob("*")}
    assert not any("shop" in name or "passwd" in name for name in names)
    modes = {stat.S_IMODE(part.stat().st_mode) for part in path.rglob("*") if part.is_file()}
    assert modes == {0o600}
    folders = [path, *(part for part in path.rglob("*") if part.is_dir())]
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o700}


def test_a_place_where_nothing_can_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(PlaybookError, match="a playbook cannot be created at"):
        open_at(tmp_path / "file")
    (tmp_path / "odd" / "playbook.json").mkdir(parents=True)
    with pytest.raises(PlaybookError, match="holds no playbook"):
        open_at(tmp_path / "odd")
    with (
        open_at(tmp_path / "book") as book,
        pytest.raises(PlaybookError, match="cannot be written: Is a dir"),
    ):
        book.export(tmp_path)


def test_a_log_without_a_head_is_not_taken_for_ones_own(path: Path) -> None:
    lines = log_of(path, "bank").read_bytes().split(b"\n")
    log_of(path).write_bytes(b"\n".join(lines[1:]))
    with open_at(path) as book, pytest.raises(CorruptRecordError, match="line 1"):
        book.bullets("shop")


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    with open_at(tmp_path / "book") as book:
        (tmp_path / "book" / hashed_name("shop")).symlink_to(tmp_path / "elsewhere")
        with pytest.raises(PlaybookError, match="is a link"):
            book.record(note("x"), domain="shop")
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("processes", [1, 10])
def test_a_long_log_is_compacted_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    monkeypatch.setattr("wesichain.learning.storage.domain.LONG", 20)
    numbers = iter(range(50))
    for _ in range(processes):
        with open_at(tmp_path / "book") as book:
            for number in islice(numbers, 50 // processes):
                book.record(note("x", id="b", helpful=number), domain="shop")
    with open_at(tmp_path / "book") as book:
        assert len(book.journal("shop")) == 50
    past = sorted(log_of(tmp_path / "book").parent.glob("past-*.jsonl"))
    assert [int(file.stem.removeprefix("past-")) for file in past] == [21, 42]
    assert len(log_of(tmp_path / "book").read_bytes().split(b"\n")) < 25
    with open_at(tmp_path / "book") as book:
        book.rollback("shop", to=5)
        assert book.bullets("shop")[0].helpful_count == 4


def test_a_deleted_log_is_an_empty_domain(path: Path) -> None:
    with open_at(path) as book:
        assert len(book.retrieve("pay", domain="shop", k=9)) == 5
        log_of(path).unlink()
        assert list(book.bullets("shop")) == []
        assert list(book.retrieve("pay", domain="shop", k=9)) == []


def test_recording_costs_the_same_however_much_is_there(tmp_path: Path) -> None:
    """CPU time, and bytes written: one delta."""

    def cost(size: int) -> tuple[float, int]:
        with open_at(tmp_path / str(size)) as book:
            book.record_all([note("x", id=str(number)) for number in range(size)], domain="shop")
            book.retrieve("x", domain="shop")
            length = log_of(tmp_path / str(size)).stat().st_size
            best = 1.0
            for number in range(20):
                began = time.process_time()
                book.record(note("x", id=f"new{number:03}", helpful=3), domain="shop")
                best = min(best, time.process_time() - began)
            return best, log_of(tmp_path / str(size)).stat().st_size - length

    small, large = cost(10), cost(500)
    assert abs(large[1] - small[1]) < 20 * 20  # the numbers of the deltas have more digits
    assert large[0] < 5 * small[0] + 0.001
