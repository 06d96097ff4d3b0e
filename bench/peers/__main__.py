"""The command: `python -m bench.peers` installs, measures, and writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

from bench.fire.run import trial

from . import environments, results
from .report.figures import rows_of
from .report.page import DOCS, write_figures, write_page
from .run import QUICK, Effort, measure, measure_graphs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--only", help="contestants, separated by commas; the hand-written loop is always there"
    )
    parser.add_argument("--quick", action="store_true", help="two rounds, short chains, nothing under fire")
    parser.add_argument("--keep-fire", action="store_true", help="do not try anyone by fire again")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--limit", type=float, help="CPU seconds after which a scenario is stopped")
    parser.add_argument("--runs", type=int, help="runs held at once")
    parser.add_argument("--cache", type=Path, default=environments.CACHE, help="folder of the environments")
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="the results file")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the page goes")
    parser.add_argument("--page", action="store_true", help="only write the page from the results file")
    parser.add_argument("--renew", action="store_true", help="only pin the newest versions anew")
    options = parser.parse_args()
    if options.quick and (options.results, options.docs) == (results.RESULTS, DOCS):
        options.docs = environments.ROOT / "bench" / "results" / "quick"  # does not replace the real page
        options.results = options.docs / "peers.json"
    if options.renew:
        environments.renew_pins()
        return
    if options.page:
        found = results.load(options.results)
        write_page(found, options.docs)
        if options.docs == DOCS:
            write_figures(found)
        return
    contestants = environments.select(options.only)
    effort = QUICK if options.quick else Effort()
    asked = {name: getattr(options, name) for name in ("rounds", "limit", "runs")}
    effort = replace(effort, **{name: value for name, value in asked.items() if value})
    before = results.load(options.results) if options.results.exists() else None
    kept = before["fire"] if before else {}
    found = asyncio.run(measure(contestants, effort, cache=options.cache, path=options.results))
    if environments.LANGCHAIN in contestants:
        found["graph"] = measure_graphs(rounds=effort.rounds, cache=options.cache)
    if options.keep_fire or options.quick:
        found["fire"] = kept
        if before:
            found["fire_note"] = before.get("fire_note") or f"Run on {before['date']}."
    else:
        found["fire"] = asyncio.run(trial(contestants, cache=options.cache))
    if before:
        found["earlier"] = earlier(before)
    results.save(found, options.results)
    write_page(found, options.docs)
    if options.docs == DOCS:
        write_figures(found)


def earlier(before: results.Results) -> list[results.Earlier]:
    """The earlier runs, including the one that is replaced now."""
    runs = before.get("earlier", [])
    ours = next((row for row in rows_of(before) if row.name == environments.OURS.name), None)
    if ours is None or not (hop := ours.value("hop")) or not (further := ours.value("early")):
        return runs
    entry = ours.entry
    about = {"date": before["date"], "version": entry["version"], "rounds": len(entry["rounds"]), "note": ""}
    return [*runs, cast("results.Earlier", {**about, "hop": hop.median, "early": further.median})]


if __name__ == "__main__":
    main()
