"""Run as `python -c "from tests.docs.block import main; main()" SCRIPT REPLIES`: a block of a page, without a key.

Behind every name of a model stands one that gives the replies (JSON) in their order.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.warm.client import ADDRESS, START
from wesichain.agent import model_names
from wesichain.core import LlmRequest, ToolCall
from wesichain.testing import FunctionLlm


def stand_in(replies: list[Any]) -> Callable[[str], FunctionLlm]:
    """Models by name that give the replies in order, and "an answer" when there are no more."""
    left = iter(replies)
    count = iter(range(1, 1_000))

    def reply(_: LlmRequest) -> str | ToolCall:
        said = next(left, "an answer")
        return said if isinstance(said, str) else ToolCall(f"c{next(count)}", said["call"], said["args"])

    return lambda name: FunctionLlm(reply, model=name)


def main() -> None:
    script, said = sys.argv[1:]
    vars(model_names)["_by_name"] = stand_in(json.loads(said))
    if address := os.environ.get(ADDRESS):  # programs that the block starts come from the warm process, too
        starter = Path(f"{script}.sh")
        words = shlex.join([sys.executable, "-IS", START, address])
        starter.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        starter.chmod(0o755)
        sys.executable = str(starter)
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)  # noqa: PTH120
    runpy.run_path(script, run_name="__main__")
