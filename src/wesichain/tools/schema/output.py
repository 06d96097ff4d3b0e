"""Output: what a tool returns becomes JSON, is what was declared, and stays within its limit."""

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
from wesichain.tools.return_values import may_be_media, unfinished

from .describe import tidy, type_text
from .signature import collected

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_PLAIN: frozenset[Any] = frozenset({str, int, float, bool, type(None)})


class Output:
    """The results of one tool: `render` gives them as JSON data, or raises `ToolSerializationError`."""

    def __init__(self, annotation: Any = Any, *, limit: int) -> None:
        self._annotation = collected(unfinished(annotation))
        if may_be_media(self._annotation):
            self._annotation = Any  # parts are checked when they are made
        self._is_declared = self._annotation is not Any and self._annotation is not object
        self._limit = limit
        self.render = self._renderer()

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the results, where they are declared and have one."""
        from pydantic import PydanticUserError

        if self._adapter is None:
            return None
        try:
            return tidy(self._adapter.json_schema(mode="serialization"))
        except PydanticUserError:  # they are checked all the same
            return None

    @cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        """The check of the results, where they are declared."""
        if not self._is_declared:
            return None
        from pydantic import ConfigDict, PydanticUserError, TypeAdapter

        for config in (None, ConfigDict(arbitrary_types_allowed=True)):
            with suppress(PydanticUserError):
                return TypeAdapter(self._annotation, config=config)
        return TypeAdapter(Any)

    def _checked(self, adapter: TypeAdapter[Any], value: Any) -> Any:
        """Strict about kinds, but a dict may stand for a model, and a tuple for a list."""
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
                f"its result is not what it declares: expected {type_text(self.schema or {})}, "
                f"got {preview(value)}{where}"
            ) from None

    def _renderer(self) -> Callable[[Any], JsonValue]:
        """A function made to measure: what is plainly right passes after a glance."""
        exact = _exact_types(self._annotation) if self._is_declared else _PLAIN
        short, carefully = self._limit // 6, self._render_carefully

        def render(value: Any) -> JsonValue:
            kind = type(value)  # pyright: ignore[reportUnknownVariableType]  # any value at all
            if kind in exact:
                if kind is str:
                    if len(value) <= short and value.isascii():
                        return value  # type: ignore[no-any-return]  # kind is str
                elif kind is int:
                    if -(2**63) < value < 2**63:  # surely few enough digits
                        return value  # type: ignore[no-any-return]  # kind is int
                elif kind is not float or isfinite(value):
                    return value  # type: ignore[no-any-return]  # kind is float, bool or None
            return carefully(value)

        return render

    def _render_carefully(self, value: Any) -> JsonValue:
        from pydantic_core import to_jsonable_python  # pydantic loads when it is needed

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
        except Exception as error:  # serializers are the user's code, and may raise anything
            raise ToolSerializationError(f"its result has no JSON: {shorten(str(error), 300)}") from error
        fits = len(text) * 4 <= self._limit or len(text.encode()) <= self._limit
        return plain if fits else _cut(text, self._limit)


def _exact_types(annotation: Any) -> frozenset[Any]:
    """The plain types whose values certainly are what is declared; an int is also a float."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    exact = _PLAIN.intersection(member for member in members if isinstance(member, type))
    return exact | {int} if float in exact else exact


def _cut(text: str, limit: int) -> str:
    """The text, or as much of it as takes `limit` bytes in JSON, and a note that says so."""
    if len(text) * 6 <= limit and text.isascii():
        return text
    try:
        total = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise ToolSerializationError(
            "its result holds a lone surrogate, which is not a character and has no JSON"
        ) from None
    if total <= limit and _json_size(text) <= limit:
        return text
    low, high = 0, min(len(text), limit)
    while low < high:  # the longest beginning that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _json_size(text[:middle]) <= limit else (low, middle - 1)
    shown = text[:low]
    return f"{shown}... [cut: {len(shown.encode())} of {total} bytes shown]"


def _json_size(text: str) -> int:
    return len(dump_json(text).encode()) - 2  # without its quotes
