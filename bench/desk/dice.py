"""A fair die for a model: any tool, or an answer, with values that stand in the question or in a result."""

from __future__ import annotations

import random
import re
from typing import Any

from wesichain.core import LlmRequest, LlmResponse, LlmTraits, Role, ToolCall

_VALUES = re.compile(r"[A-Z]{2}-\d+\w*|\"[^\"]+\"|[A-Z]\w+ [A-Z]\w+|\d+(?:\.\d+)?|\w+")


class Dice:
    """Draws what the grammar of a model allows, evenly; whether it stops is drawn as well."""

    model = "dice"
    traits = LlmTraits(observes_errors=True)

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        read = " ".join(message.text for message in request.messages if message.role is not Role.SYSTEM)
        values = [value.strip('"') for value in _VALUES.findall(read)] or ["nothing"]
        chosen = self._rng.randrange(len(request.tools) + 1)
        if chosen == len(request.tools):
            return LlmResponse(self._rng.choice(values))
        tool = request.tools[chosen]
        args = {name: self._value(schema, values) for name, schema in tool.parameters["properties"].items()}
        number = sum(len(message.tool_calls) for message in request.messages)
        call = ToolCall(f"call_{number + 1}", tool.name, args)
        return LlmResponse("", tool_calls=(call,), finish_reason="tool_calls")

    def _value(self, schema: dict[str, Any], values: list[str]) -> Any:
        numbers = [float(value) for value in values if re.fullmatch(r"\d+(\.\d+)?", value)] or [1.0]
        match schema["type"]:
            case "integer":
                whole = int(self._rng.choice(numbers))
                return self._rng.randint(1, schema["maximum"]) if "maximum" in schema else whole
            case "number":
                return self._rng.choice(numbers)
            case _:
                ids = [value for value in values if re.fullmatch(r"[A-Z]{2}-\d+\w*", value)]
                return self._rng.choice(ids if schema.get("format") == "id" and ids else values)
