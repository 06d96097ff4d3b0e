"""Every illegal transition is an error to both type checkers: the lines marked, and no other."""

from wesichain.agent import Acting, Completed, Failed, Idle, Interrupted, Observing, Thinking
from wesichain.core import LlmResponse
from wesichain.errors import AgentError
from wesichain.policy import Spent

reply = LlmResponse("x")
spent = Spent()


def from_idle(phase: Idle[str]) -> None:
    phase.act(reply)  # error
    phase.complete("x", text="x", spent=spent)  # error
    phase.observe([])  # error


def from_thinking(phase: Thinking[str]) -> None:
    phase.think()  # error
    phase.observe([])  # error


def from_acting(phase: Acting[str]) -> None:
    phase.think()  # error
    phase.act(reply)  # error
    phase.complete("x", text="x", spent=spent)  # error


def from_observing(phase: Observing[str]) -> None:
    phase.act(reply)  # error
    phase.complete("x", text="x", spent=spent)  # error
    phase.observe([])  # error


def from_completed(phase: Completed[str]) -> None:
    phase.think()  # error
    phase.act(reply)  # error
    phase.complete("x", text="x", spent=spent)  # error
    phase.observe([])  # error
    phase.fail(AgentError("x"), spent=spent)  # error


def from_failed(phase: Failed[str]) -> None:
    phase.think()  # error
    phase.interrupt("x", spent=spent)  # error


def from_interrupted(phase: Interrupted[str]) -> None:
    phase.think()  # error
    phase.fail(AgentError("x"), spent=spent)  # error


def changed(phase: Thinking[str]) -> None:
    phase.info = phase.info  # error
