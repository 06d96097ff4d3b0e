"""Which names hold secrets: of fields, headers, flags and environment variables."""

from __future__ import annotations

import pytest

from wesichain.core.internal import environment_secrets, is_secret_name, may_be_secret_name


@pytest.mark.parametrize(
    "name",
    [
        "password", "db_password", "userPassword", "PASSWD", "passphrase", "pwd", "token", "access_token",
        "accessToken", "refresh-token", "secret", "client_secret", "clientSecret", "apikey", "api_key",
        "apiKey", "API-KEY", "x-api-key", "X-Api-Key", "aws_secret_access_key", "private_key",
        "Authorization", "proxy-authorization", "cookie", "Set-Cookie", "credentials", "smtp_pass",
        "basic_auth",
    ],
)  # fmt: skip
def test_a_name_that_holds_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "city", "max_tokens", "input_tokens", "total_tokens", "token_count", "token_limit", "token_type",
        "tokens", "tokenizer", "secret_name", "secretary", "author", "authors", "authority", "key", "keys",
        "keyword", "primary_key", "sort_key", "monkey", "pass", "passenger", "compass", "password_file",
        "token_url", "expires_in",
    ],
)  # fmt: skip
def test_a_name_that_holds_none(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "stripe_key",
        "signing-key",
        "licenseKey",
        "auth",
        "pass",
        "PASS",
        "SSHPASS",
        "APP_KEY",
        "NONCE_SALT",
        "pw",
    ],
)
def test_a_name_that_holds_one_if_its_value_looks_so(name: str) -> None:
    assert may_be_secret_name(name)


@pytest.mark.parametrize(
    "name", ["key", "primary_key", "sort_key", "cache-key", "publicKey", "KEY_PATH", "keyboard", "author"]
)
def test_a_name_that_never_holds_one(name: str) -> None:
    assert not may_be_secret_name(name)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        pytest.param("MY_API_KEY", "canary-value", True, id="a key"),
        pytest.param("DB_PASSWORD", "canary-value", True, id="a password"),
        pytest.param("github_token", "canary-value", True, id="in small letters"),
        pytest.param("SECRET", "short12", False, id="less than eight characters"),
        pytest.param("SSH_AUTH_SOCK", "/run/user/agent.sock", False, id="a socket"),
        pytest.param("PWD", "/home/jane/work", False, id="a working directory"),
        pytest.param("KEY_FILE", "/etc/key.pem", False, id="a path"),
        pytest.param("LANG", "en_GB.UTF-8", False, id="something else"),
        pytest.param("SECRET", "short123", True, id="eight characters"),
        pytest.param("MYTOKEN", "canary-value", True, id="a word that ends so"),
        pytest.param("DB_URI", "x://bob:canary-value@db", False, id="an address"),
    ],
)
def test_the_environment(name: str, value: str, found: bool) -> None:
    assert ((0, len(value)) in environment_secrets({name: value}).find(value)) is found
