"""`Capability`: tools, instructions, middleware and context views that are added to an agent as one value."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from inspect import isawaitable
from typing import Any, TypeAlias

from wesichain.context import ContextView
from wesichain.errors import ConfigError
from wesichain.middleware import Middleware
from wesichain.tools import RunContext, ToolRegistry

CapabilityText: TypeAlias = str | Awaitable[str | None] | None


class Capability:
    """The base class of capabilities: set the attributes and override the methods that you need.

    `Agent(capabilities=[...])` adds `tools` and `middleware` behind its own, in order, and puts the views of
    `context` before its own, so that the limits of its own views hold for the result. One object serves all
    runs of its agents, also concurrent ones: keep the state of a run in its context.
    """

    tools: Sequence[Any] = ()
    middleware: Sequence[Middleware[Any]] = ()
    context: Sequence[ContextView] = ()

    def instructions(self, ctx: RunContext[Any]) -> CapabilityText:
        """The text to add to the agent's instructions when a run begins; None adds nothing."""
        del ctx
        return None


class Capabilities:
    """The capabilities of one agent."""

    __slots__ = ("_given", "instruct")

    def __init__(self, given: Iterable[Capability]) -> None:
        self._given = tuple(_checked(given))
        self.instruct = any(type(one).instructions is not Capability.instructions for one in self._given)

    def tools(self, own: Iterable[Any] | ToolRegistry) -> Iterable[Any] | ToolRegistry:
        """The agent's own tools, and behind them those of the capabilities."""
        added = [tool for one in self._given for tool in one.tools]
        if not added:
            return own
        before = [*own, *own.sources] if isinstance(own, ToolRegistry) else own
        return [*before, *added]

    def options(self, own: dict[str, Any]) -> dict[str, Any]:
        """The agent's options, with the middleware and the context views of the capabilities.

        The agent's own views come last, so that their limits hold for the whole request.
        """
        middleware = [part for one in self._given for part in one.middleware]
        views = [view for one in self._given for view in one.context]
        added = {
            "middleware": [*own.get("middleware", ()), *middleware],
            "context": [*views, *own.get("context", ())],
        }
        return {**own, **added} if middleware or views else own

    async def text(self, own: str | None, ctx: RunContext[Any]) -> str | None:
        """The agent's own instructions, and below them those of the capabilities."""
        texts = [own]
        for one in self._given:
            text = one.instructions(ctx)
            texts.append(await text if isawaitable(text) else text)
        return "\n\n".join(filter(None, texts)) or None


def _checked(given: Any) -> Iterable[Capability]:
    if not isinstance(given, list | tuple):
        raise ConfigError(f"capabilities={given!r}: use a list, such as [Todo()]")
    for one in given:  # pyright: ignore[reportUnknownVariableType]  # anything may be given
        if not isinstance(one, Capability):
            raise ConfigError(f"capabilities: {one!r} is not a Capability object, such as Todo()")
        yield one
