"""The check that every test ends with: it can fail, and its exceptions are of tests that there are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.agent.kit import ADD, add, say
from tests.conftest import ROOT
from tests.replaying import REASONS, Ran, check, twin_of
from wesichain.agent import AgentRuntime
from wesichain.errors import ReplayMismatchError
from wesichain.testing import ScriptedLlm


def ran() -> Ran:
    runtime = AgentRuntime(ScriptedLlm([say(ADD), "3"]), [add], instructions="be exact")
    outcome = asyncio.run(runtime.run("1 + 2?"))
    return Ran(twin_of(runtime), "1 + 2?", {}, (), (), outcome.events, type(outcome))


def test_the_same_program_passes_and_another_does_not(tmp_path: Path) -> None:
    run = ran()
    check(run, tmp_path / "same")
    other = twin_of(AgentRuntime(ScriptedLlm([]), [add], instructions="be quick"))
    with pytest.raises(ReplayMismatchError, match="step 1"):
        check(replace(run, runtime=other), tmp_path / "other")


def test_an_event_that_is_not_told_again_is_noticed(tmp_path: Path) -> None:
    run = ran()
    with pytest.raises((AssertionError, ReplayMismatchError)):
        check(replace(run, events=(*run.events[:-3], *run.events[-2:])), tmp_path / "less")


def test_a_reason_belongs_to_a_test() -> None:
    for where in REASONS:
        file, _, name = where.partition("::")
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not name or f"def {name.rpartition('::')[2]}(" in text, where
