"""The table of finish reasons has every word of the installed SDKs, and no reply ends with a guess."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, get_args

import pytest
from anthropic.types import StopReason
from anthropic.types.beta import BetaStopReason
from google.genai.types import FinishReason
from openai.types.chat import chat_completion, chat_completion_chunk
from openai.types.responses import ResponseStatus
from openai.types.responses.response import IncompleteDetails

from tests.llm.wires import GeminiWire, MessagesWire
from wesichain import Agent
from wesichain.core import LlmRequest, LlmResponse, Message, ModelSettings, Role, Usage
from wesichain.errors import LlmResponseError
from wesichain.llm.calls import ToolNames
from wesichain.llm.finish_reasons import (
    ANTHROPIC,
    CHAT,
    CONVERSE,
    GEMINI,
    INCOMPLETE_RESPONSES,
    RESPONSES,
    Ending,
    ending_of,
)
from wesichain.llm.transport.faults import Endpoint
from wesichain.testing import Answer, ProviderReply

AT = Endpoint("api.example.org", "m", key_variable="KEY")
NAMES = ToolNames(())


def literals(annotation: Any) -> set[str]:
    """The texts that a type allows."""
    parts = get_args(annotation)
    return {part for part in parts if isinstance(part, str)} | {
        word for part in parts if not isinstance(part, str) for word in literals(part)
    }


def field(kind: Any, name: str) -> set[str]:
    return literals(kind.model_fields[name].annotation)


def of_converse() -> set[str]:
    session = pytest.importorskip("botocore.session")
    model: Any = session.get_session().get_service_model("bedrock-runtime")
    return set(model.shape_for("StopReason").enum)


WORDS: list[tuple[Callable[[], set[str]], Mapping[str, Ending]]] = [
    (lambda: field(chat_completion.Choice, "finish_reason") | field(chat_completion_chunk.Choice, "finish_reason"), CHAT),
    (lambda: literals(ResponseStatus), RESPONSES),
    (lambda: field(IncompleteDetails, "reason"), INCOMPLETE_RESPONSES),
    (lambda: literals(StopReason) | literals(BetaStopReason), ANTHROPIC),
    (lambda: {reason.value for reason in FinishReason}, GEMINI),
    (of_converse, CONVERSE),
]  # fmt: skip


@pytest.mark.parametrize(("words", "table"), WORDS)
def test_every_word_of_the_sdk_is_in_the_table(words: Any, table: Mapping[str, Ending]) -> None:
    known = words()
    assert known
    assert known - table.keys() == set()
    if table not in (CHAT, RESPONSES):  # other servers with these APIs have words of their own
        assert table.keys() - known == set()


def test_an_unknown_word_is_an_error_that_names_it() -> None:
    with pytest.raises(LlmResponseError) as caught:
        ending_of("x" * 81, CHAT, AT)
    assert str(caught.value) == (
        f"api.example.org ended its reply with {'x' * 80!r}, a reason that this version does not know; "
        f"update wesichain, or use another model"
    )


@pytest.mark.parametrize("stream", [False, True], ids=["asked", "streamed"])
async def test_a_reply_of_gemini_that_filled_a_turn_is_continued_with_its_token(stream: bool) -> None:
    wire = GeminiWire()
    half, rest = (
        wire.write(ProviderReply(text, reason=reason, usage=Usage(10, 5)), stream=stream)
        for text, reason in [("Half ", "CONTINUATION"), ("and half.", "STOP")]
    )
    half = half.replace(b'"CONTINUATION"', b'"CONTINUATION", "continuationToken": "+/8="')
    async with (
        wire.serve(*(Answer(200, body, {}) for body in (half, rest))) as server,
        wire.client(server.url) as llm,
    ):
        request = LlmRequest("m", (Message(Role.USER, "?"),))
        reply = [one async for one in llm.stream(request)][-1] if stream else await llm.complete(request)
        first, second = (json.loads(body) for _, _, body in server.requests)
    assert isinstance(reply, LlmResponse)
    assert (reply.content, reply.finish_reason, reply.usage) == ("Half and half.", "stop", Usage(20, 10))
    assert second == first | {"continuationToken": second["continuationToken"]}
    assert second["continuationToken"] in ("+/8=", "-_8=")


async def test_a_reply_of_gemini_is_not_continued_where_a_setting_says_so() -> None:
    wire = GeminiWire()
    half, rest = (
        wire.write(ProviderReply(text, reason=reason), stream=False)
        for text, reason in [("Half ", "CONTINUATION"), ("and half.", "STOP")]
    )
    half = half.replace(b'"CONTINUATION"', b'"CONTINUATION", "continuationToken": "+/8="')
    settings = ModelSettings(extra={"automatic_continuation": False})
    async with (
        wire.serve(*(Answer(200, body, {}) for body in (half, rest))) as server,
        wire.client(server.url) as llm,
    ):
        await llm.complete(LlmRequest("m", (Message(Role.USER, "?"),), settings=settings))
    assert len(server.requests) == 1


async def test_a_pause_without_text_is_continued_with_what_the_provider_had() -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tides"}}
    paused = {"type": "message", "content": [search], "stop_reason": "pause_turn", "usage": {}}
    done = {"type": "message", "content": [{"type": "text", "text": "High."}], "stop_reason": "end_turn"}
    wire = MessagesWire()
    answers = [Answer(200, json.dumps(body).encode(), {}) for body in (paused, done)]
    async with wire.serve(*answers) as server:
        result = await Agent(wire.client(server.url)).run("How is the tide?")
        sent = json.loads(server.requests[1][2])
    assert result.output == "High."
    assert sent["messages"][-1] == {"role": "assistant", "content": [search]}
