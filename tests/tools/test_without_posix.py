"""Without POSIX: on a system such as Windows everything imports, runs work, and what cannot work says so."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import os, select, signal, socket, sys, warnings
warnings.simplefilter("ignore")
import asyncio, subprocess, mcp, numpy, uvicorn  # they look at the system themselves, and do well

class Absent:
    names = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty"}
    def find_spec(self, name, path=None, target=None):
        if name in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
for name in Absent.names:
    sys.modules.pop(name, None)
for module, names in {
    os: "fork register_at_fork setsid killpg getuid geteuid getpgid waitpid pidfd_open waitstatus_to_exitcode "
        "set_blocking fchmod",
    signal: "SIGKILL SIGALRM SIGCHLD SIGHUP SIGXCPU setitimer pthread_sigmask",
    socket: "send_fds recv_fds MSG_DONTWAIT",
    select: "poll epoll",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
"""

DOORS = """
import importlib, pkgutil
import wesichain
for name in ("core", "tools", "policy", "llm", "trace", "agent", "graph", "learning", "testing", "cli", "web"):
    importlib.import_module(f"wesichain.{name}")
for name in ("tools.mcp", "tools.running", "tools.calls", "graph.sqlite"):
    importlib.import_module(f"wesichain.{name}")
print("all in")
"""

RUN = """
import math
from wesichain import Agent, tool
from wesichain.core import LlmResponse, ToolCall
from wesichain.errors import ToolDefinitionError
from wesichain.testing import ScriptedLlm

@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b

model = ScriptedLlm([LlmResponse(tool_calls=(ToolCall("1", "add", {"a": 1, "b": 2}),)), LlmResponse("3")])
print(Agent(model, tools=[add]).run_sync("1 + 2?").output)
try:
    tool(add.function, isolate=True)
except ToolDefinitionError as error:
    print(error)
"""

PLAYBOOK = """
import tempfile
from wesichain.errors import WesichainError
from pathlib import Path
from wesichain.learning.storage.backend import exclusive
try:
    with exclusive(Path(tempfile.mkdtemp()) / "lock"):
        print("locked")
except WesichainError as error:
    print(error)
"""


def test_everything_imports_and_runs_and_what_cannot_work_says_so() -> None:
    """In one process: to import everything takes longer than all that is asked of it."""
    program = WITHOUT + DOORS + RUN + PLAYBOOK
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=240, check=False, text=True
    )
    assert ended.returncode == 0, ended.stderr
    all_in, output, isolation, playbook = ended.stdout.splitlines()
    assert (all_in, output) == ("all in", "3")
    assert isolation == "tool 'add': isolate=True needs a system that can fork"
    assert "POSIX" in playbook
