"""Results: what was measured, as it is written to and read from the results file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NotRequired, TypedDict, cast

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "peers.json"


class Fact(TypedDict, total=False):
    """One scenario of one contestant in one round: figures, or the error that stands for them."""

    cpu: float  # seconds of CPU a run
    bytes: float  # memory a run, where runs are held at once
    peak: float  # the most memory the process has held until then
    runs: int
    spared: bool  # whether the tool was spared the malformed call
    in_thread: bool  # whether the sync tool was run off the loop's thread
    error: str
    stopped: float  # CPU seconds after which it was


class Entry(TypedDict):
    """One contestant."""

    title: str
    version: str
    statement: str  # the import that was timed
    note: str  # how it is used here
    blocking: NotRequired[bool]  # its tools must be sync functions, in every scenario
    quick: NotRequired[str]  # the setting by which a sync tool is run at once
    best: NotRequired[str]  # the settings of its second row under fire
    rounds: list[dict[str, Fact]]
    unavailable: NotRequired[str]  # why there is nothing


class Cell(TypedDict):
    """How one contestant ended under one fault."""

    ended: str  # exception, status, text, running, crashed
    detail: str  # the class of the exception, the status, or the text
    seconds: float
    requests: int


class GraphForm(TypedDict):
    """A shape of a graph, how large, with which kind of nodes, with checkpoints or without."""

    shape: str
    size: int
    is_async: bool
    store: str


class GraphRow(GraphForm):
    """Seconds of CPU a step of such a graph, by engine, in each round."""

    wesichain: list[float]
    langgraph: list[float]


class Graphs(TypedDict):
    """Our graphs beside LangGraph's; what our file of a chat takes, as a multiple of its text."""

    version: str  # LangGraph's
    rows: list[GraphRow]
    stored: float
    setting: NotRequired[str]  # when and where, if not in the run of the page


class Earlier(TypedDict):
    """A run of the measurement that a later one has replaced, as it was told."""

    date: str
    version: str  # ours
    rounds: int
    hop: float  # seconds of CPU: a run with one call, and a further hop, of ours
    early: float
    note: str


class Results(TypedDict):
    """Everything that the page shows."""

    date: str
    python: str
    platform: str
    cores: int
    concurrent: int  # runs at once
    contestants: dict[str, Entry]
    graph: Graphs | None
    fire: dict[str, dict[str, Cell]]  # by contestant, then by fault
    fire_note: NotRequired[str]  # where the cells are not all of one run
    load: NotRequired[list[float]]  # the machine's load average at the beginning of each round
    earlier: NotRequired[list[Earlier]]


def load(path: Path) -> Results:
    return cast("Results", json.loads(path.read_text(encoding="utf-8")))


def save(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_written(results), encoding="utf-8")


def _written(results: Results) -> str:
    """Two levels are laid out, the rest is a line each: small, and readable in a diff."""

    def laid_out(value: object, depth: int) -> str:
        if depth == 0 or not value or not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        pad = "\n" + " " * (5 - depth)
        if isinstance(value, dict):
            inner = [f"{json.dumps(key)}: {laid_out(one, depth - 1)}" for key, one in value.items()]
            return "{" + pad + ("," + pad).join(inner) + "}"
        return "[" + pad + ("," + pad).join(laid_out(one, depth - 1) for one in value) + "]"

    return laid_out(results, 4) + "\n"
