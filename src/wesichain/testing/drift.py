"""Drift: where an agent first differs from each recording, without calling a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from wesichain.agent import Agent, Outcome, replay
from wesichain.core import JsonValue
from wesichain.core.internal import Value, is_object, replace
from wesichain.errors import CodecError, ConfigError, ReplayMismatchError, WesichainError
from wesichain.evals import Case, Check, Comparison, Judge, case_of, compare, evaluate
from wesichain.trace import Recording, load

from .cassettes import is_cassette, read_cassette
from .models import ScriptedLlm


class Drift(Value):
    """The first difference between an agent and a recording: what differs, the step, and a message.

    `what` is "" (no difference), "tool schema", "instructions", "request", or "replay" if the run cannot be
    replayed at all.
    """

    __aside__: ClassVar[tuple[str, ...]] = ("recording",)

    path: str
    run_id: str
    what: str = ""
    step: int = 0
    message: str = ""
    recording: Recording | None = None

    def to_plain(self) -> dict[str, JsonValue]:
        """Return the drift as plain data, as `wesichain drift --json` prints it."""
        return {
            "path": self.path,
            "run_id": self.run_id,
            "differs": bool(self.what),
            "what": self.what,
            "step": self.step,
            "message": self.message,
        }


def read_runs(folder: Path) -> Iterator[tuple[str, Recording]]:
    """Yield the runs of all recordings and cassettes in a folder, with the paths of their files."""
    paths = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else [folder]
    for path in paths:
        try:
            runs = read_cassette(path) if is_cassette(path) else (load(path),)
        except CodecError:
            continue  # another JSON Lines file: results, cases
        except OSError as error:
            raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
        yield from ((str(path), run) for run in runs)


async def drift_of(agent: Agent[Any, Any], path: str, recording: Recording) -> Drift:
    """Find the first difference between an agent and a recording, without a model call or a tool call."""
    found = Drift(path, recording.run_id, recording=recording)
    try:
        await replay(recording, agent)
    except ReplayMismatchError as error:
        return replace(found, what=_what(error), step=error.step_id, message=str(error))
    except WesichainError as error:
        return replace(found, what="replay", message=f"{type(error).__name__}: {error}")
    return found


def _what(error: ReplayMismatchError) -> str:
    if str(error).startswith("the tool"):
        return "tool schema"
    values: tuple[Any, ...] = (error.expected, error.actual)
    roles = {one.get("role") for one in values if is_object(one)}
    return "instructions" if "system" in roles or "instructions" in str(error) else "request"


# --- live --------------------------------------------------------------------------------------------------


async def compare_drift(
    agent: Agent[Any, Any],
    drifts: Sequence[Drift],
    *,
    cases: Iterable[Case] = (),
    checks: Sequence[Check] = (),
    judge: Judge | None = None,
    deps: Any = None,
) -> Comparison | None:
    """Run the tasks that differ with the real model and tools, and compare the scores with the recordings.

    Each run is replayed up to its first difference and continues live. The case with the same task has the
    expected answer; without one, the recorded answer is expected. `deps` are those of the live runs, as for
    `evaluate`. None if there is nothing to compare.
    """
    known = {case.task: case for case in cases}
    pairs: list[tuple[Case, Drift]] = []
    for number, drift in enumerate(drifts):
        recording = drift.recording
        if recording is None or not drift.what or recording.status != "completed":
            continue
        case = known.get(recording.user_input) or replace(case_of(recording), tools=())
        pairs.append((replace(case, id=f"{case.id}-{number}"), drift))
    if not pairs:
        return None
    chosen = [case for case, _ in pairs]
    recorded: Any = _InOrder(partial(_recorded_outcome, drift) for _, drift in pairs)
    live: Any = _InOrder(partial(_live_outcome, agent, drift) for _, drift in pairs)
    before = await evaluate(
        recorded, [replace(case, tools=()) for case in chosen], checks=checks, judge=judge, at_once=1
    )
    after = await evaluate(live, chosen, checks=checks, judge=judge, at_once=1, deps=deps)
    return compare(before.results, after.results)


class _InOrder:
    """Replaces the agent in an evaluation: returns the next outcome for each task."""

    def __init__(self, outcomes: Iterable[Callable[..., Awaitable[Outcome[Any]]]]) -> None:
        self._outcomes = iter(outcomes)

    async def outcome(self, task: Any, **options: Any) -> Outcome[Any]:
        return await next(self._outcomes)(task, **options)


async def _recorded_outcome(drift: Drift, task: Any, **_: Any) -> Outcome[Any]:
    """The recorded answer, as the outcome of a run."""
    output: Any = None if drift.recording is None else drift.recording.output
    return await Agent(ScriptedLlm([output if isinstance(output, str) else str(output)])).outcome(task)


async def _live_outcome(agent: Agent[Any, Any], drift: Drift, task: Any, **options: Any) -> Outcome[Any]:
    """The outcome of a run that continues live after the first difference."""
    if drift.recording is not None and drift.what == "request" and drift.step > 1:
        try:
            return await replay(drift.recording, agent, from_step=drift.step, deps=options.get("deps"))
        except ReplayMismatchError:
            pass  # it also differs before that step: run it from the start
    return await agent.outcome(task, **options)


# --- the report ------------------------------------------------------------------------------------------


def drift_report(drifts: Sequence[Drift], comparison: Comparison | None = None) -> str:
    """Return a report in Markdown, for a pull request."""
    differing = [one for one in drifts if one.what]
    lines = [f"### Agent drift: {len(differing)} of {len(drifts)} runs differ", ""]
    if differing:
        lines += ["| recording | step | differs | how |", "|---|---|---|---|"]
        lines += [
            f"| {Path(one.path).name} | {one.step} | {one.what} | {_cell(one.message)} |" for one in differing
        ]
    if comparison is not None:
        lines += ["", _compared(comparison)]
    return "\n".join(lines) + "\n"


def _compared(one: Comparison) -> str:
    return (
        f"Run live, {one.after:.0%} of {one.cases} cases pass, and {one.before:.0%} did before: a difference "
        f"of {one.difference:+.0%} (95 % interval {one.low:+.0%} to {one.high:+.0%})."
    )


def _cell(text: str) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    return flat if len(flat) <= 200 else f"{flat[:197]}..."
