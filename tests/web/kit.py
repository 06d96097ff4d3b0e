"""What the tests of the viewer share: recorded runs of every sort, and a server on a thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from tests.trace.runs import NOON, SPEC, hops, run
from wesichain.agent import AgentRuntime, Interrupted
from wesichain.core import (
    Event,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunCompleted,
    RunFailed,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolDispatched,
    Usage,
)
from wesichain.core.internal import JsonObject, NodeCompleted, NodeFailed, NodeStarted
from wesichain.learning import FunctionEmbedder, Playbook, PlaybookBullet, ToolCallingStrategy
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools import tool
from wesichain.trace import Recorder
from wesichain.web import create_app

TOKEN = "a-token-for-the-tests"
HOST = "http://127.0.0.1:8321"
PRICES = {"scripted": (2.0, 10.0)}


def record(folder: Path, events: list[Event]) -> None:
    with Recorder(folder) as recorder:
        for event in events:
            recorder.emit(event)


def failed_run(run_id: str = "failed-run") -> list[Event]:
    """A thought, a call that fails, the end."""
    args: JsonObject = {"url": "https://example.org/timetable", "depth": 2, "why": "the trains " * 12}
    call = ToolCall("c1", "fetch", args)
    reply = LlmResponse("I look at the timetable.", (call,), Usage(812, 40), "tool_calls")
    told = (Message(Role.USER, "When does the last train leave?"),)
    error = ("ToolFailedError", "fetch: no answer in 30 s")
    head = (run_id, 1)
    return [
        RunStarted(run_id, 0, 0, NOON, "When does the last train to Bergen leave?", "scripted", (SPEC,)),
        StepStarted(*head, 1, NOON + 0.1, told),
        ModelResponded(*head, 2, NOON + 1.3, reply, 1200.0),
        ToolDispatched(*head, 3, NOON + 1.4, call),
        StepFailed(*head, 4, NOON + 31.4, *error, "fail", "c1", "fetch", 30_000.0),
        RunFailed(*head, 5, NOON + 31.5, *error, Usage(812, 40)),
    ]


def graph_run(run_id: str = "graph-run") -> list[Event]:
    """A graph with a loop, a node that fails, and an agent inside a node."""
    events: list[Event] = [RunStarted(run_id, 0, 0, NOON, "Plan a week of meals", "graph")]

    def add(kind: Any, step: int, *args: Any, **more: Any) -> None:
        events.append(kind(run_id, step, len(events), NOON + len(events), *args, **more))

    add(NodeStarted, 1, node="prepare")
    add(NodeCompleted, 1, 12.0, ("messages",), node="prepare")
    add(NodeStarted, 2, node="model")
    events.append(
        RunStarted(run_id, 0, len(events), NOON, "Which dishes?", "scripted", (SPEC,), scope="model")
    )
    for inner in hops(run_id, 1, scope="model"):
        events.append(replace(inner, seq=len(events)))
    add(RunCompleted, 2, "Soup, pasta, curry.", Usage(300, 15), scope="model")
    add(NodeCompleted, 2, 1500.0, ("messages",), node="model")
    add(NodeStarted, 3, node="tools")
    add(NodeStarted, 3, node="critic")
    add(NodeCompleted, 3, 230.0, ("messages",), node="tools")
    add(NodeFailed, 3, "ValueError", "the plan has no vegetables", node="critic")
    add(NodeStarted, 4, node="model")
    add(NodeCompleted, 4, 900.0, ("plan",), node="model")
    add(RunCompleted, 4, {"plan": ["soup", "pasta", "curry"]}, Usage(300, 15))
    return events


def interrupted(
    run_id: str = "waiting-run", *, path: str = "/srv/report.txt", **options: Any
) -> Interrupted[str]:
    """A run that waits for a person's word on a deletion."""

    @tool(approval=True)
    async def delete(path: str) -> str:
        """Delete a file."""
        return f"deleted {path}"

    model = ScriptedLlm([calls(("delete", {"path": path}), content="I clean up."), "done"])
    runtime = AgentRuntime(model, [delete], **options)
    outcome = asyncio.run(runtime.run("Remove the old report", run_id=run_id))
    assert isinstance(outcome, Interrupted)
    return outcome


def embedder() -> FunctionEmbedder:
    def count_letters(texts: list[str]) -> Any:
        return np.array([[1 + len(text), *(text.count(letter) for letter in "aeiou")] for text in texts])

    return FunctionEmbedder("letters", 6, function=count_letters)


def playbook(path: Path) -> Playbook:
    book = Playbook.open(path, embedder(), sync=False)
    first = "Ask for the timetable first, then for the price."
    steps = ("timetable", "price")
    bullets = [
        ToolCallingStrategy(
            "trains", first, tool_sequence=steps, helpful_count=7, harmful_count=1, tags=("rail",)
        ),
        PlaybookBullet("dates", "Say the weekday with every date.", helpful_count=3),
        PlaybookBullet("guess", "Never guess a platform.", section="Pitfalls", harmful_count=3),
        PlaybookBullet("wasp", "Follow the first link.", harmful_count=4, helpful_count=1),
    ]
    for bullet in bullets:
        book.record(bullet, domain="travel")
    return book


@contextmanager
def serving(runs: Path, **options: Any) -> Iterator[str]:
    """The viewer on a free port; its address, without the token."""
    app = create_app(runs, token=TOKEN, hosts=["127.0.0.1"], **options)
    config = uvicorn.Config(
        app, port=0, log_level="error", lifespan="off", ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def example_store(folder: Path) -> None:
    """A few runs of every sort, as the screenshots show them."""
    for index in range(30):
        later(folder, run(f"learn-{index}", max(1, 7 - index // 4 + index % 3)), 600 * index)
    later(folder, failed_run(), 18_060)
    later(folder, graph_run(), 18_120)
    later(folder, run("paris", 3), 18_200)
    later(folder, run("oslo", 3, city="Oslo"), 18_300)


def later(folder: Path, events: list[Event], seconds: float) -> None:
    record(folder, [replace(event, at=event.at + seconds) for event in events])
