"""Faults: the kinds of faults at the boundaries of a run, their probabilities, and the faults of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import ClassVar, Self

from typing_extensions import override

from wesichain.core.internal import Value
from wesichain.errors import ConfigError

from .loop import draw

# The probability that a kind of fault is enabled for a seed. Fewer kinds at a time find more: a run that dies
# in its first step does not reach a late answer in its third.
_ENABLED = 0.45


class Fault(Value):
    """One fault that happened: its kind (a field of `Faults`) and the boundary where it happened.

    `after` is the number of events before it.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("after",)

    kind: str
    at: str
    after: int = 0

    @override
    def __str__(self) -> str:
        return f"{_SENTENCES[self.kind]} ({self.at})"


class Faults(Value):
    """The probability of each kind of fault at each of its boundaries, from 0 (never) to 1.

    Each seed enables a random choice of the kinds. `most_crashes` limits the number of crashes of a run. With
    `only`, exactly these faults happen, if the run reaches their boundaries.

    tool_raises:     the tool raises ConnectionError before it does anything
    tool_hangs:      a tool with a timeout does nothing, and the timeout passes
    tool_late:       a tool with a timeout does its work, but its result arrives after the timeout
    tool_twice:      the call is delivered again a little later, with the same idempotency key; never `once`
    node_raises:     a node of a graph raises ConnectionError before it does anything
    node_hangs:      an async node with a time limit does nothing, and the time passes
    node_late:       an async node with a time limit does its work, but returns after the limit
    model_errs:      the provider fails with a transport error
    model_cut:       the reply ends in the middle (finish reason "length")
    model_malformed: the arguments of a call are not JSON, or the answer is empty
    person_late:     the answer arrives after the question has expired, or a week later
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
        """Only the faults with a rate, such as `Faults.none(crash=0.1)`.

        Without any rate, only the order and the duration of concurrent calls depend on the seed.
        """
        return cls(**{**dict.fromkeys(KINDS, 0.0), **rates})  # type: ignore[arg-type]  # rates of kinds


# The descriptions of faults in reports.
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
    """Decides at each boundary of a run whether a fault happens there, and records those that did.

    A decision depends only on the seed and the name of the boundary. A run can therefore be repeated with
    fewer of its faults while the others stay in place.
    """

    def __init__(self, seed: int, faults: Faults, events: Sized = ()) -> None:
        self._events = events  # the events of the run so far
        self._seed = seed
        self._faults = faults
        self._only = None if faults.only is None else {(one.kind, one.at) for one in faults.only}
        self._enabled = {kind for kind in KINDS if draw(seed, "enabled", kind) < _ENABLED}
        self._visits: dict[str, int] = {}
        self._limits = {"crash": faults.most_crashes, "cancel": 1}
        self.possible: dict[Fault, None] = {}  # in the order in which the run reached them
        self.happened: list[Fault] = []

    def visit(self, boundary: str) -> str:
        """Return the name of this visit to a boundary; repeated visits are numbered."""
        count = self._visits[boundary] = self._visits.get(boundary, 0) + 1
        return boundary if count == 1 else f"{boundary}, time {count}"

    def at(self, place: str, kinds: Sequence[str]) -> str | None:
        """Return the kind of fault that happens at a place, if any, and record it."""
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
        """Draw a number from the seed and the key; small numbers are more likely."""
        share = draw(self._seed, "number", *key)
        return round(low + (high - low) * share * share, 3)
