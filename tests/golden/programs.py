"""The programs behind the golden files. `python -m tests.golden.programs FOLDER` writes a new set; old ones stay."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.learning.kit import note, strategy, words
from wesichain import Agent, Approve, Budget, Message, ObserveErrors, Role, tool
from wesichain.core import LlmResponse, ToolCall, Usage, to_json
from wesichain.errors import GraphInterruptedError, LlmRejectedError
from wesichain.graph import ExecutionOptions, react_graph
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.learning import Playbook
from wesichain.testing import ScriptedLlm
from wesichain.trace import Recorder

KINDS = ("answered", "failed", "approved", "nested")
SPENT = Usage(120, 8)


def look_up(city: str) -> dict[str, Any]:
    """The weather of a city."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return {"city": city, "sky": "grün ☀", "degrees": 21.5}


@tool(approval=True)
def send(to: str, text: str) -> str:
    """Send a message."""
    return f"sent {len(text)} letters to {to}"


def call(number: int, name: str, args: dict[str, Any], **more: Any) -> LlmResponse:
    made = (ToolCall(f"call-{number}", name, args),)
    return LlmResponse(f"Step {number}.", made, SPENT, "tool_calls", **more)


def agent(kind: str, *, asked: int = 0) -> Agent[Any, str]:
    """The program of a recording, with its model's script, of which `asked` replies are used up."""
    signed: Any = {"anthropic": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]}
    match kind:
        case "answered":
            replies: list[Any] = [
                call(1, "look_up", {"city": "Oslo"}, reasoning="Oslo first", opaque=signed),
                call(2, "look_up", {"city": "Atlantis"}),
                LlmResponse("Green in Oslo.", (), SPENT),
            ]
            return Agent(
                ScriptedLlm(replies), tools=[look_up], instructions="Be brief.", policy=ObserveErrors()
            )
        case "failed":
            refused: list[Any] = [call(1, "look_up", {"city": "Rome"}), LlmRejectedError("no more of this")]
            return Agent(ScriptedLlm(refused), tools=[look_up], budget=Budget(steps=4))
        case "approved":
            sending = [call(1, "send", {"to": "Ada", "text": "hello"}), LlmResponse("Done.", (), SPENT)]
            return Agent(ScriptedLlm(sending[asked:]), tools=[send])
        case _:
            inner = Agent(
                ScriptedLlm([call(1, "look_up", {"city": "Bern"}), LlmResponse("Green.", (), SPENT)]),
                tools=[look_up],
            ).as_tool(name="forecaster", description="Asks about the weather.")
            replies = [call(1, "forecaster", {"task": "Bern?"}), LlmResponse("Green in Bern.", (), SPENT)]
            return Agent(ScriptedLlm(replies), tools=[inner])


HISTORY = (Message(Role.USER, "Earlier?"), Message(Role.ASSISTANT, "Yes."))


async def record(kind: str, folder: Path) -> None:
    """The recording of a run, and its outcomes as JSON."""
    program = agent(kind)
    recorder = Recorder(folder / kind, durable=True)
    task = "Where is it green?"
    outcome = await program.outcome(task, history=HISTORY, run_id=kind, events=recorder)
    (folder / f"{kind}-outcome.json").write_text(to_json(outcome))
    if kind == "approved":
        token = outcome.pending[0].token  # type: ignore[union-attr]  # it waits
        after = await program.runtime.resume(outcome, {token: Approve()}, events=recorder)  # type: ignore[arg-type]  # likewise
        (folder / f"{kind}-after.json").write_text(to_json(after))
    recorder.close()
    [file] = (folder / kind).iterdir()
    file.rename(folder / f"{kind}.jsonl")
    (folder / kind).rmdir()


async def checkpoint(folder: Path) -> None:
    """A thread of a ReAct graph that waits for an approval, as SQL."""
    path = folder / "thread.db"
    saver = SqliteCheckpointer(path)
    with suppress(GraphInterruptedError):
        await thread_graph(saver).invoke({"input": "Tell Ada."}, ExecutionOptions(thread_id="golden"))
    saver.close()
    with closing(sqlite3.connect(path)) as database:
        pragmas = [
            f"PRAGMA {name}={database.execute(f'PRAGMA {name}').fetchone()[0]};"
            for name in ("application_id", "user_version")
        ]
        dump = "\n".join([*pragmas, *database.iterdump()])
    (folder / "thread.sql").write_text(dump)
    for file in folder.glob("thread.db*"):
        file.unlink()


def thread_graph(saver: Any, *, asked: int = 0) -> Any:
    replies = [
        call(1, "look_up", {"city": "Oslo"}),
        call(2, "send", {"to": "Ada", "text": "green"}),
        LlmResponse("Told.", (), SPENT),
    ]
    return react_graph(llm=ScriptedLlm(replies[asked:]), tools=[look_up, send], checkpointer=saver)


def playbook(folder: Path) -> None:
    with Playbook.open(folder / "playbook", embedder=words()) as book:
        book.record(strategy("the weather of a city", "look_up", helpful=6), domain="weather")
        book.record(note("Cities are written in English.", helpful=4), domain="weather")
    for file in (folder / "playbook").rglob("*"):
        if file.is_file() and file.suffix not in (".jsonl", ".json"):
            file.unlink()


async def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        await record(kind, folder)
    await checkpoint(folder)
    playbook(folder)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
