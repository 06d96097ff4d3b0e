"""The transport: however a provider fails, it ends in time, with the right error and little memory."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from contextlib import aclosing
from email.utils import formatdate
from itertools import product, repeat
from typing import Any

import pytest

from tests.draws import sampled
from tests.llm.provider_kit import (
    ANTHROPIC,
    GOOGLE,
    KEY,
    OPENAI,
    REQUEST,
    Provider,
    ask,
    each_provider,
    each_way,
    fault,
)
from tests.llm.toxic_server import (
    Answer,
    ToxicServer,
    black_hole,
    blanks,
    bomb,
    chunked,
    drip,
    endless,
    half_close,
    promised,
    reply,
    reset,
    then,
    unframed,
    watched,
)
from tests.llm.wire_corpus import collect
from tests.llm.wires import BedrockWire, ChatWire, GeminiWire, MessagesWire, ResponsesWire
from tests.ports import reserved_port
from tests.waiting import until
from wesichain.core import TextChunk
from wesichain.errors import ConfigError, LlmResponseError, LlmTransportError
from wesichain.testing import ProviderReply

HTML = "<html><body><h1>It works!</h1></body></html>"
GZIP = {"content-encoding": "gzip"}
HELLO_AGAIN = (b'{"choices": [', b"data: {")


SILENCE = [
    pytest.param(black_hole, id="black-hole"),
    pytest.param(then(b"data: {", end=black_hole), id="stalls-in-the-middle"),
]


@each_provider
@each_way
@pytest.mark.parametrize("answer", SILENCE)
async def test_a_silence_ends_at_the_deadline(provider: Provider, how: str, answer: Answer) -> None:
    async with ToxicServer(answer) as server, provider.client(server.url, deadline=0.3) as client:
        began = asyncio.get_running_loop().time()
        error = await fault(client, how)
        assert asyncio.get_running_loop().time() - began > 0.25
    assert type(error) is LlmTransportError
    assert error.retryable
    assert f"no byte from 127.0.0.1:{server.port} for 0.3 s" in str(error)


@each_provider
@each_way
async def test_a_reply_that_drips_ends_when_its_time_as_a_whole_is_over(provider: Provider, how: str) -> None:
    answer = then(end=drip(b'data: {"a": 1}\n\n'))
    async with ToxicServer(answer) as server, provider.client(server.url, total=0.3) as client:
        began = asyncio.get_running_loop().time()
        error = await fault(client, how)
        assert asyncio.get_running_loop().time() - began > 0.25
    assert type(error) is LlmTransportError
    assert error.retryable
    assert f"no complete reply from 127.0.0.1:{server.port} within 0.3 s" in str(error)


@each_provider
async def test_a_stream_that_is_alive_is_not_cut_at_the_deadline(provider: Provider) -> None:
    async def alive(writer: asyncio.StreamWriter) -> None:
        """Comments keep the connection alive for longer than the deadline: bytes, but no item of the reply."""
        for _ in range(15):
            writer.write(chunked(b": still here\n\n"))
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.write(chunked(provider.stream) + b"0\r\n\r\n")

    async with ToxicServer(then(end=alive)) as server, provider.client(server.url, deadline=0.6) as client:
        assert (await ask(client, "sse")).content == "hello"


POISON = [
    pytest.param(reply(429, "{}", {"retry-after": "7"}), LlmTransportError, True, id="429-with-seconds"),
    pytest.param(
        reply(429, "{}", {"retry-after": formatdate(usegmt=True)}), LlmTransportError, True, id="429-date"
    ),
    pytest.param(reply(500, HTML, {"content-type": "text/html"}), LlmTransportError, True, id="500-html"),
    pytest.param(reset, LlmTransportError, True, id="reset-at-once"),
    pytest.param(then(*HELLO_AGAIN, end=reset), LlmResponseError, True, id="reset-in-the-middle"),
    pytest.param(then(*HELLO_AGAIN), LlmResponseError, True, id="fin-between-chunks"),
    pytest.param(promised(500, b"data: {"), LlmResponseError, True, id="fin-before-the-promised-length"),
    pytest.param(unframed(b'data: {"choices"'), LlmResponseError, True, id="fin-without-a-promise"),
    pytest.param(then(b"data: {", end=half_close), LlmResponseError, True, id="half-closed"),
    pytest.param(reply(200, "upstream connect error"), LlmResponseError, True, id="garbage-200"),
    pytest.param(reply(200, HTML), LlmResponseError, True, id="html-200"),
    pytest.param(reply(200, "[1, 2]"), LlmResponseError, True, id="json-of-another-shape"),
    pytest.param(reply(200, b"\xff\xfe" * 40), LlmResponseError, True, id="bytes-that-are-not-text"),
    pytest.param(reply(200, "[" * 5000), LlmResponseError, True, id="json-that-nests-too-deep"),
    pytest.param(reply(200, "data: {]\n\n"), LlmResponseError, True, id="events-that-are-not-json"),
    pytest.param(reply(200, b"\x1f\x8b garbage", GZIP), LlmResponseError, True, id="broken-gzip"),
    pytest.param(
        reply(200, "x", {"content-encoding": "gzip, gzip"}), LlmResponseError, True, id="compressed-twice"
    ),
    pytest.param(reply(200, ""), LlmResponseError, True, id="empty-200"),
    pytest.param(endless(blanks), LlmResponseError, False, id="endless"),
    pytest.param(endless(bomb, GZIP), LlmResponseError, False, id="gzip-bomb"),
]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("provider", "how", "poison"),
    sampled([*product([OPENAI, ANTHROPIC, GOOGLE], ("json", "sse"), POISON)], 40),
    ids=lambda value: getattr(value, "id", None),
)
async def test_every_poison_ends_by_itself_with_the_right_error(
    provider: Provider, how: str, poison: Any
) -> None:
    answer, kind, retryable = poison.values
    async with ToxicServer(answer) as server, provider.client(server.url, max_bytes=200_000) as client:
        error = await fault(client, how)
    assert type(error) is kind, error
    assert error.retryable is retryable
    assert "\n" not in str(error)


WIRES: list[Any] = [ChatWire(), ResponsesWire(), MessagesWire(), GeminiWire(), BedrockWire()]


@pytest.mark.parametrize("end", [promised, then, unframed], ids=lambda end: end.__name__)
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: type(wire).__name__)
async def test_a_stream_that_is_cut_is_an_error_that_says_so(wire: Any, end: Any) -> None:
    """Within an event, between two, and before the first one; however the connection is closed."""
    stream = wire.write(ProviderReply("hello"), stream=True)
    text = stream.index(b'"he"') + 2
    if not isinstance(wire, BedrockWire):  # whose frames have their length and a checksum
        stream = stream[:text] + "\u00e9".encode() + stream[text + 1 :]
    for place in (0, 3, 9, text, text + 1, text + 5):  # one of them within a character
        begun = stream[:place]
        answer = promised(len(stream), begun) if end is promised else end(begun)
        async with ToxicServer(answer) as server:
            with pytest.raises(LlmResponseError, match=r"was cut off.*; try again") as caught:
                await collect(wire.client(server.url, api_key=KEY, retries=0), REQUEST)
        assert caught.value.retryable
        assert "base_url" not in str(caught.value)


@pytest.mark.sampled
@pytest.mark.parametrize("provider", sampled([OPENAI, ANTHROPIC, GOOGLE], 1))
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(endless(blanks), id="endless"),
        pytest.param(endless(bomb, GZIP), id="gzip-bomb"),
        pytest.param(endless(lambda: repeat(b"data: %b\n" % (b"x" * 4000))), id="one-endless-event"),
    ],
)
async def test_memory_is_bounded_by_the_cap(provider: Provider, answer: Answer) -> None:
    cap = 1_000_000
    async with ToxicServer(answer) as server, provider.client(server.url, max_bytes=cap) as client:
        await fault(client, "sse")  # the second time counts: the first one warms caches up
        tracemalloc.start()
        try:
            error = await fault(client, "sse")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert str(cap) in str(error)
    assert peak < 6 * cap, peak


async def test_an_endless_error_body_is_read_in_part() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Toxic\r\nconnection: close\r\n\r\n")
        while True:
            writer.write(b"no " * 10_000)
            await writer.drain()

    async with ToxicServer(answer) as server, OPENAI.client(server.url) as client:
        error = await fault(client, "json")
    assert isinstance(error, LlmTransportError)
    assert len(str(error)) < 1000


@each_provider
@each_way
async def test_a_wrong_host_says_so(provider: Provider, how: str) -> None:
    async with provider.client(f"http://127.0.0.1:{reserved_port()}/v1") as client:
        error = await fault(client, how)
    assert isinstance(error, LlmTransportError)
    assert error.retryable
    assert "check base_url" in str(error)


@each_provider
@pytest.mark.parametrize(
    "url",
    [
        "localhost:8000/v1",
        "http://",
        "http://a\x7fb/v1",
        "ftp://host",
        "http://h:99999",
        "http://\u00e9..\u00e9",
        "http://[v1.a]",
        "http://h/\x00",
    ],
)
async def test_a_base_url_that_is_no_address_is_a_config_error(provider: Provider, url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        await provider.client(url).complete(REQUEST)


@pytest.mark.parametrize(
    "settings",
    [
        {"retries": -1},
        {"deadline": 0},
        {"deadline": float("nan")},
        {"total": 0},
        {"max_bytes": 0},
    ],
)
def test_limits_that_make_no_sense_are_config_errors(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        OPENAI.client("http://127.0.0.1", **settings)


# --- connections and loops -----------------------------------------------------------------------


@each_provider
def test_a_client_lives_through_several_event_loops(provider: Provider) -> None:
    port = reserved_port()
    client = provider.client(f"http://127.0.0.1:{port}")

    async def session() -> list[str]:
        async with ToxicServer(reply(200, provider.whole), port=port):
            replies = await asyncio.gather(*(client.complete(REQUEST) for _ in range(3)))
            return [response.content for response in replies]

    for _ in range(3):
        assert asyncio.run(session()) == ["hello"] * 3
    gc.collect()  # a connection that was left open would warn here, and warnings are errors


@pytest.mark.parametrize("provider", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])  # Gemini has none
async def test_a_server_that_goes_on_after_its_end_marker_does_not_hold_the_reply_up(
    provider: Provider,
) -> None:
    answer = then(provider.stream, end=drip(b": still here\n"))
    async with ToxicServer(answer) as server, provider.client(server.url, deadline=30.0) as client:
        async with asyncio.timeout(20):  # which is before its deadline
            assert (await ask(client, "sse")).content == "hello"


@pytest.mark.parametrize("provider", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_a_connection_whose_last_bytes_come_late_is_used_again(provider: Provider) -> None:
    seen = asyncio.Event()

    async def finish(writer: asyncio.StreamWriter) -> None:
        await seen.wait()
        writer.write(b"0\r\n\r\n")

    answer = then(provider.stream, end=finish)
    async with ToxicServer(answer) as server, provider.client(server.url) as client:
        for _ in range(2):
            async with aclosing(client.stream(REQUEST)) as items:
                async for _ in items:
                    seen.set()
    assert (len(server.received), server.connections) == (2, 1)


@each_provider
@each_way
async def test_cancelling_the_caller_hangs_up(provider: Provider, how: str) -> None:
    answer, hung_up = watched(then(end=drip(b" ")))
    async with ToxicServer(answer) as server, provider.client(server.url) as client:
        task = asyncio.create_task(ask(client, how))
        await until(lambda: server.received)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(hung_up.wait(), 10)


@each_provider
async def test_leaving_a_stream_hangs_up(provider: Provider) -> None:
    answer, hung_up = watched(then(provider.beginning, end=drip(b" ")))
    async with ToxicServer(answer) as server, provider.client(server.url) as client:
        async with aclosing(client.stream(REQUEST)) as items:
            assert await anext(items) == TextChunk("he")
        await asyncio.wait_for(hung_up.wait(), 10)
