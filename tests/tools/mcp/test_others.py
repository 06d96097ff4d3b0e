"""Programs of others, driven by an agent: servers from npm, and FastMCP as server and as client.

Slow, and skipped where they are not installed:

    npm install --prefix FOLDER @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem
    python -m venv FOLDER && FOLDER/bin/pip install fastmcp

with `WESICHAIN_MCP_SERVERS` and `WESICHAIN_FASTMCP` naming the folders.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.tools.mcp.kit import served
from tests.tools.mcp.test_conversation import clerk
from wesichain import Agent, Image
from wesichain.agent import Interrupted
from wesichain.core import ToolCall
from wesichain.core.events import ToolProgress
from wesichain.core.internal import Provide
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools.mcp import McpServer

pytestmark = pytest.mark.slow
SERVERS = Path(os.environ.get("WESICHAIN_MCP_SERVERS", "/nowhere")) / "node_modules" / ".bin"
FASTMCP = Path(os.environ.get("WESICHAIN_FASTMCP", "/nowhere")) / "bin" / "python"


def npm(name: str) -> str:
    path = SERVERS / name
    if shutil.which("node") is None or not path.exists():
        pytest.skip(f"{name} is not installed; WESICHAIN_MCP_SERVERS names the folder of its node_modules")
    return str(path)


@pytest.fixture
def fastmcp() -> str:
    if not FASTMCP.exists():
        pytest.skip("FastMCP is not installed; WESICHAIN_FASTMCP names a virtual environment that has it")
    return str(FASTMCP)


def results(outcome: Any) -> dict[str | None, Any]:
    return {
        message.tool_call_id: message.content for message in outcome.messages if message.role.value == "tool"
    }


# --- servers from npm --------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::wesichain.tools.ToolWarning")
async def test_an_agent_uses_the_server_that_has_everything() -> None:
    replies: list[Any] = [
        calls(
            ("echo", {"message": "hello"}),
            ("get-sum", {"a": 2, "b": 3}),
            ("get-tiny-image", {}),
            ("get-structured-content", {"location": "Chicago"}),
            ("trigger-long-running-operation", {"duration": 1, "steps": 2}),
        ),
        calls(("trigger-sampling-request", {"prompt": "say something"})),
        "something",  # what the model says to the server
        calls(("trigger-elicitation-request", {})),
        "done",
    ]
    async with McpServer.stdio(npm("mcp-server-everything"), approval=False, sampling=True) as server:
        assert "task" in server.left_out["simulate-research-query"]
        agent = Agent(ScriptedLlm(replies), tools=server.tools)
        outcome = await agent.outcome("try everything")
        assert isinstance(outcome, Interrupted)
        (pending,) = outcome.pending
        assert pending.question is not None
        ended: Any = await agent.resume(outcome, {pending.token: Provide({"name": "Ada"})})
    found = results(ended)
    assert found["echo-0"] == "Echo: hello"
    assert "5" in found["get-sum-1"]
    assert any(isinstance(part, Image) for part in found["get-tiny-image-2"])
    assert "temperature" in str(found["get-structured-content-3"])
    assert "something" in str(found["trigger-sampling-request-0"])
    assert "Ada" in str(found["trigger-elicitation-request-0"])
    assert sum(isinstance(event, ToolProgress) for event in outcome.events) >= 1
    assert ended.output == "done"


async def test_an_agent_uses_the_server_of_files(tmp_path: Path) -> None:
    home = tmp_path.resolve() / "home"
    home.mkdir()
    (tmp_path / "secret.txt").write_text("mine", encoding="utf-8")
    note = str(home / "note.txt")
    replies: list[Any] = [
        ToolCall("w", "write_file", {"path": note, "content": "remember the milk"}),
        calls(
            ("read_text_file", {"path": note}),
            ("list_directory", {"path": str(home)}),
            ("read_text_file", {"path": str(tmp_path / "secret.txt")}),
        ),
        "done",
    ]
    async with McpServer.stdio(npm("mcp-server-filesystem"), str(home), approval=False) as server:
        outcome: Any = await Agent(ScriptedLlm(replies), tools=server.tools).outcome("note it")
    found = results(outcome)
    assert outcome.output == "done"
    assert (home / "note.txt").read_text(encoding="utf-8") == "remember the milk"
    assert "remember the milk" in str(found["read_text_file-0"])
    assert "note.txt" in str(found["list_directory-1"])
    assert "denied" in str(found["read_text_file-2"]).lower()


# --- FastMCP -------------------------------------------------------------------------------------------

SERVER = '''
from fastmcp import Context, FastMCP

server = FastMCP("shop")


@server.tool
def price(item: str) -> dict[str, int]:
    """The price of an item."""
    return {"cents": 100 * len(item)}


@server.tool
async def order(item: str, ctx: Context) -> str:
    """Order an item."""
    await ctx.report_progress(1, 2)
    answer = await ctx.elicit("How many?", response_type=int)
    return f"{answer.data} x {item}" if answer.action == "accept" else "nothing"


@server.tool
def fail() -> str:
    """Always fails."""
    raise ValueError("out of stock")


server.run(show_banner=False)
'''


async def test_an_agent_uses_a_server_made_with_fastmcp(fastmcp: str, tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(SERVER, encoding="utf-8")
    replies: list[Any] = [
        calls(("price", {"item": "pen"}), ("fail", {})),
        calls(("order", {"item": "pen"})),
        "done",
    ]
    async with McpServer.stdio(fastmcp, str(tmp_path / "server.py"), approval=False) as server:
        agent = Agent(ScriptedLlm(replies), tools=server.tools)
        outcome = await agent.outcome("buy pens")
        assert isinstance(outcome, Interrupted)
        (pending,) = outcome.pending
        assert pending.question is not None
        assert pending.question.message == "How many?"
        schema: Any = pending.question.schema
        (field,) = schema["properties"]
        ended: Any = await agent.resume(outcome, {pending.token: Provide({field: 3})})
    found = results(ended)
    assert found["price-0"] == '{"cents":300}'
    assert "out of stock" in found["fail-1"]
    assert found["order-0"] == '{"result":"3 x pen"}'


CLIENT = """
import asyncio, json, sys
from fastmcp import Client

asked = []

async def answer(message, response_type, params, context):
    asked.append(message)
    return {"approve": True}

async def main():
    async with Client(sys.argv[1], elicitation_handler=answer) as client:
        tools = [tool.name for tool in await client.list_tools()]
        result = await client.call_tool("clerk", {"task": "erase a"})
        print(json.dumps({"tools": tools, "said": result.content[0].text, "asked": asked}))

asyncio.run(main())
"""


async def test_a_client_made_with_fastmcp_uses_a_served_agent_and_answers_it(fastmcp: str) -> None:
    async with served(clerk()) as url:
        done = await asyncio.to_thread(
            subprocess.run,
            [fastmcp, "-c", CLIENT, url],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert '"tools": ["clerk"]' in done.stdout, done.stderr
    assert '"said": "erased it"' in done.stdout
    assert "Allow erase(" in done.stdout
