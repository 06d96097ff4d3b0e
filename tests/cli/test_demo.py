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
from wesichain.tools import ToolContext, ToolSet

QUERY = "SELECT quantity FROM orders WHERE customer = 'Cleo' AND item = 'lamp'"
COLUMNS = "the columns are customer, item, quantity, price"
WAYS = (
    ("query_orders", {"sql": QUERY}, [[5]]),
    (
        "query_orders",
        {"sql": "DELETE FROM orders"},
        f"SQLite says: attempt to write a readonly database; {COLUMNS}",
    ),
    ("query_orders", {"sql": "SELECT secret FROM orders"}, f"SQLite says: no such column: secret; {COLUMNS}"),
    ("search_notes", {"word": "deployment"}, ["deploy.md: Deployments happen on Tuesdays."]),
    ("ship", {"order": "A1", "service": "ECO-72"}, "order A1 is on its way"),
    ("ship", {"order": "A2", "service": "express"}, "there is no service 'express'"),
)


@pytest.mark.parametrize(("name", "args", "said"), WAYS)
async def test_the_tools_know_their_part(tmp_path: Path, name: str, args: dict[str, Any], said: Any) -> None:
    office = Office(tmp_path)
    tools = ToolSet.of([office.query_orders, office.search_notes, office.ship]).build()
    result = await tools.dispatch(ToolCall("1", name, args), ToolContext())
    assert (result.value if result.ok else str(result.error)) == said
    assert (office.service_of("A1"), office.service_of("A2")) == (
        "ECO-72" if "A1" in args.values() else "",
        "",
    )


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
