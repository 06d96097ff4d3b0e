"""Reports: the violations that a simulation found, and tests that reproduce them."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from wesichain.core import Event, JsonValue
from wesichain.core.internal import NodeFailed, Value, field, replace
from wesichain.errors import ConfigError
from wesichain.trace import Recorder, Recording, find_run

from .faults import Fault, Faults
from .scenario import Invariant, Scenario

_FAULT = "simulated fault"  # the name of a fault on the timeline of a recording


class Violation(Value):
    """An invariant that did not hold, with a seed and the fewest faults that reproduce it.

    `invariant` is the name of the function, `error` the exception that it raised, and `count` the number of
    seeds that broke it. `recording` is the run with only these faults.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("scenario", "functions")

    seed: int
    invariant: str
    error: BaseException
    faults: tuple[Fault, ...]
    recording: Recording
    count: int = 1
    scenario: Scenario | None = None
    functions: tuple[Invariant, ...] = ()

    @property
    def message(self) -> str:
        """The error in one line; for an assertion without a message, its source line."""
        text = str(self.error).strip().partition("\n")[0]
        frames = traceback.extract_tb(self.error.__traceback__)
        if not text and frames:
            text = frames[-1].line or ""
        return f"{type(self.error).__name__}: {text}" if text else type(self.error).__name__

    @override
    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {self.invariant}: {self.message}"]
        lines += [f"  - {fault}" for fault in self.faults] or ["  - without any fault"]
        return "\n".join(lines)

    def to_plain(self) -> dict[str, JsonValue]:
        """Return the violation as plain data, as `wesichain simulate --json` prints it."""
        return {
            "seed": self.seed,
            "invariant": self.invariant,
            "error": self.message,
            "count": self.count,
            "faults": [{"kind": one.kind, "at": one.at} for one in self.faults],
        }

    def save(self, folder: str | PathLike[str]) -> Path:
        """Write the recording into a folder, which the viewer can open; return its path.

        The faults are on its timeline, each as a failed node with the name "simulated fault".
        """
        with Recorder(folder) as recorder:
            for seq, event in enumerate(self._with_faults(), start=1):
                recorder.emit(replace(event, seq=seq))
        return find_run(folder, self.recording.run_id)

    def _with_faults(self) -> Iterator[Event]:
        """Yield the events of the run with the faults between them."""
        events = self.recording.events
        for place, event in enumerate(events):
            if place:
                yield from self._faults_before(place, events[place - 1])
            yield event
        yield from self._faults_before(len(events), events[-1])

    def _faults_before(self, place: int, last: Event) -> Iterator[Event]:
        for fault in self.faults:
            if max(1, fault.after) == place:
                about = {"node": _FAULT, "error": fault.kind, "message": str(fault)}
                yield NodeFailed(last.run_id, last.step_id, last.seq, last.at, **about)

    def test(self) -> str:
        """Return the source of a pytest test that fails as long as the violation can be reproduced.

        The scenario, and the invariants that were passed to `simulate`, have to be top-level names of a
        module; otherwise this raises a `ConfigError`.
        """
        module, name = _place_of(self.scenario)
        own = [] if self.scenario is None else [*self.scenario.invariants]
        extra = [_function(one) for one in self.functions if one not in own]
        imports = sorted(
            {f"from {module} import {name}", *(f"from {where} import {what}" for where, what in extra)}
        )
        given = ", ".join(what for _, what in extra)
        invariants = f", invariants=[{given}]" if given else ""
        lines = [f"        Fault({one.kind!r}, {one.at!r})," for one in self.faults]
        only = "(\n" + "\n".join(lines) + "\n    )" if lines else "()"
        slug = re.sub(r"\W+", "_", self.invariant).strip("_").lower() or "invariant"
        names = "Fault, Faults, simulate_sync" if lines else "Faults, simulate_sync"
        return "\n".join(
            [
                f"from wesichain.testing import {names}",
                "",
                *imports,
                "",
                "",
                f"def test_{slug}_with_seed_{self.seed}() -> None:",
                f'    """{_in_docstring(self)}"""',
                f"    faults = Faults(only={only})",
                f"    report = simulate_sync({name}, seeds=[{self.seed}], faults=faults{invariants})",
                "    assert not report.violations, str(report)",
                "",
            ]
        )


def _in_docstring(violation: Violation) -> str:
    text = f"{violation.invariant}: {violation.message}".replace("\\", "\\\\").replace('"""', "'''")
    return f"{text:.90}".rstrip('"') + ("" if text.endswith(".") else ".")


def _place_of(scenario: Scenario | None) -> tuple[str, str]:
    for module_name, module in [*sys.modules.items()]:
        for name, value in [*vars(module).items()] if hasattr(module, "__dict__") else ():
            if value is scenario and scenario is not None:
                return _importable(module_name, name), name
    raise ConfigError(
        "the scenario is not in a module: write 'scenario = Scenario(...)' at the top level of a file"
    )


def _function(invariant: Invariant) -> tuple[str, str]:
    function: Any = invariant
    name: str = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", "")
    if not name or "<" in name or "." in name:
        raise ConfigError(
            f"the invariant {name or invariant!r} cannot be imported: define it with 'def' in a module"
        )
    return _importable(module, name), name


def _importable(module: str, name: str) -> str:
    if module != "__main__":
        return module.removeprefix("wesichain_user_")
    file = getattr(sys.modules["__main__"], "__file__", None)
    if not file:
        raise ConfigError(f"{name!r} was defined in an interactive session; put it into a module")
    return Path(file).stem


class Report(Value):
    """The result of a simulation: the number of runs (one per seed), and the violations."""

    __aside__: ClassVar[tuple[str, ...]] = ("faults",)

    runs: int
    violations: tuple[Violation, ...] = ()
    faults: Faults = field(default_factory=Faults)

    @property
    def ok(self) -> bool:
        return not self.violations

    @override
    def __str__(self) -> str:
        if not self.violations:
            return f"{self.runs} runs, no violation"
        head = f"{self.runs} runs, {len(self.violations)} violated"
        return "\n".join([head, *map(str, self.violations)])

    def to_plain(self) -> dict[str, JsonValue]:
        """Return the report as plain data, as `wesichain simulate --json` prints it."""
        return {"runs": self.runs, "violations": [one.to_plain() for one in self.violations]}


def name_of(invariant: Invariant) -> str:
    """The name of an invariant in reports."""
    function: Any = invariant
    name: Any = getattr(function, "__name__", None)
    return str(name or type(function).__name__)
