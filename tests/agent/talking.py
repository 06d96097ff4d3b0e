"""A process that talks: `python -m tests.agent.talking STORE NAME TURNS [wait]`.

It runs an agent on the conversation "c" of the store, TURNS times, and says on standard output what was kept,
after it was. TURNS 0 is: until it is killed. With "wait" it says that it is ready, and begins when it is told to.
"""

from __future__ import annotations

import asyncio
import sys
from itertools import count

from wesichain.agent import Agent, Conversations, PostgresConversations, SqliteConversations
from wesichain.testing import FunctionLlm


def open_store(where: str) -> Conversations:
    return PostgresConversations(where) if where.startswith("postgres") else SqliteConversations(where)


async def main(where: str, name: str, turns: int, *, waits: bool) -> None:
    agent = Agent(FunctionLlm(lambda request: request.messages[-1].text.replace("question", "answer")))
    if waits:
        print("ready", flush=True)
        sys.stdin.readline()
    conversation = open_store(where).open("c", max_tokens=200)
    for turn in range(turns) if turns else count():
        await agent.run(f"question {name}.{turn}", conversation=conversation)
        print(f"{name}.{turn}", flush=True)


if __name__ == "__main__":
    _, where, name, turns, *rest = sys.argv
    asyncio.run(main(where, name, int(turns), waits=rest == ["wait"]))
