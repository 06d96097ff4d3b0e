"""`Handoff`: an agent that a run may be handed off to, and the tool that the model calls for it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias

from wesichain.core import JsonValue, Message
from wesichain.core.internal import Advice, Value
from wesichain.errors import AgentError, ConfigError
from wesichain.tools import JsonTool, RunContext

_ODD = re.compile(r"[^A-Za-z0-9_.-]")
_SCHEMA = {
    "type": "object",
    "properties": {"reason": {"type": "string", "description": "Why, in a few words."}},
    "additionalProperties": False,
}

History: TypeAlias = Callable[[Sequence[Message]], Iterable[Message] | Awaitable[Iterable[Message]]]


class Actor(Protocol):
    """The part of an agent that handoffs need."""

    name: str
    description: str

    @property
    def runtime(self) -> Any: ...

    @property
    def has_playbook(self) -> bool: ...

    @property
    def fixed_instructions(self) -> str | None:
        """The instructions if they are text; None if they are a function."""
        ...

    async def prompt(self, task: str, ctx: RunContext[Any] | None = None) -> str | None:
        """The instructions for a run of the task."""
        ...

    async def advise(self, task: str, run_id: str) -> Advice:
        """Advice from earlier runs of this agent, for the run with this id."""
        ...


class Handoff(Value):
    """An agent that a run may be handed off to: `Agent(..., handoffs=[Handoff(billing, description="...")])`.

    `description` tells the model when to hand off; by default it is the description of the agent. `history`
    is a function of the messages so far (without instructions, and with the call of the handoff) that returns
    the messages for the other agent; by default it gets all of them. The function is called again in a
    replay, and should depend on its argument alone.
    """

    agent: Actor
    description: str | None = None
    history: History | None = None

    async def messages_for(self, messages: Sequence[Message]) -> list[Message]:
        """The messages for the other agent, chosen by the `history` function."""
        choose: Any = self.history
        name = self.agent.name
        try:
            given = choose(messages)
            chosen = [*(await given if inspect.isawaitable(given) else given)]
        except Exception as cause:
            raise AgentError(
                f"the history function of the handoff to {name!r} raised {type(cause).__name__}: {cause}"
            ) from cause
        return chosen


class Transfer(JsonTool):
    """The tool of one handoff. The loop hands the run off after the other calls of the reply."""

    def __init__(self, handoff: Handoff) -> None:
        agent = handoff.agent

        async def hand_over(_: Any) -> JsonValue:
            return f"Handed over to {agent.name!r}, who goes on from here."

        when = handoff.description or agent.description
        super().__init__(
            f"transfer_to_{_ODD.sub('_', agent.name)}"[:64],
            f"Hand over to {agent.name!r}, who takes the conversation on. {when}".strip(),
            _SCHEMA,
            hand_over,
            effect="pure",
        )
        self.handoff = handoff


def as_handoff(given: Any) -> Handoff:
    """An agent, or a handoff, as a handoff."""
    made = given if isinstance(given, Handoff) else Handoff(given)
    agent: Any = made.agent
    if not (hasattr(agent, "runtime") and hasattr(agent, "prompt") and isinstance(agent.name, str)):
        raise ConfigError(f"handoffs: {agent!r:.80} is not an agent; pass an Agent, or Handoff(agent, ...)")
    history: Any = made.history
    if not (history is None or callable(history)):
        raise ConfigError(f"Handoff(history={history!r:.80}): pass a function of the messages")
    return made
