"""`wesichain mcp`, and `wesichain ask --mcp`."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.cli.stub_server import call, serving, text
from tests.cli.terminal import Terminal
from tests.tools.mcp.kit import ENV, HERE
from tests.tools.mcp.kit import serving as serving_mcp
from tests.warm import python
from wesichain.cli.loading import load_tools

MAIN = ["-c", "from wesichain.cli import main; main()"]
STRICT = ["-c", f"import warnings; warnings.simplefilter('error'); {MAIN[1]}"]


def mcp(tools: str) -> str:
    """The command of a server: it gets none of our environment but what the command itself says."""
    return shlex.join(
        ["env", *(f"{name}={value}" for name, value in ENV.items()), *python(), *MAIN, "mcp", tools]
    )


def test_ask_uses_a_server_behind_a_url(wesichain: Command, tools: str) -> None:
    pattern = r"http://127\.0\.0\.1:\d+/mcp"
    with (
        serving_mcp(*MAIN, "mcp", tools, "--http", "0", pattern=pattern) as address,
        serving(call("add", {"a": 1, "b": 2}), text("it is 3")) as url,
    ):
        done = wesichain("ask", "1 + 2?", "--model", "openai:stub", "--mcp", address, url=url)
    assert done.status == 0, done.err
    assert "it is 3" in done.out


@pytest.mark.parametrize(
    ("program", "options", "is_approved"),
    [
        pytest.param("asking_ours.py", [], False, id="as-a-result-in-the-newest-protocol"),
        pytest.param(
            "asking_server.py", ["--mcp-protocol", "2025-11-25"], True, id="in-a-call-in-an-older-one"
        ),
    ],
)
def test_a_question_of_a_server_is_asked_at_the_terminal_until_it_is_answered(
    program: str, options: list[str], is_approved: bool, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    server = shlex.join(["env", f"NOTES={notes}", *python(), str(HERE / program)])
    with serving(call("order", {"item": "hat"}), text("it is ordered")) as url:
        terminal = Terminal("ask", "a hat", "--model", "openai:stub", "--mcp", server, *options, url=url)
        if is_approved:
            terminal.expect("approve?")
            terminal.type("y")
        terminal.expect("Which size of hat?")
        terminal.expect("decline):")
        terminal.type("large")
        terminal.expect("not a valid answer")
        terminal.expect("decline):", times=2)
        terminal.type('{"size": 3}')
        terminal.expect("it is ordered")
        assert terminal.end() == 0
    noted = notes.read_text(encoding="utf-8").split("\n")[:-1]
    assert (noted[0], noted[-1], noted.count("ended hat")) == ("began hat", "ended hat", 1)


def test_a_destructive_tool_of_a_server_waits_for_a_person(wesichain: Command, tools: str) -> None:
    with serving(call("delete", {"path": "x"}), text("gone")) as url:
        done = wesichain("ask", "clean up", "--model", "openai:stub", "--mcp", mcp(tools), url=url)
    assert done.status == 3
    assert "wesichain resume " in done.err


def test_a_tool_that_is_left_out_is_told_in_a_line(wesichain: Command) -> None:
    server = shlex.join([sys.executable, str(HERE / "raw_server.py"), "wrong-schema"])
    with serving(text("hi")) as url:
        done = wesichain("ask", "x", "--model", "openai:stub", "--mcp", server, url=url)
    assert done.status == 0, done.err
    assert "the tool bad is left out: tool 'bad'" in done.err
    assert done.err.count("\n") == 1


PLAIN = """
from textwrap import dedent

def double(n: int) -> int:
    'Double a number.'
    return _twice(n)

def _twice(n: int) -> int:
    return 2 * n
"""


def test_mcp_takes_plain_functions_beside_other_tools(wesichain: Command, tools: str, tmp_path: Path) -> None:
    """As `Agent(tools=[...])` does; what is private or imported is no tool, and marked ones stand alone."""
    plain, marked = tmp_path / "plain.py", tmp_path / "marked.py"
    plain.write_text(PLAIN, encoding="utf-8")
    half = "from wesichain import tool\n\n@tool\ndef half(n: int) -> int:\n    'Halve.'\n    return n // 2\n"
    marked.write_text(PLAIN + half, encoding="utf-8")
    assert [function.__name__ for function in load_tools(plain)] == ["double"]
    assert [tool.name for tool in load_tools(marked)] == ["half"]
    marked.write_text(f"{PLAIN}\ntools = [double]\nother = _twice\n", encoding="utf-8")
    assert [function.__name__ for function in load_tools(marked)] == ["double"]
    with serving(call("double", {"n": 21}), call("add", {"a": 1, "b": 2}), text("it is done")) as url:
        options = ("--model", "openai:stub", "--tools", tools, "--mcp", mcp(str(plain)))
        done = wesichain("ask", "go", *options, url=url)
    assert (done.status, done.out) == (0, "it is done\n"), done.err


def request(number: int, method: str, **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"


def test_standard_output_is_the_protocol_alone(tmp_path: Path) -> None:
    """Whatever the file and its tools print; and the server ends when its input does."""
    noisy = tmp_path / "noisy.py"
    noisy.write_text(
        "import os\nfrom wesichain import tool\nprint('loading')\n\n"
        "@tool\ndef shout() -> str:\n    '''Shout.'''\n    print('LOUD')\n    os.system('echo louder')\n    return 'ok'\n",
        encoding="utf-8",
    )
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    process = subprocess.Popen(
        [*python(), *STRICT, "mcp", str(noisy)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENV},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(
        request(1, "initialize", **hello) + request(2, "tools/call", name="shout", arguments={})
    )
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    rest, errors = process.communicate(timeout=30)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "ok"}]
    assert (rest, process.returncode) == ("", 0)
    assert {"loading", "LOUD", "louder"} <= {*re.findall(r"\w+", errors)}


def test_ctrl_c_ends_it_at_once(tools: str) -> None:
    process = subprocess.Popen(
        [*python(), *MAIN, "mcp", tools],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ENV},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(request(1, "server/nothing"))
        process.stdin.flush()
        process.stdout.readline()  # it is up
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == -signal.SIGINT
