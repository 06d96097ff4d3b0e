"""The state machine: the phases of a run, each with exactly its legal transitions.

    Idle --think--> Thinking --act--> Acting --observe--> Observing --think--> Thinking
                    Thinking --complete--> Completed
    any active phase --fail--> Failed        any active phase --interrupt--> Interrupted

A phase is an immutable value. A transition is a method that returns the next phase, and the return
annotations are the transition table. Nothing here waits, reads a clock or does I/O. The phases of a run
share append-only logs (`Trail`), so that the cost of a transition depends only on what it adds.
Users can create only an `Idle` phase, with `AgentRuntime.start(task)`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Never, Self, TypeAlias, TypeVar

from msgspec import StructMeta
from typing_extensions import override

from wesichain import errors
from wesichain.core import (
    Citation,
    ErrorStep,
    Event,
    LlmResponse,
    Message,
    ModelSettings,
    Part,
    ReActStep,
    Role,
    Usage,
)
from wesichain.core.internal import (
    Decision,
    LogView,
    PendingCall,
    Spent,
    Value,
    events_in,
    field,
    force_setattr,
    from_plain,
    is_object,
    replace,
    turn_of,
)
from wesichain.errors import AgentError, CodecError
from wesichain.policy import Budget
from wesichain.policy.internal import cost_of_spent

from .rules.tally import Tally
from .trail import Observed, Trail

OutT = TypeVar("OutT")
LimitName: TypeAlias = Literal["steps", "tokens", "cost", "seconds", "tool_calls"]

_SCALARS = (str, int, float, bool)
STATE_KEYS = frozenset({"input", "agent_scratchpad", "final_output", "iteration_count", "stopped_by"})


class RunInfo(Value):
    """The facts that are the same in every phase of a run."""

    __aside__: ClassVar[tuple[str, ...]] = ("events",)

    run_id: str
    task: str
    state: object  # as passed by the caller; for a task in text, the text
    first_new: int = 0  # the index of the first message of this run, behind its history
    earlier: int = 0  # model calls of finished runs, counted in the caller's state
    last_seq: int = 0  # the number of the last event before `events`, in a resumed run
    step: int = 0  # the last step before this part of the run
    told: int = 0  # the number of messages in the events before this part; a stored name
    before: Spent | None = None  # spent before this part, in a run that continues a state or an outcome
    parts: tuple[Part, ...] = ()  # the task, if it is more than text
    agent: str = "agent"  # the name of the agent that acts now
    opened_by: str = ""  # the name of the agent that began the run, if it was handed off since
    model: str = ""  # of this run, if it is not the agent's
    settings: ModelSettings | None = None  # of this run; they override those of its agent
    budget: Budget | None = None  # of this run, if it is not the agent's
    events: list[Any] = field(default_factory=list[Any])  # see `events_in`


class Child(Value, omit_defaults=True):
    """A run inside a call that has not ended. When the call is made again, the run is reused or resumed.

    `number` counts the runs of an attempt in the order in which they started, `branch` the tasks of the tool
    that start runs. Number 0 stands for a question that the call itself asks. If a failed run met a limit of
    a run above it, `limit_level` says which one: 1 is the run that made the call, 2 the one above that.
    """

    call_id: str
    agent: str
    attempt: int
    outcome: Completed[Any] | Failed[Any] | Interrupted[Any]
    number: int = 1
    branch: int = 1
    limit_level: int = 0


class Unfinished(Value, omit_defaults=True):
    """The work in progress of an interrupted run: a reply, and the results of its calls so far.

    A reply that is not `judged` arrived as the run was stopped, and is processed when the run is resumed.
    `attempts` counts how often each call was begun; `decisions` are the human decisions on them.
    """

    __always__: ClassVar[tuple[str, ...]] = ("done", "attempts", "decisions")

    reply: LlmResponse
    done: tuple[Observed, ...] = ()
    judged: bool = True
    children: tuple[Child, ...] = ()
    attempts: Mapping[str, int] = field(default_factory=dict[str, int])
    decisions: Mapping[str, Decision] = field(default_factory=dict[str, Decision])


class _PhaseType(StructMeta):
    """The metaclass of the phases: calling the class of a phase raises a TypeError."""

    if not TYPE_CHECKING:  # type checkers refuse the call because of a field of the type Never

        def __call__(cls, *_: object, **__: object) -> Never:  # noqa: N805  # a metaclass has `cls`
            raise TypeError(f"{cls.__name__} is made by a transition; begin with runtime.start(task)")


def _maker_of(phase: Any) -> Any:
    """The function that makes a phase, for transitions and for outcomes that are read from data."""
    return partial(StructMeta.__call__, phase)


class AnyPhase(Value, metaclass=_PhaseType):
    """The base of every phase. Only a transition can make a phase."""

    if TYPE_CHECKING:  # a field without a value, so that type checkers refuse the call of the class
        only_a_transition_makes_one: Never
    info: RunInfo
    trail: Trail

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), tuple(getattr(self, name) for name in self.__struct_fields__))

    @property
    def run_id(self) -> str:
        return self.info.run_id

    @property
    def user_input(self) -> str:
        return self.info.task

    @property
    def messages(self) -> LogView[Message]:
        """All messages of the run, with the instructions. `RunResult.messages` is without them."""
        return self.trail.messages

    @property
    def steps(self) -> LogView[ReActStep]:
        return self.trail.steps


class _Ended(AnyPhase, Generic[OutT]):
    """A phase that ends the run."""

    kind: ClassVar[str] = "ended"
    spent: Spent
    step: int  # the number of the last step

    @property
    def usage(self) -> Usage:
        return self.spent.usage

    @property
    def cost(self) -> float | None:
        """The cost of the run in dollars, with the runs below it; None if the price of a model is unknown."""
        return cost_of_spent(self.spent)

    @property
    def iteration_count(self) -> int:
        """The model calls of this run, without runs below it, and those counted in the caller's state."""
        return self.info.earlier + self.step

    @property
    def state(self) -> Any:
        """The caller's state, updated with the run."""
        from wesichain.core import ReActState
        from wesichain.core.internal import write_state  # loaded with the first state

        given = self.info.state
        return write_state(
            ReActState(given) if isinstance(given, str) else given,
            ReActState(
                user_input=self.info.task,
                scratchpad=list(self.trail.steps),
                final_output=getattr(self, "text", None),  # only a completed run has one
                iteration_count=self.iteration_count,
                stopped_by=getattr(self, "stopped_by", None),
            ),
        )

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(events_in(self.info.events, self.info.run_id, self.info.last_seq))

    @property
    def new_messages(self) -> tuple[Message, ...]:
        return self.trail.messages_since(self.info.first_new)

    @property
    def last_seq(self) -> int:
        return self.events[-1].seq if self.info.events else self.info.last_seq

    @abstractmethod
    def to_plain(self) -> Mapping[str, Any]:
        """The outcome as data, without its events, for `from_plain()`."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The outcome from the data of `to_plain()`."""
        saved = from_plain(_Saved, plain)
        if saved.kind != cls.kind:
            raise CodecError(f"kind: expected {cls.kind!r}, got {saved.kind[:60]!r}")
        restored: Any = _MAKERS[cls.kind](*saved.restored(), *cls._own(saved))
        return restored  # type: ignore[no-any-return]  # of this class, which has no subclasses

    @staticmethod
    @abstractmethod
    def _own(saved: _Saved) -> tuple[Any, ...]:
        """The fields that only this kind of outcome has, from the saved data."""

    def _plain(self) -> dict[str, Any]:
        info, given = self.info, self.info.state
        rest = None
        if is_object(given):
            rest = {key: value for key, value in given.items() if key not in STATE_KEYS}
        own: dict[str, Any] = {"model": info.model} if info.model else {}
        if info.settings is not None:
            own["settings"] = info.settings
        if info.budget is not None:
            own["budget"] = info.budget
        return {
            **own,
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
            "step": self.step,
            "agent": info.agent,
            "opened_by": info.opened_by,
        }


class Completed(_Ended[OutT]):
    """The run ended with an answer."""

    kind: ClassVar[str] = "completed"
    output: OutT
    text: str
    stopped_by: LimitName | None = None

    @override
    def to_plain(self) -> Mapping[str, Any]:
        return {**self._plain(), "text": self.text, "stopped_by": self.stopped_by}

    @staticmethod
    @override
    def _own(saved: _Saved) -> tuple[Any, ...]:
        """The output is the text; `AgentRuntime.read_output` parses a typed one."""
        return saved.text, saved.text, saved.stopped_by


class Failed(_Ended[OutT]):
    """The run ended with an error; the scratchpad ends in an ErrorStep."""

    kind: ClassVar[str] = "failed"
    error: AgentError

    @override
    def to_plain(self) -> Mapping[str, Any]:
        error = self.error
        fields = {name: value for name, value in vars(error).items() if isinstance(value, _SCALARS)}
        failure = {"error": type(error).__name__, "message": str(error), "fields": fields}
        return {**self._plain(), **failure}

    @staticmethod
    @override
    def _own(saved: _Saved) -> tuple[Any, ...]:
        """The error, of its original class, without its cause, which is not stored."""
        known = getattr(errors, saved.error, AgentError)
        is_one = isinstance(known, type) and issubclass(known, AgentError)
        error = (known if is_one else AgentError)(saved.message)
        for name, value in saved.fields.items():
            if name in vars(error):
                setattr(error, name, value)
        return (error,)


class Interrupted(_Ended[OutT]):
    """The run was stopped, or waits for approval; `AgentRuntime.resume()` continues it.

    It can be written with `to_json` and read in another process. The caller's state is stored only if it is
    a dict; any other state is read back as a `ReActState`.
    """

    kind: ClassVar[str] = "interrupted"
    reason: str
    pending: tuple[PendingCall, ...] = ()
    unfinished: Unfinished | None = None
    tally: Tally = field(default_factory=Tally)
    told: int = 0

    @override
    def to_plain(self) -> Mapping[str, Any]:
        held = {
            "pending": self.pending,
            "unfinished": self.unfinished,
            "tally": self.tally,
            "told": self.told,
        }
        return {**self._plain(), "reason": self.reason, **held}

    @staticmethod
    @override
    def _own(saved: _Saved) -> tuple[Any, ...]:
        told = len(saved.messages) if saved.told is None else saved.told
        return saved.reason, saved.pending, saved.unfinished, saved.tally or Tally(), told


class _Saved(Value):
    """The fields of an outcome in JSON."""

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
    step: int | None = None  # not stored by version 0.1: the number of steps spent
    told: int | None = None  # not stored by version 0.1: the number of messages
    agent: str = "agent"
    opened_by: str = ""
    model: str = ""
    settings: ModelSettings | None = None
    budget: Budget | None = None

    def restored(self) -> tuple[RunInfo, Trail, Spent, int]:
        from wesichain.core import ReActState

        rest = self.state
        state: object = ReActState(self.task) if rest is None else {**rest, "input": self.task}
        begun = (self.first_new, self.earlier, self.last_seq)
        info = RunInfo(
            self.run_id,
            self.task,
            state,
            *begun,
            agent=self.agent,
            opened_by=self.opened_by,
            model=self.model,
            settings=self.settings,
            budget=self.budget,
        )
        step = self.spent.steps if self.step is None else self.step
        return info, Trail.of([*self.messages], self.steps), self.spent, step


def _rebuild(phase: Any, fields: tuple[Any, ...]) -> Any:
    """Restore a phase that was pickled or deep-copied."""
    return _maker_of(phase)(*fields)


# Called by transitions, and to read saved outcomes.
completed_phase: Callable[..., Completed[Any]] = _maker_of(Completed)
failed_phase: Callable[..., Failed[Any]] = _maker_of(Failed)
interrupted_phase: Callable[..., Interrupted[Any]] = _maker_of(Interrupted)
_MAKERS = {"completed": completed_phase, "failed": failed_phase, "interrupted": interrupted_phase}

Outcome: TypeAlias = Completed[OutT] | Failed[OutT] | Interrupted[OutT]


# --- the phases before the end ---------------------------------------------------------------------


class _Active(AnyPhase, Generic[OutT]):
    """A phase of a run that has not ended: it can fail or be interrupted."""

    def fail(self, error: AgentError, *, spent: Spent, step: int = 0) -> Failed[OutT]:
        return failed_phase(self.info, self.trail.grown((), (ErrorStep(str(error)),)), spent, step, error)

    def interrupt(
        self,
        reason: str,
        *,
        spent: Spent,
        step: int = 0,
        told: int = 0,
        pending: tuple[PendingCall, ...] = (),
        unfinished: Unfinished | None = None,
        tally: Tally | None = None,
    ) -> Interrupted[OutT]:
        """Stop here; `told` is the number of messages in the events."""
        held = (reason, pending, unfinished, tally or Tally(), told)
        return interrupted_phase(self.info, self.trail, spent, step, *held)

    def to_plain(self) -> Mapping[str, Any]:
        raise CodecError("a phase can be written once its run has ended; before, write its steps or messages")


class Idle(_Active[OutT]):
    """A run that has not begun."""

    def think(self) -> Thinking[OutT]:
        return replace(_THINKING, info=self.info, trail=self.trail)


class Thinking(_Active[OutT]):
    """The phase before a model call."""

    def act(self, reply: LlmResponse) -> Acting[OutT]:
        """Run the calls of a reply. After one without calls, an error is returned to the model."""
        text, calls = reply.content, reply.tool_calls
        is_kept = text or calls or reply.finish_reason == "pause"  # a pause may have no text
        turn = (turn_of(reply),) if is_kept else ()
        return replace(_ACTING, info=self.info, trail=self.trail.grown(turn, (reply,)), reply=reply)

    def complete(
        self,
        output: OutT,
        *,
        text: str,
        spent: Spent,
        step: int = 0,
        stopped_by: LimitName | None = None,
        citations: tuple[Citation, ...] = (),
    ) -> Completed[OutT]:
        """End with an answer; `stopped_by` names the limit that ended the run."""
        answer = Message(_ASSISTANT, text, citations=citations) if citations else Message(_ASSISTANT, text)
        trail = self.trail.grown((answer,), (text,))
        return replace(
            _COMPLETED,
            info=self.info,
            trail=trail,
            spent=spent,
            step=step,
            output=output,
            text=text,
            stopped_by=stopped_by,
        )


class Acting(_Active[OutT]):
    """The phase in which the calls of a reply are run."""

    reply: LlmResponse

    def observe(self, observed: Sequence[Observed]) -> Observing[OutT]:
        """Add the results of the calls, one for each call and in order, then any notes."""
        messages: list[Message] = []
        for item in observed:
            call_id, content = item.call_id, item.parts or item.text
            if call_id is None:
                messages.append(Message(Role.USER, content))
            elif item.ok:
                messages.append(Message(_TOOL, content, call_id))
            else:  # some providers mark errors
                messages.append(Message(_TOOL, content, call_id, is_error=True))
        return replace(_OBSERVING, info=self.info, trail=self.trail.grown(messages, observed))


class Observing(_Active[OutT]):
    """The phase in which the results of all calls are known, and not yet sent to the model."""

    def think(self) -> Thinking[OutT]:
        return replace(_THINKING, info=self.info, trail=self.trail)


_ASSISTANT, _TOOL = Role.ASSISTANT, Role.TOOL  # a lookup takes a third of the time of creating a message
# Transitions replace the fields of these: calling `_maker_of(...)` takes three times as long.
_IDLE: Idle[Any] = _maker_of(Idle)(None, None)
_THINKING: Thinking[Any] = _maker_of(Thinking)(None, None)
_ACTING: Acting[Any] = _maker_of(Acting)(None, None, None)
_OBSERVING: Observing[Any] = _maker_of(Observing)(None, None)
_COMPLETED: Completed[Any] = _maker_of(Completed)(None, None, None, 0, None, "")


def begin(info: RunInfo, trail: Trail) -> Idle[Any]:
    """The first phase of a run."""
    return replace(_IDLE, info=info, trail=trail)


Active: TypeAlias = Idle[OutT] | Thinking[OutT] | Acting[OutT] | Observing[OutT]
Phase: TypeAlias = (
    Idle[OutT]
    | Thinking[OutT]
    | Acting[OutT]
    | Observing[OutT]
    | Completed[OutT]
    | Failed[OutT]
    | Interrupted[OutT]
)


def handed_over(
    phase: Observing[OutT], agent: str, messages: list[Message], first_new: int
) -> Thinking[OutT]:
    """The phase in which another agent takes over with these messages; the log of the run stays."""
    opened_by = phase.info.opened_by or phase.info.agent
    info = replace(phase.info, agent=agent, opened_by=opened_by, first_new=first_new)
    return replace(_THINKING, info=info, trail=phase.trail.with_messages(messages))


def resumed(
    outcome: Interrupted[OutT],
    *,
    reply: LlmResponse | None = None,
    model: str = "",
    settings: ModelSettings | None = None,
    budget: Budget | None = None,
) -> Thinking[OutT] | Acting[OutT]:
    """The phase from which an interrupted run is resumed: Acting if it has unfinished calls, else Thinking.

    `reply` replaces the unfinished reply if people have changed the arguments of its calls.
    """
    info = replace(
        outcome.info,
        events=[],
        last_seq=outcome.last_seq,
        step=outcome.step,
        told=outcome.told,
        before=outcome.spent,
        model=model,
        settings=settings,
        budget=budget,
    )
    unfinished = outcome.unfinished
    if unfinished is None or not unfinished.judged:
        return replace(_THINKING, info=info, trail=outcome.trail)
    if reply is None:
        return replace(_ACTING, info=info, trail=outcome.trail, reply=unfinished.reply)
    trail = outcome.trail.with_last_reply(turn_of(reply), reply, instead_of=unfinished.reply)
    return replace(_ACTING, info=info, trail=trail, reply=reply)


def with_events(outcome: Outcome[OutT], events: list[Event]) -> Outcome[OutT]:
    """A copy of the outcome with the whole log of a run that was recorded in several parts."""
    again: Any = copy(outcome)
    force_setattr(again, "info", replace(outcome.info, events=events))
    return again  # type: ignore[no-any-return]  # of the same class


def with_output(outcome: Completed[Any], output: OutT, *, text: str | None = None) -> Completed[OutT]:
    """A copy of the outcome with another output, such as the parsed output of an outcome read from data."""
    again: Any = copy(outcome)
    force_setattr(again, "output", output)
    if text is not None:
        force_setattr(again, "text", text)
    return again  # type: ignore[no-any-return]  # of the same class
