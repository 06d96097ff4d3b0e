"""Replay: runs an agent again over the log of a run, which has everything that the run learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from wesichain.core import LlmRequest, LlmResponse
from wesichain.core.internal import LlmTraits, SystemClock, replace
from wesichain.errors import ConfigError, ReplayMismatchError
from wesichain.journal.internal import JournalLog, Left, parse, revived

from .agent import Agent
from .model_names import AnyModel
from .options import RunOptions
from .phases import Outcome
from .run_place import RunPlace
from .run_state import Stopped

if TYPE_CHECKING:
    from wesichain.trace import Recording

OutT = TypeVar("OutT")


async def replay(
    recording: Recording | Any,
    agent: Agent[Any, OutT],
    from_step: int | None = None,
    *,
    deps: Any = None,
    model: AnyModel | None = None,
) -> Outcome[OutT]:
    """Run the agent again over a recorded run, offline, to the recorded outcome.

    `recording` is a recording, an outcome, or anything that has a `log`. Whatever the agent does differently
    (another prompt, another tool, another answer) is a `ReplayMismatchError` at the first difference. No
    model is called and no tool is run. With `from_step`, the steps before it are taken from the recording,
    and the run goes on live from there, as a run of its own.

    `deps` are for functions that are called again. `model` replaces the agent's model: a run that had another
    one is replayed with that.
    """
    source: Any = getattr(recording, "info", recording)
    recorded = getattr(source, "log", None)
    if not isinstance(recorded, JournalLog):
        raise ConfigError(f"{recording!r:.200} is not a recording; read one with wesichain.trace.load(path)")
    first = recorded.begin_of("")
    if first is None:
        raise ReplayMismatchError(f"the recording of {recorded.run_id!r} has no beginning")
    if from_step is not None:
        return await _continued(recorded, agent, from_step, deps, model)
    log = recorded.copy(SystemClock())
    log.reopened()
    log.replay(_refusal(recorded))
    options = RunOptions(deps=deps, model=model or _recorded_model(log, agent), place=RunPlace(log))
    agent.check_recorded(first, options)
    return await agent.runtime.open_with(first.task, (), options).run_to_end()


async def _continued(
    recorded: JournalLog, agent: Agent[Any, OutT], step: int, deps: Any, model: AnyModel | None
) -> Outcome[OutT]:
    """The outcome of a run that takes the steps before `step` from a recording, and goes on live."""
    until = _start_of(recorded, step)
    if until is None:
        raise ReplayMismatchError(
            f"the recording of {recorded.run_id!r} has no step {step}; it can be continued from an earlier one",
            step_id=step,
        )
    log = recorded.copy(SystemClock(), until=until)
    log.reopened()
    log.strict = True
    options = RunOptions(deps=deps, model=model, place=RunPlace(log))
    first = recorded.begin_of("")
    assert first is not None, "it was checked"
    return await agent.runtime.open_with(first.task, (), options).run_to_end()


class _RecordedModel:
    """A stand-in for a model of which the log has the name: it has a price and cannot be called."""

    def __init__(self, model: str, traits: LlmTraits) -> None:
        self.model = model
        self.traits = traits

    async def complete(self, request: LlmRequest) -> LlmResponse:
        raise ConfigError(f"only the name of {request.model!r} is recorded; pass model= to call it")


def _recorded_model(log: JournalLog, agent: Agent[Any, Any]) -> _RecordedModel | None:
    """A stand-in for the model that a run was given; None if it was that of the agent."""
    first, given = log.begin_of(""), RunPlace(log).options.model
    if first is None or not given:
        return None
    runtime = agent.runtime
    has_final = any(
        spec.name.startswith("final_") and spec.name not in runtime.registry for spec in first.tools
    )
    traits = replace(runtime.traits, native_output=not has_final, output_with_tools=True)
    return _RecordedModel(first.model if given == first.own_model else given, traits)


def _start_of(log: JournalLog, step: int) -> int | None:
    """The number of the first record of a step of the outermost run."""
    for number, record in enumerate(log.records):
        if record[0].__class__ is not str:
            if not record[1] and record[2] >= step:
                return number
            continue
        name = parse(record[0])
        if not name.place and name.kind in ("view", "offer", "limit", "ask") and name.step >= step:
            return number
    return None


def _refusal(recorded: JournalLog) -> Any:
    """What an act raises that the recording does not have."""
    last = recorded.records[-1][0] if recorded.records else ""
    is_whole = recorded.has("end")
    left = recorded.body(len(recorded.records) - 1) if str(last).startswith("left ") else None

    def refusal(name: str) -> BaseException:
        found = parse(name)
        number = recorded.number_of(f"{found.place}end")
        end = None if number is None else recorded.body(number)
        if end is not None and end.fault is not None and found.kind != "end":
            return revived(end.fault)  # what raised it here is no entry
        if is_whole:
            step = found.step
            return ReplayMismatchError(
                f"the recording has no {name!r}: it ends otherwise, and the program now takes more steps",
                step_id=step,
                name=name,
            )
        reason = left.reason if isinstance(left, Left) else "the recording ends here"
        return Stopped(reason)

    return refusal
