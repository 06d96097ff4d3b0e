"""Parts of a message: what makes one, how it is written, and where its bytes are kept."""

from __future__ import annotations

import json
import pickle
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given

from tests.core import values
from tests.draws import draws
from wesichain.core import Audio, Document, Image, Message, Role, Text, Usage, from_json, to_json
from wesichain.core.internal import (
    content_as_text,
    described,
    fit_message,
    media_type_of,
    parts_of,
)
from wesichain.errors import CodecError
from wesichain.llm import LlmTraits

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 8


def ANY(value: Any) -> Any:
    """A value of a type that the checkers would refuse."""
    return value


class Kept:
    """Bytes by their hash, in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        digest = sha256(data).hexdigest()
        self.held[digest] = data
        return digest

    def get(self, digest: str) -> bytes | None:
        return self.held.get(digest)


class TestAPart:
    @pytest.mark.parametrize(
        ("data", "media_type"),
        [
            pytest.param(PNG, "image/png", id="png"),
            pytest.param(b"\xff\xd8\xff\xe0rest", "image/jpeg", id="jpeg"),
            pytest.param(b"GIF89a...", "image/gif", id="gif"),
            pytest.param(b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp", id="webp"),
            pytest.param(b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav", id="wav"),
            pytest.param(b"RIFF\x00\x00\x00\x00AVI ", "", id="another-riff"),
            pytest.param(b"\x00\x00\x00\x1cftypheic", "image/heic", id="heic"),
            pytest.param(b"\x00\x00\x00\x1cftypM4A ", "audio/mp4", id="m4a"),
            pytest.param(b"\x00\x00\x00\x1cftypqt  ", "", id="another-of-its-kind"),
            pytest.param(b"ID3\x03", "audio/mpeg", id="mp3-with-a-tag"),
            pytest.param(b"\xff\xfb\x90\x00", "audio/mpeg", id="mp3-without"),
            pytest.param(b"%PDF-1.7", "application/pdf", id="pdf"),
            pytest.param(b"hello", "", id="text-shows-nothing"),
            pytest.param(b"", "", id="nothing"),
        ],
    )
    def test_bytes_show_their_type(self, data: bytes, media_type: str) -> None:
        assert media_type_of(data) == media_type

    def test_the_type_is_found_where_it_is_not_said(self) -> None:
        assert Image(PNG).media_type == "image/png"
        assert Image(url="https://example.org/cat.JPG?size=1").media_type == "image/jpeg"
        assert Image(url="https://example.org/cat").media_type == ""
        assert Document(b"%PDF-1.7").media_type == "application/pdf"
        assert Document("grün".encode()).media_type == "text/plain"
        assert Document(b"a" * 4096 + b"\x00").media_type == "text/plain", "only the first 4 KiB are searched"
        assert Audio(b"fLaC").media_type == "audio/flac"

    @pytest.mark.parametrize(
        ("make", "complaint"),
        [
            pytest.param(lambda: Image(), "exactly one", id="neither"),
            pytest.param(lambda: Image(PNG, url="https://a.b/c.png"), "exactly one", id="both"),
            pytest.param(lambda: Image(b""), "empty", id="no-bytes"),
            pytest.param(lambda: Image(ANY("cat.png")), "read the file as bytes", id="a-path"),
            pytest.param(lambda: Image(url="cat.png"), "http(s) address", id="a-path-as-address"),
            pytest.param(lambda: Image(url=ANY(5)), "http(s) address", id="a-number-as-address"),
            pytest.param(lambda: from_json(Image, '{"kind":"audio","data":"AAAA"}'), "not a 'image'", id="another-kind"),
            pytest.param(lambda: Image(url="data:image/png;base64,AA"), "data=", id="a-data-url"),
            pytest.param(lambda: Image(b"abc"), "media_type=", id="unknown-bytes"),
            pytest.param(lambda: Image(PNG, media_type="png"), "'image/png'", id="half-a-type"),
            pytest.param(lambda: Image(b"%PDF-1.7"), "no image", id="a-pdf-is-no-image"),
            pytest.param(lambda: Audio(PNG), "no audio", id="a-picture-is-no-sound"),
            pytest.param(lambda: Audio(b"ID3", url="https://a.b/c.mp3"), "no url", id="sound-has-no-address"),
            pytest.param(lambda: Document(b"\x00\x01"), "media_type=", id="unknown-document"),
            pytest.param(lambda: Document(b"a" * 4095 + b"\x00"), "media_type=", id="a-zero-byte-in-its-start"),
            pytest.param(lambda: Text(ANY(5)), "give it a str", id="a-number-as-text"),
            pytest.param(lambda: Message(Role.USER, ANY([PNG])), "wrap bytes", id="bare-bytes"),
            pytest.param(lambda: Message(Role.USER, ANY({"type": "text"})), "content is dict", id="a-mapping"),
            pytest.param(lambda: Message(Role.USER, ANY(None)), "content is None", id="none"),
        ],
    )  # fmt: skip
    def test_what_no_model_could_be_sent_is_refused(self, make: Any, complaint: str) -> None:
        with pytest.raises(CodecError) as caught:
            make()
        assert complaint in str(caught.value)

    def test_it_compares_by_value_and_travels(self) -> None:
        assert Image(PNG) == Image(bytearray(PNG), media_type="image/png")  # type: ignore[arg-type]  # as a host may
        assert hash(Image(PNG)) == hash(Image(PNG))
        assert pickle.loads(pickle.dumps(Image(PNG))) == Image(PNG)


class TestAMessage:
    def test_text_stays_the_text_that_it_is(self) -> None:
        text = "as it is"
        assert Message(Role.USER, text).content is text
        assert Message(Role.USER, text).text is text
        assert to_json(Message(Role.USER, text)) == '{"role":"user","content":"as it is"}'

    def test_parts_may_be_given_as_a_list_of_texts_and_parts(self) -> None:
        message = Message(Role.USER, ["What is", Image(PNG), "this?"])  # type: ignore[arg-type]  # kept as a tuple
        assert message.content == (Text("What is"), Image(PNG), Text("this?"))
        assert message.text == "What is\nthis?"
        assert Message(Role.USER, Image(PNG)).content == (Image(PNG),)  # type: ignore[arg-type]  # likewise

    @draws(15)
    @given(values.message)
    def test_the_text_is_the_texts_alone(self, message: Message) -> None:
        texts = [part.text for part in parts_of(message.content) if isinstance(part, Text)]
        assert message.text == "\n".join(texts)

    @draws(15)
    @given(values.message)
    def test_bytes_are_kept_once_and_come_back(self, message: Message) -> None:
        kept = Kept()
        text = to_json((message, message), blobs=kept)
        media = [part for part in parts_of(message.content) if not isinstance(part, Text) and part.data]
        assert len(kept.held) == len({part.data for part in media})
        written = json.loads(text)[0]["content"]
        assert isinstance(written, str) or not any("data" in part for part in written)
        assert from_json(tuple[Message, ...], text, blobs=kept) == (message, message)

    def test_bytes_that_are_lost_leave_their_hash(self) -> None:
        message = Message(Role.USER, (Image(PNG), Audio(b"ID3")))
        text = to_json(message, blobs=Kept())
        lost = from_json(Message, text)
        assert [part.digest for part in lost.content] == [part.digest for part in message.content]  # type: ignore[union-attr]  # parts
        assert to_json(lost) == text

    @pytest.mark.parametrize(
        "part",
        [
            '{"kind":"image","data":"not base64!","media_type":"image/png"}',
            '{"kind":"image","data":"AAAA","media_type":"image/png","alt":"x"}',
            '{"kind":"image","media_type":"image/png"}',
            '{"kind":"video","data":"AAAA"}',
            '{"kind":"audio","data":"SUQz","name":"x"}',
            '{"data":"AAAA"}',
            '"text"',
            '{"kind":"image","url":"sha256:../../etc/passwd"}',
        ],
    )
    def test_hostile_parts_are_refused(self, part: str) -> None:
        with pytest.raises(CodecError):
            from_json(Message, f'{{"role":"user","content":[{part}]}}')


class TestWhatAModelCannotTake:
    def test_it_is_said_and_not_dropped(self) -> None:
        message = Message(Role.USER, ("Look:", Image(PNG), Document(b"%PDF-1.7", name="plan.pdf")))  # type: ignore[arg-type]  # a str among parts
        fitted, omitted = fit_message(message, LlmTraits(images=True))
        assert fitted.content == (Text("Look:"), Image(PNG), Text(omitted[0]))
        assert omitted == (
            "[left out: document 'plan.pdf' (application/pdf, 8 bytes); this model takes no document]",
        )

    def test_text_and_what_it_takes_stay_the_same_object(self) -> None:
        text, picture = Message(Role.USER, "hi"), Message(Role.USER, (Image(PNG),))
        assert fit_message(text, LlmTraits()) == (text, ())
        assert fit_message(picture, LlmTraits(images=True))[0] is picture

    def test_a_model_of_text_reads_a_line(self) -> None:
        told = content_as_text((Text("a"), Image(url="https://example.org/x.png?token=secret")))
        assert told == (
            "a\n[left out: image (image/png, https://example.org/x.png); this model reads text alone]"
        )


class TestAResult:
    def test_it_is_told_in_words(self) -> None:
        assert described((Text("seen"), Image(PNG))) == "seen\n[image (image/png, 16 bytes)]"


class TestUsage:
    @pytest.mark.parametrize("count", [-1, 1.5, "3", None, True])
    def test_a_count_that_is_none_is_refused(self, count: Any) -> None:
        with pytest.raises(CodecError, match="whole numbers from 0 up"):
            Usage(0, 0, count)

    @given(values.usage, values.usage)
    def test_usages_add_up_field_by_field(self, one: Usage, other: Usage) -> None:
        both = one + other
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_tokens",
            "cache_write_tokens",
            "reasoning_tokens",
        ):
            assert getattr(both, name) == getattr(one, name) + getattr(other, name)

    def test_a_plain_one_is_written_as_before(self) -> None:
        assert to_json(Usage(3, 4)) == '{"input_tokens":3,"output_tokens":4}'
