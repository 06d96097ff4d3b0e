"""playbook learn: teach a playbook from recorded runs that are labelled good or bad."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from wesichain.core.internal import Value, dump_json, home_folder, is_object
from wesichain.errors import ConfigError
from wesichain.store import read_json_lines
from wesichain.trace import find_run, load

from .options import Domain, Playbook, Runs
from .playbooks import EmbedderName, app, open_playbook
from .terminal import echo, fail, note


class _Label(Value):
    """A label of a run, and its author."""

    run: str
    good: bool | None
    why: str = ""
    by: str | None = None


@app.command()
def learn(
    runs: Annotated[list[str] | None, typer.Argument(help="Ids of runs, or their files.")] = None,
    *,
    good: Annotated[bool, typer.Option("--good", help="These runs went well.")] = False,
    bad: Annotated[bool, typer.Option("--bad", help="These runs went wrong.")] = False,
    why: Annotated[str, typer.Option(help="A sentence of yours, added to later runs verbatim.")] = "",
    labels: Annotated[
        Path | None, typer.Option(help='Lines of JSON: {"run": ID, "good": true, "why": "", "by": "owner"}.')
    ] = None,
    domain: Domain = "general",
    agent: Annotated[
        str | None, typer.Option(help="Learn only from the part of this agent, in runs with handoffs.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="A model PROVIDER:NAME that writes lessons from the runs.")
    ] = None,
    playbook: Playbook = None,
    embedder: EmbedderName = None,
    folder: Runs = None,
) -> None:
    """Teach a playbook from recorded runs: those given, or those labelled in the viewer."""
    where = folder or home_folder() / "runs"
    marked = where / "labels.jsonl"
    if labels is None:
        marks = [*_labels_from_options(runs or [], good=good, bad=bad, why=why)]
        if not marks and marked.is_file():
            marks = [*_with_recordings(_read(marked), where)]
    else:
        marks = [*_labelled(_read(labels), runs or [], good=good, bad=bad, why=why)]
    if not marks:
        fail(
            "no run is labelled as good or bad: 'wesichain playbook learn --help' says how, or mark them in "
            "'wesichain serve'"
        )
    with open_playbook(playbook, embedder, create=True) as book:
        from wesichain.learning import Feedback, Learner

        book.bullets(domain)  # raises for an invalid name
        learner = Learner(playbook=book, llm=model)
        for mark in marks:
            path = Path(mark.run)
            recording = load(path if path.is_file() else find_run(where, mark.run))
            known = Feedback(label=mark.good, why=mark.why, by=mark.by)
            try:
                learner.submit(recording, feedback=known, domain=domain, agent=agent)
            except ValueError as error:
                fail(str(error))
        asyncio.run(learner.drain())
        taught = learner.summary
        echo(f"learned from {len(marks)} runs: {taught.added} bullets added, {taught.updated} updated")
        for name, stage, text in ((one.id, one.stage, one.text) for one in book.bullets(domain)):
            if stage in ("staging", "prod"):
                note(f"{name}  {stage:8} {text}")


def _labels_from_options(runs: Sequence[str], *, good: bool, bad: bool, why: str) -> Iterator[_Label]:
    if runs and ((good and bad) or not (good or bad or why)):
        raise ConfigError("label the runs: --good or --bad")
    if not runs and (good or bad or why):
        raise ConfigError("name the runs that the label is for, by their ids or files")
    is_good = good if good or bad else None
    yield from (_Label(run, is_good, why, "owner" if why else None) for run in runs)


def _labelled(
    labels: Iterable[_Label], runs: Sequence[str], *, good: bool, bad: bool, why: str
) -> Iterator[_Label]:
    """The labels of a file: those of the given runs, or all."""
    if good or bad or why:
        raise ConfigError(
            "the file of --labels has a label and a reason for each run: leave out --good, --bad, --why"
        )
    known = [*labels]
    for run in runs:
        found = [label for label in known if label.run.startswith(run) or label.run in Path(run).name]
        if not found:
            raise ConfigError(f"the labels have no line for the run {run!r}")
        yield from found
    yield from () if runs else known


def _with_recordings(marks: Iterable[_Label], where: Path) -> Iterator[_Label]:
    """The labels of runs whose recordings still exist."""
    for mark in marks:
        try:
            find_run(where, mark.run)
        except ConfigError:
            note(f"{mark.run} is labelled, but its recording is gone")
        else:
            yield mark


def _read(path: Path) -> Iterator[_Label]:
    for number, mark in read_json_lines(path):
        run, good, why, by = (
            (mark.get(name) for name in ("run", "good", "why", "by")) if is_object(mark) else (None,) * 4
        )
        is_text = isinstance(why, str | None) and isinstance(by, str | None)
        if not (isinstance(run, str) and run and isinstance(good, bool) and is_text):
            form = '{"run": ID, "good": true or false, "why": TEXT, "by": "owner" or another}'
            raise ConfigError(f"{path}, line {number}: a label is {form}; got {dump_json(mark)}")
        yield _Label(run, good, why or "", by)
