"""The demo: its tools are real and safe, its questions can be answered with them, and a model answers them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.conftest import ROOT
from wesichain.cli.demo import Office
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
