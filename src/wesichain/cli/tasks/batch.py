"""Batches: run the tasks of a file concurrently, and continue where an earlier batch stopped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wesichain.cli.options import database_words
from wesichain.cli.target import Target
from wesichain.cli.terminal import (
    CTRL_C,
    FAILED,
    INTERRUPTED,
    OK,
    note,
    on_ctrl_c,
    print_command,
    progress,
)
from wesichain.core import JsonValue
from wesichain.core.internal import Value, dump_json, is_object, parse_json, to_plain
from wesichain.errors import CodecError, ConfigError, RunFailedError, RunInterruptedError, WesichainError
from wesichain.store import append_line, read_json_lines
from wesichain.tools import CancellationToken

if TYPE_CHECKING:
    from wesichain.durable import DurableAgent


class BatchTask(Value):
    """A task in a file."""

    id: str
    text: str

    @property
    def run_id(self) -> str:
        """The run id, which is the same whenever the file is run."""
        return f"batch-{sha256(f'{self.id}|{self.text}'.encode()).hexdigest()[:24]}"


def read_tasks(path: Path) -> list[BatchTask]:
    """Read a JSON Lines file of tasks: each a text, or `{"task": TEXT, "id": ID}`."""
    tasks = [_task(found, path, number) for number, found in read_json_lines(path)]
    twice = [name for name, times in Counter(task.id for task in tasks).items() if times > 1]
    if twice:
        raise ConfigError(f"{path}: the id {twice[0]!r} is given twice; each task needs one of its own")
    return tasks


def _task(found: Any, path: Path, number: int) -> BatchTask:
    if isinstance(found, str):
        return BatchTask(str(number), found)
    text = found.get("task") if is_object(found) else None
    if not isinstance(text, str):
        raise ConfigError(f'{path}, line {number}: write a text, or {{"task": TEXT, "id": ID}}')
    return BatchTask(str(found.get("id", number)), text)


def run_batch(
    target: Target, path: Path, *, workers: int, out: Path | None = None, database_url: str | None = None
) -> int:
    """Run the tasks of a file, and append each result to a file next to it."""
    tasks = read_tasks(path)
    results = out or path.with_suffix(".results.jsonl")
    done = _completed(results)
    todo = [task for task in tasks if done.get(task.id) != task.run_id]
    if len(todo) < len(tasks):
        note(f"{len(tasks) - len(todo)} of {len(tasks)} tasks have their results in {results}")
    if not todo:
        return OK
    url = database_url or f"sqlite:///{path.with_suffix('.runs.db').absolute()}"
    states, pressed = asyncio.run(_execute(target, todo, results, url, workers))
    counts = Counter(states.values())
    summary = ", ".join(f"{number} {state}" for state, number in counts.items()) or "nothing"
    note(f"{summary}; the results are in {results}")
    for run_id, state in states.items():
        if state == "interrupted":
            print_command(f"{run_id} waits", "runs", "show", run_id, *database_words(url))
    if pressed or counts["interrupted"]:
        options = ["--workers", str(workers), *database_words(database_url)]
        options += [] if out is None else ["--out", str(out.absolute())]
        words = target.words(str(path.absolute()), *options)
        print_command("continue what has not ended", *words, folder=target.folder)
    if pressed:
        return CTRL_C
    return FAILED if counts["failed"] else INTERRUPTED if counts["interrupted"] else OK


async def _execute(
    target: Target, todo: Sequence[BatchTask], results: Path, url: str, workers: int
) -> tuple[Mapping[str, str], bool]:
    """Run the tasks; return the states of their runs, and whether Ctrl-C was pressed."""
    from wesichain.durable import DurableAgent  # slow to import

    states: dict[str, str] = {}
    model = None if target.agent is None else target.model
    gate = asyncio.Semaphore(workers)
    stop = asyncio.Event()
    end = CancellationToken()
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(target.open())
        deps = None if target.deps is None else target.open_deps
        durable = DurableAgent(
            agent, "batch", database_url=url, concurrency=workers, on_change="adopt", deps=deps
        )
        on_ctrl_c(stop.set)
        shown = stack.enter_context(progress())
        bar = shown.add_task("tasks", total=len(todo))

        async def one(task: BatchTask) -> None:
            async with gate:
                result = await _result(durable, task, model)
                append_line(results, dump_json(result).encode())
                states[task.run_id] = str(result["status"])
                shown.advance(bar)

        serving = asyncio.ensure_future(durable.serve(end, grace=0.0))
        stopped = asyncio.ensure_future(stop.wait())
        left = {asyncio.ensure_future(one(task)) for task in todo}
        try:
            while left and not stopped.done() and not serving.done():
                ended, _ = await asyncio.wait({*left, stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
                for task in ended & left:
                    task.result()
                left -= ended
        finally:
            for waiting in (*left, stopped):
                waiting.cancel()
            await asyncio.wait({*left, stopped})
            end.cancel()
            await serving  # active runs stay in the queue, for the next time
    return states, stop.is_set()


async def _result(durable: DurableAgent[Any], task: BatchTask, model: str | None) -> dict[str, JsonValue]:
    common: dict[str, JsonValue] = {"id": task.id, "task": task.text, "run_id": task.run_id}
    try:
        await durable.enqueue(task.text, run_id=task.run_id, model=model)
        result = await durable.result(task.run_id)
    except RunInterruptedError as error:
        return {**common, "status": "interrupted", "error": str(error)}
    except (RunFailedError, WesichainError) as error:
        return {**common, "status": "failed", "error": str(error)}
    return {
        **common,
        "status": "completed",
        "output": to_plain(result.output),
        "usage": to_plain(result.usage),
    }


def _completed(results: Path) -> Mapping[str, str]:
    """The ids of completed tasks, with the ids of their runs."""
    if not results.exists():
        return {}
    found: dict[str, str] = {}
    for line in results.read_bytes().split(b"\n"):
        try:
            row: Any = parse_json(line)
        except CodecError:
            continue  # a line that a crash has torn
        if is_object(row) and row.get("status") == "completed":
            found[str(row.get("id"))] = str(row.get("run_id"))
    return found
