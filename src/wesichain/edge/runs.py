"""Runs: the interface of plain and durable runs that routes and protocols use, and where to find a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from hashlib import sha256
from itertools import takewhile
from typing import Any, Literal, Protocol, TypeAlias
from uuid import uuid4

from starlette.exceptions import HTTPException

from wesichain.agent import Completed, Conversations, Failed, Interrupted, Outcome, RunStream
from wesichain.core import Event, JsonValue, Message, ModelResponded, Part, RunStarted
from wesichain.core.internal import (
    Decision,
    HandedOff,
    PendingCall,
    Prices,
    Value,
    cost_of,
    field,
    opened,
    parse_json,
)
from wesichain.errors import (
    ApprovalExpiredError,
    BudgetExceededError,
    CodecError,
    ConfigError,
    GuardrailError,
    LoopDetectedError,
    ModelRefusedError,
    ModelTransportError,
    ReplayMismatchError,
)
from wesichain.tools import Tool
from wesichain.trace import redact

from .outgoing import failure_of

Begin: TypeAlias = Callable[[dict[str, Any]], RunStream[Any]]  # takes the options of the run
State: TypeAlias = Literal["running", "waiting", "completed", "failed", "cancelled"]


class DepsMaker(Value):
    """Makes the deps of a run where it runs; they are closed when it has ended or waits."""

    make: Callable[..., Any]
    request: object = None

    def open(self) -> AbstractAsyncContextManager[Any]:
        return opened(self.make, self.request)


class Order(Value):
    """A client's request for a run. `options` are keywords of `Agent.run`: deps (or a `DepsMaker`), settings.

    `tools` are external tools, which the client runs. `history` are earlier messages that the client sends:
    they are used where the conversation is not stored here. `said` are the texts of the user's earlier
    messages, if the client sends all of its messages: the stored conversation is cut where they part, so that
    the model reads what the client shows (None keeps it). `context` is sent to the model before the task,
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
    said: tuple[str, ...] | None = None
    context: tuple[Message, ...] = ()
    begin: Begin | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


class RunEnd(Value):
    """The outcome of a run that has ended or waits for decisions; `cost` is None if no price is known.

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
    def output(self) -> JsonValue:
        """The answer of a completed run as JSON, of any type; None for any other."""
        if not isinstance(self.outcome, Completed):
            return None
        output: Any = self.outcome.output
        return output if isinstance(output, str) else provided(self.outcome.text)

    @property
    def failure(self) -> str:
        """What clients read of the error of a failed run; empty for any other."""
        if not isinstance(self.outcome, Failed):
            return ""
        return error_text(failure_of(self.outcome.events) or self.outcome.error)

    @property
    def last_seq(self) -> int:
        """The number of the last event."""
        events = self.outcome.events
        return events[-1].seq if events else 0

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        outcome = self.outcome
        return outcome.pending if isinstance(outcome, Interrupted) and not self.is_dropped else ()


def provided(text: str) -> JsonValue:
    """The value of an answer or a result that is a text: parsed if it is JSON, otherwise the text."""
    try:
        value: JsonValue = parse_json(text)
    except CodecError:
        return text
    return value


class Run(Protocol):
    """One run of an owner. `conversation` is the id of its conversation, or None."""

    run_id: str
    conversation: str | None

    def follow(self, after: int) -> AsyncIterator[Sequence[Event]]:
        """Iterate over the events numbered above `after`, in batches, until the run ends or waits.

        Raises `EventsExpiredError` if the events were dropped.
        """
        ...

    def number(self, event: Event) -> int | None:
        """Return the number to continue from after this event; None for an event that is not stored."""
        ...

    async def ending(self) -> RunEnd:
        """Wait until the run ends or waits for decisions; raises HTTPException if it could not begin."""
        ...

    async def now(self) -> RunEnd | None:
        """Return the outcome of a run that has ended or waits; None while it is running."""
        ...

    async def decide(
        self, decisions: Mapping[str, Decision], options: Mapping[str, Any], *, is_streamed: bool
    ) -> None:
        """Resume the run with a decision for each waiting call; raises HTTPException if one is refused."""
        ...

    async def cancel(self) -> None:
        """Cancel the run; raises HTTPException (409) if it has ended."""
        ...

    def join(self) -> None:
        """Count a client that has connected to the run."""
        ...

    def leave(self) -> None:
        """Count a client that has disconnected; the last one cancels a plain run without `stay`."""
        ...


class Inbox(Protocol):
    """A place for plain runs that wait for a decision, where other programs can decide and resume them."""

    def put(self, outcome: Interrupted[Any]) -> None:
        """Add a run that waits."""
        ...

    def claim(self, run_id: str, decisions: Mapping[str, Decision]) -> object:
        """Remove the run, to resume it with these decisions.

        Raises `ConfigError` if another program has removed it, or has decided on a call differently.
        """
        ...

    def take(self, run_id: str) -> object:
        """Remove the run, to cancel it; raises `ConfigError` if another program has removed it."""
        ...


class RunRegistry(Protocol):
    """The runs of one agent: starts them, and finds them by their ids."""

    async def start(self, order: Order) -> Run: ...
    async def find(self, owner: str, run_id: str) -> Run | None: ...
    async def waiting(self, owner: str, conversation: str) -> Run | None:
        """Return the newest waiting run of a conversation, of the runs with an id from `new_run_id`."""
        ...

    async def active(self, owner: str, conversation: str) -> Run | None:
        """Return the newest run of a conversation that is running, of the same runs."""
        ...


def thread_of(owner: str, conversation: str) -> str:
    """Return the prefix of the ids of a conversation's runs, with which any process finds them."""
    return sha256(f"{conversation}\x1f{owner}".encode()).hexdigest()[:24]


def new_run_id(owner: str, conversation: str | None) -> str:
    """Return an id for a run without one."""
    return uuid4().hex if conversation is None else f"{thread_of(owner, conversation)}-{uuid4().hex}"


class RunDirectory:
    """The runs of all agents of an app."""

    def __init__(self, registries: Mapping[str, RunRegistry]) -> None:
        self._registries = registries

    def keeper(self, agent: str | None) -> RunRegistry:
        """Return the registry of an agent's runs, by default of the first agent; an unknown name is a 404."""
        name = next(iter(self._registries)) if agent is None else agent
        if name not in self._registries:
            raise HTTPException(404, "there is no such agent")
        return self._registries[name]

    async def find(self, owner: str, run_id: str) -> Run | None:
        """Return a run by its id; None if there is none, or if it belongs to another owner."""
        for registry in self._registries.values():
            run = await registry.find(owner, run_id)
            if run is not None:
                return run
        return None

    async def get(self, owner: str, run_id: str) -> Run:
        """Return a run by its id; a 404 if there is none, or if it belongs to another owner."""
        run = await self.find(owner, run_id)
        if run is None:
            raise HTTPException(404, "there is no such run")
        return run


class ConversationDirectory:
    """The conversations of an app. Each owner has conversations of their own, whatever ids they choose.

    A conversation is stored under its id, followed by U+001F and the owner's name, where there is one.
    """

    def __init__(self, store: Conversations, max_tokens: int) -> None:
        self._store = store
        self._max_tokens = max_tokens

    def open(self, owner: str, id: str | None) -> Any:
        """Return the conversation for a run; None without an id."""
        return None if id is None else self._store.open(_key(owner, id), self._max_tokens)

    async def cut(self, owner: str, id: str | None, said: Sequence[str] | None) -> None:
        """Forget the turns of a conversation from the first one that is not among the messages `said`.

        A chat in which a message was edited, answered anew or deleted no longer has it. Messages without a
        turn are those whose runs did not complete.
        """
        if id is None or said is None:
            return
        key = _key(owner, id)
        turns = await self._store.read(key)
        rest = iter([text.strip() for text in said])
        kept = [*takewhile(lambda turn: turn[0].text.strip() in rest, turns)]
        if len(kept) < len(turns):
            await self._store.delete(key)
            for turn in kept:
                await self._store.append(key, turn)


def _key(owner: str, conversation: str) -> str:
    return f"{conversation}\x1f{owner}" if owner else conversation


def conversation_of(key: str) -> str:
    """The id of a conversation, as its owner knows it, from the key that it is stored under."""
    return key.partition("\x1f")[0]


async def history_of(order: Order, memory: Any) -> tuple[Message, ...]:
    """Return the messages to send before the task, in addition to those of the conversation."""
    is_known = bool(order.history) and memory is not None and bool(await memory.read())
    return order.context if is_known else (*order.history, *order.context)


def missing_decisions(pending: Sequence[PendingCall | Any], decisions: Mapping[str, Decision]) -> str | None:
    """Return the error in the tokens of decisions; None if there is a decision for each waiting call."""
    tokens = {item.token for item in pending}
    if not tokens:
        return "the run does not wait for a decision"
    if not decisions.keys() <= tokens:
        return "no call of this run waits for one of these tokens"
    missing = [item.call.name for item in pending if item.token not in decisions]
    return f"decide on all calls at once; missing: {', '.join(missing)}" if missing else None


class CostMeter:
    """Adds up the cost of a run from its events, by the prices of the app or else as the run counted it."""

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


def error_text(error: BaseException | str) -> str:
    """Return what clients read of an error: its words without secrets, and not too many."""
    return redact(str(error))[:_LONGEST_ERROR]


def status_of(error: BaseException) -> int:
    """Return the HTTP status of a failed run: 422 for a limit, 502 for the provider, 500 otherwise."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
