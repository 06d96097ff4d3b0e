"""The folder of approvals: one decision a token, one taker a run, nothing readable for others."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
from pathlib import Path

import pytest

from tests.trace.runs import NOON
from wesichain.agent import AgentRuntime, Approve, Interrupted, Refuse
from wesichain.core import to_json
from wesichain.errors import ConfigError
from wesichain.testing import FakeClock, ScriptedLlm
from wesichain.tools import CancellationToken
from wesichain.web import ApprovalFolder

from .kit import interrupted

pytestmark = pytest.mark.quick


def stopped() -> Interrupted[str]:
    """A run that was cancelled, and waits for nobody."""
    token = CancellationToken()
    token.cancel("enough")
    outcome = asyncio.run(AgentRuntime(ScriptedLlm(["hi"])).run("?", cancellation=token))
    assert isinstance(outcome, Interrupted)
    return outcome


def test_what_is_put_in_waits_and_is_taken_once(tmp_path: Path) -> None:
    folder = ApprovalFolder(tmp_path)
    outcome = interrupted()
    folder.put(outcome)
    (waiting,) = folder.pending()
    assert (waiting.run_id, waiting.task, waiting.pending) == (
        "waiting-run", "Remove the old report", outcome.pending[0],
    )  # fmt: skip
    assert to_json(folder.take("waiting-run")) == to_json(outcome)
    assert folder.pending() == ()
    for act in (folder.take, folder.decisions):
        with pytest.raises(ConfigError, match="no run 'waiting-run' waits"):
            act("waiting-run")
    with pytest.raises(ConfigError, match="it has no pending calls"):
        folder.put(stopped())


def test_all_of_a_file_is_on_the_disk_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: sizes.append(os.fstat(handle).st_size))
    folder, outcome = ApprovalFolder(tmp_path), interrupted()
    folder.put(outcome)
    assert sizes == [path.stat().st_size for path in tmp_path.iterdir()]


@pytest.mark.parametrize("run_id", ["plain", "../../x", "/etc/x", "a\0b", "x" * 500, "名前", "CON"])
def test_an_id_is_never_a_path_and_files_are_private(tmp_path: Path, run_id: str) -> None:
    folder = ApprovalFolder(tmp_path / "in")
    outcome = interrupted(run_id)
    folder.put(outcome)
    folder.decide(outcome.pending[0].token, Approve())
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    files = list((tmp_path / "in").iterdir())
    assert len(files) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "in").stat().st_mode) == 0o700
    assert folder.take(run_id).run_id == run_id


def test_a_token_takes_one_decision_even_after_its_run_was_taken(tmp_path: Path) -> None:
    folder = ApprovalFolder(tmp_path)
    outcome = interrupted()
    token = outcome.pending[0].token
    folder.put(outcome)
    folder.decide(token, Refuse())
    with pytest.raises(ConfigError, match="decided already"):
        folder.decide(token, Approve())
    assert folder.token_status(token) == "decided"
    folder.take("waiting-run")
    assert folder.token_status(token) == "decided"
    with pytest.raises(ConfigError, match="works once"):
        folder.put(outcome)


def test_of_many_who_decide_at_once_one_wins(tmp_path: Path) -> None:
    outcome = interrupted()
    token = outcome.pending[0].token
    ApprovalFolder(tmp_path).put(outcome)
    won: list[int] = []
    barrier = threading.Barrier(8)

    def decide(number: int) -> None:
        barrier.wait()
        try:
            ApprovalFolder(tmp_path).decide(token, Refuse(str(number)))
            won.append(number)
        except ConfigError:
            pass

    threads = [threading.Thread(target=decide, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert ApprovalFolder(tmp_path).decisions("waiting-run") == {token: Refuse(str(won[0]))}
    assert not list(tmp_path.glob("*.tmp"))


def test_an_approval_expires(tmp_path: Path) -> None:
    clock = FakeClock(NOON)
    outcome = interrupted(approval_ttl=60, clock=clock)
    folder = ApprovalFolder(tmp_path, clock=clock)
    folder.put(outcome)
    assert len(folder.pending()) == 1
    clock.advance(61)
    assert folder.pending() == ()
    assert folder.token_status(outcome.pending[0].token) == "expired"
    with pytest.raises(ConfigError, match="expired"):
        folder.decide(outcome.pending[0].token, Approve())


def test_a_token_of_nobody_is_refused(tmp_path: Path) -> None:
    folder = ApprovalFolder(tmp_path)
    folder.put(interrupted())
    for token in ("", "x", "../x", "\0"):
        with pytest.raises(ConfigError, match="no call waits"):
            folder.decide(token, Approve())


def test_a_run_that_cannot_be_read_is_reported_once_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = ApprovalFolder(tmp_path)
    folder.put(interrupted())
    (stored,) = tmp_path.glob("*.run.json")
    text = stored.read_text().replace('"pending"', '"waiting_now"')
    stored.write_text(text)
    (tmp_path / "torn.run.json").write_text('{"kind":"interr')
    for _ in range(2):
        assert folder.pending() == ()
    reports = [record.getMessage() for record in caplog.records]
    assert len(reports) == 2
    assert any(f"the waiting run in {stored} cannot be read" in report for report in reports)
    with pytest.raises(ConfigError, match="cannot be read"):
        folder.take(interrupted().run_id)
    assert stored.read_text() == text, "it is kept"
