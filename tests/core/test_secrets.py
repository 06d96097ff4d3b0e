"""Secrets that the process holds: found by value in every usual encoding, as long as somebody holds them."""

from __future__ import annotations

import ast
import gc
import json
import logging
import random
import string
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from threading import Thread
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretBytes, SecretStr

from tests.conftest import ROOT
from tests.draws import draws
from wesichain.core.internal import (
    SECRETS,
    SecretFilter,
    environment_secrets,
    mask_secrets,
    register_fields,
    register_named,
    register_recent,
    register_secret,
    register_url,
)
from wesichain.core.masking import LOGGERS
from wesichain.core.secrets import SecretIndex


class Owner:
    """Whoever holds a secret."""


CHANCE = random.Random(56)
LETTERS = string.ascii_letters + string.digits + "-_.+/=~!@#$%^&*()[]{}<>|:;,?'\"\\ é"
HELD = ["".join(CHANCE.choices(LETTERS, k=CHANCE.randrange(10, 60))).strip() for _ in range(100)]

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda value: b64encode(value.encode()).decode(),
    "base64 without padding": lambda value: b64encode(value.encode()).decode().rstrip("="),
    "base64 of URLs": lambda value: urlsafe_b64encode(value.encode()).decode(),
    "base64 of URLs without padding": lambda value: urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "base64 one byte on": lambda value: b64encode(f"x{value}yz".encode()).decode(),
    "base64 two bytes on": lambda value: urlsafe_b64encode(f"xy{value}z".encode()).decode(),
    "base64 in a URL": lambda value: quote(b64encode(value.encode()).decode(), safe=""),
    "percent": lambda value: quote(value, safe=""),
    "percent of a form": quote_plus,
    "percent throughout": lambda value: "".join(f"%{byte:02x}" for byte in value.encode()),
    "JSON": json.dumps,
    "JSON with escaped slashes": lambda value: json.dumps(value, ensure_ascii=False).replace("/", "\\/"),
    "JSON in JSON": lambda value: json.dumps({"a": json.dumps([value])}),
    "JSON throughout": lambda value: "".join(f"\\u{ord(letter):04x}" for letter in value),
    "hex": lambda value: value.encode().hex(),
    "hex in capitals": lambda value: value.encode().hex().upper(),
    "HTML": escape,
    "HTML by number": lambda value: "".join(f"&#{ord(letter)};" for letter in value),
    "HTML by hex": lambda value: "".join(f"&#x{ord(letter):x};" for letter in value),
    "invisible letters": "\u200b".join,
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_hundred_of_a_hundred_are_masked(encoding: str) -> None:
    owner, encode = Owner(), ENCODINGS[encoding]
    for value in HELD:
        register_secret(value, owner=owner)
    masked = [mask_secrets(f"before {encode(value)} after") for value in HELD]
    missed = [
        value
        for value, text in zip(HELD, masked, strict=True)
        if "[redacted:registered]" not in text or value in text or encode(value) in text
    ]
    assert missed == []
    assert all(text.startswith("before ") and text.endswith(" after") for text in masked)
    assert [mask_secrets(text) for text in masked] == masked


@draws(50)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=40).filter(
        lambda value: len(value.strip()) >= 8 and "redacted" not in value
    ),
    st.binary(max_size=5),
    st.binary(max_size=5),
)
def test_any_value_is_found_in_base64_at_any_offset(value: str, before: bytes, after: bytes) -> None:
    found = [*SecretIndex([value.strip()]).find(b64encode(before + value.strip().encode() + after).decode())]
    assert found


@pytest.mark.parametrize("size", [8, 9, 10, 11, 12, 20, 64])
def test_a_value_is_found_wherever_it_is(size: int) -> None:
    value = "".join(CHANCE.choices(string.ascii_letters, k=size))
    index = SecretIndex([value])
    for offset in range(20):
        text = "." * offset + value + "." * (20 - offset)
        assert [*index.find(text)] == [(offset, offset + size)]


def test_the_time_does_not_depend_on_the_number_of_secrets() -> None:
    text = "".join(CHANCE.choices(string.ascii_lowercase + " ", k=20_000))

    def seconds(count: int) -> float:
        index = SecretIndex("".join(CHANCE.choices(string.ascii_letters, k=32)) for _ in range(count))
        times: list[float] = []
        for _ in range(9):
            start = time.process_time()
            assert not [*index.find(text)]
            times.append(time.process_time() - start)
        return min(times)

    few, many = seconds(5), seconds(1000)
    assert many < 20 * few  # a search for each of them would take 200 times as long


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("1234567", id="seven-letters"),
        pytest.param("       1234567       ", id="blanks-around-it"),
        pytest.param("", id="empty"),
        pytest.param(None, id="none"),
        pytest.param(12345678, id="a-number"),
    ],
)
def test_what_is_not_a_secret_is_ignored(value: object) -> None:
    version = SECRETS.version
    register_secret(value)
    assert SECRETS.version == version


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(b"held-as-bytes-1", id="bytes"),
        pytest.param(SecretStr("held-as-bytes-1"), id="SecretStr"),
        pytest.param(SecretBytes(b"held-as-bytes-1"), id="SecretBytes"),
        pytest.param("  held-as-bytes-1\n", id="with-blanks"),
    ],
)
def test_each_kind_of_value(secret: object) -> None:
    owner = Owner()
    register_secret(secret, owner=owner)
    assert mask_secrets("a held-as-bytes-1 b") == "a [redacted:registered] b"


def test_a_secret_is_masked_as_long_as_one_owner_exists() -> None:
    one, two = Owner(), Owner()
    register_secret("held-by-two-owners", owner=one)
    register_secret("held-by-two-owners", owner=two)
    del one
    gc.collect()
    assert mask_secrets("held-by-two-owners") == "[redacted:registered]"
    del two
    gc.collect()
    assert mask_secrets("held-by-two-owners") == "held-by-two-owners"


def test_of_the_secrets_in_passing_the_last_thousand_are_masked() -> None:
    for number in range(1002):
        register_recent(f"passing-{number:04}")
    assert mask_secrets("passing-0001") == "passing-0001"
    assert mask_secrets("passing-0002 passing-1001") == "[redacted:registered] [redacted:registered]"


def test_what_is_in_a_placeholder_is_no_secret() -> None:
    owner = Owner()
    for value in ("redacted:secret", "secret] and more", "[redacted:"):
        register_secret(value, owner=owner)
    text = "a [redacted:secret] and more"
    assert mask_secrets(text) == text


def test_threads_that_register_release_and_mask() -> None:
    problems: list[str] = []

    def work(number: int) -> None:
        for round_ in range(40):
            owner = Owner()
            value = f"thread-{number}-{round_}-secret"
            register_secret(value, owner=owner)
            if value in mask_secrets(f"a {value} b"):
                problems.append(value)
            del owner

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert problems == []
    assert mask_secrets("thread-1-1-secret") == "thread-1-1-secret"


# --- where secrets come from -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        pytest.param("postgres://svc:pelican-quay@db:5432/x", "pelican-quay", id="password"),
        pytest.param("postgres://svc:pelican%40quay@db/x", "pelican@quay", id="an-encoded-password"),
        pytest.param("https://host/x?api_key=pelican-quay&page=12345678", "pelican-quay", id="query"),
        pytest.param("redis://:pelican-quay@cache", "pelican-quay", id="without-a-user"),
    ],
)
def test_the_secrets_of_a_url(url: str, masked: str) -> None:
    owner = Owner()
    register_url(url, owner=owner)
    assert mask_secrets(f"x {masked} 12345678") == "x [redacted:registered] 12345678"


@pytest.mark.parametrize(
    "url", [None, "", "http://[half", "sqlite:///runs.db", "https://host:8080/a-long-path"]
)
def test_a_url_without_secrets(url: str | None) -> None:
    version = SECRETS.version
    register_url(url)
    assert SECRETS.version == version


def test_the_secrets_of_headers() -> None:
    owner = Owner()
    headers = {
        "Authorization": "Basic " + b64encode(b"ann:pelican-quay").decode(),
        "X-Api-Key": "lantern-harbour",
        "Proxy-Authorization": "Bearer wharf-and-buoy",
        "Accept": "application/json",
        "API_TOKEN": "of-the-environment",
    }
    register_named(headers, owner=owner)
    text = "pelican-quay lantern-harbour wharf-and-buoy of-the-environment application/json YW5uOnBlbGljYW4tcXVheQ=="
    mask = "[redacted:registered]"
    assert mask_secrets(text) == f"{mask} {mask} {mask} {mask} application/json {mask}"


class Settings(BaseModel):
    key: SecretStr
    host: str = "db.internal"


@dataclass
class Deps:
    settings: Settings
    parts: list[Any] = field(default_factory=list)


def test_the_secret_fields_of_any_value() -> None:
    nested = {"a": (SecretStr("in-a-tuple-1"), {"b": SecretBytes(b"in-a-mapping")})}
    register_fields(Deps(Settings(key=SecretStr("in-a-model-1")), [nested, 5, None, "text-that-stays"]))
    mask = "[redacted:registered]"
    assert (
        mask_secrets("in-a-tuple-1 in-a-mapping in-a-model-1 text-that-stays db.internal")
        == f"{mask} {mask} {mask} text-that-stays db.internal"
    )


def test_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "canary-of-the-process")
    assert mask_secrets("a canary-of-the-process") == "a [redacted:environment]"
    assert environment_secrets() is environment_secrets()
    monkeypatch.setenv("CANARY_TOKEN", "another-of-the-process")
    assert mask_secrets("another-of-the-process") == "[redacted:environment]"
    monkeypatch.delenv("CANARY_TOKEN")
    assert mask_secrets("another-of-the-process") == "another-of-the-process"


# --- logs -------------------------------------------------------------------------------------------


def test_records_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner()
    register_secret("held-by-a-client", owner=owner)
    log = logging.getLogger("wesichain.tools")
    log.warning("the key %s of %d failed", "held-by-a-client", 5)
    try:
        raise ConnectionError("401 for " + b64encode(b"held-by-a-client").decode())
    except ConnectionError:
        log.exception("it failed")
    log.warning("nothing in %s", "particular")
    assert "held-by-a-client" not in caplog.text
    assert b64encode(b"held-by-a-client").decode() not in caplog.text
    assert "the key [redacted:registered] of 5 failed" in caplog.text
    assert "ConnectionError: 401 for [redacted:registered]" in caplog.text
    assert "nothing in particular" in caplog.text
    assert caplog.records[-1].args == ("particular",)


def test_a_record_that_cannot_be_written_is_left_to_its_handler() -> None:
    record = logging.makeLogRecord({"msg": "%d", "args": ("no number",)})
    assert SecretFilter().filter(record)
    assert record.args == ("no number",)


def test_a_handler_of_ones_own_may_mask_too() -> None:
    owner = Owner()
    register_secret("held-by-a-client", owner=owner)
    record = logging.makeLogRecord({"msg": "%s", "args": ("held-by-a-client",)})
    assert SecretFilter().filter(record)
    assert record.getMessage() == "[redacted:registered]"


def test_every_logger_of_ours_masks() -> None:
    named = {
        node.args[0].value
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "logging.getLogger"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert named <= {*LOGGERS, "mcp.client.streamable_http"}
    assert all(
        any(isinstance(each, SecretFilter) for each in logging.getLogger(name).filters) for name in LOGGERS
    )
