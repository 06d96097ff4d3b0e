"""Questions of MCP servers in a real browser: a form from the schema, a real server behind it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tools.mcp.kit import HERE
from tests.tools.mcp.test_questions import SERVER
from tests.warm import python
from wesichain.agent import Agent, Completed, Interrupted
from wesichain.testing import ScriptedLlm, calls
from wesichain.tools.mcp import McpServer
from wesichain.web import ApprovalFolder

from .browser import Page
from .kit import serving
from .site import Site, is_clean, shoot

# A server of the SDK can ask in the middle of a call only before protocol 2026-07-28; ours asks as a result.
SDK = (SERVER, "2025-11-25")
OURS = (str(HERE / "asking_ours.py"), "2026-07-28")


@contextmanager
def guest(
    folder: Path, tool: str, args: Any, asks: tuple[str, str] = SDK
) -> Iterator[tuple[ApprovalFolder, Path]]:
    """An agent on a thread whose server asks during a call; it goes on with what is decided."""
    approvals, notes = ApprovalFolder(folder / "approvals"), folder / "notes"
    notes.touch()

    async def stay() -> None:
        env = {"NOTES": str(notes)}
        program, protocol = asks
        async with McpServer.stdio(*python(), program, env=env, approval=False, protocol=protocol) as server:
            assert server.protocol_version == protocol
            agent = Agent(ScriptedLlm([calls((tool, args)), "welcome"]), tools=server.tools, name="guest")
            outcome = await agent.outcome("a room", run_id="stay")
            assert isinstance(outcome, Interrupted)
            approvals.put(outcome)
            deadline = time.monotonic() + 100
            while not (decided := approvals.decisions("stay")):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            ended = await agent.runtime.resume(approvals.take("stay"), decided)
            assert isinstance(ended, Completed)
            (folder / "ended").write_text(ended.output)

    thread = threading.Thread(target=lambda: asyncio.run(stay()))
    thread.start()
    try:
        yield approvals, notes
    finally:
        thread.join(110)
    assert (folder / "ended").read_text() == "welcome"


def put(page: Page, name: str, value: str) -> None:
    page.click(f".question [name={name}]")
    page.type(value)


def choose(page: Page, name: str, value: str) -> None:
    """Choose with the keyboard, as far as a page without a window can: the value, and that it changed."""
    page.evaluate(
        f"(() => {{ const e = document.querySelector('.question select[name={name}]');"
        f"e.value = [...e.options].find(one => one.text === {value!r}).value;"
        "e.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def test_a_servers_question_is_a_form_that_takes_only_what_fits(page: Page, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with (
        guest(tmp_path, "check_in", {}) as (approvals, notes),
        serving(tmp_path / "runs", approvals=approvals.path) as url,
    ):
        site = Site(url, tmp_path)
        site.open(page, "#/approvals")
        page.wait_for("Who comes?")
        assert "<b>As</b> on the card" in page.text(".question"), "text is text"
        shoot(page, "question")
        page.click(".question button.approve")
        assert len(approvals.pending()) == 1, "what is required is missing"
        put(page, "name", "Ada")
        put(page, "mail", "no address")
        choose(page, "room", "double")
        choose(page, "pets", "no")
        page.click(".question input[name=meals]")
        page.click(".question button.approve")
        invalid = "[...document.querySelectorAll('.question :invalid')].map(one => one.name).join()"
        assert page.evaluate(invalid) == "mail"
        assert notes.read_text() == ""
        page.evaluate("document.querySelector('.question [name=mail]').select()")
        page.type("ada@example.org")
        page.click(".question button.approve")
        page.wait_for("Answered.")
        is_clean(page, site)
    action, _, said = notes.read_text().strip().partition(" ")
    assert (action, json.loads(said)) == (
        "accept",
        {
            "name": "Ada",
            "mail": "ada@example.org",
            "nights": 2,
            "room": "d",
            "pets": False,
            "meals": ["lunch"],
        },
    )


def test_a_question_is_declined_in_the_page(page: Page, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    with (
        guest(tmp_path, "order", {"item": "hat"}, OURS) as (approvals, notes),
        serving(tmp_path / "runs", approvals=approvals.path) as url,
    ):
        site = Site(url, tmp_path)
        site.open(page, "#/approvals")
        page.wait_for("Which size of hat?")
        page.click(".question button.refuse")
        page.wait_for("Declined.")
        is_clean(page, site)
    assert notes.read_text().splitlines() == ["began hat", "ended hat"]
