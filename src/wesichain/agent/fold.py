"""A run from its log alone: its messages, steps, spending and end, without the program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wesichain.core import LlmResponse, Message, ReActState, ReActStep, Role, StepStarted, ToolCall
from wesichain.core.internal import (
    Mutable,
    PendingCall,
    Spent,
    Value,
    field,
    from_plain,
    replace,
    tool_message,
    turn_of,
)
from wesichain.errors import CodecError
from wesichain.journal.internal import Begin, End, Hand, JournalLog, Left, Reply, Result, ledgers_of, parse
from wesichain.policy import Budget
from wesichain.tools import ToolResult

from .memory.history import is_over, messages_of
from .run_info import RunInfo
from .trail import Observed, Trail, TrailItem, observed_of


class Folded(Value):
    """What a log says of the run in a place."""

    info: RunInfo
    trail: Trail
    spent: Spent
    step: int
    end: End | None  # None for a run that has not ended
    reason: str = ""  # why it was left
    pending: tuple[PendingCall, ...] = ()


def fold(log: JournalLog, place: str = "") -> Folded:
    """Read a run from its log. Raises `CodecError` if the log does not have its beginning."""
    begin = log.begin_of(place)
    if begin is None:
        raise CodecError(f"the log of the run {log.run_id!r} has no beginning; it holds no run to read")
    reader = _Reader(log, place, begin)
    for number, record in enumerate(log.records):
        reader.take(number, record)
    reader.finish()
    if reader.end is not None and reader.end.place:
        found = fold(log, reader.end.place)
        info = replace(found.info, run_id=begin.run_id or log.run_id, place=place)
        return replace(found, info=info, end=reader.end)
    info = reader.info()
    spent = ledgers_of(log, len(log.records)).by_place.get(place)
    elapsed = next((one[3] for one in reversed(log.records) if one[0].__class__ is str), 0.0)
    end, left = reader.end, reader.left
    last = end or left
    known = last.spent if last is not None and last.spent is not None else None
    return Folded(
        info,
        Trail.of(reader.messages, reader.items),
        known or (Spent() if spent is None else spent.spent(elapsed)),
        (last.step if last is not None else 0) or reader.step,
        end,
        "" if left is None else left.reason,
        log.pending(place),
    )


def fold_begin(log: JournalLog, place: str, begin: Begin) -> Folded:
    """What a run begins with, from its first entry."""
    reader = _Reader(log, place, begin)
    return Folded(reader.info(), Trail.of(reader.messages, reader.items), Spent(), 0, None)


class _Reader(Mutable):
    """Reads the records of one run in order."""

    log: JournalLog
    place: str
    begin: Begin
    messages: list[Message] = field(default_factory=list[Message])
    items: list[TrailItem] = field(default_factory=list[TrailItem])
    end: End | None = None
    left: Left | None = None
    step: int = 0
    agent: str = ""
    first_new: int = 0
    _request: tuple[Any, ...] | None = None  # announced, and not answered so far
    _is_first: bool = True  # whether no request was read so far
    _reply: LlmResponse | None = None
    _results: dict[str, tuple[ToolCall, Result]] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        begin = self.begin
        self.agent = begin.program
        self.messages = [*begin.messages, Message(Role.USER, begin.parts or begin.task)]
        self.first_new = len(begin.messages)
        steps: Any = begin.steps or ()
        if steps and not isinstance(steps[0], Value):
            steps = from_plain(tuple[ReActStep, ...], steps)
        self.items = [*steps]
        self.step = begin.counted
        if steps and not is_over(steps):
            self.messages += messages_of(steps)

    def take(self, number: int, record: tuple[Any, ...]) -> None:
        first = record[0]
        if first.__class__ is not str:
            # Further model calls of a middleware are announced too, and have no reply of this name.
            is_own = first is StepStarted and record[1] == self.place
            if is_own and self.log.has(f"{self.place}ask {record[2]}"):
                self._request = record[2], *record[4:]  # another one for this step replaces it
            return
        name = parse(first)
        if name.place == self.place and name.kind in _READ:
            body = self.log.body(number)
            match body:
                case Reply():
                    self._take_request()
                    self._reply, self._results = body.reply, {}
                    self.step = body.step or name.step
                case Result():
                    call_id = name.words[1]
                    self._results[call_id] = ToolCall(call_id, body.tool, None), body
                case Hand():
                    self._take_handoff(body)
                case Left() | End():
                    self.end = body if isinstance(body, End) else None
                    self.left = body if isinstance(body, Left) else None
                case _:
                    pass
        elif first.startswith("left ") and self.place:
            self.left = self.log.body(number)

    def _take_request(self) -> None:
        """Add the messages that the last request had and no earlier one."""
        if self._request is None:
            return
        (step, messages, follows, _), self._request = self._request, None
        number = self.log.number_of(f"{self.place}ask {step}")
        if number is not None and self.log.body(number).noted:
            messages = messages[:-1]
        self.end = self.left = None
        if follows:
            self._add_turn()
        if not (self._is_first and list(messages) == self.messages):
            self._add(messages)
        self._is_first = False

    def _add_turn(self) -> None:
        """Add the last reply and the results of its calls."""
        if self._reply is None:
            return
        self._add([turn_of(self._reply)])
        for call in self._reply.tool_calls:
            known = self._results.get(call.id)
            if known is not None:
                self._add([tool_message(call.id, known[1].value, known[1].parts)])

    def finish(self) -> None:
        """Add the messages that came after the last request."""
        last = self.end or self.left
        self._take_request()
        self.end, self.left = (last, None) if isinstance(last, End) else (None, last)
        if last is None or (last is self.left and self.place):
            return
        if last.follows:
            self._add_turn()
        self._add(last.messages)
        if self.end is not None and self.end.messages and (self.end.fault is None or self.end.text):
            self.items[-1] = self.end.text  # the answer

    def _add(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self.messages.append(message)
            self.items.append(self._item_of(message))

    def _item_of(self, message: Message) -> TrailItem:
        if message.role is Role.ASSISTANT:
            return LlmResponse(message.text, message.tool_calls, reasoning=message.reasoning)
        known = self._results.get(message.tool_call_id or "")
        if known is not None and not message.is_error:
            call, result = known
            done = ToolResult(call.id, call.name, result.value, None, 0.0, result.finish, result.parts)
            return observed_of(call, done)
        return Observed(message.text, message.text, message.tool_call_id, ok=not message.is_error)

    def _take_handoff(self, body: Hand) -> None:
        if body.follows:
            self._add_turn()
        self._add(body.unsent)
        self._is_first = True
        system = [Message(Role.SYSTEM, body.system)] if body.system else []
        spoken = [one for one in self.messages if one.role is not Role.SYSTEM]
        shown = spoken if body.messages is None else list(body.messages)
        self.messages = [*system, *shown]
        self.first_new = len(system) + body.task_at
        self.agent = body.target

    def info(self) -> RunInfo:
        begin = self.begin
        given: Any = begin.state
        state: Any = ReActState(begin.task) if given is None else {**given, "input": begin.task}
        budget: Any = begin.budget
        return RunInfo(
            begin.run_id or self.log.run_id,
            begin.task,
            state,
            self.log,
            self.place,
            0,
            self.first_new,
            begin.earlier,
            begin.counted,
            None,
            begin.parts,
            self.agent,
            "" if self.agent == begin.program else begin.program,
            begin.model,
            begin.settings,
            None if budget is None or isinstance(budget, Budget) else Budget.from_plain(budget),
        )


_READ = frozenset({"ask", "call", "hand", "left", "end"})
