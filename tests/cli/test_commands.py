"""The commands, as a user types them: in a process of their own, with their output and their status."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.stub_server import call, serving, text
from wesichain import __version__

TOOLS = '''
from wesichain import tool

@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@tool(approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return "deleted " + path
'''

AGENT = """
from wesichain import Agent
from wesichain.testing import FunctionLlm

agent = Agent(FunctionLlm(lambda request: "hello from the file"))

def make():
    return agent

not_an_agent = 5
"""


@pytest.fixture
def tools(tmp_path: Path) -> str:
    path = tmp_path / "tools.py"
    path.write_text(TOOLS, encoding="utf-8")
    return str(path)


def wesichain(
    *args: str, url: str = "http://127.0.0.1:9/v1", stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "OPENAI_BASE_URL": url,
        "NO_COLOR": "1",
        "COLUMNS": "200",
        "PYTHONWARNINGS": "default",
    }
    return subprocess.run(
        [sys.executable, "-c", "from wesichain.cli import main; main()", *args],
        capture_output=True,
        text=True,
        env=environment,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        check=False,
        timeout=60,
    )


def test_ask_shows_the_way_to_the_answer_and_records_it(tools: str, home: Path) -> None:
    with serving(call("add", {"a": 1, "b": 2}), text("it is 3")) as url:
        done = wesichain("ask", "1 + 2?", "--model", "openai:stub", "--tools", tools, url=url)
    assert done.returncode == 0, done.stderr
    assert 'add {"a":1,"b":2}' in done.stdout
    assert "it is 3" in done.stdout
    (recording,) = (home / "runs").glob("*.jsonl")
    assert recording.stat().st_mode & 0o777 == 0o600


def test_a_recording_is_listed_shown_replayed_compared_and_exported(
    tools: str, home: Path, tmp_path: Path
) -> None:
    ids = []
    for answer in ("it is 3", "three"):
        with serving(call("add", {"a": 1, "b": 2}), text(answer)) as url:
            assert (
                wesichain("ask", "1 + 2?", "--model", "openai:stub", "--tools", tools, url=url).returncode
                == 0
            )
    listed = json.loads(wesichain("trace", "list", "--json").stdout)
    ids = [item["run_id"] for item in listed]
    assert [item["status"] for item in listed] == ["completed", "completed"]
    assert "1 + 2?" in wesichain("trace", "list").stdout
    shown = wesichain("trace", "show", ids[0][:10])
    assert shown.returncode == 0
    assert "three" in shown.stdout
    replayed = wesichain("trace", "replay", ids[0], "--tools", tools)
    assert replayed.returncode == 0, replayed.stderr + replayed.stdout
    assert "all the same" in replayed.stdout
    assert wesichain("trace", "replay", ids[0]).returncode == 1
    parted = wesichain("trace", "diff", ids[0], ids[1])
    assert parted.returncode == 1
    assert "three" in parted.stdout
    page = tmp_path / "run.html"
    assert wesichain("trace", "export", ids[0], "-o", str(page)).returncode == 0
    assert "1 + 2?" in page.read_text(encoding="utf-8")


def test_json_is_for_machines(tools: str, home: Path) -> None:
    with serving(text("hi")) as url:
        done = wesichain(
            "ask", "-", "--model", "openai:stub", "--json", "--no-record", url=url, stdin="hello\n"
        )
    kinds = [json.loads(line)["kind"] for line in done.stdout.splitlines()]
    assert (kinds[0], kinds[-1]) == ("run_started", "run_completed")
    assert not (home / "runs").exists()


def test_a_call_that_needs_a_person_interrupts_where_there_is_none(tools: str, home: Path) -> None:
    with serving(call("delete", {"path": "x"}), text("gone")) as url:
        done = wesichain("ask", "clean up", "--model", "openai:stub", "--tools", tools, url=url)
        assert done.returncode == 3
        found = re.search(r"--resume (\w+)", done.stderr)
        assert found
        again = wesichain("ask", "--resume", found[1], "--model", "openai:stub", "--tools", tools, url=url)
    assert again.returncode == 3
    assert "no decision yet" in again.stderr


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        pytest.param(
            ["ask", "x", "--model", "gpt-4"],
            2,
            "did you mean 'openai:gpt-4'",
            id="a-model-without-a-provider",
        ),
        pytest.param(["ask", "x", "--tools", "/no/such.py"], 2, "no file", id="a-missing-file"),
        pytest.param(["ask", ""], 2, "no question", id="nothing-to-ask"),
        pytest.param(["ask", "x", "--steps", "0"], 2, "steps", id="no-steps"),
        pytest.param(["ask", "--resume", "nope"], 2, "nope", id="an-unknown-run-to-resume"),
        pytest.param(["trace", "show", "nope"], 2, "no run 'nope'", id="an-unknown-run"),
        pytest.param(["trace", "show", "/etc/passwd"], 2, "error", id="a-file-that-is-no-recording"),
        pytest.param(["run", "nofile", "x"], 2, "names no agent", id="an-agent-without-a-name"),
        pytest.param(["run", "no.module:agent", "x"], 2, "no module", id="an-agent-of-no-module"),
        pytest.param(["playbook", "list", "../x"], 2, "../x", id="a-domain-that-is-a-path"),
        pytest.param(["serve", "--host", "0.0.0.0"], 2, "0.0.0.0", id="the-viewer-for-everybody"),
        pytest.param(["frobnicate"], 2, "frobnicate", id="an-unknown-command"),
        pytest.param(["ask", "x", "--model", "openai:stub"], 1, "failed", id="a-server-that-is-not-there"),
    ],
)
def test_a_mistake_is_one_line_and_a_status(args: list[str], status: int, words: str) -> None:
    done = wesichain(*args)
    assert done.returncode == status, done.stderr
    assert words in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_run_takes_an_agent_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(AGENT, encoding="utf-8")
    assert "hello from the file" in wesichain("run", f"{path}:agent", "hi").stdout
    assert "hello from the file" in wesichain("run", f"{path}:make", "hi").stdout
    assert wesichain("run", f"{path}:not_an_agent", "hi").returncode == 2


def test_what_a_model_says_cannot_steer_the_terminal(tools: str) -> None:
    with serving(text("\x1b[2J\x1b]0;pwned\x07 done \u202e")) as url:
        done = wesichain("ask", "x", "--model", "openai:stub", url=url)
    assert "\x1b" not in done.stdout
    assert "\u202e" not in done.stdout
    assert "done" in done.stdout


def test_secrets_stay_out_of_every_output(tools: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "canary-9f8e7d6c5b4a3210"
    monkeypatch.setenv("ACME_API_KEY", secret)
    with serving(call("add", {"a": 1, "b": secret}), text(f"the key is {secret}")) as url:
        done = wesichain("ask", f"use {secret}", "--model", "openai:stub", "--tools", tools, url=url)
    assert done.returncode == 1
    assert secret not in "".join(path.read_text(encoding="utf-8") for path in (home / "runs").glob("*.jsonl"))


def test_the_rest_answers() -> None:
    assert __version__ in wesichain("--version").stdout
    assert "ask" in wesichain("--help").stdout
    assert "qwen2.5-coder-0.5b" in wesichain("models").stdout
    assert "python" in wesichain("doctor").stdout
    assert wesichain("playbook", "list").returncode == 0
