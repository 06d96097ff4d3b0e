"""Extended example: customizing retry policies. Each node declares which errors are retried."""

import sqlite3
from itertools import count
from typing import Annotated, TypedDict

from wesichain import Agent
from wesichain.core import Message, Role
from wesichain.graph import Append, GraphBuilder, RetryPolicy
from wesichain.testing import ScriptedLlm

tries = count(1)


class State(TypedDict):
    messages: Annotated[list[Message], Append]


def query_database(_: State) -> State:
    if next(tries) < 3:
        raise sqlite3.OperationalError("the database is locked")
    return {"messages": [Message(Role.ASSISTANT, "AC/DC, Accept, Aerosmith")]}


builder = GraphBuilder(State)
builder.add_node(
    "query_database", query_database, retry=RetryPolicy(on=sqlite3.OperationalError, backoff=0.01)
)
builder.add_node("model", Agent(ScriptedLlm(["Let me look."])), retry=RetryPolicy(attempts=5))
graph = builder.set_entry("model").add_edge("model", "query_database").build()

for message in graph.invoke_sync({"messages": [Message(Role.USER, "Which artists are there?")]})["messages"]:
    print(message.role, message.text)
