"""The workbench in a real browser: each action as a person does it, with the mouse or the keyboard."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
import zlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.trace.runs import run
from wesichain.agent import Agent
from wesichain.core import (
    Image,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunStarted,
    StepStarted,
    Text,
    TextChunk,
    ToolCall,
    ToolCompleted,
    Usage,
)
from wesichain.tools import tool
from wesichain.trace import find_run, list_runs, load
from wesichain.web import ApprovalFolder, export_html

from .browser import Page, until
from .kit import PRICES, record, serving
from .site import Site, is_clean, shoot

RAN: list[str] = []

ANSWER = """Here is the **plan**:

1. Ask for the `timetable`
2. Compare the prices

| city | price |
|------|-------|
| Oslo | 24 |

```python
print("two trains")
```

See [the timetable](https://example.org/trains)."""


class Typist:
    """A model that writes piece by piece, and waits in the middle until it is let go on."""

    model = "typist"

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.replies: list[Any] = []
        self.asked: list[int] = []  # the number of messages of each request

    async def complete(self, request: Any) -> LlmResponse:
        raise AssertionError("the page streams")

    async def stream(self, request: Any) -> AsyncIterator[TextChunk | LlmResponse]:
        self.asked.append(len(request.messages))
        reply = self.replies.pop(0)
        if isinstance(reply, str):
            half = len(reply) // 2
            yield TextChunk(reply[:half])
            while not self.go.is_set():
                await asyncio.sleep(0.01)
            yield TextChunk(reply[half:])
            yield LlmResponse(reply, usage=Usage(120, 30))
        else:
            yield LlmResponse("I use a tool.", (reply,), Usage(100, 10), "tool_calls")


@tool(approval=True, effect="once")
def erase(name: str) -> str:
    """Erase a file."""
    RAN.append(name)
    return f"erased {name}"


@tool(external=True)
def ask_a_person(question: str) -> str:
    """Ask a person."""
    raise AssertionError(question)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Bench(Site):
    """A site with an agent."""

    def __init__(self, url: str, folder: Path, model: Typist) -> None:
        super().__init__(url, folder)
        self.model = model


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    RAN.clear()
    model = Typist()
    agent = Agent(model, tools=[erase, add, ask_a_person], name="clerk", description="Keeps the office tidy.")
    options: dict[str, Any] = {
        "approvals": tmp_path / "approvals",
        "prices": {**PRICES, "typist": (2.0, 10.0)},
    }
    (tmp_path / "runs").mkdir()
    with serving(tmp_path / "runs", agent=agent, **options) as url:
        yield Bench(url, tmp_path, model)
        model.go.set()


def ask(page: Page, task: str) -> None:
    page.click("#task")
    page.type(task)
    page.press("Enter")


def test_an_agent_is_talked_to_and_its_text_comes_as_it_is_written(page: Page, bench: Bench) -> None:
    bench.model.replies = [ANSWER, "Tuesday, as **before**."]
    bench.model.go.clear()
    bench.open(page)
    page.wait("!document.querySelector('#nav a[href=\"#/talk\"]').hidden")
    page.press("g")
    page.press("t")
    page.wait_for("Keeps the office tidy.")
    ask(page, "When do we go to Oslo?")
    page.wait_for("Here is the **plan**", ".turn .live")  # while it is written, it is text
    assert "two trains" not in page.text(".turn")
    bench.model.go.set()
    page.wait("document.querySelector('.turn > .said .markdown strong')?.textContent === 'plan'")
    assert page.evaluate("document.querySelectorAll('.turn > .said .markdown li').length") == 2
    assert page.evaluate("document.querySelector('.turn > .said .markdown td').textContent") == "Oslo"
    shoot(page, "talk")
    ask(page, "And again?")
    page.wait("document.querySelectorAll('.turn > .said .markdown').length === 2")
    assert bench.model.asked == [1, 3], "the second run has the first question and its answer"
    is_clean(page, bench)
    recorded = list_runs(bench.runs)
    assert len(recorded) == 2
    assert b"text_delta" not in b"".join(summary.path.read_bytes() for summary in recorded)


def test_calls_are_decided_on_in_the_conversation_and_on_the_page_of_approvals(
    page: Page, bench: Bench
) -> None:
    bench.model.replies = [
        ToolCall("c1", "erase", {"name": "old.txt"}),
        "It is gone.",
        ToolCall("c2", "ask_a_person", {"question": "Which day?"}),
        "Tuesday then.",
        ToolCall("c3", "erase", {"name": "new.txt"}),
        "It stays.",
    ]
    bench.open(page, "#/talk")
    page.wait_for("Keeps the office tidy.")
    ask(page, "Tidy up")
    page.wait_for("old.txt", ".turn .approval")
    assert RAN == []
    shoot(page, "talk-approval")
    page.click(".turn .approval button.approve")
    page.wait_for("It is gone.")
    assert RAN == ["old.txt"]
    ask(page, "Plan the trip")
    page.wait_for("Which day?")
    page.click(".turn .approval textarea")
    page.type("on Tuesday")
    page.click(".turn:last-child .approval button.approve")
    page.wait_for("Tuesday then.")
    assert "on Tuesday" in list_runs(bench.runs)[0].path.read_text(encoding="utf-8")
    ask(page, "Tidy up again")
    page.wait_for("new.txt")
    (waiting,) = ApprovalFolder(bench.approvals.path).pending()  # where a terminal looks, too
    assert waiting.pending.call.name == "erase"
    page.evaluate("location.hash = '#/approvals'")
    page.wait_for("Tidy up again")
    page.click(".approval button.refuse")
    page.wait_for("Refused.")
    until(lambda: [item.status for item in list_runs(bench.runs)] == ["completed"] * 3)
    assert RAN == ["old.txt"]
    is_clean(page, bench)


def test_a_run_is_stopped(page: Page, bench: Bench) -> None:
    bench.model.replies = ["a very long answer"]
    bench.model.go.clear()
    bench.open(page, "#/talk")
    page.wait_for("Keeps the office tidy.")
    ask(page, "Write a book")
    page.wait_for("a very lo", ".turn .live")
    page.click(".ask button.refuse")
    page.wait_for("cancelled by the client")
    (summary,) = until(lambda: [item for item in list_runs(bench.runs) if item.status == "interrupted"])
    assert summary.user_input == "Write a book"
    is_clean(page, bench)


def test_a_run_is_forked_at_a_step_and_its_steps_are_seen_in_time(page: Page, bench: Bench) -> None:
    bench.model.replies = [ToolCall("c1", "add", {"a": 1, "b": 2}), "It is 3.", "Three, I think."]
    bench.open(page, "#/talk")
    page.wait_for("Keeps the office tidy.")
    ask(page, "1 + 2?")
    page.wait_for("It is 3.", ".turn .markdown")
    page.click(".turn .meta a")
    page.wait("document.querySelectorAll('.waterfall .lane').length === 3")
    labels = page.evaluate("[...document.querySelectorAll('.lane .what')].map(e => e.textContent)")
    assert labels == ["typist", "add", "typist"]
    assert "cost" in page.text(".waterfall figcaption")
    shoot(page, "run")
    page.click(".waterfall li:nth-child(3) .lane")
    page.wait("document.activeElement.closest('.card')?.textContent.startsWith('Step 2')")
    page.click(".item.step:nth-child(3) button.fork")
    page.wait_for("Three, I think.")
    assert page.evaluate("document.querySelectorAll('.item.step').length") == 2
    is_clean(page, bench)
    assert len(list_runs(bench.runs)) == 2


def test_runs_are_marked_with_the_mouse_and_the_keyboard(page: Page, site: Site) -> None:
    site.open(page, "#/runs/paris")
    page.wait("document.querySelector('button.mark.good')")
    page.click(".marks .why")
    page.type("right city")
    page.press("Escape")
    page.click("button.mark.good")
    page.wait("document.querySelector('button.mark.good').getAttribute('aria-pressed') === 'true'")
    labels = site.runs / "labels.jsonl"
    assert json.loads(labels.read_text(encoding="utf-8")) == {
        "run": "paris",
        "good": True,
        "why": "right city",
    }
    page.evaluate("location.hash = '#/runs/oslo'")
    page.wait("document.querySelector('.run-head .id')?.textContent === 'oslo'")
    page.press("-")
    page.wait("document.querySelector('button.mark.bad').getAttribute('aria-pressed') === 'true'")
    page.press("-")  # and back
    page.wait("document.querySelector('button.mark.bad').getAttribute('aria-pressed') === 'false'")
    assert [json.loads(line)["run"] for line in labels.read_text(encoding="utf-8").splitlines()] == ["paris"]
    page.evaluate("location.hash = '#/?mark=good'")
    page.wait_for("1 found")
    page.wait_for("good", "a.run")
    shoot(page, "marked")
    is_clean(page, site)


def test_runs_are_filtered_by_tool_time_and_cost(page: Page, site: Site) -> None:
    site.open(page)
    page.wait_for("34 in the store")
    page.click(".filters summary")
    page.click("#tool")
    page.type("fetch")
    page.wait_for("1 found")
    assert "Bergen" in page.text("a.run")
    assert page.evaluate("location.hash") == "#/?tool=fetch"
    shoot(page, "filtered")
    page.evaluate("location.hash = '#/?least_cost=0.003'")
    page.wait_for("found")
    dear = page.evaluate("document.querySelectorAll('a.run').length")
    assert 0 < dear < 34
    is_clean(page, site)


HOSTILE = (
    """# <img src=x onerror=alert(1)>
[click](javascript:alert(1)) [data](data:text/html,<script>alert(1)</script>) ![pic](https://evil.example/x.png)
<script>alert(1)</script> **bold <b onclick=alert(1)>html</b>** `<i>` \u202e reversed
<https://example.org/"onmouseover="alert(1)> | a | b |
"""
    + "*" * 2000
    + "[" * 2000
)


def test_markdown_stays_text_whatever_is_in_it(page: Page, site: Site) -> None:
    start, asked, *_ = run("hostile", 1)
    reply = ModelResponded("hostile", 1, 2, start.at + 1, LlmResponse(HOSTILE), 10.0)
    record(site.runs, [start, asked, reply, *run("hostile", 1)[-1:]])
    site.open(page, "#/runs/hostile")
    page.wait("document.querySelector('.markdown')")
    found = page.evaluate(
        "[...document.querySelectorAll('.markdown *')].map(e => e.tagName + [...e.attributes].map(a => a.name).join())"
    )
    assert not [one for one in found if one.startswith(("IMG", "SCRIPT", "B", "IFRAME")) and one[:2] != "BR"]
    assert not [
        one for one in found if "on" in one.lower().replace("blockquote", "") and "onmouse" in one.lower()
    ]
    links = page.evaluate("[...document.querySelectorAll('.markdown a')].map(e => e.protocol)")
    assert set(links) <= {"https:"}
    assert "\\u202e" in page.text(".markdown")
    page.click("#raw")
    page.wait("!document.querySelector('.markdown') && document.querySelector('.text.prose')")
    page.wait_for("**bold")
    page.click("#raw")
    page.wait("document.querySelector('.markdown')")
    is_clean(page, site)


def png() -> bytes:
    """A red picture of one pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = (1).to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    body = zlib.compress(b"\0\xff\0\0")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_pictures_are_shown(page: Page, site: Site) -> None:
    start, asked, *rest = run("picture", 1)
    assert isinstance(asked, StepStarted)
    shown = Message(Role.USER, (Text("look"), Image(data=png(), media_type="image/png")))
    record(site.runs, [start, replace(asked, messages=(shown,)), *rest])
    site.open(page, "#/runs/picture")
    page.click(".told summary")
    page.wait("document.querySelector('.part img')?.naturalWidth === 1")
    assert page.errors == []
    # The same where the bytes are kept beside the recording.
    (path,) = site.runs.glob("*Z-picture.jsonl")
    digest = sha256(png()).hexdigest()
    text = path.read_text(encoding="utf-8")
    inline = f'"data":"{base64.b64encode(png()).decode()}"'
    if inline in text:
        folder = path.with_suffix(".parts")
        folder.mkdir()
        (folder / digest).write_bytes(png())
        path.write_text(text.replace(inline, f'"url":"sha256:{digest}"'), encoding="utf-8")
    page.evaluate("location.hash = '#/'")
    page.wait_for("in the store")
    page.evaluate("location.hash = '#/runs/picture'")
    page.click(".told summary")
    page.wait("document.querySelector('.part img')?.naturalWidth === 1")
    assert any(digest in url for url in page.requests)
    assert {url.partition(":")[0] for url in page.requests} <= {"http", "data", "about"}


def test_an_export_needs_no_server(page: Page, site: Site, tmp_path: Path) -> None:
    start, asked, *rest = run("exported", 2)
    assert isinstance(start, RunStarted)
    picture = Image(data=png(), media_type="image/png")
    rest = [replace(one, parts=(picture,)) if isinstance(one, ToolCompleted) else one for one in rest]
    record(site.runs, [replace(start, parts=(Text("look"), picture)), asked, *rest])
    page_file = tmp_path / "exported.html"
    for name in ("graph-run", "exported"):
        page_file.write_text(export_html(load(find_run(site.runs, name)), prices=PRICES), encoding="utf-8")
        page.open(page_file.as_uri())
        page.wait("document.querySelectorAll('.waterfall .lane').length > 3")
        graphs = page.evaluate("document.querySelectorAll('.graph').length")
        assert graphs == (1 if name == "graph-run" else 0)
        assert "cost" in page.text(".waterfall figcaption")
    pictures = "[...document.querySelectorAll('.part img')].filter(one => one.naturalWidth === 1)"
    page.wait(f"{pictures}.length === 3")
    page.wait("document.querySelector('.card.end .markdown')")
    page.click(".waterfall li:nth-child(2) .lane")
    page.wait("document.activeElement.classList.contains('card')")
    assert page.errors == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "about:"))] == []
    shoot(page, "export")
