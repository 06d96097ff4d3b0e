"""The tools of real servers: processes over stdio, and HTTP on loopback; well behaved and not."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.ports import reserved_port
from tests.tools.mcp.kit import HERE, are_gone, call, is_gone, official, raw, serving
from tests.virtual_time import run_with_paused_time
from tests.waiting import PATIENCE, until
from wesichain import Agent
from wesichain.errors import (
    ConfigError,
    ToolError,
    ToolErrorKind,
    ToolExecutionError,
    ToolSerializationError,
    ToolTimeoutError,
)
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools import CancellationToken, ToolContext, ToolWarning
from wesichain.tools.mcp import McpServer, transports

SECRET = "canary-1234567890"


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wesichain.tools.mcp.transports._GRACE_SECONDS", 0.3)


# --- good servers --------------------------------------------------------------------------------


async def test_the_tools_of_a_server_of_the_official_sdk() -> None:
    async with official() as server:
        assert [tool.name for tool in server.tools] == ["add", "greet", "wait", "agent_of"]
        assert [tool.signature for tool in server.tools][:2] == ["add(a: int, b: int)", "greet(name: str)"]
        assert [tool.approval for tool in server.tools] == [True] * 4  # none is said to be harmless
        assert (await call(server, "add", {"a": 1, "b": 2})).value == {"result": 3}
        assert (await call(server, "greet", {"name": "you"})).value == "hello you"
        results = await asyncio.gather(*(call(server, "add", {"a": n, "b": n}) for n in range(20)))
        assert [result.value for result in results] == [{"result": 2 * n} for n in range(20)]


async def test_a_call_that_has_ended_is_made_anew() -> None:
    ctx = ToolContext(idempotency_key="k")
    async with official() as server:
        sums = [await server.call("add", {"a": n, "b": n}, ctx) for n in range(3)]
    assert sums == [{"result": 0}, {"result": 2}, {"result": 4}]


async def test_one_task_may_enter_and_another_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transports, "_GRACE_SECONDS", 20)
    server = raw("text")
    await asyncio.create_task(server.__aenter__())
    assert (await asyncio.create_task(call(server, "fine"))).value == "hello"
    await asyncio.create_task(server.__aexit__(None, None, None))
    assert len(asyncio.all_tasks()) == 1
    assert server._transport._process.returncode == 0  # type: ignore[attr-defined]  # it left by itself


# --- what comes back -----------------------------------------------------------------------------


BLOCKS = (
    "one\n[image (image/png, 300 bytes)]\n[resource: notes, file:///notes.txt]\ninside\n"
    "[document 'b' (application/octet-stream, 3 bytes)]\ntwo"
)


async def test_what_comes_back_of_calls(capfd: pytest.CaptureFixture[str]) -> None:
    """In order, and what cannot be read is named; among noise, and beside nine megabytes of complaints."""
    async with raw("many", env={"API_KEY": SECRET}, max_output=1_000) as server:
        for how, value in (
            ("text", "hello"),
            ("is-noisy", "hello"),
            ("complains", "hello"),
            ("blocks", BLOCKS),
        ):
            assert (await call(server, how)).value == value, how
        for how, starts in (("huge", "xxxxxxxxxx"), ("huge-data", '{"n":"xxxx')):
            cut: Any = (await call(server, how)).value
            assert (cut[:10], "[cut: " in cut, len(cut) < 1_100) == (starts, True, True)
        for how, kind, words in (
            ("error", "execution_failed", "the disk is full"),
            ("refuses", "invalid_input", "text is not a haiku"),
            ("breaks", "execution_failed", "internal trouble"),
            ("no-result", "serialization", "its answer is not valid"),
            ("declared", "serialization", "does not match its schema"),
            ("leaks", "execution_failed", "the key is [redacted]"),
        ):
            error: Any = (await call(server, how)).error
            assert (error.kind, words in str(error)) == (ToolErrorKind(kind), True), error
            assert type(error) is (ToolSerializationError if how == "declared" else ToolExecutionError)
            assert SECRET not in str(error)
    assert capfd.readouterr() == ("", "")


def test_the_text_of_an_error_is_cut() -> None:
    server = raw("text")
    assert server._redacted("x" * 2_000) == "x" * 2_000
    assert server._redacted("x" * 2_001).endswith("x [cut here: the server sent 2,001 bytes]")


@pytest.mark.parametrize(
    ("how", "error", "kind", "words"),
    [
        ("too-huge", ToolExecutionError, "unavailable", "more than 16,777,216 bytes"),
        ("hangs", ToolTimeoutError, "timeout", "did not finish within 0.3 s"),
    ],
)
async def test_a_failure_is_a_value(how: str, error: type, kind: str, words: str) -> None:
    async with raw(how, timeout=0.3 if how == "hangs" else 30.0) as server:
        failed: Any = (await call(server, "fine")).error
    assert (type(failed), failed.kind) == (error, ToolErrorKind(kind))
    assert words in str(failed)


async def test_a_server_that_is_gone_stays_gone_until_it_is_entered_again() -> None:
    async with raw("dies") as server:
        first, second = await call(server, "fine"), await call(server, "fine")
        said = "MCP server 'raw' is gone; it ended with status 7; its last output: out of memory"
        assert str(first.error) == str(second.error) == said
        assert isinstance(first.error, ToolExecutionError)
        assert first.error.kind is ToolErrorKind.UNAVAILABLE
    result = await call(server, "fine")
    assert "is not connected: use its tools inside its 'async with'" in str(result.error)
    async with server:
        assert "status 7" in str((await call(server, "fine")).error)


async def test_a_server_that_reads_no_more_is_noticed() -> None:
    async with raw("stops-reading", timeout=0.3) as server:
        assert isinstance((await call(server, "fine")).error, ToolTimeoutError)
        after = (await call(server, "fine")).error
        for _ in range(20):  # on a busy machine it may still have to come to where it stops
            if isinstance(after, ToolExecutionError):
                break
            after = (await call(server, "fine")).error
        assert isinstance(after, ToolExecutionError)
        assert after.kind is ToolErrorKind.UNAVAILABLE


async def test_a_server_that_turns_deaf_holds_nobody() -> None:
    """Its pipe is full, so not even a cancellation can be sent."""
    async with raw("turns-deaf", timeout=0.2) as server:
        results = [await call(server, "fine", {"text": "x" * 1_000_000}) for _ in range(2)]
    assert [type(result.error) for result in results] == [ToolTimeoutError] * 2


# --- what is listed ------------------------------------------------------------------------------


async def test_a_tool_that_cannot_be_used_is_left_out() -> None:
    server = raw("twice")
    with pytest.warns(
        ToolWarning, match="MCP server 'raw': tool 'fine' is left out: it is listed more than once"
    ):
        await server.__aenter__()
    assert [tool.name for tool in server.tools] == ["fine", "other"]
    assert [*server.left_out] == ["fine"]
    assert (await call(server, "fine", {"text": "x"})).value == "hello"
    await server.__aexit__(None, None, None)


async def test_odd_names_are_made_legal_and_lead_back() -> None:
    async with raw("odd-names") as server:
        names = [tool.name for tool in server.tools]
        assert [names[1], names[3], names[4]] == ["get_it", "_1st", "_"]
        assert len({*names}) == 6
        assert [(await call(server, name)).value for name in names] == ["hello"] * 6


async def test_all_pages_are_read() -> None:
    async with raw("pages") as server:
        assert [tool.name for tool in server.tools] == ["tool0", "tool1", "tool2"]


# --- servers that cannot be used -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        pytest.param("ends", "status 1; its last output: cannot read its configuration", id="it-ends"),
        pytest.param("leaks-and-ends", "cannot log in with [redacted]", id="saying-a-secret"),
        pytest.param("waits", "did not answer within 0.2 s", id="it-does-not-answer"),
        pytest.param("prints-for-ever", "not a message: ", id="it-prints-for-ever"),
        pytest.param("never-ends-its-line", "more than 16,777,216 bytes", id="its-line-never-ends"),
        pytest.param("lists-nothing", "did not send its list of tools within 0.2 s", id="it-lists-nothing"),
        pytest.param("endless-pages", "on more than 100 pages", id="its-list-never-ends"),
        pytest.param(
            "wrong-root",
            "its list of tools is not valid: tools.1.inputSchema.type: Input should be 'object'",
            id="a-list-that-is-none",
        ),
    ],
)
def test_a_server_that_cannot_be_used_is_a_clear_error_soon(
    how: str,
    words: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        transports, "_GRACE_SECONDS", 0.2
    )  # seconds in which one that prints for ever prints on
    patience = {"waits": 0.2, "lists-nothing": 0.2, "prints-for-ever": 0.5}.get(how, 60)
    is_there = tmp_path / "is_there"
    server = raw(how, env={"API_KEY": SECRET, "THERE": str(is_there)}, connect_timeout=patience)
    with pytest.raises(ToolError) as caught:
        # Where only its time ends it, time begins when the program has come to where it waits.
        run_with_paused_time(server.__aenter__(), lambda: patience < 60 and not is_there.exists())
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    assert server._transport._process.returncode is not None  # type: ignore[attr-defined]  # it is a program
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("script", "remarks"),
    [
        pytest.param("echo bad   luck >&2; exit 3", "it ended with status 3; its last output: bad luck", id="status"),
        pytest.param("exit 0", "it ended with status 0", id="status-zero"),
        pytest.param("kill -9 $$", "it was killed by signal 9", id="signal"),
        pytest.param(
            "echo Welcome; echo again; exit 1", 'it ended with status 1; it printed something that is not a message: "Welcome\\n"', id="text"
        ),
        pytest.param(
            f"printf '{'x' * 500} {'y' * 498}' >&2; exit 1",
            f"it ended with status 1; its last output: {'x' * 500} {'y' * 498}",
            id="999-bytes",
        ),
        pytest.param(
            f"printf '{'x' * 500} {'y' * 499}' >&2; exit 1",
            f"it ended with status 1; its last output: {'y' * 499}",
            id="1000-bytes-may-begin-with-half-a-word",
        ),
    ],
)  # fmt: skip
async def test_errors_contain_how_a_program_ended_and_its_last_output(script: str, remarks: str) -> None:
    with pytest.raises(ToolError) as caught:
        await McpServer.stdio("sh", "-c", script).__aenter__()
    assert str(caught.value).removeprefix("MCP server 'sh' ").partition("; ")[2] == remarks


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(
            lambda: McpServer.stdio("no-such-command"), "'no-such-command' cannot be started", id="command"
        ),
        pytest.param(lambda: McpServer.stdio(sys.executable, cwd="/no/such"), "No such file", id="folder"),
        pytest.param(lambda: McpServer.stdio("a\0b"), "cannot be started", id="no-text"),
        pytest.param(lambda: raw("text", only=["fin"]), "has no tool 'fin'", id="a-tool-that-is-not-there"),
    ],
)
async def test_a_mistake_of_ours_is_a_config_error(make: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        await make().__aenter__()


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(None, "it cannot be reached (ConnectError)", id="nobody-listens"),
        pytest.param(b"", "it cannot be reached (", id="it-hangs-up"),
        pytest.param(
            b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", "authentication (HTTP 401)", id="it-wants-a-key"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "content type", id="it-is-no-server"
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
            "encoding that was not requested",
            id="it-packs-its-answer",
        ),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b"x" * 17_000_000,
            "more than 16,777,216 bytes",
            id="its-answer-has-no-end",
        ),
    ],
)
async def test_an_address_that_cannot_be_used_is_a_clear_error(
    reply: bytes | None, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100_000)
        writer.write(reply or b"")
        await writer.drain()
        writer.close()

    port = reserved_port()
    listener = await asyncio.start_server(answer, "127.0.0.1", port) if reply is not None else None
    server = McpServer.http(
        f"http://127.0.0.1:{port}/{SECRET}", headers={"authorization": f"Bearer {SECRET}"}
    )
    with pytest.raises(ToolError) as caught:
        await server.__aenter__()
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    if listener is not None:
        listener.close()


async def test_a_server_behind_a_url_that_goes_away_fails_calls_and_may_come_back() -> None:
    port = reserved_port()
    url = f"http://127.0.0.1:{port}/mcp"
    run = (str(HERE / "sdk_server.py"), str(port))
    with serving(*run, pattern="running on"):
        server = await McpServer.http(url, headers={"x-key": SECRET}).__aenter__()
        assert (await call(server, "agent_of")).value == SECRET
        assert server.name == f"http://127.0.0.1:{port}"
    gone = (await call(server, "greet", {"name": "you"})).error
    assert "it cannot be reached" in str(gone)
    with serving(*run, pattern="running on"):
        assert (await call(server, "greet", {"name": "you"})).value == "hello you"
        await server.__aexit__(None, None, None)


async def test_a_server_belongs_to_one_loop() -> None:
    async with raw("text") as server:
        result = await asyncio.to_thread(lambda: asyncio.run(call(server, "fine")))
        assert "was entered in another event loop" in str(result.error)
        with pytest.raises(ConfigError, match="already in use"):
            await server.__aenter__()


# --- leaving -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["has-a-stubborn-child", "is-stubborn"])
async def test_nothing_of_a_server_is_left(how: str, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    async with raw(how, env={"PIDS": str(pids)}):
        found = [int(pid) for pid in pids.read_text(encoding="utf-8").split()]
        assert not any(map(is_gone, found))
    assert await are_gone(found)


@pytest.mark.parametrize("how", ["waits", "lists-nothing"])
async def test_cancelled_while_connecting_it_leaves_nothing(how: str) -> None:
    server = raw(how)
    entering = asyncio.create_task(server.__aenter__())
    await until(lambda: server._transport._process)  # type: ignore[attr-defined]  # it is a program
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert server._transport._process.returncode is not None  # type: ignore[attr-defined]  # it is a program
    assert len(asyncio.all_tasks()) == 1


async def test_cancelled_twice_while_leaving_it_still_waits_for_the_end(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def use() -> None:
        async with raw("is-stubborn", env={"PIDS": str(pids)}):
            await asyncio.sleep(600)

    using = asyncio.create_task(use())
    await until(lambda: pids.exists() and pids.read_text(encoding="utf-8"))
    for _ in range(3):
        await asyncio.sleep(0.1)
        using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert await are_gone([int(pid) for pid in pids.read_text(encoding="utf-8").split()])


async def test_left_while_a_call_is_on_its_way_the_call_fails(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    async with raw("hangs", env={"NOTES": str(notes)}) as server:
        calling = asyncio.create_task(call(server, "fine"))
        await appears(notes, "called")
    result = await asyncio.wait_for(calling, PATIENCE)
    assert isinstance(result.error, ToolExecutionError)
    assert result.error.kind is ToolErrorKind.UNAVAILABLE


async def appears(file: Path, text: str) -> None:
    await until(lambda: file.exists() and file.read_text(encoding="utf-8") == text)


@pytest.mark.parametrize("by", ["a token", "the task", "the timeout"])
async def test_a_cancelled_call_is_cancelled_at_the_server(by: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    timeout = 0.5 if by == "the timeout" else 60.0
    async with raw("hangs", env={"NOTES": str(notes)}, timeout=timeout, approval=False) as server:
        token = CancellationToken()
        agent = Agent(ScriptedLlm([calls(("fine", {}))]), tools=server.tools)
        running = asyncio.create_task(agent.outcome("go", cancellation=token))
        if by != "the timeout":  # which may come before anybody has read that it was called
            await appears(notes, "called")
        if by == "a token":
            token.cancel("enough")
        elif by == "the task":
            running.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait_for(running, PATIENCE)
        await appears(notes, "cancelled")


async def test_ours_is_not_the_environment_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", SECRET)
    async with raw("leaks") as server:
        assert str((await call(server, "fine")).error) == "the key is None"
    assert os.environ["API_KEY"] == SECRET


async def test_entering_and_leaving_many_times_leaks_nothing() -> None:
    files = Path("/proc/self/fd")
    async with raw("text") as server:
        await call(server, "fine")
    before = len([*files.iterdir()])
    for _ in range(2):
        async with server:
            await call(server, "fine")
    assert len([*files.iterdir()]) <= before
    assert len(asyncio.all_tasks()) == 1
