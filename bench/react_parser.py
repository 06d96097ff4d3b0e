"""The throughput of the text ReAct scanner, on real replies and on hostile ones.

    python bench/react_parser.py [corpus folder]

CPU time is counted, the best of several rounds. With the corpus, also how many replies of each format
are read as expected (`exact`) or in another way that the corpus allows (`allowed`). Exits with status 1
where 100 kB of blanks, backticks, line breaks or half-open braces take 50 ms or more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wesichain.llm.react_text import Parsed, parse

ROUNDS = 7
LIMIT = 0.05
SIZE = 100_000
ROOT = Path(__file__).resolve().parent.parent
DIALECTS = ("react_bracket", "alfworld", "xml", "self_ask", "call_syntax", "leaked_native")
PREFIXES = ("", "Action: a\nAction Input: ", 'Action: a\nAction Input: {"a": ', "Final Answer: ")
PROMISED = {"blanks": " ", "backticks": "`", "line breaks": "\n", "half-open braces": "{"}
HOSTILE = {
    **PROMISED,
    "fences": "```\n",
    "markers": "Action:\n",
    "steps": "Action: a\nAction Input: b\nObservation: c\n",
    "half-open objects": '{"a":',
    "Python literals": "'a': [True, None], ",
    "quotes": "'",
}


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds, the minimum of several rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def verdict(parsed: Parsed, row: dict[str, Any]) -> str:
    expected = row["expected"]
    if parsed.kind != expected["kind"]:
        return "allowed" if parsed.kind in (row.get("also_ok") or ()) else "wrong"
    exact = {
        "action": (parsed.tool, parsed.args) == (expected.get("tool"), expected.get("args")),
        "final": parsed.answer == expected.get("answer"),
        "malformed": True,
    }
    return "exact" if exact[parsed.kind] else "wrong"


def report_corpus(path: Path) -> None:
    if not path.is_file():
        print(f"no corpus at {path}: only hostile texts are measured\n")
        return
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    forms: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        forms[row["format"]].append(row)
    print(f"{'format':<18}{'rows':>6}{'exact':>7}{'allowed':>9}{'wrong':>7}{'bugs':>6}{'MB/s':>8}")
    for form, members in forms.items():
        dialect = form if form in DIALECTS else "react"
        found = [(parse(row["text"], dialect=dialect), row) for row in members]
        counts = [sum(verdict(*pair) == word for pair in found) for word in ("exact", "allowed", "wrong")]
        bugs = sum(parsed.kind in (row.get("must_not") or ()) for parsed, row in found)
        speed = throughput([row["text"] or "" for row in members], dialect)
        print(f"{form:<18}{len(members):>6}{counts[0]:>7}{counts[1]:>9}{counts[2]:>7}{bugs:>6}{speed:>8.1f}")
    print()


def throughput(texts: Sequence[str], dialect: str) -> float:
    size = sum(len(text.encode()) for text in texts)
    return size / 1e6 / max(cpu(lambda: [parse(text, dialect=dialect) for text in texts]), 1e-9)


def report_hostile() -> bool:
    """Print the slowest of each kind; return whether all limits are kept."""
    kept = True
    print(f"{'100 kB of':<20}{'slowest, ms':>12}{'MB/s':>8}")
    for name, piece in HOSTILE.items():
        text = (piece * (SIZE // len(piece) + 1))[:SIZE]
        slowest = max(cpu(lambda whole=prefix + text: parse(whole)) for prefix in PREFIXES)  # type: ignore[misc]  # bound now
        kept = kept and (name not in PROMISED or slowest < LIMIT)
        print(f"{name:<20}{slowest * 1000:>12.2f}{SIZE / 1e6 / slowest:>8.1f}")
    return kept


def main() -> int:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("WESICHAIN_CORPORA")
    folder = Path(given) if given else ROOT.parent / "shared" / "corpora"
    report_corpus(folder / "react_cases.jsonl")
    return 0 if report_hostile() else 1


if __name__ == "__main__":
    sys.exit(main())
