"""Run as `python -m tests.docs.block SCRIPT REPLIES`: a block of a page as a program, without a key.

Behind every name of a model stands one that gives the replies (JSON) in their order.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Callable
from typing import Any

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


if __name__ == "__main__":
    script, said = sys.argv[1:]
    vars(model_names)["_by_name"] = stand_in(json.loads(said))
    sys.argv = [script]
    sys.path[0] = os.path.dirname(script)  # noqa: PTH120
    runpy.run_path(script, run_name="__main__")
