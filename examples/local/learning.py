"""Refusals teach a playbook, and later tasks are solved: a local model, a tool, a word of feedback each.

`python examples/local/learning.py [MODEL]`; the model is downloaded once. The tool wants its days in a form
that its description does not tell: the playbook learns it from refusals, and tells later runs. Seen with the
0.5B model: 1 to 3 not done, in four steps each; 4 to 11 done, in two steps each.
"""

import asyncio
import re
import sys
import tempfile
from datetime import date, timedelta

from wesichain import Agent
from wesichain.errors import RunFailedError
from wesichain.learning import Learner, Playbook
from wesichain.llm.local import LocalLlm
from wesichain.policy import Budget, ObserveErrors

planned: dict[str, str] = {}


def plan_delivery(order: str, day: str) -> str:
    """Plan the day of a delivery."""
    if not re.fullmatch(r"\d\d\.\d\d\.\d{4}", day):
        raise ValueError(f"day {day!r} refused: days are written like 14.03.2027")
    planned[order] = day
    return "planned"


async def main(model: str) -> None:
    with tempfile.TemporaryDirectory() as folder, Playbook.open(folder, explore=1) as playbook:
        llm, policy = LocalLlm(model), ObserveErrors()
        agent = Agent(llm, tools=[plan_delivery], playbook=playbook, policy=policy, budget=Budget(steps=4))
        learner = Learner(playbook=playbook)
        for number in range(1, 12):
            day = date(2027, 5, 12) + timedelta(days=9 * number)
            task = f"Plan the delivery of order A-{number} for {day:%d %B %Y}."
            try:
                run = (await agent.run(task)).outcome
            except RunFailedError as error:
                run = error.outcome
            good = planned.get(f"A-{number}") == f"{day:%d.%m.%Y}"
            print(f"{number}: {run.spent.steps} steps, {'done' if good else 'not done'}", flush=True)
            learner.submit(run, feedback=good)
            await learner.drain()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "qwen2.5-coder-0.5b"))
