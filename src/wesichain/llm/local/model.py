"""`LocalLlm`: a model on this machine that calls tools, every call well formed."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from wesichain.core import LlmRequest, LlmResponse, LlmTraits, Message, StreamItem, TextChunk, Usage
from wesichain.errors import ConfigError, LlmResponseError, LlmTransportError

from .engine import Address, Engine, Settings, lease, release, require_llama
from .files import DEFAULT_MODEL, Progress, StderrProgress, fetch_model, find_model
from .grammar import answer_grammar, reply_grammar
from .prompt import chat_messages, has_thoughts, partial_answer, read_reply
from .wire import ask, ask_stream

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Timings:
    """What one reply took: tokens read anew, found again in the cache, and written; seconds of both works."""

    read: int
    reused: int
    written: int
    read_seconds: float
    write_seconds: float


class LocalLlm:
    """A model of the manifest by name, or any GGUF file by path, held by llama.cpp in a process of its own.

    Nothing happens before the first question; then the file is fetched if need be and loaded, once for all
    that use it with the same settings. With `constrain`, a grammar holds the reply: a call of one of the
    offered tools with arguments that follow its schema, or an answer. `examples` are solved questions, as
    messages, shown before the real one: small models gain much from three of them. Where their calls have a
    `content` and their answers a `reasoning`, the model has to write a thought too. `threads` is by default
    `$WESICHAIN_THREADS`, else what is faster as the model is loaded. `timings` are of the last reply.
    """

    traits = LlmTraits(observes_errors=True, native_output=True, takes_stop=True)

    def __init__(
        self,
        name_or_path: str | Path = DEFAULT_MODEL,
        *,
        context: int = 4096,
        max_tokens: int = 512,
        temperature: float = 0.0,
        seed: int = 0,
        threads: int | None = None,
        constrain: bool = True,
        examples: Sequence[Message] = (),
        progress: Progress | None = None,
    ) -> None:
        require_llama()
        self._file = ModelFile(name_or_path, progress)
        self.model = self._file.name
        self.timings: Timings | None = None
        self._context = context
        self._threads = threads
        self._constrain = constrain
        self._examples = tuple(examples)
        self._sampling: dict[str, Any] = {"n_predict": max_tokens, "temperature": temperature, "seed": seed}
        self._opening = threading.Lock()
        self._engine: Engine | None = None
        self._free: Callable[[], object] | None = None
        self._closed = False

    async def complete(self, request: LlmRequest) -> LlmResponse:
        """The model's reply: one call, or an answer."""
        async with aclosing(self.stream(request)) as items:
            async for item in items:
                if isinstance(item, LlmResponse):
                    return item
        raise LlmResponseError("llama.cpp ended its reply without a last word", retryable=True)

    async def stream(self, request: LlmRequest) -> AsyncGenerator[StreamItem, None]:
        """The answer in pieces, as the model writes it; a call comes whole, in the response."""
        async with self._loaded() as address:
            chat = {"messages": chat_messages(request, self._examples)}
            prompt = str((await ask(address, "/apply-template", chat)).get("prompt"))
            text, shown = "", ""
            options = self._constraint(request) | {"stop": [*request.stop]}
            async with aclosing(self._events(address, prompt, options)) as events:
                async for event in events:
                    text += str(event.get("content", ""))
                    answer = _readable(text, request)
                    if len(answer) > len(shown):
                        yield TextChunk(answer[len(shown) :])
                        shown = answer
                    if event.get("stop"):
                        usage = Usage(int(event["tokens_evaluated"]), int(event["tokens_predicted"]))
                        cut = event.get("stop_type") == "limit"
                        yield read_reply(text, request=request, usage=usage, cut=cut)

    async def complete_text(self, prompt: str, *, stop: Sequence[str] = ()) -> str:
        """Continue the text: no chat form, no constraint."""
        text = ""
        async with self._loaded() as address:
            async for event in self._events(address, prompt, {"stop": list(stop)}):
                text += str(event.get("content", ""))
        return text

    def close(self) -> None:
        """Free the model, unless others use it too."""
        with self._opening:
            self._closed = True
            if self._free is not None:
                self._free()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await off_loop(lambda _stop: self.close())

    def _constraint(self, request: LlmRequest) -> dict[str, Any]:
        if self._constrain and request.tools:
            thoughts = has_thoughts(self._examples)
            return {"grammar": reply_grammar(request.tools, request.output_schema, thoughts=thoughts)}
        if self._constrain and request.output_schema is not None:
            return {"grammar": answer_grammar(request.output_schema)}
        return {}

    async def _events(
        self, address: Address, prompt: str, options: dict[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        body = {"prompt": prompt, "cache_prompt": True, **self._sampling, **options}
        async with aclosing(ask_stream(address, body)) as events:
            async for event in events:
                if event.get("stop"):
                    self.timings = _timings(event.get("timings") or {})
                yield event

    @asynccontextmanager
    async def _loaded(self) -> AsyncGenerator[Address, None]:
        """Where the model is to be asked. After a fault it is loaded anew for the next question."""
        ready = self._ready()
        engine, address = ready if ready is not None else await off_loop(self._open)
        try:
            yield address
        except LlmTransportError:
            await off_loop(lambda _stop: engine.stop(address))
            raise

    def _ready(self) -> tuple[Engine, Address] | None:
        """The engine, if nothing needs to be waited for."""
        if self._engine is None or self._closed or (address := self._engine.address) is None:
            return None
        return self._engine, address

    def _open(self, stop: threading.Event) -> tuple[Engine, Address]:
        """Fetch and load the model; blocks for as long as that takes."""
        path = self._file.locate(stop)
        with self._opening:
            if self._closed:
                raise ConfigError(f"the local model {self.model!r} was closed; make a new LocalLlm")
            if self._engine is None:
                threads = choose_threads(self._threads)
                self._engine = lease(path, name=self.model, context=self._context, threads=threads)
                self._free = weakref.finalize(self, release, self._engine)
            engine = self._engine
        return engine, engine.start()


class ModelFile:
    """The file behind a name or a path."""

    def __init__(self, name_or_path: str | Path, progress: Progress | None) -> None:
        place = str(name_or_path)
        is_path = isinstance(name_or_path, Path) or place.endswith(".gguf") or os.sep in place
        self._path = Path(place).expanduser().resolve() if is_path else None
        self._card = None if is_path else find_model(place)
        self._progress = progress
        self.name = Path(place).stem if self._card is None else self._card.name

    def locate(self, stop: threading.Event | None = None) -> Path:
        """Where the file is, after it was fetched if need be."""
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


@contextmanager
def serve_local(
    name_or_path: str | Path = DEFAULT_MODEL,
    *,
    port: int = 0,
    context: int = 4096,
    threads: int | None = None,
    key: str = "",
) -> Generator[str]:
    """llama.cpp's own OpenAI-compatible server on loopback, for as long as the block runs: its base URL."""
    require_llama()
    file = ModelFile(name_or_path, None)
    chosen = choose_threads(threads)
    engine = Engine(Settings(str(file.locate()), file.name, context, chosen, port=port, key=key))
    try:
        yield f"{engine.start().url}/v1"
    finally:
        engine.stop()


def choose_threads(given: int | None) -> int:
    """The number given, else `$WESICHAIN_THREADS`, else 0: measure."""
    text = os.environ.get("WESICHAIN_THREADS") or "0"
    if given is None and not text.isdecimal():
        raise ConfigError(f"WESICHAIN_THREADS is {text!r}; make it a number, such as 1")
    return int(text) if given is None else given


async def off_loop(work: Callable[[threading.Event], T]) -> T:
    """The result of blocking work in a thread of its own, which is told to stop when nobody waits for it.

    Not the loop's pool: a long download there would starve others, and hold up the end of the program.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    stop = threading.Event()

    def settle(result: T | None, error: BaseException | None) -> None:
        if not done.done():
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(cast("T", result))

    def run() -> None:
        result, error = None, None
        try:
            result = work(stop)
        except BaseException as caught:  # noqa: BLE001  # handed to the task that waits
            error = caught
        with suppress(RuntimeError):  # the loop has closed meanwhile: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="wesichain-local", daemon=True).start()
    try:
        return await done
    finally:
        stop.set()


def _readable(text: str, request: LlmRequest) -> str:
    """What of an unfinished reply is for people to read."""
    if not request.tools:
        return text
    return partial_answer(text) if request.output_schema is None else ""


def _timings(told: dict[str, Any]) -> Timings:
    return Timings(
        read=int(told.get("prompt_n", 0)),
        reused=int(told.get("cache_n", 0)),
        written=int(told.get("predicted_n", 0)),
        read_seconds=float(told.get("prompt_ms", 0)) / 1000,
        write_seconds=float(told.get("predicted_ms", 0)) / 1000,
    )
