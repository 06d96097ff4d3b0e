"""Digests: what the whole of each recording comes to, read once, for statistics and filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from wesichain.core import is_object, parse_json
from wesichain.errors import CodecError
from wesichain.trace import Figures

Prices = Mapping[str, tuple[float, float]]
_LONGEST = 256 * 1024 * 1024  # bytes of a file that are read
# A line tells its kind first: those that count for nothing are not parsed.
_COUNTED = frozenset(
    {
        b"run_started",
        b"step_started",
        b"model_responded",
        b"tool_dispatched",
        b"tool_completed",
        b"step_failed",
    }
)


@dataclass(slots=True)
class Digest:
    """A digest of one recording, nested runs included."""

    size: int = 0
    steps: int = 0
    tools: dict[str, list[tuple[float, bool]]] = field(
        default_factory=dict
    )  # how long, and whether it went well
    models: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)
    tokens: dict[str, tuple[int, int]] = field(default_factory=dict)
    told_cost: float = 0.0  # what the replies themselves say
    faults: Counter[str] = field(default_factory=Counter)

    def cost(self, prices: Prices) -> float | None:
        """The cost: as it was told, else by the prices; None where neither says."""
        if self.told_cost:
            return self.told_cost
        priced = [model for model in self.tokens if model in prices]
        if not priced:
            return None
        return sum(
            (self.tokens[model][0] * prices[model][0] + self.tokens[model][1] * prices[model][1]) / 1e6
            for model in priced
        )


class Digests:
    """The digests of a folder's recordings, each made anew when its file has grown."""

    def __init__(self) -> None:
        self._known: dict[str, Digest] = {}
        self._making = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def known(self, path: Path) -> Digest | None:
        """The digest of a file as it was when it was last read."""
        return self._known.get(path.name)

    def of(self, path: Path, size: int) -> Digest | None:
        """The digest of a file of this size; None if it cannot be read."""
        found = self._known.get(path.name)
        if found is not None and found.size == size:
            return found
        with self._making:
            try:
                made = digest(path)
            except OSError:
                return None
            made.size = size
            self._known[path.name] = made
            return made

    def forget(self, names: set[str]) -> None:
        for name in names:
            self._known.pop(name, None)


def digest(path: Path) -> Digest:
    """Read a recording for what it comes to. Lines that cannot be read count for nothing."""
    reader = _Reader()
    with path.open("rb") as file:
        for line in file.read(_LONGEST).split(b"\n"):
            if line[9 : line.find(b'"', 9)] not in _COUNTED:
                continue
            try:
                event = parse_json(line)
            except CodecError:
                continue
            if is_object(event):
                reader.take(event)
    reader.found.steps = len(reader.steps)
    return reader.found


class _Reader:
    """Counts the events of one recording."""

    def __init__(self) -> None:
        self.found = Digest()
        self.steps: set[tuple[str, int]] = set()
        self._model_of: dict[str, str] = {}  # by scope
        self._calls: set[tuple[str, str]] = set()
        self._asked: set[str] = set()  # scopes that wait for a reply

    def take(self, event: dict[str, Any]) -> None:
        scope = str(event.get("scope") or "")
        took = _number(event.get("duration_ms"))
        match event.get("kind"):
            case "run_started":
                self._model_of[scope] = str(event.get("model") or "")
            case "step_started":
                self._asked.add(scope)
                self.steps.add((scope, int(_number(event.get("step_id")))))
            case "model_responded":
                self._reply(scope, event, took)
            case "tool_dispatched":
                call = event.get("call")
                if is_object(call):
                    self._calls.add((scope, str(call.get("id"))))
            case "tool_completed":
                self.found.tools.setdefault(str(event.get("tool_name")), []).append((took, True))
            case _:
                self._fault(scope, event, took)

    def _reply(self, scope: str, event: dict[str, Any], took: float) -> None:
        self._asked.discard(scope)
        model = self._model_of.get(scope, "")
        self.found.models.setdefault(model, []).append((took, True))
        self.found.told_cost += _number(event.get("cost"))
        reply = event.get("response")
        usage = reply.get("usage") if is_object(reply) else None
        if is_object(usage):
            read, written = self.found.tokens.get(model, (0, 0))
            self.found.tokens[model] = (
                read + int(_number(usage.get("input_tokens"))),
                written + int(_number(usage.get("output_tokens"))),
            )

    def _fault(self, scope: str, event: dict[str, Any], took: float) -> None:
        self.found.faults[str(event.get("error"))] += 1
        if (scope, str(event.get("call_id"))) in self._calls:
            self.found.tools.setdefault(str(event.get("tool_name")), []).append((took, False))
        elif scope in self._asked:  # no reply came; one that came and was wrong has been counted
            self._asked.discard(scope)
            self.found.models.setdefault(self._model_of.get(scope, ""), []).append((took, False))


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def figures(table: dict[str, Figures], more: Mapping[str, list[tuple[float, bool]]]) -> None:
    """Add the calls of a digest to the figures of all."""
    for name, timed in more.items():
        one = table.setdefault(name, Figures())
        for took, is_ok in timed:
            one.add(took, ok=is_ok)
