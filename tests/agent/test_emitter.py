"""The emitter: what has ended emits nothing more, whoever outlives it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.agent.kit import ADD, kinds, runtime, say
from wesichain.agent import Completed
from wesichain.agent.emitter import Emitter, listeners
from wesichain.core import Event, LlmResponse, Message, Role, Text, TextDelta, ToolCall
from wesichain.core.internal import Spent, events_in
from wesichain.errors import ConfigError
from wesichain.tools import ToolResult
from wesichain.trace import CollectingSink, Redactor

ENDS: dict[str, Callable[[Emitter], None]] = {
    "completed": lambda emitter: emitter.run_completed(1, "answer", Spent(), None),
    "failed": lambda emitter: emitter.run_failed(1, ConfigError("why"), Spent()),
    "interrupted": lambda emitter: emitter.run_interrupted(1, "why", Spent()),
}
LATE: dict[str, Callable[[Emitter], None]] = {
    "a-delta": lambda emitter: emitter.emit(TextDelta, 1, "late"),
    "a-step": lambda emitter: emitter.step_started(2, (), follows=True),
    "an-event-of-a-run-inside": lambda emitter: emitter.relay(TextDelta("inner", 1, 1, 0.0, "late"), "c1"),
    "a-second-end": lambda emitter: emitter.run_completed(1, "another", Spent(), None),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("late", LATE)
def test_nothing_is_recorded_or_received_after_the_end(end: str, late: str) -> None:
    events: list[Any] = []
    received: list[Event] = []
    emitter = Emitter("r", events, lambda: 1.0, 0, (received.append, received.append))
    ENDS[end](emitter)
    assert len(events) == len(received) == 1
    LATE[late](emitter)
    assert len(events) == len(received) == 1
    assert emitter.is_closed


async def test_a_sink_that_fails_is_logged_once_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def emit(self, event: Event) -> None:
            raise OSError("no")

    sink = CollectingSink()
    outcome = await runtime([say(ADD), "3"], events=[Broken(), sink]).run("q")
    assert isinstance(outcome, Completed)
    assert kinds(sink.events) == kinds(outcome.events)
    (record,) = caplog.records
    assert "the run goes on without its report" in record.message


class Listening:
    """A sink that makes listeners of its own, as a recorder does."""

    def __init__(self) -> None:
        self.given: list[tuple[Any, ...]] = []
        self.raw: list[Event] = []
        self.emitted: list[Event] = []

    def emit(self, event: Event) -> None:
        self.emitted.append(event)

    def run_listeners(self, *given: Any) -> tuple[Callable[[Event], None], None]:
        self.given.append(given)
        return self.raw.append, None


SECRET = TextDelta("r", 1, 1, 0.0, "password=hunter22")


def made(*sinks: Any, **options: Any) -> tuple[Any, Any]:
    info: Any = SimpleNamespace(run_id="r", events=["log"], last_seq=7)
    return listeners(info, sinks, **options)


def test_a_sink_that_listens_alone_is_called_directly_and_has_the_log() -> None:
    sink = Listening()
    assert made(sink) == (sink.raw.append, None)
    assert sink.given == [("r", ["log"], 7)]


@pytest.mark.parametrize("relayed", [False, True], ids=["beside-another", "below-another-run"])
def test_a_sink_that_listens_beside_others_redacts_by_itself(relayed: bool) -> None:
    sink, other, above = Listening(), CollectingSink(), CollectingSink()
    given = {"relay": above.emit} if relayed else {}
    receive, in_line = made(*([sink] if relayed else [sink, other]), **given)
    assert receive == in_line
    receive(SECRET)
    assert sink.given == [("r",)]
    assert (sink.raw, sink.emitted) == ([SECRET], [])
    assert above.events == [SECRET] * relayed, "the run above receives it as it is"
    assert [event.text for event in other.events if isinstance(event, TextDelta)] == (
        [] if relayed else ["password=[redacted:secret]"]
    )


def test_a_redactor_of_the_user_s_own_is_asked_for_every_sink() -> None:
    sink = Listening()
    receive, _ = made(sink, redactor=Redactor(lambda text: "gone"))
    receive(SECRET)
    assert (sink.given, sink.raw, [event.kind for event in sink.emitted]) == ([], [], ["text_delta"])
    assert "gone" in str(sink.emitted)


CALL = ToolCall("c", "t", {})
EMITTED: list[Callable[[Emitter], None]] = [
    lambda emitter: emitter.run_started(
        "task", "m", (), None, agent="", parts=(Text("a"),), instructions="be"
    ),
    lambda emitter: emitter.run_started("task", "m", (), (), agent="", parts=(Text("a"),)),
    lambda emitter: emitter.step_started(1, (Message(Role.USER, "q"),), follows=True, free=True),
    lambda emitter: emitter.model_responded(1, LlmResponse("a"), 2.0, 3.0),
    lambda emitter: emitter.tool_dispatched(1, CALL, 2, resumed=True),
    lambda emitter: emitter.tool_completed(1, CALL, ToolResult("c", "t", 5, None, 2.0, finish=True)),
    lambda emitter: emitter.step_failed(1, ConfigError("why"), "fail", call_id="c", tool_name="t", free=True),
    lambda emitter: emitter.step_started(64, (), follows=False),
    lambda emitter: emitter.run_completed(1, "answer", Spent(seconds=2.0), "steps"),
]


def emitted(listening: Any) -> list[Event]:
    """The events that are in the log when each of these was emitted, with these listeners."""
    events: list[Any] = []
    emitter = Emitter("r", events, lambda: 1.5, 3, listening)
    assert emitter.has_listeners is (listening is not None and listening[1] is not None)
    for emit in EMITTED:
        emit(emitter)
    assert emitter.last_seq == 3 + len(EMITTED)
    return events_in(events, "r", 3)


def test_the_log_is_the_same_whoever_listens() -> None:
    received: list[Event] = []
    log = emitted((received.append, received.append))
    assert log == received == emitted(None)
    assert [event.seq for event in log] == [*range(4, 4 + len(EMITTED))]
    assert {(event.run_id, event.at) for event in log} == {("r", 1.5)}
    first, again = cast("Any", log[:2])
    assert (first.resumed, first.parts, again.resumed, again.parts) == (False, (Text("a"),), True, ())


def test_an_entry_of_the_log_has_all_positional_fields_of_its_event() -> None:
    """A recording of a run writes the entries as they are; one that lacks a field is written event by event."""
    events: list[Any] = []
    emitter = Emitter("r", events, lambda: 1.5, 3, None)
    for emit in EMITTED:
        emit(emitter)
    entries = [entry for entry in events if entry.__class__ is tuple]
    assert len({entry[0] for entry in entries}) == 6
    for entry in entries:
        positional = [field for field in dataclasses.fields(entry[0]) if not field.kw_only]
        assert len(entry) == len(positional) - 1, entry[0]  # without the run's id and the number


def test_one_who_finds_events_in_the_log_receives_what_is_not_as_usual_and_every_64th_step() -> None:
    received: list[Event] = []
    log = emitted((received.append, None))
    assert log == emitted(None)
    assert received == [log[0], log[1], log[6], log[7], log[8]]


def test_what_a_run_inside_emits_has_its_scope_and_the_next_number() -> None:
    events: list[Any] = []
    emitter = Emitter("r", events, lambda: 1.0, 0, None)
    emitter.relay(TextDelta("inner", 1, 9, 0.0, "a"), "c1")
    emitter.relay(TextDelta("inner", 1, 9, 0.0, "b", scope="d2"), "c1")
    assert [(event.run_id, event.seq, event.scope) for event in events] == [("r", 1, "c1"), ("r", 2, "c1/d2")]
    assert emitter.emitted_since(1) == (events[1],)
    assert emitter.emitted_since(2) == ()


def raised(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "call_id", "expected"),
    [
        (ConfigError("why"), None, ("ConfigError", "why", "")),
        (raised(ConfigError("why"), OSError("deep")), None, ("OSError", "why", "")),
        (raised(ConfigError("why"), raised(OSError("deep"), ValueError())), None, ("OSError", "why", "")),
        (raised(ConfigError("why"), raised(OSError("deep"), ValueError())), "c", ("OSError", "why", "ValueError")),
        (raised(OSError("deep"), ConfigError("why")), "c", ("ConfigError", "deep", "")),
        (raised(OSError("o"), raised(OSError("p"), ConfigError("why"))), "c", ("OSError", "o", "wesichain.errors:ConfigError")),
    ],
)  # fmt: skip
def test_a_fault_is_named_by_what_caused_it(error: Any, call_id: str | None, expected: Any) -> None:
    events: list[Any] = []
    Emitter("r", events, lambda: 1.0, 0, None).step_failed(1, error, "fail", call_id=call_id)
    (event,) = events
    assert (event.error, event.message, event.cause) == expected
