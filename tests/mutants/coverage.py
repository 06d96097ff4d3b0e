"""Which tests run which part of the source, so that a mutant is judged by those that reach it.

Every block of statements in a copy of the source is made to note that it ran, in memory that all processes of a
test share: what a program or a tool in a process of its own runs counts as what its test runs.
"""

from __future__ import annotations

import ast
import mmap
import os
import sqlite3
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from .table import ROOT, SOURCE

RECORD = ROOT / "build" / "mutants.sqlite"
_SHARED = "_ran.bytes"  # beside the module: a process that is given no environment finds it too
_MODULE = f'''"""One byte for each block that ran."""
import mmap, os
with open(os.path.join(os.path.dirname(__file__), "{_SHARED}"), "r+b") as _file:
    ran = mmap.mmap(_file.fileno(), 0)
'''


def make_noting(source: Path) -> None:
    """Make every block of the copy note that it ran, and start a new record."""
    RECORD.unlink(missing_ok=True)
    count = 0
    with closing(_database()) as database, database:
        for path in sorted((source / "wesichain").rglob("*.py")):
            file = str(path.relative_to(source / "wesichain"))
            database.execute("INSERT INTO files VALUES (?, ?, ?)", (file, count, _digest(path)))
            tree = _tree(path)
            for block in _blocks(tree):
                block.insert(int(_is_docstring(block[0])), ast.parse(f"_ran[{count}] = 1").body[0])
                count += 1
            start = next(n for n, each in enumerate([*tree.body, None]) if not _comes_first(each))
            tree.body.insert(start, ast.parse("from wesichain._ran import ran as _ran").body[0])
            path.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
    (source / "wesichain" / "_ran.py").write_text(_MODULE, encoding="utf-8")
    (source / "wesichain" / _SHARED).write_bytes(bytes(count))


@contextmanager
def shared_memory(source: Path) -> Iterator[mmap.mmap]:
    """The memory that all processes of a test share which run this copy of the source."""
    with (source / "wesichain" / _SHARED).open("r+b") as file, mmap.mmap(file.fileno(), 0) as ran:
        yield ran


class Recorder:
    """A plugin for pytest: writes down, of each test that passes, what it ran and the CPU time that it took."""

    def __init__(self, ran: mmap.mmap) -> None:
        self._ran = ran
        self._not_passed: set[str] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._ran[:] = bytes(len(self._ran))
        before = sum(os.times()[:4])
        ended = yield
        seconds, blocks = sum(os.times()[:4]) - before, bytes(self._ran)
        if item.nodeid not in self._not_passed:
            with closing(_database()) as database, database:
                row = (item.nodeid, seconds, sum(blocks), zlib.compress(blocks, 1))
                database.execute("INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?)", row)
        return ended

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._not_passed.add(report.nodeid)


@dataclass(frozen=True, slots=True)
class Reached:
    """A test that runs a block; one that runs few others is likely to be about it."""

    test: str
    seconds: float


def tests_that_run(file: str, line: int) -> list[Reached]:
    """The recorded tests that run a line, those first that run least beside it; of a changed file, any of its lines."""
    blocks = _blocks_of(file, line)
    with closing(_database()) as database:
        rows = database.execute(
            "SELECT name, seconds, ran FROM tests WHERE blocks > 0 ORDER BY blocks, seconds"
        )
        return [Reached(name, seconds) for name, seconds, ran in rows if any(zlib.decompress(ran)[blocks])]


def _blocks_of(file: str, line: int) -> slice:
    """The recorded number of the smallest block that has a line, or those of its file where it has changed since."""
    with closing(_database()) as database:
        first, digest, end = database.execute(
            "SELECT first, digest, (SELECT min(first) FROM files AS after WHERE after.first > files.first) "
            "FROM files WHERE file = ?",
            (file,),
        ).fetchone() or (0, "", 0)
    if digest != _digest(SOURCE / file):
        return slice(first, end)
    around = [
        ((block[-1].end_lineno or 0) - block[0].lineno, first + number)
        for number, block in enumerate(_blocks(_tree(SOURCE / file)))
        if block[0].lineno <= line <= (block[-1].end_lineno or 0)
    ]
    number = min(around)[1]
    return slice(number, number + 1)


def _database() -> sqlite3.Connection:
    RECORD.parent.mkdir(exist_ok=True)
    database = sqlite3.connect(RECORD)
    database.executescript(
        "PRAGMA synchronous = OFF;"
        "CREATE TABLE IF NOT EXISTS files (file PRIMARY KEY, first, digest);"
        "CREATE TABLE IF NOT EXISTS tests (name PRIMARY KEY, seconds, blocks, ran)"
    )
    return database


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _blocks(tree: ast.Module) -> list[list[ast.stmt]]:
    """The lists of statements below the functions of a file: a body, a branch, a handler."""
    found: dict[int, list[ast.stmt]] = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.ClassDef):
                    continue
                for name in ("body", "orelse", "finalbody"):
                    block = getattr(node, name, None)
                    if isinstance(block, list) and block:
                        found[id(block)] = block
    return list(found.values())


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _comes_first(statement: ast.stmt | None) -> bool:
    is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    return statement is not None and (is_future or _is_docstring(statement))
