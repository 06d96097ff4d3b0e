"""When a model's lesson is withdrawn: simulations of a lesson, with labels that are sometimes wrong.

    python -m bench.evidence [--histories 1000] [--page docs/learning-evidence.md]

Eight runs of its kind come before a lesson, then it is shown to every run that calls its tool. Each run
succeeds or not and is labelled, sometimes wrongly. Counting and withdrawing are the product's own code; the
worlds are made up.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random

from wesichain.learning import PlaybookBullet, Provenance, Reflection, ToolCallingStrategy
from wesichain.learning.credit import credit_run, with_stage

RUNS = 60  # per simulation
NOISES = (0.0, 0.1, 0.2)  # shares of wrong labels
SEED = 20_261_117
BEFORE = 8  # runs without it
WORLDS = {  # the success rates of runs without the lesson, and with it
    "right: 20 % become 95 %": (0.20, 0.95),
    "right, in hard tasks: 20 % become 70 %": (0.20, 0.70),
    "right, in very hard tasks: 10 % become 40 %": (0.10, 0.40),
    "no difference: 70 % stay 70 %": (0.70, 0.70),
    "no use: 10 % stay 10 %": (0.10, 0.10),
    "wrong: 70 % become 35 %": (0.70, 0.35),
    "wrong: 95 % become 10 %": (0.95, 0.10),
}


def lesson() -> PlaybookBullet:
    made = ToolCallingStrategy(
        content="pay: give amount in cents.",
        tool_sequence=("pay",),
        lesson="argument",
        sources=("a", "b"),
        provenance=Provenance("model"),
    )
    return with_stage(made, now=0)


def withdrawn_after(rates: tuple[float, float], noise: float, chance: Random) -> int | None:
    """The number of runs after which the lesson was withdrawn; None if it was not."""
    bullet = lesson()
    for number in range(1 - BEFORE, RUNS + 1):
        shown = number > 0
        good = (chance.random() < rates[shown]) != (chance.random() < noise)
        run = Reflection(
            "r", "success" if good else "failure", "label", "t", "d", "", attempted=("pay",), iterations=3
        )
        bullet = credit_run(bullet, run, shown=shown, helped=good if shown else None, half_life=50, now=0)
        if not bullet.is_visible:
            return number
    return None


def table(histories: int) -> str:
    head = " | ".join(f"{noise:.0%} wrong labels" for noise in NOISES)
    lines = [f"| lesson | {head} |", f"|---|{'---|' * len(NOISES)}"]
    for name, rates in WORLDS.items():
        cells: list[str] = []
        for noise in NOISES:
            ends = [
                withdrawn_after(rates, noise, Random(f"{SEED}/{name}/{noise}/{number}"))
                for number in range(histories)
            ]
            gone = sorted(end for end in ends if end is not None)
            median = f", median after {gone[len(gone) // 2]} runs" if gone else ""
            cells.append(f"{len(gone) / histories:.0%}{median}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--histories", type=int, default=1000)
    options.add_argument("--page", type=Path, help="put the table into this page, between its marks")
    given = options.parse_args()
    found = table(given.histories)
    if given.page is None:
        print(found)
        return
    before, _, rest = given.page.read_text().partition("<!-- withdrawn -->")
    after = rest.partition("<!-- end of withdrawn -->")[2]
    note = f"{given.histories:,} histories a cell, {RUNS} runs each."
    page = f"{before}<!-- withdrawn -->\n\n{found}\n\n{note}\n\n<!-- end of withdrawn -->{after}"
    given.page.write_text(page)


if __name__ == "__main__":
    main()
