"""`python -m tests.mutants [words ...]`: judge the mutants whose name or file has one of the words, or all.

`python -m tests.mutants --sample N [--seed S]` judges a random sample over the whole source instead, by the tests
that reach each, `--at FILE:LINE` those of a line; `--record [files or folders ...]` writes down which do. It takes what the tests take.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from .coverage import Recorder, make_noting, shared_memory
from .forks import is_green, judge_in_fork, load_packages, run_in_fork
from .runner import WANTED, RedBefore, Result, copied_source, is_enough, judge_all, row_of
from .sample import Sieve, at, room_of, sample
from .table import ROOT, Mutant, mutants

RECORDING = 900  # seconds of CPU time for the tests of a folder


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", metavar="FILE:LINE")
    parser.add_argument("--record", action="store_true")
    chosen = parser.parse_args(args)
    if chosen.record:
        return _record(chosen.words or sorted(map(str, ROOT.glob("tests/*/"))))
    if chosen.at is not None:
        file, _, line = chosen.at.partition(":")
        return _report(_judge_sample(at(file, int(line))))
    if chosen.sample is not None:
        return _report(_judge_sample(sample(chosen.sample, seed=chosen.seed)))
    words: list[str] = chosen.words
    table = [mutant for mutant in mutants() if not words or _has_one(mutant, words)]
    if not table:
        print(f"no mutant has {' or '.join(map(repr, words))} in its name or file")
        return 2
    try:
        results = judge_all(table, _tell)
    except RedBefore as error:
        print(error)
        return 2
    return _report(results)


def _record(folders: list[str]) -> int:
    """Write down what the tests of each folder run; a folder at a time, so that a broken one costs only itself."""
    load_packages()
    with copied_source() as source, shared_memory(make_noting(source)) as ran:
        for folder in folders:
            tests = ["-m", "not slow and not model and not types", folder]
            print(f"{folder}: {run_in_fork(source, tests, Recorder(ran), seconds=RECORDING)}", flush=True)
    return 0


def _judge_sample(mutants: Iterable[tuple[Mutant, list[Sieve]]]) -> list[Result]:
    """Judge mutants of a sample, and print what was caught in each room."""
    load_packages()
    results: list[Result] = []
    with copied_source() as source:
        for mutant, sieves in mutants:
            results.append(_judge_by_sieves(source, mutant, sieves))
            _tell(results[-1])
    for room, found in sorted(_by_room(results).items()):
        print(f"{room:12}{sum(result.is_caught for result in found)} of {len(found)}")
    return results


def _judge_by_sieves(source: Path, mutant: Mutant, sieves: Sequence[Sieve]) -> Result:
    """By the likeliest tests first, by others where those notice nothing."""
    result = Result(mutant, "survived", "no test runs it", 0.0)
    for sieve in sieves:
        tests = ["-m", "not slow and not model and not types", *sieve.tests]
        result = judge_in_fork(source, replace(mutant, tests=(*tests,)), is_quick=sieve.is_quick)
        # Without the mutant it has to pass: it may be red anyway, or take too long for a sample.
        while result.is_caught and not is_green(
            source, tests if result.verdict == "hung" else [_test_of(result)], is_quick=sieve.is_quick
        ):
            if result.verdict == "hung":
                return replace(result, verdict="survived", by="its tests take too long to tell")
            tests += ["--deselect", _test_of(result)]
            result = judge_in_fork(source, replace(mutant, tests=(*tests,)), is_quick=sieve.is_quick)
        if result.is_caught:
            return result
    return result


def _test_of(result: Result) -> str:
    """The test that noticed, with all its cases."""
    return result.by.partition("[")[0]


def _by_room(results: list[Result]) -> dict[str, list[Result]]:
    rooms: dict[str, list[Result]] = {}
    for result in results:
        rooms.setdefault(room_of(result.mutant), []).append(result)
    return rooms


def _report(results: list[Result]) -> int:
    caught = sum(result.is_caught for result in results)
    print(f"{caught} of {len(results)} caught ({caught / len(results):.0%}; {WANTED:.0%} are wanted)")
    return 0 if is_enough(results) else 1


def _has_one(mutant: Mutant, words: list[str]) -> bool:
    return any(word in f"{mutant.file} {mutant.name}" for word in words)


def _tell(result: Result) -> None:
    print(row_of(result), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
