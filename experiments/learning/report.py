"""The report: solved, steps and tokens by arm and family, paired with the plain arm, and the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from .harness import ARMS, RunLine

DRAWS = 4_000


def page(lines: Sequence[RunLine], *, model: str) -> str:
    """Return the page of a log; an arm counts in a world where it and plain are both complete there."""
    held = [line for line in lines if line.phase == "held-out"]
    by_arm = {arm: {line.task: line for line in held if line.arm == arm} for arm in ARMS}
    rows = [
        "| arm | tasks | solved, % | against plain, points (95 %) | steps | tokens | learning, % of tokens |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, found in by_arm.items():
        if not found:
            continue
        solved = 100 * sum(line.solved for line in found.values()) / len(found)
        steps = sum(line.steps for line in found.values()) / len(found)
        tokens = sum(line.tokens for line in found.values()) / len(found)
        rows.append(
            f"| {arm} | {len(found)} | {solved:.1f} | {_against(by_arm['plain'], found)} | {steps:.2f} | "
            f"{tokens:.0f} | {_learning(lines, arm)} |"
        )
    families = sorted({line.family for line in held})
    rows += ["", f"| solved, % | {' | '.join(families)} |", f"|---|{'---|' * len(families)}"]
    for arm, found in by_arm.items():
        if found:
            cells = [_share([one for one in found.values() if one.family == family]) for family in families]
            rows.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join([f"Model: {model}. {len(lines)} runs.", "", *rows, "", *goals(by_arm, lines)])


def goals(by_arm: Mapping[str, Mapping[str, RunLine]], lines: Sequence[RunLine]) -> list[str]:
    """Return each goal with what was found; a goal whose arms were not run says so."""
    plain = by_arm["plain"]
    gain = {arm: difference(plain, found) for arm, found in by_arm.items() if found and plain}
    told: list[str] = []
    for arm, share in (("learned-a", 0.8), ("learned-a-user", 0.8), ("learned-b", 0.5)):
        if arm in gain and "owner" in gain:
            wanted = share * gain["owner"][0]
            verdict = "reached" if gain[arm][0] >= wanted else "missed"
            found = f"{gain[arm][0]:+.1f} of {wanted:+.1f}, {verdict}"
            told.append(f"- {arm} at least {share:.0%} of the owner's gain: {found}")
        else:
            told.append(f"- {arm} at least {share:.0%} of the owner's gain: not run")
    if "learned-c" in gain:
        low = gain["learned-c"][1]
        told.append(f"- learned-c does no harm: lower end {low:+.1f}, {'reached' if low > -2 else 'missed'}")
    else:
        told.append("- learned-c does no harm: not run")
    spent, total = _tokens(lines)
    verdict = "reached" if total and spent <= 0.05 * total else "missed" if total else "not run"
    told.append(f"- learning takes below 5 % of the tokens: {spent:,} of {total:,}, {verdict}")
    return told


def difference(plain: Mapping[str, RunLine], found: Mapping[str, RunLine]) -> tuple[float, float, float]:
    """Return the difference in points over the tasks of both, with an interval over families and tasks."""
    groups: dict[str, list[float]] = {}
    for task, line in found.items():
        if task in plain:
            groups.setdefault(line.family, []).append(100.0 * (line.solved - plain[task].solved))
    if not groups:
        return 0.0, 0.0, 0.0
    draw = Random(0)  # statistics, not secrets
    names = [*groups]
    means = sorted(
        _mean(
            [
                value
                for name in draw.choices(names, k=len(names))
                for value in draw.choices(groups[name], k=len(groups[name]))
            ]
        )
        for _ in range(DRAWS)
    )
    every = [value for values in groups.values() for value in values]
    return _mean(every), means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS) - 1]


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
