"""The machine: the phases of a run, each with exactly its legal transitions.

    Idle --think--> Thinking --act--> Acting --observe--> Observing --think--> Thinking
                    Thinking --complete--> Completed
    any active phase --fail--> Failed        any active phase --interrupt--> Interrupted

A phase is an immutable value; a transition is a method that returns the next one, and its return
annotation is the transition table. Nothing here waits, reads a clock or calls anybody. The phases
of a run share append-only logs (`Trail`): going on costs what is new, not what went before.
Only `Idle` can be made from outside, with `AgentRuntime.start(task)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

from typing_extensions import override

from wesichain import errors
from wesichain.core import (
    ErrorStep,
    Event,
    FinalAnswer,
    LlmResponse,
    LogView,
    Message,
    PendingCall,
    ReActState,
    ReActStep,
    Role,
    Usage,
    dataclass,
    from_plain,
    is_object,
    maker,
    turn_of,
    write_state,
)
from wesichain.errors import AgentError, CodecError
from wesichain.policy import Spent

from .rules import Tally
from .trail import Observed, Trail

OutT = TypeVar("OutT")
LimitName: TypeAlias = Literal["steps", "tokens", "cost", "seconds", "tool_calls"]


_SCALARS = (str, int, float, bool)
STATE_KEYS = frozenset({"input", "agent_scratchpad", "final_output", "iteration_count"})


class _Seal:
    """Held by this module alone: what has no seal cannot make a phase, nor be written as one."""

    __slots__ = ()

    def to_plain(self) -> Mapping[str, Any]:
        raise CodecError("a phase can be written once its run has ended; before, write its steps or messages")


_SEAL = _Seal()


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is the same in every phase of a run."""

    run_id: str
    task: str
    state: object  # as it was given; of a run that was given a text alone, that text
    first_new: int = 0  # messages before this index were there before the run
    earlier: int = 0  # model calls of finished runs that the state has counted already
    last_seq: int = 0  # the number of the last event before `events`, where the run was resumed
    before: Spent = Spent()  # what the run had spent already, where it goes on from a state or an outcome
    events: list[Event] = field(default_factory=list[Event], repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """What an interrupted run has in hand: a reply to act on, the calls of it that are done, and notes."""

    reply: LlmResponse
    done: tuple[Observed, ...] = ()


@dataclass(frozen=True, slots=True)
class _Phase:
    """What every phase has."""

    seal: _Seal = field(repr=False, compare=False)
    info: RunInfo
    trail: Trail

    def __post_init__(self) -> None:
        if self.seal is not _SEAL:
            raise TypeError(f"{type(self).__name__} is made by a transition; begin with runtime.start(task)")

    @property
    def run_id(self) -> str:
        return self.info.run_id

    @property
    def user_input(self) -> str:
        return self.info.task

    @property
    def messages(self) -> LogView[Message]:
        return self.trail.messages

    @property
    def steps(self) -> LogView[ReActStep]:
        return self.trail.steps


@dataclass(frozen=True, slots=True)
class _Active(_Phase, Generic[OutT]):
    """A phase of a run that goes on: it can always fail or be interrupted."""

    def fail(self, error: AgentError, *, spent: Spent) -> Failed[OutT]:
        return Failed(_SEAL, self.info, self.trail.grown((), (ErrorStep(str(error)),)), spent, error)

    def interrupt(
        self,
        reason: str,
        *,
        spent: Spent,
        pending: tuple[PendingCall, ...] = (),
        unfinished: Unfinished | None = None,
        tally: Tally | None = None,
    ) -> Interrupted[OutT]:
        tally = tally or Tally()
        return Interrupted(_SEAL, self.info, self.trail, spent, reason, pending, unfinished, tally)


@dataclass(frozen=True, slots=True)
class Idle(_Active[OutT]):
    """A run that has not begun."""

    def think(self) -> Thinking[OutT]:
        return _thinking(_SEAL, self.info, self.trail)


@dataclass(frozen=True, slots=True)
class Thinking(_Active[OutT]):
    """The model is to be asked."""

    def act(self, reply: LlmResponse) -> Acting[OutT]:
        """Take the reply's calls. A reply without any goes on too: there is something to tell the model."""
        text, calls = reply.content, reply.tool_calls
        said = (turn_of(reply),) if text or calls else ()
        return _acting(_SEAL, self.info, self.trail.grown(said, (reply,)), reply)

    def complete(
        self, output: OutT, *, text: str, spent: Spent, stopped_by: LimitName | None = None
    ) -> Completed[OutT]:
        """End with an answer; `stopped_by` names the limit that made it the last word."""
        trail = self.trail.grown((_message(Role.ASSISTANT, text),), (_final_answer(text),))
        return _completed(_SEAL, self.info, trail, spent, output, text, stopped_by)


@dataclass(frozen=True, slots=True)
class Acting(_Active[OutT]):
    """The reply's calls are to be run."""

    reply: LlmResponse

    def observe(self, observed: Sequence[Observed]) -> Observing[OutT]:
        """Take what came of the calls, one for each call and in their order, then any notes."""
        messages: list[Message] = []
        for item in observed:
            role = Role.USER if item.call_id is None else Role.TOOL
            messages.append(_message(role, item.text, item.call_id))
        return _observing(_SEAL, self.info, self.trail.grown(messages, observed))


@dataclass(frozen=True, slots=True)
class Observing(_Active[OutT]):
    """The results are in; the model has not seen them yet."""

    def think(self) -> Thinking[OutT]:
        return _thinking(_SEAL, self.info, self.trail)


@dataclass(frozen=True, slots=True)
class _Ended(_Phase, Generic[OutT]):
    """A phase that ends the run."""

    kind: ClassVar[str] = "ended"
    spent: Spent

    @property
    def usage(self) -> Usage:
        return self.spent.usage

    @property
    def iteration_count(self) -> int:
        return self.info.earlier + self.spent.steps

    @property
    def state(self) -> Any:
        """The user's state, of the type that was given, with the run in it."""
        given = self.info.state
        return write_state(
            ReActState(given) if isinstance(given, str) else given,
            ReActState(
                user_input=self.info.task,
                scratchpad=list(self.trail.steps),
                final_output=self._final_output(),
                iteration_count=self.iteration_count,
            ),
        )

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(self.info.events)

    @property
    def new_messages(self) -> tuple[Message, ...]:
        return self.trail.messages_since(self.info.first_new)

    @property
    def last_seq(self) -> int:
        return self.info.events[-1].seq if self.info.events else self.info.last_seq

    def _final_output(self) -> str | None:
        return None

    @abstractmethod
    def to_plain(self) -> Mapping[str, Any]:
        """The outcome as data, without its events; `from_plain` makes it one again."""

    def _plain(self) -> dict[str, Any]:
        info, given = self.info, self.info.state
        rest = None
        if is_object(given):
            rest = {key: value for key, value in given.items() if key not in STATE_KEYS}
        return {
            "kind": self.kind,
            "run_id": info.run_id,
            "task": info.task,
            "state": rest,
            "first_new": info.first_new,
            "earlier": info.earlier,
            "last_seq": self.last_seq,
            "messages": self.trail.messages,
            "steps": self.trail.steps,
            "spent": self.spent,
        }


@dataclass(frozen=True, slots=True)
class Completed(_Ended[OutT]):
    """The run ended with an answer."""

    kind: ClassVar[str] = "completed"
    output: OutT
    text: str
    stopped_by: LimitName | None = None

    @override
    def _final_output(self) -> str | None:
        return self.text

    @override
    def to_plain(self) -> Mapping[str, Any]:
        return {**self._plain(), "text": self.text, "stopped_by": self.stopped_by}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The outcome again; its output is the text, which `AgentRuntime.read_output` makes a typed one."""
        saved = _saved(plain, cls.kind)
        text: Any = saved.text
        return cls(_SEAL, *saved.restored(), text, saved.text, saved.stopped_by)


@dataclass(frozen=True, slots=True)
class Failed(_Ended[OutT]):
    """The run ended with an error; the scratchpad ends in an ErrorStep."""

    kind: ClassVar[str] = "failed"
    error: AgentError

    @override
    def to_plain(self) -> Mapping[str, Any]:
        error = self.error
        fields = {name: value for name, value in vars(error).items() if isinstance(value, _SCALARS)}
        told = {"error": type(error).__name__, "message": str(error), "fields": fields}
        return {**self._plain(), **told}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The outcome again. Its error is of the class that it was; what caused it is not kept."""
        saved = _saved(plain, cls.kind)
        known = getattr(errors, saved.error, AgentError)
        is_one = isinstance(known, type) and issubclass(known, AgentError)
        error = (known if is_one else AgentError)(saved.message)
        for name, value in saved.fields.items():
            if name in vars(error):
                setattr(error, name, value)
        return cls(_SEAL, *saved.restored(), error)


@dataclass(frozen=True, slots=True)
class Interrupted(_Ended[OutT]):
    """The run was stopped, or waits for a person; `AgentRuntime.resume` goes on with it.

    It can be written with `to_json` and read in another process. Of a state of the user's own only
    a dict is kept; any other comes back as a `ReActState`.
    """

    kind: ClassVar[str] = "interrupted"
    reason: str
    pending: tuple[PendingCall, ...] = ()
    unfinished: Unfinished | None = None
    tally: Tally = field(default_factory=Tally)

    @override
    def to_plain(self) -> Mapping[str, Any]:
        held = {"pending": self.pending, "unfinished": self.unfinished, "tally": self.tally}
        return {**self._plain(), "reason": self.reason, **held}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        saved = _saved(plain, cls.kind)
        info, trail, spent = saved.restored()
        tally = saved.tally or Tally()
        return cls(_SEAL, info, trail, spent, saved.reason, saved.pending, saved.unfinished, tally)


@dataclass(frozen=True, slots=True)
class _Saved:
    """The fields of an outcome as they stand in JSON."""

    kind: str
    run_id: str
    task: str
    state: dict[str, Any] | None
    first_new: int
    earlier: int
    last_seq: int
    messages: tuple[Message, ...]
    steps: tuple[ReActStep, ...]
    spent: Spent
    text: str = ""
    stopped_by: LimitName | None = None
    error: str = ""
    message: str = ""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    reason: str = ""
    pending: tuple[PendingCall, ...] = ()
    unfinished: Unfinished | None = None
    tally: Tally | None = None

    def restored(self) -> tuple[RunInfo, Trail, Spent]:
        rest = self.state
        state: object = ReActState(self.task) if rest is None else {**rest, "input": self.task}
        info = RunInfo(self.run_id, self.task, state, self.first_new, self.earlier, self.last_seq)
        return info, Trail.of([*self.messages], self.steps), self.spent


def _saved(plain: Mapping[str, Any], kind: str) -> _Saved:
    saved = from_plain(_Saved, plain)
    if saved.kind != kind:
        raise CodecError(f"kind: expected {kind!r}, got {saved.kind[:60]!r}")
    return saved


_message, _final_answer = maker(Message), maker(FinalAnswer)
_idle, _thinking = maker(Idle[Any]), maker(Thinking[Any])
_acting, _observing, _completed = maker(Acting[Any]), maker(Observing[Any]), maker(Completed[Any])

Active: TypeAlias = Idle[OutT] | Thinking[OutT] | Acting[OutT] | Observing[OutT]
Outcome: TypeAlias = Completed[OutT] | Failed[OutT] | Interrupted[OutT]
Phase: TypeAlias = (
    Idle[OutT]
    | Thinking[OutT]
    | Acting[OutT]
    | Observing[OutT]
    | Completed[OutT]
    | Failed[OutT]
    | Interrupted[OutT]
)


def begin(info: RunInfo, trail: Trail) -> Idle[Any]:
    """The first phase of a run."""
    return _idle(_SEAL, info, trail)


def go_on(outcome: Interrupted[OutT]) -> Thinking[OutT] | Acting[OutT]:
    """The phase that an interrupted run goes on from: the calls in hand, or else the next question."""
    info = replace(outcome.info, events=[], last_seq=outcome.last_seq, before=outcome.spent)
    if outcome.unfinished is not None:
        return Acting(_SEAL, info, outcome.trail, outcome.unfinished.reply)
    return Thinking(_SEAL, info, outcome.trail)
