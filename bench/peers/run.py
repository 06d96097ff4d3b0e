"""The measurement: all contestants in turn, in each round, so that noise affects all alike."""

from __future__ import annotations

import datetime
import os
import platform
import random
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .children import CrashedError, StoppedError, lines_of
from .environments import LANGCHAIN, YARDSTICK, Contestant, InstallError, child_environ, prepare
from .results import Entry, Fact, Graphs, Results, save
from .scenarios import CONCURRENT, SCENARIOS

TIME_IMPORT = "import time; t = time.process_time(); exec({!r}); print(time.process_time() - t)"
PYDANTIC = "from pydantic import BaseModel, Field, TypeAdapter"
# What takes more than so many CPU seconds in a round is measured in so many rounds at most.
FEWER_ROUNDS = ((10.0, 1), (3.0, 2))


@dataclass(frozen=True, slots=True)
class Effort:
    """The extent of the measurement."""

    rounds: int = 6  # the fewest that give an interval of 95 %
    seconds: float = 0.25  # CPU for one scenario in one round, if a run does not take longer
    runs: int = 500  # held at once
    longest: int = 1000  # hops
    limit: float = 20.0  # CPU seconds after which a scenario is stopped


QUICK = Effort(rounds=2, seconds=0.1, runs=100, longest=100)


async def measure(contestants: tuple[Contestant, ...], effort: Effort, *, cache: Path, path: Path) -> Results:
    """All rounds; the results file is written after each of them."""
    results = empty_results(concurrent=effort.runs)
    pythons = install(contestants, cache=cache, results=results)
    environ = child_environ(cache / "home")
    started = time.monotonic()
    for number in range(effort.rounds):
        results.setdefault("load", []).append(round(os.getloadavg()[0], 1))
        order = [c for c in contestants if c.name in pythons]
        random.Random(number).shuffle(order)
        for place, contestant in enumerate(order, 1):
            where = f"round {number + 1}/{effort.rounds}, {place}/{len(order)}: {contestant.name}"
            print(f"[{time.monotonic() - started:5.0f} s] {where}", file=sys.stderr, flush=True)
            entry = results["contestants"][contestant.name]
            await Child(contestant, pythons[contestant.name], environ, effort).take_part(entry)
            if "unavailable" in entry:
                del pythons[contestant.name]
        save(results, path)
    return results


def measure_graphs(*, rounds: int, cache: Path) -> Graphs | None:
    """Our graphs against LangGraph's, in this process, which has the packages of both."""
    from bench.graph import compare_rows, server

    try:
        python = prepare(LANGCHAIN.environment, cache)
    except InstallError:
        return None  # the page says so where the times stand
    with server() as url:
        return compare_rows(python, child_environ(cache / "home"), url, rounds=rounds)


def empty_results(*, concurrent: int) -> Results:
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "concurrent": concurrent,
        "contestants": {},
        "graph": None,
        "fire": {},
    }


def install(contestants: tuple[Contestant, ...], *, cache: Path, results: Results) -> dict[str, Path]:
    """The Python of each contestant; if one cannot be installed, the reason is recorded."""
    pythons: dict[str, Path] = {}
    for contestant in contestants:
        entry: Entry = {"title": contestant.name, "version": "", "statement": "", "note": "", "rounds": []}
        results["contestants"][contestant.name] = entry
        try:
            pythons[contestant.name] = prepare(contestant.environment, cache)
        except InstallError as error:
            entry["unavailable"] = f"cannot be installed: {error}"
    return pythons


def worth_repeating(entry: Entry, scenario: str) -> bool:
    """Skip scenarios that failed before, and limit those that take long."""
    past = [facts[scenario] for facts in entry["rounds"] if scenario in facts]
    if any("error" in fact for fact in past):
        return False
    spent = max((fact["cpu"] * fact["runs"] for fact in past), default=0.0)
    return all(spent <= seconds or len(past) < rounds for seconds, rounds in FEWER_ROUNDS)


class Child:
    """The processes of a contestant in a round, one after the other."""

    def __init__(self, contestant: Contestant, python: Path, environ: dict[str, str], effort: Effort) -> None:
        self.contestant = contestant
        self.python = python
        self.environ = environ
        self.effort = effort

    async def take_part(self, entry: Entry) -> None:
        """Add a round to the entry: the scenarios, the runs at once, the import."""
        names = [scenario.name for scenario in SCENARIOS if scenario.hops <= self.effort.longest]
        wanted = [name for name in names if worth_repeating(entry, name)]
        again = worth_repeating(entry, CONCURRENT.name)
        facts: dict[str, Fact] = {}
        entry["rounds"].append(facts)
        await self.collect(entry, facts, "loop", "--names", ",".join(wanted))
        if "unavailable" in entry:
            return
        if again:
            await self.collect(entry, facts, "concurrent")
        facts["import"] = await self.import_cost(entry["statement"])
        if self.contestant == YARDSTICK:
            facts["pydantic"] = await self.import_cost(PYDANTIC)

    async def collect(self, entry: Entry, facts: dict[str, Fact], *arguments: str) -> None:
        """Run the worker and add its results to the entry and the round."""
        command = ["-m", "bench.peers.worker", self.contestant.name, *arguments]
        for option in ("seconds", "runs", "limit"):
            command += [f"--{option}", str(getattr(self.effort, option))]
        scenario = ""
        try:
            async for line in self._lines(*command):
                if "scenario" not in line:
                    entry["title"] = line["name"]
                    entry["version"] = line["version"]
                    entry["statement"] = line["import"]
                    entry["note"] = line["note"]
                    entry["blocking"] = line["blocking"]
                    entry["quick"] = line["quick"]
                    entry["best"] = line["best"]
                    continue
                scenario = line.pop("scenario")
                if "started" not in line:
                    facts[scenario] = line
        except (CrashedError, StoppedError) as error:
            if scenario:
                facts[scenario] = {"error": str(error)}
            else:
                entry["unavailable"] = str(error)

    async def import_cost(self, statement: str) -> Fact:
        """CPU seconds of a statement in a new interpreter."""
        try:
            (seconds,) = [line async for line in self._lines("-c", TIME_IMPORT.format(statement))]
            return {"cpu": seconds}
        except (CrashedError, StoppedError) as error:
            return {"error": str(error)}

    def _lines(self, *command: str) -> AsyncIterator[Any]:
        patience = 30 * self.effort.limit  # of wall clock: a busy machine gives little CPU
        return lines_of(self.python, *command, environ=self.environ, limit=patience)
