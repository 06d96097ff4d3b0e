"""The pages of `examples/frontends` in a real browser: useChat and CopilotKit, with what npm has built."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.web.browser import Browser, browser
from wesichain import LlmResponse, Role, ToolCall
from wesichain.testing import FunctionLlm

from .kit import listening

pytestmark = pytest.mark.slow  # a browser, and pages of megabytes
FOLDER = ROOT / "examples" / "frontends"


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not (FOLDER / "dist" / "chat.html").is_file():
        pytest.skip("the pages are not built: run 'npm install && npm run build' in examples/frontends")
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


def reply(request: Any) -> Any:
    """Does what the user names: paint, book, or look at the weather; then says what came of it."""
    last = request.messages[-1]
    if last.role is Role.TOOL:
        return LlmResponse(f"It is done: {last.text}")
    for word, args in (
        ("paint", {"colour": "red"}),
        ("book", {"city": "Bern"}),
        ("weather", {"city": "Bern"}),
    ):
        if word in last.text:
            return LlmResponse(tool_calls=(ToolCall(f"{word}-{len(request.messages)}", word, args),))
    return LlmResponse("Hello to you.")


@contextmanager
def served() -> Iterator[str]:
    spec = importlib.util.spec_from_file_location("frontends", FOLDER / "serve.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["frontends"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    url: list[str] = []
    up, stop = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with listening(module.service(FunctionLlm(reply))) as at:
            url.append(at)
            up.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    up.wait(60)
    try:
        yield url[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_use_chat_streams_asks_and_runs_a_tool_of_the_page(chrome: Browser) -> None:
    with served() as url, chrome.page() as page:
        page.open(f"{url}/chat.html")
        page.wait("document.querySelector('#text') !== null")

        def say(text: str) -> None:
            page.click("#text")
            page.type(text)
            page.click("#send")

        say("hello")
        page.wait_for("Hello to you.")
        say("book it")
        page.wait("document.querySelector('.approve') !== null")
        page.click(".approve")
        page.wait_for("It is done: booked: Bern")
        say("book another")
        page.wait("document.querySelector('.refuse') !== null")
        page.click(".refuse")
        page.wait_for("REFUSED")
        say("paint the page")
        page.wait_for('It is done: {"painted":true}')
        assert page.evaluate("document.body.style.background") == "red"
        page.wait("document.querySelector('#status').textContent === 'ready'")
        assert page.text("#error") == ""


def test_copilotkit_streams_and_runs_a_tool_of_the_page(chrome: Browser) -> None:
    with served() as url, chrome.page() as page:
        page.open(f"{url}/copilot.html")
        page.wait("document.querySelector('textarea') !== null")

        def say(text: str) -> None:
            page.click("textarea")
            page.type(text)
            page.press("Enter")

        say("hello")
        page.wait_for("Hello to you.", "body")
        say("the weather")
        page.wait_for("It is done: sunny in Bern", "body")
        say("paint the page")
        page.wait("document.body.style.background === 'red'")
        page.wait_for("painted", "body")


def test_copilotkit_asks_for_approval(chrome: Browser) -> None:
    with served() as url, chrome.page() as page:
        page.open(f"{url}/copilot.html")
        page.wait("document.querySelector('textarea') !== null")
        page.click("textarea")
        page.type("book it")
        page.press("Enter")
        page.wait("document.querySelector('.approve') !== null")
        page.click(".approve")
        page.wait_for("It is done: booked: Bern", "body")
        page.click("textarea")
        page.type("book another")
        page.press("Enter")
        page.wait("document.querySelector('.refuse') !== null")
        page.click(".refuse")
        page.wait_for("REFUSED", "body")
