"""The workspace: files inside one root, and nothing outside it."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import shutil
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from tests.draws import draws
from tests.kit.talking import call, scripted, tools_of
from wesichain.core import ToolCall
from wesichain.errors import ConfigError, DuplicateToolError, ToolError
from wesichain.kit import FileLimits, Files, FolderFiles, MemoryFiles, Workspace
from wesichain.tools import CancellationToken, ToolContext

SECRET = "the secret of the host"


@pytest.fixture(params=["folder", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return FolderFiles(tmp_path / "root") if request.param == "folder" else MemoryFiles()


class TestTools:
    @draws(8)
    @given(text=st.text(st.characters(codec="utf-8"), max_size=200), length=st.integers(1, 50))
    def test_the_pages_of_a_file_are_the_file(self, text: str, length: int) -> None:
        async def check() -> None:
            tools = tools_of(Workspace(MemoryFiles()))
            await call(tools, "write_file", path="a", text=text)
            pages, start = "", cast("int | None", 0)
            while start is not None:
                page = await call(tools, "read_file", path="a", start=start, length=length)
                pages, start = pages + page["text"], page["next"]
            assert pages == text

        asyncio.run(check())

    @pytest.mark.parametrize("path", ["a/b", "d"], ids=["below-a-file", "in-place-of-a-folder"])
    async def test_a_file_is_no_folder(self, files: Files, path: str) -> None:
        files.write("a", "aaa")
        files.write("d/e", "e")
        with pytest.raises(Exception, match=r"cannot be both a file and a folder|directory"):
            await call(tools_of(Workspace(files)), "write_file", path=path, text="")
        assert (files.read("a"), files.read("d/e")) == ("aaa", "e")

    @pytest.mark.parametrize(
        ("length", "said"), [(1024, "too long"), (1025, "1 to 1024 characters, not 1025")]
    )
    def test_a_path_has_a_length(self, files: Files, length: int, said: str) -> None:
        with pytest.raises(ToolError, match=said):
            files.read("x" * length)

    async def test_edits_at_the_same_time_are_all_made(self, files: Files) -> None:
        tools = tools_of(Workspace(files))
        files.write("a", " ".join(f"<{number}>" for number in range(20)))
        edits = (
            call(tools, "edit_file", path="a", old=f"<{number}>", new=f"[{number}]") for number in range(20)
        )
        await asyncio.gather(*edits)
        assert files.read("a") == " ".join(f"[{number}]" for number in range(20))

    async def test_a_root_for_each_caller(self, tmp_path: Path) -> None:
        space = Workspace(lambda ctx: FolderFiles(tmp_path / ctx.deps))
        writes = ToolCall("w", "write_file", {"path": "a", "text": "hers"})
        agent, _ = scripted([writes, "done", ToolCall("l", "list_files", {}), "done"], space)
        await agent.run("write", deps="ann")
        outcome = await agent.outcome("list", deps="bob")
        assert '"files":[]' in outcome.messages[-2].text
        assert (tmp_path / "ann" / "a").read_text() == "hers"

    def test_two_workspaces_are_refused(self) -> None:
        with pytest.raises(DuplicateToolError):
            scripted([], Workspace(MemoryFiles()), Workspace(MemoryFiles()))

    @pytest.mark.parametrize("files", [None, "path", MemoryFiles])
    def test_what_are_no_files_is_refused(self, files: Any) -> None:
        with pytest.raises(ConfigError, match="is not a workspace"):
            Workspace(files)


LIMITS = FileLimits(file_bytes=10, total_bytes=25, files=3)


@pytest.mark.parametrize(
    "make", [lambda path: FolderFiles(path, limits=LIMITS), lambda _: MemoryFiles(limits=LIMITS)]
)
class TestLimits:
    def test_a_file_the_sum_and_the_number_are_bounded(
        self, make: Callable[..., Files], tmp_path: Path
    ) -> None:
        files = make(tmp_path / "root")
        with pytest.raises(ToolError, match="at most 10"):
            files.write("a", "ä" * 6)
        files.write("a", "0123456789")
        files.write("a", "9876543210")  # in its place
        files.write("b", "0123456789")
        with pytest.raises(ToolError, match="25 bytes"):
            files.write("c", "012345")
        files.write("c", "0")
        with pytest.raises(ToolError, match="3 files"):
            files.write("d", "")
        assert files.sizes() == {"a": 10, "b": 10, "c": 1}
        with pytest.raises(ToolError, match="surrogates"):
            files.write("a", "\ud800")


@contextmanager
def often_switched() -> Generator[None]:
    """Switch threads at every chance."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def write_many(root: Path, me: int, start: Any) -> None:
    files = FolderFiles(root, limits=FileLimits(files=30))
    start.wait()
    for number in range(30):
        with suppress(ToolError):
            files.write(f"{me}-{number}", "x")


class TestLimitsOfAFolder:
    @pytest.mark.parametrize("name", [".part-x", "a/.part-x", ".part-x/a", ".PART-x"])
    def test_no_name_is_free(self, name: str, tmp_path: Path) -> None:
        """The names of drafts are not listed, and so were not counted."""
        files = FolderFiles(tmp_path, limits=LIMITS)
        with pytest.raises(ToolError, match="names are kept for files that are being written"):
            files.write(name, "x")
        with pytest.raises(ToolError, match="names are kept"):
            files.read(name)
        assert [*tmp_path.iterdir()] == []

    @pytest.mark.parametrize("shared", [True, False], ids=["one-object", "an-object-for-each-call"])
    def test_writers_side_by_side_do_not_exceed_them(self, tmp_path: Path, shared: bool) -> None:
        limits = FileLimits(total_bytes=500, files=50)
        one = FolderFiles(tmp_path, limits=limits)

        def write(number: int) -> bool:
            with suppress(ToolError):
                (one if shared else FolderFiles(tmp_path, limits=limits)).write(f"f{number}", "x" * 10)
                return True
            return False

        with often_switched(), ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(write, range(200))) == 50
        assert len(one.sizes()) == 50

    @pytest.mark.filterwarnings("ignore:.*fork")
    def test_writers_in_other_processes_do_not_exceed_them(self, tmp_path: Path) -> None:
        fork = multiprocessing.get_context("fork")  # forked, so that nothing is imported again
        start = fork.Barrier(4)
        writers = [fork.Process(target=write_many, args=(tmp_path, me, start)) for me in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(120)
        assert [writer.exitcode for writer in writers] == [0] * 4
        assert len(FolderFiles(tmp_path).sizes()) == 30

    def test_a_linked_file_counts(self, tmp_path: Path) -> None:
        """It is not listed, but it is there."""
        (tmp_path / "elsewhere").write_text("x" * 20)
        root = tmp_path / "root"
        root.mkdir()
        (root / "linked").hardlink_to(tmp_path / "elsewhere")
        with pytest.raises(ToolError, match="25 bytes"):
            FolderFiles(root, limits=LIMITS).write("a", "x" * 6)


@pytest.mark.parametrize("limit", ["file_bytes", "total_bytes", "files"])
def test_a_limit_below_nothing_is_a_mistake(limit: str) -> None:
    FileLimits(**{limit: 0})
    with pytest.raises(ConfigError, match="0 or more"):
        FileLimits(**{limit: -1})


def test_what_a_folder_has_beyond_its_limits_or_without_a_usable_name(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    names = ["a", "below/b", "below/c", "d", "e"]
    for name in (*names, ".part-x", "bell\x07"):
        (tmp_path / name).write_bytes(b"x" * (11 if name == "a" else 1))
    files = FolderFiles(tmp_path, limits=LIMITS)
    assert [*files.sizes()] == ["a", "below/b", "below/c", "d"]  # one more than there may be
    assert [*FolderFiles(tmp_path).sizes()] == names
    with pytest.raises(ToolError, match="more than 10 bytes, and is not read"):
        files.read("a")
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert files.read("a") == "x" * 10


def test_folders_and_files_are_the_owners_alone_and_no_handle_stays_open(tmp_path: Path) -> None:
    files = FolderFiles(tmp_path / "new" / "root")
    before = psutil.Process().num_fds()
    files.write("a/b/c", "x")
    assert files.read("a/b/c") == "x"
    with pytest.raises(ToolError):
        files.read("a/none/c")
    assert files.sizes() == {"a/b/c": 1}
    assert psutil.Process().num_fds() == before
    modes = {
        name: (tmp_path / "new/root" / name).stat().st_mode & 0o777 for name in (".", "a", "a/b", "a/b/c")
    }
    assert modes == {".": 0o700, "a": 0o700, "a/b": 0o700, "a/b/c": 0o600}


async def test_a_match_is_shown_with_its_surroundings_wherever_it_stands() -> None:
    files = MemoryFiles()
    files.write("a", "." * 100 + "Fish" + "." * 100 + "fish" + "." * 200 + "FISH")
    files.write("b", "\u0130 Fish fish")  # its lower case is longer
    found = await call(tools_of(Workspace(files)), "search_files", text="fish")
    assert [(match["path"], match["start"], len(match["text"])) for match in found] == [
        ("a", 20, 164), ("a", 124, 164), ("a", 328, 84), ("b", 0, 11)
    ]  # fmt: skip
    assert found[0]["text"] == "." * 80 + "Fish" + "." * 80
    files.write("c", "fish " + "." * 200 + "fish ." * 400)
    assert len(await call(tools_of(Workspace(files)), "search_files", text="fish")) <= 50
    for number in range(60):
        files.write(f"n{number}", "fish")
    assert len(await call(tools_of(Workspace(files)), "search_files", text="fish")) == 50


class CountedFiles(MemoryFiles):
    """Notes which files are read."""

    def __init__(self) -> None:
        super().__init__()
        self.were_read: list[str] = []

    @override
    def read(self, path: str) -> str:
        self.were_read.append(path)
        return super().read(path)


async def test_a_search_stops_at_its_limit_and_when_its_run_is_cancelled() -> None:
    files, token = CountedFiles(), CancellationToken()
    for number in range(60):
        files.write(f"n{number:02}", "fish")
    search, ctx = ToolCall("c", "search_files", {"text": "fish"}), ToolContext(cancellation=token)
    registry = tools_of(Workspace(files))
    assert len(cast("Any", (await registry.dispatch(search, ctx)).value)) == 50
    assert len(files.were_read) == 50
    token.cancel()
    assert (await registry.dispatch(search, ctx)).value == []
    assert len(files.were_read) == 50


@pytest.mark.parametrize("length", [0, -1])
async def test_a_page_has_a_length(files: Files, length: int) -> None:
    files.write("a", "aaa")
    with pytest.raises(Exception, match=f"length is {length}; read 1 to 6000 characters"):
        await call(tools_of(Workspace(files)), "read_file", path="a", length=length)


NAMES = [
    "../secret", "a/../../secret", "..", "/etc/passwd", "//etc/passwd", "\\etc\\passwd", "..\\secret",
    "C:/secret", "C:secret", "a/..", "\u2024\u2024/secret", "\uff0e\uff0e/secret", "\uff0e\uff0e\uff0fsecret",
    "a\uff0f..\uff0fsecret", "\u2025/secret", "a\x00b", "../secret\x00.txt", "a\nb", "\u202eterces", "\u200b..",
    ".. /secret", " ../secret", "a/ .. /../secret", "", "a" * 300, "a/" * 40 + "b", "x" * 2000, "\ud800",
    "\uff3csecret", "\uff0fetc\uff0fpasswd", "\u2028..", "./../secret", "a/./../../secret", "a//../../secret",
]  # fmt: skip
LITERAL = [
    "%2e%2e/secret",
    "..%2fsecret",
    "~/secret",
    "$HOME/secret",
    "...",
    "....//secret",
    "secret|cat",
    "-rf",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with a secret beside it, and links that lead there."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    root = tmp_path / "root"
    root.mkdir()
    (root / "to_file").symlink_to(tmp_path / "secret")
    (root / "to_folder").symlink_to(tmp_path / "outside")
    (root / "relative").symlink_to("../secret")
    (root / "above").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to(tmp_path / "made")
    (root / "deep").mkdir()
    (root / "deep" / "down").symlink_to("../../outside")
    (root / "proc").symlink_to("/proc/self/root")
    os.mkfifo(root / "pipe")
    return root


LINKS = [
    "to_file", "to_folder/secret", "relative", "above/secret", "above/root/relative", "loop", "loop/a", "dangling",
    "deep/down/secret", "proc/etc/passwd", "pipe", "to_folder", "above", "to_file/",
]  # fmt: skip


class TestWall:
    async def test_nothing_outside_is_read_or_written(self, root: Path) -> None:
        tools = tools_of(Workspace(FolderFiles(root)))
        before = {path: path.stat().st_mtime_ns for path in (root.parent / "secret", root.parent / "outside")}
        for path in [*NAMES, *LITERAL, *LINKS]:
            with pytest.raises(Exception) as caught:  # which one is not the point
                await call(tools, "read_file", path=path)
            assert SECRET not in str(caught.value), path
            assert str(root.parent) not in str(caught.value), path
        for path in [*NAMES, *LITERAL, *LINKS]:
            with suppress(Exception):  # it may be refused, or written inside
                await call(tools, "write_file", path=path, text="broken")
            with suppress(Exception):
                await call(tools, "edit_file", path=path, old="secret", new="broken")
            assert {path: path.stat().st_mtime_ns for path in before} == before, path
            assert (root.parent / "secret").read_text() == SECRET, path
            assert (root.parent / "outside" / "secret").read_text() == SECRET, path
            assert {item.name for item in root.parent.iterdir()} == {"secret", "outside", "root"}, path

    def test_a_name_that_could_lead_outside_is_refused_everywhere(self) -> None:
        files = MemoryFiles()
        for path in NAMES:
            with pytest.raises(ToolError):
                files.write(path, "x")
            with pytest.raises(ToolError):
                files.read(path)

    async def test_links_are_neither_listed_nor_searched(self, root: Path) -> None:
        (root / "deep" / "mine").write_text("my secret")
        tools = tools_of(Workspace(FolderFiles(root)))
        assert [file["path"] for file in (await call(tools, "list_files"))["files"]] == ["deep/mine"]
        assert [match["path"] for match in await call(tools, "search_files", text="secret")] == ["deep/mine"]

    def test_a_write_replaces_a_link_and_does_not_follow_it(self, root: Path) -> None:
        FolderFiles(root).write("to_file", "mine")
        assert (root.parent / "secret").read_text() == SECRET
        assert not (root / "to_file").is_symlink()
        assert FolderFiles(root).read("to_file") == "mine"

    def test_a_hard_link_is_not_written_through(self, root: Path) -> None:
        os.link(root.parent / "secret", root / "hard")
        FolderFiles(root).write("hard", "mine")
        assert (root.parent / "secret").read_text() == SECRET

    def test_a_folder_that_becomes_a_link_in_the_meantime_leads_nowhere(self, root: Path) -> None:
        """Somebody swaps a folder for a link to the outside, again and again, while files are used."""
        files, stop = FolderFiles(root), threading.Event()
        (root / "real").mkdir()
        (root / "real" / "secret").write_text("inside")
        real, kept = root / "real", root / "kept"

        def swap() -> None:
            while not stop.is_set():
                real.rename(kept)
                with suppress(OSError):  # a write may have made the folder anew
                    real.symlink_to(root.parent / "outside")
                while kept.exists():
                    with suppress(OSError):
                        if real.is_symlink():
                            real.unlink()
                        else:
                            shutil.rmtree(real, ignore_errors=True)
                        kept.rename(real)

        attacker = threading.Thread(target=swap)
        attacker.start()
        read: set[str] = set()
        try:
            for number in range(500):
                try:
                    read.add(files.read("real/secret"))
                    files.write(f"real/{number % 5}", "mine")
                except ToolError:
                    pass
        finally:
            stop.set()
            attacker.join()
        assert read <= {"inside"}
        assert files.read("real/secret") == "inside"
        assert [item.name for item in (root.parent / "outside").iterdir()] == ["secret"]

    def test_the_root_is_a_handle_and_not_a_name(self, root: Path) -> None:
        files = FolderFiles(root)
        files.write("a", "inside")
        root.rename(root.parent / "moved")
        root.symlink_to(root.parent / "outside")
        assert files.read("a") == "inside"
        with pytest.raises(ToolError):
            files.read("secret")

    async def test_what_is_not_text_is_said_to_be_none_and_not_searched(self, root: Path) -> None:
        (root / "binary").write_bytes(b"\xff\xfe\x00 inside")
        with pytest.raises(ToolError, match="not text"):
            FolderFiles(root).read("binary")
        found = await call(tools_of(Workspace(FolderFiles(root))), "search_files", text="inside")
        assert "binary" not in [match["path"] for match in found]

    def test_the_handle_of_a_folder_is_closed_with_its_files(self, root: Path) -> None:
        gc.collect()  # what others have left is closed before
        before = psutil.Process().num_fds()
        files = FolderFiles(root)
        assert files.sizes() == {}
        assert psutil.Process().num_fds() == before + 1
        del files
        assert psutil.Process().num_fds() == before

    async def test_a_file_with_another_name_elsewhere_is_not_read(self, root: Path) -> None:
        """A hard link is a file like any other, but for the number of its names."""
        (root / "linked").hardlink_to(root.parent / "secret")
        (root / "deep" / "linked").hardlink_to(root.parent / "secret")
        (root / "own").write_text("own")
        files = FolderFiles(root)
        assert files.sizes() == {"own": 3}
        tools = tools_of(Workspace(files))
        for path in ("linked", "deep/linked"):
            with pytest.raises(Exception, match="is a link to a file that may be elsewhere") as caught:
                await call(tools, "read_file", path=path)
            assert SECRET not in str(caught.value)
        assert await call(tools, "search_files", text="secret") == []
        await call(tools, "write_file", path="linked", text="mine")  # in place of the name, not of the file
        assert (root.parent / "secret").read_text() == SECRET
        assert files.read("linked") == "mine"

    async def test_side_by_side_listings_and_searches_see_all_files(self, root: Path) -> None:
        """Each has a position of its own in the folder; one that two share lost 25 of 800 listings."""
        for number in range(200):
            (root / f"f{number:03}").write_text("fish")
        files = FolderFiles(root)
        with often_switched(), ThreadPoolExecutor(8) as threads:
            found = [*threads.map(lambda _: len(files.sizes()), range(800))]
        assert found == [200] * len(found)

    def test_nothing_is_left_of_a_write_that_fails(self, root: Path) -> None:
        with pytest.raises(ToolError):
            FolderFiles(root).write("deep", "x")
        assert sorted(item.name for item in (root / "deep").iterdir()) == ["down"]
        assert not list(root.rglob(".part-*"))
