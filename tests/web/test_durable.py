"""Durable runs in the viewer: a real database, over HTTP and in a real browser."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.durable.databases import database_in
from tests.trace.runs import NOON
from wesichain.agent import Agent
from wesichain.core import LlmRequest, LlmResponse, Role, Usage
from wesichain.durable import DurableAgent, DurableRuns
from wesichain.errors import RunFailedError, RunInterruptedError
from wesichain.policy import Budget
from wesichain.testing import FakeClock, FunctionLlm, calls
from wesichain.tools import CancellationToken, ToolContext, tool
from wesichain.trace import Recorder
from wesichain.web import create_app
from wesichain.web.all_runs import AllRuns
from wesichain.web.run_store import RunStore

from .browser import Page, until
from .kit import HOST, TOKEN, serving
from .site import Site, is_clean, shoot


def turns(*replies: Any) -> FunctionLlm:
    def reply(request: LlmRequest) -> Any:
        return replies[sum(message.role is Role.ASSISTANT for message in request.messages)]

    return FunctionLlm(reply)


class Office:
    """A boss with a clerk who erases and asks; what was erased is told."""

    def __init__(self, folder: Path) -> None:
        self.url = database_in(folder, "durable.db")
        self.erased: list[str] = []

    def agent(self) -> Agent[str]:
        @tool(approval=True, effect="once")
        def erase(name: str, ctx: ToolContext) -> str:
            """Erase a file."""
            self.erased.append(name)
            return f"erased {name}"

        @tool(external=True)
        def ask_the_bank(amount: int) -> str:
            """Ask the bank."""
            raise AssertionError(amount)

        replies = (calls(("erase", {"name": "x"}), ("ask_the_bank", {"amount": 3})), "tidy")
        clerk = Agent(turns(*replies), tools=[erase, ask_the_bank], name="clerk")
        return Agent(turns(calls(("clerk", {"task": "tidy"})), "all done"), tools=[clerk.as_tool()])

    async def begin(self) -> None:
        """One run that failed, with a secret in the reason, and one that waits for two answers."""
        broken = Agent(FunctionLlm(lambda _: ValueError("api_key=sk-live-abcdefghijklmnop1234")))
        async with (
            DurableAgent(broken, "broken", database_url=self.url) as one,
            DurableAgent(self.agent(), "boss", database_url=self.url) as two,
        ):
            with pytest.raises(RunFailedError):
                await one.run("hi", run_id="d1")
            with pytest.raises(RunInterruptedError):
                await two.run("go", run_id="d2")

    async def finish(self) -> str:
        async with DurableAgent(self.agent(), "boss", database_url=self.url) as durable:
            return str((await durable.resume("d2")).output)


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("office")
    asyncio.run(Office(folder).begin())
    return folder


@pytest.fixture
def office(begun: Path, tmp_path: Path) -> Office:
    copytree(begun, tmp_path, dirs_exist_ok=True)
    return Office(tmp_path)


@contextmanager
def viewer(folder: Path, url: str) -> Iterator[TestClient]:
    app = create_app(folder / "runs", token=TOKEN, hosts=["127.0.0.1:8321"], database=DurableRuns(url))
    with TestClient(app, base_url=HOST, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        yield client


# --- recorded and durable runs as one ----------------------------------------------------------------


class Mixture:
    """Recordings and durable runs that began one after the other; one durable run has a recording, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = database_in(folder, "durable.db")

    async def fill(self, number: int) -> None:
        @tool
        def weigh(thing: str) -> str:
            """Weigh a thing."""
            return "3 kg"

        answer = LlmResponse("It weighs 3 kg.", usage=Usage(500_000, 0))
        budget = Budget(prices={"function": (2.0, 0.0)})
        agent = Agent(turns(calls(("weigh", {"thing": "a cat"})), answer), tools=[weigh], budget=budget)
        recorder = Recorder(self.folder / "runs")
        async with DurableAgent(agent, "scales", database_url=self.url, events=[recorder]) as recorded:
            await recorded.run("Weigh the dog", run_id="both")
        async with DurableAgent(agent, "scales", database_url=self.url) as durable:
            for index in range(number):
                await durable.run(f"Weigh cat {index}", run_id=f"stored-{index}")
                await agent.run(f"Look at cat {index}", run_id=f"recorded-{index}", events=recorder)
                await asyncio.sleep(0.002)  # durable runs have the millisecond in which they began
        recorder.close()

    @property
    def names(self) -> list[str]:
        pairs = [(f"recorded-{index}", f"stored-{index}") for index in reversed(range(4))]
        return [name for pair in pairs for name in pair] + ["both"]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    asyncio.run(Mixture(folder).fill(4))
    return folder


@pytest.fixture
def mixture(mixed: Path, tmp_path: Path) -> Mixture:
    copytree(mixed, tmp_path, dirs_exist_ok=True)
    return Mixture(tmp_path)


def test_recorded_and_durable_runs_are_one_list_in_pages(mixture: Mixture, tmp_path: Path) -> None:
    with viewer(tmp_path, mixture.url) as client:
        for size in (1, 3, 50):
            names: list[str] = []
            following: str | None = ""
            while following is not None:
                page = client.get(f"/api/runs?limit={size}&after={following}").json()
                names += [row["run_id"] for row in page["runs"]]
                assert len(page["runs"]) == size or page["next"] is None
                following = page["next"]
            assert names == mixture.names, "each once, the newest first; what has a recording too is one run"


FOUND = {
    "search=cat+2": ["recorded-2", "stored-2"],
    "search=STORED": [f"stored-{n}" for n in (3, 2, 1, 0)],
    "search=scales": [*(f"stored-{n}" for n in (3, 2, 1, 0)), "both"],
    "search=dog&tool=weigh": ["both"],
    "tool=other": [],
    "status=completed&search=cat+2": ["recorded-2", "stored-2"],
    "status=pending": [],
    "status=unfinished": [],
    "until=1000": [],
    "since=1000&search=dog": ["both"],
    "least_cost=1.5": [],
    "least_cost=0.5&most_cost=1&search=cat+2": ["recorded-2", "stored-2"],
    "least_seconds=3600": [],
    "mark=good": ["stored-1"],
    "mark=none&search=cat+1": ["recorded-1"],
}


def test_filters_hold_for_both(mixture: Mixture, tmp_path: Path) -> None:
    with viewer(tmp_path, mixture.url) as client:
        assert client.post("/api/runs/stored-1/mark", json={"good": True, "why": "light"}).status_code == 200
        for query, found in FOUND.items():
            rows = client.get(f"/api/runs?{query}").json()["runs"]
            assert [row["run_id"] for row in rows] == found, query


def test_durable_runs_are_counted_compared_exported_and_forked(mixture: Mixture, tmp_path: Path) -> None:
    with viewer(tmp_path, mixture.url) as client:
        stats = client.get("/api/stats").json()
        assert (stats["statuses"], stats["durable"]) == ({"completed": 9}, 5)
        assert stats["cost"] == 9.0, "each run is counted once"
        assert [row["run_id"] for row in stats["curve"]] == mixture.names[::-1]
        same = client.get("/api/diff?a=stored-1&b=stored-1").json()
        assert (same["total"], same["a"]["stored"]) == (0, True)
        assert client.get("/api/diff?a=stored-1&b=recorded-1").json()["total"] > 0
        assert "Weigh cat 1" in client.get("/api/runs/stored-1/export").text
    model = turns(calls(("weigh", {"thing": "a cat"})), "It weighs a lot.")

    @tool
    def weigh(thing: str) -> str:
        """Weigh a thing."""
        return "5 kg"

    app = create_app(
        tmp_path / "runs",
        token=TOKEN,
        hosts=["127.0.0.1:8321"],
        database=DurableRuns(mixture.url),
        agent=Agent(model, tools=[weigh]),
    )
    with TestClient(app, base_url=HOST, headers={"authorization": f"Bearer {TOKEN}"}) as client:
        forked = client.post("/api/runs/stored-1/fork", json={"step": 2})
        assert forked.status_code == 201, forked.text
        path = f"/api/runs/{forked.json()['run_id']}"
        until(lambda: client.get(path).json()["run"]["status"] == "completed", what="the fork")
        assert client.get(path).json()["run"]["result"] == "It weighs a lot."


def test_a_database_that_is_gone_is_named(mixture: Mixture, tmp_path: Path) -> None:
    with viewer(tmp_path, f"sqlite:///{tmp_path}/mistyped.db") as client:
        gone = client.get("/api/runs")
        assert (gone.status_code, "no database" in gone.json()["error"]) == (502, True)
    assert not (tmp_path / "mistyped.db").exists()


def test_a_decision_of_a_wrong_shape_is_a_bad_request_and_one_too_late_a_conflict(
    office: Office, tmp_path: Path
) -> None:
    with viewer(tmp_path, office.url) as client:
        waiting = {one["tool"]: one["token"] for one in client.get("/api/approvals").json()["approvals"]}
        erase = f"/api/approvals/{waiting['erase']}"
        for wrong in (
            {"decision": "approve_with", "args": {"name": 5}},
            {"decision": "provide", "value": "erased"},
            {"decision": "perhaps"},
        ):
            answer = client.post(erase, json=wrong)
            assert (answer.status_code, len(answer.json()["error"]) > 10) == (400, True), answer.text
        assert client.post(erase, json={"decision": "approve"}).status_code == 200
        again = client.post(erase, json={"decision": "approve"})
        assert (again.status_code, again.json()) == (409, {"error": "this call was decided already"})
        assert client.post("/api/approvals/x", json={"decision": "approve"}).status_code == 404


async def test_a_decision_on_a_durable_run_whose_approval_has_expired_is_a_conflict(tmp_path: Path) -> None:
    @tool(approval=True)
    def erase() -> str:
        """Erase."""
        raise AssertionError

    agent, url = Agent(turns(calls(("erase", {}))), tools=[erase], approval_ttl=60), database_in(tmp_path)
    async with DurableAgent(agent, "a", database_url=url, clock=FakeClock(NOON)) as durable:
        with pytest.raises(RunInterruptedError):
            await durable.run("go", run_id="r")
        (waiting,) = await durable.pending()
    with viewer(tmp_path, url) as client:
        answer = client.post(f"/api/approvals/{waiting.token}", json={"decision": "approve"})
    assert (answer.status_code, "expired" in answer.json()["error"]) == (409, True)


def test_durable_runs_are_listed_followed_and_decided_on_in_the_page(
    page: Page, office: Office, tmp_path: Path
) -> None:
    (tmp_path / "runs").mkdir()
    database = DurableRuns(office.url)
    with serving(tmp_path / "runs", database=database, approvals=tmp_path / "approvals") as url:
        site = Site(url, tmp_path)
        site.open(page, "#/")
        page.wait_for("inside d2")
        shoot(page, "durable")
        page.evaluate("location.hash = '#/approvals'")
        page.wait_for("erase")
        page.wait_for("agent")
        page.evaluate("location.hash = '#/runs/d2'")
        page.wait_for("interrupted", ".run-head")
        page.click(".approval > .decide button.approve")
        page.wait_for("ask_the_bank", ".approvals")
        page.click(".approval .answer textarea")
        page.type('"granted"')
        page.click(".approval .answer button.approve")
        page.wait_for("pending", ".run-head")
        is_clean(page, site)
    assert asyncio.run(office.finish()) == "all done"
    assert office.erased == ["x"]


class Ferry:
    """A run whose tool is begun once and waits until it is let go, in a worker on a thread."""

    def __init__(self, folder: Path) -> None:
        self.url = database_in(folder, "ferry.db")
        self.begun = threading.Event()
        self.go = threading.Event()
        self.stopped = threading.Event()
        self.crossed = 0

    def durable(self) -> DurableAgent[str]:
        @tool(effect="pure")
        async def cross() -> str:
            """Cross the river."""
            self.begun.set()
            try:
                while not self.go.is_set():
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            self.crossed += 1
            return "over"

        agent = Agent(turns(calls(("cross", {})), "on the other side"), tools=[cross], name="ferry")
        return DurableAgent(agent, "ferry", database_url=self.url)

    def enqueue(self, *run_ids: str) -> None:
        async def enqueue() -> None:
            async with self.durable() as durable:
                for run_id in run_ids:
                    await durable.enqueue("go", run_id=run_id)

        asyncio.run(enqueue())

    def status(self, run_id: str) -> str:
        async def status() -> str:
            async with DurableRuns(self.url) as runs:
                return str(await runs.status(run_id))

        return asyncio.run(status())

    @contextmanager
    def working(self) -> Iterator[None]:
        stop = CancellationToken()

        async def work() -> None:
            async with self.durable() as durable:
                await durable.serve(stop)

        thread = threading.Thread(target=lambda: asyncio.run(work()))
        thread.start()
        try:
            yield
        finally:
            self.go.set()
            stop.cancel("enough")
            thread.join(60)


def test_a_run_that_a_worker_took_up_meanwhile_is_shown_as_it_stands(tmp_path: Path) -> None:
    ferry = Ferry(tmp_path)
    ferry.enqueue("crossing")

    async def look() -> dict[str, Any]:
        async with DurableRuns(ferry.url) as database:
            before = await database.show("crossing")
            assert before.status == "pending"
            with ferry.working():
                await asyncio.to_thread(ferry.begun.wait, 60)
                page: dict[str, Any] = json.loads(
                    await AllRuns(RunStore(tmp_path / "runs"), database).page(before)
                )
        return page

    page = asyncio.run(look())
    assert page["run"]["status"] == "running"
    assert "step_started" in [event["kind"] for event in page["events"]]


def test_a_durable_run_is_cancelled_and_resumed_over_http(office: Office, tmp_path: Path) -> None:
    with viewer(tmp_path, office.url) as client:
        assert "abcdefghijklmnop1234" not in client.get("/api/runs").text, "the secret in a reason"
        waits = client.post("/api/runs/d2/resume", json={})
        assert (waits.status_code, "decide on its calls" in waits.json()["error"]) == (409, True)
        assert client.post("/api/runs/d2/cancel", json={}).json()["run"]["status"] == "cancelled"
        assert client.get("/api/approvals").json()["approvals"] == []
        assert client.post("/api/runs/d2/resume", json={}).json()["run"]["status"] == "interrupted"
        assert len(client.get("/api/approvals").json()["approvals"]) == 2, "it waits for them again"
        for verb, said in (("cancel", "it is failed"), ("resume", "nothing to resume")):
            ended = client.post(f"/api/runs/d1/{verb}", json={})
            assert (ended.status_code, said in ended.json()["error"]) == (409, True)
            inside = client.post(f"/api/runs/d2:1:clerk-0/{verb}", json={})
            assert (inside.status_code, "use that id" in inside.json()["error"]) == (409, True)
            assert client.post(f"/api/runs/d9/{verb}", json={}).status_code == 404
        assert client.get("/api/runs/d1").json()["run"]["status"] == "failed"


def test_a_durable_run_is_cancelled_and_resumed_in_the_page(page: Page, tmp_path: Path) -> None:
    ferry = Ferry(tmp_path)
    ferry.enqueue("queued", "crossing")
    (tmp_path / "runs").mkdir()
    with serving(tmp_path / "runs", database=DurableRuns(ferry.url)) as url:
        site = Site(url, tmp_path)
        site.open(page, "#/runs/queued")
        page.wait_for("pending", ".run-head")
        page.click("button.cancel")
        page.wait_for("cancelled", ".run-head")
        assert ferry.status("queued") == "cancelled"
        with ferry.working():
            page.evaluate("location.hash = '#/runs/crossing'")
            until(ferry.begun.is_set, what="the tool")
            # It is live once an event has come since the page was opened; until then it is as it was stored.
            page.wait("/live|running/.test(document.querySelector('.run-head')?.innerText ?? '')")
            page.click("button.cancel")
            page.wait_for("cancelled", ".run-head")
            until(lambda: ferry.status("crossing") == "cancelled", what="the run's end")
            until(ferry.stopped.is_set, what="its worker, which hears of it later")
            shoot(page, "durable-cancelled")
            ferry.go.set()
            for run_id in ("crossing", "queued"):
                page.evaluate(f"location.hash = '#/runs/{run_id}'")
                page.wait_for(run_id, ".run-head")
                page.click("button.resume")
                page.wait_for("completed", ".run-head")
                page.wait_for("on the other side")
            assert page.evaluate(
                "[...document.querySelectorAll('button.cancel, button.resume')].every(one => one.hidden)"
            )
        is_clean(page, site)
    assert ferry.crossed == 2
    assert [ferry.status(run_id) for run_id in ("queued", "crossing")] == ["completed", "completed"]
