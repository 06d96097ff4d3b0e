"""The report: solved, steps and tokens by arm and family, paired with the plain arm, and the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeVar

from .harness import ARMS, RunLine

DRAWS = 4_000
SHARES = {"learned-a": 0.8, "learned-a-user": 0.8, "learned-b": 0.5, "learned-b-owner": 0.5}
T = TypeVar("T")


def page(lines: Sequence[RunLine], *, model: str) -> str:
    """Return the page of a log; an arm counts in a world where it and plain are both complete there."""
    parts = {
        "judged": "Families that the goals are judged by",
        "prompt": "The family that the prompt was fixed on",
        "search": "Families of search: each kind of task is served by one tool of four",
    }
    rows = [f"# {model}", "", f"{len(lines)} runs."]
    for part, title in parts.items():
        mine = [line for line in lines if line.part == part]
        if mine:
            rows += ["", f"## {title}", "", *table(mine)]
    judged = [line for line in lines if line.part == "judged"]
    search = [line for line in lines if line.part == "search"]
    return "\n".join([*rows, "", "## Goals", "", *goals(by_arm(judged), judged), fewer_steps(search)])


def by_arm(lines: Sequence[RunLine]) -> dict[str, dict[str, RunLine]]:
    """Return the held-out runs of each arm, by task."""
    held = [line for line in lines if line.phase == "held-out"]
    return {arm: {line.task: line for line in held if line.arm == arm} for arm in ARMS}


def table(lines: Sequence[RunLine]) -> list[str]:
    """Return what each arm came to, over all and by family."""
    arms = {arm: found for arm, found in by_arm(lines).items() if found}
    plain = arms.get("plain", {})
    rows = [
        "| arm | tasks | solved, % | against plain, points (95 %) | steps | tokens | learning, % of tokens |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, found in arms.items():
        steps = sum(line.steps for line in found.values()) / len(found)
        tokens = sum(line.tokens for line in found.values()) / len(found)
        solved = _share([*found.values()])
        rows.append(
            f"| {arm} | {len(found)} | {solved} | {_against(plain, found)} | {steps:.2f} | "
            f"{tokens:.0f} | {_learning(lines, arm)} |"
        )
    families = sorted({line.family for line in lines})
    rows += ["", f"| solved, % | {' | '.join(families)} |", f"|---|{'---|' * len(families)}"]
    for arm, found in arms.items():
        cells = [_share([one for one in found.values() if one.family == family]) for family in families]
        rows.append(f"| {arm} | {' | '.join(cells)} |")
    return rows


def fewer_steps(lines: Sequence[RunLine]) -> str:
    """Return SC-002: how many steps fewer learned-c takes than plain, on the searches that both solve."""
    arms = by_arm(lines)
    groups: dict[str, list[tuple[int, int]]] = {}  # steps without and with what was learned
    for task, one in arms["plain"].items():
        learned = arms["learned-c"].get(task)
        if learned is not None and one.solved and learned.solved:
            groups.setdefault(one.family, []).append((one.steps, learned.steps))
    if not groups:
        return "- 30 to 50 % fewer steps in search (SC-002): not run"

    def saved(pairs: Sequence[tuple[int, int]]) -> float:
        return 100 - 100 * sum(after for _, after in pairs) / sum(before for before, _ in pairs)

    total, low, high = interval(groups, saved)
    by_family = ", ".join(f"{name} {saved(group):.1f}" for name, group in groups.items())
    return (
        f"- 30 to 50 % fewer steps in search (SC-002), learned-c against plain, "
        f"{sum(map(len, groups.values()))} searches that both solve: {total:.1f} ({low:.1f} to {high:.1f}), "
        f"{'reached' if total >= 30 else 'missed'}; {by_family}"
    )


def goals(arms: Mapping[str, Mapping[str, RunLine]], lines: Sequence[RunLine]) -> list[str]:
    """Return each goal with what was found, over the tasks that its arm was run on."""
    plain, owner = arms["plain"], arms["owner"]
    rows: list[str] = []
    for arm, share in SHARES.items():
        found = arms[arm]
        if found and plain and owner:
            gain = _gain(plain, found)
            same = {task: line for task, line in owner.items() if task in found}
            wanted = share * _gain(plain, same)
            came = f"{gain:+.1f} of {wanted:+.1f}, {'reached' if gain >= wanted else 'missed'}"
        else:
            came = "not run"
        rows.append(f"- {arm} at least {share:.0%} of the owner's gain: {came}")
    if arms["learned-c"] and plain:
        low = difference(plain, arms["learned-c"])[1]
        rows.append(f"- learned-c does no harm: lower end {low:+.1f}, {'reached' if low > -2 else 'missed'}")
    else:
        rows.append("- learned-c does no harm: not run")
    spent, total = _tokens(lines)
    verdict = "no model was asked" if not spent else "reached" if spent <= 0.05 * total else "missed"
    rows.append(f"- learning takes below 5 % of the tokens: {spent:,} of {total:,}, {verdict}")
    return rows


def difference(plain: Mapping[str, RunLine], found: Mapping[str, RunLine]) -> tuple[float, float, float]:
    """Return the difference in points over the tasks of both, with an interval over families and tasks."""
    groups: dict[str, list[float]] = {}
    for family, points in _points(plain, found):
        groups.setdefault(family, []).append(points)
    return interval(groups, _mean) if groups else (0.0, 0.0, 0.0)


def _gain(plain: Mapping[str, RunLine], found: Mapping[str, RunLine]) -> float:
    """The difference in points over the tasks of both."""
    points = [points for _, points in _points(plain, found)]
    return _mean(points) if points else 0.0


def _points(plain: Mapping[str, RunLine], found: Mapping[str, RunLine]) -> Iterator[tuple[str, float]]:
    """The family and the difference in points of each task of both."""
    for task, line in found.items():
        if task in plain:
            yield line.family, 100.0 * (line.solved - plain[task].solved)


def interval(
    groups: Mapping[str, Sequence[T]], measure: Callable[[Sequence[T]], float]
) -> tuple[float, float, float]:
    """Return a measure of all, and its 95 % interval over families and the tasks of each."""
    draw, names = Random(0), [*groups]  # statistics, not secrets
    drawn = sorted(
        measure(
            [
                one
                for name in draw.choices(names, k=len(names))
                for one in draw.choices(groups[name], k=len(groups[name]))
            ]
        )
        for _ in range(DRAWS)
    )
    every = [one for group in groups.values() for one in group]
    return measure(every), drawn[int(0.025 * DRAWS)], drawn[int(0.975 * DRAWS) - 1]


def _against(plain: Mapping[str, RunLine], found: Mapping[str, RunLine]) -> str:
    if found is plain or not plain:
        return ""
    mean, low, high = difference(plain, found)
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def _learning(lines: Sequence[RunLine], arm: str) -> str:
    spent, total = _tokens([line for line in lines if line.arm == arm])
    return f"{100 * spent / total:.1f}" if spent and total else ""


def _tokens(lines: Sequence[RunLine]) -> tuple[int, int]:
    taught = [line for line in lines if line.arm.startswith("learned")]
    return sum(line.learning_tokens for line in taught), sum(line.tokens for line in taught)


def _share(lines: Sequence[RunLine]) -> str:
    return f"{100 * sum(line.solved for line in lines) / len(lines):.1f}" if lines else ""


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
