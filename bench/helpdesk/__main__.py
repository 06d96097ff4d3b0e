"""`python -m bench.helpdesk`: the experiment with a local model, and its figures."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
from pathlib import Path

from wesichain.llm.local import serve_local

from . import experiment
from .figures import summary
from .report import pair
from .student import Student
from .world import build


def main() -> None:
    options = argparse.ArgumentParser(
        prog="python -m bench.helpdesk",
        description=experiment.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--model", default="qwen2.5-coder-0.5b")
    options.add_argument("--out", type=Path, help="where transcripts go: learning-bench, or a new folder")
    options.add_argument("--short", action="store_true", help="two kinds of questions, two arms: minutes")
    options.add_argument("--taught-by", type=Path, help="another experiment, whose training runs are taken")
    options.add_argument("--threads", type=int)
    given = options.parse_args()
    form: experiment.Form = "short" if given.short else "full"
    folder = given.out or Path(tempfile.mkdtemp(prefix="learning-") if given.short else "learning-bench")
    world = build(folder / "world")
    if given.taught_by is not None:
        form = "transfer"
        shutil.copy(given.taught_by / "train.jsonl", folder)
    with serve_local(given.model, threads=given.threads, context=2048) as url:
        tried = experiment.Experiment(Student(url, given.model), world, folder)
        try:
            asyncio.run(experiment.run(tried, world, form=form))
        finally:
            tried.close()
    print(f"\n{pair(folder)}\n\n{summary(folder)}\n\nEvery transcript is in {folder}.")


if __name__ == "__main__":
    main()
