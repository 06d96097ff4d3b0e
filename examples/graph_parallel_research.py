"""Parallel research: the parts of a question are researched concurrently, and then combined."""

import asyncio
from typing import Annotated, TypedDict

from wesichain import GraphBuilder
from wesichain.graph import Append, Send


class Research(TypedDict, total=False):
    question: str
    topics: list[str]
    findings: Annotated[list[str], Append]  # several nodes write it in one super-step
    report: str


LIBRARY = {"sun": "The sun is a star.", "moon": "The moon is a satellite.", "mars": "Mars is a planet."}


def split(state: Research) -> Research:
    words = [word.strip("?,.") for word in state["question"].lower().split()]
    return {"topics": [word for word in words if word in LIBRARY]}


def fan_out(state: Research) -> list[Send]:
    return [Send("look_up", {"topic": topic}) for topic in state["topics"]]


async def look_up(task: dict[str, str]) -> Research:
    await asyncio.sleep(0.1)  # the nodes wait concurrently
    return {"findings": [LIBRARY[task["topic"]]]}


def write(state: Research) -> Research:
    return {"report": " ".join(state["findings"])}


builder = (
    GraphBuilder(Research).add_node("split", split).add_node("look_up", look_up).add_node("write", write)
)
builder.add_conditional_edges("split", fan_out, ["look_up"]).add_edge("look_up", "write").set_entry("split")
graph = builder.build()

print(graph.to_mermaid())
print(graph.invoke_sync({"question": "What are the sun, the moon and Mars?"})["report"])
