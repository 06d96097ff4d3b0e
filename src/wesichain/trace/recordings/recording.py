"""Recordings: a run as a value, loaded from its file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import ClassVar

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
from wesichain.core.internal import HandedOff, ToolsOffered, Transcript, Value, replace

from .format import STATUS_OF, VERSION, Dropped, End, RecordedEnd, Status, read_header, read_lines
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


class Recording(Value):
    """A recorded run. `problems` lists missing or unreadable parts of the file."""

    __aside__: ClassVar[tuple[str, ...]] = ("problems",)

    run_id: str
    events: tuple[Event, ...]
    version: int = VERSION
    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the recording has the start and the end of the run, and no problems."""
        return self.start is not None and self.end is not None and not self.problems

    @property
    def start(self) -> RunStarted | None:
        return next((event for event in self.events if isinstance(event, RunStarted)), None)

    @property
    def end(self) -> End | None:
        """The event that ended the run; None while it is active, or if its process was killed."""
        for event in reversed(self.events):
            if not event.scope and isinstance(event, End):
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
    def agent(self) -> str:
        """The name of the agent that the run began with; "" if it is not known."""
        return self.start.agent if self.start else ""

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
    """Load a recording. Its `problems` list unreadable or missing events.

    Raises `CodecError` for a file that is not a recording, or has a newer format.
    """
    head, _, rest = Path(path).read_bytes().partition(b"\n")
    header = read_header(head, str(path))
    events: list[Event] = []
    problems: list[str] = []
    dropped: Counter[str] = Counter()
    blobs = PartsFolder(path)
    for line in read_lines(rest, first=2, blobs=blobs):
        match line:
            case str():
                problems.append(line)
            case Dropped():
                dropped[line.reason] += line.events
            case RecordedEnd():
                pass
            case _:
                events.append(line)
    problems += [f"{count} events were not recorded: {reason}" for reason, count in dropped.items()]
    problems += [f"the bytes of sha256 {digest} are not beside the recording" for digest in blobs.missing]
    return Recording(header.run_id, tuple(events), header.version, tuple(problems))


def read_new(path: str | PathLike[str], offset: int = 0) -> tuple[tuple[Event, ...], int]:
    """The events in complete lines from `offset`, and the next offset."""
    with Path(path).open("rb") as file:
        if offset == 0:
            head = file.readline()
            read_header(head, str(path))
            offset = len(head)
        file.seek(offset)
        data = file.read()
    lines_read = data[: data.rfind(b"\n") + 1]
    lines = read_lines(lines_read, blobs=PartsFolder(path))
    events = tuple(line for line in lines if not isinstance(line, str | Dropped | RecordedEnd))
    return events, offset + len(lines_read)
