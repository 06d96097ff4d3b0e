"""Results: what was measured, as it is written to and read from the results file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NotRequired, TypedDict, cast

RESULTS = Path(__file__).resolve().parents[1] / "results" / "peers.json"


class Fact(TypedDict, total=False):
    """One scenario of one contestant in one round: figures, or the error that stands for them."""

    cpu: float  # seconds of CPU a run
    bytes: float  # memory a run, where runs are held at once
    peak: float  # the most memory the process has held until then
    runs: int
    spared: bool  # whether the tool was spared the malformed call
    error: str
    stopped: float  # CPU seconds after which it was


class Entry(TypedDict):
    """One contestant."""

    title: str
    version: str
    statement: str  # the import that was timed
    note: str  # how it is used here
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
    sqlite: bool


class GraphRow(GraphForm):
    """Seconds of CPU a step of such a graph, by engine, in each round."""

    wesichain: list[float]
    langgraph: list[float]


class Graphs(TypedDict):
    """Our graphs beside LangGraph's; what our file of a chat takes, as a multiple of its text."""

    version: str  # LangGraph's
    rows: list[GraphRow]
    stored: float


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


def load(path: Path) -> Results:
    return cast("Results", json.loads(path.read_text(encoding="utf-8")))


def save(results: Results, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
