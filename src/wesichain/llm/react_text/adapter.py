"""TextReAct: a model that only writes text, made into one that calls tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from inspect import signature
from itertools import count
from typing import Any, Literal, cast

from wesichain.core import (
    CompletionLlm,
    LlmRequest,
    LlmResponse,
    Message,
    ModelSettings,
    PromptTemplate,
    Role,
    TextChunk,
    ToolCall,
    ToolCallingLlm,
)
from wesichain.core.internal import LlmTraits, StreamItem, check_settings, replace, traits_of
from wesichain.errors import ConfigError
from wesichain.llm.citations import within
from wesichain.llm.relay import relay

from .dialects import Dialect, parse
from .prompt import Prompt
from .react import before_observation
from .reasoning import ReasoningFilter, ReasoningStyle, split_reasoning
from .streaming import SpeechFilter
from .text_transcript import ANSWER, UNREADABLE, TextTranscript, read_messages

_STOP = ("\nObservation:",)


class TextReAct:
    """Asks a model in plain text for `Thought / Action / Action Input` and reads what it writes.

    The model is a `CompletionLlm`, which is given one growing prompt, or a chat model, which is given
    the prompt as its first message and the steps as the turns that follow. One that can do both goes on
    with a text, unless `chat=True`. Neither is sent any tools. `examples` are solved questions, as
    ordinary messages, which are shown in the format before the question.

    A reply that cannot be read comes back as a call without a name, with the reason, and the format
    once more, in `reasoning`: the runtime tells it to the model. Without tools in the request, text
    without a marker is the answer. `stop`: texts at which the model ends; True means the start of an
    observation, where the model is known to accept it, False sends none (an observation that the model
    makes up is cut off in any case).
    """

    traits = LlmTraits(observes_errors=True, native_output=True, output_with_tools=True)

    def __init__(
        self,
        llm: CompletionLlm | ToolCallingLlm,
        *,
        template: PromptTemplate | str | None = None,
        dialect: str | Dialect = "react",
        strict: bool = True,
        stop: bool | Sequence[str] = True,
        chat: bool | None = None,
        examples: Sequence[Message] = (),
    ) -> None:
        if not hasattr(llm, "complete_text") and not hasattr(llm, "complete"):
            raise ConfigError(
                f"{type(llm).__name__} is not a model: it has neither complete_text(prompt, *, stop) "
                f"nor complete(request)"
            )
        if chat is not None and not hasattr(llm, "complete" if chat else "complete_text"):
            raise ConfigError(f"chat={chat}: {type(llm).__name__} cannot do that; leave chat out")
        talks = not hasattr(llm, "complete_text") if chat is None else chat
        self._chat_model = cast("ToolCallingLlm", llm) if talks else None
        self._text_model = None if talks else cast("CompletionLlm", llm)
        self._passes_settings = not talks and _takes_settings(cast("Any", llm).complete_text)
        self._examples = tuple(examples)
        self._prompt = Prompt.of(template, dialect=dialect)
        self._strict = strict
        self._style = ReasoningStyle(traits_of(llm).opens_thinking)
        accepts = not talks or traits_of(llm).takes_stop
        self._stop = (_STOP if stop and accepts else ()) if isinstance(stop, bool) else tuple(stop)

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that the model, or the text format, does not take."""
        if settings.tool_choice not in (None, "auto"):
            raise ConfigError(
                f"tool_choice={settings.tool_choice!r}: no call can be forced, or forbidden, in text; "
                f"leave it out"
            )
        if settings.parallel_tool_calls:
            raise ConfigError("parallel_tool_calls=True: a reply in text is one call; leave it out")
        below = _below(settings)
        if self._chat_model is not None:
            check_settings(self._chat_model, below)
        elif not self._passes_settings and (refused := {*below.given()} - {"stop"}):
            raise ConfigError(
                f"{type(self._text_model).__name__}.complete_text takes no settings, so "
                f"{', '.join(sorted(refused))} cannot be set; give it a parameter `settings`"
            )

    @property
    def model(self) -> str:
        return str(getattr(self._chat_model or self._text_model, "model", ""))

    async def complete(self, request: LlmRequest) -> LlmResponse:
        self.check_settings(request.settings)
        if self._text_model is not None:
            return self._read(request, LlmResponse(await self._continue(self._text_model, request)))
        assert self._chat_model is not None
        return self._read(request, await self._chat_model.complete(self._chat(request)))

    async def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        """The thoughts and the answer as they come, where the model streams; the response last.

        Reasoning is not among them. Where only its end is marked, since its beginning stood in the prompt,
        the first such reply shows that, unless the model's traits tell (`opens_thinking`); from then on
        nothing is said before that end.
        """
        self.check_settings(request.settings)
        if self._chat_model is None:
            yield await self.complete(request)
            return
        speech, reasoning = SpeechFilter(), ReasoningFilter(self._style)
        async with aclosing(relay(self._chat_model, self._chat(request))) as items:
            async for item in items:
                if isinstance(item, TextChunk) and (text := speech.feed(reasoning.feed(item.text))):
                    yield TextChunk(text)
                elif isinstance(item, LlmResponse):
                    if text := speech.feed(reasoning.end()) + speech.end():
                        yield TextChunk(text)
                    yield self._read(request, item)

    async def _continue(self, llm: Any, request: LlmRequest) -> str:
        settings = _below(request.settings)
        more = {"settings": replace(settings, stop=())} if self._passes_settings else {}
        text: str = await llm.complete_text(self.prompt(request), stop=(*self._stop, *settings.stop), **more)
        return text

    def prompt(self, request: LlmRequest) -> str:
        """The text that a completion model is given: it only ever grows at its end."""
        read = read_messages(request.messages)
        return self._render(request, read, scratchpad=self._prompt.scratchpad(read.steps))

    def _chat(self, request: LlmRequest) -> LlmRequest:
        read = read_messages(request.messages)
        first = Message(Role.USER, self._render(request, read, scratchpad="").rstrip())
        turns = (first, *self._prompt.turns(read.steps))
        return LlmRequest(request.model, turns, stop=self._stop, settings=_below(request.settings))

    def _render(self, request: LlmRequest, read: TextTranscript, *, scratchpad: str) -> str:
        return self._prompt.render(
            request.tools,
            read.question,
            scratchpad=scratchpad,
            history=(*self._examples, *read.history),
            instructions=read.instructions,
            output_schema=request.output_schema,
        )

    def _read(self, request: LlmRequest, reply: LlmResponse) -> LlmResponse:
        """The reply, with what it says in place of its text. One that is no text is passed on as it is."""
        content: Any = reply.content
        if not isinstance(content, str):
            return reply  # the runtime says what is wrong with it
        truncated = reply.finish_reason == "length"
        if reply.tool_calls or (not reply.content.strip() and reply.finish_reason != "stop"):
            return reply
        parsed = parse(
            reply.content,
            strict=self._strict and bool(request.tools),
            dialect=self._prompt.dialect,
            truncated=truncated,
            tools=request.tools,
        )
        match parsed.kind:
            case "final":
                mark = ANSWER if request.output_schema is not None else reply.opaque
                answer = parsed.answer or ""
                cited = within(reply.citations, reply.content, answer)
                return replace(reply, content=answer, opaque=mark, citations=cited)
            case "malformed":
                return self._unreadable(reply, parsed.reason, truncated=truncated)
            case "action":
                ids = _free_ids(request.messages)
                calls = tuple(ToolCall(next(ids), call.name, call.args) for call in parsed.calls)
                return replace(
                    reply,
                    content=parsed.thought,
                    tool_calls=calls,
                    finish_reason="tool_calls",
                    citations=within(reply.citations, reply.content, parsed.thought),
                )

    def _unreadable(self, reply: LlmResponse, reason: str, *, truncated: bool) -> LlmResponse:
        said = before_observation(split_reasoning(reply.content).text or reply.content)
        cut = "Your reply was cut off at the token limit: be briefer. " if truncated else ""
        return replace(
            reply,
            content=said,
            tool_calls=(ToolCall(id="", name="", args=said),),
            reasoning=f"{cut}Your reply could not be read: {reason}. {self._prompt.dialect.hint}",
            opaque=UNREADABLE,
        )


def _below(settings: ModelSettings) -> ModelSettings:
    """The settings for the model that writes the text, which knows of no tools."""
    return replace(settings, tool_choice=None, parallel_tool_calls=None)


def _takes_settings(function: Any) -> bool:
    try:
        return "settings" in signature(function).parameters
    except (TypeError, ValueError):
        return False


def text_mode(
    llm: CompletionLlm | ToolCallingLlm, mode: Literal["auto", "native", "text"] = "auto"
) -> ToolCallingLlm:
    """A model that calls tools: the given one, or a text model wrapped in `TextReAct`.

    "auto" wraps a model that can only complete text and leaves every other as it is.
    """
    if mode not in ("auto", "native", "text"):
        raise ConfigError(f"mode={mode!r}: use 'auto', 'native' or 'text'")
    if isinstance(llm, TextReAct) or (isinstance(llm, ToolCallingLlm) and mode != "text"):
        return llm
    if mode == "native":
        raise ConfigError(
            f"{type(llm).__name__} cannot call tools natively: it has no complete(request); use mode='text'"
        )
    return TextReAct(llm)


def _free_ids(messages: Sequence[Message]) -> Iterator[str]:
    """The same request gives the same ids, so that equal runs are equal."""
    used = [call.id for message in messages for call in message.tool_calls]
    return (name for n in count(len(used) + 1) if (name := f"call_{n}") not in used)
