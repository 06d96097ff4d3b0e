"""Content parts as a provider's blocks, with a line of text for each part that cannot be sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wesichain.core import Content, Document, Text
from wesichain.core.internal import Media, omitted_line, parts_of

Block = dict[str, Any]
# The formats of images that Claude takes, and Bedrock's names for them.
PICTURES = {"image/jpeg": "jpeg", "image/png": "png", "image/gif": "gif", "image/webp": "webp"}

WriteMedia = Callable[[Media], Block | str]


def blocks_of(
    content: Content, write: WriteMedia, text: Callable[[str], Block], omitted: list[str]
) -> list[Block]:
    """The parts as a provider's blocks. Where `write` returns a reason (a str), the part becomes a line
    of text, which is added to `omitted`."""
    return [_block(part, write, text, omitted) for part in parts_of(content)]


def _block(part: Text | Media, write: WriteMedia, text: Callable[[str], Block], omitted: list[str]) -> Block:
    if isinstance(part, Text):
        return text(part.text)
    block = "its bytes are not here" if part.data is None and part.digest else write(part)
    if not isinstance(block, str):
        return block
    omitted.append(omitted_line(part, block))
    return text(omitted[-1])


def content_of(
    content: Content, write: WriteMedia, text: Callable[[str], Block], omitted: list[str]
) -> str | list[Block]:
    """A text as it is, and parts as the blocks of `blocks_of`."""
    return content if isinstance(content, str) else blocks_of(content, write, text, omitted)


def media_in(content: Content) -> tuple[Media, ...]:
    """The parts of a content that are not text."""
    return () if isinstance(content, str) else tuple(part for part in content if not isinstance(part, Text))


def bare_text(text: str) -> Block:
    return {"text": text}


def typed_text(text: str) -> Block:
    return {"type": "text", "text": text}


def data_url(part: Media) -> str:
    return f"data:{part.media_type};base64,{part.base64}"


def text_in(part: Document) -> str | None:
    """A text document as text, after its name; None for any other document."""
    if part.data is None or not part.media_type.startswith("text/"):
        return None
    try:
        text = part.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return f"{part.name}:\n{text}" if part.name else text
