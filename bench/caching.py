"""Prompt caching: the share of tokens that a run of fifty hops reads from the provider's cache.

    python -m bench.caching

A server on loopback counts as Anthropic does: what is marked is kept, a later request finds the longest
prefix that ends at one of its marks or at most twenty blocks before it, and short prefixes are not kept.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from wesichain import Agent, Budget
from wesichain.core import Usage
from wesichain.llm.anthropic import AnthropicClient
from wesichain.policy import Price, cost_of

HOPS = 50
LOOK_BACK = 20  # blocks before a mark
LEAST = 1024  # tokens; shorter prefixes are not cached
CLAUDE = Price(3, 15, 0.3, 3.75)


@dataclass
class CountingServer:
    """Replies with a call until the run has its hops, and counts tokens as the provider does."""

    hops: int
    parallel: int = 1
    kept: set[str] = field(default_factory=set)
    requests: int = 0
    url: str = ""

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        self.requests += 1
        fresh, read, written = self.count(body)
        usage = {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": 40,
        }
        if self.requests > self.hops:
            return {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn", "usage": usage}
        calls = [
            {"type": "tool_use", "id": f"c{self.requests}x{place}", "name": "look_up",
             "input": {"page": self.requests * 100 + place}}
            for place in range(self.parallel)
        ]  # fmt: skip
        return {"content": calls, "stop_reason": "tool_use", "usage": usage}

    def count(self, body: dict[str, Any]) -> tuple[int, int, int]:
        """New tokens, tokens read from the cache, and tokens written to it."""
        system = body.get("system", [])
        instructions = [{"type": "text", "text": system}] if isinstance(system, str) else system
        blocks = [*body.get("tools", ()), *instructions]
        blocks += [block for turn in body["messages"] for block in turn["content"]]
        digest, tokens = sha256(), 0
        prefixes: list[tuple[str, int]] = []
        marks: list[int] = []
        for place, block in enumerate(blocks):
            plain = {key: value for key, value in block.items() if key != "cache_control"}
            text = json.dumps(plain, sort_keys=True)
            digest.update(text.encode())
            tokens += max(1, len(text) // 4)
            prefixes.append((digest.hexdigest(), tokens))
            if "cache_control" in block:
                marks.append(place)
        near = {place for mark in marks for place in range(max(0, mark - LOOK_BACK), mark + 1)}
        read = max((prefixes[place][1] for place in near if prefixes[place][0] in self.kept), default=0)
        stored = [prefixes[mark] for mark in marks if prefixes[mark][1] >= LEAST]
        self.kept.update(prefix for prefix, _ in stored)
        written = max([size - read for _, size in stored if size > read], default=0)
        return tokens - read - written, read, written


@asynccontextmanager
async def serve(server: CountingServer) -> AsyncIterator[CountingServer]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                size = int(head.split("content-length:")[1].split("\r\n")[0])
                answer = json.dumps(server.answer(json.loads(await reader.readexactly(size)))).encode()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(answer), answer))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client has gone, or the benchmark has ended
        finally:
            writer.close()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()


def look_up(page: int) -> str:
    """A page of the handbook."""
    return f"Page {page}: " + "the rules of the house, in many words. " * 12


async def run(*, caching: bool, hops: int = HOPS, parallel: int = 1) -> Usage:
    """The usage of a run with a number of hops."""
    async with (
        serve(CountingServer(hops, parallel)) as server,
        AnthropicClient("claude-x", base_url=server.url, caching=caching) as llm,
    ):
        agent = Agent(
            llm,
            tools=[look_up],
            instructions="You read a handbook. " + "Follow the rules of the house. " * 150,
            budget=Budget(steps=hops + 2),
        )
        return (await agent.run("What are the rules?")).usage


def report(name: str, usage: Usage) -> str:
    share = usage.cache_read_tokens / usage.input_tokens
    cost = cost_of(usage, CLAUDE)
    return f"{name:34} {usage.input_tokens:>9} {usage.cache_read_tokens:>9} {share:>7.1%} {cost:>8.4f}"


async def main() -> None:
    print(f"{'run of ' + str(HOPS) + ' hops':34} {'read':>9} {'cached':>9} {'share':>7} {'cost':>8}")
    for name, caching, parallel in (
        ("marks off", False, 1),
        ("marks on", True, 1),
        ("marks on, 8 calls in each reply", True, 8),
        ("marks on, 25 calls in each reply", True, 25),
    ):
        print(report(name, await run(caching=caching, parallel=parallel)))


if __name__ == "__main__":
    asyncio.run(main())
