"""Showing: what of a long run the model is still shown, as the context views say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from wesichain.agent.phases import Active, Thinking
from wesichain.agent.rules import is_response
from wesichain.agent.run_state import PASSING, CutOff, RunState, Stopped
from wesichain.context import ViewQuestion, ViewRequest, counter_of, quiet_of
from wesichain.core import NO_USAGE, ContextReduced, Cut, ToolCallingLlm, Usage
from wesichain.errors import BudgetExceededError
from wesichain.policy import cost_of

if TYPE_CHECKING:
    from wesichain.context import Seen

OutT = TypeVar("OutT")

_NO_SUMMARY = "the model answered, and gave no summary"


class Showing(Generic[OutT]):
    """Cuts what the next request need not have; the log keeps everything."""

    __slots__ = ("_limit", "_run", "_seen")

    _run: RunState[OutT]
    _limit: BudgetExceededError | None
    _seen: Seen | None  # what the model is shown, where that is not the whole log

    def _view_of(self, phase: Active[OutT]) -> Seen:
        from wesichain.context import Seen  # loaded with the first view

        views = self._run.settings.context
        return Seen(phase.info.first_new, counter_of(views), quiet=quiet_of(views))

    async def _show(self, phase: Thinking[OutT], seen: Seen, question: tuple[int, ViewQuestion]) -> None:
        """Ask a model what a view wants to know, and let those behind it have their say."""
        asked: tuple[int, ViewQuestion] | None = question
        while asked is not None:
            await self._consult(seen, *asked)
            asked = self._reduce(phase, seen, asked[0] + 1)

    def _reduce(self, phase: Thinking[OutT], seen: Seen, first: int = 0) -> tuple[int, ViewQuestion] | None:
        """Let the views cut what the next request need not have; each cut is told before the step begins.

        Where a view, from the `first` on, has to ask a model, its number and its question are returned.
        """
        begun, trail = seen.length, phase.trail
        if begun != trail.length:
            seen.take(trail.log.messages[begun : trail.length])
        run = self._run
        if not begun:
            for cut in run.tally.cuts:  # of the part of the run before this one
                seen.cut(cut)
        if seen.tokens <= seen.quiet:
            return None
        for number, view in enumerate(run.settings.context[first:], first):
            found = view.reduce(seen)
            if isinstance(found, ViewQuestion):
                if self._limit is None and run.account.refusal(run.now(), free=run.tally.free) is None:
                    return number, found
            elif found:
                self._cut(seen, view.name, found)
        self._fit(seen)
        return None

    def _fit(self, seen: Seen) -> None:
        """Hold the views to their limits: results are cut further, or the run fails before it asks."""
        views = self._run.settings.context
        for view in views:
            limit = getattr(view, "limit_tokens", None)
            if limit is not None and seen.tokens > limit:
                from wesichain.context import fit

                self._cut(seen, view.name, fit(seen, limit, view.name, counter_of(views)))

    def _cut(
        self, seen: Seen, view: str, cuts: Sequence[Cut], cost: float = 0.0, usage: Usage = NO_USAGE
    ) -> None:
        for cut in cuts:
            seen.check(cut, view)
            seen.cut(cut)
        self._run.emitter.tell(ContextReduced, self._run.step + 1, view, tuple(cuts), cost, usage)
        self._run.check_stop()  # by somebody who was just told

    async def _consult(self, seen: Seen, number: int, question: ViewQuestion) -> None:
        """Ask a model what a view wants to know. Where it cannot say, that is told, and nothing is cut."""
        run, step, view = self._run, self._run.step + 1, self._run.settings.context[number].name
        model = run.settings.model if question.llm is None else _name_of(question.llm)
        request = ViewRequest(model, question.messages, view=number, llm=question.llm)
        price = run.account.price_of(model)
        cost, usage = 0.0, NO_USAGE
        try:
            reply = await run.wait(run.effects.ask(request, step_id=step, on_text=None))
        except (Stopped, CutOff, *PASSING):
            raise
        except Exception as error:  # noqa: BLE001  # a model may be anybody's code
            run.check_stop()
            run.emitter.tell(
                ContextReduced, step, view, (), 0.0, NO_USAGE, f"{type(error).__name__}: {error}"
            )
            return
        text = ""
        if is_response(reply):
            text, usage = reply.content, reply.usage
            cost = cost_of(usage, price)
            run.account.spend_usage(usage, cost)
            if reply.finish_reason == "error":
                text = ""
        if text.strip():
            self._cut(seen, view, question.cuts(text), cost, usage)
        else:
            run.emitter.tell(ContextReduced, step, view, (), cost, usage, _NO_SUMMARY)


def _name_of(llm: ToolCallingLlm) -> str:
    return str(getattr(llm, "model", "") or type(llm).__name__)
