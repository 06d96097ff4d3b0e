"""What every test shares: coroutines run as tests, and the corpora, our own and the outside ones."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import psutil
import pytest
from hypothesis import settings

from tests.draws import SEED, USUAL, draws
from tests.forked import Forks
from tests.postgres import postgres as postgres
from tests.quick import IS_QUICK, first_cases, is_left_out, only_first
from tests.replaying import Watch, watch
from tests.warm.client import warm_process
from wesichain.tools.isolated import warm_processes

settings.register_profile("usual", draws(USUAL))
settings.load_profile("usual")

ROOT = Path(__file__).resolve().parent.parent
# Where programs of tests find the source: what this process was told comes first, so that they test the same.
SOURCES = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT / "src"), str(ROOT)])
Strays: TypeAlias = Callable[[], list[int]]
_numbers = count()
_watched: dict[pytest.Item, Watch | None] = {}


def _keep_files_in_memory() -> None:
    """No test asks what outlives the machine, and databases that wait for a disk take a third of the time of theirs."""
    memory = Path("/dev/shm")
    if "TMPDIR" not in os.environ and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30:
        os.environ["TMPDIR"], tempfile.tempdir = str(memory), None


_keep_files_in_memory()  # before pytest, a worker or a program of a test asks for a folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks", type=int, default=0, metavar="N", help="run the tests in N forks of this process"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the warm process in the process that starts the workers, or in the only one."""
    if not hasattr(config, "workerinput") and not IS_QUICK:
        started = ExitStack()
        started.enter_context(warm_process())
        config.add_cleanup(started.close)
    if config.option.forks:
        config.pluginmanager.register(Forks(config.option.forks))
    folder = _parent()  # made before any fork: what those write is removed with it
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """In a quick run, pass over a file that needs more than its own process."""
    return True if IS_QUICK and is_left_out(collection_path) else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In a quick run, make only the first case of each list of parameters: making all takes seconds."""
    if IS_QUICK:
        only_first(metafunc)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a quick run, keep the first case of each test."""
    if IS_QUICK:
        kept = first_cases(items)
        chosen = set(kept)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded with the tests stays: no search for garbage, now or in a test, has to look at it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Replay the runs of the test, and look for garbage once a file: a search costs what one file has made, not all."""
    try:
        if (watched := _watched.pop(item, None)) is not None:
            watched.end(new_folder)
    finally:
        ended = yield
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()
    return ended


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True


def corpora() -> Path:
    return Path(os.environ.get("WESICHAIN_CORPORA") or ROOT.parent / "shared" / "corpora")


# A set of our own stands for each corpus; the outside one is read too where it is.
OWN = {
    "react_cases.jsonl": "replies",
    "bfcl_tools.jsonl": "tool_calls",
    "json_schema_2020.jsonl": "schemas",
    "wire_responses.jsonl": "wire",
}
OUTSIDE = "outside"
ORIGINS = ("own", OUTSIDE) if corpora().is_dir() and not IS_QUICK else ("own",)
each_origin = pytest.mark.parametrize("origin", ORIGINS)


def corpus(name: str, origin: str) -> list[dict[str, Any]]:
    """The rows of one corpus: those of the outside file, or of the set that we made in its form."""
    if origin != OUTSIDE:
        module = importlib.import_module(f"tests.corpora.{OWN[name]}")
        return list(module.rows())
    with (corpora() / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def pytest_report_header() -> str:
    return f"seed: {SEED}; corpora: {'own sets and ' + str(corpora()) if OUTSIDE in ORIGINS else 'own sets alone'}"


def new_folder() -> Path:
    """An empty folder. For a name that is free, pytest's own way reads the names of all folders made so far."""
    folder = _parent() / f"{os.getpid()}-{next(_numbers)}"
    folder.mkdir()
    return folder


@cache
def _parent() -> Path:
    return Path(tempfile.mkdtemp(prefix="wesichain-tests-"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A data folder of its own for every test, so that none reads or writes the user's; and its runs are watched."""
    os.environ["WESICHAIN_HOME"] = str(new_folder())
    _watched[item] = watch(item)


@pytest.fixture
def home() -> Path:
    """The data folder of the test."""
    return Path(os.environ["WESICHAIN_HOME"])


@pytest.fixture
def strays() -> Strays:
    """Says which processes the test has left behind so far; those of other tests' fixtures are not its own.

    Nor are those that wait for the next call of an isolated tool: a server, and the keepers below it.
    """
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    def left() -> list[int]:
        waiting: set[int] = set()
        for server in warm_processes():
            waiting |= {server, *(keeper.pid for keeper in psutil.Process(server).children())}
        now = psutil.Process().children(recursive=True)
        return [child.pid for child in now if child.pid not in before | waiting]

    return left
