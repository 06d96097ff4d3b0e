"""The quick run (`make test-quick`): every test that needs nothing outside its own process, with its first case.

A file is left out, before it is even imported, if it or a helper of it imports what starts a process, a server,
a browser, a database or a model, and it is not marked with `pytestmark = pytest.mark.quick`: a few files of each
room whose subject that is are quick enough. Of a test with many parameters the first case stays, hypothesis draws ten examples,
and the runs that tests make are not replayed.
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
            "experiments",
            "pty",
        ),
        *("tests.warm", "tests.postgres", "tests.durable", "tests.web", "tests.mutants", "wesichain.durable"),
        *("wesichain.web", "wesichain.edge", "wesichain.cli", "wesichain.llm.local"),
    }
)


ROOT = Path(__file__).resolve().parent.parent
_WRITTEN = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<module>[\w.]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]*)|import[ \t]+(?P<modules>[^\n]*))",
    re.MULTILINE,
)


def is_left_out(path: Path) -> bool:
    """Whether a quick run passes over a file of tests, or over a folder that has no other files of tests.

    A folder is passed over before its `conftest.py` is imported, and all that this imports.
    """
    if path.is_dir():
        return all(map(is_left_out, path.rglob("test_*.py")))
    return path.name.startswith("test_") and needs_what_is_outside(path) and not _is_marked(path)


def _is_marked(path: Path) -> bool:
    return "\npytestmark = pytest.mark.quick\n" in path.read_text(encoding="utf-8")


@cache
def needs_what_is_outside(path: Path) -> bool:
    """Whether a file of tests imports what leads out of this process, itself or in a helper that it imports."""
    text = path.read_text(encoding="utf-8")
    if not any(_leads(module) for module in _seeming_imports(text, path)):
        return False  # parsing all files takes seconds
    return any(_leads(module) for module in _imports(text, path))


@cache
def _leads(module: str) -> bool:
    parts = module.split(".")
    starts = [".".join(parts[:count]) for count in range(1, len(parts) + 1)]
    if any(start in OUTSIDE for start in starts):
        return True
    if parts[:2] == ["tests", "conftest"]:
        return False  # every test has it
    helpers = (ROOT / Path(*start.split(".")).with_suffix(".py") for start in starts if start != "tests")
    return any(helper.is_file() and needs_what_is_outside(helper) for helper in helpers)


def _seeming_imports(text: str, path: Path) -> Iterator[str]:
    """What looks like an import, though it may be in a program that the file has as text."""
    for line in _WRITTEN.finditer(text):
        if line["modules"] is not None:
            yield from (name.partition(" as ")[0].strip() for name in line["modules"].split(","))
        else:
            module = _resolved(line["module"].lstrip("."), line["module"].count(".", 0, 2), path)
            names = line["names"].partition("#")[0].strip("() \n").split(",")
            yield from (f"{module}.{name.partition(' as ')[0].strip()}" for name in names)


def _imports(text: str, path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _resolved(node.module or "", node.level, path)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _resolved(module: str, level: int, path: Path) -> str:
    """The full name of a module that a file imports relatively."""
    if not level:
        return module
    package = path.relative_to(ROOT).parts[:-level]
    return ".".join([*package, *([module] if module else [])])


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
