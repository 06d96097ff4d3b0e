"""Does the rule of evidence decide rightly? Simulated lives of a bullet, with the rule of before beside it.

    python -m bench.evidence [--histories 1000] [--page docs/learning-evidence.md]

A history is a bullet's life: a first success puts it on record, then come runs that would retrieve it. Each
is shown the bullet or not, follows its way or not, succeeds or not, and is labelled, sometimes wrongly. The
counting, the draws' shares and the stages are the product's own code; only the world is made up. What is
counted as right, the seeds and the worlds were fixed before the figures on the page were made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from wesichain.core import dataclass
from wesichain.learning import PlaybookBullet, Reflection, ToolCallingStrategy, stage_of
from wesichain.learning.advising import Shares
from wesichain.learning.crediting import credited, settled

RUNS = 60  # of a bullet's life before it is judged
NOISES = (0.0, 0.1, 0.2, 0.3)  # shares of wrong labels
OBEYS = 0.9  # how often a run that is shown a bullet follows it
SETTLED = 120  # runs before a tool changes
PATIENCE = 40  # runs after it
SEED = 20_261_115
WAY = ("look", "tell")


@dataclass(frozen=True, slots=True)
class World:
    """How often a run succeeds that follows the bullet's way, one that does not, and how many do unasked.

    `fits`: the share of tasks that the way is for; in the others following it fails.
    """

    name: str
    following: float
    otherwise: float
    unasked: float
    should_be_shown: str
    fits: float = 1.0


WORLDS = (
    World("perfect: 100 % against 20 % otherwise", 1.0, 0.2, 0.25, should_be_shown="yes"),
    World("helpful and seldom found: 70 % against 5 %", 0.7, 0.05, 0.1, should_be_shown="yes"),
    World("useless: 40 % either way", 0.4, 0.4, 0.25, should_be_shown="no"),
    World("useless where all goes well: 80 % either way", 0.8, 0.8, 0.25, should_be_shown="no"),
    World("harmful: 10 % against 50 %", 0.1, 0.5, 0.25, should_be_shown="no"),
    World("mildly harmful: 30 % against 50 %", 0.3, 0.5, 0.25, should_be_shown="no"),
    World(
        "fits half of its tasks, fails in the others", 1.0, 0.4, 0.25, should_be_shown="+6 points", fits=0.5
    ),
)


class New:
    """The product's rule."""

    def __init__(self) -> None:
        self._shares = Shares()
        self._bullet: PlaybookBullet = settled(
            ToolCallingStrategy(content="Call look first, then tell.", tool_sequence=WAY, helpful_count=1),
            now=0,
        )

    @property
    def is_visible(self) -> bool:
        return self._bullet.is_visible

    def shows(self, chance: Random) -> bool:
        lot = chance.random()
        if self._bullet.stage == "prod":
            return lot >= self._shares.holdback
        return self._bullet.stage == "staging" and lot < self._shares.explore

    def learn(self, *, shown: bool, followed: bool, good: bool) -> None:
        run = Reflection("r", "success" if good else "failure", "label", "t", "d", "", iterations=3)
        self._bullet = credited(
            self._bullet,
            run,
            shown=shown,
            helped=good if followed else None,
            half_life=self._shares.half_life,
            now=0,
        )


class Old:
    """The rule of before: counters of runs that followed it, for ever, and thresholds."""

    def __init__(self) -> None:
        self._counts = [1, 0]

    @property
    def is_visible(self) -> bool:
        return stage_of(*self._counts) in ("staging", "prod")

    def shows(self, chance: Random) -> bool:
        chance.random()
        return self.is_visible

    def learn(self, *, shown: bool, followed: bool, good: bool) -> None:  # noqa: ARG002  # as the other
        if followed:  # shown or not
            self._counts[not good] += 1


def live(
    rule: New | Old, world: World, *, noise: float, chance: Random, changes_at: int | None = None
) -> Iterator[bool]:
    """A bullet's life, run by run: whether it is shown to anybody after each."""
    number = 0
    while True:
        following = 0.0 if changes_at is not None and number >= changes_at else world.following
        shown = rule.shows(chance)
        followed = chance.random() < (OBEYS if shown else world.unasked)
        fits = chance.random() < world.fits
        succeeds = chance.random() < ((following if fits else 0.0) if followed else world.otherwise)
        is_wrong = chance.random() < noise
        rule.learn(shown=shown, followed=followed, good=succeeds != is_wrong)
        number += 1
        yield rule.is_visible


def share_shown(kind: type[New | Old], world: World, noise: float, histories: int) -> float:
    """In how many histories the bullet is shown at their end."""
    count = 0
    for number in range(histories):
        life = live(kind(), world, noise=noise, chance=Random(f"{SEED}/{world.name}/{noise}/{number}"))
        count += [next(life) for _ in range(RUNS)][-1]
    return count / histories


def delays(kind: type[New | Old], noise: float, histories: int) -> list[int]:
    """How many runs a shown, perfect bullet takes to be withdrawn after its way has come to fail."""
    found: list[int] = []
    for number in range(histories):
        chance = Random(f"{SEED}/change/{noise}/{number}")
        life = live(kind(), WORLDS[0], noise=noise, chance=chance, changes_at=SETTLED)
        if [next(life) for _ in range(SETTLED)][-1]:
            found.append(next((at for at in range(1, PATIENCE + 1) if not next(life)), PATIENCE + 1))
    return sorted(found)


def decisions(histories: int) -> str:
    head = " | ".join(f"{noise:.0%} wrong" for noise in NOISES)
    lines = [
        f"| strategy | should be shown | rule | {head} |",
        f"|---|---|---|{'---|' * len(NOISES)}",
    ]
    for world in WORLDS:
        for kind in (New, Old):
            tell(f"{world.name}, {kind.__name__.lower()} rule")
            shares = [share_shown(kind, world, noise, histories) for noise in NOISES]
            told = " | ".join(f"{share:.1%}" for share in shares)
            lines.append(f"| {world.name} | {world.should_be_shown} | {kind.__name__.lower()} | {told} |")
    return "\n".join(lines)


def changes(histories: int) -> str:
    lines = [
        "| wrong labels | rule | shown before | withdrawn within 10 runs | median | 95 % within |",
        "|---|---|---|---|---|---|",
    ]
    for noise in NOISES:
        for kind in (New, Old):
            tell(f"a tool changes, {noise:.0%} wrong, {kind.__name__.lower()} rule")
            found = delays(kind, noise, histories)
            quick = sum(at <= 10 for at in found) / max(1, len(found))
            at = [_words(found, share) for share in (0.5, 0.95)]
            lines.append(
                f"| {noise:.0%} | {kind.__name__.lower()} | {len(found) / histories:.1%} | {quick:.1%} | "
                f"{at[0]} | {at[1]} |"
            )
    return "\n".join(lines)


def _words(delays: list[int], share: float) -> str:
    at = delays[min(len(delays) - 1, int(share * len(delays)))] if delays else PATIENCE + 1
    return f"more than {PATIENCE}" if at > PATIENCE else str(at)


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--histories", type=int, default=1000)
    options.add_argument("--page", type=Path, help="put the tables into this page, between its marks")
    given = options.parse_args()
    tables = {"decisions": decisions(given.histories), "changes": changes(given.histories)}
    if given.page is None:
        print("\n\n".join(tables.values()))
        return
    page = given.page.read_text()
    for name, table in tables.items():
        before, _, rest = page.partition(f"<!-- {name} -->")
        after = rest.partition(f"<!-- end of {name} -->")[2]
        note = f"{given.histories:,} histories a cell."
        page = f"{before}<!-- {name} -->\n\n{table}\n\n{note}\n\n<!-- end of {name} -->{after}"
    given.page.write_text(page)


if __name__ == "__main__":
    main()
