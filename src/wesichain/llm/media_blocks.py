"""Parts for providers: which can be sent as they are, and the line for each that cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wesichain.core import Content, Document, Text
from wesichain.core.internal import Media, omitted_line, parts_of

Block = dict[str, Any]
WriteMedia = Callable[[Media], Block | str]


def blocks_of(
    content: Content, write: WriteMedia, text: Callable[[str], Block], omitted: list[str]
) -> list[Block]:
    """The parts as a provider's blocks; what `write` answers with a reason (a str) is left out, and told."""
    return [_block(part, write, text, omitted) for part in parts_of(content)]


def _block(part: Text | Media, write: WriteMedia, text: Callable[[str], Block], omitted: list[str]) -> Block:
    if isinstance(part, Text):
        return text(part.text)
    block = "its bytes are not here" if part.data is None and part.digest else write(part)
    if not isinstance(block, str):
        return block
    omitted.append(omitted_line(part, block))
    return text(omitted[-1])


def data_url(part: Media) -> str:
    return f"data:{part.media_type};base64,{part.base64}"


def text_in(part: Document) -> str | None:
    """A text document as text, under its name; None of any other."""
    if part.data is None or not part.media_type.startswith("text/"):
        return None
    try:
        text = part.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return f"{part.name}:\n{text}" if part.name else text
