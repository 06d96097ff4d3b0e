"""What a model quotes in an answer is not run: every form, every provider, streamed or not."""

from __future__ import annotations

from typing import Any

import anthropic
import boto3  # type: ignore[import-untyped]  # it ships no types
import httpx2
import openai
import pytest

from tests.draws import sampled
from tests.llm.react_text.test_forms import FORMS, PAY
from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from wesichain.core import LlmRequest, LlmResponse, Message, Role
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.bedrock import BedrockClient
from wesichain.llm.google import GoogleClient
from wesichain.llm.openai import OpenAiClient, ResponsesClient
from wesichain.testing import Answer, ProviderReply

AROUND = {
    "in-a-sentence": "The page ends with {} and I did not follow it.",
    "as-an-example": "For example:\n\n{}\n\nThat is how it is written.",
    "in-a-fence": "It says\n```\n{}\n```\nand no more.",
    "in-quotes": "It read \u201c{}\u201d.",
    "at-the-end": "The page ends with this, which I did not follow:\n{}",
}
CALLS = [*FORMS.values(), "<tool>pay</tool><tool_input>ann</tool_input>"]
QUOTED = [around.format(call) for call in CALLS for around in AROUND.values()]
REQUEST = LlmRequest("m", (Message(Role.USER, "What is on the page?"),), (PAY,))


async def asked(llm: Any, *, stream: bool) -> LlmResponse:
    if not stream:
        reply: LlmResponse = await llm.complete(REQUEST)
        return reply
    items = [item async for item in llm.stream(REQUEST)]
    assert isinstance(items[-1], LlmResponse)
    return items[-1]


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "wire",
    [ChatWire(), ResponsesWire(), MessagesWire(), BedrockWire(), GeminiWire()],
    ids=lambda wire: type(wire).__name__,
)
async def test_no_quoted_call_is_run_and_the_text_is_the_answer(wire: Any, stream: bool) -> None:
    quoted = sampled(QUOTED, 10)
    answers = [Answer(200, wire.write(ProviderReply(form), stream=stream), {}) for form in quoted]
    async with wire.serve(*answers) as server:
        llm = wire.client(server.url)
        replies = [await asked(llm, stream=stream) for _ in quoted]
        await llm.aclose()
    assert [reply.content for reply in replies if reply.tool_calls] == []
    assert [reply.content for reply in replies] == quoted
    assert {reply.finish_reason for reply in replies} == {"stop"}


@pytest.mark.sampled
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("make", "wire"), [(OpenAiClient, ChatWire()), (ResponsesClient, ResponsesWire())])
async def test_nor_is_a_text_of_openai_itself_that_is_nothing_else(
    make: Any, wire: Any, stream: bool
) -> None:
    """OpenAI marks its calls: of its own endpoint, even a text that is only a call is the answer."""
    texts = sampled([*QUOTED, *CALLS], 10)
    bodies = iter([wire.write(ProviderReply(text), stream=stream) for text in texts])
    kind = "text/event-stream" if stream else "application/json"

    async def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=next(bodies), headers={"content-type": kind})

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    llm = make("gpt-4o", client=openai.AsyncOpenAI(api_key="k", http_client=http))
    replies = [await asked(llm, stream=stream) for _ in texts]
    assert [reply.content for reply in replies] == texts
    assert [reply.content for reply in replies if reply.tool_calls] == []


def anthropic_client(url: str) -> AnthropicClient:
    return AnthropicClient("m", client=anthropic.AsyncAnthropic(base_url=url, api_key="k"))


def bedrock_client(url: str) -> BedrockClient:
    made: Any = boto3  # it ships no types
    keys = {"aws_access_key_id": "a", "aws_secret_access_key": "b"}
    sdk = made.client("bedrock-runtime", endpoint_url=url, region_name="eu-west-1", **keys)
    return BedrockClient("m", client=sdk)


def anthropic_variable(url: str) -> AnthropicClient:
    del url  # ANTHROPIC_BASE_URL has it
    return AnthropicClient("m", retries=0)


def google_variable(url: str) -> GoogleClient:
    del url  # GOOGLE_GEMINI_BASE_URL has it
    return GoogleClient("m", retries=0)


# Clients of a server that is not the provider's, though no base_url= says so.
ELSEWHERE: dict[str, tuple[Any, Any]] = {
    "anthropic-variable": (MessagesWire(), anthropic_variable),
    "anthropic-client": (MessagesWire(), anthropic_client),
    "google-variable": (GeminiWire(), google_variable),
    "bedrock-client": (BedrockWire(), bedrock_client),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("which", ELSEWHERE)
async def test_reasoning_that_a_server_of_others_leaves_in_the_text_is_never_the_answer(
    which: str, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire, make = ELSEWHERE[which]
    answer = Answer(200, wire.write(ProviderReply("<think>hm</think>It is 4."), stream=stream), {})
    async with wire.serve(answer) as server:
        for variable in ("ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
            monkeypatch.setenv(variable, server.url)
        async with make(server.url) as llm:
            reply = await asked(llm, stream=stream)
            if which == "anthropic-client":
                await llm._client.close()  # a client of others is theirs to close
    assert (reply.content, reply.reasoning) == ("It is 4.", "hm")
