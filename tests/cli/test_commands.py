"""The commands, as a user types them, with their output and their status."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.learning.kit import words
from tests.warm import python
from wesichain.learning import FunctionEmbedder, Playbook, PlaybookBullet
from wesichain.web import create_app


def test_ask_gives_a_pipe_the_answer_alone_and_records_the_way_to_it(tools: str, home: Path) -> None:
    """In a process of its own, as it is installed; the other tests spare themselves its start.

    It loads no DBOS: only durable runs need it, and it takes a second.
    """
    program = (
        "import sys\nfrom wesichain.cli import main\ntry: main()\nfinally: assert 'dbos' not in sys.modules"
    )
    with serving(call("add", {"a": 1, "b": 2}), text("it is 3")) as url:
        command = [sys.executable, "-W", "error", "-c", program]
        done = subprocess.run(
            [*command, "ask", "1 + 2?", "--model", "openai:stub", "--tools", tools],
            capture_output=True,
            text=True,
            env={**os.environ, "OPENAI_BASE_URL": url},
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=60,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "it is 3\n", "")
    (recording,) = (home / "runs").glob("*.jsonl")
    assert recording.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param("\nx = 1 / 0", "ZeroDivisionError: division by zero (BOT.py, line 2)", id="raises"),
        pytest.param("import not_there", "No module named 'not_there' (BOT.py, line 1)", id="lacks-a-module"),
        pytest.param("def f(:", "SyntaxError: invalid syntax (BOT.py, line 1)", id="no-python"),
        pytest.param("def agent():\n    return int('x')", "with base 10: 'x' (BOT.py, line 2)", id="factory"),
    ],
)
@pytest.mark.parametrize("target", ["BOT:agent", "BOT.py:agent"])
def test_a_fault_of_a_file_names_its_line(
    wesichain: Command, tmp_path: Path, target: str, code: str, words: str
) -> None:
    bot = f"bot_{os.urandom(8).hex()}"  # a module of this test alone
    (tmp_path / f"{bot}.py").write_text(code)
    with chdir(tmp_path):
        done = wesichain("run", target.replace("BOT", bot), "x")
    assert (done.status, "Traceback" in done.err) == (2, False), done.err
    assert words.replace("BOT", bot) in done.err


@pytest.mark.parametrize("args", [["ask", "x", "--model", "openai:stub"], ["trace", "list"]])
def test_a_home_that_is_no_folder_is_told(
    wesichain: Command, tools: str, monkeypatch: pytest.MonkeyPatch, args: list[str]
) -> None:
    monkeypatch.setenv("WESICHAIN_HOME", tools)
    done = wesichain(*args)
    assert (done.status, done.err) == (
        2,
        f"error: {tools}/runs: Not a directory; $WESICHAIN_HOME says where runs are kept\n",
    )


ONES = FunctionEmbedder("ones", 2, function=lambda texts: [[1.0, 1.0]] * len(texts))


def test_a_bullet_is_found_by_the_id_that_is_listed_whatever_it_was_embedded_with(
    wesichain: Command, tmp_path: Path
) -> None:
    path = str(tmp_path / "book")
    with Playbook.open(path, words()) as book:
        for content in ("Add first.", "Keep every receipt."):
            book.record(PlaybookBullet(content=content, helpful_count=5), domain="sums")
    listed = wesichain("playbook", "list", "sums", "--path", path).out
    first = listed.splitlines()[1].split()[0]
    assert "Add first." in wesichain("playbook", "show", first, "--path", path).out
    assert wesichain("playbook", "promote", first, "--path", path).out == f"{first} is prod\n"
    assert "rolled back" in wesichain("playbook", "rollback", "sums", "--to", "2", "--path", path).out
    other = ("--path", path, "--embedder", f"{__name__}:ONES")
    for option, says in (
        ("--dry-run", "1 bullets would be merged"),
        ("", "1 bullets merged"),
        ("", "0 bullets"),
    ):
        done = wesichain("playbook", "consolidate", "sums", *other, *option.split())
        assert says in done.out
    assert "Add first." in wesichain("playbook", "search", "sums", "x", *other).out  # embedded anew


def test_a_default_agent_takes_twelve_steps(wesichain: Command, tools: str) -> None:
    with serving(*[call("add", {"a": n, "b": 1}) for n in range(20)]) as url:
        done = wesichain("ask", "x", "--model", "openai:stub", "--tools", tools, "--json", url=url)
    assert (done.status, done.out.count('"step_started"')) == (1, 12)


def test_what_a_model_says_cannot_steer_the_terminal(wesichain: Command, tools: str) -> None:
    with serving(text("\x1b[2J\x1b]0;pwned\x07 done \u202e")) as url:
        done = wesichain("ask", "x", "--model", "openai:stub", url=url)
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    assert "done" in done.out


SECRET = "canary-9f8e7d6c5b4a3210"
LEAKY = f'''
from wesichain import tool

@tool
def look(url: str, password: str) -> str:
    """Look something up."""
    return f"{{url}} says that token={{password}}"

@tool
def fail(why: str) -> str:
    """Fail, and say too much."""
    raise ConnectionError(f"401 for {{why}} (Authorization: Bearer {SECRET})")
'''


@pytest.mark.parametrize("json_lines", [False, True], ids=["shown", "as-json"])
def test_secrets_stay_out_of_every_output(
    wesichain: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, json_lines: bool
) -> None:
    """From the environment, a header, an argument, a result, an exception and the model's own words."""
    monkeypatch.setenv("ACME_API_KEY", SECRET)
    tools = tmp_path / "leaky.py"
    tools.write_text(LEAKY, encoding="utf-8")
    leaks = {"url": f"https://bob:{SECRET}@host/", "password": SECRET}
    options = ["--model", "openai:stub", "--tools", str(tools), *(["--json"] if json_lines else [])]
    with serving(call("look", leaks), call("fail", {"why": SECRET})) as url:
        ended = wesichain("ask", f"use {SECRET}", *options, url=url)
    with serving(call("look", {"url": SECRET, "pass": SECRET})) as url:
        refused = wesichain("ask", f"use {SECRET}", *options, url=url)
    with serving(text(f"the key is {SECRET}")) as url:
        answered = wesichain("ask", "which key?", *options, url=url)
    assert [ended.status, refused.status, answered.status] == [1, 1, 0]
    runs = [item["run_id"] for item in json.loads(wesichain("trace", "list", "--json").out)]
    assert len(runs) == 3
    page = tmp_path / "run.html"
    seen = [
        ended,
        refused,
        answered,
        wesichain("trace", "list"),
        *(wesichain("trace", "show", run) for run in runs),
        *(wesichain("trace", "show", run, "--json") for run in runs),
        wesichain("trace", "diff", *runs[:2]),
        wesichain("trace", "replay", runs[2]),
    ]
    told = "".join(done.out + done.err for done in seen)
    for run in runs:
        assert wesichain("trace", "export", run, "-o", str(page)).status == 0
        told += page.read_text(encoding="utf-8")
    told += "".join(path.read_text(encoding="utf-8") for path in (home / "runs").glob("*.jsonl"))
    app = create_app(home / "runs", token="t", hosts=["testserver"])
    with TestClient(app, headers={"authorization": "Bearer t"}) as client:
        places = ["/api/runs", "/api/stats", f"/api/diff?a={runs[0]}&b={runs[1]}"]
        places += [f"/api/runs/{run}{tail}" for run in runs for tail in ("", "/events")]
        for place in places:
            answer = client.get(place)
            assert answer.status_code == 200
            told += answer.text
    assert SECRET not in told
    assert "[redacted" in told


def test_a_reader_may_leave_the_pipe(tools: str) -> None:
    """`wesichain ask ... | head -1`: no word of it, and the run goes on to its end."""
    program = shlex.join([*python(), "-c", "from wesichain.cli import main; main()"])
    with serving(call("add", {"a": 1, "b": 2}), text("it is\n3")) as url:
        done = subprocess.run(
            f"{{ {program} ask 1+2 --model openai:stub --tools {tools}; echo ended with $? >&2; }} | head -1",
            shell=True,
            capture_output=True,
            text=True,
            env={**os.environ, "OPENAI_BASE_URL": url},
            check=False,
            timeout=60,
        )
    assert (done.stdout, done.stderr) == ("it is\n", "ended with 0\n")
