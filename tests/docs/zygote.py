"""Runs scripts one after the other, each in a fresh fork of a process that has the imports behind it.

A line of input is JSON, {"script": path, "cwd": folder}; the answer is the exit status. What a script
prints goes to `out` in its folder. Each script is `__main__` of a process of its own, which ends as any
program does: threads are waited for, and exit handlers run.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from typing import Any

import wesichain.agent.models as models
import wesichain.graph
import wesichain.learning
import wesichain.testing  # noqa: F401  # loaded once, for all
import wesichain.trace
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
    stand_in: Any = lambda name: FunctionLlm(lambda _: "an answer", model=name)  # noqa: E731
    vars(models)["_by_name"] = stand_in
    sys.argv = [job["script"]]
    sys.path[0] = job["cwd"]
    runpy.run_path(job["script"], run_name="__main__")


if __name__ == "__main__":
    main()
