"""The API: what each request gets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.trace.runs import NOON, run
from wesichain.agent import ApproveWith, Refuse
from wesichain.core.internal import to_plain
from wesichain.testing import FakeClock
from wesichain.web import ApprovalFolder, RunStore, create_app
from wesichain.web.run_store import follow

from .kit import HOST, TOKEN, graph_run, interrupted, playbook, record

# --- runs -----------------------------------------------------------------------------------------


def test_runs_are_listed_newest_first(client: TestClient) -> None:
    answer = client.get("/api/runs").json()
    assert [one["id"] for one in answer["runs"]] == ["oslo", "paris", "failed-run"]
    assert answer["total"] == 3
    first = answer["runs"][0]
    assert (first["run_id"], first["status"], first["steps"]) == ("oslo", "completed", 3)
    assert (first["user_input"], first["result"]) == ("How is the weather?", "Clear skies.")
    assert first["tokens"] == 110
    assert first["cost"] == pytest.approx((100 * 2.0 + 10 * 10.0) / 1e6)


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


def test_pages_of_the_list_follow_each_other(client: TestClient) -> None:
    seen: list[str] = []
    before: str | None = ""
    while before is not None:
        answer = client.get(f"/api/runs?limit=1&before={before}").json()
        seen += [one["id"] for one in answer["runs"]]
        before = answer["next"]
    assert sorted(seen) == ["failed-run", "oslo", "paris"]


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "limit=٣", "limit=1e3", "status=odd", "limit="]
)
def test_a_wrong_question_is_told(client: TestClient, query: str) -> None:
    answer = client.get(f"/api/runs?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_a_run_has_its_summary_and_events(client: TestClient, tmp_path: Path) -> None:
    answer = client.get("/api/runs/paris").json()
    assert answer["run"]["status"] == "completed"
    assert answer["events"] == [to_plain(event) for event in run("paris", 2, at=NOON)]
    assert answer["next"] is None
    assert answer["problems"] == []


def test_pages_of_a_run_follow_each_other(client: TestClient) -> None:
    whole = client.get("/api/runs/paris").json()["events"]
    seen: list[Any] = []
    cursor: int | None = 0
    while cursor is not None:
        answer = client.get(f"/api/runs/paris?limit=3&cursor={cursor}").json()
        assert len(answer["events"]) <= 3
        seen += answer["events"]
        cursor = answer["next"]
    assert seen == whole


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


def test_a_torn_line_is_told_and_the_rest_is_shown(client: TestClient, tmp_path: Path) -> None:
    path = next((tmp_path / "runs").glob("*paris.jsonl"))
    lines = path.read_bytes().split(b"\n")
    lines[3] = lines[3][:20]
    lines.insert(5, b'{"kind":"recording_dropped","events":7,"reason":"the disk is full"}')
    path.write_bytes(b"\n".join(lines))
    answer = client.get("/api/runs/paris").json()
    assert len(answer["events"]) == 11
    torn, dropped = answer["problems"]
    assert torn.startswith("21 bytes before byte ")
    assert dropped == "7 events were not recorded: the disk is full"
    assert client.get("/api/runs?tool=weather").json()["runs"], "the rest is counted"


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


def test_events_stream_from_where_the_reader_was(client: TestClient) -> None:
    answer = client.get("/api/runs/paris/events?after=8")
    assert answer.headers["content-type"].startswith("text/event-stream")
    parts = answer.text.split("\n\n")
    seqs = [json.loads(part.partition("data: ")[2])["seq"] for part in parts if part.startswith("id: ")]
    assert seqs == [9, 10, 11]
    assert parts[-2].startswith("event: end")


def test_two_runs_are_compared(client: TestClient) -> None:
    answer = client.get("/api/diff?a=paris&b=oslo").json()
    first = answer["differences"][0]
    assert first["step_id"] == 1
    assert first["changes"] == [
        {"path": "response.tool_calls[0].args.city", "left": "Paris", "right": "Oslo"}
    ]
    assert client.get("/api/diff?a=paris&b=paris").json()["total"] == 0
    assert client.get("/api/diff?a=paris").status_code == 404


def test_statistics_count_the_newest_runs(client: TestClient, tmp_path: Path) -> None:
    record(tmp_path / "runs", graph_run())
    stats = client.get("/api/stats").json()
    tools = {one["name"]: (one["count"], one["failures"]) for one in stats["tools"]}
    assert tools == {"weather": (5, 0), "fetch": (1, 1)}
    assert stats["runs"] == len(stats["curve"]) == 4
    assert stats["statuses"] == {"completed": 3, "failed": 1}
    assert stats["models"][0]["name"] == "scripted"
    assert stats["cost"] > 0
    assert {"name": "ToolFailedError", "count": 1} in stats["faults"]
    page = client.get("/api/runs/graph-run").json()
    own = max(event["step_id"] for event in page["events"] if not event.get("scope"))
    assert page["run"]["steps"] == own, "a list and a page count the same steps"


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


def test_a_domain_shows_bullets_stages_and_journal(client: TestClient) -> None:
    assert client.get("/api/playbook").json() == {"domains": ["travel"]}
    shown = client.get("/api/playbook/travel").json()
    bullets = {one["id"]: one for one in shown["bullets"]}
    assert bullets["trains"]["tool_sequence"] == ["timetable", "price"]
    assert (bullets["trains"]["helpful_count"], bullets["trains"]["harmful_count"]) == (7, 1)
    assert bullets["wasp"]["stage"] == "quarantined"
    assert sum(shown["stages"].values()) == 4
    assert [one["seq"] for one in shown["journal"]] == [4, 3, 2, 1]


def test_a_playbook_is_shown_and_rolled_back_without_its_embedder(tmp_path: Path) -> None:
    playbook(tmp_path / "book").close()
    app = create_app(tmp_path / "runs", playbook=tmp_path / "book", token=TOKEN, hosts=["h"])
    with TestClient(app, base_url="http://h", headers={"authorization": f"Bearer {TOKEN}"}) as client:
        assert len(client.get("/api/playbook/travel").json()["bullets"]) == 4
        assert client.post("/api/playbook/travel/rollback", json={"to": 1}).status_code == 200
        assert len(client.get("/api/playbook/travel").json()["bullets"]) == 1


def test_a_domain_is_rolled_back(client: TestClient) -> None:
    answer = client.post("/api/playbook/travel/rollback", json={"to": 1})
    assert answer.json()["delta"]["cause"] == "rollback"
    assert [one["id"] for one in client.get("/api/playbook/travel").json()["bullets"]] == ["trains"]


@pytest.mark.parametrize(
    ("domain", "body", "status"),
    [
        pytest.param("travel", {"to": 99}, 409, id="a-delta-that-is-not-there"),
        pytest.param("travel", {"to": "nothing"}, 409, id="a-hash-that-is-not-there"),
        pytest.param("travel", {}, 400, id="no-delta"),
        pytest.param("travel", {"to": True}, 400, id="a-truth-value"),
        pytest.param("other", {"to": 1}, 404, id="no-such-domain"),
        pytest.param("..%2fx", {"to": 1}, 404, id="a-way-elsewhere"),
    ],
)
def test_a_wrong_rollback_is_refused(client: TestClient, domain: str, body: Any, status: int) -> None:
    assert client.post(f"/api/playbook/{domain}/rollback", json=body).status_code == status


# --- approvals ------------------------------------------------------------------------------------


def test_a_waiting_call_is_shown_and_decided_once(client: TestClient, tmp_path: Path) -> None:
    folder = ApprovalFolder(tmp_path / "approvals")
    outcome = interrupted()
    folder.put(outcome)
    (item,) = client.get("/api/approvals").json()["approvals"]
    assert (item["tool"], item["args"], item["task"]) == (
        "delete", {"path": "/srv/report.txt"}, "Remove the old report",
    )  # fmt: skip
    path = f"/api/approvals/{item['token']}"
    assert client.post(path, json={"decision": "refuse", "reason": "keep it"}).status_code == 200
    assert client.post(path, json={"decision": "approve"}).status_code == 409
    assert client.get("/api/approvals").json() == {"approvals": []}
    assert folder.decisions("waiting-run") == {item["token"]: Refuse("keep it")}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param({"decision": "approve_with", "args": {"path": "b"}}, 200, id="other-arguments"),
        pytest.param({"decision": "approve_with"}, 400, id="other-arguments-without-any"),
        pytest.param({"decision": "approve", "args": {"path": "b"}}, 400, id="an-approval-with-arguments"),
        pytest.param({"decision": "yes"}, 400, id="another-word"),
        pytest.param({"decision": "refuse", "reason": 5}, 400, id="a-reason-that-is-no-text"),
        pytest.param({}, 400, id="nothing"),
    ],
)
def test_a_decision_is_one_of_three(client: TestClient, tmp_path: Path, body: Any, status: int) -> None:
    folder = ApprovalFolder(tmp_path / "approvals")
    outcome = interrupted()
    folder.put(outcome)
    token = outcome.pending[0].token
    assert client.post(f"/api/approvals/{token}", json=body).status_code == status
    decided = folder.decisions("waiting-run")
    assert decided == ({token: ApproveWith({"path": "b"})} if status == 200 else {})


def test_an_expired_approval_is_gone(client: TestClient, tmp_path: Path) -> None:
    outcome = interrupted(approval_ttl=60, clock=FakeClock(NOON))
    ApprovalFolder(tmp_path / "approvals").put(outcome)
    assert client.get("/api/approvals").json() == {"approvals": []}
    answer = client.post(f"/api/approvals/{outcome.pending[0].token}", json={"decision": "approve"})
    assert answer.status_code == 410


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
