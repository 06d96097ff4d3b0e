"""A model hub on loopback that serves one file, well or badly, and data wheels built on the spot."""

from __future__ import annotations

import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from typing_extensions import override


@dataclass
class Hub:
    """What is served and how; `requests` are the Range headers that came ("" for none)."""

    data: bytes
    mode: str = "good"
    cut: int = 0
    requests: list[str] = field(default_factory=list)
    url: str = ""


@contextmanager
def serve(data: bytes, *, mode: str = "good", cut: int = 0) -> Iterator[Hub]:
    hub = Hub(data, mode, cut)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range", "")
            hub.requests.append(wanted)
            start = (
                int(wanted.removeprefix("bytes=").removesuffix("-") or 0) if hub.mode != "no-ranges" else 0
            )
            self.reply(start)

        def reply(self, start: int) -> None:
            if hub.mode == "missing":
                self.send_error(404)
                return
            if hub.mode == "silent":
                time.sleep(3)
                return
            body = hub.data[start:]
            if start:
                claimed = start + 7 if hub.mode == "wrong-range" else start
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {claimed}-{len(hub.data) - 1}/{len(hub.data)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if hub.mode == "drip":
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(0.05)
            elif hub.mode == "cut":
                self.wfile.write(body[: hub.cut])
                self.wfile.flush()
                self.connection.close()
            else:
                self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients hang up on purpose
    hub.url = f"http://127.0.0.1:{server.server_port}/owner/toy/resolve/main/model.gguf"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def build_wheel(folder: Path, name: str, members: dict[str, bytes]) -> Path:
    """A wheel that pip accepts, with these members."""
    package = name.replace("-", "_")
    path = folder / f"{package}-1.0-py3-none-any.whl"
    info = f"{package}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, data in members.items():
            wheel.writestr(member, data)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path
