"""What a beginner prints, and a mistake that a beginner makes: an answer, and an error that says what to do."""

from __future__ import annotations

from typing import Any

import pytest

from wesichain import Agent
from wesichain.core import LlmRequest, LlmResponse
from wesichain.errors import ConfigError
from wesichain.testing import ScriptedLlm


def test_a_result_prints_as_its_answer_and_its_repr_is_short() -> None:
    result = Agent(ScriptedLlm(["hello " * 100])).run_sync("greet me")
    assert str(result) == result.output
    assert repr(result).startswith("RunResult(output='hello hello")
    assert repr(result).endswith(f"..., steps=1, tokens=0, run_id={result.outcome.run_id!r})")
    assert len(repr(result)) < 250


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_is_not_async_is_named(stream: bool) -> None:
    class Mine:
        model = "mine"

        def complete(self, request: LlmRequest) -> LlmResponse:
            return LlmResponse("hi")

    model: Any = Mine()
    with pytest.raises(ConfigError, match=r"complete.. of the model Mine .* write 'async def complete"):
        Agent(model).run_sync("x", stream=stream)
