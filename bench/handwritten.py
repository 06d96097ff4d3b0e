"""The baseline: a minimal hand-written tool loop, with plain dicts and pydantic for the arguments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

Message = dict[str, Any]  # of the chat completions API
Model = Callable[[list[Message], Sequence[Message]], Awaitable[Message]]  # (messages, tools) -> reply


@dataclass(frozen=True, slots=True)
class Tool:
    """An async function with its schema and its argument validator."""

    function: Callable[..., Awaitable[Any]]
    spec: Message
    arguments: type[BaseModel]


def describe(*functions: Callable[..., Awaitable[Any]]) -> dict[str, Tool]:
    """Tools by name, with schema and validator built once."""
    tools: dict[str, Tool] = {}
    for function in functions:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
        fields: dict[str, Any] = {
            p.name: (p.annotation, ... if p.default is p.empty else p.default) for p in parameters
        }
        arguments = create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)
        about = {"name": function.__name__, "description": inspect.getdoc(function) or ""}
        spec = {"type": "function", "function": about | {"parameters": arguments.model_json_schema()}}
        tools[function.__name__] = Tool(function, spec, arguments)
    return tools


async def run(model: Model, tools: Mapping[str, Tool], question: str, *, max_steps: int = 12) -> str:
    """Call the model until it replies without a tool call; errors are returned to it."""
    specs = [tool.spec for tool in tools.values()]
    messages: list[Message] = [{"role": "user", "content": question}]
    for _ in range(max_steps):
        reply = await model(messages, specs)
        messages.append(reply)
        if not (calls := reply.get("tool_calls")):
            return str(reply["content"])
        for call in calls:
            result = await call_tool(tools, call["function"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    raise RuntimeError(f"no answer after {max_steps} model calls")


async def call_tool(tools: Mapping[str, Tool], call: Message) -> str:
    if (tool := tools.get(call["name"])) is None:
        return f"error: there is no tool {call['name']!r}"
    try:
        arguments = tool.arguments.model_validate_json(call["arguments"])
        return json.dumps(await tool.function(**dict(arguments)))
    except ValidationError as error:
        return f"error: {error}"
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"
