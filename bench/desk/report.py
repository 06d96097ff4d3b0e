"""The page: every figure of the experiment from its log, and every transcript beside it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from .experiment import planned, world_of
from .figures import LIMITS, bootstrap, gain, pairs, rate, restricted_steps, saving, success, tokens
from .goals import cost, goals
from .plan import ARMS, INJECTED, OUR_EXAMPLES, STRESS_ARMS, UNLISTED, Part
from .play import Played
from .rules import touched_by_drift
from .sections import (
    SEARCH,
    advice_of,
    before_and_now,
    criteria,
    drift,
    fresh,
    is_cut,
    of,
    percent,
    said_of,
    table,
    told,
    wordings,
    worlds_of,
)
from .skins import SKINS
from .store import key_of, read_runs, write_packed
from .world import ROUNDS, build

_ONE_CALL = " Only families of one call were run: this model manages no more."
SAID = ("right", "both", "wrong", "none")


def write_page(
    logs: Sequence[Path],
    page: Path,
    *,
    model: str,
    revision: str = "",
    before: Sequence[Path] = (),
    one_call: bool = False,
) -> None:
    """Write the page, and the transcripts into a folder beside it that has the page's name.

    The runs of earlier revisions of the product are told of beside these, and counted nowhere else.
    """
    runs = list({key_of(run): run for run in read_runs(*logs)}.values())
    earlier = list({key_of(run): run for run in read_runs(*before)}.values())
    folder = page.with_suffix("")
    name = f"runs-{model}-{revision}.jsonl.gz" if revision else f"runs-{model}.jsonl.gz"
    write_packed(runs, folder / name)
    page.write_text(
        "\n\n".join(
            part
            for part in (
                _head(runs, folder, model, name, before) + (_ONE_CALL if one_call else ""),
                _pilot([*earlier, *runs]),
                wordings(runs),
                _main(runs),
                _compared(runs),
                fresh(runs),
                _search(runs),
                _advised(runs),
                _families(runs),
                _stress(runs),
                drift(runs),
                _learning(runs),
                goals(runs),
                criteria(runs),
                before_and_now(runs, earlier),
                "" if one_call else _missing(runs),
                _reading(folder, name),
            )
            if part
        )
        + "\n"
    )


def _head(runs: Sequence[Played], folder: Path, model: str, name: str, before: Sequence[Path]) -> str:
    known = "".join(f" The runs of before [are here]({folder.name}/{log.name})." for log in before)
    return (
        f"# The shifting desk: what came of it\n\n"
        f"Written by `python -m bench.desk --page` from the log of the runs; "
        f"[the design]({_design(runs)}) was committed before. Model: {model}. "
        f"{len(runs)} runs were made, and "
        f"[every one is here]({folder.name}/{name}), with its prompt, calls, results and answer.{known}"
    )


def _design(runs: Sequence[Played]) -> str:
    met = {run.world for run in runs}
    pages = {"third": 3, "fourth": 4, "fifth": 5}
    found = [page for name, page in pages.items() if met & {*ROUNDS[name].worlds}]
    tried = [page for name, page in pages.items() if ROUNDS[name].pilot in met]
    return f"learning-experiment-{(*found, *tried, 2)[0]}.md"


def _pilot(runs: Sequence[Played]) -> str:
    parts = sorted({run.part for run in runs if run.part.startswith("pilot")})
    if not parts:
        return ""
    rows = [
        [part, arm, str(len(made)), f"{100 * rate(made):.1f} %", f"{restricted_steps(made, 10):.2f}"]
        for part in parts
        for arm in ("dice", "baseline", "manual")
        if (made := of(runs, part, arm))
    ]
    return "## The pilot\n\n" + table(["part", "arm", "runs", "solved", "mean steps, limit 10"], rows)


def _main(runs: Sequence[Played]) -> str:
    rows: list[list[str]] = []
    worlds = worlds_of(runs)
    for arm in ARMS:
        made = of(runs, "main", arm)
        if made and is_cut(runs, arm):
            rows.append([arm, f"{len(made)}, cut off", *[""] * (2 + len(worlds) + len(LIMITS))])
        elif made:
            solved = bootstrap([(run, run) for run in made], success)
            row = [arm, str(len(made)), told(solved)]
            row += [percent([run for run in made if run.world == world]) for world in worlds]
            row += [f"{restricted_steps(made, limit):.2f}" for limit in LIMITS]
            rows.append([*row, f"{tokens(made):.0f}"])
    if not rows:
        return ""
    head = ["arm", "runs", "solved, %", *worlds, *(f"steps to {limit}" for limit in LIMITS), "tokens"]
    return (
        "## Success\n\n"
        + table(head, rows)
        + "\n\nIn brackets: 95 % intervals from a bootstrap over families "
        "within worlds. Steps to a limit: the mean, where a run that has not solved its task counts as "
        "the limit. An arm with fewer runs than the baseline was cut off by the end of the machine's time; "
        "where more than a quarter is missing, what was run is no fair sample: only the pairs below count."
    )


def _compared(runs: Sequence[Played]) -> str:
    rows: list[list[str]] = []
    for one, other in (
        ("dice", "baseline"),
        ("baseline", "manual"),
        *(("baseline", arm) for arm in ARMS[3:]),
        ("case", "full"),
        ("case", "full-model"),
        ("as-they-came", "full"),
        ("as-they-came", "full-model"),
        ("case", "full-settled"),
        ("case", "full-model-settled"),
        ("as-they-came", "full-settled"),
        ("as-they-came", "full-model-settled"),
        (OUR_EXAMPLES, "full-settled"),
        (UNLISTED, "full-settled"),
    ):
        found = pairs(runs, ("main", one), ("main", other))
        if found and 2 * len(found) >= len(of(runs, "main", "baseline")):  # of fewer nothing can be said
            trained, never = _split(found)
            cells = [told(bootstrap(part, gain)) if part else "" for part in (found, trained, never)]
            rows.append([f"{other} against {one}", str(len(found)), *cells])
    if not rows:
        return ""
    head = ["comparison", "pairs", "points, all", "families in training", "families never trained"]
    return "## Differences, paired by task\n\n" + table(head, rows)


def _split(found: Sequence[tuple[Played, Played]]) -> tuple[list[tuple[Played, Played]], ...]:
    trained = {
        (name, desk.name, family.name): family.trained
        for name in {pair[0].world for pair in found}
        for desk in build(name, level=2, train=1, test=1).desks
        for family in desk.families
    }
    sides: tuple[list[tuple[Played, Played]], list[tuple[Played, Played]]] = ([], [])
    for pair in found:
        run = pair[0]
        sides[0 if trained[run.world, run.desk, run.family] else 1].append(pair)
    return sides


def _search(runs: Sequence[Played]) -> str:
    rows: list[list[str]] = []
    for arm in ARMS[2:]:
        every = pairs(runs, ("main", "baseline"), ("main", arm))
        search = [pair for pair in every if pair[0].desk == SEARCH]
        if search and not is_cut(runs, arm):
            both = sum(a.success and b.success for a, b in search)
            solved = [f"{100 * rate([pair[side] for pair in search]):.0f}" for side in (0, 1)]
            rows.append(
                [arm, *solved, str(both), told(bootstrap(search, saving)), told(bootstrap(every, saving))]
            )
    if not rows:
        return ""
    head = [
        "arm",
        "baseline solves, %",
        "arm solves, %",
        "both",
        "fewer steps in search, %",
        "in all families, %",
    ]
    return "## Steps on tasks that both solve\n\n" + table(head, rows)


def _advised(runs: Sequence[Played]) -> str:
    """Where advice was shown in the search families: whether it named the only tool that can help."""
    rows: list[list[str]] = []
    for arm in ARMS[5:]:
        made = [run for run in of(runs, "main", arm) if run.desk == SEARCH]
        if made and not is_cut(runs, arm):
            said = Counter(said_of(advice_of(run), run.world, run.family) for run in made)
            rows.append([arm, str(len(made)), *(str(said[kind]) for kind in SAID)])
    if not rows:
        return ""
    head = ["arm", "runs", "named the right tool alone", "among others", "others alone", "named none"]
    return "## What the advice said in the search families\n\n" + table(head, rows)


def _families(runs: Sequence[Played]) -> str:
    arms = [arm for arm in ARMS if of(runs, "main", arm) and not is_cut(runs, arm)]
    groups: dict[str, dict[str, list[Played]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if run.part == "main":
            kind = run.family.split("_")[0] if run.desk == SEARCH else run.family
            groups[f"{run.desk}: {kind}"][run.arm].append(run)
    if not groups:
        return ""
    rows = [
        [name, *(f"{100 * rate(made[arm]):.0f}" if made[arm] else "" for arm in arms)]
        for name, made in groups.items()
    ]
    return "## By kind of task, solved in %\n\n" + table(["kind", *arms], rows)


def _stress(runs: Sequence[Played]) -> str:
    rows: list[list[str]] = []
    for part, arms in STRESS_ARMS.items():
        for arm in arms:
            made = of(runs, part, arm)
            if made:
                calm = pairs(runs, ("main", arm), (part, arm))
                against = told(bootstrap(calm, gain)) if calm else ""
                rows.append([part, arm, str(len(made)), f"{100 * rate(made):.1f}", against])
    if not rows:
        return ""
    words = [run for run in runs if run.part == "poison" and INJECTED in (run.prompt + run.question).lower()]
    asked = sum(run.part == "poison" for run in runs)
    said = f"\n\nPrompts with an injected word: {len(words)} of {asked}." if asked else ""
    head = ["disturbance", "arm", "runs", "solved, %", "points against the same arm undisturbed"]
    note = (
        "\n\nAn arm with fewer runs than planned (the last table) was cut off by the end of the machine's "
        "time; the last column compares the same tasks."
    )
    return "## Disturbances\n\n" + table(head, rows) + note + said


def _learning(runs: Sequence[Played]) -> str:
    """What learning cost, and how the runs went while it learned."""
    rows: list[list[str]] = []
    for part in ("plain-train", "main-train", *(f"{name}-train" for name in STRESS_ARMS)):
        for arm in ("baseline", *ARMS[5:]):
            made = sorted(of(runs, part, arm), key=lambda run: run.order)
            if made:
                third = max(len(made) // 3, 1)
                shown = sum(bool(run.shown) for run in made)
                rates = [f"{100 * rate(group):.0f}" for group in (made[:third], made[-third:])]
                rows.append([part, arm, str(len(made)), *rates, str(shown), f"{cost(made):.1f} %"])
    if not rows:
        return ""
    head = [
        "training",
        "arm",
        "runs",
        "solved, first third, %",
        "last third, %",
        "were shown advice",
        "tokens of learning",
    ]
    return "## While learning\n\n" + table(head, rows)


def _missing(runs: Sequence[Played]) -> str:
    """What the design asks for and nobody has run yet."""
    made = {key_of(run) for run in runs}
    worlds = worlds_of(runs)
    rows: list[list[str]] = []
    parts: dict[Part, tuple[str, ...]] = {"main": ARMS, **STRESS_ARMS}
    for part, arms in parts.items():
        for arm in arms:
            wanted = {key for world in worlds for key in planned(part, world_of(part, world, level=2), arm)}
            lacking, needed = len(wanted - made), len(wanted)
            if part == "drift":  # which wave a run of it falls into shows only when it is made
                needed = sum(
                    task.family in touched_by_drift(SKINS[world])
                    for world in worlds
                    for desk in build(world, level=2).desks
                    for task in desk.train
                )
                lacking = needed - len(of(runs, part, arm))
            if lacking > 0:
                rows.append([part, arm, f"{lacking} of {needed}"])
    return "## Not run\n\n" + table(["part", "arm", "runs that are missing"], rows) if rows else ""


def _reading(folder: Path, name: str) -> str:
    return (
        "## Reading the transcripts\n\n"
        f"`python -m bench.desk.transcripts {folder}/{name}` prints them; "
        "`--part`, `--arm` and `--task` choose."
    )
