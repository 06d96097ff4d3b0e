"""The agent's face: ten lines from import to answer, and never a silent half answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.agent.kit import ADD, add, boom, call, check_events, echo, kinds, say
from wesichain.agent import Agent, Approve, Completed, Conversation, Failed, Interrupted, Outcome, Source
from wesichain.agent.internal import resolve_model
from wesichain.core import (
    Citation,
    CompletionLlm,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    Strategy,
    TextDelta,
    ToolCallingLlm,
    from_json,
    to_json,
)
from wesichain.core.events import AdviceShown
from wesichain.errors import CodecError, ConfigError, RunFailedError, RunInterruptedError
from wesichain.policy import Budget, FailFast
from wesichain.testing import FunctionLlm, ScriptedLlm, StreamingScriptedLlm
from wesichain.tools import tool


def test_a_run_gives_a_typed_result() -> None:
    result = Agent(ScriptedLlm([say(ADD), "3"]), tools=[add]).run_sync("what is 1 + 2?")
    assert result.output == "3"
    assert result.sources == (Source("add", {"a": 1, "b": 2}, 3),)
    assert result.new_messages[0] == Message(Role.USER, "what is 1 + 2?")
    assert [type(step).__name__ for step in result.steps] == ["Action", "Observation", "FinalAnswer"]
    assert result.usage.total_tokens == 5
    assert result.citations == ()
    check_events(result.events)
    source = Citation("it is", url="https://example.org")
    cited = LlmResponse("3", citations=(source,))
    assert Agent(ScriptedLlm([cited])).run_sync("q").citations == (source,)


def test_a_run_that_fails_raises_with_the_outcome() -> None:
    with pytest.raises(RunFailedError, match="step 1") as caught:
        Agent(ScriptedLlm([say(call("boom"))]), tools=[boom], policy=FailFast()).run_sync("q")
    assert caught.value.outcome.error is caught.value.__cause__
    assert caught.value.outcome.steps


async def test_a_run_that_waits_raises_and_can_be_resumed() -> None:
    @tool(approval=True)
    async def pay() -> str:
        """Pay."""
        return "paid"

    agent = Agent(ScriptedLlm([say(call("pay")), "done"]), tools=[pay])
    with pytest.raises(RunInterruptedError, match="pay") as caught:
        await agent.run("q")
    outcome = caught.value.outcome
    assert isinstance(outcome, Interrupted)
    assert (await agent.resume(outcome, {outcome.pending[0].token: Approve()})).output == "done"


async def test_run_sync_inside_a_loop_is_a_clear_error() -> None:
    with pytest.raises(ConfigError, match=r"await agent\.run"):
        Agent(ScriptedLlm(["x"])).run_sync("q")


def test_run_sync_works_again_and_again() -> None:
    agent = Agent(FunctionLlm(lambda _: "x"))
    assert [agent.run_sync("q").output for _ in range(3)] == ["x"] * 3


@pytest.mark.parametrize(
    ("instructions", "shown"),
    [
        pytest.param("be brief", "be brief", id="a-text"),
        pytest.param(lambda: "from a function", "from a function", id="a-function"),
        pytest.param(lambda task: f"about {task}", "about q", id="a-function-of-the-task"),
        pytest.param(lambda *, loud=False: f"loud: {loud}", "loud: False", id="a-function-with-options"),
        pytest.param(
            lambda ctx: f"cancelled: {ctx.cancellation.cancelled}",
            "cancelled: False",
            id="a-function-of-the-context",
        ),
        pytest.param(lambda: None, None, id="a-function-with-nothing-to-say"),
        pytest.param(None, None, id="none"),
    ],
)
def test_instructions(instructions: Any, shown: str | None) -> None:
    llm = ScriptedLlm(["x"])
    Agent(llm, instructions=instructions).run_sync("q")
    system = [message.content for message in llm.requests[0].messages if message.role is Role.SYSTEM]
    assert system == ([] if shown is None else [shown])


def test_instructions_are_text() -> None:
    number: Any = lambda: 5  # noqa: E731  # as it slips past a type checker
    with pytest.raises(ConfigError, match="the instructions function returned 5"):
        Agent(ScriptedLlm(["x"]), instructions=number).run_sync("q")


def test_instructions_may_be_async_and_are_made_for_every_run() -> None:
    count = iter(range(9))

    async def make(task: str) -> str:
        return f"{next(count)} {task}"

    llm = ScriptedLlm(["x", "y"])
    agent = Agent(llm, instructions=make)
    agent.run_sync("a")
    agent.run_sync("b")
    assert [request.messages[0].content for request in llm.requests] == ["0 a", "1 b"]


def test_history_goes_in_and_comes_out() -> None:
    llm = ScriptedLlm([say(ADD), "3", "still 3"])
    agent = Agent(llm, tools=[add], instructions="sys")
    first = agent.run_sync("1 + 2?")
    second = agent.run_sync("and now?", history=first.new_messages)
    assert [message.role for message in llm.requests[2].messages] == [
        Role.SYSTEM,
        Role.USER,
        Role.ASSISTANT,
        Role.TOOL,
        Role.ASSISTANT,
        Role.USER,
    ]
    assert [message.content for message in second.new_messages] == ["and now?", "still 3"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        pytest.param({"tools": add}, "given as a list", id="one-tool-for-a-list"),
        pytest.param({"tools": None}, "given as a list", id="no-list-of-tools"),
        pytest.param({"tools": [Agent(ScriptedLlm([]))]}, r"pass its as_tool\(\)", id="an-agent-for-a-tool"),
        pytest.param({"budget": 5}, r"Budget\(steps=5\)", id="a-number-for-a-budget"),
        pytest.param({"instructions": 5}, "use text, or a function", id="a-number-for-instructions"),
        pytest.param({"tool_concurrency": "2"}, "1 or more", id="a-text-for-a-number"),
        pytest.param({"loop_guard": True}, "LoopGuard", id="a-bool-for-a-guard"),
        pytest.param({"events": print}, "is not an event sink", id="a-function-for-a-sink"),
        pytest.param({"events": [5]}, "is not an event sink", id="a-number-among-the-sinks"),
    ],
)
def test_a_wrong_option_is_told_when_the_agent_is_made(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Agent(ScriptedLlm([]), **options)


def test_a_class_is_not_a_model() -> None:
    with pytest.raises(ConfigError, match="the class ScriptedLlm is not a model"):
        Agent(ScriptedLlm)  # type: ignore[call-overload]  # the point of the test


class TestConversation:
    @pytest.mark.parametrize("max_tokens", [-1, "x", 1.5])
    def test_its_window_has_a_size(self, max_tokens: Any) -> None:
        with pytest.raises(ConfigError, match="use 0 or more"):
            Conversation(max_tokens)

    def test_it_remembers_questions_and_answers_and_no_reasoning(self) -> None:
        llm = ScriptedLlm([say(ADD, content="thinking"), "3", "yes"])
        agent = Agent(llm, tools=[add])
        memory = Conversation()
        agent.run_sync("1 + 2?", conversation=memory)
        agent.run_sync("sure?", conversation=memory)
        assert [message.content for message in llm.requests[2].messages] == ["1 + 2?", "3", "sure?"]
        assert len(memory.messages) == 4

    def test_a_failed_run_leaves_no_trace_in_it(self) -> None:
        memory = Conversation()
        with pytest.raises(RunFailedError):
            Agent(ScriptedLlm([])).run_sync("q", conversation=memory)
        assert memory.messages == ()

    async def test_a_turn_with_a_key_is_added_once_until_it_is_cleared(self) -> None:
        memory, turn = Conversation(), (Message(Role.USER, "hi"), Message(Role.ASSISTANT, "hello"))
        added = [await memory.extend_once(key, *turn) for key in ("r1", "r1", "r2")]
        assert added == [True, False, True]
        assert memory.messages == turn * 2
        memory.clear()
        assert await memory.extend_once("r1", *turn)

    def test_the_window_keeps_the_newest_that_fits_and_the_system_prompt(self) -> None:
        memory = Conversation(max_tokens=10, count_tokens=len)
        memory.add(
            Message(Role.SYSTEM, "sy"),
            Message(Role.USER, "aaaaaa"),
            Message(Role.USER, "bbbb"),
            Message(Role.USER, "cccc"),
        )
        assert [message.content for message in memory.window()] == ["sy", "bbbb", "cccc"]

    def test_a_call_is_not_parted_from_its_result(self) -> None:
        memory = Conversation(max_tokens=15, count_tokens=len)
        memory.add(
            Message(Role.ASSISTANT, "call", tool_calls=(call("f", id="1"),)),
            Message(Role.TOOL, "rrrr", "1"),
            Message(Role.USER, "uuuu"),
        )
        assert [message.content for message in memory.window()] == ["call", "rrrr", "uuuu"]
        memory.add(Message(Role.USER, "vvvv"))
        assert [message.content for message in memory.window()] == ["uuuu", "vvvv"]

    def test_nothing_older_slips_in_behind_what_did_not_fit(self) -> None:
        memory = Conversation(max_tokens=5, count_tokens=len)
        memory.add(Message(Role.USER, "a"), Message(Role.USER, "bbbbbbbb"), Message(Role.USER, "c"))
        assert [message.content for message in memory.window()] == ["c"]


class TestStream:
    async def test_it_yields_the_events_and_ends_with_the_result_of_a_plain_run(self) -> None:
        script: list[Any] = [say(ADD, content="let me see"), "the answer is 3"]
        agent = Agent(StreamingScriptedLlm(script), tools=[add])
        async with agent.stream("q") as run:
            events = [event async for event in run]
        plain = await Agent(ScriptedLlm(script), tools=[add]).run("q")
        assert run.result.output == plain.output
        assert list(run.result.steps) == list(plain.steps)
        assert [kind for kind in kinds(events) if kind != "TextDelta"] == kinds(plain.events)
        text = "".join(event.text for event in events if isinstance(event, TextDelta) and event.step_id == 2)
        assert text == "the answer is 3"
        check_events(events)

    async def test_a_model_that_cannot_stream_gives_its_text_in_one_piece(self) -> None:
        async with Agent(ScriptedLlm(["whole"])).stream("q") as run:
            deltas = [event.text async for event in run if isinstance(event, TextDelta)]
        assert deltas == ["whole"]

    async def test_leaving_early_stops_the_run(self) -> None:
        started = asyncio.Event()

        async def hang(_: LlmRequest) -> str:
            started.set()
            await asyncio.sleep(60)
            return "late"

        async with Agent(FunctionLlm(hang)).stream("q") as run:
            async for _ in run:
                break
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(ConfigError, match="stopped"):
            _ = run.result

    async def test_the_result_is_not_there_before_the_end(self) -> None:
        async with Agent(ScriptedLlm(["x"])).stream("q") as run:
            with pytest.raises(ConfigError, match="not ended"):
                _ = run.result

    async def test_it_can_be_read_again_and_has_nothing_more(self) -> None:
        async with Agent(ScriptedLlm(["x"])).stream("q") as run:
            assert [event async for event in run]
            assert [event async for event in run] == []
        assert run.result.output == "x"

    async def test_it_is_a_context_manager(self) -> None:
        with pytest.raises(ConfigError, match="async with"):
            async for _ in Agent(ScriptedLlm(["x"])).stream("q"):
                pass
        with pytest.raises(ConfigError, match="async with"):
            _ = Agent(ScriptedLlm(["x"])).iterate("q").phase


class TestNested:
    def test_it_is_run_once_unless_it_is_declared_otherwise(self) -> None:
        assert Agent(ScriptedLlm([]), tools=[add]).as_tool().effect == "once"
        assert Agent(ScriptedLlm([]), tools=[add]).as_tool(effect="idempotent").effect == "idempotent"


@pytest.mark.parametrize(
    ("replies", "budget"),
    [
        pytest.param([say(ADD), "3"], Budget(), id="completed"),
        pytest.param([say(ADD), "3"], Budget(steps=1), id="out-of-budget"),
        pytest.param([say(call("nothing", {}))], Budget(), id="failed"),
        pytest.param([], Budget(), id="no-model"),
    ],
)
async def test_an_outcome_is_read_as_it_was_written(replies: list[Any], budget: Budget) -> None:
    outcome = await Agent(ScriptedLlm(replies), tools=[add], budget=budget).outcome("1 + 2?")
    text = to_json(outcome)
    read: Outcome[str] = from_json(Completed[str] | Failed[str] | Interrupted[str], text)
    assert type(read) is type(outcome)
    assert to_json(read) == text
    assert (read.messages, read.steps, read.usage) == (outcome.messages, outcome.steps, outcome.usage)
    assert read.last_seq == outcome.last_seq
    if isinstance(outcome, Failed) and isinstance(read, Failed):
        assert type(read.error) is type(outcome.error)
        assert str(read.error) == str(outcome.error)
    for other in {Completed, Failed, Interrupted} - {type(outcome)}:
        with pytest.raises(CodecError, match="kind"):
            from_json(other, text)


async def test_a_prompt_can_be_asked_for_without_a_run() -> None:
    async def instructions(task: str) -> str:
        return f"Think about {task!r}."

    asked = Agent(ScriptedLlm([]), instructions=instructions)
    assert await asked.prompt("x") == "Think about 'x'."
    assert asked.fixed_instructions is None
    fixed = Agent(ScriptedLlm([]), instructions="Be brief.")
    assert await fixed.prompt("x") == "Be brief."
    assert fixed.fixed_instructions == "Be brief."


async def test_the_same_agent_runs_many_times_at_once() -> None:
    async def answer(request: LlmRequest) -> Any:
        await asyncio.sleep(0)
        last = request.messages[-1]
        return last.content if last.role is Role.TOOL else say(call("echo", {"text": last.content}))

    agent = Agent(FunctionLlm(answer), tools=[echo])
    results = await asyncio.gather(*(agent.run(f"task {n}") for n in range(50)))
    assert [result.output for result in results] == [f"task {n}" for n in range(50)]
    assert len({result.outcome.run_id for result in results}) == 50


class TestPlaybook:
    class Book:
        def __init__(self, *strategies: Strategy) -> None:
            self.strategies = strategies
            self.asked: list[tuple[str, str, int]] = []

        def retrieve(self, task: str, *, domain: str, k: int = 3) -> Sequence[Strategy]:
            self.asked.append((task, domain, k))
            return self.strategies

    def test_advice_stands_below_the_instructions_and_in_the_log(self) -> None:
        book = self.Book(Strategy("1", "For sums, call add first.", tool_sequence=("add",)))
        llm = ScriptedLlm(["x"])
        agent = Agent(llm, tools=[add], instructions="Be exact.", playbook=book, domain="maths")
        result = agent.run_sync("1 + 2?")
        first, question = llm.requests[0].messages
        assert first.text.startswith("Be exact.\n\n")
        assert first.text.endswith("- For sums, call add first.")
        assert question.text == "1 + 2?"
        assert book.asked == [("1 + 2?", "maths", 3)]
        (shown,) = [event for event in result.events if isinstance(event, AdviceShown)]
        assert shown.ids == ("1",)

    def test_a_playbook_that_fails_fails_no_run(self) -> None:
        class Away:
            def retrieve(self, task: str, *, domain: str, k: int = 3) -> Sequence[Strategy]:
                raise ConnectionError("away")

        assert Agent(ScriptedLlm(["x"]), playbook=Away()).run_sync("q").output == "x"

    def test_advice_about_tools_that_are_not_here_is_not_shown(self) -> None:
        book = self.Book(Strategy("1", "Call subtract.", tool_sequence=("subtract",)))
        llm = ScriptedLlm(["x"])
        Agent(llm, tools=[add], playbook=book).run_sync("q")
        assert llm.requests[0].messages[-1].content == "q"


class TestModelNames:
    @pytest.mark.parametrize(
        "name", ["openai:gpt-x", "anthropic:claude-x", "ollama:llama3", "local:smollm2-135m"]
    )
    def test_a_name_is_a_model_without_a_key_or_a_network(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        assert isinstance(resolve_model(name), ToolCallingLlm)

    def test_a_plain_text_model_is_wrapped(self) -> None:
        class Plain(CompletionLlm):
            async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str:
                return "Thought: easy\nFinal Answer: 42"

        assert Agent(Plain()).run_sync("q").output == "42"
