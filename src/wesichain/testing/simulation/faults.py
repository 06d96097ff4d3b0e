"""Faults: what can go wrong at the boundaries of a run, how often it does, and where it did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import ClassVar, Self

from typing_extensions import override

from wesichain.core.internal import Value
from wesichain.errors import ConfigError

from .loop import draw

# How often a kind of fault is switched on for a seed. Fewer kinds at a time find more: a run that dies in its
# first step shows nothing of what a late answer does in its third.
_ENABLED = 0.45


class Fault(Value):
    """One fault that happened: its kind (a field of `Faults`) and the boundary at which it happened.

    `after` is how many events the run had before.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("after",)

    kind: str
    at: str
    after: int = 0

    @override
    def __str__(self) -> str:
        return f"{_SENTENCES[self.kind]} ({self.at})"


class Faults(Value):
    """How likely each kind of fault is at each of its boundaries, from 0 (never) to 1.

    For every seed some of the kinds are switched on, drawn from the seed. `most_crashes` limits how often the
    process dies in one run. With `only`, exactly these faults happen, where the run comes to them.

    tool_raises:     the tool raises ConnectionError before it has done anything
    tool_hangs:      a tool with a timeout does nothing, and the timeout passes
    tool_late:       a tool with a timeout does its work, but its result comes after it
    tool_twice:      the call is delivered again a little later, with the same idempotency key; never `once`
    node_raises:     a node of a graph raises ConnectionError before it has done anything
    node_hangs:      an async node with a time limit does nothing, and the time passes
    node_late:       an async node with a time limit does its work, but returns when the time has passed
    model_errs:      the provider fails with a transport error
    model_cut:       the reply ends in the middle (finish reason "length")
    model_malformed: the arguments of a call are no JSON, or the answer is empty
    person_late:     the answer comes after the question has expired, or a week later
    person_twice:    the same answer is given a second time
    person_never:    nobody answers
    cancel:          the run is cancelled at an event
    crash:           the process dies at an event or inside a tool, and another resumes from what was stored
    """

    tool_raises: float = 0.15
    tool_hangs: float = 0.10
    tool_late: float = 0.15
    tool_twice: float = 0.20
    node_raises: float = 0.10
    node_hangs: float = 0.08
    node_late: float = 0.10
    model_errs: float = 0.10
    model_cut: float = 0.06
    model_malformed: float = 0.06
    person_late: float = 0.20
    person_twice: float = 0.25
    person_never: float = 0.15
    cancel: float = 0.03
    crash: float = 0.06
    most_crashes: int = 2
    only: tuple[Fault, ...] | None = None

    def __post_init__(self) -> None:
        for name in KINDS:
            rate = getattr(self, name)
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
                raise ConfigError(f"Faults({name}={rate!r}): use a probability from 0 to 1")

    @classmethod
    def none(cls, **rates: float) -> Self:
        """No faults but those with a rate here, such as `Faults.none(crash=0.1)`.

        Without any, only the order of what runs side by side, and how long it takes, differ by seed.
        """
        return cls(**{**dict.fromkeys(KINDS, 0.0), **rates})  # type: ignore[arg-type]  # rates of kinds


# What a report says of a fault that happened.
_SENTENCES = {
    "tool_raises": "the tool raised before it did anything",
    "tool_hangs": "the tool did nothing until its timeout",
    "tool_late": "the tool did its work, and its result came after the timeout",
    "tool_twice": "the call was delivered a second time",
    "node_raises": "the node raised before it did anything",
    "node_hangs": "the node did nothing until its timeout",
    "node_late": "the node did its work, and returned after its timeout",
    "model_errs": "the provider failed",
    "model_cut": "the reply was cut",
    "model_malformed": "the reply was malformed",
    "person_late": "the answer came late",
    "person_twice": "the answer was given twice",
    "person_never": "nobody answered",
    "cancel": "the run was cancelled",
    "crash": "the process died",
}
KINDS = tuple(_SENTENCES)


class FaultPlan:
    """Decides at each boundary of one run whether a fault happens there, and keeps those that did.

    A decision depends on the seed and on the name of its boundary, and on nothing that happened before: so a
    run can be repeated with fewer of its faults, and the others stay where they are.
    """

    def __init__(self, seed: int, faults: Faults, events: Sized = ()) -> None:
        self._events = events  # of the run, so far
        self._seed = seed
        self._faults = faults
        self._only = None if faults.only is None else {(one.kind, one.at) for one in faults.only}
        self._enabled = {kind for kind in KINDS if draw(seed, "enabled", kind) < _ENABLED}
        self._visits: dict[str, int] = {}
        self._limits = {"crash": faults.most_crashes, "cancel": 1}
        self.possible: dict[Fault, None] = {}  # in the order in which the run came to them
        self.happened: list[Fault] = []

    def visit(self, boundary: str) -> str:
        """The name of this visit to a boundary: the second and later ones are numbered."""
        count = self._visits[boundary] = self._visits.get(boundary, 0) + 1
        return boundary if count == 1 else f"{boundary}, time {count}"

    def at(self, place: str, kinds: Sequence[str]) -> str | None:
        """The kind of fault that happens at a place, if any; it is kept."""
        allowed = [kind for kind in kinds if self._limits.get(kind, 1) > 0]
        self.possible.update((Fault(kind, place), None) for kind in allowed)
        kind = self._chosen(place, allowed)
        if kind is not None:
            self.happened.append(Fault(kind, place, len(self._events)))
            if kind in self._limits:
                self._limits[kind] -= 1
        return kind

    def _chosen(self, place: str, kinds: Iterable[str]) -> str | None:
        if self._only is not None:
            return next((kind for kind in kinds if (kind, place) in self._only), None)
        for kind in kinds:
            if kind in self._enabled and draw(self._seed, kind, place) < getattr(self._faults, kind):
                return kind
        return None

    def number(self, *key: object, low: float, high: float) -> float:
        """A number between two others, drawn from the seed and the key; small ones are likelier."""
        share = draw(self._seed, "number", *key)
        return round(low + (high - low) * share * share, 3)
