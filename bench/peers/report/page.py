"""The page: docs/benchmarks.md and its drawings, written from the results and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.fire.faults import BEST, FAULTS, MANY, Fault
from bench.fire.run import OBSERVING, verdict
from bench.peers.environments import OURS, ROOT, YARDSTICK
from bench.peers.results import Cell, Graphs, Results

from .estimate import estimate
from .figures import Row, late_at_least, ratio, rows_of
from .plots import Bar, Line, draw_bars, draw_lines
from .words import Format, seconds, significant, size, table, times, with_interval

DOCS = ROOT / "docs"
SHAPES = {
    "chain": "a chain of {:,} nodes",
    "loop": "a loop of {:,} steps over a condition",
    "fan-out": "a fan-out to {:,} tasks",
    "chat": "a chat of {:,} turns of 2 kB",
}
LENGTHS = (("chain10", 10), ("chain100", 100), ("chain1000", 1000))


def write_page(results: Results, docs: Path = DOCS) -> None:
    """Write `docs/benchmarks.md` and the drawings it shows in `docs/benchmarks/`."""
    rows = rows_of(results)
    drawings = docs / "benchmarks"
    drawings.mkdir(parents=True, exist_ok=True)
    for name, drawing in draw(rows).items():
        (drawings / f"{name}.svg").write_text(drawing, encoding="utf-8")
    (docs / "benchmarks.md").write_text(compose(results, rows), encoding="utf-8")


def draw(rows: Sequence[Row]) -> dict[str, str]:
    """The drawings by file name; one without data is left out."""
    drawings: dict[str, str] = {}
    for name, figure, title, form in (
        ("one-hop", "hop", "CPU time of a run with one tool call", seconds),
        ("memory", "memory", "Memory of one run among many held at once", size),
        ("import", "import", "CPU time of the import", seconds),
    ):
        if bars := _bars(rows, figure):
            drawings[name] = draw_bars(title, bars, form)
    if lines := _lines(rows):
        title = "CPU time per hop against the length of the chain"
        drawings["per-hop"] = draw_lines(
            title, lines, across_name="hops in the run", x_form=significant, y_form=seconds
        )
    return drawings


def _bars(rows: Sequence[Row], figure: str) -> list[Bar]:
    bars = [
        Bar(row.title, value, _kind(row)) for row in rows if (value := row.value(figure)) and value.low > 0
    ]
    return sorted(bars, key=lambda bar: bar.value.median)


def _lines(rows: Sequence[Row]) -> list[Line]:
    lines: list[Line] = []
    for row in rows:
        points = [(hops, value.median / hops) for name, hops in LENGTHS if (value := row.value(name))]
        if points:
            ended = isinstance(why := row.figures["chain1000"], str) and why != "not measured"
            title = f"{row.title} (stopped)" if ended else row.title
            lines.append(Line(title, points, _kind(row)))
    return lines


def _kind(row: Row) -> str:
    return {OURS.name: "ours", YARDSTICK.name: "yardstick"}.get(row.name, "peer")


def compose(results: Results, rows: Sequence[Row]) -> str:
    """The text of the page."""
    parts = [INTRODUCTION, _setting(results)]
    if any(row.value("hop") for row in rows):
        parts += [_in_short(rows), _runs(rows), _at_once(results, rows)]
    if graph := results.get("graph"):
        parts.append(_graph(graph))
    if results["fire"]:
        parts.append(_fire(results))
    parts += [METHOD, _notes(rows)]
    return _paragraphs(*parts) + "\n"


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _setting(results: Results) -> str:
    rounds = max((len(entry["rounds"]) for entry in results["contestants"].values()), default=0)
    return (
        f"Measured on {results['date']} with Python {results['python']} on {results['platform']}, "
        f"{results['cores']} cores, in {rounds} round{'' if rounds == 1 else 's'}."
    )


def _in_short(rows: Sequence[Row]) -> str:
    """Ours against the yardstick and against whoever is the cheapest of the others."""
    ours = next((row for row in rows if row.name == OURS.name), None)
    yardstick = _yardstick(rows)
    if ours is None or yardstick is None:
        return ""
    lines: list[str] = []
    for figure, what in (
        ("hop", "A run with one tool call"),
        ("early", "A further hop"),
        ("memory", "A run in memory"),
    ):
        mine, theirs = ours.value(figure), ratio(ours, yardstick, figure)
        others = [
            (value.median, row) for row in rows if _kind(row) == "peer" and (value := row.value(figure))
        ]
        if mine is None or theirs is None or not others:
            continue
        least, cheapest = min(others, key=lambda pair: pair[0])
        form = size if figure == "memory" else seconds
        cost = f"{form(mine.median)}, {times(theirs.median)} times the hand-written loop"
        other = f"{form(least)}, {times(least / mine.median)} times as much"
        lines.append(f"- {what}: {cost}. The cheapest of the others, {cheapest.title}, takes {other}.")
    return _paragraphs("## In short", "\n".join(lines)) if lines else ""


def _runs(rows: Sequence[Row]) -> str:
    yardstick = _yardstick(rows)
    has_sync = any(row.value("sync") for row in rows)  # results from before it was asked for have none
    sync_head = ["one hop, sync tool"] if has_sync else []
    head = ["", "version", "no tool", "one hop", "malformed call, recovered", *sync_head]
    head += ["per hop, 10 to 100", "per hop, 100 to 1,000", "the last, times the hand-written loop"]
    body: list[list[str]] = []
    for row in rows:
        cells = [_named(row), row.entry["version"]]
        cells += [_cell(row, "short"), _cell(row, "hop"), _malformed(row)]
        cells += [_cell(row, "sync")] if has_sync else []
        body.append([*cells, _cell(row, "early"), *_late(row, yardstick)])
    bounded = any(cells[-2].startswith(">") for cells in body)
    return _paragraphs(
        "## The cost of a run",
        RUNS,
        table(head, body),
        "Where it says “>”, the chain of 1,000 was stopped after 20 s of CPU: a hop costs at least that much."
        if bounded
        else "",
        _reasons(rows, ("short", "hop", "malformed", "chain100", "chain1000")),
        "\\* The tool was entered with the malformed arguments: they were not checked before."
        if any("\\*" in cells[4] for cells in body)
        else "",
        "![CPU time of a run with one tool call](benchmarks/one-hop.svg)",
        "![CPU time per hop against the length of the chain](benchmarks/per-hop.svg)",
        CLIMBING,
    )


def _yardstick(rows: Sequence[Row]) -> Row | None:
    return next((row for row in rows if row.name == YARDSTICK.name), None)


def _late(row: Row, yardstick: Row | None) -> list[str]:
    """The cost of a hop in the long chain, and how many times the yardstick's it is."""
    base = yardstick.value("late") if yardstick else None
    bound = late_at_least(row)
    if bound is not None and row.value("late") is None:
        return [f"> {seconds(bound)}", f"> {times(bound / base.median)}" if base else ""]
    against = ratio(row, yardstick, "late") if yardstick else None
    return [_cell(row, "late"), with_interval(against, times) if against else ""]


def _malformed(row: Row) -> str:
    spared = all(facts.get("malformed", {}).get("spared", True) for facts in row.entry["rounds"])
    return _cell(row, "malformed") + ("" if spared else " \\*")


def _at_once(results: Results, rows: Sequence[Row]) -> str:
    yardstick = _yardstick(rows)
    head = ["", "CPU a run", "memory a run", "memory, times the hand-written loop"]
    head += ["import", "peak memory after 100 hops"]
    body: list[list[str]] = []
    for row in rows:
        against = ratio(row, yardstick, "memory") if yardstick else None
        cells = [_named(row), _cell(row, "concurrent"), _cell(row, "memory", size)]
        cells += [with_interval(against, times) if against else "", _cell(row, "import")]
        body.append([*cells, _cell(row, "peak", size)])
    pydantic = yardstick.value("pydantic") if yardstick else None
    return _paragraphs(
        f"## {results['concurrent']:,} runs at once, memory and import",
        HELD,
        table(head, body),
        _reasons(rows, ("concurrent", "import")),
        f"For comparison, importing pydantic's `BaseModel`, `Field` and `TypeAdapter` alone takes "
        f"{with_interval(pydantic, seconds).replace('<br>', ' ')}."
        if pydantic
        else "",
        "![Memory of one run among many held at once](benchmarks/memory.svg)",
        "![CPU time of the import](benchmarks/import.svg)",
    )


def _graph(graph: Graphs) -> str:
    """Our engine and LangGraph's, row by row; the ratio is taken round by round."""
    body: list[list[str]] = []
    for row in graph["rows"]:
        ours, theirs = row["wesichain"], row["langgraph"]
        ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
        figures = [with_interval(estimate(samples), seconds) for samples in (ours, theirs)]
        nodes = f"{'async' if row['is_async'] else 'sync'}{', SQLite' if row['sqlite'] else ''}"
        what = f"{SHAPES[row['shape']].format(row['size'])}, {nodes}"
        body.append([what, *figures, with_interval(estimate(ratios), times)])
    head = ["CPU a step", "**Wesichain**", f"LangGraph {graph['version']}", "times as much"]
    size = f"On the disk a chat of 200 turns takes {times(graph['stored'])} times its text."
    return _paragraphs(GRAPH, table(head, body), size)


def rewrite_graphs(graph: Graphs, folder: Path) -> None:
    """Put these figures into the page that there is, in place of those that it has."""
    page = folder / "benchmarks.md"
    title = GRAPH.partition("\n")[0]
    before, _, rest = page.read_text(encoding="utf-8").partition(f"{title}\n")
    _, _, after = rest.partition("\n## ")
    page.write_text(f"{before}{_graph(graph)}\n\n## {after}", encoding="utf-8")


def _named(row: Row) -> str:
    return f"**{row.title}**" if row.name == OURS.name else row.title


def _cell(row: Row, figure: str, form: Format = seconds) -> str:
    value = row.value(figure)
    return with_interval(value, form) if value else "-"


def _reasons(rows: Sequence[Row], scenarios: Sequence[str]) -> str:
    """Why there is a dash."""
    lines: list[str] = []
    for row in rows:
        if reason := row.entry.get("unavailable"):
            lines.append(f"- {row.title}: {reason}")
            continue
        lines += [
            f"- {row.title}, {scenario}: {why}"
            for scenario in scenarios
            if isinstance(why := row.figures[scenario], str)
            and why != "not measured"
            and "stopped" not in why
        ]
    return "Where a dash stands:\n\n" + "\n".join(lines) if lines else ""


def _fire(results: Results) -> str:
    calls = [fault for fault in FAULTS if fault.status == 200]
    provider = [fault for fault in FAULTS if fault.status != 200]
    marks = {contestant: _verdicts(cells) for contestant, cells in results["fire"].items()}
    titles = {name: entry["title"] for name, entry in results["contestants"].items()}
    titles |= {f"{name}{BEST}": f"{title}, best setting" for name, title in titles.items()}
    titles[OBSERVING.name] = "Wesichain with ObserveErrors"

    def matrix(faults: Sequence[Fault]) -> str:
        body: list[list[str]] = []
        for name, cells in results["fire"].items():
            title = titles.get(name, name)
            shown = [_ending(fault, cells[fault.name]) if fault.name in cells else "" for fault in faults]
            body.append([f"**{title}**" if name.startswith(OURS.name) else title, *shown])
        return table(["", *(fault.title for fault in faults)], body)

    counted = table(
        ["", "recovered", "visible", "silent", "still running"],
        [
            [titles.get(name, name), *(str(found.count(kind)) for kind in VERDICTS)]
            for name, found in marks.items()
        ],
    )
    return _paragraphs(FIRE, counted, matrix(calls), matrix(provider))


VERDICTS = ("recovered", "visible", "silent", "running")


def _verdicts(cells: dict[str, Cell]) -> list[str]:
    return [verdict(fault, cells[fault.name]) for fault in FAULTS if fault.name in cells]


def _ending(fault: Fault, cell: Cell) -> str:
    """What the caller saw, and what it cost."""
    requests = f"{cell['requests']} request" + ("" if cell["requests"] == 1 else "s")
    cost = f"<br><sub>{requests}</sub>"
    match verdict(fault, cell):
        case "recovered":
            return f"recovered{cost}"
        case "running":
            return f"**still running**{cost}"
        case "silent":
            said = cell["detail"].strip()
            return f"**silent**: “{said}”{cost}" if said else f"**silent**: empty{cost}"
        case _:
            return f"`{cell['detail']}`{cost}"


def _notes(rows: Sequence[Row]) -> str:
    lines = [f"- {row.title}: {note}" for row in rows if (note := row.entry.get("note"))]
    return "### Of each contestant\n\n" + "\n".join(lines) if lines else ""


INTRODUCTION = """\
# Benchmarks

What a framework costs beside the model, and what it does when the model, the tools or the provider
misbehave. This page is written by a script: `make bench-peers` measures everything anew."""

RUNS = """\
CPU time, median over the rounds, and the interval of the median below it. A hop is a model call that asks for
a tool, and the tool's run."""

CLIMBING = """\
A line that climbs is a run whose cost grows faster than its length: the whole history is copied, walked or
written anew at every step."""

HELD = """\
All runs are held at their last model call until every one has come so far; the memory is what the process
has then gained, divided by the number of runs."""

GRAPH = """\
## Steps of a graph

State graphs without a checkpointer and with one in a SQLite file. Sync nodes are plain functions, run by
`invoke_sync` and LangGraph's `invoke`; async ones are coroutine functions, run by `invoke` and `ainvoke`.
`python -m bench.graph --page` measures this alone."""

FIRE = f"""\
## Behaviour under fire

Each framework, with its own OpenAI client and its usual settings, talks to a chat completions server on
loopback that misbehaves in one way, once or always. Once means that the model behaves well from the second
request on: the run can recover. Always means that it cannot, so that the caller should be told.

- recovered: the right answer came after all.
- visible: an exception, or a typed sign in the result (a status, a stop reason).
- silent: plain text as if nothing had happened.
- still running: stopped after {MANY} requests, or after 30 s without one (five minutes where the
  provider fails, since some wait long before they try again).

The slow tool takes a minute; a limit of one second was set wherever the framework has a setting for tools,
steps or runs. The second row of each has the best setting that its documentation offers for this: limits of
12 model calls, retries, plugins; `BEST` in `bench/peers/adapters` says which. Six of the twelve faults come
once, so that six is the most that can be recovered from. A second row that is missing has not been run."""

METHOD = """\
## Method

- Every contestant runs in a virtual environment of its own with pinned packages, in a fresh process; the
  contestants take turns within each round, in an order that changes, so that all meet the same conditions.
- The model is a stub at the framework's own model boundary: no network, no tokens. It has no memory: its
  next reply follows from the last tool result alone, so a run only ends well if the tool really ran and its
  result really came back. The number of tool calls and the answer are checked. What the stub itself costs
  (about two microseconds a reply) is in every figure.
- CPU time (`time.process_time`, all threads), since a machine may be shared; a round's figure is the median
  of batches that take a quarter of a second together, after a run to warm up. What takes more than three
  seconds is measured in two rounds only, more than ten in one, and what takes more than 20 is stopped.
- The interval is the pair of rounds that encloses the true median with 95 % confidence, without an
  assumption about the distribution; with fewer than six rounds it is their range. Ratios are taken round by
  round.
- Telemetry is off, byte code is cached, no key is set.
- The hand-written loop is `bench/handwritten.py`: plain dicts, pydantic for the arguments, nothing else. It
  is the yardstick, not a rival: it has no events, no budget, no timeouts, no policy.

### Read with care

- A real model takes from a fraction of a second to many seconds for a reply. What is measured here is not
  what one user waits for; it is what many runs on one core, long chains, tests and small machines pay.
- The frameworks do different amounts of work for the same question, and were each made for something of
  their own. Each adapter in `bench/peers/adapters/` is written as its documentation advises, with what is
  not needed here switched off; a faster way to use one is a welcome change.
- The authors of this page are the authors of one of the contestants."""
