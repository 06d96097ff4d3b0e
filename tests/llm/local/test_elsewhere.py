"""A local model on a server elsewhere: the same prompt, grammar and replies, and faults that name the address."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests import expected
from tests.llm.local.test_model import ADD, EXAMPLE, request, user
from wesichain import Agent, Budget
from wesichain.core import LlmRequest, LlmResponse
from wesichain.errors import ConfigError, LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm.local import LocalLlm
from wesichain.llm.local.llama_engine import Address, EngineSettings, LlamaEngine
from wesichain.llm.local.wire import _unreachable

KEY = "secret"


@pytest.fixture(scope="module")
def base(shallow: Path) -> Iterator[str]:
    engine = LlamaEngine(EngineSettings(str(shallow), shallow.stem, 1024, threads=1, key=KEY))
    try:
        yield f"{engine.start().url}/v1"
    finally:
        engine.stop()


def elsewhere(base: str, *, key: str | None = KEY, deadline: float | None = None) -> LocalLlm:
    return LocalLlm("smollm2", base_url=base, api_key=key, max_tokens=24, examples=EXAMPLE, deadline=deadline)


async def test_it_replies_as_the_model_in_our_own_process_does(base: str, shallow: Path) -> None:
    asked = request(user("What is 17 plus 25?"))
    async with (
        elsewhere(base) as there,
        LocalLlm(shallow, threads=1, context=1024, max_tokens=24, examples=EXAMPLE) as here,
    ):
        reply = await there.complete(asked)
        assert reply == await here.complete(asked)
    assert reply.content
    assert there.model == "smollm2"
    assert there.timings is not None


@pytest.mark.slow
async def test_eight_agents_share_it_and_one_is_cancelled_half_way(base: str) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    llm = elsewhere(base)
    agent = Agent(llm, tools=[add], budget=Budget(steps=3))
    alone = await llm.complete_text("one, two")
    runs = [asyncio.create_task(agent.outcome(f"What is {n} plus 1?")) for n in range(2, 10)]
    _, waiting = await asyncio.wait(runs, return_when=asyncio.FIRST_COMPLETED)
    left = next(iter(waiting))
    left.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
    assert left.cancelled()
    assert not [run for run in runs if run is not left and run.exception()]
    assert await llm.complete_text("one, two") == alone


async def test_llama_need_not_be_installed(base: str) -> None:
    script = """
        import asyncio, sys
        sys.modules["xllamacpp"] = None
        from wesichain.llm.local import LocalLlm
        llm = LocalLlm("any-name", base_url=sys.argv[1], api_key=sys.argv[2], max_tokens=24)
        print(repr(asyncio.run(llm.complete_text("one, two"))))
    """
    command = [sys.executable, "-c", textwrap.dedent(script), base, KEY]
    said = await asyncio.to_thread(
        subprocess.run, command, check=True, capture_output=True, text=True, timeout=60
    )
    async with elsewhere(base) as llm:
        assert said.stdout == repr(await llm.complete_text("one, two")) + "\n"


# --- faults ---------------------------------------------------------------------------------------


async def test_what_does_not_fit_names_the_servers_own_setting(base: str) -> None:
    with pytest.raises(LlmRejectedError, match=r"exceeds the available context size.*\(-c\)"):
        await elsewhere(base).complete_text("word " * 2000)


async def test_a_reply_that_takes_too_long_is_given_up(base: str) -> None:
    llm = elsewhere(base, deadline=0.001)
    with pytest.raises(LlmTransportError, match=r"0\.001 s.*deadline=") as caught:
        await llm.complete(request(user("Hi.")))
    assert caught.value.retryable


async def test_a_deadline_does_not_end_a_model_that_others_use(shallow: Path) -> None:
    async with (
        LocalLlm(shallow, threads=1, context=512, max_tokens=100, examples=EXAMPLE) as patient,
        LocalLlm(shallow, threads=1, context=512, max_tokens=100, deadline=0.001) as hasty,
    ):
        stream = patient.stream(request(user("Say hi.")))
        await anext(stream)
        with pytest.raises(LlmTransportError, match="deadline="):
            await hasty.complete_text("one, two,")
        assert isinstance([item async for item in stream][-1], LlmResponse)


@asynccontextmanager
async def answering(reply: bytes) -> AsyncGenerator[str]:
    """A server that says these bytes to whatever it is asked."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
        await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def http(body: bytes, status: str = "200 OK", headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 " + status.encode() + b"\r\n" + headers + b"\r\n" + body


LAST = b'data: {"content": "b", "stop": true, "tokens_evaluated": 3, "tokens_predicted": 2}\n\n'
FAULTS: dict[str, bytes] = {
    "nothing": b"",
    "another protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
    "a flood": b"x" * 70_000,
    "no status": b"HTTP/1.1\r\n\r\n",
    "a word for a status": b"HTTP/1.1 OK\r\n\r\n",
    "another server": http(b"<html>", "404 Not Found"),
    **{str(status): http(b"{}", f"{status} X") for status in (401, 404, 429, 500, 501, 502, 504)},
    "without a body": http(b"", "502 X"),
    "a list": http(b"[1]", "400 X"),
    "a message": http(b'{"message": "no"}', "499 X"),
    "an error": http(b'{"error": "no"}', "400 X"),
    "a long text": http(b"a\n" + b"x" * 300, "400 X"),
    "a full context": http(b'{"error": {"message": "exceeds the context size"}}', "400 X"),
    "still loading": http(b'{"error": {"message": "Loading model"}}', "503 Busy"),
    "a fault in mid-reply": http(b'data: {"error": {"code": 500, "message": "slot died"}}\n\n'),
    "a fault without a code": http(b'data: {"error": {"message": "no"}}\n\n'),
    "a refusal in mid-reply": http(b'data: {"error": {"code": 400, "message": "no"}}\n\n'),
    "no JSON": http(b"data: {]\n\n"),
    "no last word": http(b'data: {"content": "a"}\n\n'),
    "cut in a chunk": http(b"40\r\ndata: {", headers=b"Transfer-Encoding: chunked\r\n"),
    "a template that is a list": http(b"[1]"),
    "a template that is no JSON": http(b"{"),
}


async def test_what_goes_wrong_there_is_one_line_of_ours() -> None:
    """Of a text and of a chat, whose template is asked for first: in `whole_faults.txt`."""
    found = []
    for name, reply in FAULTS.items():
        async with answering(reply) as url, LocalLlm("m", base_url=url) as llm:
            for kind, ask in (("text", llm.complete_text("x")), ("chat", llm.complete(request(user("Hi."))))):
                try:
                    said: object = await ask
                except LlmError as error:
                    said = [type(error).__name__, str(error).replace(url[7:], "HOST"), error.retryable]
                found.append(f"{name}, {kind}: {json.dumps(said)}")
    expected.check(Path(__file__).with_name("whole_faults.txt"), found)


async def test_a_reply_that_is_cut_anywhere_is_an_error_that_says_so() -> None:
    """Whether the connection is closed at its end, before the promised length, or within a chunk."""
    events = b'data: {"content": "a"}\n\n' + LAST
    chunked = b"Transfer-Encoding: chunked\r\n"
    counted = b"Content-Length: %d\r\n" % len(events)
    for end in range(len(events)):
        begun = events[:end]
        piece = b"%x\r\n%b\r\n" % (end, begun) if end else b""
        for reply in (http(begun), http(begun, headers=counted), http(piece, headers=chunked)):
            async with answering(reply) as url, LocalLlm("m", base_url=url) as llm:
                with pytest.raises(LlmResponseError, match="was cut off") as caught:
                    await llm.complete_text("x")
            assert caught.value.retryable
            assert "base_url" not in str(caught.value)


async def test_a_proxy_may_send_the_reply_in_any_framing() -> None:
    events = b'data: {"content": "a"}\n\n' + LAST
    chunks = b"".join(b"%x;ext=1\r\n%c\r\n" % (1, byte) for byte in events) + b"0\r\n\r\n"
    chunked = http(chunks, headers=b"Transfer-Encoding: chunked\r\n")
    counted = http(events, headers=b"Content-Length: %d\r\n" % len(events))
    for reply in (chunked, counted, http(events), http(events, status="200")):
        async with answering(reply) as url:
            assert await LocalLlm("m", base_url=url).complete_text("x") == "ab"


@pytest.mark.parametrize(
    ("error", "why"),
    [
        pytest.param(OSError("no\n route"), "no route", id="one-line"),
        pytest.param(OSError("x" * 201), "x" * 200, id="a-text-that-is-too-long"),
        pytest.param(TimeoutError(), "TimeoutError", id="no-text"),
    ],
)
def test_why_a_server_cannot_be_reached(error: OSError, why: str) -> None:
    text = f"cannot reach the llama.cpp server at h:1: {why}; check base_url, and that it runs"
    assert str(_unreachable(Address("http://h:1", "", elsewhere=True), error)) == text


async def test_a_server_that_has_gone_is_a_fault_worth_a_retry() -> None:
    async with answering(b"") as url:
        pass
    with pytest.raises(LlmTransportError, match="check base_url") as caught:
        await LocalLlm("m", base_url=url).complete_text("x")
    assert caught.value.retryable


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8080", "ftp://host", "http://", "http://h:99999", "http://h\nx", "http://h?x=1"),
        *("http://h:0", "http://h#x", "http://[h"),
    ],
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(ConfigError, match="such as http://"):
        LocalLlm("m", base_url=url)


async def test_a_closed_one_asks_no_more(base: str) -> None:
    llm = elsewhere(base)
    items = [item async for item in llm.stream(LlmRequest("", (user("Say hi."),), (ADD,)))]
    assert isinstance(items[-1], LlmResponse)
    llm.close()
    with pytest.raises(ConfigError, match="was closed"):
        await llm.complete_text("x")
