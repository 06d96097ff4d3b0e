"""The options once more, for type checkers: the keywords of agents and of their runs.

Written from `options.py` by `python tools/keywords.py`. Nothing imports it when a program runs: to make these
classes takes as long as to make the runtime's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypedDict

from wesichain.context import ContextView
from wesichain.core import ModelSettings, StrategySource
from wesichain.core.internal import Advice, CancellationToken, Clock
from wesichain.journal import Journal, Journals
from wesichain.middleware import Middleware
from wesichain.policy import Budget, PolicyEngine
from wesichain.tools import ToolContext

from .backend import Backend
from .capability import Capability
from .flow.flow import Flow
from .handoffs.handoff import Actor, Handoff
from .memory.stores import RunMemory
from .model_names import AnyModel
from .options import DepsT, LoopGuard, OnLimit, OutT, Sinks
from .rules.answers import OutputMode
from .rules.checks import OutputCheck

if TYPE_CHECKING:
    from wesichain.trace import Redactor


class LoopKeywords(TypedDict, Generic[OutT, DepsT], total=False):
    """The keywords that an `Agent` and an `AgentRuntime` have in common."""

    policy: PolicyEngine | None
    budget: Budget
    on_limit: OnLimit
    events: Sinks
    tool_concurrency: int
    exclude_after: int | None
    loop_guard: LoopGuard | None
    approval_ttl: float | None
    context: Sequence[ContextView]
    output_mode: OutputMode
    output_checks: Sequence[OutputCheck[OutT, DepsT]]
    middleware: Sequence[Middleware[DepsT]]
    handoffs: Sequence[Actor | Handoff]
    settings: ModelSettings
    flow: Flow | None
    journals: Journals | None
    redactor: Redactor | None
    clock: Clock | None
    new_id: Callable[[], str] | None


class CommonKeywords(LoopKeywords[OutT, DepsT], Generic[OutT, DepsT], total=False):
    """The keywords of an `Agent` that are the same whatever its deps and its answer are."""

    name: str
    description: str
    playbook: StrategySource | None
    domain: str
    capabilities: Sequence[Capability]


class AgentKeywords(LoopKeywords[OutT, Any], Generic[OutT], total=False):
    """The keywords of an `AgentRuntime` beside its model, tools and output type."""

    name: str
    instructions: str | None
    deps_type: Any
    default_policy: PolicyEngine


class RunKeywords(TypedDict, Generic[DepsT], total=False):
    """The keywords of `AgentRuntime.run`, `Agent.run` and their siblings."""

    deps: DepsT
    model: AnyModel | None
    budget: Budget | None
    settings: ModelSettings | None
    cancellation: CancellationToken | None
    parent: ToolContext | Journal | None
    events: Sinks
    stream: bool
    run_id: str | None
    journals: Journals | None
    instructions: str | None
    advice: Advice | None
    key: str | None
    by: str | None
    clock: Clock | None
    wrap: Callable[[Backend], Backend] | None
    on_open: Callable[[Any], None] | None
    place: Any


class ConversationKeywords(RunKeywords[DepsT], Generic[DepsT], total=False):
    """The keywords of one run of an agent, beside its task and those that every run takes."""

    conversation: RunMemory | None
