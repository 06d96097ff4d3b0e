"""A correction of one run improves the following runs: a local model, a tool, a playbook.

`python examples/local/learning.py [MODEL]`; the model is downloaded once. No description says how the
warehouse calls its services. The first order is refused; the owner's sentence is shown to the later ones.
"""

import asyncio
import sys
import tempfile

from wesichain import Agent
from wesichain.learning import Feedback, Learner, Playbook
from wesichain.llm.local import LocalLlm
from wesichain.policy import Budget

SENTENCE = "ship: for express delivery the service is EXP-24."
sent: dict[str, str] = {}


def ship(order: str, service: str) -> str:
    """Send an order to its customer."""
    if service not in ("EXP-24", "ECO-72"):
        raise ValueError(f"there is no service {service!r}")
    sent[order] = service
    return f"order {order} is on its way"


async def main(model: str) -> None:
    with tempfile.TemporaryDirectory() as folder, Playbook.open(folder) as playbook:
        llm = LocalLlm(model)
        agent = Agent(llm, tools=[ship], playbook=playbook, budget=Budget(steps=3), on_limit="partial")
        learner = Learner(playbook=playbook, agent=agent)
        for number, order in enumerate(("A17", "B23", "C8", "K51"), 1):
            run = await agent.outcome(f"Ship order {order} by express.")
            good = sent.get(order) == "EXP-24"
            print(f"{number}: {'sent' if good else 'not sent'}", flush=True)
            why = Feedback(label=good) if good else Feedback(label=False, why=SENTENCE, by="owner")
            learner.submit(run, feedback=why)
            await learner.drain()


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "qwen2.5-coder-0.5b"))
