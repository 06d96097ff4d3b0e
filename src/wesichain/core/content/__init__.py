"""Content: the parts of a message that is more than text."""

from .media import KEPT, media_type_of
from .parts import (
    MEDIA,
    Audio,
    BlobReader,
    Blobs,
    BlobWriter,
    Content,
    Document,
    Image,
    Media,
    Part,
    Text,
    described,
    omitted_line,
    parts_of,
    result_parts,
    text_of_content,
    told_content,
)

__all__ = [
    "KEPT",
    "MEDIA",
    "Audio",
    "BlobReader",
    "BlobWriter",
    "Blobs",
    "Content",
    "Document",
    "Image",
    "Media",
    "Part",
    "Text",
    "described",
    "media_type_of",
    "omitted_line",
    "parts_of",
    "result_parts",
    "text_of_content",
    "told_content",
]
