"""The demo: its tools are real and safe, its questions can be answered with them, and a model answers them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.conftest import ROOT
from wesichain.cli.demo import QUESTIONS, Office, calculate
from wesichain.core import ToolCall
from wesichain.tools import ToolContext, ToolRegistry, ToolSet

ANSWERS = ("391", "5", "Tuesday")
WAYS = (
    ("calculate", {"expression": "17 * 23"}),
    ("query_orders", {"sql": "SELECT quantity FROM orders WHERE customer = 'Cleo' AND item = 'lamp'"}),
    ("search_notes", {"word": "deployment"}),
)


@pytest.fixture
def tools(tmp_path: Path) -> ToolRegistry:
    office = Office(tmp_path)
    return ToolSet().register(calculate).register(office.query_orders).register(office.search_notes).build()


@pytest.mark.parametrize(("question", "way", "answer"), [*zip(QUESTIONS, WAYS, ANSWERS, strict=True)])
async def test_every_question_has_its_answer_in_a_tool(
    tools: ToolRegistry, question: str, way: tuple[str, dict[str, Any]], answer: str
) -> None:
    result = await tools.dispatch(ToolCall("1", *way), ToolContext())
    assert answer in str(result.value), question


@pytest.mark.parametrize(
    ("name", "args"),
    [
        pytest.param("calculate", {"expression": "__import__('os')"}, id="code"),
        pytest.param("calculate", {"expression": "9**9**9"}, id="a-power-too-large"),
        pytest.param("calculate", {"expression": "1 / 0"}, id="a-division-by-zero"),
        pytest.param("calculate", {"expression": "(" * 150}, id="open-brackets"),
        pytest.param("calculate", {"expression": "1+" * 100 + "1"}, id="too-long"),
        pytest.param("query_orders", {"sql": "DELETE FROM orders"}, id="a-deletion"),
        pytest.param("query_orders", {"sql": "SELECT secret FROM orders"}, id="no-such-column"),
    ],
)
async def test_what_a_tool_must_not_do_is_an_error_it_tells(
    tools: ToolRegistry, name: str, args: dict[str, str]
) -> None:
    result = await tools.dispatch(ToolCall("1", name, args), ToolContext())
    assert result.error is not None


def test_the_demo_gives_a_pipe_each_answer(wesichain: Command) -> None:
    replies = [part for way, said in zip(WAYS, ANSWERS, strict=True) for part in (call(*way), text(said))]
    with serving(*replies) as url:
        done = wesichain("demo", "--model", "openai:stub", "--no-record", url=url)
    assert done.status == 0, done.err
    for question, answer in zip(QUESTIONS, ANSWERS, strict=True):
        assert question in done.err
        assert answer in done.out


def test_a_model_nobody_knows_is_one_line(wesichain: Command) -> None:
    done = wesichain("demo", "--model", "local:gpt-9")
    assert done.status == 2
    assert "no local model is called 'gpt-9'" in done.err


@pytest.mark.slow
def test_the_local_model_answers_the_questions(wesichain: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WESICHAIN_MODELS", os.environ.get("WESICHAIN_MODELS") or str(ROOT / ".cache/models"))
    done = wesichain("demo", "--no-record")
    assert done.status == 0, done.err
    for answer in ANSWERS:
        assert answer in done.out
