"""The workbench over HTTP: an agent is talked to, runs are forked, cancelled, marked, filtered and exported."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.trace.runs import run
from wesichain.agent import Agent, Approve
from wesichain.durable import DurableRuns
from wesichain.testing import FunctionLlm, ScriptedLlm, calls
from wesichain.tools import tool
from wesichain.trace import list_runs
from wesichain.web import ApprovalFolder, Mark, Marks, create_app, stats
from wesichain.web.workbench import _event_lines

from .browser import until
from .kit import HOST, PRICES, TOKEN, interrupted, record

RAN: list[str] = []


@tool(approval=True, effect="once")
def erase(name: str) -> str:
    """Erase a file."""
    RAN.append(name)
    return f"erased {name}"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent(*replies: Any) -> Agent[Any]:
    return Agent(ScriptedLlm(list(replies)), tools=[erase, add], name="clerk")


def serve(folder: Path, program: Agent[Any] | None, **options: Any) -> TestClient:
    app = create_app(
        folder / "runs", agent=program, token=TOKEN, hosts=["127.0.0.1:8321"], prices=PRICES, **options
    )
    return TestClient(app, base_url=HOST, headers={"authorization": f"Bearer {TOKEN}"})


def status_of(client: Any, run_id: str) -> str:
    found = client.get(f"/api/runs/{run_id}").json()
    return str(found["run"]["status"]) if "run" in found else ""


ACTIONS = """/api/agent/runs /api/agent/runs/stream /api/agent/runs/paris/cancel /api/agent/runs/paris/decisions
/api/runs/paris/fork /api/runs/paris/mark /api/runs/paris/cancel /api/runs/paris/resume"""
SHOWN = f"""/api/info /api/agent/health /api/agent/openapi.json /api/agent/runs/d1/events /api/runs /api/runs/d1
/api/runs/paris/events /api/runs/paris/export /api/runs/paris/parts/{"a" * 64}"""


def test_every_action_is_guarded_and_nothing_is_shown_without_the_token(tmp_path: Path) -> None:
    record(tmp_path / "runs", run("paris", 2))
    database = DurableRuns(f"sqlite:///{tmp_path}/durable.db", create=True)
    with serve(tmp_path, agent("hi"), database=database) as client:
        for path in ACTIONS.split():
            assert client.post(path, json={}, headers={"authorization": "Bearer no"}).status_code == 401, path
            assert client.post(path, json={}, headers={"origin": "https://evil.example"}).status_code == 403
            assert client.post(path, json={}, headers={"host": "evil.example"}).status_code == 400
            assert client.post(path, content="task=x").status_code == 415
            assert client.get(path).status_code in (404, 405)
        for path in SHOWN.split():
            assert client.get(path, headers={"authorization": ""}).status_code == 401, path
            assert client.get(path, headers={"sec-fetch-site": "cross-site"}).status_code == 403
            is_missing = path.endswith(("d1", "runs/d1/events", "a" * 64))
            answer = client.get(path)
            assert answer.status_code == (404 if is_missing else 200), f"{path}: {answer.text}"


def test_a_part_is_a_hash_and_nothing_else(tmp_path: Path) -> None:
    record(tmp_path / "runs", run("paris", 2))
    (path,) = (tmp_path / "runs").glob("*.jsonl")
    path.with_suffix(".parts").mkdir()
    (path.with_suffix(".parts") / ("0" * 64)).write_bytes(b"bytes")
    with serve(tmp_path, None) as client:
        for digest in ("%2e%2e", "%2e%2e%2flabels.jsonl", "A" * 64, "0" * 63, "x"):
            assert client.get(f"/api/runs/paris/parts/{digest}").status_code == 404, digest
        found = client.get(f"/api/runs/paris/parts/{'0' * 64}")
        assert (found.content, found.headers["content-disposition"]) == (b"bytes", "attachment")
        assert found.headers["x-content-type-options"] == "nosniff"


def two_waiting(client: TestClient) -> tuple[str, dict[str, str]]:
    """A run that waits for decisions on two calls; its id, and the token of each file's name."""
    begun = client.post("/api/agent/runs", json={"task": "clean"})
    assert begun.status_code == 202, begun.text
    tokens = {item["call"]["args"]["name"]: item["token"] for item in begun.json()["pending"]}
    return begun.json()["run_id"], tokens


BOTH = calls(("erase", {"name": "x"}), ("erase", {"name": "y"}))


def test_calls_are_decided_one_by_one_and_a_wrong_decision_can_be_mended(tmp_path: Path) -> None:
    RAN.clear()
    with serve(tmp_path, agent(BOTH, "done"), approvals=tmp_path / "approvals") as client:
        run_id, tokens = two_waiting(client)
        paths = {name: f"/api/approvals/{token}" for name, token in tokens.items()}
        assert client.post(paths["x"], json={"decision": "approve"}).status_code == 200
        assert client.post(paths["x"], json={"decision": "refuse"}).status_code == 409  # once
        odd = {"decision": "approve_with", "args": {"name": ["no", "text"]}}
        answer = client.post(paths["y"], json=odd)
        assert (answer.status_code, "do not fit" in answer.json()["error"]) == (400, True)
        assert RAN == []
        assert len(client.get("/api/approvals").json()["approvals"]) == 1  # it waits as before
        assert client.post(paths["y"], json={"decision": "refuse"}).status_code == 200
        until(lambda: status_of(client, run_id) == "completed")
        assert client.post(paths["y"], json={"decision": "approve"}).status_code in (404, 409)
    assert RAN == ["x"]


def test_who_decides_over_the_api_is_bound_by_the_folder_of_approvals(tmp_path: Path) -> None:
    RAN.clear()
    with serve(tmp_path, agent(BOTH, "done"), approvals=tmp_path / "approvals") as client:
        run_id, tokens = two_waiting(client)
        client.post(f"/api/approvals/{tokens['x']}", json={"decision": "refuse", "reason": "keep"})
        path = f"/api/agent/runs/{run_id}/decisions"
        everything = {token: {"kind": "approve"} for token in tokens.values()}
        answer = client.post(path, json=everything)
        assert (answer.status_code, "otherwise" in answer.json()["error"]) == (409, True)
        agreed = {**everything, tokens["x"]: {"kind": "refuse", "reason": "keep"}}
        assert client.post(path, json=agreed).json()["output"] == "done"
        assert client.get("/api/approvals").json()["approvals"] == []
    assert RAN == ["y"]


def test_a_run_that_a_terminal_has_taken_is_not_resumed_again(tmp_path: Path) -> None:
    RAN.clear()
    with serve(tmp_path, agent(BOTH, "done"), approvals=tmp_path / "approvals") as client:
        run_id, tokens = two_waiting(client)
        assert ApprovalFolder(tmp_path / "approvals").take(run_id).run_id == run_id
        everything = {token: {"kind": "approve"} for token in tokens.values()}
        assert client.post(f"/api/agent/runs/{run_id}/decisions", json=everything).status_code == 409
    assert RAN == []


def test_a_run_of_another_program_is_decided_on_in_the_folder(tmp_path: Path) -> None:
    folder = ApprovalFolder(tmp_path / "approvals")
    outcome = interrupted()
    folder.put(outcome)
    with serve(tmp_path, agent("hi"), approvals=folder.path) as client:
        path = f"/api/approvals/{outcome.pending[0].token}"
        assert client.post(path, json={"decision": "approve"}).status_code == 200
        assert client.post(path, json={"decision": "approve"}).status_code == 409
    assert [*folder.decisions("waiting-run").values()] == [Approve()]


def test_a_waiting_run_that_is_cancelled_leaves_the_folder_of_approvals(tmp_path: Path) -> None:
    with serve(tmp_path, agent(BOTH, "done"), approvals=tmp_path / "approvals") as client:
        run_id, _ = two_waiting(client)
        assert client.post(f"/api/agent/runs/{run_id}/cancel", json={}).status_code == 200
        assert client.get("/api/approvals").json()["approvals"] == []


# --- marks ------------------------------------------------------------------------------------------


def test_a_mark_is_kept_for_the_learner_without_its_secrets(tmp_path: Path) -> None:
    record(tmp_path / "runs", run("paris", 1))
    labels = tmp_path / "runs" / "labels.jsonl"
    with serve(tmp_path, None) as client:
        mark = {"good": False, "why": "wrong city; password=hunter2secret"}
        assert client.post("/api/runs/paris/mark", json=mark).status_code == 200
        row = json.loads(labels.read_text(encoding="utf-8"))
    assert (row["run"], row["good"], "hunter2secret" in row["why"]) == ("paris", False, False)
    assert len(list_runs(tmp_path / "runs")) == 1  # the labels are no recording


def test_many_writers_of_marks_lose_none(tmp_path: Path) -> None:
    def write(number: int) -> None:
        marks = Marks(tmp_path / "labels.jsonl")
        for index in range(20):
            marks.put(Mark(f"run-{number}-{index}", good=True))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Marks(tmp_path / "labels.jsonl").all()) == 120


# --- filters and figures -----------------------------------------------------------------------------


def test_statistics_count_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_PATIENCE", 0.02)  # seconds, in which not all of them can be read
    record(tmp_path / "runs", run("x", 1))
    (template,) = (tmp_path / "runs").iterdir()
    for number in range(600):
        (tmp_path / "runs" / template.name.replace("Z-x", f"Z-x{number}")).hardlink_to(template)
    with serve(tmp_path, None) as client:
        counted = until(lambda: (figures := client.get("/api/stats").json())["counted"] == 601 and figures)
    assert counted["runs"] == 601
    assert counted["statuses"] == {"completed": 601}
    assert [(row["name"], row["count"]) for row in counted["tools"]] == [("weather", 601)]
    assert counted["models"][0]["count"] == 1_202


# --- what breaks --------------------------------------------------------------------------------------


def test_an_agent_that_breaks_does_not_break_the_server(tmp_path: Path) -> None:
    def instructions() -> str:
        raise RuntimeError("no instructions today")

    with serve(tmp_path, Agent(FunctionLlm(lambda _: "x"), instructions=instructions)) as client:
        answer = client.post("/api/agent/runs", json={"task": "x"})
        assert answer.status_code == 500, answer.text
        assert "instructions" not in answer.json()["error"]
        assert client.get("/api/runs").status_code == 200


async def test_events_of_a_database_that_cannot_be_read_end_with_the_problem(tmp_path: Path) -> None:
    database = DurableRuns(f"sqlite:///{tmp_path / 'none.db'}")
    frames = [frame async for frame in _event_lines(database, "r", 0)]
    assert frames[0].startswith(b'event: problem\ndata: {"error":"there is no database ')
    assert frames[1:] == [b"event: end\ndata: {}\n\n"]
