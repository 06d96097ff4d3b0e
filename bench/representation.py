"""How values are represented: frozen dataclasses against msgspec and pydantic, by measurement.

Run: python -m bench.representation    (peers that are not installed are left out)
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from wesichain.core import Message, Role, ToolCall, from_json, to_json

ROUNDS = 7
TIMES = 20_000


def cpu(action: Callable[[], Any]) -> float:
    """Microseconds of CPU for one call: the best of a round."""
    start = time.process_time()
    for _ in range(TIMES):
        action()
    return (time.process_time() - start) / TIMES * 1e6


def import_cost(statement: str) -> float:
    """Milliseconds of CPU that an import adds to a bare interpreter."""
    code = f"import time; s = time.process_time(); {statement}; print((time.process_time() - s) * 1000)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    return sorted(runs)[2]


def candidates() -> dict[str, dict[str, Callable[[], Any]]]:
    call = ToolCall("1", "add", {"a": 1, "b": 2})
    ours = Message(Role.ASSISTANT, "let me see", tool_calls=(call,))
    twin = Message(Role.ASSISTANT, "let me see", tool_calls=(call,))
    text = to_json(ours)
    found: dict[str, dict[str, Callable[[], Any]]] = {
        "frozen dataclass + own codec": {
            "construct": lambda: Message(Role.ASSISTANT, "let me see", tool_calls=(call,)),
            "equal": lambda: ours == twin,
            "write": lambda: to_json(ours),
            "read": lambda: from_json(Message, text),
        }
    }
    found |= _pydantic(text)
    if importlib.util.find_spec("msgspec"):
        found |= _msgspec(text)
    return found


def _pydantic(text: str) -> dict[str, dict[str, Callable[[], Any]]]:
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

    value, twin = PMessage.model_validate_json(text), PMessage.model_validate_json(text)
    return {
        "pydantic model": {
            "construct": lambda: PMessage(role=Role.ASSISTANT, content="", tool_calls=value.tool_calls),
            "equal": lambda: value == twin,
            "write": lambda: value.model_dump_json(exclude_defaults=True),
            "read": lambda: PMessage.model_validate_json(text),
        }
    }


def _msgspec(text: str) -> dict[str, dict[str, Callable[[], Any]]]:
    msgspec: Any = importlib.import_module("msgspec")
    call_type: Any = msgspec.defstruct("MCall", [("id", str), ("name", str), ("args", Any)], frozen=True)
    calls_type: Any = tuple.__class_getitem__((call_type, ...))
    fields = [
        ("role", Role),
        ("content", str, ""),
        ("tool_call_id", str | None, None),
        ("tool_calls", calls_type, ()),
    ]
    message_type = msgspec.defstruct("MMessage", fields, frozen=True, omit_defaults=True)
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(message_type)
    value, twin = decoder.decode(text), decoder.decode(text)
    return {
        "msgspec struct": {
            "construct": lambda: message_type(Role.ASSISTANT, "let me see", None, value.tool_calls),
            "equal": lambda: value == twin,
            "write": lambda: encoder.encode(value),
            "read": lambda: decoder.decode(text),
        }
    }


def main() -> None:
    table = candidates()
    best: dict[str, dict[str, float]] = {name: {} for name in table}
    for _ in range(ROUNDS):
        for name, actions in table.items():
            for action, run in actions.items():
                best[name][action] = min(best[name].get(action, 1e9), cpu(run))
    columns = ("construct", "equal", "write", "read")
    print(f"{'us of CPU':32}" + "".join(f"{action:>12}" for action in columns))
    for name, row in best.items():
        print(f"{name:32}" + "".join(f"{value:12.2f}" for value in row.values()))
    imports = {
        "wesichain.core": "import wesichain.core",
        "pydantic BaseModel": "from pydantic import BaseModel",
        "pydantic TypeAdapter": "from pydantic import TypeAdapter",
    }
    if importlib.util.find_spec("msgspec"):
        imports["msgspec"] = "import msgspec"
    for name, statement in imports.items():
        print(f"import {name:25}{import_cost(statement):10.1f} ms of CPU")
    print(json.dumps(best))


if __name__ == "__main__":
    main()
