"""Scenarios outside the loop: playbook, text parser, import."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from .scenario import Scenario

BULLETS = 1000
TASKS = (
    "What does customer {} still have to pay?",
    "Where is the parcel of order {} right now?",
    "Reset the password of the account {} and unlock it",
)
REPLIES = (
    'Thought: I need the weather.\nAction: weather\nAction Input: {"city": "Oslo", "days": [1, 2, 3]}\n',
    "Thought: I know it now.\nFinal Answer: It rains in Oslo, and will until Thursday.\n",
    "```json\n{\"action\": \"search\", \"action_input\": {'query': 'rain', 'exact': True,}}\n```\n",
    "Well, there are many ways to look at it, and none of them is a tool.\n" * 20,
)


def _playbook(folder: Path) -> Any:
    """A thousand strategies with random vectors: the cost of a search depends only on their number."""
    import numpy as np

    from wesichain.learning import FunctionEmbedder, Playbook, ToolCallingStrategy

    chance = np.random.default_rng(0)
    embedder = FunctionEmbedder("random", 64, function=lambda texts: chance.standard_normal((len(texts), 64)))
    book = Playbook.open(folder, embedder)
    book.record_all(
        [
            ToolCallingStrategy(
                f"b{number}",
                f"For tasks of kind {number}, call a first, then b.",
                tool_sequence=("a", "b"),
                helpful_count=5 + number % 5,
                example_task=f"task {number}",
            )
            for number in range(BULLETS)
        ],
        domain="shop",
    )
    return book


async def _retrieve(book: Any) -> int:
    for number, task in enumerate(TASKS):
        assert len(book.retrieve(task.format(number), domain="shop")) == 3
    return len(TASKS)


def _parser(_: Path) -> Any:
    from wesichain.llm.react_text import parse

    return parse


async def _parse(parse: Any) -> int:
    kinds = [parse(reply, strict=False).kind for reply in REPLIES]
    assert kinds == ["action", "final", "action", "final"], kinds
    return len(kinds)


async def _import(_: Any) -> int:
    """A new interpreter that imports the package; its CPU time is counted as that of a child."""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "import wesichain")
    assert await child.wait() == 0
    return 1


ROOMS = (
    Scenario("playbook", f"retrieval from {BULLETS:,} strategies", _playbook, _retrieve),
    Scenario("parser", "text replies parsed", _parser, _parse),
    Scenario("import", "import wesichain", lambda _: None, _import, in_process=False),
)
