"""The kit: capabilities for long tasks, each a value that an agent is given."""

from .code_mode import CodeMode
from .deep_agent import deep_agent
from .files import FileLimits, Files, FolderFiles, MemoryFiles
from .memory import FactEmbedder, Memory, Scope
from .offload import Offload
from .run_files import RunFiles
from .skills import Skill, Skills
from .subagents import Subagents
from .todo import PlanItem, Todo, plan_in
from .workspace import Workspace

__all__ = [
    "CodeMode",
    "FactEmbedder",
    "FileLimits",
    "Files",
    "FolderFiles",
    "Memory",
    "MemoryFiles",
    "Offload",
    "PlanItem",
    "RunFiles",
    "Scope",
    "Skill",
    "Skills",
    "Subagents",
    "Todo",
    "Workspace",
    "deep_agent",
    "plan_in",
]
