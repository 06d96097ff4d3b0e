"""Keys: each goes to its own host, and into no text."""

from __future__ import annotations

import gc
import traceback
from base64 import b64encode
from types import SimpleNamespace
from typing import Any

import pytest

from tests.draws import sampled
from tests.llm.provider_kit import ANTHROPIC, KEY, OPENAI, REQUEST, Provider, each_provider, each_way, fault
from tests.llm.toxic_server import ToxicServer, reply
from wesichain.core.internal import mask_secrets
from wesichain.errors import ConfigError, LlmRejectedError
from wesichain.llm.local import LocalLlm
from wesichain.llm.transport.keys import KeyAccount, key_function


@each_provider
@each_way
async def test_the_key_is_in_no_error_text(provider: Provider, how: str) -> None:
    echo = f'{{"error": {{"message": "the key {KEY} is wrong"}}}}'
    async with ToxicServer(reply(401, echo)) as server, provider.client(server.url) as client:
        error = await fault(client, how)
    assert "the key [redacted:registered] is wrong" in str(error)
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


@each_provider
@each_way
@pytest.mark.sampled
@pytest.mark.parametrize("status", sampled([301, 302, 307, 308], 1))
async def test_a_redirect_is_not_followed_with_the_key(provider: Provider, how: str, status: int) -> None:
    async with ToxicServer(reply(200, provider.good(how))) as thief:
        elsewhere = {"location": thief.url + "/v1/chat/completions"}
        async with ToxicServer(reply(status, "", elsewhere)) as server, provider.client(server.url) as client:
            error = await fault(client, how)
    assert isinstance(error, LlmRejectedError)
    assert "redirects are not followed" in str(error)
    assert KEY in str(server.received[0].headers)
    assert thief.received == []


@each_provider
@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", f"{KEY}é", f"{KEY}\0"])
async def test_a_key_that_no_header_can_carry_is_a_config_error(provider: Provider, key: str) -> None:
    with pytest.raises(ConfigError, match="copy it again") as caught:
        await provider.client("http://127.0.0.1:9", api_key=key).complete(REQUEST)
    assert KEY not in str(caught.value)


HOME = KeyAccount(url="https://api.example.com/v1", url_variable="EXAMPLE_URL", key_variable="EXAMPLE_KEY")
PROXY = {"EXAMPLE_URL": "https://proxy.example.net", "EXAMPLE_KEY": "env"}


@pytest.mark.parametrize(
    ("environment", "base_url", "api_key", "expected"),
    [
        pytest.param({"EXAMPLE_KEY": "env"}, None, None, "env", id="the-environment-at-home"),
        pytest.param({"EXAMPLE_KEY": "env"}, None, "own", "own", id="an-explicit-key-wins"),
        pytest.param({"EXAMPLE_KEY": "env\n"}, None, None, "env", id="a-line-end-is-not-of-the-key"),
        pytest.param({}, "http://localhost:8000/v1", None, None, id="none-is-needed-elsewhere"),
        pytest.param(
            {"EXAMPLE_KEY": "env"}, "http://localhost:8000/v1", None, None, id="never-sent-elsewhere"
        ),
        pytest.param({"EXAMPLE_KEY": "env"}, "http://api.example.com/v1", None, None, id="nor-in-the-clear"),
        pytest.param(
            {"EXAMPLE_KEY": "env"}, "https://api.example.com:444", None, None, id="nor-to-another-port"
        ),
        pytest.param(
            {"EXAMPLE_KEY": "env"}, "https://api.example.com/v2", None, "env", id="another-path-is-home"
        ),
        pytest.param(PROXY, None, None, "env", id="the-environment-may-move-home"),
        pytest.param(PROXY, "https://api.example.com/v1", None, ConfigError, id="then-the-key-moves-with-it"),
        pytest.param({"EXAMPLE_URL": "http://localhost"}, None, None, None, id="a-moved-home-needs-no-key"),
        pytest.param({}, None, None, ConfigError, id="home-needs-a-key"),
    ],
)
def test_a_key_goes_to_its_own_host_alone(
    environment: dict[str, str],
    base_url: str | None,
    api_key: str | None,
    expected: str | type[ConfigError] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("EXAMPLE_URL", "EXAMPLE_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if isinstance(expected, type):
        with pytest.raises(expected, match="EXAMPLE_KEY"):
            HOME.key_for(base_url, api_key)
    else:
        assert HOME.key_for(base_url, api_key) == expected


def test_a_key_is_a_text_or_a_function() -> None:
    with pytest.raises(ConfigError, match="api_key is int; pass a string, or a function"):
        key_function(5)  # type: ignore[arg-type]  # wrong on purpose


async def test_a_function_may_return_what_gives_the_key() -> None:
    async def later() -> str:
        return " key\n"

    ask = key_function(lambda: later())
    assert ask is not None
    assert await ask() == "key"


@each_provider
async def test_a_missing_key_is_a_config_error_at_first_use(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(provider.variable, raising=False)
    client = provider.make("m")
    with pytest.raises(ConfigError, match=provider.variable):
        await client.complete(REQUEST)


@each_provider
async def test_a_server_of_ones_own_is_sent_no_key_from_the_environment(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(provider.variable, KEY)
    async with ToxicServer(reply(401, "{}")) as server, provider.make("m", base_url=server.url) as client:
        error = await fault(client, "json")
    assert KEY not in str(server.received[0].headers)
    assert "no key was sent" in str(error)


@pytest.mark.parametrize("provider", [OPENAI, ANTHROPIC], ids=["openai", "anthropic"])
async def test_the_environment_names_the_server_and_its_key(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ToxicServer(reply(200, provider.whole)) as server:
        monkeypatch.setenv(provider.variable.replace("API_KEY", "BASE_URL"), server.url)
        monkeypatch.setenv(provider.variable, KEY)
        async with provider.make("m") as client:
            await client.complete(REQUEST)
    assert KEY in str(server.received[0].headers)


MASK = "[redacted:registered]"
HELD = "key-of-one-client-alone"


@each_provider
def test_what_a_client_holds_is_masked_in_every_text_as_long_as_it_exists(provider: Provider) -> None:
    client: Any = provider.make(
        "m",
        base_url="https://svc:pelican-quay@models.example.com/v1",
        api_key=HELD,
        headers={"X-Team-Token": "harbour-lantern", "X-Team": "blue-harbour"},
    )
    echo = f"{HELD} {b64encode(HELD.encode()).decode()} pelican-quay harbour-lantern blue-harbour"
    assert mask_secrets(echo) == f"{MASK} {MASK} {MASK} {MASK} blue-harbour"
    del client
    gc.collect()
    assert mask_secrets(echo) == echo


async def test_a_key_of_a_function_is_masked() -> None:
    ask = key_function(lambda: "key-of-this-minute")
    assert ask is not None
    await ask()
    assert mask_secrets("key-of-this-minute") == MASK


def test_the_key_of_a_local_server_is_masked() -> None:
    model = LocalLlm("m", base_url="http://127.0.0.1:9", api_key="key-of-a-local-server")
    assert mask_secrets("key-of-a-local-server") == MASK
    model.close()


def test_the_credentials_of_a_profile_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    from botocore.credentials import Credentials  # type: ignore[import-untyped]  # it ships no types

    from wesichain.llm.bedrock import BedrockClient

    held = Credentials("AKIA-of-a-profile", "secret-of-a-profile", "token-of-a-profile")
    session = SimpleNamespace(region_name="eu-west-1", get_credentials=lambda: held)
    monkeypatch.setattr("boto3.Session", lambda **_: session)
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    client = BedrockClient("m", profile="p")
    client._account()
    assert mask_secrets("secret-of-a-profile token-of-a-profile") == f"{MASK} {MASK}"
