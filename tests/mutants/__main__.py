"""`python -m tests.mutants [words ...]`: judge the mutants whose name or file has one of the words, or all."""

from __future__ import annotations

import sys

from .runner import WANTED, RedBefore, Result, is_enough, judge_all, row_of
from .table import Mutant, mutants


def main(words: list[str]) -> int:
    table = [mutant for mutant in mutants() if not words or _has_one(mutant, words)]
    if not table:
        print(f"no mutant has {' or '.join(map(repr, words))} in its name or file")
        return 2
    try:
        results = judge_all(table, _tell)
    except RedBefore as error:
        print(error)
        return 2
    caught = sum(result.is_caught for result in results)
    print(f"{caught} of {len(results)} caught ({caught / len(results):.0%}; {WANTED:.0%} are wanted)")
    return 0 if is_enough(results) else 1


def _has_one(mutant: Mutant, words: list[str]) -> bool:
    return any(word in f"{mutant.file} {mutant.name}" for word in words)


def _tell(result: Result) -> None:
    print(row_of(result), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
