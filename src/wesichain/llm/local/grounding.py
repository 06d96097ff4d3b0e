"""The values that stand in a conversation: what a parameter marked as an id may be.

Values of the user, the instructions, the tools and earlier answers count; what the model wrote on the way to
a call does not, or it could quote itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wesichain.core import Message, Role
from wesichain.core.internal import Value, is_array, is_object, parse_json
from wesichain.errors import CodecError

_MOST = 4_096  # values, the newest; a grammar of more only slows the model down
_LONGEST = 64  # characters of an id
_WORD = re.compile(r"""[^\s"'`\u2018\u2019\u201c\u201d«»()\[\]{}<>,;|]+""")
_QUOTED = re.compile(r""""[^"\n]{1,64}"|`[^`\n]{1,64}`|\u201c[^\u201d\n]{1,64}\u201d|'[^'\n]{1,64}'""")
_JOINT = re.compile(r"[/:=#]")
_EDGE = ".:!?*_-\u2013\u2014\u2026/\\=#"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")


class GroundedValues(Value):
    """The values that ids may take, each once."""

    texts: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """Those that are whole numbers."""
        return tuple(text for text in self.texts if _NUMBER.fullmatch(text))

    def fitting(self, schema: Mapping[str, Any]) -> list[str]:
        """Those that a schema for texts takes: its pattern, and its bounds of length."""
        pattern = _pattern(schema.get("pattern"))
        least, most = schema.get("minLength"), schema.get("maxLength")
        return [
            text
            for text in self.texts
            if (pattern is None or pattern.search(text))
            and (not isinstance(least, int) or len(text) >= least)
            and (not isinstance(most, int) or len(text) <= most)
        ]


def values_in(messages: Sequence[Message]) -> GroundedValues:
    """Every value that stands in the messages: words, what is in quotes, and the values of JSON."""
    found: dict[str, None] = {}
    for message in messages:
        if message.role is Role.ASSISTANT and message.tool_calls:
            continue
        for text in _of_content(message.text):
            if 0 < len(text) <= _LONGEST and text.isprintable():
                found.pop(text, None)  # the newest place counts
                found[text] = None
    return GroundedValues(tuple(found)[-_MOST:])


def _of_content(content: str) -> Iterator[str]:
    if content.lstrip()[:1] in ("{", "[", '"') or _NUMBER.fullmatch(content):
        try:
            return _of_json(parse_json(content))
        except CodecError:
            pass
    return _of_text(content)


def _of_json(value: object) -> Iterator[str]:
    """The leaves, and the keys that hold a digit: `{"O-17": {...}}` is a list of things by id."""
    if isinstance(value, str):
        yield from _of_text(value)
        yield value.strip()
    elif isinstance(value, int) and not isinstance(value, bool):
        yield str(value)
    elif is_array(value):
        for item in value:
            yield from _of_json(item)
    elif is_object(value):
        for name, item in value.items():
            if any(map(str.isdigit, name)):
                yield name
            yield from _of_json(item)


def _of_text(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        yield from _forms(word)
    for quoted in _QUOTED.finditer(text):
        yield quoted.group()[1:-1].strip()


def _forms(word: str) -> Iterable[str]:
    """A word as it stands, without the marks around it, and its parts: `id=C-17.` holds `C-17`."""
    bare = word.strip(_EDGE)
    parts = _JOINT.split(bare) if _JOINT.search(bare) else ()
    return (*(part.strip(_EDGE) for part in parts), word.rstrip(".:!?"), bare)


def _pattern(pattern: object) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern) if isinstance(pattern, str) else None
    except re.error:  # another dialect's: the runtime checks it, with the dialect's own engine
        return None
