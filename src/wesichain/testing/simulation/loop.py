"""A deterministic event loop: virtual time, no I/O, and an order of tasks that depends on a seed."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from hashlib import blake2b
from queue import Empty, SimpleQueue
from typing import Any, NoReturn, Protocol, TypeVar

from typing_extensions import TypeVarTuple, Unpack, override

from wesichain.core.internal import Clock
from wesichain.errors import ConfigError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EPOCH = 1_700_000_000.0  # the wall clock at the start of a simulation
_MOST_TURNS = 200_000  # of the loop, in one simulated run
_MOST_CLOSES = 10  # attempts to close a coroutine
_TASK = asyncio.Task
# The pauses of a watch: after this many calls, each grows by a factor, up to a limit.
_STEADY, _SLOWER, _LONGEST_PAUSE = 8, 2.0, 3_600.0


class Owner(Protocol):
    """The owner of a callback: a process, or one tool call in it."""

    process: Any  # itself, or the process of the call

    @property
    def is_frozen(self) -> bool:
        """Whether its callbacks no longer run."""
        ...


OWNER: ContextVar[Owner | None] = ContextVar("wesichain_simulated_owner", default=None)


def draw(*key: object) -> float:
    """A random number from 0 to 1 that depends only on the key, on any machine."""
    text = "|".join(map(str, key))
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) / (1 << 56)


class StuckError(Exception):
    """Every task waits, and no timer is left (a deadlock), or the run does not end."""


class _Handle(asyncio.TimerHandle):
    """A callback with its owner."""

    __slots__ = ("call", "order", "owner")

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: VirtualLoop,
        context: Context | None,
    ) -> None:
        context = copy_context() if context is None else context
        super().__init__(when, callback, args, loop, context)
        self.owner = context.get(OWNER)
        self.call = (callback, args, context)
        self.order = loop.next_number()

    @override
    def __lt__(self, other: Any) -> bool:
        return (self.when(), self.order) < (other.when(), other.order)

    def is_step(self) -> bool:
        """Whether it is the next step of a task."""
        return isinstance(getattr(self.call[0], "__self__", None), _TASK)


class _Numbered:
    """An object whose hash does not depend on its address, so that sets have a stable order."""

    number = 0

    @override
    def __hash__(self) -> int:
        return self.number


class _Task(_Numbered, asyncio.Task[T]): ...


class _Future(_Numbered, asyncio.Future[T]): ...


class VirtualLoop(asyncio.AbstractEventLoop):
    """Runs tasks in one thread. If no task is ready, the time jumps to the next timer.

    The seed decides the order of tasks that are ready at the same time; other callbacks run in the order in
    which they were scheduled. The loop waits for each thread that a task starts.
    """

    def __init__(self, seed: object, *, thread_seconds: float = 60.0) -> None:
        self._seed = seed
        self._thread_seconds = thread_seconds  # the timeout of a thread, in real time
        self._now = 0.0
        self._ready: list[_Handle] = []
        self._timers: list[_Handle] = []
        self._delivered: SimpleQueue[_Handle] = SimpleQueue()
        self._threads: list[asyncio.Future[Any]] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._numbers = 0
        self.turns = 0
        self._is_closed = False
        self.clock = VirtualClock(self)
        self.on_blocking_call: Callable[[str], object] = str  # called before and after executor functions

    @property
    def process(self) -> object:
        """The simulated process whose code is running, else the loop itself."""
        owner = OWNER.get()
        return self if owner is None else owner.process

    def watch(self, look: Callable[[], float], *, on_failure: Callable[[], object]) -> VirtualWatch:
        """Call a function repeatedly, in place of a thread."""
        del on_failure  # errors end the simulation
        return VirtualWatch(self, look)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    # --- running -------------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine until it ends. Raises `StuckError` if it waits forever."""
        hooks = sys.get_asyncgen_hooks()
        task = self.create_task(main)
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._close_generator)
        try:
            while not task.done():
                self._turn()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)
        return task.result()

    def settle(self, seconds: float) -> None:
        """Run the remaining tasks until none is left, or for this many seconds."""
        until = self._now + seconds

        async def wait() -> None:
            while self._ready or (self._timers and self._timers[0].when() < until):  # noqa: ASYNC110  # virtual time
                await asyncio.sleep(0 if self._ready else max(0.0, self._timers[0].when() - self._now))

        with suppress(StuckError):  # a task never ends, but the run has ended
            self.run(wait())

    def _turn(self) -> None:
        """Run the callbacks that are ready; if there are none, jump to the next timer."""
        self.turns += 1
        if self.turns > _MOST_TURNS:
            raise StuckError(f"no end after {_MOST_TURNS} turns of the event loop")
        self._wait_for_threads()
        if not self._ready:
            while self._timers and _is_over(self._timers[0]):
                heapq.heappop(self._timers)
            if not self._timers:
                raise StuckError("deadlock: every task waits, and no timer is left")
            self._now = max(self._now, self._timers[0].when())
        while self._timers and self._timers[0].when() <= self._now:
            self._ready.append(heapq.heappop(self._timers))
        batch, self._ready = self._in_order(self._ready), []
        for handle in batch:
            if not _is_over(handle):
                self._call(handle)
                if self._threads:
                    self._wait_for_threads()

    def _in_order(self, ready: list[_Handle]) -> list[_Handle]:
        """Reorder the task steps among the callbacks, as the seed decides."""
        places = [place for place, handle in enumerate(ready) if handle.is_step()]
        if len(places) < 2:
            return ready
        moment = (self._seed, "order", round(self._now, 6), len(places))
        drawn = sorted(places, key=lambda place: draw(*moment, place))
        moved = [*ready]
        for place, source in zip(places, drawn, strict=True):
            moved[place] = ready[source]
        return moved

    def _call(self, handle: _Handle) -> None:
        callback, args, context = handle.call
        try:
            context.run(callback, *args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001  # an error in a callback does not end the loop
            self.call_exception_handler({"exception": error})

    def wait_for_thread(self, future: asyncio.Future[Any]) -> None:
        """Run nothing else until a thread has set the result of the future."""
        self._threads.append(future)

    def _wait_for_threads(self) -> None:
        while self._threads:
            self._threads = [future for future in self._threads if not future.done()]
            if self._threads:
                try:
                    self._call(self._delivered.get(timeout=self._thread_seconds))
                except Empty:
                    self._threads = []
                    seconds = f"{self._thread_seconds:g} s of real time"
                    raise StuckError(f"a function in a thread has not returned within {seconds}") from None
        while not self._delivered.empty():
            self._ready.append(self._delivered.get())

    @override
    def close(self) -> None:
        """Drop the waiting callbacks, and close unfinished coroutines."""
        self._is_closed = True
        self._ready, self._timers = [], []
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            for task in self._tasks:  # grows if closing one starts others
                if not task.done():
                    _close(task.get_coro())
        finally:
            asyncio._set_running_loop(before)
        self._tasks = []

    def _close_generator(self, generator: Any) -> None:
        if not self._is_closed:
            self.create_task(generator.aclose())

    # --- the interface of an event loop --------------------------------------------------------------

    @override
    def time(self) -> float:
        return self._now

    @override
    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Handle(self._now, callback, args, self, context)
        self._ready.append(handle)
        return handle

    @override
    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._is_closed:
            raise RuntimeError("the simulated loop is closed")
        handle = _Handle(self._now, callback, args, self, context)
        self._delivered.put(handle)
        return handle

    @override
    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    @override
    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = _Handle(when, callback, args, self, context)
        heapq.heappush(self._timers, handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by a cancelled timer; it is dropped when it is due."""

    @override
    def create_future(self) -> asyncio.Future[Any]:
        future: _Future[Any] = _Future(loop=self)
        future.number = self.next_number()
        return future

    @override
    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
        **options: Any,
    ) -> asyncio.Task[T]:
        number = self.next_number()
        made: Any = _Task
        task: _Task[T] = made(coro, loop=self, name=name or f"task-{number}", context=context, **options)
        task.number = number
        self._tasks.append(task)
        return task

    @override
    async def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> T:  # type: ignore[override]  # a coroutine is awaited like the future
        """Call the function in this thread, so that its effects have a deterministic order."""
        del executor
        self.on_blocking_call("before")
        await asyncio.sleep(0)
        value = func(*args)
        self.on_blocking_call("after")
        await asyncio.sleep(0)
        return value

    @override
    def get_debug(self) -> bool:
        return False

    @override
    def set_debug(self, enabled: bool) -> None:
        del enabled

    @override
    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    @override
    def is_closed(self) -> bool:
        return self._is_closed

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Ignore errors that nothing awaits."""

    def _no_network(self, *_: object, **__: object) -> NoReturn:
        raise ConfigError(
            "a simulation has no network: give the agent a model that is a function of the request "
            "(wesichain.testing.FunctionLlm), and let its tools act on the scenario's world"
        )

    create_connection = create_server = create_datagram_endpoint = getaddrinfo = _no_network  # pyright: ignore[reportAssignmentType]  # refuses
    add_reader = add_writer = sock_connect = sock_recv = sock_sendall = _no_network  # pyright: ignore[reportAssignmentType]  # refuses
    subprocess_exec = subprocess_shell = _no_network  # pyright: ignore[reportAssignmentType]  # refuses


def virtual_loop(seed: object, **options: Any) -> VirtualLoop:
    """Make a loop. Type checkers take the class for abstract, since it has no I/O."""
    loop: Any = VirtualLoop
    return loop(seed, **options)  # type: ignore[no-any-return]  # an instance of it


class _ThrownAwayError(KeyboardInterrupt):
    """Ends the code of a dead process. Code may catch it and wait in a `finally`, unlike `GeneratorExit`.

    As a `KeyboardInterrupt` it is not taken for an error of a tool.
    """


def _close(code: Any) -> None:
    """Close a coroutine, and what it awaits while it is closed."""
    if inspect.iscoroutine(code) and inspect.getcoroutinestate(code) == inspect.CORO_CREATED:
        for value in [*inspect.getcoroutinelocals(code).values()]:
            if inspect.iscoroutine(value):  # it will never be awaited
                value.close()
    with suppress(BaseException):
        for _ in range(_MOST_CLOSES):
            code.throw(_ThrownAwayError())
        code.close()


def _is_over(handle: _Handle) -> bool:
    return handle.cancelled() or (handle.owner is not None and handle.owner.is_frozen)


class VirtualWatch:
    """Calls `look` repeatedly, which returns the seconds until the next call; `wake` ends that pause.

    The pauses grow until the next `wake`, so that long waits take few calls.
    """

    def __init__(self, loop: VirtualLoop, look: Callable[[], float]) -> None:
        self._loop = loop
        self._look = look
        self._context = copy_context()  # of its process, also if another wakes it
        self._calls = 0  # since the last wake
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self.wake()

    def wake(self) -> None:
        self.stop()
        self._calls = 0
        self._call_in(0.0)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call(self) -> None:
        self._calls += 1
        growth = _SLOWER ** max(0, self._calls - _STEADY)
        self._call_in(min(self._look() * growth, _LONGEST_PAUSE))

    def _call_in(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._call, context=self._context)


class VirtualClock(Clock):
    """The clock of a simulated run, with the time of the loop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    @override
    def time(self) -> float:
        return EPOCH + self._loop.time()

    @override
    def monotonic(self) -> float:
        return self._loop.time()

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
