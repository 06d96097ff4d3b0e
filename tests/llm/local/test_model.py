"""A local model: one layer of smollm2-135m, held by llama.cpp, asked as an agent asks it.

What a whole model answers is in `test_real_models.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path

import httpx2
import pytest

from tests.conftest import OUTSIDE, corpus, each_origin
from tests.draws import sampled
from tests.waiting import PATIENCE
from wesichain.core import LlmRequest, Message, ModelSettings, Role, TextChunk, ToolCall, ToolSpec
from wesichain.core.internal import parse_json
from wesichain.errors import ConfigError, LlmRejectedError, LlmResponseError
from wesichain.llm.local import LocalLlm
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
def llm(shallow: Path) -> Iterator[LocalLlm]:
    model = LocalLlm(shallow, threads=1, context=1024, max_tokens=24, examples=EXAMPLE)
    yield model
    model.close()


async def test_it_reads_only_what_is_new(llm: LocalLlm) -> None:
    messages = (user("What is 17 plus 25?"), *EXAMPLE[1:3])
    first = await llm.complete(request(*messages[:1]))
    second = await llm.complete(request(*messages))
    assert llm.timings is not None
    assert llm.timings.reused >= first.usage.input_tokens - 1
    assert llm.timings.read + llm.timings.reused == second.usage.input_tokens


@pytest.mark.sampled
@pytest.mark.parametrize("seed", sampled([1, 2, 3, 4], 1))
async def test_however_wild_the_model_a_call_is_well_formed(shallow: Path, llm: LocalLlm, seed: int) -> None:
    must = ModelSettings(tool_choice="required")
    asked = LlmRequest("", (user("What is 3 plus 4?"),), (ADD,), settings=must)
    async with LocalLlm(
        shallow, threads=1, context=1024, max_tokens=80, temperature=5.0, seed=seed, examples=EXAMPLE
    ) as wild:
        reply = await wild.complete(asked)
    (call,) = reply.tool_calls
    assert call.name == "add"
    assert validate_json(dict(ADD.parameters), call.args) == []


async def test_the_schema_of_the_answer_is_kept(llm: LocalLlm) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    reply = await llm.complete(LlmRequest("", (user("Ann is 33 years old."),), output_schema=schema))
    assert validate_json(schema, parse_json(reply.content)) == []


async def test_plain_text_ends_at_a_stop(llm: LocalLlm) -> None:
    text = await llm.complete_text("one, two")
    stop = text.split()[1]
    assert await llm.complete_text("one, two", stop=[stop]) == text[: text.index(stop)]


async def test_what_does_not_fit_the_context_is_refused_with_advice(llm: LocalLlm) -> None:
    with pytest.raises(LlmRejectedError, match=r"exceeds the available context size.*context=") as caught:
        await llm.complete_text("word " * 2000)
    assert not caught.value.retryable


async def test_a_cancelled_question_stops_the_model(shallow: Path, llm: LocalLlm) -> None:
    async def endless() -> None:
        async with LocalLlm(shallow, threads=1, context=1024, max_tokens=800, examples=EXAMPLE) as talkative:
            async for _ in talkative.stream(LlmRequest("", (user("Count to ten thousand."),))):
                begun.set()

    begun = asyncio.Event()
    alone = await llm.complete_text("one, two")
    task = asyncio.create_task(endless())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await llm.complete_text("one, two") == alone


async def test_several_questions_at_once_wait_their_turn(llm: LocalLlm) -> None:
    questions = ["red, one", "blue, one", "green, one"]
    alone = [await llm.complete_text(question) for question in questions]
    assert await asyncio.gather(*map(llm.complete_text, questions)) == alone


def test_the_same_file_is_loaded_once_and_freed_with_its_last_user(shallow: Path) -> None:
    async def use(*models: LocalLlm) -> None:
        for model in models:
            await model.complete_text("one", stop=["\n"])

    one, two = (LocalLlm(shallow, threads=1, context=512, max_tokens=1) for _ in range(2))
    asyncio.run(use(one, two))
    assert engine_of(one) is engine_of(two)
    pid = engine_of(one).pid
    assert pid is not None
    assert os.getsid(pid) == pid, "Ctrl-C in the terminal would end it"
    one.close()
    os.kill(pid, 0)
    two.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(ConfigError, match="was closed"):
        asyncio.run(use(one))


def test_a_model_that_hangs_is_ended_too(shallow: Path) -> None:
    engine = LlamaEngine(EngineSettings(str(shallow), "m", 512, 1, key="k"))
    engine.start()
    pid = engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    stopping = threading.Thread(target=engine.stop)
    stopping.start()
    stopping.join(PATIENCE)
    is_hanging = stopping.is_alive()
    if is_hanging:
        os.kill(pid, signal.SIGKILL)
    assert not is_hanging


async def test_a_model_that_dies_is_a_fault_worth_a_retry_and_comes_back(shallow: Path) -> None:
    asked = request(user("What is 17 plus 25?"))
    async with LocalLlm(shallow, threads=1, context=1024, max_tokens=400, examples=EXAMPLE) as model:
        stream = model.stream(asked)
        await anext(stream)
        pid = engine_of(model).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(LlmResponseError, match=r"cut off: .*started again") as caught:
            async for _ in stream:
                pass
        assert caught.value.retryable
        async with aclosing(model.stream(asked)) as again:
            assert isinstance(await anext(again), TextChunk)


@pytest.mark.parametrize("is_busy", [False, True])
def test_it_ends_with_its_parent_however_that_ends(is_busy: bool, shallow: Path) -> None:
    script = """
        import os, sys
        from wesichain.llm.local.llama_engine import EngineSettings, LlamaEngine
        engine = LlamaEngine(EngineSettings(sys.argv[1], "m", 2048, 1, key="k"))
        print(engine.start().url, engine.pid, flush=True)
        sys.stdin.readline()
        os.kill(os.getpid(), 9)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(shallow)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent,
        httpx2.Client(headers={"Authorization": "Bearer k"}, timeout=PATIENCE) as client,
        ExitStack() as stack,
    ):
        assert parent.stdout is not None
        url, pid = parent.stdout.readline().split()
        if is_busy:  # with a reply to another process
            body = {"prompt": "one", "n_predict": 1900, "ignore_eos": True, "stream": True}
            reply = stack.enter_context(client.stream("POST", f"{url}/completion", json=body))
            lines = reply.iter_lines()  # kept, or the connection would be closed
            next(lines)
        parent.communicate("\n", timeout=PATIENCE)
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


async def test_a_truncated_model_is_one_line(shallow: Path, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    with shallow.open("rb") as whole:
        path.write_bytes(whole.read(2_000_000))
    with pytest.raises(ConfigError, match=r"llama\.cpp cannot load .*damaged"):
        await ask(path)


# --- the server -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_threads_are_chosen_by_measuring(smol: Path) -> None:
    engine = LlamaEngine(EngineSettings(str(smol), "m", 512, key="k"))
    assert 1 <= engine.start().threads <= (os.cpu_count() or 1)
    engine.stop()
