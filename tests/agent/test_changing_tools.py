"""Tools that change in the course of a run: what is offered in a step is what can be called in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.agent.kit import ADD, add, boom, call, echo, failed_with, kinds, say
from wesichain import Agent, RunContext
from wesichain.agent import Approve, ApproveWith, Completed, Failed, Interrupted, Provide, Refuse, replay
from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall, ToolCompleted, from_json, to_json
from wesichain.core.events import ToolsOffered
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    ConfigError,
    DuplicateToolError,
    GraphInterruptedError,
    ReplayMismatchError,
    RunInterruptedError,
    ToolDefinitionError,
)
from wesichain.graph import ExecutionOptions, MemoryCheckpointer, react_graph
from wesichain.policy import Budget
from wesichain.testing import FunctionLlm, ScriptedLlm
from wesichain.tools import CancellationToken, DynamicTools, JsonTool, ToolSearch, tool
from wesichain.trace import Recorder, find_run, load


@tool(approval=True)
async def refund(amount: int) -> str:
    """Give money back to a customer."""
    return f"refunded {amount}"


SEARCH = call("search_tools", {"query": "give money back"}, id="s1")
REFUND = call("refund", {"amount": 5}, id="r1")


def agent(*replies: Any, tools: Any, **options: Any) -> Agent[Any]:
    return Agent(ScriptedLlm(replies), tools=tools, **options)


def offers(made: Agent[Any]) -> list[list[str]]:
    """The tools of each request."""
    llm: Any = made.runtime.llm
    return [[spec.name for spec in request.tools] for request in llm.requests]


def told(events: Any) -> list[tuple[int, list[str]]]:
    return [(e.step_id, [spec.name for spec in e.tools]) for e in events if isinstance(e, ToolsOffered)]


def replayed(events: Any, made: Agent[Any], **options: Any) -> Any:
    recording: Any = SimpleNamespace(events=events, run_id=events[0].run_id)
    return asyncio.run(replay(recording, made, **options))


def by_turn(ctx: RunContext[Any]) -> list[Any]:
    """Adds first, and when something was heard of a tool, echoes."""
    return [echo] if any(message.role is Role.TOOL for message in ctx.messages) else [add]


# --- dynamic tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "today",
    [
        pytest.param(lambda ctx: [ctx.deps["tool"]], id="deps-that-are-not-here"),
        pytest.param(lambda: [echo], id="other-tools"),
        pytest.param(lambda: (), id="no-tools"),
    ],
)
def test_a_replay_offers_the_tools_of_the_recording(today: Any) -> None:
    made = agent(say(ADD), "done", tools=[boom, DynamicTools(lambda ctx: [ctx.deps["tool"]])])
    result = made.run_sync("q", deps={"tool": add})
    again = replayed(result.events, agent(tools=[boom, DynamicTools(today)]))
    assert isinstance(again, Completed)
    assert again.events == result.events


def test_the_function_sees_the_run_as_it_is_when_the_step_begins() -> None:
    seen: list[Any] = []

    async def function(ctx: RunContext[dict[str, Any]]) -> Any:
        seen.append(
            (
                ctx.step_id,
                ctx.agent,
                ctx.deps["who"],
                len(ctx.messages),
                ctx.spent.steps if ctx.spent else None,
            )
        )
        return ctx.deps["tools"]

    made = agent(say(ADD), "done", tools=[DynamicTools(function)], name="desk")
    made.run_sync("q", deps={"who": "ann", "tools": [add]})
    assert seen == [(1, "desk", "ann", 1, 0), (2, "desk", "ann", 3, 1)]


@pytest.mark.parametrize(
    ("function", "error"),
    [
        pytest.param(lambda: [add], DuplicateToolError, id="a-name-of-the-agents-own"),
        pytest.param(lambda: [echo, echo], DuplicateToolError, id="twice"),
        pytest.param(lambda: [refund], DuplicateToolError, id="a-name-that-can-be-found"),
        pytest.param(lambda: ["echo"], ToolDefinitionError, id="no-tool"),
    ],
)
def test_tools_that_cannot_be_are_the_callers_mistake(function: Any, error: Any) -> None:
    found = agent(say(SEARCH), "done", tools=[add, ToolSearch([refund]), DynamicTools(function)])
    with pytest.raises(error):
        found.run_sync("q")


def test_a_function_that_raises_fails_the_run() -> None:
    def function() -> Any:
        raise LookupError("no rights")

    outcome = asyncio.run(agent("never", tools=[DynamicTools(function)]).outcome("q"))
    assert isinstance(outcome, Failed)
    assert type(outcome.error) is AgentError
    assert "'function', raised LookupError: no rights" in str(outcome.error)
    assert isinstance(outcome.error.__cause__, LookupError)
    assert kinds(outcome.events) == ["RunStarted", "RunFailed"]


@pytest.mark.parametrize("does", ["raises", "hangs"])
def test_a_replay_ends_in_the_step_in_which_a_function_ended_the_run(does: str) -> None:
    async def function(ctx: RunContext[Any]) -> Any:
        if ctx.step_id == 1:
            return [add]
        if does == "raises":
            raise LookupError("no rights")
        return await asyncio.sleep(600)

    settings: dict[str, Any] = {"budget": Budget(seconds=0.1 if does == "hangs" else 60)}
    outcome = asyncio.run(agent(say(ADD), "never", tools=[DynamicTools(function)], **settings).outcome("q"))
    assert isinstance(outcome, Failed)
    again = replayed(outcome.events, agent(tools=[DynamicTools(lambda: [add])], **settings))
    assert (type(again), str(again.error)) == (Failed, str(outcome.error))
    assert [*again.events] == [*outcome.events]


def test_a_replay_is_refused_where_a_limit_is_no_longer_met_before_a_function_is_called() -> None:
    tools = [DynamicTools(lambda: [add])]
    outcome = asyncio.run(agent(say(ADD), tools=tools, budget=Budget(steps=1)).outcome("q"))
    with pytest.raises(ReplayMismatchError, match="ends before this step"):
        replayed(outcome.events, agent(tools=tools, budget=Budget(steps=2)))


async def test_a_function_that_hangs_is_bounded_and_can_be_cancelled() -> None:
    async def function() -> Any:
        await asyncio.sleep(600)

    made = agent("never", tools=[DynamicTools(function)], budget=Budget(seconds=0.05))
    outcome = await made.outcome("q")
    failed_with(outcome, BudgetExceededError)
    token = CancellationToken()
    asyncio.get_running_loop().call_later(0.05, token.cancel, "enough")
    stopped = await agent("never", tools=[DynamicTools(function)]).outcome("q", cancellation=token)
    assert isinstance(stopped, Interrupted)
    assert stopped.reason == "enough"


def test_nobody_is_asked_for_the_tools_of_a_step_that_there_will_not_be() -> None:
    asked: list[int] = []

    def function(ctx: RunContext[Any]) -> Any:
        asked.append(ctx.step_id)
        return [add]

    made = agent(say(ADD), "done", tools=[DynamicTools(function)], budget=Budget(steps=1), on_limit="answer")
    assert made.run_sync("q").output == "done"
    assert asked == [1]
    assert offers(made) == [["add"], []]


def test_a_step_that_waited_is_gone_through_with_the_tools_that_it_had() -> None:
    def function(ctx: RunContext[Any]) -> list[Any]:
        return [refund] if len(ctx.messages) == 1 else [echo]  # the reply that waits is not counted yet

    made = agent(say(REFUND), "done", tools=[DynamicTools(function)])
    with pytest.raises(RunInterruptedError) as raised:
        made.run_sync("q")
    outcome = raised.value.outcome
    kind: Any = Interrupted
    again = agent("done", tools=[DynamicTools(function)])
    result = asyncio.run(
        again.resume(
            from_json(kind, to_json(outcome)), {outcome.pending[0].token: ApproveWith({"amount": 1})}
        )
    )
    assert result.messages[-2].text == "refunded 1"
    assert told(result.events) == [(1, ["refund"]), (2, ["echo"])]
    with pytest.raises(ConfigError, match="the approved arguments do not fit"):
        asyncio.run(
            agent(tools=[DynamicTools(function)]).resume(outcome, {outcome.pending[0].token: ApproveWith({})})
        )


def test_a_right_that_was_taken_away_since_is_gone() -> None:
    made = agent(say(REFUND), "done", tools=[DynamicTools(lambda ctx: ctx.deps)])
    outcome = asyncio.run(made.outcome("q", deps=[refund]))
    assert isinstance(outcome, Interrupted)
    result = asyncio.run(made.resume(outcome, {outcome.pending[0].token: Approve()}, deps=[]))
    assert 'there is no tool "refund"' in result.messages[-2].text


def test_a_recording_has_the_tools_that_a_function_returned(tmp_path: Path) -> None:
    made = agent(say(ADD), "done", tools=[DynamicTools(lambda ctx: ctx.deps)])
    asyncio.run(made.run("q", deps=[add], events=Recorder(tmp_path), run_id="r1"))
    recording = load(find_run(tmp_path, "r1"))
    assert [[spec.name for spec in request.tools] for request in recording.requests()] == [["add"], ["add"]]
    for deps in ([add], [echo], None):
        again = agent(tools=[DynamicTools(lambda ctx: ctx.deps)])
        assert isinstance(asyncio.run(replay(recording, again, deps=deps)), Completed)


@pytest.mark.parametrize(
    ("options", "decision", "result"),
    [
        pytest.param({"approval": True}, Approve(), "sent", id="approved"),
        pytest.param({"approval": lambda args: True}, Approve(), "sent", id="approved-by-a-rule"),
        pytest.param({"approval": True}, Refuse("no"), "not approved: no", id="refused"),
        pytest.param({"external": True}, Provide("done by hand"), "done by hand", id="external"),
    ],
)
def test_a_replay_without_the_function_s_deps_knows_what_people_were_asked(
    options: Any, decision: Any, result: str
) -> None:
    @tool(**options)
    async def send() -> str:
        """Send it."""
        return "sent"

    made = agent(say(ADD, call("send")), "done", tools=[DynamicTools(lambda ctx: ctx.deps)])
    outcome = asyncio.run(made.outcome("q", deps=[add, send]))
    assert isinstance(outcome, Interrupted)
    again = agent("done", tools=[DynamicTools(lambda ctx: ctx.deps)])
    ended = asyncio.run(again.resume(outcome, {outcome.pending[0].token: decision}, deps=[add, send]))
    assert result in str(ended.messages)
    whole = (*outcome.events, *ended.events)
    today = agent(
        tools=[DynamicTools(lambda ctx: ctx.deps)]
    )  # without deps, it returns nothing that is a tool
    assert replayed(whole, today).messages == ended.messages


def test_an_agent_may_be_among_what_the_function_gives() -> None:
    def helper(*replies: Any) -> Any:
        return Agent(ScriptedLlm(replies), tools=[refund], name="helper").as_tool()

    def program(*replies: Any, below: Any) -> Agent[Any]:
        return agent(*replies, tools=[DynamicTools(lambda: [below])])

    ask = call("helper", {"task": "refund"})
    outcome = asyncio.run(program(say(ask), below=helper(say(REFUND))).outcome("q"))
    assert isinstance(outcome, Interrupted)
    (pending,) = outcome.pending
    result = asyncio.run(
        program("done", below=helper("refunded")).resume(outcome, {pending.token: Approve()})
    )
    assert [event.value for event in result.events if isinstance(event, ToolCompleted)] == [
        "refunded 5",
        "refunded",
    ]
    whole = (*outcome.events, *result.events)
    assert [*replayed(whole, program(below=helper())).events] == [*whole]


# --- search ------------------------------------------------------------------------------------------


def test_what_a_search_found_is_offered_from_the_next_step_on() -> None:
    @tool
    async def give_back(amount: int) -> str:
        """Give money back."""
        return f"gave {amount}"

    catalog: list[Any] = [add, boom, give_back]
    early = call("give_back", {"amount": 1}, id="g0")
    made = agent(
        say(SEARCH, early),
        say(call("give_back", {"amount": 2}, id="g1")),
        "done",
        tools=[echo, ToolSearch(catalog)],
    )
    result = made.run_sync("q")
    assert offers(made) == [["echo", "search_tools"], *[["echo", "search_tools", "give_back"]] * 2]
    assert told(result.events) == [(2, ["echo", "search_tools", "give_back"])]
    heard = {message.tool_call_id: message.text for message in result.messages if message.role is Role.TOOL}
    assert 'there is no tool "give_back"' in heard["g0"]
    assert heard["g1"] == "gave 2"
    assert replayed(result.events, agent(tools=[echo, ToolSearch(catalog)])).events == result.events


def test_what_was_found_is_known_in_another_program() -> None:
    outcome = asyncio.run(agent(say(SEARCH), say(REFUND), tools=[ToolSearch([refund, add])]).outcome("q"))
    saved = from_json(Interrupted, to_json(outcome))
    made = agent("done", tools=[ToolSearch([refund, add])])
    result = asyncio.run(made.resume(saved, {item.token: Approve() for item in saved.pending}))
    assert (offers(made), result.messages[-2].text) == ([["search_tools", "refund"]], "refunded 5")
    assert told(result.events) == []


def test_what_a_search_found_stays_when_a_sibling_waits() -> None:
    made = agent(
        say(SEARCH, REFUND), "done", tools=[refund, ToolSearch([add, boom, tool(name="pay_back")(give)])]
    )
    outcome = asyncio.run(made.outcome("q"))
    assert isinstance(outcome, Interrupted)
    assert outcome.tally.found == ()
    kind: Any = Interrupted
    asyncio.run(made.resume(from_json(kind, to_json(outcome)), {outcome.pending[0].token: Approve()}))
    assert offers(made)[-1] == ["refund", "search_tools", "pay_back"]


async def give(amount: int) -> int:
    """Give money back."""
    return amount


# --- in graphs ---------------------------------------------------------------------------------------


async def test_the_loop_as_a_graph_keeps_what_was_found() -> None:
    def graph(*replies: Any) -> tuple[Any, Any]:
        llm = ScriptedLlm(replies)
        return llm, react_graph(
            llm=llm, tools=[ToolSearch([refund]), DynamicTools(by_turn)], checkpointer=checkpointer
        )

    checkpointer = MemoryCheckpointer()
    _, first = graph(say(ADD), say(SEARCH), say(REFUND))
    with pytest.raises(GraphInterruptedError):
        await first.invoke("q", ExecutionOptions(thread_id="t"))
    llm, second = graph("done")  # nothing is left but what the checkpointer has
    state = await second.resume("t", Approve())
    assert state["final_output"] == "done"
    assert [spec.name for spec in llm.requests[0].tools] == ["search_tools", "refund", "echo"]
    assert "refunded 5" in [message.text for message in llm.requests[0].messages]


async def test_tools_of_one_run_are_offered_beside_the_agents_own_and_leave_it_as_it_was() -> None:
    asked: list[list[str]] = []

    def reply(request: LlmRequest) -> LlmResponse:
        asked.append([spec.name for spec in request.tools])
        if len(request.messages) == 1:
            return LlmResponse(tool_calls=(ToolCall("c1", "locate", {}),))
        return LlmResponse("there")

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    agent = Agent(FunctionLlm(reply), tools=[look])
    locate = JsonTool("locate", "Where the user is.", {"type": "object"}, external=True)
    added = agent.with_tools(locate)
    outcome = await added.outcome("where am I?")
    assert isinstance(outcome, Interrupted)
    result = await added.resume(outcome, {outcome.pending[0].token: Provide("Bern")})
    assert result.output == "there"
    assert asked == [["look", "locate"]] * 2
    assert agent.runtime.registry.names == ("look",)
    with pytest.raises(DuplicateToolError):
        agent.with_tools(JsonTool("look", "Another.", {"type": "object"}, external=True))


async def test_a_tool_that_a_function_offers_may_not_have_the_name_of_a_final_one() -> None:
    @tool(name="final_answer")
    async def clash() -> str:
        """Clashes."""
        return "x"

    with pytest.raises(DuplicateToolError, match="'final_answer' is registered twice"):
        await agent("x", tools=[DynamicTools(lambda: [clash])], output_type=int).outcome("q")
