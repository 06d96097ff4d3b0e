"""Who comes with another framework's word is told ours."""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.learning.kit import words
from wesichain import Agent, Budget, GraphBuilder, Message, ModelSettings, Role, tool
from wesichain._elsewhere import AGENT, BUDGET, GRAPH, GRAPH_RUN, METHODS, PLAYBOOK, TOOL
from wesichain.errors import ConfigError, WesichainError
from wesichain.graph import Graph
from wesichain.learning import Playbook
from wesichain.testing import Scenario, ScriptedLlm, simulate_sync


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent(**options: Any) -> object:
    return Agent(ScriptedLlm([]), **options)


def run(**options: Any) -> object:
    return Agent(ScriptedLlm(["x"])).run_sync("q", **options)


def made(**options: Any) -> object:
    return tool(**options)(add)


def builder(**options: Any) -> object:
    return GraphBuilder(**options)


def node(**options: Any) -> object:
    return GraphBuilder().add_node("n", print, **options)


def build(**options: Any) -> object:
    return GraphBuilder().add_node("n", lambda state: {}).set_entry("n").build(**options)


def invoked(**options: Any) -> object:
    graph: Any = build()
    return graph.invoke_sync({}, **options)


def opened(**options: Any) -> object:
    return Playbook.open("never-made", **options)


TABLES: list[tuple[Callable[..., object], Any, dict[str, str]]] = [
    (agent, Agent, AGENT),
    (run, Agent.run, AGENT),
    (made, tool, TOOL),
    (builder, GraphBuilder, GRAPH),
    (node, GraphBuilder.add_node, GRAPH),
    (build, GraphBuilder.build, GRAPH),
    (invoked, Graph.invoke, GRAPH_RUN),
    (opened, Playbook.open, PLAYBOOK),
    (Budget, Budget, BUDGET),
]


@pytest.mark.parametrize(("use", "function", "table"), TABLES, ids=[use.__name__ for use, _, _ in TABLES])
def test_a_keyword_of_another_framework_is_answered_with_ours(
    use: Callable[..., object], function: Any, table: dict[str, str]
) -> None:
    for word in table.keys() - inspect.signature(function).parameters.keys():
        told = rf"no (keyword|option) '{word}'; did you mean {re.escape(table[word])}\?"
        with pytest.raises(ConfigError, match=told) as caught:
            use(**{word: 1})
        assert "\n" not in str(caught.value)


def test_a_keyword_that_is_mistyped_is_answered_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"no option 'timout'; did you mean timeout\?"):
        made(timout=1)
    with pytest.raises(ConfigError, match=r"no keyword 'instrctions'; did you mean instructions\?"):
        agent(instrctions=1)
    with pytest.raises(ConfigError, match=r"no option 'xyzzy'; there are approval, .*, timeout"):
        made(xyzzy=1)


def test_the_first_argument_may_be_given_by_name(tmp_path: Any) -> None:
    assert Agent(model=ScriptedLlm(["x"])).run_sync(task="q").output == "x"
    with Playbook.open(path=tmp_path, embedder=words()) as playbook:
        assert not playbook.retrieve(task="a task", domain="general")


def test_retrieving_takes_k_and_where(tmp_path: Any) -> None:
    with Playbook.open(tmp_path, words()) as playbook:
        some: Any = playbook
        for word, ours in (("top_k", "k"), ("filter", "where"), ("namespace", "domain")):
            with pytest.raises(ConfigError, match=rf"did you mean {ours}\?"):
                some.retrieve("a task", domain="general", **{word: 1})


def test_a_method_of_another_framework_is_answered_with_ours(tmp_path: Any) -> None:
    with Playbook.open(tmp_path, words()) as playbook:
        result = Agent(ScriptedLlm(["x"])).run_sync("q")
        for thing in (Agent(ScriptedLlm([])), result, GraphBuilder(), build(), playbook):
            name = type(thing).__name__
            for word, ours in METHODS[name].items():
                with pytest.raises(AttributeError, match=re.escape(f"{name} has no '{word}'; it is {ours}")):
                    getattr(thing, word)
                assert not hasattr(thing, word)


def simulated(seeds: Any) -> object:
    return simulate_sync(Scenario(Agent(ScriptedLlm(["x"])), "q"), seeds=seeds)


def resumed() -> object:
    run_id: Any = "r-1"
    return asyncio.run(Agent(ScriptedLlm([])).resume(run_id, {}))


VALUES: list[tuple[str, Callable[[], object], str]] = [
    ("output-types-in-a-list", lambda: agent(output_type=[int, str]), r"use a union, int \| str"),
    ("messages-as-dicts", lambda: asked([{"role": "user", "content": "hi"}]), r"earlier ones are history=\["),
    ("a-dict-of-messages", lambda: asked({"messages": []}), "a task may also be a text"),
    ("a-message", lambda: asked(Message(Role.USER, "hi")), "use a text"),
    ("a-history-of-dicts", lambda: run(history=[{"role": "user"}]), r"Message\(Role\.USER"),
    ("a-model-without-provider", lambda: Agent("gpt-5"), "did you mean 'openai:gpt-5'"),
    ("a-provider-with-a-slash", lambda: Agent("anthropic/claude"), "did you mean 'anthropic:claude'"),
    ("a-policy-by-name", lambda: agent(policy="retry"), r"an instance, such as FailFast\(\)"),
    ("a-budget-as-a-number", lambda: agent(budget=10), r"Budget\(steps=5\)"),
    ("settings-as-a-dict", lambda: agent(settings={"temperature": 0}), r"ModelSettings\(temperature=0\.2\)"),
    ("a-run-s-settings-as-a-dict", lambda: run(settings={"seed": 1}), r"ModelSettings\(temperature=0\.2\)"),
    ("a-run-s-budget-as-a-number", lambda: run(budget=10), r"Budget\(steps=5\)"),
    ("a-flag-as-cancellation", lambda: run(cancellation=True), "a CancellationToken"),
    ("a-name-as-parent", lambda: run(parent="boss"), "the ToolContext of the call"),
    ("an-answer-s-schema", lambda: agent(output_type={"type": "object"}), "a JSON schema is no type"),
    ("an-answer-s-function", lambda: agent(output_type=add), "'add' is a function.*output_checks"),
    ("a-folder-as-playbook", lambda: agent(playbook="advice/"), r"Playbook\.open\(path\)"),
    ("a-list-of-messages", lambda: asked([Message(Role.USER, "hi")]), r"earlier ones are history=\["),
    ("a-tool-that-is-not-there", lambda: run(settings=ModelSettings(tool_choice="add")), "no such tool"),
    ("a-conversation-by-id", lambda: run(conversation="id"), r"SqliteConversations\(path\)\.open\(id\)"),
    ("a-graph-s-config", lambda: invoked(options={"configurable": {}}), r"ExecutionOptions\(thread_id="),
    ("seeds-as-a-number", lambda: simulated(10), r"such as range\(10\)"),
    ("a-run-id-to-resume", resumed, r"error\.outcome of a RunInterruptedError"),
    ("a-tool-as-a-schema", lambda: agent(tools=[{"type": "function"}]), "a JsonTool"),
]


def asked(task: Any) -> object:
    return Agent(ScriptedLlm(["x"])).run_sync(task)


@pytest.mark.parametrize(("use", "ours"), [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_a_value_of_another_framework_is_answered_with_ours(use: Callable[[], object], ours: str) -> None:
    with pytest.raises(WesichainError, match=ours):
        use()


@pytest.mark.parametrize(
    ("use", "ours"),
    [
        (lambda result: result["messages"], r"no \['messages'\]: write \.messages"),
        (lambda result: result["final_output"], r"write result\.output"),
        (lambda result: result["anything"], r"attributes, not items, and so no \['anything'\]$"),
        (lambda result: result[0], r"attributes, not items, and so no \[0\]$"),
        (list, "not iterable"),
        (lambda result: result.usage(), r"write \.usage, without parentheses"),
    ],
    ids=["an-attribute", "a-word-of-others", "neither", "a-place", "iterated", "a-value-called"],
)
def test_a_result_is_no_mapping_and_its_values_are_no_methods(
    use: Callable[[Any], object], ours: str
) -> None:
    with pytest.raises(TypeError, match=ours):
        use(Agent(ScriptedLlm(["x"])).run_sync("q"))


def test_what_nobody_has_is_missing_as_ever_and_copies_are_made() -> None:
    """The answer stands in the way of nothing that Python itself asks for."""
    one = Agent(ScriptedLlm([]))
    with pytest.raises(AttributeError, match="'Agent' object has no attribute 'nothing'"):
        one.nothing  # type: ignore[attr-defined]  # what is asked  # noqa: B018
    assert isinstance(copy.copy(one), Agent)
