"""Masked values: whether a redacted value is the redaction of another one."""

from __future__ import annotations

import re
from typing import Any

from wesichain.core.internal import PLACEHOLDER, is_array, is_object, is_placeholder


def equal_redacted(left: Any, right: Any) -> bool:
    """Whether two texts or JSON values are equal, where a mask in one is equal to what it masks in the other.

    A recording is compared with a run that knows other secrets: some values are masked on one side only.
    """
    if left == right or _is_mask(left) or _is_mask(right):
        return True
    if isinstance(left, str) and isinstance(right, str):
        return _matches(left, right) or _matches(right, left)
    if is_array(left) and is_array(right):
        return len(left) == len(right) and all(map(equal_redacted, left, right))
    if is_object(left) and is_object(right):
        return len(left) == len(right) and all(
            equal_redacted(key, other) and equal_redacted(left[key], right[other])
            for key, other in _paired(left, right)
        )
    return False


def _is_mask(value: object) -> bool:
    return isinstance(value, str) and is_placeholder(value)


def _paired(left: dict[str, Any], right: dict[str, Any]) -> list[tuple[str, str]]:
    """The names of both sides: equal ones, and the others in their order."""
    same = [(name, name) for name in left if name in right]
    others = [name for name in right if name not in left]
    return same + list(zip((name for name in left if name not in right), others, strict=True))


def _matches(masked: str, text: str) -> bool:
    first, *rest = re.split(PLACEHOLDER, masked)
    if not rest or not text.startswith(first):
        return False
    at = len(first)
    for part in rest[:-1]:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(text) - len(rest[-1]) >= at and text.endswith(rest[-1])
