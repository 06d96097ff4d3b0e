"""The values in a conversation, which are the possible values of a parameter marked as an id.

Values of the user, the instructions, the tools and earlier answers count; text that the model wrote with its
calls does not, or the model could make up values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wesichain.core import Message, Role
from wesichain.core.internal import Value, is_array, is_object, parse_json
from wesichain.errors import CodecError

_MOST = 4_096  # the newest values; a larger grammar slows the model down
_LONGEST = 64  # characters of an id
_WORD = re.compile(r"""[^\s"'`\u2018\u2019\u201c\u201d«»()\[\]{}<>,;|]+""")
_QUOTED = re.compile(r""""[^"\n]{1,64}"|`[^`\n]{1,64}`|\u201c[^\u201d\n]{1,64}\u201d|'[^'\n]{1,64}'""")
_JOINT = re.compile(r"[/:=#]")
_EDGE = ".:!?*_-\u2013\u2014\u2026/\\=#"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})")


class GroundedValues(Value):
    """The distinct values that an id may have."""

    texts: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """The values that are whole numbers."""
        return tuple(text for text in self.texts if _NUMBER.fullmatch(text))

    def fitting(self, schema: Mapping[str, Any]) -> list[str]:
        """The values that match the pattern and the length limits of a string schema."""
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
    """All values in the messages: words, quoted texts, and the values of JSON."""
    found: dict[str, None] = {}
    for message in messages:
        if message.role is Role.ASSISTANT and message.tool_calls:
            continue
        for text in _of_content(message.text):
            if 0 < len(text) <= _LONGEST and text.isprintable():
                found.pop(text, None)  # its newest position counts
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
    """The leaves, and the keys with a digit: `{"O-17": {...}}` is a mapping by id."""
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
    """A word, the word without punctuation around it, and its parts: `id=C-17.` has `C-17`."""
    bare = word.strip(_EDGE)
    parts = _JOINT.split(bare) if _JOINT.search(bare) else ()
    return (*(part.strip(_EDGE) for part in parts), word.rstrip(".:!?"), bare)


def _pattern(pattern: object) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern) if isinstance(pattern, str) else None
    except re.error:  # another dialect of regular expressions, which the runtime checks with its own engine
        return None
