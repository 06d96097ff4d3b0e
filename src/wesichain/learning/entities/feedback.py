"""Feedback: signals about the outcome of a run, the most reliable first."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, cast

from wesichain.core.internal import Value

from .tasks import TaskOutput
from .wording import one_line

Outcome: TypeAlias = Literal["success", "failure", "unknown"]
Signal: TypeAlias = Literal["label", "tests", "execution", "self_check", "run", "none"]


class Feedback(Value):
    """True, False or None for each signal; the first that is not None decides.

    `answer` is an expected answer to compare with (a label). `why` says in words what was wrong or right.
    With `by="owner"` (the person responsible for the agent) the sentence becomes a lesson and is shown to
    later runs verbatim. Otherwise only the reflector reads it, and it is never shown.
    """

    label: bool | None = None
    tests: bool | None = None
    execution: bool | None = None
    self_check: bool | None = None
    answer: str | None = None
    why: str = ""
    by: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(cast("object", self.why), str):
            raise ValueError(f"why says in words what was wrong; got {self.why!r}")  # noqa: TRY004  # as every other
        if not isinstance(cast("object", self.by), str | None):
            raise ValueError(f"by names who gives the feedback, such as 'owner'; got {self.by!r}")  # noqa: TRY004  # as every other
        for name in ("label", "tests", "execution", "self_check"):
            if getattr(self, name) not in (True, False, None):
                raise ValueError(f"{name} is True, False or None; got {getattr(self, name)!r}")

    @property
    def lesson(self) -> str:
        """The owner's sentence on one line; empty if there is none, or if it is not an owner's."""
        return one_line(self.why) if self.by == "owner" else ""

    @classmethod
    def expected(cls, answer: str) -> Feedback:
        """Make feedback that compares the output with an expected answer.

        The output has to contain the answer as whole words, in order. Case, punctuation and the format of
        numbers (1,200.50 or 1200.5) are ignored.
        """
        if cast("object", answer) is None or not _words(str(answer)):
            raise ValueError(f"an expected answer has at least one letter or digit; got {answer!r}")
        return cls(answer=str(answer))

    def judge(self, output: TaskOutput) -> tuple[Outcome, Signal]:
        """Return the outcome of the run, and the signal that decides it.

        Without a signal, a run that failed or reached its limit is a failure; the outcome of a completed run
        is unknown.
        """
        label = self.label
        if label is None and self.answer is not None:
            label = is_named(self.answer, output.answer)
        signals: tuple[tuple[Signal, bool | None], ...] = (
            ("label", label),
            ("tests", self.tests),
            ("execution", self.execution),
            ("self_check", self.self_check),
        )
        for signal, value in signals:
            if value is not None:
                return ("success" if value else "failure"), signal
        return ("unknown", "none") if output.completed else ("failure", "run")


_NUMBER = r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?"
_TOKEN = re.compile(rf"{_NUMBER}|\w+")


def is_named(value: str, text: str) -> bool:
    """Whether a text contains a value as whole words."""
    wanted, words = _words(value), _words(text)
    size = len(wanted)
    return size > 0 and any(words[start : start + size] == wanted for start in range(len(words) - size + 1))


def _words(text: str) -> list[str]:
    return [_plain(token) for token in _TOKEN.findall(text.casefold())]


def _plain(token: str) -> str:
    if re.fullmatch(_NUMBER, token, re.ASCII) is None:
        return token
    digits = token.replace(",", "")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits
