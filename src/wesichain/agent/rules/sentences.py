"""The texts that the runtime itself sends to a model. Recordings have them: a replay compares them."""

from __future__ import annotations

from collections.abc import Iterable

from wesichain.core import ToolSpec
from wesichain.core.internal import dump_json

MAX_TEXT = 4_000


def tool_error(message: str) -> str:
    return f"[TOOL ERROR] {_bounded(message)}"


def invalid_call(message: str) -> str:
    return f"[INVALID CALL] {_bounded(message)}"


def refused(reason: str) -> str:
    why = f": {_bounded(reason)}" if reason else ""
    return f"[REFUSED] The call was not approved{why}. Do not ask for it again; find another way or answer."


def not_run(reason: str) -> str:
    return f"[NOT RUN] {_bounded(reason)}"


def outcome_unknown(tool_name: str) -> str:
    return (
        f"[OUTCOME UNKNOWN] {tool_name!r} was cut off while it ran. It may have taken effect or not, and is "
        f"not run again by itself: find out before you call it again."
    )


def background_result(tool_name: str, text: str) -> str:
    return f"[RESULT] of {tool_name!r}, which you started before: {text}"


def excluded(tool_name: str, failures: int, others: Iterable[str]) -> str:
    rest = ", ".join(others) or "none; answer with what you know"
    return f" Tool {tool_name!r} has failed {failures} times and is no longer available. Other tools: {rest}."


def repeated(tool_name: str, times: int) -> str:
    return (
        f"[NOTE] You have called {tool_name!r} with the same arguments {times} times in a row and got "
        f"the same result each time. Use what you have, try other arguments or another tool, or give the "
        f"final answer."
    )


def catalog(tools: Iterable[ToolSpec]) -> str:
    """The list of the tools, for a model that called an unknown one."""
    lines = [f"- {spec.name}: {spec.description} Arguments: {dump_json(spec.parameters)}" for spec in tools]
    return "\nThe tools are:\n" + "\n".join(lines) if lines else "\nThere are no tools: answer in plain text."


CUT = "the run ended before this call did"
BESIDE_ANSWER = "the final answer beside this call was wrong; call it again if it is still needed"
ONE_TRANSFER = "a run is handed over once, and the first such call of this reply has done it"
UNKNOWN_BEFORE = "the outcome of the same call is unknown: it may have had its effect, or not"
BACKGROUND = "it has been started, and its result will come in a message; go on meanwhile"
ANSWERED = "this was the answer so far"
WAITS = "a run inside this call waits"

OUT_OF_STEPS = (
    "You have no steps left and can call no more tools. "
    "Give your best final answer now, with what you have found so far."
)


def _bounded(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ... [cut: {len(text)} characters]"
