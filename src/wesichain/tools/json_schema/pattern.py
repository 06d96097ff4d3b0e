"""Patterns: regular expressions of a schema, matched in bounded time.

A schema may come from an untrusted server, and a backtracking matcher can take exponential time. Patterns
are therefore matched by the engine of pydantic's `pattern`: Rust's `regex`, which takes linear time, and has
neither look-around nor backreferences. A pattern with these is matched by Python's `re`, if it cannot take
exponential time, on texts of limited length. All other patterns are errors when the tool is defined.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import inf

from wesichain.core.internal import Mutable, Value
from wesichain.errors import ToolDefinitionError

from .issues import shorten

MAX_PATTERN = 2_000
_WORK = 5_000_000  # the steps that a guarded pattern may take: about 0.1 s


class Pattern(Value):
    """A compiled pattern. A text longer than `longest` does not match."""

    source: str
    search: Callable[[str], object]
    longest: float = inf

    def matches(self, text: str) -> bool:
        return len(text) <= self.longest and bool(self.search(text))


def compile_pattern(source: str) -> Pattern:
    """Compile an ECMAScript pattern (with the flag `u`, and without implicit anchors)."""
    if len(source) > MAX_PATTERN:
        raise ToolDefinitionError(f"schema: a pattern has {len(source)} characters; at most {MAX_PATTERN}")
    return _linear(source) or _guarded(source)


# --- the linear engine ---------------------------------------------------------------------------


def _linear(source: str) -> Pattern | None:
    from pydantic_core import SchemaError, SchemaValidator, core_schema  # 50 ms, and few schemas need it

    translated = _TOKEN.sub(_Translator(), source)
    try:
        schema = core_schema.str_schema(pattern=translated, regex_engine="rust-regex")
        return Pattern(source, SchemaValidator(schema).isinstance_python)
    except SchemaError:
        return None


_TOKEN = re.compile(r"\\c([A-Za-z])|\\(.)|\[\^?\]?|\]|[&~]", re.DOTALL)
_CLASSES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[0-9A-Za-z_]",
    "W": "[^0-9A-Za-z_]",
    "s": r"[\s\x{FEFF}]",
    "S": r"[^\s\x{FEFF}]",
    "0": r"\x00",
}


class _Translator:
    """Translates ECMAScript to Rust: \\d and \\w are ASCII, and classes have no set operations."""

    def __init__(self) -> None:
        self._in_class = False

    def __call__(self, token: re.Match[str]) -> str:
        text, control, escaped = token.group(), token.group(1), token.group(2)
        if control:
            return f"\\x{ord(control) % 32:02x}"
        if escaped:
            return _CLASSES.get(escaped, text)
        if self._in_class:
            self._in_class = text != "]"
            return text if text == "]" else "".join(f"\\{char}" for char in text.removesuffix("]"))
        if text in ("[]", "[^]"):  # nothing, anything
            return r"[^\s\S]" if text == "[]" else r"[\s\S]"
        self._in_class = text.startswith("[")
        return text


# --- Python's engine, with a limit --------------------------------------------------------------------

_PIECE = re.compile(
    r"""(?P<name>\\k<(\w+)>) | \\. | \[(?:\\.|[^\]\\])*\] | (?P<look>\(\?<?[=!])
      | \(\?<(?P<group>\w+)> | (?P<open>\((?:\?:)?) | (?P<close>\)) | (?P<either>\|)
      | (?P<repeat>[*+?]|\{\d+(?:,\d*)?\}) | (?P<end>\$)""",
    re.DOTALL | re.VERBOSE,
)


class _Section(Mutable):
    """A group, a look-around or the whole pattern, and the number of ways to match n characters."""

    fixed: int = 1  # there are at most fixed * n ** open ways
    open: int = 0

    @property
    def branches(self) -> bool:
        return self.fixed > 1 or self.open > 0


def _guarded(source: str) -> Pattern:
    try:
        translated, whole = _translate(source)
        compiled = re.compile(translated, re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise ToolDefinitionError(
            f"schema: the pattern {shorten(source)!r} cannot be used: {error}"
        ) from None
    whole.open += not source.startswith("^")  # without an anchor every position is tried
    longest = (_WORK / whole.fixed) ** (1 / max(1, whole.open))
    if longest < 1:
        raise ToolDefinitionError(
            f"schema: the pattern {shorten(source)!r} cannot be used: too many optional parts and choices"
        )
    return Pattern(source, compiled.search, longest)


def _translate(source: str) -> tuple[str, _Section]:
    """Translate a pattern to Python's syntax, and return it with its most expensive section."""
    whole = _Section()
    stack = [whole]
    costliest = [whole]
    closed = _Section()  # the group that ends just before this piece, if any
    end = 0

    def translate(piece: re.Match[str]) -> str:
        nonlocal closed, end
        kind, text, section = piece.lastgroup, piece.group(), stack[-1]
        just_closed, closed, end = closed if piece.start() == end else _Section(), _Section(), piece.end()
        if kind == "look":
            stack.append(_Section())
            costliest.append(stack[-1])
        elif kind in ("open", "group"):
            stack.append(_Section())
        elif kind == "close" and len(stack) > 1:
            closed = stack.pop()
            if closed not in costliest:
                stack[-1].fixed *= closed.fixed
                stack[-1].open += closed.open
        elif kind == "either":
            section.fixed *= 2
        elif kind == "repeat":
            _count_ways(section, text, just_closed)
        elif kind == "end":
            return r"\Z"
        elif kind == "name":
            return f"(?P={piece.group(2)})"
        return text if kind != "group" else f"(?P<{piece.group('group')}>"

    return _PIECE.sub(translate, source), max(costliest, key=lambda section: (section.open, section.fixed))


def _count_ways(section: _Section, quantifier: str, group: _Section) -> None:
    low, _, high = quantifier.strip("{}").partition(",")
    if quantifier == "?":
        section.fixed *= 2
    elif group.branches:
        raise re.error("a repeated group that contains a repetition or a choice may take exponential time")
    elif quantifier in "*+" or (not high and "," in quantifier):
        section.open += 1
    elif high:
        section.fixed *= max(1, int(high) - int(low) + 1)
