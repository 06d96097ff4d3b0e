"""The text protocol of DSPy: what a prompt asks for, and replies in the form it asks for."""

from __future__ import annotations

import json


def asks_for_call(prompt: str) -> bool:
    return "`[[ ## next_tool_name ## ]]`" in prompt or "`next_tool_name`" in prompt


def asks_for_answer(prompt: str) -> bool:
    return "`[[ ## answer ## ]]`" in prompt or "`answer`" in prompt


def call(prompt: str, tool: str, arguments: str) -> str:
    return _write(prompt, next_thought="go on", next_tool_name=tool, next_tool_args=arguments)


def answer(prompt: str, text: str) -> str:
    return _write(prompt, reasoning="done", answer=text)


def _write(prompt: str, **fields: str) -> str:
    if "Respond with a JSON object" in prompt:  # its second attempt, after a reply it could not read
        return json.dumps({name: _parsed(value) for name, value in fields.items()})
    text = "\n\n".join(f"[[ ## {name} ## ]]\n{value}" for name, value in fields.items())
    return text + "\n\n[[ ## completed ## ]]"


def _parsed(value: str) -> object:
    try:
        return json.loads(value) if value.startswith("{") else value
    except ValueError:
        return value
