"""Write src/wesichain/agent/keywords.py: the options of agents and runs as keywords, for type checkers.

Options are defined once, in src/wesichain/agent/options.py. Type checkers need them as TypedDicts, which this
program generates. Run it after a change of an option: python tools/keywords.py
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

AGENT = Path(__file__).resolve().parents[1] / "src" / "wesichain" / "agent"
OPTIONS, KEYWORDS = AGENT / "options.py", AGENT / "keywords.py"
OF_RUNTIMES = ("name", "instructions", "deps_type", "default_policy")  # an Agent has parameters for these

HEAD = '''"""The options once more, for type checkers: the keywords of agents and of their runs.

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

'''
OF_RUNTIME = '''

class CommonKeywords(LoopKeywords[OutT, DepsT], Generic[OutT, DepsT], total=False):
    """The keywords of an `Agent` that are the same whatever its deps and its answer are."""

    name: str
    description: str
    playbook: StrategySource | None
    domain: str
    capabilities: Sequence[Capability]


class AgentKeywords(LoopKeywords[OutT, Any], Generic[OutT], total=False):
    """The keywords of an `AgentRuntime` beside its model, tools and output type."""

'''
OF_RUN = '''

class RunKeywords(TypedDict, Generic[DepsT], total=False):
    """The keywords of `AgentRuntime.run`, `Agent.run` and their siblings."""

'''
OF_CONVERSATION = '''

class ConversationKeywords(RunKeywords[DepsT], Generic[DepsT], total=False):
    """The keywords of one run of an agent, beside its task and those that every run takes."""

    conversation: RunMemory | None
'''


def render() -> str:
    """The text of the module."""
    agent, run = fields_of("AgentOptions"), fields_of("RunOptions")
    loop = [line for name, line in agent if name not in OF_RUNTIMES]
    runtime = [line for name, line in agent if name in OF_RUNTIMES]
    keywords = [line for _, line in run]
    return HEAD + "".join(loop) + OF_RUNTIME + "".join(runtime) + OF_RUN + "".join(keywords) + OF_CONVERSATION


def fields_of(name: str) -> list[tuple[str, str]]:
    """The options in a class: each with its line in a TypedDict."""
    tree = ast.parse(OPTIONS.read_text(encoding="utf-8"))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return [*_fields(found)]


def _fields(found: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, f"    {node.target.id}: {ast.unparse(node.annotation)}\n"


if __name__ == "__main__":
    KEYWORDS.write_text(render(), encoding="utf-8")
    print(f"wrote {KEYWORDS.name}")
