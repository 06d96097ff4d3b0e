"""The signs of a secret: its name, its shape, and its place in the environment.

Everything here is linear in the length of the text: possessive quantifiers, bounded names, and no
pattern is tried on a text in which a few plain searches (`may_hold_secret`) find nothing to go by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TypeAlias
from urllib.parse import quote

from .disguises import bared, encoded, has_long_word, has_unseen, has_wide, narrowed
from .phrases import commands, may_hold_command, secret_after

_regex = cache(re.compile)  # patterns are compiled when they are first needed: that takes milliseconds
Span: TypeAlias = tuple[int, int, str]  # from, to, and what sort of secret is there
_PLACEHOLDER = r"\[redacted:[a-z-]+\]"


def placeholder(label: str) -> str:
    """The text in a secret's place. It says the sort of secret and nothing of the secret itself."""
    return f"[redacted:{label}]"


def is_placeholder(text: str) -> bool:
    return _regex(_PLACEHOLDER).fullmatch(text) is not None


# --- names: password=..., {"api_key": ...}, --token ... ------------------------------------------

_WORD = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+"
_SECRET_ENDS = (
    "password", "passwords", "passwd", "passphrase", "pwd", "secret", "secrets", "token", "jwt",
    "apikey", "accesskey", "privatekey", "secretkey", "authorization", "credential", "credentials",
    "cookie", "auth",
)  # fmt: skip
_KEY_OWNERS = frozenset(
    {"api", "access", "account", "auth", "client", "encryption", "master", "private", "secret",
     "service", "session", "signing", "ssh"}
)  # fmt: skip
_ABOUT = frozenset(
    {"at", "budget", "count", "counts", "endpoint", "expires", "expiry", "file", "id", "ids", "in",
     "index", "length", "limit", "name", "path", "size", "ttl", "type", "uri", "url", "usage"}
)  # fmt: skip


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a field, header, flag or variable of this name holds a secret.

    `max_tokens`, `token_count` and `secret_name` speak about secrets and hold none.
    """
    if "[redacted:" in name:  # the label of a placeholder is no name
        name = _regex(_PLACEHOLDER).sub(" redacted ", name)
    words = [word.lower() for word in _regex(_WORD).findall(name[:128])]
    if not words or words[-1] in _ABOUT:
        return False
    if any(word.endswith(_SECRET_ENDS) for word in words):
        return True
    return (len(words) > 1 and words[-1] == "pass") or any(
        owner in _KEY_OWNERS and thing == "key" for owner, thing in pairwise(words)
    )


_NAME_PARTS = ("pass", "pwd", "secret", "token", "key", "auth", "credential", "cookie", "jwt")
_SPOKEN_PARTS = ("pass", "pwd", "secret", "token", "key")  # those that sentences are looked through for
_NAME = r"[A-Za-z0-9_.\-]{1,64}+"
_NAME_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_OWNED_KEY = rf"(?i)\b(?:{'|'.join(sorted(_KEY_OWNERS))}) \Z"
_SEPARATOR = (
    r"""(?:\\{0,8}["'])?\s{0,8}[=:]>?\s{0,8}"""  # name=  name:  "name":  \"name\":  name =>
    r"""|\\{0,8}["']\s{0,4},\s{0,4}(?=b?\\{0,8}["'])"""  # ('name', 'value')
)
_QUOTED = (
    r"""(?s)b?"((?:[^"\\]|\\.)*+)"""
    r"""|b?'((?:[^'\\]|\\.)*+)"""
    r"""|\\{1,8}["']((?:[^"'\\]|\\{3}["']|\\[^"'])*+)"""  # JSON within JSON
)
_GROUP = r"""[\[(](?!redacted:)[^\])\r\n]*+[\])]?"""  # auth=('user', 'password')
_BARE = r"""(?![={])[^\s"'\\&;,<>]++"""
_HEADER = r"""(?:[A-Za-z]++[ \t]++)?[^\s;"'\\]++(?:;[ \t]*+[^\s;"'\\]++)*+"""  # Basic dTpw   a=b; c=d
_HEADERS = ("authorization", "cookie")
_HARMLESS = frozenset(
    {"none", "null", "nil", "true", "false", "str", "string", "text", "int", "integer", "bool", "any",
     "object", "required", "optional", "missing", "invalid", "unset", "empty", "redacted"}
)  # fmt: skip


def _pairs(text: str) -> Iterator[Span]:
    """The values of every `name=value`, `name: value`, `"name": "value"`, `--name value`."""
    low = text.lower()
    if len(low) != len(text):  # a letter whose small form is longer: keep the positions aligned
        low = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    end = 0
    for spot in sorted({spot for part in _NAME_PARTS for spot in _occurrences(low, part)}):
        if end - spot > 256:
            continue  # well within a value; near its end, a name may have a value of its own
        found = _pair_at(text, spot)
        if found is not None:
            end = max(end, found[1])
            yield *found, "secret"


def _occurrences(text: str, part: str) -> Iterator[int]:
    spot = text.find(part)
    while spot >= 0:
        yield spot
        spot = text.find(part, spot + len(part))


def _pair_at(text: str, spot: int) -> tuple[int, int] | None:
    """Where the secret is that belongs to the name around `spot`; None where there is none."""
    matched = _regex(_NAME).match(text, spot)
    if matched is None:  # a letter from elsewhere whose small form is one of ours
        return None
    name_end = matched.end()
    separator = _regex(_SEPARATOR).match(text, name_end)
    is_element = text.startswith(">", name_end)
    if separator is None and not is_element and not text.startswith(" ", name_end):
        return None
    start = spot
    floor = max(0, spot - 64)
    while start > floor and text[start - 1] in _NAME_LETTERS:
        start -= 1
    name = text[start:name_end]
    if is_element:
        return _element_at(text, start, name_end) if is_secret_name(name) else None
    if separator is not None:
        begin, mark = separator.end(), separator.group().strip("\"'\\ \t\r\n")
    else:
        begin, mark = name_end + 1, " "
    if not is_secret_name(name) and not (
        name.lower() == "key" and _regex(_OWNED_KEY).search(text, max(0, start - 16), start)
    ):
        return None
    if separator is None and "--" not in name:
        if not any(part in name.lower() for part in _SPOKEN_PARTS):
            return None
        found = secret_after(text, name_end, name.lower())
        return None if found is None or text[slice(*found)].lower() in _HARMLESS else found
    return _value_at(text, begin, name.lower(), mark)


def _element_at(text: str, start: int, name_end: int) -> tuple[int, int] | None:
    """The text of an element: <password>...</password>."""
    end = text.find("<", name_end)
    opens = start > 0 and text[start - 1] in "<:"  # a name may have the prefix of its namespace
    if not opens or not text.startswith("</", end) or end - name_end < 2:
        return None
    value = text[name_end + 1 : end]
    return None if value.strip().lower() in _HARMLESS or is_placeholder(value) else (name_end + 1, end)


def _value_at(text: str, begin: int, name: str, mark: str) -> tuple[int, int] | None:
    quoted = _regex(_QUOTED).match(text, begin)
    if quoted is not None:
        start, end = quoted.span(quoted.lastindex or 0)
    else:
        pattern = _HEADER if name.endswith(_HEADERS) else _BARE
        bare = _regex(_GROUP).match(text, begin) or _regex(pattern).match(text, begin)
        if bare is None:
            return None
        start, end = bare.span()
        if mark.startswith(":") and end - start < (3 if "pass" in name or "pwd" in name else 6):
            return None  # prose: "token: a word or a part of one"
    value = text[start:end]
    if not value or value.lower() in _HARMLESS or is_placeholder(value):
        return None
    if name.endswith("pwd") and value.startswith(("/", "~")):
        return None  # a working directory
    return start, end


# --- shapes: keys, tokens, URLs, PEM blocks -------------------------------------------------------


# Providers that begin their keys with a word of their own. What follows is long and has a digit in it.
_VENDORS = (
    "gsk_", "xai-", "pplx-", "r8_", "fw_", "tvly-", "nvapi-", "lsv2_pt_", "lsv2_sk_", "shpat_", "shpca_",
    "shppa_", "shpss_", "glsa_", "sbp_", "lin_api_", "ntn_", "hvs.", "PMAK-", "NRAK-", "ATATT3", "key-",
    "dapi", "dop_v1_", "doo_v1_", "dor_v1_",
)  # fmt: skip
_VENDOR = rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _VENDORS))})(?=[A-Za-z_\-]*+\d)[\w\-]{{20,}}+"
_PEM_NAME = r"(?:[A-Z0-9]{1,20}+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
# Each begins with plain letters, which the engine finds fast, and looks back from there.
# A first group is not part of the secret and stays.
_SHAPES = {
    # one without its end goes on to the end of the text
    "private-key": rf"-----BEGIN {_PEM_NAME}[^-]*+(?:-(?!----)[^-]*+)*+(?:-----END {_PEM_NAME})?",
    "anthropic-key": r"sk-ant-(?<!\wsk-ant-)[\w\-]{8,}+",
    "openai-key": r"sk-(?<!\wsk-)(?:(?=[A-Za-z_\-]*+\d)[\w\-]{8,}+|[\w\-]{20,}+)",
    "slack-token": r"xox(?<!\wxox)[abeprs]-[A-Za-z0-9\-]{8,}+",
    "gitlab-token": r"glpat-(?<!\wglpat-)[\w\-]{16,}+",
    "pypi-token": r"pypi-(?<!\wpypi-)[\w\-]{16,}+",
    "aws-key": r"A(?<!\wA)(?:KIA|SIA)[0-9A-Z]{12,}+",
    "google-key": r"AIza(?<!\wAIza)[\w\-]{20,}+",
    "github-token": r"g(?<!\wg)(?:h[pousr]|ithub_pat)_[A-Za-z0-9_]{16,}+",
    "npm-token": r"npm_(?<!\wnpm_)[A-Za-z0-9]{16,}+",
    "sendgrid-key": r"SG\.(?<!\wSG\.)[\w\-]{10,}+\.[\w\-]{10,}+",
    "twilio-key": r"(?:SK|AC)(?<!\wSK)(?<!\wAC)[0-9a-f]{32}(?!\w)",
    "huggingface-token": r"hf_(?<!\whf_)[A-Za-z0-9]{16,}+",
    "stripe-key": r"[rsp](?<!\w[rsp])k_(?:live|test)_[A-Za-z0-9]{8,}+",
    "vendor-key": _VENDOR,
    # three parts: whose, when, and the signature
    "discord-token": r"[MNO](?<![\w.\-][MNO])[\w\-]{22,27}\.[\w\-]{6,7}\.[\w\-]{27,}+",
    "telegram-token": r"(?<!\d)\d{8,10}:[\w\-]{35}(?![\w\-])",
    # a URL that is signed: whoever has the signature may use it
    "signature": r"((?i:[?&;](?:[\w\-]{0,32}-)?sig(?:nature)?=))(?!\[redacted:)[^\s&;\"'<>\\]{16,}+",
    # a URL whose last part is all that is needed to post there
    "webhook": (
        r"(hooks\.slack\.com/[a-z]{1,16}/\w{1,32}/\w{1,32}/|discord(?:app)?\.com/api(?:/v\d{1,2})?/webhooks/\d{1,24}/)"
        r"(?!\[redacted:)[\w\-]{16,}+"
    ),
    "jwt": r"eyJ(?<![\w\-]eyJ)[\w\-]{8,}+\.[\w\-]{8,}+(?:\.[\w\-]*+)?",
    "bearer-token": (
        r"((?:earer|EARER)\s{1,8}+)"
        r"(?:(?=[A-Za-z.]*+[\d_~+/=\-])[\w.~+/=\-]{6,}+|[\w.~+/=\-]{20,}+)"
    ),
    "url-credentials": r"""(://)(?!\[redacted:url-credentials\]@)[^\s/?#"'<>\\]+(?=@)""",
}


_LONG_WORDS = ("vendor-key", "discord-token", "telegram-token")  # shapes that hold a long word


def _shapes(text: str) -> Iterator[Span]:
    """Private keys, and keys and tokens that are known by their form."""
    for label, pattern in _SHAPES.items():
        compiled = _regex(pattern, re.ASCII)
        for match in compiled.finditer(text):
            yield match.end(1) if compiled.groups else match.start(), match.end(), label


def _known(text: str, values: Sequence[str]) -> Iterator[Span]:
    for value in values:
        for start in _occurrences(text, value):
            yield start, start + len(value), "environment"


def hide_secrets(text: str, values: Sequence[str] = ()) -> str:
    """The text without the values given, and without what looks secret.

    Every rule looks at the whole text, and what any of them finds goes: none can hide from the others
    what they would have found.
    """
    out: list[str] = []
    done = 0
    for start, end, label in sorted(_spans(text, values), key=_by_place):
        if start >= done:
            out += (text[done:start], placeholder(label))
        done = max(done, end)
    return "".join((*out, text[done:])) if out else text


def _spans(text: str, values: Sequence[str]) -> Iterator[Span]:
    yield from _encoded_spans(text, values)
    if has_wide(text):
        yield from _encoded_spans(narrowed(text), values)
    if has_unseen(text):
        bare, place = bared(text)
        for start, end, label in _encoded_spans(bare, values):
            yield place(start), place(end - 1) + 1, label


def _encoded_spans(text: str, values: Sequence[str]) -> Iterator[Span]:
    yield from _plain(text, values)
    for start, end in encoded(text, lambda said: any(_plain(said, values))):
        yield start, end, "encoded"


def _plain(text: str, values: Sequence[str]) -> Iterator[Span]:
    yield from _known(text, values)
    yield from _pairs(text)
    yield from _shapes(text)
    for start, end in commands(text):
        yield start, end, "secret"


def _by_place(span: Span) -> tuple[int, int]:
    return span[0], -span[1]


def may_hold_secret(text: str, values: Sequence[str] = ()) -> bool:
    """Whether a rule could find anything: plain searches mostly, and never wrong when it says no."""
    if _may_hold_plain(text):
        return True
    if has_wide(text) and may_hold_secret(narrowed(text), values):
        return True
    if not text.isascii() and has_unseen(text):
        bare, _ = bared(text)
        if any(value in bare for value in values) or may_hold_secret(bare, values):
            return True
    if not has_long_word(text):
        return False
    return _has_vendor_key(text) or any(encoded(text, lambda said: any(_plain(said, values))))


def _has_vendor_key(text: str) -> bool:
    """Whether a long word has the form of a provider's key."""
    return any(_regex(_SHAPES[label], re.ASCII).search(text) for label in _LONG_WORDS)


# Texts of which each shape has one in it, behind a letter that a text without them seldom has.
_SIGNS = (
    ("-", ("sk-", "xox", "--", "pat-", "pypi-")),
    ("_", ("_live_", "_test_", "hf_", "gh", "_pat_", "npm_")),
    ("A", ("AKIA", "ASIA", "AIza", "AC")),
    ("S", ("SG.", "SK")),
    ("J", ("eyJ",)),
    ("@", ("://",)),
    ("=", ("sig", "Sig", "SIG")),
    ("", ("hooks", "earer", "EARER")),
)


def _may_hold_plain(text: str) -> bool:
    for letter, signs in _SIGNS:
        if letter in text:
            for sign in signs:
                if sign in text:
                    return True
    if "-" in text and may_hold_command(text):
        return True
    is_named = ":" in text or "=" in text or "'," in text or '",' in text or "</" in text
    parts = _NAME_PARTS if is_named else _SPOKEN_PARTS
    if parts is _SPOKEN_PARTS and (len(text) < 12 or " " not in text):
        return False
    low = text.lower()
    for part in parts:  # noqa: SIM110  # twice as quick as any()
        if part in low:
            return True
    return False


# --- the environment ------------------------------------------------------------------------------

_SECRET_VARIABLES = frozenset(
    {"KEY", "KEYS", "TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PAT",
     "APIKEY", "CREDENTIAL", "CREDENTIALS", "AUTH", "COOKIE", "DSN"}
)  # fmt: skip
_PLACES = frozenset({"DIR", "FILE", "HOME", "PATH", "SOCK", "SOCKET"})
_AFTER_USER = r"://[^\s/?#@:]*+:([^\s/?#]+)@"
_MIN_LENGTH = 8


@lru_cache(maxsize=1024)
def _is_secret_variable(name: str) -> bool:
    words = name.upper().split("_")
    return words[-1] not in _PLACES and any(
        word in _SECRET_VARIABLES or word.endswith(("PASSWORD", "SECRET", "TOKEN")) for word in words
    )


def environment_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables that look secret, as they may appear in text; the longest first."""
    found: set[str] = set()
    for name in environ:
        if _is_secret_variable(name):
            found.add(environ[name].strip())
        if name.upper().endswith(("_URL", "_URI", "_DSN")):
            found.update(_regex(_AFTER_USER).findall(environ[name]))
    written = {form for value in found for form in _forms(value)}
    return tuple(
        sorted(
            (form for form in written if len(form) >= _MIN_LENGTH and form not in _OUR_WORDS),
            key=lambda form: (-len(form), form),
        )
    )


def _forms(value: str) -> tuple[str, str, str]:
    """A value as it is, inside JSON, and inside a URL."""
    return value, json.dumps(value, ensure_ascii=False)[1:-1], quote(value, safe="", errors="replace")


# Letters that our own placeholders are made of: replacing them would never come to an end.
_OUR_WORDS = "\n".join(placeholder(label) for label in ("environment", "secret", "text", "encoded", *_SHAPES))
