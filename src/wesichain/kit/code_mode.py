"""CodeMode: a tool that runs a program over other tools; the program's calls are calls of the run."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict, override

from wesichain.agent import AgentRuntime, AgentTool, Capability, Completed, Failed, Interrupted
from wesichain.core import ToolCall
from wesichain.core.internal import parse_json
from wesichain.errors import BudgetExceededError, ConfigError, RunInterruptedError, ToolError
from wesichain.middleware import CallTool, Middleware
from wesichain.policy import Budget, ObserveErrors
from wesichain.tools import ToolContext, ToolRegistry, ToolResult, ToolSet, TypedTool

if TYPE_CHECKING:
    from .program import CodeProgram, ProgramLimits

_NAME = "run_code"
_LONGEST = 50_000  # characters of a program


class CodeMode(Capability):
    """Gives the model one tool, `run_code`, and these tools as functions of the programs that it writes.

    A program awaits its calls, with keyword arguments; `asyncio.gather` makes several at once, and the value
    of its last expression is the result. Every call is a call of the run: it is checked, approved, recorded
    and replayed like any other, and spends `tool_calls` and no step. A call that fails or is refused raises
    RuntimeError in the program. A program that is interrupted continues where it was, and repeats no call.

    `max_calls` limits the calls of one program, over all its resumes, `seconds` its computing time, without
    the time that it waits for calls, and `memory_mb` its memory.
    """

    def __init__(
        self,
        tools: Iterable[Any] | ToolRegistry,
        max_calls: int = 50,
        seconds: float = 10.0,
        memory_mb: int = 256,
    ) -> None:
        from .program import ProgramLimits  # needs a package of its own

        if max_calls < 1 or seconds <= 0 or memory_mb < 1:
            raise ConfigError("CodeMode: max_calls, seconds and memory_mb have to be above 0")
        registry = tools if isinstance(tools, ToolRegistry) else ToolSet.of(tools).build()
        if registry.sources or not len(registry):
            raise ConfigError("CodeMode takes at least one tool, and no sources of tools that change")
        for name in registry.names:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ConfigError(f"CodeMode: the tool {name!r} cannot be called in a program; rename it")
        self.tools = (_RunCode(registry, ProgramLimits(max_calls, seconds, memory_mb)),)


class _Code(TypedDict):
    code: Annotated[str, Field(description="The program.")]


class _RunCode(TypedTool[_Code, Any]):
    """The tool that runs a program: one run below the call, with the program in place of a model."""

    name = _NAME
    is_agent = True
    runs_programs = True
    effect = "once"  # its calls are the run's, and are not made again
    timeout = AgentTool.timeout

    def __init__(self, registry: ToolRegistry, limits: ProgramLimits) -> None:
        self.agents = tuple(one for tool in registry for one in tool.agents)
        self._registry = registry
        self._limits = limits
        self.description = _described(registry, limits)

    @override
    async def run(self, args: _Code, ctx: ToolContext) -> Any:
        from .program import CodeProgram

        if len(args["code"]) > _LONGEST:
            raise ToolError(f"the program has {len(args['code'])} characters; write at most {_LONGEST}")
        program = CodeProgram(args["code"], frozenset(self._registry.names), self._limits)
        outcome = await self._runtime(program, ctx).run(args["code"], parent=ctx, on_open=program.attach)
        match outcome:
            case Completed(text=text):
                return _result(parse_json(text))
            case Failed(error=BudgetExceededError() as error):
                raise error
            case Failed(error=error):
                raise ToolError(f"the program was stopped: {error}") from error
            case Interrupted(reason=reason):
                raise RunInterruptedError(f"the program was interrupted: {reason}", outcome)

    def _runtime(self, program: CodeProgram, ctx: ToolContext) -> AgentRuntime[str]:
        """A runtime for one program, with the settings of the run above."""
        above: Any = getattr(ctx.link, "settings", None)
        if above is None:
            raise ToolError("run_code runs inside the run of an agent, and nowhere else")
        return AgentRuntime(
            program,
            self._registry,
            name=_NAME,
            policy=ObserveErrors(),
            # Its steps are free; the budget is there to give its replies, which cost nothing, a price.
            budget=Budget(prices={program.model: (0.0, 0.0)}),
            middleware=[_AroundTools(one) for one in above.middleware],
            tool_concurrency=above.tool_concurrency,
            approval_ttl=above.approval_ttl,
            exclude_after=None,
            loop_guard=None,
        )


class _AroundTools(Middleware):
    """Middleware of the run above, around the calls of a program: it has no model of its own."""

    def __init__(self, inner: Middleware) -> None:
        self._inner = inner

    @override
    async def wrap_tool(self, ctx: ToolContext[Any], call: ToolCall, call_next: CallTool) -> ToolResult:
        return await self._inner.wrap_tool(ctx, call, call_next)


def _result(ended: Any) -> Any:
    """The value of a program, with what it printed and a note; one that failed is a `ToolError`."""
    printed = ended.get("printed", "")
    if "error" in ended:
        raise ToolError(f"{ended['error']}\nIt had printed:\n{printed}" if printed else ended["error"])
    parts = ("value", "printed", "note")
    return ended["value"] if len(ended) == 1 else {name: ended[name] for name in parts if name in ended}


def _described(registry: ToolRegistry, limits: ProgramLimits) -> str:
    """The description of the tool: how to write a program, and the functions that it has."""
    offered = {spec.name for spec in registry.specs()}
    functions = "\n".join(
        f"await {tool.signature}  # {tool.description}" for tool in registry if tool.name in offered
    )
    return (
        "Run a Python program that calls the functions below, which are there: do not define them. Await "
        "every call and use keyword arguments: x = await lookup(name='ann'). Use asyncio.gather for calls "
        "that do not depend on each other. The value of the last expression is the result: end with one that "
        "is short. A call that fails raises RuntimeError. There are no files, no network and no clock; at "
        f"most {limits.max_calls} calls.\n\n{functions}"
    )
