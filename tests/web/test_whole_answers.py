"""Every answer of the viewer, whole: of all routes, over recordings, an agent, and a database of durable runs.

They are in `whole_answers/` (see `tests/expected.py`).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests import expected
from tests.durable.databases import database_in
from tests.durable.test_agent import deleter
from tests.durable.test_whole_databases import steady
from tests.trace.runs import NOON, run
from wesichain import Agent
from wesichain.core import RunStarted
from wesichain.durable import DurableAgent, DurableRuns
from wesichain.errors import RunInterruptedError
from wesichain.testing import FakeClock, ScriptedLlm
from wesichain.web import ApprovalFolder, create_app
from wesichain.web.guard import SECURITY_HEADERS

from .kit import HOST, PRICES, TOKEN, failed_run, graph_run, interrupted, playbook, record
from .test_workbench import add, erase

FOLDER = Path(__file__).parent / "whole_answers"


@dataclass(frozen=True)
class Kind:
    """A viewer and the requests that it gets, one after the other; `{0}` is the first token that waits."""

    view: Callable[[Path], Any]
    asks: Sequence[str | tuple[str, Any]]
    headers: Mapping[str, str] = field(default_factory=lambda: {"authorization": f"Bearer {TOKEN}"})


def view(folder: Path, **options: Any) -> Any:
    given = {"token": TOKEN, "hosts": ["127.0.0.1:8321"], "prices": PRICES, **options}
    return create_app(folder / "runs", **given)


def recordings(folder: Path) -> Any:
    for events in (
        run("paris", 2, at=NOON),
        run("oslo", 1, at=NOON + 1, city="Oslo"),
        failed_run(),
        graph_run(),
    ):
        record(folder / "runs", events)
    return view(folder)


def with_playbook(folder: Path) -> Any:
    record(folder / "runs", run("paris", 1, at=NOON))
    return view(folder, playbook=playbook(folder / "playbook"))


def with_approvals(folder: Path) -> Any:
    record(folder / "runs", run("paris", 1, at=NOON))
    waiting = ApprovalFolder(folder / "approvals", clock=FakeClock(NOON))
    waiting.put(interrupted(clock=FakeClock(NOON)))
    return view(folder, approvals=folder / "approvals")


def with_agent(folder: Path) -> Any:
    record(folder / "runs", run("paris", 2, at=NOON))
    start, *rest = run("decided", 2)
    again = RunStarted("decided", 0, start.seq, start.at, "", "scripted", resumed=True)
    record(folder / "runs", [start, again, *rest])
    return view(
        folder, agent=Agent(ScriptedLlm(["hello"]), tools=[erase, add], name="clerk", clock=FakeClock(NOON))
    )


async def _runs_in(url: str) -> None:
    clock = FakeClock(NOON)
    durable = DurableAgent(deleter(tool_concurrency=1), "clerk", database_url=url, version="v1", clock=clock)
    async with durable:
        for run_id in ("d1", "d2"):
            with pytest.raises(RunInterruptedError):
                await durable.run("delete", run_id=run_id)
        await durable.enqueue("later", run_id="d3", delay=999.0)


def with_database(folder: Path) -> Any:
    record(folder / "runs", run("paris", 1, at=NOON))
    url = database_in(folder)
    asyncio.run(_runs_in(url))
    return view(folder, database=DurableRuns(url))


RUNS = "/api/runs"
KINDS: dict[str, Kind] = {
    "recordings": Kind(
        recordings,
        [
            "/api/info",
            RUNS,
            *(
                f"{RUNS}?{query}"
                for query in (
                    "limit=2",
                    "limit=2&after=20260101T000000.000000Z-x",
                    "limit=0",
                    "limit=1001",
                    "limit=x",
                    "limit=²",
                    "limit=11111111111111111",
                    "search=train",
                    "status=failed",
                    "status=odd",
                    "tool=fetch",
                    "least_cost=0.001",
                    "most_cost=0.001",
                    "least_cost=x",
                    "least_seconds=20",
                    "since=2000000000",
                    "until=1",
                    "mark=good",
                    "mark=odd",
                    "since=nan",
                    "until=-1",
                )
            ),
            f"{RUNS}/paris",
            f"{RUNS}/paris?limit=2",
            f"{RUNS}/paris?cursor=100000",
            f"{RUNS}/paris?cursor=-1",
            f"{RUNS}/pari",
            f"{RUNS}/nobody",
            f"{RUNS}/graph-run",
            f"{RUNS}/paris/events?after=3",
            f"{RUNS}/paris/events?after=-2",
            "/api/diff?a=paris&b=oslo",
            "/api/diff?a=paris&b=paris",
            "/api/diff?a=paris",
            (f"{RUNS}/paris/mark", {"good": True, "why": "fine"}),
            (f"{RUNS}/oslo/mark", {"good": False}),
            (f"{RUNS}/oslo/mark", {"good": "yes"}),
            (f"{RUNS}/oslo/mark", {"good": True, "why": 5}),
            (f"{RUNS}/..%2f..%2fetc/mark", {"good": True}),
            (f"{RUNS}/nobody/mark", {"good": True}),
            f"{RUNS}?mark=good",
            f"{RUNS}?mark=bad",
            (f"{RUNS}/oslo/mark", {"good": None}),
            f"{RUNS}?mark=bad",
            "/api/stats",
            f"{RUNS}?tool=fetch&least_cost=0.001",
            f"{RUNS}/paris/parts/x",
            f"{RUNS}/paris/parts/{'0' * 64}",
            (f"{RUNS}/paris/cancel", {}),
            (f"{RUNS}/paris/resume", {}),
            (f"{RUNS}/paris/fork", {"step": 1}),
            (f"{RUNS}/paris/fork", [1]),
            "/api/playbook",
            "/api/playbook/travel",
            "/api/approvals",
            ("/api/approvals/x", {"decision": "approve"}),
            ("/api/agent/runs", {"task": "x"}),
            "/nowhere",
            "/static/nowhere.js",
        ],
    ),
    "a-playbook": Kind(
        with_playbook,
        [
            "/api/playbook",
            "/api/playbook/travel",
            "/api/playbook/nowhere",
            "/api/playbook/a%20b",
            ("/api/playbook/travel/rollback", {}),
            ("/api/playbook/travel/rollback", {"to": 99}),
            ("/api/playbook/travel/rollback", {"to": "nothing"}),
            ("/api/playbook/travel/rollback", {"to": True}),
            ("/api/playbook/..%2fx/rollback", {"to": 1}),
            ("/api/playbook/travel/rollback", {"to": 2}),
            "/api/playbook/travel",
            ("/api/playbook/nowhere/rollback", {"to": 1}),
        ],
    ),
    "approvals": Kind(
        with_approvals,
        [
            "/api/approvals",
            ("/api/approvals/nobody", {"decision": "approve"}),
            ("/api/approvals/{0}", {"decision": "maybe"}),
            ("/api/approvals/{0}", {}),
            ("/api/approvals/{0}", {"decision": "approve", "args": {}}),
            ("/api/approvals/{0}", {"decision": "approve_with"}),
            ("/api/approvals/{0}", {"decision": "approve_with", "args": {"path": 5}}),
            ("/api/approvals/{0}", {"decision": "refuse", "reason": 5}),
            ("/api/approvals/{0}", {"decision": "provide", "value": 5}),
            ("/api/approvals/{0}", {"decision": "refuse", "reason": "no"}),
            ("/api/approvals/{0}", {"decision": "approve"}),
            "/api/approvals",
        ],
    ),
    "an-agent": Kind(
        with_agent,
        [
            "/api/info",
            ("/api/agent/runs", {"task": "hello", "run_id": "r"}),
            "/api/agent/runs/r/events",
            *(("/api/agent/runs", body) for body in ({}, {"task": "  "}, {"task": 5})),
            *((f"{RUNS}/paris/fork", {"step": step}) for step in ("1", True, 9, 1)),
            (f"{RUNS}/nobody/fork", {"step": 1}),
            (f"{RUNS}/decided/fork", {"step": 1}),
            ("/api/agent/runs/paris/cancel", {}),
            (f"{RUNS}/r/cancel", {}),
            RUNS,
        ],
    ),
    "a-database": Kind(
        with_database,
        [
            "/api/info",
            RUNS,
            f"{RUNS}?limit=2",
            f"{RUNS}?status=interrupted",
            f"{RUNS}?status=pending",
            f"{RUNS}?search=later",
            f"{RUNS}/d1",
            f"{RUNS}/d3",
            "/api/stats",
            "/api/approvals",
            ("/api/approvals/{0}", {"decision": "refuse", "reason": "no"}),
            ("/api/approvals/{0}", {"decision": "approve"}),
            (f"{RUNS}/d1/cancel", {}),
            (f"{RUNS}/d1/cancel", {}),
            (f"{RUNS}/d1/cancel", [1]),
            (f"{RUNS}/d1/resume", [1]),
            (f"{RUNS}/d1/resume", {}),
            (f"{RUNS}/d3/resume", {}),
            (f"{RUNS}/d3/fork", {"step": 1}),
            (f"{RUNS}/d2/mark", {"good": True, "why": "fine"}),
            f"{RUNS}?mark=good",
            f"{RUNS}/d1/parts/{'0' * 64}",
            "/api/diff?a=d1&b=d2",
        ],
    ),
    "strangers": Kind(recordings, [RUNS, "/", "/api/info", ("/api/approvals/x", {})], {}),
}


def answers(kind: Kind, folder: Path) -> list[str]:
    lines: list[str] = []
    with client_of(kind, folder) as client:
        tokens = [one["token"] for one in client.get("/api/approvals").json().get("approvals", ())]
        for ask in kind.asks:
            path, body = (ask, None) if isinstance(ask, str) else ask
            lines.append(path if body is None else f"{path} {json.dumps(body)}")
            for number, token in enumerate(tokens):
                path = path.replace(f"{{{number}}}", token)
            got = client.get(path) if body is None else client.post(path, json=body)
            lines.append(f"= {got.status_code} {shown(got.headers)}")
            is_page = "html" in got.headers.get("content-type", "")
            lines += ["  ..."] if is_page else [f"  {line}" for line in got.text.split("\n") if line]
    return [
        steady(_TOOK.sub(r"\1 0", _VARIES.sub("", line.replace(str(folder), "FOLDER")))) for line in lines
    ]


_VARIES = re.compile(r'"(size|hash|parent|etag)": ?("[0-9a-f]{32}"|\d+|"[^ ]+"),')
_TOOK = re.compile(r'("stored":true,[^{}]*?"duration":)[\d.]+')  # of a durable run, by the database's clock


@contextmanager
def client_of(kind: Kind, folder: Path) -> Iterator[TestClient]:
    with TestClient(kind.view(folder), base_url=HOST, headers=dict(kind.headers)) as client:
        yield client


def shown(headers: Mapping[str, str]) -> str:
    is_guarded = headers.items() >= SECURITY_HEADERS.items()
    left = (*SECURITY_HEADERS, "content-length")
    return f"{'guarded' if is_guarded else 'NOT GUARDED'} {json.dumps({k: headers[k] for k in headers if k not in left})}"


@pytest.mark.parametrize("name", KINDS)
def test_the_answers_of_each_kind_are_as_they_were(name: str, tmp_path: Path) -> None:
    expected.check(FOLDER / f"{name}.txt", answers(KINDS[name], tmp_path))


def test_no_answer_is_left_over() -> None:
    expected.check_names(FOLDER, KINDS)
