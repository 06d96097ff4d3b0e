"""Roles that others play: models, sinks of events, sources of strategies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, runtime_checkable

from .dataclass import dataclass
from .events import Event
from .exchange import LlmRequest, LlmResponse, StreamItem


@runtime_checkable
class ToolCallingLlm(Protocol):
    """A model that can ask for tools. It translates and maps faults; it never judges a call.

    May also have `model` (its name), `traits` (an `LlmTraits`), and `stream` (see `StreamingLlm`).
    """

    async def complete(self, request: LlmRequest) -> LlmResponse: ...


@runtime_checkable
class StreamingLlm(ToolCallingLlm, Protocol):
    """A model that can also answer in pieces; the last item is the whole response."""

    def stream(self, request: LlmRequest) -> AsyncIterator[StreamItem]: ...


@runtime_checkable
class CompletionLlm(Protocol):
    """A plain text model. `stop`: texts at which it should end; the stop text itself is not returned."""

    async def complete_text(self, prompt: str, *, stop: Sequence[str]) -> str: ...


@dataclass(frozen=True, slots=True)
class LlmTraits:
    """What the runtime may ask of a model, and what the model would rather have."""

    observes_errors: bool = False  # faults are best told to it as observations (text ReAct)
    native_output: bool = False  # it honours LlmRequest.output_schema
    takes_stop: bool = False  # it honours LlmRequest.stop, whichever model it is


def traits_of(llm: object) -> LlmTraits:
    traits = getattr(llm, "traits", None)
    return traits if isinstance(traits, LlmTraits) else LlmTraits()


@runtime_checkable
class EventSink(Protocol):
    """Where events go. Called in line: be quick, or stand behind a `BufferedSink`."""

    def emit(self, event: Event) -> None: ...


@dataclass(frozen=True, slots=True)
class Strategy:
    """One piece of advice from earlier runs, ready for a prompt."""

    id: str
    text: str
    section: str = "Strategies"
    tool_sequence: tuple[str, ...] = ()


@runtime_checkable
class StrategySource(Protocol):
    """What an agent knows of a playbook."""

    def retrieve(self, task: str, *, domain: str, k: int = 3) -> Sequence[Strategy]: ...
