"""Every protocol from the newest to the oldest: calls, questions, models, sessions, subscriptions, completions."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import until
from wesichain import Agent
from wesichain.agent import Completed, Interrupted
from wesichain.core import from_json, to_json
from wesichain.core.internal import Provide, Refuse
from wesichain.errors import ConfigError, ToolError, ToolErrorKind
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools.mcp import McpServer, Sampling, ServedChanges, ServedPrompt, ServedResource, elicit

from . import asking_ours
from .kit import ENV, asking, call, lines, observed, raw, served, serving
from .test_conversation import place

SERVER = asking_ours.__file__
BOTH = pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])


def shop(notes: Path, protocol: str, **options: Any) -> AbstractAsyncContextManager[McpServer]:
    return asking(asking_ours, notes, protocol=protocol, **options)


def agent_of(server: McpServer, *replies: Any, **options: Any) -> Agent[Any, str]:
    return Agent(ScriptedLlm([*replies]), tools=server.tools, **options)


# --- versions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("newest", "spoken"),
    [
        pytest.param({}, "2026-07-28", id="the-newest-by-default"),
        pytest.param({"protocol": "2025-11-25"}, "2025-11-25", id="or-an-older-one"),
    ],
)
async def test_the_newest_protocol_that_both_know_is_spoken(newest: Any, spoken: str) -> None:
    async with served(place) as url, McpServer.http(url, **newest) as server:
        assert server.protocol_version == spoken
        assert (await call(server, "place", {"town": "Oslo"})).ok


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
async def test_servers_of_old_protocols_are_used(version: str) -> None:
    async with raw("old", env={"VERSION": version}) as server:
        assert server.protocol_version == version
        assert (await call(server, "fine", {"text": "x"})).value == "hello"


async def test_a_program_that_ends_at_anything_but_the_handshake_is_started_again(tmp_path: Path) -> None:
    async with raw("handshake-or-end", env={"STARTS": str(tmp_path / "starts")}) as server:
        assert (await call(server, "fine", {"text": "x"})).value == "hello"
    assert (tmp_path / "starts").read_text(encoding="utf-8") == "xx"


def test_a_protocol_that_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="2026-07-28"):
        McpServer.http("http://127.0.0.1:1/mcp", protocol="2023-01-01")


# --- questions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(  # over stdio, the older one does not say whose a question is: see test_questions.py
    ("over", "protocol"), [("stdio", "2026-07-28"), ("http", "2025-11-25")]
)
async def test_eight_runs_at_once_get_each_its_own_answer(notes: Path, protocol: str, over: str) -> None:
    async with shop(notes, protocol, over=over) as server:
        agents = [agent_of(server, calls(("order", {"item": f"hat{n}"})), "done") for n in range(8)]
        outcomes = await asyncio.gather(*(agent.outcome("buy") for agent in agents))
        answers = []
        for number, (agent, outcome) in enumerate(zip(agents, outcomes, strict=True)):
            assert isinstance(outcome, Interrupted), outcome
            (pending,) = outcome.pending
            assert pending.question is not None
            assert pending.question.message == f"Which size of hat{number}?"
            answers.append(agent.runtime.resume(outcome, {pending.token: Provide({"size": number})}))
        ended = await asyncio.gather(*answers)
    assert [observed(each) for each in ended] == [[f"red hat{n} in {n}"] for n in range(8)]
    assert sorted(lines(notes)) == sorted([f"{how} hat{n}" for n in range(8) for how in ("began", "ended")])


@BOTH
async def test_a_question_inside_a_nested_agent_is_the_top_run_s(notes: Path, protocol: str) -> None:
    async with shop(notes, protocol) as server:
        buyer = agent_of(server, calls(("order", {"item": "hat"})), "bought", name="buyer")
        chief = Agent(
            ScriptedLlm([calls(("buyer", {"task": "a hat"})), "all done"]),
            tools=[buyer.as_tool()],
            name="chief",
        )
        outcome = await chief.outcome("shop")
        assert isinstance(outcome, Interrupted)
        (pending,) = outcome.pending
        assert pending.question is not None
        assert (pending.scope, pending.question.message) == (("chief",), "Which size of hat?")
        stored: Any = from_json(Interrupted, to_json(outcome))
        ended = await chief.runtime.resume(stored, {pending.token: Provide({"size": 3, "colour": "blue"})})
    assert isinstance(ended, Completed)
    assert lines(notes) == ["began hat", "ended hat"]


@pytest.mark.parametrize(
    ("over", "protocol"), [("stdio", "2026-07-28"), ("http", "2025-11-25"), ("http", "2026-07-28")]
)
async def test_a_call_that_is_cancelled_is_cancelled_at_the_server(
    notes: Path, protocol: str, over: str
) -> None:
    async with shop(notes, protocol, over=over) as server:
        task = asyncio.create_task(agent_of(server, calls(("slow", {"seconds": 60})), "x").outcome("wait"))
        await until(lambda: "began slow" in lines(notes))
        task.cancel()
        await asyncio.wait({task})
        await until(lambda: "gave up slow" in lines(notes))
        ended = await agent_of(server, calls(("slow", {"seconds": 0})), "done").run("again")
    assert ended.output == "done"


@BOTH
async def test_a_prompt_may_ask_too(protocol: str) -> None:
    async def letter() -> str:
        answer = await elicit("To whom?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"Write to {(answer or {}).get('name')}."

    async def ask(message: str, _: object) -> dict[str, str]:
        return {"name": "Ada"} if message == "To whom?" else {}

    async with (
        served(place, prompts=[ServedPrompt("letter", letter)]) as url,
        McpServer.http(url, protocol=protocol, on_elicit=ask) as server,
        McpServer.http(url, protocol=protocol) as mute,
    ):
        (message,) = await server.prompt("letter")
        assert message.text == "Write to Ada."
        with pytest.raises(ToolError, match="cannot ask its user"):  # there is no run to interrupt
            await mute.prompt("letter")


# --- models --------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("sampling", "answer"),
    [
        pytest.param(False, "model", id="off-unless-given"),
        pytest.param(True, "from the run", id="the-run-s-own"),
    ],
)
async def test_a_server_may_ask_a_model_where_that_is_allowed(
    notes: Path, protocol: str, sampling: Any, answer: str
) -> None:
    async with shop(notes, protocol, sampling=sampling) as server:
        agent = agent_of(server, calls(("think", {"text": "hello"})), "from the run", "done")
        outcome = await agent.outcome("go")
    assert isinstance(outcome, Completed), outcome
    assert answer in observed(outcome)[0]


@BOTH
async def test_one_call_asks_a_model_only_so_often(notes: Path, protocol: str) -> None:
    llm = ScriptedLlm(["yes"] * 9)
    async with shop(notes, protocol, sampling=Sampling(llm, requests=2)) as server:
        script = [calls(("think", {"text": "a", "times": times})) for times in (2, 3)]
        outcome = await agent_of(server, *script, "done").outcome("go")
    assert observed(outcome)[0] == "yes; yes"
    assert "the limit of this client" in observed(outcome)[1]
    assert len(llm.requests) == 4


@BOTH
@pytest.mark.parametrize("approve", [True, False])
async def test_a_person_may_have_to_approve(notes: Path, protocol: str, approve: bool) -> None:
    llm = ScriptedLlm(["yes"])
    async with shop(notes, protocol, sampling=Sampling(llm, approval=True)) as server:
        agent = agent_of(server, calls(("think", {"text": "our secrets?"})), "done")
        outcome = await agent.outcome("go")
        assert isinstance(outcome, Interrupted)
        (pending,) = outcome.pending
        assert pending.question is not None
        assert "user: our secrets?" in pending.question.message
        assert llm.requests == []
        decision: Any = Provide({"approve": True}) if approve else Refuse("no")
        ended = await agent.runtime.resume(outcome, {pending.token: decision})
    assert ("yes" if approve else "the user did not approve the request") in observed(ended)[0]
    assert len(llm.requests) == int(approve)


# --- sessions ------------------------------------------------------------------------------------------


# Refusals of a request by servers that put them into the status too: these are no lost sessions.
REFUSALS = {"wrong": (400, -32602), "no-such-method": (404, -32601), "no-such-resource": (404, -32002)}


@asynccontextmanager
async def forgetful(
    status: int, renewing: asyncio.Event | None = None, *, code: int = -32000, with_id: bool = False
) -> AsyncIterator[tuple[str, list[str]]]:
    """A server of the older protocols that forgets each session after its second call, with this status.

    Its error has this code, and the request's id if `with_id`. It begins a second session once `renewing` is set.
    """
    seen: list[str] = []
    uses: dict[str, int] = {}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if ": " in line)
        message = json.loads(await reader.readexactly(int(fields.get("content-length", 0))) or b"{}")
        if message.get("method") == "initialize" and uses and renewing is not None:
            seen.append("renewing")
            await renewing.wait()
        answered, body, session = respond(head.split()[0], message, fields.get("mcp-session-id"))
        data = b"" if body is None else json.dumps(body).encode()
        extra = f"mcp-session-id: {session}\r\n" if session else ""
        writer.write(
            f"HTTP/1.1 {answered} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n"
            f"connection: close\r\n{extra}\r\n".encode()
            + data
        )
        await writer.drain()
        writer.close()

    def respond(verb: str, message: Any, session: str | None) -> tuple[int, Any, str | None]:
        method, number = message.get("method"), message.get("id")
        if verb != "POST":
            return 405, None, None
        seen.append(str(method))
        if method == "initialize":
            new = f"s{len(uses)}"
            uses[new] = 0
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "forgetful", "version": "1"},
            }
            return 200, {"jsonrpc": "2.0", "id": number, "result": result}, new
        if session not in uses or uses[session] >= 2:
            error: dict[str, Any] = {"code": code, "message": "Bad Request: No valid session ID provided"}
            return status, {"jsonrpc": "2.0", "id": number if with_id else None, "error": error}, None
        if method == "tools/call":
            uses[session] += 1
            if message["params"]["name"] in REFUSALS:
                refused, error_code = REFUSALS[message["params"]["name"]]
                error = {"code": error_code, "message": "that is wrong"}
                return refused, {"jsonrpc": "2.0", "id": number, "error": error}, None
            result = {"content": [{"type": "text", "text": session}]}
            return 200, {"jsonrpc": "2.0", "id": number, "result": result}, None
        if method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("where", *REFUSALS)]
            return 200, {"jsonrpc": "2.0", "id": number, "result": {"tools": tools}}, None
        return 202, None, None

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", seen


@pytest.mark.parametrize(
    ("status", "code", "with_id"),
    [
        pytest.param(404, -32001, False, id="typescript-sdk"),
        pytest.param(404, -32001, True, id="404-with-the-id"),
        pytest.param(404, -32600, False, id="python-sdk"),
        pytest.param(404, -32600, True, id="404-invalid-request-with-the-id"),
        pytest.param(400, -32000, False, id="typescript-sdk-examples"),
        pytest.param(400, -32000, True, id="server-everything"),
    ],
)
async def test_a_session_that_is_lost_is_renewed(status: int, code: int, with_id: bool) -> None:
    async with (
        forgetful(status, code=code, with_id=with_id) as (url, seen),
        McpServer.http(url, approval=False) as server,
    ):
        found = [(await call(server, "where")).value for _ in range(5)]
    assert found == ["s0", "s0", "s1", "s1", "s2"]
    assert seen.count("initialize") == 3


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_a_refused_request_is_no_lost_session(refusal: str) -> None:
    async with forgetful(404) as (url, seen), McpServer.http(url, approval=False) as server:
        refused = await call(server, refusal)
    assert "that is wrong" in str(refused.error)
    assert seen.count("initialize") == 1


async def test_a_server_that_is_left_while_its_session_is_renewed_has_none_afterwards() -> None:
    renewing = asyncio.Event()
    async with forgetful(404, renewing) as (url, seen):
        server = McpServer.http(url, approval=False)
        async with server:
            for _ in range(2):
                await call(server, "where")
            reading = asyncio.create_task(server.refresh())  # meets the lost session
            await until(lambda: "renewing" in seen)
        renewing.set()
        with pytest.raises(ToolError, match="is not connected"):
            await reading
        with pytest.raises(ToolError, match="is not connected"):
            await server.refresh()


async def test_leaving_a_server_closes_a_session_that_was_replaced_just_before() -> None:
    async with forgetful(404) as (url, _):
        server = McpServer.http(url, approval=False)
        async with server:
            first = server._connection
            assert first is not None
            await server._renew(first)
            assert server._connection is not first
        assert first._owner.done()


# --- completions and subscriptions -----------------------------------------------------------------------


@BOTH
async def test_arguments_are_completed(protocol: str) -> None:
    async def towns(typed: str, given: dict[str, str]) -> list[str]:
        return [f"{typed}-{given.get('country', '?')}-{n}" for n in range(150)]

    prompt = ServedPrompt("visit", lambda town: town, complete={"town": ["Oslo", "Osaka", "Rome"]})
    notes = ServedResource("notes://{country}/{town}", lambda country, town: "", complete={"town": towns})
    async with (
        served(place, prompts=[prompt], resources=[notes]) as url,
        McpServer.http(url, protocol=protocol) as server,
    ):
        assert await server.complete("visit", "town", "os") == ("Oslo", "Osaka")
        assert await server.complete("visit", "other", "os") == ()
        (template,) = await server.resource_templates()
        found = await server.complete(template.uri, "town", "a", given={"country": "no"})
        assert found == tuple(f"a-no-{n}" for n in range(100))
        with pytest.raises(ToolError, match="no prompt"):
            await server.complete("nothing", "town")


@BOTH
async def test_changes_of_resources_reach_those_who_subscribed(protocol: str) -> None:
    changes = ServedChanges()
    resources = [ServedResource(f"notes://{day}", lambda: "x") for day in ("today", "tomorrow")]
    async with (
        served(place, resources=resources, changes=changes) as url,
        McpServer.http(url, protocol=protocol) as server,
        McpServer.http(url, protocol=protocol) as other,
    ):
        async with (
            server.subscribe("notes://today") as one,
            other.subscribe("notes://today", "notes://tomorrow") as both,
        ):
            await asyncio.to_thread(changes.resource, "notes://tomorrow")
            changes.resource("notes://today")
            async with asyncio.timeout(30):
                assert await anext(one) == "notes://today"
                assert {await anext(both), await anext(both)} == {"notes://today", "notes://tomorrow"}
        changes.resource("notes://today")
        assert [uri async for uri in one] == []  # the subscription has ended
        with pytest.raises(TimeoutError, match="of the caller"):
            async with server.subscribe("notes://today"):
                raise TimeoutError("of the caller")
        kept = server.subscribe("notes://today")
        left = await kept.__aenter__()
    assert [uri async for uri in left] == []  # the server has been left
    await kept.__aexit__(None, None, None)


@BOTH
async def test_a_subscription_announces_only_changes(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wesichain.tools.mcp.client._RESUBSCRIBE_SECONDS", 0.0)
    changes = ServedChanges()
    resources = [ServedResource(f"notes://{day}", lambda: "x") for day in ("today", "tomorrow")]
    async with (
        served(place, resources=resources, changes=changes) as url,
        McpServer.http(url, protocol=protocol) as server,
        server.subscribe("notes://today", "notes://tomorrow") as seen,
    ):
        for _ in range(3):  # a subscription that is renewed meanwhile announces both
            await server.refresh()
        changes.resource("notes://tomorrow")
        assert await asyncio.wait_for(anext(seen), 30) == "notes://tomorrow"


async def test_a_server_that_offers_no_subscriptions_says_so() -> None:
    async with served(place) as url:
        for protocol in ("2025-11-25", "2026-07-28"):
            async with McpServer.http(url, protocol=protocol) as server:
                with pytest.raises(ToolError, match="Method not found"):
                    async with server.subscribe("notes://today"):
                        raise AssertionError


@BOTH
async def test_a_subscription_outlives_a_restart_of_the_server(notes: Path, protocol: str) -> None:
    env = {**ENV, "NOTES": str(notes)}
    with serving(SERVER, "0", pattern=r"http://\S+/mcp", env=env) as url:
        server = McpServer.http(url, approval=False, protocol=protocol)
        await server.__aenter__()
        subscription = server.subscribe("notes://today")
        seen = await subscription.__aenter__()
    try:
        port = url.split(":")[2].split("/")[0]
        with serving(SERVER, port, pattern=r"http://\S+/mcp", env=env):
            result = await call(server, "slow", {"seconds": 0})
            assert result.value == "slept", result.error
            assert await asyncio.wait_for(anext(seen), 60) == "notes://today"  # it may have changed meanwhile
    finally:
        await subscription.__aexit__(None, None, None)
        await server.__aexit__(None, None, None)


# --- trouble -------------------------------------------------------------------------------------------


async def test_a_server_that_restarts_in_the_middle_of_a_call_fails_that_call_alone(notes: Path) -> None:
    env = {**ENV, "NOTES": str(notes)}
    with serving(SERVER, "0", pattern=r"http://\S+/mcp", env=env) as url:
        server = McpServer.http(url, approval=False, timeout=60.0)
        await server.__aenter__()
        task = asyncio.create_task(call(server, "slow", {"seconds": 600}))
        await until(lambda: "began slow" in lines(notes))
    try:
        result = await asyncio.wait_for(task, 60)
        assert getattr(result.error, "kind", None) == ToolErrorKind.UNAVAILABLE
        assert lines(notes).count("began slow") == 1  # it is not sent again: what it did is not known
    finally:
        await server.__aexit__(None, None, None)


async def test_reading_from_a_slow_server_ends_in_time() -> None:
    async def never() -> str:
        await asyncio.sleep(600)
        return ""

    async with (
        served(place, resources=[ServedResource("slow://x", never)]) as url,
        McpServer.http(url, timeout=0.3) as server,
    ):
        with pytest.raises(ToolError, match=r"did not send the resource .* within 0\.3 s"):
            await server.read("slow://x")


async def test_a_server_that_says_too_much_is_cut() -> None:
    with warnings.catch_warnings(action="ignore"):  # of what is left out
        async with raw("says-too-much", max_tools=100) as server:
            assert len(server.tools) == 99  # one of the first hundred has no usable schema
            assert server.left_out["1,900 more"].startswith("the server lists 2,000 tools")
            assert "more than 200,000" in server.left_out["huge-schema"]
            longest = max(server.tools, key=lambda tool: len(tool.description))
            assert len(longest.description.encode()) == 20_000
            assert longest.description.endswith("[cut here: the server sent 2,000,004 bytes]")
            text = json.dumps([[tool.spec.description, dict(tool.spec.parameters)] for tool in server.tools])
            assert "\\u001b" not in text
            assert "[31m" not in text
            assert (await call(server, longest.name, {"text": "x"})).value == "hello"
