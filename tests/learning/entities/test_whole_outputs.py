"""What a run of each kind is to a learner, as a whole: the outputs of runs whose logs the agent's tests keep.

They are in `whole_outputs.txt` (see `tests/expected.py`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests import expected
from tests.agent.test_whole_logs import KINDS, run
from wesichain.core import RunInterrupted, to_json
from wesichain.learning import TaskOutput
from wesichain.trace import Recording

OUTPUTS = Path(__file__).parent / "whole_outputs.txt"
RUNS = (
    "an-answer", "two-calls-in-order", "calls-at-once", "tools-that-fail", "bad-calls-in-one-reply",
    "arguments-that-are-text", "replies-that-are-none", "ids-that-are-taken", "a-loop", "advice", "approvals",
    "an-agent-inside", "an-answer-by-a-schema", "a-tool-of-json", "tools-that-change", "a-provider-that-fails",
    "a-provider-that-refuses", "out-of-steps-fail", "out-of-steps-partial", "out-of-tokens-fail", "a-policy-that-stops",
)  # fmt: skip
HANDED = ("desk", "sums", "nobody", None)


def line(name: str, run: object, **more: Any) -> str:
    try:
        plain = json.loads(to_json(TaskOutput.of(run, **more)))
    except ValueError as error:
        return f"{name}: {error}"
    plain["metadata"]["specs"] = [spec["name"] for spec in plain["metadata"]["specs"]]
    for step in plain["structured_trace"]:
        for call in step.get("invocations", ()):
            call.pop("duration_ms", None)  # as it took
    return f"{name}: {json.dumps(plain, ensure_ascii=False)}"


async def lines() -> list[str]:
    found = []
    for name in RUNS:
        _, events, _ = await run(KINDS[name])
        found.append(line(name, Recording("r", tuple(events))))
        if name == "approvals":
            waiting = next(at for at, event in enumerate(events, 1) if isinstance(event, RunInterrupted))
            found.append(line("approvals, waiting", Recording("r", tuple(events[:waiting]))))
    _, events, outcome = await run(KINDS["a-hand-off"])
    found += [line(f"a-hand-off, {agent}", outcome, agent=agent) for agent in HANDED]
    return [*found, line("a-hand-off, begun", Recording("r", tuple(events[:1])), task_id="t")]


async def test_a_run_of_each_kind_is_to_a_learner_what_it_was() -> None:
    expected.check(OUTPUTS, await lines())
