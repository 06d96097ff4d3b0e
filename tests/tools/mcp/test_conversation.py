"""What client and server say to each other beside calls: sessions, tokens, progress, logs, questions, changes."""

from __future__ import annotations

import asyncio
import logging
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types
from pydantic import BaseModel

from tests.waiting import until
from tests.warm import python
from wesichain import Agent, tool
from wesichain.agent import Interrupted
from wesichain.core import Audio, Text, ToolCall
from wesichain.core.internal import Provide
from wesichain.errors import ToolError, ToolErrorKind, ToolExecutionError
from wesichain.testing import ScriptedLlm
from wesichain.tools import ToolContext, ToolSet
from wesichain.tools.mcp import McpServer, connection, elicit

from .conformance import run as conformance
from .conformance.server import IMAGE, PROMPTS, RESOURCES, TOOLS
from .kit import ENV, HERE, call, served, serving


class Place(BaseModel):
    town: str
    inhabitants: int


@tool(effect="pure")
async def place(town: str) -> Place:
    """Tell of a town."""
    return Place(town=town, inhabitants=7)


@tool(effect="pure", max_output=60)
async def large() -> dict[str, str]:
    """Tell more than it may."""
    return {"text": "x" * 1_000}


@tool(approval=True)
async def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


@tool(effect="pure")
async def steps(ctx: ToolContext) -> str:
    """Go step by step."""
    for done in range(3):
        await ctx.progress(done, 3, f"step {done}")
    return "there"


# --- sessions and tokens ---------------------------------------------------------------------------


async def test_a_token_is_asked_for_and_a_wrong_one_is_named() -> None:
    async with served(place, token="correct-horse") as url:
        async with McpServer.http(url, headers={"Authorization": "Bearer correct-horse"}) as server:
            assert (await call(server, "place", {"town": "Oslo"})).ok
        for headers in ({}, {"Authorization": "Bearer wrong-horse"}):
            with pytest.raises(
                ToolError, match=r"authentication \(HTTP 401\).*OAuthClientProvider"
            ) as caught:
                await McpServer.http(url, headers=headers).__aenter__()
            assert caught.value.kind is ToolErrorKind.UNAVAILABLE
            assert "wrong-horse" not in str(caught.value)


async def test_after_a_server_was_cancelled_its_loop_can_serve_again() -> None:
    for _ in range(2):
        async with served(place) as url, McpServer.http(url, protocol="2025-11-25") as server:
            assert (await call(server, "place", {"town": "Oslo"})).ok


# --- results ---------------------------------------------------------------------------------------


async def test_an_approval_rule_may_take_the_context() -> None:
    @tool(approval=lambda ctx, args: args["amount"] > 100)
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    async with served(pay) as url, McpServer.http(url, approval=False) as server:
        assert await server.call("pay", {"amount": 5}) == "paid 5"
        with pytest.raises(ToolError, match="Allow pay"):
            await server.call("pay", {"amount": 500})


async def test_results_have_schemas_and_failures_have_data() -> None:
    async with served(place, large) as url, McpServer.http(url, approval=False) as server:
        by_name = {each.name: each for each in server.tools}
        assert by_name["place"].returns == place.returns
        assert (await call(server, "place", {"town": "Oslo"})).value == {"town": "Oslo", "inhabitants": 7}
        cut = await call(server, "large")
        assert isinstance(cut.error, ToolExecutionError)
        assert "exceeds the limit of the tool" in str(cut.error)
        refused = await server._connected().use(lambda by: by.call_tool("place", {"town": 1}))
        assert refused.is_error
        data: Any = refused.structured_content
        assert (data["error"]["type"], data["error"]["issues"]) == (
            "InvalidArgsError",
            ["town: expected a string, got 1"],
        )


async def test_what_is_no_text_is_content_of_its_kind() -> None:
    async with served(*TOOLS) as url, McpServer.http(url, approval=False) as server:
        result = await server._connected().use(lambda by: by.call_tool("test_multiple_content_types"))
        assert [block.type for block in result.content] == ["text", "image", "resource"]
        assert isinstance(result.content[1], types.ImageContent)
        assert result.content[1].data == IMAGE.base64
        got = await call(server, "test_multiple_content_types")
        text, image, document = got.parts
        assert (text, image) == (Text("Multiple content types test:"), IMAGE)
        assert isinstance(document, Text)  # a document that is text is text
        assert str(got.value).startswith("Multiple content types test:\n[image (image/png, 70 bytes)]\n")
        (sound,) = (await call(server, "test_audio_content")).parts
        assert isinstance(sound, Audio)


# --- while a call runs -------------------------------------------------------------------------------


class Link:
    """What a runtime gives a context, to hear of progress."""

    messages = ()
    spent = None

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def progress(self, *told: Any) -> None:
        self.heard.append(told)


async def test_progress_reaches_the_context_of_the_call() -> None:
    link = Link()
    async with served(steps) as url, McpServer.http(url, approval=False) as server:
        registry = ToolSet.of(server.tools).build()
        result = await registry.dispatch(ToolCall("1", "steps", {}), ToolContext(link=link))
    assert result.value == "there"
    assert link.heard == [(0, 3, "step 0"), (1, 3, "step 1"), (2, 3, "step 2")]


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 30}},
    "required": ["name", "age"],
}


@tool(effect="pure")
async def who() -> Any:
    """Ask who it is."""
    return await elicit("Who are you?", FORM)


@pytest.mark.parametrize(
    ("answer", "value", "said"),
    [
        pytest.param({"name": "Ada"}, {"name": "Ada", "age": 30}, "", id="a-default-is-filled-in"),
        pytest.param({"name": "Ada", "age": 3}, {"name": "Ada", "age": 3}, "", id="or-overruled"),
        pytest.param(None, None, "", id="declined"),
        pytest.param({"name": 1}, None, "does not match the schema", id="what-does-not-fit-is-not-sent"),
    ],
)
async def test_a_server_s_question_is_answered_by_the_program(answer: Any, value: Any, said: str) -> None:
    asked: list[Any] = []

    async def ask(message: str, schema: Mapping[str, Any]) -> Any:
        asked.append((message, schema))
        return answer

    async with served(who) as url, McpServer.http(url, approval=False, on_elicit=ask) as server:
        result = await call(server, "who")
    assert asked == [("Who are you?", FORM)]
    assert result.value == value
    assert said in str(result.error)
    assert result.ok is not bool(said)


def clerk() -> Agent[Any, str]:
    """An agent with an agent below it, whose one tool a person has to approve."""
    below = Agent(
        ScriptedLlm([ToolCall("e1", "erase", {"path": "a"}), "it is done"]), tools=[erase], name="eraser"
    )
    return Agent(
        ScriptedLlm([ToolCall("c1", "eraser", {"task": "erase a"}), "erased it"]),
        tools=[below.as_tool()],
        name="clerk",
    )


async def answering(context: Any, params: Any) -> types.ElicitResult:
    """The user of another client."""
    del context
    if "approve" in params.requested_schema["properties"]:
        return types.ElicitResult(action="accept", content={"approve": True})
    return types.ElicitResult(action="accept", content={"name": "Ada", "age": 3})


@pytest.mark.parametrize("mode", ["legacy", "auto"])  # newer clients get questions as results, and come back
async def test_other_clients_can_be_asked(mode: Any) -> None:
    async with (
        served(who, clerk()) as url,
        Client(url, mode=mode, elicitation_callback=answering) as client,
    ):
        many = await asyncio.gather(*(client.call_tool("who", {}) for _ in range(8)))
        assert [one.structured_content for one in many] == [{"name": "Ada", "age": 3}] * 8
        result = await client.call_tool("clerk", {"task": "erase a"})
        assert getattr(result.content[0], "text", "") == "erased it"


@tool
async def report() -> str:
    """Log something."""
    log = logging.getLogger("wesichain.mcp.report")
    log.info("all is well")
    log.warning("the disk is nearly full")
    return "reported"


@pytest.mark.filterwarnings("ignore:The logging capability is deprecated")
async def test_what_a_served_tool_logs_reaches_a_client_that_wants_it() -> None:
    heard: list[Any] = []

    async def hear(params: Any) -> None:
        heard.append((params.level, params.data, params.logger))

    async with served(report) as url, Client(url, mode="legacy", logging_callback=hear) as client:
        levels: list[Any] = ["info", "warning", "error"]
        for level in levels:
            await client.set_logging_level(level)
            assert not (await client.call_tool("report", {})).is_error
    info, warning = ("info", "all is well"), ("warning", "the disk is nearly full")
    assert heard == [(*each, "wesichain.mcp.report") for each in (info, warning, warning)]


async def test_a_client_that_cannot_ask_is_told_what_a_served_agent_needs() -> None:
    async with served(clerk()) as url, Client(url, mode="legacy") as client:
        result = await client.call_tool("clerk", {"task": "erase a"})
    assert result.is_error
    error = (result.structured_content or {})["error"]
    assert error["kind"] == "permission"
    assert "erase" in error["message"]
    assert "cannot ask its user" in error["message"]


async def test_a_served_agent_s_approvals_become_those_of_the_agent_that_uses_it() -> None:
    """Two programs, one tree of questions: the far agent's approval ends our run as interrupted."""
    async with served(clerk()) as url, McpServer.http(url, approval=False) as server:
        agent = Agent(
            ScriptedLlm([ToolCall("x1", "clerk", {"task": "erase a"}), "all is well"]), tools=server.tools
        )
        outcome = await agent.outcome("tidy up")
        assert isinstance(outcome, Interrupted)
        (pending,) = outcome.pending
        assert pending.question is not None
        assert pending.question.message == 'Allow erase({"path":"a"}) (for clerk)?'
        result = await agent.resume(outcome, {pending.token: Provide({"approve": True})})
    assert result.output == "all is well"
    assert [source.value for source in result.sources] == ["erased it"]


@tool
async def delegate(ctx: ToolContext) -> str:
    """Run an agent by itself."""
    return (await clerk().run("erase a", parent=ctx)).output


async def test_a_tool_that_runs_an_agent_by_itself_says_what_a_person_is_needed_for() -> None:
    async with served(delegate) as url, Client(url, mode="legacy") as client:
        result = await client.call_tool("delegate", {})
    assert result.is_error
    needs = (result.structured_content or {})["error"]["needs_a_person"]
    assert needs == [{"tool": "erase", "args": {"path": "a"}}]


# --- what a server has beside tools --------------------------------------------------------------------


async def test_resources_and_prompts_can_be_read() -> None:
    async with (
        served(place, resources=RESOURCES, prompts=PROMPTS) as url,
        McpServer.http(url) as server,
    ):
        assert [each.uri for each in await server.resources()] == [
            "test://static-text",
            "test://static-binary",
        ]
        assert await server.read("test://static-binary") == (b"\x89PNG\r\n\x1a\n",)
        assert "Data for ID: a b" in str((await server.read("test://template/a%20b/data"))[0])
        with pytest.raises(ToolError, match="there is no resource 'test://none'"):
            await server.read("test://none")
        prompts = {prompt.name: prompt for prompt in await server.prompts()}
        assert prompts["test_prompt_with_arguments"].arguments == (("arg1", True), ("arg2", True))
        (message,) = await server.prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        assert message.content == "Prompt with arguments: arg1='a', arg2='b'"
        with pytest.raises(ToolError, match="takes arg1, arg2"):
            await server.prompt("test_prompt_with_arguments", {})


async def test_a_server_without_them_says_so() -> None:
    async with served(place) as url, McpServer.http(url) as server:
        with pytest.raises(ToolError, match="cannot give resources: Method not found") as caught:
            await server.resources()
        assert caught.value.kind is ToolErrorKind.NOT_FOUND
        with pytest.raises(ToolError, match="cannot give the prompt 'none'"):
            await server.prompt("none")


BREWING = """
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import InputRequiredResult

server = MCPServer("brewing")

@server.tool()
async def brew(ctx: Context) -> str | InputRequiredResult:
    "Take three requests to be ready."
    asked = int(ctx.request_state or 0)
    return "tea" if asked == 3 else InputRequiredResult(request_state=str(asked + 1))

server.run("stdio")
"""


@pytest.mark.parametrize("rounds", [2, 3])
async def test_a_result_that_is_not_ready_is_requested_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setattr(connection, "_MAX_ROUNDS", rounds)
    program = tmp_path / "server.py"
    program.write_text(BREWING, encoding="utf-8")
    async with McpServer.stdio(
        *python(), str(program), approval=False, protocol="2026-07-28", name="brewing"
    ) as server:
        result = await call(server, "brew")
    if rounds == 3:
        assert result.value == {"result": "tea"}
    else:
        assert str(result.error) == "MCP server 'brewing': it requests more input after 2 rounds"


CHANGING = """
import asyncio, sys
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("changing")

@server.tool()
async def grow(ctx: Context) -> str:
    "Grow a tool."
    server.add_tool(lambda: "new", name="grown", description="d")
    await ctx.session.send_tool_list_changed()  # clients of the older protocols
    await ctx.notify_tools_changed()
    return "grown"

server.run("stdio")
"""


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
async def test_a_list_that_changes_is_followed(tmp_path: Path, protocol: str) -> None:
    (tmp_path / "server.py").write_text(CHANGING, encoding="utf-8")
    program = (*python(), str(tmp_path / "server.py"))
    async with McpServer.stdio(*program, approval=False, protocol=protocol) as server:
        before = server.tools
        assert (await call(server, "grow")).ok
        await until(lambda: len(server.tools) == 2)
        assert [each.name for each in server.tools] == ["grow", "grown"]
        assert len(before) == 1  # what somebody holds does not change
        assert (await call(server, "grown")).ok


# --- the official suite ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_official_conformance_suite_passes_for_all_that_is_offered() -> None:
    suite = conformance.command()
    if suite is None:
        pytest.skip("the suite needs npm")
    with conformance.our_server() as url:
        verdicts = [
            conformance.run(suite, scenario, url)
            for scenario in conformance.scenarios(suite)
            if scenario.why_not is None
        ]
    assert [verdict for verdict in verdicts if not verdict.is_good] == []


async def test_the_command_takes_a_token() -> None:
    words = ("-m", "wesichain", "mcp", str(HERE / "served_tools.py"))
    with serving(*words, "--http", "0", "--token", "correct-horse", pattern=r"http://\S+/mcp") as url:
        with pytest.raises(ToolError, match="HTTP 401"):
            await McpServer.http(url).__aenter__()
        async with McpServer.http(url, headers={"Authorization": "Bearer correct-horse"}) as server:
            assert (await call(server, "add", {"a": 1})).value == 3
    ended = subprocess.run(
        [*python(), *words, "--token", "correct-horse"],
        capture_output=True,
        text=True,
        check=False,
        env=ENV,
    )
    assert ended.returncode == 2
    assert "a token goes with --http" in ended.stderr
