"""Bounds: the most that a run of an agent, and all runs below it, can spend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import floor
from typing import Any

from wesichain.core.internal import AnyPrice, Price, Value, field
from wesichain.policy import (
    Budget,
    FailFast,
    ObserveErrors,
    Recovery,
    RepromptN,
    RepromptOnceWithToolCatalog,
    SelfCorrect,
)
from wesichain.tools import ToolSearch

from .handoffs.current_agent import team_of

_GRACE = 2.0  # seconds after its time limit within which a run ends, with the time to clean up
# Policies with which every retry spends a step.
_PAYING = (FailFast, ObserveErrors, RepromptN, RepromptOnceWithToolCatalog, SelfCorrect)


class Bounds(Value):
    """The most that a run can spend, with the runs below it. A field is None if nothing limits it.

    For each such field, `reasons` says why, and what would limit it. A model call that was cancelled and is
    made again in a resumed run counts once. Agents that a tool runs itself (`parent=ctx`) are not known
    beforehand: they spend the steps of this run, and are assumed to have no free retries and no
    `on_limit="answer"`.

    `outside_reach` has the tools, and their parameters, that text of strangers can decide without a person:
    all of them without a `Flow`, and with one those that it does not protect.
    """

    steps: int
    model_calls: int
    tool_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    outside_reach: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


class AgentLimits(Value):
    """The limits of one agent from which its bounds follow; `below` are the agents that are its tools.

    `reply_tokens` and `request_tokens` are the maximum of one model call, or None. `summaries` is the number
    of further model calls that a step may take, `models` the number of models that one call may try in turn.
    `prices` are those of its models.
    """

    budget: Budget
    answers: bool = False
    free_retries: int = 0
    has_tools: bool = True
    concurrency: int = 1
    summaries: int = 0
    models: int = 1
    request_tokens: int | None = None
    reply_tokens: int | None = None
    prices: tuple[AnyPrice | None, ...] = ()
    below: tuple[AgentLimits, ...] = ()

    def all_below(self) -> Iterator[AgentLimits]:
        for one in self.below:
            yield one
            yield from one.all_below()


def bounds_of(limits: AgentLimits) -> Bounds:
    """The bounds of a run of an agent with these limits."""
    budget, reasons = limits.budget, dict[str, str]()
    steps = int(budget.steps)
    calls = _model_calls(limits, steps)
    tool_calls = _tool_calls(limits, reasons)
    tokens = _tokens(limits, calls, reasons)
    models = max(one.models for one in (limits, *limits.all_below()))
    return Bounds(
        steps=steps,
        model_calls=calls * models,  # a `Fallback` also calls models that fail, which spend nothing
        tool_calls=tool_calls,
        tokens=tokens,
        cost=_cost(limits, tokens, reasons),
        seconds=_seconds(limits, reasons),
        reasons=reasons,
    )


def _model_calls(limits: AgentLimits, steps: int) -> int:
    """Every step is one call; free retries, last answers and summaries come on top.

    The run itself spends at least one step. Each further step may be spent by a run below it, which has its
    own free retries. A run below makes a call for a last answer only after it has met its own limit.
    """
    rates = [0.0]
    for one in limits.all_below():
        rates.append(float(one.free_retries))
        if one.answers:
            needed = 1 if one.budget.tool_calls is not None else min(int(one.budget.steps), steps)
            rates.append((one.free_retries + 1) / needed)
    extra = limits.free_retries + int(limits.answers) + floor((steps - 1) * max(rates))
    summaries = max([limits.summaries, *(one.summaries for one in limits.all_below())])
    return (steps + extra) * (1 + summaries)


def _tool_calls(limits: AgentLimits, reasons: dict[str, str]) -> int | None:
    if not limits.has_tools:
        return 0
    if limits.budget.tool_calls is not None:
        return int(limits.budget.tool_calls)
    reasons["tool_calls"] = "one reply may ask for any number of calls; set Budget(tool_calls=...)"
    return None


def _tokens(limits: AgentLimits, calls: int, reasons: dict[str, str]) -> int | None:
    """Without a limit for one call there is none for the run: a budget only prevents the next call."""
    everyone = [limits, *limits.all_below()]
    if any(one.request_tokens is None for one in everyone):
        reasons["tokens"] = "a request may be of any length; set context=[Window(max_tokens)] for every agent"
        return None
    if any(one.reply_tokens is None for one in everyone):
        reasons["tokens"] = "a reply may be of any length; set ModelSettings(max_tokens=...) for every agent"
        return None
    if any(one.summaries for one in everyone):
        reasons["tokens"] = "the request for a summary may be of any length; use a Window without Summarise"
        return None
    largest = max((one.request_tokens or 0) + (one.reply_tokens or 0) for one in everyone)
    total = calls * largest
    if limits.budget.tokens is not None:
        total = min(total, int(limits.budget.tokens) + _in_flight(limits) * largest)
    return total


def _in_flight(limits: AgentLimits) -> int:
    """The number of model calls that can be in progress at once, in concurrent runs at every depth."""
    return max([1, *(limits.concurrency * _in_flight(one) for one in limits.below)])


def _cost(limits: AgentLimits, tokens: int | None, reasons: dict[str, str]) -> float | None:
    prices = [price for one in (limits, *limits.all_below()) for price in one.prices]
    if tokens is None:
        reasons["cost"] = reasons["tokens"]
        return None
    if not prices or any(price is None for price in prices):
        reasons["cost"] = "the price of a model is not known; set Budget(prices={model: (input, output)})"
        return None
    return tokens * max(_dearest(price) for price in prices if price is not None) / 1_000_000


def _dearest(price: AnyPrice) -> float:
    if isinstance(price, Price):
        rates: Sequence[float | None] = (price.input, price.output, price.cache_read, price.cache_write)
        return max(rate for rate in rates if rate is not None)
    return max(price)


def _seconds(limits: AgentLimits, reasons: dict[str, str]) -> float | None:
    if limits.budget.seconds is not None:
        return float(limits.budget.seconds) + _GRACE
    reasons["seconds"] = "nothing limits how long a model or a tool may take; set Budget(seconds=...)"
    return None


# --- reading an agent --------------------------------------------------------------------------------------


def limits_of(
    agent: Any, known: tuple[Any, ...] = (), *, prices: Mapping[str, AnyPrice] | None = None
) -> AgentLimits:
    """The limits of an agent, of the agents that it hands off to, and of those that are its tools."""
    team = [agent, *(one for one in team_of(agent.runtime).values() if one is not agent)]
    above = {**(prices or {}), **agent.runtime.budget.prices}
    runtimes = [one.runtime for one in team]
    sources = [source for runtime in runtimes for source in runtime.registry.sources]
    searched = [source.registry for source in sources if isinstance(source, ToolSearch)]
    tools = [tool for registry in (*(one.registry for one in runtimes), *searched) for tool in registry]
    inner = [one for tool in tools for one in tool.agents]
    # A program of `run_code` makes concurrent calls, and several programs may run concurrently.
    depth = 2 if any(tool.agents and tool.runs_programs for tool in tools) else 1
    settings = [runtime.settings for runtime in runtimes]
    asked = [_models(runtime.llm) or [runtime.model] for runtime in runtimes]
    budget: Budget = agent.runtime.budget
    return AgentLimits(
        budget,
        answers=any(one.on_limit == "answer" for one in settings),
        free_retries=budget.free_retries if any(_may_be_free(one.policy) for one in settings) else 0,
        has_tools=bool(tools) or bool(sources) or len(team) > 1,
        concurrency=max(one.tool_concurrency for one in settings) ** depth,
        summaries=max(sum(hasattr(view, "llm") for view in one.context) for one in settings),
        models=max(len(models) for models in asked),
        request_tokens=_most([_window(one.context) for one in settings]),
        reply_tokens=_most([one.model_settings.max_tokens for one in settings]),
        prices=tuple(above.get(model) for models in asked for model in models),
        below=tuple(limits_of(one, (*known, agent), prices=above) for one in inner if one not in known),
    )


def _models(llm: Any) -> list[str]:
    """The names of the models that a `Fallback` may call in turn; an empty list for any other model."""
    given: Sequence[Any] = getattr(llm, "models", ())
    return [name for one in given for name in _models(one) or [getattr(one, "model", "")]]


def _may_be_free(policy: Any) -> bool:
    """Whether a policy can retry without spending a step. A policy of the user's is assumed to."""
    if isinstance(policy, _PAYING):
        return False
    if isinstance(policy, Recovery):
        rows: list[Any] = [*policy.table.values(), policy.on_exhausted]
        decisions: list[Any] = [getattr(row, "decision", row) for row in rows]
        decisions += [getattr(row, "on_exhausted", None) for row in rows]
        return any(getattr(decision, "consume_budget", True) is False for decision in decisions)
    return True


def _window(context: Sequence[Any]) -> int | None:
    """The maximum of tokens of a request: the smallest limit of a `Window`; None without one."""
    limits = [view.max_tokens for view in context if type(view).__name__ == "Window"]
    return min(limits) if limits else None


def _most(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None
