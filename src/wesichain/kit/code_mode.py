"""CodeMode: a tool that runs a program which calls other tools."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from typing_extensions import TypedDict, override

from wesichain.agent import AgentRuntime, AgentTool, Capability, Completed, Failed, Interrupted
from wesichain.core import ToolCall
from wesichain.core.internal import parse_json
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    ConfigError,
    InvalidModelActionError,
    RunInterruptedError,
    ToolError,
)
from wesichain.middleware import CallTool, Middleware
from wesichain.policy import Budget, Fail, ObserveErrors, PolicyDecision, RunView
from wesichain.tools import ToolContext, ToolRegistry, ToolResult, ToolSet, TypedTool

if TYPE_CHECKING:
    from .program import CodeProgram, ProgramLimits

_NAME = "run_code"
_MAX_CHARACTERS = 50_000  # characters of a program


class CodeMode(Capability):
    """One tool, `run_code`, that runs programs which the model writes; they can call the given tools.

    A program awaits its calls, with keyword arguments; `asyncio.gather` makes several at once, and the value
    of its last expression is the result. Every call is a call of the run: it is checked, approved, recorded
    and replayed like any other, and spends `tool_calls` and no step. A call that fails or is refused raises
    RuntimeError in the program. A program that is interrupted continues where it was, and repeats no call.

    `max_calls` limits the calls of one program, over all its resumes, `seconds` its computing time (time
    spent waiting for calls is not counted), and `memory_mb` its memory.
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
            raise ConfigError("CodeMode needs at least one tool, and cannot use DynamicTools or ToolSearch")
        for name in registry.names:
            if not name.isidentifier() or keyword.iskeyword(name):
                raise ConfigError(f"CodeMode: the tool {name!r} cannot be called in a program; rename it")
        self.tools = (_RunCode(registry, ProgramLimits(max_calls, seconds, memory_mb)),)


class _Code(TypedDict):
    code: Annotated[str, Field(description="The program.")]


class _RunCode(TypedTool[_Code, Any]):
    """The tool that runs a program: a child run, in which the program takes the place of the model."""

    name = _NAME
    is_agent = True
    runs_programs = True
    effect = "once"  # its calls are calls of the run, and are not repeated
    timeout = AgentTool.timeout

    def __init__(self, registry: ToolRegistry, limits: ProgramLimits) -> None:
        self.agents = tuple(one for tool in registry for one in tool.agents)
        self.tools = tuple(registry)
        self._registry = registry
        self._limits = limits
        self.description = _described(registry, limits)

    @override
    async def run(self, args: _Code, ctx: ToolContext) -> Any:
        from .program import CodeProgram

        if len(args["code"]) > _MAX_CHARACTERS:
            raise ToolError(
                f"the program has {len(args['code'])} characters; write at most {_MAX_CHARACTERS}"
            )
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
        """Return a runtime for one program, with the settings of the parent run."""
        parent: Any = getattr(ctx.link, "settings", None)
        if parent is None:
            raise ToolError("run_code can only be called in a run of an agent")
        return AgentRuntime(
            program,
            self._registry,
            name=_NAME,
            policy=_ProgramPolicy(),
            # Its steps are free. The budget is needed for the price of its replies, which is 0.
            budget=Budget(prices={program.model: (0.0, 0.0)}),
            middleware=[_ToolMiddleware(one) for one in parent.middleware],
            tool_concurrency=parent.tool_concurrency,
            approval_ttl=parent.approval_ttl,
            exclude_after=None,
            loop_guard=None,
        )


class _ProgramPolicy(ObserveErrors):
    """The errors of calls are raised in the program; others end it, since they would occur every time."""

    @override
    def on_model_error(self, state: RunView, error: AgentError) -> PolicyDecision:
        is_of_call = isinstance(error, InvalidModelActionError) and error.tool_name is not None
        return super().on_model_error(state, error) if is_of_call else Fail()


class _ToolMiddleware(Middleware):
    """Wraps the calls of a program with the middleware of the parent run; there are no model calls."""

    def __init__(self, inner: Middleware) -> None:
        self._inner = inner

    @override
    async def wrap_tool(self, ctx: ToolContext[Any], call: ToolCall, call_next: CallTool) -> ToolResult:
        return await self._inner.wrap_tool(ctx, call, call_next)


def _result(reply: Any) -> Any:
    """Return the value of a program, with its output and a note. Raises `ToolError` if the program failed."""
    printed = reply.get("printed", "")
    if "error" in reply:
        raise ToolError(f"{reply['error']}\nIt had printed:\n{printed}" if printed else reply["error"])
    parts = ("value", "printed", "note")
    return reply["value"] if len(reply) == 1 else {name: reply[name] for name in parts if name in reply}


def _described(registry: ToolRegistry, limits: ProgramLimits) -> str:
    """Return the description of the tool: how to write a program, and its functions."""
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
