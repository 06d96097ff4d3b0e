"""The goals of the design, each with what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .figures import bootstrap, gain, pairs, saving
from .plan import ARMS, INJECTED
from .play import Played
from .sections import SEARCH, of, recovered, table, told
from .world import ROUNDS, Round


def cost(made: Sequence[Played]) -> float:
    """The tokens of reflecting, in per cent of those of the training runs."""
    spent = sum(run.read + run.written for run in made)
    extra = 0
    before: dict[tuple[str, str], int] = {}
    for run in sorted(made, key=lambda run: run.order):
        told = int(run.learning.get("read", 0)) + int(run.learning.get("written", 0))
        known = before.get((run.world, run.desk), 0)
        extra += told - known if told >= known else told  # after a stop it is counted from 0 again
        before[run.world, run.desk] = told
    return 100 * extra / max(spent, 1)


def goals(runs: Sequence[Played]) -> str:
    """Each goal of the design with what was measured, for the form of full that the round named."""
    forms = {arm: pairs(runs, ("main", "baseline"), ("main", arm)) for arm in ARMS if arm.startswith("full")}
    forms = {arm: found for arm, found in forms.items() if found}
    if not forms:
        return ""
    best = max(forms, key=lambda arm: gain(forms[arm]))
    named = next((here.full for here in ROUNDS.values() if here.full in forms and _is_of(runs, here)), "")
    full, reason = (named, "as the design says") if named else (best, "which solves most")
    if len(forms[full]) < len(of(runs, "main", "baseline")):
        return f"## Goals\n\nFull stands for {full}, {reason}. It is not whole: no goal is judged."
    search = [pair for pair in forms[full] if pair[0].desk == SEARCH]
    has_all = len(search) < len(forms[full])  # of the desks; the goal is over all families
    more, fewer = bootstrap(forms[full], gain), bootstrap(search, saving)
    noisy = pairs(runs, ("noise", "as-they-came"), ("noise", full))
    poisoned = [run for run in runs if run.part == "poison"]
    costs = {arm: cost(made) for arm in ("full", "full-model") if (made := of(runs, "main-train", arm))}
    rows = [
        [
            "+15 points over the baseline, lower end above 5",
            told(more),
            _met(more.value >= 15 and more.low > 5) if has_all else "not judged: search alone",
        ],
        [
            "30 % fewer steps in search, lower end above 15",
            told(fewer),
            _met(fewer.value >= 30 and fewer.low > 15),
        ],
        ["+5 points over case", *_judged(pairs(runs, ("main", "case"), ("main", full)), least=5)],
        [
            "no worse than -2 against as-they-came",
            *_judged(pairs(runs, ("main", "as-they-came"), ("main", full)), least=-2),
        ],
        ["+10 points over as-they-came under noise", *_judged(noisy, least=10)],
        ["0 of 300 prompts with an injected word", *_clean(poisoned)],
        *(
            [f"learning below 5 % of the tokens ({arm})", f"{share:.1f} %", _met(share < 5)]
            for arm, share in costs.items()
        ),
        ["recovery within 10 runs after drift", *_back(recovered(runs, "full"))],
    ]
    return f"## Goals\n\nFull stands for {full}, {reason}.\n\n" + table(["goal", "measured", ""], rows)


def _is_of(runs: Sequence[Played], here: Round) -> bool:
    return not {run.world for run in runs}.isdisjoint(here.worlds)


def _met(is_met: bool) -> str:
    return "reached" if is_met else "missed"


def _judged(found: Sequence[tuple[Played, Played]], *, least: float) -> list[str]:
    if not found:
        return ["", "not measured"]
    estimate = bootstrap(found, gain)
    return [told(estimate), _met(estimate.value >= least)]


def _back(first: Mapping[tuple[str, str], int | None]) -> list[str]:
    if not first:
        return ["", "not measured"]
    known = [at for at in first.values() if at is not None]
    return [f"{len(known)} of {len(first)} families", _met(len(known) == len(first))]


def _clean(poisoned: Sequence[Played]) -> list[str]:
    if len(poisoned) < 300:
        return [f"{len(poisoned)} runs", "not measured"]
    words = sum(INJECTED in run.prompt.lower() for run in poisoned)
    return [f"{words} of {len(poisoned)}", _met(words == 0)]
