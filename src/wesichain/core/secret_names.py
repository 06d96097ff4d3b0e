"""Secret names: which fields, headers, flags and environment variables hold a secret, by their names."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise

_regex = cache(re.compile)  # compiled at first use
_WORD = r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+"
_SECRET_ENDS = (
    "password", "passwords", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "token", "jwt",
    "apikey", "accesskey", "privatekey", "secretkey", "authorization", "credential", "credentials",
    "cookie", "sessid", "sessionid",
)  # fmt: skip
_KEY_OWNERS = frozenset(
    {"access", "account", "api", "app", "auth", "client", "encryption", "master", "private", "secret",
     "service", "session", "signing", "ssh"}
)  # fmt: skip
_OTHER_OWNERS = frozenset(
    {
        "cache",
        "foreign",
        "group",
        "idempotency",
        "object",
        "partition",
        "primary",
        "public",
        "routing",
        "sort",
    }
)
_ABOUT = frozenset(  # last words of names that hold something about a secret
    {"at", "budget", "count", "counts", "dir", "endpoint", "expires", "expiry", "file", "home", "id", "ids",
     "in", "index", "length", "limit", "name", "path", "size", "sock", "socket", "ttl", "type", "uri", "url",
     "usage"}
)  # fmt: skip
_SETTINGS = frozenset({"KEY", "KEYS", "PASS", "PAT", "AUTH", "DSN", "SALT"})  # words of names in capitals


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a field, header or flag of this name holds a secret.

    A word of the name ends with password, token, secret, credential, cookie or the like, or the name has
    `key` after api, access, private and so on, or it has several words and ends with auth, pass or pw. Its
    last word is not id, file, path, url or the like: `max_tokens`, `token_count`, `secret_name` hold none.
    """
    words = _words(name)
    if not words or words[-1] in _ABOUT:
        return False
    if any(word.endswith(_SECRET_ENDS) for word in words):
        return True
    if words[-1].endswith("auth") and words != ["auth"]:
        return True
    if len(words) > 1 and words[-1] in ("pass", "pw"):
        return True
    return any(owner in _KEY_OWNERS and thing == "key" for owner, thing in pairwise(words))


@lru_cache(maxsize=4096)
def may_be_secret_name(name: str) -> bool:
    """Whether a field of this name holds a secret if its value looks like one: `stripe_key`, `auth`."""
    words = _words(name)
    if words[-1:] == ["key"]:
        return len(words) > 1 and words[-2] not in _OTHER_OWNERS
    return _is_setting(name) or words in (["auth"], ["pw"]) or (bool(words) and words[-1].endswith("pass"))


@lru_cache(maxsize=1024)
def is_secret_variable(name: str) -> bool:
    """Whether an environment variable of this name holds a secret.

    `is_secret_name` says so of the name in capitals, or one of its words is KEY, KEYS, PASS, PAT, AUTH, DSN
    or SALT and the last is not FILE, PATH, ID, URL or the like. PWD is the working directory.
    """
    name = name.upper()
    return (is_secret_name(name) or _is_setting(name)) and name not in ("PWD", "OLDPWD")


def _is_setting(name: str) -> bool:
    words = name.rstrip("_0123456789").split("_")
    return (
        name.isupper()
        and words[-1].lower() not in _ABOUT
        and not _SETTINGS.isdisjoint(words)
        and (len(words) == 1 or words[-2].lower() not in _OTHER_OWNERS)
    )


def _words(name: str) -> list[str]:
    if "[redacted:" in name:  # the label of a placeholder is no name
        name = _regex(r"\[redacted:[a-z-]+\]").sub(" ", name)
    words = [word.lower() for word in _regex(_WORD).findall(name[:128])]
    while words and words[-1].isdigit():
        words.pop()
    return words
