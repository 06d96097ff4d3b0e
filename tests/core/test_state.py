"""States: a ReAct run fits into any of them, and gives the same kind back."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from wesichain.core import (
    FinalAnswer,
    HasFinalOutput,
    HasUserInput,
    ReActState,
    ReActStep,
    ScratchpadState,
    Thought,
)
from wesichain.core.internal import read_state, write_state
from wesichain.errors import ConfigError


@dataclass(frozen=True)
class Own:
    user_input: str
    scratchpad: tuple[ReActStep, ...] = ()
    final_output: str | None = None
    iteration_count: int = 0
    other: list[str] = field(default_factory=list)


@dataclass
class OnlyInput:
    user_input: str


class Model(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    user_input: str
    scratchpad: list[Any] = []
    final_output: str | None = None
    iteration_count: int = 0


RESULT = ReActState("q", [Thought("t"), FinalAnswer("a")], "a", 2)


@pytest.mark.parametrize(
    "state",
    [
        pytest.param(ReActState("q"), id="ready-made"),
        pytest.param(Own("q", other=["kept"]), id="a-frozen-dataclass"),
        pytest.param(Model(user_input="q"), id="a-pydantic-model"),
        pytest.param(SimpleNamespace(user_input="q", scratchpad=[], final_output=None, iteration_count=0), id="a-plain-object"),
        pytest.param({"input": "q", "extra": 1}, id="a-dict-without-the-other-keys"),
        pytest.param(OnlyInput("q"), id="a-class-with-room-for-the-input-alone"),
    ],
)  # fmt: skip
def test_a_result_goes_in_and_the_state_given_is_untouched(state: Any) -> None:
    before = read_state(state)
    changed = write_state(state, RESULT)
    assert type(changed) is type(state)
    assert read_state(state) == before
    if not isinstance(state, OnlyInput):
        assert read_state(changed) == RESULT


def test_a_dict_keeps_its_other_keys() -> None:
    assert write_state({"input": "q", "extra": 1}, RESULT) == {
        "input": "q",
        "extra": 1,
        "agent_scratchpad": RESULT.scratchpad,
        "final_output": "a",
        "iteration_count": 2,
    }


def test_the_protocols_fit_the_ready_made_state() -> None:
    state = ReActState("q")
    assert isinstance(state, HasUserInput)
    assert isinstance(state, HasFinalOutput)
    assert isinstance(state, ScratchpadState)


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        pytest.param({"question": "q"}, "needs the key 'input'", id="a-dict-without-input"),
        pytest.param(object(), "no attribute 'user_input'", id="a-foreign-object"),
        pytest.param(5, "no attribute 'user_input'", id="a-number"),
        pytest.param({"input": None}, "'input' should be text, not NoneType", id="no-question"),
        pytest.param(ReActState(5), "'user_input' should be text, not int", id="a-number-for-a-question"),  # type: ignore[arg-type]
        pytest.param({"input": "q", "iteration_count": "3"}, "'iteration_count' should be a", id="a-text-for-a-count"),
        pytest.param({"input": "q", "agent_scratchpad": [{"kind": "thought"}]}, "a list of steps", id="steps-as-dicts"),
        pytest.param({"input": "q", "agent_scratchpad": "hm"}, "a list of steps", id="a-text-for-a-scratchpad"),
    ],
)  # fmt: skip
def test_a_state_without_a_question_is_refused(state: object, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        read_state(state)
