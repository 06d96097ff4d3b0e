"""The requests of code mode are smaller than those of plain calling, on every task of 20 calls."""

from __future__ import annotations

import pytest
from bench.code_mode import CALLS, TASKS, Task, costs_of

from tests.draws import sampled


@pytest.mark.sampled
@pytest.mark.parametrize("task", sampled(TASKS, 2), ids=lambda task: task.name)
async def test_a_task_costs_fewer_tokens_as_a_program(task: Task) -> None:
    costs = await costs_of(task)
    plain, parallel, code = costs["one call a reply"], costs["parallel calls"], costs["code mode"]
    assert plain.calls == parallel.calls == code.calls - 1 >= CALLS, "the same calls, and the program itself"
    assert code.requests == 2
    assert code.tokens * 10 < plain.tokens
    assert code.tokens < parallel.tokens
