"""The student: a local model at the help desk, one short line a step, the same in every arm.

A step is a line such as `amber(Grand Foods) = A4380`: the model writes the call, the rest is the result. A
grammar holds what it writes: a service, but none that has failed since the last result, and its key, a name
or a code as the service takes it, the newest of them in question and results; no call a second time. Once
the customer has what was asked, that is the answer.

Two short lines a step are what makes the experiment quick enough for two cores: the model reads some six
tokens and writes some eight, all before them stands in its cache.
"""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from wesichain.core import LlmRequest, LlmResponse, Role, ToolCall, ToolSpec, Usage, is_object, parse_json
from wesichain.errors import CodecError, LlmTransportError

_HEAD = """\
Find out what the customer asks, with the services. Call one service at a time, as name(key). A result like \
A1234 or P12345 is the key for another service; "none" means that it was the wrong service.
Services, each with the key that it takes:
"""
# Two solved questions of a kind that is never asked, with services that do not exist.
_EXAMPLES = """\
<|im_start|>user
Does "Old Harbour" get the newsletter?<|im_end|>
<|im_start|>assistant
onyx(Old Harbour) = none
opal(Old Harbour) = yes (that is it)
Answer: yes<|im_end|>
<|im_start|>user
What is the rating of "New Harbour"?

For rating questions, call opal first, then rowan.<|im_end|>
<|im_start|>assistant
opal(New Harbour) = A9990
rowan(A9990) = fair (that is it)
Answer: fair<|im_end|>
"""
_VALUE = re.compile(r'"([^"\n]+)"|\b([A-Z]?\d[\w-]*)')
_CALL = re.compile(r"(\w+)\((.*)\)")
_SECONDS = 600


@dataclass(slots=True)
class _Notes:
    """What has happened in a task so far."""

    question: str = ""
    lines: list[str] = field(default_factory=list[str])
    values: list[str] = field(default_factory=list[str])  # of the question, then of the results
    results: list[str] = field(default_factory=list[str])
    tried: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    failed: set[str] = field(default_factory=set[str])  # services, since the last result
    is_solved: bool = False


class Student:
    """A `ToolCallingLlm` over llama.cpp's server, for tools with one text parameter, `key`."""

    def __init__(self, url: str, model: str) -> None:
        self.model = model
        self._url = f"{url.removesuffix('/v1')}/completion"

    async def complete(self, request: LlmRequest) -> LlmResponse:
        notes = _read(request)
        services = "\n".join(f"{tool.name}({tool.description})" for tool in request.tools)
        prompt = f"<|im_start|>system\n{_HEAD}{services}<|im_end|>\n{_EXAMPLES}"
        prompt += f"<|im_start|>user\n{notes.question}<|im_end|>\n<|im_start|>assistant\n"
        prompt += "".join(f"{line}\n" for line in notes.lines) + ("Answer: " if notes.is_solved else "")
        allowed = notes.results[-1:] if notes.is_solved else list(_calls(request.tools, notes))
        reply = await asyncio.to_thread(self._ask, prompt, allowed)
        text = str(reply["content"])
        usage = Usage(int(reply["tokens_evaluated"]), int(reply["tokens_predicted"]))
        call = _CALL.fullmatch(text)
        if notes.is_solved or call is None:
            return LlmResponse(text, usage=usage)
        number = sum(len(message.tool_calls) for message in request.messages)
        made = ToolCall(f"call_{number + 1}", call[1], {"key": call[2]})
        return LlmResponse(tool_calls=(made,), usage=usage, finish_reason="tool_calls")

    def _ask(self, prompt: str, allowed: Sequence[str]) -> dict[str, Any]:
        body = {
            "prompt": prompt,
            "cache_prompt": True,
            "n_predict": 40,
            "temperature": 0,
            "seed": 0,
            "grammar": "root ::= " + " | ".join(json.dumps(text) for text in allowed),
        }
        asked = urllib.request.Request(
            self._url, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(asked, timeout=_SECONDS) as reply:
                return dict(json.load(reply))
        except OSError as error:
            raise LlmTransportError(f"the local model does not answer: {error}", retryable=True) from error


def _read(request: LlmRequest) -> _Notes:
    notes = _Notes()
    calls: Sequence[ToolCall] = ()
    for message in request.messages:
        if message.role is Role.USER:
            notes.question = message.content
            asked = message.content.partition("\n\n")[0]  # advice has no keys
            notes.values = [quoted or code for quoted, code in _VALUE.findall(asked)]
        elif message.role is Role.ASSISTANT:
            calls = message.tool_calls
        elif message.role is Role.TOOL:
            for call in calls:
                _note(notes, call, message.content)
    return notes


def _note(notes: _Notes, call: ToolCall, content: str) -> None:
    key = str(call.args["key"]) if is_object(call.args) else ""
    try:
        result = parse_json(content)
    except CodecError:
        result = None
    notes.tried.add((call.name, key))
    if not is_object(result):
        notes.failed.add(call.name)
        notes.lines.append(f"{call.name}({key}) = none")
        return
    value = str(result["result"])
    notes.failed.clear()
    notes.values.append(value)
    notes.results.append(value)
    notes.is_solved = "customer" in result
    notes.lines.append(f"{call.name}({key}) = {value}{' (that is it)' if notes.is_solved else ''}")


def _calls(tools: Sequence[ToolSpec], notes: _Notes) -> Iterator[str]:
    """The calls that make sense; every call, should none be left."""
    every = [
        (tool.name, keys[-1])
        for tool in tools
        if (keys := [key for key in notes.values if re.search(_pattern(tool), key)])
    ]
    fresh = [pair for pair in every if pair not in notes.tried]
    left = [pair for pair in fresh if pair[0] not in notes.failed] or fresh or every
    return (f"{name}({value})" for name, value in left)


def _pattern(tool: ToolSpec) -> str:
    return str(tool.parameters["properties"]["key"]["pattern"])
