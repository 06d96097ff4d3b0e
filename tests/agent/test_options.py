"""Options: each is written once, refused where it is wrong, and reaches the place that it is for."""

from __future__ import annotations

import importlib
from dataclasses import fields
from typing import Any

import pytest

from tests.conftest import ROOT
from wesichain import Agent, AgentRuntime, Budget, Middleware, ModelSettings
from wesichain.agent import AgentOptions, LoopGuard, RunOptions
from wesichain.agent.options import agent_options, as_sinks, option_names, run_options
from wesichain.context import Window
from wesichain.core.internal import SystemClock
from wesichain.errors import ConfigError, PolicyConfigError
from wesichain.llm import LlmTraits
from wesichain.policy import FailFast, ObserveErrors, SelfCorrect
from wesichain.testing import FakeClock, ScriptedLlm
from wesichain.tools import CancellationToken
from wesichain.trace import CollectingSink

OBSERVES = LlmTraits(observes_errors=True)


def test_the_keywords_are_the_options() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        writer: Any = importlib.import_module("keywords")
    assert writer.KEYWORDS.read_text(encoding="utf-8") == writer.render(), "run: python tools/keywords.py"


@pytest.mark.parametrize(
    ("make", "traits", "options", "policy"),
    [
        (AgentRuntime, None, {}, FailFast()),
        (AgentRuntime, OBSERVES, {}, ObserveErrors()),
        (AgentRuntime, OBSERVES, {"policy": FailFast()}, FailFast()),
        (Agent, None, {}, SelfCorrect()),
        (Agent, OBSERVES, {}, ObserveErrors()),
        (Agent, None, {"policy": ObserveErrors()}, ObserveErrors()),
    ],
)
def test_the_policy_is_the_one_given_or_that_of_the_model(
    make: Any, traits: Any, options: Any, policy: Any
) -> None:
    made = make(ScriptedLlm([], traits=traits), **options)
    assert getattr(made, "runtime", made).settings.policy == policy


@pytest.mark.parametrize(
    ("make", "concurrency", "excluded"),
    [(AgentRuntime, 1, 3), (Agent, 8, None)],
    ids=["a-runtime", "an-agent"],
)
def test_what_is_not_given_has_its_default(make: Any, concurrency: int, excluded: int | None) -> None:
    made = make(ScriptedLlm([]))
    settings = getattr(made, "runtime", made).settings
    assert (settings.tool_concurrency, settings.exclude_after) == (concurrency, excluded)
    assert (settings.name, settings.model, settings.on_limit) == ("agent", "scripted", "fail")
    assert (settings.loop_guard, settings.approval_ttl) == (LoopGuard(3, 4), None)
    assert (settings.context, settings.middleware, settings.checks) == ((), (), None)
    assert isinstance(settings.clock, SystemClock)
    assert settings.model_settings == ModelSettings()


def test_what_is_given_is_what_runs_have() -> None:
    clock, middleware, view = FakeClock(), Middleware(), Window(100)
    given: dict[str, Any] = {
        "name": "clerk",
        "on_limit": "partial",
        "tool_concurrency": 2,
        "exclude_after": 4,
        "loop_guard": None,
        "approval_ttl": 5.0,
        "clock": clock,
    }
    runtime = AgentRuntime(
        ScriptedLlm([], model="m"),
        context=[view],
        middleware=[middleware],
        output_checks=[str],
        settings=ModelSettings(seed=1),
        budget=Budget(5),
        new_id=lambda: "mine",
        **given,
    )
    settings = runtime.settings
    assert {name: getattr(settings, name) for name in given} == given
    assert (settings.model, settings.context, settings.middleware) == ("m", (view,), (middleware,))
    assert settings.model_settings == ModelSettings(seed=1)
    assert settings.checks is not None
    assert (runtime.budget, runtime._new_id(), runtime.name, runtime.model) == (
        Budget(5),
        "mine",
        "clerk",
        "m",
    )


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"name": 5}, "name=5: use a text"),
    ({"policy": FailFast}, f"policy={FailFast!r}: use an instance, such as FailFast()"),
    ({"policy": "fail"}, "policy='fail': use an instance, such as FailFast()"),
    ({"budget": 5}, "budget=5: use a Budget, such as Budget(steps=5)"),
    ({"instructions": 5}, "instructions=5: use text, or None"),
    ({"on_limit": "shrug"}, "on_limit='shrug': use 'fail', 'partial' or 'answer'"),
    ({"tool_concurrency": 0}, "tool_concurrency=0: use 1 or more"),
    ({"tool_concurrency": "8"}, "tool_concurrency='8': use 1 or more"),
    ({"exclude_after": 0}, "exclude_after=0: use 1 or more, or None to exclude no tool"),
    ({"exclude_after": "3"}, "exclude_after='3': use 1 or more, or None to exclude no tool"),
    ({"loop_guard": 3}, "loop_guard=3: use LoopGuard(tell_at, stop_at), or None"),
    ({"context": ["x"]}, "context=['x']: use a list of views, such as [Window(8_000)]"),
    ({"output_mode": "json"}, "output_mode='json': use 'auto', 'tool', 'native' or 'prompted'"),
    ({"output_checks": [1]}, "output_checks=[1]: use a list of functions, each of (output) or (ctx, output)"),
    ({"output_checks": str}, f"output_checks={str}: use a list of functions, each of (output) or (ctx, output)"),
    ({"middleware": [1]}, "middleware=[1]: use a list of Middleware objects, such as [InputGuard(check)]"),
    ({"middleware": 1}, "middleware=1: use a list of Middleware objects, such as [InputGuard(check)]"),
    ({"settings": 1}, "settings=1: use a ModelSettings, such as ModelSettings(temperature=0.2)"),
    ({"handoffs": 1}, "handoffs=1: use a list of agents, or of Handoff(agent, ...)"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "why"), WRONG)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyConfigError) as refused:
        AgentRuntime(ScriptedLlm([]), **options)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    "options",
    [
        {"policy": None, "exclude_after": None, "loop_guard": None, "instructions": None, "handoffs": ()},
        {"tool_concurrency": 1, "exclude_after": 1, "loop_guard": LoopGuard(), "output_checks": (str,)},
        *({"on_limit": way} for way in ("fail", "partial", "answer")),
        *({"output_mode": mode} for mode in ("auto", "tool", "native", "prompted")),
        {"middleware": (), "context": ()},
    ],
)
def test_options_up_to_their_bounds_are_taken(options: dict[str, Any]) -> None:
    AgentOptions(**options)


WRONG_IN_A_RUN: list[tuple[dict[str, Any], str]] = [
    ({"budget": 5}, "budget=5: use a Budget, such as Budget(steps=5)"),
    ({"settings": 5}, "settings=5: use a ModelSettings, such as ModelSettings(temperature=0.2)"),
    ({"cancellation": 5}, "cancellation=5: use a CancellationToken"),
    ({"parent": 5}, "parent=5: use the ToolContext of the call that runs the agent"),
    ({"run_id": 5}, "run_id=5: use a text"),
    ({"instructions": 5}, "instructions=5: use a text"),
    ({"histry": ()}, "run() takes no keyword 'histry'; did you mean history?"),
]


@pytest.mark.parametrize(("options", "why"), WRONG_IN_A_RUN)
def test_a_wrong_option_of_a_run_is_refused_by_name(options: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        run_options(options)
    assert str(refused.value) == why


def test_options_of_a_run() -> None:
    given: dict[str, Any] = {"budget": Budget(3), "cancellation": CancellationToken(), "run_id": "r"}
    assert run_options(given) == RunOptions(**given)
    assert run_options(dict.fromkeys(given)) == run_options({}) == RunOptions()
    hidden = {"on_open", "place", "wrap"}
    assert hidden.isdisjoint(option_names(RunOptions))
    assert len(option_names(RunOptions)) == len(fields(RunOptions)) - len(hidden)


def test_a_wrong_keyword_of_a_runtime_names_the_right_one() -> None:
    with pytest.raises(ConfigError) as refused:
        agent_options({"max_steps": 3})
    assert str(refused.value) == (
        "AgentRuntime() takes no keyword 'max_steps'; did you mean budget=Budget(steps=...)?"
    )


def test_a_cost_without_a_price_for_the_model_is_refused() -> None:
    with pytest.raises(ConfigError, match="'scripted'"):
        AgentRuntime(ScriptedLlm([]), budget=Budget(cost=1.0, prices={"other": (1.0, 1.0)}))


def test_sinks_are_one_several_or_none() -> None:
    one, two = CollectingSink(), CollectingSink()
    assert (as_sinks(None), as_sinks(one), as_sinks([one, two])) == ((), (one,), (one, two))
    for wrong in (5, [one, 5]):
        with pytest.raises(ConfigError, match=r"^5 is not an event sink; pass an object with emit"):
            as_sinks(wrong)  # type: ignore[arg-type]  # that is the point
