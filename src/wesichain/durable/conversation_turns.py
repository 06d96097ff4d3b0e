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
from wesichain.agent.internal import add_turn, keeps_keys
from wesichain.core import Message, Role
from wesichain.errors import WesichainError

from .workflow_ids import BeginWorkflow

_log = logging.getLogger("wesichain.durable")
_PAUSE = 2.0  # seconds between two polls of a run that waits for a decision
_OPEN = ("pending", "running", "interrupted")


class ConversationTurns:
    """Follows the runs that belong to conversations, and adds their turns when they complete."""

    def __init__(
        self,
        outcome: Callable[[str], Awaitable[Outcome[Any]]],
        status: Callable[[str], Awaitable[str]],
    ) -> None:
        self._outcome = outcome
        self._status = status
        self._following: dict[str, tuple[object, asyncio.Task[None]]] = {}  # by run, with its conversation

    def follow(self, run_id: str, conversation: RunMemory, order: BeginWorkflow, *, is_new: bool) -> None:
        """Add the turn of a run when it completes, in any process. A second call replaces the first."""
        before = self._following.get(run_id)
        if before is not None:
            before[1].cancel()
        task = asyncio.create_task(self._follow(run_id, conversation, order, is_new=is_new))
        self._following[run_id] = _key_of(conversation), task
        task.add_done_callback(partial(self._left, run_id))

    async def catch_up(self, conversation: RunMemory | None = None) -> None:
        """Wait until the turns of completed runs are added: those of one conversation, or all."""
        for run_id, (key, task) in [*self._following.items()]:
            is_asked = conversation is None or key == _key_of(conversation)
            if is_asked and await self._status(run_id) == "completed":
                await asyncio.wait([task])

    async def add(
        self,
        run_id: str,
        conversation: RunMemory,
        order: BeginWorkflow,
        outcome: Completed[Any],
        *,
        is_new: bool,
    ) -> None:
        """Add the question and the answer of a run, once, whichever processes try to.

        A memory that keeps no keys does not know the run of a turn: the messages are compared.
        """
        turn = (Message(Role.USER, order.parts or order.task), Message(Role.ASSISTANT, outcome.text))
        is_added = False
        if not (is_new or keeps_keys(conversation)):
            is_added = turn in pairwise(_since(order.earlier, await conversation.read()))
        if not is_added:
            await add_turn(conversation, turn, key=run_id)

    def _left(self, run_id: str, task: asyncio.Task[None]) -> None:
        if (known := self._following.get(run_id)) is not None and known[1] is task:
            del self._following[run_id]

    async def close(self) -> None:
        """Add the turns of completed runs, and stop following the others."""
        with suppress(WesichainError):  # the database cannot be reached
            await self.catch_up()
        for _, task in self._following.values():
            task.cancel()

    async def _follow(
        self, run_id: str, conversation: RunMemory, order: BeginWorkflow, *, is_new: bool
    ) -> None:
        try:
            outcome = await self._outcome(run_id)
            while isinstance(outcome, Interrupted) and outcome.pending:
                is_new = False  # the process in which a person decides follows the run too
                await asyncio.sleep(_PAUSE)
                if await self._status(run_id) not in _OPEN:
                    outcome = await self._outcome(run_id)
            if isinstance(outcome, Completed):
                await self.add(run_id, conversation, order, outcome, is_new=is_new)
        except WesichainError as error:
            _log.warning("the turn of the run %s was not added to its conversation: %s", run_id, error)


def _since(earlier: tuple[Message, ...], messages: Sequence[Message]) -> Sequence[Message]:
    """The messages after those that the run began with: only these can be its own."""
    return messages[len(earlier) :] if tuple(messages[: len(earlier)]) == earlier else messages


def _key_of(conversation: RunMemory) -> object:
    """The id of a stored conversation, which may be opened several times, or the identity of another."""
    return getattr(conversation, "id", id(conversation))
