"""A local model on a server elsewhere: the same prompt, grammar and replies, and faults that name the address."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.llm.local.test_model import ADD, EXAMPLE, request, user
from wesichain import Agent, Budget
from wesichain.core import LlmRequest, LlmResponse
from wesichain.errors import ConfigError, LlmError, LlmRejectedError, LlmResponseError, LlmTransportError
from wesichain.llm.local import LocalLlm, serve_local

KEY = "secret"


@pytest.fixture(scope="module")
def base(shallow: Path) -> Iterator[str]:
    with serve_local(shallow, threads=1, context=1024, key=KEY) as url:
        yield url


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


@pytest.mark.parametrize(
    ("reply", "kind", "said", "retryable"),
    [
        pytest.param(b"", LlmTransportError, "broke off", True, id="nothing"),
        *(
            pytest.param(
                reply, LlmTransportError, "broke off: what answers there is no HTTP server", True, id=name
            )
            for name, reply in {
                "another-protocol": b"SSH-2.0-OpenSSH\r\n\r\n",
                "a-flood": b"x" * 70_000,
                "no-status": b"HTTP/1.1\r\n\r\n",
                "a-word-for-a-status": b"HTTP/1.1 OK\r\n\r\n",
            }.items()
        ),
        pytest.param(
            http(b"<html>", "404 Not Found"), LlmRejectedError, "base_url is not", False, id="another-server"
        ),
        *(
            pytest.param(http(b"", f"{status} X"), LlmTransportError, f"{status}: ", again, id=str(status))
            for status, again in ((429, True), (500, False), (502, True), (504, True))
        ),
        pytest.param(http(b"[1]", "400 X"), LlmRejectedError, "refused the request: ", False, id="a-list"),
        pytest.param(
            http(b'{"error": {"message": "Loading model"}}', "503 Busy"),
            LlmTransportError,
            "503: Loading model",
            True,
            id="still-loading",
        ),
        pytest.param(
            http(b'data: {"error": {"code": 500, "message": "slot died"}}\n\n'),
            LlmTransportError,
            "slot died",
            False,
            id="a-fault-in-mid-reply",
        ),
        pytest.param(
            http(b'data: {"content": "a"}\n\n'), LlmResponseError, "last word", True, id="no-last-word"
        ),
        pytest.param(
            http(b"40\r\ndata: {", headers=b"Transfer-Encoding: chunked\r\n"),
            LlmTransportError,
            "broke off",
            True,
            id="cut-in-a-chunk",
        ),
    ],
)
async def test_what_goes_wrong_there_is_one_line_of_ours(
    reply: bytes, kind: type[LlmError], said: str, retryable: bool
) -> None:
    async with answering(reply) as url:
        with pytest.raises(kind, match=said) as caught:
            await LocalLlm("m", base_url=url).complete_text("x")
    assert caught.value.retryable is retryable
    assert "\n" not in str(caught.value)


CONTEXT = b'{"error": {"message": "exceeds the context size"}}'
LONGER = "exceeds the context size; start the server with a larger context (-c), offer fewer tools, or shorten results"


@pytest.mark.parametrize(
    ("reply", "kind", "line"),
    [
        (http(b'{"message": "no"}', "499 X"), LlmRejectedError, "llama.cpp refused the request: no"),
        (http(b'{"error": "no"}', "400 X"), LlmRejectedError, "llama.cpp refused the request: no"),
        (http(b"a\n" + b"x" * 300, "400 X"), LlmRejectedError, f"llama.cpp refused the request: a {'x' * 198}"),
        (http(CONTEXT, "400 X"), LlmRejectedError, f"llama.cpp refused the request: {LONGER}"),
        (http(b"{}", "401 X"), LlmRejectedError, "llama.cpp refused the request: ; pass the server's key as api_key="),
        (
            http(b"{}", "404 X"),
            LlmRejectedError,
            "llama.cpp refused the request: ; base_url is not the address of a llama.cpp server, which has /completion",
        ),
        (http(b"{}", "501 X"), LlmTransportError, "llama.cpp answered 501: "),
        (http(b'data: {"error": {"message": "no"}}\n\n'), LlmTransportError, "llama.cpp answered 500: no"),
        (
            http(b'data: {"error": {"code": 400, "message": "no"}}\n\n'),
            LlmRejectedError,
            "llama.cpp refused the request: no",
        ),
        (http(b"data: {]\n\n"), LlmResponseError, "llama.cpp answered what is not JSON: "),
    ],
)  # fmt: skip
async def test_a_refusal_is_said_in_the_server_s_words_with_what_to_do(
    reply: bytes, kind: type[LlmError], line: str
) -> None:
    async with answering(reply) as url:
        with pytest.raises(kind) as caught:
            await LocalLlm("m", base_url=url).complete_text("x")
    assert str(caught.value) == line or (line.endswith("JSON: ") and str(caught.value).startswith(line))


@pytest.mark.parametrize(("body", "said"), [(b"[1]", "not an object"), (b"{", "what is not JSON")])
async def test_a_template_that_is_none_is_named(body: bytes, said: str) -> None:
    async with answering(http(body)) as url:
        with pytest.raises(LlmResponseError, match=said):
            await LocalLlm("m", base_url=url).complete(request(user("Hi.")))


async def test_a_proxy_may_send_the_reply_in_any_framing() -> None:
    events = b'data: {"content": "a"}\n\n' + LAST
    chunks = b"".join(b"%x;ext=1\r\n%c\r\n" % (1, byte) for byte in events) + b"0\r\n\r\n"
    chunked = http(chunks, headers=b"Transfer-Encoding: chunked\r\n")
    counted = http(events, headers=b"Content-Length: %d\r\n" % len(events))
    for reply in (chunked, counted, http(events), http(events, status="200")):
        async with answering(reply) as url:
            assert await LocalLlm("m", base_url=url).complete_text("x") == "ab"


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
