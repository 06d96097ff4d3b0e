"""The demo: its tools are real and safe, its questions can be answered with them, and a model answers them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.conftest import ROOT
from wesichain.cli.demo import QUESTION, SENTENCE, SERVICE, Office
from wesichain.core import ToolCall
from wesichain.tools import ToolContext, ToolRegistry, ToolSet

QUERY = "SELECT quantity FROM orders WHERE customer = 'Cleo' AND item = 'lamp'"
WAYS = (
    ("query_orders", {"sql": QUERY}, "5"),
    ("search_notes", {"word": "deployment"}, "Tuesday"),
)


@pytest.fixture
def tools(tmp_path: Path) -> ToolRegistry:
    office = Office(tmp_path)
    return ToolSet().register(office.query_orders).register(office.search_notes).build()


@pytest.mark.parametrize(("name", "args", "answer"), WAYS)
async def test_the_tools_know_their_part(
    tools: ToolRegistry, name: str, args: dict[str, Any], answer: str
) -> None:
    result = await tools.dispatch(ToolCall("1", name, args), ToolContext())
    assert answer in str(result.value)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        pytest.param("query_orders", {"sql": "DELETE FROM orders"}, id="a-deletion"),
        pytest.param("query_orders", {"sql": "SELECT secret FROM orders"}, id="no-such-column"),
    ],
)
async def test_what_a_tool_must_not_do_is_an_error_it_tells(
    tools: ToolRegistry, name: str, args: dict[str, str]
) -> None:
    result = await tools.dispatch(ToolCall("1", name, args), ToolContext())
    assert result.error is not None


def ship(order: str, service: str) -> dict[str, Any]:
    return call("ship", {"order": order, "service": service})


NOT_SENT, RIGHT = "not sent, which is wrong", "sent by EXP-24, which is right"
ENDS = [
    pytest.param("5 lamps", SERVICE, 0, [NOT_SENT, RIGHT], id="right"),
    pytest.param("5 lamps", "express", 1, [NOT_SENT, NOT_SENT], id="refused-again"),
    pytest.param("5 lamps", "ECO-72", 1, [NOT_SENT, "sent by ECO-72, which is wrong"], id="another-service"),
    pytest.param("3 lamps", SERVICE, 1, [NOT_SENT, RIGHT], id="another-answer"),
]


@pytest.mark.parametrize(("answer", "service", "status", "verdicts"), ENDS)
def test_the_demo_ends_with_1_where_it_is_wrong(
    wesichain: Command, answer: str, service: str, status: int, verdicts: list[str]
) -> None:
    replies = [
        call("query_orders", {"sql": QUERY}),
        text(answer),
        ship("A17", "express"),
        text("done"),
        ship("B23", service),
    ]
    with serving(*replies, text("done")) as url:
        done = wesichain("demo", "--model", "openai:stub", *(["--no-record"] if status else []), url=url)
    assert ("The runs are recorded" in done.err) is (status == 0)
    assert done.status == status, done.err
    assert done.out == f"{answer}\ndone\ndone\n"
    assert QUESTION in done.err
    found = [line.partition(" was ")[2] for line in done.err.splitlines() if "in the database" in line]
    assert found == verdicts
    assert f"A person says what was wrong: {SENTENCE}" in done.err


def test_a_model_nobody_knows_is_one_line(wesichain: Command) -> None:
    done = wesichain("demo", "--model", "local:gpt-9")
    assert done.status == 2
    assert "no local model is called 'gpt-9'" in done.err


@pytest.mark.slow
def test_the_local_model_answers_and_is_right_after_the_correction(
    wesichain: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WESICHAIN_MODELS", os.environ.get("WESICHAIN_MODELS") or str(ROOT / ".cache/models"))
    done = wesichain("demo", "--no-record")
    assert done.status == 0, done.err
    assert "5" in done.out
    assert "order A17 was not sent" in done.err
    assert "order B23 was sent by EXP-24, which is right" in done.err
