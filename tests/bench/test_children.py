"""The harness on real processes: the hand-written loop is measured and tried by fire."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from bench.fire.faults import FAULTS
from bench.fire.run import endure, verdict
from bench.peers.children import CrashedError, StoppedError, lines_of
from bench.peers.environments import CONTESTANTS, REQUIREMENTS, YARDSTICK, child_environ, select
from bench.peers.results import Entry, Fact
from bench.peers.run import Child, Effort, worth_repeating

PYTHON = Path(sys.executable)


def blank() -> Entry:
    return {"title": "", "version": "", "statement": "", "note": "", "rounds": []}


async def test_a_round_of_the_hand_written_loop(tmp_path: Path) -> None:
    entry = blank()
    effort = Effort(seconds=0.01, runs=20, longest=10)
    await Child(YARDSTICK, PYTHON, child_environ(tmp_path), effort).take_part(entry)
    (facts,) = entry["rounds"]
    assert set(facts) == {
        "short", "hop", "sync", "sync10", "malformed", "chain10", "concurrent", "import", "pydantic"
    }  # fmt: skip
    assert all(fact["cpu"] > 0 for fact in facts.values())
    assert facts["malformed"]["spared"]
    assert facts["chain10"]["cpu"] > facts["hop"]["cpu"] > facts["short"]["cpu"]
    assert entry["title"] == "hand-written loop"


@pytest.mark.slow
async def test_a_scenario_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    entry, facts = blank(), dict[str, Fact]()
    child = Child(YARDSTICK, PYTHON, child_environ(tmp_path), Effort(seconds=60, limit=1))
    await child.collect(entry, facts, "loop", "--names", "hop")
    assert facts == {"hop": {"error": "stopped after 1 s of CPU", "stopped": 1.0}}


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(
            "print(1, flush=True); import time; time.sleep(60)", StoppedError, id="silence is stopped"
        ),
        pytest.param("print(1); raise SystemExit('worn out')", CrashedError, id="an early end is a crash"),
    ],
)
async def test_a_child_that_fails_is_told_apart(code: str, error: type[Exception], tmp_path: Path) -> None:
    lines = lines_of(PYTHON, "-c", code, environ=child_environ(tmp_path), limit=2)
    assert await anext(lines) == 1
    with pytest.raises(error, match=r"stopped after|worn out"):
        await anext(lines)


@pytest.mark.parametrize(
    ("name", "ended", "requests"),
    [
        pytest.param("json-once", "recovered", 2, id="broken JSON once is recovered"),
        pytest.param(
            "500-always", "visible", 3, id="a dead provider is an exception", marks=pytest.mark.slow
        ),
    ],
)
async def test_the_hand_written_loop_under_fire(name: str, ended: str, requests: int, tmp_path: Path) -> None:
    (fault,) = (fault for fault in FAULTS if fault.name == name)
    cell = await endure(YARDSTICK, fault, PYTHON, environ=child_environ(tmp_path))
    assert (verdict(fault, cell), cell["requests"]) == (ended, requests), cell


@pytest.mark.parametrize(
    ("past", "again"),
    [
        pytest.param([], True, id="what was never measured"),
        pytest.param([{"cpu": 1.0, "runs": 1}] * 5, True, id="what is quick"),
        pytest.param([{"cpu": 4.0, "runs": 1}], True, id="what is long, a second time"),
        pytest.param([{"cpu": 4.0, "runs": 1}] * 2, False, id="but not a third time"),
        pytest.param([{"cpu": 0.02, "runs": 1000}], False, id="not what is very long"),
        pytest.param([{"error": "dead"}], False, id="not what failed"),
    ],
)
def test_what_is_measured_again(past: list[Fact], again: bool) -> None:
    entry = blank() | {"rounds": [{"hop": fact} for fact in past]}
    assert worth_repeating(entry, "hop") is again


def test_every_contestant_has_an_adapter_and_pinned_requirements() -> None:
    for contestant in CONTESTANTS:
        assert (REQUIREMENTS.parent / "adapters" / f"{contestant.name}.py").is_file()
        pins = (REQUIREMENTS / f"{contestant.environment}.txt").read_text().splitlines()
        assert pins
        assert all("==" in pin for pin in pins)
        assert (REQUIREMENTS / f"{contestant.environment}.in").is_file()


def test_the_yardstick_is_always_there() -> None:
    assert YARDSTICK in select("agno")
    assert select(None) == CONTESTANTS
    with pytest.raises(SystemExit, match="unknown contestant nobody"):
        select("nobody")


def test_children_get_a_clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environ = child_environ(tmp_path)
    assert not {"OPENAI_API_KEY", "PYTHONDONTWRITEBYTECODE"} & set(environ)
    assert environ["OTEL_SDK_DISABLED"] == "true"
