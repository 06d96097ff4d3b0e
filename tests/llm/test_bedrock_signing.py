"""Requests to Bedrock are signed: every one is held against botocore's own signer, on the server's side."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # it ships no types
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # likewise
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # likewise

from tests.llm.wire_corpus import collect
from tests.llm.wires import BedrockWire
from wesichain.core import LlmRequest, Message, Role
from wesichain.errors import ConfigError
from wesichain.testing import Answer, ProviderReply

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "session-token-of-a-role"
REGION = "eu-central-1"
HELLO = LlmRequest("m", (Message(Role.USER, "h\u00ef \U0001f600"),))
Sent = tuple[str, Mapping[str, str], bytes]


def refusal(url: str, sent: Sent, *, secret: str = SECRET) -> str:
    """Why Amazon would not take the request; "" if it would."""
    path, headers, body = sent
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme != "AWS4-HMAC-SHA256":
        return f"not signed, but {scheme!r}"
    fields = dict(field.strip().split("=", 1) for field in rest.split(","))
    key, day, region, service, _ = fields["Credential"].split("/")
    names = fields["SignedHeaders"].split(";")
    if (key, region, service) != (KEY, REGION, "bedrock"):
        return f"signed for {fields['Credential']}"
    if not {"host", "x-amz-date"} <= set(names):
        return f"the signature leaves out what it must hold: {names}"
    request = AWSRequest(
        method="POST", url=url + path, data=body, headers={name: headers[name] for name in names}
    )
    at = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%S%z")
    age = datetime.datetime.now(datetime.UTC) - at
    if abs(age) > datetime.timedelta(minutes=5) or not headers["x-amz-date"].startswith(day):
        return f"signed at {at}"
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials(KEY, secret, headers.get("x-amz-security-token")), "bedrock", REGION)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    return "" if signer.signature(text, request) == fields["Signature"] else "the signature is another"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


async def _asked(*, stream: bool = False, **settings: Any) -> tuple[str, Sent]:
    wire = BedrockWire()
    async with wire.serve(Answer(200, wire.write(ProviderReply("hello"), stream=stream), {})) as server:
        async with wire.client(server.url, **settings) as llm:
            reply = await (collect(llm, HELLO) if stream else llm.complete(HELLO))
            assert reply.content == "hello"
        return server.url, server.requests[0]


@pytest.mark.parametrize("stream", [False, True], ids=["asked", "streamed"])
async def test_whatever_is_sent_is_signed(stream: bool) -> None:
    """Headers of one's own and words that are not ASCII among it."""
    assert refusal(*await _asked(stream=stream, region=REGION, headers={"x-team": "blue"})) == ""


async def test_the_check_finds_what_is_not_as_it_was_signed() -> None:
    url, (path, headers, body) = await _asked(region=REGION)
    assert refusal(url, (path, headers, body)) == ""
    assert "another" in refusal(url, (path, headers, body + b" "))
    assert "another" in refusal(url, (path.replace("converse", "invoke"), headers, body))
    assert "another" in refusal(url, (path, headers, body), secret="not the secret")
    assert SECRET not in str(headers)


async def test_the_token_of_a_role_is_sent_and_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    url, sent = await _asked(region=REGION)
    assert sent[1]["x-amz-security-token"] == TOKEN
    assert "x-amz-security-token" in sent[1]["authorization"]
    assert refusal(url, sent) == ""


async def test_a_profile_gives_its_own_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = f"[team]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "credentials").write_text(lines)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    url, sent = await _asked(region=REGION, profile="team")
    assert refusal(url, sent) == ""


async def test_an_address_of_ones_own_gets_nothing_signed_unasked() -> None:
    _, sent = await _asked()
    assert KEY not in str(sent[1])
    assert "AWS4" not in str(sent[1])


async def test_no_credentials_are_a_mistake_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(ConfigError, match=r"no AWS credentials.*AWS_ACCESS_KEY_ID"):
        await _asked(region=REGION)
    with pytest.raises(ConfigError, match=r"profile.*nobodys.*could not be found"):
        await _asked(region=REGION, profile="nobodys")
