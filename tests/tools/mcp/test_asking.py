"""What our server asks clients of the official SDK, and what our client answers servers: all that can come of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client, MCPError, types

from tests.waiting import until
from wesichain import Agent, tool
from wesichain.core import LlmResponse, ToolCall
from wesichain.core.internal import Question
from wesichain.errors import ToolError
from wesichain.testing import ScriptedLlm
from wesichain.tools import JsonTool, ToolContext
from wesichain.tools.mcp import (
    McpServer,
    Sampling,
    ServedChanges,
    ServedPrompt,
    ServedResource,
    elicit,
    release_stream,
    roots,
    sample,
)
from wesichain.tools.mcp.callbacks import Callbacks
from wesichain.tools.mcp.connection import Connection
from wesichain.tools.mcp.inflight import CANNOT_ASK, InFlightCalls, outside_calls
from wesichain.tools.mcp.served_call import _after
from wesichain.tools.mcp.server import RecentEvents
from wesichain.tools.mcp.transports import ServerAddress

from .kit import served
from .test_conversation import FORM, clerk, erase, place, who

BOTH = pytest.mark.parametrize("mode", ["legacy", "auto"])
PNG = types.ImageContent(data="AAAA", mime_type="image/png")


@tool
async def where() -> Any:
    """Say where the client works."""
    return [*(await roots())]


@tool
async def think() -> str:
    """Ask the client's model."""
    return await sample("2 + 2?", max_tokens=9, system="Be brief.")


@tool
async def long() -> str:
    """Take long, without a stream."""
    await release_stream()
    await asyncio.sleep(0.2)
    return "at last"


def outside() -> Agent[Any, str]:
    """An agent whose one tool is answered from outside."""
    form = JsonTool("form", "Ask.", {"type": "object"}, external=True)
    return Agent(ScriptedLlm([ToolCall("f", "form", {}), "filled"]), tools=[form], name="filler")


def answers(content: Any, action: Any = "accept") -> Any:
    async def answer(_: Any, params: Any) -> Any:
        asked.append(params.message)
        return (
            types.ErrorData(code=1, message="away")
            if action is None
            else types.ElicitResult(action=action, content=content)
        )

    asked: list[str] = []
    answer.asked = asked  # type: ignore[attr-defined]  # for the test
    return answer


async def where_it_works(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///home")])  # type: ignore[arg-type]  # as text


async def replies(_: Any, params: types.CreateMessageRequestParams) -> Any:
    said = f"{params.system_prompt} {params.max_tokens} {params.messages[0].role}"
    return types.CreateMessageResult(role="assistant", content=types.TextContent(text=said), model="m")


async def draws(*_: Any) -> Any:
    return types.CreateMessageResult(role="assistant", content=PNG, model="m")


TASK = {"task": "go"}
FITS, NOT = answers({"approve": True}), answers({"approve": "maybe"})


@BOTH
@pytest.mark.parametrize(
    ("made", "args", "can", "said"),
    [
        pytest.param(where, {}, {"list_roots_callback": where_it_works}, "file:///home", id="its-folders"),
        pytest.param(think, {}, {"sampling_callback": replies}, "Be brief. 9 user", id="its-model"),
        pytest.param(think, {}, {"sampling_callback": draws}, "[image", id="which-may-draw"),
        pytest.param(erase, {"path": "a"}, {"elicitation_callback": FITS}, "erased a", id="its-user"),
        pytest.param(
            erase, {"path": "a"}, {"elicitation_callback": NOT}, "approve: expected true or false", id="who-says-else"
        ),
        pytest.param(
            erase, {"path": "a"}, {"elicitation_callback": answers(None, "decline")}, "was not approved", id="or-no"
        ),
        pytest.param(
            erase, {"path": "a"}, {"elicitation_callback": answers({"approve": False})}, "was not approved", id="who-says-no"
        ),
        pytest.param(erase, {"path": "a"}, {}, "has no way to ask for it", id="nobody"),
        pytest.param(who, {}, {"elicitation_callback": answers({"name": "A"})}, "age: is required", id="too-little"),
        pytest.param(outside, TASK, {"elicitation_callback": answers({"result": "x"})}, "filled", id="a-result"),
        pytest.param(outside, TASK, {"elicitation_callback": answers(None, "cancel")}, "filled", id="no-result"),
        pytest.param(outside, TASK, {}, "form({}) needs an external result", id="nobody-has-it"),
    ],
)  # fmt: skip
async def test_a_served_tool_asks_its_client(mode: Any, made: Any, args: Any, can: Any, said: str) -> None:
    offered = made() if made is outside else made
    async with served(offered) as url, Client(url, mode=mode, **can) as client:
        result = await client.call_tool("filler" if made is outside else offered.name, args)
    assert said in str(result.content)


@pytest.mark.parametrize(("made", "needs"), [(where, "roots"), (think, "sampling"), (who, "elicitation")])
async def test_what_a_client_lacks_is_named(made: Any, needs: str) -> None:
    async with served(made, prompts=[ServedPrompt("p", made.function)]) as url:
        async with Client(url, mode="auto") as client:
            for asking in (client.call_tool(made.name, {}), client.get_prompt("p")):
                with pytest.raises(MCPError) as caught:
                    await asking
                assert caught.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
                assert caught.value.data == {"requiredCapabilities": {needs: {}}}
        async with Client(url, mode="legacy") as client:
            assert (await client.call_tool(made.name, {})).is_error


@tool
async def both() -> Any:
    """Ask two questions at once, under one key."""
    return await asyncio.gather(*(elicit(f"Your {what}?", FORM, key="input-2") for what in ("name", "town")))


@BOTH
async def test_two_questions_that_are_open_at_once_may_have_one_key(mode: Any) -> None:
    answer = answers({"name": "Oslo", "age": 3})
    async with served(both) as url, Client(url, mode=mode, elicitation_callback=answer) as client:
        result = await asyncio.wait_for(client.call_tool("both", {}), 30)
    assert len(result.content) == 1
    assert sorted(answer.asked) == ["Your name?", "Your town?"]


async def test_a_header_has_to_say_what_the_arguments_say() -> None:
    region = {"type": "string", "x-mcp-header": "Region"}
    there = JsonTool("there", "Go.", {"type": "object", "properties": {"region": region}}, str)
    async with served(there) as url, Client(url, mode="auto") as client:
        with pytest.raises(MCPError, match="Mcp-Param-Region"):
            await client.session.call_tool("there", {"region": "eu"})
        await client.list_tools()
        assert "eu" in str(await client.call_tool("there", {"region": "eu"}))


async def test_who_asks_by_itself_is_not_asked_again() -> None:
    async with served(erase, clerk(), approved=True) as url, Client(url, mode="legacy") as client:
        assert "erased a" in str(await client.call_tool("erase", {"path": "a"}))
        assert "erased it" in str(await client.call_tool("clerk", {"task": "erase a"}))


async def test_an_unknown_state_is_refused_and_one_that_is_known_belongs_to_its_call() -> None:
    async with (
        served(who, place) as url,
        Client(url, mode="auto", elicitation_callback=answers({})) as client,
    ):
        states = ["made-up"]
        first: Any = await client.session.call_tool("who", {}, allow_input_required=True)
        states.append(first.request_state)
        for state in states:
            with pytest.raises(MCPError, match="requestState is not known"):
                await client.session.call_tool(
                    "place", {"town": "x"}, request_state=state, allow_input_required=True
                )


@BOTH
async def test_a_long_call_may_let_its_stream_go(mode: Any) -> None:
    async with served(long) as url, Client(url, mode=mode) as client:
        assert "at last" in str((await client.call_tool("long", {})).content)


async def test_the_last_events_of_a_stream_are_sent_again() -> None:
    events, again = RecentEvents(), list[Any]()

    async def send(event: Any) -> None:
        again.append(event.message)

    ids = [
        await events.store_event(stream, message)
        for stream, message in (("a", 1), ("b", 2), ("a", None), ("a", 3))
    ]
    assert await events.replay_events_after("unknown", send) is None
    assert await events.replay_events_after(ids[0], send) == "a"
    assert again == [3]
    for _ in range(1_000):
        await events.store_event("a", 4)
    assert await events.replay_events_after(ids[3], send) is None


async def test_changed_lists_are_announced_to_clients_of_older_protocols() -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.method)

    changes = ServedChanges()
    async with (
        served(
            place, prompts=[ServedPrompt("p", str)], resources=[ServedResource("a://b", str)], changes=changes
        ) as url,
        Client(url, mode="legacy", message_handler=hear) as client,
    ):
        can = client.server_capabilities
        assert all(one and one.list_changed for one in (can.tools, can.prompts, can.resources))
        await client.list_tools()
        for announce in (changes.tools, changes.prompts, changes.resources):
            announce()
        await until(lambda: len(heard) == 3)
    assert sorted(heard) == [
        f"notifications/{what}/list_changed" for what in ("prompts", "resources", "tools")
    ]


# --- what our client answers -------------------------------------------------------------------------------


def asks(**more: Any) -> types.CreateMessageRequestParams:
    hello = types.SamplingMessage(role="user", content=types.TextContent(text="hi"))
    return types.CreateMessageRequestParams(**{"messages": [hello], "max_tokens": 5, **more})


CUT = LlmResponse("fo", finish_reason="length")
FILTERED = LlmResponse("", finish_reason="content_filter")


NO_RUN = "the call is not part of a run"


def four(**limits: Any) -> Sampling:
    return Sampling(ScriptedLlm(["four"]), **limits)


@pytest.mark.parametrize(
    ("sampling", "asked", "said"),
    [
        pytest.param(None, asks(), "this client has no model for servers", id="off"),
        pytest.param(Sampling(), asks(tools=[types.Tool(name="t", input_schema={})]),
                     "this client does not support tools in sampling", id="tools"),
        pytest.param(Sampling(), asks(messages=[]), "the request has no messages", id="nothing"),
        pytest.param(Sampling(), asks(), f"this client cannot call a model: {NO_RUN}", id="no-run"),
        pytest.param(Sampling(ScriptedLlm([FILTERED])), asks(), "the model did not reply: content_filter", id="no-reply"),
        pytest.param(Sampling(ScriptedLlm([CUT])), asks(), ("fo", "scripted", "maxTokens"), id="a-reply-that-was-cut"),
        pytest.param(four(), asks(), ("four", "scripted", "endTurn"), id="a-reply"),
        pytest.param(four(max_output=4), asks(), ("four", "scripted", "endTurn"), id="that-just-fits"),
        pytest.param(four(max_output=3), asks(), ("fou", "scripted", "maxTokens"), id="that-does-not"),
        pytest.param(four(max_input=2), asks(), ("four", "scripted", "endTurn"), id="a-request-that-just-fits"),
        pytest.param(four(max_input=10), asks(system_prompt="Be brief."),
                     "the request has 11 characters; the limit is 10", id="that-does-not-either"),
        pytest.param(four(requests=1), asks(), ("four", "scripted", "endTurn"), id="the-last-request"),
        pytest.param(Sampling(approval=True), asks(), f"this client cannot ask its user: {NO_RUN}", id="nobody-can-approve"),
    ],
)  # fmt: skip
async def test_a_request_for_a_model(sampling: Any, asked: Any, said: Any) -> None:
    calls = InFlightCalls()
    sample = Callbacks("s", calls, None, sampling).sample

    async def answer() -> Any:
        given: Any = await sample(None, asked)
        return (
            given.message
            if isinstance(given, types.ErrorData)
            else (given.content.text, given.model, given.stop_reason)
        )

    if isinstance(said, tuple):
        assert "no call is in flight" in await answer()
    call = calls.add(ToolContext())
    call.start(asyncio.sleep(60))
    await asyncio.sleep(0)
    assert await answer() == said
    if sampling is not None and sampling.requests == 1:
        assert await answer() == "this call has made 1 sampling requests, the limit of this client"
    await calls.close()


async def test_a_model_reads_the_instructions_of_a_server_first() -> None:
    calls, llm = InFlightCalls(), ScriptedLlm(["four"])
    calls.add(ToolContext()).start(asyncio.sleep(60))
    await asyncio.sleep(0)
    await Callbacks("s", calls, None, Sampling(llm)).sample(None, asks(system_prompt="Be brief."))
    told = [(message.role.value, message.text) for message in llm.requests[0].messages]
    assert told == [("system", "Be brief."), ("user", "hi")]
    await calls.close()


async def fails(*_: Any) -> Any:
    raise ValueError("secret")


async def test_a_question_that_cannot_be_put_is_declined_or_fails_without_its_reason() -> None:
    answer = Callbacks("s", InFlightCalls(), fails, None).elicit
    page = types.ElicitRequestURLParams(message="m", url="https://a.b", elicitation_id="e")
    assert (await answer(None, page)) == types.ElicitResult(action="decline")
    failed = await answer(None, types.ElicitRequestFormParams(message="m", requested_schema=FORM))
    assert isinstance(failed, types.ErrorData)
    assert failed.message == "the question failed: ValueError"


async def test_a_question_is_asked_outside_of_a_served_call() -> None:
    for asking in (elicit("?", FORM), sample("?"), roots(), release_stream()):
        with pytest.raises(ToolError, match="needs a call by an MCP client"):
            await asking


# --- requests that are in flight ---------------------------------------------------------------------------


async def test_a_connection_that_is_replaced_is_closed_when_its_last_request_has_its_response() -> None:
    async def ignore(_: Any) -> None: ...

    async with served(long) as url:
        callbacks = Callbacks("s", InFlightCalls(), None, None)
        more: Any = {"seconds": 30.0, "callbacks": callbacks, "sampling": False, "on_message": ignore}
        connection = Connection(ServerAddress(url, headers={}), ToolError, **more)
        await connection.open()
        asking = asyncio.create_task(connection.use(lambda by: by.call_tool("long", {})))
        await asyncio.sleep(0.1)
        closing = asyncio.create_task(connection.close_when_idle())
        assert "at last" in str((await asking).content)
        await closing
        with pytest.raises(ToolError, match="has been left"):
            await connection.use(lambda by: by.call_tool("long", {}))


async def test_a_question_of_a_request_outside_of_calls_is_no_call_s() -> None:
    inflight = InFlightCalls()
    call = inflight.add(None)
    call.start(asyncio.Event().wait())
    await asyncio.sleep(0)  # it has begun
    assert await inflight.owner() is call
    outside_calls()
    assert await inflight.owner() == f"{CANNOT_ASK}: the question does not belong to a tool call"
    await inflight.close()


async def test_messages_to_a_client_are_sent_in_order() -> None:
    sent: list[str] = []

    async def send(text: str, after: asyncio.Event | None = None) -> None:
        if after is not None:
            await after.wait()
        sent.append(text)

    first_may = asyncio.Event()
    first = asyncio.create_task(_after(None, send("first", first_may)))
    second = asyncio.create_task(_after(first, send("second")))
    await asyncio.sleep(0)  # both have begun
    first_may.set()
    await second
    assert sent == ["first", "second"]


async def test_a_question_that_its_server_withdraws_is_open_no_longer() -> None:
    calls = InFlightCalls()
    call = calls.add(ToolContext(idempotency_key="k"))
    asking = [asyncio.create_task(call.ask(Question("?", FORM))) for _ in range(2)]
    await asyncio.sleep(0)
    assert [each.number for each in call.questions] == [0, 1]
    assert calls.is_waiting("k")
    for task in asking:
        task.cancel()
    await asyncio.wait(asking)
    assert call.questions == []
    assert not calls.is_waiting("k")


async def test_of_too_many_that_wait_the_server_gives_up_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wesichain.tools.mcp.server._MAX_WAITING", 1)
    async with (
        served(who) as url,
        Client(url, mode="auto", elicitation_callback=answers({"name": "A", "age": 1})) as client,
    ):
        session: Any = client.session
        asked = [await session.call_tool("who", {}, allow_input_required=True) for _ in range(2)]
        again: Any = {"request_state": asked[0].request_state, "allow_input_required": True}
        with pytest.raises(MCPError, match="not known"):
            await session.call_tool("who", {}, **again)
        again["request_state"] = asked[1].request_state
        assert (await session.call_tool("who", {}, **again)).request_state


async def test_a_server_that_ends_cancels_calls_that_wait() -> None:
    ended: list[str] = []

    @tool
    async def order() -> str:
        """Order something."""
        try:
            await elicit("Which?", FORM)
        finally:
            ended.append("order")
        return "ordered"

    async with served(order) as url:
        async with Client(url, mode="auto", elicitation_callback=answers({})) as client:
            await client.session.call_tool("order", {}, allow_input_required=True)
        assert ended == []
    assert ended == ["order"]


async def test_a_question_goes_through_a_served_agent_to_its_client() -> None:
    async with served(who) as below, McpServer.http(below, approval=False) as server:
        llm = ScriptedLlm([ToolCall("w", "who", {}), "asked"])
        agent = Agent(llm, tools=server.tools, name="middle")
        user = answers({"name": "Ada", "age": 3})
        async with served(agent) as url, Client(url, mode="legacy", elicitation_callback=user) as client:
            assert "asked" in str((await client.call_tool("middle", TASK)).content)
    assert user.asked == ["Who are you?"]
    assert llm.requests[1].messages[-1].text == '{"age":3,"name":"Ada"}'
