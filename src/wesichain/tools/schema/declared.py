"""Declared: what a tool says that it returns, checked and written by pydantic."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from wesichain.core.internal import dump_json
from wesichain.errors import ToolSerializationError
from wesichain.tools.json_schema import preview, show_path

from .describe import tidy, type_text


class Declared:
    """A declared return type. `schema` is None for what has no JSON schema; it is checked all the same."""

    __slots__ = ("_adapter", "schema")

    def __init__(self, annotation: Any) -> None:
        self._adapter = _adapter(annotation)
        self.schema: dict[str, Any] | None = None
        try:
            self.schema = tidy(self._adapter.json_schema(mode="serialization"))
        except PydanticUserError:
            return

    def plain(self, value: Any) -> Any:
        """The value as plain data; `ToolSerializationError` where it is not what was declared."""
        return self._adapter.dump_python(self._checked(value), mode="json", by_alias=True, warnings="error")

    def _checked(self, value: Any) -> Any:
        """Strict about kinds, but a dict may stand for a model, and a tuple for a list."""
        try:
            return self._adapter.validate_python(value, strict=True)
        except ValidationError:
            pass
        try:
            return self._adapter.validate_json(dump_json(to_jsonable_python(value)), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = f" ({show_path(first['loc'])}: {first['msg']})" if first["loc"] else ""
            expected = type_text(self.schema or {})
            raise ToolSerializationError(
                f"its result is not what it declares: expected {expected}, got {preview(value)}{where}"
            ) from None


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation)
    except PydanticUserError:
        try:
            return TypeAdapter(annotation, config=ConfigDict(arbitrary_types_allowed=True))
        except PydanticUserError:
            return TypeAdapter(Any)
