"""Keywords without subschemas: types, numbers, strings, sizes and choices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from wesichain.core.internal import dump_json, is_array, is_object
from wesichain.errors import ToolDefinitionError

from .issues import Issue, count, one_of, preview, quote, shorten
from .pattern import compile_pattern

if TYPE_CHECKING:
    from fractions import Fraction


class SchemaRun:
    """The state of one validation: `left` is the number of references that can still be followed."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = 100_000


Issues: TypeAlias = list[Issue] | None
Evaluated: TypeAlias = set[Any] | None  # names or indexes; None if they are not needed
Check: TypeAlias = Callable[[Any, SchemaRun, Evaluated], Issues]


def fault(text: str, *path: str | int) -> list[Issue]:
    return [Issue(path, text)]


def refuse(keyword: str, expected: str, operand: object) -> ToolDefinitionError:
    return ToolDefinitionError(f"schema: {keyword!r} should be {expected}, got {preview(operand)}")


# --- types ---------------------------------------------------------------------------------------


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


TYPES: dict[str, tuple[Callable[[Any], bool], str, set[type]]] = {
    "null": (lambda value: value is None, "null", {type(None)}),
    "boolean": (lambda value: isinstance(value, bool), "true or false", {bool}),
    "integer": (is_integer, "an integer", {int}),
    "number": (is_number, "a number", {int, float}),
    "string": (lambda value: isinstance(value, str), "a string", {str}),
    "array": (is_array, "a list", {list}),
    "object": (is_object, "an object", {dict}),
}


def check_type(operand: Any) -> tuple[Check, frozenset[type]]:
    """Return the check of a type, and the classes whose values always pass it."""
    names: list[Any] = operand if is_array(operand) else [operand]
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        raise refuse("type", one_of(list(TYPES)), operand)
    tests, words, classes = zip(*(TYPES[name] for name in names), strict=True)
    expected = one_of(words)

    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        if any(test(value) for test in tests):
            return None
        return fault(f"expected {expected}, got {preview(value)}")

    return check, frozenset[type]().union(*classes)


# --- choices -------------------------------------------------------------------------------------


def key_of(value: Any) -> Any:
    """Return a hashable key with the equality of JSON: 1 equals 1.0, and true does not equal 1."""
    if isinstance(value, bool):
        return ("bool", value)
    if is_array(value):
        return ("list", *map(key_of, value))
    if is_object(value):
        return ("object", frozenset((name, key_of(item)) for name, item in value.items()))
    return value


def check_enum(operand: Any) -> Check:
    if not is_array(operand):
        raise refuse("enum", "a list", operand)
    allowed = frozenset(map(key_of, operand))
    expected = one_of([_literal(item) for item in operand])

    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        return None if key_of(value) in allowed else fault(f"expected {expected}, got {preview(value)}")

    return check


def _literal(value: Any) -> str:
    return quote(value) if isinstance(value, str) else shorten(dump_json(value))


# --- numbers -------------------------------------------------------------------------------------


def _bound(keyword: str, holds: Callable[[Any, Any], bool], words: str) -> Callable[[Any], Check]:
    def build(limit: Any) -> Check:
        if not is_number(limit):
            raise refuse(keyword, "a number", limit)

        def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
            if not is_number(value) or holds(value, limit):
                return None
            return fault(f"expected a number {words} {preview(limit)}, got {preview(value)}")

        return check

    return build


def check_multiple(factor: Any) -> Check:
    if not is_number(factor) or factor <= 0:
        raise refuse("multipleOf", "a number above 0", factor)
    exact = _exact(factor)

    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        if not is_number(value) or _exact(value) % exact == 0:
            return None
        return fault(f"expected a multiple of {preview(factor)}, got {preview(value)}")

    return check


def _exact(number: float) -> Fraction | int:
    from fractions import Fraction  # few schemas need it

    # From the text: 0.1 in JSON is exactly a tenth, unlike the nearest binary fraction.
    return number if isinstance(number, int) else Fraction(repr(number))


# --- sizes ---------------------------------------------------------------------------------------


def _size(keyword: str, kind: type, *, noun: str, most: bool) -> Callable[[Any], Check]:
    words = "at most" if most else "at least"

    def build(limit: Any) -> Check:
        if not is_integer(limit) or limit < 0:
            raise refuse(keyword, "a whole number, 0 or more", limit)
        expected = f"expected {words} {count(int(limit), noun)}"

        def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
            if not isinstance(value, kind):
                return None
            size: int = len(value)  # type: ignore[arg-type]  # kind is str, list or dict
            return None if (size <= limit if most else size >= limit) else fault(f"{expected}, got {size}")

        return check

    return build


def check_pattern(operand: Any) -> Check:
    if not isinstance(operand, str):
        raise refuse("pattern", "a string", operand)
    pattern = compile_pattern(operand)

    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        if not isinstance(value, str) or pattern.matches(value):
            return None
        if len(value) > pattern.longest:
            return fault(f"expected at most {math.floor(pattern.longest)} characters, got {len(value)}")
        return fault(f"expected a string that matches {quote(shorten(operand, 200))}, got {preview(value)}")

    return check


def check_unique(operand: Any) -> Check | None:
    if not isinstance(operand, bool):
        raise refuse("uniqueItems", "true or false", operand)

    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        if not is_array(value):
            return None
        seen: dict[Any, int] = {}
        for index, item in enumerate(value):
            first = seen.setdefault(key_of(item), index)
            if first != index:
                return fault(f"expected no item twice; items {first} and {index} are equal")
        return None

    return check if operand else None


def check_required(operand: Any) -> Check:
    names = name_list("required", operand)

    def check(value: Any, _: SchemaRun, __: Evaluated) -> Issues:
        if not is_object(value):
            return None
        return [
            Issue((name,), "is required and was not given") for name in names if name not in value
        ] or None

    return check


def name_list(keyword: str, operand: Any) -> list[str]:
    if not is_array(operand) or not all(isinstance(name, str) for name in operand):
        raise refuse(keyword, "a list of names", operand)
    return list(dict.fromkeys(operand))


# The keywords that do not depend on other keywords.
SIMPLE: dict[str, Callable[[Any], Check | None]] = {
    "enum": check_enum,
    "const": lambda operand: check_enum([operand]),
    "maximum": _bound("maximum", lambda value, limit: value <= limit, "not above"),
    "minimum": _bound("minimum", lambda value, limit: value >= limit, "not below"),
    "exclusiveMaximum": _bound("exclusiveMaximum", lambda value, limit: value < limit, "below"),
    "exclusiveMinimum": _bound("exclusiveMinimum", lambda value, limit: value > limit, "above"),
    "multipleOf": check_multiple,
    "maxLength": _size("maxLength", str, noun="character", most=True),
    "minLength": _size("minLength", str, noun="character", most=False),
    "maxItems": _size("maxItems", list, noun="item", most=True),
    "minItems": _size("minItems", list, noun="item", most=False),
    "maxProperties": _size("maxProperties", dict, noun="field", most=True),
    "minProperties": _size("minProperties", dict, noun="field", most=False),
    "pattern": check_pattern,
    "uniqueItems": check_unique,
    "required": check_required,
}
