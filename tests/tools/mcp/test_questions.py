"""What a server asks in the middle of a call is a pending question of the run, at any depth, and is answered once."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.durable.databases import database_in
from tests.waiting import until
from tests.warm import python
from wesichain import Agent, Budget, CancellationToken
from wesichain.agent import ApproveWith, Completed, Interrupted, replay
from wesichain.core import LlmResponse, RunStarted, ToolCall, Usage, from_json, to_json
from wesichain.core.internal import PendingCall, Provide, Refuse
from wesichain.durable import DurableAgent
from wesichain.errors import ConfigError, RunInterruptedError
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools.mcp import McpServer
from wesichain.trace import Recorder, load

from . import asking_server
from .kit import ENV, asking, lines, observed

SERVER = asking_server.__file__
ORDER = ("order", {"item": "hat"})


def shop(notes: Path, **options: Any) -> AbstractAsyncContextManager[McpServer]:
    return asking(asking_server, notes, **{"protocol": "2025-11-25", **options})


def orderer(server: McpServer, *replies: Any, **options: Any) -> Agent[Any, str]:
    script: Any = replies or [calls(ORDER), "done"]
    llm = ScriptedLlm(script)
    return Agent(llm, tools=server.tools, name="shopper", **options)


async def waits(agent: Agent[Any, str], task: str = "a hat", **options: Any) -> Interrupted[str]:
    outcome = await agent.outcome(task, **options)
    assert isinstance(outcome, Interrupted), outcome
    return outcome


async def goes_on(agent: Agent[Any, str], outcome: Any, answers: Any) -> Any:
    return await agent.runtime.resume(outcome, answers)


def only(outcome: Interrupted[Any]) -> PendingCall:
    (pending,) = outcome.pending
    return pending


# --- in this process ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("over", "effect"), [("stdio", "once"), ("http", "pure")])
async def test_a_question_interrupts_the_run_and_its_answer_reaches_the_call_that_waits(
    notes: Path, over: str, effect: Any
) -> None:
    async with shop(notes, over=over, effect=effect) as server:
        agent = orderer(server)
        outcome = await waits(agent)
        pending = only(outcome)
        assert outcome.reason == "external"
        assert (pending.call.name, pending.call.args, pending.scope) == ("order", {"item": "hat"}, ())
        assert pending.external
        assert pending.question is not None
        assert pending.question.message == "Which size of hat?"
        schema: Any = pending.question.schema
        assert set(schema["properties"]) == {"size", "colour"}
        stored: Any = from_json(Interrupted, to_json(outcome))  # the request is no part of what is stored
        ended = await goes_on(agent, stored, {pending.token: Provide({"size": 3})})
        assert isinstance(ended, Completed)
        assert observed(ended) == ["red hat in 3"]
        assert ended.spent.tool_calls == 1
        with pytest.raises(ConfigError, match="used already"):
            await goes_on(agent, stored, {pending.token: Provide({"size": 4})})
    assert lines(notes) == ["began hat", "ended hat"]


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        pytest.param(Refuse("no"), "no hat: decline", id="to-refuse-is-to-decline"),
        pytest.param(Provide(error="away"), "no hat: cancel", id="an-error-cancels-the-question"),
        pytest.param(Provide({"size": 1, "colour": "blue"}), "blue hat in 1", id="a-default-is-overruled"),
    ],
)
async def test_what_people_may_say(notes: Path, decision: Any, said: str) -> None:
    async with shop(notes) as server:
        agent = orderer(server)
        outcome = await waits(agent)
        ended = await goes_on(agent, outcome, {only(outcome).token: decision})
    assert observed(ended) == [said]


async def test_an_answer_that_does_not_fit_is_refused_and_can_be_given_again(notes: Path) -> None:
    async with shop(notes) as server:
        agent = orderer(server)
        outcome = await waits(agent)
        token = only(outcome).token
        for wrong in ({"size": "large"}, {}, "3", None):
            with pytest.raises(ConfigError, match=r"'order'.*not what it asks for"):
                await goes_on(agent, outcome, {token: Provide(wrong)})
        ended = await goes_on(agent, outcome, {token: Provide({"size": 3})})
    assert observed(ended) == ["red hat in 3"]


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_eight_calls_that_ask_at_a_time_get_each_its_own_answer(notes: Path, over: str) -> None:
    items = [f"hat{number}" for number in range(8)]
    replies = (calls(*(("order", {"item": item}) for item in items)), "done")
    async with shop(notes, over=over) as server:
        agent = orderer(server, *replies)
        outcome = await waits(agent)
        assert sorted(item.question.message for item in outcome.pending if item.question) == [
            f"Which size of {item}?" for item in items
        ]
        answers = {
            item.token: Provide({"size": int(item.question.message[-2])})
            for item in outcome.pending
            if item.question
        }
        ended = await goes_on(agent, outcome, answers)
    assert observed(ended) == [f"red {item} in {number}" for number, item in enumerate(items)]
    assert sorted(lines(notes)) == sorted(f"{what} {item}" for item in items for what in ("began", "ended"))


async def test_siblings_of_a_call_that_asks_are_let_finish(notes: Path) -> None:
    async with shop(notes) as server:
        agent = orderer(server, calls(("slow", {"seconds": 0.1}), ORDER), "done")
        outcome = await waits(agent)
        assert only(outcome).call.name == "order"
        ended = await goes_on(agent, outcome, {only(outcome).token: Provide({"size": 3})})
    assert observed(ended) == ["slept", "red hat in 3"]


async def test_over_stdio_a_question_is_not_put_to_another_run(notes: Path) -> None:
    async with shop(notes, over="stdio") as server:
        one = asyncio.create_task(orderer(server, calls(("slow", {"seconds": 30})), "done").outcome("wait"))
        await until(lambda: "began slow" in lines(notes))
        other = await orderer(server).outcome("a hat")
        one.cancel()
        await asyncio.wait({one})
    assert isinstance(other, Completed)
    assert "it could be for each" in observed(other)[0]


async def test_an_approval_and_then_a_question(notes: Path) -> None:
    async with shop(notes, approval=True) as server:
        agent = orderer(server)
        outcome = await waits(agent)
        assert outcome.reason == "approval"
        asked = await goes_on(agent, outcome, {only(outcome).token: ApproveWith({"item": "cap"})})
        assert isinstance(asked, Interrupted)
        assert only(asked).question is not None
        ended = await goes_on(agent, asked, {only(asked).token: Provide({"size": 3})})
    assert observed(ended) == ["red cap in 3"]


async def test_the_run_is_the_same_as_where_a_function_answers(notes: Path) -> None:
    async def ask(_: str, __: Mapping[str, Any]) -> Any:
        return {"size": 0}

    async with shop(notes, on_elicit=ask) as server:
        by_function: Any = await orderer(server).outcome("a hat")
    async with shop(notes) as server:
        agent = orderer(server)
        outcome = await waits(agent)
        by_person = await goes_on(agent, outcome, {only(outcome).token: Provide({"size": 0})})
    assert by_person.messages == by_function.messages
    assert by_person.steps == by_function.steps
    assert by_person.spent.tool_calls == by_function.spent.tool_calls
    assert by_person.usage == by_function.usage


async def test_leaving_the_server_gives_up_what_waits(notes: Path) -> None:
    async with shop(notes, over="stdio") as server:
        await waits(orderer(server))
    await until(lambda: lines(notes) == ["began hat", "gave up hat"])


async def test_a_server_hears_that_of_too_many_that_wait_the_oldest_is_given_up(
    notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wesichain.tools.mcp.inflight._MAX_WAITING", 1)
    async with shop(notes) as server:
        await waits(orderer(server))
        await waits(orderer(server, calls(("order", {"item": "shoe"})), "done"))
        await until(lambda: lines(notes) == ["began hat", "began shoe", "gave up hat"])


async def test_a_run_that_is_cancelled_while_it_goes_on_gives_its_request_up(notes: Path) -> None:
    async with shop(notes) as server:
        agent = orderer(server, calls(("guess", {})), "done")
        outcome = await waits(agent)
        second = await goes_on(agent, outcome, {only(outcome).token: Provide({"size": 1})})
        token = CancellationToken()
        token.cancel("enough")
        ended = await agent.runtime.resume(
            second, {only(second).token: Provide({"size": 2})}, cancellation=token
        )
        assert isinstance(ended, Interrupted)
        assert ended.reason == "enough"
        assert (await orderer(server, calls(("slow", {"seconds": 0})), "well").outcome("go on")).kind == (
            "completed"
        )


# --- elsewhere, and later ------------------------------------------------------------------------------


async def test_where_the_connection_is_gone_the_call_is_made_anew_and_gets_its_answer(notes: Path) -> None:
    async with shop(notes, effect="pure") as server:
        outcome = await waits(orderer(server, calls(("guess", {})), "done"))
        second = await goes_on(orderer(server, "done"), outcome, {only(outcome).token: Provide({"size": 1})})
    async with shop(notes, effect="pure") as server:
        agent = orderer(server, "done")
        stored: Any = from_json(Interrupted, to_json(second))
        ended = await goes_on(agent, stored, {only(second).token: Provide({"size": 2})})
    assert observed(ended) == ["1 then 2"]  # what was answered before is not asked again
    assert lines(notes).count("began guess") == 2


async def test_what_must_not_run_twice_is_told_as_unknown(notes: Path) -> None:
    async with shop(notes, effect="once") as server:
        outcome = await waits(orderer(server))
    async with shop(notes, effect="once") as server:
        ended = await goes_on(orderer(server, "done"), outcome, {only(outcome).token: Provide({"size": 3})})
    assert "outcome of 'order' is unknown" in observed(ended)[0]
    assert lines(notes).count("began hat") == 1


ELSEWHERE = """
import asyncio, sys
from pathlib import Path
from tests.tools.mcp.test_questions import from_json, goes_on, observed, only, orderer, shop, Interrupted, Provide

async def main():
    outcome = from_json(Interrupted, Path(sys.argv[1]).read_text())
    async with shop(Path(sys.argv[2]), effect=sys.argv[3]) as server:
        ended = await goes_on(orderer(server, "done"), outcome, {only(outcome).token: Provide({"size": 3})})
    print(observed(ended)[0])

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("effect", "said", "began"), [("pure", "red hat in 3", 2), ("once", "outcome of 'order' is unknown", 1)]
)
async def test_another_process_goes_on(
    notes: Path, tmp_path: Path, effect: Any, said: str, began: int
) -> None:
    async with shop(notes, effect=effect) as server:
        outcome = await waits(orderer(server))
        stored = tmp_path / "outcome.json"
        stored.write_text(to_json(outcome), encoding="utf-8")
        words = [*python(), "-c", ELSEWHERE, str(stored), str(notes), effect]
        done = await asyncio.to_thread(
            subprocess.run,
            words,
            env={**ENV, "NOTES": str(notes)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert said in done.stdout, done.stderr
    assert lines(notes).count("began hat") == began


async def test_a_run_that_asked_is_replayed_without_its_server(notes: Path, tmp_path: Path) -> None:
    async with shop(notes) as server:
        agent = orderer(server, calls(("guess", {})), "done", events=Recorder(tmp_path / "runs"))
        first = await waits(agent, run_id="r")
        second = await goes_on(agent, first, {only(first).token: Provide({"size": 1})})
        ended = await goes_on(agent, second, {only(second).token: Provide({"size": 2})})
        offline = Agent(ScriptedLlm([]), tools=server.tools, name="shopper")
    again: Any = await replay(load(next((tmp_path / "runs").glob("*.jsonl"))), offline)
    assert again.output == ended.output
    assert again.messages == ended.messages
    assert [event.kind for event in again.events] == [
        event.kind for part in (first, second, ended) for event in part.events
    ]
    assert sum(isinstance(event, RunStarted) for event in again.events) == 3
    assert lines(notes) == ["began guess", "ended guess"]


async def test_a_durable_run_waits_and_goes_on_with_the_call_that_lives(notes: Path, tmp_path: Path) -> None:
    url = database_in(tmp_path)
    async with shop(notes, effect="once") as server:
        async with DurableAgent(orderer(server), "shopper", database_url=url) as durable:
            with pytest.raises(RunInterruptedError):
                await durable.run("a hat", run_id="r")
            (pending,) = await durable.pending()
            assert pending.question is not None
            assert pending.question.message == "Which size of hat?"
            assert [server.tools[0].is_waiting(f"{run}:1:{pending.call.id}") for run in "rs"] == [True, False]
            await durable.approve("r", pending.token, Provide({"size": 3}))
            result = await durable.run("a hat", run_id="r")
        assert [source.value for source in result.sources] == ["red hat in 3"]
    assert lines(notes) == ["began hat", "ended hat"]


async def test_a_durable_run_in_a_new_process_does_not_run_once_twice(notes: Path, tmp_path: Path) -> None:
    url = database_in(tmp_path)
    async with (
        shop(notes, effect="once") as server,
        DurableAgent(orderer(server), "shopper", database_url=url) as durable,
    ):
        with pytest.raises(RunInterruptedError):
            await durable.run("a hat", run_id="r")
    async with (  # another connection, as in another process
        shop(notes, effect="once") as server,
        DurableAgent(orderer(server, "done"), "shopper", database_url=url) as durable,
    ):
        (pending,) = await durable.pending()
        await durable.approve("r", pending.token, Provide({"size": 3}))
        result = await durable.run("a hat", run_id="r")
    assert result.output == "done"
    assert lines(notes).count("began hat") == 1


# --- a model for the server ------------------------------------------------------------------------------


THINK = ToolCall("t1", "think", {"text": "2 + 2?"})


async def test_the_run_s_own_model_answers_on_the_run_s_account(notes: Path, tmp_path: Path) -> None:
    used = [LlmResponse("four", usage=Usage(100, 10)), LlmResponse("done", usage=Usage(1000, 1))]
    async with shop(notes, over="stdio", sampling=True) as server:
        llm = ScriptedLlm([THINK, *used])
        agent = Agent(llm, tools=server.tools, events=Recorder(tmp_path / "runs"))
        outcome: Any = await agent.outcome("think", run_id="r")
        offline = Agent(ScriptedLlm([]), tools=server.tools)
    assert observed(outcome) == ["scripted says four"]
    assert outcome.usage.input_tokens == 1100
    assert outcome.spent.steps == 3  # the model was asked three times
    asked = llm.requests[1]
    assert [message.text for message in asked.messages] == ["Be brief.", "2 + 2?"]
    assert not asked.tools
    again: Any = await replay(load(next((tmp_path / "runs").glob("*.jsonl"))), offline)
    assert (again.messages, again.usage) == (outcome.messages, outcome.usage)


async def test_a_budget_bounds_what_a_server_asks_a_model(notes: Path) -> None:
    async with shop(notes, sampling=True) as server:
        llm = ScriptedLlm([THINK, "never", "never"])
        outcome: Any = await Agent(llm, tools=server.tools, budget=Budget(steps=1)).outcome("think")
    assert len(llm.requests) == 1
    assert outcome.kind == "failed"
    assert outcome.error.resource == "steps"
