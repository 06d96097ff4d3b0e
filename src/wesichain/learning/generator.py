"""Generators: a task goes through the one loop, with what the playbook knows; out come answer and trace."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from sys import maxsize
from typing import Any

from typing_extensions import override

from wesichain.agent import (
    AgentRuntime,
    Caller,
    Completed,
    Effects,
    Failed,
    Interrupted,
    LoopGuard,
    Outcome,
    resolve_model,
)
from wesichain.core import (
    Clock,
    CompletionLlm,
    JsonValue,
    LlmRequest,
    LlmResponse,
    Role,
    SystemClock,
    ToolCallingLlm,
    dump_json,
)
from wesichain.errors import (
    AgentError,
    BudgetExceededError,
    CodecError,
    ConfigError,
    LlmRejectedError,
    ModelTransportError,
    PlaybookError,
    ToolDefinitionError,
)
from wesichain.policy import Budget, Fail, N, PolicyEngine, Recovery, Reprompt, Retry, Rule
from wesichain.tools import PreparedCall, ToolRegistry, ToolResult, ToolSet

from .entities import PlaybookBullet, TaskInput, TaskOutput
from .playbook import Playbook
from .trace_log import TraceLog
from .transcript import read_steps, tell

DEFAULT_LIMIT = 10  # iterations, where neither the task nor the generator says otherwise
_FLOOR = 0.3  # similarity below which a learned bullet is about something else
_CHARACTERS_A_TOKEN = 4
_OTHERS = 8  # tools that an error names beside the one that failed; the model knows the rest
_RUNTIMES = 64  # sets of tools that are kept ready
_THINK = "Think step by step. End with a line that begins with 'Answer:' and holds the answer alone."
_GUARD = LoopGuard()
_ANSWER = re.compile(r"^[ \t]*answer:[ \t]*", re.IGNORECASE | re.MULTILINE)

# Whatever a model or a tool gets wrong is told to the model; a dead model ends the task.
OBSERVE = Recovery(
    {
        AgentError: Reprompt(N(maxsize)),
        ModelTransportError: Rule(Retry(), limit=2),
        LlmRejectedError: Fail(),
    }
)


class ReActGenerator:
    """Solves tasks with tools. Without tools it reasons in one go, as `CoTGenerator` does.

    At most `k` bullets of the playbook, and `advice_tokens` tokens of them, are shown right after the
    task; none that names a tool which is not there. The limit of iterations is the task's, else
    `max_iters`. A tool that fails `exclude_after` times is not offered again in that task.
    """

    def __init__(
        self,
        llm: ToolCallingLlm | CompletionLlm | str,
        tools: Iterable[Any] = (),
        *,
        playbook: Playbook | None = None,
        max_iters: int = DEFAULT_LIMIT,
        trace_log: TraceLog | None = None,
        instructions: str | None = None,
        policy: PolicyEngine = OBSERVE,
        k: int = 3,
        advice_tokens: int = 200,
        exclude_after: int | None = 3,
        loop_guard: LoopGuard | None = _GUARD,
        clock: Clock | None = None,
    ) -> None:
        if max_iters < 1:
            raise ConfigError(f"max_iters={max_iters}: a task needs at least one iteration")
        self._llm = resolve_model(llm)
        self._tools = ToolSet.of(tools)
        self._playbook = playbook
        self._max_iters = max_iters
        self._trace_log = trace_log
        self._instructions = instructions
        self._policy = policy
        self._k = k
        self._advice_tokens = advice_tokens
        self._exclude_after = exclude_after
        self._loop_guard = loop_guard
        self._clock = clock or SystemClock()
        self._registry = self._tools.build()
        self._runtimes: dict[frozenset[str] | None, AgentRuntime[str]] = {}

    @property
    def registry(self) -> ToolRegistry:
        return self._registry

    def register_tool(self, tool: Any) -> None:
        """Add a tool; the next task can use it."""
        self._tools.register(tool)
        self._registry = self._tools.build()
        self._runtimes.clear()

    def validate_tools(self) -> list[str]:
        """What is wrong with the tools, a sentence each; empty where nothing is."""
        problems: list[str] = []
        for tool in self._registry:
            try:
                if not tool.spec.description:
                    problems.append(
                        f"tool {tool.name!r} has no description: a model cannot know when to use it"
                    )
            except ToolDefinitionError as error:
                problems.append(str(error))
        return problems

    async def forward(self, task: TaskInput, *, without: Collection[str] = ()) -> TaskOutput:
        """Solve a task. Whatever the model or the tools do, there is an output with all that happened.

        `without`: ids of bullets that are not shown, for comparing.
        """
        runtime = self._runtime(task)
        bullets, trouble = await self._bullets(task, runtime.registry, without)
        began = self._clock.monotonic()
        outcome = await runtime.run(
            task.description,
            advice="\n".join(bullet.text for bullet in bullets),
            budget=Budget(steps=task.max_iterations or self._max_iters),
            effects=lambda live: _Explaining(live, runtime.registry),
        )
        seconds = self._clock.monotonic() - began
        notes = {"model": runtime.model, "seconds": round(seconds, 6), "shown": [item.id for item in bullets]}
        output = _output(task, outcome, notes | trouble, registry=runtime.registry)
        if self._trace_log is not None:
            try:
                self._trace_log.write(task, output)
            except (PlaybookError, OSError) as error:  # a full disk costs the trace, not the answer
                return replace(output, metadata={**output.metadata, "trace_log_error": str(error)})
        return output

    def _runtime(self, task: TaskInput) -> AgentRuntime[str]:
        """The runtime for the tools of a task; tasks with the same tools share one."""
        chosen = None if task.available_tools is None else frozenset(task.available_tools)
        if chosen not in self._runtimes:
            unknown = sorted((chosen or frozenset()) - set(self._registry.names))
            if unknown:
                known = ", ".join(self._registry.names) or "none"
                raise ConfigError(
                    f"task {task.task_id!r}: no tool {unknown[0]!r} is registered; the tools are {known}"
                )
            registry = self._registry
            if chosen is not None:
                registry = ToolSet.of(tool for tool in self._registry if tool.name in chosen).build()
            if len(self._runtimes) >= _RUNTIMES:
                self._runtimes.clear()
            self._runtimes[chosen] = AgentRuntime(
                self._llm,
                registry,
                policy=self._policy,
                instructions=self._instructions or (None if len(registry) else _THINK),
                exclude_after=self._exclude_after,
                loop_guard=self._loop_guard,
                clock=self._clock,
            )
        return self._runtimes[chosen]

    async def _bullets(
        self, task: TaskInput, registry: ToolRegistry, without: Collection[str]
    ) -> tuple[list[PlaybookBullet], dict[str, str]]:
        """What is shown with a task, and what went wrong with the playbook: it never fails the task."""
        found: Sequence[PlaybookBullet] = ()
        trouble: dict[str, str] = {}
        if self._playbook is not None and self._k > 0:
            wanted = 2 * self._k + len(without)  # some may be about tools that are not here
            try:
                matches = await asyncio.to_thread(
                    self._playbook.search, task.description, domain=task.domain, k=wanted, floor=_FLOOR
                )
                found = [match.bullet for match in matches]
            except PlaybookError as error:
                trouble = {"playbook_error": str(error)}
        shown: list[PlaybookBullet] = []
        left = self._advice_tokens * _CHARACTERS_A_TOKEN
        for bullet in (*task.playbook_bullets, *found):
            fits = len(bullet.text) <= left and all(tool in registry for tool in bullet.tool_sequence)
            is_new = bullet.id not in without and bullet.id not in [item.id for item in shown]
            if fits and is_new and len(shown) < self._k:
                shown.append(bullet)
                left -= len(bullet.text)
        return shown, trouble


class CoTGenerator:
    """Solves tasks by reasoning alone, in one reply."""

    def __init__(
        self,
        llm: ToolCallingLlm | CompletionLlm | str,
        *,
        playbook: Playbook | None = None,
        trace_log: TraceLog | None = None,
        instructions: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._inner = ReActGenerator(
            llm, playbook=playbook, trace_log=trace_log, instructions=instructions, clock=clock
        )

    async def forward(self, task: TaskInput, *, without: Collection[str] = ()) -> TaskOutput:
        return await self._inner.forward(task, without=without)


class _Explaining(Effects):
    """The world, whose tools say what was tried, what was expected and what else there is when they fail."""

    def __init__(self, world: Effects, registry: ToolRegistry) -> None:
        self._world = world
        self._registry = registry

    @override
    async def ask(self, request: LlmRequest, *, step_id: int, on_text: Any) -> LlmResponse:
        return await self._world.ask(request, step_id=step_id, on_text=on_text)

    @override
    async def call(self, prepared: PreparedCall, caller: Caller) -> ToolResult:
        result = await self._world.call(prepared, caller)
        if result.error is not None:
            name = prepared.tool.name
            others = ", ".join([other for other in self._registry.names if other != name][:_OTHERS]) or "none"
            expected = f"{name}({_parameters(prepared.tool.spec.parameters)})"
            hint = f"tried {_short(prepared.call.args)}; expected {expected}; other tools: {others}"
            result.error.args = (f"{result.error} ({hint})",)
        return result


def _parameters(schema: Any) -> str:
    required = schema.get("required", ())
    parts = [
        f"{name}{'' if name in required else '?'}: {about.get('type', 'any')}"
        for name, about in schema.get("properties", {}).items()
    ]
    return ", ".join(parts)


def _short(args: JsonValue) -> str:
    try:
        text = dump_json(args)
    except CodecError:
        text = repr(args)
    return text if len(text) <= 200 else f"{text[:200]}..."


def _output(
    task: TaskInput, outcome: Outcome[str], notes: dict[str, Any], *, registry: ToolRegistry
) -> TaskOutput:
    steps = read_steps(outcome.events)
    error = outcome.error if isinstance(outcome, Failed) else None
    limit = isinstance(error, BudgetExceededError) and error.resource == "steps"
    usage = outcome.usage
    notes |= {
        "run_id": outcome.run_id,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }
    if isinstance(outcome, Completed):
        answer = _ANSWER.split(outcome.text)[-1].strip() if len(registry) == 0 else outcome.text
    else:
        notes["error"] = _why(outcome)
        answer = _last_said(outcome)
    failures = sum(not call.success for step in steps for call in step.calls)
    called = dict.fromkeys(call.tool_name for step in steps for call in step.calls)
    return TaskOutput(
        task_id=task.task_id,
        answer=answer,
        reasoning_trace=tell(steps, ending=notes.get("error", "")),
        confidence=_confidence(outcome, failures),
        metadata=notes,
        structured_trace=steps,
        tools_used=tuple(name for name in called if name in registry),  # a model may name what is not there
        total_iterations=len(steps),
        iteration_limit_reached=limit,
    )


def _why(outcome: Failed[str] | Interrupted[str]) -> str:
    if isinstance(outcome, Failed):
        return f"{type(outcome.error).__name__}: {outcome.error}"
    return f"interrupted: {outcome.reason}"


def _confidence(outcome: Outcome[str], failures: int) -> float:
    """How smoothly the run went: 0 without an answer of its own, less with every call that failed."""
    return round(1 / (1 + 0.5 * failures), 3) if isinstance(outcome, Completed) else 0.0


def _last_said(outcome: Outcome[str]) -> str:
    said = [message.content for message in outcome.new_messages if message.role is Role.ASSISTANT]
    return next((text for text in reversed(said) if text), "")
