"""Media types, as bytes and addresses show them."""

from __future__ import annotations

from collections.abc import Sequence

KEPT = "sha256:"  # a url that begins so names bytes that are kept beside the text, by their hash


def media_type_of(data: bytes) -> str:
    """The media type that bytes show by their beginning; "" where they show none."""
    for start, found in _BY_BYTES:
        if data.startswith(start):
            return found
    if data[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], "")
    if data[4:8] == b"ftyp":
        return {b"avif": "image/avif", b"heic": "image/heic", b"M4A ": "audio/mp4"}.get(data[8:12], "")
    if len(data) > 1 and data[0] == 0xFF and data[1] & 0xE6 == 0xE2:  # a frame of MPEG layer 3
        return "audio/mpeg"
    return ""


_BY_BYTES: Sequence[tuple[bytes, str]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
)
_BY_SUFFIX = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
}


def media_type_at(url: str) -> str:
    """The media type that an address shows by its ending; "" where it shows none."""
    return _BY_SUFFIX.get(url.partition("?")[0].rpartition(".")[2].lower(), "")


def is_text(data: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    if b"\x00" in data[:4096]:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_address(url: object) -> bool:
    """Whether a provider could fetch from here, or bytes are kept under this hash."""
    if not isinstance(url, str):
        return False
    if url.startswith(KEPT):
        digest = url.removeprefix(KEPT)
        return len(digest) == 64 and set(digest) <= set("0123456789abcdef")
    return url.startswith(("https://", "http://", "gs://", "s3://")) and not any(c.isspace() for c in url)
