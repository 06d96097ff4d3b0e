"""Files of lines: incomplete last lines, short writes, full disks, many writers."""

from __future__ import annotations

import json
import multiprocessing
import random
import stat
import subprocess
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.warm import python
from wesichain.errors import ConfigError, PlaybookError
from wesichain.platform.files import sync_folder
from wesichain.store import Lines, read_json_lines
from wesichain.store.lines import append_line, replace_file

FILES = Lines(PlaybookError)
append, exclusive, read_lines, write_file = FILES.append, FILES.exclusive, FILES.read, FILES.replace
LINES = [b'{"a":1}', b'{"b":"' + b"x" * 50 + b'"}', b'{"c":"\xc3\xa9"}']


def test_a_file_cut_at_any_byte_keeps_every_whole_line_and_takes_the_next(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, LINES, sync=False)
    whole = path.read_bytes()
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = whole[:cut].split(b"\n")[:-1]
        assert read_lines(path)[0] == kept
        append(path, [b"next"], sync=False)
        assert read_lines(path)[0] == [*kept, b"next"]


@draws(30, shares_fixtures=True)
@given(st.binary(max_size=200), st.integers(0, 3))
def test_whatever_follows_the_last_newline_is_cut_off(tmp_path: Path, tail: bytes, blocks: int) -> None:
    path = tmp_path / "log"
    torn = tail.replace(b"\n", b"") + b"\0" * (blocks * 65_536)
    path.write_bytes(b"first\n" + torn)
    assert read_lines(path)[0] == [b"first"]
    append(path, [b"second"], sync=True)
    assert path.read_bytes() == b"first\nsecond\n"


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    append(path, [b"one"], sync=False)
    lines, end = read_lines(path)
    append(path, [b"two", b"three"], sync=False)
    assert (lines, read_lines(path, end)) == ([b"one"], ([b"two", b"three"], path.stat().st_size))


def run_python(source: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [*python(), "-c", textwrap.dedent(source), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """A limit on the file's size makes one write short and the next one fail: the short one is undone."""
    path = tmp_path / "log"
    append(path, [b"first"], sync=True)
    done = run_python(
        """
        import resource, signal, sys
        from pathlib import Path
        from wesichain.errors import PlaybookError
        from wesichain.store import Lines
        append = Lines(PlaybookError).append
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        path = Path(sys.argv[1])
        try:
            append(path, [b"y" * 400], sync=True)
        except PlaybookError as error:
            print("refused:", error)
        print("left:", path.read_bytes())
        append(path, [b"second"], sync=True)
        """,
        path,
    )
    assert "refused:" in done.stdout, done.stderr
    assert "no line was added" in done.stdout
    assert r"left: b'first\n'" in done.stdout, "a full disk stays full: nobody may come to cut it off"
    assert read_lines(path)[0] == [b"first", b"second"]


def write_lines(root: Path, me: int) -> None:
    chance = random.Random(me)
    for number in range(50):
        size = int(100 * 2000 ** chance.random())
        line = json.dumps({"me": me, "number": number, "filler": "z" * size}).encode()
        with exclusive(root / "lock"):
            append(root / "log", [line], sync=False)


@pytest.mark.filterwarnings("ignore:.*fork")
def test_six_processes_lose_nothing(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")  # forked, so that nothing is imported again
    writers = [fork.Process(target=write_lines, args=(tmp_path, me)) for me in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0] * 6
    found = [json.loads(line) for line in read_lines(tmp_path / "log")[0]]
    assert len(found) == 300
    assert max(len(row["filler"]) for row in found) > 100_000
    for me in range(6):
        assert [row["number"] for row in found if row["me"] == me] == list(range(50))


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    append(tmp_path / "log", [b"x"], sync=False)
    write_file(tmp_path / "whole", [b"x"], sync=True)
    with exclusive(tmp_path / "lock"):
        pass
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (tmp_path / "log").symlink_to(victim)
    with pytest.raises(PlaybookError, match="cannot be opened"):
        append(tmp_path / "log", [b"x"], sync=False)
    with pytest.raises(PlaybookError, match="cannot be opened"):
        read_lines(tmp_path / "log")
    assert victim.read_text() == "precious\n"


def test_a_whole_file_is_replaced_or_left(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "file"
    with pytest.raises(PlaybookError, match="cannot be written"):
        write_file(path, [b"x"], sync=False)
    path.parent.mkdir()
    write_file(path, [b"old"], sync=False)
    write_file(path, [b"new", memoryview(b"er")], sync=True)
    assert path.read_bytes() == b"newer"
    with pytest.raises(TypeError):
        write_file(path, [b"half", 5], sync=False)  # type: ignore[list-item]  # it fails after the first part
    assert path.read_bytes() == b"newer"
    assert list(path.parent.iterdir()) == [path], "no draft is left"


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_only_a_newline_ends_a_line_of_json(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    path = tmp_path_factory.mktemp("lines") / "values.jsonl"
    path.write_bytes(b"\n".join(json.dumps(text, ensure_ascii=False).encode() for text in texts))
    assert [value for _, value in read_json_lines(path)] == texts


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "values.jsonl"
    path.write_bytes(b'{"a": 1}\r\n\n{"a": \n')
    values = read_json_lines(path)
    assert next(values) == (1, {"a": 1})
    with pytest.raises(ConfigError, match=r"values\.jsonl, line 3: not JSON"):
        next(values)
    with pytest.raises(ConfigError, match="cannot be read"):
        next(read_json_lines(tmp_path / "nowhere"))


def test_files_that_a_user_named_are_written_through_links_and_closed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    before = [*Path("/dev/fd").iterdir()]
    for line in (b"one", b"two"):
        append_line(tmp_path / "link", line)
    replace_file(tmp_path / "whole", [b"a", b"b"], sync=True)
    sync_folder(tmp_path)
    assert [*Path("/dev/fd").iterdir()] == before
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "file": b"one\ntwo\n", "link": b"one\ntwo\n", "whole": b"ab"
    }  # fmt: skip
