"""What is a secret, by its format, by the name in front of it, and in the environment."""

from __future__ import annotations

import time

import pytest

from wesichain.trace import Redactor
from wesichain.trace.redaction.rules import find_secrets

BARE = Redactor(environ={})

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nabc/+=\n-----END RSA PRIVATE KEY-----"


HEX = "0123456789abcdef0123456789abcdef"
LONG = "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5zA7bC9dE1fG3hI5j"
WIDE = str.maketrans({chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)})


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        pytest.param(f"GROQ: gsk_{LONG}", LONG, id="groq"),
        pytest.param(f"use xai-{LONG}{LONG[:28]} now", LONG, id="xai"),
        pytest.param(f"pplx-{LONG}", LONG, id="perplexity"),
        pytest.param(f"r8_{LONG[:37]}", LONG[:37], id="replicate"),
        pytest.param(f"dapi{HEX}", HEX, id="databricks"),
        pytest.param(f"dapi{HEX}-2", HEX, id="databricks with its number"),
        pytest.param(f"dop_v1_{HEX}{HEX}", HEX, id="digitalocean"),
        pytest.param(f"key-{HEX}", HEX, id="mailgun"),
        pytest.param(f"nvapi-{LONG}", LONG, id="nvidia"),
        pytest.param(f"tvly-{LONG[:32]}", LONG[:32], id="tavily"),
        pytest.param(f"hvs.{LONG}", LONG, id="vault"),
        pytest.param(f"shpat_{HEX}", HEX, id="shopify"),
        pytest.param(f"glsa_{LONG[:32]}_0123abcd", LONG[:32], id="grafana"),
        pytest.param(f"lsv2_pt_{HEX}_{HEX[:10]}", HEX, id="langsmith"),
        pytest.param(
            "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs", "ZnCjm1XVW7vRze4b7Cq4se7kKWs",
            id="discord",
        ),
        pytest.param("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1", "AAHdqTcvCH1vGW", id="telegram"),
        pytest.param(
            "https://api.telegram.org/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1/getMe", "AAHdqTcvCH",
            id="telegram in a URL",
        ),
        pytest.param(
            "https://x.blob.core.windows.net/c/b?sv=2022-11-02&sp=r&sig=aB3dE5fG7hI9jK1lM3nO5pQ%3D&se=2030",
            "aB3dE5fG7hI9jK1lM3nO5pQ", id="azure sas",
        ),
        pytest.param(f"https://b.s3.amazonaws.com/k?X-Amz-Signature={HEX}{HEX}", HEX, id="aws signed URL"),
        pytest.param(f"https://storage.googleapis.com/b/o?X-Goog-Signature={HEX}{HEX}", HEX, id="google signed URL"),
        pytest.param("<password>hunter2</password>", "hunter2", id="an XML element"),
        pytest.param("<token>x</token>", "x<", id="an XML element with one letter"),
        pytest.param("<ns:apiKey>hunter2x</ns:apiKey>", "hunter2x", id="an XML element with a prefix"),
        pytest.param("password=hunter2".translate(WIDE), "hunter2".translate(WIDE), id="full-width letters"),
        pytest.param(f"gsk_{LONG}".translate(WIDE), LONG.translate(WIDE), id="a full-width key"),
    ],
)  # fmt: skip
def test_a_key_of_a_provider_is_known_by_its_form(text: str, secret: str) -> None:
    found = BARE.text(text)
    assert secret not in found
    assert "[redacted:" in found
    assert BARE.text(found) == found


@pytest.mark.parametrize(
    "text",
    [
        "call_aB3dE5fG7hI9jK1lM3nO5pQ7", "chatcmpl-aB3dE5fG7hI9jK1lM3nO5pQ7", "toolu_01A09q90qw90lq917835lq9",
        f"run {HEX}", f"sha256:{HEX}{HEX}", f"commit-{HEX}01234567", "550e8400-e29b-41d4-a716-446655440000",
        "gsk_is_the_prefix_of_groq_keys", "key-value-store-and-other-words", "keyboard-shortcuts-of-the-editor",
        "at 12:30:45 and 1234567890:12", "a.b.c of the design", "<passage>hunter2</passage>",
        "?signal=a-long-word-that-is-none", "<password>required</password>", "Hello, world!".translate(WIDE),
        "dapi is a prefix", "module.sub_module.function_with_a_long_name_here",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_key_is_left_alone(text: str) -> None:
    assert BARE.text(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("use sk-abcdEFGH12345678 now", "use [redacted:openai-key] now", id="an OpenAI key"),
        pytest.param("sk-proj-abcdefghijklmnopqrstuv", "[redacted:openai-key]", id="an OpenAI project key"),
        pytest.param("sk-ant-api03-abcdefgh", "[redacted:anthropic-key]", id="an Anthropic key"),
        pytest.param("AKIAIOSFODNN7EXAMPLE", "[redacted:aws-key]", id="an AWS key id"),
        pytest.param("ghp_abcdefghijklmnopqrst0123", "[redacted:token]", id="a GitHub token"),
        pytest.param("github_pat_11ABCDEFG0abcdefgh", "[redacted:token]", id="a fine-grained GitHub token"),
        pytest.param("github_pat_Q7Q7Q7Q7Q7Q7Q7Q7", "[redacted:token]", id="its prefix alone says so"),
        pytest.param(
            "https://hooks.slack.com/services/T0A/B0B/Q7Q7Q7Q7Q7Q7Q7Q7Q7Q7Q7Q7",
            "https://hooks.slack.com/services/T0A/B0B/[redacted:webhook]",
            id="a Slack webhook",
        ),
        pytest.param(
            "https://discord.com/api/webhooks/123456789/Q7Q7Q7Q7Q7Q7Q7Q7-_Q7Q7Q7",
            "https://discord.com/api/webhooks/123456789/[redacted:webhook]",
            id="a Discord webhook",
        ),
        pytest.param("xoxb-1234567890-abcdef", "[redacted:slack-token]", id="a Slack token"),
        pytest.param("AIzaSyA-1234567890abcdefghijklmno", "[redacted:token]", id="a Google key"),
        pytest.param("hf_abCDefghIJklmnOPqrst", "[redacted:token]", id="a Hugging Face token"),
        pytest.param("sk_live_abcdefgh12345678", "[redacted:live-key]", id="a Stripe key"),
        pytest.param(f"jwt {JWT}.", "jwt [redacted:jwt].", id="a JWT"),
        pytest.param("Bearer abc123def", "Bearer [redacted:bearer-token]", id="a bearer token"),
        pytest.param(
            "https://bob:pw@host/x", "https://[redacted:url-credentials]@host/x", id="a URL's user info"
        ),
        pytest.param("https://tok@host", "https://[redacted:url-credentials]@host", id="a token in a URL"),
        pytest.param(
            "postgres://u:p@ss@db/x", "postgres://[redacted:url-credentials]@db/x", id="an @ in a password"
        ),
        pytest.param(f"a {PEM} b", "a [redacted:private-key] b", id="a private key"),
        pytest.param(PEM[:50], "[redacted:private-key]", id="a private key without its end"),
        pytest.param("password=hunter2&x=1", "password=[redacted:secret]&x=1", id="a pair in a query"),
        pytest.param(
            "Pwd=abc;Server=x", "Pwd=[redacted:secret];Server=x", id="a pair in a connection string"
        ),
        pytest.param("token: abcdef99 end", "token: [redacted:secret] end", id="a pair with a colon"),
        pytest.param('"api_key": "a b"', '"api_key": "[redacted:secret]"', id="a pair in JSON"),
        pytest.param(
            '{"secret":"a\\"b","x":1}', '{"secret":"[redacted:secret]","x":1}', id="an escaped quote"
        ),
        pytest.param('{\\"token\\": \\"abc\\"}', '{\\"token\\": \\"[redacted:secret]\\"}', id="JSON in JSON"),
        pytest.param("{'password': 'abc'}", "{'password': '[redacted:secret]'}", id="a Python dict"),
        pytest.param(
            "[('x-api-key', 'abc')]", "[('x-api-key', '[redacted:secret]')]", id="a header as a pair"
        ),
        pytest.param("b'cookie', b'abc'", "b'cookie', b'[redacted:secret]'", id="a header in bytes"),
        pytest.param("auth=('bob', 'pw')", "auth=[redacted:secret]", id="user and password in a tuple"),
        pytest.param("password: abc", "password: [redacted:secret]", id="a short password"),
        pytest.param("x-api-key: abc123\nb: c", "x-api-key: [redacted:secret]\nb: c", id="a header"),
        pytest.param("Authorization: Basic dTpw\nb", "Authorization: [redacted:secret]\nb", id="a scheme"),
        pytest.param("Cookie: a=b; c=d ok", "Cookie: [redacted:secret] ok", id="cookies"),
        pytest.param("cookie: abcdef secret='x'", "cookie: [redacted:secret]'[redacted:secret]'", id="two"),
        pytest.param("run --password hunter2 -v", "run --password [redacted:secret] -v", id="a flag"),
        pytest.param("API key: abc123", "API key: [redacted:secret]", id="a key in prose"),
        pytest.param(
            "password=sk-abcdefgh1234!x", "password=[redacted:secret]", id="a key within a password"
        ),
        pytest.param("npm_abcdefghijklmnopqrst0123456789ABCDEF", "[redacted:token]", id="an npm token"),
        pytest.param(
            "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",
            "[redacted:token]",
            id="a SendGrid key",
        ),
        pytest.param(f"SK{'0a1b' * 8}.", "[redacted:twilio-key].", id="a Twilio key"),
        pytest.param(f"AC{'0a1b' * 8}", "[redacted:twilio-key]", id="a Twilio account"),
        pytest.param("curl -u bob:hunter2 x", "curl -u bob:[redacted:secret] x", id="curl -u"),
        pytest.param("curl -ubob:hunter2 x", "curl -ubob:[redacted:secret] x", id="curl -u without a space"),
        pytest.param("curl --user 'bob:pw' x", "curl --user 'bob:[redacted:secret]' x", id="curl --user"),
        pytest.param("mysql -uroot -phunter2 db", "mysql -uroot -p[redacted:secret] db", id="mysql -p"),
        pytest.param("mysqldump -p'a b'", "mysqldump -p'[redacted:secret] b'", id="mysqldump, quoted"),
        pytest.param("sshpass -p pw1 ssh x", "sshpass -p [redacted:secret] ssh x", id="sshpass"),
        pytest.param("redis-cli -a pw1 ping", "redis-cli -a [redacted:secret] ping", id="redis-cli"),
        pytest.param(
            "see YWRtaW46aHVudGVyMg== ok", "see [redacted:encoded] ok", id="user:password in base64"
        ),
        pytest.param("c2stYW50LWFwaTAzLWFiY2RlZmdoMTIzNDU2Nzg", "[redacted:encoded]", id="a key in base64"),
        pytest.param("cGFzc3dvcmQ9aHVudGVyMg==", "[redacted:encoded]", id="a pair in base64"),
        pytest.param(
            "sk-\u200bant-api03-abc\u200bdefgh.", "[redacted:anthropic-key].", id="zero-width letters"
        ),
        pytest.param(
            "p\u200dassword=hunt\u2060er2 ok", "p\u200dassword=[redacted:secret] ok", id="and in a pair"
        ),
        pytest.param("The password is hunter2.", "The password is [redacted:secret].", id="a sentence"),
        pytest.param("my API key is abc123!", "my API key is [redacted:secret]!", id="a key in a sentence"),
        pytest.param(
            "the password for bob was set to 'swordfish' today",
            "the password for bob was set to '[redacted:secret]' today",
            id="a quoted word in a sentence",
        ),
        pytest.param("log in with password hunter2", "log in with password [redacted:secret]", id="a phrase"),
        pytest.param("with password a1b2c3", "with password [redacted:secret]", id="a phrase of six letters"),
        pytest.param(
            "the password is 1234", "the password is [redacted:secret]", id="a number as a password"
        ),
        pytest.param("the token is a1b2c", "the token is [redacted:secret]", id="five letters"),
        pytest.param("the token is abCde", "the token is [redacted:secret]", id="a capital within"),
        pytest.param("the token is ab_de", "the token is [redacted:secret]", id="a sign within"),
        pytest.param("the token is 'abc'", "the token is '[redacted:secret]'", id="a short word in quotes"),
        pytest.param("the password is hunter2!?", "the password is [redacted:secret]!?", id="the end of it"),
        pytest.param("mariadb -phunter2", "mariadb -p[redacted:secret]", id="mariadb"),
        pytest.param("curl -U bob:hunter2", "curl -U bob:[redacted:secret]", id="a user of a proxy"),
        pytest.param("token: abcdef", "token: [redacted:secret]", id="six letters behind a colon"),
        pytest.param("pwd: abc", "pwd: [redacted:secret]", id="three letters behind a colon"),
        pytest.param("signing_key=abc", "signing_key=[redacted:secret]", id="a key of an owner"),
        pytest.param(
            f"{'İ' * 9} password=hunter2",
            f"{'İ' * 9} password=[redacted:secret]",
            id="letters that grow in lower case",
        ),
        pytest.param("db pass=abc", "db pass=abc", id="a word that is pass alone"),
        pytest.param("db_pass=abc", "db_pass=[redacted:secret]", id="a name that ends in pass"),
        pytest.param(
            "mysql -pone\nmysql -ptwo", "mysql -p[redacted:secret]\nmysql -p[redacted:secret]", id="two lines"
        ),
    ],
)
def test_what_is_redacted(text: str, expected: str) -> None:
    assert BARE.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "task-force", "risk-averse, sk-learn", "max_tokens=500", "token: the unit of text", "password: str",
        "the secret is out", "author: Jane Doe", "monkey: bananas", "https://host:8080/a@b", "a@b.com",
        "bearer of news", "pwd=/home/jane", "highlight_test_case", "if token == None:", "eyJ", "AKIA",
        "sort key: name", '{"tokens": 5, "key": "value"}', "", "the password is required",
        "the token is invalid", "docker run -u 1000:1000 -p 8080:80", "mkdir -p/srv", "ssh -p2222 host",
        "mysql -p db", "the API key is missing, see https://x.y/z1", "token is valid until 2026-01-01",
        "VGhpcyBpcyBqdXN0IGEgdGV4dCBvZiBvdXJz", "src/wesichain/trace/redaction/rules", "SKU-12345678901234567890",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467", "reset the password, then log in",
        "with password a1b2c", "the token is 1234", "the token is a1b2", "the token is https://a1.b", "\u212aey=hunter22x",
        "token: abcde", "pwd: ab", "key=abc", "<password></password>", "<password>x", "<password>none</password>",
        "<password>[redacted:secret]</password>", "password:", "the password is ...", "curl -u 10:20",
    ],
)  # fmt: skip
def test_what_is_left_alone(text: str) -> None:
    assert BARE.text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "an ordinary sentence of some length, with commas.", "{'a': 1}", '{"city": "Paris", "day": 1}', "a=b; c=d",
        "https://example.org/path?x=1", "12345678901234567890", "snake_case_words_in_a_row", "ünïcödé wörds", "x" * 40,
        "a-b-c", "token", "monkeys", "Straße", "well-aged", "a redis-cli", "well-paid", "a mysql",
    ],
)  # fmt: skip
def test_nothing_is_found_in_an_ordinary_text(text: str) -> None:
    assert find_secrets(text, ()) == []


def test_the_password_of_a_url_in_the_environment() -> None:
    redactor = Redactor(environ={"DATABASE_URL": "postgres://bob:canary-pass@db/x"})
    assert redactor.text("denied: canary-pass") == "denied: [redacted:environment]"


def test_a_secret_of_the_environment_in_json_and_in_a_url() -> None:
    redactor = Redactor(environ={"MY_KEY": 'cana"ry /value'})
    for text in ('cana"ry /value', 'x cana\\"ry /value', "cana%22ry%20%2Fvalue"):
        assert "ry" not in redactor.text(text).replace("environment", "")


def test_a_secret_of_the_environment_in_disguise() -> None:
    redactor = Redactor(environ={"MY_KEY": "canary-value-9"})
    assert redactor.text("x Y2FuYXJ5LXZhbHVlLTk= y") == "x [redacted:environment] y"
    assert redactor.text("cana\u200bry-value-9") == "[redacted:environment]"
    assert redactor.text("Y2FuYXJ5LXZhbHVlLTk") == "[redacted:environment]"


def test_the_environment_is_read_when_the_redactor_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "canary-0123456789")
    redactor = Redactor()
    monkeypatch.delenv("SOME_TOKEN")
    assert redactor.text("a canary-0123456789") == "a [redacted:environment]"
    assert Redactor().text("a canary-0123456789") == "a canary-0123456789"


@pytest.mark.parametrize(
    "piece",
    [
        "token", "token ", "token=", 'token:"', "token: '", "password,", "eyJ", "-eyJ-", "sk-", "sk-a",
        "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "bearer ", "://", "://a@", "a://b:", "xox", "AKIA",
        "A", "key ", "--pass ", "\\", '\\"', "'", "auth=(", "ghp_", " ", "\n", "=", "K",
        "mysql -p", "mysql ", "-u a:", "-u", "\u200b", "s\u200b", "password is ", "the token is a1", "YWRt", "aB3/", "SG.",
        "SG.a", "SKAC", "AC0", "npm_", "password for x is ", "%41", "%", "&#65;", "&amp;", "\\u0041", "\\u00e9", "\\x41",
        "value=", "name: a, value", "token value ", "'a' == ", "'a' == token ", "secret[a] ", "token: str = ", "token == ",
        "cookie: a=b; ", "authorization: a b=\"", "Authorization: Digest a=", "glpat-a", "sk_live_", "a_live_a", "re_a1",
        ":5432:", "a:5432:b:c:", "oracle:thin:a/", "$2b$a", "123456:", "123456:a", "Q~", "0Q~a", ".atlasv1.", "sig=", "?sig=a",
        "/webhooks/1/", "-p ", "token\">", "?key=", "-token ", "token: >-\n ", " -u a -p b", "redis-cli -a ", "canary", "password %41", "\uff21", "A\u00ad",
    ],
)  # fmt: skip
def test_time_grows_with_the_text_alone(piece: str) -> None:
    text = piece * (20_000 // len(piece))
    start = time.process_time()
    BARE.text(text)
    assert time.process_time() - start < 0.5  # a quadratic rule takes seconds
