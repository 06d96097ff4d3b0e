"""Protocols of models, event sinks, sources of advice, and hooks around every call.

A run calls `advise` once, before its first step, appends the text to its instructions, and records `shown`
and `held` in its log. Learning compares runs that were shown a lesson with runs from which it was withheld.
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
_MOST = 3  # strategies from a source that only retrieves
_CHARACTERS = 800  # of these strategies together


@runtime_checkable
class ToolCallingLlm(Protocol):
    """A model that can call tools. It translates requests and replies, and maps errors; it validates no call.

    It may also have `model` (its name), `traits` (an `LlmTraits`), `check_settings` (raises `ConfigError` for
    a `ModelSettings` that it cannot take), and `stream` (see `StreamingLlm`).
    """

    async def complete(self, request: LlmRequest) -> LlmResponse: ...


@runtime_checkable
class StreamingLlm(ToolCallingLlm, Protocol):
    """A model that can also stream its reply; the last item is the complete response."""

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamItem]: ...


@runtime_checkable
class CompletionLlm(Protocol):
    """A plain text model. `stop` are stop sequences, which are not part of the returned text.

    If `complete_text` has a parameter `settings`, it receives the `ModelSettings` of the request.
    """

    async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str: ...


class LlmTraits(Value):
    """The features that a model supports."""

    observes_errors: bool = False  # errors are best returned to it as observations (text ReAct)
    native_output: bool = False  # it supports LlmRequest.output_schema
    takes_stop: bool = False  # it supports LlmRequest.stop, whichever model it is
    output_with_tools: bool = False  # it supports output_schema and tools in the same request
    parallel_calls: bool = False  # one reply may ask for several calls
    images: bool = False  # it takes Image parts, or lists in `LlmResponse.omitted` those that it did not
    documents: bool = False  # the same for Document parts
    audio: bool = False  # the same for Audio parts
    reasoning: bool = False  # it returns its reasoning, or takes it back in the next request
    free_steps: bool = False  # no model is called for its replies, which spend no step of the budget
    caching: bool = False  # its provider caches prefixes at a lower price
    opens_thinking: bool = (
        False  # its prompt ends with a tag such as <think>, and replies have only the closing one
    )
    text_calls: bool = False  # a reply whose text consists of tool calls is run
    family: str = ""  # the row of `FAMILIES` that says how its template marks text; else its name decides

    @property
    def takes_all_parts(self) -> bool:
        return self.images and self.documents and self.audio


_UNDECLARED = LlmTraits(images=True, documents=True, audio=True)


def traits_of(llm: object) -> LlmTraits:
    """The traits that a model declares. A model without traits is sent every part unchanged."""
    traits = getattr(llm, "traits", None)
    return traits if isinstance(traits, LlmTraits) else _UNDECLARED


def other_models(llm: object) -> tuple[str, ...]:
    """The names of the models that may answer in place of this one, such as those of a `Fallback`."""
    found: tuple[str, ...] = getattr(llm, "other_models", ())
    return found


def check_settings(llm: object, settings: ModelSettings) -> None:
    """Raise `ConfigError` for a setting that the model does not support, before a request is sent.

    Adapters check them (`llm.check_settings(settings)`); other models receive all settings.
    """
    check = getattr(llm, "check_settings", None)
    if check is not None:
        check(settings)


def fit_message(message: Message, traits: LlmTraits) -> tuple[Message, tuple[str, ...]]:
    """The message for a model with these traits, and the lines that replace unsupported parts."""
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
    """The request for a model with these traits, and the lines that replace unsupported parts."""
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
    """The reply with the lines of `fit_request` in `omitted`. An object that is no reply is unchanged."""
    if not omitted or not isinstance(reply, LlmResponse):
        return reply
    return replace(reply, omitted=(*omitted, *reply.omitted))


@runtime_checkable
class EventSink(Protocol):
    """Receives events. It is called inside the run: return quickly, or wrap it in a `BufferedSink`."""

    def emit(self, event: Event) -> None: ...


class Strategy(Value):
    """One piece of advice from earlier runs, worded for a prompt."""

    id: str
    text: str
    section: str = "Strategies"
    tool_sequence: tuple[str, ...] = ()


@runtime_checkable
class StrategySource(Protocol):
    """A playbook from which an agent retrieves strategies."""

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> Sequence[Strategy]: ...


class Advice(Value):
    """A text for the instructions ("" if there is no advice), and the lessons that it contains.

    `shown` are the ids of its lessons, `held` those of lessons that were withheld for comparison. If the
    source failed, `trouble` has the error, and the run continues without advice. `tools` are the recommended
    tools: they are listed before others with the same parameters, since a model may start with the first of
    those whatever the advice says.
    """

    text: str = ""
    shown: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    trouble: str = ""
    tools: tuple[str, ...] = ()

    def under(self, instructions: str | None) -> str | None:
        """The instructions followed by the advice."""
        return f"{instructions}\n\n{self.text}" if instructions and self.text else self.text or instructions


@runtime_checkable
class Adviser(Protocol):
    """A source that words its own advice, and draws by the run's id which lessons to withhold."""

    async def advise(self, task: str, *, run_id: str, domain: str, tools: Sequence[ToolSpec]) -> Advice: ...


async def advise(
    source: StrategySource | Adviser | None, task: str, *, run_id: str, domain: str, tools: Sequence[ToolSpec]
) -> Advice:
    """The advice for a run. An error of the source does not fail the run, and the event loop stays free."""
    if source is None:
        return Advice()
    try:
        if isinstance(source, Adviser):
            return await source.advise(task, run_id=run_id, domain=domain, tools=tools)
        found = await asyncio.to_thread(source.retrieve, task, domain=domain, k=_MOST)
        known = {tool.name for tool in tools}
        return _worded([item for item in found if item.text and known.issuperset(item.tool_sequence)][:_MOST])
    except Exception as error:  # noqa: BLE001  # stores, embedders and networks raise anything
        return Advice(trouble=f"{type(error).__name__}: {error}")


def _worded(fitting: Sequence[Strategy]) -> Advice:
    lines: list[str] = []
    shown: list[str] = []
    tools: dict[str, None] = {}
    for item in fitting:
        if sum(map(len, lines)) + len(item.text) <= _CHARACTERS:
            lines.append(f"- {item.text}")
            shown.append(item.id)
            if getattr(item, "section", "Strategies") == "Strategies":  # a user's own source may have none
                tools |= dict.fromkeys(item.tool_sequence)
    return Advice("\n".join([HEADING, *lines]) if lines else "", tuple(shown), tools=tuple(tools))


# --- hooks around every call of the process --------------------------------------------------------------


Failing: TypeAlias = Callable[[BaseException], None]


class CallHook(Protocol):
    """Wraps each call of this process, for instance in a span."""

    def listener(self, agent: str) -> EventSink:
        """The sink for the events of a run of this agent, called in the task of that run."""
        ...

    def model(
        self, llm: object, request: LlmRequest, reply: Coroutine[Any, Any, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Await the reply and return it."""
        ...

    def tool(
        self, call: ToolCall, description: str, result: Coroutine[Any, Any, Any]
    ) -> Coroutine[Any, Any, Any]:
        """Await the result of a call and return it."""
        ...

    def responded(self, *, id: str, model: str) -> None:
        """A provider has sent the id of its reply and the name of the model."""
        ...

    def conversation(self, id: str) -> AbstractContextManager[None]:
        """Runs started inside the context belong to this conversation."""
        ...

    def workflow(self, run_id: str) -> AbstractContextManager[Failing]:
        """The context manager around the run of a graph. It receives a failure, which is also raised."""
        ...

    def node(self, name: str, step: int) -> AbstractContextManager[Failing]:
        """The context manager around a node of a graph. It receives a failure, which is a value there."""
        ...


class Around:
    """Holds the hook of this process, if there is one. Without it a call costs one comparison more.

    The loop's live effects pass each call to it, and it receives the events of every run.
    """

    __slots__ = ("hook",)

    def __init__(self) -> None:
        self.hook: CallHook | None = None


around = Around()


def name_reply(body: object) -> bool:
    """Pass the id and model in a provider's body (or its text) to the hook; returns whether it has them."""
    if isinstance(body, str):
        try:
            body = parse_json(body)
        except CodecError:
            return False
    if not is_object(body):
        return False
    for place in (body, body.get("message"), body.get("response")):  # where providers put them
        if is_object(place) and isinstance(place.get("model"), str):
            if around.hook is not None:
                around.hook.responded(id=str(place.get("id") or ""), model=place["model"])
            return True
    return False
