"""A match that forgets a phase, a step or a decision is an error."""

from typing import assert_never

from wesichain.agent import Acting, Completed, Failed, Idle, Interrupted, Observing, Outcome, Phase, Thinking
from wesichain.core import Action, FinalAnswer, Observation, ReActStep, Thought
from wesichain.policy import Fail, Interrupt, PolicyDecision, Retry


def outcome(end: Outcome[str]) -> str:
    match end:
        case Completed():
            return "completed"
        case Failed():
            return "failed"
        case _:
            assert_never(end)  # error


def phase(now: Phase[str]) -> str:
    match now:
        case Idle() | Thinking() | Acting():
            return "active"
        case Completed() | Failed() | Interrupted():
            return "over"
        case _:
            assert_never(now)  # error


def step(one: ReActStep) -> str:
    match one:
        case Thought() | Action() | Observation() | FinalAnswer():
            return "fine"
        case _:
            assert_never(one)  # error


def decision(one: PolicyDecision) -> str:
    match one:
        case Fail() | Retry() | Interrupt():
            return "fine"
        case _:
            assert_never(one)  # error


print(Observing)
