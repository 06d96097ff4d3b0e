"""Results: the content of the results file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NotRequired, TypedDict, cast

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "benchmarks" / "peers.json"


class Fact(TypedDict, total=False):
    """A scenario of a contestant in a round: figures, or the error in their place."""

    cpu: float  # CPU seconds per run
    bytes: float  # memory per concurrent run
    peak: float  # the most memory the process has held until then
    runs: int
    spared: bool  # whether the malformed call did not reach the tool
    in_thread: bool  # whether the sync tool ran in another thread
    error: str
    stopped: float  # after this many CPU seconds


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
    """How a contestant ended with a fault."""

    ended: str  # exception, status, text, running, crashed
    detail: str  # the class of the exception, the status, or the text
    seconds: float
    requests: int


class GraphForm(TypedDict):
    """The shape and size of a graph, the kind of its nodes, and whether it has checkpoints."""

    shape: str
    size: int
    is_async: bool
    store: str


class GraphRow(GraphForm):
    """CPU seconds per step of such a graph, by engine, for each round."""

    wesichain: list[float]
    langgraph: list[float]


class Graphs(TypedDict):
    """Our graphs against LangGraph's; the size of our file of a chat, as a multiple of its text."""

    version: str  # LangGraph's
    rows: list[GraphRow]
    stored: float
    setting: NotRequired[str]  # when and where, if not in the run of the page


class Earlier(TypedDict):
    """A measurement that a later one has replaced."""

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
    """Two levels are indented, the rest is one line each: small, and readable in a diff."""

    def laid_out(value: object, depth: int) -> str:
        if depth == 0 or not value or not isinstance(value, dict | list):
            return json.dumps(value, ensure_ascii=False)
        pad = "\n" + " " * (5 - depth)
        if isinstance(value, dict):
            inner = [f"{json.dumps(key)}: {laid_out(one, depth - 1)}" for key, one in value.items()]
            return "{" + pad + ("," + pad).join(inner) + "}"
        return "[" + pad + ("," + pad).join(laid_out(one, depth - 1) for one in value) + "]"

    return laid_out(results, 4) + "\n"
