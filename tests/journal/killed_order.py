"""An order as a function, whose process kills itself at one of its appends, or within an effect."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import warnings
from pathlib import Path
from typing import Any

from tests.journal.programs import CrashingLogs, give
from wesichain.errors import RunInterruptedError
from wesichain.journal import Journal, Journals
from wesichain.store import FolderLogs, Logs, PostgresLogs, SqliteLogs

EFFECTS = ("price", "charge", "mail")
VALUE = {"receipt": "charge", "signal": "signalled", "mail": "mail", "note": "answer to note"}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Shop:
    """Writes each effect to a file; the process may die before or after one of them."""

    def __init__(self, folder: Path, dies_at: str) -> None:
        self._ledger = folder / "ledger"
        self._dies_at = dies_at

    def do(self, name: str) -> str:
        if self._dies_at == f"before {name}":
            die()
        with self._ledger.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")
        if self._dies_at == f"after {name}":
            die()
        return name

    def done(self) -> list[str]:
        return self._ledger.read_text("utf-8").split() if self._ledger.exists() else []

    def reconcile(self, *_: object) -> str | None:
        return "charge" if "charge" in self.done() else None


async def order(journal: Journal, shop: Shop) -> dict[str, Any]:
    await journal.perform("price", lambda: shop.do("price"))
    await journal.ask("approve", "Buy it?", expects=str)
    receipt = await journal.perform(
        "charge", lambda: shop.do("charge"), unique="charge:42", reconcile=shop.reconcile
    )
    below = journal.below("after")
    await below.sleep("a moment", 0.01)
    value, mail, note = await below.gather(
        below.receive("paid"), below.perform("mail", lambda: shop.do("mail")), below.ask("note", "Which?")
    )
    return {"receipt": receipt, "signal": value, "mail": mail, "note": note}


def logs_at(place: str, folder: Path) -> Logs:
    if place.startswith("postgres"):
        return PostgresLogs(place)
    return FolderLogs(folder / "runs") if place == "folder" else SqliteLogs(folder / "runs.db")


async def carry(place: str, folder: Path, point: str) -> None:
    """Carry the run to its end, and write its value to a file."""
    logs: Any = CrashingLogs(logs_at(place, folder), die)
    kind, _, number = point.partition(" ")
    if kind in ("append", "appended"):
        logs.crash_at, logs.stores_first = int(number), kind == "appended"
    shop = Shop(folder, point)

    async def program(journal: Journal) -> dict[str, Any]:
        return await order(journal, shop)

    while True:
        journals = Journals(logs, lease=0.1)
        try:
            value = await journals.run(program, run_id="run")
        except RunInterruptedError as interrupted:
            for pending in interrupted.outcome.pending:
                await give(journals, pending.kind, pending.name)
            continue
        finally:
            await journals.close()
        (folder / "value").write_text(json.dumps([value, logs.appends]), "utf-8")
        return


def run_in_a_process(place: str, folder: Path, point: str) -> int:
    """Carry the run in a forked process; returns its exit code."""
    process = multiprocessing.get_context("fork").Process(
        target=lambda: asyncio.run(carry(place, folder, point))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of this process are not used there
        process.start()
    process.join(60)
    assert process.exitcode is not None, f"it hangs at {point}"
    return process.exitcode
