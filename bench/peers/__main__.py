"""The command: `python -m bench.peers` installs, measures, and writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import replace
from pathlib import Path

from bench.fire.run import trial

from . import environments, results
from .report.page import DOCS, write_page
from .run import QUICK, Effort, measure, measure_graphs


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument(
        "--only", help="contestants, separated by commas; the hand-written loop is always there"
    )
    parser.add_argument("--quick", action="store_true", help="two rounds, short chains, nothing under fire")
    parser.add_argument("--keep-fire", action="store_true", help="do not try anyone by fire again")
    parser.add_argument("--rounds", type=int, help="how often everything is measured")
    parser.add_argument("--cache", type=Path, default=environments.CACHE, help="folder of the environments")
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="the results file")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the page goes")
    parser.add_argument("--page", action="store_true", help="only write the page from the results file")
    parser.add_argument("--renew", action="store_true", help="only pin the newest versions anew")
    options = parser.parse_args()
    if options.quick and (options.results, options.docs) == (results.RESULTS, DOCS):
        options.docs = results.RESULTS.parent / "quick"  # a rough look does not replace the real thing
        options.results = options.docs / "peers.json"
    if options.renew:
        environments.renew_pins()
        return
    if options.page:
        write_page(results.load(options.results), options.docs)
        return
    contestants = environments.select(options.only)
    effort = QUICK if options.quick else Effort()
    if options.rounds:
        effort = replace(effort, rounds=options.rounds)
    kept = results.load(options.results)["fire"] if options.results.exists() else {}
    found = asyncio.run(measure(contestants, effort, cache=options.cache, path=options.results))
    if environments.LANGCHAIN in contestants:
        found["graph"] = measure_graphs(rounds=effort.rounds, cache=options.cache)
    if options.keep_fire or options.quick:
        found["fire"] = kept
    else:
        found["fire"] = asyncio.run(trial(contestants, cache=options.cache))
    results.save(found, options.results)
    write_page(found, options.docs)


if __name__ == "__main__":
    main()
