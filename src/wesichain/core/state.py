"""State: the fields that a ReAct run reads from a user's state object and writes back to it.

The state may be a `ReActState`; a class of the user's own with the attributes of the protocols
below (dataclass, pydantic model or plain object); a plain dict with the keys `input`,
`agent_scratchpad`, `final_output` and `iteration_count`, where missing keys are initialised.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any, Protocol, TypeVar, cast, get_args, runtime_checkable

from wesichain.errors import ConfigError

from .scratchpad import ReActStep

S = TypeVar("S")
_STEPS = get_args(ReActStep)


@runtime_checkable
class HasUserInput(Protocol):
    """A state with the task."""

    @property
    def user_input(self) -> str: ...


@runtime_checkable
class HasFinalOutput(Protocol):
    """A state with the answer, which is None until there is one."""

    @property
    def final_output(self) -> str | None: ...


@runtime_checkable
class ScratchpadState(Protocol):
    """A state with the steps so far and the number of model calls."""

    @property
    def scratchpad(self) -> Sequence[ReActStep]: ...

    @property
    def iteration_count(self) -> int: ...


@dataclass(slots=True)
class ReActState:
    """A ready-made state for ReAct runs."""

    user_input: str
    scratchpad: list[ReActStep] = field(default_factory=list)
    final_output: str | None = None
    iteration_count: int = 0
    stopped_by: str | None = None  # the limit that ended the run with this output, if one did


_DICT_KEYS = {
    "user_input": "input",
    "scratchpad": "agent_scratchpad",
    "final_output": "final_output",
    "iteration_count": "iteration_count",
}


def read_state(state: object) -> ReActState:
    """Read the ReAct fields of a state into a copy."""
    found: dict[str, Any]
    if isinstance(state, Mapping):
        given = cast("Mapping[str, Any]", state)
        if "input" not in given:
            keys = ", ".join(given) or "none"
            raise ConfigError(
                f"a dict state needs the key 'input'; the keys here: {keys}; a task may also be a text, with "
                f"earlier messages in history="
            )
        found = {name: given[key] for name, key in _DICT_KEYS.items() if key in given}
    elif isinstance(state, HasUserInput):
        found = {name: getattr(state, name) for name in _DICT_KEYS if hasattr(state, name)}
    else:
        raise ConfigError(
            f"{type(state).__name__} has no attribute 'user_input'; use a text, ReActState, a dict with the "
            f"key 'input', or add user_input, scratchpad, final_output and iteration_count to your class"
        )
    read = ReActState(
        user_input=found["user_input"],
        scratchpad=found.get("scratchpad") or [],
        final_output=found.get("final_output"),
        iteration_count=found.get("iteration_count") or 0,
    )
    _check(read, _DICT_KEYS if isinstance(state, Mapping) else {})
    return replace(read, scratchpad=list(read.scratchpad))


def _check(read: Any, names: Mapping[str, str]) -> None:
    """Check the types of a state that a user passed."""
    steps = read.scratchpad
    for name, is_right, expected in (
        ("user_input", isinstance(read.user_input, str), "text"),
        ("iteration_count", isinstance(read.iteration_count, int), "a whole number"),
        (
            "scratchpad",
            isinstance(steps, Sequence) and all(isinstance(step, _STEPS) for step in cast("Any", steps)),
            "a list of steps (Thought, Action, Observation, FinalAnswer, ErrorStep)",
        ),
    ):
        if not is_right:
            given = type(getattr(read, name)).__name__
            raise ConfigError(f"the state's {names.get(name, name)!r} should be {expected}, not {given}")


def state_update(state: object, result: ReActState) -> dict[str, Any]:
    """The fields of `result` that the state has, under the state's names."""
    values = {
        "scratchpad": list(result.scratchpad),
        "final_output": result.final_output,
        "iteration_count": result.iteration_count,
        "stopped_by": result.stopped_by,
    }
    if isinstance(state, Mapping):
        if result.stopped_by is None and "stopped_by" not in state:
            del values["stopped_by"]
        return {_DICT_KEYS.get(name, name): value for name, value in values.items()}
    return {name: value for name, value in values.items() if hasattr(state, name)}


def write_state(state: S, result: ReActState) -> S:
    """A copy of the state with the result in it."""
    update = state_update(state, result)
    target: Any = state
    if isinstance(state, Mapping):
        target = {**target, **update}
    elif hasattr(target, "model_copy"):
        target = target.model_copy(update=update)  # pydantic, without importing it
    elif is_dataclass(state) and not isinstance(state, type):
        target = replace(target, **update)
    else:
        target = copy.copy(state)
        for name, value in update.items():
            setattr(target, name, value)
    return cast("S", target)
