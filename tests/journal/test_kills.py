"""SIGKILL before and after every append, and within every effect: each effect happens once, and the value is whole."""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from uuid import uuid4

import pytest

from tests.draws import sampled
from tests.journal.killed_order import EFFECTS, VALUE, Shop, run_in_a_process

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes cannot be forked there")
APPENDS = 16  # of the whole order, at most: those after the last one are not reached
POINTS = [
    *(f"{when} {number}" for number in range(APPENDS) for when in ("append", "appended")),
    *(f"{when} {effect}" for effect in EFFECTS for when in ("before", "after")),
]


STORES = ("folder", "sqlite", "postgres")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the runs are: a database of its own on the server for each test."""
    if request.param != "postgres":
        return str(request.param)
    import psycopg

    server, name = str(request.getfixturevalue("postgres")), f"order_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # pyright: ignore[reportArgumentType, reportCallIssue]  # its own name
    return server.replace("/postgres?", f"/{name}?")


@pytest.mark.parametrize("place", STORES, indirect=True)
def test_the_order_has_as_many_appends_as_are_cut(place: str, tmp_path: Path) -> None:
    assert run_in_a_process(place, tmp_path, "") == 0
    value, appends = json.loads((tmp_path / "value").read_text("utf-8"))
    assert value == VALUE
    assert 8 <= appends <= APPENDS


@pytest.mark.sampled
@pytest.mark.parametrize(("place", "point"), sampled([*product(STORES, POINTS)], 30), indirect=["place"])
def test_a_killed_order_is_continued(point: str, place: str, tmp_path: Path) -> None:
    code = run_in_a_process(place, tmp_path, point)
    assert code in (0, -signal.SIGKILL), f"it ended with {code}"
    assert run_in_a_process(place, tmp_path, "") == 0
    value, _ = json.loads((tmp_path / "value").read_text("utf-8"))
    assert value == VALUE
    done = Counter(Shop(tmp_path, "").done())
    assert done["charge"] == 1
    assert all(done[effect] in (1, 2) for effect in EFFECTS)
    if code == 0:
        assert all(done[effect] == 1 for effect in EFFECTS)
