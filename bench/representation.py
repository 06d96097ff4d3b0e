"""Representations of values: frozen dataclasses against structs and models.

Run: python -m bench.representation
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from wesichain.core import (
    Event,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    ToolCall,
    Usage,
    from_json,
    to_json,
)
from wesichain.core.internal import to_lines

ROUNDS = 7
TIMES = 20_000


def cpu(action: Callable[[], Any]) -> float:
    """CPU microseconds of a call: the best of a round."""
    start = time.process_time()
    for _ in range(TIMES):
        action()
    return (time.process_time() - start) / TIMES * 1e6


def import_cost(statement: str) -> float:
    """CPU milliseconds that an import adds to a bare interpreter."""
    code = f"import time; s = time.process_time(); {statement}; print((time.process_time() - s) * 1000)"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    runs = [
        float(
            subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=kept
            ).stdout
        )
        for _ in range(8)
    ]
    return sorted(runs[1:])[3]  # the first writes the bytecode


def candidates() -> dict[str, dict[str, Callable[[], Any]]]:
    call = ToolCall("call_1", "add", {"a": 1, "b": 2})
    ours = Message(Role.ASSISTANT, "let me see", tool_calls=(call,))
    twin = Message(Role.ASSISTANT, "let me see", tool_calls=(call,))
    text = to_json(ours)
    reply = LlmResponse("let me see", (call,), Usage(120, 33), "tool_calls")
    event = ModelResponded("6157d16d39e85e6cd7632797acf3baa4", 1, 3, 1_767_268_800.25, reply, 512.5)
    line = to_json(event)
    found: dict[str, dict[str, Callable[[], Any]]] = {
        "frozen dataclass, as we do": {
            "construct": lambda: Message(Role.ASSISTANT, "let me see", tool_calls=(call,)),
            "equal": lambda: ours == twin,
            "write": lambda: to_json(ours),
            "read": lambda: from_json(Message, text),
            "write line": lambda: to_lines((event,)),
            "read line": lambda: from_json(Event, line),
        }
    }
    return found | _pydantic(text, line) | _msgspec(text, line)


def _pydantic(text: str, line: str) -> dict[str, dict[str, Callable[[], Any]]]:
    from pydantic import BaseModel, ConfigDict

    class PCall(BaseModel):
        model_config = ConfigDict(frozen=True)
        id: str
        name: str
        args: Any

    class PMessage(BaseModel):
        model_config = ConfigDict(frozen=True)
        role: Role
        content: str = ""
        tool_call_id: str | None = None
        tool_calls: tuple[PCall, ...] = ()

    class PUsage(BaseModel):
        model_config = ConfigDict(frozen=True)
        input_tokens: int
        output_tokens: int
        cache_read_tokens: int = 0
        cache_write_tokens: int = 0
        reasoning_tokens: int = 0

    class PResponse(BaseModel):
        model_config = ConfigDict(frozen=True)
        content: str
        tool_calls: tuple[PCall, ...] = ()
        usage: PUsage
        finish_reason: str

    class PEvent(BaseModel):
        model_config = ConfigDict(frozen=True)
        kind: str
        run_id: str
        step_id: int
        seq: int
        at: float
        response: PResponse
        duration_ms: float
        cost: float = 0.0
        set_aside: bool = False
        scope: str = ""

    value, twin = PMessage.model_validate_json(text), PMessage.model_validate_json(text)
    event = PEvent.model_validate_json(line)
    return {
        "pydantic model": {
            "construct": lambda: PMessage(role=Role.ASSISTANT, content="", tool_calls=value.tool_calls),
            "equal": lambda: value == twin,
            "write": lambda: value.model_dump_json(exclude_defaults=True),
            "read": lambda: PMessage.model_validate_json(text),
            "write line": lambda: event.model_dump_json(exclude_defaults=True),
            "read line": lambda: PEvent.model_validate_json(line),
        }
    }


def _msgspec(text: str, line: str) -> dict[str, dict[str, Callable[[], Any]]]:
    msgspec: Any = importlib.import_module("msgspec")
    frozen: dict[str, Any] = {"frozen": True, "omit_defaults": True}
    call_type: Any = msgspec.defstruct("MCall", [("id", str), ("name", str), ("args", Any)], **frozen)
    calls_type: Any = tuple.__class_getitem__((call_type, ...))
    fields = [
        ("role", Role),
        ("content", str, ""),
        ("tool_call_id", str | None, None),
        ("tool_calls", calls_type, ()),
    ]
    message_type = msgspec.defstruct("MMessage", fields, **frozen)
    tokens = ("cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    usage_type = msgspec.defstruct(
        "MUsage",
        [("input_tokens", int), ("output_tokens", int), *((name, int, 0) for name in tokens)],
        **frozen,
    )
    reply = [
        ("content", str),
        ("usage", usage_type),
        ("finish_reason", str),
        ("tool_calls", calls_type, ()),
    ]
    told = [
        ("run_id", str),
        ("step_id", int),
        ("seq", int),
        ("at", float),
        ("response", msgspec.defstruct("MResponse", reply, **frozen)),
        ("duration_ms", float),
        ("cost", float, 0.0),
        ("set_aside", bool, False),
        ("scope", str, ""),
    ]
    event_type = msgspec.defstruct("MEvent", told, tag_field="kind", tag="model_responded", **frozen)
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(message_type)
    events = msgspec.json.Decoder(event_type)
    value, twin, event = decoder.decode(text), decoder.decode(text), events.decode(line)
    return {
        "msgspec struct": {
            "construct": lambda: message_type(Role.ASSISTANT, "let me see", None, value.tool_calls),
            "equal": lambda: value == twin,
            "write": lambda: encoder.encode(value),
            "read": lambda: decoder.decode(text),
            "write line": lambda: encoder.encode(event),
            "read line": lambda: events.decode(line),
        }
    }


def main() -> None:
    table = candidates()
    best: dict[str, dict[str, float]] = {name: {} for name in table}
    for _ in range(ROUNDS):
        for name, actions in table.items():
            for action, run in actions.items():
                best[name][action] = min(best[name].get(action, 1e9), cpu(run))
    columns = ("construct", "equal", "write", "read", "write line", "read line")
    print(f"{'us of CPU':32}" + "".join(f"{action:>12}" for action in columns))
    for name, row in best.items():
        print(f"{name:32}" + "".join(f"{value:12.2f}" for value in row.values()))
    imports = {
        "asyncio, json": "import asyncio, json",
        "and pydantic-core": "import asyncio, json, pydantic_core",
        "and msgspec": "import asyncio, json, msgspec",
        "and pydantic BaseModel": "import asyncio, json; from pydantic import BaseModel",
        "wesichain": "import wesichain",
        "wesichain, first value": "from wesichain.core import *; to_json(Message(Role.USER, 'x'))",
    }
    for name, statement in imports.items():
        print(f"import {name:25}{import_cost(statement):10.1f} ms of CPU")
    print(json.dumps(best))


if __name__ == "__main__":
    main()
