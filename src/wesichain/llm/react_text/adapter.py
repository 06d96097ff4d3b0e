"""TextReAct: tool calling with a model that only writes text."""

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
from wesichain.llm.families import family_of
from wesichain.llm.relay import relay

from .dialects import Dialect
from .parsed import Parsed
from .prompt import Prompt
from .react import Options, before_observation, read_text
from .rules import check
from .text_transcript import ANSWER, UNREADABLE, TextTranscript, read_messages

_STOP = ("\nObservation:",)


class TextReAct:
    """Prompts a model to write `Thought / Action / Action Input`, and parses its replies.

    The model is a `CompletionLlm`, which gets one growing prompt, or a chat model, which gets the prompt as
    its first message and the steps as the following turns. A model that is both completes a text, unless
    `chat=True`. No tools are sent to the model. `examples` are solved questions, as ordinary messages; they
    are shown in the format before the question.

    A malformed reply becomes a call without a name, with the reason and the format in `reasoning`; the
    runtime returns them to the model. If the request has no tools, text without a marker is the answer.
    `stop` are the stop sequences: True means the start of an observation, if the model is known to accept it;
    False sends none. (An observation that the model makes up is cut off in any case.)
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
            raise ConfigError(f"chat={chat}: {type(llm).__name__} does not support it; leave chat out")
        talks = not hasattr(llm, "complete_text") if chat is None else chat
        self._chat_model = cast("ToolCallingLlm", llm) if talks else None
        self._text_model = None if talks else cast("CompletionLlm", llm)
        self._passes_settings = not talks and _takes_settings(cast("Any", llm).complete_text)
        self._examples = tuple(examples)
        self._prompt = Prompt.of(template, dialect=dialect)
        self._strict = strict
        traits = traits_of(llm)
        self._family = family_of(self.model, traits)
        # A prompt of this class has no template around it if the model only completes it.
        self._is_opened = talks and (traits.opens_thinking or self._family.opens_thinking)
        accepts = not talks or traits.takes_stop
        self._stop = (_STOP if stop and accepts else ()) if isinstance(stop, bool) else tuple(stop)

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that the model, or the text format, does not take."""
        if settings.tool_choice not in (None, "auto"):
            raise ConfigError(
                f"tool_choice={settings.tool_choice!r}: calls cannot be forced or forbidden in text; "
                f"leave it out"
            )
        if settings.parallel_tool_calls:
            raise ConfigError("parallel_tool_calls=True: a reply in text has only one call; leave it out")
        below = _settings_of_text(settings)
        if self._chat_model is not None:
            check_settings(self._chat_model, below)
        elif not self._passes_settings and (refused := {*below.set_fields()} - {"stop"}):
            raise ConfigError(
                f"{type(self._text_model).__name__}.complete_text takes no settings, so "
                f"{', '.join(sorted(refused))} cannot be set; add a parameter `settings` to it"
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
        """The thought and the answer as they arrive, if the model streams; the response is last.

        Reasoning and calls are left out. Whatever is shown is the beginning of the thought, then of the
        answer.
        """
        self.check_settings(request.settings)
        if self._chat_model is None:
            yield await self.complete(request)
            return
        reader, shown, has_streamed = self._options(request).reader(), "", False
        async with aclosing(relay(self._chat_model, self._chat(request))) as items:
            async for item in items:
                if isinstance(item, TextChunk):
                    has_streamed = True
                    if text := reader.feed(item.text):
                        shown += text
                        yield TextChunk(text)
                elif isinstance(item, LlmResponse):
                    parsed = self._parsed(request, item)
                    said = "\n".join(filter(None, [parsed.thought, parsed.answer])) if parsed else ""
                    if has_streamed and said.startswith(shown) and len(said) > len(shown):
                        yield TextChunk(said[len(shown) :])
                    yield self._response(request, item, parsed)

    async def _continue(self, llm: Any, request: LlmRequest) -> str:
        settings = _settings_of_text(request.settings)
        more = {"settings": replace(settings, stop=())} if self._passes_settings else {}
        text: str = await llm.complete_text(self.prompt(request), stop=(*self._stop, *settings.stop), **more)
        return text

    def prompt(self, request: LlmRequest) -> str:
        """The prompt for a completion model. In a run, it only grows at its end."""
        read = read_messages(request.messages)
        return self._render(request, read, scratchpad=self._prompt.scratchpad(read.steps))

    def _chat(self, request: LlmRequest) -> LlmRequest:
        read = read_messages(request.messages)
        first = Message(Role.USER, self._render(request, read, scratchpad="").rstrip())
        turns = (first, *self._prompt.turns(read.steps))
        return LlmRequest(request.model, turns, stop=self._stop, settings=_settings_of_text(request.settings))

    def _render(self, request: LlmRequest, read: TextTranscript, *, scratchpad: str) -> str:
        return self._prompt.render(
            request.tools,
            read.question,
            scratchpad=scratchpad,
            history=(*self._examples, *read.history),
            instructions=read.instructions,
            output_schema=request.output_schema,
        )

    def _options(self, request: LlmRequest, *, truncated: bool = False, is_reasoned: bool = False) -> Options:
        return Options(
            self._prompt.dialect.grammar,
            strict=self._strict and bool(request.tools),
            truncated=truncated,
            family=self._family,
            is_opened=self._is_opened and not is_reasoned,  # else its server has taken the reasoning out
            tools=frozenset(tool.name.casefold() for tool in request.tools),
        )

    def _parsed(self, request: LlmRequest, reply: LlmResponse) -> Parsed | None:
        """The parsed text of a reply; None if there is none to parse."""
        content: Any = reply.content
        if not isinstance(content, str):
            return None  # the runtime reports the error
        if reply.tool_calls or (not content.strip() and reply.finish_reason != "stop"):
            return None
        truncated = reply.finish_reason == "length"
        parsed = read_text(
            content, self._options(request, truncated=truncated, is_reasoned=bool(reply.reasoning))
        )
        return parsed if truncated and parsed.kind == "malformed" else check(parsed, request.tools)

    def _read(self, request: LlmRequest, reply: LlmResponse) -> LlmResponse:
        return self._response(request, reply, self._parsed(request, reply))

    def _response(self, request: LlmRequest, reply: LlmResponse, parsed: Parsed | None) -> LlmResponse:
        """The reply with its parsed calls or answer. A reply that is not text is returned unchanged."""
        if parsed is None:
            return reply
        match parsed.kind:
            case "final":
                mark = ANSWER if request.output_schema is not None else reply.opaque
                answer = parsed.answer or ""
                cited = within(reply.citations, reply.content, answer)
                return replace(reply, content=answer, opaque=mark, citations=cited)
            case "malformed":
                return self._unreadable(reply, parsed.reason, truncated=reply.finish_reason == "length")
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
        said = before_observation(reply.content, self._family)
        cut = "Your reply was cut off at the token limit: be briefer. " if truncated else ""
        return replace(
            reply,
            content=said,
            tool_calls=(ToolCall(id="", name="", args=said),),
            reasoning=f"{cut}Your reply could not be read: {reason}. {self._prompt.dialect.hint}",
            opaque=UNREADABLE,
        )


def _settings_of_text(settings: ModelSettings) -> ModelSettings:
    """The settings for the model that writes the text, without those for tools."""
    return replace(settings, tool_choice=None, parallel_tool_calls=None)


def _takes_settings(function: Any) -> bool:
    try:
        return "settings" in signature(function).parameters
    except (TypeError, ValueError):
        return False


def text_mode(
    llm: CompletionLlm | ToolCallingLlm, mode: Literal["auto", "native", "text"] = "auto"
) -> ToolCallingLlm:
    """The model, wrapped in `TextReAct` if necessary.

    "auto" wraps a model that can only complete text; "text" wraps any model, "native" none.
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
    """Unused call ids. They depend only on the messages, so that equal runs have equal ids."""
    used = [call.id for message in messages for call in message.tool_calls]
    return (name for n in count(len(used) + 1) if (name := f"call_{n}") not in used)
