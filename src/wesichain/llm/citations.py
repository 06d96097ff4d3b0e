"""Citations in replies: the forms of all providers as one value. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wesichain.core import Citation
from wesichain.core.internal import is_array, is_object, replace
from wesichain.llm.calls import as_object, as_objects


def _citation(note: Mapping[str, Any], *, offset: int = 0) -> Citation:
    """A citation from a provider's fields; `offset` is added to its start and end."""

    def text(*names: str) -> str | None:
        return next(filter(None, (_text(note.get(name)) for name in names)), None)

    def position(*names: str) -> int | None:
        numbers = (_number(note.get(name)) for name in names)
        return next((number + offset for number in numbers if number is not None), None)

    return Citation(
        text=text("cited_text", "content"),
        url=text("url", "uri"),
        title=text("title", "document_title", "filename"),
        source=text("source", "file_id", "domain"),
        start=position("start_index", "start_char_index"),
        end=position("end_index", "end_char_index"),
    )


def of_chat(annotations: object) -> tuple[Citation, ...]:
    """Citations in the annotations of a chat completion, `{"type": "url_citation", "url_citation": {}}`."""
    noted = [note for note in as_objects(annotations) if note.get("type") == "url_citation"]
    return tuple(_citation(cited) for note in noted if is_object(cited := note.get("url_citation")))


def of_response(items: Sequence[Mapping[str, Any]]) -> tuple[Citation, ...]:
    """Citations in the items of the Responses API, with positions in the text of the whole answer."""
    found: list[Citation] = []
    offset = 0
    for item in items:
        for part in as_objects(item.get("content")) if item.get("type") == "message" else ():
            if part.get("type") == "output_text":
                found += (_citation(note, offset=offset) for note in as_objects(part.get("annotations")))
                offset += len(_text(part.get("text")) or "")
    return tuple(found)


def of_blocks(blocks: Sequence[Mapping[str, Any]]) -> tuple[Citation, ...]:
    """Citations in the text blocks of the messages API, with positions in the cited document."""
    texts = [block for block in blocks if block.get("type") == "text"]
    return tuple(_citation(note) for block in texts for note in as_objects(block.get("citations")))


def of_grounding(grounding: Mapping[str, Any], content: str) -> tuple[Citation, ...]:
    """Citations in Gemini's grounding: each segment of the answer with each source, or only the sources."""
    chunks = [_chunk(chunk) for chunk in as_objects(grounding.get("groundingChunks"))]
    found: list[Citation] = []
    for support in as_objects(grounding.get("groundingSupports")):
        indices = support.get("groundingChunkIndices")
        numbers = map(_number, indices if is_array(indices) else ())
        sources = [chunks[number] for number in numbers if number is not None and number < len(chunks)]
        found += (_supported(source, as_object(support.get("segment")), content) for source in sources)
    return tuple(found or chunks)


def _chunk(chunk: Mapping[str, Any]) -> Citation:
    kind = next((key for key in ("web", "retrievedContext", "maps") if is_object(chunk.get(key))), "")
    return _citation(as_object(chunk.get(kind)))


def _supported(source: Citation, segment: Mapping[str, Any], content: str) -> Citation:
    data = content.encode()  # Gemini counts bytes

    def position(value: object) -> int | None:
        number = _number(value)
        return None if number is None else len(data[:number].decode(errors="ignore"))

    end = position(segment.get("endIndex"))
    start = position(segment.get("startIndex") or 0) if end is not None else None  # a start of 0 is omitted
    return replace(source, text=_text(segment.get("text")), start=start, end=end)


def of_converse(blocks: Sequence[Mapping[str, Any]]) -> tuple[Citation, ...]:
    """Citations in Bedrock's `{"citationsContent": {"citations": [...]}}`, with positions in the document."""
    found: list[Citation] = []
    for block in blocks:
        for note in as_objects(as_object(block.get("citationsContent")).get("citations")):
            quoted = [_text(part.get("text")) or "" for part in as_objects(note.get("sourceContent"))]
            location = as_object(note.get("location"))
            web, chars = as_object(location.get("web")), as_object(location.get("documentChar"))
            found.append(
                Citation(
                    text="".join(quoted) or None,
                    url=_text(web.get("url")),
                    title=_text(note.get("title")),
                    source=_text(note.get("source")) or _text(web.get("domain")),
                    start=_number(chars.get("start")),
                    end=_number(chars.get("end")),
                )
            )
    return tuple(found)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def within(citations: Sequence[Citation], text: str, part: str) -> tuple[Citation, ...]:
    """The citations of a text, with their positions in a part of it; None for those outside the part."""
    at = text.rfind(part)
    return tuple(_moved(one, at, len(part)) for one in citations)


def _moved(citation: Citation, at: int, size: int) -> Citation:
    if citation.start is None or citation.end is None:
        return citation
    start, end = citation.start - at, citation.end - at
    if at < 0 or start < 0 or end > size:
        return replace(citation, start=None, end=None)
    return replace(citation, start=start, end=end)
