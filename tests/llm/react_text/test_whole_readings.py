"""What is read from texts, whole: a row a text, with what it gives as `read`; `WRITE_EXPECTED` writes that anew.

`readings.jsonl` has replies as `parse` reads them, `adapted.jsonl` as `TextReAct` hands them over, and `mended.jsonl` JSON
as models write it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import expected
from tests.llm.react_text.test_forms import CLEAR, PAY
from wesichain.core import LlmRequest, LlmResponse, Message, Role, ToolSpec, from_json, to_json
from wesichain.errors import CodecError
from wesichain.llm import FinishReason
from wesichain.llm.react_text import TextReAct, parse
from wesichain.llm.react_text.lenient import load

KNOWN = {"pay": PAY, "clear": CLEAR}
TEXT = {"type": "string"}
NUMBERS = {"type": "object", "properties": {key: {"type": "integer"} for key in "ab"}, "required": ["a", "b"]}
TOOLS = (
    ToolSpec("weather", "Tells.", {"type": "object", "properties": {"city": TEXT}}),
    ToolSpec("add", "Adds.", NUMBERS),
    ToolSpec("now", "Tells.", {"type": "object", "properties": {}}),
)


class Said:
    """A model that has said this."""

    model = "said"

    def __init__(self, text: str, finish: FinishReason) -> None:
        self._reply = LlmResponse(text, finish_reason=finish)

    async def complete(self, request: LlmRequest) -> LlmResponse:
        return self._reply


def reading(row: dict[str, Any]) -> object:
    options = {key: row[key] for key in ("dialect", "strict", "truncated") if key in row}
    parsed = parse(row["text"], tools=[KNOWN[name] for name in row.get("tools", ())], **options)
    return {key: value for key, value in json.loads(to_json(parsed)).items() if value not in ("", None, [])}


def adapted(row: dict[str, Any]) -> object:
    tools = [from_json(ToolSpec, json.dumps(tool)) for tool in row["tools"]] if "tools" in row else TOOLS
    if "is_pure" in row:  # which no model is shown
        tools = [replace(tool, pure=True) for tool in tools]
    llm = TextReAct(Said(row["text"], row.get("finish", "stop")), strict=row.get("strict", True))
    asked = LlmRequest("m", (Message(Role.USER, "Paris?"),), tuple(tools))
    return json.loads(to_json(asyncio.run(llm.complete(asked))))


def mended(row: dict[str, Any]) -> object:
    try:
        return [*load(row["text"], closed=row.get("closed", False))]
    except CodecError as error:
        return str(error)


@pytest.mark.parametrize(("name", "read"), [("readings", reading), ("adapted", adapted), ("mended", mended)])
def test_a_text_is_read_as_it_was(name: str, read: Callable[[dict[str, Any]], object]) -> None:
    file = Path(__file__).with_name(f"{name}.jsonl")
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    expected.check(file, (json.dumps(row | {"read": read(row)}, ensure_ascii=False) for row in rows))
