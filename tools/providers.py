"""Write the table of the clients' features into docs/howto/providers.md, from their `traits`.

Run: python tools/providers.py    (a test compares the page with the code)
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from wesichain.llm import LlmTraits
from wesichain.llm.anthropic import AnthropicClient
from wesichain.llm.bedrock import BedrockClient
from wesichain.llm.google import GoogleClient
from wesichain.llm.local import LocalLlm
from wesichain.llm.openai import OpenAiClient, ResponsesClient
from wesichain.llm.react_text import TextReAct

PAGE = Path(__file__).resolve().parents[1] / "docs" / "howto" / "providers.md"
START, END = "<!-- traits -->\n", "<!-- /traits -->\n"
SERVER = "http://127.0.0.1:9/v1"
LAST = (
    "takes_stop",
    "observes_errors",
    "opens_thinking",
)  # preferences come after features


def clients() -> dict[str, Any]:
    """A client for each row; no request is made."""
    return {
        "`OpenAiClient`, OpenAI and Azure": OpenAiClient("m"),
        "`OpenAiClient`, another server": OpenAiClient("m", base_url=SERVER),
        "`ResponsesClient`": ResponsesClient("m"),
        "`AnthropicClient`": AnthropicClient("m"),
        "`BedrockClient`": BedrockClient("m"),
        "`GoogleClient`": GoogleClient("m"),
        "`LocalLlm`": LocalLlm("m", base_url=SERVER),
        "`TextReAct`": TextReAct(OpenAiClient("m")),
    }


def table() -> str:
    names = sorted(
        (one.name for one in fields(LlmTraits) if one.name != "family"), key=lambda name: name in LAST
    )
    rows = {
        row: ["yes" if getattr(client.traits, name) else "no" for name in names]
        for row, client in clients().items()
    }
    head = f"| client | {' | '.join(names)} |\n|---{'|---' * len(names)}|\n"
    return head + "".join(f"| {row} | {' | '.join(cells)} |\n" for row, cells in rows.items())


def with_table(page: str) -> str:
    before, _, rest = page.partition(START)
    return f"{before}{START}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
