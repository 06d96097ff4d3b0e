"""Output: what a tool returns becomes JSON, is what was declared, and stays within its limit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import isfinite
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from wesichain.core import JsonValue
from wesichain.core.internal import check_depth, dump_json
from wesichain.errors import ToolSerializationError
from wesichain.tools.finish import unfinished
from wesichain.tools.json_schema import shorten
from wesichain.tools.media import may_be_media

from .signature import collected

if TYPE_CHECKING:
    from .declared import Declared

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

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the results, where they are declared and have one."""
        return self._declared.schema if self._declared else None

    @cached_property
    def _declared(self) -> Declared | None:
        if not self._is_declared:
            return None
        from .declared import Declared  # it loads pydantic

        return Declared(self._annotation)

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
            plain = self._declared.plain(value) if self._declared else to_jsonable_python(value)
            if isinstance(plain, str):
                return _cut(plain, self._limit)
            text = dump_json(plain)
            if text.count("[") + text.count("{") > 200:
                check_depth(plain)
        except ToolSerializationError:
            raise
        except RecursionError:
            raise ToolSerializationError("its result nests too deeply to be written as JSON") from None
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
