"""An agent as a tool of another one: one call of it is one run below the caller's."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from wesichain.agent.phases import Completed, Failed, Interrupted, Outcome
from wesichain.core import JsonValue
from wesichain.errors import RunInterruptedError, ToolError
from wesichain.tools import Effect, JsonTool, ToolContext

_DAY = 86_400.0


class AgentTool(JsonTool):
    """A tool that runs an agent. After an interruption the agent goes on where it was."""

    is_agent = True

    def __init__(
        self,
        run: Callable[..., Coroutine[Any, Any, Outcome[Any]]],
        *,
        agent: str,
        name: str,
        description: str,
        effect: Effect,
    ) -> None:
        self.agent: Any = getattr(run, "__self__", None)  # whose program is a part of its caller's

        async def ask(args: Any, ctx: ToolContext) -> JsonValue:
            # The same attempt is the same run, whenever it is made: its own calls keep their keys.
            again = f"#{ctx.attempt}" if ctx.attempt > 1 else ""
            run_id = f"{ctx.idempotency_key}{again}" if ctx.idempotency_key else None
            outcome = await run(args["task"], parent=ctx, run_id=run_id)
            match outcome:
                case Completed(text=text):
                    return text
                case Failed(error=error):
                    raise ToolError(f"the agent {agent!r} failed: {error}") from error
                case Interrupted(reason=reason):
                    raise RunInterruptedError(f"the agent {agent!r} was interrupted: {reason}", outcome)

        super().__init__(
            name,
            description,
            {
                "type": "object",
                "properties": {"task": {"type": "string", "description": "What it should do or find out."}},
                "required": ["task"],
                "additionalProperties": False,
            },
            ask,
            timeout=_DAY,  # the caller's budget and cancellation are what bounds it
            effect=effect,
        )
