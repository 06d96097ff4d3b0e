"""What an agent is given in the arms that need no learner: nothing, the manual, or old runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from wesichain.core import ToolCallingLlm
from wesichain.learning import Embedder

from .play import Played, Seat
from .values import Desk, Task

EXAMPLES = 6  # old runs that the raw history shows: the newest that went well
_INTRO = "Earlier runs at this desk that went well:"
SeatFor = Callable[[ToolCallingLlm, Desk, Task], Awaitable[Seat]]


def instructions(desk: Desk) -> str:
    """What every arm is told."""
    return f"{desk.about} Do what is asked and nothing else, then answer."


async def baseline(llm: ToolCallingLlm, desk: Desk, _task: Task) -> Seat:
    """The tools alone."""
    return Seat(llm, instructions(desk))


async def manual(llm: ToolCallingLlm, desk: Desk, _task: Task) -> Seat:
    """Every rule of the desk, in a sentence each: what there is to learn, known from the start."""
    rules = "\n".join(f"- {sentence}" for sentence in desk.manual.values())
    return Seat(llm, f"{instructions(desk)}\nRules of this desk:\n{rules}")


@dataclass(frozen=True, slots=True)
class History:
    """The newest training runs that went well, as they were: the same for every task."""

    runs: Sequence[Played]

    async def __call__(self, llm: ToolCallingLlm, desk: Desk, _task: Task) -> Seat:
        good = [run for run in self.runs if run.success][-EXAMPLES:]
        told = "\n\n".join(map(transcript, good))
        return Seat(llm, f"{instructions(desk)}\n{_INTRO}\n\n{told}" if good else instructions(desk))


class NearestCase:
    """The training run that went well whose question is nearest to the task's, as it was."""

    def __init__(self, runs: Sequence[Played], embedder: Embedder) -> None:
        self._good = [run for run in runs if run.success]
        self._embedder = embedder
        self._rows = embedder.embed([run.question for run in self._good]) if self._good else None

    async def __call__(self, llm: ToolCallingLlm, desk: Desk, task: Task) -> Seat:
        if self._rows is None:
            return Seat(llm, instructions(desk))
        asked = (await asyncio.to_thread(self._embedder.embed, [task.question]))[0]
        nearest = self._good[int((self._rows @ asked).argmax())]
        return Seat(llm, f"{instructions(desk)}\n{_INTRO}\n\n{transcript(nearest)}")


def transcript(run: Played) -> str:
    """A run for a reader, human or model."""
    lines = [f"Question: {run.question}"]
    for call in run.calls:
        if "fault" in call:
            lines.append(f"({call['fault']})")
            continue
        result = (
            f"error: {call['error']}"
            if "error" in call
            else json.dumps(call.get("result"), ensure_ascii=False)
        )
        lines.append(f"{call['tool']}({json.dumps(call['args'], ensure_ascii=False)}) -> {result}")
    lines.append(f"Answer: {run.answer}" if run.ended == "completed" else f"Ended: {run.ended}")
    return "\n".join(lines)
