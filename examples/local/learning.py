"""Ten tasks teach a playbook, and the eleventh is shorter: a local model, tools, and a word of feedback each.

`python examples/local/learning.py [MODEL]`; the model is downloaded once. Nobody says which store has the
items: the agent finds it by trying, and the playbook keeps it.
"""

import asyncio
import sys
import tempfile

from wesichain import Agent
from wesichain.errors import RunFailedError
from wesichain.learning import Learner, Playbook
from wesichain.llm.local import LocalLlm
from wesichain.policy import ObserveErrors

STOCK = {f"K-{number}": 3 * number for number in range(11, 22)}


def stock_north(item: str) -> int:
    """How many of an item the north store has."""
    raise LookupError(f"the north store has no item {item}")


def stock_east(item: str) -> int:
    """How many of an item the east store has."""
    raise LookupError(f"the east store has no item {item}")


def stock_south(item: str) -> int:
    """How many of an item the south store has."""
    return STOCK[item]


async def main(model: str) -> None:
    with tempfile.TemporaryDirectory() as folder, Playbook.open(folder, explore=1) as playbook:
        tools = [stock_north, stock_east, stock_south]
        agent = Agent(LocalLlm(model), tools=tools, playbook=playbook, policy=ObserveErrors())
        learner = Learner(playbook=playbook)
        for item, count in STOCK.items():
            try:
                run = (await agent.run(f"How many of item {item} do we have?")).outcome
            except RunFailedError as error:
                run = error.outcome
            good = str(count) in getattr(run, "text", "")
            print(f"{item}: {run.spent.steps} steps, {'right' if good else 'wrong'}", flush=True)
            learner.submit(run, feedback=good)
            await learner.drain()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "qwen2.5-coder-0.5b"))
