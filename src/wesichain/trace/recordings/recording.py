"""Recordings: a run as a value, loaded from its file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from typing_extensions import override

from wesichain.core import (
    Event,
    JsonValue,
    LlmRequest,
    LlmResponse,
    Message,
    ModelResponded,
    RunCompleted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
    Usage,
)
from wesichain.core.internal import (
    HandedOff,
    SystemClock,
    ToolsOffered,
    Transcript,
    Value,
    is_object,
    parse_json,
    replace,
)
from wesichain.errors import CodecError
from wesichain.journal.internal import JournalLog, LogDecoder, Projection, entry_from_plain, events_of

from .format import STATUS_OF, Dropped, RecordedEnd, RunEnd, Status, read_header
from .parts_folder import PartsFolder


class RecordedCall(Value):
    """A tool call and its result. While it runs, it has neither a value nor an error."""

    call: ToolCall
    value: JsonValue = None
    error: StepFailed | None = None
    duration_ms: float | None = None

    @property
    def ok(self) -> bool:
        return self.error is None and self.duration_ms is not None


class RecordedStep(Value):
    """A step: the new messages of its request, the reply, the calls and the errors."""

    scope: str
    step_id: int
    started_at: float
    messages: tuple[Message, ...] = ()
    response: LlmResponse | None = None
    duration_ms: float | None = None
    calls: tuple[RecordedCall, ...] = ()
    failures: tuple[StepFailed, ...] = ()


class Recording:
    """A recorded run: its log. `problems` lists missing or unreadable parts of the file."""

    __slots__ = ("_events", "log", "problems", "run_id")

    def __init__(self, log: JournalLog, problems: Sequence[str] = ()) -> None:
        self.log = log
        self.run_id = log.run_id
        self.problems = tuple(problems)
        self._events: tuple[Event, ...] | None = None

    @override
    def __repr__(self) -> str:
        return f"Recording({self.run_id!r}, {len(self.events)} events)"

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the run, and of those inside it, made from the log."""
        if self._events is None:
            self._events = tuple(events_of(self.log))
        return self._events

    @property
    def agent(self) -> str:
        """The name of the agent, graph or function that began the run."""
        begin = self.log.begin_of("")
        return "" if begin is None else begin.program

    @property
    def complete(self) -> bool:
        """Whether the recording has the start and the end of the run, and no problems."""
        return self.start is not None and self.end is not None and not self.problems

    @property
    def start(self) -> RunStarted | None:
        return next((event for event in self.events if isinstance(event, RunStarted)), None)

    @property
    def end(self) -> RunEnd | None:
        """The event that ended the run; None while it is active, or if its process was killed."""
        for event in reversed(self.events):
            if not event.scope and isinstance(event, RunEnd):
                return event
            if not event.scope and isinstance(event, RunStarted):
                return None
        return None

    @property
    def status(self) -> Status:
        return "unfinished" if self.end is None else STATUS_OF[type(self.end)]

    @property
    def user_input(self) -> str:
        return self.start.user_input if self.start else ""

    @property
    def model(self) -> str:
        return self.start.model if self.start else ""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self.start.tools if self.start else ()

    @property
    def output(self) -> JsonValue:
        return self.end.output if isinstance(self.end, RunCompleted) else None

    @property
    def started_at(self) -> float:
        return self.events[0].at if self.events else 0.0

    @property
    def duration(self) -> float:
        """Seconds from the first event to the last, by the run's own clock; never negative."""
        return max(0.0, self.events[-1].at - self.started_at) if self.events else 0.0

    @property
    def usage(self) -> Usage:
        """The tokens of the run: from its last event, or the sum of all replies if that has none."""
        if self.end is not None and self.end.usage.total_tokens:
            return self.end.usage
        replies = (event.response.usage for event in self.events if isinstance(event, ModelResponded))
        return sum(replies, Usage())

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes of the run ("") and of the runs inside it, in order of appearance."""
        return tuple(dict.fromkeys(event.scope for event in self.events))

    def requests(self, scope: str = "") -> tuple[LlmRequest, ...]:
        """All requests to the model, with the tools offered."""
        transcript = Transcript()
        model = ""
        tools: tuple[ToolSpec, ...] = ()
        requests: list[LlmRequest] = []
        for event in self.events:
            if event.scope != scope:
                continue
            transcript.take(event)
            if isinstance(event, RunStarted | HandedOff):
                model, tools = event.model, event.tools
            elif isinstance(event, ToolsOffered):
                tools = event.tools
            elif isinstance(event, StepStarted):
                requests.append(LlmRequest(model, tuple(transcript.messages), tools))
        return tuple(requests)

    @property
    def steps(self) -> tuple[RecordedStep, ...]:
        """The steps of the run and of the runs inside it, by start."""
        steps: dict[tuple[str, int], RecordedStep] = {}
        transcripts: defaultdict[str, Transcript] = defaultdict(Transcript)
        for event in self.events:
            if isinstance(event, StepStarted | ModelResponded | ToolDispatched | ToolCompleted | StepFailed):
                key = event.scope, event.step_id
                shown = transcripts[event.scope].take(event)
                steps[key] = _extended(steps.get(key) or RecordedStep(*key, event.at), event, shown)
        return tuple(steps.values())


def _extended(
    step: RecordedStep,
    event: StepStarted | ModelResponded | ToolDispatched | ToolCompleted | StepFailed,
    shown: tuple[Message, ...],
) -> RecordedStep:
    match event:
        case StepStarted():
            return replace(step, messages=shown)
        case ModelResponded():
            return replace(step, response=event.response, duration_ms=event.duration_ms)
        case ToolDispatched():
            return replace(step, calls=(*step.calls, RecordedCall(event.call)))
        case ToolCompleted():
            done = RecordedCall(
                ToolCall(event.call_id, event.tool_name, None), event.value, None, event.duration_ms
            )
            return replace(step, calls=_settled(step.calls, done))
        case StepFailed():
            step = replace(step, failures=(*step.failures, event))
            if event.call_id is None:
                return step
            failed = RecordedCall(
                ToolCall(event.call_id, event.tool_name or "", None), None, event, event.duration_ms
            )
            return replace(step, calls=_settled(step.calls, failed))


def _settled(calls: Iterable[RecordedCall], outcome: RecordedCall) -> tuple[RecordedCall, ...]:
    """The calls with the outcome of one. The last attempt of a retried call counts."""
    return tuple(
        replace(outcome, call=each.call) if each.call.id == outcome.call.id else each for each in calls
    )


# --- reading --------------------------------------------------------------------------------------


def load(path: str | PathLike[str]) -> Recording:
    """Load a recording. Its `problems` list unreadable or missing entries.

    Raises `CodecError` for a file that is not a recording, or has another format.
    """
    reader = RecordingReader(path)
    reader.read()
    missing = (
        f"the bytes of sha256 {digest} are not beside the recording" for digest in reader.missing_parts
    )
    return Recording(reader.log, (*reader.problems, *missing))


class RecordingReader:
    """Reads a recording while it grows: each `read` returns the events that came since the last one."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._path = Path(path)
        with self._path.open("rb") as file:
            head = file.readline()
        header = read_header(head.rstrip(b"\n"), str(path))
        self.log = JournalLog(header.run_id, SystemClock())
        self.problems: list[str] = []
        self._blobs = PartsFolder(path)
        self._decoder = LogDecoder(self.log, self._blobs)
        self._projection = Projection(self.log)
        self._offset, self._line, self._taken = len(head), 1, 0

    @property
    def missing_parts(self) -> Sequence[str]:
        """The hashes of parts whose bytes are not beside the recording."""
        for number in range(len(self.log.records)):
            if self.log.records[number][0].__class__ is str:
                self.log.body(number)
        return self._blobs.missing

    def read(self) -> list[Event]:
        """Read the complete lines that are new, and return their events."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.split(b"\n")[:-1]:
            self._line += 1
            self._take(line)
        if data[len(whole) :]:
            self._note_torn(data[len(whole) :])
        events: list[Event] = []
        while self._taken < len(self.log.records):
            try:
                events += self._projection.take(self._taken)
            except CodecError as error:
                self.problems.append(str(error))
                self.log.forget(self._taken)
            self._taken += 1
        return events

    def _take(self, line: bytes) -> None:
        try:
            plain = parse_json(line)
        except CodecError:
            self.problems.append(f"line {self._line} is torn: its {len(line)} bytes are not JSON")
            return
        if is_object(plain) and plain.get("kind") == Dropped.kind:
            self.problems.append(f"{plain.get('entries')} entries were not recorded: {plain.get('reason')}")
        elif not (is_object(plain) and plain.get("kind") == RecordedEnd.kind):
            try:
                self.log.records += self._decoder.take(entry_from_plain(plain))
            except CodecError as error:
                self.problems.append(f"line {self._line} is no entry: {error}")

    def _note_torn(self, rest: bytes) -> None:
        text = f"line {self._line + 1} is torn: its {len(rest)} bytes have no end"
        if text not in self.problems:
            self.problems.append(text)
