"""A loopback server that answers as badly as it is told to: raw sockets, so that every byte is ours."""

from __future__ import annotations

import asyncio
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

FOR_EVER = 3600.0


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class ToxicServer:
    """Answers requests with the given answers in turn; the last one is given again and again."""

    def __init__(self, *answers: Answer, port: int = 0) -> None:
        self.port = port
        self.received: list[Received] = []
        self.connections = 0
        self._answers = list(answers)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer_with(self, *answers: Answer) -> None:
        self._answers[:] = answers

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while not writer.is_closing():
                self.received.append(await _read_request(reader))
                answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                await answer(writer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has seen enough
        finally:
            self._tasks.discard(task)
            writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Received(request_line.split()[1], headers, body)


# --- answers -------------------------------------------------------------------------------------


def head(status: int = 200, headers: Mapping[str, str] | None = None, *, framing: str = "chunked") -> bytes:
    fields = {"content-type": "application/json", **(headers or {})}
    if framing == "chunked":
        fields["transfer-encoding"] = "chunked"
    elif framing == "close":
        fields["connection"] = "close"
    else:
        fields["content-length"] = framing
    lines = [f"HTTP/1.1 {status} Toxic", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunked(data: bytes, size: int | None = None) -> bytes:
    """The data as HTTP chunks, which is how the client's reads are cut."""
    size = size or max(len(data), 1)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


def reply(
    status: int, body: str | bytes, headers: Mapping[str, str] | None = None, *, size: int | None = None
) -> Answer:
    """A well-formed answer, its body in chunks of `size` bytes."""
    data = body.encode() if isinstance(body, str) else body

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head(status, headers) + chunked(data, size) + b"0\r\n\r\n")

    return answer


async def black_hole(writer: asyncio.StreamWriter) -> None:
    """Takes the request and says nothing."""
    await asyncio.sleep(FOR_EVER)


async def reset(writer: asyncio.StreamWriter) -> None:
    """RST instead of an answer."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def then(*parts: bytes, end: Answer | None = None, headers: Mapping[str, str] | None = None) -> Answer:
    """A 200 whose body starts with `parts`; then `end` happens, or the connection closes (FIN)."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, headers) + b"".join(chunked(part) for part in parts))
        await writer.drain()
        if end is not None:
            await end(writer)
        else:
            writer.close()

    return answer


def promised(length: int, data: bytes) -> Answer:
    """A body that is shorter than its content-length: FIN in the middle."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head(framing=str(length)) + data)
        await writer.drain()
        writer.close()

    return answer


def unframed(data: bytes) -> Answer:
    """A body that ends when the connection does: nothing says whether it is whole."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head(framing="close") + data)
        await writer.drain()
        writer.close()

    return answer


async def half_close(writer: asyncio.StreamWriter) -> None:
    """Ends its own side and goes on listening."""
    writer.write_eof()
    await asyncio.sleep(FOR_EVER)


def watched(answer: Answer) -> tuple[Answer, asyncio.Event]:
    """The same answer, and an event for the moment when it ends: the client has hung up."""
    ended = asyncio.Event()

    async def watching(writer: asyncio.StreamWriter) -> None:
        try:
            await answer(writer)
        finally:
            ended.set()

    return watching, ended


def drip(data: bytes, *, every: float = 0.02) -> Answer:
    """The rest of a body, one byte at a time, for ever: each read succeeds, the whole never comes."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        while True:
            for at in range(len(data)):
                writer.write(chunked(data[at : at + 1]))
                await writer.drain()
                await asyncio.sleep(every)

    return answer


def endless(pieces: Callable[[], Iterable[bytes]], headers: Mapping[str, str] | None = None) -> Answer:
    """As fast as the client reads, without end."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head(200, headers))
        for piece in pieces():
            writer.write(chunked(piece))
            await writer.drain()
            await asyncio.sleep(0)  # the client lives in this loop too

    return answer


def blanks() -> Iterable[bytes]:
    while True:
        yield b" " * 65_536


def bomb() -> Iterable[bytes]:
    """Gzip that grows a thousandfold: each kilobyte is another megabyte of blanks."""
    squeezed = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    yield squeezed.compress(b" " * 1_048_576) + squeezed.flush(zlib.Z_FULL_FLUSH)
    megabyte = squeezed.compress(b" " * 1_048_576) + squeezed.flush(zlib.Z_FULL_FLUSH)
    while True:  # a full flush forgets what was before, so the same kilobyte serves again
        yield megabyte * 16
