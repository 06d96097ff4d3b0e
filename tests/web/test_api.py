"""The API: what each request gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.trace.runs import NOON, run
from wesichain.testing import FakeClock
from wesichain.web import ApprovalFolder, create_app
from wesichain.web.internal import RunStore
from wesichain.web.run_store import follow

from .kit import HOST, TOKEN, interrupted, playbook, record

# --- runs -----------------------------------------------------------------------------------------


def test_what_happens_to_the_files_is_seen_at_once(client: TestClient, tmp_path: Path) -> None:
    """Summaries are kept from list to list: a new run, one that goes on and one that is gone show up."""

    def found(search: str) -> list[tuple[str, str]]:
        return [(one["id"], one["status"]) for one in client.get(f"/api/runs?search={search}").json()["runs"]]

    assert found("rome") == []
    events = run("rome", 1, city="Rome")
    record(tmp_path / "runs", events[:-1])
    assert found("rome") == [("rome", "live")]
    record(tmp_path / "runs", events[-1:])
    assert found("rome") == [("rome", "completed")]
    next((tmp_path / "runs").glob("*rome*")).unlink()
    assert found("rome") == []
    assert client.get("/api/runs/rome").status_code == 404


def test_a_run_whose_id_is_no_word_is_reached_by_its_file(client: TestClient, tmp_path: Path) -> None:
    odd = "../<b>odd</b>"
    record(tmp_path / "runs", run(odd, 1, at=NOON + 9))
    first = client.get("/api/runs").json()["runs"][0]
    assert first["run_id"] == odd
    assert client.get(f"/api/runs/{first['id']}").json()["run"]["run_id"] == odd


def test_an_older_recording_of_the_same_id_is_reached_too(client: TestClient, tmp_path: Path) -> None:
    record(tmp_path / "runs", run("paris", 1, at=NOON + 50))
    ids = [one["id"] for one in client.get("/api/runs?search=paris").json()["runs"]]
    assert ids[0] == "paris"
    assert ids[1].endswith("Z-paris")
    lengths = [len(client.get(f"/api/runs/{each}").json()["events"]) for each in ids]
    assert lengths == [8, 12]


async def test_a_reader_of_a_silent_run_is_kept_and_told_when_its_file_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wesichain.web.run_store._PING", 0.2)
    record(tmp_path, run("rome", 1)[:-1])
    store = RunStore(tmp_path)
    (summary,) = store.runs()
    stream = follow(summary.path)
    assert (await anext(stream)).startswith(b"id: 0\ndata: ")
    assert await anext(stream) == b": still here\n\n"
    assert store.status(summary) == "live"
    summary.path.unlink()
    assert [frame async for frame in stream] == [b"event: gone\ndata: {}\n\n"]
    assert store.status(summary) == "unfinished"
    assert store.digests.of(summary.path, 1) is None


def test_an_empty_store_is_no_error(tmp_path: Path) -> None:
    app = create_app(tmp_path / "none", playbook=tmp_path / "book", token=TOKEN, hosts=["h"])
    with TestClient(app, base_url="http://h", headers={"authorization": f"Bearer {TOKEN}"}) as client:
        assert client.get("/api/runs").json() == {"runs": [], "next": None, "total": 0}
        assert client.get("/api/stats").json()["curve"] == []
        assert client.get("/api/playbook").json() == {"domains": []}
        assert client.get("/api/playbook/travel").status_code == 404
        assert client.get("/api/approvals").json() == {"approvals": []}
        assert client.post("/api/approvals/x", json={"decision": "approve"}).status_code == 404
    assert list(tmp_path.iterdir()) == []


# --- the playbook ---------------------------------------------------------------------------------


def test_a_playbook_is_shown_and_rolled_back_without_its_embedder(tmp_path: Path) -> None:
    playbook(tmp_path / "book").close()
    app = create_app(tmp_path / "runs", playbook=tmp_path / "book", token=TOKEN, hosts=["h"])
    with TestClient(app, base_url="http://h", headers={"authorization": f"Bearer {TOKEN}"}) as client:
        assert len(client.get("/api/playbook/travel").json()["bullets"]) == 4
        assert client.post("/api/playbook/travel/rollback", json={"to": 1}).status_code == 200
        assert len(client.get("/api/playbook/travel").json()["bullets"]) == 1


# --- approvals ------------------------------------------------------------------------------------


def test_a_decision_after_the_approval_has_expired_is_a_conflict(client: TestClient, tmp_path: Path) -> None:
    outcome = interrupted(approval_ttl=60, clock=FakeClock(NOON))
    ApprovalFolder(tmp_path / "approvals").put(outcome)
    assert client.get("/api/approvals").json() == {"approvals": []}
    answer = client.post(f"/api/approvals/{outcome.pending[0].token}", json={"decision": "approve"})
    assert (answer.status_code, "expired" in answer.json()["error"]) == (409, True)


def test_secrets_in_waiting_arguments_are_not_shown(client: TestClient, tmp_path: Path) -> None:
    secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    ApprovalFolder(tmp_path / "approvals").put(interrupted(path=f"/srv?key={secret}"))
    answer = client.get("/api/approvals")
    assert secret not in answer.text
    assert answer.json()["approvals"][0]["is_redacted"] is True


# --- bugs -----------------------------------------------------------------------------------------


def test_a_bug_is_logged_and_not_shown(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr("wesichain.web.run_store.list_runs", broken)
    app: Any = client.app
    with TestClient(
        app, base_url=HOST, headers=dict(client.headers), raise_server_exceptions=False
    ) as careful:
        answer = careful.get("/api/runs")
    assert answer.status_code == 500
    assert "canary" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
