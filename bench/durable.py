"""The cost of durability against plain DBOS with the same steps: CPU, wall time, bytes per step, start.

Run: python -m bench.durable [URL] [--workers] [--sizes] [--large]    (a SQLite file unless a URL is given)

Without options it compares with bare DBOS, interleaved. `--workers` measures what 1, 2 and 4 worker processes
do together, `--sizes` what runs of several lengths keep, `--large` what a start and a list cost with 100,000
finished runs beside them.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from wesichain import Agent, Budget, tool
from wesichain.agent import Approve
from wesichain.core import LlmRequest, LlmResponse, Role
from wesichain.durable import DurableAgent, DurableRuns
from wesichain.durable.store.store import Store
from wesichain.errors import RunInterruptedError
from wesichain.testing import FunctionLlm, calls

HOPS = 50  # a model call and a tool call each
SIDE_BY_SIDE = 8
ROUNDS = 5
MANY = 100_000


@tool
async def weather(day: int) -> dict[str, str | int]:
    """The weather of a day."""
    return {"day": day, "sky": "clear", "temperature": 21}


def agent(hops: int) -> Agent[Any, str]:
    def reply(request: LlmRequest) -> LlmResponse | str:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return calls(("weather", {"day": turn})) if turn < hops else "Warm."

    return Agent(FunctionLlm(reply), tools=[weather], budget=Budget(steps=hops + 1), name=f"hops-{hops}")


async def ours(url: str) -> dict[str, float]:
    """Concurrent runs of a durable agent."""
    steps = 2 * HOPS + 2  # with the start and the answer
    durable = DurableAgent(agent(HOPS), database_url=url, concurrency=SIDE_BY_SIDE)
    short = DurableAgent(agent(0), database_url=url)
    async with durable, short:
        await short.run("warm up")
        await durable.run("warm up")
        start = time.perf_counter()
        for _ in range(10):
            await short.run("How is the weather?")
        a_run = (time.perf_counter() - start) / 10
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(durable.run("How is the weather?") for _ in range(SIDE_BY_SIDE)))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    number = SIDE_BY_SIDE * steps
    return {"cpu": cpu / number * 1e3, "wall": wall / number * 1e3, "run": a_run * 1e3}


async def bare(url: str) -> dict[str, float]:
    """DBOS workflows with as many steps and outputs of the same length."""
    from dbos import DBOS, DBOSPortableJSONSerializer

    Store(url).close()  # the same tables, and the same settings of a file
    steps, text = 2 * HOPS + 2, "x" * 250
    DBOS(
        config={
            "name": "bare",
            "system_database_url": url,
            "serializer": DBOSPortableJSONSerializer(),
            "log_level": "CRITICAL",
        }
    )

    async def step() -> str:
        return text

    @DBOS.workflow(name="bare")
    async def work(_: str) -> str:
        for number in range(steps):
            await DBOS.run_step_async({"name": f"step {number}"}, step)
        return "done"

    DBOS.launch()

    async def one() -> None:
        handle = await DBOS.start_workflow_async(work, "go")
        await handle.get_result()

    await one()
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(one() for _ in range(SIDE_BY_SIDE)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    DBOS.destroy()
    number = SIDE_BY_SIDE * steps
    return {"cpu": cpu / number * 1e3, "wall": wall / number * 1e3}


def bytes_of(url: str, run_id: str) -> int:
    """The bytes of a run in the database."""
    store = Store(url)
    prefix = "" if store.database.is_sqlite else "dbos."
    length = "LENGTH" if store.database.is_sqlite else "OCTET_LENGTH"
    columns = {"workflow_input": "inputs", "workflow_output": "output", "operation_outputs": "output"}
    total = 0
    for table, column in columns.items():
        found = store.database.read(
            f"SELECT COALESCE(SUM({length}({column})), 0) AS bytes FROM {prefix}{table} "  # ours
            f"WHERE workflow_uuid = :id OR workflow_uuid LIKE :later",
            {"id": run_id, "later": f"{run_id}/%"},
        )
        total += int(found[0].bytes)
    store.close()
    return total


async def sizes(url: str) -> None:
    """The bytes of runs of several lengths, and with several approvals."""
    for hops in (10, 50, 200):
        async with DurableAgent(agent(hops), database_url=url) as durable:
            await durable.run("How is the weather?", run_id=f"size-{hops}")
        steps = 2 * hops + 2
        print(f"a run of {steps:4} steps keeps {bytes_of(url, f'size-{hops}') / steps:6.0f} bytes a step")
    for pages in (10, 40):
        async with DurableAgent(signer(pages), f"signer-{pages}", database_url=url) as durable:
            run_id = f"signed-{pages}"
            with suppress(RunInterruptedError):
                await durable.run("Sign.", run_id=run_id)
            for _ in range(pages):
                (waiting,) = await durable.pending(run_id)
                await durable.approve(run_id, waiting.token, Approve())
                with suppress(RunInterruptedError):
                    await durable.resume(run_id)
        print(f"a run of {pages:4} approvals keeps {bytes_of(url, run_id) / pages:6.0f} bytes an approval")


def signer(pages: int) -> Agent[str]:
    @tool(approval=True)
    async def sign(page: int) -> str:
        """Sign a page."""
        return f"signed {page}"

    def reply(request: LlmRequest) -> LlmResponse | str:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        return calls(("sign", {"page": turn})) if turn < pages else "Signed."

    return Agent(FunctionLlm(reply), tools=[sign], budget=Budget(steps=pages + 1), loop_guard=None)


async def work(url: str) -> None:
    """Serve until the queue is empty, and return the cost."""
    async with DurableAgent(agent(HOPS), database_url=url, concurrency=SIDE_BY_SIDE) as durable:
        await durable.run("warm up")
        print("ready", flush=True)
        sys.stdin.readline()
        cpu = time.process_time()
        await asyncio.to_thread(sys.stdin.readline)
        print(json.dumps(time.process_time() - cpu), flush=True)


async def workers(url: str, number: int) -> None:
    """A number of worker processes, with runs for all."""
    steps, runs = 2 * HOPS + 2, 24
    command = [sys.executable, "-m", "bench.durable", "--work", url]
    made = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    pipes = [(one.stdin, one.stdout) for one in made]
    for _, told in pipes:
        assert told is not None
        told.readline()

    def tell() -> None:
        for said, _ in pipes:
            assert said is not None
            said.write("\n")
            said.flush()

    async with DurableAgent(agent(HOPS), database_url=url) as client:
        tell()
        start = time.perf_counter()
        run_ids = [await client.enqueue("How is the weather?") for _ in range(runs)]
        for run_id in run_ids:
            await client.result(run_id)
        wall = time.perf_counter() - start
    tell()
    cpu = sum(float(told.readline()) for _, told in pipes if told is not None)
    for one in made:
        one.wait()
    done = runs * steps
    print(
        f"{number} workers: {done / wall:6.0f} steps/s, {cpu / done * 1e3:5.2f} ms of their CPU a step, "
        f"{cpu / wall:4.2f} cores busy"
    )


def fill(url: str, number: int) -> None:
    """Fill a database with copies of a finished run, in its stored form."""
    store = Store(url)
    prefix = "" if store.database.is_sqlite else "dbos."
    first = store.database.read("SELECT run FROM wesichain_runs WHERE agent = 'hops-0' LIMIT 1")[0].run
    with store.database.transaction() as db:
        series = (
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number}) "
            if store.database.is_sqlite
            else f"WITH n(i) AS (SELECT generate_series(1, {number})) "
        )
        for table, key in (
            (f"{prefix}workflow_status", "workflow_uuid"),
            (f"{prefix}workflow_input", "workflow_uuid"),
            (f"{prefix}workflow_output", "workflow_uuid"),
            (f"{prefix}operation_outputs", "workflow_uuid"),
            ("wesichain_runs", "run"),
        ):
            sample = db.exec_driver_sql(f"SELECT * FROM {table} WHERE 1 = 0")  # ours
            names = [*sample.keys()]
            new = [f"t.{key} || '-' || n.i" if name in (key, "current") else f't."{name}"' for name in names]
            listed = ", ".join(f'"{name}"' for name in names)
            text = (
                f"INSERT INTO {table} ({listed}) {series} SELECT {', '.join(new)} FROM {table} t, n "  # ours
                f"WHERE t.{key} = '{first}'"
            )
            db.exec_driver_sql(text)
    store.close()


async def large(url: str) -> None:
    fill(url, MANY)
    start = time.perf_counter()
    async with DurableAgent(agent(0), database_url=url) as durable:
        await durable.run("first")
        first = time.perf_counter() - start
        start = time.perf_counter()
        for _ in range(20):
            await durable.run("more")
        more = (time.perf_counter() - start) / 20
    async with DurableRuns(url) as runs:
        start = time.perf_counter()
        listed = await runs.list(limit=100)
        a_list = time.perf_counter() - start
        start = time.perf_counter()
        await runs.pending()
        inbox = time.perf_counter() - start
    print(f"with {MANY} finished runs: start and first run {first * 1e3:.0f} ms, a run {more * 1e3:.1f} ms, ")
    print(f"  a list of {len(listed)} {a_list * 1e3:.0f} ms, the inbox {inbox * 1e3:.0f} ms")


def measured(kind: str, url: str) -> dict[str, float]:
    """One measurement in its own process: DBOS is a singleton."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.durable", f"--{kind}", url], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    asked = {argument for argument in sys.argv[1:] if argument in ("--large", "--workers", "--sizes")}
    args: list[Any] = [argument for argument in sys.argv[1:] if argument not in asked]
    if args and args[0] == "--work":
        asyncio.run(work(args[1]))
        return 0
    if args and args[0] in ("--ours", "--bare"):
        print(json.dumps(asyncio.run((ours if args[0] == "--ours" else bare)(args[1]))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        url = args[0] if args else f"sqlite:///{Path(folder) / 'runs.db'}"
        theirs = args[0] if args else f"sqlite:///{Path(folder) / 'bare.db'}"
        if not asked:
            compare(url, theirs)
        if "--workers" in asked:
            for number in (1, 2, 4):
                asyncio.run(workers(url, number))
        if "--sizes" in asked:
            asyncio.run(sizes(url))
        if "--large" in asked:
            measured("ours", url)  # something to copy
            asyncio.run(large(url))
    return 0


def compare(url: str, theirs: str) -> None:
    """Interleaved measurements, each in its own process."""
    pairs = [(measured("bare", theirs), measured("ours", url)) for _ in range(ROUNDS)]
    ratios = [one["cpu"] / two["cpu"] for one, two in pairs]
    for name in ("cpu", "wall"):
        one = statistics.median(pair[0][name] for pair in pairs)
        two = statistics.median(pair[1][name] for pair in pairs)
        rate = f"{1e3 / two:6.0f} steps/s" if name == "wall" else ""
        print(f"a step, {name:4}  bare DBOS {one:6.2f} ms   durable agent {two:6.2f} ms  {rate}")
    low, high = min(ratios), max(ratios)
    print(f"steps by CPU, against bare DBOS: {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})")
    print(f"a run of two steps {statistics.median(pair[1]['run'] for pair in pairs):6.1f} ms")


if __name__ == "__main__":
    sys.exit(main())
