"""Answers to questions: what an answer has to be, and what is made of one that was given."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from wesichain.errors import ConfigError, GraphError
from wesichain.tools import validate_json

from .state import is_dataclass_type, is_model, kind_of


class AnswerTerms:
    """The terms of a question: the type of its answer, and what holds when none came in time."""

    __slots__ = ("_expects", "default", "schema", "timeout")

    def __init__(self, expects: Any = None, timeout: float | None = None, default: Any = None) -> None:
        if timeout is not None and (isinstance(timeout, bool) or timeout <= 0):
            raise ConfigError(f"interrupt(timeout={timeout!r}): use a number of seconds above 0, or None")
        self._expects = expects
        self.timeout = timeout
        self.default = default
        self.schema: Mapping[str, Any] | None = None if expects is None else _adapter(expects).json_schema()

    def read(self, answer: Any, *, is_default: bool) -> Any:
        """Return the answer as a value of the type, or raise ValueError; a default may be anything."""
        if self._expects is None:
            return answer
        try:
            return _adapter(self._expects).validate_python(answer)
        except ValueError:
            if is_default:
                return answer
            raise


NO_TERMS = AnswerTerms()


def check_answer(schema: Mapping[str, Any] | None, answer: Any, node: str) -> None:
    """Refuse an answer that does not fit the schema of its question; nothing has been written yet."""
    if schema is not None and (faults := validate_json(schema, answer)):
        what = "; ".join(faults[:3])
        raise GraphError(f"the answer to {node!r} does not fit: {what}; nothing was answered", node=node)


def plain_answer(schema: Mapping[str, Any] | None, answer: Any) -> Any:
    """An answer to a question that expects a type, as data: a model or a dataclass is what its fields are."""
    if schema is None:
        return answer
    if is_model(kind_of(answer)) or is_dataclass_type(kind_of(answer)):
        return _adapter(kind_of(answer)).dump_python(answer, mode="json")
    return answer


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter  # only questions that expect a type need it

    return TypeAdapter(kind)
