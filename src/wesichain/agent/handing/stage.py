"""A stage: what a runtime is to runs that are handed to it, and to whom it hands its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wesichain.agent.effects import Effects, LiveEffects
from wesichain.agent.model_names import Models
from wesichain.agent.rules import OutputMode, judge_of, output_form
from wesichain.agent.run_state import Settings
from wesichain.core import ToolCall, ToolCallingLlm, traits_of
from wesichain.errors import ConfigError
from wesichain.middleware import Middleware
from wesichain.tools import ToolRegistry

if TYPE_CHECKING:
    from wesichain.agent.rules.handoff import Actor, Handoff, Transfer

OutT = TypeVar("OutT")


class Stage(Generic[OutT]):
    """A model, tools and settings that runs can be acted with."""

    _llm: ToolCallingLlm
    _live: LiveEffects
    _settings: Settings[OutT]
    _around: Sequence[Middleware]  # middleware that stands around whole runs
    _inside: tuple[Any, ...] | None  # and around model calls and tool calls
    _models: Models[Any]  # copies with other models
    adapt: Callable[[ToolRegistry], ToolRegistry] | None = None  # the tools of others that act in its runs

    def _prepare_handoffs(
        self, handoffs: Iterable[Actor | Handoff], output_type: Any, mode: OutputMode
    ) -> None:
        self.identity = object()  # of the agent: a copy of its runtime has the same
        self.output_type = output_type
        self.transfers: dict[str, Transfer] = {}
        self._output_mode: OutputMode = mode
        self._is_changing = bool(self.registry.sources)  # who acts, or with which tools
        for handoff in handoffs:
            self.add_handoff(handoff)

    def add_handoff(self, other: Actor | Handoff) -> None:
        """Let the model hand its runs to another agent, or as a `Handoff` says."""
        from wesichain.agent.rules.handoff import Transfer  # not needed where nobody else acts

        from .team import check_handoff, team_of

        transfer = Transfer(check_handoff(self, other))
        settings, before = self._settings, self.transfers
        registry = settings.registry.with_tools({transfer.name: ToolRegistry([transfer])})
        self.transfers = {**before, transfer.name: transfer}
        try:
            team_of(self)
        except ConfigError:
            self.transfers = before
            raise
        output = settings.judge.output
        if not settings.registry.names:  # its first tool: not every model takes tools and a schema at once
            traits = traits_of(self._llm)
            output = output_form(self.output_type, traits, mode=self._output_mode, has_tools=True)
        checks = settings.checks and replace(settings.checks, form=output)
        self._settings = replace(settings, registry=registry, judge=judge_of(registry, output), checks=checks)
        self._live = LiveEffects(self._llm, registry)
        self._is_changing = True
        self._models.make_anew()

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def registry(self) -> ToolRegistry:
        return self._settings.registry

    @property
    def settings(self) -> Settings[OutT]:
        return self._settings

    @property
    def around(self) -> Sequence[Middleware]:
        """The middleware that stands around whole runs."""
        return self._around

    def world(self, tools: ToolRegistry) -> Effects:
        """The model and these tools, with the middleware around both."""
        return self._wrapped(LiveEffects(self._llm, tools))

    def _wrapped(self, live: Effects) -> Effects:
        if self._inside is None:
            return live
        from wesichain.agent.wrapping import wrapped  # loaded with the first middleware

        return wrapped(live, *self._inside)

    def system(self, instructions: str | None) -> str:
        """The first message of a run: the instructions, and how to answer where that is said in words."""
        return "\n\n".join(filter(None, (instructions, self._settings.judge.output.prompt)))

    def refusal_of(self, call: ToolCall) -> Exception | None:
        """Why a call with these arguments cannot be run, by this agent or one that it hands over to."""
        from .team import refusal_in

        return refusal_in(self, call)
