"""A durable agent takes what an agent takes: parts, a conversation, a model, a budget; and streams text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest

from tests.durable.test_agent import deleter, served
from wesichain import Agent, Budget, Image, tool
from wesichain.agent import Approve, Failed, MemoryConversations
from wesichain.core import LlmRequest, LlmResponse, Role, TextChunk, TextDelta, ToolCall
from wesichain.durable import DurableAgent
from wesichain.errors import (
    BudgetExceededError,
    CodecError,
    ConfigError,
    DurableError,
    RunFailedError,
    RunIdConflictError,
    RunInterruptedError,
)
from wesichain.middleware import OutputGuard
from wesichain.testing import FunctionLlm, calls

PICTURE = Image(data=b"\x89PNG picture", media_type="image/png")


async def test_parts_reach_the_model_in_the_process_that_runs_the_run(url: str) -> None:
    seen: list[Any] = []

    def reply(request: LlmRequest) -> str:
        seen.append(request.messages[-1].content)
        return "a picture"

    def durable() -> DurableAgent[str]:
        return DurableAgent(Agent(FunctionLlm(reply)), "looker", database_url=url)

    async with durable() as client:
        run_id = await client.enqueue(["What is this?", PICTURE])
        assert (await client.list())[0].task == "What is this?"
    async with durable() as worker, served(worker):
        assert (await worker.result(run_id, timeout=30)).output == "a picture"
        assert (await worker.run(["What is this?", PICTURE], run_id=run_id)).output == "a picture"
        with pytest.raises(RunIdConflictError):
            await worker.run("What is this?", run_id=run_id)
        with pytest.raises(CodecError, match="neither a text nor a part"):  # as of an agent
            await worker.run(["What is this?", 3])  # type: ignore[list-item]  # what is tested
    assert [[type(part).__name__ for part in content] for content in seen] == [["Text", "Image"]]
    assert seen[0][1].data == PICTURE.data


async def test_a_conversation_is_read_and_extended_once(url: str) -> None:
    def reply(request: LlmRequest) -> str:
        return f"answer {sum(message.role is Role.USER for message in request.messages)}"

    talks = MemoryConversations()
    durable = DurableAgent(Agent(FunctionLlm(reply)), "talker", database_url=url)
    async with durable:
        assert (await durable.run("one", conversation=talks.open("c"))).output == "answer 1"
        assert (await durable.run("two", conversation=talks.open("c"), run_id="r")).output == "answer 2"
        again = await durable.run("two", conversation=talks.open("c"), run_id="r")
        assert again.output == "answer 2", "the same run, though the conversation has grown"
        said = [message.text for message in await talks.open("c").read()]
        assert said == ["one", "answer 1", "two", "answer 2"]
        await durable.enqueue("three", run_id="s")  # as if its caller had died before the answer came
        await durable.run("three", conversation=talks.open("c"), run_id="s")
        assert [message.text for message in await talks.open("c").read()][-2:] == ["three", "answer 1"]


async def test_a_queued_run_reads_its_conversation_and_adds_its_turn_after_an_approval(url: str) -> None:
    def reply(request: LlmRequest) -> Any:
        asked = [message.text for message in request.messages if message.role is Role.USER]
        if "delete" in asked[-1] and request.messages[-1].role is Role.USER:
            return calls(("delete", {"name": "x"}))
        return f"answer {len(asked)}"

    @tool(approval=True)
    def delete(name: str) -> str:
        """Delete."""
        return name

    talk = MemoryConversations().open("c")

    async def texts(number: int) -> list[str]:
        async with asyncio.timeout(60):
            while len(found := await talk.read()) < number:
                await asyncio.sleep(0.02)
        return [message.text for message in found]

    def durable() -> DurableAgent[str]:
        return DurableAgent(Agent(FunctionLlm(reply), tools=[delete]), "talker", database_url=url)

    async with durable() as client, durable() as worker, served(worker):
        await client.enqueue("one", conversation=talk, run_id="a")
        await client.enqueue("one", conversation=talk, run_id="a")  # asked again: the same run, one turn
        assert await texts(2) == ["one", "answer 1"]
        await client.enqueue("delete it", conversation=talk, run_id="b")
        with pytest.raises(RunInterruptedError):
            await client.result("b", timeout=60)
        (waiting,) = await client.pending("b")
        await client.approve("b", waiting.token, Approve())
        assert await texts(4) == ["one", "answer 1", "delete it", "answer 2"]
        with pytest.raises(RunInterruptedError):
            await client.run("delete more", conversation=talk, run_id="c")
        (waiting,) = await client.pending("c")
        await client.approve("c", waiting.token, Approve())
        assert (await texts(6))[-2:] == ["delete more", "answer 3"]


async def test_a_client_that_is_closed_follows_no_run_any_more(url: str) -> None:
    async with DurableAgent(Agent(FunctionLlm(lambda _: "late")), "talker", database_url=url) as client:
        await client.enqueue("one", conversation=MemoryConversations().open("c"))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_budget_of_the_run_holds_over_its_resumes_in_another_process(url: str) -> None:
    @tool(approval=True)
    def ask(number: int) -> str:
        """Ask."""
        return str(number)

    def reply(request: LlmRequest) -> LlmResponse:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return calls(("ask", {"number": turn}))

    def durable() -> DurableAgent[str]:
        return DurableAgent(Agent(FunctionLlm(reply), tools=[ask]), "asker", database_url=url)

    async with durable() as first:
        with pytest.raises(RunInterruptedError):
            await first.run("go", run_id="r", budget=Budget(steps=2, prices={"m": (1.0, 2.0)}))
        (waiting,) = await first.pending("r")
        await first.approve("r", waiting.token, Approve())
    async with durable() as second:
        with pytest.raises(RunInterruptedError):
            await second.resume("r")
        (waiting,) = await second.pending("r")
        await second.approve("r", waiting.token, Approve())
        with pytest.raises(RunFailedError) as failed:
            await second.resume("r")
    assert isinstance(failed.value.outcome, Failed)
    assert isinstance(failed.value.outcome.error, BudgetExceededError)


async def test_a_model_of_a_queued_run_is_a_name(url: str) -> None:
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        with pytest.raises(ConfigError, match="PROVIDER:NAME"):
            await durable.enqueue("go", model=FunctionLlm(lambda _: "x"))  # type: ignore[arg-type]  # what is tested
        run_id = await durable.enqueue("go", model="openai:another")
        (payload,) = await durable._runs.ask(lambda store: store.payloads([run_id]))
        assert '"model":"openai:another"' in payload.order


async def test_a_model_of_the_run_may_be_an_object_of_this_process(url: str) -> None:
    def reply(request: LlmRequest) -> LlmResponse:
        is_asked = any(message.role is Role.TOOL for message in request.messages)
        return LlmResponse("deleted by another") if is_asked else calls(("delete", {"path": "/x"}))

    def durable() -> DurableAgent[str]:
        return DurableAgent(deleter(), "deleter", database_url=url)

    async with durable() as first:
        with pytest.raises(ConfigError, match="not a model"):
            await first.run("go", model=3)  # type: ignore[arg-type]  # what is tested
        with pytest.raises(RunInterruptedError):
            await first.run("go", run_id="r", model=FunctionLlm(reply))
        with pytest.raises(RunIdConflictError):
            await first.run("go", run_id="r")
    async with durable() as second:
        (waiting,) = await second.pending("r")
        await second.approve("r", waiting.token, Approve())
        with pytest.raises(DurableError, match=r"run\(task, run_id='r', model=...\)"):
            await second.resume("r")
        with pytest.raises(DurableError, match="could not continue"):
            await second.run("go", run_id="r", model=FunctionLlm(reply))
        assert (await second.resume("r")).output == "deleted by another"


class Model:
    """A model whose replies may be cut short; it can be seen whether somebody still has it."""

    def __init__(self, reply: Any = "done") -> None:
        self.reply = reply
        self.asked = asyncio.Event()

    async def complete(self, request: LlmRequest) -> Any:
        self.asked.set()
        if self.reply is None:
            await asyncio.Event().wait()
        if isinstance(self.reply, Exception):
            raise self.reply
        is_asked = any(message.role is Role.TOOL for message in request.messages)
        return LlmResponse("done") if is_asked or isinstance(self.reply, str) else self.reply


async def cancelled(durable: DurableAgent[str], model: Model) -> None:
    running = asyncio.create_task(durable.run("go", run_id="r", model=model))
    await asyncio.wait_for(model.asked.wait(), 30)
    await durable.cancel("r")
    with pytest.raises(RunInterruptedError):
        await running


async def cancelled_while_it_waits(durable: DurableAgent[str], model: Model) -> None:
    with pytest.raises(RunInterruptedError):
        await durable.run("go", run_id="r", model=model)
    await durable.cancel("r")


async def approved(durable: DurableAgent[str], model: Model) -> None:
    with pytest.raises(RunInterruptedError):
        await durable.run("go", run_id="r", model=model)
    (waiting,) = await durable.pending("r")
    await durable.approve("r", waiting.token, Approve())
    await durable.resume("r")


async def completed_and_asked_again(durable: DurableAgent[str], model: Model) -> None:
    await durable.run("go", run_id="r", model=model)
    await durable.run("go", run_id="r", model=model)


async def taken(durable: DurableAgent[str], model: Model) -> None:
    await durable.run("go", run_id="r", model=Model())
    with pytest.raises(RunIdConflictError):
        await durable.run("other", run_id="r", model=model)


async def failing(durable: DurableAgent[str], model: Model) -> None:
    with pytest.raises(RunFailedError):
        await durable.run("go", run_id="r", model=model)


async def refused(durable: DurableAgent[str], model: Model) -> None:
    with pytest.raises(DurableError, match="no key"):
        await durable.run("go", run_id="r", model=model)


@pytest.mark.parametrize(
    ("end", "reply"),
    [
        (completed_and_asked_again, "done"),
        (taken, "done"),
        (approved, calls(("delete", {"path": "/x"}))),
        (cancelled, None),
        (cancelled_while_it_waits, calls(("delete", {"path": "/x"}))),
        (failing, ValueError("ill")),
        (refused, ConfigError("there is no key")),
    ],
)
async def test_a_model_of_the_run_is_let_go_when_the_run_has_ended(url: str, end: Any, reply: Any) -> None:
    model = Model(reply)
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        await end(durable, model)
        assert durable._execution.models == {}


class Talker:
    """A model that says its answer word by word."""

    name = "talker"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return LlmResponse("one two three")

    async def stream(self, request: LlmRequest) -> AsyncIterator[Any]:
        for word in ("one ", "two ", "three"):
            yield TextChunk(word)
            await asyncio.sleep(0.01)
        yield LlmResponse("one two three")


class Caller(Talker):
    """Speaks while it calls a tool, then answers."""

    async def complete(self, request: LlmRequest) -> LlmResponse:
        is_asked = any(message.role is Role.TOOL for message in request.messages)
        if is_asked:
            return await super().complete(request)
        return LlmResponse("let me see", tool_calls=(ToolCall("c1", "look", {}),))

    async def stream(self, request: LlmRequest) -> AsyncIterator[Any]:
        reply = await self.complete(request)
        for word in reply.content.split(" "):
            yield TextChunk(f"{word} ")
            await asyncio.sleep(0.01)
        yield reply


@tool
async def look() -> str:
    """Look."""
    await asyncio.sleep(0.05)
    return "seen"


async def listening(durable: DurableAgent[str], run_id: str) -> list[Any]:
    """All events of a run that was just started, and need not be stored yet."""
    return [event async for event in durable.events(run_id)]


async def test_events_of_a_run_come_in_order_to_those_who_listen_late(url: str) -> None:
    async with DurableAgent(Agent(Caller(), tools=[look]), "caller", database_url=url) as durable:
        running = asyncio.ensure_future(durable.run("go", run_id="r"))
        received = await asyncio.wait_for(listening(durable, "r"), 30)
        await running
        stored = [event for event in received if not isinstance(event, TextDelta)]
        again = [event async for event in durable.events("r", after=3)]
    assert [event.seq for event in stored] == [*range(1, len(stored) + 1)]
    assert again == stored[3:]
    kinds = [event.kind for event in received]
    words = [kinds.index("text_delta"), len(kinds) - 1 - kinds[::-1].index("text_delta")]
    assert kinds[: words[0]] == ["run_started", "step_started"]
    assert kinds[words[1] + 1 :] == ["model_responded", "run_completed"]
    for event, after in pairwise(received):
        if isinstance(after, TextDelta):
            assert event.kind in ("step_started", "text_delta")
            assert event.step_id == after.step_id
    texts = [event.text for event in received if isinstance(event, TextDelta)]
    assert "".join(texts) == "let me see one two three "


async def test_a_guard_that_holds_the_answer_holds_it_in_durable_runs(url: str) -> None:
    guarded = Agent(Talker(), middleware=[OutputGuard(lambda text: "two" not in str(text))])
    async with DurableAgent(guarded, "guarded", database_url=url) as durable:
        running = asyncio.ensure_future(durable.run("go", run_id="r"))
        received = await asyncio.wait_for(listening(durable, "r"), 30)
        with pytest.raises(RunFailedError):
            await running
    assert not [event for event in received if isinstance(event, TextDelta)]
