"""Feedback: signals about a run, from the surest to the weakest; the first that is given decides."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias, cast

from wesichain.core.internal import Value

from .tasks import TaskOutput
from .wording import one_line

Outcome: TypeAlias = Literal["success", "failure", "unknown"]
Signal: TypeAlias = Literal["label", "tests", "execution", "self_check", "run", "none"]


class Feedback(Value):
    """True, False or nothing for each signal; `answer` is a right answer to compare with (a label).

    `why` says in words what was wrong or right. With `by="owner"`, the person who answers for the agent, the
    sentence itself becomes a lesson and is shown to later runs as it is. Anybody else's is material for the
    reflector and is never shown.
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
        """Compare with the right answer.

        It has to stand in the output as whole words, in order; case, punctuation and the way that a
        number is written (1,200.50 or 1200.5) do not matter.
        """
        if cast("object", answer) is None or not _words(str(answer)):
            raise ValueError(f"an expected answer has at least one letter or digit; got {answer!r}")
        return cls(answer=str(answer))

    def judge(self, output: TaskOutput) -> tuple[Outcome, Signal]:
        """The outcome of the run, and the signal that says so. Words in the answer are never read for this.

        Without a signal a run that failed or hit its limit is a failure; of one that completed
        nothing is known.
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
    """Whether a value stands in a text as whole words."""
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
