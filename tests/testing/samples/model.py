"""A model for the samples: it goes by what its tools have returned, as a good model does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall, Usage


class Seen:
    """What a request shows: which tools have returned, with what, and how often each was asked for."""

    def __init__(self, request: LlmRequest) -> None:
        self.task = next(m.text for m in request.messages if m.role is Role.USER)
        self.offered = {spec.name for spec in request.tools}
        names = {call.id: call.name for m in request.messages for call in m.tool_calls}
        self._asked = len(names)
        self._results = [
            (names.get(m.tool_call_id or "", ""), m.text) for m in request.messages if m.role is Role.TOOL
        ]

    def good(self, tool: str) -> list[str]:
        """The results of the calls that worked: tools of the samples say so with their first word."""
        return [text for name, text in self._results if name == tool and text.startswith("OK")]

    def failed(self, tool: str) -> int:
        return sum(name == tool and not text.startswith("OK") for name, text in self._results)

    def call(self, *named: tuple[str, Mapping[str, object]]) -> LlmResponse:
        calls: Sequence[ToolCall] = [
            ToolCall(f"c{self._asked + index}", name, args)  # type: ignore[arg-type]  # plain JSON
            for index, (name, args) in enumerate(named)
        ]
        return LlmResponse("", tuple(calls), Usage(100, 20), "tool_calls")

    def say(self, text: str) -> LlmResponse:
        return LlmResponse(text, usage=Usage(100, 10))
