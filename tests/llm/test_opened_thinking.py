"""Thinking whose beginning stands in the prompt: none of it is shown where the model's traits or its prompt say so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.llm.local.scripted_llama import LAST, ScriptedLlama, events
from tests.llm.wires import ChatWire
from wesichain.core import LlmRequest, LlmResponse, Message, Role, TextChunk
from wesichain.llm import LlmTraits
from wesichain.llm.families import opens_thinking
from wesichain.llm.local import LocalLlm
from wesichain.llm.openai import OpenAiClient
from wesichain.llm.react_text import TextReAct
from wesichain.testing import Answer, ProviderReply

THOUGHT, ANSWER = "They ask for two and two. ", "It is 4."
REPLY = f"{THOUGHT}</think>\n\n{ANSWER}"
ASKED = LlmRequest("m", (Message(Role.USER, "2 + 2?"),))
WIRE = ChatWire()


async def streamed(llm: Any) -> tuple[str, LlmResponse]:
    shown, whole = "", None
    async for item in llm.stream(ASKED):
        if isinstance(item, TextChunk):
            shown += item.text
        elif isinstance(item, LlmResponse):
            whole = item
    assert whole is not None
    return shown, whole


@asynccontextmanager
async def client(*replies: str, asked: bool = False, **settings: Any) -> AsyncGenerator[OpenAiClient]:
    """A client of a server that says these, in halves; the first in one piece where it is `asked`."""
    stream = [not asked, *[True] * (len(replies) - 1)]
    bodies = (WIRE.write(ProviderReply(text), stream=how) for text, how in zip(replies, stream, strict=True))
    answers = [Answer(200, body, {}) for body in bodies]
    async with WIRE.serve(*answers) as server, WIRE.client(server.url, **settings) as llm:
        yield llm


async def test_a_client_that_is_told_shows_none_of_it_in_the_first_stream() -> None:
    async with client(REPLY, ANSWER, traits=replace(OpenAiClient.traits, opens_thinking=True)) as llm:
        shown, whole = await streamed(llm)
        assert (shown, whole.content, whole.reasoning) == (ANSWER, ANSWER, THOUGHT.strip())
        # This time it does not think, or the server has taken that out.
        assert (await streamed(llm))[0] == ANSWER


async def test_a_family_says_it_too() -> None:
    traits = replace(OpenAiClient.traits, family="qwen-thinking")
    async with client(REPLY, traits=traits) as llm:
        shown, whole = await streamed(llm)
        assert (shown, whole.content, whole.reasoning) == (ANSWER, ANSWER, THOUGHT.strip())


async def test_a_client_that_is_not_told_takes_nothing_from_a_mark_within_a_line() -> None:
    async with client(REPLY, ANSWER) as llm:
        shown, whole = await streamed(llm)
        assert shown == whole.content == REPLY
        pieces = [item async for item in llm.stream(ASKED) if isinstance(item, TextChunk)]
        assert len(pieces) > 1, "one reply says nothing about the next"


async def test_a_mark_on_a_line_of_its_own_between_two_texts_is_malformed() -> None:
    async with client(f"{THOUGHT}\n</think>\n{ANSWER}", asked=True) as llm:
        whole = await llm.complete(ASKED)
        assert [call.name for call in whole.tool_calls] == [""]
        assert "mark of reasoning" in whole.reasoning


@asynccontextmanager
async def local(reply: str, prompt: str, stop_type: str = "eos") -> AsyncGenerator[LocalLlm]:
    """A local model whose prompt ends so, and which says this in pieces of three characters."""
    pieces = [{"content": reply[at : at + 3]} for at in range(0, len(reply), 3)]
    said = ScriptedLlama(events(*pieces, {"content": "", **LAST, "stop_type": stop_type}), prompt=prompt)
    async with said.listening() as url, LocalLlm("any", base_url=url) as llm:
        yield llm


@pytest.mark.parametrize("end", ["<think>\n", "[THINK]", "<|START_THINKING|><think>", "<seed:think>"])
async def test_a_local_model_sees_it_in_its_prompt(end: str) -> None:
    async with local(REPLY, f"<|user|>2 + 2?<|assistant|>{end}") as llm:
        for _ in range(2):
            shown, whole = await streamed(llm)
            assert (shown, whole.content, whole.reasoning) == (ANSWER, ANSWER, THOUGHT.strip())


@pytest.mark.parametrize("prompt", ["2 + 2?<think>\n", "2 + 2?"])
async def test_a_chat_reply_without_a_closing_mark_is_the_answer(prompt: str) -> None:
    async with local(ANSWER, prompt) as llm:
        assert (await streamed(llm))[1].content == ANSWER


async def test_text_react_goes_by_the_traits_of_its_model() -> None:
    class Model:
        model = "m"
        traits = LlmTraits(opens_thinking=True)

        async def complete(self, request: LlmRequest) -> LlmResponse:
            return LlmResponse(f"{THOUGHT}</think>Final Answer: 4")

        async def stream(self, request: LlmRequest) -> Any:
            whole = await self.complete(request)
            for letter in whole.content:
                yield TextChunk(letter)
            yield whole

    shown, whole = await streamed(TextReAct(Model()))
    assert THOUGHT.strip() not in shown
    assert (shown.strip(), whole.content) == ("4", "4")


@given(before=st.text(max_size=40), blanks=st.sampled_from(["", "\n", "  \n\n"]))
def test_a_prompt_opens_thinking_only_with_its_last_mark(before: str, blanks: str) -> None:
    assert opens_thinking(f"{before}<think>{blanks}")
    assert not opens_thinking(f"{before}<think>{blanks}</think>{blanks}")
    assert not opens_thinking(f"{before}<think>{blanks}Hello")
