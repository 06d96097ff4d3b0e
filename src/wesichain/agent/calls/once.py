"""Calls that are made once a purchase: with a `unique` text, over all runs and workers of the journals.

The intent of a call claims its text in the store. A second call with it waits while the first is under way, and
is given its value; a first that failed releases it. Where the outcome is not known, the tool's `reconcile` says
what happened; without one, a person does.
"""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from wesichain.agent.rules import sentences
from wesichain.core.internal import Approve, ApproveWith, Provide, Refuse, Suspended
from wesichain.errors import ConfigError, ToolError, ToolExecutionError
from wesichain.journal.internal import Answer, Intent, Result
from wesichain.store import Claim, UniqueConflictError
from wesichain.tools import ToolResult
from wesichain.tools.internal import CallArgs, PreparedCall

from .questions import asked_about

if TYPE_CHECKING:
    from .batch import Batch

Effect = Coroutine[Any, Any, ToolResult]


def unique_of(prepared: PreparedCall) -> str:
    """The text that names what a call does once; "" for a tool without one."""
    rule: Any = prepared.tool.unique
    if rule is None:
        return ""
    try:
        text = rule(CallArgs.of(prepared.args))
    except Exception as error:
        raise ConfigError(
            f"unique= of tool {prepared.tool.name!r} raised {type(error).__name__}: {error}; it takes the "
            f"arguments, and returns a text such as 'charge:order-42'"
        ) from error
    if not isinstance(text, str) or not text:
        raise ConfigError(
            f"unique= of tool {prepared.tool.name!r} returned {text!r:.80}; return a text that says what is "
            f"done once, such as 'charge:order-42'"
        )
    return text


class UniqueCall:
    """One attempt at a call whose tool has a `unique` text."""

    def __init__(self, batch: Batch[Any], prepared: PreparedCall, name: str) -> None:
        run = self._run = batch.run
        self._batch = batch
        self._prepared = prepared
        self._entry = f"{run.log.place}call {name}"
        self._unique = unique_of(prepared)

    async def result(self, effect: Effect, *, is_unknown: bool) -> ToolResult:
        """The result of the call: of this one, or of the first one with the same text.

        `is_unknown`: this call had begun in another process, which has died.
        """
        try:
            known = (
                await self._what_happened(f"{self._prepared.tool.name!r} had begun") if is_unknown else None
            )
            while known is None and self._unique and (taken := await self._claim()) is not None:
                done = await self._outcome(taken)
                if done is not None and done.fault is None:
                    known = self._given(done)
                elif done is None:
                    known = await self._what_happened(f"{self._unique!r} was begun by the run {taken.log!r}")
                    break  # a person may have said that it is to be done
        except BaseException:
            effect.close()
            raise
        if known is not None:
            effect.close()
            return known
        result = await effect
        if isinstance(result.error, ToolExecutionError):  # it raised; a timeout may have had its effect
            self._release()
        return result

    async def _claim(self) -> UniqueConflictError | None:
        """Write the intent with the claim; returns who has it, if another call has."""
        log = self._run.log.log
        if log.writer is None:
            return self._claim_here()
        try:
            intent = Intent(self._unique, self._prepared.tool.name)
            await log.writer.first(f"{self._entry} ?", intent, claims=[Claim(self._unique, self._entry)])
        except UniqueConflictError as taken:
            return taken
        return None

    def _claim_here(self) -> UniqueConflictError | None:
        """Claim the text within this run, which has no store."""
        log = self._run.log.log
        for number, name in log.entries():
            body = log.body(number) if name.endswith(" ?") else None
            if isinstance(body, Intent) and body.unique == self._unique and name != f"{self._entry} ?":
                entry = name.removesuffix(" ?")
                done: Any = log.find(entry, Result)
                if done is None or done.fault is None:
                    return UniqueConflictError("taken", unique=self._unique, log=log.run_id, name=entry)
        if not log.has(f"{self._entry} ?"):
            log.write(f"{self._entry} ?", Intent(self._unique, self._prepared.tool.name))
        return None

    async def _outcome(self, taken: UniqueConflictError) -> Any:
        """What came of the call that has the text; None if nobody knows."""
        log = self._run.log.log
        if taken.log != log.run_id:
            return await self._run.wait(log.journals.uniques.outcome(taken.log, taken.name))
        while (found := log.find(taken.name, Result)) is None and self._run.is_under_way(taken.name):
            await self._run.wait(log.next_record())
        return found

    async def _what_happened(self, what: str) -> ToolResult | None:
        """The result of an act that a process had begun which has died; None if it is to be done now."""
        tool = self._prepared.tool
        if tool.reconcile is None:
            return self._person(f"{what}, in a process that has ended, and what came of it is unknown")
        found = tool.reconcile(self._unique, CallArgs.of(self._prepared.args))
        found = await found if inspect.isawaitable(found) else found
        return None if found is None else self._provided(found, None)

    def _provided(self, value: Any, error: str | None) -> ToolResult:
        return self._run.settings.registry.provide(self._prepared, value, error=error)

    def _person(self, why: str) -> ToolResult | None:
        """What a person says that happened; None if the act is to be done. Without an answer, the call waits."""
        run, tool, call = self._run, self._prepared.tool, self._prepared.call
        asked = asked_about(run, call, parameters=tool.spec.parameters, why=why, unknown=True)
        answer = run.log.find(f"answer {asked.token}", Answer)
        match None if answer is None else answer.decision:
            case Provide(value=value, error=error):
                return self._provided(value, error)
            case Refuse(reason=reason):
                return self._failed(ToolExecutionError(sentences.refused(reason)), ToolError(reason))
            case Approve() | ApproveWith():
                return None
            case None:
                run.question(asked)
                self._batch.wait_for_person(call)
                waiting = Suspended(f"{call.name!r} waits for a person: {why}")
                return self._failed(ToolExecutionError(str(waiting)), waiting)

    def _failed(self, error: ToolExecutionError, cause: BaseException) -> ToolResult:
        error.__cause__ = cause
        return ToolResult(self._prepared.call.id, self._prepared.tool.name, None, error)

    def _given(self, done: Any) -> ToolResult:
        """The value of the first call as the result of this one."""
        call, tool = self._prepared.call, self._prepared.tool
        finish, parts = getattr(done, "finish", False), getattr(done, "parts", ())
        return ToolResult(call.id, tool.name, done.value, None, 0.0, finish, parts)

    def _release(self) -> None:
        """Let another call do what this one has failed to do."""
        writer = self._run.log.log.writer
        if writer is not None:
            writer.release(self._unique)
