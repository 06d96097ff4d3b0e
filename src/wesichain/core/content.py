"""Content: the parts of a message (text, images, documents, audio), and how media types are detected."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeAlias, cast

from wesichain.errors import CodecError

from .values import Value, force_setattr


class BlobWriter(Protocol):
    """Stores the bytes of parts once, by their hash."""

    def put(self, data: bytes) -> str:
        """Store the bytes and return their hash, 64 hexadecimal digits."""
        ...


class BlobReader(Protocol):
    """Finds the bytes of parts by their hash."""

    def get(self, digest: str) -> bytes | None:
        """The bytes with this hash; None if they are not here."""
        ...


class Text(Value):
    """A part that is text."""

    kind: ClassVar[str] = "text"
    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts pass anything
            raise CodecError(f"a Text holds {_named(self.text)}; give it a str")


class MediaFlag:
    """Whether this process has created a part other than text; until then requests need no check for one."""

    __slots__ = ("any",)

    def __init__(self) -> None:
        self.any = False


made = MediaFlag()


class _Media:
    """The base of parts with bytes: their hash, their label, and their form as JSON."""

    __slots__ = ()
    kind: ClassVar[str]
    data: bytes | None
    url: str | None
    media_type: str

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, also if they are stored elsewhere; "" for a part with an address."""
        if self.data is not None:
            from hashlib import sha256

            return sha256(self.data).hexdigest()
        url = self.url or ""
        return url.removeprefix(KEPT) if url.startswith(KEPT) else ""

    @property
    def base64(self) -> str:
        """The bytes as base64, as most providers expect them; "" for a part without bytes."""
        return b2a_base64(self.data or b"", newline=False).decode("ascii")

    @property
    def label(self) -> str:
        """A short description for a line of text: the kind, and the size or the address."""
        name = f" {shown!r}" if (shown := getattr(self, "name", "")) else ""
        what = f"{self.kind}{name}" + (f" ({self.media_type}" if self.media_type else " (")
        if self.data is not None:
            return f"{what}, {len(self.data):,} bytes)"
        where = f"sha256 {self.digest:.12}" if self.digest else (self.url or "").partition("?")[0][:200]
        return f"{what}, {where})" if self.media_type else f"{what}{where})"

    def to_plain(self) -> Mapping[str, Any]:
        """The part as JSON data, with its bytes as base64 (`to_plain_with_blobs` stores them separately)."""
        data = {} if self.data is None else {"data": self.base64}
        return {**self._head(), **data, **self._tail()}

    def to_plain_with_blobs(self, blobs: BlobWriter) -> Mapping[str, Any]:
        """The part as JSON data that names the hash of its bytes, which are stored in `blobs`."""
        if self.data is None:
            return self.to_plain()
        return {**self._head(), "url": KEPT + blobs.put(self.data), **self._tail()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        return cls.from_plain_with_blobs(plain, None)

    @classmethod
    def from_plain_with_blobs(cls, plain: Mapping[str, Any], blobs: BlobReader | None) -> Self:
        """Read a part. Bytes stored separately come from `blobs`; if they are missing, the hash stays."""
        fields: dict[str, Any] = dict(plain)
        if fields.pop("kind", cls.kind) != cls.kind:
            raise CodecError(f"the part is a {plain['kind']!r}, not a {cls.kind!r}")
        unknown = fields.keys() - {"data", "url", "media_type", "name"}
        if unknown:
            raise CodecError(
                f"{cls.kind}: only the fields data, url, media_type, name; got {sorted(unknown)}"
            )
        if (data := fields.get("data")) is not None:
            try:
                fields["data"] = a2b_base64(data, strict_mode=True)
            except (ValueError, TypeError):
                raise CodecError(f"{cls.kind}.data: expected bytes as base64") from None
        url = fields.get("url")
        if blobs is not None and isinstance(url, str) and url.startswith(KEPT):
            found = blobs.get(url.removeprefix(KEPT))
            if found is not None:
                del fields["url"]
                fields["data"] = found
        try:
            return cls(**fields)
        except TypeError:
            raise CodecError(f"{cls.kind}: the fields {', '.join(fields)} do not make one") from None

    def _head(self) -> dict[str, Any]:
        url = {} if self.url is None else {"url": self.url}
        return {"kind": self.kind, "media_type": self.media_type, **url}

    def _tail(self) -> dict[str, Any]:
        name = getattr(self, "name", "")
        return {"name": name} if name else {}

    def _check(self, family: str, default: str) -> None:
        """Refuse a part that could not be sent to any model, and detect the media type if it is not given."""
        made.any = True
        if (self.data is None) == (self.url is None):
            raise CodecError(
                f"a part of kind {self.kind!r} has either data= or url=; give exactly one of them"
            )
        given: Any = self.data  # callers may ignore the annotation
        if given is not None and type(given) is not bytes:
            if not isinstance(given, bytes | bytearray | memoryview):
                raise CodecError(f"{self.kind}.data is {_named(given)}; read the file as bytes")
            force_setattr(self, "data", bytes(cast("bytes", given)))
        if self.data is not None and not self.data:
            raise CodecError(f"{self.kind}.data is empty; a part needs content")
        if self.url is not None and not is_address(self.url):
            raise CodecError(
                f"{self.kind}.url is {str(self.url)[:60]!r}; give an http(s) address, or the bytes as data="
            )
        if not self.media_type:
            force_setattr(self, "media_type", self._guess(default))
        major, slash, minor = self.media_type.partition("/")
        if not (major and slash and minor) and self.media_type:
            raise CodecError(f"{self.kind}.media_type is {self.media_type!r}; write it like 'image/png'")
        if family and self.media_type and major != family:
            raise CodecError(
                f"{self.kind}.media_type is {self.media_type!r}, which is no {family}; "
                f"use Image, Audio or Document for what it is"
            )

    def _guess(self, default: str) -> str:
        if self.data is None:
            return media_type_at(self.url or "")
        found = media_type_of(self.data) or default
        if not found:
            raise CodecError(
                f"the type of this {self.kind} cannot be detected from its bytes; give it as media_type="
            )
        return found


class Image(Value, _Media):
    """An image: its bytes, or an address from which the model's provider fetches it.

    Without a `media_type` it is detected from the bytes (PNG, JPEG, GIF, WebP).
    """

    kind: ClassVar[str] = "image"
    data: bytes | None = None
    url: str | None = None
    media_type: str = ""

    def __post_init__(self) -> None:
        self._check("image", "")


class Document(Value, _Media):
    """A document: PDF, text, or any type that the model accepts. Its file `name` is sent to the model."""

    kind: ClassVar[str] = "document"
    data: bytes | None = None
    url: str | None = None
    media_type: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        self._check("", "text/plain" if self.data is not None and is_text(self.data) else "")


class Audio(Value, _Media):
    """Audio data. Without a `media_type` it is detected from the bytes (WAV, MP3, FLAC, Ogg)."""

    kind: ClassVar[str] = "audio"
    data: bytes | None = None
    media_type: str = ""
    url: str | None = None  # only for bytes that are stored separately: providers take audio as bytes

    def __post_init__(self) -> None:
        if self.url is not None and not self.url.startswith(KEPT):
            raise CodecError("a part of kind 'audio' has no url; read the sound and give its bytes as data=")
        self._check("audio", "")


Part: TypeAlias = Text | Image | Document | Audio
Media: TypeAlias = Image | Document | Audio
Content: TypeAlias = str | tuple[Part, ...]

PARTS = (Text, Image, Document, Audio)
MEDIA = (Image, Document, Audio)


def parts_of(content: str | Part | Sequence[str | Part]) -> tuple[Part, ...]:
    """Content as a tuple of parts: strings become `Text`; other objects raise `CodecError`."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, PARTS):
        return (content,)
    given: Any = content  # callers may ignore the annotation
    if not isinstance(given, list | tuple):
        raise CodecError(f"content is {_named(given)}; give a text, or a sequence of texts and parts")
    return tuple(map(_part, cast("Sequence[object]", given)))


def _part(item: object) -> Part:
    if isinstance(item, PARTS):
        return item
    if isinstance(item, str):
        return Text(item)
    hint = "; wrap bytes in Image, Document or Audio" if isinstance(item, bytes) else ""
    given: Any = item
    if hasattr(given, "role") or (isinstance(given, dict) and "role" in given):
        hint = "; a task is the new message alone, earlier ones are history=[Message(Role.USER, ...), ...]"
    raise CodecError(f"content holds {_named(item)}, which is neither a text nor a part{hint}")


def described(parts: Sequence[Part]) -> str:
    """Parts as text for steps and logs: texts unchanged, and a short label for each other part."""
    return "\n".join(part.text if isinstance(part, Text) else f"[{part.label}]" for part in parts)


def text_of_parts(parts: Sequence[Part]) -> str:
    """The texts of the parts, one per line; other parts are left out."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def content_as_text(content: Content) -> str:
    """Content for a model that reads only text, with a line in brackets for each part that was left out."""
    if isinstance(content, str):
        return content
    return "\n".join(
        part.text if isinstance(part, Text) else omitted_line(part, "this model reads text alone")
        for part in content
    )


def omitted_line(part: Media, why: str) -> str:
    """The line that a model receives in place of a part that it does not support."""
    return f"[left out: {part.label}; {why}]"


def _named(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


KEPT = "sha256:"  # a url with this prefix is the hash of bytes that are stored separately


def media_type_of(data: bytes) -> str:
    """The media type detected from the first bytes; "" if they are not recognised."""
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
    """The media type for the file extension of an address; "" if it has no known one."""
    return _BY_SUFFIX.get(url.partition("?")[0].rpartition(".")[2].lower(), "")


def is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8 text."""
    if b"\x00" in data[:4096]:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def is_address(url: object) -> bool:
    """Whether a provider can fetch from this address, or it is the hash of stored bytes."""
    if not isinstance(url, str):
        return False
    if url.startswith(KEPT):
        digest = url.removeprefix(KEPT)
        return len(digest) == 64 and set(digest) <= set("0123456789abcdef")
    return url.startswith(("https://", "http://", "gs://", "s3://")) and not any(c.isspace() for c in url)
