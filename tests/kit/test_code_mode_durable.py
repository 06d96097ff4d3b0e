"""Code mode in durable runs: a process that is killed in the middle of a program, and another that goes on."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.conftest import no_durable_sqlite
from tests.warm import python
from wesichain import Agent, LlmRequest, Role, ToolCall, ToolContext, tool
from wesichain.durable import DurableAgent
from wesichain.kit import CodeMode
from wesichain.testing import Fault, Faults, FunctionLlm, Scenario
from wesichain.testing.simulation.simulate import simulated

CODE = """
seen = []
for n in range({calls}):
    try:
        seen.append(await note(number=n))
    except RuntimeError as error:
        seen.append("unknown" if "is unknown" in str(error) else str(error))
seen
"""
PROGRAM = """
import asyncio, os, signal, sys
from wesichain import Agent, tool
from wesichain.core import Role, ToolCall
from wesichain.durable import DurableAgent
from wesichain.kit import CodeMode
from wesichain.testing import FunctionLlm

url, effects, effect, die, code = sys.argv[1:6]

@tool(effect=effect)
def note(number: int) -> int:
    "Write a number down."
    with open(effects, "a") as file:
        file.write(f"{number}\\n")
    if str(number) in die.split(",") and open(effects).read().split().count(str(number)) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number

def reply(request):
    return "done" if request.messages[-1].role is Role.TOOL else ToolCall("r", "run_code", {"code": code})

async def main():
    agent = Agent(FunctionLlm(reply), capabilities=[CodeMode([note])], name="coder")
    async with DurableAgent(agent, "coder", database_url=url) as durable:
        result = await durable.run("go", run_id="r1")
        print(result.outcome.messages[-2].text)

asyncio.run(main())
"""


def killed_at(tmp_path: Path, effect: str, die: list[int]) -> tuple[str, list[int]]:
    """The result of a program of four calls, in these of which its process dies; and the calls made."""
    if no_durable_sqlite():
        pytest.skip("durable runs on SQLite need a newer SQLite")
    effects = tmp_path / "effects"
    args = [
        f"sqlite:///{tmp_path / 'runs.db'}",
        str(effects),
        effect,
        ",".join(map(str, die)),
        CODE.format(calls=4),
    ]
    for _ in die:
        done = subprocess.run([*python(), "-c", PROGRAM, *args], capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
    done = subprocess.run([*python(), "-c", PROGRAM, *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), [int(line) for line in effects.read_text().split()]


@pytest.mark.parametrize(
    ("effect", "result", "made"),
    [
        pytest.param("once", '[0,"unknown",2,"unknown"]', [0, 1, 2, 3], id="once-is-never-made-again"),
        pytest.param("idempotent", "[0,1,2,3]", [0, 1, 1, 2, 3, 3], id="the-call-that-was-cut-is-made-again"),
    ],
)
def test_a_program_goes_on_in_another_process(
    tmp_path: Path, effect: str, result: str, made: list[int]
) -> None:
    assert killed_at(tmp_path, effect, [1, 3]) == (result, made)


# --- the same, simulated: fifty processes, one after the other ----------------------------------------------


class Desk:
    """A world: the database of the run, and the numbers that were written down."""

    def __init__(self, folder: Path) -> None:
        self.database_url = f"sqlite:///{mkdtemp(dir=folder)}/runs.db"
        self.numbers: list[int] = []


@tool(effect="once")
async def note(ctx: ToolContext[Desk], number: int) -> int:
    """Write a number down."""
    ctx.deps.numbers.append(number)
    return number


def reply(request: LlmRequest) -> ToolCall | str:
    is_done = request.messages[-1].role is Role.TOOL
    return "done" if is_done else ToolCall("r", "run_code", {"code": CODE.format(calls=50)})


def coder(desk: Desk) -> DurableAgent[str]:
    agent = Agent(FunctionLlm(reply), capabilities=[CodeMode([note])], name="coder", deps_type=Desk)
    return DurableAgent(agent, deps=lambda: desk, database_url=desk.database_url)


@pytest.mark.slow
def test_killed_at_each_of_fifty_calls_none_is_made_again(tmp_path: Path) -> None:
    if no_durable_sqlite():
        pytest.skip("durable runs on SQLite need a newer SQLite")
    scenario = Scenario(coder, "go", world=lambda: Desk(tmp_path))
    deaths = tuple(Fault("crash", f"tool note r/call-{number}, after its work") for number in range(50))
    with simulated(scenario, 1, Faults(only=deaths, most_crashes=50)) as trace:
        assert (trace.error, trace.faults, trace.processes) == (None, deaths, 51)
        assert trace.outcome.messages[-2].text == "[" + ",".join(['"unknown"'] * 50) + "]"
        assert trace.world.numbers == [*range(50)]
