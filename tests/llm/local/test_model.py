"""A real model: smollm2-135m, held by llama.cpp, asked as an agent asks it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import OUTSIDE, corpus, each_origin
from tests.draws import sampled
from wesichain import Agent, Budget
from wesichain.core import (
    CompletionLlm,
    LlmRequest,
    LlmResponse,
    Message,
    Role,
    StreamingLlm,
    TextChunk,
    ToolCall,
    ToolSpec,
)
from wesichain.core.internal import parse_json, traits_of
from wesichain.errors import ConfigError, LlmRejectedError, LlmTransportError
from wesichain.llm.local import LocalLlm, serve_local
from wesichain.llm.local.grammar import reply_grammar
from wesichain.llm.local.llama_engine import EngineSettings, LlamaEngine
from wesichain.llm.local.places import SharedModel
from wesichain.llm.local.wire import ask as ask_wire
from wesichain.tools import validate_json

ADD = ToolSpec(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
)
EXAMPLE = (
    Message(Role.USER, "What is 2 plus 5?"),
    Message(Role.ASSISTANT, tool_calls=(ToolCall("", "add", {"a": 2, "b": 5}),)),
    Message(Role.TOOL, "7"),
    Message(Role.ASSISTANT, "It is 7."),
)


def request(*messages: Message) -> LlmRequest:
    return LlmRequest("", messages, (ADD,))


def engine_of(model: LocalLlm) -> LlamaEngine:
    assert isinstance(model._place, SharedModel)
    assert model._place.engine is not None
    return model._place.engine


def user(text: str) -> Message:
    return Message(Role.USER, text)


@pytest.fixture(scope="module")
def llm(smol: Path) -> Iterator[LocalLlm]:
    model = LocalLlm(smol, threads=1, context=1024, max_tokens=64, examples=EXAMPLE)
    yield model
    model.close()


def test_it_plays_the_roles(llm: LocalLlm) -> None:
    assert isinstance(llm, StreamingLlm)
    assert isinstance(llm, CompletionLlm)
    assert traits_of(llm).observes_errors
    assert llm.model == "SmolLM2-135M-Instruct.Q4_1"


async def test_it_calls_answers_and_reads_only_what_is_new(llm: LocalLlm) -> None:
    messages = [user("What is 17 plus 25?")]
    first = await llm.complete(request(*messages))
    assert first.finish_reason == "tool_calls"
    assert [(call.name, call.args) for call in first.tool_calls] == [("add", {"a": 17, "b": 25})]
    messages.append(Message(Role.ASSISTANT, first.content, tool_calls=first.tool_calls))
    messages.append(Message(Role.TOOL, "42", tool_call_id=first.tool_calls[0].id))
    second = await llm.complete(request(*messages))
    assert second.finish_reason == "stop"
    assert "42" in second.content
    assert llm.timings is not None
    assert llm.timings.reused >= first.usage.input_tokens - 1
    assert llm.timings.read + llm.timings.reused == second.usage.input_tokens


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sampled([1, 2], 1))
async def test_however_wild_the_model_a_call_is_well_formed(smol: Path, llm: LocalLlm, seed: int) -> None:
    wild = LocalLlm(
        smol, threads=1, context=1024, max_tokens=40, temperature=5.0, seed=seed, examples=EXAMPLE
    )
    reply = await wild.complete(request(user("What is 3 plus 4?")))
    assert reply.tool_calls or reply.content or reply.finish_reason == "length"
    for call in reply.tool_calls:
        assert call.name == "add"
        assert validate_json(dict(ADD.parameters), call.args) == []
    wild.close()


async def test_an_agent_answers_sums_with_it(llm: LocalLlm) -> None:
    calls: list[tuple[int, int]] = []

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        calls.append((a, b))
        return a + b

    agent = Agent(llm, tools=[add], budget=Budget(steps=4))
    right = 0
    for a, b in ((31, 12), (8, 14), (52, 25)):
        result = await agent.run(f"What is {a} plus {b}?")
        right += str(a + b) in result.output and (a, b) in calls
    assert right >= 2, calls  # a model this small may miss one


async def test_an_answer_streams_and_the_response_is_last(llm: LocalLlm) -> None:
    history = (user("What is 1 plus 1?"), *EXAMPLE[1:3])
    items = [item async for item in llm.stream(request(*history))]
    assert isinstance(items[-1], LlmResponse)
    pieces = [item.text for item in items if isinstance(item, TextChunk)]
    assert len(pieces) == len(items) - 1 > 1
    assert "".join(pieces) == items[-1].content


async def test_the_schema_of_the_answer_is_kept(llm: LocalLlm) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    reply = await llm.complete(LlmRequest("", (user("Ann is 33 years old."),), output_schema=schema))
    assert validate_json(schema, parse_json(reply.content)) == []


async def test_plain_text_ends_at_a_stop(llm: LocalLlm) -> None:
    text = await llm.complete_text("one, two, three, four,", stop=[" six"])
    assert text.startswith(" five")
    assert "six" not in text


async def test_what_does_not_fit_the_context_is_refused_with_advice(llm: LocalLlm) -> None:
    with pytest.raises(LlmRejectedError, match=r"exceeds the available context size.*context=") as caught:
        await llm.complete_text("word " * 2000)
    assert not caught.value.retryable


async def test_a_cancelled_question_stops_the_model(llm: LocalLlm) -> None:
    async def endless() -> None:
        async for _ in llm.stream(LlmRequest("", (user("Count to ten thousand."),))):
            begun.set()

    begun = asyncio.Event()
    task = asyncio.create_task(endless())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await llm.complete_text("one, two,", stop=[","]) == " three"


async def test_several_questions_at_once_wait_their_turn(llm: LocalLlm) -> None:
    asked = [llm.complete_text(f"{word}, one, two,", stop=[","]) for word in ("red", "blue", "green")]
    assert await asyncio.gather(*asked) == [" three"] * 3


def test_the_same_file_is_loaded_once_and_freed_with_its_last_user(smol: Path) -> None:
    async def use(*models: LocalLlm) -> None:
        for model in models:
            await model.complete_text("one", stop=["\n"])

    one, two = (LocalLlm(smol, threads=1, context=512, max_tokens=1) for _ in range(2))
    asyncio.run(use(one, two))
    assert engine_of(one) is engine_of(two)
    pid = engine_of(one).pid
    assert pid is not None
    one.close()
    os.kill(pid, 0)
    two.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConfigError, match="was closed"):
        asyncio.run(use(one))


async def test_a_model_that_dies_is_a_fault_worth_a_retry_and_comes_back(smol: Path) -> None:
    async with LocalLlm(smol, threads=1, context=512, max_tokens=60) as model:
        stream = model.stream(LlmRequest("", (user("Tell a long story."),)))
        await anext(stream)
        pid = engine_of(model).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(LlmTransportError, match="started again") as caught:
            async for _ in stream:
                pass
        assert caught.value.retryable
        assert await model.complete_text("one, two,", stop=[","]) == " three"


def test_it_ends_with_its_parent_however_that_ends(smol: Path) -> None:
    script = """
        import os, sys
        from wesichain.llm.local.llama_engine import EngineSettings, LlamaEngine
        engine = LlamaEngine(EngineSettings(sys.argv[1], "m", 512, 1, key="k"))
        engine.start()
        print(engine.pid, flush=True)
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(smol)]
    pid = int(subprocess.run(command, check=False, capture_output=True, text=True, timeout=60).stdout)
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


@each_origin
async def test_llama_reads_the_grammars_of_real_schemas(llm: LocalLlm, origin: str) -> None:
    rows = corpus("bfcl_tools.jsonl", origin)[:: 12 if origin == OUTSIDE else 1]
    tools = tuple(ToolSpec(f"tool{at}", "", row["schema"]) for at, row in enumerate(rows))
    async with llm._place.reach() as address:
        for output in (None, {"type": "object", "additionalProperties": {"type": "array", "minItems": 2}}):
            grammar = reply_grammar(tools, output, thoughts=output is None)
            body = {"prompt": "x", "n_predict": 1, "grammar": grammar}
            assert (await ask_wire(address, "/completion", body))["stop"]  # what it cannot read is refused


# --- bad input ------------------------------------------------------------------------------------


async def ask(place: str | Path) -> str:
    async with LocalLlm(place, threads=1, context=512, max_tokens=1) as model:
        return await model.complete_text("one", stop=[])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "cannot be read: No such file", id="missing"),
        pytest.param(b"PK\x03\x04 a zip", "is not a GGUF model", id="another-format"),
        pytest.param(b"GGUF\x03\0\0\0" + b"\xff" * 500, "llama.cpp cannot load", id="garbage-after-magic"),
        pytest.param(b"GGUF", "llama.cpp cannot load", id="nothing-after-the-magic"),
    ],
)
async def test_a_bad_model_file_is_one_line(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said) as caught:
        await ask(path)
    assert "\n" not in str(caught.value)


async def test_a_truncated_model_is_one_line(smol: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    with smol.open("rb") as whole:
        path.write_bytes(whole.read(20_000_000))
    with pytest.raises(ConfigError, match=r"llama\.cpp cannot load .*damaged"):
        await ask(path)


async def test_a_number_of_threads_that_is_none_is_refused(
    smol: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WESICHAIN_THREADS", "many")
    with pytest.raises(ConfigError, match="WESICHAIN_THREADS is 'many'"):
        await LocalLlm(smol).complete_text("one")


def test_without_llama_the_extra_is_named() -> None:
    script = """
        import sys
        sys.modules["xllamacpp"] = None
        from wesichain.errors import MissingDependencyError
        from wesichain.llm.local import LocalLlm
        try:
            LocalLlm("smollm2-135m")
        except MissingDependencyError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert said == "the local model needs the 'xllamacpp' package: pip install 'wesichain[local]'\n"


# --- the server -----------------------------------------------------------------------------------


def test_llama_serves_the_openai_api(smol: Path) -> None:
    with serve_local(smol, threads=1, context=512, key="secret") as base:
        query = urllib.request.Request(f"{base}/models", headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(query, timeout=30) as reply:
            assert parse_json(reply.read())["data"][0]["id"] == "SmolLM2-135M-Instruct.Q4_1"


@pytest.mark.slow
def test_threads_are_chosen_by_measuring(smol: Path) -> None:
    engine = LlamaEngine(EngineSettings(str(smol), "m", 512, key="k"))
    assert 1 <= engine.start().threads <= (os.cpu_count() or 1)
    engine.stop()
