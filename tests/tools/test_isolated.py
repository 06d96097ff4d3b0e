"""Isolation: what a tool in a process of its own sees, uses and leaves behind: nothing but what it is given."""

from __future__ import annotations

import asyncio
import importlib.util
import operator
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import psutil
import pytest
from pydantic import BaseModel

from tests.conftest import SOURCES, Strays
from tests.virtual_time import run_with_paused_time
from tests.warm import python
from wesichain.core import ToolCall
from wesichain.errors import ToolDefinitionError, ToolExecutionError, ToolTimeoutError
from wesichain.tools import JsonTool, ToolContext, ToolResult, ToolSet, tool
from wesichain.tools.isolated import warm_processes
from wesichain.tools.isolated.fork_server import _reap
from wesichain.tools.isolated.keeper import how_it_ended
from wesichain.tools.isolated.names import FunctionName, find
from wesichain.tools.isolated.pool import ChildDiedError, Pool, standard_error

from . import isolated_tools as attacks

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="what is promised of Linux")


async def call(made: Any, ctx: ToolContext | None = None, **args: Any) -> ToolResult:
    registry = ToolSet.of([made]).build()
    return await registry.dispatch(ToolCall("c", registry.names[0], args), ctx)


async def value(made: Any, **args: Any) -> Any:
    result = await call(made, **args)
    assert result.ok, result.error
    return result.value


async def error(made: Any, **args: Any) -> str:
    result = await call(made, **args)
    assert isinstance(result.error, ToolExecutionError), result
    return str(result.error)


async def is_gone(pid: int, *, seconds: float = 20.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        await asyncio.sleep(0.01)
    return False


async def noted(note: Path) -> int:
    while not (note.exists() and note.read_text(encoding="utf-8")):
        await asyncio.sleep(0.01)
    return int(note.read_text(encoding="utf-8"))


# --- what it sees --------------------------------------------------------------------------------


async def test_it_sees_no_environment_but_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WESICHAIN_TEST_SECRET", "canary")
    monkeypatch.setenv("WESICHAIN_TEST_GIVEN", "gift")
    seen = await value(attacks.environment)
    assert set(seen) <= {"PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
    seen = await value(attacks.given)
    assert seen["WESICHAIN_TEST_GIVEN"] == "gift"
    assert "WESICHAIN_TEST_SECRET" not in seen
    assert "WESICHAIN_TEST_ABSENT" not in seen
    monkeypatch.setenv("WESICHAIN_TEST_GIVEN", "another")
    assert (await value(attacks.given))["WESICHAIN_TEST_GIVEN"] == "another"


async def test_it_sees_no_memory_of_ours_nor_of_another_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacks, "SECRETS", ["canary"])
    assert await value(attacks.memory) == []
    assert [await value(attacks.remember) for _ in range(3)] == [1, 1, 1]


async def test_two_calls_do_not_draw_the_same() -> None:
    drawn = [(await call(attacks.draw)).value for _ in range(3)]
    assert len(set(map(str, drawn))) == 3


async def test_what_a_module_registers_for_the_child_of_a_fork_is_run() -> None:
    from . import isolated_hooked as hooked

    assert [(await call(hooked.forked)).value for _ in range(2)] == [True, True]


async def test_it_sees_no_descriptor_of_ours(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary", encoding="utf-8")
    with secret.open(encoding="utf-8") as file:
        os.set_inheritable(file.fileno(), True)
        for _ in range(2):  # of a keeper that is new, and of one that was waiting
            seen = await value(attacks.descriptors)
            assert str(secret) not in seen.values()
            beyond = {number: target for number, target in seen.items() if int(number) > 2}
            assert sum(target.startswith("pipe:") for target in beyond.values()) == 1, beyond  # its answer
            assert all(target.startswith(("pipe:", "/proc/")) for target in beyond.values()), beyond
        assert "Bad file descriptor" in await error(attacks.read_descriptor, number=file.fileno())


async def test_a_lock_held_while_it_starts_does_not_concern_it() -> None:
    release = threading.Event()
    lock = threading.Lock()

    def hold() -> None:
        with lock:
            release.wait(30)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    try:
        assert await value(attacks.locks) == "free"
    finally:
        release.set()
        holder.join()


# --- what it may use -----------------------------------------------------------------------------


async def test_memory_has_a_limit() -> None:
    assert await value(attacks.allocate, megabytes=56) == 56 << 20
    assert "MemoryError" in await error(attacks.allocate, megabytes=80)


async def test_cpu_has_a_limit() -> None:
    assert "more than its 1 s of CPU" in await error(attacks.compute)


async def test_files_have_a_limit(tmp_path: Path) -> None:
    assert await value(attacks.write, path=str(tmp_path / "small"), megabytes=1) == 1 << 20
    assert "File too large" in await error(attacks.write, path=str(tmp_path / "large"), megabytes=3)


async def test_it_has_no_more_rights_than_we() -> None:
    assert await value(attacks.privileges) == "1"


async def test_its_signals_and_its_session_are_those_of_a_new_program() -> None:
    # Signals that this process ignores (those of `nohup`, say) are ignored in programs that it starts.
    ignored = {one.name for one in signal.Signals if signal.getsignal(one) == signal.SIG_IGN}
    assert {*await value(attacks.handled_signals)} <= ignored
    assert await value(attacks.leads_session) is True


async def test_it_writes_no_core_file() -> None:
    assert await value(attacks.core_limits) == [0, 0]


async def test_an_answer_beyond_what_is_taken_is_not_read() -> None:
    assert "1099511627776 bytes; the limit is" in await error(attacks.flood)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "its process ended with status 0 before it returned a result"),
        (5, "its process ended with status 5 before it returned a result"),
        (-signal.SIGKILL, "its process was killed by SIGKILL"),
        (-signal.SIGXCPU, "it used more than its 3 s of CPU and was killed"),
        (-40, "its process was killed by signal 40"),
    ],
)
def test_how_a_process_ended_is_said(code: int, words: str) -> None:
    assert how_it_ended(code, {"cpu_seconds": 3}) == words


def test_a_process_that_has_ended_is_forgotten_whatever_its_status() -> None:
    def reaped() -> bool:
        ended, running = {forked(lambda: os._exit(0)), forked(lambda: os._exit(3))}, forked(signal.pause)
        for pid in ended:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        keepers = {*ended, running}
        _reap(keepers)
        os.kill(running, signal.SIGKILL)
        return keepers == {running}

    def forked(work: Callable[[], object]) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                work()
            finally:
                os._exit(9)
        return pid

    child = forked(lambda: os._exit(reaped()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


# --- what it leaves behind -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "end"), [("child", "returns"), ("session", "returns"), ("daemon", "cancelled")]
)
async def test_what_it_starts_is_gone_with_it(how: str, end: str, tmp_path: Path, strays: Strays) -> None:
    note = tmp_path / "pid"
    task = asyncio.create_task(call(attacks.start, how=how, note=str(note), stay=end == "cancelled"))
    if end == "returns":
        assert (await task).ok
    else:
        started = await noted(note)
        assert psutil.pid_exists(started)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await is_gone(await noted(note))
    assert strays() == []


def test_what_a_call_that_is_out_of_time_started_is_gone(tmp_path: Path, strays: Strays) -> None:
    note = tmp_path / "pid"
    made = tool(attacks.start.function, name="start", description="d", isolate=True, timeout=0.2)

    async def main() -> None:
        result = await call(made, how="daemon", note=str(note), stay=True)
        assert isinstance(result.error, ToolTimeoutError)
        assert not result.error.abandoned
        assert await is_gone(await noted(note))

    run_with_paused_time(main(), lambda: not (note.exists() and note.read_text(encoding="utf-8")))
    assert strays() == []


def test_one_whose_keeper_cannot_end_it_in_time_is_abandoned(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    made = tool(attacks.start.function, name="start", description="d", isolate=True, timeout=0.2)
    stopped: list[psutil.Process] = []

    def stop_keeper() -> bool:
        """Whether time has not begun yet: until the keeper of what was started is stopped."""
        if not stopped and note.exists() and note.read_text(encoding="utf-8"):
            (server,) = warm_processes()
            stopped.extend(psutil.Process(server).children())
            for keeper in stopped:
                keeper.suspend()
        return not stopped

    async def main() -> None:
        result = await call(made, how="daemon", note=str(note), stay=True)
        assert isinstance(result.error, ToolTimeoutError)
        assert result.error.abandoned

    try:
        run_with_paused_time(main(), stop_keeper)
    finally:
        for keeper in stopped:
            keeper.resume()


@pytest.mark.parametrize("group", [False, True])
async def test_one_that_kills_its_keeper_ends_itself_alone(group: bool, strays: Strays) -> None:
    await call(attacks.remember)
    server = warm_processes()
    neighbours = asyncio.gather(*(value(attacks.remember) for _ in range(4)))
    assert "killed by another process" in await error(attacks.kill_above, group=group)
    assert await neighbours == [1, 1, 1, 1]
    assert await value(attacks.remember) == 1
    assert warm_processes() == server
    deadline = time.monotonic() + 10
    while strays() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert strays() == []


async def test_one_that_ends_while_what_it_started_holds_its_pipe_is_known_to_have_ended(
    strays: Strays,
) -> None:
    assert "ended with status 5" in await error(attacks.leave)
    assert strays() == []


async def test_one_that_closes_its_pipe_and_lives_on_is_killed(strays: Strays) -> None:
    assert "SIGKILL" in await error(attacks.hide)
    assert strays() == []


async def test_what_every_tool_needs_is_loaded_once_by_the_server() -> None:
    await call(attacks.remember)
    (server,) = warm_processes()
    assert "pydantic_core" in Path(f"/proc/{server}/maps").read_text(encoding="utf-8")
    assert os.getsid(server) == server, "Ctrl-C in the terminal would end it"


async def test_a_keeper_serves_call_after_call() -> None:
    assert len({await value(attacks.parent) for _ in range(3)}) == 1


async def test_a_server_that_was_killed_is_replaced() -> None:
    await asyncio.gather(*(value(attacks.remember) for _ in range(3)))  # each leaves a keeper behind
    for server in warm_processes():
        psutil.Process(server).kill()
    results = [await call(attacks.remember) for _ in range(5)]
    assert sum(not result.ok for result in results) <= 1  # the one that was on its way when it died
    assert {result.value for result in results if result.ok} == {1}


async def test_a_server_that_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ChildDiedError, match=r"cannot be started: \[Errno 2\]"):
        await Pool().take({})


async def test_without_standard_error_what_it_prints_goes_nowhere() -> None:
    assert standard_error() == 2
    kept = os.dup(2)
    try:
        os.close(2)
        assert standard_error() == subprocess.DEVNULL
    finally:
        os.dup2(kept, 2)
        os.close(kept)


MODULE = """
import os, threading, time
from pathlib import Path
from wesichain.tools import tool

IS_READ_AGAIN = os.getpid() != {program}
{again}

@tool(isolate=True, description="Say hello.")
def hello() -> str:
    return "hello"
"""
ONCE = """
seen = Path(__file__ + ".seen")
if IS_READ_AGAIN and seen.exists():
    raise RuntimeError("not twice")
if IS_READ_AGAIN:
    seen.touch()
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
"""
REBUILT = "it cannot be created in a separate process: "


@pytest.mark.parametrize(
    ("file", "again", "said"),
    [
        pytest.param("plain.py", "", "hello", id="nothing"),
        pytest.param("no.where.py", "", "hello", id="its-package-is-nowhere"),
        pytest.param("plain.txt", "", f"{REBUILT}ImportError: module 'plain' cannot be read from", id="no-python"),
        pytest.param("ends.py", "if IS_READ_AGAIN:\n    os._exit(3)", "ended while the tool was created", id="ends"),
        pytest.param("raises.py", "if IS_READ_AGAIN:\n    1 / 0", f"{REBUILT}ZeroDivisionError", id="raises"),
        pytest.param("once.py", ONCE, f"{REBUILT}RuntimeError: not twice", id="raises-in-the-worker"),
        pytest.param(
            "lacks.py",
            'if IS_READ_AGAIN:\n    globals()["tool"] = lambda **_: lambda function: None',
            "lacks.py has no 'hello' when it is imported again",
            id="lacks-the-tool",
        ),
    ],
)  # fmt: skip
async def test_what_a_module_does_when_it_is_read_again(
    file: str, again: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.write_text(MODULE.format(program=os.getpid(), again=again), encoding="utf-8")
    result = await call(import_from(path).hello)
    assert said in str(result.value if result.ok else result.error)


async def test_an_import_that_hangs_is_an_error_and_its_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wesichain.tools.isolated.pool.IMPORT_SECONDS", 1.0)
    note, path = tmp_path / "note", tmp_path / "hangs.py"
    hangs = f"if IS_READ_AGAIN:\n    Path({str(note)!r}).write_text(str(os.getpid()))\n    time.sleep(3600)"
    path.write_text(MODULE.format(program=os.getpid(), again=hangs), encoding="utf-8")
    assert await error(import_from(path).hello) == (
        f"tool 'hello' failed: {REBUILT}importing its module takes more than 1 s"
    )
    assert await is_gone(await noted(note))


def import_from(file: Path) -> Any:
    loader = SourceFileLoader(file.stem, str(file))
    spec = importlib.util.spec_from_loader(file.stem, loader)
    assert spec is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


FORKING = """
import asyncio, os, signal, sys, time
from wesichain.core import ToolCall
from wesichain.tools import ToolSet
from wesichain.tools.isolated import warm_processes
from tests.tools.isolated_tools import remember

async def main() -> None:
    await ToolSet.of([remember]).build().dispatch(ToolCall("1", "remember", {}))

asyncio.run(main())
servers = warm_processes()
child = os.fork()
if child == 0:
    asyncio.run(main())  # with a server of its own
    print(*servers, *warm_processes(), os.getpid(), flush=True)
    time.sleep(60)
os.kill(os.getpid(), signal.SIGSTOP)
"""


async def test_a_fork_of_the_program_has_a_server_of_its_own_and_does_not_keep_the_other_alive() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", FORKING],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    with program.stdout as printed:
        first, second, child = map(int, printed.readline().split())
    program.kill()
    program.wait()
    assert await is_gone(first)
    assert psutil.pid_exists(child)
    assert psutil.pid_exists(second)
    os.kill(child, signal.SIGKILL)
    assert await is_gone(second)


async def test_four_at_a_time_and_half_of_them_cancelled(strays: Strays, tmp_path: Path) -> None:
    notes = [tmp_path / str(number) for number in range(2)]
    stuck = [
        asyncio.create_task(call(attacks.start, how="daemon", note=str(note), stay=True)) for note in notes
    ]
    quick = [asyncio.create_task(call(attacks.remember)) for _ in range(2)]
    pids = [await noted(note) for note in notes]
    for task in stuck:
        task.cancel()
    assert [(await task).value for task in quick] == [1] * 2
    for task in stuck:
        with pytest.raises(asyncio.CancelledError):
            await task
    assert all([await is_gone(pid) for pid in pids])
    assert strays() == []


async def test_nothing_leaks() -> None:
    for _ in range(3):
        await call(attacks.remember)
    before = psutil.Process().num_fds()
    for _ in range(20):
        await call(attacks.remember)
    assert psutil.Process().num_fds() == before


# --- what it returns -------------------------------------------------------------------------------


async def test_what_it_answers_is_never_unpickled(tmp_path: Path) -> None:
    assert "its result is not JSON" in await error(attacks.answer_with_pickle, note=str(tmp_path / "note"))
    assert not (tmp_path / "note").exists()


@pytest.mark.parametrize("name", attacks.ODD)
async def test_what_it_returns_or_raises_is_told_as_if_it_had_run_here(name: str) -> None:
    isolated = ToolSet.of([tool(attacks.odd, isolate=True)]).build()
    here = await call(tool(attacks.odd), name=name)
    there = await isolated.dispatch(ToolCall("c", "odd", {"name": name}))
    assert (there.value, there.parts) == (here.value, here.parts)
    assert (type(there.error), str(there.error)) == (type(here.error), str(here.error))


async def test_arguments_may_be_as_deep_as_those_of_any_tool() -> None:
    made = JsonTool("echo", "d", {"type": "object"}, lambda args: args, isolate=True)
    for levels in (198, 199, 200):
        args = attacks.nested(levels)
        here = await call(JsonTool("echo", "d", {"type": "object"}, lambda args: args), **args)
        there = await call(made, **args)
        assert (there.value, type(there.error)) == (here.value, type(here.error)), levels


# --- which tools can be isolated -------------------------------------------------------------------

ORDER = {"name": "pen", "on": "2026-01-02"}


async def test_tools_of_every_kind_can_be() -> None:
    assert await value(attacks.Shop("Oslo").where, order=ORDER) == "pen in Oslo on 2026-01-02"
    sold = await call(attacks.Sell(20), ToolContext(idempotency_key="key"), **ORDER)
    assert (sold.value, sold.finish) == ({"name": "pen -20% key", "on": "2026-01-02"}, True)
    bound = tool(partial(attacks.times, 2), name="twice", description="d", isolate=True)
    assert await value(bound, text="ab") == "abab"
    made = JsonTool("j", "d", {"type": "object"}, lambda args: {"got": args}, isolate=True)
    assert await value(made, a=1) == {"got": {"a": 1}}


async def test_results_that_come_one_by_one_are_collected_there() -> None:
    assert await value(attacks.counted) == [0, 1, 2]
    assert await value(attacks.counted_later) == [0, 1]


async def test_arguments_are_looked_at_twice_there_too() -> None:
    assert await value(attacks.counted, most=2.0) == [0, 1]
    registry = ToolSet.of([attacks.counted_later]).build()
    assert registry.specs(strict=True)
    result = await registry.dispatch(
        ToolCall("c", "counted_later", {"most": None})
    )  # it stands for "left out"
    assert result.value == [0, 1], result.error


async def test_it_runs_where_our_folder_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert await value(attacks.counted) == [0, 1, 2]


async def test_a_function_inside_another_takes_its_types_along() -> None:
    class Parcel(BaseModel):
        grams: int

    @tool(isolate=True, description="d")
    def weigh(parcel: Parcel, *more: int, ctx: ToolContext, **named: Parcel) -> list[int | str | None]:
        return [parcel.grams, *more, *(each.grams for each in named.values()), ctx.idempotency_key]

    args: dict[str, Any] = {"parcel": {"grams": 3}, "more": [4], "other": {"grams": 5}}
    weighed = await call(weigh, ToolContext(idempotency_key="key"), **args)
    assert weighed.value == [3, 4, 5, "key"], weighed.error


async def test_an_object_is_sent_as_it_is_when_it_is_called() -> None:
    class Scale:
        factor = 2

        @tool(isolate=True, description="d")
        def weigh(self, grams: int) -> int:
            return self.factor * grams

    scale = Scale()
    assert await value(scale.weigh, grams=3) == 6
    scale.factor = 3
    assert await value(scale.weigh, grams=3) == 9


def test_what_cannot_be_sent_is_refused_by_name() -> None:
    with pytest.raises(
        ToolDefinitionError, match=r"'greet' cannot be isolated: 'lock', which greet closes over, is"
    ):
        ToolSet.of([attacks.closure(threading.Lock())]).build()
    locked = partial(operator.is_, threading.Lock())  # it is not written in Python
    with pytest.raises(
        ToolDefinitionError, match=r"'has' cannot be isolated: it is .*, which cannot be sent"
    ):
        ToolSet.of([JsonTool("has", "Has it?", {"type": "object"}, locked, isolate=True)]).build()


async def test_a_module_that_starts_threads_is_loaded_by_each_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WESICHAIN_TEST_THREADS", "1")
    assert [await value(attacks.threads) for _ in range(2)] == [2, 2]
    monkeypatch.delenv("WESICHAIN_TEST_THREADS")
    assert await value(attacks.threads) == 1


def test_a_function_in_a_zip_archive_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "tools.zip"
    with ZipFile(archive, "w") as file:
        file.writestr("zipped_tools.py", "def double(n):\n    return 2 * n\n")
    monkeypatch.syspath_prepend(archive)
    double = find(FunctionName("zipped_tools", "double", str(archive / "zipped_tools.py"), is_main=False))
    del sys.modules["zipped_tools"]
    assert double(4) == 8


PROGRAM = """
import asyncio
from wesichain.core import ToolCall
from wesichain.tools import ToolSet, tool

FACTOR = [3]

def times(n: int) -> int:
    return n * FACTOR[0]

@tool(isolate=True)
def triple(n: int) -> int:
    "Triple."
    return times(n)

async def main() -> None:
    print((await ToolSet.of([triple]).build().dispatch(ToolCall("1", "triple", {"n": 4}))).value)

asyncio.run(main())
"""


GUARDED = PROGRAM.replace("asyncio.run(main())", 'if __name__ == "__main__":\n    asyncio.run(main())')
WITH_MODEL = "from __future__ import annotations\nfrom pydantic import BaseModel\n" + PROGRAM.replace(
    "FACTOR = [3]", "class Number(BaseModel):\n    n: int\n\nFACTOR = [3]"
).replace("def triple(n: int)", "def triple(number: Number)").replace(
    "times(n)", "times(number.n)", 2
).replace("times(number.n: int)", "times(n: int)").replace('{"n": 4}', '{"number": {"n": 4}}')
WITHOUT_CLOUDPICKLE = 'import sys\nsys.modules["cloudpickle"] = None\n'


@pytest.mark.parametrize(
    ("how", "program"),
    [
        pytest.param("module", WITHOUT_CLOUDPICKLE + GUARDED, id="by-name-from-a-module"),
        pytest.param("file", PROGRAM, id="by-value-where-the-file-runs-when-it-is-read"),
        pytest.param("command", WITH_MODEL, id="by-value-with-its-types-from-a-command-line"),
    ],
)
def test_tools_of_the_program_itself_can_be(how: str, program: str, tmp_path: Path) -> None:
    ended = run_program(how, program, tmp_path)
    assert (ended.stdout, ended.stderr) == ("12\n", "")


def test_a_program_that_runs_when_it_is_read_gets_a_remedy(tmp_path: Path) -> None:
    ended = run_program("file", WITHOUT_CLOUDPICKLE + PROGRAM.replace(".value)", ".error)"), tmp_path)
    assert "if __name__ == '__main__':" in ended.stdout


def run_program(how: str, program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program from a file, as a module or from the command line."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    words = {
        "file": [str(folder / "program.py")],
        "module": ["-m", "program"],
        "command": ["-c", program],
    }
    return subprocess.run(
        [*python(), *words[how]],
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )


# --- the program's own end -----------------------------------------------------------------------

VICTIM = """
import asyncio, os, sys
from tests.tools.isolated_tools import start
from wesichain.core import ToolCall
from wesichain.tools import ToolSet

async def main(note: str) -> None:
    registry = ToolSet.of([start]).build()
    calls = [ToolCall(how, "start", {"how": how, "note": note + how, "stay": True}) for how in ("daemon", "session")]
    await asyncio.gather(*(registry.dispatch(call) for call in calls))

asyncio.run(main(sys.argv[1]))
"""


def left_in(folder: Path) -> list[psutil.Process]:
    """What is left soon after of a program that ran in this folder."""
    deadline = time.monotonic() + 20
    while (left := left_of(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def left_of(mark: str) -> list[psutil.Process]:
    """The processes that carry a mark in their environment, their command or their folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and mark in (*process.cmdline(), process.cwd()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def killed(when: str, folder: Path) -> list[psutil.Process]:
    """Start the program in a folder, kill it as it starts or once it is busy, and say what is left of it soon after."""
    folder.mkdir()
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(folder / "pid-")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES},
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while when == "busy" and len([*folder.iterdir()]) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3 if when == "starting" else 0)
    victim.kill()
    victim.wait()
    return left_in(folder)


@pytest.mark.parametrize("when", ["starting", "busy"])
def test_a_program_that_is_killed_leaves_nothing(when: str, tmp_path: Path) -> None:
    assert killed(when, tmp_path / "victim") == []


VICTIMS = VICTIM.replace(
    "asyncio.run(main(sys.argv[1]))",
    """
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    folder = line.strip()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(folder)
        asyncio.run(main(folder + "/pid-"))
        os._exit(0)
    print(pid, flush=True)
""",
).replace("import asyncio, os, sys", "import asyncio, os, signal, sys")


class Victims:
    """A program that has everything loaded, and forks one after the other that makes isolated calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.program = subprocess.Popen(
            [sys.executable, "-c", VICTIMS],
            env={**os.environ, "PYTHONPATH": SOURCES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self, folder: Path) -> int:
        folder.mkdir()
        with self._lock:
            assert self.program.stdin is not None
            assert self.program.stdout is not None
            self.program.stdin.write(f"{folder}\n")
            self.program.stdin.flush()
            return int(self.program.stdout.readline())

    def kill(self, seconds: float, folder: Path) -> list[psutil.Process]:
        """Start one, kill it after a while, and say what is left of it soon after."""
        pid = self.start(folder)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        return left_in(folder)

    def seconds_to_begin(self, folder: Path) -> float:
        """How long it takes here and now until an isolated call has started something."""
        began = time.monotonic()
        pid = self.start(folder)
        while not any(folder.iterdir()) and time.monotonic() < began + 60:
            time.sleep(0.01)
        taken = time.monotonic() - began
        os.kill(pid, signal.SIGKILL)
        return taken


@pytest.mark.slow
def test_a_thousand_kills_leave_nothing(tmp_path: Path) -> None:
    """Each at a random instant from before the first process is started until its calls have begun."""
    rounds = int(os.environ.get("WESICHAIN_KILLS", "1000"))
    chance = random.Random(int(os.environ.get("WESICHAIN_KILLS_SEED", "27")))
    victims = Victims()
    try:
        with ThreadPoolExecutor(4) as at_once:
            firsts = at_once.map(
                lambda number: victims.seconds_to_begin(tmp_path / f"first{number}"), range(4)
            )
            longest = 1.5 * min(firsts)
            instants = [chance.uniform(0.0, longest) for _ in range(rounds)]
            left = at_once.map(
                lambda number: victims.kill(instants[number], tmp_path / str(number)), range(rounds)
            )
            assert [process for each in left for process in each] == []
    finally:
        victims.program.kill()
        victims.program.communicate()
    begun = sum(any((tmp_path / str(number)).iterdir()) for number in range(rounds))
    print(f"{rounds} kills within {longest:.2f} s; {begun} met a call that had begun")
    assert rounds / 20 < begun < rounds


LEAVE = """
async def leave(note: str) -> None:
    while not all(map(os.path.exists, (note + "daemon", note + "session"))):
        await asyncio.sleep(0.01)
    sys.exit(3)

"""


def test_the_interpreter_s_exit_takes_isolated_tools_along(tmp_path: Path) -> None:
    program = VICTIM.replace("async def main", LEAVE + "async def main").replace(
        "    await asyncio.gather(",
        "    leaving = asyncio.create_task(leave(note))\n    await asyncio.gather(",
    )
    folder = tmp_path / "victim"
    folder.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", program, str(folder / "pid-")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 3
    assert left_in(folder) == []
