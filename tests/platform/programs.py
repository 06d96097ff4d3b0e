"""Programs that have to do the same on every system: in CI as it is there, here under a shim as well.

Each program is a function of an empty folder. What a system does not have is refused by name, which is a program too.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import psutil
import pytest

from wesichain import Agent, GraphBuilder, tool
from wesichain.agent import Approve, SqliteConversations, replay
from wesichain.cli import main
from wesichain.cli.target import Target
from wesichain.cli.tasks.batch import run_batch
from wesichain.cli.terminal import ask_line, on_ctrl_c
from wesichain.core import Image, LlmResponse, Message, Role, Text, ToolCall
from wesichain.core.internal import home_folder, listening_socket
from wesichain.errors import ConfigError, PlaybookError, ToolDefinitionError, ToolError
from wesichain.evals import Case, evaluate
from wesichain.evals.results import read_results
from wesichain.graph import ExecutionOptions
from wesichain.graph.sqlite import SqliteCheckpointer
from wesichain.kit import FileLimits, FolderFiles, Skills, Workspace
from wesichain.learning import FunctionEmbedder, Playbook, PlaybookBullet
from wesichain.llm.local.files.cache import only_writer
from wesichain.platform.files import try_lock
from wesichain.platform.processes import CAN_FORK, LIMITS_MEMORY
from wesichain.platform.terminal import ENDING_SIGNALS, handle_signal
from wesichain.store import Lines, SqliteStore, append_line, read_json_lines
from wesichain.testing import FunctionLlm, ScriptedLlm, calls
from wesichain.testing.cassettes import cassette_path, read_cassette, write_cassette
from wesichain.tools import CancellationToken, Isolation
from wesichain.tools.mcp import McpServer
from wesichain.trace import Recorder, find_run, list_runs, load, parts_folder, prune
from wesichain.web import ApprovalFolder
from wesichain.web.marks import Mark, Marks

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
IDS = ("run-1", "Run", "run", "con", "NUL.txt", "a:b", "trailing. ", "a/b\\c", "x" * 200, "é", "e\u0301")
LINES = Lines(PlaybookError)
SYSTEM: str = sys.platform


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def adder(**options: Any) -> Agent[Any, str]:
    return Agent(ScriptedLlm([calls(("add", {"a": 1, "b": 2})), "3"]), tools=[add], **options)


def doors(folder: Path) -> None:
    """Every room is imported."""
    rooms = "core tools policy llm trace agent graph learning testing edge web durable evals kit cli middleware context"
    for name in (*rooms.split(), "tools.mcp", "graph.sqlite", "llm.local", "tools.isolated"):
        importlib.import_module(f"wesichain.{name}")


def what_is_missing(folder: Path) -> None:
    """What this system lacks, and how its files behave: so a shim is no better than the system."""
    path, other = folder / "a", folder / "b"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)  # not said to be of bytes
    os.write(descriptor, b"one\n")
    os.close(descriptor)
    assert path.read_bytes() == (b"one\r\n" if SYSTEM == "win32" else b"one\n")
    if SYSTEM == "win32":
        path.write_text("é\n")
        assert path.read_bytes() == b"\xe9\r\n"
        missing = [(os, "pread"), (os, "fork"), (os, "O_NOFOLLOW"), (signal, "SIGKILL")]
        assert not [name for module, name in missing if hasattr(module, name)]
        for name in ("fcntl", "resource", "termios", "pwd"):
            with pytest.raises(ModuleNotFoundError):
                __import__(name, globals())
        with other.open("wb"), path.open("rb"):
            for act in (partial(other.replace, path), partial(path.rename, folder / "c"), path.unlink):
                with pytest.raises(PermissionError):
                    act()
        with pytest.raises(PermissionError):
            os.open(folder, os.O_RDONLY)
        with pytest.raises(OSError, match=""):
            (folder / "a?").write_bytes(b"")
        assert (folder / "A").exists()
    elif SYSTEM == "darwin":
        assert not hasattr(os, "pidfd_open")
        assert not Path("/proc").exists() or "tests.platform.shim" in sys.modules


def through_to_the_disk(folder: Path) -> None:
    """What has to survive a power failure is written through the cache of the drive."""
    LINES.append(folder / "log", [b"line"], sync=True)
    LINES.replace(folder / "whole", [b"line\n"], sync=True)
    store = SqliteStore(folder / "items.db")

    async def setting() -> list[Any]:
        found: list[Any] = await store._database.run(lambda db: db.execute("PRAGMA fullfsync").fetchall())
        return found

    assert asyncio.run(setting()) == [(1,)]
    store.close()
    if SYSTEM == "darwin" and "tests.platform.shim" in sys.modules:
        from tests.platform.shim import FULL_SYNCS

        assert len(FULL_SYNCS) >= 4  # two files, and the folder of one of them


def command_line(folder: Path) -> None:
    """An evaluation and a list of recordings, as they are typed."""
    (folder / "shop.py").write_text(
        "from wesichain import Agent\nfrom wesichain.testing import FunctionLlm\n"
        "from wesichain.core import LlmResponse\n"
        "agent = Agent(FunctionLlm(lambda request: LlmResponse('yes')))\n",
        encoding="utf-8",
    )
    (folder / "cases.jsonl").write_text('{"task": "?", "expected": "yes"}\n', encoding="utf-8")
    os.environ["WESICHAIN_HOME"] = str(folder / "home")
    case, target = str(folder / "cases.jsonl"), f"{folder / 'shop.py'}:agent"
    for words, status in (
        (("eval", case, "--agent", target), 0),
        (("trace", "list"), 0),
        (("trace", "show", "x"), 2),
    ):
        before, sys.argv = sys.argv, ["wesichain", *words]
        try:
            main()
        except SystemExit as ended:
            found = ended.code or 0
        else:
            found = 0
        finally:
            sys.argv = before
        assert found == status, words


def agent_run(folder: Path) -> None:
    assert adder().run_sync("1 + 2?").output == "3"
    assert asyncio.run(adder().run("1 + 2?")).output == "3"
    token = CancellationToken()
    token.cancel("enough")
    outcome = asyncio.run(adder().outcome("1 + 2?", cancellation=token))
    assert type(outcome).__name__ == "Interrupted"


def sqlite_logs(folder: Path) -> None:
    async def main() -> None:
        store = SqliteStore(folder / "items.db")
        await store.put(("a",), "k", {"text": "one\ntwo\r\n\x1a"})
        assert await store.get(("a",), "k") == {"text": "one\ntwo\r\n\x1a"}
        store.close()
        talks = SqliteConversations(folder / "talks.db")
        await talks.open("c").extend(Message(Role.USER, "hi"), Message(Role.ASSISTANT, "hello"))
        assert [message.text for message in await talks.open("c").read()] == ["hi", "hello"]
        talks.close()

    asyncio.run(main())


class Count(TypedDict):
    number: int


def checkpoints(folder: Path) -> None:
    async def main() -> None:
        builder = GraphBuilder(Count).add_node("more", lambda state: {"number": state["number"] + 1})
        graph = builder.set_entry("more").build(SqliteCheckpointer(folder / "graph.db"))
        options = ExecutionOptions(thread_id="t")
        assert (await graph.invoke({"number": 1}, options))["number"] == 2
        assert (await graph.get_state("t")).values["number"] == 2

    asyncio.run(main())


def line_files(folder: Path) -> None:
    path = folder / "log.jsonl"
    written = [b'{"a":"one\\r\\n"}', b'{"b":"\x1a"}', b"x" * 100_000]
    LINES.append(path, written[:2], sync=True)
    LINES.append(path, written[2:], sync=False)
    assert path.read_bytes() == b"".join(line + b"\n" for line in written)
    whole = path.read_bytes()
    for cut in (1, len(written[0]), len(written[0]) + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        LINES.append(path, [b"next"], sync=False)
        assert LINES.read(path)[0] == [*whole[:cut].split(b"\n")[:-1], b"next"]
    LINES.replace(path, [b"new\n"], sync=True)
    assert path.read_bytes() == b"new\n"
    append_line(folder / "plain.jsonl", b'{"a": 1}')
    append_line(folder / "plain.jsonl", b'{"a": 2}')
    assert [value for _, value in read_json_lines(folder / "plain.jsonl")] == [{"a": 1}, {"a": 2}]


def links_are_not_followed(folder: Path) -> None:
    (folder / "victim").write_bytes(b"precious\n")
    try:
        (folder / "log").symlink_to(folder / "victim")
    except OSError:
        return  # without the right to make links
    for act in (lambda path: LINES.append(path, [b"x"], sync=False), LINES.read):
        with pytest.raises(PlaybookError, match="cannot be opened"):
            act(folder / "log")
    append_line(folder / "log", b"more")  # a file that the user named
    assert (folder / "victim").read_bytes() == b"precious\nmore\n"


def replaced_while_read(folder: Path) -> None:
    """A reader that closes the file soon is waited for, where that is needed; of another one the writer hears."""
    path = folder / "file"
    path.write_bytes(b"old")
    reader = path.open("rb")
    closing = threading.Timer(0.1, reader.close)
    closing.start()
    LINES.replace(path, [b"new"], sync=False)
    closing.join()
    assert path.read_bytes() == b"new"
    with path.open("rb"):
        if SYSTEM == "win32":
            with pytest.raises(PlaybookError, match="it was not changed"):
                LINES.replace(path, [b"newer"], sync=False)
            assert path.read_bytes() == b"new"
        else:
            LINES.replace(path, [b"newer"], sync=False)
    assert [*folder.iterdir()] == [path]


def _write_beside_others(folder: Path, me: int) -> None:
    for number in range(40):
        with LINES.exclusive(folder / "lock"):
            LINES.append(folder / "log", [f"{me} {number}".encode()], sync=False)
        append_line(folder / "unlocked", f"{me} {number} {'x' * 300}".encode())


def many_writers(folder: Path) -> None:
    threads = [threading.Thread(target=_write_beside_others, args=(folder, me)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("log", "unlocked"):
        lines = [line for line in LINES.read(folder / name)[0] if line]
        assert len(lines) == 160, (name, len(lines))
        for me in range(4):
            assert [int(line.split()[1]) for line in lines if line.startswith(b"%d " % me)] == [*range(40)]


def locks_between_processes(folder: Path) -> None:
    """Another program, under this shim if there is one, cannot take a lock that this one has, until it is released."""
    path = folder / "lock"
    source = f"""
from pathlib import Path
from wesichain.platform.files import try_lock
with Path({str(path)!r}).open("ab") as file:
    print(try_lock(file.fileno()))
"""

    def ask() -> str:
        done = subprocess.run(program("-c", source), capture_output=True, text=True, check=True, cwd=ROOT)
        return done.stdout.strip()

    with only_writer(path, waiting=lambda: None):
        with path.open("ab") as file:
            assert not try_lock(file.fileno())
        assert ask() == "False"
    assert ask() == "True"


def program(*words: str) -> list[str]:
    """The words that start Python as it is here: with the shim, where this process has one."""
    code = "import sys; sys.path[:0] = sys.argv.pop(1).split(chr(10)); "
    if "tests.platform.shim" in sys.modules:
        code += f"from tests.platform.shim import apply; apply({SYSTEM!r}); "
    kind, text = words
    assert kind == "-c"
    return [sys.executable, "-c", code + f"exec({text!r})", "\n".join([str(ROOT), *sys.path])]


def recordings(folder: Path) -> None:
    for durable in (False, True):
        runs = folder / f"runs-{durable}"
        recorder = Recorder(runs, durable=durable)
        outcome = adder(events=recorder).run_sync("1 + 2?\r\n\x1a", run_id="r1")
        recorder.close()
        path = find_run(runs, "r1")
        assert b"\r\n" not in path.read_bytes()
        recording = load(path)
        assert recording.status == "completed"
        assert len(recording.events) == len(outcome.events)
        replayed = asyncio.run(replay(recording, adder()))
        assert type(replayed).__name__ == "Completed"
        assert [run.run_id for run in list_runs(runs)] == ["r1"]


def run_ids(folder: Path) -> None:
    recorder = Recorder(folder / "runs")
    for run_id in IDS:
        Agent(ScriptedLlm(["done"])).run_sync("go", run_id=run_id, events=recorder)
    recorder.close()
    assert {run.run_id for run in list_runs(folder / "runs")} == {*IDS}
    for run_id in IDS:
        assert load(find_run(folder / "runs", run_id)).run_id == run_id
    names = [path.name.partition("Z-")[2].casefold() for path in (folder / "runs").iterdir()]
    assert len({*names}) == len(IDS)
    assert len(prune(folder / "runs", keep=2)) == len(IDS) - 2


def parts_of_recordings(folder: Path) -> None:
    recorder = Recorder(folder)
    picture = Image(data=b"\x89PNG\r\n\x1a\n" + bytes(range(256)), media_type="image/png")
    Agent(ScriptedLlm(["a picture"])).run_sync([Text("what?"), picture], run_id="p", events=recorder)
    recorder.close()
    path = find_run(folder, "p")
    (stored,) = parts_folder(path).iterdir()
    assert stored.read_bytes() == picture.data
    assert load(path).problems == ()


def cassettes(folder: Path) -> None:
    path = cassette_path(folder / "test_desk.py", "test_It[a:b]")
    write_cassette(path, [adder().run_sync("1 + 2?").events])
    assert b"\r\n" not in path.read_bytes()
    assert len(read_cassette(path)) == 1


def evals(folder: Path) -> None:
    cases = [Case("good", "?", expected="yes"), Case("bad", "?", expected="no")]
    found = asyncio.run(evaluate(Agent(FunctionLlm(lambda _: LlmResponse("yes"))), cases))
    assert [failure.case for failure in found.failures] == ["bad"]
    from wesichain.core import to_json

    for result in found.results:
        append_line(folder / "results.jsonl", to_json(result).encode())
    assert [*read_results(folder / "results.jsonl")] == [*found.results]


_WORKER = """
from pathlib import Path

from wesichain import Agent
from wesichain.testing import FunctionLlm


def answer(request):
    text = request.messages[-1].text
    with Path(__file__).with_name("asked").open("a", encoding="utf-8") as asked:
        asked.write(f"{text}\\n")
    return f"done: {text}"


agent = Agent(FunctionLlm(answer), name="batch")
"""


def batches(folder: Path) -> None:
    (folder / "worker.py").write_text(_WORKER, "utf-8")
    target = Target.of(f"{folder / 'worker.py'}:agent")
    tasks = folder / "tasks.jsonl"
    tasks.write_bytes(b'"one"\n{"task": "two", "id": "b"}\n"three"\n')
    for more in (0, 0, 1):
        if more:
            append_line(tasks, b'"four"')
        assert run_batch(target, tasks, workers=2) == 0
    rows = [json.loads(line) for line in (folder / "tasks.results.jsonl").read_bytes().split(b"\n") if line]
    assert sorted(row["output"] for row in rows) == sorted(
        f"done: {each}" for each in ("one", "two", "three", "four")
    )
    assert sorted((folder / "asked").read_text("utf-8").split()) == ["four", "one", "three", "two"]


def playbook(folder: Path) -> None:
    embedder = FunctionEmbedder(
        "letters", 5, function=lambda texts: [[t.count(c) + 1 for c in "aeiou"] for t in texts]
    )
    for number in range(3):
        with Playbook.open(folder / "book", embedder) as book:
            book.record(PlaybookBullet(id=f"b{number}", content=f"Rule {number}: look it up."), domain="shop")
            assert len(book.bullets("shop")) == number + 1
    with Playbook.open(folder / "book", embedder) as book:
        assert {bullet.id for bullet in book.bullets("shop")} == {"b0", "b1", "b2"}
        assert book.retrieve("look up a rule", domain="shop")
        page = folder / "PLAYBOOK.md"
        book.export(page)
    assert b"\r\n" not in page.read_bytes()


def workspace(folder: Path) -> None:
    files = FolderFiles(folder / "root")
    space = Workspace(files)
    write, edit, read = ("write_file", "edit_file", "read_file")
    model = ScriptedLlm(
        [
            ToolCall("1", write, {"path": "notes/a.md", "text": "one\ntwo\n"}),
            ToolCall("2", edit, {"path": "notes/a.md", "old": "two", "new": "2"}),
            ToolCall("3", read, {"path": "notes/a.md"}),
            ToolCall("4", "search_files", {"text": "ONE"}),
            "done",
        ]
    )
    outcome = Agent(model, capabilities=[space]).run_sync("go")
    answers = [message for message in outcome.messages if message.role is Role.TOOL]
    assert not any(answer.is_error for answer in answers), answers
    assert (folder / "root" / "notes" / "a.md").read_bytes() == b"one\n2\n"
    assert files.sizes() == {"notes/a.md": 6}


def workspace_wall(folder: Path) -> None:
    (folder / "secret").write_bytes(b"secret")
    root = folder / "root"
    (root / "own").mkdir(parents=True)
    files = FolderFiles(root)
    outside = ["../secret", "/etc/passwd", "C:/secret", "own/../../secret", str(folder / "secret")]
    with suppress(OSError):  # without the right to make links
        (root / "link").symlink_to(folder / "secret")
        (root / "folder").symlink_to(folder)
        (root / "junction").symlink_to(folder)  # a shim for Windows makes it one
        outside += ["link", "folder/secret", "folder/root/own", "junction/secret", "junction/root/own"]
    (root / "hard").hardlink_to(folder / "secret")
    for path in (*outside, "hard"):
        for act in (files.read, lambda path: files.write(path, "broken")):
            if path in ("hard", "link") and act is not files.read:
                continue
            with pytest.raises(ToolError) as caught:
                act(path)
            assert "ecret" not in str(caught.value).replace(path, "")
    assert (folder / "secret").read_bytes() == b"secret"
    assert {path.name for path in folder.iterdir()} == {"secret", "root"}
    assert files.sizes() == {}


def workspace_names(folder: Path) -> None:
    """Names that Windows gives another meaning are refused there, and are plain names elsewhere."""
    files = FolderFiles(folder)
    for path in ("con", "NUL.txt", "sub/aux", "a:b", "a.", "b ", "what?", "sub/com1.md"):
        if SYSTEM == "win32":
            with pytest.raises(ToolError, match=r"no name that this system can store|relative"):
                files.write(path, "x")
        elif path != "a:b":
            files.write(path, "x")
    files.write("console.md", "x")
    assert "console.md" in files.sizes()


def workspace_limits(folder: Path) -> None:
    limits = FileLimits(files=10)

    def write(me: int) -> None:
        for number in range(5):
            with suppress(ToolError):
                FolderFiles(folder, limits=limits).write(f"{me}-{number}", "x")

    threads = [threading.Thread(target=write, args=(me,)) for me in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(FolderFiles(folder).sizes()) == 10


def skills(folder: Path) -> None:
    made = folder / "skills" / "greet"
    made.mkdir(parents=True)
    (made / "SKILL.md").write_bytes(b"---\r\nname: greet\r\ndescription: Greets.\r\n---\r\nSay hello.\r\n")
    (made / "more.md").write_bytes(b"More.\n")
    found = Skills(folder / "skills")
    assert [*found.skills] == ["greet"]
    assert found.skills["greet"].files() == ["more.md"]
    assert found._read_skill("greet", "more.md")["text"] == "More.\n"


def approvals(folder: Path) -> None:
    @tool(approval=True)
    def erase(path: str) -> str:
        """Erase a file."""
        return f"erased {path}"

    agent = Agent(ScriptedLlm([calls(("erase", {"path": "a"})), "done"]), tools=[erase])
    outcome: Any = asyncio.run(agent.outcome("erase a", run_id="con"))
    waiting = ApprovalFolder(folder)
    waiting.put(outcome)
    (call,) = waiting.pending()
    waiting.decide(call.pending.token, Approve())
    with pytest.raises(ConfigError, match="decided already"):
        waiting.decide(call.pending.token, Approve())
    taken = waiting.claim("con", waiting.decisions("con"))
    assert taken.run_id == "con"
    assert waiting.pending() == ()


def marks(folder: Path) -> None:
    first, second = Marks(folder / "marks.jsonl"), Marks(folder / "marks.jsonl")
    first.put(Mark("Run", good=True))
    second.put(Mark("run", good=False, why="wrong"))
    assert {run: mark.good for run, mark in Marks(folder / "marks.jsonl").all().items()} == {
        "Run": True,
        "run": False,
    }


def home(folder: Path) -> None:
    os.environ.pop("WESICHAIN_HOME", None)
    os.environ["LOCALAPPDATA"], os.environ["XDG_DATA_HOME"] = str(folder / "local"), str(folder / "xdg")
    places = {
        "win32": folder / "local",
        "darwin": Path("~/Library/Application Support").expanduser(),
        "linux": folder / "xdg",
    }
    assert home_folder() == places[SYSTEM] / "wesichain"


def addresses(folder: Path) -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match="cannot be used"):
            listening_socket("127.0.0.1", port)


def endings(folder: Path) -> None:
    """The signals that end a worker, and Ctrl-C, are handled in the event loop."""

    async def main() -> None:
        seen: list[int] = []
        stop = asyncio.Event()
        on_ctrl_c(stop.set)
        restore = [handle_signal(number, partial(seen.append, number)) for number in ENDING_SIGNALS[1:]]
        for number in ENDING_SIGNALS:
            signal.raise_signal(number)
        await asyncio.wait_for(stop.wait(), 30)
        while len(seen) < len(ENDING_SIGNALS) - 1:
            await asyncio.sleep(0)
        for each in restore:
            each()

    asyncio.run(main())


def questions_at_a_console(folder: Path) -> None:
    """Keys of the console of Windows, which only a shim can press; elsewhere `tests/cli` types at a terminal."""
    if SYSTEM != "win32" or "tests.platform.shim" not in sys.modules:
        return
    import msvcrt

    from tests.platform.shim import typing_on_console

    async def main() -> None:
        stop = CancellationToken()
        with typing_on_console("") as shown:
            asking = asyncio.ensure_future(ask_line("approve? ", stop))
            await asyncio.sleep(0)
            typed: Any = getattr(msvcrt, "typed")  # noqa: B009  # of the shim
            typed[:] = [*"yx\b", "\xe0", "H", *"es\r", *"left"]
            assert await asking == "yes"
            assert "".join(shown) == "yx\b \bes\r\n"
        with typing_on_console("typed before"):
            asking = asyncio.ensure_future(ask_line("approve? ", stop))
            await asyncio.sleep(0)
            stop.cancel("Ctrl-C")
            assert await asking is None

    asyncio.run(main())


def mcp_programs(folder: Path) -> None:
    """A server that is a program ends with all that it has started, also if it does not want to."""
    pids = folder / "pids"
    server = ROOT / "tests" / "tools" / "mcp" / "raw_server.py"

    async def main() -> None:
        words = (sys.executable, "-IS", str(server), "is-stubborn")
        async with McpServer.stdio(*words, env={"PIDS": str(pids)}, name="raw"):
            assert all(psutil.pid_exists(int(pid)) for pid in pids.read_text("utf-8").split())

    asyncio.run(main())
    left = [int(pid) for pid in pids.read_text("utf-8").split() if psutil.pid_exists(int(pid))]
    psutil.wait_procs([psutil.Process(pid) for pid in left], timeout=30)
    assert not [pid for pid in left if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


def isolation(folder: Path) -> None:
    """Isolated tools run, or are refused by name; so is a limit that the system does not keep."""
    if not CAN_FORK:
        with pytest.raises(ToolDefinitionError, match="isolate= needs Linux or macOS"):
            tool(add.function, isolate=True)
        return
    from tests.platform.isolated import compute, isolate_under_shim

    isolate_under_shim()
    limited = tool(compute, isolate=Isolation(cpu_seconds=20, file_mb=1))
    agent = Agent(ScriptedLlm([calls(("compute", {"number": 6})), "42"]), tools=[limited])
    outcome = agent.run_sync("?")
    assert [message.text for message in outcome.messages if message.role is Role.TOOL] == ["42"]
    if not LIMITS_MEMORY:
        with pytest.raises(ToolDefinitionError, match="needs Linux"):
            tool(compute, isolate=Isolation(memory_mb=100))


PROGRAMS: dict[str, Callable[[Path], None]] = {
    program.__name__: program
    for program in (
        doors, what_is_missing, agent_run, sqlite_logs, checkpoints, line_files, through_to_the_disk,
        links_are_not_followed, replaced_while_read, many_writers, locks_between_processes, recordings, run_ids,
        parts_of_recordings, cassettes, evals, batches, playbook, workspace, workspace_wall, workspace_names,
        workspace_limits, skills, approvals, marks, home, addresses, endings, questions_at_a_console, mcp_programs,
        isolation, command_line,
    )
}  # fmt: skip


def run_all(folder: Path, names: list[str]) -> dict[str, str]:
    """Run programs, and return what each raised; an empty text if it passed."""
    found: dict[str, str] = {}
    for name in names:
        place = folder / name
        place.mkdir()
        try:
            PROGRAMS[name](place)
            found[name] = ""
        except BaseException:
            found[name] = traceback.format_exc()
    return found
