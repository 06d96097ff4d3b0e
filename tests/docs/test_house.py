"""The drawing of the rooms and its tables are what the figures say, and the rooms stand as they are drawn."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def house() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield importlib.import_module("house")


@pytest.fixture(scope="module")
def figures(house: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(house.FIGURES.read_text("utf-8"))
    return found


def test_the_drawing_and_the_tables_are_what_the_figures_say(house: Any, figures: dict[str, Any]) -> None:
    stale = [path.name for path, text in house.render(figures).items() if path.read_text("utf-8") != text]
    assert not stale, f"{stale}: run python docs/house.py"


def test_the_rooms_and_their_imports_are_those_of_today(house: Any, figures: dict[str, Any]) -> None:
    """Lines come and go: those are of the day of the drawing. Rooms and arrows are drawn anew when they change."""
    now = house.measured(house.SOURCE)
    drawn = figures["after"]
    assert now["arrows"] == drawn["arrows"], "run python docs/house.py --measure"
    assert house.sizes(now).keys() == house.sizes(drawn).keys()


def test_every_new_file_says_what_it_brought(house: Any, figures: dict[str, Any]) -> None:
    loose = {room: groups[""] for room, groups in house.grouped(figures).items() if "" in groups}
    assert not loose, "name them in docs/decisions/0012-house.toml"
    assert {*house.WORDS} == {*house.ROOMS, "front door"}


def test_every_line_of_the_drawing_leads_downstairs(house: Any, figures: dict[str, Any]) -> None:
    floor = {room: level for level, rooms in enumerate(house.FLOORS) for room in rooms}
    for word in ("before", "after"):
        for room, below in figures[word]["arrows"].items():
            for other in below:
                if room in floor and other in floor:
                    assert floor[other] < floor[room], f"{word}: {room} imports {other}"
