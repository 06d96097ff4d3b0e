"""Human approval: the run stops before a payment and is resumed later, perhaps in another process."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from wesichain import tool
from wesichain.agent import Approve
from wesichain.errors import GraphInterruptedError
from wesichain.graph import ExecutionOptions, Graph, react_graph
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.testing import FunctionLlm, calls

FILE = Path(tempfile.mkdtemp()) / "threads.db"


@tool(approval=True, effect="once")
def pay(to: str, amount: float) -> str:
    """Pay an amount to somebody."""
    return f"paid {amount} to {to}"


def assistant() -> Graph[Any]:
    """The graph, built in every process."""
    paid = "Ann has her money."
    model = FunctionLlm(
        lambda r: paid if len(r.messages) > 2 else calls(("pay", {"to": "Ann", "amount": 20}))
    )
    return react_graph(llm=model, tools=[pay], checkpointer=SqliteCheckpointer(FILE))


async def ask() -> None:
    try:
        await assistant().invoke({"input": "Pay Ann 20."}, ExecutionOptions(thread_id="payment-1"))
    except GraphInterruptedError as stop:
        (question,) = stop.interrupts
        print("waits for approval:", question.value["calls"])


async def approve() -> None:
    state = await assistant().resume("payment-1", Approve())
    print(state["final_output"])


asyncio.run(ask())
asyncio.run(approve())
