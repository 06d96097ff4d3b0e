"""Digests: the totals of each recording, computed once, for statistics and filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from threading import RLock
from typing import Any

from wesichain.core import Usage
from wesichain.core.internal import Mutable, Prices, field, is_object, parse_json
from wesichain.errors import CodecError
from wesichain.policy import find_cost
from wesichain.trace import Figures

_LONGEST = 256 * 1024 * 1024  # bytes read of a file
# A line begins with its kind: other kinds are not parsed.
_COUNTED = frozenset(
    {
        b"run_started",
        b"handed_off",
        b"step_started",
        b"model_responded",
        b"tool_dispatched",
        b"tool_completed",
        b"step_failed",
    }
)


_COUNTS = tuple(one.name for one in fields(Usage))


class Digest(Mutable):
    """The totals of a recording, with those of the runs inside it."""

    size: int = 0
    steps: int = 0
    tools: dict[str, list[tuple[float, bool]]] = field(
        default_factory=dict
    )  # durations, and whether the call succeeded
    models: dict[str, list[tuple[float, bool]]] = field(default_factory=dict)
    tokens: dict[str, tuple[int, int]] = field(default_factory=dict)
    cost: float | None = None  # from the replies, else by the prices of their models; None: unknown
    faults: Counter[str] = field(default_factory=Counter)


class Digests:
    """The digests of a folder's recordings, computed again when a file has grown."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._known: dict[str, Digest] = {}
        self._making = RLock()

    def known(self, path: Path) -> Digest | None:
        """The last digest of a file; it may have grown since."""
        return self._known.get(path.name)

    def of(self, path: Path, size: int) -> Digest | None:
        """The digest of a file of this size; None if it cannot be read."""
        found = self._known.get(path.name)
        if found is not None and found.size == size:
            return found
        with self._making:
            try:
                made = digest(path, self._prices)
            except OSError:
                return None
            made.size = size
            self._known[path.name] = made
            return made

    def forget(self, names: set[str]) -> None:
        for name in names:
            self._known.pop(name, None)


def digest(path: Path, prices: Prices) -> Digest:
    """Compute the digest of a recording. Unreadable lines are ignored."""
    reader = _Reader(prices)
    with path.open("rb") as file:
        for line in file.read(_LONGEST).split(b"\n"):
            if line[9 : line.find(b'"', 9)] in _COUNTED:
                reader.take(parsed(line))
    reader.found.steps = len(reader.steps)
    return reader.found


def parsed(line: bytes) -> dict[str, Any]:
    """Parse a line of a recording; an empty object if it cannot be read."""
    try:
        plain = parse_json(line)
    except CodecError:
        return {}
    return plain if is_object(plain) else {}


class _Reader:
    """Counts the events of one recording."""

    def __init__(self, prices: Prices) -> None:
        self.found = Digest()
        self._prices = prices
        self.steps: set[tuple[str, int]] = set()
        self._model_of: dict[str, str] = {}  # by scope
        self._calls: set[tuple[str, str]] = set()
        self._requested: set[str] = set()  # scopes with an open request

    def take(self, event: dict[str, Any]) -> None:
        scope = str(event.get("scope") or "")
        duration = _number(event.get("duration_ms"))
        match event.get("kind"):
            case "run_started" | "handed_off":
                self._model_of[scope] = str(event.get("model") or self._model_of.get(scope, ""))
            case "step_started":
                self._requested.add(scope)
                self.steps.add((scope, int(_number(event.get("step_id")))))
            case "model_responded":
                self._reply(scope, event, duration)
            case "tool_dispatched":
                call = event.get("call")
                if is_object(call):
                    self._calls.add((scope, str(call.get("id"))))
            case "tool_completed":
                self.found.tools.setdefault(str(event.get("tool_name")), []).append((duration, True))
            case "step_failed":
                self._fault(scope, event, duration)
            case _:
                pass  # an unreadable line

    def _reply(self, scope: str, event: dict[str, Any], duration: float) -> None:
        self._requested.discard(scope)
        model = self._model_of.get(scope, "")
        self.found.models.setdefault(model, []).append((duration, True))
        reply = event.get("response")
        given = reply.get("usage") if is_object(reply) else None
        counts = given if is_object(given) else {}
        usage = Usage(*(int(_number(counts.get(name))) for name in _COUNTS))
        read, written = self.found.tokens.get(model, (0, 0))
        self.found.tokens[model] = read + usage.input_tokens, written + usage.output_tokens
        cost = _number(event.get("cost")) or find_cost(usage, model, self._prices)
        if cost is not None:
            self.found.cost = (self.found.cost or 0.0) + cost

    def _fault(self, scope: str, event: dict[str, Any], duration: float) -> None:
        self.found.faults[str(event.get("error"))] += 1
        if (scope, str(event.get("call_id"))) in self._calls:
            self.found.tools.setdefault(str(event.get("tool_name")), []).append((duration, False))
        elif scope in self._requested:  # no reply; a wrong one was counted when it arrived
            self._requested.discard(scope)
            self.found.models.setdefault(self._model_of.get(scope, ""), []).append((duration, False))


def _number(value: object) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def figures(table: dict[str, Figures], more: Mapping[str, list[tuple[float, bool]]]) -> None:
    """Add the calls of a digest to the totals of all."""
    for name, timed in more.items():
        one = table.setdefault(name, Figures())
        for duration, is_ok in timed:
            one.add(duration, ok=is_ok)
