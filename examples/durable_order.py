"""A durable run: its process is killed in the middle, and the next one continues it. No key needed.

Run: python examples/durable_order.py
"""

import asyncio
import os
import signal
import sys
import tempfile
from multiprocessing import get_context

from wesichain import Agent, tool
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent
from wesichain.testing import FunctionLlm, calls

PLAN = (calls(("reserve", {"item": "lamp"})), calls(("pay", {"amount": 30})), "Your lamp is on its way.")


def reply(request: LlmRequest) -> LlmResponse | str:
    """A scripted model: its reply depends on the number of its replies."""
    return PLAN[sum(message.role is Role.ASSISTANT for message in request.messages)]


@tool(effect="idempotent")
async def reserve(item: str) -> str:
    """Reserve an item."""
    print(f"  reserved {item}", flush=True)
    return "reserved"


@tool(effect="idempotent")
async def pay(amount: int) -> str:
    """Pay."""
    if os.environ.pop("DIES", ""):
        print("  the power goes", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    print(f"  paid {amount}", flush=True)
    return "paid"


def order(url: str) -> None:
    """The program of each process, which need not know how far the run has come."""
    durable = DurableAgent(Agent(FunctionLlm(reply), tools=[reserve, pay]), name="shop", database_url=url)
    result = asyncio.run(durable.run("Order a lamp.", run_id="order-1"))
    print(f"  {result.output}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for number, dies in ((1, "yes"), (2, "")):
            os.environ["DIES"] = dies
            print(f"process {number}", flush=True)
            child = get_context("spawn").Process(target=order, args=(f"sqlite:///{folder}/runs.db",))
            child.start()
            child.join()
    sys.exit(child.exitcode)
