"""Content: what a message holds besides text: pictures, documents, sound; and how a kind of media shows."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeAlias, cast

from wesichain.errors import CodecError

from .values import Value, force_setattr


class BlobWriter(Protocol):
    """Keeps the bytes of parts once, by their hash."""

    def put(self, data: bytes) -> str:
        """Keep the bytes; their hash, as 64 hexadecimal digits."""
        ...


class BlobReader(Protocol):
    """Finds the bytes of parts by their hash."""

    def get(self, digest: str) -> bytes | None:
        """The bytes with this hash; None if they are not here."""
        ...


class Text(Value):
    """A text among other parts."""

    kind: ClassVar[str] = "text"
    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # hosts pass anything
            raise CodecError(f"a Text holds {_named(self.text)}; give it a str")


class MediaFlag:
    """Whether this process has made a part that is no text: until then, nobody has to look for one."""

    __slots__ = ("any",)

    def __init__(self) -> None:
        self.any = False


made = MediaFlag()


class _Media:
    """The base of parts with bytes: where the bytes are, how they are written, how they are named."""

    __slots__ = ()
    kind: ClassVar[str]
    data: bytes | None
    url: str | None
    media_type: str

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes, also of those that are kept elsewhere; "" of a part with an address."""
        if self.data is not None:
            from hashlib import sha256

            return sha256(self.data).hexdigest()
        url = self.url or ""
        return url.removeprefix(KEPT) if url.startswith(KEPT) else ""

    @property
    def base64(self) -> str:
        """The bytes as base64, as most providers want them; "" of a part without bytes."""
        return b2a_base64(self.data or b"", newline=False).decode("ascii")

    @property
    def label(self) -> str:
        """The part in a few words, for a line of text: what it is, and how large, or where."""
        name = f" {shown!r}" if (shown := getattr(self, "name", "")) else ""
        what = f"{self.kind}{name}" + (f" ({self.media_type}" if self.media_type else " (")
        if self.data is not None:
            return f"{what}, {len(self.data):,} bytes)"
        where = f"sha256 {self.digest:.12}" if self.digest else (self.url or "").partition("?")[0][:200]
        return f"{what}, {where})" if self.media_type else f"{what}{where})"

    def to_plain(self) -> Mapping[str, Any]:
        """As JSON: bytes as base64. Stores that keep bytes apart write `to_plain_with_blobs` instead."""
        data = {} if self.data is None else {"data": self.base64}
        return {**self._head(), **data, **self._tail()}

    def to_plain_with_blobs(self, blobs: BlobWriter) -> Mapping[str, Any]:
        """As JSON whose bytes are kept in `blobs`: the text names their hash."""
        if self.data is None:
            return self.to_plain()
        return {**self._head(), "url": KEPT + blobs.put(self.data), **self._tail()}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        return cls.from_plain_with_blobs(plain, None)

    @classmethod
    def from_plain_with_blobs(cls, plain: Mapping[str, Any], blobs: BlobReader | None) -> Self:
        """Read a part. Bytes that are kept apart come from `blobs`; if they are not there, the hash stays."""
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
        """Refuse what no model could be sent, and find the media type where it is not said."""
        made.any = True
        if (self.data is None) == (self.url is None):
            raise CodecError(
                f"a part of kind {self.kind!r} has either data= or url=; give exactly one of them"
            )
        given: Any = self.data  # whatever the annotation says
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
                f"the bytes of this {self.kind} are of no type known here; say it with media_type="
            )
        return found


class Image(Value, _Media):
    """A picture: its bytes, or the address where the model's provider finds it.

    `media_type` is found from the bytes (PNG, JPEG, GIF, WebP) where it is not given.
    """

    kind: ClassVar[str] = "image"
    data: bytes | None = None
    url: str | None = None
    media_type: str = ""

    def __post_init__(self) -> None:
        self._check("image", "")


class Document(Value, _Media):
    """A document: PDF, text, or any type that the model takes. Its file `name` is sent to the model."""

    kind: ClassVar[str] = "document"
    data: bytes | None = None
    url: str | None = None
    media_type: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        self._check("", "text/plain" if self.data is not None and is_text(self.data) else "")


class Audio(Value, _Media):
    """A sound. Without a `media_type` it is detected from the bytes (WAV, MP3, FLAC, Ogg)."""

    kind: ClassVar[str] = "audio"
    data: bytes | None = None
    media_type: str = ""
    url: str | None = None  # of bytes that are kept elsewhere alone: providers take sound as bytes

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
    """Content as parts: texts become `Text`. What is no part is a `CodecError`."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if isinstance(content, PARTS):
        return (content,)
    given: Any = content  # whatever the annotation says
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
    """Parts in words, as steps and logs tell them: texts as they are, and a short label for anything else."""
    return "\n".join(part.text if isinstance(part, Text) else f"[{part.label}]" for part in parts)


def text_of_content(content: Content) -> str:
    """The text alone: the texts among the parts, a line each."""
    if isinstance(content, str):
        return content
    return "\n".join(part.text for part in content if isinstance(part, Text))


def content_as_text(content: Content) -> str:
    """Content for a model that reads text alone: a line in brackets for each part that was left out."""
    if isinstance(content, str):
        return content
    return "\n".join(
        part.text if isinstance(part, Text) else omitted_line(part, "this model reads text alone")
        for part in content
    )


def omitted_line(part: Media, why: str) -> str:
    """The line that a model reads in the place of a part that it cannot take."""
    return f"[left out: {part.label}; {why}]"


def _named(value: object) -> str:
    return "None" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


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
