"""Fingerprints: a hash of what each tool takes, by which a bullet knows its tools again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias

from wesichain.core import ToolSpec, dump_json, is_array, is_object

from .bullets import PlaybookBullet

Fingerprints: TypeAlias = Mapping[str, str]  # by the tool's name


def fingerprint_of(tool: ToolSpec) -> str:
    """A hash of what a tool takes; it is another one when the schema has changed."""
    return sha256(dump_json([tool.name, _sorted(tool.parameters)]).encode()).hexdigest()[:12]


def fingerprints_of(tools: Sequence[ToolSpec]) -> dict[str, str]:
    return {tool.name: fingerprint_of(tool) for tool in tools}


def changed_tools(bullet: PlaybookBullet, tools: Fingerprints) -> list[str]:
    """The tools that the bullet names and that take something else than when it was learned."""
    known = {mark.rpartition("=")[0]: mark.rpartition("=")[2] for mark in bullet.fingerprints}
    return [name for name, mark in known.items() if name in tools and tools[name] != mark]


def _sorted(value: Any) -> Any:
    if is_object(value):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if is_array(value) else value
