"""Generators: solve tasks with the agent loop and advice from a playbook."""

from __future__ import annotations

import re
from collections.abc import Iterable
from sys import maxsize
from typing import Any
from uuid import uuid4

from wesichain.agent import AgentRuntime, Completed, LoopGuard
from wesichain.agent.internal import resolve_model
from wesichain.core import CompletionLlm, ToolCallingLlm
from wesichain.core.internal import Advice, Clock, replace
from wesichain.errors import (
    AgentError,
    ConfigError,
    LlmRejectedError,
    ModelTransportError,
    PlaybookError,
)
from wesichain.policy import Budget, Fail, N, Recovery, Reprompt, Retry, Rule
from wesichain.tools import ToolRegistry, ToolSet

from .advising import Shares, make_advice
from .entities.bullets import fingerprints_of
from .entities.tasks import TaskInput, TaskOutput
from .playbook import Playbook
from .trace_log import TraceLog

DEFAULT_LIMIT = 10  # iterations of a task
EXCLUDE_AFTER = 3  # failures of a tool in one task
_THINK = "Think step by step. End with a line that begins with 'Answer:' and holds the answer alone."
_ANSWER = re.compile(r"^[ \t]*answer:[ \t]*", re.IGNORECASE | re.MULTILINE)

# Errors of tools and malformed replies are returned to the model; a provider that fails ends the task.
OBSERVE = Recovery(
    {
        AgentError: Reprompt(N(maxsize)),
        ModelTransportError: Rule(Retry(), limit=2),
        LlmRejectedError: Fail(),
    }
)


class ReActGenerator:
    """Solves tasks with tools. Without tools it reasons in a single reply, as `CoTGenerator` does.

    Owners' sentences and at most `k` learned bullets of the playbook, together at most `advice_tokens`
    tokens, follow the instructions. Bullets about tools that are not offered, or whose schema has changed,
    are left out. A task without `max_iterations` is limited to `max_iters`. A tool that fails three times is
    not offered again in that task.
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
        k: int = 3,
        advice_tokens: int = 400,
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
        self._k = k
        self._advice_tokens = advice_tokens
        self._clock = clock
        self._registry = self._tools.build()

    @property
    def registry(self) -> ToolRegistry:
        return self._registry

    @property
    def llm(self) -> ToolCallingLlm:
        """The model that solves the tasks."""
        return self._llm

    def register_tool(self, tool: Any) -> None:
        """Add a tool; the next task can use it."""
        self._tools.register(tool)
        self._registry = self._tools.build()

    def validate_tools(self) -> list[str]:
        """Return the problems of the tools, one sentence each."""
        return [
            f"tool {tool.name!r} has no description: a model cannot know when to use it"
            for tool in self._registry
            if not tool.spec.description
        ]

    async def forward(self, task: TaskInput) -> TaskOutput:
        """Solve a task. If the model fails, the output has the error and the trace up to that point."""
        runtime = self._runtime(task)
        run_id = uuid4().hex
        advice = await self._advice(task, runtime.registry, run_id)
        outcome = await runtime.run(
            task.description,
            run_id=run_id,
            advice=advice,
            budget=Budget(steps=task.max_iterations or self._max_iters),
        )
        output = TaskOutput.of(outcome, task_id=task.task_id)
        if isinstance(outcome, Completed) and len(runtime.registry) == 0:
            output = replace(output, answer=_ANSWER.split(outcome.text)[-1].strip() or output.answer)
        if advice.trouble:
            output = _with_note(output, "playbook_error", advice.trouble)
        if self._trace_log is not None:
            try:
                self._trace_log.write(task, output)
            except (PlaybookError, OSError) as error:  # the answer is returned without a trace
                return _with_note(output, "trace_log_error", str(error))
        return output

    def _runtime(self, task: TaskInput) -> AgentRuntime[str]:
        """The runtime with the tools of a task."""
        registry, chosen = self._registry, task.available_tools
        if chosen is not None:
            unknown = sorted(set(chosen) - set(registry.names))
            if unknown:
                known = ", ".join(registry.names) or "none"
                raise ConfigError(
                    f"task {task.task_id!r}: no tool {unknown[0]!r} is registered; the tools are {known}"
                )
            registry = ToolSet.of(tool for tool in registry if tool.name in chosen).build()
        return AgentRuntime(
            self._llm,
            registry,
            policy=OBSERVE,
            instructions=self._instructions or (None if len(registry) else _THINK),
            exclude_after=EXCLUDE_AFTER,
            loop_guard=LoopGuard(),
            clock=self._clock,
        )

    async def _advice(self, task: TaskInput, registry: ToolRegistry, run_id: str) -> Advice:
        """The advice for a task; the bullets of the task come first."""
        tools = [tool.spec for tool in registry]
        if self._playbook is None:
            return make_advice(
                (),
                task.playbook_bullets,
                run_id=run_id,
                tools=fingerprints_of(tools),
                k=self._k,
                tokens=self._advice_tokens,
                shares=Shares(),
            )
        return await self._playbook.advise(
            task.description,
            run_id=run_id,
            domain=task.domain,
            tools=tools,
            k=self._k,
            tokens=self._advice_tokens,
            first=task.playbook_bullets,
        )


class CoTGenerator:
    """Solves tasks by chain-of-thought reasoning, in a single reply without tools."""

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

    @property
    def llm(self) -> ToolCallingLlm:
        """The model that solves the tasks."""
        return self._inner.llm

    async def forward(self, task: TaskInput) -> TaskOutput:
        return await self._inner.forward(task)


def _with_note(output: TaskOutput, name: str, note: str) -> TaskOutput:
    return replace(output, metadata={**output.metadata, name: note})
