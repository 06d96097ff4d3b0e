"""The walk of one hop: how many files somebody reads who follows it from one request to the next."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import wesichain
from wesichain import Agent, LlmRequest, LlmResponse, Role, ToolCall, tool

HOME = Path(wesichain.__file__).parent
MOST = 18


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Walked:
    """Counts to three, and notes which files are run between its second reply and its third request."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self._asked = 0

    async def complete(self, request: LlmRequest) -> LlmResponse:
        sys.setprofile(None)  # what a model does is its own
        self._asked += 1
        last = request.messages[-1]
        total = int(last.text) if last.role is Role.TOOL else 0
        if total == 3:
            return LlmResponse("three")
        reply = LlmResponse(tool_calls=(ToolCall(f"c{total}", "add", {"a": total, "b": 1}),))
        if self._asked == 2:  # the first hop builds what is built at first use
            sys.setprofile(self._note)
        return reply

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOME):
            self.files[str(path.relative_to(HOME))] = None


async def test_the_walk_of_one_hop_passes_at_most_18_files() -> None:
    model = Walked()
    result = await Agent(model, tools=[add]).run("count")
    assert result.output == "three"
    assert "agent/drive.py" in model.files  # it was looked at all
    assert "tools/calls.py" in model.files
    assert len(model.files) <= MOST, "\n".join(sorted(model.files))
