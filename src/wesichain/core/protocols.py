"""Roles that others play: models, sinks of events, sources of advice, and who stands around every call.

A run calls `advise` once, before its first step, puts the text below its instructions, and keeps `shown` and
`held` in its log: what is learned from the run is a comparison of those that were shown something with those
that were not.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

from wesichain.errors import CodecError

from .codec import is_object, parse_json
from .content import Audio, Document, Image, Part, Text, made, omitted_line
from .events import Event
from .messages import LlmRequest, LlmResponse, Message, StreamItem, ToolCall, ToolSpec
from .settings import ModelSettings
from .values import Value, replace

HEADING = "What earlier runs of this task have shown; do it this way:"
_MOST = 3  # pieces of advice from a source that only retrieves
_CHARACTERS = 800  # of them together


@runtime_checkable
class ToolCallingLlm(Protocol):
    """A model that can call tools. It translates requests and replies, and maps errors; it judges no call.

    May also have `model` (its name), `traits` (an `LlmTraits`), `check_settings` (raises `ConfigError` for a
    `ModelSettings` that it cannot take), and `stream` (see `StreamingLlm`).
    """

    async def complete(self, request: LlmRequest) -> LlmResponse: ...


@runtime_checkable
class StreamingLlm(ToolCallingLlm, Protocol):
    """A model that can also answer in pieces; the last item is the whole response."""

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamItem]: ...


@runtime_checkable
class CompletionLlm(Protocol):
    """A plain text model. `stop`: texts at which it should end; the stop text itself is not returned.

    Where `complete_text` also has a parameter `settings`, it is given the `ModelSettings` of the request.
    """

    async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str: ...


class LlmTraits(Value):
    """The traits of a model: the features that it supports, and those that it works better with."""

    observes_errors: bool = False  # faults are best told to it as observations (text ReAct)
    native_output: bool = False  # it honours LlmRequest.output_schema
    takes_stop: bool = False  # it honours LlmRequest.stop, whichever model it is
    output_with_tools: bool = False  # it honours output_schema and calls tools in the same request
    parallel_calls: bool = False  # one reply may ask for several calls
    images: bool = False  # it takes Image parts, or says in `LlmResponse.omitted` which it could not
    documents: bool = False  # likewise Document parts
    audio: bool = False  # likewise Audio parts
    reasoning: bool = False  # it tells its reasoning, or has it back with the next request
    free_steps: bool = False  # no model is called for its replies, and they spend no step of the budget
    caching: bool = False  # its provider reads a prefix that it knows at a lower price
    opens_thinking: bool = (
        False  # its prompt ends with a mark such as <think>: replies have only the end of it
    )
    text_calls: bool = False  # a reply whose text is tool calls and nothing else is run

    @property
    def takes_all_parts(self) -> bool:
        return self.images and self.documents and self.audio


_UNSAID = LlmTraits(images=True, documents=True, audio=True)


def traits_of(llm: object) -> LlmTraits:
    """The traits that a model declares. One that declares none is given every part as it is, no more."""
    traits = getattr(llm, "traits", None)
    return traits if isinstance(traits, LlmTraits) else _UNSAID


def other_models(llm: object) -> tuple[str, ...]:
    """The names of the models that may answer in place of this one, as behind a `Fallback`."""
    found: tuple[str, ...] = getattr(llm, "other_models", ())
    return found


def check_settings(llm: object, settings: ModelSettings) -> None:
    """Raise `ConfigError` for a setting that the model cannot take, before anything is sent to it.

    The adapters know what they take (`llm.check_settings(settings)`); any other model is given them all.
    """
    check = getattr(llm, "check_settings", None)
    if check is not None:
        check(settings)


def fit_message(message: Message, traits: LlmTraits) -> tuple[Message, tuple[str, ...]]:
    """The message as a model with these traits can take it, and the lines that stand for what it cannot."""
    if isinstance(message.content, str):
        return message, ()
    takes = {Image: traits.images, Document: traits.documents, Audio: traits.audio}
    omitted: list[str] = []
    kept: list[Part] = []
    for part in message.content:
        if isinstance(part, Text) or takes[type(part)]:
            kept.append(part)
        else:
            omitted.append(omitted_line(part, f"this model takes no {part.kind}"))
            kept.append(Text(omitted[-1]))
    return (replace(message, content=tuple(kept)), tuple(omitted)) if omitted else (message, ())


def fit_request(request: LlmRequest, traits: LlmTraits) -> tuple[LlmRequest, tuple[str, ...]]:
    """The request as a model with these traits can take it, and a line for each part that it cannot."""
    if not made.any or traits.takes_all_parts:
        return request, ()
    if all(type(message.content) is str for message in request.messages):
        return request, ()
    fitted = [fit_message(message, traits) for message in request.messages]
    omitted = tuple(line for _, lines in fitted for line in lines)
    if not omitted:
        return request, ()
    return replace(request, messages=tuple(message for message, _ in fitted)), omitted


def say_omitted(reply: Any, omitted: tuple[str, ...]) -> Any:
    """The reply to a request that was fitted: it says what was left out. What is no reply stays as it is."""
    if not omitted or not isinstance(reply, LlmResponse):
        return reply
    return replace(reply, omitted=(*omitted, *reply.omitted))


@runtime_checkable
class EventSink(Protocol):
    """Receives events. It is called inside the run: be quick, or wrap it in a `BufferedSink`."""

    def emit(self, event: Event) -> None: ...


class Strategy(Value):
    """One piece of advice from earlier runs, ready for a prompt."""

    id: str
    text: str
    section: str = "Strategies"
    tool_sequence: tuple[str, ...] = ()


@runtime_checkable
class StrategySource(Protocol):
    """A playbook, as an agent sees it."""

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> Sequence[Strategy]: ...


class Advice(Value):
    """A text for the instructions ("" where there is nothing to say), and what it is made of.

    `shown` are the ids of its lessons, `held` of lessons that were left out for comparison.
    `trouble` says why there is none if the source failed: the run continues without advice. `tools` are those
    that it recommends: they are listed before others with the same parameters, since a model may begin with
    the first of those whatever the advice says.
    """

    text: str = ""
    shown: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    trouble: str = ""
    tools: tuple[str, ...] = ()

    def under(self, instructions: str | None) -> str | None:
        """The instructions with the advice below them."""
        return f"{instructions}\n\n{self.text}" if instructions and self.text else self.text or instructions


@runtime_checkable
class Adviser(Protocol):
    """A source of strategies that words its own advice, and draws by the run's id what to hold back."""

    async def advise(self, task: str, *, run_id: str, domain: str, tools: Sequence[ToolSpec]) -> Advice: ...


async def advise(
    source: StrategySource | Adviser | None, task: str, *, run_id: str, domain: str, tools: Sequence[ToolSpec]
) -> Advice:
    """The advice for a run. Nothing that the source does fails the run or holds up the event loop."""
    if source is None:
        return Advice()
    try:
        if isinstance(source, Adviser):
            return await source.advise(task, run_id=run_id, domain=domain, tools=tools)
        found = await asyncio.to_thread(source.retrieve, task, domain=domain, k=_MOST)
        known = {tool.name for tool in tools}
        return _worded([item for item in found if item.text and known.issuperset(item.tool_sequence)][:_MOST])
    except Exception as error:  # noqa: BLE001  # whatever a store, an embedder or a network may raise
        return Advice(trouble=f"{type(error).__name__}: {error}")


def _worded(fitting: Sequence[Strategy]) -> Advice:
    lines: list[str] = []
    shown: list[str] = []
    tools: dict[str, None] = {}
    for item in fitting:
        if sum(map(len, lines)) + len(item.text) <= _CHARACTERS:
            lines.append(f"- {item.text}")
            shown.append(item.id)
            if getattr(item, "section", "Strategies") == "Strategies":  # a source of one's own may have none
                tools |= dict.fromkeys(item.tool_sequence)
    return Advice("\n".join([HEADING, *lines]) if lines else "", tuple(shown), tools=tuple(tools))


# --- around every call of the process --------------------------------------------------------------


Failing: TypeAlias = Callable[[BaseException], None]


class CallHook(Protocol):
    """Runs each call of this process inside something of its own, such as a span."""

    def listener(self, agent: str) -> EventSink:
        """The listener for the events of a run of this agent, called in the task of that run."""
        ...

    def model(
        self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Await the reply, and give it back."""
        ...

    def tool(
        self, call: ToolCall, description: str, result: Coroutine[Any, Any, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Await the result of a call, and give it back."""
        ...

    def responded(self, *, id: str, model: str) -> None:
        """A provider has named its reply, and the model that gave it."""
        ...

    def conversation(self, id: str) -> AbstractContextManager[None]:
        """Runs that are opened inside belong to this conversation."""
        ...

    def workflow(self, run_id: str) -> AbstractContextManager[Failing]:
        """The context manager around a graph's run. It is told of a failure, which is also raised."""
        ...

    def node(self, name: str, step: int) -> AbstractContextManager[Failing]:
        """The context manager around a node of a graph. It is told of a failure, which is a value there."""
        ...


class Around:
    """The hook of this process, if there is one: without one, a call pays a comparison.

    The loop's live effects hand each call to it, and it listens to every run.
    """

    __slots__ = ("hook",)

    def __init__(self) -> None:
        self.hook: CallHook | None = None


around = Around()


def name_reply(body: object) -> bool:
    """Tell the hook how a provider names its reply, in a body or in the text of an event; whether it does."""
    if isinstance(body, str):
        try:
            body = parse_json(body)
        except CodecError:
            return False
    if not is_object(body):
        return False
    for place in (body, body.get("message"), body.get("response")):  # where providers put it
        if is_object(place) and isinstance(place.get("model"), str):
            if around.hook is not None:
                around.hook.responded(id=str(place.get("id") or ""), model=place["model"])
            return True
    return False
