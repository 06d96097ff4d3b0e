"""Cases: tasks with expectations, from a JSON Lines file or from a recording."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from wesichain.core import JsonValue, RunCompleted
from wesichain.core.internal import Value, from_plain, is_object
from wesichain.errors import CodecError, ConfigError
from wesichain.store import read_json_lines
from wesichain.trace import Recording


class Case(Value, omit_defaults=True):
    """A task and the expectations for a run of it. Omitted expectations are not checked.

    `expected` is the answer (the comparison of texts ignores case, spaces and a final full stop). `contains`
    and `excludes` are texts that the answer must and must not contain. `tools` have to be called in this
    order; other calls may come between them. `rubric` is the rule for a judge.
    """

    id: str
    task: str
    expected: JsonValue = None
    contains: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    max_steps: int | None = None
    rubric: str = ""
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.id or not self.task.strip():
            raise ValueError("a case needs an id and a task")
        if self.max_steps is not None and self.max_steps < 1:
            raise ValueError(f"max_steps is at least 1, got {self.max_steps}")


def read_cases(path: Path) -> tuple[Case, ...]:
    """Read the cases of a file, one JSON object per line. The default id is the number of the line."""
    cases = tuple(_case(plain, path, number) for number, plain in read_json_lines(path))
    if not cases:
        raise ConfigError(
            f'{path} has no cases; write one line per case: {{"task": TEXT, "expected": ANSWER}}'
        )
    twice = [name for name, times in Counter(case.id for case in cases).items() if times > 1]
    if twice:
        raise ConfigError(f"{path}: the id {twice[0]!r} is given twice; each case needs one of its own")
    return cases


def case_of(recording: Recording) -> Case:
    """Make a case from a completed run: its task, its answer, and the tools that it called, each once."""
    end = recording.end
    if not isinstance(end, RunCompleted) or recording.start is None:
        raise ConfigError(f"run {recording.run_id} has not completed; a case needs an answer")
    tools = dict.fromkeys(
        call.call.name for step in recording.steps if not step.scope for call in step.calls if call.ok
    )
    return Case(recording.run_id, recording.start.user_input, expected=end.output, tools=tuple(tools))


def _case(plain: Any, path: Path, number: int) -> Case:
    try:
        return from_plain(Case, {"id": str(number), **plain} if is_object(plain) else plain)
    except (CodecError, ValueError) as error:
        raise ConfigError(f"{path}, line {number}: {error}") from error
