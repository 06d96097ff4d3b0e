"""Calls in the background: a call answers at once, and its result comes later as a message to the run.

The result is an entry like any message from outside, so that a run that goes on in another process has it. A
call without one is made again, except for a `once` call that had begun: its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from wesichain.agent.rules import sentences
from wesichain.agent.run_state import RunState
from wesichain.core import Message, Text, ToolCall
from wesichain.core.internal import abandon, text_of
from wesichain.journal.internal import Say, escape_id
from wesichain.tools import ToolContext, ToolResult
from wesichain.tools.internal import PreparedCall

from .open_call import OpenCall


class BackgroundCalls:
    """The calls of one run that go on beside it."""

    def __init__(self, run: RunState[Any]) -> None:
        self._run = run
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by the names of the calls in the log
        self._tools: dict[str, str] = {}  # what becomes of a call when the run would end, by its name
        self.waiting: list[str] = []  # the names of calls that wait for something

    def start(self, prepared: PreparedCall, step: int, messages: Sequence[Message]) -> None:
        """Make a call beside the run."""
        name = f"{step} {escape_id(prepared.call.id)} 1"
        opened = OpenCall(self._run, messages, prepared.call, 1)
        self._tools[name] = prepared.tool.on_end
        task = asyncio.ensure_future(self._make(name, prepared, opened, step))
        self._tasks[name] = task
        self._run.log.log.is_open = True

    def lose(self, call: ToolCall, step: int) -> None:
        """Tell the run that the outcome of a call is unknown, which had begun in another process."""
        name = f"{step} {escape_id(call.id)} 1"
        self._tell(name, call, sentences.outcome_unknown(call.name), None)

    async def _make(self, name: str, prepared: PreparedCall, opened: OpenCall, step: int) -> None:
        run, call = self._run, prepared.call
        try:
            result = await run.backend.call(prepared, _Caller(opened, step))
            while opened.waits(result.error) and opened.has_live_runs:
                await opened.wait_until_idle()
            if opened.waits(result.error):
                self.waiting.append(name)
                return
            error = result.error
            text = sentences.tool_error(str(error)) if error is not None else ""
            self._tell(name, call, text, result)
        finally:
            opened.close()
            self._tasks.pop(name, None)

    def _tell(self, name: str, call: ToolCall, text: str, result: ToolResult | None) -> None:
        run = self._run
        value = result.value if result is not None and result.ok else None
        heading = sentences.background_result(call.name, text or text_of(value))
        parts = result.parts if result is not None and result.ok else ()
        said = Say(
            value=value,
            text=heading,
            parts=(Text(heading), *parts) if parts else (),
            when="next",
            place=run.log.place,
            call=call.id,
        )
        log = run.log.log
        log.receive((f"{run.log.place}say done {name}", said, log.clock.time(), log.elapsed))

    @property
    def awaited(self) -> bool:
        """Whether the run does not end before a call has: unless its tool says otherwise."""
        return any(self._tools[name] == "wait" for name in self._tasks)

    async def wait(self) -> None:
        """Wait until a call that the run does not end before has ended, or waits for something."""
        tasks = [task for name, task in self._tasks.items() if self._tools[name] == "wait"]
        if tasks:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def end(self) -> None:
        """Cancel the calls that end with the run; those that are left go on, and nobody hears of them."""
        await abandon([task for name, task in self._tasks.items() if self._tools[name] != "leave"])

    def cancel(self) -> None:
        """Cancel all calls: this leg of the work has ended."""
        for task in [*self._tasks.values()]:
            task.cancel()


class _Caller:
    """Makes the context of a call that goes on beside the run."""

    def __init__(self, opened: OpenCall, step: int) -> None:
        self._opened = opened
        self._step = step

    def context(self, call: ToolCall) -> ToolContext:
        run = self._opened.run
        return ToolContext(
            step_id=self._step,
            deps=run.deps,
            agent=run.settings.name,
            call_id=call.id,
            attempt=1,
            **self._opened.late(self._step),
        )
