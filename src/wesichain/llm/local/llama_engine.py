"""A loaded model: its child process, shared by all users of the same file and settings."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO

from wesichain.core.internal import Value
from wesichain.errors import ConfigError, MissingDependencyError
from wesichain.platform.processes import OWN_GROUP, usable_cores

LOAD_SECONDS = 300.0


class EngineSettings(Value):
    """How a model is loaded. 0 threads: measure; port 0: any free one; no key: open to all."""

    path: str
    name: str
    context: int
    threads: int = 0
    port: int = 0
    key: str = ""


class Address(Value):
    """The address of a loaded model; `elsewhere`: on a server that this program does not manage."""

    url: str
    key: str
    threads: int = 0
    elsewhere: bool = False


def require_llama() -> None:
    """Raise `MissingDependencyError` early, not with the first request, if llama.cpp is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingDependencyError("the local model", package="xllamacpp", extra="local")


class LlamaEngine:
    """One child process, started on demand, and again if it has ended. Thread-safe."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.users = 0
        self._lock = threading.RLock()
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._address: Address | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None else None

    @property
    def address(self) -> Address | None:
        """The address of the model, if it is loaded and running."""
        alive = self._child is not None and self._child.poll() is None
        return self._address if alive else None

    def start(self) -> Address:
        """The address of the model, which is loaded first if necessary. Blocks."""
        with self._lock:
            address = self.address
            if address is None:
                self._end()
                address = self._address = self._load()
            return address

    def stop(self, address: Address | None = None) -> None:
        """Free the model's memory; with an address, only if the model still has that address."""
        with self._lock:
            if address is None or address is self._address:
                self._end()

    def _load(self) -> Address:
        want = self.settings
        script = str(Path(__file__).with_name("llama_server.py"))
        numbers = (want.context, want.threads, usable_cores(), want.port)
        command = [sys.executable, "-P", script, want.path, want.name, *map(str, numbers)]
        with tempfile.TemporaryFile() as said:
            child = subprocess.Popen(  # noqa: S603  # our own script, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                **OWN_GROUP,  # Ctrl-C in the terminal is for the parent
            )
            self._child, self._owner = child, os.getpid()
            overdue = threading.Timer(LOAD_SECONDS, child.kill)
            overdue.start()
            try:
                line = self._greet(child)
            finally:
                overdue.cancel()
            if not line:
                status = child.wait()
                self._end()
                raise ConfigError(
                    f"llama.cpp cannot load {want.path} ({_reason(said, status)}); is the file damaged, "
                    f"or memory short? Delete the file to have it fetched again, or take a smaller model"
                )
        url, threads = line.split()
        return Address(url, want.key, int(threads))

    def _greet(self, child: subprocess.Popen[bytes]) -> str:
        """Send the key; the answer is one line, or empty if the child has ended."""
        assert child.stdin is not None
        assert child.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(self.settings.key.encode() + b"\n")
            child.stdin.flush()
        return child.stdout.readline().decode()

    def _end(self) -> None:
        child, self._child, self._address = self._child, None, None
        if child is None or self._owner != os.getpid():  # after a fork, it belongs to the parent
            return
        with child:  # closes its standard input, which ends it
            child.kill()


def _reason(said: IO[bytes], status: int) -> str:
    said.seek(0)
    lines = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
    if status < 0:
        return f"it ended with signal {-status}"
    return lines[-1].strip()[:200] if lines else f"it ended with status {status}"


# --- sharing --------------------------------------------------------------------------------------

_engines: dict[tuple[str, int, int], LlamaEngine] = {}
_sharing = threading.RLock()  # the garbage collector may release one engine while another is leased


def lease(path: Path, *, name: str, context: int, threads: int) -> LlamaEngine:
    """The engine for a file and settings, with one more user. Nothing is loaded yet."""
    with _sharing:
        engine = _engines.get((str(path), context, threads))
        if engine is None:
            engine = LlamaEngine(EngineSettings(str(path), name, context, threads, key=secrets.token_hex(16)))
            _engines[str(path), context, threads] = engine
        engine.users += 1
        return engine


def release(engine: LlamaEngine) -> None:
    """Remove a user; the last one frees the model."""
    with _sharing:
        engine.users -= 1
        if engine.users > 0:
            return
        want = engine.settings
        _engines.pop((want.path, want.context, want.threads), None)
    engine.stop()
