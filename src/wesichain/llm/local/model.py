"""`LocalLlm`: a model on this machine or your own server, whose tool calls are always well formed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Self

from wesichain.core import LlmRequest, LlmResponse, Message, ModelSettings, TextChunk, Usage
from wesichain.core.internal import NO_SETTINGS, LlmTraits, StreamItem, Value, replace, streams_to_listener
from wesichain.errors import ConfigError
from wesichain.llm.calls import ToolNames, as_object, as_string, stops_of, token_count, tool_choice
from wesichain.llm.families import family_of, family_of_prompt, opens_thinking
from wesichain.llm.react_text.chat import ChatText
from wesichain.llm.relay import response_of
from wesichain.llm.supported_settings import supported

from .files.manifest import DEFAULT_MODEL
from .files.progress import Progress
from .grammar import answer_grammar, reply_grammar
from .grounding import values_in
from .llama_engine import Address
from .places import RemoteServer, SharedModel, off_loop
from .prompt import chat_messages, has_thoughts, partial_answer, read_reply
from .wire import ask, ask_stream, prompt_in


class Timings(Value):
    """The work of one reply: tokens read, reused from the cache, and written, and the seconds for both."""

    read: int
    reused: int
    written: int
    read_seconds: float
    write_seconds: float


class LocalLlm:
    """A model from `MODELS` by name, or any GGUF file by path, run by llama.cpp in a child process.

    The first request downloads the file if necessary, and loads it once for all users with the same settings.
    With `constrain`, a grammar limits the reply to a call of one of the offered tools, with arguments that
    match its schema, or an answer. `examples` are solved questions, as messages, shown before the real one:
    three of them help small models a lot. If their calls have a `content` and their answers a `reasoning`,
    the model has to write a thought too. `threads` defaults to `$WESICHAIN_THREADS`, else to what is measured
    as faster when the model is loaded. `timings` are those of the last reply.

    With `grounded`, parameters that are ids (`Annotated[str, Id]`) can only have values that occur in the
    conversation; a tool that requires an id for which there is no value cannot be called yet.

    With `base_url`, the prompt and the grammar are sent to another llama.cpp server, which has its own file,
    context and threads: nothing is downloaded or loaded, and llama.cpp need not be installed. A reply fails
    after `deadline` seconds without a byte (600 with `base_url`, else no limit).
    """

    traits = LlmTraits(observes_errors=True, native_output=True, output_with_tools=True, takes_stop=True)
    provider = "local"

    def __init__(
        self,
        name_or_path: str | Path = DEFAULT_MODEL,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        context: int | None = None,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int = 0,
        threads: int | None = None,
        constrain: bool = True,
        grounded: bool = False,
        examples: Sequence[Message] = (),
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        if deadline is not None and not deadline > 0:
            raise ConfigError(f"deadline is {deadline}; use the seconds that may pass without a byte")
        if grounded and not constrain:
            raise ConfigError("grounded=True needs the grammar, which constrain=False turns off; choose one")
        self._place: SharedModel | RemoteServer
        if base_url is None:
            if api_key is not None:
                raise ConfigError("api_key is for another server; pass its base_url too, or leave it out")
            self._place = SharedModel(
                name_or_path, context=context, threads=threads, deadline=deadline, progress=progress
            )
        else:
            if context is not None or threads is not None:
                raise ConfigError(
                    "context and threads are settings of the server behind base_url (its -c and -t); "
                    "leave them out here"
                )
            self._place = RemoteServer(str(name_or_path), base_url, api_key=api_key, deadline=deadline)
        self.model = self._place.name
        self.timings: Timings | None = None
        self._constrain = constrain
        self._grounded = grounded
        self._examples = tuple(examples)
        self._sampling: dict[str, Any] = {"n_predict": max_tokens, "temperature": temperature, "seed": seed}

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ConfigError` for a setting that the model does not take."""
        supported("local", self.model).check(settings)
        if settings.tool_choice not in (None, "auto", "none") and not self._constrain:
            raise ConfigError(
                f"tool_choice={settings.tool_choice!r} needs the grammar, which constrain=False turns off; "
                f"choose one"
            )

    @streams_to_listener
    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The model's reply: one call, or an answer."""
        return await response_of(self.stream(request))

    def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        """The answer in pieces, as the model writes it; a call is only in the response, complete.

        Without a grammar, the model may think first. This is its reasoning, not part of the answer, even if
        its template begins the thinking in the prompt.
        """
        self.check_settings(request.settings)
        request, must_call = _chosen(request)
        return self._stream(request, must_call=must_call)

    async def _stream(self, request: LlmRequest, *, must_call: bool) -> AsyncGenerator[StreamItem, None]:
        family = family_of(self.model, self.traits)
        async with self._place.reach() as address:
            chat = {"messages": chat_messages(request, self._examples, family=family)}
            applied = await ask(address, "/apply-template", chat, deadline=self._place.deadline)
            prompt = prompt_in(applied)
            constraint = self._constraint(request, must_call=must_call)
            items = self._reply(request, address, prompt, constraint)
            if not request.tools:
                is_opened = not constraint and opens_thinking(prompt)
                items = ChatText((), family if family.name else family_of_prompt(prompt), is_opened).stream(
                    items
                )
            async with aclosing(items):
                async for item in items:
                    yield item

    async def _reply(
        self, request: LlmRequest, address: Address, prompt: str, constraint: dict[str, Any]
    ) -> AsyncGenerator[StreamItem, None]:
        """The answer in pieces, and the response, as the model writes them."""
        text = shown = ""
        options = _sampling_of(request.settings) | constraint | {"stop": stops_of(request)}
        async with aclosing(self._events(address, prompt, options)) as events:
            async for event in events:
                text += as_string(event.get("content"))
                answer = _readable(text, request)
                if len(answer) > len(shown):
                    yield TextChunk(answer[len(shown) :])
                    shown = answer
                if event.get("stop"):
                    read, written = event.get("tokens_evaluated"), event.get("tokens_predicted")
                    usage = Usage(token_count(read), token_count(written))
                    cut = event.get("stop_type") == "limit"
                    yield read_reply(text, request=request, usage=usage, cut=cut)

    async def complete_text(
        self, prompt: str, *, stop: Sequence[str] = (), settings: ModelSettings = NO_SETTINGS
    ) -> str:
        """Continue a text, without a chat template and without a grammar."""
        supported("text", self.model).check(settings)
        text = ""
        options = _sampling_of(settings) | {"stop": [*stop, *settings.stop]}
        async with self._place.reach() as address:
            async for event in self._events(address, prompt, options):
                text += as_string(event.get("content"))
        return text

    def close(self) -> None:
        """Free the model, unless it has other users. Another server is not changed."""
        self._place.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await off_loop(lambda _stop: self.close())

    def _constraint(self, request: LlmRequest, *, must_call: bool) -> dict[str, Any]:
        if self._constrain and request.tools:
            grammar = reply_grammar(
                request.tools,
                request.output_schema,
                thoughts=has_thoughts(self._examples),
                values=values_in(request.messages) if self._grounded else None,
                must_call=must_call,
            )
            return {"grammar": grammar}
        if self._constrain and request.output_schema is not None:
            return {"grammar": answer_grammar(request.output_schema)}
        return {}

    async def _events(
        self, address: Address, prompt: str, options: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        body = {"prompt": prompt, "cache_prompt": True, **self._sampling, **options}
        async with aclosing(ask_stream(address, body, deadline=self._place.deadline)) as events:
            async for event in events:
                if event.get("stop"):
                    self.timings = _timings(as_object(event.get("timings")))
                yield event


def _readable(text: str, request: LlmRequest) -> str:
    """The part of an unfinished reply that can be shown."""
    if not request.tools:
        return text
    return partial_answer(text) if request.output_schema is None else ""


def _timings(given: dict[str, Any]) -> Timings:
    return Timings(
        read=token_count(given.get("prompt_n")),
        reused=token_count(given.get("cache_n")),
        written=token_count(given.get("predicted_n")),
        read_seconds=_seconds(given.get("prompt_ms")),
        write_seconds=_seconds(given.get("predicted_ms")),
    )


def _seconds(milliseconds: object) -> float:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return 0.0
    return milliseconds / 1000 if 0 <= milliseconds < 1e15 else 0.0


def _sampling_of(settings: ModelSettings) -> dict[str, Any]:
    """The fields of a completion for the given settings."""
    written: Mapping[str, Any] = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "n_predict": settings.max_tokens,
        "seed": settings.seed,
        "cache_prompt": False if settings.cache == "off" else None,
    }
    return {name: value for name, value in written.items() if value is not None} | dict(settings.extra)


def _chosen(request: LlmRequest) -> tuple[LlmRequest, bool]:
    """The request with the tools that its settings allow, and whether one has to be called."""
    choice = tool_choice(request, ToolNames.of(request))
    if choice is None or choice.kind == "auto":
        return request, False
    if choice.kind == "none":
        return replace(request, tools=()), False
    if choice.kind == "required":
        return request, True
    named = tuple(tool for tool in request.tools if tool.name == request.settings.tool_choice)
    return replace(request, tools=named), True
