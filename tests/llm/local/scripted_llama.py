"""A llama.cpp server that says what it is told to say, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

LAST = {"stop": True, "tokens_evaluated": 3, "tokens_predicted": 2}


def events(*bodies: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(body).encode() + b"\n\n" for body in bodies)


class ScriptedLlama:
    """Answers a completion with this body and status, a template with `prompt`, and everything else with "ok"."""

    def __init__(self, completion: bytes, *, status: int = 200, prompt: str = "P") -> None:
        self.heads: list[str] = []
        self.asked: list[tuple[str, Any]] = []  # paths, and the JSON that was sent there
        self._status = status
        self._answers = {
            "/apply-template": json.dumps({"prompt": prompt}).encode(),
            "/completion": completion,
        }

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1]
        self.heads.append(head)
        if path in self._answers:
            length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length"))
            body = await reader.readexactly(int(length.partition(":")[2]))
            self.asked.append((path, json.loads(body)))
        status, answer = self._status if path == "/completion" else 200, self._answers.get(path, b"ok")
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(answer), answer))
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        """The address of the server."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
