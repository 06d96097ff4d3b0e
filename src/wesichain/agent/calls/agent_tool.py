"""An agent as a tool of another agent: each call runs the agent below the caller's run."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from typing_extensions import TypedDict, override

from wesichain.agent.phases import Completed, Failed, Interrupted, Outcome
from wesichain.errors import RunInterruptedError, ToolError
from wesichain.tools import Effect, ToolContext, TypedTool

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
        # An attempt has the same run id whenever it is made, so that its calls keep their idempotency keys.
        again = f"#{ctx.attempt}" if ctx.attempt > 1 else ""
        run_id = f"{ctx.idempotency_key}{again}" if ctx.idempotency_key else None
        outcome: Outcome[Any] = await agent.outcome(self._task_of(args), parent=ctx, run_id=run_id)
        while isinstance(outcome, Interrupted) and outcome.pending and hasattr(ctx.link, "decide"):
            decisions = await ctx.link.decide(outcome.pending)  # the caller can ask a person now
            outcome = await agent.runtime.resume(outcome, decisions, parent=ctx)
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


@cache
def _task_of_text() -> Any:
    from pydantic import Field

    described = Field(description="What it should do or find out.")
    return TypedDict("Task", {"task": Annotated[str, described]})  # type: ignore[operator]  # made when asked
