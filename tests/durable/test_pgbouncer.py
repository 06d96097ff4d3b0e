"""Durable runs behind a PgBouncer that pools transactions: no connection keeps anything from one to the next."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.durable.test_agent import deleter, served
from tests.ports import reserved_port
from wesichain import Agent, tool
from wesichain.agent import Approve
from wesichain.core import LlmRequest, Role
from wesichain.durable import Concurrency, DurableAgent, DurableRuns, Rate
from wesichain.errors import RunInterruptedError
from wesichain.testing import FunctionLlm, calls

SERVERS = 3  # connections to the server that all clients share


@pytest.fixture
def bouncer(postgres: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a PgBouncer before the Postgres of the tests; $PGBOUNCER may name the program."""
    program = os.environ.get("PGBOUNCER") or shutil.which("pgbouncer")
    if program is None:
        pytest.skip("no pgbouncer is installed here")
    folder = parse_qs(urlsplit(postgres).query)["host"][0]
    port = reserved_port()
    settings = tmp_path / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\npostgres = host={folder} port=5432 user=postgres\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
        f"pool_mode = transaction\ndefault_pool_size = {SERVERS}\nmax_client_conn = 500\n"
    )
    tmp_path.chmod(0o755)
    settings.chmod(0o644)
    owner = ["-u", Path(folder).owner()] if os.getuid() == 0 else []  # it does not run as root
    process = subprocess.Popen([program, "-q", *owner, str(settings)], stderr=subprocess.DEVNULL)
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        for _ in range(600):
            try:
                psycopg.connect(url).close()
                break
            except psycopg.OperationalError:
                assert process.poll() is None, "pgbouncer has ended"
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def counter(done: list[str]) -> Agent[str]:
    @tool(effect="once")
    async def count(name: str) -> str:
        """Count one."""
        done.append(name)
        return name

    def reply(request: LlmRequest) -> Any:
        name = request.messages[-1].text
        return calls(("count", {"name": name})) if request.messages[-1].role is Role.USER else "counted"

    return Agent(FunctionLlm(reply), tools=[count])


async def test_a_fleet_works_through_few_connections(bouncer: str) -> None:
    """Queues, limits of the fleet, approvals, cancels, lists and events, by more clients than connections."""
    done: list[str] = []

    def durable() -> DurableAgent[str]:
        limits = Concurrency(5, queue=8)
        return DurableAgent(
            counter(done), "counter", database_url=bouncer, concurrency=limits, rate=Rate(1000, 1.0)
        )

    async with durable() as one, durable() as two, durable() as three:
        for number in range(40):
            await one.enqueue(f"n{number}", run_id=f"bounced-{number}", key=f"tenant {number % 3}")
        async with served(two), served(three):
            results = await asyncio.gather(*(one.result(f"bounced-{n}", timeout=300) for n in range(40)))
        assert {result.output for result in results} == {"counted"}
        assert sorted(done) == sorted(f"n{number}" for number in range(40)), "each once"
        events = [event async for event in one.events("bounced-7")]
        assert events[-1].kind == "run_completed"
        assert len(await one.list(search="bounced", limit=100)) == 40
    async with DurableAgent(deleter(), "deleter-bounced", database_url=bouncer) as waiting:
        with pytest.raises(RunInterruptedError):
            await waiting.run("delete", run_id="bounced-waiting")
        for call in await waiting.pending():
            await waiting.approve("bounced-waiting", call.token, Approve())
        assert (await waiting.result("bounced-waiting", timeout=300)).output
    async with DurableRuns(bouncer) as runs:
        assert await runs.prune(older_than=0) >= 41


async def test_nothing_is_kept_in_a_session(bouncer: str) -> None:
    """Settings, prepared statements, locks and cursors of a session would be another client's tomorrow."""
    async with DurableAgent(counter([]), "plain", database_url=bouncer) as durable:
        assert (await durable.run("n", run_id="bounced-session")).output == "counted"
        with psycopg.connect(bouncer, autocommit=True, prepare_threshold=None) as db:
            for _ in range(10 * SERVERS):  # whichever server it is
                assert db.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)
                assert db.execute(
                    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                ).fetchone() == (0,)
                assert db.execute("SELECT count(*) FROM pg_listening_channels()").fetchone() == (0,)
        await durable.delete("bounced-session")
