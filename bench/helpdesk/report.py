"""The report of an experiment: figures with intervals, what was learned, transcripts, drawings.

    python -m bench.helpdesk.report FOLDER [FOLDER ...] [--docs DOCS] [--note TEXT]

The first folder is the experiment; others are of other models that were given the same playbook. Without
`--docs` the tables alone are printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wesichain.learning import Playbook

from .drawing import Bar, draw_bars, draw_columns
from .experiment import ABLATIONS, LIMIT, TRAINING_LIMIT, Result, results, rows
from .figures import WORDS, by_kind, compare, interval, summary, table, verdict
from .tasks import INTENTS


def transcript(row: Mapping[str, Any], told: Sequence[str] = ()) -> str:
    """A run as the student saw it."""
    lines = [row["question"], *told]
    for step in row["output"]["structured_trace"]:
        for call in step.get("invocations", ()):
            result = (call.get("result") or {}).get("result", "none")
            lines.append(f"{call['tool_name']}({call['arguments']['key']}) = {result}")
    return "\n".join([*lines, f"Answer: {row['output'].get('answer', '')}"])


def pair(folder: Path) -> str:
    """The first held-out question that both arms have done, in both."""
    without = {row["task"]: row for row in rows(folder / "baseline.jsonl")}
    row = next(row for row in rows(folder / "learned.jsonl") if row["task"] in without)
    texts = [transcript(without[row["task"]]), transcript(row, advice(folder, row))]
    return f"Without advice:\n\n```text\n{texts[0]}\n```\n\nWith it:\n\n```text\n{texts[1]}\n```"


def advice(folder: Path, row: Mapping[str, Any]) -> list[str]:
    """The sentences that were shown in a run."""
    arm = str(row["arm"])
    with Playbook.open(folder / "playbooks" / (arm if arm.startswith("no-") else "learned")) as playbook:
        bullets = [playbook.get(str(name)) for name in row["shown"]]
    return [bullet.text for bullet in bullets if bullet is not None]


def transcripts(folder: Path) -> str:
    """Every run of an experiment."""
    parts: list[str] = []
    for path in sorted(folder.glob("*.jsonl")):
        for row in rows(path):
            verdict = "right" if row["right"] else "not solved"
            head = f"== {row['arm']}, {row['task']}: {verdict} after {row['iterations']}"
            parts.append(f"{head}\n{transcript(row, advice(folder, row))}\n")
    return "\n".join(parts)


def parts_matter(folder: Path, found: Sequence[Result]) -> str:
    """What the arms beside the main two say of the reflector and the curator, as far as they say it."""
    mean = {arm: _mean(compare(found, arm)[1]) for arm in ABLATIONS if compare(found, arm)[1]}
    if set(mean) != set(ABLATIONS):
        return ""
    tasks = {item.task for item in compare(found, "no-curator")[1]}
    main = _mean([item for item in found if item.arm == "learned" and item.task in tasks])
    lines = [_LOT.format(random=mean["random"], learned=main)]
    sizes: dict[str, int] = {}
    for arm in ("learned", "no-curator"):
        with Playbook.open(folder / "playbooks" / arm) as playbook:
            sizes[arm] = sum(len(playbook.bullets(domain)) for domain in playbook.domains())
    if mean["no-curator"] <= main:
        lines.append(_CAUTION.format(plain=mean["no-curator"], learned=main))
    lines.append(_SIZES.format(plain=sizes["no-curator"], learned=sizes["learned"]))
    if mean["no-reflector"] <= main:
        lines.append(_LABELS.format(plain=mean["no-reflector"], learned=main))
    return "\n".join(f"- {line}" for line in lines)


def _mean(items: Sequence[Result]) -> float:
    return sum(item.iterations for item in items) / max(1, len(items))


def limits(folder: Path, train: Sequence[Result]) -> str:
    """The kinds of questions for which nothing is shown, and why."""
    lines: list[str] = []
    with Playbook.open(folder / "playbooks" / "learned") as playbook:
        for intent in INTENTS:
            bullets = playbook.bullets(intent.domain)
            ways = [bullet.tool_sequence for bullet in bullets if bullet.stage in ("staging", "prod")]
            of_kind = [item for item in train if item.task.split("-")[1] == intent.name]
            if of_kind and intent.way not in ways:
                solved = f"{sum(item.right for item in of_kind)} of {len(of_kind)}"
                lines.append(_LIMIT.format(kind=intent.name, solved=solved))
    return "\n\n".join(lines)


def learned(folder: Path) -> str:
    """The strategies that a student is shown, and how much there is besides."""
    with Playbook.open(folder / "playbooks" / "learned") as playbook:
        every = [bullet for domain in playbook.domains() for bullet in playbook.bullets(domain)]
    shown = [bullet for bullet in every if bullet.stage in ("staging", "prod")]
    ways = [bullet for bullet in shown if bullet.section == "Strategies"]
    lines = [
        f"- {bullet.content} ({bullet.helpful_count} helpful, {bullet.harmful_count} harmful)"
        for bullet in ways
    ]
    besides = f"{len(shown) - len(ways)} warnings, and {len(every) - len(shown)} bullets too weak to be shown"
    return "\n".join(lines) + f"\n\nBesides these, the playbook has {besides}."


def document(folders: Sequence[Path], docs: Path, *, note: str = "") -> str:
    """The page, and its drawings beside it."""
    folder = folders[0]
    found = results(folder)
    train = [item for item in found if item.arm == "train"]
    base, items = compare(found, "learned")
    best = sum(item.best for item in items) / len(items)
    pictures = docs / "learning"
    pictures.mkdir(parents=True, exist_ok=True)
    bars: list[Bar] = []
    for arm, words in WORDS.items():
        values = [item.iterations for item in found if item.arm == arm]
        if values:
            mean = interval(values)
            name = f"{words} ({len(values)})"
            bars.append(Bar(name, mean.mean, mean.low, mean.high, arm == "learned"))
    title = "Iterations for a held-out question (mean, 95 % interval; number of questions)"
    (pictures / "iterations.svg").write_text(draw_bars(title, bars, top=LIMIT, best=best))
    columns = draw_columns(
        "Iterations for each training question",
        [(item.iterations, item.right) for item in train],
        top=TRAINING_LIMIT,
        under="in the order in which they were asked; hollow: not solved",
    )
    (pictures / "training.svg").write_text(columns)
    for place in folders:
        name = rows(place / "learned.jsonl")[0]["output"]["metadata"]["model"]
        (pictures / f"transcripts-{name}.txt").write_text(transcripts(place))
    stand_in = [item for item in found if item.arm == "stand-in"]
    model = rows(folder / "learned.jsonl")[0]["output"]["metadata"]["model"]
    parts = [
        "# Does a playbook make later runs shorter?",
        _ORIGIN.format(model=model),
        verdict(found),
        f"![Iterations by arm](learning/iterations.svg)\n\n{table(found, tuple(WORDS))}",
        _SETTING.format(
            model=model,
            train=len(train),
            held_out=len(items),
            limit=LIMIT,
            training=TRAINING_LIMIT,
            best=best,
        ),
        note,
        "## By kind of question",
        by_kind(found),
        limits(folder, train),
        "## What the parts are for",
        parts_matter(folder, found),
        "## What was learned",
        "![Iterations while learning](learning/training.svg)",
        learned(folder),
        "## A question in both arms",
        pair(folder),
        "## Within the limit, and when a service is down",
        _COMPLETED.format(limit=LIMIT, without=_share(base), with_it=_share(items)),
    ]
    if stand_in:
        parts.append(_STAND_IN.format(limit=LIMIT, found=_share(stand_in)))
    for other in folders[1:]:
        more = results(other)
        name = rows(other / "learned.jsonl")[0]["output"]["metadata"]["model"]
        parts += [
            f"## {name}, with the same playbook",
            f"{verdict(more)} The playbook is the one that {model} has filled: nothing was taught anew.",
            table(more, ("baseline", "learned")),
            by_kind(more),
        ]
    return "\n\n".join(part for part in parts if part) + "\n"


_ORIGIN = """\
Written by `python -m bench.helpdesk.report` from the transcripts of an experiment; `wesichain bench learning`
makes a new one. [Every run, word by word](learning/transcripts-{model}.txt)."""
_LIMIT = """\
What limits it: in training the way for `{kind}` was found in {solved} runs, and it takes three before a
strategy is shown. There is none for it, and nothing to gain."""
_LOT = """\
A bullet drawn by lot leaves {random:.2f} iterations where the right one leaves {learned:.2f}: what counts is
  that the advice fits the question, not that there is advice."""
_CAUTION = """\
Lessons as they came, neither merged nor counted, do as well here or better ({plain:.2f} against
  {learned:.2f}): labels are sure at this desk and a success always shows the way, so that the first one could
  be trusted. The curator waits for three, which is the price of keeping out a success that was luck; this
  desk has none."""
_SIZES = """\
The curator keeps {learned} bullets where the lessons as they came are {plain} after the same runs."""
_LABELS = """\
Lessons of good and bad runs alike do as well here or better ({plain:.2f} against {learned:.2f}): no run
  ends with a wrong answer at this desk, so that a bad run teaches a way that led nowhere, not one that
  misleads."""
_COMPLETED = """\
Without advice the local model completes {without} of these tasks of two and three calls within {limit}
iterations, with the playbook {with_it}; a scripted model that always knows the next call completes all of
its tasks of two to five calls (`tests/learning/test_generator.py`)."""
_STAND_IN = """\
When a service that the advice names is down and another one stands in for it, the local model finds the other
one, and the answer, within {limit} iterations in {found} of the runs; a scripted model that tries the
alternatives does in all of them (same file)."""
_SETTING = """\
## What was done

A help desk over four SQLite databases and a folder of documents, with 16 services. They have code names, as
services in companies do; a description says which key a service takes, not what it answers. A question needs
two or three of them in a row, each fed by the one before, and the answer: at best {best:.2f} iterations.

- **{train} training questions** of six kinds in four domains teach a playbook: solve (at most {training}
  iterations), reflect, curate. No model words or judges a lesson; whether an answer was right, a label says.
- **{held_out} held-out questions** share neither subject nor wording with them. Each is asked in both arms,
  one right after the other; nothing is learned from them, and nothing was tuned on them. The other arms,
  which show what the parts are for, were asked the first two questions of each kind.
- **The same in every arm**: {model} (Q4_K_M, llama.cpp, one thread), temperature 0, seed 0, tools,
  examples, {limit} iterations. A run without the answer has used them all.
- **What the model decides** is which service to call next. A grammar has it take the newest key, and leaves
  out services that have failed since the last result; the customer says when a result is what was asked. A
  small model cannot tell: left to itself it gives the first code that it sees as the answer, with advice
  or without. This too is the same in every arm.

Intervals are 95 % bootstrap intervals, those of the saving from pairs of the same question. Seconds are
those of a machine that had other work as well."""


def _share(items: Sequence[Result]) -> str:
    right = sum(item.right for item in items)
    return f"{right} of {len(items)} ({right / len(items):.0%})"


def main() -> None:
    options = argparse.ArgumentParser(
        prog="bench.helpdesk.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("folders", nargs="+", type=Path)
    options.add_argument("--docs", type=Path, help="where the page goes")
    options.add_argument("--note", default="", help="what else a reader has to know, for the page")
    given = options.parse_args()
    if given.docs is not None:
        (given.docs / "learning-experiment.md").write_text(
            document(given.folders, given.docs, note=given.note)
        )
        return
    for folder in given.folders:
        print(summary(folder))


if __name__ == "__main__":
    main()
