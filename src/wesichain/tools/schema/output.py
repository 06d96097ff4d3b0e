"""Output: converts the results of a tool to JSON, checks their type, and limits their size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from math import isfinite
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from wesichain.core import JsonValue
from wesichain.core.internal import check_depth, dump_json
from wesichain.errors import ToolSerializationError
from wesichain.tools.json_schema.issues import preview, shorten, show_path
from wesichain.tools.return_values import may_be_media, without_finish

from .describe import tidy, type_text
from .signature import with_lists

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_SIMPLE_TYPES: frozenset[Any] = frozenset({str, int, float, bool, type(None)})


class Output:
    """The results of one tool. `render` converts them to JSON data, or raises `ToolSerializationError`."""

    def __init__(self, annotation: Any = Any, *, limit: int) -> None:
        self._annotation = with_lists(without_finish(annotation))
        if may_be_media(self._annotation):
            self._annotation = Any  # parts are checked when they are created
        self._is_declared = self._annotation is not Any and self._annotation is not object
        self._limit = limit
        self.render = self._renderer()

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the results, if a type is declared and has one."""
        from pydantic import PydanticUserError

        if self._adapter is None:
            return None
        try:
            return tidy(self._adapter.json_schema(mode="serialization"))
        except PydanticUserError:  # results are checked nevertheless
            return None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        """The adapter that checks results, if a type is declared that Pydantic can check."""
        if not self._is_declared:
            return None
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter

        for config in (None, ConfigDict(arbitrary_types_allowed=True)):
            with suppress(PydanticUserError):
                return TypeAdapter(self._annotation, config=config)
        return None

    def _checked(self, adapter: TypeAdapter[Any], value: Any) -> Any:
        """Check a result strictly, but accept a dict for a model, and a tuple for a list."""
        from pydantic import ValidationError
        from pydantic_core import to_jsonable_python

        with suppress(ValidationError):
            return adapter.validate_python(value, strict=True)
        try:
            return adapter.validate_json(dump_json(to_jsonable_python(value)), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = f" ({show_path(first['loc'])}: {first['msg']})" if first["loc"] else ""
            raise ToolSerializationError(
                f"its result does not match its declared type: expected {type_text(self.schema or {})}, "
                f"got {preview(value)}{where}"
            ) from None

    def _renderer(self) -> Callable[[Any], JsonValue]:
        """Return the function `render`, with a fast path for simple values."""
        exact = _exact_types(self._annotation) if self._is_declared else _SIMPLE_TYPES
        short, render_carefully = self._limit // 6, self._render_carefully

        def render(value: Any) -> JsonValue:
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # any value at all
            if kind in exact:
                if kind is str:
                    if len(value) <= short and value.isascii():
                        return value  # type: ignore[no-any-return]  # kind is str
                elif kind is int:
                    if -(2**63) < value < 2**63:  # few digits
                        return value  # type: ignore[no-any-return]  # kind is int
                elif kind is not float or isfinite(value):
                    return value  # type: ignore[no-any-return]  # kind is float, bool or None
            return render_carefully(value)

        return render

    def _render_carefully(self, value: Any) -> JsonValue:
        from pydantic_core import to_jsonable_python  # imported when it is needed

        try:
            if self._adapter is None:
                plain = to_jsonable_python(value)
            else:
                checked = self._checked(self._adapter, value)
                plain = self._adapter.dump_python(checked, mode="json", by_alias=True, warnings="error")
            if isinstance(plain, str):
                return _cut(plain, self._limit)
            text = dump_json(plain)
            if text.count("[") + text.count("{") > 200:
                check_depth(plain)
        except ToolSerializationError:
            raise
        except Exception as error:  # serializers of users may raise anything
            raise ToolSerializationError(f"its result is not JSON: {shorten(str(error), 300)}") from error
        fits = len(text) * 4 <= self._limit or len(text.encode()) <= self._limit
        return plain if fits else _cut(text, self._limit)


def _exact_types(annotation: Any) -> frozenset[Any]:
    """Return the simple types whose values always match the annotation; an int is also a float."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    exact = _SIMPLE_TYPES.intersection(member for member in members if isinstance(member, type))
    return exact | {int} if float in exact else exact


def _cut(text: str, limit: int) -> str:
    """Return the text, or its beginning of at most `limit` bytes in JSON, with a note."""
    if len(text) * 6 <= limit and text.isascii():
        return text
    try:
        total = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise ToolSerializationError(
            "its result contains a lone surrogate, which is not a character and has no JSON"
        ) from None
    if total <= limit and _json_size(text) <= limit:
        return text
    low, high = 0, min(len(text), limit)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _json_size(text[:middle]) <= limit else (low, middle - 1)
    beginning = text[:low]
    return f"{beginning}... [cut: {len(beginning.encode())} of {total} bytes shown]"


def _json_size(text: str) -> int:
    return len(dump_json(text).encode()) - 2  # without its quotes
