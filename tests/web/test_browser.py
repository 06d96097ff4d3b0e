"""The pages in a real browser: what a person sees, and how quickly."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from typing_extensions import override

from tests.draws import IS_THOROUGH
from tests.testing.samples import refunds
from tests.trace.runs import run
from wesichain.agent import Agent, Approve, ApproveWith, Refuse
from wesichain.core import LlmRequest, LlmResponse, RunStarted, ToolCallingLlm
from wesichain.core.events import Decided
from wesichain.graph import Append, ExecutionOptions, GraphBuilder, Send
from wesichain.testing import simulate_sync
from wesichain.trace import Recorder

from .browser import Page
from .kit import TOKEN, interrupted, record, serving
from .site import Site, is_clean, shoot


def test_runs_are_opened_and_searched_with_the_keyboard_alone(page: Page, site: Site) -> None:
    site.open(page)
    page.wait_for("34 in the store")
    assert TOKEN not in page.evaluate("location.href")
    shoot(page, "runs")
    page.press("/")
    page.type("bergen")
    page.wait_for("1 found")
    assert page.evaluate("document.querySelectorAll('a.run').length") == 1
    page.press("Escape")
    page.press("j")
    page.evaluate("document.activeElement.click()")  # what Enter does on a link
    page.wait_for("fetch: no answer in 30 s")
    assert "undefined" not in page.text()
    for seen in (
        "I look at the timetable.",
        "ToolFailedError",
        "policy: fail",
        "812 → 40 tokens",
        "1.20 s",
        "cost",
    ):
        page.wait_for(seen)
    shoot(page, "failed-run")
    page.press("?")
    page.wait("document.querySelector('dialog.help').open")
    assert "mark the run as good or bad" in page.text("dialog.help")
    page.click("dialog.help button")
    page.wait("!document.querySelector('dialog.help').open")
    is_clean(page, site)


def test_pages_that_are_only_read(page: Page, site: Site) -> None:
    page.open(site.url)
    page.wait_for("Who is there?")
    page.click("#token")
    page.type(f"{site.url}/#token={TOKEN}")
    page.click("form button")
    page.wait_for("in the store")
    page.errors.clear()  # the 401 that was asked for
    page.evaluate("location.hash = '#/runs/graph-run'")
    page.wait_for("Path taken")
    labels = page.evaluate("[...document.querySelectorAll('.graph .label')].map(e => e.textContent)")
    assert labels == ["prepare", "model", "tools", "critic"]
    states = page.evaluate("[...document.querySelectorAll('.graph .node')].map(e => e.classList[1])")
    assert states == ["done", "done", "done", "failed"]
    assert page.evaluate("document.querySelectorAll('.graph .way').length") == 5
    assert page.evaluate("document.querySelectorAll('.item.depth-1').length") == 4
    starts = page.evaluate(
        "[...document.querySelectorAll('.lane .track')].map(e => e.getBoundingClientRect().x)"
    )
    assert len(set(starts)) == 1  # one scale for all, however deep
    shoot(page, "graph-run")
    page.evaluate("location.hash = '#/diff?a=paris'")
    page.wait("document.querySelector('#pick-b option[value=oslo]')")
    page.evaluate("document.getElementById('pick-b').value = 'oslo'")
    page.evaluate("document.getElementById('pick-b').dispatchEvent(new Event('change'))")
    page.wait_for("They part in step 1")
    assert page.text(".change .left") == "Paris"
    assert page.text(".change .right") == "Oslo"
    shoot(page, "diff")
    page.evaluate("location.hash = '#/stats'")
    page.wait_for("Learning curve")
    assert page.evaluate("document.querySelectorAll('.curve')[0].querySelectorAll('.dot').length") == 34
    assert "weather" in page.text(".figures")
    shoot(page, "stats")
    is_clean(page, site)


def test_a_simulated_violation_has_its_faults_on_the_timeline(page: Page, site: Site, tmp_path: Path) -> None:
    found = simulate_sync(refunds.scenario("refunds without a look"), seeds=range(15)).violations[0]
    found.save(tmp_path / "runs")
    site.open(page, f"#/runs/{found.recording.run_id}")
    page.wait_for(f"simulated fault: {found.faults[0].kind}")
    text = page.text()
    assert str(found.faults[0]) in text
    assert "Path taken" not in text, "an agent has no graph"
    assert "undefined" not in text
    shoot(page, "violation")
    is_clean(page, site)


class Backwards(ToolCallingLlm):
    """Answers the last question first: each answer waits for that to the next question."""

    def __init__(self, count: int) -> None:
        self.answered = [asyncio.Event() for _ in range(count)]

    @override
    async def complete(self, request: LlmRequest) -> LlmResponse:
        number = int(request.messages[-1].text)
        if number + 1 < len(self.answered):
            await self.answered[number + 1].wait()
        self.answered[number].set()
        return LlmResponse(f"answer {number}")


class Found(TypedDict):
    research: Annotated[list[str], Append]


def test_branches_of_a_node_are_told_apart(page: Page, site: Site) -> None:
    builder = GraphBuilder(Found).add_node("plan", lambda _: None).add_node("research", Agent(Backwards(3)))
    builder.add_conditional_edges(
        "plan", lambda _: [Send("research", str(n)) for n in range(3)], ["research"]
    )
    with Recorder(site.runs) as recorder:
        graph = builder.set_entry("plan").build(events=recorder)
        ended = asyncio.run(graph.invoke({}, ExecutionOptions(run_id="branches")))
    assert ended == {"research": ["answer 0", "answer 1", "answer 2"]}
    site.open(page, "#/runs/branches")
    names = ["plan", "research#0", "research#1", "research#2"]
    lanes = "[...document.querySelectorAll('.waterfall .lane')].filter(e => e.querySelector('.node'))"
    page.wait(f"{lanes}.length === 4")
    assert page.evaluate(f"{lanes}.map(e => e.querySelector('.what').textContent)") == names
    assert "…" not in page.evaluate(f"{lanes}.map(e => e.querySelector('.took').textContent)")
    rows = page.evaluate("[...document.querySelectorAll('.timeline .item')].map(e => e.textContent)")
    at = [next(place for place, row in enumerate(rows) if name in row) for name in names[1:]]
    for number, (first, end) in enumerate(zip(at, [*at[1:], len(rows)], strict=True)):
        assert "wrote research" in rows[first]
        said = [row for row in rows[first:end] if row.startswith("Step")]
        assert len(said) == 1
        assert f"answer {number}" in said[0]
    is_clean(page, site)


def test_a_run_is_followed_while_it_goes_on(page: Page, site: Site) -> None:
    now = time.time()
    events = [replace(event, at=now) for event in run("going-on", 2)]
    with Recorder(site.runs, durable=True) as recorder:
        for event in events[:4]:
            recorder.emit(event)
        site.open(page, "#/runs/going-on")
        page.wait_for("live", ".run-head")
        page.wait_for("running…")
        assert "I look at day 2." not in page.text()
        for event in events[4:8]:
            recorder.emit(event)
        page.wait_for("I look at day 2.")
        assert "live" in page.text(".run-head")
        for event in events[8:]:
            recorder.emit(event)
        page.wait_for("completed", ".run-head")
    assert page.evaluate("document.querySelectorAll('.item.step').length") == 3
    assert "running…" not in page.text()
    is_clean(page, site)


def test_a_call_is_approved_and_another_refused(page: Page, site: Site) -> None:
    first, second = interrupted("first"), interrupted("second", path="/srv/<b>other</b>.txt")
    site.approvals.put(first)
    site.open(page, "#/approvals")
    page.wait_for("/srv/report.txt")
    page.wait_for("1", "#nav")
    site.approvals.put(second)
    page.wait_for("<b>other</b>")  # without a reload
    shoot(page, "approvals")
    page.click(".approval:nth-child(1) button.approve")
    page.wait_for("Approved.")
    page.click(".approval:nth-child(2) input")
    page.type("keep it")
    page.click(".approval:nth-child(2) button.refuse")
    page.wait_for("Refused.")
    assert site.approvals.decisions("first") == {first.pending[0].token: Approve()}
    (refusal,) = site.approvals.decisions("second").values()
    assert getattr(refusal, "reason", None) == "keep it"
    is_clean(page, site)


def test_a_run_that_went_on_shows_what_was_decided(page: Page, site: Site) -> None:
    decisions = (
        Decided("t1", "pay", Approve()),
        Decided("t2", "pay", ApproveWith({"sum": 5})),
        Decided("t3", "<b>shout</b>", Refuse("too loud")),
    )
    first, *rest = run("decided", 1)
    again = RunStarted("decided", 0, first.seq, first.at, "", "scripted", resumed=True, decisions=decisions)
    record(site.runs, [first, again, *rest])
    site.open(page, "#/runs/decided")
    page.wait_for("Resumed")
    for line in ("Approved: pay", 'Approved: pay with {"sum":5}', "Refused: <b>shout</b> (too loud)"):
        page.wait_for(line)
    is_clean(page, site)


def test_the_playbook_is_read_and_rolled_back(page: Page, site: Site) -> None:
    site.open(page, "#/playbook")
    page.wait_for("Never guess a platform.")
    shoot(page, "playbook")
    page.click(".journal li:last-child .rollback")
    page.wait_for("Really go back to #1?")
    page.click(".journal li:last-child .rollback")
    page.wait("document.querySelectorAll('.bullet').length === 1")
    page.wait_for("rollback", ".journal")
    is_clean(page, site)


# --- speed ----------------------------------------------------------------------------------------

OPENED = """(async () => {{
  const start = performance.now();
  location.hash = {place!r};
  const times = [];
  for (const look of [{looks}]) {{
    while (!look()) await new Promise(requestAnimationFrame);
    times.push(performance.now() - start);
  }}
  return times;
}})()"""


def a_second() -> float:
    """Of a calm machine, in milliseconds: here two, and more where others keep the processors busy."""
    return 1000 * max(2.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def opened(page: Page, place: str, *looks: str) -> list[float]:
    """Milliseconds until each thing is seen, one after the other: the best of six, as others run too."""
    best: list[float] = []
    for _ in range(6):
        page.evaluate("location.hash = '#/approvals'")
        page.wait("document.querySelector('main').dataset.page === 'approvals'")
        times: list[float] = page.evaluate(OPENED.format(place=place, looks=", ".join(looks)))
        best = min(best or times, times, key=lambda each: each[-1])
        if best[-1] < a_second():
            break
    return best


LONG, MANY = (2_500, 10_000) if IS_THOROUGH else (600, 2_000)


@pytest.mark.sampled
def test_a_run_of_ten_thousand_events_opens_in_under_a_second(page: Page, tmp_path: Path) -> None:
    record(tmp_path, run("long", LONG))
    with serving(tmp_path) as url:
        Site(url, tmp_path).open(page)
        first = "() => document.querySelectorAll('.item.step .said').length > 20"
        whole = f"() => document.querySelector('[data-loaded=\"{4 * LONG + 4}\"]')"
        seen, loaded = opened(page, "#/runs/long", first, whole)
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.wait("document.querySelector('.item:last-child .card.end')")  # what is looked at is drawn
        page.wait("document.querySelectorAll('.item:empty').length === 0")  # and in time the rest
        assert page.evaluate("document.querySelectorAll('.item.step .card').length") == LONG + 1
        assert f"{LONG + 1:,}" in page.text(".facts")
    print(
        f"a run of {4 * LONG + 4} events: its beginning after {seen:.0f} ms, all of it after {loaded:.0f} ms"
    )
    assert loaded < a_second()


@pytest.mark.sampled
def test_a_store_of_ten_thousand_runs_opens_in_under_a_second(page: Page, tmp_path: Path) -> None:
    record(tmp_path, run("x", 1))
    template = next(tmp_path.iterdir())
    for number in range(MANY):
        (tmp_path / template.name.replace("Z-x", f"Z-x{number}")).hardlink_to(template)
    with serving(tmp_path) as url:
        page.open(f"{url}/#token={TOKEN}")
        page.wait("document.querySelectorAll('a.run').length === 50")
        (listed,) = opened(page, "#/", "() => document.querySelectorAll('a.run').length === 50")
        nothing = "() => document.querySelector('main').innerText.includes('Nothing matches.')"
        (searched,) = opened(page, "#/?search=nowhere", nothing)
    print(f"a store of {MANY + 1} runs: listed after {listed:.0f} ms, all searched after {searched:.0f} ms")
    assert max(listed, searched) < a_second()


def test_many_readers_follow_at_once(site: Site) -> None:
    """Streams hold no thread of the server while nothing happens."""
    events = run("shared", 1)
    with Recorder(site.runs, durable=True) as recorder:
        for event in events[:3]:
            recorder.emit(event)
        got: list[bytes] = []

        def read() -> None:
            asked = urllib.request.Request(
                f"{site.url}/api/runs/shared/events", headers={"authorization": f"Bearer {TOKEN}"}
            )
            with urllib.request.urlopen(asked, timeout=30) as answer:
                begun.release()
                got.append(answer.read())

        begun = threading.Semaphore(0)
        readers = [threading.Thread(target=read) for _ in range(60)]
        for reader in readers:
            reader.start()
        assert all(begun.acquire(timeout=30) for _ in readers)
        for event in events[3:]:
            recorder.emit(event)
        for reader in readers:
            reader.join(30)
    assert len(got) == 60
    assert {body.count(b'data: {"kind"') for body in got} == {len(events)}


def test_a_page_says_that_it_loads_while_it_does(page: Page, site: Site) -> None:
    """Every page, while the server takes its time: none of them is blank."""
    site.open(page)
    page.wait_for("34 in the store")
    page.evaluate(
        "window.late = []; const real = window.fetch; window.fetch = (...asked) => "
        "new Promise(resolve => window.late.push(() => resolve(real(...asked))))"
    )
    for name in ("stats", "", "approvals", "playbook", "diff", "runs/paris"):
        page.evaluate(f"location.hash = '#/{name}'")
        page.wait_for("Loading", "#main .loading")
        page.evaluate("window.late.splice(0).forEach(go => go())")
