"""`python -m tests.mutants [words ...]`: judge the mutants whose name or file has one of the words, or all.

`python -m tests.mutants --sample N [--seed S]` judges a random sample over the whole source instead.
"""

from __future__ import annotations

import argparse
import sys

from .runner import WANTED, RedBefore, Result, copied_source, is_enough, judge, judge_all, row_of
from .sample import sample
from .table import Mutant, mutants


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(args)
    if chosen.sample is not None:
        return _report(_judge_sample(chosen.sample, chosen.seed))
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


def _judge_sample(size: int, seed: int) -> list[Result]:
    """Judge a sample. Its tests are not run without a mutant first: one that is red anyway would catch all."""
    results: list[Result] = []
    with copied_source() as source:
        for mutant in sample(size, seed=seed):
            results.append(judge(source, mutant))
            _tell(results[-1])
    return results


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
