"""Conversation turns: adds the question and the answer of a durable run to the conversation it is part of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

from wesichain.agent import Completed, Interrupted, Outcome, RunMemory
from wesichain.core import Message, Role
from wesichain.errors import WesichainError

from .workflow_ids import Begin

_log = logging.getLogger("wesichain.durable")
_LOOK = 2.0  # seconds between two looks at a run that waits for a person
_OPEN = ("pending", "running", "interrupted")


class ConversationTurns:
    """Follows the runs that belong to conversations, and extends these when the runs complete."""

    def __init__(
        self,
        outcome: Callable[[str], Awaitable[Outcome[Any]]],
        status: Callable[[str], Awaitable[str]],
    ) -> None:
        self._outcome = outcome
        self._status = status
        self._following: dict[str, tuple[object, asyncio.Task[None]]] = {}  # by run, with its conversation

    def follow(self, run_id: str, conversation: RunMemory, order: Begin, *, is_new: bool) -> None:
        """Add the turn of a run once that has completed, wherever it runs. A run is followed once, anew."""
        before = self._following.get(run_id)
        if before is not None:
            before[1].cancel()
        task = asyncio.create_task(self._follow(run_id, conversation, order, is_new=is_new))
        self._following[run_id] = _key_of(conversation), task
        task.add_done_callback(partial(self._left, run_id))

    async def catch_up(self, conversation: RunMemory | None = None) -> None:
        """Wait until the turns of runs that have completed are added: those of a conversation, or all."""
        for run_id, (key, task) in [*self._following.items()]:
            is_asked = conversation is None or key == _key_of(conversation)
            if is_asked and await self._status(run_id) == "completed":
                await asyncio.wait([task])

    async def add(
        self, run_id: str, conversation: RunMemory, order: Begin, outcome: Completed[Any], *, is_new: bool
    ) -> None:
        """Add the question and the answer of a run, once, whichever processes try to.

        A memory without `extend_once` cannot know the run of a turn: the messages are compared.
        """
        turn = (Message(Role.USER, order.parts or order.task), Message(Role.ASSISTANT, outcome.text))
        extend_once = getattr(conversation, "extend_once", None)
        if extend_once is not None:
            with suppress(NotImplementedError):
                await extend_once(run_id, *turn)
                return
        if is_new or turn not in pairwise(_since(order.earlier, await conversation.read())):
            await conversation.extend(*turn)

    def _left(self, run_id: str, task: asyncio.Task[None]) -> None:
        if (known := self._following.get(run_id)) is not None and known[1] is task:
            del self._following[run_id]

    async def close(self) -> None:
        """Follow no more runs; the turns of those that have completed are added."""
        with suppress(WesichainError):  # a database that is away
            await self.catch_up()
        for _, task in self._following.values():
            task.cancel()

    async def _follow(self, run_id: str, conversation: RunMemory, order: Begin, *, is_new: bool) -> None:
        try:
            outcome = await self._outcome(run_id)
            while isinstance(outcome, Interrupted) and outcome.pending:
                is_new = False  # a person decides, here or in another process, which then follows it, too
                await asyncio.sleep(_LOOK)
                if await self._status(run_id) not in _OPEN:
                    outcome = await self._outcome(run_id)
            if isinstance(outcome, Completed):
                await self.add(run_id, conversation, order, outcome, is_new=is_new)
        except WesichainError as error:
            _log.warning("the run %s is not added to its conversation: %s", run_id, error)


def _since(earlier: tuple[Message, ...], messages: Sequence[Message]) -> Sequence[Message]:
    """The messages after those that were there when the run began: it may repeat one of them."""
    return messages[len(earlier) :] if tuple(messages[: len(earlier)]) == earlier else messages


def _key_of(conversation: RunMemory) -> object:
    """A key that is the same for what a store opens twice under one id."""
    return getattr(conversation, "id", id(conversation))
