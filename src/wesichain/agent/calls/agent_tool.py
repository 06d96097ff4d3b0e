"""An agent as a tool of another agent: each call runs the agent below the caller's run."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from typing_extensions import TypedDict, override

from wesichain.agent.phases import Completed, Failed, Interrupted, Outcome
from wesichain.agent.run_place import RunPlace
from wesichain.errors import RunInterruptedError, ToolError
from wesichain.tools import Effect, ToolContext, TypedTool

from .open_call import OpenCall

_DAY = 86_400.0


class AgentTool(TypedTool[Any, Any]):
    """A tool that runs an agent. After an interruption the agent's run is resumed.

    If `takes` is str, the tool has one parameter, the task. If it is an object type, its fields are the
    parameters, and the agent's task is the checked arguments as JSON text.
    """

    is_agent = True
    timeout = _DAY  # the caller's budget and cancellation are its limits

    def __init__(
        self, agent: Any, *, name: str, description: str, effect: Effect = "once", takes: Any = str
    ) -> None:
        self.agents: tuple[Any, ...] = (agent,)
        self._agent = agent
        self._takes = takes
        self.effect = effect
        self.name = name
        self.description = description
        self.plan()  # raises for a type that has no schema

    @override
    def types(self) -> tuple[Any, Any]:
        return _task_of_text() if self._takes is str else self._takes, self._agent.runtime.output_type

    @override
    async def run(self, args: Any, ctx: ToolContext) -> Any:
        agent = self._agent
        outcome: Outcome[Any] = await agent.outcome(self._task_of(args), **in_call(agent, ctx))
        while isinstance(outcome, Interrupted) and outcome.pending and hasattr(ctx.link, "decide"):
            decisions = await ctx.link.decide(outcome.pending)  # the caller can ask a person now
            outcome = await agent.runtime.resume(outcome, decisions)
        match outcome:
            case Completed(text=text):
                return agent.runtime.read_output(text)
            case Failed(error=error):
                raise ToolError(f"the agent {agent.name!r} failed: {error}") from error
            case Interrupted(reason=reason):
                raise RunInterruptedError(f"the agent {agent.name!r} was interrupted: {reason}", outcome)

    def _task_of(self, args: Any) -> str:
        if self._takes is str:
            return str(args["task"])
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(self._takes)
        return adapter.dump_json(args, by_alias=True).decode()


def in_call(agent: Any, ctx: ToolContext) -> dict[str, Any]:
    """The options of the one run of an agent in a call: it is found again whatever its task."""
    link = ctx.link
    if not isinstance(link, OpenCall):
        return {"parent": ctx, "run_id": ctx.idempotency_key or None}
    place = link.claim(agent.name, "", alone=True)
    return {"parent": ctx, "place": RunPlace(link.log, place, link)}


@cache
def _task_of_text() -> Any:
    from pydantic import Field

    described = Field(description="What it should do or find out.")
    return TypedDict("Task", {"task": Annotated[str, described]})  # type: ignore[operator]  # made when asked
