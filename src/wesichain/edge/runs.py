"""Runs: the interface of plain and durable runs that routes and protocols use, and where to find a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, Protocol, TypeAlias
from uuid import uuid4

from starlette.exceptions import HTTPException

from wesichain.agent import Completed, Conversations, Failed, Interrupted, Outcome, RunStream
from wesichain.core import Event, Message, ModelResponded, Part, RunStarted
from wesichain.core.internal import Decision, HandedOff, PendingCall, Prices, Value, cost_of, field
from wesichain.errors import (
    ApprovalExpiredError,
    BudgetExceededError,
    ConfigError,
    GuardrailError,
    LoopDetectedError,
    ModelRefusedError,
    ModelTransportError,
    ReplayMismatchError,
)
from wesichain.tools import Tool
from wesichain.trace import redact

Begin: TypeAlias = Callable[[dict[str, Any]], RunStream[Any]]  # given the options of the run
State: TypeAlias = Literal["running", "waiting", "completed", "failed", "cancelled"]


class Order(Value):
    """A client's request for a run. `options` are keywords of `Agent.run`: deps, settings.

    `tools` are external tools, which the client runs. `history` are earlier messages that the client sends:
    they are used where the conversation is not stored here. `context` is sent to the model before the task,
    and not stored. `stay`: the run continues when its client leaves. `is_streamed`: the client is about to
    read the events. `begin` starts a plain run in place of `Agent.stream(task, history)`.
    """

    run_id: str
    owner: str
    task: str | tuple[Part, ...]
    conversation: str | None = None
    stay: bool = False
    is_streamed: bool = False
    tools: tuple[Tool, ...] = ()
    history: tuple[Message, ...] = ()
    context: tuple[Message, ...] = ()
    begin: Begin | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RunEnd(Value):
    """The outcome of a run that has ended or waits for decisions; `cost` is None where no price is known.

    `is_dropped`: the run was cancelled while it waited for decisions.
    """

    outcome: Outcome[Any]
    cost: float | None = None
    is_dropped: bool = False

    @property
    def state(self) -> State:
        match self.outcome:
            case Completed():
                return "completed"
            case Failed():
                return "failed"
            case Interrupted(pending=pending):
                return "waiting" if pending and not self.is_dropped else "cancelled"

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        events = self.outcome.events
        return events[-1].seq if events else 0

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        outcome = self.outcome
        return outcome.pending if isinstance(outcome, Interrupted) and not self.is_dropped else ()


class Run(Protocol):
    """One run of an owner. `conversation` is None where it is part of none."""

    run_id: str
    conversation: str | None

    def follow(self, after: int) -> AsyncIterator[Sequence[Event]]:
        """Iterate over the events numbered above `after`, in batches, until the run ends or waits.

        Raises `EventsExpiredError` where the events are not kept any more.
        """
        ...

    def number(self, event: Event) -> int | None:
        """Return the number to continue from after this event; None for an event that is not stored."""
        ...

    async def ending(self) -> RunEnd:
        """Wait until the run ends, or waits for decisions; raises HTTPException where it could not begin."""
        ...

    async def now(self) -> RunEnd | None:
        """Return how the run ended, or what it waits for; None while it is running."""
        ...

    async def decide(
        self, decisions: Mapping[str, Decision], options: Mapping[str, Any], *, is_streamed: bool
    ) -> None:
        """Resume the run with a decision for each call that waits; raises HTTPException otherwise."""
        ...

    async def cancel(self) -> None:
        """Cancel the run; raises HTTPException (409) where it has ended."""
        ...

    def join(self) -> None:
        """Count a client that has connected to the run."""
        ...

    def leave(self) -> None:
        """Count a client that has left: a plain run without clients is cancelled, unless it has to stay."""
        ...


class Inbox(Protocol):
    """A place for plain runs that wait for a decision, where other programs can decide and resume them."""

    def put(self, outcome: Interrupted[Any]) -> None:
        """Add a run that waits."""
        ...

    def claim(self, run_id: str, decisions: Mapping[str, Decision]) -> object:
        """Remove the run, to resume it with these decisions.

        Raises `ConfigError` where another program has removed it, or has decided on a call differently.
        """
        ...

    def take(self, run_id: str) -> object:
        """Remove the run, to cancel it; raises `ConfigError` where another program has removed it."""
        ...


class RunRegistry(Protocol):
    """The runs of one agent: starts them, and finds them by their ids."""

    async def start(self, order: Order) -> Run: ...
    async def find(self, owner: str, run_id: str) -> Run | None: ...
    async def waiting(self, owner: str, conversation: str) -> Run | None:
        """Return the newest waiting run of a conversation, of those whose id `new_run_id` has made."""
        ...


def thread_of(owner: str, conversation: str) -> str:
    """Return the prefix of the ids of a conversation's runs, by which any process finds them."""
    return sha256(f"{conversation}\x1f{owner}".encode()).hexdigest()[:24]


def new_run_id(owner: str, conversation: str | None) -> str:
    """Return an id for a run whose client has not given one."""
    return uuid4().hex if conversation is None else f"{thread_of(owner, conversation)}-{uuid4().hex}"


class RunDirectory:
    """The runs of all agents of an app."""

    def __init__(self, keepers: Mapping[str, RunRegistry]) -> None:
        self._keepers = keepers

    def keeper(self, agent: str | None) -> RunRegistry:
        """Return the registry of an agent's runs, the first without a name; an unknown name is a 404."""
        name = next(iter(self._keepers)) if agent is None else agent
        if name not in self._keepers:
            raise HTTPException(404, "there is no such agent")
        return self._keepers[name]

    async def find(self, owner: str, run_id: str) -> Run | None:
        """Return a run by its id; None where there is none, or where it belongs to another owner."""
        for keeper in self._keepers.values():
            run = await keeper.find(owner, run_id)
            if run is not None:
                return run
        return None

    async def get(self, owner: str, run_id: str) -> Run:
        """Return a run by its id; a 404 where there is none, or where it belongs to another owner."""
        run = await self.find(owner, run_id)
        if run is None:
            raise HTTPException(404, "there is no such run")
        return run


class Talks:
    """The conversations of an app. Each belongs to the owner who began it; for others its id is a 404.

    A conversation is stored under its id, followed by U+001F and the owner's name, where there is one: the
    conversations of two owners have different keys, whatever ids they choose.
    """

    def __init__(self, store: Conversations, max_tokens: int) -> None:
        self._store = store
        self._max_tokens = max_tokens
        self._owners: dict[str, str] | None = None
        self._loading = asyncio.Lock()

    async def open(self, owner: str, id: str | None) -> Any:
        """Return the conversation for a run; None without an id."""
        if id is None:
            return None
        async with self._loading:
            if self._owners is None:
                self._owners = {}
                for key in await self._store.list():
                    self._owners.setdefault(conversation_of(key), key.partition("\x1f")[2])
        if self._owners.setdefault(id, owner) != owner:
            raise HTTPException(404, "there is no such conversation")
        return self._store.open(f"{id}\x1f{owner}" if owner else id, self._max_tokens)


def conversation_of(key: str) -> str:
    """The id of a conversation, as its owner knows it, from the key that it is stored under."""
    return key.partition("\x1f")[0]


async def history_of(order: Order, talk: Any) -> tuple[Message, ...]:
    """Return the messages to send before the task, beside those of the conversation."""
    is_known = bool(order.history) and talk is not None and bool(await talk.read())
    return order.context if is_known else (*order.history, *order.context)


def missing_decisions(pending: Sequence[PendingCall | Any], decisions: Mapping[str, Decision]) -> str | None:
    """Return what is wrong with the tokens of decisions; None where there is one for each waiting call."""
    tokens = {item.token for item in pending}
    if not tokens:
        return "the run does not wait for a decision"
    if not decisions.keys() <= tokens:
        return "no call of this run waits for one of these tokens"
    missing = [item.call.name for item in pending if item.token not in decisions]
    return f"decide on all calls at once; missing: {', '.join(missing)}" if missing else None


class CostMeter:
    """Adds up the cost of a run from its events: as the run counted it, else by the prices of the app."""

    def __init__(self, prices: Prices | None) -> None:
        self._prices: Prices = prices or {}
        self._models: dict[str, str] = {}
        self._cost: float | None = None

    def add(self, event: Event) -> None:
        match event:
            case RunStarted(scope=scope, model=model) | HandedOff(scope=scope, model=model):
                self._models[scope] = model
            case ModelResponded(scope=scope, response=response, cost=cost):
                price = self._prices.get(self._models.get(scope, ""))
                if price is not None:
                    self._cost = (self._cost or 0.0) + cost_of(response.usage, price)
                elif cost:
                    self._cost = (self._cost or 0.0) + cost
            case _:
                pass

    def cost(self, outcome: Outcome[Any]) -> float | None:
        known = getattr(outcome, "cost", None) if self._cost is None else self._cost
        return known if isinstance(known, float | int) else None


_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (GuardrailError, 422),
    (ModelRefusedError, 422),
    (BudgetExceededError, 422),
    (LoopDetectedError, 422),
    (ReplayMismatchError, 422),
    (ApprovalExpiredError, 409),
    (ConfigError, 400),
    (ModelTransportError, 502),
)


_LONGEST_ERROR = 500  # characters


def words_of(error: BaseException) -> str:
    """Return what clients read of an error: its words without secrets, and not too many."""
    return redact(str(error))[:_LONGEST_ERROR]


def status_of(error: BaseException) -> int:
    """Return the HTTP status of a failed run: 422 for a limit, 502 for the provider, 500 otherwise."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
