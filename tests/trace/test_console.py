"""The console sink: thoughts, calls, results and the answer, as plain text."""

from __future__ import annotations

import io

import pytest

from tests.trace.runs import NOON, run
from wesichain.core import (
    ContentOmitted,
    Event,
    LlmResponse,
    ModelResponded,
    RunCompleted,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    TextDelta,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    Usage,
)
from wesichain.core.events import Decided
from wesichain.core.internal import (
    Approve,
    ApproveWith,
    NodeFailed,
    NodeStarted,
    PendingCall,
    Provide,
    Refuse,
)
from wesichain.trace import ConsoleSink

HEAD = ("r", 1, 2, NOON)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(*events: Event, **options: int | bool) -> str:
    out = io.StringIO()
    sink = ConsoleSink(out, **options)  # type: ignore[arg-type]
    for event in events:
        sink.emit(event)
    return out.getvalue()


def test_a_run() -> None:
    assert shown(*run(count=1)) == (
        "» scripted starts: How is the weather?\n"
        "· I look at day 1.\n"
        '→ weather {"city":"Paris","day":1}\n'
        '← {"sky":"clear","day":1}\n'
        "Clear skies.\n"
    )


@pytest.mark.parametrize(
    ("event", "text"),
    [
        pytest.param(
            RunStarted(*HEAD, "q", "", resumed=True), "» the run goes on: q\n", id="a run that goes on"
        ),
        pytest.param(
            RunStarted(
                *HEAD,
                "q",
                "m",
                resumed=True,
                decisions=(
                    Decided("t1", "pay", Approve()),
                    Decided("t2", "pay", ApproveWith({"sum": 5})),
                    Decided("t3", "shout\n\x1b[31m", Refuse("too loud")),
                    Decided("t4", "wait", Refuse()),
                    Decided("t5", "measure", Provide({"c": 1.5})),
                    Decided("t6", "measure", Provide(error="out of reach")),
                ),
            ),
            '» m goes on: q\n» approved: pay\n» approved: pay with {"sum":5}\n'
            "» refused: shout⏎␛[31m (too loud)\n» refused: wait\n"
            '» provided: measure -> {"c":1.5}\n» provided: measure -> out of reach\n',
            id="what was decided",
        ),
        pytest.param(
            ModelResponded(*HEAD, LlmResponse("done", reasoning="hm"), 1.0),
            "· hm\n",
            id="reasoning before an answer",
        ),
        pytest.param(
            ToolCompleted(*HEAD, "c", "t", "two\nlines", 1.0), "← two\n  lines\n", id="lines are indented"
        ),
        pytest.param(
            StepFailed(*HEAD, "ToolTimeoutError", "late", "retry", "c", "t"),
            "! t: ToolTimeoutError: late (retry)\n",
            id="a failed call",
        ),
        pytest.param(RunCompleted(*HEAD, {"a": 1}, Usage()), '{"a":1}\n', id="a typed answer"),
        pytest.param(RunFailed(*HEAD, "E", "why", Usage()), "✗ E: why\n", id="a failed run"),
        pytest.param(
            RunInterrupted(*HEAD, "approval", Usage(), (PendingCall(ToolCall("c", "pay", {}), "t"),)),
            "‖ approval\n  waits for approval: pay\n",
            id="a run that waits",
        ),
        pytest.param(ContentOmitted(*HEAD, "m", ("[no]", "[nor]")), "! [no]\n! [nor]\n", id="left out"),
        pytest.param(NodeStarted(*HEAD, node="plan"), "» node plan\n", id="a node"),
        pytest.param(
            NodeFailed(*HEAD, node="plan", error="E", message="why"),
            "! node plan: E: why\n",
            id="a failed node",
        ),
        pytest.param(StepStarted(*HEAD), "", id="what nobody wants to read"),
        pytest.param(
            ToolDispatched(*HEAD, ToolCall("c", "t", {}), scope="a/b"), "    → t {}\n", id="a nested run"
        ),
    ],
)
def test_what_is_said_of(event: Event, text: str) -> None:
    assert shown(event) == text


@pytest.mark.parametrize(("size", "text"), [(10, "xxxxxxxxxx"), (11, "xxxxxxxxxx… (11 characters)")])
def test_a_long_result_is_cut(size: int, text: str) -> None:
    assert shown(ToolCompleted(*HEAD, "c", "t", "x" * size, 1.0), max_width=10) == f"← {text}\n"


def test_a_fault_that_ends_the_run_is_told_once() -> None:
    down = StepFailed(*HEAD, "E", "down", "fail")
    told = "! E: down (fail)\n"
    assert shown(down, RunFailed(*HEAD, "Other", "down", Usage())) == f"{told}✗ Other\n"
    assert shown(down, RunFailed(*HEAD, "E", "another", Usage())) == f"{told}✗ E: another\n"
    inner = RunFailed(*HEAD, "E", "down", Usage(), scope="a")
    assert shown(down, inner) == f"{told}  ✗ E: down\n", "that of another run is not this one's"


def test_a_streamed_answer_is_shown_once() -> None:
    pieces = [TextDelta(*HEAD, "Clear "), TextDelta(*HEAD, "skies.")]
    reply = ModelResponded(*HEAD, LlmResponse("Clear skies."), 1.0)
    end = RunCompleted(*HEAD, "Clear skies.", Usage())
    assert shown(StepStarted(*HEAD), *pieces, reply, end) == "Clear skies.\n"
    assert shown(*pieces, reply, StepStarted(*HEAD), reply, end) == "Clear skies.\nClear skies.\n"


@pytest.mark.parametrize("escape", ["\x1b[2J", "\x9b2J", "\u202e", "\r", "\x1b]0;x\x07"])
def test_nothing_that_is_said_can_steer_the_terminal(escape: str) -> None:
    call = ToolCall("c", f"t{escape}\n", {"a": escape})
    told = shown(
        RunStarted(*HEAD, escape, escape),
        TextDelta(*HEAD, escape),
        ModelResponded(*HEAD, LlmResponse(escape, (call,), reasoning=escape), 1.0),
        ToolDispatched(*HEAD, call),
        ToolCompleted(*HEAD, "c", escape, escape, 1.0),
        StepFailed(*HEAD, escape, escape, escape, "c", escape),
        RunCompleted(*HEAD, escape, Usage()),
        RunFailed(*HEAD, escape, escape, Usage()),
        RunInterrupted(*HEAD, escape, Usage(), (PendingCall(call, "t"),)),
        NodeStarted(*HEAD, node=escape),
        NodeFailed(*HEAD, node=escape, error=escape, message=escape),
    )
    assert not set(escape) & set("\x1b\x9b\u202e\r\x07") & set(told)


class TestColour:
    def test_is_for_terminals(self) -> None:
        out = Terminal()
        ConsoleSink(out).emit(run()[0])
        assert out.getvalue().startswith("\x1b[2m»")
        assert "\x1b" not in shown(run()[0])

    def test_can_be_asked_for_and_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "\x1b[2m" in shown(run()[0], color=True)
        out = Terminal()
        ConsoleSink(out, color=False).emit(run()[0])
        assert "\x1b" not in out.getvalue()
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in shown(run()[0], color=True)


def test_a_terminal_that_knows_few_letters() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    ConsoleSink(out).emit(RunCompleted(*HEAD, "Grün", Usage()))
    assert raw.getvalue() == b"Gr?n\n"


def test_standard_output_as_it_is_when_an_event_comes(capsys: pytest.CaptureFixture[str]) -> None:
    ConsoleSink().emit(RunCompleted(*HEAD, "yes", Usage()))
    assert capsys.readouterr().out == "yes\n"
