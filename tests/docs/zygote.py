"""Runs scripts one after the other, each in a fresh fork of a process that has the imports behind it.

A line of input is JSON, {"script": path, "cwd": folder, "replies": [...]}; the answer is the exit status. What
a script prints goes to `out` in its folder. Each script is `__main__` of a process of its own, which ends as any
program does: threads are waited for, and exit handlers run.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

from wesichain.agent import models
from wesichain.core import LlmRequest, ToolCall
from wesichain.testing import FunctionLlm


def main() -> None:
    replies = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        child = os.fork()
        if child == 0:
            become(job)
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), file=replies, flush=True)


def become(job: dict[str, Any]) -> None:
    """Run the script as a program would be, with a model that needs no key behind every name."""
    os.chdir(job["cwd"])
    out = os.open("out", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    vars(models)["_by_name"] = stand_in(job.get("replies") or [])
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
