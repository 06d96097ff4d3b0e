"""Parts of the page that tell one revision of the product, one world or one wording from another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from wesichain.core import HEADING

from . import accounts, bookings, jobs, members
from .figures import Estimate, bootstrap, gain, pairs, rate, saving
from .plan import ARMS, STRESS_ARMS
from .play import Played
from .registers import NAME, ways
from .skins import SKINS
from .wordings import FORMER, HEADED, RULES, SAYINGS, WAYS
from .world import ROUNDS, SECOND, rules_of

SEARCH = NAME
_FAMILIES = {"accounts": accounts.FAMILIES, "jobs": jobs.FAMILIES}
_FAMILIES |= {"members": members.FAMILIES, "bookings": bookings.FAMILIES}


def of(runs: Sequence[Played], part: str, arm: str) -> list[Played]:
    return [run for run in runs if run.part == part and run.arm == arm]


def told(estimate: Estimate, digits: int = 1) -> str:
    return f"{estimate.value:.{digits}f} ({estimate.low:.{digits}f} to {estimate.high:.{digits}f})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def is_cut(runs: Sequence[Played], arm: str) -> bool:
    """An arm of main that ended so early that its tasks are no fair sample."""
    return 4 * len(of(runs, "main", arm)) < 3 * len(of(runs, "main", "baseline"))


def percent(made: Sequence[Played]) -> str:
    return f"{100 * rate(made):.0f}" if made else ""


def wordings(runs: Sequence[Played]) -> str:
    """Which wording of one and the same advice is followed, in the pilot's world."""
    rows: list[list[str]] = []
    for saying, template in {**WAYS, **SAYINGS, **RULES}.items():
        made = of(runs, "wording", saying)
        if made:
            is_way = saying in WAYS
            right = sum(
                ways_of(run.world)[run.family] == first_call(run).get("tool") for run in made if is_way
            )
            steps = sum(run.steps for run in made) / len(made)
            said = f"`{template or '(nothing)'}`"
            said += f" under `{HEADED}`" if saying.startswith("headed") else ""
            followed = str(right) if is_way else ""
            rows.append([saying, said, str(len(made)), followed, percent(made), f"{steps:.2f}"])
    if not rows:
        return ""
    head = ["wording", "of the advice", "runs", "first calls that follow it", "solved, %", "steps"]
    return "## Wordings, in the pilot's world\n\n" + table(head, rows)


def worlds_of(runs: Sequence[Played]) -> list[str]:
    """The worlds of a page: those of the round whose runs it tells."""
    met = {run.world for run in runs if not run.part.startswith(("pilot", "wording"))}
    known = [world for here in ROUNDS.values() for world in here.worlds]
    return [world for world in known if world in met]


def first_call(run: Played) -> dict[str, Any]:
    """What the model called first. A fault before it, such as a server that was not up yet, is no call."""
    return next((call for call in run.calls if "tool" in call), dict[str, Any]())


def ways_of(world: str) -> dict[str, str]:
    """The only tool that does for each family of search."""
    known = ways(SKINS[world], rules_of(world, level=2))
    return {family: tool for family, (_word, tool) in known.items()}


def advice_of(run: Played) -> str:
    """What stands under the heading of the advice, today's or that of the first three rounds."""
    return next((said for name in (HEADING, FORMER) if (said := run.prompt.partition(name)[2])), "")


def said_of(advice: str, world: str, family: str) -> str:
    """Which tools of search an advice names, warnings aside, beside the one that can help."""
    right = ways_of(world)[family]
    lines = [line for line in advice.splitlines() if "Warning" not in line]
    named = {word.strip(".,;:") for line in lines for word in line.split() if "_in_" in word}
    if not named:
        return "none"
    if right not in named:
        return "wrong"
    return "right" if len(named) == 1 else "both"


def fresh(runs: Sequence[Played]) -> str:
    """Of the second round: the world that nobody had looked at, alone."""
    rows: list[list[str]] = []
    for arm in ARMS[2:]:
        every = pairs(runs, ("main", "baseline"), ("main", arm))
        found = [pair for pair in every if pair[0].world in SECOND.fresh]
        if found:
            search = [pair for pair in found if pair[0].desk == SEARCH]
            cells = [told(bootstrap(found, gain)), told(bootstrap(search, saving))]
            rows.append([arm, str(len(found)), *cells])
    if not rows:
        return ""
    head = ["arm against the baseline", "pairs", "points", "fewer steps in search, %"]
    return f"## The fresh world alone ({SECOND.fresh[0]})\n\n" + table(head, rows)


def recovered(runs: Sequence[Played], arm: str) -> dict[tuple[str, str], int | None]:
    """In which run each family that changed succeeded first without being told what no longer holds."""
    found: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for run in sorted(of(runs, "drift", arm), key=lambda run: (run.order, run.task)):
        found[run.world, run.family].append(run.success and not told_the_old(run))
    return {family: tries.index(True) + 1 if True in tries else None for family, tries in found.items()}


def told_the_old(run: Played) -> bool:
    """The advice names the tool that did before the change, and does no more."""
    if run.desk != SEARCH:
        return False
    now = ways(SKINS[run.world], rules_of(run.world, level=2, variant="drifted"))[run.family][1]
    old = ways_of(run.world)[run.family]
    return now != old and old in advice_of(run)


def drift(runs: Sequence[Played]) -> str:
    """Runs of a family after the change until one succeeds."""
    rows: list[list[str]] = []
    for arm in STRESS_ARMS["drift"]:
        made = of(runs, "drift", arm)
        if made:
            first = recovered(runs, arm)
            known = sorted(at for at in first.values() if at is not None)
            late = [str(known[len(known) // 2]), str(known[-1])] if known else ["", ""]
            old = str(sum(map(told_the_old, made)))
            rows.append([arm, str(len(made)), percent(made), old, str(len(first)), str(len(known)), *late])
    if not rows:
        return ""
    head = [
        "arm",
        "runs",
        "solved, %",
        "told the old tool",
        "families",
        "that recover",
        "median run",
        "latest",
    ]
    return (
        "## After the change\n\n"
        + table(head, rows)
        + "\n\nA family recovers in the first of its runs, 8 at most, that succeeds without "
        "being told the tool that did before the change."
    )


def before_and_now(runs: Sequence[Played], earlier: Sequence[Played]) -> str:
    """The arms as an earlier revision of the product had them, beside these."""
    rows: list[list[str]] = []
    for arm in ARMS:
        cells: list[str] = []
        for made in (earlier, runs):
            known = [run for run in made if run.world not in SECOND.fresh]
            found = pairs(known, ("main", "baseline"), ("main", arm))
            search = [pair for pair in found if pair[0].desk == SEARCH]
            solved = f"cut off: {len(found)} pairs" if is_cut(made, arm) else percent([b for _, b in found])
            cells += [solved if found else "", told(bootstrap(found, gain)) if found else ""]
            cells += [told(bootstrap(search, saving)) if search else ""]
        if cells[0] and cells[3]:
            rows.append([arm, *cells])
    if not rows:
        return ""
    of = ["solved, %", "points against the baseline", "fewer steps in search, %"]
    head = ["arm", *(f"before: {name}" for name in of), *(f"now: {name}" for name in of)]
    return "## Before and now, in the three worlds of before\n\n" + table(head, rows)


def criteria(runs: Sequence[Played]) -> str:
    """The success criteria of the learning room, restated by this experiment."""
    arms = [arm for arm in ("baseline", "manual", "full", "full-settled") if of(runs, "main", arm)]
    arms = [arm for arm in arms if not is_cut(runs, arm)]
    if "full" not in arms:
        return ""
    rows = [
        [
            "SC-001: tasks of two and three calls are solved within 10 steps, %",
            *_cells(runs, arms, _of_calls),
        ],
        [
            "SC-002: fewer steps in search than the baseline, on tasks that both solve, %",
            *_savings(runs, arms),
        ],
        ["the advice names the right tool alone in search, %", *_cells(runs, arms, _told_right)],
        ["SC-005: tasks of search are solved whose first tool failed, %", *_cells(runs, arms, _recovered)],
    ]
    said = (
        "\n\nSC-006, a newcomer's agent with several tools that learns in half an hour, is the tutorial: "
        "[what it took](tutorial/README.md#how-long-it-took). Every run of this page has its trace: each "
        "call, its arguments, and its result or its error."
    )
    return "## The success criteria\n\n" + table(["", *arms], rows) + said


def _cells(
    runs: Sequence[Played], arms: Sequence[str], judged: Callable[[Played], bool | None]
) -> Iterator[str]:
    """The share of an arm's runs that are judged so, of those that can be."""
    for arm in arms:
        known = [good for run in of(runs, "main", arm) if (good := judged(run)) is not None]
        yield f"{100 * sum(known) / len(known):.0f} ({len(known)} runs)" if known else ""


def _savings(runs: Sequence[Played], arms: Sequence[str]) -> Iterator[str]:
    for arm in arms:
        found = [
            pair
            for pair in pairs(runs, ("main", "baseline"), ("main", arm))
            if pair[0].desk == SEARCH and arm != "baseline"
        ]
        yield told(bootstrap(found, saving)) if found else ""


def _of_calls(run: Played) -> bool | None:
    if run.desk == SEARCH:
        return None
    known = _FAMILIES[run.desk]
    return run.success if any(one.name == run.family and one.calls > 1 for one in known) else None


def _told_right(run: Played) -> bool | None:
    if run.desk != SEARCH or not run.arm.startswith("full"):
        return None
    return said_of(advice_of(run), run.world, run.family) == "right"


def _recovered(run: Played) -> bool | None:
    return run.success if run.desk == SEARCH and "error" in first_call(run) else None
