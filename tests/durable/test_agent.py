"""The durable agent: runs by id, queues, approvals, cancels and refusals, each on a real file."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from tests.durable.looks import let_sleep
from tests.waiting import until
from tests.warm import python
from wesichain import Agent, Budget, ObserveErrors, Recovery, tool
from wesichain.agent import Approve, ApproveWith, Interrupted, Provide, Refuse
from wesichain.core import Event, LlmRequest, Message, Role, to_json
from wesichain.durable import DurableAgent, DurableRuns, RunState
from wesichain.errors import (
    CodecError,
    ConfigError,
    DurableError,
    LlmTransportError,
    RunFailedError,
    RunIdConflictError,
    RunInterruptedError,
)
from wesichain.policy import Interrupt, Retry
from wesichain.testing import FakeClock, FunctionLlm, ScriptedLlm, calls
from wesichain.tools import CancellationToken, JsonTool
from wesichain.trace import CollectingSink, Redactor


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


def turns(*replies: Any) -> FunctionLlm:
    """A model that goes by how often it has spoken, so that it says the same in every process."""

    def reply(request: LlmRequest) -> Any:
        return replies[sum(message.role is Role.ASSISTANT for message in request.messages)]

    return FunctionLlm(reply)


def adder(**options: Any) -> Agent[Any, str]:
    return Agent(turns(calls(("add", {"a": 1, "b": 2})), "three"), tools=[add], **options)


def deleter(**options: Any) -> Agent[Any, str]:
    asks = calls(("delete", {"path": "a"}), ("delete", {"path": "b"}))
    return Agent(turns(asks, "as you wish"), tools=[delete], **options)


@asynccontextmanager
async def served(durable: DurableAgent[Any]) -> AsyncIterator[DurableAgent[Any]]:
    """A worker in this process, for as long as it takes."""
    stop = CancellationToken()
    serving = asyncio.create_task(durable.serve(stop, grace=1.0))
    try:
        yield durable
    finally:
        stop.cancel()
        await serving


# --- runs by id --------------------------------------------------------------------------------------


async def test_an_id_that_exists_gives_its_result_again_and_asks_nobody(url: str) -> None:
    first = adder()
    async with DurableAgent(first, "adder", database_url=url) as durable:
        one = await durable.run("1 + 2?", run_id="r")
        asked = len(first.runtime.llm.requests)  # type: ignore[attr-defined]
        two = await durable.run("1 + 2?", run_id="r")
        assert len(first.runtime.llm.requests) == asked  # type: ignore[attr-defined]
    assert (two.output, two.events, two.messages) == (one.output, one.events, one.messages)
    other = DurableAgent(Agent(ScriptedLlm([]), tools=[add]), "adder", database_url=url)
    async with other:  # not even of the same program, once it has ended
        assert (await other.result("r")).events == one.events


async def test_an_id_with_other_input_is_a_conflict(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        await durable.run("1 + 2?", run_id="r")
        async with DurableAgent(adder(), "other", database_url=url) as other:
            for agent, task, history in (
                (durable, "2 + 2?", ()),
                (durable, "1 + 2?", (Message(Role.USER, "Hi."),)),
                (other, "1 + 2?", ()),
            ):
                with pytest.raises(RunIdConflictError, match="'r'"):
                    await agent.run(task, run_id="r", history=history)
                with pytest.raises(RunIdConflictError, match="'r'"):
                    await agent.enqueue(task, run_id="r", history=history)
            with pytest.raises(DurableError, match="a run of 'adder'"):
                await other.status("r")


@pytest.mark.parametrize("run_id", ["", "a/1", "../x", "a b", "x" * 129, "ü", "a\0b", "-x"])
async def test_an_id_that_could_be_something_else_is_refused(url: str, run_id: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        for ask in (durable.status, durable.cancel, durable.outcome, durable.pending):
            with pytest.raises(DurableError, match="not a run id"):
                await ask(run_id)
        for begin in (durable.run, durable.enqueue):
            with pytest.raises(DurableError, match="not a run id"):
                await begin("1 + 2?", run_id=run_id)


async def test_a_run_that_nobody_has_begun(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        for ask in (durable.status, durable.cancel, durable.outcome, durable.pending, durable.resume):
            with pytest.raises(DurableError, match="there is no run 'x'"):
                await ask("x")
        with pytest.raises(DurableError, match="there is no run 'x'"):
            await anext(durable.events("x"))


@pytest.mark.parametrize(
    "options",
    [
        *({"name": name} for name in ("a/b", "", "x" * 65)),
        *({"database_url": url} for url in ("mysql://x", "sqlite://", "sqlite:///:memory:", "runs.db")),
        {"concurrency": 0},
        {"lease": 0},
        {"max_step": 0},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DurableAgent(adder(), **options)


async def test_a_database_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to look like a broken one" * 20)
    (tmp_path / "folder").mkdir()
    for url in (
        "sqlite:///{}/text",
        "sqlite:///{}/folder",
        "sqlite:///{}/text/below",
        "postgresql://u:pw@127.0.0.1:9/x",
    ):
        async with DurableAgent(adder(), database_url=url.format(tmp_path)) as durable:
            with pytest.raises(DurableError, match="cannot be") as caught:
                await durable.status("r")
            assert "\n" not in str(caught.value)
            assert ":pw@" not in str(caught.value)


async def test_the_default_is_a_file_in_the_data_folder_for_its_owner_alone(home: Path) -> None:
    durable = DurableAgent(adder())
    assert not list(home.iterdir())  # made when it is used
    async with durable:
        await durable.run("1 + 2?")
        files = sorted(home.glob("durable.db*"))
        assert files[0].name == "durable.db"
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * len(files)
        with sqlite3.connect(files[0]) as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        db.close()


class Sum(BaseModel):
    """A typed answer."""

    value: int


async def test_a_typed_answer_comes_back_typed(url: str) -> None:
    agent = Agent(turns(calls(("final_answer", {"value": 3}))), output_type=Sum)
    async with DurableAgent(agent, "adder", database_url=url) as durable:
        assert (await durable.run("1 + 2?", run_id="r")).output == Sum(value=3)
        assert (await durable.result("r")).output == Sum(value=3)


# --- the queue ---------------------------------------------------------------------------------------


async def test_a_queued_run_waits_for_a_worker(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as client:
        run_id = await client.enqueue("1 + 2?")
        assert await client.enqueue("1 + 2?", run_id=run_id) == run_id
        assert await client.status(run_id) == RunState.PENDING
        with pytest.raises(TimeoutError):
            await client.result(run_id, timeout=0.3)
        async with served(DurableAgent(adder(), "adder", database_url=url)):
            assert (await client.result(run_id, timeout=30)).output == "three"
        assert await client.status(run_id) == RunState.COMPLETED


# --- approvals ---------------------------------------------------------------------------------------


async def test_arguments_that_do_not_fit_are_refused_without_the_program_and_below_it(url: str) -> None:
    def reply(request: LlmRequest) -> Any:
        done = any(message.role is Role.TOOL for message in request.messages)
        return "deleted" if done else calls(("deleter", {"task": "delete"}))

    agent = Agent(FunctionLlm(reply), tools=[deleter(name="deleter").as_tool()])
    async with DurableAgent(agent, "boss", database_url=url) as durable, DurableRuns(url) as operator:
        with pytest.raises(RunInterruptedError):
            await durable.run("delete", run_id="r")
        first, second = await operator.pending("r")
        assert first.scope
        for decide in (durable.approve, operator.approve):
            with pytest.raises(DurableError, match=r"do not fit.*path: is required"):
                await decide("r", first.token, ApproveWith({"nonsense": 1}))
        assert await operator.pending("r") == [first, second]
        await operator.approve("r", first.token, ApproveWith({"path": "c"}))
        await operator.approve("r", second.token, Approve())
        assert (await durable.result("r", timeout=30)).output == "deleted"


async def test_a_decision_is_checked_by_the_tool_of_the_agent_that_made_the_call(url: str) -> None:
    @tool(name="delete", approval=True)
    def delete_number(number: int) -> str:
        """Delete by number."""
        return f"deleted {number}"

    def reply(request: LlmRequest) -> Any:
        done = request.messages[-1].text.startswith("deleted")
        return "done" if done else calls(("delete", {"path": "a"}))

    other = Agent(FunctionLlm(reply), tools=[delete], name="deleter")
    hand_over = FunctionLlm(lambda _: calls(("transfer_to_deleter", {})))
    first: Agent[Any] = Agent(hand_over, tools=[delete_number], handoffs=[other])
    async with DurableAgent(first, "team", database_url=url) as durable:
        with pytest.raises(RunInterruptedError):
            await durable.run("delete", run_id="r")
        (waiting,) = await durable.pending("r")
        with pytest.raises(DurableError, match="do not fit"):
            await durable.approve("r", waiting.token, ApproveWith({"number": 1}))
        assert await durable.pending("r") == [waiting]
        await durable.approve("r", waiting.token, ApproveWith({"path": "c"}))
        assert (await durable.result("r", timeout=30)).output == "done"


async def test_decisions_that_are_made_together_are_all_kept_or_none(url: str) -> None:
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        with pytest.raises(RunInterruptedError):
            await durable.run("delete", run_id="r")
        first, second = await durable.pending("r")
        for wrong in (ApproveWith({"nonsense": 1}), Provide("x")):
            with pytest.raises(DurableError):
                await durable.decide("r", {first.token: Approve(), second.token: wrong})
        with pytest.raises(DurableError, match="waits for the token"):
            await durable.decide("r", {first.token: Approve(), "f" * 32: Approve()})
        with pytest.raises(DurableError, match=f"waits for the token '{'f' * 64}'$"):  # the rest is cut
            await durable.decide("r", {"f" * 65: Approve()})
        assert await durable.pending("r") == [first, second]
        await durable.decide("r", {first.token: Approve(), second.token: Refuse("no")})
        assert (await durable.result("r", timeout=30)).output == "as you wish"


async def test_a_run_has_external_tools_of_its_own_wherever_it_goes_on(url: str) -> None:
    def reply(request: LlmRequest) -> Any:
        results = [message.text for message in request.messages if message.role is Role.TOOL]
        names = ",".join(tool.name for tool in request.tools)
        return f"{names}: {results[0]}" if results else calls(("paint", {"colour": "red"}))

    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    paint = JsonTool("paint", "Paint the page.", schema, external=True)
    here = JsonTool("here", "Run here.", schema, lambda args: args)
    program = Agent(FunctionLlm(reply), name="painter")
    async with DurableAgent(program, database_url=url) as durable:
        with pytest.raises(ConfigError, match="external"):
            await durable.run("paint", tools=[here])
        with pytest.raises(RunInterruptedError):
            await durable.run("paint", run_id="r", tools=[paint])
        with pytest.raises(RunIdConflictError):
            await durable.run("paint", run_id="r")
    async with DurableAgent(program, database_url=url) as another:
        (item,) = await another.pending("r")
        assert (item.external, item.call.args) == (True, {"colour": "red"})
        await another.approve("r", item.token, Provide("painted"))
        assert (await another.resume("r")).output == "paint: painted"


async def test_a_run_that_its_policy_halted_can_be_resumed(url: str) -> None:
    is_well = False

    def reply(_: LlmRequest) -> Any:
        return "well" if is_well else LlmTransportError("ill")

    agent = Agent(FunctionLlm(reply), policy=Recovery({LlmTransportError: Interrupt()}))
    async with DurableAgent(agent, "agent", database_url=url) as durable:
        with pytest.raises(RunInterruptedError, match="ill"):
            await durable.run("hi", run_id="r")
        assert await durable.status("r") == RunState.INTERRUPTED
        assert await durable.pending("r") == []
        with pytest.raises(RunInterruptedError):
            await durable.run("hi", run_id="r")
        is_well = True
        assert (await durable.resume("r")).output == "well"
        assert (await durable.run("hi", run_id="r")).output == "well"


class QuotaError(Exception):
    """An error of a user's own client."""


@pytest.mark.parametrize("kind", [LlmTransportError, QuotaError])
async def test_a_run_that_waits_to_retry_is_retried_by_the_next_process(
    url: str, kind: type[Exception]
) -> None:
    sink, is_well = CollectingSink(), False

    def reply(_: LlmRequest) -> Any:
        if is_well:
            return "well"
        raise kind("ill")

    def process(delay: float) -> DurableAgent[str]:
        agent = Agent(FunctionLlm(reply), policy=Recovery({kind: Retry(delay=delay)}))
        return DurableAgent(agent, "agent", database_url=url, lease=1.0, events=sink)

    async with process(3600.0) as first:
        await first.enqueue("hi", run_id="r")
        stop = CancellationToken()
        serving = asyncio.create_task(first.serve(stop, grace=0.0))
        await until(lambda: any(event.kind == "step_failed" for event in sink.events))
        stop.cancel()
        await serving
    is_well = True
    async with process(0.0) as second:
        assert (await second.run("hi", run_id="r")).output == "well"


async def test_a_run_that_fails_here_raises_from_the_error_of_its_model(url: str) -> None:
    mine = ConnectionError("ill")

    def reply(_: LlmRequest) -> Any:
        raise mine

    async with DurableAgent(Agent(FunctionLlm(reply)), "agent", database_url=url) as durable:
        with pytest.raises(RunFailedError) as caught:
            await durable.run("hi", run_id="r")
        assert caught.value.__cause__ is not None
        assert caught.value.__cause__.__cause__ is mine, "with the traceback of the model's client"


# --- cancels -----------------------------------------------------------------------------------------


class Slow:
    """A model and a tool, one of which never ends, and says when it was begun and given up."""

    def __init__(self, phase: str) -> None:
        self.phase = phase
        self.begun = asyncio.Event()
        self.given_up = 0

    async def stay(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.given_up += 1

    def agent(self) -> Agent[Any, str]:
        async def reply(request: LlmRequest) -> Any:
            turn = sum(message.role is Role.ASSISTANT for message in request.messages)
            if self.phase == f"model {turn}":
                await self.stay()
            if self.phase == "backoff":
                self.begun.set()
                raise LlmTransportError("busy", retryable=True)
            return [calls(("work", {})), "done"][turn]

        @tool(effect="once" if self.phase == "tool" else "idempotent", timeout=3600)
        async def work() -> str:
            """Work."""
            if self.phase == "tool":
                await self.stay()
            return "worked"

        policy = Recovery({LlmTransportError: Retry(delay=3600.0)})
        return Agent(FunctionLlm(reply), tools=[work], policy=policy)


PHASES = ["model 0", "tool", "model 1", "backoff"]
SOME = [("model 0", "here"), ("tool", "elsewhere"), ("backoff", "its-task")]
REST = [
    (phase, by) for phase in PHASES for by in ("here", "elsewhere", "its-task") if (phase, by) not in SOME
]


@pytest.mark.parametrize(
    ("phase", "by"), [*SOME, *(pytest.param(*pair, marks=pytest.mark.slow) for pair in REST)]
)
async def test_a_cancel_ends_a_run_in_any_phase_for_good(url: str, phase: str, by: str) -> None:
    slow, sink = Slow(phase), CollectingSink()
    async with DurableAgent(slow.agent(), "slow", database_url=url, events=sink, lease=1.0) as durable:
        running = asyncio.create_task(durable.run("work", run_id="r"))
        await slow.begun.wait()
        assert await durable.status("r") == RunState.RUNNING
        if by == "its-task":
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            async with DurableAgent(slow.agent(), "slow", database_url=url) as other:
                await (durable if by == "here" else other).cancel("r")
            with pytest.raises(RunInterruptedError, match="cancelled"):
                await asyncio.wait_for(running, 10)
        assert await durable.status("r") == RunState.CANCELLED
        assert sink.events[-1].kind == "run_interrupted"
        assert slow.given_up == (0 if phase == "backoff" else 1)
        outcome = await durable.outcome("r")
        assert isinstance(outcome, Interrupted)
    await settle()
    again = DurableAgent(slow.agent(), "slow", database_url=url, lease=0.2)
    async with served(again):  # a restart raises nobody
        await asyncio.sleep(0.5)
        assert await again.status("r") == RunState.CANCELLED


async def settle() -> None:
    """No task is left behind."""
    for _ in range(100):
        if len(asyncio.all_tasks()) == 1:
            return
        await asyncio.sleep(0.02)
    assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()


# --- what goes wrong ---------------------------------------------------------------------------------


async def cut_off(url: str, agent: Agent[Any], *, after: int) -> None:
    """Begin a run and lose its process after so many events, as far as that can be done inside one."""

    class Brake:
        def emit(self, event: Event) -> None:
            if event.seq == after:
                running.cancel()

    durable = DurableAgent(agent, "agent", database_url=url, events=Brake())
    running = asyncio.create_task(durable.run("1 + 2?", run_id="r"))
    with pytest.raises(asyncio.CancelledError):
        await running
    await durable.close()


async def test_a_missing_key_ends_the_run_until_it_is_there(url: str) -> None:
    is_there = False

    def reply(_: LlmRequest) -> str:
        if not is_there:
            raise ConfigError("there is no key: set OPENAI_API_KEY")
        return "hello"

    async with DurableAgent(Agent(FunctionLlm(reply)), "agent", database_url=url) as durable:
        with pytest.raises(DurableError, match="set OPENAI_API_KEY"):
            await durable.run("hi", run_id="r")
        assert await durable.status("r") == RunState.FAILED
        is_there = True
        assert (await durable.resume("r")).output == "hello"


async def test_the_output_of_a_step_has_a_limit(url: str) -> None:
    @tool(max_output=10_000_000)
    def flood() -> str:
        """A lot."""
        return "x" * 2000

    agent = Agent(turns(calls(("flood", {})), "dry"), tools=[flood], policy=ObserveErrors())
    async with DurableAgent(agent, "agent", database_url=url, max_step=1500) as durable:
        result = await durable.run("hi")
        assert result.output == "dry"
        assert "the limit is 1500" in result.messages[2].content
    loud = Agent(FunctionLlm(lambda _: "y" * 2000))
    async with DurableAgent(loud, "loud", database_url=url, max_step=1500) as durable:
        with pytest.raises(RunFailedError, match="the limit is 1500"):
            await durable.run("hi")


def test_a_program_that_forgets_to_close_ends_all_the_same(url: str) -> None:
    code = f"""
import asyncio, warnings
warnings.simplefilter("error")
from wesichain import Agent
from wesichain.durable import DurableAgent
from wesichain.testing import ScriptedLlm
durable = DurableAgent(Agent(ScriptedLlm(["hello", "again"])), database_url={url!r})
print(asyncio.run(durable.run("hi")).output, asyncio.run(durable.run("hi")).output)
"""
    command = [*python(), "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("hello again\n", "")


async def test_a_text_that_is_no_text_is_told_at_once(url: str) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        with pytest.raises(CodecError):
            await durable.run("\ud800")


async def test_a_pickle_in_the_database_is_not_loaded(url: str, tmp_path: Path) -> None:
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        await durable.run("1 + 2?", run_id="r")
        db = sqlite3.connect(tmp_path / "runs.db")
        with db:  # os.system("touch pwned"), as a pickle
            evil = "Y3Bvc2l4CnN5c3RlbQooUyd0b3VjaCBwd25lZCcKdFIu"
            db.execute("UPDATE workflow_output SET output = ?", (evil,))
            db.execute("UPDATE workflow_status SET serialization = 'py_pickle'")
        db.close()
        with pytest.raises(DurableError, match="cannot be read"):
            await durable.outcome("r")
        assert not Path("pwned").exists()
        with (
            closing(sqlite3.connect(tmp_path / "runs.db")) as db,
            db,
        ):  # nor is what only says that it is JSON
            db.execute("UPDATE workflow_status SET serialization = 'portable_json'")
        with pytest.raises(DurableError, match="cannot be read"):
            await durable.outcome("r")


async def test_what_is_in_the_environment_does_not_reach_the_database(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = "sk-canary-0123456789abcdef"
    monkeypatch.setenv("OPENAI_API_KEY", canary)
    async with DurableAgent(adder(), "adder", database_url=url) as durable:
        await durable.run("1 + 2?")
        assert all(canary.encode() not in file.read_bytes() for file in tmp_path.glob("runs.db*"))


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0], ids=["a-day-back", "a-day-ahead"])
async def test_a_clock_that_jumps_harms_nothing(url: str, jump: float) -> None:
    clock = FakeClock()

    @tool
    def shift() -> str:
        """Set the clock."""
        clock.jump(jump)
        return "set"

    agent = Agent(turns(calls(("shift", {})), "ok"), tools=[shift], budget=Budget(seconds=60.0))
    async with DurableAgent(agent, "agent", database_url=url, clock=clock) as durable:
        result = await durable.run("go")
    assert result.output == "ok"
    at = [event.at for event in result.events]
    assert at[-1] - at[0] == jump


async def test_a_model_that_returns_no_reply_is_named(url: str) -> None:
    class Odd:
        async def complete(self, _: LlmRequest) -> Any:
            return 5

    async with DurableAgent(Agent(cast("Any", Odd())), "odd", database_url=url) as durable:
        with pytest.raises(Exception, match="the model returned int, not a reply"):
            await durable.run("hi")


async def test_events_are_stored_as_the_redactor_of_the_agent_leaves_them(url: str) -> None:
    agent = Agent(
        FunctionLlm(lambda _: "call 555-0199"),
        redactor=Redactor(lambda text: text.replace("555-0199", "[phone]")),
    )
    async with DurableAgent(agent, "a", database_url=url) as durable:
        result = await durable.run("hi", run_id="r")
        assert result.output == "call 555-0199"
        told = "".join([to_json(event) async for event in durable.events("r")])
        assert "555-0199" not in told
        assert "run_completed" in told


@pytest.mark.parametrize("act", ["decide", "enqueue", "resume"])
async def test_what_continues_a_run_wakes_an_engine_that_waits(url: str, act: str) -> None:
    async with DurableAgent(deleter(), "deleter", database_url=url) as durable:
        with pytest.raises(RunInterruptedError):
            await durable.run("clean up", run_id="r")
        engine = durable._engine
        assert engine is not None
        if act == "resume":
            await durable.enqueue("clean up", run_id="other", delay=3600.0)
            await durable.cancel("other")
        await let_sleep(engine)
        async with asyncio.timeout(60):
            match act:
                case "decide":
                    decisions = {one.token: Approve() for one in await durable.pending("r")}
                    await durable.decide("r", decisions)
                    assert (await durable.result("r")).output == "as you wish"
                    with pytest.raises(DurableError, match="no call of the run 'r' waits for the token"):
                        await durable.decide("r", decisions)
                case "enqueue":
                    await durable.enqueue("clean up", run_id="other")
                    assert isinstance(await durable.outcome("other"), Interrupted)
                case _:
                    with pytest.raises(RunInterruptedError):
                        await durable.resume("other")
