"""What the tests of the viewer ask for: a client, a site, and one browser for all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.trace.runs import NOON, run
from wesichain.core import RunStarted
from wesichain.core.internal import Price
from wesichain.learning import Playbook
from wesichain.trace import Recorder
from wesichain.web import create_app
from wesichain.web.internal import RunStore

from .browser import Browser, Page, browser
from .kit import HOST, PRICES, TOKEN, embedder, example_store, failed_run, playbook, record, serving
from .site import Site


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    record(folder / "runs", run("paris", 2, at=NOON))
    record(folder / "runs", run("oslo", 2, at=NOON + 1, city="Oslo"))
    record(folder / "runs", failed_run())
    playbook(folder / "playbook").close()
    return folder


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """Three runs: of 10, 20 and 30 seconds, at costs of 1, 2 and none that is known."""
    with Recorder(tmp_path) as recorder:
        for number, model in enumerate(["m", "m", "unknown"]):
            at = NOON + 100 * number
            events = run(f"run-{number}", 1 + number, at=at)
            first, last = events[0], events[-1]
            assert isinstance(first, RunStarted)
            last = replace(last, at=at + 10 * (number + 1))
            for event in (replace(first, model=model), *events[1:-1], last):
                recorder.emit(event)
    return RunStore(tmp_path, prices={"m": Price(1.0, 0.0)})


@contextmanager
def viewing(folder: Path) -> Iterator[TestClient]:
    """A client of a viewer of everything in a folder."""
    app = create_app(
        folder / "runs",
        playbook=Playbook.open(folder / "playbook", embedder(), sync=False),
        approvals=folder / "approvals",
        token=TOKEN,
        hosts=["127.0.0.1:8321", "localhost"],
        prices=PRICES,
    )
    with TestClient(app, base_url=HOST, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        yield client


@pytest.fixture
def client(stored: Path, tmp_path: Path) -> Iterator[TestClient]:
    copytree(stored, tmp_path, dirs_exist_ok=True)
    with viewing(tmp_path) as client:
        yield client


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    example_store(folder)
    return folder


@pytest.fixture
def site(examples: Path, tmp_path: Path) -> Iterator[Site]:
    copytree(examples, tmp_path / "runs")
    book = playbook(tmp_path / "playbook")
    options: dict[str, Any] = {"playbook": book, "approvals": tmp_path / "approvals", "prices": PRICES}
    with serving(tmp_path / "runs", **options) as url:
        yield Site(url, tmp_path)


@pytest.fixture(scope="session")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def page(chrome: Browser) -> Iterator[Page]:
    with chrome.page() as page:
        page.look()
        yield page
