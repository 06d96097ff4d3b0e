"""Runs scripts one after the other, each in a fresh fork of a process that has the imports behind it.

A line of input is JSON, {"script": path, "cwd": folder, "replies": [...]}; the answer is the exit status. What
a script prints goes to `out` in its folder. Each script is `__main__` of a process of its own, which ends as any
program does: threads are waited for, and exit handlers run.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, NoReturn, cast

from wesichain import Agent, tool
from wesichain.agent import model_names
from wesichain.core import LlmRequest, ToolCall
from wesichain.testing import FunctionLlm

# What blocks import, and what is loaded late inside of it: each of them would pay for it again.
USED = (
    "anthropic",
    "dbos",
    "faiss",
    "mcp",
    "openai",
    "opentelemetry.sdk.trace",
    "starlette.testclient",
    "wesichain.durable",
    "wesichain.graph.sqlite",
    "wesichain.learning",
    "wesichain.llm.anthropic",
    "wesichain.llm.openai",
    "wesichain.tools.mcp",
    "wesichain.trace",
    "wesichain.web",
)


def warm() -> None:
    """Load everything once. No thread is started: a fork has none but its own."""
    for name in USED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)

    @tool
    async def add(a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    Agent(FunctionLlm(lambda _: "yes"), tools=[add], output_type=list[int])
    gc.freeze()  # what is here stays: a child's collector need not look at it, and copy it by that


def main() -> None:
    warm()
    replies = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            leave(status_of(job))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=replies, flush=True)


def status_of(job: dict[str, Any]) -> int:
    """The exit status that the script comes to as a program."""
    try:
        become(job)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def leave(status: int) -> NoReturn:
    """End as a program does, but for taking all its modules apart, which costs more than most blocks."""
    cast("Any", threading)._shutdown()
    cast("Any", atexit)._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def become(job: dict[str, Any]) -> None:
    """Run the script as a program would be, with a model that needs no key behind every name."""
    os.chdir(job["cwd"])
    out = os.open("out", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    vars(model_names)["_by_name"] = stand_in(job.get("replies") or [])
    sys.argv = [job["script"]]
    sys.path[0] = job["cwd"]
    runpy.run_path(job["script"], run_name="__main__")


def stand_in(replies: list[Any]) -> Callable[[str], FunctionLlm]:
    """Models by name that give the replies in order, and "an answer" when there are no more."""
    left = iter(replies)
    count = iter(range(1, 1_000))

    def reply(_: LlmRequest) -> str | ToolCall:
        said = next(left, "an answer")
        return said if isinstance(said, str) else ToolCall(f"c{next(count)}", said["call"], said["args"])

    return lambda name: FunctionLlm(reply, model=name)


if __name__ == "__main__":
    main()
