"""Secrets in commands (`curl -u`, `mysql -p`) and in sentences (the password is ...)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_regex = cache(re.compile)

# curl -u bob:secret   --user bob:secret   -ubob:secret
_USER = (
    r"""-(?<![\w\-]-)(?:u|U|-user|-proxy-user)(?:\s{1,4}+|=)?["']?([^\s:"'@/\[]{1,64}+):"""
    r"""((?!//|\[redacted:)[^\s"']++)"""
)
_COMMANDS = r"mysql|mariadb|sshpass|redis-cli"
_OPTION = {  # the password option of each command
    "mysql": r"""\s-p["']?(?!\[redacted:)([^\s"'\-][^\s"']*+)""",
    "mariadb": r"""\s-p["']?(?!\[redacted:)([^\s"'\-][^\s"']*+)""",
    "sshpass": r"""\s-p\s{0,4}["']?(?!\[redacted:)([^\s"'\-][^\s"']*+)""",
    "redis-cli": r"""\s-a\s{1,4}["']?(?!\[redacted:)([^\s"'\-][^\s"']*+)""",
}


def commands(text: str) -> Iterator[tuple[int, int]]:
    """The positions of passwords in command lines."""
    if "-u" in text or "-U" in text:
        for match in _regex(_USER).finditer(text):
            user, password = match.groups()
            if not (user.isdigit() and password.isdigit()):  # -u 1000:1000
                yield match.span(2)
    for line in _regex(rf"(?:{_COMMANDS}).*").finditer(text):  # to the end of the line
        names = {match.group() for match in _regex(_COMMANDS).finditer(text, *line.span())}
        for name in sorted(names):
            yield from (match.span(1) for match in _regex(_OPTION[name]).finditer(text, *line.span()))


def may_hold_command(text: str) -> bool:
    """Whether `commands` may find something, by plain searches; never wrong if False."""
    if "-u" in text or "-U" in text:
        return True
    return ("-p" in text and ("mysql" in text or "mariadb" in text or "sshpass" in text)) or (
        "-a" in text and "redis-cli" in text
    )


# --- sentences --------------------------------------------------------------------------------------

_IS = (
    r"\s(?:(?:for|of|to|on)\s[^\s]{1,40}+\s)?(?:is|was|are|equals|becomes|reads|set)"
    r"(?:\s(?:now|set|to|still|just|changed)){0,3}\s?[:=]?\s{1,4}"
)
_VALUE = r"""["'`\u201c\u2018]([^\s"'`\u201d\u2019]{3,}+)["'`\u201d\u2019]|([^\s"'`,;<>()\[\]{}]{4,}+)"""


def secret_after(text: str, end: int, name: str) -> tuple[int, int] | None:
    """The position of the secret in a sentence such as `password is hunter2`; None without one."""
    is_password = name.endswith(("password", "passphrase", "passcode", "passwd", "pwd"))
    link = _regex(_IS).match(text, end)
    if link is None and not is_password:
        return None
    value = _regex(_VALUE).match(text, link.end() if link else end + 1)
    if value is None:
        return None
    start, stop = value.span(value.lastindex or 0)
    while stop > start and text[stop - 1] in ".!?:":
        stop -= 1
    word = text[start:stop]
    if link is None:
        is_secret = len(word) >= 6 and _has_letter(word) and any(letter.isdigit() for letter in word)
    elif value.lastindex == 1:
        is_secret = True
    else:
        is_secret = _looks_secret(word) or (is_password and len(word) >= 4 and word.isdigit())
    return (start, stop) if is_secret else None


def _has_letter(word: str) -> bool:
    return any(letter.isalpha() for letter in word)


def _looks_secret(word: str) -> bool:
    """Whether a word looks like a password: letters with digits, symbols or capitals in it."""
    if len(word) < 5 or not _has_letter(word) or "://" in word:
        return False
    return any(letter.isdigit() or letter in "!@#$%^&*+=~_" for letter in word) or bool(
        _regex("[a-z][A-Z]").search(word)
    )
