"""Issues: validation errors as messages that a model can act on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from typing_extensions import override

from wesichain.core import JsonValue
from wesichain.core.internal import Value, check_depth, dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError

MAX_ISSUES = 10
MAX_TEXT = 80

Path: TypeAlias = tuple[str | int, ...]


class Issue(Value):
    """One validation error: the path of a field, and what is expected there."""

    path: Path
    text: str

    def under(self, step: str | int) -> Issue:
        return Issue((step, *self.path), self.text)

    @override
    def __str__(self) -> str:
        return f"{show_path(self.path)}: {self.text}"


class RejectedError(Exception):
    """A value is not valid; `issues` are the reasons."""

    def __init__(self, *issues: Issue) -> None:
        super().__init__(*issues)
        self.issues = list(issues)


def show_path(path: Iterable[str | int]) -> str:
    """Return a path as `order.items[2].price`; the root is `the value`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            name = shorten(step)
            text += f".{name}" if name.isidentifier() else f"[{quote(name)}]"
    return shorten(text.removeprefix("."), 4 * MAX_TEXT) or "the value"


def preview(value: Any) -> str:
    """Describe a value in a few words; it can be of any size and depth."""
    if isinstance(value, str):
        return quote(shorten(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        # Python limits the conversion of huge integers to text.
        return (
            shorten(repr(value)) if isinstance(value, float) or value.bit_length() < 512 else "a huge number"
        )
    if is_array(value):
        return "an empty list" if not value else f"a list of {count(len(value), 'item')}"
    if is_object(value):
        names = [quote(shorten(str(name), 30)) for name in list(value)[:5]]
        more = ", ..." if len(value) > 5 else ""
        return f"an object with the keys {', '.join(names)}{more}" if names else "an empty object"
    name = type(value).__name__
    return f"an {name}" if name[0] in "AEIOUaeiou" else f"a {name}"


def quote(text: str) -> str:
    """Quote a text as in JSON; a lone surrogate stays escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() else quoted.encode("utf-8", "backslashreplace").decode("utf-8")


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def one_of(options: Sequence[str]) -> str:
    """Join options as `a, b or c`, at most 12 of them."""
    names = list(options[:12])
    if len(options) > 12:
        return f"{', '.join(names)} or one of {len(options) - 12} more"
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def closest(name: str, options: Iterable[str]) -> str | None:
    """Return the option that is most similar to a name."""
    import difflib  # imported only for errors

    known = [option for option in options if len(option) <= MAX_TEXT]
    return next(iter(difflib.get_close_matches(shorten(name), known[:200], n=1)), None)


def no_such_field(name: str, known: Sequence[str]) -> str:
    """Return the message for a field that the schema does not have."""
    suggestion = closest(name, known)
    hint = f"did you mean {quote(suggestion)}? " if suggestion else ""
    fields = one_of([quote(shorten(field)) for field in known]) or "none"
    return f"there is no such field; {hint}the fields are {fields}"


def as_text(args: JsonValue) -> str:
    """Return the JSON text of an arguments object. Raises `RejectedError` for any other value."""
    if isinstance(args, str):
        got = "the text of one; send the object itself" if _is_object_text(args) else "text that is not JSON"
        raise RejectedError(Issue((), f"expected a JSON object, got {got}: {preview(args)}"))
    if not is_object(args):
        raise RejectedError(Issue((), f"expected an object with the arguments, got {preview(args)}"))
    try:
        text = dump_json(args)
        if text.count("[") + text.count("{") > 200:
            check_depth(args)
    except CodecError as error:
        raise RejectedError(Issue((), str(error))) from error
    return text


def _is_object_text(text: str) -> bool:
    """Whether the model has encoded its arguments as JSON twice."""
    try:
        return is_object(parse_json(text))
    except CodecError:
        return False
