"""An agent as a tool of another one: one call of it is one run below the caller's."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from typing_extensions import TypedDict, override

from wesichain.agent.phases import Completed, Failed, Interrupted, Outcome
from wesichain.errors import RunInterruptedError, ToolError
from wesichain.tools import Effect, ToolContext, TypedTool

_DAY = 86_400.0


class AgentTool(TypedTool[Any, Any]):
    """A tool that runs an agent. After an interruption the agent's run is resumed.

    `takes` is str, and then the tool has one parameter, the task; or an object type, whose fields are the
    parameters: the agent's task is then the checked arguments, as JSON text. `gives` is what the agent
    answers with; `read` makes such a value of an answer's text.
    """

    is_agent = True
    timeout = _DAY  # the caller's budget and cancellation are what bounds it

    def __init__(
        self,
        run: Callable[..., Coroutine[Any, Any, Outcome[Any]]],
        resume: Callable[..., Coroutine[Any, Any, Outcome[Any]]],
        *,
        agent: str,
        name: str,
        description: str,
        effect: Effect,
        takes: Any = str,
        gives: Any = str,
        read: Callable[[str], Any] = str,
    ) -> None:
        owner = getattr(run, "__self__", None)
        self.agents: tuple[Any, ...] = (
            () if owner is None else (owner,)
        )  # their programs are parts of its own
        self._ask = run
        self._resume = resume
        self._agent = agent
        self._takes = takes
        self._gives = gives
        self._read = read
        self.effect = effect
        self.name = name
        self.description = description
        self.plan()  # a type that cannot be described is refused here

    @override
    def types(self) -> tuple[Any, Any]:
        return _task_of_text() if self._takes is str else self._takes, self._gives

    @override
    async def run(self, args: Any, ctx: ToolContext) -> Any:
        # The same attempt is the same run, whenever it is made: its own calls keep their keys.
        again = f"#{ctx.attempt}" if ctx.attempt > 1 else ""
        run_id = f"{ctx.idempotency_key}{again}" if ctx.idempotency_key else None
        outcome = await self._ask(self._task_of(args), parent=ctx, run_id=run_id)
        while isinstance(outcome, Interrupted) and outcome.pending and hasattr(ctx.link, "decide"):
            decisions = await ctx.link.decide(outcome.pending)  # who called can ask a person meanwhile
            outcome = await self._resume(outcome, decisions, parent=ctx)
        match outcome:
            case Completed(text=text):
                return self._read(text)
            case Failed(error=error):
                raise ToolError(f"the agent {self._agent!r} failed: {error}") from error
            case Interrupted(reason=reason):
                raise RunInterruptedError(f"the agent {self._agent!r} was interrupted: {reason}", outcome)

    def _task_of(self, args: Any) -> str:
        if self._takes is str:
            return str(args["task"])
        from pydantic import TypeAdapter

        adapter: TypeAdapter[Any] = TypeAdapter(self._takes)
        return adapter.dump_json(args, by_alias=True).decode()


def _task_of_text() -> Any:
    from pydantic import Field

    described = Field(description="What it should do or find out.")
    return TypedDict("Task", {"task": Annotated[str, described]})  # type: ignore[operator]  # made when asked
