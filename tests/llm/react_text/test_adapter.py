"""TextReAct: a model that only writes text, under the protocol of models that call tools."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from wesichain.core import (
    LlmRequest,
    LlmResponse,
    Message,
    ModelSettings,
    Role,
    TextChunk,
    ToolCall,
    ToolCallingLlm,
    ToolSpec,
    Usage,
)
from wesichain.core.internal import traits_of
from wesichain.errors import ConfigError
from wesichain.llm import LlmTraits, StreamItem
from wesichain.llm.react_text import TextReAct, parse, text_mode


class Scripted:
    """A completion model that writes what it was given to write."""

    model = "scripted-text"

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.prompts: list[str] = []
        self.stops: list[Sequence[str]] = []

    async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str:
        self.prompts.append(prompt)
        self.stops.append(stop)
        return self.replies.pop(0)


class Chat:
    """A chat model that answers what it was given to answer."""

    model = "scripted-chat"

    def __init__(self, *replies: LlmResponse) -> None:
        self.replies = list(replies)
        self.requests: list[LlmRequest] = []

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.requests.append(request)
        return self.replies.pop(0)


class StreamingChat(Chat):
    """The same, in pieces of three characters."""

    closed = False

    async def stream(self, request: LlmRequest) -> AsyncIterator[StreamItem]:
        reply = await self.complete(request)
        try:
            for at in range(0, len(reply.content), 3):
                yield TextChunk(reply.content[at : at + 3])
            yield reply
        finally:
            self.closed = True


def spec(name: str, *, required: Sequence[str] = (), **properties: Any) -> ToolSpec:
    return ToolSpec(
        name, f"Does {name}.", {"type": "object", "properties": properties, "required": list(required)}
    )


TEXT = {"type": "string"}
WEATHER = spec("weather", city=TEXT)
ADD = spec("add", required=["a", "b"], a={"type": "integer"}, b={"type": "integer"})
NOW = spec("now")
TOOLS = (WEATHER, ADD, NOW)


def ask(*messages: Message, tools: tuple[ToolSpec, ...] = TOOLS, **more: Any) -> LlmRequest:
    return LlmRequest("m", messages or (Message(Role.USER, "Paris?"),), tools, **more)


def user(text: str) -> Message:
    return Message(Role.USER, text)


async def reply_to(text: str, request: LlmRequest | None = None, **options: Any) -> LlmResponse:
    return await TextReAct(Scripted(text), **options).complete(request or ask())


class TestReplies:
    @pytest.mark.parametrize("text", [None, 5, b"Final Answer: x"])
    async def test_what_is_no_text_is_for_the_runtime_to_judge(self, text: Any) -> None:
        assert (await reply_to(text)).content is text
        assert parse(text).kind == "malformed"

    async def test_ids_count_on_and_avoid_those_in_use(self) -> None:
        text = "Action: now\nAction Input: {}"
        used = tuple(ToolCall(name, "now", {}) for name in ("call_2", "call_3"))
        reply = await reply_to(text, ask(user("?"), Message(Role.ASSISTANT, tool_calls=used)))
        assert reply.tool_calls[0].id == "call_4"
        again = await reply_to(text, ask(user("?"), Message(Role.ASSISTANT, tool_calls=used[:1])))
        assert again.tool_calls[0].id == "call_3"


# --- the transcript --------------------------------------------------------------------------------


def scratchpad(prompt: str) -> str:
    return prompt.partition("Begin!\n\n")[2]


async def test_the_prompt_grows_only_at_its_end() -> None:
    """So that a local model reads only what is new: each prompt begins with the last one and its reply."""
    replies = [
        ' I look.\nAction: weather\nAction Input: {"city": "Paris"}\n',
        '\nAction: add\nAction Input: {"a": 1, "b": 2}',
        " Hm, what now?",
        " I know.\nFinal Answer: Sunny.",
    ]
    inner = Scripted(*replies)
    llm = TextReAct(inner)
    messages = [Message(Role.SYSTEM, "Be brief."), user("Paris?")]
    while True:
        reply = await llm.complete(ask(*messages))
        if not reply.tool_calls:
            break
        call = reply.tool_calls[0]
        # As the runtime does: an unreadable reply stays as text, and is answered by a user's message.
        if call.name:
            said = Message(Role.ASSISTANT, reply.content, tool_calls=reply.tool_calls)
            messages += [said, Message(Role.TOOL, "fine", call.id)]
        else:
            said = Message(Role.ASSISTANT, reply.content, opaque=reply.opaque)
            messages += [said, user(f"[INVALID CALL] {reply.reasoning}")]
    assert len(inner.prompts) == len(replies)
    for before, said_text, after in zip(inner.prompts, replies, inner.prompts[1:], strict=False):
        assert after.startswith((before + said_text).rstrip())
        assert after[len((before + said_text).rstrip()) :].startswith("\nObservation: ")
    assert inner.prompts[0].startswith("Be brief.\n\n")
    assert scratchpad(inner.prompts[3]).startswith("Question: Paris?\nThought: I look.\nAction: weather\n")
    assert inner.prompts[3].endswith('"Final Answer: <answer>".\nThought:')


CALL = Message(Role.ASSISTANT, "", tool_calls=(ToolCall("c", "now", {}),))
RESULT = Message(Role.TOOL, "noon", "c")
UNREAD = (
    user("a?"),
    Message(Role.ASSISTANT, "Hm", tool_calls=(ToolCall("", "", "Hm"),)),
    user("Unreadable."),
)
LABELLED = Message(Role.ASSISTANT, "Thought: Hm", opaque={"react_text": "unreadable"})
GIVEN = Message(Role.ASSISTANT, "A.", opaque={"react_text": "answer"})
FORM = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}
SOLVED = [
    Message(Role.USER, "What is 2 plus 5?"),
    Message(Role.ASSISTANT, "I add them.", tool_calls=(ToolCall("", "add", {"a": 2, "b": 5}),)),
    Message(Role.TOOL, "7"),
    Message(Role.ASSISTANT, "It is 7."),
]
CONVERSATIONS: dict[str, tuple[LlmRequest, dict[str, Any]]] = {
    "earlier questions": (ask(user("a?"), Message(Role.ASSISTANT, "A."), user("b?")), {}),
    "a word of the runtime": (ask(user("a?"), CALL, RESULT, user("Answer now.")), {}),
    "an unreadable reply": (ask(*UNREAD), {}),
    "a thought that is labelled": (ask(user("a?"), LABELLED, user("No.")), {}),
    "an answer that was refused": (ask(user("a?"), GIVEN, user("Wrong form.")), {}),
    "calls of earlier questions": (ask(user("a?"), CALL, RESULT, Message(Role.ASSISTANT, "A."), user("b?"), CALL, RESULT), {}),
    "no message": (LlmRequest("m", (), TOOLS), {}),
    "the form of the answer": (ask(output_schema=FORM), {}),
    "it where the template has no place": (ask(output_schema=FORM), {"template": "{tools}{tool_names}{question}{scratchpad}"}),
    "no tools": (ask(tools=()), {}),
    "examples": (ask(user("Before?"), Message(Role.ASSISTANT, "Yes."), user("Now?")), {"examples": SOLVED}),
}  # fmt: skip


async def test_a_conversation_is_the_text_that_it_was() -> None:
    shown = [
        f"--- {name}\n{TextReAct(Scripted(), **options).prompt(asked)}"
        for name, (asked, options) in CONVERSATIONS.items()
    ]
    expected.check(Path(__file__).with_name("whole_conversations.txt"), "\n".join(shown))
    assert (await reply_to("Final Answer: 4", ask(output_schema=FORM))).opaque == {"react_text": "answer"}


# --- the model behind it ---------------------------------------------------------------------------


class Both(Scripted):
    """A model that goes on with a text, and that can be talked to."""

    traits = LlmTraits(takes_stop=True)

    def __init__(self) -> None:
        Scripted.__init__(self, "Final Answer: written")
        self.spoken = Chat(LlmResponse("Final Answer: said"))

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return await self.spoken.complete(request)


@pytest.mark.parametrize(
    ("options", "answer", "stops"),
    [
        pytest.param({}, "written", ("\nObservation:",), id="it-is-given-a-text"),
        pytest.param({"chat": False}, "written", ("\nObservation:",), id="a-text-on-purpose"),
        pytest.param({"chat": True}, "said", ("\nObservation:",), id="it-is-talked-to"),
        pytest.param({"chat": True, "stop": False}, "said", (), id="and-goes-on-for-ever"),
    ],
)
async def test_a_model_that_can_do_both(options: Any, answer: str, stops: tuple[str, ...]) -> None:
    model = Both()
    assert (await TextReAct(model, **options).complete(ask())).content == answer
    assert [*model.stops, *(request.stop for request in model.spoken.requests)] == [stops]


@pytest.mark.parametrize(
    ("llm", "chat"), [(Scripted(), True), (Chat(), False)], ids=["text-cannot-talk", "chat-cannot-complete"]
)
def test_a_model_is_not_asked_for_what_it_cannot_do(llm: Any, chat: bool) -> None:
    with pytest.raises(ConfigError, match=f"chat={chat}"):
        TextReAct(llm, chat=chat)


class TestChatModels:
    async def test_stops_are_sent_to_those_known_to_take_them(self) -> None:
        for stop, sent in ((True, ()), (["\nObservation:"], ("\nObservation:",))):
            inner = Chat(LlmResponse("Final Answer: 1"))
            await TextReAct(inner, stop=stop).complete(ask())
            assert inner.requests[0].stop == sent

    async def test_the_steps_are_turns_and_no_tools_are_sent(self) -> None:
        inner = Chat(LlmResponse("Final Answer: noon", usage=Usage(7, 3), reasoning="because"))
        reply = await TextReAct(inner).complete(
            ask(Message(Role.SYSTEM, "Be brief."), user("When?"), CALL, RESULT)
        )
        assert reply == LlmResponse("noon", usage=Usage(7, 3), reasoning="because")
        (request,) = inner.requests
        first, *turns = request.messages
        assert (request.model, request.tools, request.output_schema) == ("m", (), None)
        assert first.role is Role.USER
        assert first.text.startswith("Be brief.\n\n")
        assert first.text.endswith("Begin!\n\nQuestion: When?")
        assert turns == [
            Message(Role.ASSISTANT, "Thought:\nAction: now\nAction Input: {}"),
            Message(Role.USER, "Observation: noon"),
        ]

    async def test_native_calls_are_passed_on(self) -> None:
        native = LlmResponse("", (ToolCall("x", "now", {}),), finish_reason="tool_calls")
        assert await TextReAct(Chat(native)).complete(ask()) is native

    @pytest.mark.parametrize("reason", ["length", "content_filter", "error"])
    async def test_a_reply_without_text_is_the_runtimes_to_explain(self, reason: Any) -> None:
        empty = LlmResponse("", finish_reason=reason)
        assert await TextReAct(Chat(empty)).complete(ask()) is empty

    async def test_a_fault_of_the_model_is_not_touched(self) -> None:
        with pytest.raises(IndexError):
            await TextReAct(Chat()).complete(ask())


class TestStreams:
    @pytest.mark.parametrize(
        ("text", "heard"),
        [
            pytest.param(
                "Thought: I look.\nAll day.\nAction: weather\nAction Input: x\nObservation: y\nThought: z",
                "I look.\nAll day.",
                id="a thought is heard, a call is not",
            ),
            pytest.param(
                "Sure.\nFinal Answer: It is:\n- wet", "Sure.\nIt is:\n- wet", id="an answer is heard"
            ),
            pytest.param(
                "Thought: Well, I know: it depends on the weather.",
                "Well, I know: it depends on the weather.",
                id="a thought alone",
            ),
        ],
    )
    async def test_thoughts_and_answers_are_heard_as_they_come(self, text: str, heard: str) -> None:
        items = [item async for item in TextReAct(StreamingChat(LlmResponse(text))).stream(ask())]
        chunks = [item.text for item in items if isinstance(item, TextChunk)]
        assert "".join(chunks) == heard
        assert len(chunks) > 1
        assert items[-1] == await TextReAct(Chat(LlmResponse(text))).complete(ask())

    async def test_a_stream_that_is_left_is_closed(self) -> None:
        inner = StreamingChat(LlmResponse("Thought: a long story, and then some more of it"))
        async with aclosing(TextReAct(inner).stream(ask())) as items:
            async for _ in items:
                break
        assert inner.closed

    async def test_a_model_that_does_not_stream_gives_the_response_alone(self) -> None:
        for inner in (Scripted("Final Answer: 1"), Chat(LlmResponse("Final Answer: 1"))):
            items = [item async for item in TextReAct(inner).stream(ask())]
            assert items == [LlmResponse("1")]


class TestTheModeOfAModel:
    def test_it_is_native_where_it_can_be(self) -> None:
        chat = Chat()
        assert text_mode(chat) is chat
        assert text_mode(chat, "native") is chat
        assert isinstance(text_mode(Scripted()), TextReAct)

    def test_text_can_be_forced(self) -> None:
        assert isinstance(text_mode(Chat(), "text"), TextReAct)
        assert isinstance(text_mode(Scripted(), "text"), TextReAct)

    def test_nothing_is_wrapped_twice(self) -> None:
        llm = TextReAct(Chat())
        assert text_mode(llm, "text") is text_mode(llm) is llm

    def test_what_cannot_be_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="Scripted cannot call tools natively"):
            text_mode(Scripted(), "native")
        with pytest.raises(ConfigError, match="use 'auto', 'native' or 'text'"):
            text_mode(Chat(), "loud")  # type: ignore[arg-type]  # a caller's mistake
        with pytest.raises(ConfigError, match="str is not a model"):
            TextReAct("gpt")  # type: ignore[arg-type]  # a caller's mistake

    def test_it_says_what_it_is(self) -> None:
        llm = TextReAct(Scripted())
        assert isinstance(llm, ToolCallingLlm)
        assert llm.model == "scripted-text"
        assert traits_of(llm) == LlmTraits(observes_errors=True, native_output=True, output_with_tools=True)


def test_a_function_whose_parameters_cannot_be_known_takes_no_settings() -> None:
    class Odd:
        complete_text = staticmethod(min)

    with pytest.raises(
        ConfigError, match=r"Odd\.complete_text takes no settings, so temperature cannot be set"
    ):
        TextReAct(Odd()).check_settings(ModelSettings(temperature=0.5))  # type: ignore[arg-type]
