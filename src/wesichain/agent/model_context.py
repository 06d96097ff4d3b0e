"""The model's context: the part of a long run that the context views leave in the requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain.context import ViewQuestion, ViewRequest
from wesichain.context.internal import counter_of, inactive_below
from wesichain.core import Message, Usage
from wesichain.core.internal import NO_USAGE, Cut, LogView, replace
from wesichain.journal.internal import View

from .model_names import name_of_model
from .phases import AnyPhase, Thinking
from .rules.reply_judge import is_response
from .run_state import PASSING, CutOff, RunState, Stopped

_NO_SUMMARY = "the model answered, and gave no summary"  # in logs, which replays compare


class ModelContext:
    """Shortens the requests of one run; its log keeps everything."""

    __slots__ = ("_count", "_run", "_seen", "_step")

    def __init__(self, run: RunState[Any], phase: AnyPhase) -> None:
        from wesichain.context import VisibleLog  # loaded with the first view

        views = run.settings.context
        self._run = run
        self._step = self._count = 0  # the views that were recorded for a step
        self._seen = VisibleLog(phase.info.first_new, counter_of(views), quiet=inactive_below(views))

    @property
    def messages(self) -> LogView[Message]:
        """The messages of the next request."""
        return self._seen.messages

    def take_recorded(self, phase: Thinking[Any], step: int) -> None:
        """Take the messages of a recorded request, and what the views left out of it."""
        self._take_new(phase)
        self._step, self._count = step, 0
        while (view := self._run.log.find(f"view {step} {self._count + 1}", View)) is not None:
            for cut in view.cuts:
                self._seen.cut(cut)
            self._count += 1

    def _take_new(self, phase: Thinking[Any]) -> None:
        seen, trail = self._seen, phase.trail
        if seen.length != trail.length:
            seen.take(trail.log.messages[seen.length : trail.length])

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
        seen, run = self._seen, self._run
        self._take_new(phase)
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

    def _cut(
        self, view: str, cuts: Sequence[Cut], cost: float = 0.0, usage: Usage = NO_USAGE, unpriced: str = ""
    ) -> None:
        for cut in cuts:
            self._seen.check(cut, view)
            self._seen.cut(cut)
        self._record(View(view, tuple(cuts), cost, usage, unpriced))
        self._run.check_stop()  # a listener may have stopped the run

    def _record(self, view: View) -> None:
        """Record what a view did for the next step."""
        step = self._run.step + 1
        if step != self._step:
            self._step, self._count = step, 0
        self._count += 1
        self._run.log.write(f"view {step} {self._count}", view)

    async def _ask(self, number: int, question: ViewQuestion) -> None:
        """Call a model for a view. An error is recorded, and nothing is cut."""
        run, view = self._run, self._run.settings.context[number].name
        model = run.settings.model if question.llm is None else name_of_model(question.llm)
        request = ViewRequest(model, question.messages, view=number, llm=question.llm)
        run.account.price_of(model)  # raises if the cost is limited and there is no price
        run.log.refuse(f"view {run.step + 1} {self._count + 1}")
        cost, usage, unpriced = 0.0, NO_USAGE, ""
        try:
            await run.wait(run.log.log.flush())
            reply = await run.wait(run.backend.ask(request, on_text=None))
        except BaseException as cause:  # noqa: BLE001  # a model may be anybody's code
            error = run.fault_of(cause)
            if not isinstance(error, Exception) or isinstance(error, (Stopped, CutOff, *PASSING)):
                raise error  # noqa: B904  # it has its cause
            run.check_stop()
            self._record(View(view, trouble=f"{type(error).__name__}: {error}"))
            return
        text = ""
        if is_response(reply):
            text, usage = reply.content, reply.usage
            is_own = reply.model or question.llm is None
            cost, unpriced = run.account.spend_reply(reply if is_own else replace(reply, model=model))
            if reply.finish_reason == "error":
                text = ""
        if text.strip():
            self._cut(view, question.cuts(text), cost, usage, unpriced)
        else:
            self._record(View(view, (), cost, usage, unpriced, _NO_SUMMARY))
