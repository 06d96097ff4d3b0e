"""The rules that find secrets: by their name, by their format, and by the environment.

All rules are linear in the length of the text: quantifiers are possessive and names are bounded. Patterns are
only tried on texts in which a few plain searches (`may_hold_secret`) find something.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TypeAlias
from urllib.parse import quote

from .obfuscation import encoded, has_invisible, has_long_word, has_wide, narrowed, without_invisible
from .phrases import commands, may_hold_command, secret_after

_regex = cache(re.compile)  # compiled on first use: that takes milliseconds
Span: TypeAlias = tuple[int, int, str]  # start, end, kind of secret
_PLACEHOLDER = r"\[redacted:[a-z-]+\]"


def placeholder(label: str) -> str:
    """The text that replaces a secret: it names the kind of secret only."""
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
    """Whether a field, header, flag or variable of this name contains a secret.

    `max_tokens`, `token_count` and `secret_name` do not.
    """
    if "[redacted:" in name:  # the label of a placeholder is not a name
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
_SPOKEN_PARTS = ("pass", "pwd", "secret", "token", "key")  # searched for in sentences
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
    if len(low) != len(text):  # a letter with a longer lower case: keep the positions aligned
        low = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    end = 0
    for spot in sorted({spot for part in _NAME_PARTS for spot in _occurrences(low, part)}):
        if end - spot > 256:
            continue  # inside a value; near its end, a name may have its own value
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
    """The position of the secret that belongs to the name around `spot`; None without one."""
    matched = _regex(_NAME).match(text, spot)
    if matched is None:  # a letter whose lower case is ASCII
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
    opens = start > 0 and text[start - 1] in "<:"  # the name may have a namespace prefix
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


# --- formats: keys, tokens, URLs, PEM blocks -------------------------------------------------------


# Prefixes of providers' keys. The rest of the key is long and contains a digit.
_VENDORS = (
    "gsk_", "xai-", "pplx-", "r8_", "fw_", "tvly-", "nvapi-", "lsv2_pt_", "lsv2_sk_", "shpat_", "shpca_",
    "shppa_", "shpss_", "glsa_", "sbp_", "lin_api_", "ntn_", "hvs.", "PMAK-", "NRAK-", "ATATT3", "key-",
    "dapi", "dop_v1_", "doo_v1_", "dor_v1_",
)  # fmt: skip
_VENDOR = rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, _VENDORS))})(?=[A-Za-z_\-]*+\d)[\w\-]{{20,}}+"
_PEM_NAME = r"(?:[A-Z0-9]{1,20}+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
# Each pattern begins with plain letters, which the engine finds fast, and looks back from there.
# The first group is not part of the secret and is kept.
_FORMATS = {
    # without an end marker, up to the end of the text
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
    # three parts: user id, time, signature
    "discord-token": r"[MNO](?<![\w.\-][MNO])[\w\-]{22,27}\.[\w\-]{6,7}\.[\w\-]{27,}+",
    "telegram-token": r"(?<!\d)\d{8,10}:[\w\-]{35}(?![\w\-])",
    # the signature of a signed URL
    "signature": r"((?i:[?&;](?:[\w\-]{0,32}-)?sig(?:nature)?=))(?!\[redacted:)[^\s&;\"'<>\\]{16,}+",
    # a webhook URL: its last part is the secret
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


_LONG_WORDS = ("vendor-key", "discord-token", "telegram-token")  # formats that are long words


def _formats(text: str) -> Iterator[Span]:
    """Private keys, and keys and tokens with a known format."""
    for label, pattern in _FORMATS.items():
        compiled = _regex(pattern, re.ASCII)
        for match in compiled.finditer(text):
            yield match.end(1) if compiled.groups else match.start(), match.end(), label


def _known(text: str, values: Sequence[str]) -> Iterator[Span]:
    for value in values:
        for start in _occurrences(text, value):
            yield start, start + len(value), "environment"


def hide_secrets(text: str, values: Sequence[str] = ()) -> str:
    """Replace the given values, and everything that looks secret, by placeholders.

    Each rule searches the whole text, so that no rule hides a secret from another.
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
    if has_invisible(text):
        bare, place = without_invisible(text)
        for start, end, label in _encoded_spans(bare, values):
            yield place(start), place(end - 1) + 1, label


def _encoded_spans(text: str, values: Sequence[str]) -> Iterator[Span]:
    yield from _plain(text, values)
    for start, end in encoded(text, lambda decoded: any(_plain(decoded, values))):
        yield start, end, "encoded"


def _plain(text: str, values: Sequence[str]) -> Iterator[Span]:
    yield from _known(text, values)
    yield from _pairs(text)
    yield from _formats(text)
    for start, end in commands(text):
        yield start, end, "secret"


def _by_place(span: Span) -> tuple[int, int]:
    return span[0], -span[1]


def may_hold_secret(text: str, values: Sequence[str] = ()) -> bool:
    """Whether a rule may find something, mostly by plain searches; never wrong if False."""
    if _may_hold_plain(text):
        return True
    if has_wide(text) and may_hold_secret(narrowed(text), values):
        return True
    if not text.isascii() and has_invisible(text):
        bare, _ = without_invisible(text)
        if any(value in bare for value in values) or may_hold_secret(bare, values):
            return True
    if not has_long_word(text):
        return False
    return _has_vendor_key(text) or any(encoded(text, lambda decoded: any(_plain(decoded, values))))


def _has_vendor_key(text: str) -> bool:
    """Whether a long word has the format of a provider's key."""
    return any(_regex(_FORMATS[label], re.ASCII).search(text) for label in _LONG_WORDS)


# Each format contains one of these texts. They are searched for only if the text has the rare letter.
_HINTS = (
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
    for letter, hints in _HINTS:
        if letter in text:
            for hint in hints:
                if hint in text:
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
    """The values of variables that look secret, in the forms in which texts contain them; longest first."""
    found: set[str] = set()
    for name in environ:
        if _is_secret_variable(name):
            found.add(environ[name].strip())
        if name.upper().endswith(("_URL", "_URI", "_DSN")):
            found.update(_regex(_AFTER_USER).findall(environ[name]))
    written = {form for value in found for form in _forms(value)}
    return tuple(
        sorted(
            (form for form in written if len(form) >= _MIN_LENGTH and form not in _PLACEHOLDERS),
            key=lambda form: (-len(form), form),
        )
    )


def _forms(value: str) -> tuple[str, str, str]:
    """A value as it is, in JSON, and in a URL."""
    return value, json.dumps(value, ensure_ascii=False)[1:-1], quote(value, safe="", errors="replace")


# The text of our own placeholders: replacing it would not terminate.
_PLACEHOLDERS = "\n".join(
    placeholder(label) for label in ("environment", "secret", "text", "encoded", *_FORMATS)
)
