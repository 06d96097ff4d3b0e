"""How reliably a local model follows the correction of the demo: the probability of each token of the value.

    python -m bench.demo_margins [MODEL ...]

For ten orders the first call of the corrected run is made, with the sentence in the advice, and the smallest
probability among the tokens of the service is printed. Ends with 1 where one is below 0.9: another wording
has to be found, since the demo must not depend on chance.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncGenerator
from math import exp
from pathlib import Path
from typing import Any

from typing_extensions import override

from wesichain.agent import Agent
from wesichain.cli.demo import SENTENCE, SERVICE, Office, task_of
from wesichain.learning import Playbook, ToolCallingStrategy
from wesichain.llm.local import LocalLlm
from wesichain.policy import Budget

NEEDED = 0.9
ORDERS = ("B23", "C8", "K51", "Z9", "M77", "P4", "R12", "T630", "W3", "X19")
MODELS = ("qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b")


class ProbedLlm(LocalLlm):
    """A local model that keeps the probability of each token of its last reply."""

    tokens: list[tuple[str, float]]

    @override
    async def _events(
        self, address: Any, prompt: str, options: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        self.tokens = []
        async for event in super()._events(address, prompt, {**options, "n_probs": 1}):
            for token in event.get("completion_probabilities") or ():
                self.tokens.append((str(token["token"]), exp(float(token["logprob"]))))
            yield event


def margin_of(tokens: list[tuple[str, float]], value: str) -> float:
    """The smallest probability of the tokens of a value; 0 if the reply does not contain it."""
    place = "".join(text for text, _ in tokens).find(value)
    if place < 0:
        return 0.0
    found: list[float] = []
    start = 0
    for text, chance in tokens:
        if start + len(text) > place and start < place + len(value):
            found.append(chance)
        start += len(text)
    return min(found)


async def margins(model: str) -> list[float]:
    """The margin of each order, printed as it comes."""
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder, Playbook.open(Path(folder) / "playbook") as book:
        book.record(ToolCallingStrategy(content=SENTENCE, tool_sequence=("ship",)), domain="general")
        office, llm = Office(Path(folder)), ProbedLlm(model, max_tokens=200)
        tools = [office.ship, office.search_notes]
        agent = Agent(llm, tools=tools, budget=Budget(steps=1), on_limit="partial", playbook=book)
        for order in ORDERS:
            await agent.outcome(task_of(order))
            found.append(margin_of(llm.tokens, SERVICE))
            print(f"{model}  {task_of(order):32}  {found[-1]:.3f}", flush=True)
        llm.close()
    return found


def main() -> None:
    lowest = {model: min(asyncio.run(margins(model))) for model in sys.argv[1:] or MODELS}
    for model, low in lowest.items():
        print(f"{model}: lowest {low:.3f}, {'taken' if low >= NEEDED else 'below'} {NEEDED}")
    sys.exit(min(lowest.values()) < NEEDED)


if __name__ == "__main__":
    main()
