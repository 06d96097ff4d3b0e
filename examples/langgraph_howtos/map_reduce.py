"""Map-Reduce and the Send API. A node runs for all subjects concurrently, another after them."""

import asyncio
from typing import Annotated, TypedDict

from wesichain.graph import Append, GraphBuilder, Send

JOKES = {
    "lions": "Why don't lions like fast food? Because they can't catch it!",
    "elephants": "Why don't elephants use computers? They're afraid of the mouse!",
    "penguins": "Why don't penguins talk to strangers? They find it hard to break the ice.",
}


class State(TypedDict, total=False):
    subjects: list[str]
    jokes: Annotated[list[str], Append]
    best: str


builder = GraphBuilder(State).add_node("topics", lambda _: {"subjects": list(JOKES)})
builder.add_node("joke", lambda subject: {"jokes": [JOKES[subject]]})
builder.add_node("best", lambda state: {"best": state["jokes"][-1]})
builder.add_conditional_edges("topics", lambda s: [Send("joke", one) for one in s["subjects"]], ["joke"])
graph = builder.set_entry("topics").add_edge("joke", "best").build()


async def main() -> None:
    async for item in graph.stream({}, modes=["updates"]):
        print(item.node, item.data)


asyncio.run(main())
