"""Cassettes: recorded once, replayed without a model and without a tool, with the same bytes each time."""

from __future__ import annotations

import asyncio
import random
import subprocess
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from tests.agent import trees
from tests.draws import sampled
from tests.tools.mcp.kit import raw
from tests.trace.test_otel import Spans
from tests.warm import python
from wesichain import (
    Agent,
    GraphBuilder,
    LlmRequest,
    LlmResponse,
    Role,
    RunInterruptedError,
    ToolCall,
    ToolContext,
    tool,
)
from wesichain.agent import Approve, ApproveWith, Interrupted
from wesichain.core import TextChunk, Usage
from wesichain.errors import CodecError, ConfigError, LlmTransportError, ReplayMismatchError
from wesichain.kit import CodeMode, deep_agent
from wesichain.llm import StreamingLlm
from wesichain.policy import N, Recovery, Reprompt
from wesichain.testing.cassettes import Cassette, Mode, cassette_path, read_cassette
from wesichain.testing.drift import drift_of, read_runs
from wesichain.testing.seams import installed
from wesichain.trace.otel import instrument

LIVE = {"is_allowed": True, "models": 0, "tools": 0}


def touch(what: str) -> None:
    assert LIVE["is_allowed"], f"{what} were used"
    LIVE[what] += 1


class Model(StreamingLlm):
    """A model that goes by what it sees, and that must not be asked in a replay."""

    model = "real"

    def __init__(self, *calls: ToolCall, fault: Exception | None = None) -> None:
        self._calls = calls
        self._fault = fault

    async def complete(self, request: LlmRequest) -> LlmResponse:
        touch("models")
        if self._fault is not None:
            fault, self._fault = self._fault, None
            raise fault
        results = [message.text for message in request.messages if message.role is Role.TOOL]
        if self._calls and not results:
            return LlmResponse("Let me look.", self._calls, Usage(10, 5), "tool_calls")
        return LlmResponse(f"It is {', '.join(results) or 'good'}.", usage=Usage(20, 5))

    async def stream(self, request: LlmRequest) -> Any:
        reply = await self.complete(request)
        for start in range(0, len(reply.content), random.randint(1, 5)):
            yield TextChunk(reply.content[start : start + 1])
        yield reply


@tool
async def stock(item: str) -> str:
    """How many there are."""
    touch("tools")
    await asyncio.sleep(random.random() * 0.01)
    if item == "ghost":
        raise LookupError("no such item")
    return f"{len(item)} {item}"


@tool(approval=True)
async def order(item: str) -> str:
    """Order one."""
    touch("tools")
    return f"ordered {item} with the key sk-proj-abcdefghijklmnopqrstuvwxyz0123"


def asks(name: str, *items: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"c{index}", name, {"item": item}) for index, item in enumerate(items))


def plain() -> Agent[Any, str]:
    return Agent(Model(*asks("stock", "lamp", "chair", "ghost")), tools=[stock], instructions="Be kind.")


def nested() -> Agent[Any, str]:
    helper = Agent(Model(*asks("stock", "lamp", "bed")), tools=[stock], name="helper")
    calls = (ToolCall("h1", "helper", {"task": "one"}), ToolCall("h2", "helper", {"task": "two"}))
    return Agent(Model(*calls), tools=[helper.as_tool()], name="chief")


def approving() -> Agent[Any, str]:
    inner = Agent(Model(*asks("order", "lamp")), tools=[order], name="buyer")
    return Agent(Model(ToolCall("b", "buyer", {"task": "buy"})), tools=[inner.as_tool()])


def handing_over() -> Agent[Any, str]:
    other = Agent(Model(*asks("stock", "lamp")), tools=[stock], name="other")
    return Agent(Model(ToolCall("h", "transfer_to_other", {})), handoffs=[other], name="first")


@tool(name="stock")
async def stock_of_room(item: str, room: str = "hall") -> str:
    """How many there are in a room."""
    touch("tools")
    return f"{room} {item}"


def same_name() -> Agent[Any, str]:
    """Two agents whose tools have one name."""
    helper = Agent(Model(*asks("stock", "bed")), tools=[stock_of_room], name="helper")
    calls = (*asks("stock", "lamp"), ToolCall("h1", "helper", {"task": "one"}))
    return Agent(Model(*calls), tools=[stock, helper.as_tool()])


def coding() -> Agent[Any, str]:
    calls = ", ".join(f"stock(item='{item}')" for item in ("lamp", "bed", "chair", "desk"))
    code = f"import asyncio\nfound = await asyncio.gather({calls})\n' '.join(found) + await order(item='bed')"
    return Agent(Model(ToolCall("c", "run_code", {"code": code})), capabilities=[CodeMode([stock, order])])


def delegating() -> Agent[Any, str]:
    buyer = Agent(Model(*asks("order", "lamp")), tools=[order], name="buyer")
    calls = (
        ToolCall("d", "delegate", {"agent": "buyer", "task": "buy"}),
        ToolCall("w", "write_file", {"path": "notes.md", "text": "bought"}),
    )
    return deep_agent(Model(*calls), subagents={"buyer": buyer})


@tool
async def odd_letters(item: str) -> str:
    """Letters that end a line, for some readers of lines."""
    touch("tools")
    return f"{item}\u2028b\u2029c\x85d\x1ce\x0bf\r\ng"


def odd() -> Agent[Any, str]:
    return Agent(Model(*asks("odd_letters", "a\u2028b")), tools=[odd_letters])


@tool
async def survey(ctx: ToolContext) -> str:
    """Two agents look, one after the other; their calls have the same ids."""
    reader = Agent(Model(*asks("stock", "lamp")), tools=[stock], name="reader")
    helper = Agent(Model(*asks("stock", "bed")), tools=[stock], name="helper")
    chief = Agent(Model(ToolCall("c0", "helper", {"task": "beds"})), tools=[helper.as_tool()], name="chief")
    first = await reader.run("Look at the lamps.", parent=ctx)
    second = await chief.run("Look at the beds.", parent=ctx)
    return f"{first.output} {second.output}"


@tool(name="stock")
async def estimated_stock(ctx: ToolContext, item: str) -> str:
    """An agent estimates how many there are."""
    return (await Agent(Model(), name="estimator").run(f"How many {item}?", parent=ctx)).output


@tool
async def compare(ctx: ToolContext) -> str:
    """Two agents make equal calls, of two tools with one name."""
    counting = Agent(Model(*asks("stock", "lamp")), tools=[stock], name="counting")
    estimating = Agent(Model(*asks("stock", "lamp")), tools=[estimated_stock], name="estimating")
    runs = [await agent.run("How many lamps?", parent=ctx) for agent in (estimating, counting)]
    return " ".join(run.output for run in runs)


def comparing() -> Agent[Any, str]:
    return Agent(Model(ToolCall("c", "compare", {})), tools=[compare])


def surveying() -> Agent[Any, str]:
    return Agent(Model(ToolCall("c", "survey", {})), tools=[survey])


def failing() -> Agent[Any, str]:
    return Agent(Model(fault=LlmTransportError("busy", retryable=True)))


class AsleepError(Exception):
    """An error of a user's own model."""


def asleep() -> Agent[Any, str]:
    return Agent(Model(fault=AsleepError("not yet")), policy=Recovery({AsleepError: Reprompt(N(1))}))


async def ask(agent: Agent[Any, str]) -> str:
    return (await agent.run("What is there?")).output


async def ask_with_separators(agent: Agent[Any, str]) -> str:
    return (await agent.run("What is\u2028there,\x85and\x0chere?")).output


async def ask_three(agent: Agent[Any, str]) -> str:
    results = await asyncio.gather(*(agent.run(f"What is in room {room}?") for room in range(3)))
    return " ".join(result.output for result in results)


async def approve(agent: Agent[Any, str], decision: Any = Approve()) -> str:  # noqa: B008  # a value
    try:
        await agent.run("Buy it.")
    except RunInterruptedError as stopped:
        outcome: Interrupted[str] = stopped.outcome
        decisions = {item.token: decision for item in outcome.pending}
        return (await agent.resume(outcome, decisions)).output
    raise AssertionError("nobody was asked")


async def ask_with_an_id(agent: Agent[Any, str]) -> str:
    return (await agent.run("What is there?", run_id="order-7")).output


async def ask_twice(agent: Agent[Any, str]) -> str:
    return await ask_with_an_id(agent) + await ask_with_an_id(agent)


async def stream(agent: Agent[Any, str]) -> str:
    async with agent.stream("What is there?") as run:
        pieces = [event.text async for event in run if event.kind == "text_delta"]  # type: ignore[union-attr]
    return "".join(pieces) and run.result.output


async def in_a_graph(agent: Agent[Any, str]) -> str:
    builder: Any = GraphBuilder(dict)
    graph = builder.add_node("look", agent).set_entry("look").build()
    state = await graph.invoke({"input": "What is there?"})
    return str(state["output"])


Make = Callable[[], Agent[Any, str]]
Use = Callable[[Agent[Any, str]], Any]
KEPT = Path(__file__).parent / "kept_cassettes"
WAYS: dict[str, tuple[Make, Use]] = {
    "calls-side-by-side": (plain, ask),
    "separators-of-lines-in-a-text": (plain, ask_with_separators),
    "runs-side-by-side": (plain, ask_three),
    "agents-inside": (nested, ask),
    "two-agents-inside-one-call": (surveying, ask),
    "equal-calls-of-two-tools-of-one-name": (comparing, ask),
    "a-run-with-an-id-of-its-own": (nested, ask_with_an_id),
    "two-runs-with-one-id": (plain, ask_twice),
    "an-approval-at-depth": (approving, approve),
    "a-provider-that-fails-first": (failing, ask),
    "an-error-of-the-users-model": (asleep, ask),
    "a-stream": (plain, stream),
    "an-agent-in-a-graph": (nested, in_a_graph),
    "a-handoff": (handing_over, ask),
    "two-tools-of-one-name": (same_name, ask),
    "an-approval-in-a-program": (coding, approve),
    "an-approval-of-a-subagent": (delegating, approve),
    "letters-that-end-a-line-elsewhere": (odd, ask),
}


def use(path: Path, mode: Mode, make: Make, using: Use) -> tuple[Any, Cassette]:
    cassette = Cassette(path, mode)
    LIVE.update(is_allowed=mode != "replay", models=0, tools=0)
    try:
        with installed(cassette):
            result = asyncio.run(using(cassette.agent(make())))
    finally:
        LIVE["is_allowed"] = True
    cassette.save()
    return result, cassette


@pytest.mark.parametrize("way", WAYS)
def test_it_replays_without_model_and_tools_and_records_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    make, using = WAYS[way]
    first = tmp_path / "first.jsonl"
    recorded, _ = use(first, "record", make, using)
    expected.check(KEPT / f"{way}.jsonl", first.read_text(encoding="utf-8"))
    replayed, _ = use(first, "replay", make, using)
    assert replayed == recorded.replace("sk-proj-abcdefghijklmnopqrstuvwxyz0123", "[redacted:openai-key]")
    assert b"sk-proj" not in first.read_bytes()
    assert all(run.start for run in read_cassette(first))
    monkeypatch.setitem(LIVE, "is_allowed", False)
    for path, run in read_runs(first):
        assert asyncio.run(drift_of(make(), path, run)).message == ""


async def test_tools_of_an_mcp_server_are_not_called_in_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"

    async def ask_with(tools: Any, mode: Mode) -> tuple[str, bytes]:
        cassette = Cassette(path, mode)
        with installed(cassette):
            agent = Agent(Model(ToolCall("c", "fine", {"text": "?"})), tools=tools)
            answer = await approve(cassette.agent(agent))
        cassette.save()
        return answer, path.read_bytes()

    async with raw("text") as server:
        tools = server.tools
        recorded = await ask_with(tools, "record")
        assert await ask_with(tools, "record") == recorded, "the same bytes"
    assert "hello" in recorded[0]
    assert await ask_with(tools, "replay") == recorded, "the server is gone"


def changed() -> Agent[Any, str]:
    return Agent(Model(*asks("stock", "lamp", "chair", "ghost")), tools=[stock], instructions="Be brief.")


@tool(name="stock")
async def another_stock(item: str, room: str = "") -> str:
    """How many there are, in a room."""
    touch("tools")
    return "none"


def with_another_tool() -> Agent[Any, str]:
    model = Model(*asks("stock", "lamp", "chair", "ghost"))
    return Agent(model, tools=[another_stock], instructions="Be kind.")


async def approve_another(agent: Agent[Any, str]) -> str:
    return await approve(agent, ApproveWith({"item": "desk"}))


def buying() -> Agent[Any, str]:
    return Agent(Model(*asks("order", "lamp")), tools=[order])


ASKED = (plain, ask)
BOUGHT = (buying, approve)


@pytest.mark.parametrize(
    ("recorded", "now", "says", "asked"),
    [
        pytest.param(ASKED, (changed, ask), "message 1 .* expected .*Be kind.* got .*Be brief", 2, id="instructions"),
        pytest.param(ASKED, (with_another_tool, ask), "the tool 'stock' has changed", 2, id="a-tool"),
        pytest.param(ASKED, (plain, ask_twice), "called more often than in the cassette", 2, id="once-more"),
        pytest.param(BOUGHT, (buying, approve_another), "the call 'order' with .*desk.* is not in", 1, id="a-call"),
    ],
)  # fmt: skip
def test_a_difference_is_refused_by_name_and_drift_goes_on_live(
    tmp_path: Path, recorded: Any, now: Any, says: str, asked: int
) -> None:
    path = tmp_path / "kept.jsonl"
    use(path, "record", *recorded)
    before = path.read_bytes()
    with pytest.raises(ReplayMismatchError, match=says):
        use(path, "replay", *now)
    result, cassette = use(path, "drift", *now)
    assert result.startswith("It is")
    assert LIVE["models"] == asked
    assert len(cassette.differences) == 1
    assert path.read_bytes() == before, "drift writes nothing"


def test_drift_of_an_unchanged_agent_asks_nobody(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    use(path, "record", plain, ask)
    _, cassette = use(path, "drift", plain, ask)
    assert (cassette.differences, LIVE["models"], LIVE["tools"]) == ([], 0, 0)


def test_auto_records_what_is_missing_and_replays_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    use(path, "auto", plain, ask)
    assert LIVE["models"] == 2
    use(path, "auto", plain, ask)
    assert LIVE["models"] == 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not a cassette"),
        ('{"task": 1}\n', "is not a cassette"),
        ('{"kind":"cassette","version":2}\n', "reads 1"),
    ],
)
def test_a_file_that_is_no_cassette_of_ours_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(CodecError, match=says):
        use(path, "replay", plain, ask)
    with pytest.raises(ConfigError, match="takes an Agent, got 3"):
        Cassette(path).agent(3)  # type: ignore[type-var]


def test_spans_and_a_cassette_go_together(tmp_path: Path) -> None:
    spans = Spans()
    for mode in ("record", "replay"):
        live = instrument(tracer_provider=spans.provider)
        try:
            use(tmp_path / "kept.jsonl", mode, plain, ask)
        finally:
            live.close()
        names = [span.name for span in spans.exporter.get_finished_spans()]
        assert (names.count("chat real"), names.count("execute_tool stock")) == (2, 3), names
        spans.exporter.clear()


def test_a_missing_cassette_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no cassette .*missing\.jsonl.*--wesichain=record"):
        use(tmp_path / "missing.jsonl", "replay", plain, ask)


@pytest.mark.sampled
def test_random_trees_are_replayed_from_their_cassettes(tmp_path: Path) -> None:
    async def to_the_end(agent: Agent[Any, str]) -> Any:
        outcome = await agent.outcome("the question")
        while isinstance(outcome, Interrupted):
            decisions = {item.token: trees.decide(item) for item in outcome.pending}
            try:
                outcome = (await agent.resume(outcome, decisions)).outcome
            except RunInterruptedError as stopped:
                outcome = stopped.outcome
        return getattr(outcome, "text", outcome)

    for seed in sampled(range(12), 2):
        make = partial(trees.build, trees.tree_of(seed))
        path = tmp_path / f"{seed}.jsonl"
        with trees.over(trees.World()):
            recorded, _ = use(path, "record", make, to_the_end)
        with trees.over(trees.World()) as _:
            replayed, _ = use(path, "replay", make, to_the_end)
            assert replayed == recorded, f"tree {seed}"
            assert not trees.WORLD.effects, f"tree {seed} ran tools"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("test_it", "test_it.jsonl"),
        ("test_it[eur-2.5]", "test_it[eur-2.5].jsonl"),
        ("test_it[a/b:c]", "test_it-a-b-c-~1375d20309bbbeace57d8e70.jsonl"),
        ("Desk.test_it", "desk-test_it~95d94692b9326dd083131190.jsonl"),
    ],
)
def test_the_name_of_a_file(name: str, file: str) -> None:
    assert cassette_path(Path("tests/test_desk.py"), name) == Path("tests/cassettes/test_desk") / file


def test_names_that_differ_in_their_case_alone_have_files_of_their_own() -> None:
    """Also where the file system takes them for one, and whichever is recorded first."""
    names = {cassette_path(Path("t.py"), name).name.casefold() for name in ("test_it[A]", "test_it[a]")}
    assert len(names) == 2


# --- the plugin ------------------------------------------------------------------------------------------

PROJECT = """
import os

import pytest
from wesichain import Agent, LlmResponse, Role, ToolCall, tool


class Model:
    model = "real"

    async def complete(self, request):
        assert "OFFLINE" not in os.environ, "the model was asked"
        if any(message.role is Role.TOOL for message in request.messages):
            return LlmResponse("There are 3 lamps.")
        return LlmResponse("", (ToolCall("c", "stock", {"item": "lamp"}),), finish_reason="tool_calls")


@tool
def stock(item: str) -> int:
    "How many there are."
    assert "OFFLINE" not in os.environ, "the tool was run"
    return 3


def test_lamps(cassette):
    agent = cassette.agent(Agent(Model(), tools=[stock], instructions=os.environ.get("TOLD", "Be kind.")))
    assert agent.run_sync("How many lamps?").output == "There are 3 lamps."


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize("room", ["a", "b"])
async def test_rooms(cassette, room):
    agent = cassette.agent(Agent(Model(), tools=[stock]))
    assert (await agent.run(f"How many lamps in {room}?")).output == "There are 3 lamps."
"""


def pytest_in(folder: Path, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    known = any(one.name == "wesichain" for one in entry_points(group="pytest11"))
    named = () if known else ("-p", "wesichain.testing.plugin")
    return subprocess.run(
        [*python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", *named, *args],
        cwd=folder,
        env={"PATH": "", "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_plugin_in_a_project_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_desk.py").write_text(PROJECT, encoding="utf-8")
    folder = tmp_path / "cassettes" / "test_desk"
    done = pytest_in(tmp_path)
    assert done.returncode == 1
    assert "there is no cassette" in done.stdout
    assert not folder.exists()
    assert pytest_in(tmp_path, "--wesichain=record").returncode == 0
    assert {path.name for path in folder.iterdir()} == {
        "test_lamps.jsonl",
        "test_rooms[a].jsonl",
        "test_rooms[b].jsonl",
    }
    done = pytest_in(tmp_path, OFFLINE="1")
    assert done.returncode == 0, done.stdout
    done = pytest_in(tmp_path, "--wesichain=drift", "-n", "1", TOLD="Be brief.")
    assert done.returncode == 0, done.stdout
    assert "drift of agents" in done.stdout
    assert done.stdout.count("message 1 of the request differs") == 1
