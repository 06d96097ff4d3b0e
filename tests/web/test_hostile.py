"""Hostile text in every field: in the pages and in an exported file it stays text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.draws import chosen
from tests.trace.runs import NOON
from wesichain.core import (
    Event,
    LlmResponse,
    Message,
    ModelResponded,
    Role,
    RunFailed,
    RunInterrupted,
    RunStarted,
    StepFailed,
    StepStarted,
    ToolCall,
    ToolCompleted,
    ToolDispatched,
    ToolSpec,
    Usage,
)
from wesichain.core.events import Decided
from wesichain.core.internal import ApproveWith, NodeCompleted, NodeFailed, NodeStarted, PendingCall, Refuse
from wesichain.learning import PlaybookBullet, ToolCallingStrategy
from wesichain.trace import load
from wesichain.web import ApprovalFolder, export_html

from .browser import Page
from .kit import interrupted, playbook, record, serving
from .site import Site, is_clean, wait_for_count

XSS = [
    '<img src=x onerror="alert(1)">',
    "<script>alert(2)</script>",
    "</script><script>alert(3)</script>",
    '"><svg onload=alert(4)>',
    "javascript:alert(5)",
    "<iframe src='http://evil.example/6'></iframe>",
    "<link rel=stylesheet href=http://evil.example/7>",
    "{{constructor.constructor('alert(8)')()}}",
    "<!--<script>alert(9)//-->",
    "\u202ealert(10)\u202c\u0000\u001b]0;x\u0007",
    "<style>@import 'http://evil.example/11'</style>",
    "]]><a href=javascript:alert(12)>x</a>",
]


def hostile_run(text: str, number: int, name: str = "") -> list[Event]:
    """A run with the text in every field that takes text, also in its id unless it has a name."""
    name = name or f"{text}-{number}"
    call = ToolCall(name, text, {text: text, "list": [text]})
    spec = ToolSpec(text, text, {"type": "object", "title": text})
    usage = Usage(1, 1)
    said = (
        Message(Role.USER, text),
        Message(Role.TOOL, text, name),
        Message(Role.ASSISTANT, text, None, (call,)),
    )
    reply = LlmResponse(text, (call,), usage, "length", text)
    head = (name, 1)
    events: list[Any] = [
        (RunStarted, (text, text, (spec,)), ""),
        (StepStarted, (said,), ""),
        (ModelResponded, (reply, 1.0), ""),
        (ToolDispatched, (call,), ""),
        (ToolCompleted, (name, text, {text: [text]}, 1.0), ""),
        (RunStarted, (text, text, (spec,)), text),
        (RunStarted, (text, text, (), True, (Decided(text, text, ApproveWith(text)),)), ""),
        (RunStarted, (text, text, (), True, (Decided(text, text, Refuse(text)),)), ""),
        (StepStarted, (said,), text),
        (ToolDispatched, (call,), text),
        (StepFailed, (text, text, text, name, text), text),
        (StepFailed, (text, text, text), text),
        (RunFailed, (text, text, usage), text),
        (partial(NodeStarted, node=text), (), ""),
        (partial(NodeCompleted, node=text), (1.0, (text,)), ""),
        (partial(NodeStarted, node=text), (), text),
        (partial(NodeFailed, node=text), (text, text), text),
        (RunInterrupted, (text, usage, (PendingCall(call, text),)), ""),
    ]
    return [
        kind(*head, seq, NOON + number, *args, scope=scope) for seq, (kind, args, scope) in enumerate(events)
    ]


def all_in_one() -> list[Event]:
    """A run that has all of the texts in every field but its id; it begins and ends once."""
    events = [event for number, text in enumerate(XSS) for event in hostile_run(text, number, "all")]
    first, *middle, last = events
    middle = [
        one for one in middle if one.scope or (not isinstance(one, RunInterrupted) and not is_begin(one))
    ]
    return [replace(event, seq=seq) for seq, event in enumerate([first, *middle, last])]


def is_begin(event: Event) -> bool:
    return isinstance(event, RunStarted) and not event.resumed


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Site]:
    for number, text in enumerate(XSS):
        record(tmp_path / "runs", hostile_run(text, number))
    record(tmp_path / "runs", all_in_one())
    book = playbook(tmp_path / "playbook")
    for number, text in enumerate(XSS):
        told = text.replace("\0", "")
        plain = PlaybookBullet(f"{told}{number}", told, tags=(told,), example_task=told)
        book.record(plain, domain="travel")
        steps = ToolCallingStrategy(f"s{told}{number}", told, tool_sequence=(told,))
        book.record(steps, domain="travel")
    for number, text in enumerate(XSS):
        ApprovalFolder(tmp_path / "approvals").put(interrupted(f"{text}-{number}", path=text))
    with serving(tmp_path / "runs", playbook=book, approvals=tmp_path / "approvals") as url:
        yield Site(url, tmp_path)


def test_hostile_text_stays_text(page: Page, hostile: Site, tmp_path: Path) -> None:
    hostile.open(page)
    wait_for_count(page, "a.run", len(XSS) + 1)
    links: list[str] = page.evaluate(
        "[...document.querySelectorAll('a.run')].map(a => a.getAttribute('href'))"
    )
    assert all(link.startswith("#/runs/") for link in links)
    for link in ("#/runs/all", *chosen(links, 3)):
        page.evaluate(f"location.hash = {link!r}")
        page.wait("document.querySelector('main').dataset.ready === 'runs'")
        page.wait("document.querySelector('.item.interrupted') && !document.querySelector('.item:empty')")
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        page.wait(f"document.querySelectorAll('.message').length >= {72 if link.endswith('all') else 6}")
        page.evaluate("delete document.querySelector('main').dataset.ready")
    ids = [link.rpartition("/")[2] for link in links]
    page.evaluate(f"location.hash = '#/diff?a={ids[0]}&b={ids[1]}'")
    page.wait("document.querySelector('.differences .card')")
    page.evaluate("location.hash = '#/playbook/travel'")
    wait_for_count(page, ".bullet", (4 + 2 * len(XSS)))
    page.evaluate("location.hash = '#/approvals'")
    wait_for_count(page, ".approval", len(XSS))
    assert "\\u202ealert(10)\\u202c" in page.text(), "text that hides is shown as it is"
    page.evaluate("location.hash = '#/stats'")
    page.wait("document.querySelector('.figures')")
    page.evaluate("location.hash = '#/?search=' + encodeURIComponent('<img src=x onerror=alert(1)>')")
    page.wait_for("Nothing matches.")
    page.evaluate("location.hash = '#/runs/' + encodeURIComponent('<img src=x onerror=alert(1)>')")
    page.wait_for("That did not work")
    assert (
        page.evaluate("document.querySelectorAll('script:not([src]), iframe, style, object, embed').length")
        == 0
    )
    assert [error for error in page.errors if "404" not in error] == []
    page.errors.clear()
    is_clean(page, hostile)


PARSING = ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser", "srcdoc"]


def test_no_file_of_the_pages_parses_markup_or_reaches_out() -> None:
    for path in (ROOT / "src/wesichain/web/static").iterdir():
        text = path.read_text(encoding="utf-8")
        for word in PARSING:
            assert word not in text, f"{path.name}: {word}"
        outside = text.replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in outside, path.name
        assert "https:" not in outside, path.name
        if path.suffix == ".html":
            assert " style=" not in text
            assert text.count("<script") == text.count('<script type="module" src=')


# --- the export -----------------------------------------------------------------------------------


def test_hostile_text_stays_text_in_an_export(page: Page, tmp_path: Path) -> None:
    record(tmp_path, all_in_one())
    (recording,) = tmp_path.glob("*.jsonl")
    file = tmp_path / "all.html"
    file.write_text(export_html(load(recording)), encoding="utf-8")
    page.open(file.as_uri())
    page.wait("document.querySelector('.item.interrupted') && !document.querySelector('.item:empty')")
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.wait("document.querySelectorAll('.message').length >= 72")
    assert (page.errors, page.dialogs) == ([], [])
    assert [url for url in page.requests if not url.startswith("file:") and url != "about:blank"] == []
