"""The context of a tool call: what a tool may know of the run that it is called in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar, override

from wesichain.core import Event, Message
from wesichain.core.internal import CancellationToken, Spent

__all__ = ["CancellationToken", "RunContext", "ToolContext"]

DepsT_co = TypeVar("DepsT_co", covariant=True, default=Any)
DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=Any)


# Of the methods that `dataclass` compiles, those below take a third of what it takes to make both classes.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunContext(Generic[DepsT_co]):
    """A run, as instructions, tools, checks and middleware see it.

    `deps` is what the caller of the run gave it, and is written nowhere. `scope` names the agents above
    this run, outermost first. `link` and `source` belong to the runtime that made the context.
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
            """Fields that few look at: a runtime leaves these unset, and its `source` knows them."""
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
    def spent(self) -> Spent | None:
        """The spending of the run so far; None outside a run."""
        return None if self.link is None else self.link.spent


def _compared(ctx: Any) -> tuple[Any, ...]:
    return tuple(getattr(ctx, one.name) for one in fields(ctx) if one.compare)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ToolContext(RunContext[DepsT_co], Generic[DepsT_co]):
    """A run, as one of its calls sees it. A parameter annotated with this class is filled in.

    `idempotency_key` is the same whenever the same call is run again, and of no other call: pass it on to
    services that take one. `attempt` counts how often this call was begun. `budget` and `emit` belong to
    the runtime that made the context.
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


def _refuse(_: object, name: str, *__: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


for _cls in (RunContext, ToolContext):
    # Those of the standard library raise a TypeError in a class with slots, for every name that is no field:
    # `ToolContext[Deps](...)` would fail, since `typing` sets one and expects an AttributeError.
    for _name in ("__setattr__", "__delattr__"):
        setattr(_cls, _name, _refuse)
