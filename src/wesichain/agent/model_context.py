"""The model's context: the part of a long run that the context views leave in the requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain.context import ViewQuestion, ViewRequest
from wesichain.context.internal import counter_of, inactive_below
from wesichain.core import Message, Usage
from wesichain.core.internal import NO_USAGE, ContextReduced, Cut, LogView, replace

from .model_names import name_of_model
from .phases import AnyPhase, Thinking
from .rules.reply_judge import is_response
from .run_state import PASSING, CutOff, RunState, Stopped

_NO_SUMMARY = "the model answered, and gave no summary"  # in logs, which replays compare


class ModelContext:
    """Shortens the requests of one run; its log keeps everything."""

    __slots__ = ("_run", "_seen")

    def __init__(self, run: RunState[Any], phase: AnyPhase) -> None:
        from wesichain.context import VisibleLog  # loaded with the first view

        views = run.settings.context
        self._run = run
        self._seen = VisibleLog(phase.info.first_new, counter_of(views), quiet=inactive_below(views))

    @property
    def messages(self) -> LogView[Message]:
        """The messages of the next request."""
        return self._seen.messages

    def cuts(self) -> tuple[Cut, ...] | None:
        """The cuts so far, to store with an interrupted run; None before the first request."""
        return self._seen.cuts() if self._seen.length else None

    async def consult(
        self, phase: Thinking[Any], question: tuple[int, ViewQuestion], *, may_ask: bool
    ) -> None:
        """Call a model for a view, and let the views behind it cut too."""
        asked: tuple[int, ViewQuestion] | None = question
        while asked is not None:
            await self._ask(*asked)
            asked = self.reduce(phase, may_ask=may_ask, first=asked[0] + 1)

    def reduce(
        self, phase: Thinking[Any], *, may_ask: bool, first: int = 0
    ) -> tuple[int, ViewQuestion] | None:
        """Let the views, from the `first` on, shorten the next request; each cut is an event before the step.

        If a view has to call a model, its number and its question are returned.
        """
        seen = self._seen
        begun, trail = seen.length, phase.trail
        if begun != trail.length:
            seen.take(trail.log.messages[begun : trail.length])
        run = self._run
        if not begun:
            for cut in run.tally.cuts:  # made before an interruption
                seen.cut(cut)
        if seen.tokens <= seen.quiet:
            return None
        for number, view in enumerate(run.settings.context[first:], first):
            found = view.reduce(seen)
            if isinstance(found, ViewQuestion):
                if not may_ask:
                    continue
                if run.account.refusal(run.now(), free=run.tally.free) is not None:
                    return None  # there will be no next request
                return number, found
            elif found:
                self._cut(view.name, found)
        self.fit()
        return None

    def fit(self) -> None:
        """Enforce the limits of the views: cut results further, or fail before the model is called."""
        seen, views = self._seen, self._run.settings.context
        for view in views:
            limit = getattr(view, "limit_tokens", None)
            if limit is not None and seen.tokens > limit:
                from wesichain.context.internal import fit

                self._cut(view.name, fit(seen, limit, view.name, counter_of(views)))

    def _cut(self, view: str, cuts: Sequence[Cut], cost: float = 0.0, usage: Usage = NO_USAGE) -> None:
        for cut in cuts:
            self._seen.check(cut, view)
            self._seen.cut(cut)
        self._run.emitter.emit(ContextReduced, self._run.step + 1, view, tuple(cuts), cost, usage)
        self._run.check_stop()  # a listener may have stopped the run

    async def _ask(self, number: int, question: ViewQuestion) -> None:
        """Call a model for a view. An error is recorded, and nothing is cut."""
        run, step, view = self._run, self._run.step + 1, self._run.settings.context[number].name
        model = run.settings.model if question.llm is None else name_of_model(question.llm)
        request = ViewRequest(model, question.messages, view=number, llm=question.llm)
        run.account.price_of(model)  # raises if the cost is limited and there is no price
        cost, usage = 0.0, NO_USAGE
        try:
            reply = await run.wait(run.effects.ask(request, step_id=step, on_text=None))
        except BaseException as cause:  # noqa: BLE001  # a model may be anybody's code
            error = run.fault_of(cause)
            if not isinstance(error, Exception) or isinstance(error, (Stopped, CutOff, *PASSING)):
                raise error  # noqa: B904  # it has its cause
            run.check_stop()
            run.emitter.emit(
                ContextReduced, step, view, (), 0.0, NO_USAGE, f"{type(error).__name__}: {error}"
            )
            return
        text = ""
        if is_response(reply):
            text, usage = reply.content, reply.usage
            is_own = reply.model or question.llm is None
            cost = run.account.spend_reply(reply if is_own else replace(reply, model=model))
            if reply.finish_reason == "error":
                text = ""
        if text.strip():
            self._cut(view, question.cuts(text), cost, usage)
        else:
            run.emitter.emit(ContextReduced, step, view, (), cost, usage, _NO_SUMMARY)
