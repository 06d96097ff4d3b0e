"""The type of an expected answer: its JSON schema, and how an answer is checked and read."""

from __future__ import annotations

from functools import cache
from typing import Any

from wesichain.core import JsonValue
from wesichain.core.internal import Value, dump_json, is_object
from wesichain.errors import CodecError, ConfigError


class Expected(Value):
    """What a question expects as its answer; any JSON value without a type."""

    adapter: Any = None
    schema: JsonValue = None

    @staticmethod
    def of(expects: Any, name: str) -> Expected:
        """The expectation for a type; raises `ConfigError` for what is no type."""
        if expects is None:
            return Expected()
        try:
            return _expected(expects)
        except Exception as error:
            raise ConfigError(
                f"ask({name!r}, expects={expects!r}): use a type; it has no schema: {error}"
            ) from error

    def read(self, value: JsonValue) -> Any:
        """The answer as a value of the type."""
        return value if self.adapter is None else self.adapter.validate_json(dump_json(value), strict=True)


@cache
def _expected(expects: Any) -> Expected:
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(expects)
    return Expected(adapter, adapter.json_schema())


def check_answer(name: str, schema: JsonValue, value: JsonValue) -> None:
    """Raise a `ConfigError` for an answer that is not what its question expects."""
    from wesichain.tools import validate_json  # loaded with the first answer

    try:
        dump_json(value)
    except CodecError as error:
        raise ConfigError(f"the answer to {name!r} is no JSON value: {error}") from error
    issues = validate_json(schema, value) if is_object(schema) else []
    if issues:
        raise ConfigError(f"the answer to {name!r} is not what it asks for: {issues[0]}")
