"""A2A: the client of the package `a2a-sdk` itself, against a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
from a2a import types as a2a
from a2a.client import ClientConfig, create_client
from a2a.client.errors import A2AClientError
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.routing import Mount

from wesichain import Agent, tool
from wesichain.agent import MemoryConversations
from wesichain.core import (
    Image,
    LlmRequest,
    Text,
)
from wesichain.edge import create_app
from wesichain.edge.a2a import _exact, _integer_if_equal
from wesichain.testing import FunctionLlm, calls

from .kit import listening, scripted, serving
from .test_runs import LOCATE, REFUND, Slow

STATE = a2a.TaskState
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


@tool(approval=True)
def refund(amount: int, of: float) -> str:
    """Refund a share of an amount."""
    return f"{amount} {of}"


@asynccontextmanager
async def client_of(app: Any, *, streaming: bool) -> AsyncIterator[Any]:
    async with listening(app) as url, httpx.AsyncClient(timeout=30, verify=False) as http:
        config = ClientConfig(streaming=streaming, httpx_client=http)
        client = await create_client(url, config)
        yield client


def message(text: str = "", *, task: str = "", context: str = "", data: Any = None) -> a2a.SendMessageRequest:
    parts = [a2a.Part(text=text)] if text else []
    if data is not None:
        part = a2a.Part()
        ParseDict(data, part.data)
        parts.append(part)
    made = a2a.Message(
        message_id=uuid4().hex, role=a2a.Role.ROLE_USER, parts=parts, task_id=task, context_id=context
    )
    return a2a.SendMessageRequest(message=made)


async def sent(client: Any, request: Any) -> Any:
    """The task as a client has it at the end, put together from what was streamed."""
    task: Any = None
    async for event in client.send_message(request):
        if event.HasField("task"):
            task = event.task
        elif event.HasField("status_update"):
            task.status.CopyFrom(event.status_update.status)
        elif event.HasField("artifact_update"):
            update = event.artifact_update
            if update.append:
                assert task.artifacts[0].artifact_id == update.artifact.artifact_id
                task.artifacts[0].parts.extend(update.artifact.parts)
            else:
                del task.artifacts[:]
                task.artifacts.append(update.artifact)
    return task


def text_of(task: Any) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def tokens_of(task: Any) -> list[str]:
    data = [MessageToDict(part.data) for part in task.status.message.parts if part.HasField("data")]
    return [item["token"] for item in data[0]["pending"]]


@pytest.mark.parametrize(
    ("streaming", "replies", "decision"),
    [
        pytest.param(False, REFUND, {"kind": "approve"}, id="approved"),
        pytest.param(True, REFUND, {"kind": "refuse", "reason": "no"}, id="refused-in-a-stream"),
        pytest.param(True, LOCATE, {"kind": "provide", "value": "Bern"}, id="provided-in-a-stream"),
    ],
)
async def test_a_task_that_requires_input(streaming: bool, replies: Any, decision: Any) -> None:
    async with client_of(create_app(scripted(replies, "done")), streaming=streaming) as client:
        task = await sent(client, message("?"))
        assert task.status.state == STATE.TASK_STATE_INPUT_REQUIRED
        (token,) = tokens_of(task)
        for wrong in (
            message("yes", task=task.id),
            message(task=task.id, data={"forged": {"kind": "approve"}}),
            message(task=task.id, context="of another", data={token: decision}),
        ):
            with pytest.raises((A2AError, A2AClientError)):
                await sent(client, wrong)
        done = await sent(client, message(task=task.id, data={token: decision}))
        assert (done.id, done.status.state) == (task.id, STATE.TASK_STATE_COMPLETED)
        assert text_of(done) == "done"
        with pytest.raises((A2AError, A2AClientError)):
            await sent(client, message(task=task.id, data={token: decision}))


async def test_data_and_files_are_a_part_of_the_task_and_numbers_stay() -> None:
    asked: list[Any] = []

    def reply(request: LlmRequest) -> Any:
        asked.append(request.messages[-1].content)
        return calls(("refund", {"amount": 12345678901234567890, "of": 0.5}))

    picture = message("refund this")
    picture.message.parts.append(a2a.Part(raw=PNG, media_type="image/png"))
    async with client_of(create_app(Agent(FunctionLlm(reply), tools=[refund])), streaming=False) as client:
        task = await sent(client, message("refund this", data={"order": 7, "share": 0.5}))
        await sent(client, picture)
    told, _, data = asked[0].partition("\n")
    assert (told, json.loads(data)) == ("refund this", {"order": 7, "share": 0.5})
    assert '"order":7,' in asked[0] or '"order":7}' in asked[0]
    assert asked[1] == (Text("refund this"), Image(PNG, media_type="image/png"))
    shown = [MessageToDict(part.data) for part in task.status.message.parts if part.HasField("data")]
    assert shown[0]["pending"][0]["call"]["args"] == {"amount": "12345678901234567890", "of": 0.5}


async def test_a_task_that_is_not_waited_for() -> None:
    slow = Slow()
    async with client_of(create_app(slow.agent()), streaming=False) as client:
        asked = message("?")
        asked.configuration.return_immediately = True
        task = await sent(client, asked)
        assert task.status.state == STATE.TASK_STATE_WORKING
        slow.go.set()
        async with asyncio.timeout(10):
            while task.status.state == STATE.TASK_STATE_WORKING:
                task = await client.get_task(a2a.GetTaskRequest(id=task.id))
    assert text_of(task) == "done"


async def test_a_task_goes_on_without_its_client_and_is_followed_and_cancelled() -> None:
    slow = Slow()
    async with client_of(create_app(slow.agent()), streaming=True) as client:
        stream = client.send_message(message("?"))
        task = (await anext(stream)).task
        await slow.begun.wait()
        await stream.aclose()

        events = client.subscribe(a2a.SubscribeToTaskRequest(id=task.id))
        await anext(events)  # it follows the task

        async def follow() -> list[Any]:
            return [event async for event in events]

        following = asyncio.create_task(follow())
        cancelled = await client.cancel_task(a2a.CancelTaskRequest(id=task.id))
        assert cancelled.status.state == STATE.TASK_STATE_CANCELED
        assert (await following)[-1].status_update.status.state == STATE.TASK_STATE_CANCELED
        for refused in (
            client.cancel_task(a2a.CancelTaskRequest(id=task.id)),
            anext(client.subscribe(a2a.SubscribeToTaskRequest(id=task.id))),
        ):
            with pytest.raises((A2AError, A2AClientError)):
                await refused


async def test_a_context_is_a_conversation() -> None:
    store = MemoryConversations()
    async with client_of(create_app(scripted("hello"), conversations=store), streaming=True) as client:
        for _ in range(2):
            task = await sent(client, message("hi", context="c1"))
            assert task.context_id == "c1"
    assert len(await store.open("c1").read()) == 4


@pytest.mark.parametrize(
    ("number", "sent"),
    [(5, 5), (2.5, 2.5), (2**60, 2**60), (2**53 + 1, "9007199254740993"), (10**400, "1" + "0" * 400)],
)
def test_a_number_that_no_float_has_is_sent_as_text(number: float, sent: Any) -> None:
    assert _exact(number) == sent


@pytest.mark.parametrize(("number", "found"), [(5.0, 5), (-0.5, -0.5), (1e20, 10**20)])
def test_a_float_that_is_an_integer_is_read_as_one(number: float, found: Any) -> None:
    assert (_integer_if_equal(number), type(_integer_if_equal(number))) == (found, type(found))


@pytest.mark.parametrize("path", ["", "/v1"])
async def test_the_card_of_a_mounted_app_has_its_own_address(path: str) -> None:
    outer = Starlette(routes=[Mount("/desk", create_app(scripted("hello"), path=path))])
    async with serving(outer) as client:
        card = (await client.get(f"/desk{path}/.well-known/agent-card.json")).json()
        (interface,) = card["supportedInterfaces"]
        assert interface["url"] == f"{client.base_url}/desk{path}/a2a".replace("//desk", "/desk")
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
        answer = (await client.post(interface["url"], json=body)).json()
    assert answer["result"]["task"]["artifacts"][0]["parts"][0]["text"] == "hello"
