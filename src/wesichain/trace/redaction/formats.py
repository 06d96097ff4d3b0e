"""Formats of secrets: tokens with a provider's prefix, private keys, credentials in URLs and headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TypeAlias

Found: TypeAlias = tuple[int, int, str]  # start, end, kind of secret

_compiled = cache(re.compile)  # at first use: it takes milliseconds
_PEM_NAME = r"(?:[A-Z0-9]{1,20}+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_BEARER = r"(?:(?=[A-Za-z.]*+[\d_~+/=\-])[\w.~+/=\-]{6,}+|[\w.~+/=\-]{20,}+)"
_SIGNATURE = r"(?!\[redacted:)[^\s&;,\"'<>\\]{16,}+"
# Each format: its name, a text that is in it, and a pattern. A group comes before the secret, and is kept.
# Patterns begin with plain letters, which the engine finds fast, and look back from there.
_SPOKEN: tuple[tuple[str, str, str], ...] = (
    ("bearer-token", "earer", rf"(earer\s{{1,8}}+){_BEARER}"),
    ("bearer-token", "EARER", rf"(EARER\s{{1,8}}+){_BEARER}"),
    # user/password@host for Oracle
    ("connection", "sqlplus ", r"(sqlplus\s{1,4}[^\s/@]{1,64}/)(?!/|\[redacted:)[^\s@]{1,128}+(?=@)"),
)
_SIGNED: tuple[tuple[str, str, str], ...] = (  # for texts with one of the signs : / = $ -----
    # without an end marker, up to the end of the text
    (
        "private-key",
        "-----BEGIN ",
        rf"-----BEGIN {_PEM_NAME}[^-]*+(?:-(?!----)[^-]*+)*+(?:-----END {_PEM_NAME})?",
    ),
    ("url-credentials", "://", r"""(://)(?!\[redacted:url-credentials\]@)[^\s/?#"'<>\\]+(?=@)"""),
    # of a signed URL or request
    ("signature", "ignature=", rf"(ignature=){_SIGNATURE}"),
    ("signature", "sig=", rf"(sig=(?<=[?&;,\s\-]sig=)){_SIGNATURE}"),
    ("signature", "SIG=", rf"(SIG=(?<=[?&;,\s\-]SIG=)){_SIGNATURE}"),
    # webhook URLs: the last part is the secret
    (
        "webhook",
        "hooks.slack.com/",
        r"(hooks\.slack\.com/[a-z]{1,16}/\w{1,32}/\w{1,32}/)(?!\[redacted:)[\w\-]{16,}+",
    ),
    ("webhook", "/webhooks/", r"(/webhooks/\d{1,24}/)(?!\[redacted:)[\w\-]{16,}+"),
    ("webhook", "/webhookb2/", r"(/webhookb2/[^/\s]{1,80}/\w{1,32}/)(?!\[redacted:)[\w\-]{16,}+"),
    # a line of .pgpass, and JDBC for Oracle
    (
        "connection",
        ":5432:",
        r"((?m:^)[\w.\-*]{1,255}:5432:[^:\s]{1,64}:[^:\s]{1,64}:)(?!\[redacted:)[^\s:]+",
    ),
    ("connection", "oracle:thin:", r"(oracle:thin:[^\s/@]{1,64}/)(?!/|\[redacted:)[^\s@]{1,128}+(?=@)"),
    ("password-hash", "$", r"\$(?:2[abxy]|[156y]|apr1|argon2id?|scrypt)\$[\w./$=,+\-]{20,}+"),
    ("telegram-token", ":", r":(?<=\d{6}:)(?<!\d{11}:)[\w\-]{32,64}(?![\w\-])"),
)
# Formats of tokens, which are long words: how the words begin, and a pattern.
_TOKENS: dict[str, tuple[tuple[str, ...], str]] = {
    "jwt": (("eyJ",), r"eyJ(?<![\w\-]eyJ)[\w\-]{8,}+\.[\w\-]{8,}+(?:\.[\w\-]++){0,3}"),
    # an access key, with the secret key if that stands beside it
    "aws-key": (
        ("AKI", "ASI", "A3T", "ABI", "ACC"),
        r"A(?<!\wA)(?:3T|KIA|SIA|BIA|CCA)[0-9A-Z]{12,}+(?:[\s/:,|]{1,4}+[A-Za-z0-9/+]{40}(?![\w/+=]))?",
    ),
    "anthropic-key": (("sk-",), r"sk-ant-(?<!\wsk-ant-)[\w\-]{8,}+"),
    # and of other providers with its API
    "openai-key": (("sk-",), r"sk-(?<!\wsk-)(?:(?=[A-Za-z_\-]*+\d)[\w\-]{8,}+|[\w\-]{20,}+)"),
    "slack-token": (("xox", "xap"), r"(?:xox[a-z]|xapp)(?<!\wxox[a-z])(?<!\wxapp)-[A-Za-z0-9\-]{8,}+"),
    "oauth-token": (("GOC", "ya2"), r"(?:GOCSPX-|ya29\.)[\w\-.]{16,}+"),
    "twilio-key": (
        tuple(kind + digit for kind in ("SK", "AC") for digit in "0123456789abcdef"),
        r"(?:SK|AC)(?<!\wSK)(?<!\wAC)[0-9a-f]{32}(?!\w)",
    ),
    "airtable-token": (("pat",), r"pat(?<!\wpat)\w{14}\.[0-9a-f]{32,}+"),
}
# The same, known by what is in the words.
_LIVE = r"(?<![A-Za-z0-9])[A-Za-z]{2,12}_(?:live|test|prod)_(?=[A-Za-z]*\d)[A-Za-z0-9]{12,}+[\w\-]*+"
_INNER: tuple[tuple[str, bytes, str], ...] = (
    ("live-key", b"_live_", _LIVE),
    ("live-key", b"_test_", _LIVE),
    ("live-key", b"_prod_", _LIVE),
    ("mailchimp-key", b"-us", r"(?<!\w)[0-9a-f]{32}-us\d{1,2}(?!\w)"),
    ("azure-secret", b"Q~", r"(?<![\w~.])[\w~.]{3}\dQ~[\w~.\-]{25,}+"),
    ("terraform-token", b".atlasv1.", r"(?<!\w)\w{14}\.atlasv1\.[\w\-]{30,}+"),
)
# Three parts: user id, time, signature.
_DISCORD = r"[MNO](?<![\w.\-][MNO])[\w\-]{22,27}\.[\w\-]{6,7}\.[\w\-]{27,}+"

# Prefixes that Betterleaks lacks, or knows with too much behind them, by the letters that follow.
_MORE = {
    "hex": (),
    "letters": ("cio", "nfp_", "oy2", "secret_"),
    "words": ("dp.", "fw_", "hvs.", "pat-", "pypi-", "re_", "sq0csp-", "tvly-", "whsec_"),
}
_LETTERS = {"hex": "[0-9A-Fa-f]{16}", "letters": "[A-Za-z0-9]{12}", "words": r"[\w\-.+/=]{12}"}
_HEAD = 4  # letters of a prefix that are looked up
_SHORT = 4  # prefixes of no more letters also begin ordinary words
_RANDOM = (  # letters with digits, or of both cases
    r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{10}|(?=[a-z]*[A-Z])(?=[A-Z]*[a-z])[A-Za-z]{16}"
)


def formats(text: str, words: Sequence[bytes]) -> Iterator[Found]:
    """The positions of secrets with a known format. `words` are the long words of the text."""
    is_signed = ":" in text or "/" in text or "=" in text or "$" in text or "-----" in text
    for label, hint, pattern in _SPOKEN + _SIGNED if is_signed else _SPOKEN:
        if hint in text:
            yield from _matches(text, label, pattern)
    if not words:
        return
    joined = b" ".join(words)
    for label, inner, pattern in _INNER:
        if inner in joined:
            yield from _matches(text, label, pattern)
    if any(len(word) > 56 and word.count(b".") > 1 for word in words):
        yield from _matches(text, "discord-token", _DISCORD)
    for separator in (b"/", b"-", b"_", b"."):  # a token may begin after each
        joined = joined.replace(separator, separator + b" ")
    parts = set(joined.split())
    heads = {part[:3] for part in parts}
    for label, (begins, pattern) in _tokens().items():
        if not heads.isdisjoint(begins):
            yield from _matches(text, label, pattern)
    begins, pattern = _prefixes()
    for begin in begins & {part[:_HEAD] for part in parts}:
        yield from _with_prefix(text, begin.decode(), _compiled(pattern, re.ASCII))


def _matches(text: str, label: str, pattern: str) -> Iterator[Found]:
    compiled = _compiled(pattern, re.ASCII)
    for match in compiled.finditer(text):
        yield match.end(1) if compiled.groups else match.start(), match.end(), label


def _with_prefix(text: str, begin: str, pattern: re.Pattern[str]) -> Iterator[Found]:
    start = text.find(begin)
    while start >= 0:
        match = pattern.match(text, start)
        if match is not None and _is_random(match[1], match[0]):
            yield *match.span(), "token"
        start = text.find(begin, start + len(begin) if match is None else match.end())


def _is_random(prefix: str, token: str) -> bool:
    """Whether a token is none of the ordinary words that begin like it."""
    rest = token[len(prefix) :]
    if len(prefix) <= _SHORT:
        return _compiled(_RANDOM).search(rest) is not None
    return any(map(str.isdigit, rest)) or not (rest.islower() or rest.isupper()) or len(rest) >= 16


@cache
def _tokens() -> dict[str, tuple[frozenset[bytes], str]]:
    return {
        label: (frozenset(map(str.encode, begins)), pattern) for label, (begins, pattern) in _TOKENS.items()
    }


@cache
def _prefixes() -> tuple[frozenset[bytes], str]:
    """How all prefixes begin, up to the first separator, and a pattern for tokens that begin with one."""
    lists = {kind: [*more] for kind, more in _MORE.items()}
    kind = ""
    for line in Path(__file__).with_name("betterleaks.txt").read_text(encoding="utf-8").splitlines():
        for word in () if line.startswith("#") else line.split():
            if word[:-1] in lists:
                kind = word[:-1]
            else:
                lists[kind].append(word)
    begins = frozenset(
        re.split("(?<=[-_./])", prefix)[0][:_HEAD].encode()
        for prefixes in lists.values()
        for prefix in prefixes
    )
    tokens = "|".join(
        rf"(?:{'|'.join(map(re.escape, sorted(prefixes, reverse=True)))})(?={_LETTERS[kind]})"
        for kind, prefixes in lists.items()
    )
    return begins, rf"(?<![A-Za-z0-9])({tokens})[\w\-]++(?:[.+/=~]++[\w\-]++)*+=*+"
