"""deep_agent: an agent for long tasks, with a plan, a workspace, offloading and subagents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wesichain.agent import Agent, Capability
from wesichain.context import Window
from wesichain.policy import Budget
from wesichain.tools import ToolRegistry

from .files import Files
from .offload import Offload
from .run_files import RunFiles
from .subagents import Subagents
from .todo import Todo
from .workspace import FilesOf, Workspace

_TOKENS = 32_000
_STEPS = 300


def deep_agent(
    model: Any,
    tools: Iterable[Any] | ToolRegistry = (),
    *,
    subagents: Mapping[str, Agent[Any, Any]] | None = None,
    files: Files | FilesOf | None = None,
    over_tokens: int = 2_000,
    capabilities: Sequence[Capability] = (),
    **options: Any,
) -> Agent[Any, Any]:
    """Return an `Agent` with a plan, a workspace, offloading and subagents.

    Without `files` each run has its own workspace, which is stored with its outcome. Results of more than
    `over_tokens` are stored in the workspace. `capabilities` and `options` are passed to `Agent`; by default,
    a run has 300 steps, and its requests have at most 32,000 tokens.
    """
    given = RunFiles(over_tokens=over_tokens) if files is None else files
    kit: list[Capability] = [Todo(), Workspace(given), Offload(given, over_tokens)]
    if subagents:
        kit.append(Subagents(subagents))
    options.setdefault("context", [Window(_TOKENS)])
    options.setdefault("budget", Budget(steps=_STEPS))
    return Agent(model, tools=tools, capabilities=[*kit, *capabilities], **options)
