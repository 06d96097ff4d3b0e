"""The quick run (`make test-quick`): every test that needs nothing outside its own process, with its first case.

A file is left out, before it is even imported, if it imports what starts a process, a server, a database, a browser
or a model. Of a test with many parameters the first case stays, hypothesis draws ten examples, and the runs that tests
make are not replayed.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

IS_QUICK = bool(os.environ.get("WESICHAIN_QUICK"))
OUTSIDE = frozenset(
    {
        *("subprocess", "multiprocessing", "concurrent", "socket", "http", "urllib", "sqlalchemy", "psycopg"),
        *(
            "dbos",
            "uvicorn",
            "starlette",
            "httpx2",
            "mcp",
            "psutil",
            "websocket",
            "faiss",
            "bench",
            "examples",
        ),
        *("tests.warm", "tests.postgres", "tests.durable", "tests.web", "tests.mutants", "wesichain.durable"),
        *("wesichain.web", "wesichain.edge", "wesichain.cli", "wesichain.llm.local"),
    }
)


_WRITTEN = re.compile(r"^\s*(?:from|import)\s(?:[^\n(]*\([^)]*\)|[^\n]*)", re.MULTILINE)
_ANY_OUTSIDE = re.compile("|".join(rf"\b{name.rpartition('.')[2]}\b" for name in sorted(OUTSIDE)))


def is_left_out(path: Path) -> bool:
    """Whether a quick run passes over a file of tests, or over a folder that has no other files of tests.

    A folder is passed over before its `conftest.py` is imported, and all that this imports.
    """
    if path.is_dir():
        return all(map(needs_what_is_outside, path.rglob("test_*.py")))
    return path.name.startswith("test_") and needs_what_is_outside(path)


@cache
def needs_what_is_outside(path: Path) -> bool:
    """Whether a file of tests imports anything that leads out of this process."""
    text = path.read_text(encoding="utf-8")
    if not any(_ANY_OUTSIDE.search(line) for line in _WRITTEN.findall(text)):
        return False  # parsing all files takes seconds
    return any(_leads(module) for module in _imports(text))


def _leads(module: str) -> bool:
    parts = module.split(".")
    return any(".".join(parts[:count]) in OUTSIDE for count in range(1, len(parts) + 1))


def _imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def only_first(metafunc: pytest.Metafunc) -> None:
    """Let the lists of parameters of a test have one case each."""
    parametrize = metafunc.parametrize

    def first(names: Any, values: Iterable[Any], *args: Any, ids: Any = None, **options: Any) -> None:
        is_list = ids is not None and not callable(ids)
        parametrize(names, [*islice(values, 1)], *args, ids=[*islice(ids, 1)] if is_list else ids, **options)

    setattr(metafunc, "parametrize", first)  # noqa: B010  # a checker allows no assignment; for this test alone


def first_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """The first item of each test function."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        first.setdefault(item.nodeid.partition("[")[0], item)
    return list(first.values())
