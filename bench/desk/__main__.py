"""`python -m bench.desk`: run parts of the experiment, go on where it stopped, or write its page."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from wesichain.learning.embedders.use import UseEmbedder

from .experiment import Experiment, together
from .figures import chosen_level, qualifies, table
from .learners import Teachers
from .models import Models
from .plan import ARMS, STRESS_ARMS, Part
from .report import write_page
from .sections import wordings
from .store import Store
from .world import ROUNDS, SEEDS, Round, Variant, build

PARTS = ("pilot", "wording", "main", *STRESS_ARMS)
_MODEL, _SMALL = "qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b"


def main(arguments: Sequence[str] | None = None) -> None:
    given = _options().parse_args(arguments)
    if given.hashes:
        print(hashes())
        return
    if given.short:
        given.model, given.train, given.test = given.model or _SMALL, 1, 1
    given.model = given.model or _MODEL
    folder = given.out or Path(tempfile.mkdtemp(prefix="desk-") if given.short else "learning-bench")
    if given.page is not None:
        logs = sorted(folder.glob("**/runs.jsonl*"))
        write_page(
            logs,
            given.page,
            model=given.model,
            revision=given.revision,
            before=given.before,
            one_call=given.one_call,
        )
        print(f"{given.page} was written from the runs in {folder}")
        return
    asyncio.run(_run(given, folder))
    runs = list(Store(folder, quiet=True).runs.values())
    print("\n\n".join(part for part in (table(runs), wordings(runs)) if part))
    print(f"\nEvery run is in {folder / 'runs.jsonl'}; the same command goes on where it stopped.")


def hashes() -> str:
    """The hash of every world that the experiment can meet."""
    variants: tuple[Variant, ...] = ("plain", "drifted", "conditional")
    return "\n".join(
        f"{name} level {level} {variant} {build(name, level=level, variant=variant).hash}"
        for name in SEEDS
        for level in (1, 2, 3)
        for variant in variants
    )


async def _run(given: argparse.Namespace, folder: Path) -> None:
    store = Store(folder)
    models = Models.named(given.model, given.endpoint, at_once=given.at_once)
    school = Teachers(UseEmbedder(), models)
    sizes = (given.level, given.train, given.test)
    here: Round = ROUNDS[given.round]
    experiment = Experiment(
        *(store, models, school, *sizes),
        revision=given.revision,
        one_call=given.one_call,
        desks=tuple(given.desks),
        round=here,
    )
    worlds = given.worlds or here.worlds
    try:
        if given.short:
            await experiment.short(here.pilot)  # whoever tries the command looks at no world of the round
            return
        if "pilot" in given.parts:
            await replace(experiment, test=given.pilot_tasks).pilot(here.pilot, given.pilot)
            made = list(store.runs.values())
            level = chosen_level(made, given.pilot)
            print(f"the pilot chooses level {level}", flush=True)
            if not qualifies(made, given.pilot, level):
                print("but no level qualifies: nothing else is run; --level without a pilot runs it anyway")
                return
            experiment = replace(experiment, level=level)
        if given.everything:
            await experiment.everything(worlds, given.arms)
            return
        if "wording" in given.parts:
            await experiment.wording(here.pilot)
        if "main" in given.parts:
            await together(*(experiment.main(world, given.arms) for world in worlds))
        stress: list[Part] = [part for part in STRESS_ARMS if part in given.parts]
        await together(*(experiment.stress(part, world, given.arms) for part in stress for world in worlds))
    finally:
        store.close()


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m bench.desk", description=__doc__)
    options.add_argument(
        "--model", help=f"a local model, or PROVIDER:NAME; {_MODEL}, or with --short {_SMALL}"
    )
    options.add_argument("--endpoint", nargs="*", default=[], help="llama.cpp servers that hold the model")
    options.add_argument("--at-once", type=int, default=1, help="runs under way at a time")
    options.add_argument("--parts", nargs="*", default=["main"], choices=PARTS)
    options.add_argument("--everything", action="store_true", help="all parts, the most important runs first")
    options.add_argument("--revision", default="", help="of the product, to tell its runs from earlier ones")
    options.add_argument("--one-call", action="store_true", help="only families of one call")
    options.add_argument(
        "--desks", nargs="*", default=[], help="only these: registers are the search families"
    )
    options.add_argument("--before", type=Path, nargs="*", default=[], help="logs of earlier revisions")
    options.add_argument("--round", default="fifth", choices=ROUNDS, help="whose worlds are played")
    options.add_argument("--worlds", nargs="*", default=[], choices=SEEDS, help="others than the round's")
    options.add_argument("--arms", nargs="*", default=list(ARMS), choices=ARMS)
    options.add_argument("--pilot", default="pilot", help="the name of the pilot, where it is not the first")
    options.add_argument("--pilot-tasks", type=int, default=4, help="held-out tasks a family in the pilot")
    options.add_argument(
        "--level", type=int, default=2, choices=(1, 2, 3), help="how little the tools tell; a pilot chooses"
    )
    options.add_argument("--train", type=int, default=8, help="training tasks a family")
    options.add_argument("--test", type=int, default=4, help="held-out tasks a family")
    options.add_argument("--out", type=Path, help="where runs are kept: learning-bench, or a new folder")
    options.add_argument("--short", action="store_true", help="four families of search, three arms: minutes")
    options.add_argument("--page", type=Path, help="run nothing: write the page from the runs in --out")
    options.add_argument("--hashes", action="store_true", help="run nothing: the hashes of the worlds")
    return options


if __name__ == "__main__":
    main()
