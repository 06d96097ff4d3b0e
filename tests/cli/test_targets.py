"""Targets: what a command runs, and that what it prints goes on with the same agent, tools and model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import requests

from tests.cli.conftest import Command, Done
from tests.cli.stub_server import call, serving, text
from tests.cli.terminal import Terminal
from tests.cli.typed import Shell, printed
from tests.waiting import until

PROGRAM = """
from contextlib import asynccontextmanager
from pathlib import Path

from wesichain import Agent, Role, RunContext, tool
from wesichain.testing import FunctionLlm, calls

LOG = Path(__file__).with_name("log.txt")

def log(line):
    with LOG.open("a") as file:
        file.write(line + "\\n")

@tool(approval=True, effect="once")
def erase(name: str, run: RunContext) -> str:
    "Erase a file."
    log(f"erased {name} with {run.deps}")
    return f"erased {name}"

def reply(request):
    turn = sum(message.role is Role.ASSISTANT for message in request.messages)
    return "done" if turn else calls(("erase", {"name": request.messages[-1].text}))

agent = Agent(FunctionLlm(reply), tools=[erase], name="cleaner")

def plain():
    return agent

async def later():
    return agent

@asynccontextmanager
async def opened():
    log("agent opened")
    yield agent
    log("agent closed")

@asynccontextmanager
async def world():
    log("world opened")
    yield "the world"
    log("world closed")
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def logged(program: Path) -> list[str]:
    path = program.with_name("log.txt")
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def go_on(shell: Shell, output: str, **variables: str) -> list[Done]:
    """Type the commands of an output, and those that they print, until one of them has ended the run."""
    done: list[Done] = []
    left = [one for one in printed(output) if " serve" not in one]
    while left and len(done) < 6:
        done.append(shell.type(left.pop(0), **variables))
        if done[-1].status == 0 and "decided" not in done[-1].err:
            return done
        left = [one for one in printed(done[-1].err + done[-1].out) if " serve" not in one] + left
    return done


@pytest.mark.parametrize("name", ["agent", "plain", "later", "opened"])
def test_a_run_of_an_agent_goes_on_with_that_agent(
    name: str, wesichain: Command, program: Path, shell: Shell
) -> None:
    asked = wesichain("run", f"{program}:{name}", "x.txt", "--deps", f"{program}:world")
    assert (asked.status, logged(program).count("erased x.txt with the world")) == (3, 0), asked.err
    done = go_on(shell, asked.err)
    assert (done[-1].status, done[-1].out) == (0, "done\n"), done
    assert logged(program).count("erased x.txt with the world") == 1
    assert logged(program).count("world opened") == logged(program).count("world closed") == 2
    again = shell.type(printed(asked.err)[-1])
    assert again.status == 2, "it is gone"


def test_ask_goes_on_with_its_tools_and_model(wesichain: Command, tools: str, shell: Shell) -> None:
    with serving(call("delete", {"path": "x"}), text("all done")) as url:
        options = ("--model", "openai:stub", "--tools", tools, "--instructions", "Be brief.")
        asked = wesichain("ask", "clean up", *options, url=url)
        assert asked.status == 3
        done = go_on(shell, asked.err, OPENAI_BASE_URL=url, OPENAI_API_KEY="none")
    assert (done[-1].status, done[-1].out) == (0, "all done\n"), done


def test_without_a_terminal_resume_prints_what_decides_and_changes_nothing(
    wesichain: Command, program: Path, shell: Shell, home: Path
) -> None:
    asked = wesichain("run", f"{program}:agent", "x.txt")
    (resume,) = [one for one in printed(asked.err) if " resume " in one]
    before = {path: path.read_bytes() for path in (home / "approvals").iterdir()}
    for _ in range(2):
        told = shell.type(resume)
        assert told.status == 3
        assert printed(told.err)[0].split()[:3] == ["wesichain", "runs", "approve"]
    assert {path: path.read_bytes() for path in (home / "approvals").iterdir()} == before
    assert logged(program) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name="cleaner"', 'name="cook"', ["'cook'", "'cleaner'"]),
        ("tools=[erase], ", "", ["'erase'"]),
        ("def reply", "def reply(", ["program.py"]),
        ("agent = ", "agents = ", ["'agent'"]),
    ],
    ids=["another name", "a tool less", "broken", "gone"],
)
def test_a_changed_program_is_refused_by_name_and_the_run_keeps_waiting(
    old: str, new: str, says: list[str], *, wesichain: Command, program: Path, shell: Shell
) -> None:
    asked = wesichain("run", f"{program}:agent", "x.txt")
    (resume,) = [one for one in printed(asked.err) if " resume " in one]
    decided = shell.type(printed(shell.type(resume).err)[0])
    assert decided.status == 0, decided.err
    program.write_text(PROGRAM.replace(old, new), encoding="utf-8")
    refused = shell.type(resume)
    assert refused.status == 2
    assert [word for word in says if word not in refused.err] == []
    assert "Traceback" not in refused.err
    program.write_text(PROGRAM, encoding="utf-8")
    assert shell.type(resume).status == 0
    assert logged(program) == ["erased x.txt with None"]


def test_a_person_at_a_terminal_decides_where_it_is_resumed(wesichain: Command, program: Path) -> None:
    asked = wesichain("run", f"{program}:agent", "x.txt")
    (resume,) = [one for one in printed(asked.err) if " resume " in one]
    terminal = Terminal(*resume.split()[1:], url="http://127.0.0.1:9/v1")
    terminal.expect("approve?")
    terminal.type("y")
    assert terminal.end() == 0
    assert logged(program) == ["erased x.txt with None"]


def test_a_module_is_found_again_from_another_folder(
    wesichain: Command, program: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(program.parent)
    asked = wesichain("run", "program:agent", "x.txt", "--runs", "recorded")
    done = go_on(shell, asked.err)
    assert done[-1].status == 0, done
    (recorded,) = (program.parent / "recorded").glob("*.jsonl")
    assert recorded.read_text(encoding="utf-8").count('"run_started"') == 2
    assert not (shell.folder / "recorded").exists()


def test_a_batch_prints_how_its_waiting_runs_are_decided(
    wesichain: Command, program: Path, shell: Shell
) -> None:
    tasks = program.with_name("tasks.jsonl")
    tasks.write_text('"x.txt"\n', encoding="utf-8")
    asked = wesichain("run", f"{program}:agent", str(tasks), "--deps", f"{program}:world")
    assert asked.status == 3
    show, again = printed(asked.err)
    shown = shell.type(show)
    assert shell.type(printed(shown.out)[0]).status == 0
    assert shell.type(again).status == 0
    row = json.loads(tasks.with_suffix(".results.jsonl").read_text().splitlines()[-1])
    assert (row["status"], row["output"]) == ("completed", "done")
    assert "erased x.txt with the world" in logged(program)


def test_what_is_decided_in_the_viewer_goes_on_there(wesichain: Command, program: Path, shell: Shell) -> None:
    """In a server without an agent: the stored program is opened again, in its own folder."""
    asked = wesichain("run", f"{program}:agent", "x.txt", "--deps", f"{program}:world")
    assert asked.status == 3
    server = shell.start("wesichain serve --port 0")
    try:
        assert server.stdout is not None
        address, _, token = server.stdout.readline().strip().partition("/#token=")
        headers = {"authorization": f"Bearer {token}"}
        (item,) = requests.get(f"{address}/api/approvals", headers=headers, timeout=30).json()["approvals"]
        said = requests.post(
            f"{address}/api/approvals/{item['token']}",
            json={"decision": "approve"},
            headers=headers,
            timeout=30,
        ).json()
        assert said == {"token": item["token"], "decision": "approve", "next": "The run goes on."}
        asyncio.run(until(lambda: logged(program)[-2:] == ["erased x.txt with the world", "world closed"]))
    finally:
        server.terminate()
        server.communicate(timeout=60)


def test_cases_and_requests_have_deps_of_their_own(wesichain: Command, program: Path, shell: Shell) -> None:
    source = PROGRAM.replace("approval=True, ", "").replace(
        '"the world"', "len(LOG.read_text().splitlines())"
    )
    program.write_text(source, encoding="utf-8")
    cases = program.with_name("cases.jsonl")
    cases.write_text(
        '{"task": "a", "expected": "done"}\n{"task": "b", "expected": "done"}\n', encoding="utf-8"
    )
    target = ("--agent", f"{program}:agent", "--deps", f"{program}:world", "--workers", "1")
    assert wesichain("eval", str(cases), *target).status == 0
    one_run = ["world opened", "erased {} with {}", "world closed"]
    assert logged(program) == [line.format(task, at) for task, at in (("a", 1), ("b", 4)) for line in one_run]
    server = shell.start(f"wesichain api {program}:agent --deps {program}:world --port 0")
    try:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        for number in range(2):
            answer = requests.post(f"{address}/runs", json={"task": f"c{number}"}, timeout=60)
            assert answer.json()["output"] == "done"
    finally:
        server.terminate()
        server.communicate(timeout=60)
    assert [line for line in logged(program)[6:] if "erased" in line] == [
        "erased c0 with 7",
        "erased c1 with 10",
    ]
    assert logged(program).count("world opened") == logged(program).count("world closed") == 4
    listed = wesichain("trace", "list", "--json").out
    assert {"c0", "c1"} <= {row["task"] for row in json.loads(listed)}, "what is served over HTTP is recorded"
