"""A first look: whether arguments are a JSON object at all."""

from __future__ import annotations

from typing import Any, TypeAlias

from wesichain.core import JsonValue
from wesichain.core.internal import check_depth, dump_json, is_array, is_object, parse_json
from wesichain.errors import CodecError
from wesichain.tools.json_schema import Issue, RejectedError, preview

Path: TypeAlias = tuple[str | int, ...]

NOTHING: Any = object()


def as_text(args: JsonValue) -> str:
    """The JSON text of an arguments object; `RejectedError` for anything that is not one."""
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
    """Whether a model has put its arguments in quotes once too often."""
    try:
        return is_object(parse_json(text))
    except CodecError:
        return False


def find(plain: Any, path: Path) -> Any:
    """The value at a path, or `NOTHING`."""
    for step in path:
        if is_object(plain):
            plain = plain.get(step, NOTHING) if isinstance(step, str) else NOTHING
        elif is_array(plain) and isinstance(step, int) and -1 < step < len(plain):
            plain = plain[step]
        else:
            return NOTHING
    return plain
