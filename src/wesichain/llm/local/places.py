"""Where a model runs: in a child process on this machine, or on another llama.cpp server."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from wesichain.core.internal import Delivery, register_secret
from wesichain.errors import ConfigError, LlmResponseError, LlmTransportError
from wesichain.llm.transport.keys import clean_key

from .files.fetch import fetch_model
from .files.manifest import DEFAULT_MODEL, find_model
from .files.progress import Progress, StderrProgress
from .llama_engine import Address, LlamaEngine, lease, release, require_llama

T = TypeVar("T")

CONTEXT = 4096  # tokens; the default
_REPLY_SECONDS = 600.0  # another server may have a queue


class SharedModel:
    """A model in a child process, downloaded and loaded with the first request, and shared by its users."""

    def __init__(
        self,
        name_or_path: str | Path,
        *,
        context: int | None,
        threads: int | None,
        deadline: float | None,
        progress: Progress | None,
    ) -> None:
        require_llama()
        self._file = ModelFile(name_or_path, progress)
        self.name = self._file.name
        self.deadline = deadline
        self._context = CONTEXT if context is None else context
        self._threads = threads
        self._opening = threading.RLock()
        self.engine: LlamaEngine | None = None
        self._free: Callable[[], object] | None = None
        self._closed = False

    @asynccontextmanager
    async def reach(self) -> AsyncGenerator[Address, None]:
        """The address of the model. After an error, the model is loaded again with the next request."""
        ready = self._ready()
        engine, address = ready if ready is not None else await off_loop(self._open)
        try:
            yield address
        except (LlmTransportError, LlmResponseError) as error:
            if not isinstance(error.__cause__, TimeoutError):  # it is only slow, and others may be using it
                await off_loop(lambda _stop: engine.stop(address))
            raise

    def close(self) -> None:
        """Free the model, unless it has other users."""
        with self._opening:
            self._closed = True
            if self._free is not None:
                self._free()

    def _ready(self) -> tuple[LlamaEngine, Address] | None:
        """The engine, if it is running."""
        if self.engine is None or self._closed or (address := self.engine.address) is None:
            return None
        return self.engine, address

    def _open(self, stop: threading.Event) -> tuple[LlamaEngine, Address]:
        """Download and load the model. Blocks."""
        path = self._file.locate(stop)
        with self._opening:
            if self._closed:
                raise ConfigError(f"the local model {self.name!r} was closed; make a new LocalLlm")
            if self.engine is None:
                threads = choose_threads(self._threads)
                self.engine = lease(path, name=self.name, context=self._context, threads=threads)
                self._free = weakref.finalize(self, release, self.engine)
            engine = self.engine
        return engine, engine.start()


class RemoteServer:
    """A llama.cpp server that this program does not manage: nothing is downloaded, loaded or stopped."""

    def __init__(self, name: str, base_url: str, *, api_key: str | None, deadline: float | None) -> None:
        self.name = name
        self.deadline = _REPLY_SECONDS if deadline is None else deadline
        self._address = Address(_server_root(base_url), clean_key(api_key or ""), elsewhere=True)
        register_secret(api_key, owner=self)
        self._closed = False

    @asynccontextmanager
    async def reach(self) -> AsyncGenerator[Address, None]:
        if self._closed:
            raise ConfigError(f"the local model {self.name!r} was closed; make a new LocalLlm")
        yield self._address

    def close(self) -> None:
        self._closed = True


def _server_root(base_url: str) -> str:
    """The root of the server's address, without the `/v1` of its OpenAI-compatible API."""
    url = base_url.strip()
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, is_address = urlsplit(""), False
    if not is_address or parts.query or parts.fragment or not url.isprintable():
        raise ConfigError(
            "base_url is not the address of a llama.cpp server; use one such as http://127.0.0.1:8080"
        )
    if "@" in parts.netloc:
        raise ConfigError("base_url has a user name or password, which is not sent; pass api_key= instead")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


class ModelFile:
    """The file of a model, given by name or path."""

    def __init__(self, name_or_path: str | Path, progress: Progress | None) -> None:
        place = str(name_or_path)
        is_path = isinstance(name_or_path, Path) or place.endswith(".gguf") or os.sep in place
        self._path = Path(place).expanduser().resolve() if is_path else None
        self._card = None if is_path else find_model(place)
        self._progress = progress
        self.name = Path(place).stem if self._card is None else self._card.name

    def locate(self, stop: threading.Event | None = None) -> Path:
        """The path of the file, which is downloaded first if necessary."""
        if self._card is not None:
            return fetch_model(self._card, progress=self._progress or StderrProgress(), stop=stop)
        assert self._path is not None
        try:
            with self._path.open("rb") as file:
                magic = file.read(4)
        except OSError as error:
            raise ConfigError(
                f"the model file {self._path} cannot be read: {error.strerror}; check the path, or use a "
                f"name such as {DEFAULT_MODEL!r}"
            ) from error
        if magic != b"GGUF":
            raise ConfigError(
                f"{self._path} is not a GGUF model: it begins with {magic!r}; use a .gguf file, or a name "
                f"such as {DEFAULT_MODEL!r}"
            )
        return self._path


def choose_threads(given: int | None) -> int:
    """The given number, else `$WESICHAIN_THREADS`, else 0, which means: measure."""
    text = os.environ.get("WESICHAIN_THREADS") or "0"
    if given is None and not text.isdecimal():
        raise ConfigError(f"WESICHAIN_THREADS is {text!r}; set it to a number, such as 1")
    return int(text) if given is None else given


async def off_loop(work: Callable[[threading.Event], T]) -> T:
    """Run blocking work in a thread of its own; its event is set when the caller stops waiting.

    A long download in the event loop's thread pool would block other work and the end of the program.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    stop = threading.Event()
    given = [(work, stop, loop, done)]  # the thread's only reference to them

    def run() -> None:
        _worked(*given.pop()).deliver()

    threading.Thread(target=run, name="wesichain-local", daemon=True).start()
    try:
        return await done
    finally:
        stop.set()


def _worked(
    work: Callable[[threading.Event], T],
    stop: threading.Event,
    loop: asyncio.AbstractEventLoop,
    done: asyncio.Future[T],
) -> Delivery[T]:
    try:
        return Delivery(loop, done, work(stop), None)
    except BaseException as error:  # noqa: BLE001  # raised in the waiting task
        return Delivery(loop, done, None, error)
