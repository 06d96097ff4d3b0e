"""`python -m tests.mutants [words ...]`: judge the mutants whose name or file has one of the words, or all.

`python -m tests.mutants --sample N [--seed S] [rooms ...]` judges a random sample over the source instead, by the tests
that reach each, `--at FILE:LINE` those of a line; `--record [files or folders ...]` writes down which do. It takes what the tests take.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from .coverage import Recorder, make_noting, shared_memory
from .forks import Judge, Sampled, run_tests
from .runner import WANTED, RedBefore, Result, copied_source, is_enough, judge_all, row_of
from .sample import BUDGET, at, room_of, sample
from .table import ROOT, Mutant, mutants


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", metavar="FILE:LINE")
    parser.add_argument("--budget", type=float, default=BUDGET, help="CPU seconds of the tests of one mutant")
    parser.add_argument("--record", action="store_true")
    chosen = parser.parse_args(args)
    if chosen.record:
        return _record(chosen.words or [str(ROOT / "tests")])
    if chosen.at is not None:
        file, _, line = chosen.at.partition(":")
        return _report(_judge_sample(at(file, int(line), budget=chosen.budget)))
    if chosen.sample is not None:
        return _report(
            _judge_sample(sample(chosen.sample, chosen.words, seed=chosen.seed, budget=chosen.budget))
        )
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
    """Write down what the tests of these folders run."""
    with copied_source() as source:
        make_noting(source)
        with shared_memory(source) as ran:
            run_tests(source, folders, Recorder(ran))
    return 0


def _judge_sample(sampled: Iterable[Sampled]) -> list[Result]:
    """Judge mutants by tests that reach them, and print what was caught in each room."""
    with copied_source() as source:
        judge = Judge(source, sampled, _tell)
        run_tests(source, [str(ROOT / "tests")], judge)
    for room, found in sorted(_by_room(judge.results).items()):
        print(f"{room:12}{sum(result.is_caught for result in found)} of {len(found)}")
    return judge.results


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
