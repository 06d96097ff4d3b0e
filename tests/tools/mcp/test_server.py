"""Our tools behind MCP are our tools: the same schemas, checks, limits and results."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from tests.draws import draws
from tests.tools.mcp import served_tools
from tests.tools.mcp.kit import ENV, HERE, call, serving
from tests.warm import python
from wesichain.core import JsonValue, ToolCall
from wesichain.tools import Tool, ToolError, ToolRegistry, ToolSet
from wesichain.tools.mcp import McpServer

FILE = str(HERE / "served_tools.py")
MAIN = ("-c", "from wesichain.cli import main; main()", "mcp", FILE)
TOOLS = [value for value in vars(served_tools).values() if isinstance(value, Tool)]


def here() -> ToolRegistry:
    return ToolSet.of(TOOLS).build()


def ours(*args: str, **options: Any) -> McpServer:
    return McpServer.stdio(*python(), *MAIN, *args, env=ENV, approval=False, **options)


@asynccontextmanager
async def theirs(mode: str) -> AsyncIterator[Client]:
    """A client of the official SDK, in the protocol of today or of 2025."""
    command, *words = python()
    started = StdioServerParameters(command=command, args=[*words, *MAIN], env=ENV)
    with open("/dev/null", "w", encoding="utf-8") as quiet:  # noqa: PTH123  # no path of ours
        async with Client(stdio_client(started, quiet), mode=mode) as client:
            yield client


CALLS = [
    pytest.param("add", {"a": 1}, id="a-number"),
    pytest.param("add", {"c": 2}, id="wrong-arguments"),
    pytest.param("move", {"point": {"x": 1}, "how": "up"}, id="an-object"),
    pytest.param("find", {"q": "x"}, id="a-schema-known-at-run-time"),
    pytest.param("alone", {}, id="in-a-process-of-its-own"),
    pytest.param("slow", {}, id="too-slow"),
    pytest.param("refuse", {}, id="a-failure-on-purpose"),
    pytest.param("leave", {}, id="a-tool-that-exits"),
    pytest.param("much", {}, id="too-much"),
    pytest.param("pay", {"amount": 5}, id="no-approval-needed"),
    pytest.param("echo", {"value": None}, id="nothing"),
    pytest.param("echo", {"value": "text"}, id="a-text"),
    pytest.param("echo", {"value": [1, {"a": None}, 2.5, True]}, id="a-list"),
]

COSTLY: list[tuple[str, dict[str, Any]]] = [("erase", {"path": "x"}), ("pay", {"amount": 500})]


@pytest.fixture(scope="module")
def remote() -> dict[str, Any]:
    """What a client of ours sees and gets, of all calls, from one server process."""

    async def ask() -> dict[str, Any]:
        async with ours() as server:
            results = {str(param.id): await call(server, *param.values) for param in CALLS}  # type: ignore[arg-type]  # a name and arguments
            unasked = [str((await call(server, name, args)).error) for name, args in COSTLY]
            specs = ToolSet.of(server.tools).build().specs()
        return {"specs": specs, "unasked": unasked, **results}

    return asyncio.run(ask())


def test_the_specs_are_the_same(remote: dict[str, Any]) -> None:
    assert remote["specs"] == here().specs()


@pytest.mark.parametrize(("name", "args"), CALLS)
async def test_a_call_gives_the_same(
    name: str, args: dict[str, Any], remote: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    direct = await here().dispatch(ToolCall("c1", name, args))
    through = remote[request.node.callspec.id]
    assert (through.ok, through.value) == (direct.ok, direct.value)
    assert str(through.error) == str(direct.error)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


async def test_whatever_a_tool_takes_and_returns_comes_back_the_same() -> None:
    loop = asyncio.get_running_loop()
    async with ours() as server:

        @draws(15)
        @given(JSON)
        def law(value: JsonValue) -> None:
            ask = asyncio.run_coroutine_threadsafe(call(server, "echo", {"value": value}), loop)
            assert ask.result(30).value == value

        await asyncio.to_thread(law)

        # Arguments are checked there, too: another client may not look at schemas.
        direct = await here().dispatch(ToolCall("c1", "add", {"a": "1"}))
        with pytest.raises(ToolError) as caught:
            await server.call("add", {"a": "1"})
        assert str(caught.value) == str(direct.error)


async def test_calls_that_need_approval_are_not_made_unless_the_client_asks(remote: dict[str, Any]) -> None:
    nobody = "this client cannot ask its user: the call is not part of a run"
    assert remote["unasked"] == [
        f'MCP server \'python\' asks: Allow erase({{"path":"x"}})?; {nobody}',
        f"MCP server 'python' asks: Allow pay({{\"amount\":500}})?; {nobody}",
    ]
    async with ours("--approved") as server:
        assert [(await call(server, name, args)).value for name, args in COSTLY] == ["erased x", "paid 500"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_other_clients_are_served(mode: str) -> None:
    async with theirs(mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [*listed] == [tool.name for tool in TOOLS]
        hints = {name: tool.annotations for name, tool in listed.items()}
        assert hints["echo"] == types.ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, destructive_hint=False
        )
        assert hints["move"] == types.ToolAnnotations(
            read_only_hint=False, idempotent_hint=False, destructive_hint=False
        )
        assert hints["erase"] == types.ToolAnnotations(
            read_only_hint=False, idempotent_hint=True, destructive_hint=True
        )
        added = await client.call_tool("add", {"a": 1})
        assert [block.text for block in added.content if isinstance(block, types.TextContent)] == ["3"]
        assert added.structured_content == (3 if mode == "auto" else {"result": 3})
        moved = await client.call_tool("move", {"point": {"x": 1}, "how": "down"})
        assert moved.structured_content == {"x": 0, "y": 0.5}
        failed = await client.call_tool("nope", {})
        assert failed.is_error
        assert "there is no tool" in str(failed.content)


async def test_http_serves_programs_of_this_machine_and_no_web_page() -> None:
    with serving(*MAIN, "--http", "0", pattern=r"http://127\.0\.0\.1:\d+/mcp") as url:
        async with McpServer.http(url) as server:
            assert (await call(server, "add", {"a": 1, "b": 4})).value == 5
        port = url.split(":")[2].removesuffix("/mcp")
        async with httpx2.AsyncClient() as web:
            for headers, status in [
                ({"host": "evil.example"}, 421),
                ({"host": f"evil.example:{port}"}, 421),
                ({"origin": "http://evil.example"}, 403),
                ({"origin": "null"}, 403),
                ({"content-type": "text/plain"}, 400),
            ]:
                said = {
                    "content-type": "application/json",
                    "accept": "application/json, text/event-stream",
                    **headers,
                }
                answer = await web.post(url, headers=said, content=b"{}")
                assert answer.status_code == status, (headers, answer.text)


ENDED = """
import asyncio, os, signal, sys
from contextlib import suppress
from wesichain.tools.mcp import serve_http

def announce(url):
    if sys.argv[1] == "ctrl-c":
        os.kill(os.getpid(), signal.SIGINT)
    else:
        raise BrokenPipeError

with suppress(KeyboardInterrupt, BrokenPipeError):
    asyncio.run(serve_http([], announce=announce))
"""


@pytest.mark.parametrize("how", ["ctrl-c", "it-cannot-be-announced"])
def test_it_ends_cleanly_as_soon_as_its_address_is_known(how: str) -> None:
    done = subprocess.run(
        [*python(), "-c", ENDED, how], env=ENV, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
