"""Pictures and documents at the command line: named in the terminal, whole in what is exported."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.agent.kit import call as called
from tests.agent.kit import say
from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.cli.terminal import Terminal
from wesichain import Agent
from wesichain.core import Document, Image, TextDelta
from wesichain.testing import StreamingScriptedLlm
from wesichain.tools import tool
from wesichain.trace import Recorder, list_runs, load, parts_folder

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4//8/AwAF/gL+p5qgoAAAAABJRU5ErkJggg=="
)
PLAN = Document(b"%PDF-1.7 plan", name="plan.pdf")


@tool
def draw(what: str) -> Image:
    """Draw something."""
    del what
    return Image(PNG)


@pytest.fixture
def run(home: Path) -> str:
    script: list[Any] = [say(called("draw", {"what": "cat"})), "nice"]
    recorder = Recorder(home / "runs", deltas=True)
    agent = Agent(StreamingScriptedLlm(script), tools=[draw], events=recorder)
    agent.run_sync(["Like this:", Image(PNG), PLAN], stream=True)
    (summary,) = list_runs(home / "runs")
    return summary.run_id


def test_show_names_every_part(wesichain: Command, run: str) -> None:
    shown = wesichain("trace", "show", run).out
    assert f"image (image/png, {len(PNG)} bytes)" in shown
    assert "document 'plan.pdf' (application/pdf" in shown
    after_the_call = shown.partition("→ draw")[2]
    assert "image (image/png" in after_the_call, "the result's picture is named too"
    assert base64.b64encode(PNG).decode()[:40] not in shown


def test_a_recording_is_exported_with_its_parts_beside_it(
    wesichain: Command, run: str, home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "away" / "run.jsonl"
    file.parent.mkdir()
    for _ in range(2):  # the second export replaces the first
        assert wesichain("trace", "export", run, "-o", str(file)).status == 0
    (summary,) = list_runs(home / "runs")
    assert load(file).events == load(summary.path).events
    assert any(isinstance(event, TextDelta) for event in load(file).events)
    assert load(file).complete
    assert sorted(path.read_bytes() for path in parts_folder(file).iterdir()) == sorted(
        [PNG, PLAN.data or b""]
    )
    assert base64.b64encode(PNG) not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in file.parent.iterdir()) == ["run.jsonl", "run.parts"]
    shown = wesichain("trace", "show", str(file)).out
    assert "image (image/png" in shown


def test_a_person_at_the_terminal_reads_what_a_tool_gave(tmp_path: Path) -> None:
    tools = tmp_path / "drawing.py"
    tools.write_text(
        "import base64\nfrom wesichain import Image, tool\n\n\n@tool\ndef draw(what: str) -> Image:\n"
        f'    """Draw something."""\n    return Image(base64.b64decode("{base64.b64encode(PNG).decode()}"))\n'
    )
    with serving(call("draw", {"what": "cat"}), text("here it is")) as url:
        terminal = Terminal("chat", "--model", "openai:stub", "--tools", str(tools), url=url)
        terminal.expect("you>")
        terminal.type("draw a cat")
        terminal.expect("here it is")
        terminal.expect("you>", times=2)
        terminal.press_ctrl_d()
        assert terminal.end() == 0
    assert f"image (image/png, {len(PNG)} bytes)" in terminal.shown
