"""The pages: docs/benchmarks.md with its drawings, and the figures of the README and the home page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.peers.environments import ROOT
from bench.peers.results import GraphRow, Graphs, Results

from .costs import at_once, headline, in_short, kind, runs, shared_machine
from .estimate import estimate
from .figures import Row, rows_of
from .fire import fire
from .plots import Bar, Line, draw_bars, draw_lines
from .words import paragraphs, seconds, significant, size, table, times, with_interval

DOCS = ROOT / "docs"
WITH_FIGURES = (ROOT / "README.md", DOCS / "README.md")
BEGIN, END = "<!-- figures, by python -m bench.peers --page -->", "<!-- end of the figures -->"
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


def write_figures(results: Results, pages: Sequence[Path] = WITH_FIGURES) -> None:
    """Write the figures between the marks of each page; the text around them is written by hand."""
    for page in pages:
        before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n{headline(results)}\n{END}{after}", encoding="utf-8")


def draw(rows: Sequence[Row]) -> dict[str, str]:
    """The drawings by file name; one without data is left out."""
    drawings: dict[str, str] = {}
    for name, figure, title, form in (
        ("one-hop", "hop", "CPU time of a run with one call of an async tool", seconds),
        ("memory", "memory", "Memory of one run among many held at once", size),
        ("import", "import", "CPU time of the import", seconds),
    ):
        if bars := _bars(rows, figure):
            drawings[name] = draw_bars(title, bars, form)
    if lines := _lines(rows):
        title = "CPU time per hop against the length of the chain, async tools"
        drawings["per-hop"] = draw_lines(
            title, lines, across_name="hops in the run", x_form=significant, y_form=seconds
        )
    return drawings


def _bars(rows: Sequence[Row], figure: str) -> list[Bar]:
    bars = [
        Bar(row.title, value, kind(row)) for row in rows if (value := row.value(figure)) and value.low > 0
    ]
    return sorted(bars, key=lambda bar: bar.value.median)


def _lines(rows: Sequence[Row]) -> list[Line]:
    lines: list[Line] = []
    for row in rows:
        points = [(hops, value.median / hops) for name, hops in LENGTHS if (value := row.value(name))]
        if points:
            ended = isinstance(why := row.figures["chain1000"], str) and why != "not measured"
            title = f"{row.title} (stopped)" if ended else row.title
            lines.append(Line(title, points, kind(row)))
    return lines


def compose(results: Results, rows: Sequence[Row]) -> str:
    """The text of the page."""
    parts = [INTRODUCTION, _setting(results)]
    if any(row.value("hop") for row in rows):
        parts += [in_short(rows), runs(rows), at_once(results, rows)]
    if graph := results.get("graph"):
        parts.append(_graph(graph))
    if results["fire"]:
        parts.append(fire(results))
    parts += [METHOD, _notes(rows), _earlier(results)]
    return paragraphs(*parts) + "\n"


def _setting(results: Results) -> str:
    counts = [len(entry["rounds"]) for entry in results["contestants"].values() if entry["rounds"]] or [0]
    most = f"{max(counts)} round{'' if max(counts) == 1 else 's'}"
    rounds = most if min(counts) == max(counts) else f"{min(counts)} to {most}, most for the quickest"
    return (
        f"Measured on {results['date']} with Python {results['python']} on {results['platform']}, "
        f"{results['cores']} cores, in {rounds}.{shared_machine(results)} The figures "
        f"behind the page are in [peers.json](benchmarks/peers.json)."
    )


def _stored(row: GraphRow) -> str:
    """Where a row's checkpoints were kept; older figures have a bool that says whether in SQLite."""
    store = row.get("store") or ("SQLite" if row.get("sqlite") else "")
    return f", {store}" if store else ""


def _graph(graph: Graphs) -> str:
    """Our engine and LangGraph's, row by row; the ratio is taken round by round."""
    body: list[list[str]] = []
    for row in graph["rows"]:
        ours, theirs = row["wesichain"], row["langgraph"]
        ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
        figures = [with_interval(estimate(samples), seconds) for samples in (ours, theirs)]
        nodes = f"{'async' if row['is_async'] else 'sync'}{_stored(row)}"
        what = f"{SHAPES[row['shape']].format(row['size'])}, {nodes}"
        body.append([what, *figures, with_interval(estimate(ratios), times)])
    head = ["CPU a step", "**Wesichain**", f"LangGraph {graph['version']}", "times as much"]
    size = f"On the disk a chat of 200 turns takes {times(graph['stored'])} times its text."
    return paragraphs(GRAPH, graph.get("setting", ""), table(head, body), size)


def _earlier(results: Results) -> str:
    body = [
        [
            run["date"],
            run["version"],
            str(run["rounds"]),
            seconds(run["hop"]),
            seconds(run["early"]),
            run["note"],
        ]
        for run in results.get("earlier", [])
    ]
    head = [
        "date",
        "version",
        "rounds",
        "one hop, async tool",
        "a further hop, async tool",
        "what was otherwise",
    ]
    return paragraphs("### Runs before this one", EARLIER, table(head, body)) if body else ""


def _notes(rows: Sequence[Row]) -> str:
    lines = [f"- {row.title}: {note}" for row in rows if (note := row.entry.get("note"))]
    return "### Of each contestant\n\n" + "\n".join(lines) if lines else ""


INTRODUCTION = """\
# Benchmarks

What a framework costs beside the model, and what it does when the model, the tools or the provider
misbehave. This page is written by a script: `make bench-peers` measures everything anew. The limits that
continuous integration holds are in [measuring](howto/benchmarks.md), and what a fleet of idle workers costs
its database is in [operating](operating.md#size-it)."""

EARLIER = """\
Each run of the whole measurement replaces the page; here is what those before it said of us."""

GRAPH = """\
## Steps of a graph

State graphs without a checkpointer, with one in a SQLite file and with one on Postgres (the CPU of the client
alone). Sync nodes are plain functions, run by `invoke_sync` and LangGraph's `invoke`; async ones are
coroutine functions, run by `invoke` and `ainvoke`. `python -m bench.graph --page` measures this alone."""

METHOD = """\
## Method

- Every contestant runs in a virtual environment of its own with pinned packages, in a fresh process; the
  contestants take turns within each round, in an order that changes, so that all meet the same conditions.
- The model is a stub at the framework's own model boundary: no network, no tokens. It has no memory: its
  next reply follows from the last tool result alone, so a run only ends well if the tool really ran and its
  result really came back. The number of tool calls and the answer are checked. What the stub itself costs
  (a few microseconds a reply) is in every figure.
- Every stub begins with the arguments as JSON text, as a provider sends them. A framework whose model
  interface takes text parses it itself; where it takes them parsed, as ours does, the stub calls
  `json.loads`, as the framework's own client would.
- CPU time (`time.process_time`, all threads), since a machine may be shared; a round's figure is the median
  of batches that take a quarter of a second together, after a run to warm up. What takes more than three
  seconds is measured in two rounds only, more than ten in one, and what takes very long is stopped.
- The interval is the pair of rounds that encloses the true median with 95 % confidence, without an
  assumption about the distribution; with fewer than six rounds it is their range. Ratios are taken round by
  round.
- Telemetry is off, byte code is cached, no key is set. Each is used as its documentation advises, with what
  the question does not need switched off (tracing, streaming, consoles): that is its best setting for
  speed, and the notes below say what it is.
- The hand-written loop is `bench/handwritten.py`: plain dicts, pydantic for the arguments, nothing else. It
  is the baseline, not a rival: it has no events, no budget, no timeouts, no policy.

### Who is not here

- The Claude Agent SDK (0.2.182) was installed and gave its version; no task was put to it. Its loop is a
  program of its own that the package brings along: there is no model interface in Python to put a stub
  behind, and the CPU time of the Python process says nothing of it. Figures beside the
  others' would compare two different things.

### Read with care

- A real model takes from a fraction of a second to many seconds for a reply. What is measured here is not
  what one user waits for; it is what many runs on one core, long chains, tests and small machines pay.
- The frameworks do different amounts of work for the same question, and were each made for something of
  their own. Each adapter in `bench/peers/adapters/` is written as its documentation advises, with what is
  not needed here switched off; a faster way to use one is a welcome change.
- The figures of Wesichain are those of version 0.2.0. Two runs were stopped and are not in the tables: a
  quick one, in which an adapter hung and was repaired, and one under fire, whose finished cells were kept.
- The authors of this page are the authors of one of the contestants."""
