"""Clients that are open: the SDK's own object, headers, keys that are asked for, tokens of Entra ID, regions."""

from __future__ import annotations

import json
import runpy
from base64 import b64encode
from dataclasses import fields
from functools import partial
from typing import Any

import anthropic
import boto3  # type: ignore[import-untyped]  # it ships no types
import httpx
import httpx2
import openai
import pytest
from genai_prices.data_snapshot import get_snapshot
from google import genai
from google.oauth2.credentials import Credentials

from tests.conftest import ROOT
from tests.llm.provider_kit import KEY, REQUEST
from tests.llm.toxic_server import Received, ToxicServer, promised, reply
from tests.llm.wire_corpus import collect
from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, frame
from wesichain.agent.model_names import FORMS, resolve_model
from wesichain.core import Image, LlmRequest
from wesichain.errors import ConfigError, LlmError, LlmResponseError, LlmTransportError
from wesichain.llm import LlmTraits, StreamingLlm
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.bedrock import BedrockClient
from wesichain.llm.bedrock.frames import FrameScanner
from wesichain.llm.google import GoogleClient
from wesichain.llm.openai import ACCOUNTS, OpenAiClient, ResponsesClient
from wesichain.llm.supported_settings import supported
from wesichain.policy.price_lookup import _PROVIDERS as PRICED_AS
from wesichain.testing import ProviderReply

HELLO = ProviderReply("hello")


async def sent(wire: Any, make: Any, *, stream: bool = False, request: LlmRequest = REQUEST) -> Received:
    """What a client sends to a server that answers hello."""
    async with ToxicServer(reply(200, wire.write(HELLO, stream=stream))) as server:
        client = make(server.url)
        if stream:
            items = [item async for item in client.stream(request)]
            assert items[-1].content == "hello"
        else:
            assert (await client.complete(request)).content == "hello"
        await client.aclose()
    return server.received[0]


class TestAClientOfTheSdk:
    async def test_openai(self) -> None:
        async with httpx2.AsyncClient() as http:

            def make(url: str) -> OpenAiClient:
                sdk = openai.AsyncOpenAI(
                    base_url=f"{url}/v9", api_key=KEY, default_headers={"x-mine": "1"}, http_client=http
                )
                return OpenAiClient("gpt-x", client=sdk)

            received = await sent(ChatWire(), make)
            assert not http.is_closed, "it is its owner's"
        assert received.path == "/v9/chat/completions"
        assert received.headers["authorization"] == f"Bearer {KEY}"
        assert received.headers["x-mine"] == "1"

    async def test_its_errors_are_ours(self) -> None:
        async with (
            ToxicServer(reply(429, '{"error":{"message":"slow down"}}', {"retry-after": "3"})) as server,
            anthropic.AsyncAnthropic(base_url=server.url, api_key=KEY) as sdk,
        ):
            client = AnthropicClient("claude-x", client=sdk, retries=0)
            with pytest.raises(LlmTransportError, match="slow down") as caught:
                await client.complete(REQUEST)
        assert caught.value.retry_after == 3.0
        assert len(server.received) == 1, "the SDK's own retries are off"

    @pytest.mark.parametrize("stream", [False, True], ids=["asked", "streamed"])
    async def test_google(self, *, stream: bool) -> None:
        made: list[genai.Client] = []

        def make(url: str) -> GoogleClient:
            made.append(genai.Client(api_key=KEY, http_options={"base_url": url}))
            return GoogleClient("gemini-x", client=made[0])

        received = await sent(GeminiWire(), make, stream=stream)
        await made[0].aio.aclose()
        assert received.headers["x-goog-api-key"] == KEY

    async def test_what_google_cannot_read_is_worth_another_try(self) -> None:
        begun = {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}
        lines = []
        for body in ("no JSON", f"data: {json.dumps(begun)}\n\ndata: none\n\n"):
            async with ToxicServer(reply(200, body)) as server:
                sdk = genai.Client(api_key=KEY, http_options={"base_url": server.url})
                client = GoogleClient("gemini-x", client=sdk, retries=0)
                for ask in (client.complete, partial(collect, client)):
                    with pytest.raises(LlmError) as caught:
                        await ask(REQUEST)
                    assert caught.value.retryable
                    lines.append(str(caught.value))
                await sdk.aio.aclose()
        parse, json_error = (
            "Failed to parse response as JSON. Raw response: ",
            "Expecting value: line 1 column 1 (char 0)",
        )
        check = "check base_url and the network"
        assert lines == [
            f"cannot reach Google: {json_error}; {check}",
            f"the reply of Google was cut off ({parse}no JSON); try again",
            f"cannot reach Google: {json_error}; {check}",
            f"the reply of Google was cut off ({parse}none); try again",
        ]

    @pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
    async def test_a_stream_of_google_that_is_cut_is_an_error_that_says_so(self, library: Any) -> None:
        """The SDK reads over connections that its user chooses, each with errors of its own."""
        stream = GeminiWire().write(ProviderReply("hello"), stream=True)
        first = stream.index(b"\n\n") + 2
        for place in (first, first + 20) if library is httpx else (0, 20, first, first + 20):
            async with ToxicServer(promised(len(stream), stream[:place])) as server:
                connections = library.AsyncClient()
                options = genai.types.HttpOptions(base_url=server.url, httpx_async_client=connections)
                sdk = genai.Client(api_key=KEY, http_options=options)
                with pytest.raises(
                    LlmResponseError, match=r"was cut off \(peer closed.*; try again"
                ) as caught:
                    await collect(GoogleClient("gemini-x", client=sdk, retries=0), REQUEST)
                await connections.aclose()
            assert caught.value.retryable

    async def test_errors_of_google_are_ours(self) -> None:
        fault = {"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}
        async with ToxicServer(reply(429, json.dumps(fault), {"retry-after": "3"})) as server:
            sdk = genai.Client(api_key=KEY, http_options={"base_url": server.url})
            client = GoogleClient("gemini-x", client=sdk, retries=0)
            for ask in (client.complete(REQUEST), anext(client.stream(REQUEST))):
                with pytest.raises(LlmTransportError, match="slow down") as caught:
                    await ask
                assert caught.value.retry_after == 3.0
            await sdk.aio.aclose()

    @pytest.mark.parametrize(
        ("make", "complaint"),
        [
            pytest.param(
                lambda: OpenAiClient("m", client=openai.AsyncOpenAI(api_key=KEY), api_key=KEY), "its own", id="key"
            ),
            pytest.param(lambda: OpenAiClient("m", client=object()), "AsyncOpenAI", id="openai"),  # type: ignore[arg-type]  # wrong on purpose
            pytest.param(lambda: AnthropicClient("m", client=object()), "AsyncAnthropic", id="anthropic"),  # type: ignore[arg-type]  # likewise
            pytest.param(lambda: BedrockClient("m", client=object()), "Bedrock", id="bedrock"),
            pytest.param(
                lambda: BedrockClient("m", client=boto3.client("bedrock-runtime", region_name="x"), api_key=KEY), "its own", id="bedrock-key"
            ),
            pytest.param(lambda: GoogleClient("m", client=object()), "genai", id="google"),  # type: ignore[arg-type]  # likewise
            pytest.param(lambda: OpenAiClient("m", options={"tools": None}), "never replaced", id="tools"),
            pytest.param(lambda: OpenAiClient("m", headers={"x": "a\nb"}), "one line", id="headers"),
        ],
    )  # fmt: skip
    def test_what_contradicts_itself_is_refused(self, make: Any, complaint: str) -> None:
        with pytest.raises(ConfigError, match=complaint):
            make()


class TestAKeyThatIsAskedFor:
    async def test_a_coroutine_will_do(self) -> None:
        async def key() -> str:
            return "fresh"

        received = await sent(
            MessagesWire(), lambda url: AnthropicClient("claude-x", base_url=url, api_key=key)
        )
        assert received.headers["authorization"] == "Bearer fresh"

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            pytest.param(lambda: None, ConfigError, id="nothing"),
            pytest.param(lambda: "two\nlines", ConfigError, id="no-header"),
            pytest.param(lambda: 1 / 0, LlmTransportError, id="it-fails"),
        ],
    )
    async def test_a_function_that_gives_no_key_is_said(self, given: Any, error: type[Exception]) -> None:
        async with (
            ToxicServer(reply(200, "{}")) as server,
            OpenAiClient("m", base_url=server.url, api_key=given, retries=0) as client,
        ):
            with pytest.raises(error):
                await client.complete(REQUEST)
        assert not server.received


class TestGoogle:
    async def test_vertex_is_reached_by_project_and_location(self) -> None:
        def make(url: str) -> GoogleClient:
            token = Credentials(token="token-of-vertex")  # type: ignore[no-untyped-call]  # of google-auth
            return GoogleClient(
                "gemini-x", base_url=url, project="p", location="europe-west1", credentials=token
            )

        received = await sent(GeminiWire(), make, stream=True)
        assert (
            "/projects/p/locations/europe-west1/publishers/google/models/gemini-x:streamGenerate"
            in received.path
        )
        assert received.headers["authorization"] == "Bearer token-of-vertex"

    async def test_the_environment_names_the_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
        monkeypatch.setenv("GEMINI_API_KEY", KEY)
        received = await sent(GeminiWire(), lambda url: GoogleClient("gemini-x", base_url=url))
        assert KEY not in str(received.headers), "another host gets no key of the environment"

    @pytest.mark.parametrize(
        ("variable", "settings", "provider"),
        [
            pytest.param("", {}, "google", id="google"),
            pytest.param("", {"base_url": "http://127.0.0.1:9"}, "", id="an-address"),
            pytest.param("http://127.0.0.1:9", {}, "", id="the-variable"),
            pytest.param("http://127.0.0.1:9", {"project": "p", "location": "global"}, "vertex", id="vertex"),
        ],
    )
    def test_it_names_the_provider_of_its_server(
        self, variable: str, settings: Any, provider: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", variable)
        assert GoogleClient("gemini-x", **settings).provider == provider

    async def test_an_option_that_this_api_does_not_have_is_a_mistake(self) -> None:
        client = GoogleClient("gemini-x", base_url="http://127.0.0.1:9", options={"audio_timestamp": True})
        with pytest.raises(ConfigError, match="audio_timestamp"):
            await client.complete(REQUEST)

    async def test_a_picture_is_read_whatever_its_bytes_are(self) -> None:
        data = b"\x89PNG\r\n\x1a\n" + bytes([0xFB, 0xFF, 0xBF] * 4)
        drawn = {"inlineData": {"mimeType": "image/png", "data": b64encode(data).decode()}}
        body = json.dumps({"candidates": [{"content": {"parts": [drawn]}, "finishReason": "STOP"}]})
        async with ToxicServer(reply(200, body)) as server:
            sdk = genai.Client(api_key=KEY, http_options={"base_url": server.url})
            for client in (GoogleClient("m", client=sdk), GoogleClient("m", base_url=server.url)):
                assert (await client.complete(REQUEST)).parts == (Image(data, media_type="image/png"),)
            await sdk.aio.aclose()


class TestBedrock:
    async def test_a_client_of_boto3_gives_address_region_and_credentials(self) -> None:
        async with ToxicServer(reply(200, BedrockWire().write(HELLO, stream=False))) as server:
            own = boto3.client(
                "bedrock-runtime",
                region_name="eu-west-1",
                endpoint_url=server.url,
                aws_access_key_id="AKID",
                aws_secret_access_key="s",
            )
            async with BedrockClient("m", client=own) as client:
                assert (await client.complete(REQUEST)).content == "hello"
        assert "AKID/" in server.received[0].headers["authorization"]
        assert "/eu-west-1/bedrock/" in server.received[0].headers["authorization"]

    async def test_an_address_of_ones_own_gets_no_credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
        received = await sent(BedrockWire(), lambda url: BedrockClient("m", base_url=url))
        assert KEY not in str(received.headers)

    def test_claude_has_its_own_traits_unless_they_are_given(self) -> None:
        claude, other = (BedrockClient(name).traits for name in ("eu.anthropic.claude-x", "meta.llama"))
        assert (claude.native_output, claude.output_with_tools, claude.caching) == (True, True, True)
        assert (other.native_output, other.output_with_tools, other.caching) == (False, False, False)
        assert BedrockClient("claude", traits=LlmTraits()).traits == LlmTraits()

    async def test_it_needs_a_region(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", KEY)
        with pytest.raises(ConfigError, match="AWS_REGION"):
            await BedrockClient("m").complete(REQUEST)

    def test_frames_are_read_wherever_they_are_cut(self) -> None:
        data = BedrockWire().write(HELLO, stream=True)
        whole = FrameScanner().feed(data)
        for size in (1, 7, 100):
            scanner = FrameScanner()
            pieces = [data[at : at + size] for at in range(0, len(data), size)]
            assert [event for piece in pieces for event in scanner.feed(piece)] == whole

    def test_a_damaged_frame_is_refused(self) -> None:
        data = bytearray(BedrockWire().write(HELLO, stream=True))
        for at in range(0, min(len(data), 400), 13):
            broken = bytes(data[:at]) + bytes([data[at] ^ 0xFF]) + bytes(data[at + 1 :])
            with pytest.raises(LlmResponseError):
                FrameScanner().feed(broken)

    def test_an_exception_in_the_stream_is_an_error(self) -> None:
        told = frame(b'{"message":"too many"}', {":exception-type": "throttlingException"})
        [event] = FrameScanner().feed(told)
        assert event.name == "error"
        assert json.loads(event.data)["type"] == "rate_limit_error"
        assert "too many" in event.data


HELLO = ProviderReply("hello")


class TestNames:
    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("openai:gpt-5", OpenAiClient),
            ("responses:gpt-5", ResponsesClient),
            ("azure:deployment", OpenAiClient),
            ("anthropic:claude", AnthropicClient),
            ("google:gemini-3-pro", GoogleClient),
            ("bedrock:anthropic.claude-x-v1:0", BedrockClient),
            ("mistral:mistral-large", OpenAiClient),
            ("groq:llama", OpenAiClient),
            ("openrouter:meta/llama:free", OpenAiClient),
            *((f"{provider}:m", OpenAiClient) for provider in ACCOUNTS if provider != "perplexity"),
            ("perplexity:sonar", ResponsesClient),
            ("ollama:qwen3:8b", OpenAiClient),
        ],
    )
    def test_a_name_is_a_client(self, name: str, kind: Any) -> None:
        client: Any = resolve_model(name)
        assert type(client) is kind
        assert client.model == name.partition(":")[2]
        assert f"{name.partition(':')[0]}:NAME" in FORMS
        if (provider := name.partition(":")[0]) in ACCOUNTS:
            assert client.provider == provider
        assert isinstance(client, StreamingLlm)

    def test_each_account_is_known_to_the_prices_and_takes_settings(self) -> None:
        published = {provider.id for provider in get_snapshot().providers} | {""}
        for provider in ACCOUNTS:
            assert PRICED_AS[provider] in published
            assert not supported(provider, "m").refuses("temperature:default")
            assert not supported(provider, "m").refuses("tool_choice:required")

    async def test_a_stream_from_cohere_has_no_field_that_it_rejects(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for provider, has_options in (("cohere", False), ("together", True)):
            async with ToxicServer(reply(200, ChatWire().write(HELLO, stream=True))) as server:
                monkeypatch.setenv(ACCOUNTS[provider].url_variable, server.url)
                async with OpenAiClient("m", account=ACCOUNTS[provider], api_key="k") as client:
                    await collect(client, REQUEST)
            body = json.loads(server.received[0].body)
            assert body["stream"] is True
            assert ("stream_options" in body) is has_options

    @pytest.mark.parametrize("provider", sorted(ACCOUNTS))
    async def test_a_key_of_openai_goes_nowhere_else(
        self, provider: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        account = ACCOUNTS[provider]
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.delenv(account.key_variable, raising=False)
        with pytest.raises(ConfigError, match=account.key_variable):
            await OpenAiClient("m", account=account).complete(REQUEST)


def test_the_table_in_the_docs_is_what_the_script_writes() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "providers.py"))
    page = script["PAGE"].read_text(encoding="utf-8")
    assert script["with_table"](page) == page, "run: python tools/providers.py"
    for row, client in script["clients"]().items():
        (line,) = [line for line in page.splitlines() if line.startswith(f"| {row} |")]
        assert line.count(" yes ") == sum(
            getattr(client.traits, one.name) for one in fields(LlmTraits) if one.name != "family"
        )
