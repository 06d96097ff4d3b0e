"""The start of a recorded run, compared with how an agent would start it now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wesichain.core import Message, Role
from wesichain.core.internal import to_plain
from wesichain.errors import ReplayMismatchError
from wesichain.journal.internal import Begin

from .options import RunOptions

if TYPE_CHECKING:
    from .agent import Agent


def check_start(agent: Agent[Any, Any], first: Begin, options: RunOptions) -> None:
    """Raise a `ReplayMismatchError` if the agent has other instructions or tools than the recorded run.

    Instructions that a function returned, or that the caller passed, are those of the recorded run.
    """
    runtime = agent.runtime if options.model is None else agent.runtime.with_model(options.model)
    _check_tools(first, runtime)
    fixed = agent.fixed_instructions
    if first.instructions or (fixed is None and agent.has_instructions):
        return
    text = fixed if first.advice is None else first.advice.under(fixed)
    actual = runtime.system(text)
    recorded = first.messages[0] if first.messages and first.messages[0].role is Role.SYSTEM else None
    expected = recorded.text if isinstance(recorded, Message) else ""
    if actual != expected and not (recorded is not None and fixed is None and not runtime.system(None)):
        raise ReplayMismatchError(
            f"the instructions of {runtime.name!r} are others than the recorded ones: recorded "
            f"{expected[:200]!r}, now {actual[:200]!r}",
            step_id=1,
            name="begin",
            expected=expected,
            actual=actual,
        )


def _check_tools(first: Begin, runtime: Any) -> None:
    recorded = {spec.name: to_plain(spec) for spec in first.tools}
    present = {spec.name: to_plain(spec) for spec in runtime.offered()}
    for name in sorted(recorded.keys() | present.keys()):
        then, now = recorded.get(name), present.get(name)
        if then != now:
            what = "is gone" if now is None else "is new" if then is None else "has changed"
            raise ReplayMismatchError(
                f"the tool {name!r} {what} since the recording", name="begin", expected=then, actual=now
            )
