"""The contexts that functions of a run and tools receive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, overload

from typing_extensions import TypeVar, override

from wesichain.core import Event, Message
from wesichain.core.internal import CancellationToken, Spent
from wesichain.errors import ConfigError

__all__ = ["CancellationToken", "RunContext", "ToolContext"]

if TYPE_CHECKING:
    from datetime import datetime, timedelta

T = TypeVar("T")
StepEffect: TypeAlias = Literal["idempotent", "once", "pure"]
DepsT_co = TypeVar("DepsT_co", covariant=True, default=Any)
DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=Any)


# Of the methods that `dataclass` compiles, those below take a third of what it takes to make both classes.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunContext(Generic[DepsT_co]):
    """The run that instructions, tools, checks and middleware are called in.

    `deps` was passed by the caller of the run, and is never stored. `scope` contains the names of the agents
    above this run, outermost first. `link` and `source` are internal.
    """

    correlation_id: str = ""
    step_id: int = 0
    cancellation: CancellationToken = field(default_factory=CancellationToken)
    deps: DepsT_co = field(default=None, kw_only=True, repr=False, compare=False)  # type: ignore[assignment]  # without deps it is None
    agent: str = field(default="", kw_only=True)
    scope: tuple[str, ...] = field(default=(), kw_only=True)
    link: Any = field(default=None, kw_only=True, repr=False, compare=False)
    source: Any = field(default=None, kw_only=True, repr=False, compare=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Compute a field that the runtime left unset because it is rarely used."""
            if name != "source" and name in self.__dataclass_fields__:
                late = self.source.late(self)
                for field_name, value in late.items():
                    object.__setattr__(self, field_name, value)
                if name in late:
                    return late[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @override
    def __eq__(self, other: object) -> bool:
        return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented

    @override
    def __hash__(self) -> int:
        return hash(_compared(self))

    @override
    def __repr__(self) -> str:
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    @property
    def run_id(self) -> str:
        return self.correlation_id

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the run so far."""
        return () if self.link is None else self.link.messages

    @property
    def by(self) -> str:
        """Who asked for the run; "" if nobody was named."""
        return "" if self.link is None else str(self.link.by)

    @property
    def spent(self) -> Spent | None:
        """The spending of the run so far; None outside a run."""
        return None if self.link is None else self.link.spent


def _compared(ctx: Any) -> tuple[Any, ...]:
    return tuple(getattr(ctx, one.name) for one in fields(ctx) if one.compare)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolContext(RunContext[DepsT_co], Generic[DepsT_co]):
    """The context of one tool call. A parameter annotated with this class receives it.

    `idempotency_key` identifies the call: it stays the same when the call is run again. Pass it to services
    that accept one. `attempt` is 1 for the first attempt at the call. `budget` and `emit` are internal.
    """

    idempotency_key: str = ""
    call_id: str = field(default="", kw_only=True)
    attempt: int = field(default=1, kw_only=True)
    budget: object | None = field(default=None, repr=False, kw_only=True)
    emit: Callable[[Event], None] | None = field(default=None, repr=False, kw_only=True)

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report progress of the call; it is emitted as an event."""
        if self.link is not None:
            self.link.progress(done, total, message)

    # --- steps and waits with names, which a call that is made again finds in the log -----------------

    @property
    def journal(self) -> Any:
        """The journal of this call (a `wesichain.Journal`), which the methods below use."""
        found = getattr(self.link, "journal", None)
        if found is None:
            raise ConfigError("a tool has a journal inside a run: this context was made outside of one")
        return found

    @overload
    async def perform(
        self,
        name: str,
        function: Callable[[], Awaitable[T]],
        *,
        effect: StepEffect = ...,
        unique: str | None = ...,
        reconcile: Callable[[str, Any], Any] | None = ...,
        retry: object = ...,
    ) -> T: ...
    @overload
    async def perform(
        self,
        name: str,
        function: Callable[[], T],
        *,
        effect: StepEffect = ...,
        unique: str | None = ...,
        reconcile: Callable[[str, Any], Any] | None = ...,
        retry: object = ...,
    ) -> T: ...
    async def perform(self, name: str, function: Callable[[], Any], **options: Any) -> Any:
        """Call a function once in this call, whatever happens to the process; see `Journal.perform`."""
        return await self.journal.perform(name, function, **options)

    @overload
    async def ask(self, name: str, question: str, *, expects: type[T], **options: Any) -> T: ...
    @overload
    async def ask(self, name: str, question: str, **options: Any) -> Any: ...
    async def ask(self, name: str, question: str, **options: Any) -> Any:
        """Ask a person, and wait for the answer; see `Journal.ask`."""
        return await self.journal.ask(name, question, **options)

    async def receive(self, name: str, **options: Any) -> Any:
        """Wait for a signal, and return its value; see `Journal.receive`."""
        return await self.journal.receive(name, **options)

    async def sleep(self, name: str, seconds: float | timedelta) -> None:
        """Wait so long, whatever happens to the process meanwhile."""
        await self.journal.sleep(name, seconds)

    async def until(self, name: str, moment: float | timedelta | datetime) -> None:
        """Wait for a moment: seconds from now, a `timedelta`, or a `datetime` with a time zone."""
        await self.journal.until(name, moment)

    async def gather(self, *awaitables: Awaitable[Any]) -> list[Any]:
        """The results of all, side by side; what waits lets the others finish."""
        found: list[Any] = await self.journal.gather(*awaitables)
        return found


def _refuse(_: object, name: str, *__: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


for _cls in (RunContext, ToolContext):
    # In a class with slots, those of the standard library raise TypeError for names that are not fields.
    # `ToolContext[Deps](...)` would fail: `typing` sets such a name, and expects an AttributeError.
    for _name in ("__setattr__", "__delattr__"):
        setattr(_cls, _name, _refuse)
