"""The command: `python -m bench.fire`, which puts the trial into the results and writes the page."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from bench.peers import environments, results
from bench.peers.report.page import DOCS, write_page
from bench.peers.run import empty_results

from .run import trial


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fire", description=__doc__)
    parser.add_argument("--only", help="contestants, separated by commas")
    parser.add_argument("--cache", type=Path, default=environments.CACHE, help="folder of the environments")
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="the results file")
    parser.add_argument("--docs", type=Path, default=DOCS, help="where the page goes")
    options = parser.parse_args()
    table = asyncio.run(trial(environments.select(options.only), cache=options.cache))
    found = results.load(options.results) if options.results.exists() else empty_results(concurrent=0)
    found["fire"] |= table
    results.save(found, options.results)
    write_page(found, options.docs)


if __name__ == "__main__":
    main()
