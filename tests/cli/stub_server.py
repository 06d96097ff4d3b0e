"""A chat completions server on loopback that answers from a list: what the command line talks to in tests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def text(content: str) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def call(name: str, args: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(args)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


@contextmanager
def serving(*replies: dict[str, Any], hang: bool = False) -> Iterator[str]:
    """The base URL of a server that gives each reply once, streamed where that is asked for."""
    waiting = list(replies)
    release = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not waiting:
                release.wait(30 if hang else 0)
                self.send_error(400)  # which nobody tries again
                return
            message = waiting.pop(0)
            reason = "tool_calls" if message.get("tool_calls") else "stop"
            if request.get("stream"):
                self._stream(message, reason)
            else:
                self._send({"choices": [{"index": 0, "message": message, "finish_reason": reason}], **HEAD})

        def _stream(self, message: dict[str, Any], reason: str) -> None:
            delta = {**message}
            if message.get("tool_calls"):
                delta["tool_calls"] = [
                    {**one, "index": index} for index, one in enumerate(message["tool_calls"])
                ]
            chunks = [{"index": 0, "delta": delta}, {"index": 0, "delta": {}, "finish_reason": reason}]
            body = "".join(f"data: {json.dumps({'choices': [one], **HEAD})}\n\n" for one in chunks)
            self._reply(f"{body}data: [DONE]\n\n".encode(), "text/event-stream")

        def _send(self, value: dict[str, Any]) -> None:
            self._reply(json.dumps(value).encode(), "application/json")

        def _reply(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        release.set()
        server.shutdown()
        server.server_close()


HEAD = {"id": "x", "object": "chat.completion", "created": 0, "model": "stub"}
